"""Every attack recovers what theory says from careless answers, and nearly nothing from private ones.

Data and careless noise are seeded; only the private side draws fresh noise, and its bounds below are missed with
chance below 1e-6 unless a test says otherwise (a share of m fair guesses leaves 1/2 ± 2.6/√m with chance below
2e-6/10).
"""

import json
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from shoal.audit import attacks
from shoal.audit.attacks.curators import Exact, Private, Rounded, SmallNoise
from shoal.audit.attacks.floating_point import is_reachable, textbook_laplace
from shoal.audit.attacks.k_anonymity import equivalence_classes
from shoal.audit.attacks.private_sql import private_sums
from shoal.audit.attacks.reconstruction import decode
from shoal.errors import ShoalError


def test_curators_do_what_their_names_say():
    truth = np.array([0.0, 2.0, 3.0, 7.0])
    assert Exact().answer(truth).tolist() == truth.tolist()
    assert Rounded(5).answer(truth).tolist() == [0, 0, 5, 5]
    noisy = SmallNoise(2.0, np.random.default_rng(0)).answer(np.zeros(10_000))
    assert np.abs(noisy).mean() == pytest.approx(2.0, rel=0.1)


def test_the_private_curator_splits_its_budget_over_the_queries():
    """40,000 draws; a mean of |noise| off by 10% is 20 standard errors away."""
    noise = Private(0.5).answer(np.zeros((20, 2000)))
    p = math.exp(-0.5 / 20)
    assert np.abs(noise).mean() == pytest.approx(2 * p / (1 - p**2), rel=0.1)


def test_differencing_beats_exact_and_rounded_answers_completely():
    result = attacks.differencing(people=60)
    assert result.curve("exact").final == 1.0
    assert result.curve("rounded").final == 1.0
    assert result.curve("noise").final > 0.7


def test_differencing_gets_little_from_a_budget():
    """400 bits; a guess is right with chance below 0.51, so above 0.63 with chance below 1e-6."""
    assert attacks.differencing(people=400).curve("shoal").final < 0.63


def test_averaging_removes_noise_that_nobody_pays_for():
    curve = attacks.averaging().curve("noise")
    assert curve.recovered[0] < 0.75
    assert curve.final > 0.97


def test_averaging_under_a_budget_stays_below_what_epsilon_allows():
    """2000 bits: e/(1 + e) = 0.731 plus five standard errors is 0.781."""
    curve = attacks.averaging(targets=2000, epsilon=1.0).curve("shoal")
    assert max(curve.recovered) < 0.781
    assert curve.final < 0.6


def test_exhaustive_reconstruction_recovers_all_bits_from_exact_and_rounded_answers():
    result = attacks.exhaustive_reconstruction(people=8, runs=10)
    assert result.curve("exact").final == 1.0
    assert result.curve("rounded").final > 0.95
    # 80 bits
    assert result.curve("shoal").final < 0.5 + 2.6 / math.sqrt(80)


def test_exhaustive_reconstruction_refuses_more_people_than_it_can_try():
    with pytest.raises(ShoalError, match="2ⁿ candidates"):
        attacks.exhaustive_reconstruction(people=40)


def test_the_decoder_solves_the_linear_program():
    rng = np.random.default_rng(4)
    queries, people = 120, 30
    subsets = rng.integers(0, 2, (queries, people)).astype(float)
    answers = subsets @ rng.integers(0, 2, people) + rng.laplace(scale=2.0, size=queries)
    identity = np.eye(queries)
    best = linprog(
        np.concatenate((np.zeros(people), np.ones(queries))),
        A_ub=np.block([[subsets, -identity], [-subsets, -identity]]),
        b_ub=np.concatenate((answers, -answers)),
        bounds=[(0, 1)] * people + [(0, None)] * queries,
    )
    found = decode(subsets, answers[:, None], iterations=2000)[:, 0]
    assert np.abs(subsets @ found - answers).sum() == pytest.approx(best.fun, rel=1e-3)


def test_the_decoder_shrugs_off_a_tenth_of_wrong_answers():
    rng = np.random.default_rng(5)
    subsets = rng.integers(0, 2, (1200, 300)).astype(float)
    secret = rng.integers(0, 2, 300)
    answers = subsets @ secret
    answers[rng.choice(1200, 120, replace=False)] = rng.uniform(0, 300, 120)
    assert np.array_equal(decode(subsets, answers[:, None])[:, 0] > 0.5, secret == 1)


def test_linear_reconstruction_on_a_small_table():
    result = attacks.reconstruction(people=200)
    assert result.curve("exact").final == 1.0
    assert result.curve("exact").queries[-1] == 800
    assert result.curve("rounded").final > 0.8
    # 200 bits
    assert result.curve("shoal").final < 0.5 + 2.6 / math.sqrt(200)


@pytest.mark.slow
def test_attacks_through_sql_get_no_more_than_attacks_on_the_noise():
    """Real sessions: 200 bits (differencing, reconstruction), 300 (averaging, floating point), 100 people (membership)."""
    assert attacks.differencing(people=200, through_sql=True).curve("shoal").final < 0.5 + 2.6 / math.sqrt(200)
    averaged = attacks.averaging(targets=300, through_sql=True).curve("shoal")
    assert max(averaged.recovered) < 0.731 + 2.6 / math.sqrt(300)
    bits = attacks.floating_point(targets=300, through_sql=True).curve("shoal")
    assert max(bits.recovered) < 0.51 + 2.6 / math.sqrt(300)
    rebuilt = attacks.reconstruction(people=200, through_sql=True).curve("shoal")
    assert rebuilt.final < 0.5 + 2.6 / math.sqrt(200)
    told = attacks.membership(members=50, attributes=400, through_sql=True).curve("shoal")
    assert told.final < 0.5 + 7 * 0.5 / math.sqrt(100)


def test_a_session_adds_the_noise_that_the_direct_attack_assumes():
    """400 sums at total ε = 4: E|noise| = 100; a mean outside [60, 160] has chance below 1e-12."""
    answers = private_sums({"secret": [0, 0, 0]}, [f"secret + 0 * (uid % {i + 2})" for i in range(400)], 4.0)
    assert 60 < np.abs(answers).mean() < 160


@pytest.mark.slow
def test_linear_reconstruction_of_a_thousand_bits_is_blatant_below_root_n_and_guesswork_with_a_budget():
    """50 runs of 1000 bits: the private share has a standard error below 0.0023, so 2 points are eight of them."""
    result = attacks.reconstruction(people=1000, epsilon=1.0, runs=50)
    assert result.curve("exact").final == 1.0
    assert result.curve("rounded").final > 0.95
    assert result.curve("noise").final > 0.95
    assert abs(result.curve("shoal").final - 0.5) < 0.02


def test_membership_is_told_from_many_averages_and_not_with_a_budget():
    result = attacks.membership()
    assert result.curve("exact").final > 0.97
    assert result.curve("rounded").final > 0.97
    assert result.curve("noise").final > 0.97
    # 200 people share one draw of the noise, so single guesses are not independent: seven standard errors
    assert abs(result.curve("shoal").final - 0.5) < 7 * 0.5 / math.sqrt(200)


def test_every_textbook_output_is_reachable_from_its_own_answer():
    rng = np.random.default_rng(6)
    for answer in (0.0, 1.0):
        for scale in (0.25, 1.0, 100.0):
            output = answer + textbook_laplace(rng.random(20_000), scale)
            assert is_reachable(output, answer, scale).all()


def test_one_textbook_answer_reveals_most_bits_at_any_epsilon():
    for epsilon in (0.01, 1.0):
        result = attacks.floating_point(epsilon=epsilon)
        assert result.curve("textbook").recovered[0] > 0.85
        assert result.curve("textbook").final > 0.99


def test_private_answers_have_no_telling_bits():
    """20,000 bits at ε = 0.01: a guess is right with chance below 0.5025; five standard errors are 0.018."""
    assert max(attacks.floating_point(targets=20_000, epsilon=0.01).curve("shoal").recovered) < 0.5205


def test_classes_are_k_anonymous():
    rng = np.random.default_rng(7)
    quasi = rng.integers(0, 30, (997, 3))
    for k in (2, 5, 50):
        classes = equivalence_classes(quasi, k)
        assert np.bincount(classes).min() >= k


def test_names_come_back_by_linkage_and_k_anonymity_only_blurs():
    result = attacks.linkage(patients=2000)
    assert result.curve("names removed").final > 0.99
    assert result.guessing < result.curve("k-anonymous").final < 0.5
    assert result.curve("shoal").final < result.guessing + 0.02


def test_homogeneous_classes_give_the_diagnosis_away():
    result = attacks.homogeneity(patients=2000)
    assert "known for certain" in result.curves[0].note
    shares = [curve.final for curve in result.curves if curve.defence.startswith("k-anonymous")]
    assert shares[0] > shares[1] > result.guessing
    assert result.curve("shoal").final < result.guessing + 0.02


def test_two_releases_tell_more_than_one():
    result = attacks.composition(patients=2000)
    assert result.curve("shoal").final < result.guessing + 0.02
    curve = result.curve("k-anonymous")
    assert curve.recovered[1] > 1.5 * curve.recovered[0]
    assert curve.final > 0.5


def test_a_result_is_text_json_and_a_plot(tmp_path):
    result = attacks.differencing(people=20)
    assert "exact answers" in str(result)
    assert json.loads(json.dumps(result.to_dict()))["curves"][0]["recovered"][-1] == 1.0
    result.plot(tmp_path / "attack.png")
    assert (tmp_path / "attack.png").stat().st_size > 5000


def test_the_same_seed_gives_the_same_attack_on_careless_answers():
    first, second = (attacks.membership(attributes=200, seed=3) for _ in range(2))
    assert first.curves[:3] == second.curves[:3]
