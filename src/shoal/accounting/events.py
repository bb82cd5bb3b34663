"""Privacy events: frozen, complete facts about what a release does. Their meaning never changes; a new meaning is a new event.

An event *is* the specification of its mechanism: what is charged is what is run, by construction. All amounts are exact
rationals; shifts, scales and thresholds are counted in steps of a public grid, and one step has the size `grid`.
A shift says between which neighbours it was taken: all rows of one owner more or less, unless a policy says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from shoal.accounting.neighbours import OWNER, Neighbours
from shoal.errors import InternalError


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise InternalError(sentence)


@dataclass(frozen=True, slots=True)
class Shift:
    """How far one owner can move a vector of integers: `coordinates` entries by at most `per_coordinate` steps each."""

    per_coordinate: int
    coordinates: int = 1
    entries: int | None = None
    """Set when the same norms may be spread over more entries (c rows in c different cells): how many at most."""
    neighbours: Neighbours = OWNER

    def __post_init__(self) -> None:
        _require(self.per_coordinate >= 0 and self.coordinates >= 1, "a shift is not negative")
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
        return self.per_coordinate**2 * self.coordinates


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


Selection = OptimalSelection | ThresholdSelection
Event = LaplaceNoise | PolicyLaplace | JointGaussian | OptimalSelection | ThresholdSelection
"""What a plan may be charged with. `GaussianNoise` enters through `JointGaussian` only."""
