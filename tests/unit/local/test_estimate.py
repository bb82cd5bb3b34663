from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from shoal import local
from shoal.errors import ShoalError
from shoal.local import estimate
from shoal.local.estimate import Chances
from shoal.mechanisms.entropy import seeded_entropy


@given(arrays(np.float64, st.integers(1, 40), elements=st.floats(-2, 2)))
def test_the_projection_is_the_nearest_distribution(raw):
    found = estimate.project(raw)
    assert found.min() >= 0
    assert found.sum() == pytest.approx(1)
    # Optimality: all kept shares were lowered by one amount, and no other lies above it.
    amounts = (raw - found)[found > 0]
    assert np.ptp(amounts) < 1e-9
    assert (raw[found == 0] <= amounts.max() + 1e-9).all()


@given(arrays(np.float64, st.integers(1, 40), elements=st.floats(-1, 0.2)))
def test_candidates_need_not_be_everything(raw):
    found = estimate.project_part(raw)
    assert found.min() >= 0
    assert found.sum() <= 1 + 1e-9
    if np.maximum(raw, 0).sum() <= 1:
        assert (found == np.maximum(raw, 0)).all()


def coverage(n, share, chances, *, population):
    """The exact chance that the 95% interval covers: a sum over all counts that can be seen, no sampling."""
    mean = n * (chances.other + share * chances.gap)
    reach = 8 * mean**0.5 + 30
    counts = np.arange(max(0, int(mean - reach)), min(n, int(mean + reach)) + 1)
    if population:
        weights = stats.binom.pmf(counts, n, chances.other + share * chances.gap)
        low, high = estimate.exact_interval(counts, n, chances, 0.05)
    else:
        own = round(share * n)
        weights = np.convolve(
            stats.binom.pmf(np.arange(own + 1), own, chances.own),
            stats.binom.pmf(np.arange(n - own + 1), n - own, chances.other),
        )[counts]
        low, high = estimate.score_interval(chances.raw(counts, n), n, chances, 0.05)
        if chances.own + chances.other == 1:
            low, high = estimate.exact_interval(counts, n, chances, 0.05)
    return weights[(low <= share + 1e-12) & (share - 1e-12 <= high)].sum()


@pytest.mark.parametrize("share", [0, 0.001, 0.1, 0.5])
@pytest.mark.parametrize(("n", "epsilon"), [(1000, 0.5), (1000, 1), (5000, 1), (1000, 4), (1000, 12)])
@pytest.mark.parametrize("oracle", ["subset", "unary", "hashing", "yes_no"])
@pytest.mark.parametrize("population", [False, True])
def test_intervals_cover_as_often_as_they_say(share, n, epsilon, oracle, population):
    question = (
        local.yes_no(epsilon=epsilon) if oracle == "yes_no" else local.choice(range(16), epsilon=epsilon, oracle=oracle)
    )
    found = coverage(n, share, Chances.of(question.design.chances), population=population)
    assert found >= (0.95 - 1e-9 if population else 0.94), found


@pytest.mark.parametrize("epsilon", [1, 4, 40])
@pytest.mark.parametrize("population", [False, True])
def test_intervals_of_counts_cover(epsilon, population):
    """1,000 surveys of 1,000 people: a coverage of 0.95 is seen below 0.91 with chance below 1e-7."""
    question, rng = local.count(5, epsilon=epsilon), np.random.default_rng(5)
    truth = np.array([0.5, 0.1, 0.001, 0, 0.399, 0])
    rows = np.array([question.design.row(value) for value in range(6)])
    missed = np.zeros(6)
    for _ in range(1000):
        members = rng.multinomial(1000, truth) if population else (truth * 1000).astype(int)
        counts = sum(rng.multinomial(m, row) for m, row in zip(members, rows, strict=True))
        tally = local.Tally(question.sha256, 1000, 0, counts.astype(np.int64))
        found = question.estimate(tally, target="population" if population else "respondents")
        missed += (found.low > truth + 1e-9) | (truth - 1e-9 > found.high)
    assert missed.max() <= 90


@pytest.mark.parametrize("epsilon", [0.5, 1, 4])
def test_intervals_of_means_cover(epsilon):
    """400 surveys of 1,000 people: a coverage of 0.95 is seen below 0.89 with chance below 1e-6."""
    question = local.number(0, 10, epsilon=epsilon)
    values = [0.0, 1.5, 10.0, 9.0] * 250
    entropy = seeded_entropy(6)
    encoded = question._encoded(values)
    inside = 0
    for _ in range(400):
        columns = question.design.draw(encoded, entropy)
        tally = local.Tally(question.sha256, 1000, 0, question.design.totals(columns))
        found = question.estimate(tally)
        inside += found.low <= 5.125 <= found.high
    assert inside >= 356


def test_an_estimate_has_everything_that_is_promised(questions):
    question = questions["unary"]
    reports = question.randomize_many(["often"] * 300 + ["never"] * 700, seeded_entropy(1))
    found = question.estimate(reports)
    assert found.values == ("never", "once", "often")
    assert found.shares.sum() == pytest.approx(1)
    assert (found.n, found.rejected, found.epsilon, found.promise) == (1000, 0, 1.0, "local")
    assert found.counts == pytest.approx(found.shares * 1000)
    assert (found.low <= found.high).all()
    assert found.low.min() >= 0
    assert found.high.max() <= 1
    assert found["often"].low == found.low[2]
    assert found.poison_per_report == pytest.approx(1 / (1000 * float(question.p - question.q)))
    assert "█" in repr(found)
    assert "often" in repr(found)
    assert found.to_arrow().column_names == ["value", "share", "low", "high", "raw", "standard_error"]
    assert list(found.to_pandas()["value"]) == ["never", "once", "often"]
    assert found.to_dict()["rows"][0]["value"] == "never"
    raw = question.estimate(reports, consistent=False)
    assert (raw.shares == raw.raw).all()
    with pytest.raises(ShoalError, match="E_USAGE"):
        found["daily"]
    with pytest.raises(ShoalError, match="mean"):
        _ = found.mean


def test_a_false_report_moves_a_raw_share_by_no_more_than_is_printed(questions, values):
    for name in ("subset", "projective", "unary", "hashing"):
        question = questions[name]
        reports = list(question.randomize_many([values[name]] * 50, seeded_entropy(1)))
        before = question.estimate(reports, consistent=False)
        for other in list(question.randomize_many([values[name]] * 30, seeded_entropy(2))):
            after = question.estimate([other, *reports[1:]], consistent=False)
            assert np.abs(after.raw - before.raw).max() <= before.poison_per_report * (1 + 1e-9)


def test_a_false_number_or_count_moves_a_result_by_no_more_than_is_printed(questions):
    number = questions["number"]
    reports = [{"q": number.fingerprint, "r": [0, 2**20]}] * 50
    worst = {"q": number.fingerprint, "r": [1, -(2**20) - number.design.reach]}
    before, after = (number.estimate(batch, consistent=False) for batch in (reports, [worst, *reports[1:]]))
    assert abs(before.raw - after.raw) <= before.poison_per_report * (1 + 1e-9)
    count = questions["count"]
    for one in range(11):
        for other in range(11):
            batches = [
                [{"q": count.fingerprint, "r": first}, {"q": count.fingerprint, "r": 4}] for first in (one, other)
            ]
            moved = count.estimate(batches[0]).raw - count.estimate(batches[1]).raw
            assert np.abs(moved).max() <= count.estimate(batches[0]).poison_per_report * (1 + 1e-9)


def test_simultaneous_intervals_are_wider(questions):
    reports = questions["subset"].randomize_many(["once"] * 500, seeded_entropy(1))
    one, all_ = (questions["subset"].estimate(reports, simultaneous=both) for both in (False, True))
    assert (all_.high - all_.low > one.high - one.low - 1e-12).all()
    assert (all_.high > one.high).any()


@pytest.mark.parametrize("level", [0, 1, -1, "x", None])
def test_a_wrong_level_or_target_is_refused(questions, level):
    reports = questions["unary"].randomize_many(["once"] * 10)
    with pytest.raises(ShoalError, match="E_OPTION_INVALID"):
        questions["unary"].estimate(reports, level=level)
    with pytest.raises(ShoalError, match="E_USAGE"):
        questions["unary"].estimate(reports, target="everybody")


def test_nothing_is_estimated_from_nothing(questions):
    for nothing in ([], iter([]), questions["unary"].randomize_many([])):
        with pytest.raises(ShoalError, match="E_SOURCE"):
            questions["unary"].estimate(nothing)
    for wrong in (7, None):
        with pytest.raises(ShoalError, match="E_USAGE"):
            questions["unary"].estimate(wrong)


def test_one_report_is_enough_for_an_estimate(questions, values):
    for name, question in questions.items():
        found = question.estimate([question.randomize(values[name])], candidates=["x"] if name == "text" else None)
        assert found.n == 1
        assert repr(found)


def test_numbers_come_back_within_their_bounds(questions):
    found = questions["sign"].estimate([{"q": questions["sign"].fingerprint, "r": [0, 2**20]}] * 10)
    assert found.mean == found.high == 120
    assert found.raw > 120
    assert found.to_arrow().num_rows == 1
    assert found.to_dict()["mean"]["mean"] == 120
