"""Sets of owners that merge exactly: a list of hashes while that is the smaller form, then HyperLogLog registers.

Rank of an owner in M = 2^p registers: the first p bits of its hash choose the register, the place of the first 1
among the next 48 bits (49 when there is none) is the rank, and a register keeps the largest rank it saw. A list of n
hashes takes 8n bytes and the registers M, so a set is a list, and exact, up to M/8 owners. Which form a set has
follows from its owners alone, whatever the order they came in: that is what makes merged sketches equal to the last
byte.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.risk.hashing.siphash import Hashes, Positions

Registers = npt.NDArray[np.uint8]

RANK_BITS = 48
HIGHEST_RANK = RANK_BITS + 1
_SETTLE_AT = 1 << 17  # owners waiting to be sorted in


@dataclass(slots=True)
class OwnerBatch:
    """The owner hashes of a batch of rows, and their places in registers, worked out once for all columns."""

    hashes: Hashes
    _places: dict[int, tuple[Positions, Registers]] = field(default_factory=dict)
    _one_set: OwnerSets | None = None

    def __len__(self) -> int:
        return len(self.hashes)

    def places(self, bits: int) -> tuple[Positions, Registers]:
        """Register and rank of each owner among 2^bits registers."""
        if bits not in self._places:
            registers = (self.hashes >> np.uint64(64 - bits)).astype(np.int64)
            rest = (self.hashes << np.uint64(bits)) >> np.uint64(64 - RANK_BITS)
            # the exponent of the exact double tells the highest bit; a zero lands on rank 49
            exponent = (rest.astype(np.float64).view(np.uint64) >> np.uint64(52)).astype(np.int64) - 1023
            ranks = np.minimum(RANK_BITS - exponent, HIGHEST_RANK).astype(np.uint8)
            self._places[bits] = registers, ranks
        return self._places[bits]

    def as_one_set(self, registers: int) -> OwnerSets:
        """All owners of the batch in a single set."""
        if self._one_set is None:
            self._one_set = OwnerSets(registers, count=1)
            self._one_set.fill(self)
        return self._one_set

    def take(self, chosen: Positions) -> OwnerBatch:
        """Some of the rows."""
        known = {bits: (registers[chosen], ranks[chosen]) for bits, (registers, ranks) in self._places.items()}
        return OwnerBatch(self.hashes[chosen], known)


class OwnerSets:
    """A row of owner sets, numbered 0 to count − 1."""

    def __init__(self, registers: int, count: int = 0) -> None:
        self.registers_per_set = registers
        self.longest_list = registers // 8
        self._bits = registers.bit_length() - 1
        self.count = count
        self.list_sets = np.empty(0, np.int64)  # for each listed owner the set it belongs to, ascending
        self.list_owners = np.empty(0, np.uint64)  # … and its hash, ascending within the set
        self.dense_sets = np.empty(0, np.int64)  # the sets that are registers, ascending
        self.registers = np.empty((0, registers), np.uint8)  # … in the same order
        self._waiting: list[tuple[Positions, Hashes]] = []
        self._waiting_count = 0

    def add(self, sets: Positions, owners: OwnerBatch) -> None:
        """Put the owner of each row into the set of that row."""
        rows = self._dense_row_of_set()[sets]
        listed = np.flatnonzero(rows < 0)
        if len(listed) < len(rows):
            self._raise_registers(rows, owners, listed)
        if len(listed):
            everything = len(listed) == len(rows)
            self._wait(sets if everything else sets[listed], owners.hashes if everything else owners.hashes[listed])

    def fill(self, owners: OwnerBatch) -> None:
        """Put owners into a single empty set; where the first of them make it registers, none is ever listed."""
        look = owners.hashes[: 8 * self.longest_list]
        if len(np.unique(look)) > self.longest_list:
            self._make_dense(np.zeros(1, np.int64))
        self.add(np.zeros(len(owners), np.int64), owners)
        self.settle()

    def _wait(self, sets: Positions, owners: Hashes) -> None:
        self._waiting.append((sets, owners))
        self._waiting_count += len(sets)
        if self._waiting_count >= _SETTLE_AT:
            self.settle()

    def _raise_registers(self, rows: Positions, owners: OwnerBatch, listed: Positions) -> None:
        registers, ranks = owners.places(self._bits)
        if len(listed):
            dense = np.flatnonzero(rows >= 0)
            rows, registers, ranks = rows[dense], registers[dense], ranks[dense]
        _raise(self.registers.reshape(-1), rows * self.registers_per_set + registers, ranks)

    def rename(self, new_numbers: Positions, count: int) -> None:
        """Give set i the number new_numbers[i]; a negative number drops it. The order of the sets stays."""
        self._waiting = [_renamed(sets, owners, new_numbers) for sets, owners in self._waiting]
        self._waiting_count = sum(len(sets) for sets, _ in self._waiting)
        self.list_sets, self.list_owners = _renamed(self.list_sets, self.list_owners, new_numbers)
        renamed = new_numbers[self.dense_sets]
        kept = np.flatnonzero(renamed >= 0)
        if len(kept) < len(renamed):
            self.registers = self.registers[kept]
        self.dense_sets, self.count = renamed[kept], count

    def settle(self) -> None:
        """Sort the waiting owners in; lists that grew too long become registers."""
        if not self._waiting:
            return
        sets = np.concatenate([self.list_sets, *(sets for sets, _ in self._waiting)])
        owners = np.concatenate([self.list_owners, *(owners for _, owners in self._waiting)])
        self._waiting, self._waiting_count = [], 0
        sets, owners = sorted_pairs(sets, owners, self.count)
        lengths = np.bincount(sets, minlength=self.count)
        long = np.flatnonzero(lengths > self.longest_list)
        if len(long):
            in_long = (lengths > self.longest_list)[sets]
            self._make_dense(long)
            self._raise_registers(self._dense_row_of_set()[sets[in_long]], OwnerBatch(owners[in_long]), long[:0])
            sets, owners = sets[~in_long], owners[~in_long]
        self.list_sets, self.list_owners = sets, owners

    def _make_dense(self, sets: Positions) -> None:
        """Give these sets empty registers."""
        combined = np.concatenate([self.dense_sets, sets])
        order = np.argsort(combined, kind="stable")
        empty = np.zeros((len(sets), self.registers_per_set), np.uint8)
        self.registers = np.concatenate([self.registers, empty])[order]
        self.dense_sets = combined[order]

    def _dense_row_of_set(self) -> Positions:
        rows = np.full(self.count, -1, dtype=np.int64)
        rows[self.dense_sets] = np.arange(len(self.dense_sets))
        return rows

    def merge(self, other: OwnerSets, numbers: Positions) -> None:
        """Add the sets of another row of sets, its set i to the set numbers[i] of this one; negative: not at all."""
        self.settle()
        other.settle()
        dense = numbers[other.dense_sets]
        chosen = np.flatnonzero(dense >= 0)
        self._promote(np.setdiff1d(dense[chosen], self.dense_sets))
        rows = self._dense_row_of_set()[dense[chosen]]
        self.registers[rows] = np.maximum(self.registers[rows], other.registers[chosen])
        sets, owners = _renamed(other.list_sets, other.list_owners, numbers)
        if len(sets):
            self.add(sets, OwnerBatch(owners))
        self.settle()

    def _promote(self, sets: Positions) -> None:
        """Turn these lists into registers."""
        if not len(sets):
            return
        self._make_dense(sets)
        moved = np.isin(self.list_sets, sets)
        rows = self._dense_row_of_set()[self.list_sets[moved]]
        self._raise_registers(rows, OwnerBatch(self.list_owners[moved]), sets[:0])
        self.list_sets, self.list_owners = self.list_sets[~moved], self.list_owners[~moved]

    def list_lengths(self) -> Positions:
        """How many owners each set lists; 0 for those that are registers."""
        self.settle()
        return np.bincount(self.list_sets, minlength=self.count)

    def sizes(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """The number of owners of each set, and whether it is exact."""
        sizes = self.list_lengths().astype(np.float64)
        exact = np.ones(self.count, dtype=np.bool_)
        sizes[self.dense_sets] = cardinalities(self.registers)
        exact[self.dense_sets] = False
        return sizes, exact

    @property
    def relative_error(self) -> float:
        """The relative standard error of a set that is registers: 1.04/√M."""
        return 1.04 / math.sqrt(self.registers_per_set)


def _raise(flat: Registers, places: Positions, ranks: Registers) -> None:
    higher = np.flatnonzero(ranks > flat[places])
    np.maximum.at(flat, places[higher], ranks[higher])


def _renamed(sets: Positions, owners: Hashes, new_numbers: Positions) -> tuple[Positions, Hashes]:
    renamed = new_numbers[sets]
    if not len(renamed) or renamed.min() >= 0:
        return renamed, owners
    kept = renamed >= 0
    return renamed[kept], owners[kept]


def sorted_pairs(sets: Positions, owners: Hashes, count: int) -> tuple[Positions, Hashes]:
    """The distinct (set, owner) pairs in order.

    One sort by a 64-bit key, the set's number above the first bits of the owner; should two owners of a set agree in
    all of these bits, a full sort follows.
    """
    bits = max(1, (count - 1).bit_length())
    keys = (sets.astype(np.uint64) << np.uint64(64 - bits)) | (owners >> np.uint64(bits))
    order = np.argsort(keys)
    keys, sets, owners = keys[order], sets[order], owners[order]
    same_key, same_owner = keys[1:] == keys[:-1], owners[1:] == owners[:-1]
    if (same_key & ~same_owner).any():
        order = np.lexsort((owners, sets))
        sets, owners = sets[order], owners[order]
        same_key, same_owner = sets[1:] == sets[:-1], owners[1:] == owners[:-1]
    first = np.ones(len(sets), dtype=np.bool_)
    first[1:] = ~(same_key & same_owner)
    return sets[first], owners[first]


def cardinalities(registers: Registers) -> npt.NDArray[np.float64]:
    """The estimated number of owners behind each row of registers (Ertl's improved raw estimator: no tables).

    With C_k the number of registers at rank k, q = 48 and m registers: m²/(2 ln 2) over
    m·σ(C₀/m) + Σ_{k=1..q} C_k 2^{−k} + m·τ(1 − C_{q+1}/m)·2^{−q}.
    """
    count, m = registers.shape
    places = registers.astype(np.int64) + (HIGHEST_RANK + 1) * np.arange(count)[:, None]
    histogram = np.bincount(places.reshape(-1), minlength=count * (HIGHEST_RANK + 1)).reshape(count, HIGHEST_RANK + 1)
    inner = histogram[:, 1:-1] @ np.ldexp(1.0, -np.arange(1, RANK_BITS + 1))
    with np.errstate(divide="ignore"):  # all registers empty: σ is infinite and the estimate 0
        below = m * _sigma(histogram[:, 0] / m) + inner
        below += m * _tau(1 - histogram[:, -1] / m) * 2.0**-RANK_BITS
        return np.asarray(m * m / (2 * math.log(2)) / below, dtype=np.float64)


def _sigma(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """σ(x) = x + Σ_{k≥1} x^(2^k)·2^(k−1), infinite at 1."""
    total, power, weight = x.copy(), x.copy(), 1.0
    for _ in range(60):
        power = power * power
        total += power * weight
        weight *= 2
    return np.where(x == 1, np.inf, total)


def _tau(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """τ(x) = (1 − x − Σ_{k≥1} (1 − x^(2^−k))²·2^(−k))/3, zero at 0 and 1."""
    total, root, weight = 1 - x, x.copy(), 1.0
    for _ in range(60):
        root, weight = np.sqrt(root), weight / 2
        total = total - (1 - root) ** 2 * weight
    return np.where((x == 0) | (x == 1), 0.0, total / 3)
