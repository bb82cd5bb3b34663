"""What a release keeps from an attacker who does not know everything: assumptions first, then numbers."""

from __future__ import annotations

import math
import numbers
from dataclasses import field
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.knowledge.distributions import LEFT_OUT

if TYPE_CHECKING:
    from pathlib import Path

    from shoal.knowledge.losses import Loss

LARGEST_EPSILON = 500.0
_UP = 1 + 1e-9
_PRIORS = (0.01, 0.1, 0.5)
NOTHING = "nothing"


@dataclass(frozen=True, eq=False, repr=False)
class Guarantee:
    """The curve (ε, δ) of a release, together with its assumptions.

    Not differential privacy: it holds while the attacker's ignorance is as stated. `delta_at` never understates.
    """

    release: str
    loss: Loss
    method: str
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    against_everybody: tuple[float, float] | None = None
    _found: dict[float, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.assumptions:
            raise ShoalError("E_USAGE", "A conditional promise must state its assumptions.")

    def delta_at(self, epsilon: float) -> float:
        """The δ at this ε, rounded up.

        >>> from shoal import knowledge
        >>> round(knowledge.count(1000, uncertainty=0.05).delta_at(0.5), 7)
        9.36e-05
        """
        epsilon = checked_epsilon(epsilon)
        if self.against_everybody is not None and epsilon >= self.against_everybody[0]:
            return self.against_everybody[1]
        epsilon = min(epsilon, LARGEST_EPSILON)
        if epsilon not in self._found:
            self._found[epsilon] = min(1.0, max(0.0, self.loss.delta(epsilon)) * _UP + LEFT_OUT)
        return self._found[epsilon]

    def epsilon_at(self, delta: float) -> float:
        """The smallest ε found with delta_at(ε) ≤ δ, to one part in 10⁹; infinite where there is none.

        >>> from shoal import knowledge
        >>> round(knowledge.count(500, uncertainty=0.1).epsilon_at(1e-6), 4)
        0.7629
        """
        delta = checked_delta(delta)
        if self.delta_at(0.0) <= delta:
            return 0.0
        high = 1.0 / 16
        while self.delta_at(high) > delta:
            if high >= LARGEST_EPSILON:
                return math.inf
            high = min(2 * high, LARGEST_EPSILON)
        return self._between(high / 2 if high > 1 / 16 else 0.0, high, delta)

    def _between(self, low: float, high: float, delta: float) -> float:
        """Regula falsi on ln δ, with a bisection whenever it stalls; the upper end always keeps δ."""
        above, below = math.log(self.delta_at(low) / delta), math.log(max(self.delta_at(high), 1e-300) / delta)
        while high - low > 1e-9 * high:
            share = above / (above - below) if above > below else 0.5
            for weight in (min(0.98, max(0.02, share)), 0.5):
                middle = low + weight * (high - low)
                height = math.log(max(self.delta_at(middle), 1e-300) / delta)
                if height > 0:
                    low, above = middle, height
                else:
                    high, below = middle, height
        return high

    @property
    def smallest_delta(self) -> float:
        """What δ never falls below: the chance that the release itself gives the target away."""
        if self.against_everybody is not None:
            return 0.0
        return min(1.0, self.loss.smallest * _UP)

    def curve(self, points: int = 200) -> list[tuple[float, float]]:
        """(ε, δ) from ε = 0 to where δ is a millionth of a millionth, or falls no further."""
        if isinstance(points, bool) or not isinstance(points, int) or not 2 <= points <= 10_000:
            raise ShoalError("E_USAGE", "points must be a whole number from 2 to 10000.")
        end = self.epsilon_at(max(1e-12, min(0.999, 1.001 * self.smallest_delta)))
        end = min(20.0, end) or 1.0
        return [(end * i / (points - 1), self.delta_at(end * i / (points - 1))) for i in range(points)]

    def meaning(self, epsilon: float) -> list[dict[str, float]]:
        """What an attacker's belief about the target can become at this ε, but for a chance of δ."""
        odds = math.exp(min(epsilon, LARGEST_EPSILON))
        return [{"prior": prior, "posterior": prior * odds / (prior * odds + 1 - prior)} for prior in _PRIORS]

    def at(self, *, epsilon: float | None = None, delta: float | None = None) -> tuple[float, float]:
        """The pair (ε, δ) of which one was given."""
        if (epsilon is None) == (delta is None):
            raise ShoalError("E_USAGE", "Give either epsilon or delta.", hint="epsilon=1 or delta=1e-6")
        if epsilon is not None:
            return float(epsilon), self.delta_at(epsilon)
        found = self.epsilon_at(checked_delta(delta))
        return found, float(checked_delta(delta))

    def keeps(self, epsilon: float, delta: float) -> bool:
        """Whether (ε, δ) holds under the assumptions."""
        return self.delta_at(epsilon) <= checked_delta(delta)

    def to_dict(self, *, epsilon: float | None = None, delta: float | None = None) -> dict[str, Any]:
        """Everything for machines, assumptions first; an infinite ε is null. Without ε or δ: the ε at δ = 10⁻⁶."""
        at_epsilon, at_delta = self.at(epsilon=epsilon, delta=1e-6 if epsilon is None and delta is None else delta)
        return {
            "assumptions": list(self.assumptions),
            "warnings": list(self.warnings),
            "method": self.method,
            "epsilon": at_epsilon if math.isfinite(at_epsilon) else None,
            "delta": at_delta,
            "smallest_delta": self.smallest_delta,
            "against_everybody": None if self.against_everybody is None else list(self.against_everybody),
            "meaning": self.meaning(at_epsilon) if math.isfinite(at_epsilon) else None,
        }

    def to_text(self, *, epsilon: float | None = None, delta: float | None = None) -> str:
        """Assumptions, then the number, then what holds against everybody, then warnings."""
        at_epsilon, at_delta = self.at(epsilon=epsilon, delta=1e-6 if epsilon is None and delta is None else delta)
        lines = [f"{self.release}. This holds only if:", *(f"  - {sentence}" for sentence in self.assumptions)]
        lines.append(self.sentence(at_epsilon, at_delta))
        lines.append(f"Against somebody who knows all other answers: {self.worst_words}.")
        return "\n".join([*lines, *(f"Warning: {warning}" for warning in self.warnings)])

    def sentence(self, epsilon: float, delta: float) -> str:
        """The number, in words."""
        how = {"exact": "exact", "worst case": "exact worst case", "blanket": "upper bound", "grid": "upper bound"}
        if math.isinf(epsilon):
            return (
                f"No ε has δ = {delta:.3g}: with a chance of up to {self.smallest_delta:.3g} the release itself gives the "
                "target away."
            )
        return f"Then ε = {rounded_up(epsilon)} with δ = {rounded_up(delta)} ({how[self.method]})."

    def epsilon_words(self, delta: float) -> str:
        """The ε at this δ, as it is shown."""
        epsilon = self.epsilon_at(delta)
        return rounded_up(epsilon) if math.isfinite(epsilon) else "none"

    @property
    def worst_words(self) -> str:
        """What is left when the assumptions fail."""
        if self.against_everybody is None:
            return NOTHING
        return f"ε = {rounded_up(self.against_everybody[0])}, by the noise alone"

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        return f"Guarantee({self.release!r}, {self.method}, under {len(self.assumptions)} assumptions)"

    def _repr_html_(self) -> str:
        from shoal.knowledge.page import fragment

        return fragment(self)

    def to_html(self, path: str | Path) -> None:
        """A page that needs nothing but a browser."""
        from shoal.knowledge.page import whole_page
        from shoal.pages import write_page

        write_page(whole_page(self), path)

    def plot(self, path: str | Path | None = None) -> Any:
        """The curve as a Matplotlib figure (extra: plot), its assumptions above it."""
        from shoal.knowledge.page import draw

        return draw(self, path)


def rounded_up(value: float) -> str:
    """Three digits, never below the value.

    >>> rounded_up(0.76286), rounded_up(1e-6), rounded_up(0.0)
    ('0.763', '1e-06', '0')
    """
    if value == 0:
        return "0"
    shown = float(f"{value:.3g}")
    if shown < value * (1 - 1e-12):
        shown += 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{shown:.3g}"


def checked_epsilon(value: object) -> float:
    """An ε from 0."""
    number = _number(value, "epsilon")
    if number < 0:
        raise ShoalError("E_USAGE", "epsilon must be at least 0.", hint="epsilon=1")
    return number


def checked_delta(value: object) -> float:
    """A δ above 0 and below 1."""
    number = _number(value, "delta")
    if not 0 < number < 1:
        raise ShoalError("E_USAGE", "delta must be above 0 and below 1.", hint="delta=1e-6")
    return number


def _number(value: object, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise ShoalError("E_USAGE", f"{name} must be a finite number.", hint=f"{name}=0.5")
    return float(value)


def assumptions_about(people: int, known: int, chances: str, group: int = 1) -> tuple[str, ...]:
    """What every release here assumes."""
    some = f"The attacker knows the answers of {known:,} of {people:,} people, and the target is not one of them."
    return (
        some if known else "The attacker knows nobody's answer.",
        "What the attacker knows is independent of the target's answer.",
        "The answers of different people are independent of each other"
        + (", outside the target's group." if group > 1 else "."),
        chances,
    )


def spread_words(uncertainty: float) -> str:
    """What `uncertainty` says."""
    return f"Everybody unknown to the attacker says yes with a chance from {uncertainty:g} to {1 - uncertainty:g}."


def chances_words() -> str:
    """What `probabilities` says."""
    return "Everybody unknown to the attacker says yes with exactly the chance that was given for them."


def ignorance_warnings(people: int, unknown: int, uncertainty: float | None, smallest: float) -> tuple[str, ...]:
    """Signs that the assumptions carry more than they can bear."""
    warnings = []
    if uncertainty is not None and uncertainty < 0.01:
        warnings.append(f"An uncertainty of {uncertainty:g} is hard to defend: a single well-known person breaks it.")
    if smallest > 1 / people:
        warnings.append(f"With a chance of up to {smallest:.2g} the release itself gives the target away.")
    if unknown < 30:
        warnings.append(f"Only {unknown} other people are unknown to the attacker.")
    return tuple(warnings)


def expectation_warning(threshold: int, expected: float) -> tuple[str, ...]:
    """A threshold that is meant for rare answers, and is below what is expected."""
    if threshold >= expected:
        return ()
    return (f"The threshold {threshold} is below the {expected:g} yes that are expected at most: it hides little.",)
