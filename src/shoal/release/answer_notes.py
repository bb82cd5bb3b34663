"""What an answer says about itself: how much of each owner counts, and why groups or numbers are missing.

Everything here depends on the plan, and on whether the released table has rows: it costs nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from shoal.accounting.events import WeightedSelection
from shoal.catalog.owner_names import tells_people_apart
from shoal.mechanisms import group_selection
from shoal.params import many
from shoal.plan import nodes
from shoal.plan.aggregates.defaults import OfOwner
from shoal.plan.expressions import Cast, walk
from shoal.plan.expressions import Column as KeyColumn
from shoal.plan.releases import Inferred
from shoal.plan.traverse import all_nodes, is_owned
from shoal.plan.types import Kind
from shoal.release.computed.columns import mixed_columns
from shoal.release.output_names import output_names
from shoal.sql.binding.clauses.periods import date_behind
from shoal.sql.binding.public_groups import has_public_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from shoal.params import Bounds
    from shoal.plan.releases import Column, SelectPlan, StatementPlan
    from shoal.sql.grammar.source_text import CallsAsWritten

MUCH = 0.2
"""A share that a comparison with the whole number may easily miss."""

WITHOUT_INTERVAL = " is computed from noisy numbers, and has no interval of its own."
"""A note on a column; charts use it to recognise that the column is not a key."""


def answer_notes(plan: SelectPlan, groups: int, written: CallsAsWritten) -> tuple[str, ...]:
    """The notes of one private SELECT whose released table has this many groups."""
    limits = [_of_owner(plan), *(_of_column(plan, column, written) for column in plan.columns)]
    if plan.total_of is not None:
        call = plan.columns[0].call
        limits = [f"{written.at(call.position) or call.aggregate.name}, the total, has the limits of its groups."]
    told = [
        *limits,
        *plan.select.notes,
        *_of_casts(plan, written),
        _of_thresholds(plan),
        _of_selection(plan, groups, written),
    ]
    return tuple(dict.fromkeys(note for note in told if note))


def _of_thresholds(plan: SelectPlan) -> str:
    """Rows compared with a released number: which rows count depends on its noise, and no interval shows that."""
    reads = any(isinstance(part, nodes.StoredRows) for part in all_nodes(plan.select.input))
    return (
        "Rows are compared with a noisy number; intervals are about the rows that this number leaves." if reads else ""
    )


_TEXT_OF = {
    Kind.TIMESTAMP: ("timestamp written as 2010-12-31 08:26:00", "strptime({}, '%m/%d/%Y %H:%M') reads other forms"),
    Kind.DATE: ("date written as 2010-12-31", "CAST(strptime({}, '%m/%d/%Y') AS DATE) reads other forms"),
    Kind.INTEGER: ("whole number", ""),
    Kind.DOUBLE: ("number", ""),
    Kind.DECIMAL: ("number", ""),
}
_CAST = re.compile(r"(?:TRY_)?CAST\s*\(\s*(.*?)\s+AS\s", re.IGNORECASE)


def _of_casts(plan: SelectPlan, written: CallsAsWritten) -> Iterator[str]:
    """Which strings a cast turns into NULL, for keys and aggregates: a group of NULLs would say nothing about it."""
    arguments = (call.aggregate.argument for call in plan.select.aggregates)
    for value in (*(value for _, value in plan.select.keys), *(value for value in arguments if value is not None)):
        for part in walk(value):
            if not isinstance(part, Cast) or part.value.type.kind is not Kind.TEXT or part.type.kind not in _TEXT_OF:
                continue
            form, way_out = _TEXT_OF[part.type.kind]
            called = written.at(part.position) or f"A cast to {part.type}"
            of = _CAST.match(called)
            more = f". {way_out.format(of.group(1) if of else '…')}" if way_out else ""
            yield f"{called} is NULL where a string is not a {form}{more}."


def without_interval(plan: StatementPlan, drawn: AbstractSet[str] = frozenset()) -> tuple[str, ...]:
    """Why a number of the answer has no interval: it mixes several rows.

    `drawn` are names of computed columns that still have an interval.
    """
    found = []
    shown = {field.name for field in plan.root.fields}
    for names in output_names(plan):
        for outputs in names:
            found += [f"{name}{WITHOUT_INTERVAL}" for name in outputs.computed if name in shown and name not in drawn]
    said = {note.split(" ", 1)[0] for note in found} | drawn
    mixed = [name for name in mixed_columns(plan) if name not in said]
    found += [f"{name}{WITHOUT_INTERVAL}" for name in mixed]
    return tuple(dict.fromkeys(found))


def groups_in_no_total(names: Sequence[str]) -> tuple[str, ...]:
    """Notes that totals over the groups of an answer cover only those that appear."""
    return tuple(
        f"{name}: it is over the groups that appear; its interval counts what smaller ones may have." for name in names
    )


def groups_between(names: Sequence[str]) -> tuple[str, ...]:
    """Notes that the rows before and after are those of groups that appear."""
    return tuple(
        f"{name}: the rows before and after are those of groups that appear; smaller ones between them are left out."
        for name in names
    )


def nothing_left(rows: int, released: Sequence[int], lost: float = 0.0) -> tuple[str, ...]:
    """Why an answer has no rows although groups were released: it follows from released numbers alone.

    `lost`: roughly which share of what a number counts lies beyond the limits.
    """
    if rows or not released or not all(released):
        return ()
    why = "HAVING, WHERE, LIMIT, joins and set operations compare noisy numbers, which are hardly ever equal"
    if lost >= MUCH:
        why = (
            f"HAVING and WHERE compare noisy numbers, and these leave out about {lost:.0%}, which lies beyond the limits. "
            "Compare with smaller numbers, or leave the condition out and sort"
        )
    return (f"Rows were released, and no row is left of them: {why}.",)


def _of_owner(plan: SelectPlan) -> str:
    """In how many groups, or with how many rows, one owner counts."""
    contribution = plan.contribution
    if contribution.max_rows is not None:
        return f"Each owner counts with at most {many(contribution.max_rows, 'row')}, chosen at random."
    if not contribution.grouped:
        return ""
    return f"Each owner counts in at most {many(contribution.max_groups, 'group')}, chosen at random."


def _of_column(plan: SelectPlan, column: Column, written: CallsAsWritten) -> str:
    """What an aggregate reads of one owner, if that is fixed before data is read."""
    aggregate, call = column.call.aggregate, column.call
    name = written.at(call.position) or aggregate.name
    where = " in each group" if plan.contribution.grouped else ""
    said = aggregate.limits_in_words(name, where, _fixed_bounds(plan, column))
    if aggregate.of_owner is not OfOwner.MEAN:
        return said
    if plan.one_row:
        return said if column.call.bounds is not None else ""
    return f"{said} The average of rows may be another: {_of_rows(name)}."


def _of_rows(name: str) -> str:
    """What to write for the average of rows; a quotient of sums is nearer to it in most cases than a few rows of each owner."""
    written = re.fullmatch(r"AVG\(([^(),]*)\)", name, re.IGNORECASE)
    return "SUM(x) / COUNT(x)" if written is None else f"SUM({written[1]}) / COUNT({written[1]})"


def _fixed_bounds(plan: SelectPlan, column: Column) -> Bounds | None:
    """The bounds of an aggregate, unless they are found on the way: then the answer reports them elsewhere."""
    used = [plan.releases[index].bounds for index in column.releases]
    return None if any(isinstance(bounds, Inferred) for bounds in used) else column.call.bounds


def _of_selection(plan: SelectPlan, groups: int, written: CallsAsWritten) -> str:
    """How many owners a group needs to appear; if no group does, also what helps."""
    if plan.selection is None:
        return ""
    needed = many(int(group_selection.half_point(plan.selection)), "owner")
    weighed = isinstance(plan.selection, WeightedSelection)
    owners = f"{needed} with {plan.contribution.groups} groups each" if weighed else needed
    if groups:
        return f"A group of {owners} has an even chance of appearing; smaller ones are mostly left out."
    return f"No group appears: under these options it takes {owners} for an even chance. What helps: {_ways_out(plan, written)}."


def _ways_out(plan: SelectPlan, written: CallsAsWritten) -> str:
    ways = ["a larger epsilon (twice the epsilon needs about half as many owners)"]
    if plan.contribution.groups > 1:
        limit = "max_groups_contributed" if plan.contribution.max_rows is None else "max_rows_contributed"
        ways.append(f"a smaller {limit} than {plan.contribution.groups}")
    of_one = _of_single_owners(plan)
    if of_one:
        return f"a key that many owners share instead of {of_one}, which hardly two have in common: no answer shows single owners"
    return "; ".join([*ways, "coarser keys, so that groups are larger", _listing(plan, written)])


def _of_single_owners(plan: SelectPlan) -> str:
    """A key of private rows that by its name tells people apart; to list its values would publish who they are."""
    owned = [n for n in nodes.walk(plan.select.input) if isinstance(n, nodes.Scan) and n.owner is not None]
    private = {field.symbol for scan in owned for field in scan.fields}
    keys = [field.name for field, value in plan.select.keys if isinstance(value, KeyColumn) and value.symbol in private]
    return next((name for name in keys if name and tells_people_apart(name)), "")


def _listing(plan: SelectPlan, written: CallsAsWritten) -> str:
    """How to name the groups, so that they need no owners at all."""
    select = plan.select
    if has_public_keys(select.input, select.keys):
        symbols = {value.symbol for _, value in select.keys if hasattr(value, "symbol")}
        scans = [n for n in nodes.walk(select.input) if isinstance(n, nodes.Scan) and not is_owned(n)]
        tables = [scan.table for scan in scans if symbols & {field.symbol for field in scan.fields}]
        if tables:
            whole = written.keeping(tables[0], float(select.options.epsilon))
            if whole is not None:
                return f"every group of {tables[0]}, by {whole}"
            return f"every group of {tables[0]}, by group_selection_strategy = PUBLIC_GROUPS and outer joins that keep its rows"
    columns = [field.name for field, value in select.keys if isinstance(value, KeyColumn) and field.name]
    if any(date_behind(value) is not None for _, value in select.keys):
        return (
            "a period that is public, all of whose groups appear: days in WHERE (day >= '2024-01-01' AND day < '2025-01-01'), "
            'or bounds = ["2024-01-01", "2024-12-31"] of the date in the catalog'
        )
    if len(columns) < len(select.keys):
        return "a CASE of constants with ELSE as the key, all of whose groups appear"
    return f"listing the values of {', '.join(columns)} in the catalog (values = […]), which shows every listed group"
