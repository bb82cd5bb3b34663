"""Stored rows of a private SELECT: keys, finished aggregates, and the noisy numbers that intervals are computed from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.plan.types import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.plan.aggregates import Reading
    from shoal.plan.releases import Column, SelectPlan
    from shoal.plan.types import Type

_ARROW = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIME: pa.time64("us"),
}


@dataclass(frozen=True, slots=True)
class Released:
    """What one private SELECT gave: already paid for, public from here on."""

    table: pa.Table
    readings: tuple[Reading, ...]
    notes: tuple[str, ...] = ()


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type of a column of the answer."""
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    if type_.kind is Kind.UNSUPPORTED:
        return pa.list_(pa.float64())
    return _ARROW[type_.kind]


def component(symbol: str, index: int) -> str:
    """The column that carries the noisy number behind an aggregate."""
    return f"{symbol}_r{index}"


def answer_table(plan: SelectPlan, keys: pa.Table, readings: Sequence[Reading]) -> pa.Table:
    """One row per group that is shown; dictionaries and statistics are made anew from these rows only."""
    columns: dict[str, pa.Array] = {}
    for (field, _), column in zip(plan.select.keys, keys.columns, strict=True):
        columns[field.symbol] = column.combine_chunks().cast(arrow_type(field.type))
    for column_plan in plan.columns:
        own = [readings[i] for i in column_plan.releases]
        symbol, type_ = column_plan.call.field.symbol, column_plan.call.aggregate.type
        values = column_plan.call.aggregate.finish(own)
        if column_plan.call.report is not None:
            columns[symbol] = pa.array(reports(column_plan, own, values, plan), pa.string())
        else:
            columns[symbol] = pa.array(plain(values), arrow_type(type_))
        for index, reading in enumerate(own):
            columns[component(symbol, index)] = pa.array(np.array(reading.values, dtype=np.float64), pa.float64())
    return pa.table(columns) if columns else pa.table({"nothing": pa.nulls(keys.num_rows)})


def plain(values: NDArray[Any]) -> list[Any]:
    """Python values, NaN never among them."""
    return [None if v is None or (isinstance(v, float) and v != v) else v for v in values.tolist()]  # noqa: PLR0124 - NaN


def reports(column: Column, readings: list[Reading], values: NDArray[Any], plan: SelectPlan) -> list[str]:
    """report_format => 'JSON': the value, its interval, the bounds used."""
    level = float(plan.select.options.confidence_level)
    low, high = column.call.aggregate.interval(readings, level)
    bounds = next((r.bounds for r in readings if r.bounds is not None), None)
    used = [float(bounds.lower), float(bounds.upper)] if bounds is not None else None
    return [
        json.dumps(
            {
                "result": {"value": v},
                "interval": {"low": a, "high": b, "confidence_level": level} if a is not None else None,
                "bounds": {"lower": used[0], "upper": used[1], "source": column.call.bounds_source} if used else None,
            }
        )
        for v, a, b in zip(plain(values), plain(low), plain(high), strict=True)
    ]
