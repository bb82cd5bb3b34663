"""`measure_cut`: how much the given limits leave out, from one noisy histogram per limit, with one bin per owner.

For an owner with sizes n_g (rows, different values, the sum without its sign, or 1) in k groups, a limit U on each and κ on their
number, about min(1, κ/k)·Σ min(n_g, U) is kept and the rest of Σ n_g is cut. Both together choose the owner's bin: two histograms,
one for each, would not say whose rows are cut.

Bounds of values [L, U] clamp what averages, variances and quantiles are made of. There an owner's bin is that of the average of its
values, over all rows: eight equal ones within the bounds, and beyond them some that grow.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.frozen import dataclass
from shoal.plan.aggregates import CountOwners
from shoal.plan.aggregates.defaults import OfOwner
from shoal.plan.expressions import Column, Expression, Literal
from shoal.plan.limits.sought import CUT_EDGES, KEPT_EDGES, ROW_EDGES, Sought
from shoal.plan.nodes import Aggregate, Field, Values, field_of
from shoal.plan.releases import AggregateCall, Options, PrivateSelect
from shoal.plan.types import DOUBLE, INTEGER, Kind
from shoal.rewrite.limits.histograms import Maker, first_edge, owner_aggregate
from shoal.sql import functions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.params import Bounds
    from shoal.plan.nodes import Node

SAID = frozenset({"query", "catalog"})
NUMBERS = frozenset({Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL})
PARTS_OF_A_LIMIT = 16
"""Sums are counted in such parts of their limit."""
WITHIN, BEYOND = 8, (1, 3, 7)
"""Bins within bounds of values, and the edges beyond them, in widths of the bounds."""
JUST_BELOW = Fraction(1, 1024)
"""Of the width: a value that is the lower bound lies within the bounds."""
LARGEST_EDGE = Fraction(2) ** 1000
FEWEST_TO_MEASURE = 20
"""If ε·share·population is below this, there would be nothing to see."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What may cut an aggregate: κ, and the limit U on its size in one group; None where there is none."""

    size: str
    """What n_g is: "groups" (1), "rows", "values" or "sum"; "value" where it is bounds that cut."""
    groups: int | None
    limit: Fraction | None
    calls: tuple[int, ...]
    bounds: Bounds | None = None

    @property
    def may_cut(self) -> bool:
        """Whether there is any limit."""
        return self.groups is not None or self.limit is not None or self.bounds is not None

    @property
    def unit(self) -> Fraction:
        """The unit of the bins."""
        return self.limit / PARTS_OF_A_LIMIT if self.size == "sum" and self.limit is not None else Fraction(1)

    @property
    def sought(self) -> Sought:
        """Its histogram's bins."""
        if self.bounds is not None:
            return Sought("value", value_edges(self.bounds), self.calls)
        cut = tuple(Fraction(edge) * self.unit for edge in CUT_EDGES)
        return Sought("cut", cut, self.calls, tuple(Fraction(edge) * self.unit for edge in KEPT_EDGES))


def value_edges(bounds: Bounds) -> tuple[Fraction, ...]:
    """The edges of bins of values: beyond the lower bound, within, and beyond the upper one."""
    lower, upper, width = bounds.lower, bounds.upper, bounds.upper - bounds.lower
    below = (*(lower - widths * width for widths in reversed(BEYOND)), lower - JUST_BELOW * width)
    within = (lower + width * Fraction(part, WITHIN) for part in range(1, WITHIN + 1))
    return (*below, *within, *(upper + widths * width for widths in BEYOND))


def cuts_of(select: PrivateSelect, sought: Sequence[Sought], cap: int | None, *, one_row: bool) -> tuple[Cut, ...]:
    """Given limits that may cut something; the search for a limit already shows what it cuts."""
    options = select.options
    if options.max_rows_per_owner is not None:
        return ()
    groups = options.max_groups_per_owner if select.keys else None
    if groups is not None and cap is not None and groups >= cap:
        groups = None
    open_calls = {position for limit in sought for position in limit.calls}
    found: dict[object, Cut] = {}
    for position, call in enumerate(select.aggregates):
        cut = _cut(call, position, groups, is_open=position in open_calls, one_row=one_row)
        if cut is None or not cut.may_cut or (one_row and cut.bounds is None):
            continue
        about = (cut.size, call.aggregate.argument, cut.limit, cut.bounds)
        known = found.get(about)
        found[about] = cut if known is None else replace(cut, calls=(*known.calls, position))
    return tuple(found.values())


def _cut(call: AggregateCall, position: int, groups: int | None, *, is_open: bool, one_row: bool) -> Cut | None:
    # Even when a limit on rows is sought, bounds of values are given.
    given = call.aggregate.given_limit(None if is_open and not call.rows_left_open else call.bounds, is_open=is_open)
    if given is None or given[0] != "value":
        return None if given is None else Cut(given[0], groups, given[1], (position,))
    return Cut("value", None, None, (position,), call.bounds) if _may_move(call, one_row=one_row) else None


def _may_move(call: AggregateCall, *, one_row: bool) -> bool:
    """Whether values may lie beyond declared bounds, or owners with many rows have different values from the rest.

    Nothing lies beyond the bounds of an expression over constants.
    """
    bounds, argument = call.bounds, call.aggregate.argument
    moves = call.bounds_source in SAID or (not one_row and call.aggregate.of_owner is OfOwner.MEAN)
    if bounds is None or argument is None or not moves or argument.type.kind not in NUMBERS:
        return False
    edges = value_edges(bounds) if bounds.lower < bounds.upper else ()
    return bool(edges) and max(map(abs, edges)) < LARGEST_EDGE


def cut_select(select: PrivateSelect, cut: Cut, prefix: str, epsilon: Fraction) -> PrivateSelect:
    """The private SELECT that counts owners by what is cut and what is kept of them."""
    maker, sought = Maker(select, prefix), cut.sought
    owner, bin_, field = maker.field, maker.field(INTEGER), maker.field(INTEGER)
    node, key = _per_owner(maker, cut, sought) if cut.bounds is None else _value_of_owner(maker, sought)
    listed = Values(tuple((position,) for position in sought.bins), (owner(INTEGER),))
    options = Options(
        select.options.clause, epsilon, None, max_groups_per_owner=1, strategy="PUBLIC_GROUPS", noise="LAPLACE"
    )
    call = AggregateCall(field, CountOwners(), None, "none")
    return PrivateSelect(node, ((bin_, key),), (call,), options, listed, "every bin is counted", (), select.position)


def _value_of_owner(maker: Maker, sought: Sought) -> tuple[Node, Expression]:
    """One row for each owner, and the bin of the average of its values; an owner without values is in none that is listed."""
    node, top, values = maker.values(sought)
    nobody = functions.resolve("less_equal", [values, Literal(0, INTEGER)], None)
    bin_ = first_edge(sought.edges, top, functions.resolve_cast(values, DOUBLE, None))
    return node, functions.case([(nobody, Literal(-1, INTEGER))], bin_, None)


def _per_owner(maker: Maker, cut: Cut, sought: Sought) -> tuple[Aggregate, Expression]:
    """One row for each owner (all of it, what the limit leaves, groups), and the number of the owner's bin."""
    counted = Sought(cut.size, tuple(map(Fraction, ROW_EDGES)), () if cut.size == "groups" else cut.calls)
    pairs, size = maker.pairs(counted)
    of_pair: Expression = Literal(1, INTEGER) if cut.size == "groups" else Column(size.symbol, size.type)
    last, first = field_of(pairs, pairs.owner or ""), maker.field(field_of(pairs, pairs.owner or "").type)
    sums = [owner_aggregate("SUM", of_pair), owner_aggregate("SUM", _limited(of_pair, cut.limit))]
    counts = owner_aggregate("COUNT")
    fields = [maker.field(each.type) for each in (*sums, counts)]
    items = tuple(zip(fields, (*sums, counts), strict=True))
    node = Aggregate(pairs, ((first, Column(last.symbol, last.type)),), items, first.symbol)
    return node, _bin(fields, cut, sought)


def _limited(value: Expression, limit: Fraction | None) -> Expression:
    if limit is None:
        return value
    most = Literal(float(limit), DOUBLE) if value.type.kind is Kind.DOUBLE else Literal(int(limit), INTEGER)
    return functions.case([(functions.resolve("less_equal", [value, most], None), value)], most, None)


def _bin(fields: Sequence[Field], cut: Cut, sought: Sought) -> Expression:
    """The bin of what is cut, and within it that of what is kept; both are compared with edges without a division."""
    whole, limited, groups = (Column(field.symbol, field.type) for field in fields)
    kept: Expression = limited
    bottom: Expression = Literal(1, INTEGER)
    if cut.groups is not None:
        most = Literal(cut.groups, INTEGER)
        more = functions.resolve("less_equal", [groups, most], None)
        bottom = functions.case([(more, most)], groups, None)
        kept = functions.resolve("multiply", [limited, most], None)
    everything = functions.resolve("multiply", [whole, bottom], None)
    lost = functions.resolve("subtract", [everything, kept], None)
    row = first_edge(sought.edges, lost, bottom)
    column = first_edge(sought.kept_edges, kept, bottom)
    columns = Literal(len(sought.kept_edges) + 1, INTEGER)
    return functions.resolve("add", [functions.resolve("multiply", [row, columns], None), column], None)
