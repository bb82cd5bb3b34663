"""The projective oracle: a report is a point of a projective space, and supports the points orthogonal to it.

The space over F_r (r prime) with t coordinates has K = (r^t − 1)/(r − 1) points; value j is the j-th of them. A report u
supports v when ⟨u, v⟩ = 0: s = (r^{t−1} − 1)/(r − 1) of the K reports do, the same number for every v, and s₂ = (r^{t−2} −
1)/(r − 1) support two given values.

*Proof note.* Precondition: r prime, so that every v has exactly s supporting points. P[u | v] = w₁/Z or w₀/Z with Z =
s·w₁ + (K − s)·w₀, the same Z for every v. Postcondition: P[u | v] ≤ (w₁/w₀)·P[u | v′] for all u, v, v′.

Decoding counts supporting reports for all values at once. Put the count of u on all r − 1 multiples of u; the Fourier
transform D over F_r^t adds r − 1 for each report with ⟨u, v⟩ = 0 and −1 for every other, so N(v) = (D(v) + n)/r.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.local.client import number_of, point
from shoal.mechanisms.sampling.samplers import below, bernoulli

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from shoal.local.reports import Columns
    from shoal.local.weights import Weights
    from shoal.mechanisms.entropy import Entropy

    Indices = npt.NDArray[np.int64]

MOST_VECTORS = 1 << 24
LARGEST_FIELD = 4096


def spread(chance_own: float, chance_other: float, share: float) -> float:
    """n·Var of an estimated share: (f·p(1 − p) + (1 − f)·q(1 − q))/(p − q)²."""
    p, q = chance_own, chance_other
    return (share * p * (1 - p) + (1 - share) * q * (1 - q)) / (p - q) ** 2


@lru_cache(maxsize=1)
def primes() -> tuple[int, ...]:
    """Every field size that two coordinates leave room for."""
    return tuple(n for n in range(2, LARGEST_FIELD + 1) if all(n % d for d in range(2, int(n**0.5) + 1)))


def chances(field: int, length: int, ratio: Fraction | float) -> tuple[Any, Any]:
    """(p, q) for e^ε = ratio, exact for an exact ratio."""
    points, half, both = (_points(field, length - less) for less in range(3))
    total = half * ratio + (points - half)
    return half * ratio / total, (both * ratio + half - both) / total


def _points(field: int, length: int) -> int:
    return int((field**length - 1) // (field - 1))


def best_shape(values: int, ratio: float) -> tuple[int, int] | None:
    """(r, t) with the least variance at f = 1/k among the spaces with enough points; None when none is small enough."""
    shapes = [
        (field, length)
        for field in primes()
        for length in range(2, 25)
        if field**length <= MOST_VECTORS and _points(field, length) >= values
    ]
    if not shapes:
        return None
    return min(shapes, key=lambda shape: (spread(*chances(shape[0], shape[1], ratio), 1 / values), _points(*shape)))


@dataclass(frozen=True)
class Projective:
    """`values` values as the first points of the space over F_`field` with `length` coordinates."""

    values: int
    weights: Weights
    field: int
    length: int
    name = "projective"

    @property
    def parameters(self) -> dict[str, Any]:
        """What the question writes down."""
        return {"field": self.field, "coordinates": self.length}

    @cached_property
    def points(self) -> int:
        """K, how many different reports there are."""
        return _points(self.field, self.length)

    @cached_property
    def chances(self) -> tuple[Fraction, Fraction]:
        """(p, q), exactly."""
        p, q = chances(self.field, self.length, self.weights.ratio)
        return p, q

    @property
    def message_bits(self) -> int:
        """Bits that a report takes."""
        return (self.points - 1).bit_length()

    @property
    def schema(self) -> dict[str, tuple[str, int]]:
        """Column → (type, width)."""
        return {"point": ("<i4", 1)}

    # --- drawing ---

    def draw(self, own: Indices, entropy: Entropy) -> Columns:
        """One report for each value: a fair digit in every place but the leading one of v, which is then solved for.

        Supported: ⟨u, v⟩ = 0, and the free digits are not all zero. Unsupported: ⟨u, v⟩ is any other residue.
        """
        field, free = self.field, self.field ** (self.length - 1)
        half = _points(field, self.length - 1)
        chance = Fraction(half * self.weights.inside, 1)
        chance /= half * self.weights.inside + (self.points - half) * self.weights.outside
        supported = bernoulli([chance], np.zeros(len(own), dtype=np.int64), entropy)
        digits = np.where(supported, below(free - 1, len(own), entropy) + 1, below(free, len(own), entropy))
        wanted = np.where(supported, 0, below(field - 1, len(own), entropy) + 1)
        return {"point": self._solve(own, digits, wanted).astype("<i4")}

    def _solve(self, own: Indices, free: Indices, wanted: Indices) -> Indices:
        """The number of the u with these digits outside of v's leading place and ⟨u, v⟩ = wanted."""
        values, leads = self._vectors[own], self._leads[own]
        drawn = np.empty_like(values)
        for position in range(self.length):
            free, digit = np.divmod(free, self.field)
            drawn[:, position] = digit
        # The t − 1 free digits fill all places but the leading one, whose own digit goes to the last place.
        rows = np.arange(len(own))
        drawn[:, self.length - 1] = np.where(leads == self.length - 1, 0, drawn[rows, leads])
        drawn[rows, leads] = 0
        product = (drawn * values).sum(axis=1)
        drawn[rows, leads] = (wanted - product) % self.field
        return self._numbers(drawn)

    def _numbers(self, vectors: Indices) -> Indices:
        rows = np.arange(len(vectors))
        leads = (vectors != 0).argmax(axis=1)
        inverses = np.array([0, *(pow(x, -1, self.field) for x in range(1, self.field))])
        scaled = vectors * inverses[vectors[rows, leads]][:, None] % self.field
        powers = self.field ** np.arange(self.length - 1, -1, -1, dtype=np.int64)
        before = np.concatenate(([0], np.cumsum(powers)[:-1]))
        numbers: Indices = scaled @ powers - powers[leads] + before[leads]
        return numbers

    @cached_property
    def _vectors(self) -> Indices:
        """The points of the values, a row each."""
        return _points_of(np.arange(self.values), self.field, self.length)

    @cached_property
    def _leads(self) -> Indices:
        return np.asarray((self._vectors != 0).argmax(axis=1), dtype=np.int64)

    # --- counting ---

    def is_valid(self, columns: Columns) -> npt.NDArray[np.bool_]:
        """Which rows are points of the space."""
        points = columns["point"]
        return np.asarray((points >= 0) & (points < self.points))

    def support(self, columns: Columns) -> Indices:
        """How many reports support each value, exactly."""
        counts = np.bincount(columns["point"], minlength=self.points)
        return self.decode(counts)

    def decode(self, counts: Indices) -> Indices:
        """N(v) of every value from the counts of all points, by one transform."""
        shape = (self.field,) * self.length
        grid = np.zeros(self.field**self.length)
        numbers = np.flatnonzero(counts)
        vectors = _points_of(numbers, self.field, self.length)
        powers = self.field ** np.arange(self.length - 1, -1, -1, dtype=np.int64)
        for multiple in range(1, self.field):
            grid[(vectors * multiple % self.field) @ powers] = counts[numbers]
        transformed = np.fft.rfftn(grid.reshape(shape)).real
        # D(−v) = D(v), and only the first half of the last axis is computed.
        values = self._vectors
        mirrored = np.where(values[:, -1:] > self.field // 2, (-values) % self.field, values)
        exact = (transformed[tuple(mirrored.T)] + counts.sum()) / self.field
        found = np.rint(exact)
        if len(found) and np.abs(exact - found).max() > 0.25:
            raise InternalError("the transform lost the integers it counts")
        return np.asarray(found, dtype=np.int64)

    # --- reports one by one ---

    def parse(self, answer: object) -> tuple[int, ...] | None:
        """The cells of a JSON answer, or None for one that is none."""
        return (answer,) if type(answer) is int and 0 <= answer < self.points else None

    def write(self, columns: Columns) -> Iterator[object]:
        """JSON answers."""
        yield from columns["point"].tolist()

    def reports(self) -> int:
        """How many different reports there are."""
        return self.points

    def matrix(self) -> list[list[Fraction]]:
        """rows[i][j] = P[report j | value i]."""
        half = _points(self.field, self.length - 1)
        total = half * self.weights.inside + (self.points - half) * self.weights.outside
        inside, outside = Fraction(self.weights.inside, total), Fraction(self.weights.outside, total)
        every = _points_of(np.arange(self.points), self.field, self.length)
        return [
            [inside if supports else outside for supports in ((every @ value) % self.field == 0).tolist()]
            for value in self._vectors
        ]


def _points_of(numbers: Indices, field: int, length: int) -> Indices:
    """Canonical vectors of points, a row each (see `client.point`)."""
    powers = field ** np.arange(length - 1, -1, -1, dtype=np.int64)
    ends = np.cumsum(powers)
    leads = np.searchsorted(ends, numbers, side="right")
    rest = numbers - (ends[leads] - powers[leads])
    vectors = rest[:, None] // powers % field
    vectors[np.arange(len(numbers)), leads] = 1
    return vectors.astype(np.int64)


__all__ = ["Projective", "best_shape", "chances", "number_of", "point", "spread"]
