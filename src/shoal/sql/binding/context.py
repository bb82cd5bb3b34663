"""The context for binding a statement: names in scope, the symbols they map to, and what all its parts share."""

from __future__ import annotations

import datetime as dt
import difflib
from contextlib import contextmanager
from dataclasses import field, replace
from itertools import count
from typing import TYPE_CHECKING

from shoal.catalog import fold
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.plan.expressions import Column, Expression, Position
from shoal.plan.known_bounds import KnownBounds
from shoal.plan.nodes import Field
from shoal.plan.public_facts import PublicFacts
from shoal.plan.references import References
from shoal.plan.traverse import Weights
from shoal.plan.types import RELEASED_LIST, Kind, Type
from shoal.sql.binding.clauses.periods import Calendar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from fractions import Fraction

    from shoal.catalog import Catalog
    from shoal.plan.nodes import Node
    from shoal.plan.releases import Options, PrivateSelect
    from shoal.plan.types import Type


class Symbols:
    """Fresh symbols for one statement, where each column came from in the catalog, and what is publicly known about it."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self.origins: dict[str, tuple[str, str]] = {}
        self.known_bounds = KnownBounds()

    def field(self, name: str, type_: Type, value: Expression | None = None) -> Field:
        """A new field; a bare copy of a column keeps its origin in the catalog, and any value keeps its known bounds."""
        symbol = f"c{next(self._numbers)}"
        if isinstance(value, Column) and value.symbol in self.origins:
            self.origins[symbol] = self.origins[value.symbol]
        if value is not None and (known := self.known_bounds.of(value)) is not None:
            self.known_bounds.columns[symbol] = known
        return Field(name, symbol, type_)


@dataclass(frozen=True, slots=True)
class Relation:
    """A name in FROM and the fields it offers."""

    alias: str
    fields: tuple[Field, ...]


@dataclass(slots=True)
class Scope:
    """The relations of one FROM; `merged` are the columns of USING and NATURAL, which belong to neither side alone."""

    relations: list[Relation] = field(default_factory=list)
    merged: dict[str, Expression] = field(default_factory=dict)
    hidden: set[str] = field(default_factory=set)
    parent: Scope | None = None
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC).replace(tzinfo=None))
    """The value of NOW(): one moment for everything bound here."""
    named: Callable[[str], Expression | None] | None = None
    """What the SELECT list calls the values that it computes from one row; columns of FROM come first."""

    def add(self, relation: Relation) -> None:
        """Brings a relation into scope; two of the same name would make every reference ambiguous."""
        if relation.alias and any(fold(r.alias) == fold(relation.alias) for r in self.relations):
            raise ShoalError(
                "E_UNKNOWN_TABLE",
                f"Two tables of this FROM are called {relation.alias!r}.",
                hint=f"Give one of them another name: {relation.alias} AS other.",
            )
        self.relations.append(relation)

    def visible(self) -> Iterator[tuple[str, Field]]:
        """All columns a star expands to, in order, each once."""
        for relation in self.relations:
            for f in relation.fields:
                if f.name and f.symbol not in self.hidden:
                    yield relation.alias, f

    def resolve(self, table: str | None, name: str, position: Position) -> Expression:
        """The column of that name; unknown, ambiguous and unusable ones are refused."""
        found = self._find(table, name)
        if not found and self.parent is not None:
            return self.parent.resolve(table, name, position)
        if not found:
            raise self._unknown(table, name, position)
        if len(found) > 1:
            raise ShoalError(
                "E_UNKNOWN_COLUMN",
                f"The column name {name!r} is ambiguous here.",
                hint=f"Say which one: {', '.join(sorted({r.alias + '.' + name for r in self.relations if r.alias}))}.",
                position=position,
            )
        expression = found[0]
        if expression.type == RELEASED_LIST:
            raise ShoalError(
                "E_UNSUPPORTED",
                f"The column {name!r} is a released list, which a query can show but not compute with.",
                hint="Name it alone in the SELECT list; for single numbers ask for PERCENTILE_CONT(x, 0.25) and so on.",
                position=position,
            )
        if expression.type.kind is Kind.UNSUPPORTED:
            raise ShoalError(
                "E_UNSUPPORTED",
                f"The column {name!r} has a type that private queries cannot use.",
                hint="Numbers, text, booleans, dates and timestamps can be used; the catalog can offer a view that casts, "
                'or state a precision for a numeric of PostgreSQL: type = "DECIMAL(12, 2)".',
                position=position,
            )
        return expression

    def computed(self, table: str | None, name: str) -> Expression | None:
        """The value that the SELECT list gives this name, if FROM has no column of it."""
        if table is not None or self.named is None or self.has(name):
            return None
        return self.named(name)

    def has(self, name: str) -> bool:
        """Whether this FROM, or one around it, has a column of that name."""
        return bool(self._find(None, name)) or (self.parent is not None and self.parent.has(name))

    def released_list(self, table: str | None, name: str) -> Column | None:
        """The one list of that name that a private SELECT has released."""
        found = self._find(table, name)
        only = found[0] if len(found) == 1 else None
        return only if isinstance(only, Column) and only.type == RELEASED_LIST else None

    def _find(self, table: str | None, name: str) -> list[Expression]:
        if table is None and fold(name) in self.merged:
            return [self.merged[fold(name)]]
        found: list[Expression] = []
        for relation in self.relations:
            if table is not None and fold(relation.alias) != fold(table):
                continue
            found.extend(Column(f.symbol, f.type) for f in relation.fields if f.name and fold(f.name) == fold(name))
        return found

    def _unknown(self, table: str | None, name: str, position: Position) -> ShoalError:
        if table is not None and not any(fold(r.alias) == fold(table) for r in self.relations):
            known = ", ".join(sorted(r.alias for r in self.relations if r.alias))
            return ShoalError(
                "E_UNKNOWN_TABLE",
                f"There is no table or alias {table!r} here.",
                hint=f"Available: {known}.",
                position=position,
            )
        names = sorted({f.name for r in self.relations for f in r.fields if f.name})
        close = difflib.get_close_matches(name, names, n=1)
        nearest = f"Did you mean {_as_written(close[0])}? " if close else ""
        listed = ", ".join(names[:30]) + (" …" if len(names) > 30 else "")
        return ShoalError(
            "E_UNKNOWN_COLUMN",
            f"There is no column {name!r} here.",
            hint=f"{nearest}Available columns: {listed}.",
            position=position,
        )


def _as_written(name: str) -> str:
    """A column as a query names it: in single quotes, native-country would be a string."""
    return repr(name) if name.isidentifier() else '"' + name.replace('"', '""') + '"'


SEVERAL_GROUPINGS = "groupings, each a separate release"
"""What is said of ROLLUP, CUBE and GROUPING SETS."""
MAX_RELATIONS = 300
"""SELECTs and tables of one statement, each use of a WITH table counted with all that lies under it."""


@dataclass(slots=True)
class Context:
    """What binding one statement needs: the catalog, types frozen at open, symbols, and the private SELECTs seen so far."""

    catalog: Catalog
    schemas: Mapping[str, tuple[tuple[str, Type], ...]]
    symbols: Symbols = field(default_factory=Symbols)
    selects: list[PrivateSelect] = field(default_factory=list)
    late: list[ShoalError] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """Notes that the next private SELECT must report about the rows under it."""
    epsilon: Fraction | None = None
    facts: PublicFacts = field(default_factory=PublicFacts)
    relations: int = 0
    is_plain: bool = False
    """Whether no SELECT of the statement has a privacy clause."""
    without_defaults: int = 0
    """Above 0 while binding something that gets no default clause."""
    shares: int = 1
    """How many groupings of one SELECT share its ε and δ."""
    looks_outside: bool = False
    """Whether subqueries see the columns of outer queries, to find out why a name is unknown; this always ends in an error."""
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC).replace(tzinfo=None))
    calendar: Calendar = field(default_factory=Calendar)
    weights: Weights = field(default_factory=Weights)
    """Of what has a name: a few names for each other's values make a short query huge."""

    @contextmanager
    def no_defaults(self, *, unless: bool = False) -> Iterator[None]:
        """While a subquery of an expression is bound, or a WITH table that nothing reads."""
        self.without_defaults += not unless
        try:
            yield
        finally:
            self.without_defaults -= not unless

    @property
    def references(self) -> References:
        """The catalog's references between the columns seen so far."""
        return References.declared(self.catalog, self.symbols.origins)

    @contextmanager
    def shared_by(self, groupings: int) -> Iterator[None]:
        """While the groupings of one SELECT are bound."""
        self.shares *= groupings
        try:
            yield
        finally:
            self.shares //= groupings

    @property
    def sharing(self) -> tuple[str, ...]:
        """What to say about a SELECT that is one of several groupings."""
        if self.shares == 1:
            return ()
        return (f"This is one of {self.shares} {SEVERAL_GROUPINGS}; they share the query's ε and δ evenly.",)

    def share(self, options: Options) -> Options:
        """The options of one grouping."""
        if self.shares == 1:
            return options
        delta, selection = options.delta, options.selection_epsilon
        return replace(
            options,
            epsilon=options.epsilon / self.shares,
            delta=None if delta is None else delta / self.shares,
            selection_epsilon=None if selection is None else selection / self.shares,
        )

    def count_relations(self, number: int, position: tuple[int, int] | None) -> None:
        """Counts the statement fully expanded: doubling a WITH table thirty times must stop here, not by running out of memory."""
        self.relations += number
        if self.relations > MAX_RELATIONS:
            raise ShoalError(
                "E_LIMITS",
                f"The query reads more than {MAX_RELATIONS} relations once WITH tables are expanded.",
                hint="Use each WITH table fewer times.",
                position=position,
            )


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A WITH table: bound once, renamed at each use, so a private SELECT in it is drawn once; `relations` counts those in it."""

    node: Node
    relations: int
