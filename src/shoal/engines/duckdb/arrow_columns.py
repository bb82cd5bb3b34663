"""Arrow and parquet columns that the engine can read whatever they hold: instants, days and times that exist, known numbers.

A timestamp beyond every calendar, or a time after midnight, makes an engine fail in the middle of a query, and one owner's
row would decide whether others get an answer. In frames such values are missing values; a parquet file with them is not
opened, because its reader fails before anything else sees a row.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from shoal.errors import ShoalError
from shoal.sql.functions.forms import EARLIEST_INSTANT, LATEST_INSTANT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MICROSECONDS = {"s": 10**6, "ms": 10**3}
"""In a unit that the engine would have to multiply, and fail."""
MOST_DIGITS = 38
UNITS_OF_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def readable(table: pa.Table) -> pa.Table:
    """The table with numbers and instants as the engine knows them, without days and times that no calendar has."""
    table = _decoded(table)
    for position, field in enumerate(table.schema):
        column = table.column(position)
        if pa.types.is_timestamp(field.type) and field.type.unit in MICROSECONDS:
            table = table.set_column(position, field.name, _instants(column, field.type))
        elif pa.types.is_date64(field.type):
            table = table.set_column(position, field.name, _days(column))
        elif pa.types.is_time(field.type):
            table = table.set_column(position, field.name, _times(column))
        elif (known := _known_number(field.type)) is not None:
            table = table.set_column(position, field.name, column.cast(known))
    return table


def _known_number(type_: Any) -> Any:
    """The type that holds the numbers of one that the engine does not read in memory; None if it does."""
    if pa.types.is_float16(type_):
        return pa.float32()
    if not pa.types.is_decimal256(type_):
        return None
    # Beyond 38 digits they become reals, as in parquet files: an owner column of them is refused.
    return pa.decimal128(type_.precision, type_.scale) if type_.precision <= MOST_DIGITS else pa.float64()


def _decoded(table: pa.Table) -> pa.Table:
    """The table with temporal columns written out, where they are stored as a dictionary or in runs."""
    for position, field in enumerate(table.schema):
        encoded = pa.types.is_dictionary(field.type) or pa.types.is_run_end_encoded(field.type)
        if encoded and pa.types.is_temporal(field.type.value_type):
            column = table.column(position)
            parts = [
                chunk.dictionary_decode() if pa.types.is_dictionary(field.type) else pc.run_end_decode(chunk)
                for chunk in column.chunks
            ]
            table = table.set_column(position, field.name, pa.chunked_array(parts, field.type.value_type))
    return table


def _integers(column: Any) -> Any:
    """The numbers under a temporal column."""
    wide = pa.int32() if pa.types.is_time32(column.type) else pa.int64()
    return pa.chunked_array([chunk.view(wide) for chunk in column.chunks], wide)


def _within(numbers: Any, low: int, high: int) -> Any:
    """The numbers, NULL outside of the two ends."""
    inside = pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high))
    return pc.if_else(inside, numbers, pa.scalar(None, numbers.type))


def _instants(column: Any, type_: Any) -> Any:
    factor = MICROSECONDS[type_.unit]
    kept = _within(_integers(column), EARLIEST_INSTANT // factor, LATEST_INSTANT // factor)
    return pc.multiply(kept, factor).cast(pa.timestamp("us", type_.tz))


def _days(column: Any) -> Any:
    day = UNITS_OF_A_DAY["ms"]
    kept = _within(_integers(column), EARLIEST_INSTANT // 1000, LATEST_INSTANT // 1000)
    return pc.divide(kept, day).cast(pa.int32()).cast(pa.date32())


def _times(column: Any) -> Any:
    """Times of a day. Nanoseconds are cut to microseconds, the finest times that queries know."""
    kept = _within(_integers(column), 0, UNITS_OF_A_DAY[column.type.unit] - 1)
    if column.type.unit != "ns":
        return kept.cast(column.type)
    return pc.divide(kept, 1000).cast(pa.time64("us"))


def refuse_unreadable(path: Path) -> None:
    """A parquet file with times that its reader fails on, as the file's own statistics say, or else its values."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path)
    for leaf in range(len(file.schema)):
        column = file.schema.column(leaf)
        limits = _limits(json.loads(column.logical_type.to_json()))
        if limits is None:
            continue
        for low, high in _extremes(file, leaf, column.path):
            if low < limits[0] or high > limits[1]:
                raise ShoalError(
                    "E_SOURCE",
                    f"The file {str(path)!r} has invalid times in the column {column.path!r}.",
                    hint="Repair them, or store the column in microseconds. A single one makes every query fail.",
                )


def _limits(logical: dict[str, Any]) -> tuple[int, int] | None:
    """The smallest and the largest number that the engine's reader takes; None where it takes any."""
    unit = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}.get(logical.get("timeUnit", ""), "")
    match logical.get("Type"):
        case "Time":
            return 0, UNITS_OF_A_DAY[unit] - 1
        case "Timestamp" if unit in MICROSECONDS:
            most = (2**63 - 1) // MICROSECONDS[unit]
            return -most, most
    return None


def _extremes(file: Any, leaf: int, path: str) -> Iterator[tuple[int, int]]:
    """The least and the most of every part of a column."""
    for group in range(file.metadata.num_row_groups):
        told = file.metadata.row_group(group).column(leaf).statistics
        if told is not None and told.has_min_max:
            yield told.min_raw, told.max_raw
            continue
        for batch in file.iter_batches(row_groups=[group], columns=[path]):
            if "." in path:
                continue  # inside a structure, which no query reads
            found = pc.min_max(_integers(pa.chunked_array([batch.column(0)])))
            if found["min"].is_valid:
                yield found["min"].as_py(), found["max"].as_py()
