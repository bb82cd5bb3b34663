"""Quantiles by the exponential mechanism over the leaves of [L, U], sampled exactly.

Leaf ℓ of a group has B rows below it and A rows up to and including it; T is the target rank (`RankTarget`). Its
distance is d = max(0, T − A, B − T), and it is chosen with probability ∝ exp(−d/(reach·scale)). Leaves between two occupied
ones have the same distance: a *piece* is such a run, or one occupied leaf, and is chosen with its width as a factor;
leaves inside a piece are equally likely. If a target leans by λ, d = max(0, (1 − λ)·(T − A), (1 + λ)·(B − T)).

**Exactness.** Distances are integers (in units of 1/2bv, b and v the denominators of the fraction and of λ). Weights are
computed in floats first. The exponent x = d·rate has a relative error of 2⁻⁵¹, which matters up to x ≤ 745 (beyond it the
weight is 0, less than 10⁻³²³ too little), numpy's exp errs by a few units of the last place, a group's sum of N ≤ 2¹⁸ terms
by N·2⁻⁵³ of it: shares are within 10⁻¹⁰ of their real values, and a running sum over G groups (each adds 1) errs by at most
N·G·2⁻⁵³ more. A uniform number with 64 digits that is further from every cut than `UNSURE` = 10⁻⁹ and eight times that is
decided; any other is decided by outward-rounded integers, with more digits of the same number if needed. So draws have
exactly the real-valued probabilities.

**How far from the rank.** With chance 1 − β the chosen leaf has d ≤ reach·scale·ln(leaves/β): the best leaf weighs 1, all
leaves further off than that weigh β together.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.mechanisms.calibrate import noise_standard_deviation
from shoal.mechanisms.entropy import SYSTEM, Entropy
from shoal.mechanisms.ranks.bands import RankBands, bands_of, noisy_between, rungs_around, steps_from
from shoal.mechanisms.ranks.nested import SUB_LEAVES, Part, sides, turn_for, ways_to
from shoal.mechanisms.sampling.inversion import WORD_BITS, enclose_exp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.accounting.events import QuantileChoice, RankTarget
    from shoal.mechanisms.entropy import Words

Counts = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

UNSURE = 1e-9
FLOAT_STEP = 2.0**-52
EXACT_IN_FLOATS = 2**53
GROUPS_AT_ONCE, LEAVES_AT_ONCE = 256, 2**19
"""Batch sizes that fit in memory."""
LARGEST_DENOMINATOR = 10**6
"""Fractions are rounded to such denominators when planning, so that distances stay within 64 bits."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Runs of equivalent leaves, for several groups one after the other.

    For each: its first leaf, its number of leaves, and the rows of its group below it and up to its end. `starts` is the first
    piece of each group, `rows` the rows of each group.
    """

    first: Counts
    width: Counts
    below: Counts
    upto: Counts
    starts: Counts
    rows: Counts

    @classmethod
    def of(
        cls,
        groups: int,
        group: Counts,
        leaf: Counts,
        count: Counts,
        leaves: int | Counts,
        lowest: int | Counts = 0,
    ) -> Pieces:
        """Alternating gaps and occupied leaves; counts are sorted by group and leaf, each pair once.

        The leaves of each group run from `lowest` up to but excluding `leaves`.
        """
        ends = np.searchsorted(group, np.arange(groups), "right")
        before = np.concatenate([[0], np.cumsum(count)]).astype(np.int64)
        rows = before[ends] - before[np.concatenate([[0], ends[:-1]])]
        earlier = np.concatenate([[0], np.cumsum(rows)])[:-1]
        occupied = 2 * np.arange(len(leaf)) + group + 1
        last = 2 * ends + np.arange(groups)
        size = 2 * len(leaf) + groups
        first, width, below, upto = (np.zeros(size, dtype=np.int64) for _ in range(4))
        first[occupied], width[occupied] = leaf, 1
        below[occupied], upto[occupied] = before[:-1] - earlier[group], before[1:] - earlier[group]
        first[np.concatenate([[0], last[:-1] + 1])] = lowest
        # A gap starts where the piece before it ends, and ends where the next one starts.
        first[occupied + 1] = leaf + 1
        below[occupied + 1] = upto[occupied + 1] = upto[occupied]
        width[occupied - 1] = leaf - first[occupied - 1]
        width[last] = leaves - first[last]
        some = width > 0
        starts = np.concatenate([[0], last[:-1] + 1])
        kept = np.concatenate([[0], np.cumsum(some)])
        return cls(first[some], width[some], below[some], upto[some], kept[starts], rows)

    @property
    def sizes(self) -> Counts:
        """How many pieces each group has."""
        return np.diff(np.append(self.starts, len(self.first)))


def doubled_rank(target: RankTarget, rows: Counts) -> Counts:
    """The rank T of groups with this many rows, in units of 1/2b: integers.

    >>> from shoal.accounting.events import RankTarget
    >>> doubled_rank(RankTarget(Fraction(1, 4)), np.array([10])), doubled_rank(RankTarget(Fraction(1), 3), np.array([10]))
    (array([20]), array([15]))
    """
    top, bottom = target.fraction.numerator, target.fraction.denominator
    # A margin beyond all rows means their middle, however large it is: numbers grow with rows alone.
    inwards = np.minimum(min(max(0, 2 * target.margin - 1), 2**62), 2 * rows + 1)
    least, most = bottom * inwards, bottom * (2 * rows - inwards)
    inside = np.minimum(np.maximum(2 * top * rows, least), most)
    return np.asarray(np.where(least > most, bottom * rows, inside), dtype=np.int64)


def units_per_row(target: RankTarget) -> int:
    """Distances are integers: this many units to a row."""
    return 2 * target.fraction.denominator * target.lean.denominator


def distances(pieces: Pieces, target: RankTarget) -> Counts:
    """How much further from the rank each piece is than the nearest piece of its group, in units of 1/2bv."""
    unit, lean = 2 * target.fraction.denominator, target.lean
    if (int(pieces.rows.max(initial=0)) + 1) * 4 * units_per_row(
        target
    ) >= 2**62:  # 28 billion rows at the finest fraction
        raise InternalError("too many rows for the distances of a quantile")
    rank = np.repeat(doubled_rank(target, pieces.rows), pieces.sizes)
    inside, outside = lean.denominator - lean.numerator, lean.denominator + lean.numerator
    far = np.maximum(np.maximum(inside * (rank - unit * pieces.upto), outside * (unit * pieces.below - rank)), 0)
    nearest: Counts = np.repeat(np.minimum.reduceat(far, pieces.starts), pieces.sizes)
    return np.asarray(far - nearest, dtype=np.int64)


def chosen_leaves(pieces: Pieces, target: RankTarget, scale: Fraction, entropy: Entropy) -> Counts:
    """One leaf of each group, drawn with its exact probability."""
    far = distances(pieces, target)
    rate = 1 / (units_per_row(target) * target.reach * scale)
    words = entropy.uint64(len(pieces.starts))
    chosen, sure = _by_floats(pieces, far, float(rate), words)
    for number in np.flatnonzero(~sure):
        start, size = int(pieces.starts[number]), int(pieces.sizes[number])
        widths, own = pieces.width[start : start + size].tolist(), far[start : start + size].tolist()
        chosen[number] = start + piece_exactly(widths, own, rate, int(words[number]), entropy)
    leaf: Counts = pieces.first[chosen]
    for number in np.flatnonzero(pieces.width[chosen] > 1):
        leaf[number] += entropy.below(int(pieces.width[chosen[number]]))
    return leaf


def _by_floats(pieces: Pieces, far: Counts, rate: float, words: Words) -> tuple[Counts, npt.NDArray[np.bool_]]:
    """The piece in each group for the number that starts with these 64 digits, and where floats are certain of it.

    Weights are divided by their sum, so group g has the cuts between g and g + 1 of one running sum.
    """
    weights = pieces.width * np.exp(-far * rate)
    share = weights / np.repeat(np.add.reduceat(weights, pieces.starts), pieces.sizes)
    cuts = np.cumsum(share)
    groups = len(words)
    at = np.arange(groups) + words / 2.0**WORD_BITS
    last = pieces.starts + pieces.sizes - 1
    chosen = np.clip(np.searchsorted(cuts, at), pieces.starts, last)
    unsure = UNSURE + 4 * groups * len(cuts) * FLOAT_STEP
    near_upper = (chosen < last) & (np.abs(cuts[chosen] - at) < unsure)
    near_lower = (chosen > pieces.starts) & (np.abs(cuts[chosen - 1] - at) < unsure)
    exact = np.maximum.reduceat(far, pieces.starts) < EXACT_IN_FLOATS
    return chosen, exact & ~near_upper & ~near_lower


def piece_exactly(widths: Sequence[int], far: Sequence[int], rate: Fraction, word: int, entropy: Entropy) -> int:
    """The same in integers: cut points between outward-rounded bounds, more digits while one of them is undecided."""
    digits, bits = word, WORD_BITS
    while True:
        weights = _enclosed(widths, far, rate, bits + WORD_BITS)
        piece = _decided(weights, digits, bits)
        if piece is not None:
            return piece
        digits, bits = (digits << WORD_BITS) | entropy.bits(WORD_BITS), bits + WORD_BITS


def _enclosed(widths: Sequence[int], far: Sequence[int], rate: Fraction, precision: int) -> list[tuple[int, int]]:
    """Integers around each weight·2^precision; those of the nearest pieces are exact."""
    one = 1 << precision
    known = {0: (one, one)}
    for distance in far:
        if distance not in known:
            known[distance] = enclose_exp(distance * rate, precision)
    return [(width * known[d][0], width * known[d][1]) for width, d in zip(widths, far, strict=True)]


def _decided(weights: Sequence[tuple[int, int]], digits: int, bits: int) -> int | None:
    """How many cut points are at or below U, u ≤ U·2^bits < u + 1; None if that is uncertain for some.

    The cut after the first pieces is S/(S + R), S their weight and R that of the rest. It is at most U for certain when
    u·(S⁺ + R⁻) ≥ S⁺·2^bits, and above U for certain when (u + 1)·(S⁻ + R⁺) ≤ S⁻·2^bits.
    """
    low, high = 0, 0
    rest_low, rest_high = sum(w for w, _ in weights), sum(w for _, w in weights)
    for piece, (least, most) in enumerate(weights[:-1]):
        low, high, rest_low, rest_high = low + least, high + most, rest_low - least, rest_high - most
        if (digits + 1) * (low + rest_high) <= low << bits:
            return piece
        if digits * (high + rest_low) < high << bits:
            return None
    return len(weights) - 1


def _whole_range(groups: int, leaves: int) -> tuple[Counts, Counts]:
    return np.zeros(groups, dtype=np.int64), np.full(groups, leaves, dtype=np.int64)


def _nested(part: Part, targets: Sequence[RankTarget], scale: Fraction, entropy: Entropy) -> Counts:
    """A leaf of each group for every target, in rising order: (groups, targets)."""
    groups = len(part.lowest)
    drawn = np.zeros((groups, len(targets)), dtype=np.int64)
    waiting = [(part, slice(0, len(targets)), Fraction(0), Fraction(1))]
    while waiting:
        here, among, low, high = waiting.pop()
        turn = turn_for(targets, among, low, high)
        in_sub_leaves = here.in_sub_leaves()
        pieces = Pieces.of(groups, *in_sub_leaves, here.beyond * SUB_LEAVES, here.lowest * SUB_LEAVES)
        chosen = chosen_leaves(pieces, turn.target, scale, entropy)
        drawn[:, turn.middle] = chosen // SUB_LEAVES
        following = sides(turn, targets[turn.middle].fraction, low, high)
        for side, (left, above, below) in zip(here.cut(chosen), following, strict=True):
            if left.start < left.stop:
                waiting.append((side, left, above, below))
    return drawn


class ChosenQuantiles:
    """Quantiles of each group, drawn once and remembered; sorted within each group, so that they are monotone.

    Args:
        groups: the number of groups, public or already selected; an empty group has quantiles too.
        group: the group of each count.
        leaf: the leaf of each count, 0 ≤ leaf < leaves.
        count: how many rows.
        choice: the event that is realised.
        leaves: how many leaves [L, U] is cut into.
        entropy: where the random bits come from.
    """

    def __init__(
        self,
        groups: int,
        group: Counts,
        leaf: Counts,
        count: Counts,
        choice: QuantileChoice,
        leaves: int,
        entropy: Entropy = SYSTEM,
    ) -> None:
        if len(leaf) and (min(leaf.min(), group.min()) < 0 or leaf.max() >= leaves or group.max() >= groups):
            raise InternalError("a count outside its tree")
        cells, which = np.unique(group * leaves + leaf, return_inverse=True)
        rows = np.zeros(len(cells), dtype=np.int64)
        np.add.at(rows, which, count)
        targets = sorted(choice.targets, key=lambda target: target.fraction)
        drawn = np.zeros((groups, len(targets)), dtype=np.int64)
        self._leaves, self._counts = leaves, choice.counts
        self._around: list[tuple[Counts, Reals]] = []
        most = int(np.bincount(cells // leaves).max(initial=1))
        at_once = max(1, min(GROUPS_AT_ONCE, LEAVES_AT_ONCE // most))
        for start in range(0, groups, at_once):
            size = min(at_once, groups - start)
            here = slice(*np.searchsorted(cells, [start * leaves, (start + size) * leaves]))
            pieces_group, pieces_leaf = cells[here] // leaves - start, cells[here] % leaves
            if choice.nested:
                part = Part(pieces_group, pieces_leaf, rows[here], *_whole_range(size, leaves))
                own = _nested(part, targets, choice.scale, entropy)
            else:
                pieces = Pieces.of(size, pieces_group, pieces_leaf, rows[here], leaves)
                own = np.transpose([chosen_leaves(pieces, target, choice.scale, entropy) for target in targets])
            drawn[start : start + size] = np.sort(own, axis=1)
            if choice.counts is not None:
                rungs = rungs_around(own, leaves)
                before = np.concatenate([[0], np.cumsum(rows[here])]).astype(np.int64)
                starting = (np.arange(size)[:, None] + start) * leaves + rungs
                rows_before = before[np.searchsorted(cells[here], starting)]
                self._around.append((rungs, noisy_between(rows_before, choice.counts, rungs, entropy)))
        # The middle of a leaf is at most half its width off.
        self._positions: Reals = (drawn + 0.5) / leaves
        self._columns = {float(target.fraction): column for column, target in enumerate(targets)}

    def quantiles(self, probabilities: Sequence[float]) -> Reals:
        """Positions in [0, 1] between L and U, of shape (groups, probabilities)."""
        planned = [float(planned_fraction(p)) for p in probabilities]
        if not self._columns.keys() >= set(planned):
            raise InternalError("a quantile that was not drawn")
        found: Reals = self._positions[:, np.array([self._columns[p] for p in planned])]
        return found

    def bands(
        self, fractions: Sequence[Fraction], levels: Sequence[float], *, sampled: bool = False
    ) -> RankBands | None:
        """Where these quantiles lie, from the counts around them; None if nothing was counted."""
        if self._counts is None:
            return None
        ends = np.zeros((2, len(self._positions), len(fractions), len(levels)))
        start = 0
        for rungs, noisy in self._around:
            here = slice(start, start + len(rungs))
            ends[:, here] = bands_of(rungs, noisy, self._counts, fractions, levels, sampled=sampled)
            start += len(rungs)
        positions = self.quantiles([float(p) for p in fractions])
        return RankBands.around(fractions, levels, positions, *ends / self._leaves)


def planned_fraction(probability: float | Fraction) -> Fraction:
    """The target fraction: the nearest with a small denominator."""
    return Fraction(probability).limit_denominator(LARGEST_DENOMINATOR)


def rank_error(choice: QuantileChoice, target: RankTarget, level: float, leaves: int) -> float:
    """How many rows the chosen leaf may be away from the target rank, with at least this confidence.

    >>> from shoal.accounting.events import QuantileChoice, RankTarget, Shift
    >>> median = RankTarget(Fraction(1, 2))
    >>> round(rank_error(QuantileChoice(Shift(1), Fraction(2), (median,)), median, 0.95, 65536), 2)
    14.09
    """
    if not choice.nested:
        return float(_most_rows(target) * choice.scale) * math.log(leaves / (1 - level))
    # Every draw on the way to it is within its own bound; a part inherits at most the error of its cuts.
    ways = ways_to(sorted(choice.targets, key=lambda each: each.fraction))
    each = math.log(SUB_LEAVES * leaves * choice.draws / (1 - level)) * float(choice.scale)
    return each * float(sum(_most_rows(cut) for cut in ways[target]))


def _most_rows(target: RankTarget) -> Fraction:
    """How many rows make one unit of the exponent, in scales, on the side where it takes the most."""
    return target.reach / (1 - abs(target.lean))


def rank_spread(choice: QuantileChoice, leaves: int) -> float:
    """Approximate error of the answer in rows: of the drawn rank, or of its interval's ends if the rows around it are counted.

    If rows lie in many leaves, a drawn rank has Laplace noise; a position on the ladder around it has half of its bins on either
    side. It grows with an owner's rows as the scales do.
    """
    drawn = math.sqrt(2) * float(choice.scale) * max(spread_in_scales(target) for target in choice.targets)
    if choice.counts is None:
        return drawn
    bins = 2 * len(steps_from(leaves))
    return max(drawn, noise_standard_deviation(choice.counts) * math.sqrt(bins) / 2)


def spread_in_scales(target: RankTarget) -> float:
    """The standard error of a drawn rank if rows lie in many leaves, in √2 scales.

    Exponential on both sides with rates 1 − λ and 1 + λ: E[x²] = 2·(1/(1 − λ)² − 1/(1 − λ²) + 1/(1 + λ)²).

    >>> from shoal.accounting.events import RankTarget
    >>> spread_in_scales(RankTarget(Fraction(1, 2))), round(spread_in_scales(RankTarget(Fraction(1), 9, Fraction(1, 2))), 2)
    (0.5, 1.76)
    """
    inside, outside = 1 / (1 - target.lean), 1 / (1 + target.lean)
    return float(target.reach) * math.sqrt(inside**2 - inside * outside + outside**2)


def outer_margin(scale: Fraction, leaves: int, lean: Fraction = Fraction(0)) -> int:
    """The margin for the minimum and maximum: far enough from the end that all empty leaves weigh as much as one that fits."""
    return max(1, round(float(scale / (1 + abs(lean))) * math.log(leaves)))
