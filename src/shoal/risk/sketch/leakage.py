"""What a sketch gives away about whether somebody is in it.

Whoever can add a target to a sketch and see whether it changes learns whether the target may have been there: no
change is certain for those inside, and rare for those outside. No accurate mergeable sketch can avoid it
(docs/theory/sketches.md). What can be computed is the *average* loss over targets of a HyperLogLog of m = 2^p
registers that has seen n owners:

    ε_n ≈ −Σ_{k≥1} 2^{−k} · ln(1 − (1 − 2^{−p−k})^n)

A small m and many owners hide an average target; a target whose register is rare is not hidden by that, and a list of
hashes hides nobody from whoever has the key.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.risk.sketch.estimate import exactly
from shoal.risk.sketch.measures import owners_of_one_set

if TYPE_CHECKING:
    from shoal.risk.sketch.khll import Sketch

_TERMS = 400  # the k-th term is below k·2^−k


def average_privacy_loss(registers: int, owners: float) -> float:
    """ε_n of a HyperLogLog set of 2^p registers at n owners; infinite at none.

    >>> round(average_privacy_loss(512, 10_000), 2), round(average_privacy_loss(512, 1_000_000), 4)
    (0.12, 0.0012)
    """
    if registers < 1 or registers & (registers - 1) or owners < 0 or not math.isfinite(owners):
        raise ShoalError("E_USAGE", "Registers are a power of two, and owners a number from 0.")
    if owners == 0:
        return math.inf
    k = np.arange(1, _TERMS + 1)
    unchanged = -np.expm1(owners * np.log1p(-np.ldexp(1.0 / registers, -k)))
    return float(-(np.ldexp(1.0, -k) * np.log(unchanged)).sum())


@dataclass(frozen=True, slots=True)
class Leakage:
    """What a sketch reveals to somebody who has its key."""

    keyed: bool
    values_with_listed_owners: float  # share of the kept values whose owners can be looked up exactly
    column_loss: float  # average ε of the set of all owners; infinite while it is a list
    median_value_loss: float | None  # average ε of the median set of registers, if there is one

    def to_dict(self) -> dict[str, object]:
        """All of it, for machines; an infinite loss is null."""
        return {
            "keyed": self.keyed,
            "values_with_listed_owners": self.values_with_listed_owners,
            "column_loss": self.column_loss if math.isfinite(self.column_loss) else None,
            "median_value_loss": self.median_value_loss,
        }


def leakage(sketch: Sketch) -> Leakage:
    """How exposed the owners in a sketch are."""
    sizes, exact = sketch.owners_of_value.sizes()
    listed = float(exact.mean()) if len(exact) else 0.0
    losses = [average_privacy_loss(sketch.m, float(size)) for size in sizes[~exact]]
    whole = exactly(0) if not sketch.rows else owners_of_one_set(sketch.owners_of_column)
    column = math.inf if whole.exact else average_privacy_loss(sketch.owners_of_column.registers_per_set, whole.value)
    return Leakage(sketch.key_id is not None, listed, column, float(np.median(losses)) if losses else None)
