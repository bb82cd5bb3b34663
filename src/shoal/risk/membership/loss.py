"""What a HyperLogLog sketch gives away on average, from its size alone.

With μ = n/m owners a register, a target of rank ρ (chance 2^{−ρ}) that is inside loses −ln(1 − (1 − 2^{−ρ}/m)^n) when nobody
else has raised the register that far, which happens with chance e^{−μ2^{−ρ}}.
"""

from __future__ import annotations

import math

import numpy as np

from shoal.frozen import dataclass
from shoal.risk.sketch.leakage import average_privacy_loss

_TERMS = 400


@dataclass(frozen=True, slots=True)
class SketchLoss:
    """Losses of a sketch with this many registers and owners."""

    registers: int
    owners: float
    average: float  # the published ε_n: the worst sketch for each target, averaged over targets
    expected: float  # what those inside lose on average over sketches too
    accuracy: float  # how often the best guess at prior ½ is right
    by_rank: tuple[tuple[int, float, float], ...]  # rank, share of owners, their largest loss

    def share_above(self, epsilon: float) -> float:
        """The share of owners whose largest loss is above ε."""
        return sum(share for _, share, loss in self.by_rank if loss > epsilon)

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {
            "registers": self.registers,
            "owners": self.owners,
            "average_epsilon": self.average if math.isfinite(self.average) else None,
            "expected_epsilon": self.expected if math.isfinite(self.expected) else None,
            "accuracy": self.accuracy,
        }


def sketch_loss(registers: int, owners: float) -> SketchLoss:
    """The losses of a HyperLogLog of 2^p registers at n owners.

    >>> loss = sketch_loss(512, 1000)
    >>> round(loss.average, 4), round(loss.expected, 4), round(loss.accuracy, 4)
    (1.0196, 0.7162, 0.6742)
    """
    average = average_privacy_loss(registers, owners)
    rank = np.arange(1, _TERMS + 1)
    share = np.ldexp(1.0, -rank)
    load = owners / registers
    unseen = np.exp(-load * share)
    if owners == 0:
        losses = np.full(_TERMS, math.inf)
        expected = math.inf
    else:
        losses = -np.log(-np.expm1(owners * np.log1p(-share / registers)))
        expected = float((share * unseen * -np.log(-np.expm1(-load * share))).sum())
    accuracy = 0.5 + 0.5 * float((share * np.exp(-load * 2 * share)).sum())
    by_rank = tuple(zip(rank.tolist(), share.tolist(), losses.tolist(), strict=True))
    return SketchLoss(registers, float(owners), average, expected, accuracy, by_rank)
