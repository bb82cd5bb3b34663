"""How much of one column is in another: the coordinated-sample estimate, for one pair and for all pairs at once.

Two samples under one key are coordinated: a value is in both or in neither up to θ, the smaller of the two K-th
hashes. Of the m kept hashes of A below θ, x are kept by B too; the containment |A ∩ B|/|A| is x/m with variance
p(1−p)/m, whatever the sizes. (Inclusion–exclusion, |A| + |B| − |A ∪ B|, has an error that grows with |B|/|A|; it is
here to show the difference.)

    >>> from shoal.risk.sketch.khll import Sketch
    >>> small, large = Sketch(key=b"secret"), Sketch(key=b"secret")
    >>> small.update(list(range(100)))
    >>> large.update(list(range(50, 1000)))
    >>> containment(small, large)
    Estimate(value=0.5, low=0.5, high=0.5)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.risk.sketch.estimate import UNKNOWN_SHARE, Estimate, Z, exactly, share_of_trials
from shoal.risk.sketch.measures import distinct_values

if TYPE_CHECKING:
    from shoal.risk.hashing.siphash import Hashes
    from shoal.risk.sketch.khll import Sketch

Matrix = npt.NDArray[np.float64]

_MANY = 32  # a hash kept by more columns than this is counted by matrix products
_BLOCK = 8192


def containment(a: Sketch, b: Sketch) -> Estimate:
    """|A ∩ B| / |A|: the share of the distinct values of `a` that `b` has too."""
    check_same_key(a, b)
    if not len(a.hashes):
        return exactly(0)
    here = below_threshold(a, _threshold(b))
    common = np.isin(here, b.hashes, assume_unique=True).sum()
    if a.fraction() is None and b.fraction() is None:
        return exactly(common / len(here))
    return share_of_trials(float(common), len(here)) if len(here) else UNKNOWN_SHARE


def check_same_key(a: Sketch, b: Sketch) -> None:
    """Refuse to compare hashes of different functions."""
    if a.key_id != b.key_id:
        raise ShoalError(
            "E_SKETCH", "The two sketches have different keys.", hint="Make both with the same key=… or --key FILE."
        )


def _threshold(sketch: Sketch) -> np.uint64 | None:
    """The K-th hash; None while every value is kept."""
    return sketch.hashes[-1] if sketch.fraction() is not None else None


def below_threshold(sketch: Sketch, other: np.uint64 | None) -> Hashes:
    """The kept hashes strictly below the sketch's own threshold and another: each is there with the same chance."""
    thresholds = [threshold for threshold in (_threshold(sketch), other) if threshold is not None]
    return sketch.hashes[: np.searchsorted(sketch.hashes, min(thresholds))] if thresholds else sketch.hashes


def by_inclusion_exclusion(a: Sketch, b: Sketch) -> float:
    """The same share from three distinct counts; only to show how far off it is at unequal sizes."""
    check_same_key(a, b)
    together = np.union1d(a.hashes, b.hashes)
    k = min(a.k, b.k)
    sampled = a.fraction() is not None or b.fraction() is not None
    union = distinct_values(k, float(together[k - 1]) / 2.0**64) if sampled else exactly(len(together))
    sizes = a.distinct_values().value, b.distinct_values().value
    return float(np.clip((sizes[0] + sizes[1] - union.value) / max(sizes[0], 1.0), 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class AllContainments:
    """Containment of column i in column j, for all i and j, with intervals."""

    value: Matrix
    low: Matrix
    high: Matrix
    common: Matrix  # estimated number of values that both have

    def estimate(self, i: int, j: int) -> Estimate:
        """One entry."""
        return Estimate(float(self.value[i, j]), float(self.low[i, j]), float(self.high[i, j]))


def all_containments(sketches: list[Sketch]) -> AllContainments:
    """All pairs of sketches under one key."""
    samples = [below_threshold(sketch, None) for sketch in sketches]
    thresholds = [_threshold(sketch) for sketch in sketches]
    open_end = np.array([threshold is None for threshold in thresholds])
    ends = np.array([2**64 - 1 if threshold is None else int(threshold) for threshold in thresholds], dtype=np.uint64)
    seen = np.array([np.searchsorted(sample, ends) for sample in samples], dtype=np.float64)
    seen[:, open_end] = np.array([len(sample) for sample in samples], dtype=np.float64)[:, None]
    hits = common_counts(samples)
    exact = open_end[:, None] & open_end[None, :]
    fractions = np.minimum(ends[:, None], ends[None, :]).astype(np.float64) / 2.0**64
    common = np.where(exact, hits, hits / np.maximum(fractions, 2.0**-64))
    return AllContainments(*_wilson(hits, seen, exact), common)


def _wilson(hits: Matrix, seen: Matrix, exact: npt.NDArray[np.bool_]) -> tuple[Matrix, Matrix, Matrix]:
    trials = np.maximum(seen, 1e-9)
    share = np.clip(hits / trials, 0.0, 1.0)
    spread = Z * Z / trials
    centre, half = share + spread / 2, np.sqrt(spread * share * (1 - share) + spread * spread / 4)
    low, high = (centre - half) / (1 + spread), (centre + half) / (1 + spread)
    low, high = np.where(share == 0, 0.0, low), np.where(share == 1, 1.0, high)
    nothing = seen == 0
    low, high = np.where(nothing, 0.0, low), np.where(nothing, 1.0, high)
    return share, np.where(exact, share, low), np.where(exact, share, high)


def common_counts(samples: list[Hashes]) -> Matrix:
    """For every two arrays of distinct hashes, how many they share.

    One sort brings equal hashes together. A hash in few arrays adds to each pair of them; hashes in many arrays become
    columns of a 0/1 matrix X, whose X·Xᵀ counts all pairs at once.
    """
    count = len(samples)
    arrays = np.repeat(np.arange(count), [len(sample) for sample in samples])
    hashes = np.concatenate([np.empty(0, np.uint64), *samples])
    order = np.argsort(hashes, kind="stable")  # arrays ascend within equal hashes
    hashes, arrays = hashes[order], arrays[order]
    firsts = (
        np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]])) if len(hashes) else np.empty(0, np.int64)
    )
    degrees = np.diff(np.append(firsts, len(hashes)))
    found = np.zeros((count, count))
    for degree in np.unique(degrees[(degrees > 1) & (degrees <= _MANY)]):
        groups = arrays[firsts[degrees == degree][:, None] + np.arange(degree)]
        for position in range(int(degree)):
            for other in range(position + 1, int(degree)):
                np.add.at(found, (groups[:, position], groups[:, other]), 1)
    _count_many(found, arrays, firsts[degrees > _MANY], degrees[degrees > _MANY])
    found += found.T
    np.fill_diagonal(found, [len(sample) for sample in samples])
    return found


def _count_many(
    found: Matrix, arrays: npt.NDArray[np.int64], firsts: npt.NDArray[np.int64], degrees: npt.NDArray[np.int64]
) -> None:
    """Add, above the diagonal, the pairs of hashes that many arrays have."""
    for start in range(0, len(firsts), _BLOCK):
        begins, sizes = firsts[start : start + _BLOCK], degrees[start : start + _BLOCK]
        held = np.zeros((len(found), len(begins)), dtype=np.float32)
        columns = np.repeat(np.arange(len(begins)), sizes)
        offsets = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        held[arrays[np.repeat(begins, sizes) + offsets], columns] = 1
        found += np.triu(held @ held.T, 1)
