"""The tester on small samples: verdicts, witnesses, shapes. What it must catch with 10⁶ samples is in tests/audit.

Every verdict "passed" below has a false alarm rate of at most 1e-6 by construction; every "failed" one rests on a
violation so large that its chance to slip through is below 1e-9.
"""

import json
import math

import numpy as np
import pytest

from shoal.audit import Verdict, check
from shoal.errors import ShoalError

SAMPLES = 20_000


@pytest.fixture
def rng():
    return np.random.default_rng(11)


def test_a_noisy_count_passes_at_its_epsilon_and_fails_far_below_it(rng):
    def noisy_count(data, n):
        return len(data) + rng.laplace(size=n)

    right, wrong = (check(noisy_count, epsilon, samples=SAMPLES) for epsilon in (1.0, 0.6))
    assert right.passed
    assert not wrong.passed
    assert 0.7 < right.epsilon_lower <= 1.0 < right.power < 1.5
    assert 0.6 < wrong.epsilon_lower <= 1.0
    assert wrong.power <= wrong.epsilon_lower


def test_a_failed_verdict_names_the_pair_the_event_and_both_counts(rng):
    verdict = check(lambda data, n: len(data) + rng.laplace(scale=0.2, size=n), 1.0, samples=SAMPLES)
    witness = verdict.witness
    assert abs(len(witness.dataset) - len(witness.neighbour)) == 1
    assert "output" in witness.event
    assert witness.count / witness.samples > math.e * witness.neighbour_count / witness.neighbour_samples
    assert verdict.pairs == 1
    assert "FAILED" in str(verdict)
    assert witness.event in str(verdict)


def test_an_error_only_on_empty_input_is_an_output(rng):
    def mechanism(data, n):
        if not data:
            raise ValueError("nothing to count")
        return len(data) + rng.laplace(size=n)

    verdict = check(mechanism, 1.0, samples=SAMPLES)
    assert not verdict.passed
    assert verdict.witness.event == "raised ValueError: nothing to count"


def test_an_error_on_every_input_says_nothing():
    def mechanism(data, n):
        raise ValueError("never")

    verdict = check(mechanism, 1.0, samples=SAMPLES)
    assert verdict.passed
    assert verdict.power == math.inf


def test_strings_and_none_are_outputs(rng):
    def reveals(data, n):
        return np.where(rng.random(n) < (0.8 if len(data) % 2 else 0.2), "odd", "even")

    def withholds(data, n):
        return [None] * n if len(data) < 2 else [3.0] * n

    assert check(reveals, math.log(4), samples=SAMPLES).passed
    assert not check(reveals, 1.0, samples=SAMPLES).passed
    assert not check(withholds, 5.0, samples=SAMPLES).passed


def test_delta_allows_what_it_allows(rng):
    def reveals_rarely(data, n):
        return np.where(rng.random(n) < 0.05, float(len(data)), -1.0)

    assert check(reveals_rarely, 0.0, delta=0.05, samples=SAMPLES).passed
    assert not check(reveals_rarely, 0.0, delta=0.02, samples=SAMPLES).passed


def test_a_sum_without_a_clamp_fails_on_an_outlier_unless_a_domain_is_promised(rng):
    def unclamped_sum(data, n):
        return sum(data) + rng.laplace(size=n)

    verdict = check(unclamped_sum, 1.0, samples=SAMPLES)
    assert not verdict.passed
    assert max(map(abs, verdict.witness.dataset + verdict.witness.neighbour)) > 1
    assert check(unclamped_sum, 1.0, samples=SAMPLES, domain=(0.0, 1.0)).passed


def test_textbook_floating_point_noise_fails_only_when_its_bits_are_looked_at(rng):
    def noisy_count(data, n):
        return len(data) + rng.laplace(size=n)

    verdict = check(noisy_count, 1.0, samples=SAMPLES, floating_point=True)
    assert not verdict.passed
    assert verdict.witness.event.startswith("last bit of output")


def test_integer_noise_passes_with_its_bits_looked_at(rng):
    p = 1 - math.exp(-1)

    def geometric_count(data, n):
        return len(data) + rng.geometric(p, n) - rng.geometric(p, n)

    assert check(geometric_count, 1.0, samples=SAMPLES, floating_point=True).passed


def test_the_callers_pairs_may_be_anything_the_mechanism_takes(rng):
    def mechanism(table, n):
        return np.full(n, table["rows"]) + rng.laplace(size=n)

    verdict = check(mechanism, 1.0, inputs=[({"rows": 9}, {"rows": 7})], samples=SAMPLES)
    assert not verdict.passed
    assert verdict.pairs == 1
    assert {verdict.witness.dataset["rows"], verdict.witness.neighbour["rows"]} == {7, 9}


def test_each_data_set_is_sampled_once(rng):
    seen = []

    def mechanism(data, n):
        seen.append(tuple(data))
        return rng.random(n)

    check(mechanism, 1.0, samples=200)
    assert len(seen) == len(set(seen))


def test_a_run_is_reproducible_from_its_seed_when_the_mechanism_is():
    def run(seed):
        noise = np.random.default_rng(5)
        return check(lambda data, n: len(data) + noise.laplace(size=n), 1.0, samples=2000, seed=seed).to_dict()

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_a_verdict_is_plain_json(rng):
    for mechanism in (lambda _data, n: np.zeros(n), lambda data, n: len(data) + rng.laplace(size=n)):
        verdict = check(mechanism, 1.0, samples=1000)
        again = json.loads(json.dumps(verdict.to_dict()))
        assert again["passed"] is True
        assert set(again) >= {"epsilon_lower", "power", "witness", "delta", "confidence", "samples"}


def test_a_verdict_draws_its_histograms(tmp_path, rng):
    for i, mechanism in enumerate(
        (
            lambda data, n: len(data) + rng.laplace(size=n),
            lambda data, n: np.where(rng.random(n) < 0.5 + len(data) % 2 / 3, "a", "b"),
            lambda data, n: len(data) + rng.laplace(size=(n, 2)),
            lambda _data, n: np.zeros(n),
        )
    ):
        verdict = check(mechanism, 0.5, samples=5000)
        verdict.plot(tmp_path / f"{i}.png")
        assert (tmp_path / f"{i}.png").stat().st_size > 5000


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"delta": 1.0},
        {"delta": -0.1},
        {"samples": 10},
        {"confidence": 1.0},
    ],
)
def test_senseless_arguments_are_refused(wrong):
    with pytest.raises(ShoalError) as refused:
        check(lambda _data, n: np.zeros(n), **{"epsilon": 1.0, **wrong})
    assert refused.value.code == "E_USAGE"


def test_the_verdict_is_frozen():
    verdict = check(lambda _data, n: np.zeros(n), 1.0, samples=100)
    assert isinstance(verdict, Verdict)
    with pytest.raises(AttributeError):
        verdict.passed = False
