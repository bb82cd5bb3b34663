"""Privacy events: frozen, complete facts about what a release does. Their meaning never changes; a new meaning is a new event.

An event *is* the specification of its mechanism: what is charged is what is run, by construction. All amounts are exact
rationals; shifts, scales and thresholds are counted in steps of a public grid, and one step has the size `grid`.
A shift says between which neighbours it was taken: all rows of one owner more or less, unless a policy says otherwise.
"""

from __future__ import annotations

from fractions import Fraction

from shoal.accounting.neighbours import OWNER, Neighbours
from shoal.errors import InternalError
from shoal.frozen import dataclass


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise InternalError(sentence)


@dataclass(frozen=True, slots=True)
class Shift:
    """How far one owner can move a vector of integers: `coordinates` entries by at most `per_coordinate` steps each."""

    per_coordinate: int
    coordinates: int = 1
    entries: int | None = None
    """Set when a coordinate's move may be spread over several entries, with the same sum (c rows in c cells): how many in all."""
    neighbours: Neighbours = OWNER
    length: int | None = None
    """Set when the L2 norm stays below that of all coordinates moved at once (weights): the largest it can be."""

    def __post_init__(self) -> None:
        _require(self.per_coordinate >= 0 and self.coordinates >= 1, "a shift is not negative")
        _require(self.length is None or self.length >= self.per_coordinate, "a move is as long as any of its entries")
        _require(self.touched >= self.coordinates, "a shift spreads over its coordinates at least")

    @property
    def touched(self) -> int:
        """How many entries one owner can move at all."""
        return self.coordinates if self.entries is None else self.entries

    @property
    def l1(self) -> int:
        """The largest L1 norm of the move, in steps."""
        return self.per_coordinate * self.coordinates

    @property
    def l2_squared(self) -> int:
        """The square of the largest L2 norm of the move, in steps²."""
        whole = self.per_coordinate**2 * self.coordinates
        return whole if self.length is None else min(whole, self.length**2)


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Independent discrete Laplace noise in every coordinate: P[X = k] ∝ exp(−|k|/scale), k an integer number of steps.

    Loss: ε = shift.l1 / scale exactly (two-sided geometric noise, p = e^{−1/scale}); δ = 0. A shift of 0 costs nothing.
    """

    shift: Shift
    scale: Fraction
    grid: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        _require(self.scale > 0 or self.shift.l1 == 0, "Laplace noise needs a positive scale")
        _require(self.grid > 0, "a grid step is positive")

    @property
    def epsilon(self) -> Fraction:
        """The pure loss of this event."""
        return Fraction(self.shift.l1) / self.scale if self.shift.l1 else Fraction(0)


@dataclass(frozen=True, slots=True)
class PolicyLaplace:
    """Independent discrete Laplace noise in every coordinate, private between the neighbours of a policy.

    The shift is the policy sensitivity in steps (moves and rows per owner included): ε = shift.l1 / scale, δ = 0, under
    `shift.neighbours` and under no other promise. A shift of 0 is released exactly and costs nothing there.
    """

    shift: Shift
    scale: Fraction
    grid: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        _require(self.shift.neighbours != OWNER, "a policy's noise names its policy")
        _require(self.scale > 0 or self.shift.l1 == 0, "Laplace noise needs a positive scale")
        _require(self.grid > 0, "a grid step is positive")

    @property
    def epsilon(self) -> Fraction:
        """The pure loss of this event under its policy."""
        return Fraction(self.shift.l1) / self.scale if self.shift.l1 else Fraction(0)


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Independent discrete Gaussian noise in every coordinate: P[X = k] ∝ exp(−k²/2σ²), k an integer number of steps.

    Alone it has no (ε, δ): it is charged inside a `JointGaussian`, or by ρ = shift.l2_squared / 2σ² in zCDP.
    """

    shift: Shift
    sigma: Fraction
    grid: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        _require(self.sigma > 0 or self.shift.l1 == 0, "Gaussian noise needs a positive scale")
        _require(self.grid > 0, "a grid step is positive")

    @property
    def rho(self) -> Fraction:
        """The zCDP loss of this event (exact for the discrete Gaussian)."""
        return Fraction(self.shift.l2_squared) / (2 * self.sigma**2) if self.shift.l1 else Fraction(0)


AdditiveNoise = LaplaceNoise | GaussianNoise


@dataclass(frozen=True, slots=True)
class JointGaussian:
    """Several Gaussian releases charged together: the whole vector is (epsilon, delta)-private."""

    parts: tuple[GaussianNoise, ...]
    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        _require(bool(self.parts), "a joint release has parts")
        _require(self.epsilon > 0 and 0 < self.delta < 1, "a joint Gaussian release needs ε > 0 and 0 < δ < 1")


@dataclass(frozen=True, slots=True)
class OptimalSelection:
    """Each group is kept with the optimal probability π(n − min_owners + 1) at (ε/κ, δ₁), δ₁ = 1 − (1−δ)^{1/κ} rounded down.

    `epsilon` and `delta` are for the whole selection, κ = `max_groups_per_owner`, n = owners of a group after bounding.
    """

    epsilon: Fraction
    delta: Fraction
    max_groups_per_owner: int
    min_owners: int = 1

    def __post_init__(self) -> None:
        _require(self.epsilon >= 0 and 0 < self.delta < 1, "selection of unknown groups needs 0 < δ < 1")
        _require(self.max_groups_per_owner >= 1 and self.min_owners >= 1, "counts start at 1")


@dataclass(frozen=True, slots=True)
class ThresholdSelection:
    """Each group with n ≥ min_owners owners is kept when n − (min_owners − 1) + X ≥ threshold; X drawn from `noise` (grid 1).

    The loss of `noise` is charged by its own event (for Gaussian noise inside a `JointGaussian`); this event charges `delta`
    only: the chance that any of the at most κ groups that exist through one owner alone appears. Exact-tail requirement:
    1 − (1 − P[1 + X ≥ threshold])^κ ≤ delta. When `released`, the same noisy number (plus min_owners − 1) is the answer.
    """

    noise: AdditiveNoise
    threshold: int
    delta: Fraction
    max_groups_per_owner: int
    min_owners: int = 1
    released: bool = False

    def __post_init__(self) -> None:
        _require(0 < self.delta < 1, "selection of unknown groups needs 0 < δ < 1")
        _require(self.noise.grid == 1, "owners are counted in whole numbers")
        _require(self.max_groups_per_owner >= 1 and self.min_owners >= 1, "counts start at 1")


@dataclass(frozen=True, slots=True)
class WeightedSelection:
    """Each group with n ≥ min_owners owners is kept when S − (min_owners − 1)·w₁ + X ≥ threshold, S the sum of its owners' weights.

    An owner that is kept in d groups has, in each of them, the weight beside the first of the `weights`' degrees that is not below
    d; w₁ is the largest weight. d·w² ≤ shift.length² for every pair (d, w), so that no owner moves all sums together by more than
    `length`. The loss of `noise` (grid 1) is charged inside a `JointGaussian`; this event charges `delta` only: the chance that
    any of the at most d groups that exist through one owner alone appears, 1 − (1 − P[w + X ≥ threshold])^d, for every pair.
    """

    noise: GaussianNoise
    weights: tuple[tuple[int, int], ...]
    threshold: int
    delta: Fraction
    min_owners: int = 1

    def __post_init__(self) -> None:
        degrees, sizes = [degree for degree, _ in self.weights], [weight for _, weight in self.weights]
        _require(0 < self.delta < 1, "selection of unknown groups needs 0 < δ < 1")
        _require(self.noise.grid == 1, "weights are counted in whole steps")
        _require(bool(degrees) and degrees[0] == 1 and self.min_owners >= 1, "counts start at 1")
        _require(degrees == sorted(set(degrees)), "degrees rise")
        _require(sizes == sorted(sizes, reverse=True) and sizes[-1] >= 1, "weights are positive and do not rise")

    @property
    def max_groups_per_owner(self) -> int:
        """κ: the largest degree."""
        return self.weights[-1][0]


@dataclass(frozen=True, slots=True)
class WholeSelection:
    """Each group with n ≥ min_owners owners is kept when (n − min_owners + 1)·K + X₁ + X₂ ≥ threshold.

    K is what every owner of a group adds to two numbers together: how far its value is from either bound. Both numbers are
    released, with the noises X₁ and X₂ of `noise`, whose shift moves each by at most K and is charged once, by its own event or
    inside a joint one: the two moves make K in each of κ groups, so that neither norm is larger. This event charges `delta` only:
    the chance that any of the at most κ groups that exist through one owner alone appears. Exact-tail requirement:
    1 − (1 − P[K + X₁ + X₂ ≥ threshold])^κ ≤ delta.
    """

    noise: AdditiveNoise
    threshold: int
    delta: Fraction
    max_groups_per_owner: int
    min_owners: int = 1

    def __post_init__(self) -> None:
        _require(0 < self.delta < 1, "selection of unknown groups needs 0 < δ < 1")
        _require(self.noise.shift.per_coordinate > 0, "a whole is larger than nothing")
        _require(self.max_groups_per_owner >= 1 and self.min_owners >= 1, "counts start at 1")

    @property
    def whole(self) -> int:
        """K, in steps."""
        return self.noise.shift.per_coordinate


@dataclass(frozen=True, slots=True)
class SelectedGaussian:
    """Several Gaussian releases that one owner moves group by group, and the threshold on one of them that selects the groups.

    One δ pays for both. A group of an owner is either there without the owner, and the noise hides who is in it, or it is not, and
    the threshold hides that it is: no group takes both chances. Precondition: what an owner moves of all parts outside h of its
    d groups is at most 1 − h/d of the squared norm (every part is made of numbers of groups). Then the release of the parts and of
    the selected groups is (epsilon, delta)-private where the parts alone are and the threshold keeps its `selection.delta` ≤ delta;
    above one group per owner the proof needs the continuous certificate below its point of inflection
    (docs/theory/group-selection.md).
    """

    parts: tuple[GaussianNoise, ...]
    epsilon: Fraction
    delta: Fraction
    selection: ThresholdSelection | WeightedSelection | WholeSelection

    def __post_init__(self) -> None:
        _require(self.epsilon > 0 and 0 < self.delta < 1, "a joint Gaussian release needs ε > 0 and 0 < δ < 1")
        _require(self.selection.noise in self.parts, "a threshold reads one of the parts that it is charged with")
        _require(self.selection.delta <= self.delta, "a threshold costs no more than what it is part of")


@dataclass(frozen=True, slots=True)
class RankTarget:
    """Which rank of n rows is looked for: T = fraction·n, kept margin − ½ rows from either end (n/2 where they meet).

    A margin of 1 looks for the outermost row itself, ½ rows from the end; 0 is no margin.

    T grows by 0 to 1 with every row. `reach` is how far one row moves T − A and B − T, where A and B count the rows up to
    and below some place: max(p, 1 − p) without a margin, 1 with one.

    `lean`: rows above the rank count 1 + lean and rows below it 1 − lean, so that a place beyond the data is less likely
    than one as many rows inside. What one row moves distances by then lies in an interval of length 2, as without it:
    1 + lean on one side, 1 − lean on the other. That takes a reach of 1.
    """

    fraction: Fraction
    margin: int = 0
    lean: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        _require(0 <= self.fraction <= 1 and self.margin >= 0, "a rank lies between the least and the greatest")
        _require(abs(self.lean) < 1 and (self.margin > 0 or not self.lean), "only a rank with a margin leans to a side")

    @property
    def reach(self) -> Fraction:
        """How far one row moves the distance of any place from the rank."""
        return Fraction(1) if self.margin else max(self.fraction, 1 - self.fraction)


@dataclass(frozen=True, slots=True)
class QuantileChoice:
    """One leaf for each target in each group, by the exponential mechanism: P[leaf] ∝ exp(−distance/(reach·scale)).

    The distance of a leaf is how many rows lie between its own rows and the rank that is looked for, weighed where the
    target leans. `shift` says how many rows one owner adds: per_coordinate to one group, in `coordinates` groups. c rows
    move all distances within an interval of length 2c·reach, and the logarithm of the weights' sum by something in it: a
    draw loses 2c/scale. ε = 2·targets·l1/scale; ρ = targets·l2²/(2·scale²), see docs/theory/quantiles.md.

    `around`: then the rows between places that follow from the chosen leaves are counted, each row once, with discrete
    Laplace noise of this scale. That loses l1/around more.

    `nested`: the middle target first, then those on either side of it among the rows on that side, which makes ⌈log2(m + 1)⌉
    draws for a row instead of m (`mechanisms/ranks/nested.py` has the proof).
    """

    shift: Shift
    scale: Fraction
    targets: tuple[RankTarget, ...]
    around: Fraction | None = None
    nested: bool = False

    def __post_init__(self) -> None:
        _require(self.scale > 0 and self.shift.l1 > 0, "a choice needs a positive scale, and rows to choose among")
        _require(self.around is None or self.around > 0, "Laplace noise needs a positive scale")
        _require(bool(self.targets), "a choice looks for a rank")

    @property
    def draws(self) -> int:
        """How many draws any one row takes part in: one for each target, or for each level of the recursion."""
        return len(self.targets).bit_length() if self.nested else len(self.targets)

    @property
    def counts(self) -> LaplaceNoise | None:
        """The noise of the counts around what was chosen."""
        return None if self.around is None else LaplaceNoise(self.shift, self.around)

    @property
    def grid(self) -> Fraction:
        """Rows are counted in ones."""
        return Fraction(1)

    @property
    def epsilon(self) -> Fraction:
        """The pure loss of all draws together, and of the counts."""
        of_counts = Fraction(0) if self.counts is None else self.counts.epsilon
        return Fraction(2 * self.draws * self.shift.l1) / self.scale + of_counts

    @property
    def rho_of_draws(self) -> Fraction:
        """The zCDP loss of the draws: one whose log-ratios lie in an interval of length e has e²/8."""
        return self.draws * self.shift.l2_squared / (2 * self.scale**2)


Randomised = AdditiveNoise | QuantileChoice
"""How a release is made private: noise on its numbers, or a choice that goes by them."""

Selection = OptimalSelection | ThresholdSelection | WeightedSelection | WholeSelection
Event = LaplaceNoise | PolicyLaplace | JointGaussian | SelectedGaussian | QuantileChoice | Selection
"""What a plan may be charged with. `GaussianNoise` enters through `JointGaussian` and `SelectedGaussian` only."""
