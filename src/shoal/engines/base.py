"""What an engine must be able to do. Nodes say *what*; an engine knows *how*, and whether to take its in-memory path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    import pyarrow as pa

    from shoal.engines.deadline import Deadline
    from shoal.plan.nodes import Node, Scan
    from shoal.plan.releases import StatementPlan
    from shoal.plan.totals import ExactTotals, SamplingKey, TotalsQuery
    from shoal.plan.types import Type


class EngineFailure(Exception):  # noqa: N818 - it carries nothing, so it names no error
    """An engine could not finish. Carries nothing: what the engine said must not travel."""


@dataclass(frozen=True, slots=True)
class Asked:
    """All that one query will ask: totals of private rows, rows of public tables, and the statement over what is released.

    What is known only later (the sampling key, bounds that are found, rows that are released) is a placeholder of its type.
    """

    totals: tuple[TotalsQuery, ...]
    public: tuple[Scan, ...]
    finishing: str | None
    """None where it only copies and orders columns: there is nothing that an engine could read differently."""


class Engine(Protocol):
    """A place where private rows live."""

    name: str
    warnings: tuple[str, ...]
    """What the custodian should know about the source."""

    def tables(self) -> dict[str, list[tuple[str, str]]]:
        """Every table that can be reached: name → (column, type in the engine's words), in order."""

    def add_view(self, name: str, sql: str, *, trusted: bool = True) -> list[tuple[str, str]]:
        """Registers the custodian's SQL under a name of the catalog and returns its columns.

        E_CATALOG where it could fail on single rows, unless it is trusted.
        """

    def refuse_fragile_view(self, name: str) -> None:
        """E_CATALOG where a table of the source is a view that could fail on single rows."""

    def carry_owner(self, table: str, through: tuple[str, Type], to: str, key: tuple[str, Type], owner: str) -> None:
        """Adds a column to a table: the owner in the row of `to` whose key the column `through` holds.

        Rows without such a row are nobody's, and leave the table. Values are compared as queries compare them.
        """

    def name_rows(self, table: str, columns: Iterable[tuple[str, Type]]) -> None:
        """Adds a column to a table: a name for each row, made of what queries see of it and its number among equal rows."""

    def row_counts(self, names: list[str]) -> dict[str, int]:
        """How many rows public tables have (asked when a session opens, of public tables only)."""

    def repeats(self, table: str, columns: Iterable[tuple[str, Type]]) -> dict[str, int]:
        """Of a public table: for each column, the number of rows with its most frequent value (0 of an empty table)."""

    def longest_texts(self, table: str, columns: Iterable[tuple[str, Type]]) -> dict[str, int]:
        """Of a public table: for each column of strings, the bytes of the longest one (0 if there is none)."""

    def combinations(self, table: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Every combination of some columns' values, and in the last column its number of rows: what side tools count."""

    def columns(self, table: str, columns: list[str], longest_text: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of some columns as they are stored: what a policy counts over its domain.

        Strings that are longer than `longest_text` bytes are NULL.
        """

    def totals(self, query: TotalsQuery, key: SamplingKey) -> ExactTotals:
        """The exact integers of a contribution query; raises `EngineFailure` and nothing else."""

    def fetch(self, node: Node) -> pa.Table:
        """The rows of a public relation, columns named by symbols."""

    def prepare(self, plan: StatementPlan, asked_of: Callable[[StatementPlan], Asked]) -> None:
        """Writes every statement of a plan and checks how it is read, without data: `InternalError` if anything surprises.

        `asked_of` says what the plan will ask; a plan that was prepared before is not asked about again.
        """

    def snapshot(self, deadline: Deadline) -> AbstractContextManager[Engine]:
        """The engine for one query: every statement sees the same data, and all of them end with the deadline.

        Queries do not wait for each other. `EngineFailure` when it cannot be opened, which reads no private row.
        """

    def close(self) -> None:
        """Closes the files and connections that the session opened."""
