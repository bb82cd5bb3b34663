"""The rows that the in-memory path reads: the engine evaluates relation and expressions and hands over plain columns.

owner_   whose the row is, never NULL
k0 …     group keys, canonical
v0 …     arguments of measures, canonical
r0 …     the same as doubles, where the engine's own cast must decide (decimals)
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.engines.memory.codes import encode
from shoal.engines.statements.bound_owners import OWNER
from shoal.engines.statements.integers import not_null
from shoal.engines.statements.pruned import read_input
from shoal.engines.statements.relations import Compiler, aliased, column, select
from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.expressions import Call, walk
from shoal.plan.measures import SATURATION_BITS
from shoal.plan.traverse import all_nodes, expressions_of
from shoal.plan.types import DOUBLE, Kind, Type
from shoal.rewrite.checks.row_work import GROWING
from shoal.sql import functions
from shoal.sql.functions.canonical import folded_bits

if TYPE_CHECKING:
    from collections.abc import Mapping
    from fractions import Fraction

    import pyarrow as pa
    from numpy.typing import NDArray
    from sqlglot import exp

    from shoal.plan.measures import Steps
    from shoal.plan.nodes import Node
    from shoal.plan.totals import TotalsQuery

LARGEST = 1 << 60
"""Integers in memory stay below this; what could pass it is left to the engine's wide integers."""
EXACT_IN_DOUBLES = 1 << 53


class TooWide(Exception):  # noqa: N818 - not a failure: 64 bits do not do
    """A number, or a sum of them, may need more than 64 bits."""


def has_texts(query: TotalsQuery) -> bool:
    """Whether rows have strings, or functions make some on the way: then fewer rows are read at once.

    A stored text is as long as whoever wrote it liked.
    """
    owner = nodes.field_of(query.input, query.input.owner or "").type
    types = [owner, *(field.type for field, _ in query.keys), *(argument.type for argument in query.arguments)]
    if any(type_.kind is Kind.TEXT for type_ in types):
        return True
    inside = (value for node in all_nodes(query.input) for value in expressions_of(node))
    written = (*(key for _, key in query.keys), *query.arguments, *inside)
    return any(isinstance(part, Call) and part.function in GROWING for value in written for part in walk(value))


def only_table(node: Node) -> str | None:
    """The one table that the rows come from, each of them from one row; None where tables meet or rows are made."""
    while isinstance(node, (nodes.Filter, nodes.Project)):
        node = node.input
    return node.table if isinstance(node, nodes.Scan) else None


def rows_statement(query: TotalsQuery, tables: Mapping[str, exp.Expr]) -> exp.Select:
    """One row for each row of the relation that has an owner."""
    compiler = Compiler(tables)
    owner = query.input.owner
    assert owner is not None  # noqa: S101 - check_ownership saw to it
    items = [aliased(column(owner), OWNER)]
    for number, (field, key) in enumerate(query.keys):
        items.append(aliased(functions.key_form(compiler.expression(key), field.type), f"k{number}"))
    for number, argument in enumerate(query.arguments):
        value = compiler.expression(argument)
        items.append(aliased(functions.key_form(value, argument.type), f"v{number}"))
        if argument.type.kind is Kind.DECIMAL:
            items.append(aliased(functions.cast_form(value.copy(), argument.type, DOUBLE), f"r{number}"))
    rows = select(items, compiler.subquery(compiler.relation(read_input(query))))
    return rows.where(not_null(column(owner)), copy=False)


@dataclass(frozen=True, slots=True)
class Argument:
    """What a measure reads, for some rows: whole numbers, doubles, or codes of other values with their canonical integers."""

    type: Type
    values: NDArray[Any]
    missing: NDArray[np.bool_] | None
    reals: NDArray[np.float64] | None = None
    entries: NDArray[np.uint64] | None = None

    @classmethod
    def of(cls, rows: pa.Table, number: int, type_: Type) -> Argument:
        """The argument of this number, for all rows."""
        stored = rows.column(f"v{number}")
        missing = _joined(stored.is_null()) if stored.null_count else None
        if type_.kind is Kind.INTEGER:
            return cls(type_, _joined(stored.fill_null(0) if stored.null_count else stored), missing)
        if type_.kind is Kind.DOUBLE:
            return cls(type_, _joined(stored), missing)
        coded = encode(stored, type_, 0)
        reals = _joined(rows.column(f"r{number}")) if type_.kind is Kind.DECIMAL else None
        return cls(type_, coded.codes, missing, reals, functions.canonical_integers(coded.dictionary, type_))

    def take(self, rows: NDArray[np.int64]) -> Argument:
        """The same for fewer rows."""
        return replace(
            self,
            values=self.values.take(rows),
            missing=None if self.missing is None else self.missing.take(rows),
            reals=None if self.reals is None else self.reals.take(rows),
        )

    def present(self) -> NDArray[np.bool_]:
        """Where there is a value."""
        return np.ones(len(self.values), dtype=bool) if self.missing is None else ~self.missing

    def identities(self) -> NDArray[np.uint64]:
        """Equal numbers for equal values."""
        return np.asarray(self.values.astype(np.uint64) if self.entries is not None else self.values.view(np.uint64))

    def canonical(self) -> NDArray[np.uint64]:
        """Canonical integers of values that are there; the caller drops bits above 62."""
        if self.entries is not None:
            return np.asarray(self.entries[self.values])
        if self.type.kind is Kind.DOUBLE:
            return folded_bits(self.values)
        return np.asarray(self.values.view(np.uint64))

    def as_reals(self) -> NDArray[np.float64]:
        """The values as doubles."""
        return self.reals if self.reals is not None else self.values.astype(np.float64, copy=False)

    def in_steps(self, grid: Fraction, within: Steps | None = None) -> NDArray[np.int64]:
        """⌊x/grid + ½⌋, and 0 for NULL; whole numbers on the grid 1 stay what they are. Clamped row by row where asked."""
        if self.type.kind is Kind.INTEGER and grid == 1:
            return _within_word(self.values, within)
        reals = self.as_reals()
        return real_steps(reals if self.missing is None else np.where(self.missing, 0.0, reals), grid, within)


def real_steps(reals: NDArray[np.float64], grid: Fraction, within: Steps | None = None) -> NDArray[np.int64]:
    """⌊x/grid + ½⌋, saturated, by the same IEEE operations as in the engine."""
    with np.errstate(over="ignore"):
        steps = reals * float(1 / grid)
    bounded = within is not None and within.magnitude <= EXACT_IN_DOUBLES
    if not bounded:  # bounds of few digits saturate as well, at the end
        limit = float(2**SATURATION_BITS)
        np.clip(steps, -limit, limit, out=steps)
    steps += 0.5
    np.floor(steps, out=steps)
    if bounded and within is not None:
        return np.clip(steps, within.lower, within.upper, out=steps).astype(np.int64)
    return _within_word(steps, within)


def _within_word(steps: NDArray[Any], within: Steps | None) -> NDArray[np.int64]:
    """Whole numbers as 64-bit integers, of which as many as there are can be added up."""
    if within is not None and within.magnitude <= EXACT_IN_DOUBLES:
        return np.asarray(np.clip(steps, within.lower, within.upper), dtype=np.int64)
    most = LARGEST // max(len(steps), 1)
    if len(steps) and (int(steps.max()) > most or int(steps.min()) < -most):
        raise TooWide
    whole = steps.astype(np.int64, copy=False)
    return whole if within is None else np.clip(whole, within.lower, within.upper)


def _joined(chunks: pa.ChunkedArray) -> NDArray[Any]:
    parts = [chunk.to_numpy(zero_copy_only=False) for chunk in chunks.chunks or [chunks.combine_chunks()]]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
