"""JSON lines as tables. Every line is read when a session opens, and a line that is not an object is reported by its number.

A column that one line alone mentions would reveal that line, so columns are those that the catalog names, in its order, or else
those of the first rows. Numbers keep the digits they are written with; what is nested becomes its text.
"""

from __future__ import annotations

import gzip
import json
import zlib
from typing import TYPE_CHECKING, Any

from shoal.engines.data_files import opened
from shoal.engines.decoded.texts import with_types
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import pyarrow as pa

FIRST_ROWS = 20_000
MOST_COLUMNS = 2_000


def read_json_lines(paths: Iterable[Path], declared: Mapping[str, str], names: Iterable[str] = ()) -> pa.Table:
    """The rows of some files of one table; `names` are the columns that the catalog knows, `declared` their types.

    A column that the catalog names is there, whether or not a line mentions it: else one line would decide whether a session opens.
    """
    import pyarrow as pa

    rows = [row for path in paths for row in _rows(path)]
    columns = [*dict.fromkeys(names)] or [
        *dict.fromkeys(key for row in rows[:FIRST_ROWS] for key in row if _is_name(key))
    ]
    if not columns or len(columns) > MOST_COLUMNS or len({name.lower() for name in columns}) < len(columns):
        raise ShoalError(
            "E_SOURCE",
            "The JSON lines name no columns, too many, or two that differ in case alone.",
            hint='A line is an object such as {"uid": 1, "spend": 9.5}.',
        )
    found = {name: pa.array([_text(_value(row, name)) for row in rows], pa.string()) for name in columns}
    return with_types(pa.table(found), declared)


def _is_name(key: str) -> bool:
    """Whether a column can have this name: the engine has none of no letters, with zero bytes, or with halves of characters."""
    return bool(key) and "\0" not in key and not any("\ud800" <= letter <= "\udfff" for letter in key)


def _value(row: Mapping[str, Any], name: str) -> Any:
    """The value of a column in a line: by its name, else by the first key that is spelled so but for case."""
    if name in row:
        return row[name]
    return next((value for key, value in row.items() if key.lower() == name.lower()), None)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    number = 0
    try:
        with opened(path) as file:
            for number, line in enumerate(file, 1):  # noqa: B007 - told in the error
                if line.strip():
                    yield _row(line)
    except (OSError, EOFError, zlib.error, gzip.BadGzipFile):
        raise _damaged(path, "it is cut off, or not compressed as its name says") from None
    except (ValueError, RecursionError):  # UnicodeDecodeError is one
        raise _damaged(path, f"line {number + 1 if number == 0 else number} is not a JSON object in UTF-8") from None


def _row(line: str) -> dict[str, Any]:
    row = json.loads(line, parse_int=str, parse_float=str, parse_constant=str)
    if not isinstance(row, dict):
        raise ValueError  # noqa: TRY004 - like any other line that is not a row
    return row


def _text(value: Any) -> str | None:
    """A scalar as it is written; lists and objects as JSON."""
    if value is None or isinstance(value, str):
        return None if value is None else value.encode("utf-8", "replace").decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=True)


def _damaged(path: Path, what: str) -> ShoalError:
    return ShoalError(
        "E_SOURCE",
        f"The file {str(path)!r} cannot be read: {what}.",
        hint="Mend it, or convert it to parquet. A single broken line would make some queries fail, and not others.",
    )
