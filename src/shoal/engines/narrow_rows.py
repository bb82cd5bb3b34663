"""Answers of buckets on their way: columns that say nothing are left out, and the others are as narrow as what they hold.

Most answers are counts and sums of groups: no leaves, no values, numbers far below 2⁹³, keys of one length. Written out in full a
row of them takes four times the bytes, and they are copied half a dozen times between processes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.engines.canonical_bytes import BYTES
from shoal.engines.partials import LIMBS

if TYPE_CHECKING:
    from numpy.typing import NDArray

_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FULL = {"slot": pa.int32(), "leaf": pa.int64(), "value": BYTES} | dict.fromkeys(LIMBS, pa.int64())


def narrow(rows: pa.Table) -> pa.Table:
    """The same rows in fewer bytes.

    >>> columns = {"k0": [b"aa"], "slot": [1], "leaf": [0], "value": [None], "l0": [7], "l1": [0], "l2": [0], "l3": [0]}
    >>> rows = pa.table({name: pa.array(values, _FULL.get(name, BYTES)) for name, values in columns.items()})
    >>> [str(part.type) for part in narrow(rows).schema], full(narrow(rows)).equals(rows)
    (['fixed_size_binary[2]', 'int8', 'int8'], True)
    """
    columns = {}
    for name in rows.column_names:
        column = rows.column(name)
        if name in _FULL and name != "value":
            kept = _narrow_numbers(column)
        elif name == "value" and column.null_count == len(column):
            kept = None
        else:
            kept = _narrow_bytes(column)
        if kept is not None:
            columns[name] = kept
    # the number of rows, where nothing else says it
    return pa.table(columns or {"slot": pa.array(np.zeros(rows.num_rows, dtype=np.int8))})


def full(rows: pa.Table) -> pa.Table:
    """What was made narrow, as it was."""
    count, columns = rows.num_rows, {}
    for name in rows.column_names:
        if name not in _FULL:
            columns[name] = rows.column(name).cast(BYTES)
    for name, type_ in _FULL.items():
        if name in rows.column_names:
            columns[name] = rows.column(name).cast(type_)
        else:
            columns[name] = (
                pa.nulls(count, type_) if name == "value" else pa.array(np.zeros(count, dtype=np.int64), type_)
            )
    return pa.table(columns)


def _narrow_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Numbers of the smallest type that has room for all of them; None where all are 0."""
    numbers: NDArray[np.int64] = np.asarray(column)
    least, most = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if least == most == 0:
        return None
    bits = 1 + max(least.bit_length(), most.bit_length())
    return column.cast(next(type_ for type_ in _INTEGERS if bits <= type_.bit_width))


def _narrow_bytes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Bytes without their lengths, where all of them have the same."""
    lengths = pa.compute.min_max(pa.compute.binary_length(column)).as_py()
    if not lengths["min"] or lengths["min"] != lengths["max"]:
        return column
    return column.cast(pa.binary(lengths["min"]))
