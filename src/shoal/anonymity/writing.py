"""The hierarchy of a column as a file to look at and to edit, or a file completed with the values it lacks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.anonymity.hierarchies.hierarchy import Hierarchy
from shoal.anonymity.hierarchies.listed import write_table
from shoal.anonymity.hierarchies.rules import TOP
from shoal.anonymity.measuring.demands import usage
from shoal.anonymity.measuring.rows import read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.anonymity.measuring.rows import Column

KINDS = ("intervals", "dates", "mask", "auto", "complete")


def write_hierarchy(source: Any, column: str, table: str | None, rule: Mapping[str, Any], path: str | Path) -> int:
    """Write the hierarchy that a rule makes for a column; how many values it lists."""
    if len(rule) != 1:
        raise usage(
            "Name one rule.", hint="--intervals 5,10 or --dates month,year or --mask right or --auto or --complete FILE"
        )
    values = read_rows(source, [column], table=table).columns[column]
    kind, asked = next(iter(rule.items()))
    if kind == "complete":
        return _complete(Path(asked), values, Path(path))
    return _written(_made(kind, asked, values), values, Path(path))


def _made(kind: str, asked: Any, values: Column) -> Hierarchy:
    match kind:
        case "intervals":
            return Hierarchy.intervals(asked)
        case "dates":
            return Hierarchy.dates(asked)
        case "mask":
            return Hierarchy.mask(asked)
        case _:
            return Hierarchy.auto(values.values)


def _written(hierarchy: Hierarchy, column: Column, path: Path) -> int:
    """Through a ladder, so that values which do not fit are counted and refused."""
    from shoal.anonymity.hierarchies.ladders import ladder_of

    ladder = ladder_of(column.name, hierarchy, column.values, column.kind)
    lines = [
        [str(text), *(str(ladder.labels[level][ladder.maps[level][code]]) for level in range(1, ladder.levels))]
        for code, text in enumerate(column.texts)
        if text is not None
    ]
    write_table(path, lines)
    return len(lines)


def _complete(given: Path, column: Column, path: Path) -> int:
    hierarchy = Hierarchy.read(given)
    lines = [
        [str(leaf), *(str(hierarchy.label(leaf, level)) for level in range(1, hierarchy.levels))]
        for leaf in hierarchy.leaves
    ]
    known = set(hierarchy.leaves)
    missing = [text for text in column.texts if text is not None and text not in known]
    write_table(path, lines + [[text, *[TOP] * (hierarchy.levels - 1)] for text in missing])
    return len(lines) + len(missing)
