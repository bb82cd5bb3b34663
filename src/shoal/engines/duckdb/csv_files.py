"""CSV files as relations that no row can break: what is not a row is left out, what does not parse is NULL.

How a file is cut into columns comes from its first line alone, never from rows: a delimiter guessed from data could change for
everybody because of one owner. Types are guessed when a session opens, so that a few odd values do not decide; a catalog that
names them (`type = "BIGINT"`) leaves nothing to guess. Quotation marks inside values must be doubled, as in any CSV: a file that
people can write into unescaped is better converted to parquet.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from typing import TYPE_CHECKING

from shoal.catalog import fold
from shoal.engines.data_files import ending
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

DELIMITERS = ",;\t|"
LONGEST_HEADER = 1 << 20
SAMPLE_ROWS = 20_000
ENOUGH = 0.95
"""The share of values that must parse for a type to be taken."""

_TESTS = {
    "whole": r"regexp_full_match(v, '[+-]?(0|[1-9][0-9]*)')",
    "padded": r"regexp_full_match(v, '[+-]?0[0-9]+')",
    "date": r"regexp_full_match(v, '[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}') AND try_cast(v AS DATE) IS NOT NULL",
    "truth": "lower(v) IN ('true', 'false')",
    "bigint": "try_cast(v AS BIGINT) IS NOT NULL",
    "hugeint": "try_cast(v AS HUGEINT) IS NOT NULL",
    "double": "try_cast(v AS DOUBLE) IS NOT NULL",
    "timestamp": "try_cast(v AS TIMESTAMP) IS NOT NULL",
}


def csv_relation(connection: duckdb.DuckDBPyConnection, paths: list[Path]) -> str:
    """SELECT over CSV files of one shape; values are read as text and try-cast."""
    names, delimiter = _header(paths[0])
    if any(_header(path) != (names, delimiter) for path in paths[1:]):
        raise ShoalError(
            "E_SOURCE",
            "CSV files of one table have different first lines.",
            hint="Each file must name the same columns in the same order.",
        )
    texts = ", ".join(f"{text(name)}: 'VARCHAR'" for name in names)
    options = (
        f"auto_detect = false, header = true, delim = {text(delimiter)}, quote = '\"', escape = '\"', "
        "ignore_errors = true, null_padding = true, parallel = false"
    )
    files = ", ".join(text(str(path.resolve())) for path in paths)
    rows = f"read_csv([{files}], columns = {{{texts}}}, {options})"
    types = _types(connection, rows, names)
    items = ", ".join(f"{_value(quoted(n), t)} AS {quoted(n)}" for n, t in zip(names, types, strict=True))
    return f"SELECT {items} FROM {rows}"


def _value(column: str, type_: str) -> str:
    """A text as a value of the guessed type, NULL where it is none: 7.4 is no whole number, not one that rounds to 7."""
    value = f"TRY_CAST({column} AS {type_})"
    if type_ not in {"BIGINT", "HUGEINT"}:
        return value
    return f"CASE WHEN regexp_full_match({column}, '\\s*[+-]?[0-9]+\\s*') THEN {value} END"


def _header(path: Path) -> tuple[list[str], str]:
    """The names in the first line, and the character between them."""
    refused = reading_refused(path)
    if refused is not None:
        raise refused
    line = _first_line(path)
    delimiter = "\t" if ending(path).startswith(".tsv") else max(DELIMITERS, key=line.count)
    names = [name.strip() or f"column{i}" for i, name in enumerate(next(csv.reader([line], delimiter=delimiter), []))]
    if not names or len({fold(name) for name in names}) < len(names):
        raise ShoalError(
            "E_SOURCE",
            f"The first line of {str(path)!r} must name the columns, each once.",
            hint="A CSV file starts with a line such as uid,day,spend.",
        )
    return names, delimiter


def _first_line(path: Path) -> str:
    if path.suffix.lower() != ".gz":
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            return file.readline(LONGEST_HEADER)
    try:
        with gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
            line: str = file.readline(LONGEST_HEADER)
            # Read to the end once: what is cut off or damaged would fail in the middle of a query.
            while file.read(LONGEST_HEADER):
                pass
    except (OSError, EOFError, zlib.error):
        raise ShoalError(
            "E_SOURCE",
            f"The compressed file {str(path)!r} is damaged or cut off.",
            hint="Compress it again, or unpack it.",
        ) from None
    return line


def reading_refused(path: Path) -> ShoalError | None:
    """What the system has against reading a file, if anything; nothing of its content is told."""
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        return ShoalError(
            "E_SOURCE", f"The file {str(path)!r} cannot be read: {reason}.", hint="Check that this account can read it."
        )
    return None


def _types(connection: duckdb.DuckDBPyConnection, rows: str, names: list[str]) -> list[str]:
    counts = ", ".join(["count(v)", *(f"count(*) FILTER (WHERE {test})" for test in _TESTS.values())])
    sample = f"FROM {rows} LIMIT {SAMPLE_ROWS}"
    found = []
    for name in names:
        row = connection.execute(f"SELECT {counts} FROM (SELECT {quoted(name)} AS v {sample})").fetchall()[0]
        found.append(_type(row[0], dict(zip(_TESTS, row[1:], strict=True))))
    return found


def _type(present: int, parsed: dict[str, int]) -> str:
    """The narrowest type that nearly all values have; numbers with leading zeros are names, not numbers."""

    def nearly_all(*tests: str) -> bool:
        return present > 0 and all(parsed[test] >= ENOUGH * present for test in tests)

    if parsed["padded"] > (1 - ENOUGH) * present:
        return "VARCHAR"
    if nearly_all("whole"):
        # Ids of 40 digits are names, and as numbers they would be missing.
        return "BIGINT" if nearly_all("bigint") else "HUGEINT" if parsed["hugeint"] >= parsed["whole"] else "VARCHAR"
    for test, type_ in (("double", "DOUBLE"), ("date", "DATE"), ("timestamp", "TIMESTAMP"), ("truth", "BOOLEAN")):
        if nearly_all(test):
            return type_
    return "VARCHAR"


def quoted(identifier: str) -> str:
    """An identifier that nothing in it can end."""
    return '"' + identifier.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text constant."""
    return "'" + value.replace("'", "''") + "'"
