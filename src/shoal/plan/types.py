"""The types a query can use. Few on purpose: equal values of one type must never look different.

Engines have many more; `Type.storage` remembers a column's stored type, so that a group key is returned in that type.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable


class Kind(Enum):
    """What a value is."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DOUBLE = "double"
    DECIMAL = "decimal"
    TEXT = "text"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIME = "time"
    INTERVAL = "interval"
    NULL = "null"
    UNSUPPORTED = "unsupported"


@dataclass(frozen=True, slots=True)
class Type:
    """A kind, with the precision and scale of a decimal; `storage` is the engine's name for the stored type."""

    kind: Kind
    precision: int = 0
    scale: int = 0
    storage: str = ""

    @property
    def is_numeric(self) -> bool:
        """Whether arithmetic makes sense."""
        return self.kind in {Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL, Kind.NULL}

    @property
    def is_temporal(self) -> bool:
        """Whether it is a point in time."""
        return self.kind in {Kind.DATE, Kind.TIMESTAMP}

    def plain(self) -> Type:
        """The same type, without how a column stored it."""
        return replace(self, storage="") if self.storage else self

    def __str__(self) -> str:
        if self.kind is Kind.DECIMAL:
            return f"decimal({self.precision}, {self.scale})"
        return str(self.kind.value)


BOOLEAN = Type(Kind.BOOLEAN)
INTEGER = Type(Kind.INTEGER)
DOUBLE = Type(Kind.DOUBLE)
TEXT = Type(Kind.TEXT)
DATE = Type(Kind.DATE)
TIMESTAMP = Type(Kind.TIMESTAMP)
TIME = Type(Kind.TIME)
INTERVAL = Type(Kind.INTERVAL)
NULL = Type(Kind.NULL)
RELEASED_LIST = Type(Kind.UNSUPPORTED, storage="a released list of doubles")
"""Cut points, or a pair of bounds: outer queries pass them through, and nothing is computed from them."""


def decimal(precision: int, scale: int) -> Type:
    """A fixed-point type."""
    return Type(Kind.DECIMAL, precision, scale)


def are_alike(types: Iterable[Type]) -> bool:
    """Whether values of these types are compared without a cast; how a column stored them makes no difference."""
    return len({t.plain() for t in types}) <= 1


_NUMERIC_ORDER = (Kind.NULL, Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE)


def common_type(types: list[Type]) -> Type | None:
    """The one type to which values of all these convert without surprise, or None.

    Numbers widen integer → decimal → double, a date widens to a timestamp, NULL fits everything. Text is never converted
    implicitly.
    """
    known = [t for t in types if t.kind is not Kind.NULL]
    if not known:
        return NULL
    kinds = {t.kind for t in known}
    if all(t == RELEASED_LIST for t in types):
        return RELEASED_LIST
    if Kind.UNSUPPORTED in kinds:
        return None
    if len(kinds) == 1:
        return _widest_decimal(known) if Kind.DECIMAL in kinds else _same(known)
    if kinds <= set(_NUMERIC_ORDER):
        return DOUBLE if Kind.DOUBLE in kinds else _widest_decimal(known)
    if kinds <= {Kind.DATE, Kind.TIMESTAMP}:
        return TIMESTAMP
    return None


def _same(types: list[Type]) -> Type:
    first = types[0]
    return first if all(t == first for t in types) else first.plain()


def _widest_decimal(types: list[Type]) -> Type:
    """Integers count as decimal(19, 0); anything that does not fit 38 digits becomes a double."""
    parts = [(19, 0) if t.kind is Kind.INTEGER else (t.precision, t.scale) for t in types]
    scale = max(s for _, s in parts)
    whole = max(p - s for p, s in parts)
    if whole + scale > 38:
        return DOUBLE
    if all(t.kind is Kind.DECIMAL and (t.precision, t.scale) == parts[0] for t in types):
        return _same(types)
    return decimal(whole + scale, scale)
