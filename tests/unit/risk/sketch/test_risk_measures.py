from __future__ import annotations

import numpy as np
import pytest

from shoal.risk import Grade, Sketch, scan
from shoal.risk.sketch.estimate import Estimate, distinct_from_threshold, divided, exactly, share_of_trials
from shoal.risk.sketch.grading import grade_column, percent
from shoal.risk.sketch.measures import EDGES, THRESHOLDS, WHOLES, measure

KEY = b"0123456789abcdef"


def measured(values, owners=None, **options):
    sketch = Sketch(key=KEY, **options)
    sketch.update(values, owners)
    return measure(sketch.sample())


def test_wilson_intervals_hold_the_binomial_share():
    """The interval of x hits in n is where p's own two-sided 95% score test does not reject x."""
    for hits, trials in ((0, 10), (3, 10), (10, 10), (50, 100), (1, 2048)):
        estimate = share_of_trials(hits, trials)
        for end in (estimate.low, estimate.high):
            if 0 < end < 1:
                assert abs(abs(hits / trials - end) - 1.959964 * np.sqrt(end * (1 - end) / trials)) < 1e-6
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


def test_nothing_seen_is_nothing_known():
    assert (share_of_trials(0, 0).low, share_of_trials(0, 0).high) == (0, 1)


def test_distinct_counts_have_gamma_intervals():
    from scipy.stats import gamma

    estimate = distinct_from_threshold(2048, 1e-4)
    assert estimate.value == pytest.approx(2047e4)
    assert estimate.low == pytest.approx(gamma.ppf(0.025, 2048) * 1e4, rel=1e-4)
    assert estimate.high == pytest.approx(gamma.ppf(0.975, 2048) * 1e4, rel=1e-4)


def test_a_quotient_carries_both_errors():
    quotient = divided(Estimate(50, 45, 55), Estimate(100, 90, 110))
    assert quotient.value == 0.5
    assert quotient.high - 0.5 == pytest.approx(np.hypot(0.05, 0.05))
    assert divided(exactly(1), exactly(4)) == exactly(0.25)


def test_all_measures_are_exact_for_few_values():
    # values with 1, 2, 3, … 12 owners, two rows each
    values = np.repeat(np.arange(12), 2 * np.arange(1, 13))
    owners = np.concatenate([np.repeat(np.arange(1, n + 1), 2) for n in range(1, 13)])
    found = measured(values, owners)
    assert (found.minimum, found.median, found.maximum) == (1, 6.5, 12)
    assert found.distinct_values == exactly(12)
    assert found.owners == exactly(12)
    assert found.shares[5]["values"] == exactly(4 / 12)
    assert found.shares[5]["rows"] == exactly(20 / 156)
    assert found.shares[5]["owners"] == exactly(10 / 12)
    assert found.shares[100]["owners"] == exactly(1)
    assert found.values_per_owner == 78 / 12
    assert found.complete


def test_histogram_and_curve_agree():
    rng = np.random.default_rng(0)
    found = measured(rng.zipf(1.4, 20_000) % 5_000, rng.integers(0, 3_000, 20_000))
    assert [point.k for point in found.curve] == list(EDGES[: len(found.curve)])
    assert found.curve[0].values == 0
    assert sum(entry["values"] for entry in found.histogram) == pytest.approx(1)
    for before, after in zip(found.curve, found.curve[1:], strict=False):
        assert all(getattr(before, of) <= getattr(after, of) + 1e-12 for of in WHOLES)
    assert set(found.shares) == set(THRESHOLDS)


def test_a_few_values_with_most_rows_do_not_spoil_the_share_of_rows():
    """One value has 90% of the rows and is not in the sample: the rows of the rare ones are still 10%."""
    rare = np.arange(100_000)
    values = np.concatenate([rare, np.full(900_000, -1)])
    sketch = Sketch(key=KEY)
    sketch.update(values, np.arange(1_000_000))
    estimate = sketch.share_below(2, of="rows")
    assert estimate.low <= 0.1 <= estimate.high
    assert estimate.error < 0.01
    assert measure(sketch.sample()).total.rows < 0.2 or -1 in sketch.hashes


def test_shares_near_the_error_of_a_set_know_that_they_are_inexact():
    """200 values of 90 owners, counted by 512 registers: k = 100 is within the error, k = 5 is not."""
    values, owners = np.repeat(np.arange(200), 90), np.arange(18_000)
    found = measured(values, owners).shares
    assert found[5]["values"] == exactly(0)
    assert found[100]["values"].high == 1
    assert found[100]["values"].low < 1


@pytest.mark.parametrize(
    ("values", "owners", "grade"),
    [
        (range(1_000), range(1_000), Grade.CRITICAL),
        ([n % 900 for n in range(1_000)], range(1_000), Grade.CRITICAL),
        ([n if n < 100 else -1 for n in range(1_000)], range(1_000), Grade.HIGH),
        ([n if n < 5 else -1 for n in range(1_000)], range(1_000), Grade.MEDIUM),
        ([n // 3 if n < 30 else -1 for n in range(1_000)], range(1_000), Grade.MEDIUM),
        ([0 if n < 7 else 1 for n in range(1_000)], range(1_000), Grade.LOW),
        ([n % 2 for n in range(1_000)], range(1_000), Grade.MINIMAL),
    ],
    ids=["unique", "nearly unique", "a tenth alone", "five alone", "threes", "seven", "two halves"],
)  # fmt: skip
def test_grades_go_by_the_owners(values, owners, grade):
    graded = grade_column(measured(list(values), list(owners)), is_owner=False)
    assert graded.grade == grade
    assert graded.reason.endswith(".")


def test_the_owner_itself_is_named_as_such():
    report = scan({"t": {"uid": [1, 2, 3], "v": ["a", "a", "a"]}}, owner="uid", key=KEY)
    grades = {column.name: column.graded for column in report.datasets[0].columns}
    assert "the owner itself" in grades["uid"].reason


def test_where_owners_have_many_values_the_share_of_owners_is_called_a_bound():
    values = list(range(300)) + [0] * 100
    owners = [n % 10 for n in range(300)] + list(range(100))
    assert grade_column(measured(values, owners), is_owner=False).reason.startswith("Up to")


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0%"), (1, "100%"), (0.0001, "<0.1%"), (0.9999, ">99.9%"), (0.034, "3.4%"), (0.5, "50%")]
)
def test_shares_are_written_for_people(share, text):
    assert percent(share) == text
