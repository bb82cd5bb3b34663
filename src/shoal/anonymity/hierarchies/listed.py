"""Hierarchies that list their values: files as ARX writes them, groups in Python, values in an order."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from shoal.anonymity.hierarchies.rules import TOP, Table, wrong
from shoal.anonymity.hierarchies.values import text_of

if TYPE_CHECKING:
    from pathlib import Path

DELIMITERS = ";,\t"


def read_table(path: Path, column: str | None = None) -> Table:
    """A file, one line a value: `value;level 1;…;*`; its delimiter is found out from its first line."""
    try:
        content = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise wrong(f"The hierarchy {str(path)!r} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise wrong(f"The hierarchy {str(path)!r} is not UTF-8.") from None
    first = content.split("\n", 1)[0]
    delimiter = max(DELIMITERS, key=first.count)
    lines = [line for line in csv.reader(io.StringIO(content, newline=""), delimiter=delimiter, strict=False) if line]
    of_column = "" if column is None else f"of {column!r} "
    return table_of_lines(lines, f"hierarchy {of_column}in {path.name!r}")


def table_of_lines(lines: Sequence[Sequence[str]], what: str) -> Table:
    """Lines of equal length, each value once, labels nested; a top that says anything but `*` gets one above it."""
    if not lines:
        raise wrong(f"The {what} is empty.", hint="Write a line for each value: value;level 1;…;*")
    width, seen = len(lines[0]), set()
    for number, line in enumerate(lines, start=1):
        if len(line) != width:
            raise wrong(f"Line {number} of the {what} has {len(line)} labels and the first has {width}.")
        if line[0] in seen:
            raise wrong(f"Line {number} of the {what} repeats a value.", hint="Each value has one line.")
        seen.add(line[0])
    _check_nested(lines, what)
    if width > 1 and all(line[-1] == lines[0][-1] for line in lines):
        return Table(tuple(tuple(line[:-1]) for line in lines), lines[0][-1])
    return Table(tuple(tuple(line) for line in lines))


def _check_nested(lines: Sequence[Sequence[str]], what: str) -> None:
    """Two values that share a label share every later one."""
    for level in range(1, len(lines[0]) - 1):
        above: dict[str, str] = {}
        for number, line in enumerate(lines, start=1):
            if above.setdefault(line[level], line[level + 1]) != line[level + 1]:
                raise wrong(
                    f"Line {number} of the {what}: a label of level {level} belongs to two labels of level {level + 1}.",
                    hint="Two values that share a label must share every later one.",
                )


def table_of_groups(groups: Mapping[str, Any]) -> Table:
    """Nested groups as lines; a shorter branch repeats its highest label, and `*` is the top itself."""
    paths = list(_paths(groups, ()))
    if not paths:
        raise wrong("The groups hold no values.")
    depth = max(len(path) for path in paths)
    lines = []
    for path in paths:
        highest = path[-1] if len(path) > 1 else TOP
        lines.append([*path, *[highest] * (depth - len(path))])
    return table_of_lines([[*line, TOP] for line in lines], "groups")


def _paths(groups: Any, above: tuple[str, ...]) -> Any:
    """(value, group, group of groups, …) of each value."""
    if isinstance(groups, Mapping):
        for label, inside in groups.items():
            yield from _paths(inside, (str(label), *above))
    elif isinstance(groups, (list, tuple, set, frozenset)):
        for value in sorted(groups, key=str) if isinstance(groups, (set, frozenset)) else groups:
            yield (str(text_of(value)), *above)
    else:
        yield (str(text_of(groups)), *above)


def table_of_order(values: Sequence[str], sizes: tuple[int, ...]) -> Table:
    """Values in their order, `sizes[i]` of them under each label of level i + 1."""
    if not sizes or any(size < 2 for size in sizes) or any(b % a or b == a for a, b in pairwise(sizes)):
        raise wrong("Each size of an order divides the next and is at least 2.", hint="Write sizes=[2, 4].")
    if len(set(values)) < len(values) or not values:
        raise wrong("An order lists each value once, and at least one.")
    lines = []
    for position, value in enumerate(values):
        starts = [(position // size * size, size) for size in sizes]
        labels = [_stretch(values[start : start + size]) for start, size in starts]
        lines.append((value, *labels))
    return Table(tuple(lines))


def _stretch(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"{values[0]} .. {values[-1]}"


def write_table(path: Path, lines: Sequence[Sequence[str]]) -> None:
    """Write lines as ARX reads them."""
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=";", lineterminator="\n").writerows(lines)
    try:
        path.write_text(text.getvalue(), encoding="utf-8")
    except OSError as error:
        raise wrong(f"The hierarchy {str(path)!r} was not written: {error.strerror}.") from None
