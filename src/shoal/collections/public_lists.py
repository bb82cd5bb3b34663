"""Groups that are public knowledge: a list, a public table, an earlier result, or values of each field and their product."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from shoal.engines.python_rows.stages import value_type
from shoal.engines.python_rows.values import fitting
from shoal.errors import ShoalError
from shoal.plan.nodes import Values
from shoal.result import Result
from shoal.sql.binding.public_groups import MAX_PUBLIC_GROUPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.plan.types import Type
    from shoal.sql.binding.statement import Binder

Rows = tuple[tuple[Any, ...], ...]


def listed_groups(public: Any, fields: Sequence[str], types: Sequence[Type]) -> Rows:
    """The groups as rows of values that fit the fields, each once."""
    rows = dict.fromkeys(_checked(row, fields, types) for row in _rows(public, fields))
    if len(rows) > MAX_PUBLIC_GROUPS:
        raise _too_many()
    return tuple(rows)


def _rows(public: Any, fields: Sequence[str]) -> Iterable[tuple[Any, ...]]:
    if isinstance(public, Result):
        table = public.to_arrow()
        missing = [name for name in fields if name not in table.column_names]
        if missing:
            raise _wrong(f"The result has no column {missing[0]!r}.")
        return list(zip(*(table.column(name).to_pylist() for name in fields), strict=True))
    if isinstance(public, Mapping):
        if set(public) != set(fields):
            raise _wrong("A dict of public groups gives the values of every field of group_by.")
        values = [list(public[name]) for name in fields]
        if prod(map(len, values)) > MAX_PUBLIC_GROUPS:
            raise _too_many()
        return product(*values)
    if isinstance(public, Iterable) and not isinstance(public, (str, bytes)):
        return [row if isinstance(row, (tuple, list)) else (row,) for row in public]  # type: ignore[misc]
    raise _wrong("public is a list of tuples, the name of a public table, a Result, or a dict of values.")


def _checked(row: Sequence[Any], fields: Sequence[str], types: Sequence[Type]) -> tuple[Any, ...]:
    if len(row) != len(fields):
        raise _wrong(f"Each group needs {len(fields)} values, one for each field of group_by.")
    return tuple(_fitted(value, name, type_) for value, name, type_ in zip(row, fields, types, strict=True))


def _fitted(value: Any, name: str, type_: Type) -> Any:
    """A value of the field's type; dates may be written as text."""
    fitted = fitting(value_type(type_))(_read(value, type_.kind.value))
    if fitted is None and value is not None:
        raise _wrong(f"A value for the field {name!r} is not of its type, {type_}.")
    return fitted


def _read(value: Any, kind: str) -> Any:
    reads: dict[str, Any] = {"date": dt.date, "timestamp": dt.datetime, "time": dt.time}
    if kind in reads and isinstance(value, str):
        try:
            return reads[kind].fromisoformat(value)
        except ValueError:
            return value
    return value


def values_of(binder: Binder, fields: Sequence[str], types: Sequence[Type], rows: Rows) -> Values:
    """The relation that a statement calls `groups`."""
    named = [binder.context.symbols.field(name, type_.plain()) for name, type_ in zip(fields, types, strict=True)]
    return Values(rows, tuple(named))


def _wrong(message: str) -> ShoalError:
    return ShoalError("E_USAGE", message, hint='public=[("a", 1), ("b", 1)], or public={"site": ["a", "b"], "n": [1]}')


def _too_many() -> ShoalError:
    return ShoalError("E_LIMITS", f"At most {MAX_PUBLIC_GROUPS:,} groups can be listed.")
