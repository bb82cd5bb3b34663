"""Events worth testing: adaptive histograms of two samples, and the union of bins that tells them apart best.

The samples of each data set come in two halves. Bins, scores and events are chosen on the first (`train`); the second
(`test`) is only counted, so that whatever the choice was, the counts are honest binomials.

A *view* looks at a sample through one feature and gives four histograms over the same bins: both data sets, both
halves. Outputs that are single numbers have one view. Rows have one for every column, for sums and differences of two
columns, for the sum of the columns' log-likelihood ratios (the best test when their noise is independent), and for
the cells of a tree over all columns and labels (for any other dependence).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from shoal.audit.tester.outcomes import Outcomes, Vocabulary
from shoal.audit.tester.statistics import Counts, Floats
from shoal.frozen import dataclass

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Feature = Callable[[Outcomes], Floats]

_BINS = 64  # bins of equal mass that each data set asks for
_MOST_LABELS = 200
_MOST_PAIRED_COLUMNS = 6
_TREE_DEPTH = 8
_TREE_SAMPLE = 20_000


@dataclass(frozen=True, slots=True)
class Halves:
    """The samples of one data set: `train` to choose with, `test` to count."""

    train: Outcomes
    test: Outcomes

    def widened(self, columns: int) -> Halves:
        """The same samples with room for more columns."""
        return Halves(self.train.widened(columns), self.test.widened(columns))


@dataclass(frozen=True, slots=True)
class Bins:
    """Intervals of one feature ([edges[i−1], edges[i]), open-ended outside), then labels, then "any other label"."""

    feature: str
    edges: Floats
    labels: tuple[str, ...]
    is_tree: bool = False

    def text(self, chosen: Booleans) -> str:
        """The union of the chosen bins, for people."""
        if self.is_tree:
            return f"{int(chosen.sum())} of {len(self.labels)} cells of a tree over all columns"
        parts = [_interval_text(self.feature, *span) for span in _spans(chosen[: len(self.edges) + 1], self.edges)]
        parts += [name for name, is_chosen in zip(self.labels, chosen[len(self.edges) + 1 :], strict=True) if is_chosen]
        shown = parts[:6] + ([f"{len(parts) - 6} more pieces"] if len(parts) > 6 else [])
        return " or ".join(shown) or "nothing"


def _spans(chosen: Booleans, edges: Floats) -> Iterator[tuple[float, float]]:
    """Neighbouring chosen intervals, joined."""
    ends = np.concatenate(([-math.inf], edges, [math.inf]))
    for is_chosen, run in itertools.groupby(range(len(chosen)), key=lambda i: bool(chosen[i])):
        if is_chosen:
            positions = list(run)
            yield float(ends[positions[0]]), float(ends[positions[-1] + 1])


def _interval_text(feature: str, low: float, high: float) -> str:
    if f"{low:.6g}" == f"{high:.6g}":
        return f"{feature} {'=' if math.nextafter(low, math.inf) == high else '≈'} {low:.6g}"
    below = "" if high == math.inf else f" {_below_text(high)}"
    above = "" if low == -math.inf else f"{_above_text(low)} "
    return f"{above}{feature}{below}" if above or below else f"any {feature}"


def _is_just_above_a_point(edge: float) -> bool:
    """Whether an edge is the successor of a repeated value, which is then the number to show."""
    return len(repr(math.nextafter(edge, -math.inf))) + 4 < len(repr(edge))


def _below_text(edge: float) -> str:
    return f"≤ {math.nextafter(edge, -math.inf):.6g}" if _is_just_above_a_point(edge) else f"< {edge:.6g}"


def _above_text(edge: float) -> str:
    return f"{math.nextafter(edge, -math.inf):.6g} <" if _is_just_above_a_point(edge) else f"{edge:.6g} ≤"


@dataclass(frozen=True, slots=True)
class View:
    """Four histograms over the same bins: of data set and neighbour, on the train half and on the test half."""

    bins: Bins
    train: tuple[Integers, Integers]
    test: tuple[Integers, Integers]

    def reversed(self) -> View:
        """The other direction."""
        return View(self.bins, self.train[::-1], self.test[::-1])

    def counts(self, chosen: Booleans | int) -> Counts:
        """How often the union of the chosen bins was seen on the half to count."""
        larger, smaller = self.test
        return Counts(int(np.sum(larger[chosen])), int(larger.sum()), int(np.sum(smaller[chosen])), int(smaller.sum()))

    @property
    def occupied(self) -> Integers:
        """Bins that were not empty on the half to choose with."""
        return np.flatnonzero(self.train[0] + self.train[1])


def make_views(first: Halves, second: Halves, vocabulary: Vocabulary, *, floating_point: bool) -> list[View]:
    """All views of two samples."""
    columns = max(side.train.numbers.shape[1] for side in (first, second))
    first, second = first.widened(columns), second.widened(columns)
    views = [
        _histogram(name, feature, first, second, vocabulary)
        for name, feature in _features(first, second, columns, floating_point=floating_point)
    ]
    if columns > 1:
        views.append(_histogram("log-ratio score", _score(first, second, columns), first, second, vocabulary))
        views.append(_tree(first, second))
    return views


def _column(i: int) -> Feature:
    return lambda outcomes: outcomes.numbers[:, i]


def _sum_of(i: int, j: int, sign: float) -> Feature:
    def feature(outcomes: Outcomes) -> Floats:
        with np.errstate(invalid="ignore", over="ignore"):
            total: Floats = outcomes.numbers[:, i] + sign * outcomes.numbers[:, j]
        return total

    return feature


def last_bit(values: Floats) -> Floats:
    """The exponent of the last set bit of each double; NaN for 0 and what is not finite.

    >>> last_bit(np.array([1.0, 2.0, 1.5])).tolist()
    [0.0, 1.0, -1.0]
    """
    defined = np.isfinite(values) & (values != 0)
    mantissa, exponent = np.frexp(np.where(defined, values, 1.0))
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    trailing_zeros = np.log2((whole & -whole).astype(np.float64))
    return np.where(defined, exponent - 53 + trailing_zeros, np.nan)


def _last_bit_of(i: int) -> Feature:
    return lambda outcomes: last_bit(outcomes.numbers[:, i])


def _features(first: Halves, second: Halves, columns: int, *, floating_point: bool) -> Iterator[tuple[str, Feature]]:
    used = [
        i for i in range(columns) if not all(np.isnan(side.train.numbers[:, i]).all() for side in (first, second))
    ] or [0]
    names = {i: "output" if columns == 1 else f"column {i + 1}" for i in used}
    for i in used:
        yield names[i], _column(i)
        if floating_point:
            yield f"last bit of {names[i]}", _last_bit_of(i)
    for i, j in itertools.combinations(used[:_MOST_PAIRED_COLUMNS], 2):
        yield f"{names[i]} − {names[j]}", _sum_of(i, j, -1.0)
        yield f"{names[i]} + {names[j]}", _sum_of(i, j, 1.0)


def _histogram(name: str, feature: Feature, first: Halves, second: Halves, vocabulary: Vocabulary) -> View:
    """A view through one feature; samples where it is undefined are counted by label."""
    values = [feature(outcomes) for outcomes in _parts(first, second)]
    ordered = [np.sort(v[~np.isnan(v)]) for v in values]
    edges = _choose_edges(ordered[0], ordered[1])
    undefined = [o.labels[np.isnan(v)] for o, v in zip(_parts(first, second), values, strict=True)]
    codes = _frequent_labels(undefined[0], undefined[1])
    histograms = [
        np.concatenate((_interval_counts(o, edges), _label_counts(u, codes)))
        for o, u in zip(ordered, undefined, strict=True)
    ]
    labels = (*(vocabulary.text(int(code)) for code in codes), "any other label")
    return View(Bins(name, edges, labels), (histograms[0], histograms[1]), (histograms[2], histograms[3]))


def _parts(first: Halves, second: Halves) -> tuple[Outcomes, Outcomes, Outcomes, Outcomes]:
    return first.train, second.train, first.test, second.test


def _choose_edges(first: Floats, second: Floats) -> Floats:
    """Edges at equal steps of mass and at halving tails of each sample; a repeated value gets its own bin."""
    points = np.unique(np.concatenate([values[_ranks(len(values))] for values in (first, second)]))
    repeats = sum(np.searchsorted(v, points, "right") - np.searchsorted(v, points, "left") for v in (first, second))
    return np.unique(np.concatenate((points, np.nextafter(points[repeats > 1], math.inf))))


def _ranks(size: int) -> Integers:
    if size == 0:
        return np.zeros(0, dtype=np.int64)
    tails = 2.0 ** -np.arange(math.log2(_BINS), max(math.log2(_BINS), math.log2(size)))
    shares = np.concatenate((tails, np.arange(1, _BINS) / _BINS, 1 - tails))
    return np.unique(np.minimum((shares * size).astype(np.int64), size - 1))


def _interval_counts(ordered: Floats, edges: Floats) -> Integers:
    below = np.searchsorted(ordered, edges, "left")
    return np.diff(np.concatenate(([0], below, [len(ordered)])))


def _frequent_labels(first: Integers, second: Integers) -> Integers:
    codes, seen = np.unique(np.concatenate((first, second)), return_counts=True)
    return np.sort(codes[np.argsort(-seen, kind="stable")[:_MOST_LABELS]])


def _label_counts(labels: Integers, codes: Integers) -> Integers:
    """Counts of each known label, and of all others together."""
    known = np.array([np.count_nonzero(labels == code) for code in codes], dtype=np.int64)
    return np.append(known, len(labels) - known.sum())


def _log_ratio(first: Integers, second: Integers) -> Floats:
    """ln(p/q) for each bin, with half an observation added on both sides."""
    ratio: Floats = np.log((first + 0.5) / (first.sum() + 0.5)) - np.log((second + 0.5) / (second.sum() + 0.5))
    return ratio


def _score(first: Halves, second: Halves, columns: int) -> Feature:
    """The sum over columns (and the label) of each one's own log-likelihood ratio, learned on the train half."""
    tables = []
    for i in range(columns):
        ordered = [np.sort(v[~np.isnan(v)]) for v in (first.train.numbers[:, i], second.train.numbers[:, i])]
        edges = _choose_edges(ordered[0], ordered[1])
        tables.append((edges, _log_ratio(_interval_counts(ordered[0], edges), _interval_counts(ordered[1], edges))))
    codes = _frequent_labels(first.train.labels, second.train.labels)
    label_ratio = _log_ratio(_label_counts(first.train.labels, codes), _label_counts(second.train.labels, codes))

    def feature(outcomes: Outcomes) -> Floats:
        position = np.searchsorted(codes, outcomes.labels)
        known = np.append(codes, -1)[position] == outcomes.labels
        score = label_ratio[np.where(known, position, len(codes))]
        for i, (edges, ratio) in enumerate(tables):
            values = outcomes.numbers[:, i]
            score = score + np.where(np.isnan(values), 0.0, ratio[np.searchsorted(edges, values, "right") % len(ratio)])
        return score

    return feature


def _tree(first: Halves, second: Halves) -> View:
    """Cells of a tree that halves the pooled sample again and again, by the label and by each column in turn."""
    sample = _coordinates(first.train)[:_TREE_SAMPLE], _coordinates(second.train)[:_TREE_SAMPLE]
    pooled = np.concatenate(sample)
    leaves = np.zeros(len(pooled), dtype=np.int64)
    thresholds = []
    for level in range(_TREE_DEPTH):
        values = pooled[:, level % pooled.shape[1]]
        thresholds.append(_medians(values, leaves, 2**level))
        leaves = 2 * leaves + (values > thresholds[-1][leaves])
    histograms = []
    for outcomes in _parts(first, second):
        coordinates = _coordinates(outcomes)
        leaves = np.zeros(len(outcomes), dtype=np.int64)
        for level, threshold in enumerate(thresholds):
            leaves = 2 * leaves + (coordinates[:, level % coordinates.shape[1]] > threshold[leaves])
        histograms.append(np.bincount(leaves, minlength=2**_TREE_DEPTH + 1))
    bins = Bins("tree", np.zeros(0), tuple(f"cell {i + 1}" for i in range(2**_TREE_DEPTH)), is_tree=True)
    histograms = [np.roll(h, 1) for h in histograms]  # the single interval bin comes first and is empty
    return View(bins, (histograms[0], histograms[1]), (histograms[2], histograms[3]))


def _coordinates(outcomes: Outcomes) -> Floats:
    numbers = np.where(np.isnan(outcomes.numbers), -math.inf, outcomes.numbers)
    return np.column_stack((outcomes.labels.astype(np.float64), numbers))


def _medians(values: Floats, leaves: Integers, count: int) -> Floats:
    """The lower median of the values in each leaf, −∞ for an empty one."""
    order = np.lexsort((values, leaves))
    start = np.searchsorted(leaves[order], np.arange(count + 1))
    middle = (start[:-1] + start[1:] - 1) // 2
    filled = start[1:] > start[:-1]
    return np.where(filled, values[order][np.where(filled, middle, 0)], -math.inf)


def most_telling(view: View, epsilon: float, delta: float, z: float) -> tuple[Booleans, Booleans]:
    """Two unions of bins, chosen on the train half: the one that refutes ε best, and the one that certifies most.

    Candidates are half-lines, and the prefixes of the bins sorted by p̂/q̂ (the sets a most powerful test would use).
    The latter fit the noise of the half they were chosen on, so a half-line wins unless it is three standard
    deviations worse.
    """
    larger, smaller = view.train
    n, m = max(1, int(larger.sum())), max(1, int(smaller.sum()))
    order = np.argsort(-_log_ratio(larger, smaller), kind="stable")
    intervals = len(view.bins.edges) + 1
    p, q = _candidate_shares(larger, order, intervals) / n, _candidate_shares(smaller, order, intervals) / m
    p_spread, q_spread = np.sqrt((p * (1 - p) + 0.5 / n) / n), np.sqrt((q * (1 - q) + 0.5 / m) / m)
    ratio = math.exp(min(300.0, epsilon))
    refuting = np.where(p > 0, (p - ratio * q - delta) / np.hypot(p_spread, ratio * q_spread), -math.inf)
    sure_p = np.maximum(p - z * p_spread - delta, 1e-300)
    certifying = np.log(sure_p) - np.log(q + z * q_spread + z * z / m)
    plain = np.arange(len(p)) >= len(order)
    bonus = 3 * np.hypot(p_spread / np.maximum(p, 1 / n), q_spread / np.maximum(q, 1 / m))
    best = int(np.argmax(refuting + 3 * plain)), int(np.argmax(certifying + bonus * plain))
    return _candidate(best[0], order, intervals), _candidate(best[1], order, intervals)


def _candidate_shares(histogram: Integers, order: Integers, intervals: int) -> Floats:
    """Counts of all candidates: prefixes of the order, then intervals up to each, then intervals from each on."""
    below = np.cumsum(histogram[:intervals])
    above = np.cumsum(histogram[:intervals][::-1])[::-1]
    return np.concatenate((np.cumsum(histogram[order]), below, above)).astype(np.float64)


def _candidate(index: int, order: Integers, intervals: int) -> Booleans:
    """The bins of a candidate, by its place in `_candidate_shares`."""
    positions = np.arange(len(order))
    if index < len(order):
        return np.isin(positions, order[: index + 1])
    cut = (index - len(order)) % intervals
    is_below = index - len(order) < intervals
    return (positions <= cut) if is_below else (positions >= cut) & (positions < intervals)
