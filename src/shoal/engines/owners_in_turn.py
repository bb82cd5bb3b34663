"""Rows that outgrow memory: the statement that was checked is read several times, and each time the rows of other owners are kept.

No statement is written that was not read before the charge: which owners' turn it is, is decided here. Owners are whole, so the
answers of all turns add up. Joins would be made once for each turn, and values that owners share do not add up; they are left
to SQL that spills.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.engines.canonical_bytes import parts_of, to_bytes
from shoal.engines.group_keys import as_arrow
from shoal.engines.memory.rows import only_table
from shoal.engines.statements.bound_owners import OWNER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from shoal.plan.totals import TotalsQuery

MOST_TURNS = 64
SPARE = 5, 4
"""Turns are not of one size: there are more of them than would do if they were."""
_ODD = np.uint64(0x9E3779B97F4A7C15)


def can_take_turns(query: TotalsQuery) -> bool:
    """Whether answers add up, and reading the rows again costs no more than reading them."""
    return only_table(query.input) is not None and all(task.measure.additive for task in query.tasks)


def turns_for(batches: Iterable[pa.RecordBatch], room: int) -> int:
    """How many turns are needed, so that the rows of each take no more than this many bytes; MemoryError where too many are."""
    size: int = sum(batch.nbytes for batch in batches)
    more, than = SPARE
    turns = size * more // (than * max(room, 1)) + 1
    if turns > MOST_TURNS:
        raise MemoryError
    return turns


def of_turn(batches: Iterable[pa.RecordBatch], turn: int, turns: int) -> Iterator[pa.RecordBatch]:
    """The rows of the owners whose turn it is."""
    for batch in batches:
        mine = np.flatnonzero(_turns_of(batch.column(OWNER), turns) == turn)
        yield batch.take(as_arrow(mine))


def _turns_of(owners: pa.Array, turns: int) -> NDArray[np.int64]:
    """A number below `turns` for each row, the same for all rows of an owner."""
    if owners.type == pa.int64():
        numbers = np.asarray(owners).view(np.uint64) * _ODD
        return np.asarray((numbers >> np.uint64(33)) % np.uint64(turns)).astype(np.int64)
    coded = owners.dictionary_encode()
    known = parts_of(pa.table({"o": to_bytes(pa.chunked_array([coded.dictionary]))}), turns)
    return np.asarray(known[np.asarray(coded.indices)])
