"""What the expressions of one row cost: bytes of the strings they make, bytes of those they examine, and nanoseconds.

Known from the plan alone. A stored string counts as `STORED_TEXT` bytes; its actual length is bounded where it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.plan.expressions import (
    Call,
    Case,
    Cast,
    Column,
    ExistsRelation,
    InRelation,
    Literal,
    ScalarRelation,
    WindowCall,
    children,
)
from shoal.plan.types import Kind
from shoal.sql.functions.forms import LONGEST_TEXT
from shoal.sql.functions.patterns import regex_size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from shoal.plan.expressions import Expression

STORED_TEXT = 256
"""The assumed length of a stored string, and the number of its bytes that are always read."""
PLAIN_BYTES = 64

COMPUTED = 20
"""Nanoseconds for anything that is computed. These were measured on one thread; the slowest of each kind counts."""
GROUPED = 200
"""A row that is grouped, or compared with all others."""
GROUPED_COLUMN = 20
"""And for each of its columns: 1.9 microseconds for a hundred of them."""
WINDOW = 3_000
"""A window function, which sorts its rows."""
SORTED_COLUMN = 100
"""And for each column that ties may be broken by: 12 microseconds for a hundred of them."""
FRAMED_MEDIAN = 40_000
"""A median of the rows in a frame, which takes longer for each row the more there are: 13 microseconds for 1.6 million."""
TEXT_BYTE = 12
"""A string function, for each byte."""
CAST, CAST_DECIMAL, CAST_BYTE = 100, 400, 2
"""A cast, one from or to a decimal, and for each byte of a string that is cast: 420 ns for 256 bytes that are not a time."""
MEASURED_ARGUMENTS = 3
"""Functions were measured with so many. Each further one takes as long as a function: 17 ns in `x IN (y, z, …)`."""
SLOW = {"bucket_start": 250}
"""Functions of other values that take longer than the rest."""
PATTERN_BYTE, PATTERN_STATE = 50, 25
"""A regular expression, for each byte, and for each byte and each state that it may be in."""
LIKE_BYTE = 1
"""LIKE, for each byte of the string and of the longest part of the pattern between two `%`: such a part is tried at every place.
Parts without `_` are searched for in one go, but not by ILIKE, nor with an escape. 34 ms for 60,000 bytes and 498 times `a_`."""


def longest_text(value: Expression, columns: Mapping[str, int]) -> int:
    """How many bytes a string may have, if functions make it grow; never more than any function returns."""
    match value:
        case Column():
            return columns.get(value.symbol) or STORED_TEXT
        case Literal():
            return len(str(value.value).encode("utf-8", "replace"))
        case Case():
            return max(longest_text(v, columns) for v in (*(v for _, v in value.branches), value.otherwise))
        case Cast():
            return longest_text(value.value, columns) if value.value.type.kind is Kind.TEXT else PLAIN_BYTES
        case Call():
            return min(LONGEST_TEXT, _grown(value, columns))
        case WindowCall():
            return longest_of(value.arguments, columns)
        case ScalarRelation():
            return columns.get(value.relation.fields[0].symbol) or STORED_TEXT
    return STORED_TEXT


def longest_of(values: Iterable[Expression], columns: Mapping[str, int]) -> int:
    """How many bytes the longest string among some values may have."""
    return max((longest_text(v, columns) for v in values if v.type.kind is Kind.TEXT), default=0)


def text_work(value: Expression, columns: Mapping[str, int], long: int) -> int:
    """How many bytes of long strings the functions in an expression examine for one row."""
    sizes = (size for part in _parts(value) if isinstance(part, Call) for size in _texts_of(part, columns))
    return sum(size for size in sizes if size > long)


def nanoseconds(value: Expression, columns: Mapping[str, int]) -> int:
    """Roughly how long an expression takes for one row, at worst."""
    return sum(_own_time(part, columns) for part in _parts(value))


def _own_time(part: Expression, columns: Mapping[str, int]) -> int:
    match part:
        case Column() | Literal() | ExistsRelation() | ScalarRelation():
            return 0
        case WindowCall():
            return FRAMED_MEDIAN if part.function == "median" and part.frame is not None else WINDOW
        case Call():
            own = SLOW.get(part.function, COMPUTED) + COMPUTED * _further_arguments(part)
            return own + _time_of_a_byte(part) * _looked_at(part, columns)
        case Cast():
            return _cast_time(part, columns)
        case Case() | InRelation():
            return COMPUTED


def _further_arguments(call: Call) -> int:
    """Arguments that come on top of what functions were measured with; a list of constants is looked up, whatever its length."""
    if call.function == "in" and all(isinstance(each, Literal) for each in call.arguments[1:]):
        return 0
    return max(0, len(call.arguments) - MEASURED_ARGUMENTS)


def _time_of_a_byte(call: Call) -> int:
    """Nanoseconds for each byte of the strings that a function looks at."""
    pattern = call.arguments[1] if len(call.arguments) > 1 else None
    if not isinstance(pattern, Literal):
        return TEXT_BYTE
    written = str(pattern.value)
    if call.function.startswith("regexp_"):
        return PATTERN_BYTE + PATTERN_STATE * regex_size(written)
    if call.function == "ilike" or (call.function == "like" and ("_" in written or len(call.arguments) > 2)):
        return TEXT_BYTE + LIKE_BYTE * max(len(part.encode("utf-8", "replace")) for part in written.split("%"))
    return TEXT_BYTE


def _cast_time(cast: Cast, columns: Mapping[str, int]) -> int:
    kinds = {cast.value.type.kind, cast.type.kind}
    own = CAST_DECIMAL if Kind.DECIMAL in kinds else CAST
    return own + CAST_BYTE * longest_of([cast.value], columns)


def _looked_at(call: Call, columns: Mapping[str, int]) -> int:
    """Bytes that a function reads, or writes where that is more; lists of constants are looked up, whatever their length."""
    if call.function in GROWING:
        return longest_text(call, columns)
    return sum(
        longest_of([a], columns) for a in call.arguments if a.type.kind is Kind.TEXT and not isinstance(a, Literal)
    )


def _texts_of(call: Call, columns: Mapping[str, int]) -> list[int]:
    return [longest_text(a, columns) for a in call.arguments if a.type.kind is Kind.TEXT]


def _parts(value: Expression) -> Iterator[Expression]:
    """An expression and everything below it; shared parts appear once."""
    seen, stack = set[int](), [value]
    while stack:
        part = stack.pop()
        if id(part) not in seen:
            seen.add(id(part))
            stack.extend(children(part))
            yield part


def held_texts(value: Expression, columns: Mapping[str, int]) -> int:
    """Bytes of computed strings that windows in an expression keep for every row, to sort or to return them."""
    windows = (part for part in _parts(value) if isinstance(part, WindowCall))
    sizes = (longest_of([v], columns) for window in windows for v in children(window))
    return sum(size for size in sizes if size > STORED_TEXT)


GROWING = frozenset({"concat", "repeat", "lpad", "rpad", "replace", "regexp_replace"})
"""Functions whose result may be longer than their input."""


def _grown(call: Call, columns: Mapping[str, int]) -> int:
    texts = [longest_text(a, columns) for a in call.arguments if a.type.kind is Kind.TEXT]
    numbers = [a.value for a in children(call) if isinstance(a, Literal) and isinstance(a.value, int)]
    if call.function in {"repeat", "lpad", "rpad"}:
        return 4 * max(1, *texts) * max(1, *numbers) if numbers else LONGEST_TEXT
    if call.function in {"replace", "regexp_replace"}:
        return (texts[0] + 1) * (texts[-1] + 1) if texts else LONGEST_TEXT
    return sum(texts) + PLAIN_BYTES
