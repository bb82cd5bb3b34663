"""Values as text: how the data, a hierarchy's file and a label mean the same thing."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any, Literal

import pyarrow as pa

Kind = Literal["integer", "number", "date", "text"]
"""What a column holds, as far as its order and its labels depend on it."""


def text_of(value: Any) -> str | None:
    """A value as text: integers without a point, dates as ISO writes them, NULL as itself.

    >>> text_of(34.0), text_of(dt.date(1984, 2, 1)), text_of(None)
    ('34', '1984-02-01', None)
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if math.isfinite(value) and value.is_integer() and abs(value) < 1e16 else repr(value)
    if isinstance(value, decimal.Decimal):
        return format(value.normalize(), "f") if value.is_finite() else str(value)
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    return str(value)


def kind_of(type_: pa.DataType) -> Kind:
    """How values of an Arrow type are ordered and labelled."""
    if pa.types.is_dictionary(type_):
        return kind_of(type_.value_type)
    if pa.types.is_integer(type_):
        return "integer"
    if pa.types.is_floating(type_) or pa.types.is_decimal(type_):
        return "number"
    if pa.types.is_date(type_) or pa.types.is_timestamp(type_):
        return "date"
    return "text"
