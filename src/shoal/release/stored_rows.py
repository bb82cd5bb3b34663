"""Stored rows of a private SELECT: keys, finished aggregates, and the noisy numbers that intervals are computed from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.engines.group_keys import as_arrow
from shoal.frozen import dataclass
from shoal.plan.types import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from shoal.params import Bounds
    from shoal.plan.aggregates import NoisyMeasure
    from shoal.plan.releases import Column, SelectPlan
    from shoal.plan.types import Type
    from shoal.release.cuts.clamped import Clamped
    from shoal.rewrite.limits.choosing import Kept

_ARROW = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.DOUBLE: pa.float64(),
    Kind.TEXT: pa.string(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us"),
    Kind.TIME: pa.time64("us"),
    Kind.NULL: pa.int32(),
}


@dataclass(frozen=True, slots=True)
class StoredRows:
    """What one private SELECT returned: already paid for, public from here on.

    `readings` says how each noisy number was taken: once for all groups, or once for every class of groups whose bounds are
    the same (then the last component of each column is the number of the class).
    """

    table: pa.Table
    readings: tuple[tuple[NoisyMeasure, ...], ...]
    notes: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    """The columns as they ran: found limits may have changed which releases they read."""
    kept: tuple[Kept | None, ...] = ()
    """For each column, roughly what share of it the limits kept, if that was found."""
    clamped: tuple[tuple[Clamped | None, ...], ...] = ()
    """What found bounds cut off: for each class of groups, by histogram."""
    beyond: tuple[Clamped | None, ...] = ()
    """For each column, what lies beyond its given bounds, if that was measured."""


def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type of a column of the answer."""
    if type_.kind is Kind.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    if type_.kind is Kind.UNSUPPORTED:
        return pa.list_(pa.float64())
    return _ARROW[type_.kind]


def distinct_names(names: list[str]) -> list[str]:
    """The names, with a number appended to duplicates: most tables lose one of two columns with the same name.

    >>> distinct_names(["n", "n", "n_2", "n"])
    ['n', 'n_3', 'n_2', 'n_4']
    """
    taken: set[str] = set()
    found = []
    for name in names:
        spelled, number = name, 2
        while spelled in taken or (spelled != name and spelled in names):
            spelled, number = f"{name}_{number}", number + 1
        taken.add(spelled)
        found.append(spelled)
    return found


def component(symbol: str, index: int) -> str:
    """The column that carries the noisy number behind an aggregate."""
    return f"{symbol}_r{index}"


def components_of(plan: SelectPlan, column: Column, symbol: str) -> tuple[str, ...]:
    """All columns that carry what is behind an aggregate; if groups have their own bounds, also their class."""
    return tuple(component(symbol, i) for i in range(len(column.releases) + int(plan.finds_bounds_per_group)))


def answer_table(
    plan: SelectPlan,
    keys: pa.Table,
    readings: Sequence[NoisyMeasure],
    groups: int,
    found: Sequence[Bounds | None] = (),
    outside: Sequence[Sequence[float | None]] = (),
    bounds_class: int = 0,
) -> pa.Table:
    """One row per group that is shown (`groups` of them: a table without keys has lost their number).

    `outside`: for each histogram and each row, the share of values outside the bounds that were found. Dictionaries and
    statistics are rebuilt from these rows only.
    """
    columns: dict[str, pa.Array] = {}
    for (field, _), column in zip(plan.select.keys, keys.columns, strict=True):
        columns[field.symbol] = column.combine_chunks().cast(arrow_type(field.type))
    for column_plan in plan.columns:
        own = [readings[i] for i in column_plan.releases]
        symbol, type_ = column_plan.call.field.symbol, column_plan.call.aggregate.type
        if column_plan.call.aggregate.feed is not None:
            bounds = found[column_plan.histogram or 0]
            pair = [float(bounds.lower), float(bounds.upper)] if bounds is not None else None
            if column_plan.call.report is None:
                columns[symbol] = pa.array([pair] * groups, arrow_type(type_))
            else:
                shares = outside[column_plan.histogram or 0] if outside else (None,) * groups
                columns[symbol] = pa.array([_report_of_bounds(pair, share) for share in shares], pa.string())
        else:
            values = column_plan.call.aggregate.finish(own)
            if column_plan.call.report is not None:
                known = column_plan.histogram is not None and bool(outside)
                shares = outside[column_plan.histogram or 0] if known else (None,) * groups
                columns[symbol] = pa.array(reports(column_plan, own, values, plan, shares), pa.string())
            else:
                columns[symbol] = _column(values, arrow_type(type_))
        numbers = [np.array(reading.values, dtype=np.float64) for reading in own]
        numbers += [np.full(groups, bounds_class, dtype=np.float64)] * int(plan.finds_bounds_per_group)
        names = components_of(plan, column_plan, symbol)
        columns |= {name: as_arrow(each) for name, each in zip(names, numbers, strict=True)}
    return pa.table(columns) if columns else pa.table({"nothing": pa.nulls(groups)})


def _column(values: NDArray[Any], type_: pa.DataType) -> pa.Array:
    """Values as a column, missing ones for NaN."""
    if values.dtype == np.float64:
        return pa.array(values, from_pandas=True).cast(type_)
    if values.dtype == np.int64 and pa.types.is_int64(type_):
        return as_arrow(values)
    return pa.array(values if values.dtype.kind in "iub" else plain(values), type_)


def plain(values: NDArray[Any]) -> list[Any]:
    """Python values, never NaN."""
    return [None if v is None or (isinstance(v, float) and v != v) else v for v in values.tolist()]  # noqa: PLR0124 - NaN


def _report_of_bounds(pair: list[float] | None, share: float | None) -> str:
    """The JSON report of APPROX_BOUNDS: the bounds are the value, and have no interval."""
    bounds = None if pair is None else {"lower": pair[0], "upper": pair[1], "source": "inferred"}
    if bounds is not None and share is not None:
        bounds |= {"share_outside": round(share, 4)}
    return json.dumps({"result": {"value": pair}, "interval": None, "bounds": bounds})


def reports(
    column: Column,
    readings: list[NoisyMeasure],
    values: NDArray[Any],
    plan: SelectPlan,
    outside: Sequence[float | None],
) -> list[str]:
    """report_format => 'JSON': the value, its interval, the bounds used, and (where they were found) the share outside them."""
    level = float(plan.select.options.confidence_level)
    low, high = column.call.aggregate.interval(readings, level)
    bounds = next((r.bounds for r in readings if r.bounds is not None), None)
    used = None
    if bounds is not None:
        used = {"lower": float(bounds.lower), "upper": float(bounds.upper), "source": column.call.bounds_source}
    return [
        json.dumps(
            {
                "result": {"value": v},
                "interval": {"low": a, "high": b, "confidence_level": level} if a is not None else None,
                "bounds": used if used is None or share is None else used | {"share_outside": round(share, 4)},
            }
        )
        for v, a, b, share in zip(plain(values), plain(low), plain(high), outside, strict=True)
    ]
