"""The door for rows: whatever a caller has, as Arrow arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.errors import ShoalError
from shoal.risk.hashing.messages import null_hash
from shoal.risk.sketch.owner_sets import OwnerBatch

if TYPE_CHECKING:
    from shoal.risk.hashing.encoding import ColumnEncoder
    from shoal.risk.hashing.siphash import Positions, SipHash


def as_arrow(values: Any) -> pa.Array:
    """Arrow arrays as they are; NumPy arrays, data frame columns and lists as Arrow makes them."""
    if isinstance(values, pa.ChunkedArray):
        return in_one_piece(values)
    if isinstance(values, pa.Array):
        return values
    if hasattr(values, "to_arrow"):  # a polars column
        values = values.to_arrow()
        return values if isinstance(values, pa.Array) else in_one_piece(values)
    try:
        made = pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise ShoalError("E_USAGE", "These values are not a column of one type.", hint="Pass an Arrow array.") from None
    return in_one_piece(made) if isinstance(made, pa.ChunkedArray) else made


def in_one_piece(chunks: pa.ChunkedArray) -> pa.Array:
    """A chunked array as one array."""
    if chunks.num_chunks == 1:
        return chunks.chunk(0)
    combined = chunks.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


def encode_owners(array: pa.Array, encoder: ColumnEncoder, hasher: SipHash) -> tuple[Positions | None, OwnerBatch]:
    """The owners of a batch, and the rows that have one (None: all of them)."""
    hashes = encoder.encode(array).by_row()
    owned = hashes != null_hash(hasher)
    if owned.all():
        return None, OwnerBatch(hashes)
    kept = np.flatnonzero(owned)
    return kept, OwnerBatch(hashes[kept])
