"""`measure_cut`: how much limits that were given leave out, by one noisy histogram for each of them, with one bin per owner.

For an owner with sizes n_g (rows, different values, the sum without its sign, or 1) in k groups, a limit U on each and κ on their
number, about min(1, κ/k)·Σ min(n_g, U) is kept and the rest of Σ n_g is cut. Both together choose the owner's bin: two histograms,
one for each, would not say whose rows are cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.plan.aggregates import CountOwners
from shoal.plan.expressions import Column, Expression, Literal
from shoal.plan.limits.sought import CUT_EDGES, KEPT_EDGES, ROW_EDGES, Sought
from shoal.plan.nodes import Aggregate, Field, Values, field_of
from shoal.plan.releases import AggregateCall, Options, PrivateSelect
from shoal.plan.types import DOUBLE, INTEGER, Kind
from shoal.rewrite.limits.histograms import Maker, first_edge, owner_aggregate
from shoal.sql import functions

if TYPE_CHECKING:
    from collections.abc import Sequence

PARTS_OF_A_LIMIT = 16
"""Sums are counted in such parts of their limit."""
FEWEST_TO_MEASURE = 20
"""ε·share·population below this: there would be nothing to be seen."""


@dataclass(frozen=True, slots=True)
class Cut:
    """What may cut an aggregate: κ, and the limit U on its size in one group; None where there is none."""

    size: str
    """What n_g is: "groups" (1), "rows", "values" or "sum"."""
    groups: int | None
    limit: Fraction | None
    calls: tuple[int, ...]

    @property
    def unit(self) -> Fraction:
        """In what bins are counted."""
        return self.limit / PARTS_OF_A_LIMIT if self.size == "sum" and self.limit is not None else Fraction(1)

    @property
    def sought(self) -> Sought:
        """Its histogram's bins."""
        cut = tuple(Fraction(edge) * self.unit for edge in CUT_EDGES)
        return Sought("cut", cut, self.calls, tuple(Fraction(edge) * self.unit for edge in KEPT_EDGES))


def cuts_of(select: PrivateSelect, sought: Sequence[Sought], cap: int | None, *, one_row: bool) -> tuple[Cut, ...]:
    """Limits that were given and may cut something; one that is sought tells by itself what it cuts."""
    options = select.options
    if one_row or options.max_rows_per_owner is not None:
        return ()
    groups = options.max_groups_per_owner if select.keys else None
    if groups is not None and cap is not None and groups >= cap:
        groups = None
    open_calls = {place for limit in sought for place in limit.calls}
    found: dict[object, Cut] = {}
    for place, call in enumerate(select.aggregates):
        cut = _cut(call, place, groups, is_open=place in open_calls)
        if cut is None or (cut.groups is None and cut.limit is None):
            continue
        about = (cut.size, call.aggregate.argument, cut.limit)
        known = found.get(about)
        found[about] = cut if known is None else Cut(cut.size, cut.groups, cut.limit, (*known.calls, place))
    return tuple(found.values())


def _cut(call: AggregateCall, place: int, groups: int | None, *, is_open: bool) -> Cut | None:
    given = call.aggregate.given_limit(None if is_open else call.bounds, is_open=is_open)
    return None if given is None else Cut(given[0], groups, given[1], (place,))


def cut_select(select: PrivateSelect, cut: Cut, prefix: str, epsilon: Fraction) -> PrivateSelect:
    """The private SELECT that counts owners by what is cut and what is kept of them."""
    maker, sought = Maker(select, prefix), cut.sought
    owner, bin_, field = maker.field, maker.field(INTEGER), maker.field(INTEGER)
    node, key = _per_owner(maker, cut, sought)
    listed = Values(tuple((place,) for place in sought.bins), (owner(INTEGER),))
    options = Options(
        select.options.clause, epsilon, None, max_groups_per_owner=1, strategy="PUBLIC_GROUPS", noise="LAPLACE"
    )
    call = AggregateCall(field, CountOwners(), None, "none")
    return PrivateSelect(node, ((bin_, key),), (call,), options, listed, "every bin is counted", (), select.position)


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
