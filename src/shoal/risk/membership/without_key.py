"""Is this person in the sketch? What somebody without the key can say who knows other sketches that hold them.

The target's place (bucket and rank, or the hash itself where a sketch is a list) is unknown. Each sketch that is known to hold
the target multiplies the chance of a place by the ratio of that sketch; on the sketch in question the ratio is averaged over
the places. A key slows an insider down; ten sketches undo it. One key for each dataset would stop this, and merging too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.risk.membership.posterior import HASHES, Posterior, believed, check_counts_owners, checked_prior
from shoal.risk.membership.ratios import Floats, chances_of_ranks, ratio_table
from shoal.risk.sketch.owner_sets import OwnerBatch, OwnerSets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.risk.hashing.siphash import Hashes
    from shoal.risk.sketch.khll import Sketch


@dataclass(frozen=True, slots=True)
class Places:
    """Where the target may be, and how likely: all (bucket, rank) pairs, or some hashes."""

    chances: Floats  # buckets × ranks, or one for each hash
    hashes: Hashes | None = None


def membership_without_key(sketches_with_target: Sequence[Sketch], sketch: Sketch, *, prior: float = 0.5) -> Posterior:
    """What somebody without the key learns about a target who is known to be in some sketches of the same key."""
    prior = checked_prior(prior)
    if not sketches_with_target:
        raise ShoalError(
            "E_USAGE", "Without a sketch that holds the target nothing can be said.", hint="Give one or more."
        )
    for one in (*sketches_with_target, sketch):
        check_counts_owners(one)
        if one.key_id != sketch.key_id:
            raise ShoalError("E_SKETCH", "The sketches have different keys.", hint="Only equal keys can be compared.")
    places = places_of_target([one.owners_of_column for one in sketches_with_target])
    ratio = float((places.chances * ratios_at(places, sketch.owners_of_column)).sum())
    count = len(sketches_with_target)
    return believed(
        prior, ratio, f"averaged over where {count} {'sketch' if count == 1 else 'sketches'} can have put the target"
    )


def places_of_target(sets: Sequence[OwnerSets]) -> Places:
    """The chances of all places after a look at sketches that hold the target."""
    places = _at_first(sets)
    chances = places.chances.copy()
    for one in sets:
        chances *= ratios_at(places, one)
    if not chances.sum() > 0:
        raise ShoalError("E_SKETCH", "No owner is in all of these sketches.", hint="They cannot all hold the target.")
    return Places(chances / chances.sum(), places.hashes)


def _at_first(sets: Sequence[OwnerSets]) -> Places:
    """Before a look: 2^{−ρ}/m for each place; where lists are known, the hashes on all of them."""
    lists = [one.list_owners for one in sets if not _is_dense(one)]
    if lists:
        common = lists[0]
        for listed in lists[1:]:
            common = np.intersect1d(common, listed)
        return Places(np.full(len(common), 1 / max(1, len(common))), common)
    registers = sets[0].registers_per_set
    return Places(np.tile(chances_of_ranks() / registers, (registers, 1)))


def ratios_at(places: Places, sets: OwnerSets) -> Floats:
    """The likelihood ratio of a set for every place."""
    size = float(sets.sizes()[0][0])
    if _is_dense(sets):
        table = ratio_table(sets.registers_per_set, size)
        if places.hashes is None:
            by_bucket: Floats = table[sets.registers[0]]
            return by_bucket
        buckets, ranks = OwnerBatch(places.hashes).places(sets.registers_per_set.bit_length() - 1)
        at_hash: Floats = table[sets.registers[0][buckets], ranks]
        return at_hash
    if places.hashes is not None:
        return np.where(np.isin(places.hashes, sets.list_owners), HASHES / max(1.0, size), 0.0)
    return _listed_in_places(places, sets, size)


def _listed_in_places(places: Places, sets: OwnerSets, size: float) -> Floats:
    """A list against places: as many of its hashes as are there, over as many as would be expected."""
    registers = len(places.chances)
    buckets, ranks = OwnerBatch(sets.list_owners).places(registers.bit_length() - 1)
    counts = np.zeros_like(places.chances)
    np.add.at(counts, (buckets, ranks), 1.0)
    expected = max(1.0, size) * chances_of_ranks() / registers
    return np.where(expected > 0, counts / np.maximum(expected, 1e-300), 0.0)


def _is_dense(sets: OwnerSets) -> bool:
    sets.settle()
    return bool(len(sets.dense_sets))
