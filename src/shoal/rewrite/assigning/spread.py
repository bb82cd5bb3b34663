"""The error of a released number, including one read from two numbers that make a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.frozen import dataclass
from shoal.mechanisms import calibrate
from shoal.plan.measures import Steps

if TYPE_CHECKING:
    from shoal.accounting.events import AdditiveNoise
    from shoal.params import Bounds


@dataclass(frozen=True, slots=True)
class Spread:
    """A released number's 95% half-width and median error, in the analyst's units; and what one owner adds at most."""

    width: float
    median: float
    unit: float


@dataclass(frozen=True, slots=True)
class Complement:
    """Which part is released from both of its bounds, and which one, if any, counts the owners and is read from the two."""

    carrier: int
    counter: int | None
    bounds: Bounds

    def spread_of(self, index: int, noise: AdditiveNoise) -> Spread:
        """Of the number itself, or of the owners."""
        steps = Steps.outward(self.bounds, noise.grid)
        whole, grid = steps.upper - steps.lower, float(noise.grid)
        if index == self.counter:
            parts, unit = (1 / whole, 1 / whole), 1.0
        else:
            parts = steps.upper / whole * grid, steps.lower / whole * grid
            unit = max(-steps.lower, steps.upper) * grid
        width, median = (calibrate.mixed_width(noise, *parts, level) for level in (0.95, 0.5))
        return Spread(width, median, unit)


@dataclass(frozen=True, slots=True)
class SelectingMean:
    """Which part is an average's sum about the middle and which its count, where both are read off two sums that select groups."""

    carrier: int
    counter: int
    bounds: Bounds

    def spread_of(self, index: int, noise: AdditiveNoise) -> Spread:
        """Of half the difference of the two sums, or of the owners."""
        steps = Steps.outward(self.bounds, noise.grid)
        whole = steps.upper - steps.lower
        each, unit = (
            (1 / whole, 1.0) if index == self.counter else (float(noise.grid) / 2, whole * float(noise.grid) / 2)
        )
        width, median = (calibrate.mixed_width(noise, each, each, level) for level in (0.95, 0.5))
        return Spread(width, median, unit)
