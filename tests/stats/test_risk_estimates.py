"""Estimates of sketches against known truth, over many keys: the stated intervals hold the truth in the stated share of trials.

A 95% interval that holds in n independent trials is violated about n/20 times; an assertion fails when the hits fall below the
10⁻⁷ quantile of Binomial(n, 0.95), so that all assertions of this file together alarm falsely with less than 10⁻⁶.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from shoal.risk import Sketch, SketchedDataset, by_inclusion_exclusion, containment, joinability

pytestmark = pytest.mark.slow

FALSE_ALARM = 1e-7


def holds_often_enough(hits: int, trials: int, share: float = 0.95) -> bool:
    return hits >= binom.ppf(FALSE_ALARM, trials, share)


def key(number: int) -> bytes:
    return b"trial %d" % number


def table(kind: str, distinct: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Values and owners; about `distinct` values."""
    if kind == "unique":
        return np.arange(distinct), np.arange(distinct)
    if kind == "two":
        return rng.integers(0, 2, distinct), np.arange(distinct)
    if kind == "uniform":
        values = np.repeat(np.arange(distinct), 4)
        return values, rng.integers(0, distinct, len(values))
    if kind == "zipf":
        values = np.concatenate([np.arange(distinct), rng.zipf(1.4, 3 * distinct) % distinct])
        return values, rng.integers(0, distinct // 2 + 1, len(values))
    half = distinct // 2
    values = np.concatenate([np.arange(half), half + np.repeat(np.arange(distinct - half), 12)])
    return values, rng.integers(0, distinct, len(values))


KINDS = ["unique", "two", "uniform", "zipf", "mixed"]


def truth(values: np.ndarray, owners: np.ndarray) -> dict[str, np.ndarray | int]:
    """Owners and rows of each value, by sorting."""
    order = np.lexsort((owners, values))
    values, owners = values[order], owners[order]
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    new_pair = np.concatenate([[True], (values[1:] != values[:-1]) | (owners[1:] != owners[:-1])])
    return {
        "owners": np.add.reduceat(new_pair.astype(np.int64), starts),
        "rows": np.diff(np.append(starts, len(values))),
        "all owners": len(np.unique(owners)),
    }


SIZES = [(1_000, 20), (10_000, 60), (100_000, 25)]
LARGE = [
    pytest.param(kind, 1_000_000, 6, marks=[] if kind in {"unique", "zipf"} else pytest.mark.nightly) for kind in KINDS
]


@pytest.mark.parametrize(("kind", "distinct", "trials"), [*((kind, *size) for size in SIZES for kind in KINDS), *LARGE])
def test_intervals_hold_the_truth(kind, distinct, trials):
    """Distinct values, and shares of values, rows and owners below 2, 5 and 10, for each kind and size of data."""
    rng = np.random.default_rng(distinct)
    values, owners = table(kind, distinct, rng)
    known = truth(values, owners)
    held = {"distinct": 0, "values": 0, "rows": 0, "owners": 0}
    for trial in range(trials):
        sketch = Sketch(key=key(trial))
        sketch.update(values, owners)
        estimate = sketch.distinct_values()
        held["distinct"] += estimate.low <= len(known["owners"]) <= estimate.high
        for k in (2, 5, 10):
            below = known["owners"] < k
            shares = {
                "values": below.mean(),
                "rows": known["rows"][below].sum() / len(values),
                "owners": min(1.0, known["owners"][below].sum() / known["all owners"]),
            }
            for of, share in shares.items():
                found = sketch.share_below(k, of=of)
                held[of] += found.low - 1e-9 <= share <= found.high + 1e-9
    assert holds_often_enough(held["distinct"], trials)
    for of in ("values", "rows", "owners"):
        # the three thresholds of a trial see the same sample: count them as one trial
        assert held[of] / 3 >= binom.ppf(FALSE_ALARM, trials, 0.95)


@pytest.mark.parametrize("kind", ["unique", "zipf"])
def test_ten_million_distinct_values_are_within_the_stated_error(kind):
    """4 keys, K = 2048: relative standard error 2.2%; five of them, false alarm below 1e-5 a look, fixed keys."""
    rng = np.random.default_rng(7)
    values = np.arange(10**7) if kind == "unique" else np.concatenate([np.arange(10**7), rng.zipf(1.3, 10**6) % 10**7])
    for trial in range(4):
        sketch = Sketch(key=key(trial))
        sketch.update(values)
        assert abs(sketch.distinct_values().value / 10**7 - 1) < 5 / np.sqrt(2048)
        assert sketch.rows == len(values)


def pair(size: int, ratio: int, share: float, trial: int) -> tuple[Sketch, Sketch]:
    """A column of `size` values of which `share` are in a column `ratio` times as large."""
    common = round(share * size)
    a, b = Sketch(key=key(trial)), Sketch(key=key(trial))
    a.update(np.arange(size))
    b.update(np.arange(size - common, size - common + ratio * size))
    return a, b


def test_containment_at_equal_sizes_is_within_five_points_in_more_than_nine_of_ten_trials():
    for tenth in range(11):
        errors = [abs(containment(*pair(5_000, 1, tenth / 10, trial)).value - tenth / 10) for trial in range(200)]
        assert np.mean(np.array(errors) <= 0.05) > 0.9
        assert max(errors) <= 0.1


def test_containment_at_a_ratio_of_twenty_has_a_median_error_of_at_most_six_points():
    errors, others = [], []
    for trial in range(200):
        a, b = pair(5_000, 20, 0.5, trial)
        errors.append(containment(a, b).value - 0.5)
        others.append(by_inclusion_exclusion(a, b) - 0.5)
    assert np.median(np.abs(errors)) <= 0.06
    assert np.sqrt(np.mean(np.square(others))) > 1.5 * np.sqrt(np.mean(np.square(errors)))


def test_intervals_of_containment_hold_the_truth():
    """240 pairs over shares and ratios."""
    hits = 0
    for trial in range(240):
        share, ratio = (trial % 11) / 10, (1, 5, 20)[trial % 3]
        found = containment(*pair(5_000, ratio, share, trial))
        hits += found.low - 1e-9 <= share <= found.high + 1e-9
    assert holds_often_enough(hits, 240)


@pytest.mark.parametrize("kind", KINDS)
def test_a_hundred_shards_of_a_million_rows_merge_to_the_bytes_of_one_pass(kind):
    rng = np.random.default_rng(3)
    values, owners = table(kind, 250_000, rng)
    whole = Sketch(key=key(0))
    whole.update(values, owners)
    of_shard = rng.integers(0, 100, len(values))
    order = np.argsort(of_shard, kind="stable")
    ends = np.searchsorted(of_shard[order], np.arange(101))
    merged = Sketch(key=key(0))
    for shard in rng.permutation(100):
        rows = order[ends[shard] : ends[shard + 1]]
        part = Sketch(key=key(0))
        part.update(values[rows], owners[rows])
        merged.merge(Sketch.from_bytes(part.to_bytes()))
    assert merged.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("alike", [True, False], ids=["all columns alike", "columns of many sizes"])
def test_a_thousand_columns_are_compared_pairwise_in_thirty_seconds(alike, quickest):
    rng = np.random.default_rng(1)
    pool = rng.integers(10**15, 10**16, 100_000)
    datasets = []
    for number in range(1_000):
        size = 20_000 if alike else int(10 ** rng.uniform(3, 5))
        sketch = Sketch(key=key(0))
        sketch.update(pool[:size] if alike else rng.choice(pool, size) if number % 2 else rng.integers(0, 2**60, size))
        datasets.append(SketchedDataset(f"d{number}", None, size, {(f"c{number}",): sketch}))
    seen = []
    assert quickest(lambda: seen.append((found := joinability(datasets), found.to_dict())), below=30) < 30
    found, told = seen[-1]
    assert len(told["pairs"]) == 2_000
    if alike:
        assert len(found.comparison.first) == 499_500
