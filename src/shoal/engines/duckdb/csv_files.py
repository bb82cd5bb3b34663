"""CSV files as relations that no row can break: what is not a row is left out, what does not parse is NULL.

How a file is cut into columns comes from its first line alone, never from rows: a delimiter guessed from data could change for
everybody because of one owner. Types are guessed when a session opens, so that a few odd values do not decide; a catalog that
names them (`type = "BIGINT"`) leaves nothing to guess. Quotation marks inside values must be doubled, as in any CSV: a file that
people can write into unescaped is better converted to parquet.
"""

from __future__ import annotations

import csv
import zlib
from dataclasses import field
from typing import TYPE_CHECKING

from shoal.catalog import CsvOptions, fold
from shoal.engines.data_files import COMPRESSED, ending, opened
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping
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


@dataclass(frozen=True, slots=True)
class Spellings:
    """What the catalog says about strings that become values: types by the small letters of a column's name, and spellings."""

    declared: Mapping[str, str] = field(default_factory=dict)
    options: CsvOptions = field(default_factory=CsvOptions)

    def number(self, column: str) -> str:
        """A string with the point that numbers have."""
        column = self.whole(column)
        return column if self.options.decimal == "." else f"replace({column}, {text(self.options.decimal)}, '.')"

    def whole(self, column: str) -> str:
        """A string without what separates groups of three digits; unchanged if the groups are not of three."""
        mark = self.options.thousands
        if mark is None:
            return column
        grouped = rf"\s*[+-]?[0-9]{{1,3}}([{mark}][0-9]{{3}})+([{self.options.decimal}][0-9]*)?\s*"
        return f"CASE WHEN regexp_full_match({column}, {text(grouped)}) THEN replace({column}, {text(mark)}, '') ELSE {column} END"

    def instant(self, column: str, type_: str) -> str:
        """A string as a date or a timestamp, NULL if it is neither."""
        pattern = self.options.date_format if type_ == "DATE" else self.options.timestamp_format
        if pattern is None:
            return f"TRY_CAST({column} AS {type_})"
        return f"TRY_CAST(try_strptime({column}, {text(pattern)}) AS {type_})"

    def present(self, column: str) -> str:
        """A text, NULL where it is one of those that mean missing."""
        listed = ", ".join(map(text, self.options.null))
        return f"CASE WHEN {column} NOT IN ({listed}) THEN {column} END" if listed else column

    def tests(self) -> dict[str, str]:
        """What the strings of a column can be."""
        number, whole, instant = self.number("v"), self.whole("v"), self.options.date_format is not None
        found = {
            name: test.replace("match(v", f"match({whole}").replace("try_cast(v", f"try_cast({number}")
            for name, test in _TESTS.items()
        }
        if instant:
            found["date"] = f"{self.instant('v', 'DATE')} IS NOT NULL"
        found["timestamp"] = f"{self.instant('v', 'TIMESTAMP')} IS NOT NULL"
        return found


def csv_relation(connection: duckdb.DuckDBPyConnection, paths: list[Path], spellings: Spellings | None = None) -> str:
    """SELECT over CSV files of one shape; values are read as text and try-cast."""
    spellings = spellings or Spellings()
    return typed_relation(connection, *texts_of(paths, spellings), spellings)


@dataclass(frozen=True, slots=True)
class Misfits:
    """Strings of a column that its guessed type leaves out."""

    number: int
    start: str
    """How most of them begin."""
    type_name: str
    grouped: bool
    """Whether all are numbers with commas between thousands."""


def misfits(connection: duckdb.DuckDBPyConnection, paths: list[Path]) -> dict[str, Misfits]:
    """Column → the strings that the guessed type leaves out, where there are any."""
    spellings, commas = Spellings(), Spellings(options=CsvOptions(thousands=","))
    rows, names = texts_of(paths, spellings)
    found: dict[str, Misfits] = {}
    for name, type_ in zip(names, guessed_types(connection, rows, names, spellings), strict=True):
        column = quoted(name)
        lost = f"trim({column}) <> '' AND {_value(column, type_, spellings)} IS NULL"
        kept = f"count(*) FILTER (WHERE {_value(column, type_, commas)} IS NOT NULL)"
        query = f"SELECT count(*), mode(left({column}, 2)), {kept} FROM {rows} WHERE {lost}"
        number, start, read = connection.execute(query).fetchall()[0] if type_ != "VARCHAR" else (0, "", 0)
        if number:
            found[name] = Misfits(number, start, type_, read == number)
    return found


def texts_of(paths: list[Path], spellings: Spellings) -> tuple[str, list[str]]:
    """The relation of all strings, and its columns."""
    names, delimiter = _header(paths[0], spellings.options.delimiter)
    if any(_header(path, spellings.options.delimiter) != (names, delimiter) for path in paths[1:]):
        raise ShoalError(
            "E_SOURCE",
            "CSV files of one table have different first lines.",
            hint="Each file must name the same columns in the same order.",
        )
    texts = ", ".join(f"{text(name)}: 'VARCHAR'" for name in names)
    options = (
        f"auto_detect = false, header = true, delim = {text(delimiter)}, quote = '\"', escape = '\"', "
        "ignore_errors = true, null_padding = true, parallel = false, hive_partitioning = false"
    )
    files = ", ".join(text(str(path.resolve())) for path in paths)
    return f"read_csv([{files}], columns = {{{texts}}}, {options})", names


def typed_relation(connection: duckdb.DuckDBPyConnection, rows: str, names: list[str], spellings: Spellings) -> str:
    """SELECT over a relation of strings, each as a value of the type that is declared, or that nearly all of them have."""
    types = guessed_types(connection, rows, names, spellings)
    items = ", ".join(f"{_value(quoted(n), t, spellings)} AS {quoted(n)}" for n, t in zip(names, types, strict=True))
    return f"SELECT {items} FROM {rows}"


def _value(column: str, type_: str, spellings: Spellings) -> str:
    """A string as a value of a type, NULL where it is not one: 7.4 is not read as a whole number that rounds to 7."""
    column = spellings.present(column)
    if type_ in {"DATE", "TIMESTAMP"}:
        return spellings.instant(column, type_)
    if type_ in {"DOUBLE", "FLOAT"} or type_.startswith("DECIMAL"):
        return f"TRY_CAST({spellings.number(column)} AS {type_})"
    column = spellings.whole(column) if type_ in {"BIGINT", "HUGEINT"} else column
    value = f"TRY_CAST({column} AS {type_})"
    if type_ not in {"BIGINT", "HUGEINT"}:
        return value
    return f"CASE WHEN regexp_full_match({column}, '\\s*[+-]?[0-9]+\\s*') THEN {value} END"


def _header(path: Path, given: str | None = None) -> tuple[list[str], str]:
    """The names in the first line, and the character between them."""
    refused = reading_refused(path)
    if refused is not None:
        raise refused
    line = _first_line(path)
    guessed = "\t" if ending(path).startswith(".tsv") else max(DELIMITERS, key=line.count)
    delimiter = given or guessed
    names = [name.strip() or f"column{i}" for i, name in enumerate(next(csv.reader([line], delimiter=delimiter), []))]
    if not names or len({fold(name) for name in names}) < len(names):
        raise ShoalError(
            "E_SOURCE",
            f"The first line of {str(path)!r} must name the columns, each once.",
            hint="A CSV file starts with a line such as uid,day,spend.",
        )
    return names, delimiter


def csv_delimiter(path: Path) -> str:
    """What separates the columns of a file."""
    return _header(path)[1]


def _first_line(path: Path) -> str:
    if path.suffix.lower() not in COMPRESSED:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            return file.readline(LONGEST_HEADER)
    try:
        with opened(path, errors="replace") as file:
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
    """What the system has against reading a file, if anything; nothing of its content is revealed."""
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        reason = error.strerror or "it cannot be read"
        return ShoalError(
            "E_SOURCE", f"The file {str(path)!r} cannot be read: {reason}.", hint="Check that this account can read it."
        )
    return None


def guessed_types(
    connection: duckdb.DuckDBPyConnection, rows: str, names: list[str], spellings: Spellings
) -> list[str]:
    """The type of each column: the declared one, or the one that nearly all of its first strings have."""
    tests = spellings.tests()
    counts = ", ".join(["count(v)", *(f"count(*) FILTER (WHERE {test})" for test in tests.values())])
    found = []
    for name in names:
        if fold(name) in spellings.declared:
            found.append(spellings.declared[fold(name)])
            continue
        sample = f"SELECT {spellings.present(quoted(name))} AS v FROM {rows} LIMIT {SAMPLE_ROWS}"
        row = connection.execute(f"SELECT {counts} FROM ({sample})").fetchall()[0]
        found.append(_type(row[0], dict(zip(tests, row[1:], strict=True))))
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
