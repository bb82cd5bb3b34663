"""Numbers between two bounds: a sign, or a point near the value, and the mean of many without bias.

A value in [lower, upper] is a position in [−1, 1]. *Sign* (Duchi): rounded at random to ±N, then reported by binary randomized
response. *Piecewise*: rounded at random to t ∈ {−N … N}, then y ∈ {−N−h … N+h} with weight w₁ where |y − t| ≤ h and w₀
elsewhere. Up to ε = 0.61 every report is a sign; above, a public coin takes piecewise with chance 1 − e^{−ε/2}, which keeps
the variance the same for all values.

*Proof note.* Precondition: |t| ≤ N, so that the window |y − t| ≤ h always lies inside and Z = (2h+1)·w₁ + 2N·w₀ is one
normaliser for all t. Postcondition: both branches keep ln(w₁/w₀), and the coin between them does not depend on the value.
Weights w₀ on all of {−N−h … N+h} sum to 0, so E[y] = t·(w₁ − w₀)(2h+1)/Z exactly, and y·Z/((w₁ − w₀)(2h+1)) is unbiased.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.local import estimate
from shoal.local.base import Question, different_values, wrong_value
from shoal.local.client import HALF_RANGE
from shoal.local.estimate import NumberEstimate
from shoal.local.weights import Weights
from shoal.mechanisms.sampling.samplers import below, bernoulli

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.local.base import Target
    from shoal.local.reports import Columns, Tally, Totals
    from shoal.mechanisms.entropy import Entropy

SIGN_UP_TO = Fraction(61, 100)
SIGN, PIECEWISE = 0, 1
SPLIT_BITS = 20
"""Squares are summed in two halves, so that 64-bit words hold the sum over 2⁴⁰ reports."""


def window_and_mix(epsilon: Fraction) -> tuple[int, tuple[int, int]]:
    """(h, chance of piecewise as a quotient) for an ε; privacy depends on neither."""
    context = Context(prec=50)
    small = Fraction(context.exp(context.divide(Decimal(-epsilon.numerator), Decimal(2 * epsilon.denominator))))
    one = 1 << 40
    return round(HALF_RANGE * small), (0 if epsilon <= SIGN_UP_TO else round((1 - small) * one), one)


@dataclass(frozen=True)
class Positions:
    """Values as exact positions in [0, 1]: the different ones, and which of them each respondent has."""

    different: list[Fraction]
    which: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.which)


@dataclass(frozen=True)
class Numbers:
    """The randomiser of positions, and what its reports estimate."""

    weights: Weights
    reach: int
    mix: Fraction

    @property
    def schema(self) -> dict[str, tuple[str, int]]:
        """Branch and y."""
        return {"branch": ("u1", 1), "y": ("<i4", 1)}

    @property
    def message_bits(self) -> int:
        """One bit for the branch, and y."""
        return 1 + (2 * (HALF_RANGE + self.reach)).bit_length()

    @property
    def total(self) -> int:
        """Z, the weight of all y."""
        return (2 * self.reach + 1) * self.weights.inside + 2 * HALF_RANGE * self.weights.outside

    # --- drawing ---

    def draw(self, own: Positions, entropy: Entropy) -> Columns:
        """Both branches for everybody; the coin chooses."""
        size = len(own)
        piecewise = self._coin(self.mix, size, entropy)
        y = np.where(piecewise, self._near(own, entropy), self._sign(own, entropy))
        return {"branch": piecewise.astype(np.uint8), "y": y.astype("<i4")}

    def _sign(self, own: Positions, entropy: Entropy) -> npt.NDArray[np.int64]:
        true_side = bernoulli(own.different, own.which, entropy)
        chance = Fraction(self.weights.inside, self.weights.inside + self.weights.outside)
        return np.where(self._coin(chance, len(own), entropy) == true_side, HALF_RANGE, -HALF_RANGE)

    def _near(self, own: Positions, entropy: Entropy) -> npt.NDArray[np.int64]:
        scaled = [divmod(position * 2 * HALF_RANGE, 1) for position in own.different]
        floors = np.array([int(whole) - HALF_RANGE for whole, _ in scaled], dtype=np.int64)
        target = floors[own.which] + bernoulli([rest for _, rest in scaled], own.which, entropy)
        width = 2 * self.reach + 1
        inside = self._coin(Fraction(width * self.weights.inside, self.total), len(own), entropy)
        other = below(2 * HALF_RANGE, len(own), entropy) - HALF_RANGE - self.reach
        other += np.where(other >= target - self.reach, width, 0)
        return np.where(inside, target - self.reach + below(width, len(own), entropy), other)

    @staticmethod
    def _coin(chance: Fraction, size: int, entropy: Entropy) -> npt.NDArray[np.bool_]:
        return bernoulli([chance], np.zeros(size, dtype=np.int64), entropy)

    # --- counting ---

    def is_valid(self, columns: Columns) -> npt.NDArray[np.bool_]:
        """Signs are ±N; points lie within N + h."""
        branch, y = columns["branch"], columns["y"].astype(np.int64)
        point = (branch == PIECEWISE) & (np.abs(y) <= HALF_RANGE + self.reach) & bool(self.mix > 0)
        return np.asarray(point | ((branch == SIGN) & (np.abs(y) == HALF_RANGE) & bool(self.mix < 1)))

    def totals(self, columns: Columns) -> npt.NDArray[np.int64]:
        """[signs, positive signs, points, Σy, high and low half of Σy²]."""
        branch, y = columns["branch"], columns["y"].astype(np.int64)
        signs, points = y[branch == SIGN], y[branch == PIECEWISE]
        squares = points * points
        low = squares & ((1 << SPLIT_BITS) - 1)
        return np.array(
            [len(signs), (signs > 0).sum(), len(points), points.sum(), (squares >> SPLIT_BITS).sum(), low.sum()]
        )

    def are_totals(self, totals: npt.NDArray[np.int64], n: int) -> bool:
        """Whether totals that came in bytes could be those of n reports."""
        if len(totals) != 6:
            return False
        signs, positive, points, total, high, low = (int(each) for each in totals)
        most = points * (HALF_RANGE + self.reach)
        counted = signs + points == n and 0 <= positive <= signs and points >= 0
        return counted and abs(total) <= most and high >= 0 and 0 <= low <= points << SPLIT_BITS

    @cached_property
    def scales(self) -> tuple[float, float]:
        """What a report is multiplied by, sign and point, to estimate a position in [−1, 1] without bias."""
        inside, outside = self.weights.inside, self.weights.outside
        sign = Fraction(inside + outside, (inside - outside) * HALF_RANGE)
        near = Fraction(self.total, (inside - outside) * (2 * self.reach + 1) * HALF_RANGE)
        return float(sign), float(near)

    def mean_and_variance(self, totals: npt.NDArray[np.int64]) -> tuple[float, float]:
        """The mean position, and the sample variance of one report's estimate."""
        signs, positive, points, total, high, low = (int(each) for each in totals)
        sign, near = self.scales
        n = signs + points
        mean = (sign * HALF_RANGE * (2 * positive - signs) + near * total) / n
        second = (signs * (sign * HALF_RANGE) ** 2 + near**2 * ((high << SPLIT_BITS) + low)) / n
        worst = self.worst_variance
        return mean, worst if n < 2 else max(0.0, second - mean * mean) * n / (n - 1)

    def variance(self, position: float) -> float:
        """Var of one report's estimate for a position in [−1, 1]."""
        sign, near = self.scales
        t, h, most = position * HALF_RANGE, self.reach, HALF_RANGE + self.reach
        window = float(self.weights.inside - self.weights.outside) * (2 * h + 1) * (t * t + h * (h + 1) / 3)
        around = float(self.weights.outside) * (most * (most + 1) * (2 * most + 1) / 3)
        second = near**2 * (window + around) / float(self.total)
        mix = float(self.mix)
        return mix * second + (1 - mix) * (sign * HALF_RANGE) ** 2 - position**2

    @cached_property
    def worst_variance(self) -> float:
        """The largest variance over all values: it is a quadratic, so one of its ends."""
        return max(self.variance(0.0), self.variance(1.0))

    @cached_property
    def largest_estimate(self) -> float:
        """The largest position that one report can represent."""
        sign, near = self.scales
        branches = [sign * HALF_RANGE] * (self.mix < 1) + [near * (HALF_RANGE + self.reach)] * (self.mix > 0)
        return max(branches)

    # --- reports one by one ---

    def parse(self, answer: object) -> tuple[Any, ...] | None:
        """[branch, y]."""
        if not isinstance(answer, list) or len(answer) != 2 or not all(type(part) is int for part in answer):
            return None
        branch, y = answer
        if branch == SIGN:
            return (branch, y) if abs(y) == HALF_RANGE and self.mix < 1 else None
        return (branch, y) if branch == PIECEWISE and abs(y) <= HALF_RANGE + self.reach and self.mix > 0 else None

    def write(self, columns: Columns) -> Iterator[object]:
        """Lists [branch, y]."""
        yield from map(list, zip(columns["branch"].tolist(), columns["y"].tolist(), strict=True))


@dataclass(frozen=True, repr=False)
class Number(Question):
    """A number between two bounds, of which the mean is wanted."""

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """(lower, upper)."""
        return float(Fraction(self.spec["lower"])), float(Fraction(self.spec["upper"]))

    @cached_property
    def design(self) -> Numbers:
        """The randomiser."""
        return Numbers(Weights(*self.spec["weights"]), self.spec["reach"], Fraction(*self.spec["mix"]))

    @property
    def parameters(self) -> dict[str, Any]:
        """{"reach": h, "mix": chance of a point instead of a sign}."""
        return {"reach": self.design.reach, "mix": self.design.mix}

    def _words(self) -> str:
        return f"from {self.bounds[0]:g} to {self.bounds[1]:g}"

    def _encoded(self, values: Any) -> Positions:
        different, which = different_values(values)
        try:
            return Positions([self._client.encode(value) for value in different], which)
        except ValueError as error:
            raise wrong_value(str(error)) from None

    def _totals(self, design: Any, columns: Columns | None) -> Totals:
        totals: Totals = np.zeros(6, dtype=np.int64) if columns is None else design.totals(columns)
        return totals

    def _are_totals(self, tally: Tally) -> bool:
        return tally.values is None and self.design.are_totals(tally.totals, tally.n)

    def _estimated(
        self, tally: Tally, alpha: float, *, consistent: bool, target: Target, simultaneous: bool
    ) -> NumberEstimate:
        """The normal interval with the sample variance, which also covers the spread of the values themselves."""
        del target, simultaneous
        (lower, upper), n = self.bounds, tally.n
        position, variance = self.design.mean_and_variance(tally.totals)
        half = (upper - lower) / 2
        found = estimate.around(lower + half * (1 + position), half * math.sqrt(variance / n), alpha, self.bounds)
        return NumberEstimate(
            mean=found.mean if consistent else found.raw,
            raw=found.raw,
            low=found.low,
            high=found.high,
            standard_error=found.standard_error,
            n=n,
            rejected=tally.rejected,
            poison_per_report=2 * half * self.design.largest_estimate / n,
            epsilon=self.epsilon,
            level=1 - alpha,
        )

    def _variance(self, share: float | None) -> float:
        if share is not None:
            raise ShoalError("E_USAGE", "Numbers have no shares.", hint="Leave share out.")
        lower, upper = self.bounds
        return self.design.worst_variance * ((upper - lower) / 2) ** 2
