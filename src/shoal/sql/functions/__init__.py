"""The allow-list of functions, each one total: a row's value is never an error, whatever the row holds.

`resolve` picks the overload and types the call; `safe_form` writes a typed call for the engine so that it cannot fail
and cannot be redefined. Anything not listed here (random numbers, settings, files, user-defined functions…) does not
exist.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from shoal.errors import InternalError, ShoalError
from shoal.plan.expressions import Call, Expression, Literal, Position
from shoal.plan.types import TEXT
from shoal.sql.functions import arithmetic, logic, shifts, temporal, text
from shoal.sql.functions.aggregate_names import AGGREGATE_NAMES
from shoal.sql.functions.aggregates import (
    OWNER_AGGREGATES,
    check_owner_aggregate,
    grid_steps,
    is_owner_aggregate,
    owner_aggregate,
    owner_aggregate_form,
)
from shoal.sql.functions.canonical import canonical_integer, canonical_integers
from shoal.sql.functions.coerce import unified
from shoal.sql.functions.environment import ENVIRONMENT_NAMES, fold_environment
from shoal.sql.functions.forms import builtin
from shoal.sql.functions.forms import number as double_form
from shoal.sql.functions.intervals import unit_named
from shoal.sql.functions.logic import case
from shoal.sql.functions.overloads import Function
from shoal.sql.functions.values import (
    bounded_scan_form,
    cast_form,
    engine_type,
    key_form,
    literal_form,
    resolve_cast,
    scan_form,
    type_named,
    type_of,
)
from shoal.sql.functions.weeks import unit_in_words
from shoal.sql.functions.windows import WINDOW_FUNCTIONS, needs_order, window_form, window_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlglot import exp


__all__ = [
    "AGGREGATE_NAMES",
    "ENVIRONMENT_NAMES",
    "FUNCTIONS",
    "OPERATORS",
    "OWNER_AGGREGATES",
    "SECTIONS",
    "WINDOW_FUNCTIONS",
    "Function",
    "bounded_scan_form",
    "builtin",
    "canonical_integer",
    "canonical_integers",
    "case",
    "cast_form",
    "check_known",
    "check_owner_aggregate",
    "double_form",
    "engine_type",
    "fold_environment",
    "grid_steps",
    "is_date_part",
    "is_known",
    "is_owner_aggregate",
    "key_form",
    "literal_form",
    "needs_order",
    "owner_aggregate",
    "owner_aggregate_form",
    "resolve",
    "resolve_cast",
    "resolve_interval",
    "safe_form",
    "scan_form",
    "type_named",
    "type_of",
    "unified",
    "unit_in_words",
    "window_form",
    "window_result",
]

SECTIONS: dict[str, tuple[Function, ...]] = {
    "Numbers": (*shifts.SUMS, *arithmetic.FUNCTIONS),
    "Comparison and logic": logic.FUNCTIONS,
    "Text": text.FUNCTIONS,
    "Dates and times": (*temporal.FUNCTIONS, *shifts.FUNCTIONS),
}
FUNCTIONS = {function.name: function for section in SECTIONS.values() for function in section}
OPERATORS = frozenset(function.name for function in FUNCTIONS.values() if function.operator)

_BY_NAME = {name: function for function in FUNCTIONS.values() for name in (function.name, *function.aliases)}


def resolve(name: str, arguments: Sequence[Expression], position: Position = None) -> Expression:
    """A call of a function, by any of its names in any case, typed and with its arguments converted.

    >>> from shoal.plan.expressions import Literal
    >>> from shoal.plan.types import INTEGER
    >>> resolve("ADD", [Literal(1, INTEGER), Literal(2, INTEGER)])
    Literal(value=3, type=Type(kind=<Kind.INTEGER: 'integer'>, precision=0, scale=0, storage=''), position=None)
    """
    check_known(name, position)
    function = _BY_NAME[name.lower()]
    return function.bind(function, tuple(arguments), position)


def check_known(name: str, position: Position) -> None:
    """Refuse anything not on the list."""
    if not is_known(name):
        raise _not_allowed(name, position)


def _not_allowed(name: str, position: Position) -> ShoalError:
    shown = "".join(c for c in name if c.isprintable())[:60]
    near = _near(name.lower())
    known = f"Did you mean {', '.join(near).upper()}? " if near else ""
    return ShoalError(
        "E_FUNCTION_NOT_ALLOWED",
        f"The function {shown.upper()} is not on the list of allowed functions.",
        hint=f"{known}Run shoal functions for the list.",
        position=position,
    )


def _near(name: str) -> list[str]:
    """Likely intended names for a misspelt one: the closest, else those it is a prefix of."""
    offered = [n for n in _BY_NAME if n not in OPERATORS] + list(OWNER_AGGREGATES)
    begun = [n for n in offered if n.startswith(f"{name}_")][:3]
    return get_close_matches(name, offered, n=3, cutoff=0.7) or begun


def is_known(name: str) -> bool:
    """Whether a scalar function has this name."""
    return name.lower() in _BY_NAME


def is_date_part(name: str) -> bool:
    """Whether a bare word can be a part or a unit of time, as in DATE_TRUNC(day, MONTH)."""
    return unit_named(name) is not None or name.lower() in temporal.PARTS


def resolve_interval(amount: Expression, unit: str, position: Position = None) -> Expression:
    """INTERVAL amount unit."""
    return resolve("interval", [amount, Literal(unit, TEXT, position)], position)


def safe_form(call: Call, arguments: list[exp.Expr]) -> exp.Expr:
    """The call for the engine, over compiled arguments: total, and by qualified name."""
    function = FUNCTIONS.get(call.function)
    if function is None:
        raise InternalError("a call of a function that does not exist")
    return function.form(call, arguments)
