"""The population behind a table: how many of its owners fall into each class of the table, and which classes it alone has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.anonymity.measuring.classes import owners_by_class
from shoal.anonymity.measuring.tuples import number_classes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.anonymity.measuring.tuples import Tuples

    Integers = NDArray[np.int64]


def shared_codes(tuples: Tuples, population: Tuples) -> tuple[list[Integers], list[int]]:
    """The population's codes in the table's words: values meet as text; those the table lacks come after its own."""
    codes, sizes = [], []
    for position, (column, other) in enumerate(zip(tuples.quasi, population.quasi, strict=True)):
        known = {text: code for code, text in enumerate(column.texts)}
        translated = [known.setdefault(text, len(known)) for text in other.texts]
        codes.append(np.array(translated, dtype=np.int64)[population.codes[:, position]])
        sizes.append(len(known))
    return codes, sizes


def population_classes(
    table: Sequence[Integers], population: Sequence[Integers], sizes: Sequence[int], people: Tuples
) -> tuple[Integers, int, tuple[Integers, int, int]]:
    """Class of each tuple of the table, their number, and of the population: owners by class, absent classes and owners."""
    rows = len(table[0])
    number, _ = number_classes([np.concatenate(pair) for pair in zip(table, population, strict=True)], sizes)
    here, part = np.unique(number[:rows], return_inverse=True)
    total = int(number.max()) + 1 if len(number) else 0
    renumbered = np.full(total, -1, dtype=np.int64)
    renumbered[here] = np.arange(len(here))
    renumbered[renumbered < 0] = np.arange(len(here), total)
    owners = owners_by_class(people, renumbered[number[rows:]], total)
    absent = (total - len(here), int(owners[len(here) :].sum()))
    return part.astype(np.int64, copy=False), len(here), (owners[: len(here)], *absent)
