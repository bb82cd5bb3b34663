"""Quantiles from noisy trees, bounds from a noisy histogram: noise is drawn once per node, the rest is post-processing.

[L, U] is cut into b^h equal leaves; a node of level l counts the rows of b^{h−l} neighbouring leaves. One owner adds
at most c rows in each of κ groups, and each row one to a node of every level: the noise must be made for
Shift(per_coordinate=c, coordinates=κ·h, entries=κ·h·c), L1 κ·c·h, L2 c·√(κ·h). The root is not used.

**Descent.** A visited node's b children are counted exactly, empty ones too, and each gets its noise, remembered for
the life of the forest: any number of quantiles costs one budget. The noisy children are then replaced by the closest
non-negative numbers with the right sum: at the top their own noisy sum, below it the number found for the node itself
(which has the noise of one count, whereas the children's sum has the noise of b). This pulls positive noise of empty children
to 0 instead of counting it. A node whose children are all empty is cut evenly. The number found for a node does not
depend on p, so quantiles are monotone in p.
"""

from __future__ import annotations

import math
from dataclasses import field
from fractions import Fraction
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shoal.accounting.events import GaussianNoise
from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.mechanisms.calibrate import (
    approx_bounds_threshold,
    noise_quantile,
    noise_standard_deviation,
    sum_tail_point,
)
from shoal.mechanisms.entropy import SYSTEM, Entropy
from shoal.mechanisms.noise import draw_noise
from shoal.mechanisms.ranks.bands import RankBands, TreeWalk, walk_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.accounting.events import AdditiveNoise

Counts = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

BRANCHING = 16
HEIGHT = 4
WALKS_AT_ONCE = 1 << 16
"""How many interval ends are searched together: each holds some numbers for all children of a node."""
LEVEL_OF_THE_ENDS = 0.993
"""How unlikely a noisy count must be to be taken for rows beyond either end of the data: five scales of Laplace noise."""

NO_FALSE_BIN = tuple(1 - Fraction(1, 10**digits) for digits in range(9, 2, -1))
"""The chances of no false bin, tried in turn: strict first, at no cost."""
NEIGHBOURS = (2, 3, 4, 5)
"""How many neighbouring bins may stand out together when none does alone."""
LEVEL_OF_NEIGHBOURS = 0.96
"""The level whose quantile the noise exceeds, on one side, once in fifty times."""
SHARE_OF_NEIGHBOURS = 0.01
"""As a share of all values: wider bounds mean more noise for every group, and fewer values than this are not worth it."""


@dataclass(slots=True)
class _Visited:
    """The nodes of one level that were visited, sorted, and what was found for their children: (nodes, branching)."""

    nodes: Counts = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    children: Reals = field(default_factory=lambda: np.zeros((0, 0)))
    noisy: Reals = field(default_factory=lambda: np.zeros((0, 0)))
    """The same before adjustment to the right sum."""


class NoisyForest:
    """One noisy tree per group, over rows counted by (group, leaf); rows of one leaf may come in several counts.

    Args:
        groups: the number of groups, public or already selected; an empty group has a tree too.
        group: the group of each count.
        leaf: the leaf of each count, 0 ≤ leaf < branching^height.
        count: how many rows.
        noise: for the node counts of all trees, calibrated for all levels.
        branching: children per node.
        height: levels below the root.
        entropy: where the noise comes from.
    """

    def __init__(
        self,
        groups: int,
        group: Counts,
        leaf: Counts,
        count: Counts,
        noise: AdditiveNoise,
        *,
        branching: int = BRANCHING,
        height: int = HEIGHT,
        entropy: Entropy = SYSTEM,
    ) -> None:
        leaves = branching**height
        if len(leaf) and (min(leaf.min(), group.min()) < 0 or leaf.max() >= leaves or group.max() >= groups):
            raise InternalError("a count outside its tree")
        cells = group * leaves + leaf
        order = np.argsort(cells)
        self._cells = cells[order]
        self._rows_before = np.concatenate([[0], np.cumsum(count[order])]).astype(np.int64)
        self._groups, self._noise, self._entropy = groups, noise, entropy
        self._branching, self._height = branching, height
        self._visited = [_Visited() for _ in range(height)]
        self._found: tuple[Sequence[float], Reals] | None = None

    def quantiles(self, probabilities: Sequence[float]) -> Reals:
        """Positions in [0, 1] between L and U, of shape (groups, probabilities), monotone in the probability."""
        if self._found is not None:
            return self._found_before(probabilities)
        node = np.repeat(np.arange(self._groups, dtype=np.int64), len(probabilities))
        asked = np.tile(np.clip(np.asarray(probabilities, dtype=np.float64), 0.0, 1.0), self._groups)
        rest = self._away_from_the_ends(asked, node)
        rows = np.full(len(node), np.nan)  # what was found for the node itself; the root is not counted
        for level in range(self._height):
            children = self._children_of(level, node, rows)
            child, rest = _descend(children, rest)
            rows = children[np.arange(len(child)), child]
            node = node * self._branching + child
        leaves = self._branching**self._height
        positions: Reals = ((node % leaves + rest) / leaves).reshape(self._groups, len(probabilities))
        # Shares moved away from the ends may have passed others.
        falling = np.argsort(np.asarray(probabilities, dtype=np.float64), kind="stable")
        positions[:, falling] = np.sort(positions, axis=1)
        return positions

    def _found_before(self, probabilities: Sequence[float]) -> Reals:
        """Positions that were kept of trees that were not: no node of theirs may be drawn again."""
        assert self._found is not None  # noqa: S101 - asked for where they are there
        known = {probability: column for column, probability in enumerate(self._found[0])}
        if not known.keys() >= set(probabilities):
            raise InternalError("a quantile that was not read from its tree")
        found: Reals = self._found[1][:, [known[probability] for probability in probabilities]]
        return found

    def _away_from_the_ends(self, asked: Reals, root: Counts) -> Reals:
        """The shares 0 and 1, moved inwards by as many rows as noise alone can produce, at most to the middle.

        Looking for the very first row finds the first noisy count above 0, wherever the rows are.
        """
        ends = (asked == 0) | (asked == 1)
        if not ends.any() or not self._noise.shift.l1:
            return asked
        rows = np.maximum(self._children_of(0, root, np.full(len(root), np.nan)).sum(axis=1), 1.0)
        inside = np.minimum(noise_quantile(self._noise, LEVEL_OF_THE_ENDS) / rows, 0.5)
        return np.where(ends, np.where(asked == 0, inside, 1 - inside), asked)

    def _children_of(self, level: int, node: Counts, rows: Reals) -> Reals:
        """What was found for the children of each node; noise is drawn for nodes visited for the first time."""
        seen = self._visited[level]
        wanted, first, which = np.unique(node, return_index=True, return_inverse=True)
        new = ~np.isin(wanted, seen.nodes)
        noisy = self._count_children(level, wanted[new])
        own = rows[first[new]]
        found = closest_with_sum(noisy, np.where(np.isnan(own), noisy.sum(axis=1), own))
        nodes = np.concatenate([seen.nodes, wanted[new]])
        order = np.argsort(nodes)
        seen.children = np.concatenate([seen.children.reshape(-1, self._branching), found])[order]
        seen.noisy = np.concatenate([seen.noisy.reshape(-1, self._branching), noisy])[order]
        seen.nodes = nodes[order]
        return seen.children[np.searchsorted(seen.nodes, wanted)][which]

    def bands(self, fractions: Sequence[Fraction], levels: Sequence[float], *, sampled: bool = False) -> RankBands:
        """Where these quantiles lie, from the same noisy counts; noise for nodes that no quantile visited is drawn now.

        A tree takes about a kilobyte for each quantile. So those of many groups are grown some groups at a time, and not kept: what
        is kept are these quantiles, and no others can be read afterwards.
        """
        at_once = max(1, WALKS_AT_ONCE // max(1, len(fractions)))
        if self._groups <= at_once:
            return self._bands(fractions, levels, sampled=sampled)
        if self._found is not None or any(len(seen.nodes) for seen in self._visited):
            raise InternalError("trees that were read before are not grown again")
        probabilities = [float(p) for p in fractions]
        positions = np.zeros((self._groups, len(fractions)))
        low, high = (np.zeros((self._groups, len(fractions), len(levels))) for _ in range(2))
        for start in range(0, self._groups, at_once):
            part = self._part(start, min(start + at_once, self._groups))
            found = part.bands(fractions, levels, sampled=sampled)
            here = slice(start, start + at_once)
            positions[here], low[here], high[here] = part.quantiles(probabilities), found.low, found.high
        self._found = probabilities, positions
        return RankBands(tuple(fractions), tuple(levels), low, high)

    def _part(self, first: int, end: int) -> NoisyForest:
        """Trees of some of the groups, of which no node was visited yet."""
        leaves = self._branching**self._height
        begins, ends = np.searchsorted(self._cells, [first * leaves, end * leaves])
        cells = self._cells[begins:ends] - first * leaves
        return NoisyForest(
            end - first,
            cells // leaves,
            cells % leaves,
            np.diff(self._rows_before[begins : ends + 1]),
            self._noise,
            branching=self._branching,
            height=self._height,
            entropy=self._entropy,
        )

    def _bands(self, fractions: Sequence[Fraction], levels: Sequence[float], *, sampled: bool) -> RankBands:
        positions = self.quantiles([float(p) for p in fractions])
        ends = np.zeros((2, self._groups, len(fractions), len(levels)))
        at_once = max(1, WALKS_AT_ONCE // max(1, self._groups))
        for number, level in enumerate(levels):
            chance = (1 - level) / 2 / self._height
            for start in range(0, len(fractions), at_once):
                some = fractions[start : start + at_once]
                points = walk_points(self._noise, some, chance, self._branching, self._height)
                for side, upper in enumerate((False, True)):
                    walk = TreeWalk(
                        self._groups, points, some, upper=upper, sampled=(1 - level) / 2 if sampled else None
                    )
                    for depth in range(self._height):
                        walk.into(self._noisy_children(depth, walk.node))
                    found = walk.node % self._branching**self._height + side
                    ends[side, :, start : start + at_once, number] = found.reshape(self._groups, len(some))
        return RankBands.around(fractions, levels, positions, *ends / self._branching**self._height)

    def _noisy_children(self, level: int, node: Counts) -> Reals:
        """The noisy counts of the children of each node, as they were drawn."""
        self._children_of(level, node, np.full(len(node), np.nan))
        seen = self._visited[level]
        return seen.noisy[np.searchsorted(seen.nodes, node)]

    def _count_children(self, level: int, nodes: Counts) -> Reals:
        width = self._branching ** (self._height - level - 1)
        edges = (nodes[:, None] * self._branching + np.arange(self._branching + 1)) * width
        exact = np.diff(self._rows_before[np.searchsorted(self._cells, edges)], axis=1)
        noise = draw_noise(self._noise, exact.size, self._entropy).reshape(exact.shape)
        return np.asarray(exact + noise, dtype=np.float64)


class NoisyTree:
    """The noisy tree of one group.

    >>> from shoal.accounting.events import LaplaceNoise, Shift
    >>> leaves = np.arange(65536)
    >>> tree = NoisyTree(leaves, np.full(65536, 100), LaplaceNoise(Shift(1, 4), Fraction(4)))
    >>> abs(tree.quantile(0.5) - 0.5) < 0.01
    True
    """

    def __init__(
        self,
        leaf: Counts,
        count: Counts,
        noise: AdditiveNoise,
        *,
        branching: int = BRANCHING,
        height: int = HEIGHT,
        entropy: Entropy = SYSTEM,
    ) -> None:
        self._forest = NoisyForest(
            1, np.zeros_like(leaf), leaf, count, noise, branching=branching, height=height, entropy=entropy
        )

    def quantile(self, probability: float) -> float:
        """The position of one quantile in [0, 1], between L and U."""
        return float(self._forest.quantiles([probability])[0, 0])

    def quantiles(self, probabilities: Sequence[float]) -> Reals:
        """The positions of many quantiles."""
        positions: Reals = self._forest.quantiles(probabilities)[0]
        return positions


def closest_with_sum(numbers: Reals, sums: Reals) -> Reals:
    """For each row, the closest numbers ≥ 0 with the given sum, max(x − λ, 0); zeros when the sum is not positive.

    >>> closest_with_sum(np.array([[5.0, -1.0, 2.0]]), np.array([6.0])).tolist()
    [[4.5, 0.0, 1.5]]
    """
    falling = -np.sort(-numbers, axis=1)
    excess = np.cumsum(falling, axis=1) - sums[:, None]
    ranks = np.arange(1, numbers.shape[1] + 1)
    kept = np.maximum(np.sum(falling * ranks > excess, axis=1), 1)
    cut = excess[np.arange(len(numbers)), kept - 1] / kept
    return np.where(sums[:, None] > 0, np.maximum(numbers - cut[:, None], 0.0), 0.0)


def _descend(children: Reals, rest: Reals) -> tuple[Counts, Reals]:
    """The child in which the share `rest` of the node's rows is reached, and the share of the child's rows it takes."""
    shares = np.where(children.sum(axis=1, keepdims=True) > 0, children, 1.0)
    upto = np.cumsum(shares, axis=1)
    goal = rest * upto[:, -1]
    last = shares.shape[1] - 1 - np.argmax(shares[:, ::-1] > 0, axis=1)
    reached = (upto >= goal[:, None]) & (shares > 0)
    child = np.where(reached.any(axis=1), np.argmax(reached, axis=1), last)
    at = np.arange(len(child)), child
    return child, np.clip((goal - (upto[at] - shares[at])) / shares[at], 0.0, 1.0)


OTHER_SIDE = 4.0
"""In standard deviations of several bins' noise: noise alone adds the other side of zero once in a thousand times."""


def bounds_from_histograms(
    noisy_counts: npt.NDArray[np.object_] | Counts,
    noise: AdditiveNoise,
    no_false_bin: Sequence[Fraction] = NO_FALSE_BIN,
    *,
    zero: int | None = None,
) -> Counts:
    """The first and the last filled bin of each row of (histograms, bins); −1 and −1 if nothing stands out.

    A bin is filled if its noisy count exceeds the exact-tail threshold K for the chance of no false bin; chances are
    relaxed in turn for rows that have no filled bin yet. If no single bin is filled, neighbouring bins together may be. Then bins
    next to filled ones are added if they hold a hundredth of the values and more than noise rarely produces; and if all filled bins
    are on one side of the bin of `zero`, so are those on the other side, equally far out, if they stand out together.
    Post-processing.
    """
    counts: npt.NDArray[Any] = np.asarray(noisy_counts)
    ends = np.full((len(counts), 2), -1, dtype=np.int64)
    for chance in no_false_bin:
        left = np.flatnonzero(ends[:, 0] < 0)
        filled = (counts[left] > approx_bounds_threshold(noise, counts.shape[1], chance)).astype(np.bool_)
        some = filled.any(axis=1)
        ends[left[some], 0] = np.argmax(filled[some], axis=1)
        ends[left[some], 1] = counts.shape[1] - 1 - np.argmax(filled[some, ::-1], axis=1)
    if not noise.shift.l1:
        return ends
    for row in np.flatnonzero(ends[:, 0] < 0):
        ends[row] = _filled_together(counts[row].astype(np.float64), noise, float(1 - no_false_bin[-1]))
    seldom = noise_quantile(noise, LEVEL_OF_NEIGHBOURS)
    for row in np.flatnonzero(ends[:, 0] >= 0):
        first, last = (int(end) for end in ends[row])
        least = max(seldom, SHARE_OF_NEIGHBOURS * float(sum(counts[row, first : last + 1])))
        first, last = _with_neighbours(counts[row], first, last, least)
        if zero is not None:
            first, last = _with_mirrored(counts[row].astype(np.float64), first, last, zero, noise)
        ends[row] = first, last
    return ends


def _with_mirrored(counts: Reals, first: int, last: int, zero: int, noise: AdditiveNoise) -> tuple[int, int]:
    """Values around zero fill bins on both sides of it; noise may hide each bin on one side, but not all of them together."""
    if first <= zero <= last:
        return first, last
    other = max(0, 2 * zero - last), min(len(counts) - 1, 2 * zero - first)
    run = counts[other[0] : other[1] + 1]
    if not len(run) or run.sum() <= OTHER_SIDE * noise_standard_deviation(noise) * math.sqrt(len(run)):
        return first, last
    inside = other[0] + np.flatnonzero(run > 0)
    return min(first, int(inside[0])), max(last, int(inside[-1]))


def _filled_together(counts: Reals, noise: AdditiveNoise, false: float) -> tuple[int, int]:
    """The neighbouring bins that together stand out most; −1 and −1 if none do."""
    scale = noise_standard_deviation(noise) / math.sqrt(2)
    before = np.concatenate([[0.0], np.cumsum(counts)])
    best, found = 1.0, (-1, -1)
    for width in NEIGHBOURS:
        if width > len(counts):
            break
        sums = before[width:] - before[:-width]
        chance = false / (len(NEIGHBOURS) * len(sums))
        if isinstance(noise, GaussianNoise):
            needed = NormalDist().inv_cdf(1 - chance) * math.sqrt(2 * width) * scale + 1
        else:
            needed = max(1.0, sum_tail_point(scale, width, chance))
        first = int(np.argmax(sums))
        if sums[first] / needed > best:
            inside = first + np.flatnonzero(counts[first : first + width] > 0)
            best, found = float(sums[first] / needed), (int(inside[0]), int(inside[-1]))
    return found


def _with_neighbours(counts: npt.NDArray[Any], first: int, last: int, least: float) -> tuple[int, int]:
    """The ends, moved outwards over bins that hold more than the given count."""
    while first > 0 and counts[first - 1] > least:
        first -= 1
    while last < len(counts) - 1 and counts[last + 1] > least:
        last += 1
    return first, last
