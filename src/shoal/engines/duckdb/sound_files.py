"""Files that cannot fail late: what a reader could refuse is decoded once when a file is opened, and changed files are reported.

A parquet file may hold a string that is not UTF-8, or a damaged page of numbers. Its reader fails when it reaches that row or page,
so that a filter on one owner would tell whether the row is there: pages are read only where some row passes. Reading every value
once settles it for everybody. What the footer of a file says about its values is not checked, and decides nothing (`NO_BELIEFS`).
A CSV file may hold a line end of another kind, for instance in a value of one person, which ends the reading of all. Files that
passed are remembered by path, size and time of change, in the user's cache, so that the next process need not read them again.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.catalog import fold
from shoal.engines.duckdb.checking.casts import always_casts
from shoal.engines.duckdb.csv_files import quoted, text, texts_of
from shoal.errors import ShoalError
from shoal.plan.types import Kind
from shoal.sql.functions import type_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import duckdb

    from shoal.engines.duckdb.checking.casts import Named
    from shoal.engines.duckdb.csv_files import Spellings

Stamp = tuple[int, int]
"""Size and time of change in nanoseconds."""

MOST_REMEMBERED = 10_000
TEXTS = frozenset({"VARCHAR", "JSON"})
"""Stored types that are strings: JSON is one by another name."""
AS_TEXTS = "hive_types_autocast = false"
"""What folders called `uid=7` say is a string: the engine would guess a type from all of them, and one owner's would decide it."""


def stamp(path: Path) -> Stamp:
    """What a change of the file would change."""
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns


def stamps(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """The stamps of files as they are now."""
    return {path: stamp(path) for path in paths}


def refuse_changed(opened: dict[Path, Stamp]) -> None:
    """E_SOURCE when a file is not the one that was opened: types, sizes and checks belong to that one."""
    for path, before in opened.items():
        with suppress(OSError):
            if stamp(path) == before:
                continue
        raise ShoalError(
            "E_SOURCE",
            f"The file {str(path)!r} has changed since the session was opened. Nothing was charged.",
            hint="Open a new session.",
        )


NO_BELIEFS = "SET disabled_optimizers = 'statistics_propagation,compressed_materialization,join_filter_pushdown'"
"""The engine computes in as many bits as the smallest and largest value of a footer need, and skips public rows outside of the keys
that it meets. Where a footer is wrong, a value beyond it ends the query, or one owner's key decides which rows others find."""


def refuse_damaged(connection: duckdb.DuckDBPyConnection, paths: list[Path]) -> None:
    """E_SOURCE for a parquet file with a string that is not UTF-8, or with a page that cannot be decoded."""
    import duckdb

    remembered = _Remembered()
    for path in paths:
        if remembered.knows(path):
            continue
        columns = _decoded(connection, path)
        try:
            # Lengths of strings, smallest and largest numbers alone would come from the file's own index, and decode nothing.
            if columns:
                connection.execute(
                    f"SELECT {', '.join(columns)} FROM read_parquet({text(str(path.resolve()))}, {AS_TEXTS})"
                ).fetchall()
        except (duckdb.Error, UnicodeDecodeError):  # the engine may quote the broken text
            raise ShoalError(
                "E_SOURCE",
                f"The file {str(path)!r} holds text that is not UTF-8, or is damaged.",
                hint="Rewrite it with valid text. A single broken value would make some queries fail, and not others.",
            ) from None
        remembered.add(path)
    remembered.save()


def refuse_broken_lines(connection: duckdb.DuckDBPyConnection, paths: list[Path], spellings: Spellings) -> None:
    """E_SOURCE for a CSV file that cannot be read to its end.

    Odd rows are left out, but a line that ends otherwise than the first one ends the whole reading, wherever it is.
    """
    import duckdb

    remembered = _Remembered()
    for path in paths:
        how = f"CSV {spellings.options.delimiter or ''}"
        if remembered.knows(path, how):
            continue
        rows, _ = texts_of([path], spellings)
        try:
            connection.execute(f"SELECT count(*) FROM {rows}").fetchall()
        except duckdb.Error:
            raise ShoalError(
                "E_SOURCE",
                f"The file {str(path)!r} cannot be read to its end: a line of it ends in another way than the first.",
                hint="Write it with one kind of line end, and quotes around values that hold one; or convert it to parquet.",
            ) from None
        remembered.add(path, how)
    remembered.save()


def _decoded(connection: duckdb.DuckDBPyConnection, path: Path) -> list[str]:
    """Aggregates that decode every value of the columns that a query can read."""
    described = [each for each in _described(connection, [path]) if type_of(each[1]).kind is not Kind.UNSUPPORTED]
    return [
        f"max(octet_length(encode({quoted(name)}::VARCHAR)))" if type_ in TEXTS else f"max(hash({quoted(name)}))"
        for name, type_ in described
    ]


def _described(connection: duckdb.DuckDBPyConnection, paths: list[Path]) -> list[tuple[str, str]]:
    listed = ", ".join(text(str(path.resolve())) for path in paths)
    rows = connection.execute(
        f"DESCRIBE SELECT * FROM read_parquet([{listed}], union_by_name = true, {AS_TEXTS})"
    ).fetchall()
    return [(name, type_) for name, type_, *_ in rows]


def refuse_twins(connection: duckdb.DuckDBPyConnection, table: str, paths: list[Path]) -> None:
    """E_SOURCE for two columns by one name: the engine calls the second uid_1, and the catalog could mean either.

    >>> import duckdb, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
    ...     path = Path(folder) / "t.parquet"
    ...     _ = connection.execute(f"COPY (SELECT 1 AS uid, 2 AS x) TO '{path}'")
    ...     refuse_twins(connection, "t", [path])
    """
    listed = ", ".join(text(str(path.resolve())) for path in paths)
    rows = connection.execute(f"SELECT DISTINCT name FROM parquet_schema([{listed}])").fetchall()
    stored = {fold(name) for (name,) in rows}
    read = [fold(name) for name, _ in _described(connection, paths)]
    if any(name not in stored and _numbered(name) in stored for name in read):
        raise twins(table)


def _numbered(name: str) -> str:
    """A name without the number that the engine added."""
    return name.rstrip("0123456789").removesuffix("_")


def twins(table: str) -> ShoalError:
    """Two columns by one name."""
    return ShoalError(
        "E_SOURCE",
        f"Two columns of the table {table!r} have the same name (names are case-insensitive).",
        hint="Rename one of them.",
    )


def refuse_narrowing(connection: duckdb.DuckDBPyConnection, table: str, paths: list[Path]) -> None:
    """E_SOURCE where a column has another type in some file, and a value there may have none in the type of them all.

    A date far away is not a timestamp: the reader would fail when it reaches that row, and not before.
    """
    together = {fold(name): type_ for name, type_ in _described(connection, paths)} if len(paths) > 1 else {}
    for path in paths if together else ():
        for name, type_ in _described(connection, [path]):
            if not _always_becomes(type_, together[fold(name)]):
                raise ShoalError(
                    "E_SOURCE",
                    f"The files of the table {table!r} do not fit together: {name!r} is {type_} in {path.name!r}, "
                    f"and {together[fold(name)]} in all.",
                    hint="The same column must be of the same type in all of them.",
                )


def _always_becomes(stored: str, wanted: str) -> bool:
    """Whether every value can be read as the other type; columns of a type that no query reads do not matter."""
    if stored == wanted or type_of(wanted).kind is Kind.UNSUPPORTED:
        return True
    source, target = _named(stored), _named(wanted)
    return always_casts(source, target) or (target[0] == "FLOAT" and always_casts(source, ("DOUBLE",)))


def _named(type_: str) -> Named:
    known = type_of(type_)
    return ("DECIMAL", known.precision, known.scale) if type_.startswith("DECIMAL") else (type_,)


class _Remembered:
    """Files that passed, in the user's cache; without one, every process reads them again."""

    def __init__(self) -> None:
        folder = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        self._file = Path(folder) / "shoal" / "sound-files-3.json"
        self._known: dict[str, list[int]] = {}
        self._changed = False
        with suppress(OSError, ValueError):
            read = json.loads(self._file.read_text(encoding="utf-8"))
            self._known = read if isinstance(read, dict) else {}

    def knows(self, path: Path, how: str = "") -> bool:
        """Whether the file passed as it is now; `how` it was read, where that can differ."""
        return self._known.get(_name(path, how)) == list(stamp(path))

    def add(self, path: Path, how: str = "") -> None:
        self._known.pop(_name(path, how), None)
        self._known[_name(path, how)] = list(stamp(path))
        self._changed = True

    def save(self) -> None:
        if not self._changed:
            return
        newest = dict(list(self._known.items())[-MOST_REMEMBERED:])
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            written = self._file.with_suffix(f".{os.getpid()}")
            written.write_text(json.dumps(newest), encoding="utf-8")
            written.replace(self._file)


def _name(path: Path, how: str) -> str:
    return f"{path.resolve()}\x1f{how}" if how else str(path.resolve())
