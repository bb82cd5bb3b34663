"""What the compiler does with an expression, for tests of functions alone."""

from __future__ import annotations

from sqlglot import exp

from shoal.plan.expressions import Call, Case, Cast, Column, Expression, Literal
from shoal.sql import functions


def compiled(expression: Expression) -> exp.Expr:
    """The engine's form; columns go by their symbols."""
    match expression:
        case Column():
            return exp.column(expression.symbol)
        case Literal():
            return functions.literal_form(expression)
        case Call():
            return functions.safe_form(expression, [compiled(a) for a in expression.arguments])
        case Cast():
            return functions.cast_form(compiled(expression.value), expression.value.type, expression.type)
        case Case():
            branches = [exp.If(this=compiled(c), true=compiled(v)) for c, v in expression.branches]
            return exp.Case(ifs=branches, default=compiled(expression.otherwise))
    raise AssertionError(expression)
