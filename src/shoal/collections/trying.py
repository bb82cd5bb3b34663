"""Functions on records that their author made up: in this process, with every error shown."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from shoal.engines.python_rows.records import record_class
from shoal.engines.python_rows.stages import value_type
from shoal.engines.python_rows.values import fitting
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shoal.collections.recipes import Transformed
    from shoal.plan.types import Type

    Fields = Sequence[tuple[str, Type]]


def tried(
    steps: Sequence[Transformed], given: Fields, made: Fields, records: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The records that come out; what does not fit its declared type is None, as it would be NULL."""
    rows = [_typed(record, given) for record in records]
    for step in steps:
        fields = step.schema if step.schema is not None else given
        rows = [_typed(row, fields) for row in _made(step, rows, [name for name, _ in given])]
        given = fields
    return [{name: row[name] for name, _ in made} for row in rows]


def _typed(record: Any, fields: Fields) -> dict[str, Any]:
    if not isinstance(record, Mapping):
        raise ShoalError("E_USAGE", "A record is a mapping of names and values.", hint='{"cents": 250, "url": "…"}')
    return {name: fitting(value_type(type_))(record.get(name)) for name, type_ in fields}


def _made(step: Transformed, rows: list[dict[str, Any]], names: list[str]) -> list[Any]:
    function = pickle.loads(step.step.function)  # noqa: S301 - what was pickled a moment ago
    kind, make = step.step.kind, record_class(tuple(names))
    given = [make(row[name] for name in names) for row in rows]
    if kind == "filter":
        return [row for row, record in zip(rows, given, strict=True) if function(record)]
    if kind == "map":
        return [found for record in given if (found := function(record)) is not None]
    if kind == "flat_map":
        return [found for record in given for found in islice(function(record), step.step.most)]
    return list(islice(function(given[: step.step.max_rows]), step.step.most)) if given else []
