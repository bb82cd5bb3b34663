"""What the tester found, as data: a verdict, and the event that witnesses it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from shoal.audit.tester.event_search import Booleans, View


@dataclass(frozen=True, slots=True)
class Witness:
    """The most telling event: where it was seen, how often, and the histograms around it.

    `count` of `samples` runs on `dataset` fell into the event, `neighbour_count` of `neighbour_samples` on `neighbour`.
    """

    dataset: Any
    neighbour: Any
    event: str
    count: int
    samples: int
    neighbour_count: int
    neighbour_samples: int
    view: View
    chosen: Booleans

    def to_dict(self) -> dict[str, object]:
        """The witness as a machine reads it."""
        return {
            "dataset": repr(self.dataset),
            "neighbour": repr(self.neighbour),
            "event": self.event,
            "count": self.count,
            "samples": self.samples,
            "neighbour_count": self.neighbour_count,
            "neighbour_samples": self.neighbour_samples,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run found.

    passed: no event contradicts (ε, δ).
    epsilon_lower: the mechanism's true ε at this δ is at least this, with the stated confidence.
    witness: the event behind epsilon_lower.
    power: the smallest ε at this δ the run would have caught with 99% chance on the events it looked at.
    """

    passed: bool
    epsilon: float
    delta: float
    epsilon_lower: float
    witness: Witness | None
    power: float
    confidence: float
    samples: int
    pairs: int

    def __str__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        claim = f"ε = {self.epsilon:.4g}, δ = {self.delta:.3g}"
        seen = f"from ε = {self.power:.4g} up" if math.isfinite(self.power) else "of no size"
        lines = [f"{verdict} ({claim}): true ε ≥ {self.epsilon_lower:.4g}; this run sees violations {seen}"]
        if self.witness is not None:
            w = self.witness
            lines.append(f"  event: {w.event}")
            lines.append(f"  {w.count} of {w.samples} on {_short(w.dataset)}")
            lines.append(f"  {w.neighbour_count} of {w.neighbour_samples} on {_short(w.neighbour)}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """The verdict as a machine reads it; a power that is not finite is None."""
        return {
            "passed": self.passed,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "epsilon_lower": self.epsilon_lower,
            "power": self.power if math.isfinite(self.power) else None,
            "confidence": self.confidence,
            "samples": self.samples,
            "pairs": self.pairs,
            "witness": self.witness.to_dict() if self.witness else None,
        }

    def plot(self, path: str | Path | None = None) -> Any:
        """The two histograms of the witness against the bound e^ε·q + δ, as a Matplotlib figure (extra: plot)."""
        from shoal.audit.plot import plot_verdict

        return plot_verdict(self, path)


def _short(dataset: Any) -> str:
    text = repr(dataset)
    return text if len(text) <= 100 else text[:97] + "..."
