"""What a parsed tree says about functions and the privacy clause, in one shape for all spellings."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from shoal.frozen import dataclass
from shoal.sql.grammar.calls import CLAMPED
from shoal.sql.grammar.constants import Constant, ConstantKind, constant, position_of

if TYPE_CHECKING:
    from shoal.sql.grammar.constants import Position

NamedArgument: TypeAlias = "tuple[str, Constant | exp.Expression, Position | None]"
Option: TypeAlias = "tuple[str, Constant, Position | None]"


@dataclass(frozen=True, slots=True)
class PrivacyClause:
    """SELECT WITH DIFFERENTIAL_PRIVACY | ANONYMIZATION OPTIONS (…): options as written, repeated ones included."""

    kind: str
    options: tuple[Option, ...]
    position: Position | None


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call as the analyst wrote it: name in capitals (dotted where qualified), positional arguments in order."""

    name: str
    arguments: tuple[exp.Expression, ...]
    distinct: bool
    star: bool
    named: tuple[NamedArgument, ...]
    clamped: tuple[Constant, Constant] | None
    filter: exp.Expression | None
    order_by: exp.Order | None
    within_group: exp.Order | None
    nulls: str | None
    over: exp.Window | None
    position: Position | None


_CALLS = (exp.Anonymous, exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)


def privacy_clause(select: exp.Expr) -> PrivacyClause | None:
    """The privacy clause of a SELECT, if it has one.

    >>> from shoal.sql.parse import parse
    >>> clause = privacy_clause(parse("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(Epsilon=1) COUNT(*) FROM t").tree)
    >>> clause.kind, [(name, value.value) for name, value, _ in clause.options]
    ('DIFFERENTIAL_PRIVACY', [('epsilon', 1)])
    """
    hint = select.args.get("hint")
    if hint is None:
        return None
    clause = hint.expressions[0]
    options = tuple((o.this.name.lower(), constant(o.expression), position_of(o)) for o in clause.expressions)
    return PrivacyClause(clause.name, options, position_of(clause))


def function_call(node: exp.Expr) -> FunctionCall | None:
    """The call that a node represents, with everything attached to it; None if it is not a call.

    >>> from shoal.sql.parse import parse
    >>> tree = parse("SELECT Sum(DISTINCT x, epsilon => 0.5) FILTER (WHERE y) FROM t").tree
    >>> call = function_call(tree.expressions[0])
    >>> call.name, len(call.arguments), call.distinct, call.named[0][0], call.filter is not None
    ('SUM', 1, True, 'epsilon', True)
    """
    if not isinstance(node, _CALLS):
        return None
    position = position_of(node)
    over = within = filtered = nulls = None
    if isinstance(node, exp.Window):
        over, node = node, node.this
    if isinstance(node, exp.Filter):
        filtered, node = node.expression.this, node.this
    if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)):
        nulls, node = ("IGNORE" if isinstance(node, exp.IgnoreNulls) else "RESPECT"), node.this
    if isinstance(node, exp.WithinGroup):
        within, node = node.expression, node.this
    if not isinstance(node, exp.Anonymous):
        return None
    arguments, distinct, order_by = _positional(node)
    return FunctionCall(
        name=node.name.upper(),
        arguments=arguments,
        distinct=distinct,
        star=any(isinstance(argument, exp.Star) for argument in arguments),
        named=named_arguments(node),
        clamped=clamped(node),
        filter=filtered,
        order_by=order_by,
        within_group=within,
        nulls=nulls,
        over=over,
        position=position,
    )


def named_arguments(function: exp.Expr) -> tuple[NamedArgument, ...]:
    """The `name => value` arguments of an `exp.Anonymous`, in order; names in lower case, constants as such."""
    return tuple(
        (argument.this.name.lower(), _constant_or_expression(argument.expression), position_of(argument))
        for argument in function.expressions
        if isinstance(argument, exp.Kwarg) and not isinstance(argument.this, exp.Var)
    )


def clamped(function: exp.Expr) -> tuple[Constant, Constant] | None:
    """The bounds of CLAMPED BETWEEN lo AND hi, if the call has them."""
    for argument in function.expressions:
        if isinstance(argument, exp.Kwarg) and isinstance(argument.this, exp.Var) and argument.this.name == CLAMPED:
            low, high = argument.expression.expressions
            return constant(low), constant(high)
    return None


def _constant_or_expression(node: exp.Expression) -> Constant | exp.Expression:
    found = constant(node)
    return node if found.kind is ConstantKind.OTHER and not isinstance(node, exp.Literal) else found


def _positional(function: exp.Anonymous) -> tuple[tuple[exp.Expression, ...], bool, exp.Order | None]:
    arguments = [argument for argument in function.expressions if not isinstance(argument, exp.Kwarg)]
    order_by = None
    if arguments and isinstance(arguments[-1], exp.Order):
        order_by = arguments[-1]
        arguments[-1:] = [order_by.this] if order_by.this else []
    if arguments and isinstance(arguments[0], exp.Distinct):
        return tuple(arguments[0].expressions), True, order_by
    return tuple(arguments), False, order_by
