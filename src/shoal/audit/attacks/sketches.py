"""Membership from distinct-count sketches: who is in a sketch that somebody shared?

HyperLogLog registers are nearly as telling as a list of identifiers. Four curators: a public hash; a keyed hash whose key the
attacker has; a secret key, with sketches that are known to hold the target (the places they agree on give the target away);
and a private sketch, with the key in the attacker's hands. The attacker knows how many owners a sketch has, holds even odds for
every target, and guesses by the exact likelihood ratio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.pages.figures import new_figure, saved
from shoal.risk.hashing.keys import Key
from shoal.risk.membership.ratios import chances_of_ranks, posterior_of, ratio_table
from shoal.risk.private.distinct_sketch import DistinctSketch
from shoal.risk.private.likelihood import weights
from shoal.risk.sketch.owner_sets import OwnerBatch

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Registers = NDArray[np.uint8]
    Hashes = NDArray[np.uint64]

_TARGETS = 200  # of each kind, for the attack that needs several sketches a target
_LOOKED_UP = 40_000  # targets of each kind, in as many sketches as that takes
_DECIDED = 0.95


@dataclass(frozen=True, slots=True)
class Curator:
    """How an attacker fares against one way to share sketches."""

    name: str
    accuracy: float  # at even odds
    median_posterior: float  # of those inside
    decided: float  # the share of targets, inside or not, of whom the attacker is sure beyond 95%

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {
            "curator": self.name,
            "accuracy": self.accuracy,
            "median_posterior": self.median_posterior,
            "decided": self.decided,
        }


@dataclass(frozen=True, slots=True)
class SketchAttack:
    """All curators under the same attack."""

    owners: int
    registers: int
    curators: tuple[Curator, ...]

    def curator(self, name: str) -> Curator:
        """The first curator whose name begins so."""
        return next(curator for curator in self.curators if curator.name.startswith(name))

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {
            "attack": "sketches",
            "secret": f"who is in a sketch of {self.owners} owners and {self.registers} registers",
            "guessing": 0.5,
            "curators": [curator.to_dict() for curator in self.curators],
        }

    def __str__(self) -> str:
        width = max(len(curator.name) for curator in self.curators)
        lines = [
            f"who is in a sketch of {self.owners:,} owners and {self.registers:,} registers (guessing gets 50.0%)",
            f"{'':<{width}}  right   belief in the median target inside   sure beyond 95%",
        ]
        lines += [
            f"{one.name:<{width}}  {one.accuracy:5.1%}  {one.median_posterior:34.1%}  {one.decided:16.1%}"
            for one in self.curators
        ]
        return "\n".join(lines)

    def plot(self, path: str | Path | None = None) -> Any:
        """A bar for each curator, as a Matplotlib figure (extra: plot)."""
        figure, axes = new_figure("A plot of an attack")
        names = [curator.name for curator in self.curators]
        axes.barh(names, [curator.accuracy for curator in self.curators], color="#b3312c")
        axes.axvline(0.5, color="#5a5a5a", linestyle="--", label="guessing")
        axes.set(title=self.to_dict()["secret"], xlabel="share of targets identified correctly", xlim=(0, 1))
        axes.invert_yaxis()
        axes.legend(frameon=False)
        return saved(figure, path)


def sketches(
    *, owners: int = 1000, registers: int = 4096, known_sketches: int = 10, epsilon: float = 1.0, seed: int = 0
) -> SketchAttack:
    """Tell who is in a sketch, half of the targets inside.

    >>> found = sketches(owners=300, registers=1024, known_sketches=1)
    >>> found.curator("public").accuracy > 0.8, found.curator("private").accuracy < 0.8
    (True, True)
    """
    if registers < 16 or registers & (registers - 1) or registers > 1 << 16 or not 2 <= owners <= 10**6:
        raise ShoalError("E_USAGE", "registers are a power of two from 16 to 65536, owners from 2 to a million.")
    if not 1 <= known_sketches <= 100:
        raise ShoalError("E_USAGE", "known_sketches must be from 1 to 100.", hint="known_sketches=10")
    rng = np.random.default_rng(seed)
    times = max(1, min(20, _LOOKED_UP // owners))
    keys = [Key(rng.bytes(32)) for _ in range(times)]
    known = "1 sketch" if known_sketches == 1 else f"{known_sketches} sketches"
    return SketchAttack(
        owners,
        registers,
        (
            _looked_up("public hash", [Key(None)] * times, owners, registers, None),
            _looked_up("secret key, and the attacker has it", keys, owners, registers, None),
            _without_key(f"secret key, {known} known", owners, registers, known_sketches, rng),
            _looked_up(f"private sketch, ε = {epsilon:g}, key known", keys, owners, registers, epsilon),
        ),
    )


def _judged(name: str, inside: Floats, outside: Floats) -> Curator:
    """What likelihood ratios are worth; a ratio of exactly 1 is guessed, and a coin is right half of the time."""
    right = np.concatenate((_right(inside), 1 - _right(outside)))
    beliefs = np.array([posterior_of(0.5, float(ratio)) for ratio in np.concatenate((inside, outside))])
    decided = (beliefs > _DECIDED) | (beliefs < 1 - _DECIDED)
    return Curator(name, float(right.mean()), float(np.median(beliefs[: len(inside)])), float(decided.mean()))


def _right(ratios: Floats) -> Floats:
    return np.where(ratios > 1, 1.0, np.where(ratios < 1, 0.0, 0.5))


def _registers(hashes: Hashes, registers: int) -> Registers:
    buckets, ranks = OwnerBatch(hashes).places(registers.bit_length() - 1)
    filled: Registers = np.zeros(registers, np.uint8)
    np.maximum.at(filled, buckets, ranks)
    return filled


def _looked_up(name: str, keys: list[Key], owners: int, registers: int, epsilon: float | None) -> Curator:
    """Look targets up in one sketch after the other: those inside, and as many strangers."""
    inside, outside = [], []
    for number, key in enumerate(keys):
        everyone = np.arange(2 * owners * number, 2 * owners * (number + 1))
        hashes = DistinctSketch(key=key).hashes_of(everyone)
        ratios = (
            _in_registers(hashes, owners, registers)
            if epsilon is None
            else _in_bits(hashes, owners, registers, epsilon)
        )
        inside.append(ratios[:owners])
        outside.append(ratios[owners:])
    return _judged(name, np.concatenate(inside), np.concatenate(outside))


def _in_registers(hashes: Hashes, owners: int, registers: int) -> Floats:
    """The ratios of everybody in a HyperLogLog of the first owners."""
    filled, table = _registers(hashes[:owners], registers), ratio_table(registers, owners)
    buckets, ranks = OwnerBatch(hashes).places(registers.bit_length() - 1)
    ratios: Floats = table[filled[buckets], ranks]
    return ratios


def _without_key(name: str, owners: int, registers: int, known: int, rng: np.random.Generator) -> Curator:
    """For each target: sketches that hold it, each with fresh others, and one that does or does not."""
    table = ratio_table(registers, owners)
    inside = [_mean_ratio(table, owners, registers, known, rng, there=True) for _ in range(_TARGETS)]
    outside = [_mean_ratio(table, owners, registers, known, rng, there=False) for _ in range(_TARGETS)]
    return _judged(name, np.array(inside), np.array(outside))


def _mean_ratio(
    table: Floats, owners: int, registers: int, known: int, rng: np.random.Generator, *, there: bool
) -> float:
    """The mean ratio of the sketch in question over the places where the known ones can have put the target."""
    target = rng.integers(0, 2**64, 1, dtype=np.uint64)
    held = [_holding(target, owners, registers, rng) for _ in range(known)]
    asked = _holding(target if there else target[:0], owners, registers, rng)
    ranks = slice(1, max(int(one.max()) for one in held) + 1)
    chances = np.broadcast_to(chances_of_ranks()[ranks], (registers, ranks.stop - 1)).copy()
    for one in held:
        chances *= table[one, ranks]
    return float((chances * table[asked, ranks]).sum() / chances.sum())


def _holding(target: Hashes, owners: int, registers: int, rng: np.random.Generator) -> Registers:
    others = rng.integers(0, 2**64, owners - len(target), dtype=np.uint64)
    return _registers(np.concatenate((target, others)), registers)


def _in_bits(hashes: Hashes, owners: int, registers: int, epsilon: float) -> Floats:
    """The ratios of everybody in a private sketch: a bit is 1 with chance p for those inside, and nearly as often else."""
    raw = DistinctSketch(buckets=registers)
    raw.absorb(OwnerBatch(hashes[:owners]))
    released = raw.release(epsilon)
    buckets, ranks = OwnerBatch(hashes).places(registers.bit_length() - 1)
    levels = np.minimum(ranks.astype(np.int64) - 1, released.levels - 1)
    filled = -np.expm1(-(owners - 1) * weights(released.levels, registers))[levels]
    ones = released.noise + (released.keep - released.noise) * filled
    seen = released.bits[levels, buckets]
    return np.where(seen, released.keep / ones, (1 - released.keep) / (1 - ones))
