"""What can be changed about one field of a plan: (value of the field, what holds it, the whole plan) → another value, or SKIP."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from plan_parts import everything, is_private

from shoal.accounting.events import (
    GaussianNoise,
    LaplaceNoise,
    OptimalSelection,
    RankTarget,
    Shift,
    WeightedSelection,
    WholeSelection,
)
from shoal.mechanisms.calibrate import threshold_for
from shoal.mechanisms.selection.weighted import weighted_threshold
from shoal.mechanisms.selection.whole import on_released_whole
from shoal.params import Bounds
from shoal.plan import expressions, nodes
from shoal.plan.expressions import Column, Literal
from shoal.plan.measures import Histogram, OwnerCount, OwnerSum
from shoal.plan.releases import Contribution, Inferred, SelectPlan
from shoal.plan.types import BOOLEAN, INTEGER

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.plan.releases import StatementPlan

SKIP = object()
"""What a change says where it does not apply."""

NOWHERE = Column("nowhere", INTEGER)
PRIVATE = nodes.Scan("visits", (nodes.Field("uid", "p1", INTEGER),), ("uid",), "p1", "customer")
TRUE = Literal(True, BOOLEAN)

Change = "Callable[[Any, Any, StatementPlan], Any]"
"""(value of the field, what holds it, the whole plan) → another value, or SKIP."""


def always(value: Any) -> Callable[..., Any]:
    """This value, unless it is there already."""
    return lambda old, _holder, _plan: value if old != value else SKIP


def smaller(old: Any, _holder: Any, _plan: Any) -> Any:
    """Half of a positive number; nothing is between whole numbers 0 and 1."""
    if old is None or old == 0:
        return SKIP
    return old // 2 if isinstance(old, int) else old / 2


def one_less(old: Any, _holder: Any, _plan: Any) -> Any:
    return SKIP if old is None else old - 1


def one_more(old: Any, _holder: Any, _plan: Any) -> Any:
    return SKIP if old is None else old + 1


def missing(old: Any, _holder: Any, _plan: Any) -> Any:
    return SKIP if old is None else None


def flipped(old: bool, _holder: Any, _plan: Any) -> bool:
    return not old


def without_first(old: tuple[Any, ...], _holder: Any, _plan: Any) -> Any:
    return old[1:] if old else SKIP


def without_last(old: tuple[Any, ...], _holder: Any, _plan: Any) -> Any:
    return old[:-1] if old else SKIP


def unless_one_is_left(old: tuple[Any, ...], _holder: Any, _plan: Any) -> Any:
    return old[1:] if len(old) > 1 else SKIP


def doubled(old: tuple[Any, ...], _holder: Any, _plan: Any) -> Any:
    return (*old, *old) if old else SKIP


def reads_nothing_known(old: Any, _holder: Any, _plan: Any) -> Any:
    """An expression (or a tuple that ends in one) that reads a column which is not there."""
    if old is None:
        return SKIP
    if isinstance(old, tuple):
        return (*old[:-1], reads_nothing_known(old[-1], None, None)) if old else SKIP
    if isinstance(old, nodes.RowAggregate):
        return replace(old, filter=Column("nowhere", BOOLEAN))
    if isinstance(old, expressions.Order):
        return replace(old, value=Column("nowhere", old.value.type))
    return Column("nowhere", old.type)


def other_relation(old: Any, _holder: Any, _plan: Any) -> Any:
    """A public relation for a private one, and private rows for public ones."""
    if old is None:
        return SKIP
    if is_private(old):
        return nodes.Values((), old.fields)
    columns = ("uid", *(f"c{i}" for i in range(1, len(old.fields))))
    return nodes.Scan("visits", old.fields, columns, old.fields[0].symbol) if old.fields else PRIVATE


def other_owner(old: str | None, _holder: Any, _plan: Any) -> Any:
    return None if old is not None else "nobody"


# ---- changes that know their plan ----------------------------------------------------------------------------------


def without_owner(old: tuple[Any, ...], holder: Any, _plan: Any) -> Any:
    """Items or keys of a private relation without the one that carries the owner."""
    if holder.owner is None:
        return SKIP
    return tuple((f, value) for f, value in old if f.symbol != holder.owner)


def raw_column(old: tuple[Any, ...], holder: Any, plan: StatementPlan) -> Any:
    """One more column above a release, which reads private rows past it."""
    if not any(part is holder for part in everything(plan.root)):
        return SKIP
    raw = plan.selects[0].select.input.fields[0]
    return (*old, (nodes.Field("raw", "raw", raw.type), Column(raw.symbol, raw.type)))


def shown_owner(old: tuple[Any, ...], holder: Any, _plan: Any) -> Any:
    """A function that sees whose its records are."""
    owner = nodes.field_of(holder.input, holder.input.owner)
    return (*old, ("whose", Column(owner.symbol, owner.type)))


def as_the_owner(old: tuple[Any, ...], holder: Any, _plan: Any) -> Any:
    """What a function makes, under the name of the owner."""
    return (*old, nodes.Field("made", holder.owner, INTEGER))


def carried_past(old: tuple[Any, ...], holder: Any, _plan: Any) -> Any:
    """Something else than the owner, past a function and in its place."""
    other = next((f for f in holder.input.fields if f.symbol != holder.input.owner), None)
    if other is None:
        return SKIP
    return ((replace(old[0][0], type=other.type), Column(other.symbol, other.type)),)


def one_name_twice(old: tuple[Any, ...], _holder: Any, _plan: Any) -> Any:
    """A second column that bears the name of the first."""
    return (*old, (old[0][0], old[-1][1]))


def raw_field(old: tuple[Any, ...], _holder: Any, plan: StatementPlan) -> Any:
    return (*old, plan.selects[0].select.input.fields[0])


def used_symbol(old: str, holder: Any, plan: StatementPlan) -> Any:
    """Another symbol for a field or a column that something reads."""
    read = {part.symbol for part in everything(plan) if isinstance(part, Column)}
    return "nowhere" if isinstance(holder, Column) or old in read else SKIP


def unless_unread(old: tuple[Any, ...], holder: Any, plan: StatementPlan) -> Any:
    return () if used_symbol(old[0].symbol, holder, plan) is not SKIP else SKIP


def other_symbols(old: tuple[Any, ...], holder: Any, _plan: Any) -> Any:
    return SKIP if holder.owner is None else tuple(replace(f, symbol=f"x{i}") for i, f in enumerate(old))


def next_indices(old: tuple[int, ...], _holder: Any, _plan: Any) -> Any:
    return tuple(i + 1 for i in old) or SKIP


def reversed_columns(old: tuple[str, ...], holder: Any, _plan: Any) -> Any:
    return old[::-1] if holder.owner is not None and len(old) > 1 else SKIP


def public_side(old: Any, holder: Any, _plan: Any) -> Any:
    """The other side of a join; two private sides of which one becomes public are another question."""
    return SKIP if is_private(old) and is_private(holder.left) else other_relation(old, holder, None)


def joins_anything(old: Any, holder: Any, _plan: Any) -> Any:
    """Two private tables without their condition; WHERE has none of it either."""
    both = is_private(holder.left) and is_private(holder.right)
    return TRUE if both and old != TRUE else reads_nothing_known(old, holder, None)


def join_that_makes_rows(old: str, holder: Any, _plan: Any) -> Any:
    """An outer join that keeps the public side."""
    left, right = is_private(holder.left), is_private(holder.right)
    if left == right:
        return SKIP
    return "right" if left else "left"


def filters_nothing(old: Any, holder: Any, plan: StatementPlan) -> Any:
    """WHERE without the condition that ties two private tables."""
    below = holder.input
    tied = isinstance(below, nodes.Join) and below.condition == TRUE and is_private(below.left)
    return TRUE if tied and is_private(below.right) else reads_nothing_known(old, holder, plan)


def by_nobody(old: tuple[Any, ...], _holder: Any, _plan: Any) -> Any:
    return () if old else SKIP


def in_no_order(old: tuple[Any, ...], holder: Any, _plan: Any) -> Any:
    """Functions of a row's place, and frames of rows, need an order."""
    return () if old and (holder.frame is not None or holder.function == "row_number") else SKIP


def other_noise(old: str, _holder: Any, plan: StatementPlan) -> Any:
    kinds = {type(r.noise) for s in plan.selects for r in s.releases if r.noise.shift.l1}
    return {frozenset({LaplaceNoise}): "GAUSSIAN", frozenset({GaussianNoise}): "LAPLACE"}.get(frozenset(kinds), SKIP)


def selection_under(options: Any, plan: StatementPlan) -> Any:
    held = (part for part in everything(plan) if isinstance(part, SelectPlan))
    return next(part.selection for part in held if part.select.options is options)


def larger_minimum(old: int, holder: Any, plan: StatementPlan) -> Any:
    """More owners than the selection looks for; without unknown groups there is nothing to select."""
    return old + 1 if selection_under(holder, plan) is not None else SKIP


def other_rule(old: str, holder: Any, plan: StatementPlan) -> Any:
    rule = selection_under(holder, plan)
    if rule is None:
        return SKIP
    return "LAPLACE_THRESHOLD" if isinstance(rule, OptimalSelection) else "OPTIMAL"


def other_scope_of_bounds(old: str, _holder: Any, plan: StatementPlan) -> Any:
    found = any(s.histograms and s.select.keys for s in plan.selects)
    return {"GLOBAL": "PER_GROUP", "PER_GROUP": "GLOBAL"}[old] if found else SKIP


def for_one_group(old: Any, _holder: Any, _plan: Any) -> Any:
    """κ = 1, with the threshold that would be enough for it."""
    if old is None or old.max_groups_per_owner == 1:
        return SKIP
    if isinstance(old, OptimalSelection):
        return replace(old, max_groups_per_owner=1)
    if isinstance(old, WeightedSelection):
        return replace(
            old, weights=old.weights[:1], threshold=weighted_threshold(old.noise, old.weights[:1], old.delta)
        )
    if isinstance(old, WholeSelection):
        return on_released_whole(old.noise, 1, old.min_owners, old.delta)
    return replace(old, max_groups_per_owner=1, threshold=threshold_for(old.noise, 1, old.delta))


def heavier(old: tuple[tuple[int, int], ...], _holder: Any, _plan: Any) -> Any:
    """Owners in one group weigh as before, owners in several one step more."""
    return (old[0], *((degree, weight + 1) for degree, weight in old[1:])) if len(old) > 1 else SKIP


def another_index(old: int | None, _holder: Any, _plan: Any) -> Any:
    return 0 if old is None else old + 1


def other_measure(old: Any, _holder: Any, _plan: Any) -> Any:
    return OwnerCount(NOWHERE) if old != OwnerCount(NOWHERE) else SKIP


def other_histogram(old: Histogram, _holder: Any, _plan: Any) -> Histogram:
    return replace(old, serves=OwnerSum(NOWHERE, is_integer=True))


def other_noise_kind(old: Any, _holder: Any, _plan: Any) -> Any:
    """The same shift with noise that is a thousandth of the other kind."""
    if not old.shift.l1:
        return SKIP
    return LaplaceNoise(old.shift, Fraction(1, 1000), old.grid)


def fewer_rows(old: Shift, _holder: Any, _plan: Any) -> Any:
    return replace(old, per_coordinate=old.per_coordinate // 2) if old.per_coordinate > 1 else SKIP


def one_target_less(old: Any, _holder: Any, _plan: Any) -> Any:
    return old[1:] if len(old) > 1 else SKIP


def another_target(old: Any, _holder: Any, _plan: Any) -> Any:
    return (*old, RankTarget(Fraction(1, 7)))


def other_bounds(old: Any, _holder: Any, _plan: Any) -> Any:
    if isinstance(old, Bounds):
        return Bounds(old.lower - 1, old.upper + 1)
    return Bounds(Fraction(0), Fraction(1, 2)) if old is None else Inferred(old.histogram + 1)


def other_composition(old: str, _holder: Any, _plan: Any) -> str:
    return {"basic": "pld", "pld": "basic"}[old]


def other_contribution(old: Contribution, _holder: Any, _plan: Any) -> Contribution:
    return replace(old, max_groups=old.max_groups + 50)


def another_argument(old: Any, _holder: Any, _plan: Any) -> Any:
    return NOWHERE if old != NOWHERE else SKIP
