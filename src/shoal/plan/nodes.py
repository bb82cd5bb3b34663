"""The relational plan as frozen data: what to compute, never how an engine does it.

Every node knows its fields. `owner` is the symbol of the field that identifies a row's owner; None means a public relation.
The binder fills it in at the scans; `rewrite/check_ownership` carries it upward and refuses anything that would lose it.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.plan.expressions import require_alike, require_condition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.plan.expressions import Expression, Order, Position
    from shoal.plan.types import Type


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a relation. `name` is what the analyst calls it ("" for a column carried silently)."""

    name: str
    symbol: str
    type: Type


def _require_declared(items: tuple[tuple[Field, Expression], ...]) -> None:
    """A column holds what it claims to hold."""
    for f, value in items:
        require_alike(f.type, value.type)


@dataclass(frozen=True, slots=True)
class OwnerShare:
    """How many rows an owner in a query may have, and how many copies of each row public tables may make."""

    rows: int
    copies: int


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a table of the catalog; `columns` are the engine's names, in the order of `fields`.

    A string longer than `longest_text` bytes is read as NULL; if it is not set, strings have the same limit as function results.
    `owner_share` limits how much of a query may concern one owner.
    """

    table: str
    fields: tuple[Field, ...]
    columns: tuple[str, ...]
    owner: str | None = None
    owner_kind: str | None = None
    longest_text: int | None = None
    owner_share: OwnerShare | None = None
    position: Position = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The stored rows of a private SELECT of this statement, already paid for: public.

    Where private rows meet them, there may be at most `most_rows`, with strings of at most `longest_text` bytes.
    """

    select: int
    fields: tuple[Field, ...]
    owner: None = None
    most_rows: int | None = None
    longest_text: int | None = None
    position: Position = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Values:
    """A public list of rows written in the query or in the catalog."""

    rows: tuple[tuple[Any, ...], ...]
    fields: tuple[Field, ...]
    owner: None = None
    position: Position = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which the predicate is true."""

    input: Node
    predicate: Expression
    owner: str | None = None
    position: Position = field(default=None, compare=False)

    def __post_init__(self) -> None:
        require_condition(self.predicate)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the input."""
        return self.input.fields


@dataclass(frozen=True, slots=True)
class Project:
    """New columns computed row by row (window functions too)."""

    input: Node
    items: tuple[tuple[Field, Expression], ...]
    owner: str | None = None
    position: Position = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _require_declared(self.items)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields it computes."""
        return tuple(f for f, _ in self.items)


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows; `kind` is inner, left, right, full, semi or anti."""

    left: Node
    right: Node
    kind: str
    condition: Expression
    owner: str | None = None
    from_subquery: bool = False
    position: Position = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in {"inner", "left", "right", "full", "semi", "anti"}:
            raise InternalError("unknown join")
        require_condition(self.condition)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Both sides' fields; the left side's for semi and anti joins."""
        return self.left.fields if self.kind in {"semi", "anti"} else self.left.fields + self.right.fields


@dataclass(frozen=True, slots=True)
class RowAggregate:
    """An exact aggregate inside one owner's rows, or over public rows: count, sum, min …; `arguments` empty for COUNT(*)."""

    function: str
    arguments: tuple[Expression, ...]
    type: Type
    distinct: bool = False
    filter: Expression | None = None
    position: Position = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.filter is not None:
            require_condition(self.filter)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """GROUP BY keys with exact aggregates: legal for owned rows only when the owner is a key."""

    input: Node
    keys: tuple[tuple[Field, Expression], ...]
    aggregates: tuple[tuple[Field, RowAggregate], ...]
    owner: str | None = None
    position: Position = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _require_declared(self.keys)
        for f, aggregate in self.aggregates:
            require_alike(f.type, aggregate.type)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Keys, then aggregates."""
        return tuple(f for f, _ in self.keys) + tuple(f for f, _ in self.aggregates)


@dataclass(frozen=True, slots=True)
class Distinct:
    """Every distinct row once."""

    input: Node
    owner: str | None = None
    position: Position = field(default=None, compare=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the input."""
        return self.input.fields


@dataclass(frozen=True, slots=True)
class SetOperation:
    """UNION ALL, UNION, INTERSECT or EXCEPT, by position; `fields` are new symbols."""

    left: Node
    right: Node
    kind: str
    fields: tuple[Field, ...]
    owner: str | None = None
    position: Position = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.kind not in {"union_all", "union", "intersect", "except"}:
            raise InternalError("unknown set operation")
        if not len(self.left.fields) == len(self.right.fields) == len(self.fields):
            raise InternalError("a set operation needs as many columns on both sides")
        for here, left, right in zip(self.fields, self.left.fields, self.right.fields, strict=True):
            require_alike(here.type, left.type, right.type)


@dataclass(frozen=True, slots=True)
class Sort:
    """ORDER BY … LIMIT … OFFSET over public rows."""

    input: Node
    order: tuple[Order, ...]
    limit: int | None = None
    offset: int = 0
    owner: str | None = None
    position: Position = field(default=None, compare=False)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the input."""
        return self.input.fields


@dataclass(frozen=True, slots=True)
class PythonStep:
    """A function of a record, or of one owner's records, in the form sent to the process that calls it.

    `function` is the pickled function, `digest` identifies its content, `label` is its readable name. One call returns at most
    `most` records; if an owner has more than `max_rows` records, the excess is dropped before the call.
    """

    kind: str
    function: bytes
    digest: str
    label: str
    most: int = 1
    max_rows: int = 0
    seconds: float = 10.0
    """How long one call may take."""

    def __post_init__(self) -> None:
        if self.kind not in {"filter", "map", "flat_map", "per_owner"} or self.most < 1:
            raise InternalError("unknown step")
        if (self.max_rows > 0) != (self.kind == "per_owner"):
            raise InternalError("only functions of an owner's records have a limit of records")

    def __str__(self) -> str:
        return f"{self.kind} {self.label} {self.digest}"


@dataclass(frozen=True, slots=True)
class PythonRows:
    """The output of a Python function over private records: `made` fields, and those that carry the owner around it.

    The function sees `arguments` by name, never the owner. An output record belongs to the owner of its input.
    """

    input: Node
    step: PythonStep
    arguments: tuple[tuple[str, Expression], ...]
    made: tuple[Field, ...]
    carried: tuple[tuple[Field, Expression], ...] = ()
    owner: str | None = None
    position: Position = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _require_declared(self.carried)
        if len({name for name, _ in self.arguments}) != len(self.arguments):
            raise InternalError("two fields of a record have one name")
        if self.step.kind == "filter":
            if len(self.made) != len(self.arguments):
                raise InternalError("a filter changes its records")
            _require_declared(tuple(zip(self.made, (value for _, value in self.arguments), strict=True)))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields made, then those that carry the owner."""
        return self.made + tuple(f for f, _ in self.carried)


Node = Scan | StoredRows | Values | Filter | Project | Join | Aggregate | Distinct | SetOperation | Sort | PythonRows


def inputs(node: Node) -> tuple[Node, ...]:
    """The relations directly below a node (not those inside expressions)."""
    match node:
        case Filter() | Project() | Aggregate() | Distinct() | Sort() | PythonRows():
            return (node.input,)
        case Join() | SetOperation():
            return (node.left, node.right)
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, parents first."""
    stack: list[Node] = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(inputs(current))


def field_of(node: Node, symbol: str) -> Field:
    """The field with this symbol."""
    for candidate in node.fields:
        if candidate.symbol == symbol:
            return candidate
    raise InternalError("a symbol is not a field of its relation")
