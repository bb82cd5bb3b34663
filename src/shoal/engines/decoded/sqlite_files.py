"""SQLite files as tables. A column there may hold values of any type, whatever it was declared as.

So every table is read once, in one transaction, when a session opens. A value that is not of its column's type is NULL; it can
neither fail later nor change the type for everybody. Columns declared as something that SQLite does not know (dates, booleans,
decimals) are read as strings and get the type that nearly all of them have.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from shoal.engines.decoded.texts import with_types
from shoal.engines.duckdb.csv_files import quoted
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

MAGIC = b"SQLite format 3\x00"
_NUMBERS = ("integer", "real")
_WHOLE = "CASE WHEN typeof({0}) = 'integer' THEN {0} END"
_REAL = "CASE WHEN typeof({0}) IN ('integer', 'real') THEN CAST({0} AS REAL) END"
_TEXT = "CASE WHEN typeof({0}) IN ('text', 'integer', 'real') THEN CAST({0} AS TEXT) END"


def is_sqlite(path: Path) -> bool:
    """Whether a file begins as SQLite's do; its name may say anything."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def read_sqlite(path: Path, declared: Mapping[str, Mapping[str, str]] | None = None) -> dict[str, pa.Table]:
    """Table → its rows; `declared` has the types that a catalog gives, by the small letters of table and column."""
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
        try:
            connection.execute("BEGIN")
            names = connection.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
            ).fetchall()
            return {name: _table(connection, name, (declared or {}).get(name.lower(), {})) for (name,) in names}
        finally:
            connection.close()
    except (sqlite3.Error, UnicodeError, OverflowError):
        raise ShoalError(
            "E_SOURCE",
            f"The SQLite file {str(path)!r} is damaged, locked, or holds text that is not UTF-8.",
            hint="Check it with PRAGMA integrity_check, and that no other process writes to it.",
        ) from None


def _table(connection: sqlite3.Connection, name: str, declared: Mapping[str, str]) -> pa.Table:
    import pyarrow as pa

    described = connection.execute(f"PRAGMA table_xinfo({quoted(name)})").fetchall()
    columns = [(str(row[1]), str(row[2] or "").upper()) for row in described if row[6] != 1]
    kinds = {column: _kind(type_) if column.lower() not in declared else "text" for column, type_ in columns}
    forms = {"whole": (_WHOLE, pa.int64()), "real": (_REAL, pa.float64())}
    listed = ", ".join(forms.get(kind, (_TEXT, None))[0].format(quoted(column)) for column, kind in kinds.items())
    # Text that is not UTF-8 raises here, when it is fetched.
    rows = connection.execute(f"SELECT {listed} FROM {quoted(name)}").fetchall()
    fetched = list(zip(*rows, strict=True)) if rows else [()] * len(kinds)
    arrays = {
        column: pa.array(values, forms.get(kind, (_TEXT, pa.string()))[1])
        for (column, kind), values in zip(kinds.items(), fetched, strict=True)
    }
    sure = {column: "VARCHAR" for column, kind in kinds.items() if kind == "sure text"}
    open_ones = [column for column, kind in kinds.items() if kind in {"text", "sure text"}]
    if open_ones:
        types = {column.lower(): type_ for column, type_ in {**sure}.items()} | dict(declared)
        typed = with_types(pa.table({column: arrays[column] for column in open_ones}), types)
        arrays |= {column: typed.column(column) for column in open_ones}
    return pa.table(arrays)


def _kind(type_: str) -> str:
    """What a declared type means to SQLite, where it means something; else what the strings say decides."""
    if "INT" in type_:
        return "whole"
    if any(word in type_ for word in ("CHAR", "CLOB", "TEXT")):
        return "sure text"
    if any(word in type_ for word in ("REAL", "FLOA", "DOUB")):
        return "real"
    return "text"
