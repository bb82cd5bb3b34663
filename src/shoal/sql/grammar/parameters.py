"""Values for a query's placeholders: each becomes a constant in the query text, before anything parses it.

A value is written as the constant an analyst would write, so a query with parameters is the query with constants: the
same plan, the same price, the same text in the ledger. A string cannot break out of its quotes.

    >>> with_parameters("SELECT COUNT(*) FROM visits WHERE site = ? AND spend > ?", ["O'Hare", 5])
    "SELECT COUNT(*) FROM visits WHERE site = 'O''Hare' AND spend > 5"
    >>> with_parameters("SELECT COUNT(*) FROM visits WHERE site IN $sites", {"sites": ["a", "b"]})
    "SELECT COUNT(*) FROM visits WHERE site IN ('a', 'b')"
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from shoal.errors import ShoalError
from shoal.sql.grammar.tokens import check_size

_PIECES = re.compile(
    r"""
      (?P<kept> '(?:[^']++|'')*+' | "(?:[^"]++|"")*+" | `(?:[^`]++|``)*+` | --[^\r\n]*+ | /\*.*?\*/ | :: | := )
    | (?P<place> \? | \$(?P<number>\d{1,4}) | [$:](?P<name>[A-Za-z_][A-Za-z0-9_]*) )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
MAX_LIST = 10_000
MAX_DEPTH = 2


def with_parameters(sql: str, params: Sequence[Any] | Mapping[str, Any]) -> str:
    """The query with its placeholders replaced by constants: ? and $1 by position, $name and :name by name."""
    if isinstance(params, (str, bytes)) or not isinstance(params, (Mapping, Sequence)):
        raise _wrong("params is a list of values, or a dict of names and values.")
    check_size(sql)
    by_place = not isinstance(params, Mapping)
    used: set[Any] = set()
    marks = 0

    def value_of(found: re.Match[str]) -> str:
        nonlocal marks
        if found["place"] is None:
            return found[0]
        if found[0] == "?":
            marks += 1
        which: Any = found["name"] or int(found["number"] or marks) - 1
        known = not by_place if found["name"] else by_place and 0 <= which < len(params)
        if not known or (found["name"] and which not in params):
            raise _wrong(f"The placeholder {found[0]} has no value.")
        used.add(which)
        return _constant(params[which])

    written = _PIECES.sub(value_of, sql)
    if len(used) < len(params):
        raise _wrong("There are more values than placeholders.")
    return written


def _wrong(message: str) -> ShoalError:
    hint = 'session.query("… WHERE site = ? AND spend > ?", params=["museum", 5])'
    return ShoalError("E_USAGE", message, hint=hint)


def _constant(value: Any, depth: int = 0) -> str:
    """A value as SQL writes it; a list may hold lists, which are rows."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            if value.endswith("\\") or "\\'" in value:
                raise _wrong("A string with a backslash at its end, or before a quote, cannot be a parameter.")
            return "'" + value.replace("'", "''") + "'"
        case dt.datetime():
            return f"TIMESTAMP '{_in_utc(value).isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case dt.time():
            return f"TIME '{value.isoformat()}'"
        case list() | tuple() if 0 < len(value) <= MAX_LIST and depth < MAX_DEPTH:
            return f"({', '.join(_constant(each, depth + 1) for each in value)})"
    return _number(value)


def _in_utc(value: dt.datetime) -> dt.datetime:
    try:
        return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    except OverflowError:
        raise _wrong("A timestamp lies in the years 1 to 9999, in UTC too.") from None


def _number(value: Any) -> str:
    written = ""
    if isinstance(value, (int, float, Decimal)) or hasattr(value, "item"):
        with suppress(TypeError, ValueError, OverflowError):
            text = str(value.item() if hasattr(value, "item") else value)
            written = text if hasattr(value, "item") or math.isfinite(float(text)) else ""
    if not re.fullmatch(r"-?[0-9.]+(?:[eE][+-]?[0-9]+)?", written):
        raise _wrong("A parameter is a number, a string, a boolean, a date, a time, None, or a list of such.")
    return f"({written})" if written.startswith("-") else written
