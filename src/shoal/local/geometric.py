"""Counts from 0 to `upper` by the truncated geometric mechanism: nearby values are hidden better than distant ones.

P[j | i] = a^{|i−j|}·(1 − a)/(1 + a) inside, a^{|i−j|}/(1 + a) at the two ends: two-sided geometric noise, clamped.

*Proof note.* Precondition: a rational, a ≥ e^{−ε/upper}, 0 < a < 1. For every report j, P[j | i]/P[j | i′] = a^{|i−j| − |i′−j|} ≤
a^{−|i−i′|}: each step keeps −ln a ≤ ε/upper, and all values together ε. Postcondition: exactly that, since a is rounded up.

The matrix is A·D with A tridiagonal in its inverse, so shares come out in closed form: f̂ = A⁻¹D⁻¹c/n, D⁻¹ = 1 + a at the ends
and (1 + a)/(1 − a) inside, A⁻¹ = tridiag(−a; 1 at the ends, 1 + a² inside; −a)/(1 − a²).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.local import estimate
from shoal.local.base import Question, different_values, wrong_value
from shoal.local.estimate import Estimate
from shoal.local.weights import log_below
from shoal.mechanisms.sampling.samplers import coins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shoal.local.base import Target
    from shoal.local.reports import Columns, Tally, Totals
    from shoal.mechanisms.entropy import Entropy

Floats = npt.NDArray[np.float64]
WORD_BITS = 64

LOSSES: dict[str, Callable[[int, int], float]] = {
    "absolute": lambda guess, truth: abs(guess - truth),
    "squared": lambda guess, truth: (guess - truth) ** 2,
    "zero_one": lambda guess, truth: float(guess != truth),
}


@dataclass(frozen=True)
class Geometric:
    """The mechanism for one largest count and one rational a."""

    upper: int
    ratio: Fraction

    @property
    def schema(self) -> dict[str, tuple[str, int]]:
        """The reported count."""
        return {"count": ("<i2", 1)}

    @property
    def message_bits(self) -> int:
        """Bits of a count up to `upper`."""
        return self.upper.bit_length()

    # --- drawing ---

    def draw(self, own: npt.NDArray[np.int64], entropy: Entropy) -> Columns:
        """The value plus two-sided geometric noise, clamped."""
        sizes = self._sizes(len(own), entropy)
        signs = np.where(coins(Fraction(1, 2), len(own), entropy), 1, -1)
        return {"count": np.clip(own + signs * sizes, 0, self.upper).astype("<i2")}

    def _sizes(self, count: int, entropy: Entropy) -> npt.NDArray[np.int64]:
        """|noise|, or upper + 1 for anything larger: as many cut points as lie at or below a uniform real, exactly."""
        words = entropy.uint64(count)
        cuts = np.array([(cut.numerator << WORD_BITS) // cut.denominator for cut in self._cuts], dtype=np.uint64)
        sizes = np.searchsorted(cuts, words, side="right")
        # Digits that equal those of a cut point leave the comparison open.
        for row in np.flatnonzero(cuts[np.maximum(sizes, 1) - 1] == words):
            sizes[row] = self._refined(int(words[row]), entropy)
        return sizes.astype(np.int64)

    @cached_property
    def _cuts(self) -> list[Fraction]:
        """P[|noise| < m] = 1 − 2a^m/(1 + a) for m = 1 … upper + 1."""
        cuts, power = [], self.ratio
        for _ in range(self.upper + 1):
            cuts.append(1 - 2 * power / (1 + self.ratio))
            power *= self.ratio
        return cuts

    def _refined(self, digits: int, entropy: Entropy) -> int:
        bits = WORD_BITS
        while True:
            low, high = Fraction(digits, 1 << bits), Fraction(digits + 1, 1 << bits)
            below = bisect_right(self._cuts, low)
            if below == len(self._cuts) or self._cuts[below] >= high:
                return below
            digits, bits = (digits << WORD_BITS) | entropy.bits(WORD_BITS), bits + WORD_BITS

    # --- counting ---

    def is_valid(self, columns: Columns) -> npt.NDArray[np.bool_]:
        """Which counts are possible."""
        return np.asarray((columns["count"] >= 0) & (columns["count"] <= self.upper))

    def totals(self, columns: Columns) -> npt.NDArray[np.int64]:
        """How often each count was reported."""
        return np.bincount(columns["count"], minlength=self.upper + 1)

    def are_totals(self, totals: npt.NDArray[np.int64], n: int) -> bool:
        """Whether totals that came in bytes could be those of n reports."""
        return len(totals) == self.upper + 1 and bool((totals >= 0).all()) and int(totals.sum()) == n

    @cached_property
    def _inverse(self) -> tuple[Floats, Floats]:
        """(diagonal, neighbour) of A⁻¹D⁻¹, a column each: share j gets diagonal[j]·c_j + neighbour[j ± 1]·c_{j ± 1}."""
        a, one_less = float(self.ratio), float(1 - self.ratio)
        ends = np.zeros(self.upper + 1, dtype=bool)
        ends[[0, -1]] = True
        scale = np.where(ends, 1 + a, (1 + a) / one_less) / (one_less * (1 + a))
        return scale * np.where(ends, 1.0, 1 + a * a), -a * scale

    def shares(self, counts: npt.NDArray[Any]) -> Floats:
        """f̂ of every value, unbiased."""
        diagonal, neighbour = self._inverse
        return self._spread(counts / counts.sum(), diagonal, neighbour)

    @staticmethod
    def _spread(reported: Floats, diagonal: Floats, neighbour: Floats) -> Floats:
        beside = neighbour * reported
        found: Floats = diagonal * reported
        found[:-1] += beside[1:]
        found[1:] += beside[:-1]
        return found

    def variances(self, reported: Floats, shares: Floats, *, population: bool) -> Floats:
        """n·Var of every share, given the distribution of reports: Σ M²·p − f² over a population, Σ M²·p − f for its members."""
        diagonal, neighbour = self._inverse
        second = self._spread(reported, diagonal**2, neighbour**2)
        inside = np.clip(shares, 0, 1)
        return np.maximum(second - (inside**2 if population else inside), 0.0)

    @cached_property
    def mean_weights(self) -> Floats:
        """What a report adds to the mean: w_i with mean = Σ w_i·c_i/n."""
        diagonal, neighbour = self._inverse
        places = np.arange(self.upper + 1, dtype=np.float64)
        beside = np.zeros(self.upper + 1)
        beside[:-1] += places[1:]
        beside[1:] += places[:-1]
        return places * diagonal + beside * neighbour

    def mean_variance(self, value: int) -> float:
        """Var of one report's estimate of the mean, for a respondent with this value."""
        chances = self.row(value)
        return float(chances @ self.mean_weights**2 - (chances @ self.mean_weights) ** 2)

    @cached_property
    def worst_mean_variance(self) -> float:
        """The largest over all values; the noise is clamped least in the middle, most at the ends."""
        values = sorted({*range(min(self.upper, 32) + 1), self.upper // 2})
        return max(self.mean_variance(value) for value in values)

    def row(self, value: int) -> Floats:
        """P[j | value] of all j, as floats."""
        a = float(self.ratio)
        chances = a ** np.abs(np.arange(self.upper + 1) - value) / (1 + a)
        chances[1:-1] *= float(1 - self.ratio)
        return np.asarray(chances)

    # --- reports one by one ---

    def parse(self, answer: object) -> tuple[Any, ...] | None:
        """A count."""
        return (answer,) if type(answer) is int and 0 <= answer <= self.upper else None

    def write(self, columns: Columns) -> Iterator[object]:
        """Counts."""
        yield from columns["count"].tolist()

    def reports(self) -> int:
        """As many as there are counts."""
        return self.upper + 1

    def matrix(self) -> list[list[Fraction]]:
        """rows[i][j] = P[j | i]; entries of the same distance are the same object."""
        powers = [Fraction(1)]
        for _ in range(self.upper):
            powers.append(powers[-1] * self.ratio)
        ends = [power / (1 + self.ratio) for power in powers]
        inside = [end * (1 - self.ratio) for end in ends]
        last = self.upper
        return [[(ends if j in {0, last} else inside)[abs(i - j)] for j in range(last + 1)] for i in range(last + 1)]

    def remap(self, prior: Sequence[float], loss: Callable[[int, int], float]) -> list[int]:
        """For each report the guess with the least expected loss under the prior."""
        matrix = np.array([self.row(value) for value in range(self.upper + 1)])
        joint = np.asarray(prior, dtype=np.float64)[:, None] * matrix
        losses = np.array(
            [[loss(guess, truth) for truth in range(self.upper + 1)] for guess in range(self.upper + 1)], dtype=float
        )
        return [int(guess) for guess in (losses @ joint).argmin(axis=0)]


@dataclass(frozen=True, repr=False)
class Count(Question):
    """A whole number from 0 to `upper`: shares of all counts, and their mean."""

    @property
    def upper(self) -> int:
        """The largest count; larger answers are clamped."""
        return int(self.spec["upper"])

    @cached_property
    def design(self) -> Geometric:
        """The randomiser."""
        return Geometric(self.upper, Fraction(*self.spec["ratio"]))

    @property
    def parameters(self) -> dict[str, Any]:
        """{"ratio": a}."""
        return {"ratio": self.design.ratio}

    def _realised(self) -> float:
        return log_below(self.design.ratio**-self.upper)

    def _words(self) -> str:
        return f"from 0 to {self.upper}"

    def _encoded(self, values: Any) -> Any:
        different, which = different_values(values)
        try:
            found = [self._client.encode(value) for value in different]
        except ValueError as error:
            raise wrong_value(str(error)) from None
        return np.array(found, dtype=np.int64)[which]

    def _totals(self, design: Any, columns: Columns | None) -> Totals:
        totals: Totals = np.zeros(self.upper + 1, dtype=np.int64) if columns is None else design.totals(columns)
        return totals

    def _are_totals(self, tally: Tally) -> bool:
        return tally.values is None and self.design.are_totals(tally.totals, tally.n)

    def _estimated(
        self, tally: Tally, alpha: float, *, consistent: bool, target: Target, simultaneous: bool
    ) -> Estimate:
        n, counts, design = tally.n, tally.totals, self.design
        raw = design.shares(counts)
        z = estimate.normal_quantile(alpha / (self.upper + 1) if simultaneous else alpha)
        # A few reports of each count are assumed for the variance: those that were not seen may still exist.
        reported = np.asarray((counts + z * z / 2) / (n + z * z / 2 * len(counts)), dtype=np.float64)
        population = target == "population"
        error = np.sqrt(design.variances(reported, design.shares(reported), population=population) / n)
        reach = z * error + self._poison() / (2 * n)  # counts are whole numbers: half a report on either side
        shares = estimate.project(raw) if consistent else raw
        mean = float(design.mean_weights @ counts / n)
        spread = float(design.mean_weights**2 @ counts / n - mean**2)
        worst = design.worst_mean_variance
        about = estimate.around(
            mean, math.sqrt(max(spread, 0.0) / n) if n > 1 else math.sqrt(worst), alpha, (0.0, float(self.upper))
        )
        return Estimate(
            values=tuple(range(self.upper + 1)),
            shares=shares,
            raw=raw,
            low=np.clip(raw - reach, 0, 1),
            high=np.clip(raw + reach, 0, 1),
            standard_error=error,
            n=n,
            rejected=tally.rejected,
            poison_per_report=self._poison() / n,
            epsilon=self.epsilon,
            level=1 - alpha,
            about_mean=about,
        )

    def _poison(self) -> float:
        """The most that one report can move a raw share: the largest difference of two entries of a row of A⁻¹D⁻¹."""
        rows = [self.design.shares(unit) for unit in np.eye(self.upper + 1, dtype=np.int64)]
        return float(max(np.ptp(column) for column in np.array(rows).T))

    def _variance(self, share: float | None) -> float:
        if share is not None:
            raise ShoalError("E_USAGE", "The expected error of a count is that of its mean.", hint="Leave share out.")
        return self.design.worst_mean_variance

    def remap(self, prior: Sequence[float], loss: str | Callable[[int, int], float] = "absolute") -> list[int]:
        """The optimal reading of each report, for what is believed beforehand and a loss(guess, truth).

        With it the mechanism is as good as any with the same promise for each step, whatever prior and loss (Ghosh,
        Roughgarden and Sundararajan).
        """
        known = LOSSES.get(loss) if isinstance(loss, str) else loss
        if known is None:
            raise ShoalError("E_USAGE", "There is no such loss.", hint=f"Choose one of {', '.join(LOSSES)}.")
        weights = np.asarray(prior, dtype=np.float64)
        if weights.shape != (self.upper + 1,) or not np.isfinite(weights).all() or (weights < 0).any():
            raise ShoalError("E_USAGE", f"A prior has {self.upper + 1} weights.", hint="Write [1] * (upper + 1).")
        return self.design.remap(weights.tolist(), known)
