"""Implicit conversions between types, and the errors when there is none.

Numbers widen integer → decimal → double, a date widens to a timestamp, NULL fits everything, and a text *constant*
next to a date, a time, a timestamp, a number or a boolean is read as one. Nothing else changes type without a CAST.
Constants are converted here, exactly.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime, time
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.plan.expressions import Call, Cast, Expression, Literal, Position
from shoal.plan.types import BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, Kind, Type, common_type

if TYPE_CHECKING:
    from collections.abc import Sequence

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIMESTAMP = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?")
_TIME = re.compile(r"\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?")

_NUMBER = re.compile(r"[+-]?(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][+-]?\d{1,3})?", re.ASCII)
_TRUTHS = {"true": True, "yes": True, "y": True, "t": True, "1": True}
_TRUTHS |= {"false": False, "no": False, "n": False, "f": False, "0": False}


def unsupported(message: str, position: Position, hint: str | None = None) -> ShoalError:
    """The error for arguments a function does not accept."""
    return ShoalError("E_UNSUPPORTED", message, hint=hint, position=position)


def coerced(expression: Expression, target: Type) -> Expression | None:
    """The expression as a value of the target type, or None if that requires a CAST."""
    source = expression.type
    if source.kind is target.kind and source.kind is not Kind.DECIMAL:
        return expression
    if isinstance(expression, Literal):
        return _coerced_literal(expression, target)
    if (source.kind, target.kind) in _WIDENINGS or source.kind is Kind.NULL:
        return Cast(expression, target.plain(), expression.position)
    if source.kind is target.kind:
        same = (source.precision, source.scale) == (target.precision, target.scale)
        return expression if same else Cast(expression, target.plain(), expression.position)
    return None


_WIDENINGS = {
    (Kind.INTEGER, Kind.DECIMAL),
    (Kind.INTEGER, Kind.DOUBLE),
    (Kind.DECIMAL, Kind.DOUBLE),
    (Kind.DATE, Kind.TIMESTAMP),
}


def _coerced_literal(literal: Literal, target: Type) -> Literal | None:
    value, source = literal.value, literal.type.kind
    if value is None:
        widened: Any = None
        if source is not Kind.NULL and (source, target.kind) not in _WIDENINGS and source is not target.kind:
            return None
    elif source is Kind.TEXT:
        widened = parsed_temporal(value, target.kind)
        if widened is None:
            return None
    elif source is target.kind:
        widened = value
    elif (source, target.kind) in _WIDENINGS:
        widened = _widened(value, target.kind)
    else:
        return None
    return replace(literal, value=widened, type=target.plain())


def _widened(value: Any, kind: Kind) -> Any:
    if kind is Kind.DOUBLE:
        return nearest_double(value)
    if kind is Kind.DECIMAL:
        return Fraction(value)
    return datetime.combine(value, time())


def nearest_double(value: float | Fraction) -> float:
    """The nearest float; numbers too large become infinite."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def parsed_temporal(value: str, kind: Kind) -> date | datetime | time | None:
    """A date, time or timestamp written in the ISO form, or None."""
    try:
        if kind is Kind.DATE and _DATE.fullmatch(value):
            return date.fromisoformat(value)
        if kind is Kind.TIMESTAMP and (_TIMESTAMP.fullmatch(value) or _DATE.fullmatch(value)):
            return datetime.fromisoformat(_six_digits(value))
        if kind is Kind.TIME and _TIME.fullmatch(value):
            return time.fromisoformat(_six_digits(value))
    except ValueError:
        return None
    return None


def _six_digits(value: str) -> str:
    """Python 3.11 and later read any number of digits; older versions and people expect six."""
    head, dot, digits = value.partition(".")
    return f"{head}.{digits.ljust(6, '0')}" if dot else head


def is_temporal(argument: Expression) -> bool:
    """Whether it is a date or a timestamp."""
    return argument.type.kind in {Kind.DATE, Kind.TIMESTAMP}


def as_temporal(argument: Expression) -> Expression | None:
    """A date or a timestamp, also from a text constant that is one; else None."""
    return argument if is_temporal(argument) else coerced(argument, DATE) or coerced(argument, TIMESTAMP)


def unified(arguments: Sequence[Expression], what: str, position: Position) -> list[Expression]:
    """All arguments converted to their common type; `what` names the operation in the error."""
    arguments = _lengths_read(_truths_read(_texts_read(arguments)))
    target = common_type([a.type for a in arguments]) or _beside_text_constants(arguments)
    if any(a.type.kind is Kind.INTERVAL for a in arguments):
        raise unsupported(f"{what} does not take intervals.", position, hint="Add the interval to a date or timestamp.")
    converted = [coerced(a, target) for a in arguments] if target else [None]
    if any(part is None for part in converted):
        names = " and ".join(dict.fromkeys(named(a.type) for a in arguments))
        raise unsupported(f"{what} does not mix {names}.", position, hint="Bring them to one type with CAST(… AS …).")
    return [part for part in converted if part is not None]


def _lengths_read(arguments: list[Expression]) -> list[Expression]:
    """Fixed-length intervals next to the difference of two timestamps are read as seconds, the unit of that difference."""
    if not any(isinstance(a, Call) and a.function == "seconds_between" for a in arguments):
        return arguments
    return [_seconds(a) or a if isinstance(a, Literal) and a.type.kind is Kind.INTERVAL else a for a in arguments]


def _seconds(literal: Literal) -> Literal | None:
    if literal.value is None or literal.value[0]:
        return None
    _, days, microseconds = literal.value
    return replace(literal, value=days * 86_400 + microseconds / 1_000_000, type=DOUBLE)


def _texts_read(arguments: Sequence[Expression]) -> list[Expression]:
    """Text constants next to numbers or booleans are read as such: age > '30', churn = 'Yes'."""
    beside = _beside_text_constants(arguments)
    kind = beside.kind if beside is not None else None
    if kind not in {Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE}:
        return list(arguments)
    read = _truth_in_words if kind is Kind.BOOLEAN else _number_in_words
    return [read(a) or a if isinstance(a, Literal) and a.type.kind is Kind.TEXT else a for a in arguments]


def _truths_read(arguments: list[Expression]) -> list[Expression]:
    """The constants 0 and 1 next to booleans are read as false and true: churn = 1."""
    others = {a.type.kind for a in arguments if not isinstance(a, Literal)}
    if others != {Kind.BOOLEAN}:
        return arguments
    return [
        replace(a, value=bool(a.value), type=BOOLEAN)
        if isinstance(a, Literal) and a.type.kind is Kind.INTEGER and a.value in {0, 1}
        else a
        for a in arguments
    ]


def _truth_in_words(literal: Literal) -> Literal | None:
    word = str(literal.value).strip().lower()
    if word not in _TRUTHS:
        return None
    return replace(literal, value=_TRUTHS[word], type=BOOLEAN)


def _number_in_words(literal: Literal) -> Literal | None:
    word = str(literal.value).strip()
    if not _NUMBER.fullmatch(word):
        return None
    if word.lstrip("+-").isdigit() and abs(int(word)) < 2**63:
        return replace(literal, value=int(word), type=INTEGER)
    number = float(word)
    return replace(literal, value=number, type=DOUBLE) if abs(number) < float("inf") else None


def _beside_text_constants(arguments: Sequence[Expression]) -> Type | None:
    others = [a.type for a in arguments if not (isinstance(a, Literal) and a.type.kind is Kind.TEXT)]
    return common_type(others)


def constant(argument: Expression) -> Any:
    """The value of a constant; None for NULL and for everything else."""
    return argument.value if isinstance(argument, Literal) else None


def text_constant(argument: Expression) -> str | None:
    """The value of a text constant, or None."""
    value = constant(argument)
    return value if isinstance(value, str) else None


def named(type_: Type) -> str:
    """The type's name in error messages."""
    return f"unsupported type {type_.storage}" if type_.kind is Kind.UNSUPPORTED else str(type_)
