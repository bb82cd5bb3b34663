"""At most R rows of every owner, in memory: duplicates numbered, then the smallest keyed picks of whole rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.engines.memory.pairs import Pairs
from shoal.engines.memory.segments import Segments, duplicate_numbers, keep_smallest
from shoal.frozen import dataclass
from shoal.sql.functions.canonical import NULL_INTEGER

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from shoal.engines.memory.picks import Picks
    from shoal.engines.memory.rows import Argument
    from shoal.plan.expressions import Expression
    from shoal.plan.totals import TotalsQuery


@dataclass(frozen=True, slots=True)
class Content:
    """One column of what distinguishes rows: an argument as it is, or counted in steps of a grid."""

    argument: int
    grid: Fraction | None


def contents_of(query: TotalsQuery, arguments: tuple[Expression, ...]) -> tuple[Content, ...]:
    """All columns that the measures read, in the order in which the SQL path hashes them."""
    asked = [(task.measure, task.row_grid) for task in query.tasks]
    asked += [(histogram.serves, histogram.grid) for histogram in query.histograms]
    found = [
        Content(arguments.index(measure.argument), grid if measure.summed_on_grid else None)
        for measure, grid in asked
        if measure.argument is not None
    ]
    return tuple(dict.fromkeys(found))


def cut_to_rows(
    pairs: Pairs, picks: Picks, arguments: tuple[Argument, ...], contents: tuple[Content, ...], most: int
) -> Pairs:
    """The pairs with the `most` rows of each owner that have the smallest picks; pairs without any are gone."""
    runs = Segments.of_runs(pairs.owners)
    rows_of_owners = Segments.of_lengths(runs.sums(pairs.segments.lengths))
    if not (rows_of_owners.lengths > most).any():
        return pairs
    columns = [_column(arguments[content.argument].take(pairs.rows), content.grid) for content in contents]
    duplicates = duplicate_numbers(_identities([identity for identity, _ in columns], len(pairs.rows)), pairs.segments)
    owners = runs.spread(picks.of_owners(pairs.owners[runs.starts]))
    pair_picks = pairs.segments.spread(picks.of_pairs(owners, pairs.groups))
    row_picks = picks.of_rows(pair_picks, [canonical for _, canonical in columns], duplicates)
    kept = keep_smallest(row_picks, rows_of_owners, most)
    lengths = pairs.segments.sums(kept.astype(np.int64))
    left = np.flatnonzero(lengths)
    rows = pairs.rows[np.flatnonzero(kept)]
    return Pairs(pairs.owners[left], pairs.groups[left], Segments.of_lengths(lengths[left]), rows)


def _column(argument: Argument, grid: Fraction | None) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """What distinguishes values, NULL as 0, and what is hashed of them."""
    steps = argument.in_steps(grid).view(np.uint64) if grid is not None else None
    identity = argument.identities() if steps is None else steps
    canonical = argument.canonical() if steps is None else steps
    _, codes = np.unique(identity, return_inverse=True)
    numbers = codes.astype(np.uint64) + np.uint64(1)
    if argument.missing is None:
        return numbers, canonical
    null = np.uint64(NULL_INTEGER if grid is None else 0)
    return np.where(argument.missing, np.uint64(0), numbers), np.where(argument.missing, null, canonical)


def _identities(columns: list[NDArray[np.uint64]], rows: int) -> NDArray[np.uint64]:
    """One number for each row, equal exactly for rows that are equal in all columns."""
    combined = np.zeros(rows, dtype=np.uint64)
    for column in columns:
        pairs = combined * (column.max(initial=np.uint64(0)) + np.uint64(1)) + column
        _, codes = np.unique(pairs, return_inverse=True)
        combined = codes.astype(np.uint64)
    return combined
