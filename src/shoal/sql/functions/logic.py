"""Comparisons, three-valued logic, NULL handling and choices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.plan.expressions import Call, Case, Expression, Literal, Position
from shoal.plan.types import BOOLEAN, Kind
from shoal.sql.functions import forms
from shoal.sql.functions.coerce import coerced, unified, unsupported
from shoal.sql.functions.overloads import Function, checked_count, never_asked, special, truth, wrong_arguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.plan.types import Type
    from shoal.sql.functions.forms import Body
    from shoal.sql.functions.overloads import Bind

MANY = 10_000
"""The most arguments of a variadic function; the length of the text is bounded long before."""


def _bind_comparison(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 2, 2, position)
    return truth(function, unified(arguments, "A comparison", position), position)


def _comparison(name: str, sign: str, kind: type[exp.Expr]) -> Function:
    meaning = "Whether it is so; never NULL." if sign.startswith("IS") else "Whether it is so; NULL where one is NULL."
    return special(name, f"a {sign} b", meaning, _bind_comparison, _two_sided(kind), operator=True)


def _two_sided(kind: type[exp.Expr]) -> Body:
    return lambda left, right: forms.compare(kind, left, right)


def _bind_between(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 3, 3, position)
    return truth(function, unified(arguments, "BETWEEN", position), position)


def _bind_in(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 2, MANY, position)
    return truth(function, unified(arguments, "IN", position), position)


def _in(value: exp.Expr, *items: exp.Expr) -> exp.Expr:
    return exp.In(this=forms.operand(value), expressions=list(items))


def _booleans(arguments: Sequence[Expression], what: str, position: Position) -> list[Expression]:
    converted = [coerced(a, BOOLEAN) for a in arguments]
    if any(part is None for part in converted):
        raise unsupported(f"{what} takes conditions: true, false or NULL.", position, hint="Compare the value: x <> 0.")
    return [part for part in converted if part is not None]


def _bind_connective(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 2, MANY, position)
    return truth(function, _booleans(arguments, function.name.upper(), position), position)


def _bind_not(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 1, 1, position)
    return truth(function, _booleans(arguments, "NOT", position), position)


def _and(*conditions: exp.Expr) -> exp.Expr:
    return forms.connected(exp.And, conditions)


def _or(*conditions: exp.Expr) -> exp.Expr:
    return forms.connected(exp.Or, conditions)


def _not(condition: exp.Expr) -> exp.Expr:
    return exp.Not(this=forms.operand(condition))


def _bind_null_test(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 1, 1, position)
    if arguments[0].type.kind in {Kind.INTERVAL, Kind.UNSUPPORTED}:
        raise wrong_arguments(function, arguments, position)
    return truth(function, arguments, position)


def _is_null(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=forms.operand(value), expression=exp.Null())


def _is_not_null(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=_is_null(value))


def _truth_test(name: str, sign: str, expected: bool, *, negated: bool = False) -> Function:
    def form(value: exp.Expr) -> exp.Expr:
        test = forms.compare(exp.NullSafeEQ, value, exp.Boolean(this=expected))
        return exp.Not(this=exp.Paren(this=test)) if negated else test

    meaning = f"Whether the condition {sign.lower()}; never NULL."
    return special(name, f"x {sign}", meaning, _bind_not, form, operator=True)


def _bind_coalesce(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    """Values that share a stored type keep it: owners of a full join are the owners of either side."""
    checked_count(function, arguments, 1, MANY, position)
    values = unified(arguments, function.name.upper(), position)
    stored = values[0].type if all(v.type == values[0].type for v in values) else _result(values)
    return Call(function.name, tuple(values), stored, position)


def _result(values: Sequence[Expression]) -> Type:
    return values[0].type.plain()


def _coalesce(first: exp.Expr, *others: exp.Expr) -> exp.Expr:
    return exp.Coalesce(this=first, expressions=list(others)) if others else first


def _bind_nullif(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 2, 2, position)
    values = unified(arguments, "NULLIF", position)
    return Call(function.name, tuple(values), _result(values), position)


def _nullif(value: exp.Expr, unwanted: exp.Expr) -> exp.Expr:
    return forms.let_many([value, unwanted], lambda v, w: forms.when(forms.compare(exp.EQ, v, w), exp.Null(), v.copy()))


def _bind_if(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 2, 3, position)
    condition, then = _booleans(arguments[:1], "IF", position)[0], arguments[1]
    otherwise = arguments[2] if len(arguments) == 3 else Literal(None, then.type, position)
    return case([(condition, then)], otherwise, position)


def case(branches: Sequence[tuple[Expression, Expression]], otherwise: Expression | None, position: Position) -> Case:
    """CASE WHEN … with its values converted to one type; without ELSE it ends in NULL."""
    conditions = _booleans([condition for condition, _ in branches], "WHEN", position)
    last = otherwise if otherwise is not None else Literal(None, branches[0][1].type, position)
    values = unified([*(value for _, value in branches), last], "CASE", position)
    return Case(tuple(zip(conditions, values[:-1], strict=True)), values[-1], _result(values), position)


def _bind_extreme(function: Function, arguments: tuple[Expression, ...], position: Position) -> Expression:
    checked_count(function, arguments, 1, MANY, position)
    values = unified(arguments, function.name.upper(), position)
    return Call(function.name, tuple(values), _result(values), position)


def _extreme(name: str, word: str) -> Function:
    meaning = f"The {word} of several values; NULLs are skipped, and NULL is the answer when all are."
    usage = f"{name.upper()}(a, b, …)"
    return special(name, usage, meaning, _bind_extreme, lambda *values: forms.builtin(name, *values))


def _operator(name: str, usage: str, meaning: str, bind: Bind, form: Body) -> Function:
    return special(name, usage, meaning, bind, form, operator=True)


FUNCTIONS = (
    _comparison("equal", "=", exp.EQ),
    _comparison("not_equal", "<>", exp.NEQ),
    _comparison("less", "<", exp.LT),
    _comparison("less_equal", "<=", exp.LTE),
    _comparison("greater", ">", exp.GT),
    _comparison("greater_equal", ">=", exp.GTE),
    _comparison("is_distinct_from", "IS DISTINCT FROM", exp.NullSafeNEQ),
    _comparison("is_not_distinct_from", "IS NOT DISTINCT FROM", exp.NullSafeEQ),
    _operator("between", "x BETWEEN low AND high", "low ≤ x ≤ high.", _bind_between, forms.between),
    _operator("in", "x IN (a, b, …)", "Whether x is one of the values.", _bind_in, _in),
    _operator("and", "p AND q", "Both conditions.", _bind_connective, _and),
    _operator("or", "p OR q", "At least one condition.", _bind_connective, _or),
    _operator("not", "NOT p", "The opposite condition.", _bind_not, _not),
    _operator("is_null", "x IS NULL", "Whether there is no value.", _bind_null_test, _is_null),
    _operator("is_not_null", "x IS NOT NULL", "Whether there is a value.", _bind_null_test, _is_not_null),
    _truth_test("is_true", "IS TRUE", expected=True),
    _truth_test("is_false", "IS FALSE", expected=False),
    _truth_test("is_not_true", "IS NOT TRUE", expected=True, negated=True),
    _truth_test("is_not_false", "IS NOT FALSE", expected=False, negated=True),
    special("coalesce", "COALESCE(a, b, …)", "The first value that is not NULL.", _bind_coalesce, _coalesce),
    special("ifnull", "IFNULL(a, b)", "a, or b where a is NULL.", _bind_coalesce, _coalesce, aliases=("nvl",)),
    special("nullif", "NULLIF(a, b)", "NULL where a = b, else a.", _bind_nullif, _nullif),
    special(
        "if",
        "IF(condition, then [, otherwise])",
        "`then` where the condition is true, else `otherwise`.",
        _bind_if,
        never_asked,
        aliases=("iif",),
    ),
    _extreme("greatest", "largest"),
    _extreme("least", "smallest"),
)
