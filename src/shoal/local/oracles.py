"""Oracles: randomisers of one value out of k, of which each report *supports* a set of values.

p is the chance that a report supports its sender's value, q that it supports another one. The share of a value is estimated
by (c/n − q)/(p − q), c the number of reports that support it: unbiased, because p and q are the rationals that are really
drawn. Each class carries its proof note; `projective` has its own file.

    >>> from shoal.local.weights import weights_for
    >>> subset = best_subset(3, weights_for(Fraction(1)))
    >>> subset.size, round(float(subset.chances[0]), 4)
    (1, 0.5761)
"""

from __future__ import annotations

import hashlib
import itertools
import math
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from shoal.frozen import dataclass
from shoal.local.client import PRIME
from shoal.local.projective import Projective, best_shape, spread
from shoal.local.weights import weights_for
from shoal.mechanisms.sampling.samplers import below, bernoulli, coins

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from shoal.local.reports import Columns
    from shoal.local.weights import Weights
    from shoal.mechanisms.entropy import Entropy

Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

MOST_SUBSET_VALUES = 4096
MOST_BUCKETS = 1 << 20
CELLS_AT_ONCE = 1 << 22
WITHIN = 1.05
"""`auto` takes the smallest report among the oracles whose variance is within this factor of the best."""


class Oracle(Protocol):
    """What a question of k values needs to know about its randomiser."""

    name: str

    @property
    def parameters(self) -> dict[str, Any]:
        """What the question writes down beside the weights."""

    @property
    def chances(self) -> tuple[Fraction, Fraction]:
        """(p, q) of one report, exactly."""

    @property
    def message_bits(self) -> int:
        """Bits that a report takes."""

    @property
    def schema(self) -> dict[str, tuple[str, int]]:
        """Column → (type, width)."""

    def draw(self, own: Any, entropy: Entropy) -> Columns:
        """One report for each value."""

    def is_valid(self, columns: Columns) -> Flags:
        """Which rows could have come from the client."""

    def support(self, columns: Columns) -> Indices:
        """How many reports support each value."""

    def parse(self, answer: object) -> tuple[Any, ...] | None:
        """The cells of a JSON answer."""

    def write(self, columns: Columns) -> Iterator[object]:
        """JSON answers."""

    def reports(self) -> int:
        """How many different reports there are."""

    def matrix(self) -> list[list[Fraction]]:
        """rows[i][j] = P[report j | value i]."""


def variance(oracle: Oracle, share: float) -> float:
    """n·Var of the estimated share, for a value with this true share."""
    p, q = oracle.chances
    return spread(float(p), float(q), share)


@dataclass(frozen=True)
class Subset:
    """w of the k values; w = 1 is k-ary randomized response.

    *Proof note.* Precondition: 1 ≤ w < k. A set has weight w₁ when it holds the own value and w₀ otherwise; C(k−1, w−1)
    sets hold it whatever it is, so all values share one normaliser. Postcondition: P[S | v] ≤ (w₁/w₀)·P[S | v′].
    """

    values: int
    weights: Weights
    size: int
    name = "subset"

    @property
    def parameters(self) -> dict[str, Any]:
        """How many values a report holds."""
        return {"size": self.size}

    @cached_property
    def chances(self) -> tuple[Fraction, Fraction]:
        """(p, q): w·e/(w·e + k − w), and the chance of another value, averaged over both kinds of sets."""
        k, w, e = self.values, self.size, self.weights.ratio
        total = w * e + k - w
        return w * e / total, (w * e * (w - 1) + (k - w) * w) / ((k - 1) * total)

    @property
    def message_bits(self) -> int:
        """Bits that number all subsets."""
        return (math.comb(self.values, self.size) - 1).bit_length()

    @property
    def schema(self) -> dict[str, tuple[str, int]]:
        """Places in the list, ascending."""
        return {"chosen": ("<i4", self.size)}

    def draw(self, own: Indices, entropy: Entropy) -> Columns:
        """A coin for the own value, then a uniform set of the others (Floyd's algorithm, all rows at once)."""
        held = bernoulli([self.chances[0]], np.zeros(len(own), dtype=np.int64), entropy)
        if self.size == 1:
            other = below(self.values - 1, len(own), entropy)
            return {"chosen": np.where(held, own, other + (other >= own)).astype("<i4")}
        rows = max(1, CELLS_AT_ONCE // self.values)
        parts = [slice(start, start + rows) for start in range(0, len(own), rows)]
        chosen = [self._sets(own[part], held[part], entropy) for part in parts]
        return {"chosen": np.concatenate([np.zeros((0, self.size), dtype="<i4"), *chosen])}

    def _sets(self, own: Indices, held: Flags, entropy: Entropy) -> npt.NDArray[Any]:
        """Sets as flags of the others; where the own value is held, the last of Floyd's w steps is left out."""
        count, rows = self.values - 1, np.arange(len(own))
        flags = np.zeros((len(own), self.values), dtype=bool)
        # A set of w − 1 others starts one step later, so that the last step is the same for all rows.
        for step in range(self.size):
            last = count - self.size + step
            active = ~held | (step > 0)
            pick = below(last + 1, len(own), entropy)
            taken = flags[rows, pick]
            position = np.where(taken, last, pick)
            flags[rows[active], position[active]] = True
        chosen = np.flatnonzero(flags) % self.values
        return self._with_own(chosen, own, held)

    def _with_own(self, others: Indices, own: Indices, held: Flags) -> npt.NDArray[Any]:
        sizes = self.size - held.astype(np.int64)
        row = np.repeat(np.arange(len(own)), sizes)
        others = others + (others >= own[row])
        keys = np.concatenate((row * self.values + others, np.flatnonzero(held) * self.values + own[held]))
        keys.sort()
        return (keys % self.values).reshape(len(own), self.size).astype("<i4")

    def is_valid(self, columns: Columns) -> Flags:
        """Which rows are w ascending positions of the list."""
        chosen = columns["chosen"].reshape(-1, self.size)
        inside = (chosen >= 0).all(axis=1) & (chosen < self.values).all(axis=1)
        return np.asarray(inside & (np.diff(chosen, axis=1) > 0).all(axis=1))

    def support(self, columns: Columns) -> Indices:
        """How often each value was chosen."""
        return np.bincount(columns["chosen"].ravel(), minlength=self.values)

    def parse(self, answer: object) -> tuple[Any, ...] | None:
        """A sorted list of w different positions."""
        if not isinstance(answer, list) or len(answer) != self.size:
            return None
        if not all(type(position) is int and 0 <= position < self.values for position in answer):
            return None
        return (answer,) if all(a < b for a, b in itertools.pairwise(answer)) else None

    def write(self, columns: Columns) -> Iterator[object]:
        """Lists of positions, of one position too."""
        yield from columns["chosen"].reshape(-1, self.size).tolist()

    def reports(self) -> int:
        """C(k, w)."""
        return math.comb(self.values, self.size)

    def matrix(self) -> list[list[Fraction]]:
        """Over all subsets, in lexicographic order."""
        k, w = self.values, self.size
        total = math.comb(k - 1, w - 1) * self.weights.inside + math.comb(k - 1, w) * self.weights.outside
        inside, outside = Fraction(self.weights.inside, total), Fraction(self.weights.outside, total)
        sets = [frozenset(positions) for positions in itertools.combinations(range(k), w)]
        return [[inside if value in positions else outside for positions in sets] for value in range(k)]


@dataclass(frozen=True)
class Unary:
    """One bit a value: the own bit is set with chance ½, every other with q = w₀/(w₀ + w₁).

    *Proof note.* Two values differ in two bits only; the likelihood ratio of a report is at most (½·(1 − q))/(q·½) =
    w₁/w₀, reached where the one bit is set and the other is not. With `keep` = p₂ (longitudinal), every permanent bit is
    flipped with chance 1 − p₂ in each report: then q′ = q·p₂ + (1 − q)(1 − p₂) takes the place of q in one report, and all
    reports together are post-processing of the permanent bits.
    """

    values: int
    weights: Weights
    keep: Fraction | None = None
    name = "unary"

    @property
    def parameters(self) -> dict[str, Any]:
        """Of longitudinal questions, p₂."""
        return {} if self.keep is None else {"keep": self.keep}

    @cached_property
    def chances(self) -> tuple[Fraction, Fraction]:
        """(½, q) of one report."""
        rare = 1 / (self.weights.ratio + 1)
        if self.keep is not None:
            rare = rare * self.keep + (1 - rare) * (1 - self.keep)
        return Fraction(1, 2), rare

    @property
    def message_bits(self) -> int:
        """One bit a value."""
        return self.values

    @property
    def schema(self) -> dict[str, tuple[str, int]]:
        """Bytes; value 0 is the lowest bit of the first."""
        return {"bits": ("u1", (self.values + 7) // 8)}

    def draw(self, own: Indices, entropy: Entropy) -> Columns:
        """Bits as one report has them: the flips of a longitudinal question are part of the chances."""
        rows = max(1, CELLS_AT_ONCE // self.values)
        parts = [self._bits(own[start : start + rows], entropy) for start in range(0, len(own), rows)]
        return {"bits": np.concatenate([np.zeros((0, self.schema["bits"][1]), dtype=np.uint8), *parts])}

    def _bits(self, own: Indices, entropy: Entropy) -> npt.NDArray[np.uint8]:
        flags = coins(self.chances[1], len(own) * self.values, entropy).reshape(len(own), self.values)
        flags[np.arange(len(own)), own] = coins(Fraction(1, 2), len(own), entropy)
        return np.packbits(flags, axis=1, bitorder="little")

    def is_valid(self, columns: Columns) -> Flags:
        """Which rows have no bits beyond the last value."""
        rest = self.values % 8
        bits = columns["bits"].reshape(-1, (self.values + 7) // 8)
        return np.asarray(bits[:, -1] >> rest == 0) if rest else np.ones(len(bits), dtype=bool)

    def support(self, columns: Columns) -> Indices:
        """How often each bit is set."""
        bits = columns["bits"].reshape(-1, (self.values + 7) // 8)
        counts = np.zeros(self.values, dtype=np.int64)
        rows = max(1, CELLS_AT_ONCE // self.values)
        for start in range(0, len(bits), rows):
            flags = np.unpackbits(bits[start : start + rows], axis=1, count=self.values, bitorder="little")
            counts += flags.sum(axis=0, dtype=np.int64)
        return counts

    def parse(self, answer: object) -> tuple[Any, ...] | None:
        """Hexadecimal digits, as many as the bits take."""
        if not isinstance(answer, str) or len(answer) != (self.values + 3) // 4 or not _is_hex(answer):
            return None
        number = int(answer, 16)
        return (list(number.to_bytes((self.values + 7) // 8, "little")),) if number >> self.values == 0 else None

    def write(self, columns: Columns) -> Iterator[object]:
        """Hexadecimal digits; value 0 is the lowest bit."""
        for row in columns["bits"].reshape(-1, (self.values + 7) // 8):
            yield format(int.from_bytes(row.tobytes(), "little"), f"0{(self.values + 3) // 4}x")

    def reports(self) -> int:
        """2^k."""
        return 1 << self.values

    def matrix(self) -> list[list[Fraction]]:
        """Over all 2^k reports, as numbers."""
        rare = self.chances[1]
        powers = [rare**ones * (1 - rare) ** (self.values - 1 - ones) / 2 for ones in range(self.values)]
        return [
            [powers[(report & ~(1 << value)).bit_count()] for report in range(1 << self.values)]
            for value in range(self.values)
        ]


def _is_hex(text: str) -> bool:
    return set(text) <= set("0123456789abcdef")


@dataclass(frozen=True)
class Hashing:
    """A random hash into g buckets, and the own value's bucket by g-ary randomized response: no list on the client.

    *Proof note.* The seed is independent of the value. Given the seed, the own bucket has weight w₁ and each other w₀, one
    normaliser for all values: P[seed, b | v] ≤ (w₁/w₀)·P[seed, b | v′] for every seed, whatever the hash is worth. Only q =
    1/g takes the hash for an ideal one.
    """

    texts: tuple[str | int, ...]
    weights: Weights
    buckets: int
    name = "hashing"

    @property
    def parameters(self) -> dict[str, Any]:
        """How many buckets there are."""
        return {"buckets": self.buckets}

    @cached_property
    def chances(self) -> tuple[Fraction, Fraction]:
        """(e/(e + g − 1), 1/g)."""
        ratio = self.weights.ratio
        return ratio / (ratio + self.buckets - 1), Fraction(1, self.buckets)

    @property
    def message_bits(self) -> int:
        """The seed and the bucket."""
        return 64 + (self.buckets - 1).bit_length()

    @property
    def schema(self) -> dict[str, tuple[str, int]]:
        """Seeds and buckets."""
        return {"seed": ("<u8", 1), "bucket": ("<u4", 1)}

    def draw(self, own: Indices, entropy: Entropy) -> Columns:
        """Reports for values given as positions in `texts`."""
        seeds = entropy.uint64(len(own))
        slopes, offsets = _coefficients(seeds)
        home = _hashed(slopes, offsets, _hashes(self.texts)[own], self.buckets)
        honest = bernoulli([self.chances[0]], np.zeros(len(own), dtype=np.int64), entropy)
        step = np.where(honest, 0, below(self.buckets - 1, len(own), entropy) + 1)
        return {"seed": seeds, "bucket": ((home.astype(np.int64) + step) % self.buckets).astype("<u4")}

    def is_valid(self, columns: Columns) -> Flags:
        """Which buckets exist."""
        return np.asarray(columns["bucket"] < self.buckets)

    def support(self, columns: Columns) -> Indices:
        """How many reports hash each text to the bucket they name; blocks are small enough for the cache."""
        hashes = _hashes(self.texts)
        counts = np.zeros(len(hashes), dtype=np.int64)
        rows = max(1, (1 << 15) // max(1, len(hashes)))
        slopes, offsets = _coefficients(columns["seed"])
        wanted = columns["bucket"].astype(np.uint64)
        for start in range(0, len(wanted), rows):
            part = slice(start, start + rows)
            found = _hashed(slopes[part, None], offsets[part, None], hashes[None, :], self.buckets)
            counts += (found == wanted[part, None]).sum(axis=0)
        return counts

    def parse(self, answer: object) -> tuple[Any, ...] | None:
        """[seed, bucket]."""
        if not isinstance(answer, list) or len(answer) != 2 or not all(type(part) is int for part in answer):
            return None
        seed, bucket = answer
        return (seed, bucket) if 0 <= seed < 1 << 64 and 0 <= bucket < self.buckets else None

    def write(self, columns: Columns) -> Iterator[object]:
        """Lists [seed, bucket]."""
        yield from map(list, zip(columns["seed"].tolist(), columns["bucket"].tolist(), strict=True))

    def reports(self) -> int:
        """2⁶⁴·g."""
        return self.buckets << 64

    def matrix(self) -> list[list[Fraction]]:
        """Never asked for: there are too many seeds."""
        raise NotImplementedError


def _coefficients(seeds: npt.NDArray[np.uint64]) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """(a, b) of every seed, as `client.bucket_of` makes them."""
    raw = seeds.astype("<u8").tobytes()
    blake = hashlib.blake2b
    digests = b"".join([blake(raw[i : i + 8], digest_size=16).digest() for i in range(0, len(raw), 8)])
    halves = np.frombuffer(digests, dtype="<u8").reshape(-1, 2) >> np.uint64(3)
    return halves[:, 0] % np.uint64(PRIME - 1) + np.uint64(1), halves[:, 1] % np.uint64(PRIME)


def _hashes(texts: Sequence[str | int]) -> npt.NDArray[np.uint64]:
    encoded = (str(text).encode("utf-8", "surrogatepass") for text in texts)
    digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in encoded)
    return np.frombuffer(digests, dtype="<u8") >> np.uint64(3)


def _hashed(slopes: Any, offsets: Any, hashes: Any, buckets: int) -> npt.NDArray[np.uint64]:
    """((a·X + b) mod 2⁶¹ − 1) mod g in 64-bit words: a and X are cut at 31 bits, and 2⁶¹ counts as 1.

    a·X = 2⁶²·hh + 2³¹·m + ll with hh < 2⁶⁰, m < 2⁶², ll < 2⁶²; 2⁶²·hh ≡ 2·hh, and m = 2³⁰·m₁ + m₀ makes 2³¹·m ≡ m₁ + 2³¹·m₀.
    The sum stays below 2⁶¹ + 2³² + 2⁶¹ + 2⁶² + 2⁶¹ < 2⁶⁴.
    """
    cut, low = np.uint64(31), np.uint64((1 << 31) - 1)
    high_a, low_a, high_x, low_x = slopes >> cut, slopes & low, hashes >> cut, hashes & low
    middle = high_a * low_x + low_a * high_x
    total = (high_a * high_x << np.uint64(1)) + (middle >> np.uint64(30))
    total += (middle & np.uint64((1 << 30) - 1)) << cut
    total += low_a * low_x + offsets
    total = (total & np.uint64(PRIME)) + (total >> np.uint64(61))
    total = np.where(total >= PRIME, total - np.uint64(PRIME), total)
    remainder: npt.NDArray[np.uint64] = total - total // np.uint64(buckets) * np.uint64(buckets)
    return remainder


# --- choosing ---------------------------------------------------------------------------------------------------------


def best_subset(values: int, weights: Weights) -> Subset:
    """The better of ⌊k/(e + 1)⌋ and ⌈k/(e + 1)⌉."""
    ideal = values / (weights.ratio + 1)
    sizes = {min(max(1, size), values - 1) for size in (math.floor(ideal), math.ceil(ideal))}
    return min((Subset(values, weights, size) for size in sorted(sizes)), key=lambda one: variance(one, 1 / values))


def best_projective(values: int, weights: Weights) -> Projective | None:
    """The space with the least variance, if one has room."""
    shape = best_shape(values, float(weights.ratio))
    return None if shape is None else Projective(values, weights, *shape)


def hashing(texts: tuple[str | int, ...], weights: Weights) -> Hashing:
    """With round(e) + 1 buckets, at most 2²⁰."""
    return Hashing(texts, weights, min(round(weights.ratio) + 1, MOST_BUCKETS))


def candidates(texts: tuple[str | int, ...], epsilon: Fraction) -> dict[str, Oracle]:
    """Every oracle that can take this many values, the one that `auto` prefers among equals first."""
    weights, count = weights_for(epsilon), len(texts)
    found: dict[str, Oracle] = {}
    if count <= MOST_SUBSET_VALUES:
        found["subset"] = best_subset(count, weights)
    projective = best_projective(count, weights)
    if projective is not None:
        found["projective"] = projective
    return found | {"unary": Unary(count, weights), "hashing": hashing(texts, weights)}


def best_oracle(texts: tuple[str | int, ...], epsilon: Fraction) -> Oracle:
    """The smallest report among the oracles within 5% of the best variance at f = 1/k."""
    known = candidates(texts, epsilon)
    spreads = {name: variance(oracle, 1 / len(texts)) for name, oracle in known.items()}
    close = [oracle for name, oracle in known.items() if spreads[name] <= WITHIN * min(spreads.values())]
    return min(close, key=lambda oracle: oracle.message_bits)
