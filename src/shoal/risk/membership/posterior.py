"""Is this person in the sketch? What somebody with its key can say, exactly."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.risk.membership.ratios import posterior_of, ratio_table
from shoal.risk.sketch.khll import OwnedBy, Sketch
from shoal.risk.sketch.owner_sets import OwnerBatch, OwnerSets

if TYPE_CHECKING:
    from shoal.risk.hashing.siphash import Hashes

HASHES = 2.0**64


@dataclass(frozen=True, slots=True)
class Posterior:
    """What a belief becomes after a look at a sketch."""

    prior: float
    posterior: float
    likelihood_ratio: float
    why: str

    def __str__(self) -> str:
        return f"{self.prior:.4g} → {self.posterior:.4g} (likelihood ratio {self.likelihood_ratio:.4g}): {self.why}"

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {
            "prior": self.prior,
            "posterior": self.posterior,
            "likelihood_ratio": self.likelihood_ratio,
            "why": self.why,
        }


def believed(prior: float, ratio: float, why: str) -> Posterior:
    """The posterior for a likelihood ratio."""
    return Posterior(prior, posterior_of(prior, ratio), ratio, why)


def checked_prior(prior: object) -> float:
    """A belief strictly between 0 and 1."""
    if isinstance(prior, bool) or not isinstance(prior, numbers.Real) or not 0 < float(prior) < 1:
        raise ShoalError("E_USAGE", "prior must be above 0 and below 1.", hint="prior=0.5")
    return float(prior)


def membership(sketch: Sketch, owner: Any, *, value: Any = None, prior: float = 0.5) -> Posterior:
    """What the holder of a sketch and its key learns about an owner: in the column, or, with a value, having that value.

    The posterior is exact given how many owners there are, for which the sketch's own estimate is taken.

    >>> sketch = Sketch(key=b"a secret of the operator")
    >>> sketch.update(["Oslo", "Riga"], ["ann", "bob"])
    >>> membership(sketch, "ann").posterior > 0.999, membership(sketch, "eve").posterior
    (True, 0.0)
    """
    prior = checked_prior(prior)
    check_counts_owners(sketch)
    if owner is None:
        raise ShoalError("E_USAGE", "None is nobody: rows without an owner are not in a sketch.", hint="Name an owner.")
    hashed = sketch.hash_of_owner(owner)
    ratio, why = ratio_in(sketch.owners_of_column, 0, hashed)
    if value is None or ratio == 0:
        return believed(prior, ratio, why)
    return believed(prior, *_ratio_with_value(sketch, hashed, sketch.hash_of_value(value)))


def _ratio_with_value(sketch: Sketch, owner: Hashes, value: Hashes) -> tuple[float, str]:
    slot = int(np.searchsorted(sketch.hashes, value[0]))
    if slot < len(sketch.hashes) and sketch.hashes[slot] == value[0]:
        return ratio_in(sketch.owners_of_value, slot, owner)
    if len(sketch.hashes) < sketch.k or value[0] < sketch.hashes[-1]:
        return 0.0, "the value is not in the data: its hash would have been kept"
    return 1.0, "the value was not sampled: nothing is learned about it"


def ratio_in(sets: OwnerSets, number: int, owner: Hashes) -> tuple[float, str]:
    """The likelihood ratio of one set of owners, and why."""
    sets.settle()
    rows = np.flatnonzero(sets.dense_sets == number)
    if not len(rows):
        listed = sets.list_owners[sets.list_sets == number]
        if owner[0] in listed:
            return HASHES / max(1, len(listed)), "the owner's hash is on the list"
        return 0.0, "the owner's hash is not on the list"
    registers = sets.registers[rows[0]]
    (bucket,), (rank,) = OwnerBatch(owner).places(len(registers).bit_length() - 1)
    size = float(sets.sizes()[0][number])
    ratio = float(ratio_table(len(registers), size)[registers[bucket], rank])
    return ratio, _words(int(registers[bucket]), int(rank))


def _words(register: int, rank: int) -> str:
    if register < rank:
        return f"certainly absent: the owner would have raised a register to {rank}, and it is at {register}"
    if register == rank:
        return f"the register is exactly where the owner would have put it, at {rank}"
    return f"the register is at {register}, above the owner's {rank}: next to nothing is learned"


def check_counts_owners(sketch: object) -> None:
    """Only a sketch of owners says something about an owner."""
    if not isinstance(sketch, Sketch):
        raise ShoalError("E_USAGE", "membership takes a sketch.", hint="risk.Sketch, or one of risk.read_datasets(…)")
    if sketch.owned_by == OwnedBy.ROWS:
        raise ShoalError("E_SKETCH", "The sketch counts rows, not owners.", hint="Scan again with --owner.")
