"""Pairs of data sets that differ by one record: where the tester looks for a violation.

Three sources, in the order they are tried: pairs the caller gives, edge cases, and low-discrepancy data sets with all
their sub-data sets. A record stands for one owner. Every pair is later tested in both directions.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)
_OUTLIER = 1e6  # far outside the unit range: a mechanism without a clamp shows itself here
_CROWD = 20  # enough records for rules that decide by a count


@dataclass(frozen=True, slots=True)
class Pair:
    """Two neighbouring data sets, with keys under which samples of each are remembered."""

    larger: Any
    smaller: Any
    larger_key: object
    smaller_key: object


def radical_inverse(index: int, base: int) -> float:
    """The digits of the index in this base, mirrored at the point: the index-th van der Corput number.

    >>> [radical_inverse(i, 2) for i in (1, 2, 3, 4)]
    [0.5, 0.25, 0.75, 0.125]
    """
    value, scale = 0.0, 1.0
    while index:
        scale /= base
        index, digit = divmod(index, base)
        value += digit * scale
    return value


def halton_point(index: int, dimension: int) -> list[float]:
    """The index-th point of the Halton sequence in [0, 1)^dimension.

    >>> halton_point(1, 3) == [1 / 2, 1 / 3, 1 / 5]
    True
    """
    return [radical_inverse(index, base) for base in _PRIMES[:dimension]]


def remove_depth_first(dataset: Sequence[float]) -> Iterator[tuple[list[float], list[float]]]:
    """Every sub-data set paired with each of its neighbours one record smaller, depth first, each pair once.

    >>> list(remove_depth_first([7, 8]))
    [([7, 8], [8]), ([8], []), ([7, 8], [7]), ([7], [])]
    """
    seen: set[tuple[int, ...]] = set()

    def descend(kept: tuple[int, ...]) -> Iterator[tuple[list[float], list[float]]]:
        seen.add(kept)
        for position in range(len(kept)):
            rest = kept[:position] + kept[position + 1 :]
            yield [dataset[i] for i in kept], [dataset[i] for i in rest]
            if rest not in seen:
                yield from descend(rest)

    yield from descend(tuple(range(len(dataset))))


def edge_cases(domain: tuple[float, float] | None) -> Iterator[tuple[list[float], list[float]]]:
    """One record against none, extremes, duplicates, a crowd, and, when no domain is named, outliers beyond [0, 1]."""
    low, high = domain or (0.0, 1.0)
    middle = (low + high) / 2
    for value in (high, low):
        for copies in range(1, 4):
            yield [value] * copies, [value] * (copies - 1)
    yield [low, high], [low]
    yield [low, high], [high]
    yield [middle] * _CROWD, [middle] * (_CROWD - 1)
    yield [low] * _CROWD + [high], [low] * _CROWD
    if domain is None:
        for outlier in (_OUTLIER, -_OUTLIER):
            yield [outlier], []
            yield [middle] * 3 + [outlier], [middle] * 3


def search_pairs(
    seed: int, bases: int, records: int, domain: tuple[float, float] | None
) -> Iterator[tuple[list[float], list[float]]]:
    """Edge cases, then `bases` Halton data sets of `records` records with all their sub-data sets.

    The seed picks where in the sequence to begin.
    """
    yield from edge_cases(domain)
    low, high = domain or (0.0, 1.0)
    start = int(np.random.default_rng(seed).integers(1, 10_000))
    for index in range(start, start + bases):
        yield from remove_depth_first([low + (high - low) * x for x in halton_point(index, records)])


def is_list_of_numbers(dataset: object) -> bool:
    """Whether a data set is of the shape the search makes: a flat sequence of finite numbers."""
    if not isinstance(dataset, (list, tuple, np.ndarray)):
        return False
    return all(isinstance(x, Real) and not isinstance(x, bool) and math.isfinite(x) for x in dataset)


def given_pairs(inputs: Iterable[tuple[Any, Any]]) -> list[Pair]:
    """The caller's pairs, of whatever shape the mechanism takes."""
    pairs = []
    for given in inputs:
        try:
            larger, smaller = given
        except (TypeError, ValueError):
            raise ShoalError(
                "E_USAGE", "inputs must be pairs of data sets.", hint="Write inputs=[([1.0, 2.0], [1.0])]."
            ) from None
        pairs.append(Pair(larger, smaller, _key(larger), _key(smaller)))
    return pairs


def _key(dataset: Any) -> object:
    """Equal lists of numbers share samples; anything else is known by identity."""
    if is_list_of_numbers(dataset):
        return tuple(float(x) for x in dataset)
    return ("given", id(dataset))


def plan_pairs(
    inputs: Iterable[tuple[Any, Any]] | None,
    *,
    seed: int,
    bases: int,
    records: int,
    domain: tuple[float, float] | None,
    search: bool = True,
) -> list[Pair]:
    """All pairs of a run, fixed before any sample is drawn; what is equal is tried once.

    When the caller's data sets are not lists of numbers, the search has nothing to offer them and is left out.
    """
    pairs = given_pairs(inputs or ())
    if not search and not pairs:
        raise ShoalError("E_USAGE", "search=False needs inputs: the pairs to try.")
    if search and all(is_list_of_numbers(side) for pair in pairs for side in (pair.larger, pair.smaller)):
        searched = search_pairs(seed, bases, records, domain)
        pairs.extend(Pair(larger, smaller, tuple(larger), tuple(smaller)) for larger, smaller in searched)
    unique: dict[tuple[object, object], Pair] = {}
    for pair in pairs:
        unique.setdefault((pair.larger_key, pair.smaller_key), pair)
    return list(unique.values())
