"""Expressions as frozen data: typed, total, with their position in the SQL.

Columns are referred to by *symbols*, unique within a statement, never by name: nothing is resolved twice and nothing can be
shadowed. Calls name a function on the allow-list (`sql/functions.py`); operators are calls too.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.plan.types import BOOLEAN, Kind, Type, are_alike

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal.plan.nodes import Node

Position = tuple[int, int] | None

COMPARING = frozenset(
    {
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("is_distinct_from", "is_not_distinct_from", "between", "in"),
    }
)
"""Functions that compare their arguments."""
CHOOSING = frozenset({"coalesce", "ifnull", "nullif", "greatest", "least"})
"""Functions that return one of their arguments."""


def require_alike(*types: Type) -> None:
    """Values used together have one type. With two, the engine would insert its own cast, which could fail on some rows only."""
    if not are_alike(types):
        raise InternalError("values of different types meet without a cast")


def require_condition(*conditions: Expression) -> None:
    """Conditions that choose rows or values are true, false or NULL."""
    if any(c.type.kind not in {Kind.BOOLEAN, Kind.NULL} for c in conditions):
        raise InternalError("a condition is not a truth value")


@dataclass(frozen=True, slots=True)
class Column:
    """The value of a field, by its symbol."""

    symbol: str
    type: Type
    position: Position = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: bool, int, float, Fraction (exact decimal), str, date, datetime, time, timedelta-like text or None.

    −0.0 is 0.0, as everywhere in a plan: expressions are equal where their values are, so one draw answers both, and their
    fingerprints and statements have to be the same, too.
    """

    value: Any
    type: Type
    position: Position = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.value.__class__ is float and not self.value:
            object.__setattr__(self, "value", 0.0)


@dataclass(frozen=True, slots=True)
class Call:
    """A function on the allow-list applied to expressions; `overload` is the one binding chose, if there are several."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    position: Position = field(default=None, compare=False)
    overload: int = field(default=0, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.function in COMPARING:
            require_alike(*(a.type for a in self.arguments))
        elif self.function in CHOOSING:
            require_alike(self.type, *(a.type for a in self.arguments))
        elif self.function in {"and", "or", "not"}:
            require_condition(*self.arguments)


@dataclass(frozen=True, slots=True)
class Case:
    """CASE WHEN condition THEN value … ELSE otherwise END."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression
    type: Type
    position: Position = field(default=None, compare=False)

    def __post_init__(self) -> None:
        require_condition(*(condition for condition, _ in self.branches))
        require_alike(self.type, self.otherwise.type, *(value.type for _, value in self.branches))


@dataclass(frozen=True, slots=True)
class Cast:
    """A try-cast: a value that does not fit becomes NULL."""

    value: Expression
    type: Type
    position: Position = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Order:
    """One item of an ORDER BY."""

    value: Expression
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """ROWS / RANGE / GROUPS BETWEEN … AND …; bounds as (count or None for UNBOUNDED, 'PRECEDING' | 'FOLLOWING' | 'CURRENT ROW')."""

    unit: str
    start: tuple[int | None, str]
    end: tuple[int | None, str]


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function: `function` is on the allow-list of windows or of per-owner aggregates."""

    function: str
    arguments: tuple[Expression, ...]
    partition: tuple[Expression, ...]
    order: tuple[Order, ...]
    frame: Frame | None
    type: Type
    position: Position = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.function in {"lag", "lead"}:
            require_alike(self.type, *(a.type for a in (self.arguments[0], *self.arguments[2:])))


@dataclass(frozen=True, slots=True)
class InRelation:
    """`value IN (SELECT …)` over a public relation of one column, uncorrelated."""

    value: Expression
    relation: Node
    type: Type = BOOLEAN
    position: Position = field(default=None, compare=False)

    def __post_init__(self) -> None:
        require_alike(self.value.type, *(f.type for f in self.relation.fields))


@dataclass(frozen=True, slots=True)
class ExistsRelation:
    """`EXISTS (SELECT …)` over a public relation, uncorrelated."""

    relation: Node
    type: Type = BOOLEAN
    position: Position = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ScalarRelation:
    """`(SELECT …)` over a public relation of one column: its first row, or NULL if it is empty."""

    relation: Node
    type: Type
    position: Position = field(default=None, compare=False)

    def __post_init__(self) -> None:
        require_alike(self.type, *(f.type for f in self.relation.fields))


Expression = Column | Literal | Call | Case | Cast | WindowCall | InRelation | ExistsRelation | ScalarRelation


def children(expression: Expression) -> tuple[Expression, ...]:
    """The expressions directly below this one (relations are not entered)."""
    match expression:
        case Call():
            return expression.arguments
        case Case():
            return (*(part for branch in expression.branches for part in branch), expression.otherwise)
        case Cast():
            return (expression.value,)
        case WindowCall():
            return (*expression.arguments, *expression.partition, *(o.value for o in expression.order))
        case InRelation():
            return (expression.value,)
        case _:
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it, parents first."""
    stack = [expression]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(children(current))


def columns_of(expression: Expression) -> frozenset[str]:
    """The symbols an expression reads."""
    return frozenset(part.symbol for part in walk(expression) if isinstance(part, Column))


def transform(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """The expression rebuilt bottom-up, each part passed through `change`."""
    match expression:
        case Call():
            rebuilt: Expression = replace(
                expression, arguments=tuple(transform(a, change) for a in expression.arguments)
            )
        case Case():
            rebuilt = replace(
                expression,
                branches=tuple((transform(c, change), transform(v, change)) for c, v in expression.branches),
                otherwise=transform(expression.otherwise, change),
            )
        case Cast() | InRelation():
            rebuilt = replace(expression, value=transform(expression.value, change))
        case WindowCall():
            rebuilt = replace(
                expression,
                arguments=tuple(transform(a, change) for a in expression.arguments),
                partition=tuple(transform(p, change) for p in expression.partition),
                order=tuple(replace(o, value=transform(o.value, change)) for o in expression.order),
            )
        case _:
            rebuilt = expression
    return change(rebuilt)
