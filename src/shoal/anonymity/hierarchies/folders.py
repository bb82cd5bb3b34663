"""Hierarchies for the columns of a table: from a dict, a folder of files, a TOML file, or made from the data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.anonymity.hierarchies.hierarchy import Hierarchy
from shoal.anonymity.hierarchies.listed import table_of_lines
from shoal.anonymity.hierarchies.rules import Rule, SortedGroups, wrong
from shoal.catalog import fold

TOML = "hierarchies.toml"
ENDINGS = (".csv", ".tsv", ".txt")
_KEYS = {
    "intervals": {"origin", "low", "high"},
    "dates": set(),
    "mask": {"length"},
    "file": set(),
    "order": {"values"},
    "groups": set(),
    "lines": set(),
    "flat": set(),
}


def hierarchies_for(columns: Sequence[str], given: Any) -> dict[str, Hierarchy]:
    """The hierarchies that were given, by column; a column without one gets one from its data, later."""
    if given is None:
        return {}
    if isinstance(given, (str, Path)):
        found = _from_path(Path(given), columns)
    elif isinstance(given, Mapping):
        found = {str(column): Hierarchy.of(hierarchy, str(column)) for column, hierarchy in given.items()}
        unknown = sorted(set(map(fold, found)) - set(map(fold, columns)))
        if unknown:
            raise wrong(f"There is a hierarchy for {unknown[0]!r}, which is not a quasi-identifier.")
    else:
        raise wrong("Hierarchies are a dict of column → hierarchy, a folder, or a TOML file.")
    by_name = {fold(column): hierarchy for column, hierarchy in found.items()}
    return {column: by_name[fold(column)] for column in columns if fold(column) in by_name}


def _from_path(path: Path, columns: Sequence[str]) -> dict[str, Hierarchy]:
    if path.is_dir():
        found = {column: file for column in columns if (file := _file_for(path, column)) is not None}
        rules = read_toml(path / TOML) if (path / TOML).is_file() else {}
        return {column: Hierarchy.read(file, column) for column, file in found.items()} | rules
    if path.suffix.lower() == ".toml" and path.is_file():
        return read_toml(path)
    raise wrong(f"{str(path)!r} is not a folder of hierarchies and not a TOML file.", hint="--hierarchies FOLDER")


def _file_for(folder: Path, column: str) -> Path | None:
    """`<column>.csv`, or the one file that ends in `_<column>.csv`."""
    wanted = fold(column)
    files = sorted(entry for entry in folder.iterdir() if entry.is_file() and entry.suffix.lower() in ENDINGS)
    exact = [file for file in files if fold(file.stem) == wanted]
    ending = [file for file in files if fold(file.stem).endswith(f"_{wanted}")]
    if len(exact or ending) > 1:
        raise wrong(f"Several files of the folder could be the hierarchy of {column!r}.")
    return next(iter(exact or ending), None)


def read_toml(path: Path) -> dict[str, Hierarchy]:
    """`[age]` `intervals = [5, 10, 20]`; files are found beside the TOML file."""
    try:
        with path.open("rb") as file:
            data = tomllib.load(file)
    except OSError as error:
        raise wrong(f"The file {str(path)!r} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise wrong(f"The file {str(path)!r} is not TOML.") from None
    return {column: hierarchy_from(column, entry, path.parent) for column, entry in data.items()}


def hierarchy_from(column: str, entry: Any, folder: Path | None = None) -> Hierarchy:
    """A hierarchy from the table of a TOML file; keys that are not understood are refused."""
    if not isinstance(entry, Mapping):
        raise wrong(f"[{column}] is not a table of a hierarchy.", hint="Write [age] and intervals = [5, 10] below it.")
    kinds = [key for key in entry if key in _KEYS]
    if len(kinds) != 1:
        raise wrong(f"[{column}] names one of {', '.join(_KEYS)}.", hint="Write intervals = [5, 10, 20].")
    kind = kinds[0]
    unknown = set(entry) - _KEYS[kind] - {kind, "automatic"}
    if unknown:
        raise wrong(f"[{column}] has no key {min(unknown)!r}.")
    try:
        made = _made(column, kind, entry, folder)
    except (TypeError, ValueError):
        raise wrong(f"{kind} of [{column}] is not understood.") from None
    return Hierarchy(made, automatic=bool(entry.get("automatic", False)))


def _made(column: str, kind: str, entry: Mapping[str, Any], folder: Path | None) -> Rule:
    value = entry[kind]
    match kind:
        case "intervals":
            limits = {key: entry[key] for key in ("origin", "low", "high") if key in entry}
            return Hierarchy.intervals(value, **limits).rule
        case "dates":
            return Hierarchy.dates(value).rule
        case "mask":
            return Hierarchy.mask(value, entry.get("length")).rule
        case "file":
            return Hierarchy.read((folder or Path()) / value, column).rule
        case "groups":
            return Hierarchy.groups(value).rule
        case "lines":
            return table_of_lines(value, f"hierarchy of {column!r}")
        case "order":
            return _order(value, entry.get("values"))
        case _:
            return Hierarchy.flat().rule


def _order(value: Any, values: Any) -> Rule:
    """`order = 8`: 2, 4 and 8 values together; `order = [2, 6]`: these sizes."""
    sizes = tuple(value) if isinstance(value, list) else _doubling(int(value))
    return SortedGroups(sizes) if values is None else Hierarchy.order(values, sizes).rule


def _doubling(largest: int) -> tuple[int, ...]:
    if largest < 2:
        raise ValueError("an order groups at least two values")
    sizes = [largest]
    while sizes[-1] % 2 == 0 and sizes[-1] > 2:
        sizes.append(sizes[-1] // 2)
    return tuple(reversed(sizes))
