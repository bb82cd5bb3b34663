"""WHERE, keys and arguments at every value of the domain, computed by an embedded engine that sees only the domain.

Sensitivity needs no analysis of expressions: whatever they are, v(x) is listed for every x, and the maximum over secret edges is
looked up. The same list gives the answer, so what is protected is what is released.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.errors import ShoalError
from shoal.exact import power_of_two_below
from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.expressions import Column, columns_of
from shoal.plan.nodes import Field
from shoal.plan.types import INTEGER, Kind
from shoal.policies.tables import whole_steps
from shoal.release.postprocess import evaluated
from shoal.release.stored_rows import arrow_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from shoal.engines.deadline import Deadline
    from shoal.plan.expressions import Expression
    from shoal.plan.policy_select import PolicySelect
    from shoal.policies.domain import Domain
    from shoal.policies.tables import Steps

ROW = "domain_row"
GRID_BITS = 30
"""Values that are not whole go to a grid of 2^-30 of the largest."""


@dataclass(frozen=True)
class Values:
    """An argument at every value of the domain: whole steps of a grid, and where it is not NULL."""

    steps: Steps
    present: NDArray[np.bool_]
    grid: Fraction


@dataclass(frozen=True)
class DomainValues:
    """What a SELECT says about every value of the attributes it looks at."""

    names: tuple[str, ...]
    passes: NDArray[np.bool_]
    groups: NDArray[np.int64]
    """The group of every value; −1 where WHERE does not hold."""
    keys: pa.Table
    count: int
    columns: dict[Expression, Any]

    def of(self, argument: Expression) -> Values:
        """An argument, on its grid."""
        return on_grid(self.columns[argument], argument.type.kind)

    def is_there(self, argument: Expression) -> NDArray[np.bool_]:
        """Where an argument is not NULL."""
        return np.asarray(self.columns[argument].is_valid().to_numpy(zero_copy_only=False), dtype=bool)

    def holds(self, condition: Expression | None) -> NDArray[np.bool_]:
        """Where WHERE and one more condition hold."""
        return self.passes if condition is None else self.passes & _true(self.columns[condition])


def evaluate(select: PolicySelect, deadline: Deadline) -> DomainValues:
    """Everything a SELECT computes, at every value of the attributes that it names."""
    expressions = _expressions(select)
    names = _used(select, expressions)
    seen = select.rule.domain.projected(names)
    rows = _computed(select, seen, expressions, deadline)
    columns = {expression: rows.column(f"e{i}").combine_chunks() for i, expression in enumerate(expressions)}
    passes = _true(columns[select.where]) if select.where is not None else np.ones(seen.size, dtype=bool)
    groups, keys, count = _groups(select, columns, passes)
    return DomainValues(seen.names, passes, groups, keys, count, columns)


def _expressions(select: PolicySelect) -> list[Expression]:
    found = [select.where, *(key for _, key in select.keys)]
    found += [part for a in select.aggregates for part in (a.argument, a.condition)]
    return list(dict.fromkeys(each for each in found if each is not None))


def _used(select: PolicySelect, expressions: list[Expression]) -> tuple[str, ...]:
    """The named attributes; if there are none, the smallest, so that there is a domain to look at."""
    attribute = dict(zip((f.symbol for f in select.domain_fields), select.rule.domain.names, strict=True))
    used = {attribute[symbol] for each in expressions for symbol in columns_of(each)}
    if not used:
        used = {min(select.rule.domain.attributes, key=lambda a: a.size).name}
    names = tuple(name for name in select.rule.domain.names if name in used)
    select.rule.domain.projected(names).require_enumerable()
    return names


def _computed(select: PolicySelect, seen: Domain, expressions: list[Expression], deadline: Deadline) -> pa.Table:
    """The expressions over the domain as a stored relation, one row per value, in order."""
    by_name = dict(zip(select.rule.domain.names, select.domain_fields, strict=True))
    fields = [by_name[name] for name in seen.names]
    columns = {
        f.symbol: pa.array(
            np.array(a.values, dtype=object)[axis] if not a.ordered else axis + a.values[0], arrow_type(f.type)
        )
        for f, a, axis in zip(fields, seen.attributes, seen.grid, strict=True)
    }
    table = pa.table({ROW: np.arange(seen.size, dtype=np.int64), **columns})
    row = Field("", ROW, INTEGER)
    items = [(row, Column(ROW, INTEGER))]
    items += [(Field("", f"e{i}", each.type), each) for i, each in enumerate(expressions)]  # type: ignore[misc]
    root = nodes.Project(nodes.StoredRows(0, (row, *fields)), tuple(items))
    return evaluated(root, {"released_0": table}, deadline).sort_by(ROW)


def _true(column: Any) -> NDArray[np.bool_]:
    """Where a condition is true; unknown is not."""
    return np.asarray(column.cast(pa.bool_()).fill_null(False).to_numpy(zero_copy_only=False), dtype=bool)


def _groups(
    select: PolicySelect, columns: dict[Expression, Any], passes: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], pa.Table, int]:
    """Every key that the domain can produce under WHERE, in order of appearance; without keys, one group."""
    if not select.keys:
        return np.where(passes, 0, -1), pa.table({}), 1
    coded = np.zeros(len(passes), dtype=np.int64)
    kept = []
    for f, key in select.keys:
        column = _canonical(columns[key]).cast(arrow_type(f.type))
        kept.append(column)
        codes = column.dictionary_encode(null_encoding="encode")
        coded = coded * (len(codes.dictionary) + 1) + codes.indices.to_numpy(zero_copy_only=False)
        coded = np.unique(coded, return_inverse=True)[1].astype(np.int64)
    inside = np.flatnonzero(passes)
    _, first, group = np.unique(coded[inside], return_index=True, return_inverse=True)
    groups = np.full(len(passes), -1, dtype=np.int64)
    groups[inside] = group
    rows = pa.array(inside[first])
    table = pa.Table.from_arrays([c.take(rows) for c in kept], names=[f.symbol for f, _ in select.keys])
    return groups, table, len(first)


def _canonical(column: pa.Array) -> pa.Array:
    """Equal keys look equal: −0.0 is 0.0, and NaN is missing."""
    if not pa.types.is_floating(column.type):
        return column
    numbers = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64) + 0.0
    return pa.array(numbers, from_pandas=True)


def on_grid(column: Any, kind: Kind) -> Values:
    """Values as whole steps: whole numbers by ones, decimals by their last place, doubles by a power of two."""
    if pa.types.is_integer(column.type):
        present = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
        return Values(whole_steps(column.fill_null(0).to_pylist()), present, Fraction(1))
    return _doubles(column) if kind is Kind.DOUBLE else _decimals(column)


def _doubles(column: Any) -> Values:
    """Scaling by a power of two is exact, so that rounding is the only step that changes a value."""
    numbers = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    present = np.isfinite(numbers)
    numbers = np.where(present, numbers, 0.0)
    largest = float(np.max(np.abs(numbers), initial=0.0))
    if largest and not 1e-200 < largest < 1e200:
        raise ShoalError("E_LIMITS", "Values of the query are too large or too small.", hint="Use another unit.")
    grid = power_of_two_below(Fraction(largest) / 2**GRID_BITS) if largest else Fraction(1)
    return Values(np.rint(numbers / float(grid)).astype(np.int64), present, grid)


def _decimals(column: Any) -> Values:
    listed = [None if value is None else Fraction(value) for value in column.to_pylist()]
    present = np.array([value is not None for value in listed], dtype=bool)
    kept = [value if value is not None else Fraction(0) for value in listed]
    grid = Fraction(1, math.lcm(*{value.denominator for value in kept}))
    steps = [int(value / grid) for value in kept]
    if max((abs(step) for step in steps), default=0) >= 1 << 120:
        raise ShoalError("E_LIMITS", "Values of the query are too large for exact sums.", hint="Use another unit.")
    return Values(whole_steps(steps), present, grid)
