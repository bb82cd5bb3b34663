"""What an engine must be able to do. Nodes say *what*; an engine knows *how*, and whether to take its in-memory path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from shoal.plan.nodes import Node
    from shoal.plan.totals import ExactTotals, SamplingKey, TotalsQuery


class EngineFailure(Exception):  # noqa: N818 - it carries nothing, so it names no error
    """An engine could not finish. Carries nothing: what the engine said must not travel."""


class Engine(Protocol):
    """A place where private rows live."""

    name: str

    def tables(self) -> dict[str, list[tuple[str, str]]]:
        """Every table that can be reached: name → (column, type in the engine's words), in order."""

    def add_view(self, name: str, sql: str) -> list[tuple[str, str]]:
        """Registers the custodian's SQL under a name of the catalog and tells its columns."""

    def row_counts(self, names: list[str]) -> dict[str, int]:
        """How many rows public tables have (asked when a session opens, of public tables only)."""

    def totals(self, query: TotalsQuery, key: SamplingKey) -> ExactTotals:
        """The exact integers of a contribution query; raises `EngineFailure` and nothing else."""

    def fetch(self, node: Node) -> pa.Table:
        """The rows of a public relation, columns named by symbols."""

    def is_alive(self) -> bool:
        """Whether the engine still answers at all: asked before anything is charged."""

    def close(self) -> None:
        """Lets go of files and connections that are ours."""
