"""Columns as they really are: strings that are numbers, values that do not fit, words that mean missing, short lists of values."""

from __future__ import annotations

import datetime as dt
import re
from calendar import monthrange
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.cli.first_catalog.spelling import dates_written, numbers_written, sign_beside
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.plan.types import Kind
from shoal.sql.functions import type_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.cli.first_catalog.spelling import Numbers
    from shoal.engines.base import Engine

ROWS_LOOKED_AT = 200_000
FEW_VALUES = 25
MOST_LISTED = 1_000
TIMES = frozenset({Kind.DATE, Kind.TIMESTAMP})
NEARLY = 0.8
"""From this share on, the values that are not numbers are worth a word."""
MISSING = frozenset({
    "", "(blank)", "blank", "n/a", "na", "n.a.", "#n/a", "null", "none", "nan", "-", "--", "---", "?", ".", "unknown", "missing",
    "not available", "not applicable", "k.a.", "k. a.", "keine angabe", "unbekannt", "n.d.", "nd", "s/d", "s.d.", "n.c.",
    "inconnu", "desconocido", "sin dato",
})  # fmt: skip
"""Texts that mean that nothing is there, in lower case."""
_WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"[+-]?(0|[1-9][0-9]*)?(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?")
_NAMES = re.compile(r"(id|key|no|number|code|uuid|zip|postal|phone|fax|mobile)$", re.IGNORECASE)
"""Columns whose digits are names: nobody adds them up."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found in one column."""

    values: int
    """Present ones, among the rows that were looked at."""
    distinct: int
    missing: Mapping[str, int]
    """Texts that may mean that nothing is there, and how often."""
    read_as: str | None = None
    """The type that all other strings have."""
    misfits: int = 0
    example: str = ""
    """How most misfits begin."""
    written: str | None = None
    """How dates or timestamps are written, where that is not as 2010-12-31."""
    numbers: tuple[Numbers, ...] = ()
    """The ways in which strings with commas are numbers."""
    sign: str = ""
    """What stands before or after every number, such as $ or %."""
    misread: bool = False
    """Whether the misfits are NULL for queries, because a type was guessed for a file that has none."""
    is_yes_or_no: bool = False
    """Whether whole numbers are 0 and 1, and nothing else."""
    is_time: bool = False
    """Whether the column is stored as dates or timestamps."""

    @property
    def has_days(self) -> bool:
        """Whether the values are of some days, however they are written."""
        return self.is_time or self.written is not None or self.read_as in {"DATE", "TIMESTAMP"}

    @property
    def has_few(self) -> bool:
        """Whether the values could be a list that people know."""
        return 1 < self.distinct <= FEW_VALUES and self.values >= 3 * self.distinct


def look_at(engine: Engine, table: str, columns: Mapping[str, str]) -> dict[str, Looked]:
    """Texts, whole numbers, booleans and times of a table; of large tables the first rows. Of times only that they are some."""
    found = {name: type_of(type_).kind for name, type_ in columns.items()}
    kinds = {Kind.TEXT, Kind.INTEGER, Kind.BOOLEAN}
    times = {name: Looked(0, 0, {}, is_time=True) for name, kind in found.items() if kind in TIMES}
    return times | {
        name: judged(name, counted(engine, table, name), kind) for name, kind in found.items() if kind in kinds
    }


def counted(engine: Engine, table: str, column: str, most: int | None = ROWS_LOOKED_AT) -> Counter[object]:
    """How often each value occurs in a column."""
    found: Counter[object] = Counter()
    seen = 0
    for batch in engine.columns(table, [column]):
        found.update(batch.column(0).to_pylist())
        seen += batch.num_rows
        if most is not None and seen >= most:
            break
    del found[None]
    return found


def count_missing(engine: Engine, table: str, column: str) -> int:
    """In how many rows a column is NULL, among those that are looked at."""
    missing = seen = 0
    for batch in engine.columns(table, [column]):
        missing += batch.column(0).null_count
        seen += batch.num_rows
        if seen >= ROWS_LOOKED_AT:
            break
    return missing


def judged(name: str, values: Counter[object], kind: Kind) -> Looked:
    """What the values of a column say about it."""
    if kind is not Kind.TEXT:
        return Looked(values.total(), len(values), {}, is_yes_or_no=kind is Kind.INTEGER and set(values) == {0, 1})
    texts = {str(value): number for value, number in values.items()}
    missing = {value: number for value, number in texts.items() if value.strip().lower() in MISSING}
    rest = {value: number for value, number in texts.items() if value not in missing}
    numbers = sum(number for value, number in rest.items() if is_number(value))
    present = sum(rest.values())
    looked = Looked(values.total(), len(values), missing, _read_as(name, list(rest)))
    if looked.read_as is not None:
        return looked
    looked = replace(looked, written=dates_written(rest), numbers=() if _NAMES.search(name) else numbers_written(rest))
    sign = "" if looked.written or looked.numbers else sign_beside(rest)
    if sign:
        bare = {value.strip(f"{sign} "): 1 for value in rest}
        return replace(looked, sign=sign, numbers=numbers_written(bare))
    if not looked.numbers and NEARLY * present <= numbers < present:
        odd = {value: number for value, number in rest.items() if not is_number(value)}
        return replace(looked, misfits=sum(odd.values()), example=_beginning(odd))
    return looked


def is_number(value: str) -> bool:
    """Whether a string is a number as people write one.

    >>> [is_number(text) for text in ("12", "-0.5", "C536379", "", "007")]
    [True, True, False, False, False]
    """
    return any(digit in value for digit in "0123456789") and _NUMBER.fullmatch(value) is not None


def _read_as(name: str, values: list[str]) -> str | None:
    """The type that all values have; digits that are names stay text."""
    if not values:
        return None
    for pattern, type_ in ((_DATE, "DATE"), (_TIMESTAMP, "TIMESTAMP")):
        if all(map(pattern.fullmatch, values)):
            return type_
    if _NAMES.search(name) or not all(map(is_number, values)):
        return None
    return "BIGINT" if all(map(_WHOLE.fullmatch, values)) else "DOUBLE"


def _beginning(odd: Mapping[str, int]) -> str:
    """The two characters that most of them begin with."""
    starts: Counter[str] = Counter()
    for value, number in odd.items():
        starts[value[:2]] += number
    return starts.most_common(1)[0][0]


def period(engine: Engine, table: str, column: str, written: str | None) -> tuple[dt.date, dt.date] | None:
    """The months of the first and the last value, whole, so that nobody's day is written down; None without values."""
    values = counted(engine, table, column, most=None)
    days = [day for value in values if (day := _day(value, written)) is not None]
    if not days:
        return None
    first, last = min(days).replace(day=1), max(days)
    return first, last.replace(day=monthrange(last.year, last.month)[1])


def _day(value: object, written: str | None) -> dt.date | None:
    if isinstance(value, str):
        try:
            return dt.datetime.strptime(value, written).date() if written else dt.date.fromisoformat(value[:10])  # noqa: DTZ007 - a day
        except ValueError:
            return None
    if isinstance(value, dt.datetime):
        return value.date()
    return value if isinstance(value, dt.date) else None


def listed(engine: Engine, table: str, column: str) -> list[object]:
    """Every value of a column whose list is public knowledge, as the custodian says."""
    values = counted(engine, table, column, most=None)
    if len(values) > MOST_LISTED:
        raise ShoalError(
            "E_USAGE",
            f"{table}.{column} has more than {MOST_LISTED:,} values, which is not a list that everybody knows.",
            hint="Keep the list in a separate public table, and join it.",
        )
    if not all(isinstance(value, (str, bool, int)) for value in values):
        raise ShoalError(
            "E_USAGE", f"Only strings, whole numbers and booleans can be listed; {table}.{column} is neither."
        )
    return sorted(values, key=lambda value: (str(type(value)), value))
