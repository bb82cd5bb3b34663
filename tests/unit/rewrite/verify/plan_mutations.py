"""Finished plans with one thing changed. Every dataclass field that a plan can hold is changed here, or named as harmless.

A change is made in one place only, or (`EVERYWHERE`) wherever the same fact stands, and what is charged is computed anew: the
first is a plan that contradicts itself, the second the plan of passes that are wrong in unison.
"""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from plan_changes import (
    NOWHERE,
    PRIVATE,
    SKIP,
    always,
    another_argument,
    another_index,
    another_target,
    as_the_owner,
    by_nobody,
    carried_past,
    doubled,
    fewer_rows,
    filters_nothing,
    flipped,
    for_one_group,
    heavier,
    in_no_order,
    join_that_makes_rows,
    joins_anything,
    larger_minimum,
    missing,
    next_indices,
    one_less,
    one_more,
    one_name_twice,
    one_target_less,
    other_bounds,
    other_composition,
    other_contribution,
    other_histogram,
    other_measure,
    other_noise,
    other_noise_kind,
    other_owner,
    other_relation,
    other_rule,
    other_scope_of_bounds,
    other_symbols,
    public_side,
    raw_column,
    raw_field,
    reads_nothing_known,
    reversed_columns,
    shown_owner,
    smaller,
    unless_one_is_left,
    unless_unread,
    used_symbol,
    without_first,
    without_last,
    without_owner,
)
from plan_parts import everything, fields_of, name_of

from shoal.accounting.accountants import Loss, plan_loss
from shoal.accounting.events import (
    Shift,
)
from shoal.accounting.neighbours import Neighbours
from shoal.errors import InternalError, ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal.plan.releases import StatementPlan

ARGUMENT = {"other": another_argument}
NODE = {"swapped": other_relation}
OWNER = {"other": other_owner}
READ = {"unknown column": reads_nothing_known}
DRAWN = {"other": other_noise_kind}
ORIGIN = {"other": lambda old, _h, _p: {"middle": "lower", "lower": "upper", "upper": "middle"}[old]}

CHANGES: dict[tuple[str, str], dict[str, Callable[..., Any]]] = {
    ("StatementPlan", "root"): {"private rows": always(PRIVATE)},
    ("StatementPlan", "selects"): {"first left out": without_first, "twice": doubled},
    ("StatementPlan", "epsilon"): {"tiny": always(Fraction(1, 10**9)), "none": always(Fraction(0)), "half": smaller},
    ("StatementPlan", "delta"): {"none": always(Fraction(0)), "half": smaller},
    ("StatementPlan", "loss"): {"none": always(Loss(Fraction(0), Fraction(0), Fraction(0), Fraction(0)))},
    ("StatementPlan", "catalog_version"): {"other": always("other")},
    ("Loss", "epsilon"): {"none": always(Fraction(0)), "half": smaller},
    ("Loss", "delta"): {"none": always(Fraction(0)), "half": smaller},
    ("Loss", "rho"): {"none": always(Fraction(0)), "half": smaller, "unknown": missing},
    ("Loss", "rho_delta"): {"none": always(Fraction(0)), "half": smaller},
    ("SelectPlan", "select"): {"nothing asked": lambda old, _h, _p: replace(old, aggregates=()) if old.aggregates else SKIP},
    ("SelectPlan", "contribution"): {"fifty groups more": other_contribution},
    ("SelectPlan", "histograms"): {"first left out": without_first, "twice": doubled},
    ("SelectPlan", "releases"): {"first left out": without_first, "last left out": without_last, "twice": doubled},
    ("SelectPlan", "columns"): {"first left out": without_first, "twice": doubled},
    ("SelectPlan", "selection"): {"none": missing, "for one group": for_one_group},
    ("SelectPlan", "shared_count"): {"other": another_index, "none": missing},
    ("SelectPlan", "events"): {"first left out": without_first, "last left out": without_last, "twice": doubled},
    ("SelectPlan", "composition"): {"other": other_composition, "unknown": always("free")},
    ("SelectPlan", "search"): {"none": missing},
    ("SelectPlan", "total_of"): {"none": missing},
    ("TotalOf", "select"): {"next": one_more, "nowhere": always(99)},
    ("TotalOf", "position"): {"nowhere": always(99)},
    ("Search", "sought"): {
        "other bins": lambda old, _h, _p: tuple(replace(s, edges=s.edges[:-1]) for s in old) or SKIP
    },
    ("Search", "histograms"): {"nothing released": lambda old, _h, _p: tuple(replace(h, releases=()) for h in old) or SKIP},
    ("Search", "choices"): {
        "nothing released": lambda old, _h, _p: tuple(replace(c, releases=()) for c in old),
        "first left out": unless_one_is_left,
        "one for all": lambda old, _h, _p: old[:1] * len(old) if len(old) > 1 else SKIP,
    },
    ("Search", "epsilon"): {"more": lambda old, _h, _p: old * 2, "half": smaller},
    ("Sought", "kept_edges"): {"last left out": lambda old, _h, _p: old[:-1] if old else SKIP},
    ("Sought", "edges"): {"last left out": without_last, "first left out": without_first},
    ("Sought", "signed"): {"the other": lambda old, held, _p: not old if held.kind in {"sum", "sum in all"} else SKIP},
    ("PrivateSelect", "input"): NODE | {"none": missing},
    ("PrivateSelect", "keys"): {"first left out": without_first, "unknown column": reads_nothing_known, "twice": doubled},
    ("PrivateSelect", "aggregates"): {"first left out": without_first, "twice": doubled},
    ("PrivateSelect", "options"): {"fifty groups": lambda old, _h, _p: replace(old, max_groups_per_owner=50)},
    ("PrivateSelect", "public_groups"): {"none": missing, "private": other_relation},
    ("Options", "epsilon"): {"half": smaller},
    ("Options", "delta"): {"half": smaller, "none": missing},
    ("Options", "max_groups_per_owner"): {"more": one_more, "fifty": always(50)},
    ("Options", "max_rows_per_owner"): {"more": one_more, "three": always(3)},
    ("Options", "strategy"): {"other": other_rule},
    ("Options", "min_owners"): {"more": larger_minimum},
    ("Options", "noise"): {"other": other_noise},
    ("Options", "inferred_bounds"): {"other": other_scope_of_bounds},
    ("Options", "find_limits"): {"flipped": flipped},
    ("Options", "measure_cut"): {"more": lambda old, _h, _p: old + Fraction(1, 100), "none": always(Fraction(0))},
    ("AggregateCall", "field"): {"other": lambda old, _h, _p: replace(old, symbol="nowhere")},
    ("AggregateCall", "aggregate"): {"other": lambda old, _h, _p: replace(old, argument=NOWHERE)},
    ("AggregateCall", "bounds"): {"other": other_bounds, "none": missing},
    ("Field", "symbol"): {"unknown": used_symbol},
    ("Scan", "table"): {"unknown": always("nowhere")},
    ("Scan", "fields"): {"none": always(())},
    ("Scan", "columns"): {"reversed": reversed_columns, "none": always(())},
    ("Scan", "owner"): OWNER,
    ("StoredRows", "select"): {"next": one_more, "before": lambda old, _h, _p: old - 1 - 1000},
    ("StoredRows", "fields"): {"raw": raw_field},
    ("StoredRows", "owner"): OWNER,
    ("Values", "fields"): {"none": unless_unread},
    ("Values", "owner"): OWNER,
    ("Filter", "input"): NODE,
    ("Filter", "predicate"): {"unknown column or none": filters_nothing},
    ("Filter", "owner"): OWNER,
    ("Project", "input"): NODE,
    ("Project", "items"): {"without owner": without_owner, "raw": raw_column, "one name twice": one_name_twice},
    ("Project", "owner"): OWNER,
    ("PythonRows", "input"): NODE,
    ("PythonRows", "arguments"): {"with the owner": shown_owner},
    ("PythonRows", "made"): {"the owner": as_the_owner},
    ("PythonRows", "carried"): {"nothing": always(()), "something else": carried_past},
    ("PythonRows", "owner"): OWNER,
    ("Join", "left"): NODE,
    ("Join", "right"): {"swapped": public_side},
    ("Join", "kind"): {"outer": join_that_makes_rows},
    ("Join", "condition"): {"untied": joins_anything},
    ("Join", "owner"): OWNER,
    ("RowAggregate", "arguments"): READ,
    ("RowAggregate", "filter"): READ,
    ("Aggregate", "input"): NODE,
    ("Aggregate", "keys"): {"without owner": without_owner, "unknown column": reads_nothing_known},
    ("Aggregate", "aggregates"): READ,
    ("Aggregate", "owner"): OWNER,
    ("Distinct", "input"): NODE,
    ("Distinct", "owner"): OWNER,
    ("SetOperation", "left"): NODE,
    ("SetOperation", "right"): NODE,
    ("SetOperation", "fields"): {"other symbols": other_symbols},
    ("SetOperation", "owner"): OWNER,
    ("Sort", "input"): NODE,
    ("Sort", "order"): READ,
    ("Sort", "owner"): OWNER,
    ("Column", "symbol"): {"unknown": used_symbol},
    ("Call", "arguments"): READ,
    ("Case", "branches"): READ,
    ("Case", "otherwise"): READ,
    ("Cast", "value"): READ,
    ("Order", "value"): READ,
    ("WindowCall", "arguments"): READ,
    ("WindowCall", "partition"): {"by nobody": by_nobody, "unknown column": reads_nothing_known},
    ("WindowCall", "order"): {
        "none": in_no_order,
        "unknown column": reads_nothing_known,
        "a tie": lambda old, _h, _p: old[:1] if len(old) > 2 else SKIP,
    },
    ("InRelation", "value"): READ,
    ("InRelation", "relation"): NODE,
    ("ExistsRelation", "relation"): NODE,
    ("ScalarRelation", "relation"): NODE,
    ("Contribution", "grouped"): {"flipped": flipped},
    ("Contribution", "max_groups"): {"more": one_more, "fifty": always(50)},
    ("Contribution", "max_rows"): {"more": one_more, "none": missing, "seven": always(7)},
    ("Inferred", "histogram"): {"next": one_more},
    ("HistogramRelease", "histogram"): {"other": other_histogram},
    ("HistogramRelease", "noise"): DRAWN,
    ("Release", "measure"): {"other": other_measure},
    ("Release", "noise"): DRAWN | {"none": missing},
    ("Release", "bounds"): {"other": other_bounds},
    ("plan.Column", "call"): {"other": lambda old, _h, _p: replace(old, field=replace(old.field, symbol="nowhere"))},
    ("plan.Column", "releases"): {"none": lambda old, _h, _p: () if old else (0,), "next": next_indices},
    ("plan.Column", "histogram"): {"other": another_index, "none": missing},
    ("Bounds", "lower"): {"lower": one_less, "higher": lambda old, holder, _p: holder.upper if old != holder.upper else SKIP},
    ("Bounds", "upper"): {"higher": one_more, "lower": lambda old, holder, _p: holder.lower if old != holder.lower else SKIP},
    ("Shift", "per_coordinate"): {"half": smaller, "one less": lambda old, _h, _p: old - 1 if old else SKIP},
    ("Shift", "coordinates"): {"half": lambda old, _h, _p: old // 2 or SKIP},
    ("Shift", "entries"): {"none": missing, "fewer": one_less},
    ("Shift", "length"): {"none": missing, "a little less": lambda old, _h, _p: old - 1 if old else SKIP},
    ("Shift", "neighbours"): {"of a policy": always(Neighbours("policy", "a graph"))},
    ("Neighbours", "name"): {"other": always("policy")},
    ("Neighbours", "canonical"): {"other": always("a graph")},
    ("LaplaceNoise", "shift"): {"none": lambda old, _h, _p: Shift(0, old.coordinates) if old.l1 else SKIP},
    ("LaplaceNoise", "scale"): {"half": smaller},
    ("LaplaceNoise", "grid"): {"half": smaller},
    ("QuantileChoice", "shift"): {"fewer rows": fewer_rows},
    ("QuantileChoice", "scale"): {"half": smaller},
    ("QuantileChoice", "nested"): {"other": lambda old, _h, _p: not old},
    ("QuantileChoice", "around"): {"half": smaller, "none": missing},
    ("QuantileChoice", "targets"): {"one less": one_target_less, "another": another_target},
    ("RankTarget", "fraction"): {"other": lambda old, _h, _p: (old + Fraction(1, 3)) / 2},
    ("RankTarget", "lean"): {"inwards": lambda old, _h, _p: -old or SKIP, "far": lambda old, _h, _p: old and Fraction(99, 100)},
    ("RankTarget", "margin"): {"none": lambda old, _h, _p: 0 if old else SKIP, "some": lambda old, _h, _p: SKIP if old else 7},
    ("GaussianNoise", "shift"): {"none": lambda old, _h, _p: Shift(0, old.coordinates) if old.l1 else SKIP},
    ("GaussianNoise", "sigma"): {"half": smaller, "a little less": lambda old, _h, _p: old * Fraction(99, 100)},
    ("GaussianNoise", "grid"): {"half": smaller},
    ("JointGaussian", "parts"): {"first left out": without_first, "twice": doubled},
    ("JointGaussian", "epsilon"): {"half": smaller, "more": lambda old, _h, _p: old * 2},
    ("JointGaussian", "delta"): {"half": smaller, "more": lambda old, _h, _p: old * 2},
    ("SelectedGaussian", "parts"): {"first left out": without_first, "twice": doubled},
    ("SelectedGaussian", "epsilon"): {"half": smaller, "more": lambda old, _h, _p: old * 2},
    ("SelectedGaussian", "delta"): {"half": smaller, "more": lambda old, _h, _p: old * 2},
    ("SelectedGaussian", "selection"): {"for one group": for_one_group},
    ("OptimalSelection", "epsilon"): {"more": lambda old, _h, _p: old * 2},
    ("OptimalSelection", "delta"): {"more": lambda old, _h, _p: old * 2},
    ("OptimalSelection", "max_groups_per_owner"): {"one less": lambda old, _h, _p: old - 1 or SKIP},
    ("OptimalSelection", "min_owners"): {"more": one_more, "one less": lambda old, _h, _p: old - 1 or SKIP},
    ("ThresholdSelection", "noise"): DRAWN,
    ("ThresholdSelection", "threshold"): {"one less": one_less, "0": always(0)},
    ("ThresholdSelection", "delta"): {"half": smaller, "more": lambda old, _h, _p: old * 2},
    ("ThresholdSelection", "max_groups_per_owner"): {"one less": lambda old, _h, _p: old - 1 or SKIP},
    ("ThresholdSelection", "min_owners"): {"more": one_more, "one less": lambda old, _h, _p: old - 1 or SKIP},
    ("ThresholdSelection", "released"): {"flipped": flipped},
    ("WeightedSelection", "noise"): DRAWN,
    ("WeightedSelection", "weights"): {"last left out": without_last, "heavier": heavier},
    ("WeightedSelection", "threshold"): {"one less": one_less, "0": always(0)},
    ("WeightedSelection", "delta"): {"half": smaller, "more": lambda old, _h, _p: old * 2},
    ("WeightedSelection", "min_owners"): {"more": one_more, "one less": lambda old, _h, _p: old - 1 or SKIP},
    ("WholeSelection", "noise"): DRAWN,
    ("WholeSelection", "threshold"): {"one less": one_less, "0": always(0)},
    ("WholeSelection", "delta"): {"half": smaller, "more": lambda old, _h, _p: old * 2},
    ("WholeSelection", "max_groups_per_owner"): {"one less": lambda old, _h, _p: old - 1 or SKIP},
    ("WholeSelection", "min_owners"): {"more": one_more, "one less": lambda old, _h, _p: old - 1 or SKIP},
    ("OwnerCount", "argument"): ARGUMENT,
    ("RowCount", "argument"): ARGUMENT,
    ("RowCount", "origin"): ORIGIN,
    ("OwnerSum", "argument"): ARGUMENT,
    ("OwnerSum", "origin"): ORIGIN,
    ("OwnerSum", "is_integer"): {"flipped": flipped},
    ("TotalRows", "argument"): ARGUMENT,
    ("TotalSum", "argument"): ARGUMENT,
    ("TotalSum", "is_integer"): {"flipped": flipped},
    ("OwnerMean", "argument"): ARGUMENT,
    ("OwnerMean", "origin"): ORIGIN,
    ("RowMoment", "argument"): ARGUMENT,
    ("RowMoment", "power"): {"more": one_more},
    ("RowMoment", "rows"): {"more": one_more},
    ("RowMoment", "centred"): {"flipped": flipped},
    ("RowMoment", "is_integer"): {"flipped": flipped},
    ("RowMoment", "origin"): {"other": lambda old, _h, _p: {"middle": "lower", "lower": "between"}.get(old, "middle")},
    ("DistinctValues", "argument"): ARGUMENT,
    ("DistinctValues", "values"): {"more": one_more},
    ("Leaves", "argument"): ARGUMENT,
    ("Leaves", "rows"): {"more": one_more},
    ("Leaves", "extreme"): {"min": always("min"), "none": missing},
    ("Leaves", "branching"): {"more": one_more},
    ("Leaves", "height"): {"more": one_more},
    ("Histogram", "serves"): {"other": other_measure},
    ("Histogram", "per_group"): {"flipped": flipped},
    ("CountOwners", "argument"): ARGUMENT,
    ("CountRows", "argument"): ARGUMENT,
    ("CountRows", "rows"): {"other": another_index},
    ("CountRows", "in_all"): {"flipped": flipped},
    ("Sum", "argument"): ARGUMENT,
    ("Sum", "rows"): {"other": another_index},
    ("Sum", "in_all"): {"flipped": flipped},
    ("Average", "argument"): ARGUMENT,
    ("Average", "rows"): {"other": another_index},
    ("RowAverage", "argument"): ARGUMENT,
    ("RowAverage", "rows"): {"more": one_more},
    ("Variance", "argument"): ARGUMENT,
    ("Variance", "rows"): {"more": one_more},
    ("Quantile", "argument"): ARGUMENT,
    ("Quantile", "rows"): {"more": one_more},
    ("Quantiles", "argument"): ARGUMENT,
    ("Quantiles", "rows"): {"more": one_more},
    ("Extreme", "argument"): ARGUMENT,
    ("Extreme", "side"): {"min": always("min")},
    ("CountDistinct", "argument"): ARGUMENT,
    ("CountDistinct", "rows"): {"more": one_more},
    ("ApproxBounds", "argument"): ARGUMENT,
}  # fmt: skip
"""Every field that matters, with the ways in which it is changed."""

WORDS = "words for people: nothing is computed from them"
AFTERWARDS = "what is computed from released numbers, which is nobody's any more"
QUESTION = "what is asked of one owner's rows: the promise holds for every question"
SHARES = "how ε is shared out: what the shares cost together is derived from the noise itself"
TYPES = "types decide how a value is written, never whose it is; the engine's own reading of them is checked elsewhere"
ALLOW_LIST = "whatever it names: the compiler knows total functions that follow no order, and no others"
BELIEVED_ELSEWHERE = "nothing believes it: the catalog, or the aggregate, is asked instead"

HARMLESS: dict[tuple[str, str], str] = {
    ("StatementPlan", "sql"): WORDS,
    ("StatementPlan", "notes"): WORDS,
    ("SelectPlan", "notes"): WORDS,
    ("SelectPlan", "guessed"): AFTERWARDS,
    ("SelectPlan", "domains"): AFTERWARDS,
    ("SelectPlan", "one_row"): AFTERWARDS,
    ("PrivateSelect", "population"): "it decides how ε is shared, and what is shared is derived from the noise",
    ("TotalOf", "in_pieces"): "it decides which of the plans that were charged for runs",
    ("Sought", "domain"): AFTERWARDS,
    ("PrivateSelect", "groups_note"): WORDS,
    ("PrivateSelect", "notes"): WORDS,
    (
        "PrivateSelect",
        "one_row_per_owner",
    ): "whichever number of an owner is counted in bins, it is one, and found bounds clamp",
    ("Options", "clause"): WORDS,
    ("Options", "selection_epsilon"): SHARES,
    ("Options", "confidence_level"): AFTERWARDS,
    ("AggregateCall", "bounds_source"): WORDS,
    ("AggregateCall", "epsilon"): SHARES,
    ("AggregateCall", "report"): AFTERWARDS,
    ("AggregateCall", "rows_left_open"): QUESTION,
    ("Sought", "kind"): QUESTION,
    ("Sought", "calls"): QUESTION,
    ("Field", "name"): WORDS,
    ("Field", "type"): TYPES,
    ("Scan", "owner_kind"): BELIEVED_ELSEWHERE,
    ("Scan", "longest_text"): f"{QUESTION}; no statement reads a text beyond 64 KiB, whatever it says",
    ("StoredRows", "most_rows"): f"{QUESTION}; released rows decide whether the query goes on, whatever it says",
    ("StoredRows", "longest_text"): f"{QUESTION}; released rows decide whether the query goes on, whatever it says",
    ("Scan", "owner_share"): f"{QUESTION}; who takes part follows from each owner's own rows, whatever it says",
    ("OwnerShare", "rows"): QUESTION,
    ("OwnerShare", "copies"): QUESTION,
    ("PythonRows", "step"): QUESTION,
    ("PythonStep", "kind"): QUESTION,
    ("PythonStep", "function"): QUESTION,
    ("PythonStep", "digest"): WORDS,
    ("PythonStep", "label"): WORDS,
    ("PythonStep", "most"): QUESTION,
    ("PythonStep", "max_rows"): QUESTION,
    ("PythonStep", "seconds"): QUESTION,
    ("Values", "rows"): QUESTION,
    ("Join", "from_subquery"): WORDS,
    ("RowAggregate", "function"): ALLOW_LIST,
    ("RowAggregate", "type"): TYPES,
    ("RowAggregate", "distinct"): QUESTION,
    ("SetOperation", "kind"): QUESTION,
    ("Sort", "limit"): f"{AFTERWARDS}; over private rows it is refused (test_ownership)",
    ("Sort", "offset"): f"{AFTERWARDS}; over private rows it is refused (test_ownership)",
    ("Column", "type"): TYPES,
    ("Literal", "value"): QUESTION,
    ("Literal", "type"): TYPES,
    ("Call", "function"): ALLOW_LIST,
    ("Call", "type"): TYPES,
    ("Case", "type"): TYPES,
    ("Cast", "type"): TYPES,
    ("Order", "descending"): QUESTION,
    ("Order", "nulls_first"): QUESTION,
    ("Frame", "unit"): f"{QUESTION}, in an order; without one it is refused (WindowCall.order)",
    ("Frame", "start"): f"{QUESTION}, in an order; without one it is refused (WindowCall.order)",
    ("Frame", "end"): f"{QUESTION}, in an order; without one it is refused (WindowCall.order)",
    ("WindowCall", "function"): f"{QUESTION}, in an order; without one it is refused (WindowCall.order)",
    ("WindowCall", "frame"): f"{QUESTION}, in an order; without one it is refused (WindowCall.order)",
    ("WindowCall", "type"): TYPES,
    ("InRelation", "type"): TYPES,
    ("ExistsRelation", "type"): TYPES,
    ("ScalarRelation", "type"): TYPES,
    ("Type", "kind"): TYPES,
    ("Type", "precision"): TYPES,
    ("Type", "scale"): TYPES,
    ("Type", "storage"): TYPES,
    ("RowAverage", "is_share"): AFTERWARDS,
    ("Variance", "sample"): AFTERWARDS,
    ("Variance", "root"): AFTERWARDS,
    ("Quantile", "fraction"): AFTERWARDS,
    ("Quantiles", "parts"): AFTERWARDS,
    ("ApproxBounds", "shares"): BELIEVED_ELSEWHERE,
    ("ApproxBounds", "measures"): BELIEVED_ELSEWHERE,
}

EVERYWHERE = {
    "Shift", "Neighbours", "LaplaceNoise", "GaussianNoise", "OptimalSelection", "ThresholdSelection", "JointGaussian", "OwnerCount",
    "WholeSelection", "SelectedGaussian", "WeightedSelection", "RowAverage",
    "RowCount", "OwnerSum", "OwnerMean", "RowMoment", "DistinctValues", "Leaves", "Histogram", "Contribution", "CountRows",
    "QuantileChoice", "RankTarget", "TotalRows", "TotalSum",
    "Sum", "Average", "Variance", "Quantile", "Quantiles", "Extreme", "CountDistinct", "ApproxBounds", "CountOwners",
}  # fmt: skip
"""What several parts of a plan repeat: changed in one place, and in all of them."""


# ---- making the changes --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mutant:
    """A plan with one thing changed, and what that is."""

    what: tuple[str, str, str, bool]
    plan: StatementPlan


def mutants(plan: StatementPlan, most: int = 2) -> Iterator[Mutant]:
    """The plan with every field changed in every way, at most this many times for each way."""
    made: dict[tuple[str, str, str, bool], int] = {}
    for holder in list(everything(plan)):
        for field in fields_of(holder):
            for way, change in CHANGES.get((name_of(holder), field), {}).items():
                for everywhere in (False, True) if name_of(holder) in EVERYWHERE else (False,):
                    what = (name_of(holder), field, way, everywhere)
                    if (
                        made.get(what, 0) < most
                        and (found := changed(plan, holder, field, change, everywhere)) is not None
                    ):
                        made[what] = made.get(what, 0) + 1
                        yield Mutant(what, found)


def changed(plan: StatementPlan, holder: Any, field: str, change: Callable[..., Any], everywhere: bool) -> Any:
    """The plan with one field changed, or None where the change says nothing or cannot even be built."""
    old = getattr(holder, field)
    new = change(old, holder, plan)
    if new is SKIP or new == old:
        return None
    try:
        other = replace(holder, **{field: new})
        found = rebuilt(plan, holder, other, everywhere)
        return settled(found) if everywhere else found
    except (InternalError, ShoalError):
        return None


def rebuilt(thing: Any, old: Any, new: Any, everywhere: bool) -> Any:
    """The same thing with `new` for `old`: in the first place where it stands, or for everything that equals it."""
    if thing is old or (everywhere and type(thing) is type(old) and thing == old):
        return new
    names = range(len(thing)) if isinstance(thing, tuple) else fields_of(thing) if is_dataclass(thing) else ()
    different = {}
    for name in names:
        part = thing[name] if isinstance(thing, tuple) else getattr(thing, name)
        found = rebuilt(part, old, new, everywhere)
        if found is not part:
            different[name] = found
            if not everywhere:
                break
    if not different:
        return thing
    if isinstance(thing, tuple):
        return tuple(different.get(index, part) for index, part in enumerate(thing))
    return replace(thing, **different)


def settled(plan: StatementPlan) -> StatementPlan:
    """The plan with what it costs computed from its events, as a pass would; a claim that nobody can prove stays as it was."""
    if any(select.composition == "pld" for select in plan.selects):
        return plan
    try:
        return replace(plan, loss=plan_loss(plan.events))
    except InternalError:
        return plan
