"""Arrow tables as data frames, for whoever has pandas or polars installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.errors import missing_extra

if TYPE_CHECKING:
    import pyarrow as pa


def as_pandas(table: pa.Table) -> Any:
    """A pandas data frame (extra: frames)."""
    try:
        import pandas  # noqa: F401, ICN001 - only to see whether it is there
    except ImportError:
        raise missing_extra("frames", "A pandas data frame") from None
    return table.to_pandas()


def as_polars(table: pa.Table) -> Any:
    """A polars data frame (extra: frames)."""
    try:
        import polars as pl
    except ImportError:
        raise missing_extra("frames", "A polars data frame") from None
    return pl.from_arrow(table)
