"""What binding one statement remembers: the catalog, symbols, WITH tables, and the private SELECTs met so far."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.sql.binding.scope import Symbols

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from fractions import Fraction

    from shoal.catalog import Catalog
    from shoal.plan.nodes import Node
    from shoal.plan.releases import PrivateSelect
    from shoal.plan.types import Type

MAX_RELATIONS = 300
"""SELECTs and tables of one statement, each use of a WITH table counted with all that lies under it."""


@dataclass(slots=True)
class Context:
    """What binding one statement needs: the catalog, types frozen at open, symbols, and the private SELECTs met so far."""

    catalog: Catalog
    schemas: Mapping[str, tuple[tuple[str, Type], ...]]
    symbols: Symbols = field(default_factory=Symbols)
    selects: list[PrivateSelect] = field(default_factory=list)
    late: list[ShoalError] = field(default_factory=list)
    epsilon: Fraction | None = None
    relations: int = 0
    is_plain: bool = False
    """Whether no SELECT of the statement has a privacy clause."""
    without_defaults: int = 0
    """Above 0 while what is bound gets no clause by default."""
    looks_outside: bool = False
    """Whether subqueries see the columns of outer queries, to find out why a name is unknown; the answer is an error."""
    now: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC).replace(tzinfo=None))

    @contextmanager
    def no_defaults(self, *, unless: bool = False) -> Iterator[None]:
        """While a subquery of an expression is bound, or a WITH table that nothing reads."""
        self.without_defaults += not unless
        try:
            yield
        finally:
            self.without_defaults -= not unless

    def count_relations(self, number: int, position: tuple[int, int] | None) -> None:
        """Counts what a text stands for: doubling a WITH table thirty times must end here, not in memory."""
        self.relations += number
        if self.relations > MAX_RELATIONS:
            raise ShoalError(
                "E_LIMITS",
                f"The query reads more than {MAX_RELATIONS} relations once WITH tables are written out.",
                hint="Use each WITH table fewer times.",
                position=position,
            )


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A WITH table: bound once, renamed at each use, so that a private SELECT in it is drawn once; `relations` in it."""

    node: Node
    relations: int
