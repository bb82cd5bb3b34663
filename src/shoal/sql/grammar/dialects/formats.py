"""Formats of dates as PostgreSQL, MySQL and SQL Server spell them, as %-codes."""

from __future__ import annotations

import re

_TO_CHAR = {
    "YYYY": "%Y",
    "IYYY": "%G",
    "YY": "%y",
    "MONTH": "%B",
    "MMMM": "%B",
    "MON": "%b",
    "MM": "%m",
    "DDD": "%j",
    "DAY": "%A",
    "DY": "%a",
    "DD": "%d",
    "HH24": "%H",
    "HH12": "%I",
    "HH": "%I",
    "MI": "%M",
    "SS": "%S",
    "AM": "%p",
    "PM": "%p",
    "IW": "%V",
}
_LETTERS = {
    "yyyy": "%Y",
    "yy": "%y",
    "MMMM": "%B",
    "MMM": "%b",
    "MM": "%m",
    "M": "%m",
    "dddd": "%A",
    "ddd": "%a",
    "EEEE": "%A",
    "EEE": "%a",
    "E": "%a",
    "dd": "%d",
    "d": "%d",
    "HH": "%H",
    "H": "%H",
    "hh": "%I",
    "mm": "%M",
    "ss": "%S",
    "tt": "%p",
}
_MYSQL = {"i": "%M", "s": "%S", "M": "%B", "W": "%A", "c": "%m", "e": "%d", "h": "%I", "k": "%H", "v": "%V", "x": "%G"}
_SAME_IN_MYSQL = frozenset("YymdHISpjabfw%T")


def of_to_char(written: str) -> str | None:
    """A format of TO_CHAR, TO_DATE and TO_TIMESTAMP; None if a part of it has no %-code.

    >>> of_to_char("YYYY-MM"), of_to_char("FMDay"), of_to_char("Q")
    ('%Y-%m', '%A', None)
    """
    return _in_codes(re.sub("^FM", "", written), {**_TO_CHAR, **{k.lower(): v for k, v in _TO_CHAR.items()}}, fold=True)


def of_letters(written: str) -> str | None:
    """A format in which the number of letters matters, as in SQL Server and Spark.

    >>> of_letters("yyyy-MM"), of_letters("dddd"), of_letters("C")
    ('%Y-%m', '%A', None)
    """
    return _in_codes(written, _LETTERS, fold=False)


def of_mysql(written: str) -> str | None:
    """A format of DATE_FORMAT and STR_TO_DATE.

    >>> of_mysql("%Y-%m %H:%i"), of_mysql("%M"), of_mysql("%u")
    ('%Y-%m %H:%M', '%B', None)
    """
    parts = re.split("(%.)", written)
    found = [_mysql_code(part) for part in parts]
    return None if None in found else "".join(part for part in found if part is not None)


def _mysql_code(part: str) -> str | None:
    if len(part) != 2 or not part.startswith("%"):
        return part
    return part if part[1] in _SAME_IN_MYSQL else _MYSQL.get(part[1])


def _in_codes(written: str, codes: dict[str, str], *, fold: bool) -> str | None:
    """Every run of letters as codes, longest first; other characters are unchanged."""
    longest = sorted(codes, key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest)), re.IGNORECASE if fold else 0)
    left = pattern.sub("", written)
    if "%" in written or left == written or any(c.isalpha() for c in left):
        return None
    return pattern.sub(lambda m: codes[m.group().upper() if fold else m.group()], written)
