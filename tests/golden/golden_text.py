"""Plans as text: what a pass makes of a query, in a form that a person can read in a diff and that never changes by itself.

A fixture file holds cases: a comment that names the case, the query, and what the pass made of it in lines that start with `-->`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.accounting.events import (
    GaussianNoise,
    JointGaussian,
    LaplaceNoise,
    OptimalSelection,
    QuantileChoice,
    SelectedGaussian,
    ThresholdSelection,
    WeightedSelection,
    WholeSelection,
)
from shoal.catalog import Catalog
from shoal.engines.duckdb.rendering import render
from shoal.engines.statements.relations import name
from shoal.engines.statements.sum_owners import Summing
from shoal.errors import ShoalError
from shoal.params import Bounds
from shoal.plan import expressions as ex
from shoal.plan import nodes
from shoal.plan.public_facts import PublicFacts
from shoal.plan.releases import Inferred
from shoal.plan.totals import SamplingKey, TotalsQuery
from shoal.rewrite import pipeline
from shoal.rewrite.assign_mechanisms import assign_mechanisms
from shoal.rewrite.bound_contributions import bound_contributions
from shoal.rewrite.check_ownership import check_ownership
from shoal.rewrite.infer_bounds import infer_bounds
from shoal.rewrite.select_groups import select_groups
from shoal.sql.binding.context import Context
from shoal.sql.binding.statement import bind_in
from shoal.sql.functions import type_of
from shoal.sql.parse import parse

if TYPE_CHECKING:
    from pathlib import Path

CATALOG = Catalog.from_dict(
    {
        "tables": {
            "customers": {
                "owner": "uid",
                "owner_kind": "customer",
                "columns": {"region": {"values": ["north", "south", None]}, "age": {"bounds": [18, 100]}},
            },
            "visits": {
                "owner": "uid",
                "owner_kind": "customer",
                "max_rows_per_owner_and_group": 20,
                "columns": {"spend": {"bounds": [0, 500]}},
            },
            "devices": {"owner": "device"},
            "regions": {"public": True},
        }
    }
)
COLUMNS = {
    "customers": {"uid": "BIGINT", "region": "VARCHAR", "city": "VARCHAR", "age": "INTEGER", "income": "DOUBLE"},
    "visits": {"uid": "BIGINT", "site": "VARCHAR", "day": "DATE", "spend": "DOUBLE"},
    "devices": {"device": "VARCHAR", "kind": "VARCHAR"},
    "regions": {"region": "VARCHAR", "continent": "VARCHAR"},
}
SCHEMAS = {table: tuple((c, type_of(t)) for c, t in columns.items()) for table, columns in COLUMNS.items()}
SIZES = {"regions": 4}
KEY = SamplingKey(tuple(range(1, 161)))
"""A key that a person can tell from other numbers."""


@dataclass(frozen=True)
class Case:
    """One query of a fixture file, and what is expected of it."""

    title: str
    sql: str
    expected: tuple[str, ...]

    def written(self, lines: list[str]) -> str:
        return "\n".join([f"-- {self.title}", self.sql, *(f"--> {line}".rstrip() for line in lines)])


def read_cases(path: Path) -> list[Case]:
    cases = []
    for block in path.read_text().strip().split("\n\n"):
        lines = block.splitlines()
        title = lines[0].removeprefix("-- ")
        query = [line for line in lines[1:] if not line.startswith("-->")]
        expected = tuple(line[3:].removeprefix(" ") for line in lines[1:] if line.startswith("-->"))
        cases.append(Case(title, "\n".join(query), expected))
    return cases


def outcome(name_of_pass: str, sql: str) -> list[str]:
    """What the pass makes of the query, or how it is refused."""
    try:
        return PASSES[name_of_pass](sql)
    except ShoalError as error:
        return [f"{error.code} at {error.position}: {error.message}"]


# ---- one function per pass ---------------------------------------------------------------------------------------


def _bound(sql: str) -> Any:
    return bind_in(Context(CATALOG, SCHEMAS), parse(sql))


def _drafts(sql: str, *passes: Any) -> list[Any]:
    drafts = []
    for select in _bound(sql).selects:
        draft: Any = check_ownership(select)
        for step in passes:
            draft = step(draft)
        drafts.append(draft)
    return drafts


def bind_text(sql: str) -> list[str]:
    statement = _bound(sql)
    lines = []
    for number, select in enumerate(statement.selects):
        lines += [f"private SELECT {number}", *_indented(_select_lines(select))]
    return [*lines, "answer", *_indented(_tree(statement.root))]


def check_ownership_text(sql: str) -> list[str]:
    lines = []
    for number, select in enumerate(_drafts(sql)):
        lines += [f"private SELECT {number}", *_indented(_tree(select.input))]
    return lines


def bound_contributions_text(sql: str) -> list[str]:
    return _draft_lines(_drafts(sql, bound_contributions))


def infer_bounds_text(sql: str) -> list[str]:
    return _draft_lines(_drafts(sql, bound_contributions, infer_bounds))


def select_groups_text(sql: str) -> list[str]:
    lines = []
    for draft in _drafts(sql, bound_contributions, infer_bounds, select_groups):
        shared = (
            f"the noisy owners of unit {draft.shared_unit}" if draft.shared_unit is not None else "a count of its own"
        )
        public = draft.select.public_groups
        lines.append(f"selection: {'by ' + shared if draft.needs_selection else 'none'}")
        if public is not None:
            lines += [f"public groups, since {draft.select.groups_note}", *_indented(_tree(public))]
    return lines


def assign_mechanisms_text(sql: str) -> list[str]:
    lines = []
    for plan in _drafts(sql, bound_contributions, infer_bounds, select_groups, assign_mechanisms):
        lines += [
            f"release {i}: {_value(r.measure)} in {_bounds(r.bounds)} + {_noise(r.noise)}"
            for i, r in enumerate(plan.releases)
        ]
        lines += [
            f"histogram {i}{_for_whom(h.histogram)}: {_value(h.histogram.serves)} + {_noise(h.noise)}"
            for i, h in enumerate(plan.histograms)
        ]
        lines.append(f"groups: {_event(plan.selection) if plan.selection is not None else 'all'}")
        if plan.shared_count is not None:
            lines.append(f"release {plan.shared_count} decides which groups appear")
        lines += [f"charge: {_event(event)}" for event in plan.events]
        lines += [f"note: {note}" for note in plan.notes]
    return lines


def _for_whom(histogram: Any) -> str:
    return " for each group" if histogram.per_group else ""


def compile_text(sql: str) -> list[str]:
    """The SQL of every statement, for bounds that are known, laid out."""
    from shoal.release.resolve_bounds import resolve

    plan = pipeline.plan_query(parse(sql), CATALOG, SCHEMAS, PublicFacts(SIZES))
    lines = []
    tables = {table: name(table) for table in SCHEMAS}
    for select in plan.selects:
        found = tuple(Bounds(Fraction(0), Fraction(64)) for _ in select.histograms)
        tasks = tuple(resolve(release, found)[0] for release in select.releases)
        histograms = tuple(h.histogram for h in select.histograms)
        asked = select.select
        query = TotalsQuery(asked.input, asked.keys, tasks, histograms, select.contribution, asked.public_groups)
        lines += _statement_lines(Summing(query, KEY, tables).statements())
    return lines


def _statement_lines(statements: Any) -> list[str]:
    """One line for each common table (told once, statements share them) and one for each statement over them."""
    lines: list[str] = []
    for field in fields(statements):
        found = getattr(statements, field.name)
        trees = [t[0] if isinstance(t, tuple) else t for t in (found if isinstance(found, tuple) else (found,))]
        for tree in trees:
            if tree is None:
                continue
            common = [f"{table.alias} := {_sql(table.this)}" for table in tree.ctes]
            lines += [line for line in common if line not in lines]
            tree.set("with_", None)
            lines.append(f"{field.name}: {_sql(tree)}")
    return lines


def _sql(tree: Any) -> str:
    """SQL in which nameless subqueries are not numbered, since nothing refers to them."""
    return re.sub(r'AS "t\d+"', "AS t", render(tree))


PASSES = {
    "bind": bind_text,
    "check_ownership": check_ownership_text,
    "bound_contributions": bound_contributions_text,
    "infer_bounds": infer_bounds_text,
    "select_groups": select_groups_text,
    "assign_mechanisms": assign_mechanisms_text,
    "compile": compile_text,
}


# ---- pieces ------------------------------------------------------------------------------------------------------


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _select_lines(select: Any) -> list[str]:
    given = [
        f"{f.name}={_plain(getattr(select.options, f.name))}"
        for f in fields(select.options)
        if getattr(select.options, f.name) != f.default
    ]
    lines = [f"options {' '.join(given)}"]
    lines += [f"key {_field(f)} = {_expression(v)}" for f, v in select.keys]
    for call in select.aggregates:
        own = f" epsilon={_plain(call.epsilon)}" if call.epsilon is not None else ""
        report = f" report={call.report}" if call.report else ""
        taken = f"{_value(call.aggregate)} in {_bounds(call.bounds)} ({call.bounds_source})"
        lines.append(f"aggregate {_field(call.field)} = {taken}{own}{report}")
    if select.public_groups is not None:
        lines += [f"public groups, since {select.groups_note}", *_indented(_tree(select.public_groups))]
    return [*lines, "over", *_indented(_tree(select.input))]


def _draft_lines(drafts: list[Any]) -> list[str]:
    lines = []
    for draft in drafts:
        c = draft.contribution
        kept = f"{c.max_rows} rows" if c.max_rows is not None else f"{c.max_groups} groups"
        lines.append(f"each owner: {kept if c.grouped or c.max_rows is not None else 'one group, everything'}")
        for i, part in enumerate(draft.parts):
            spread = f" over {part.entries}" if part.entries is not None else ""
            lines.append(
                f"part {i}: {_value(part.measure)} in {_bounds(part.bounds)}, coordinates {part.coordinates}{spread}"
            )
        for i, unit in enumerate(draft.units):
            shares = ", ".join(f"{p}: {s}" for p, s in zip(unit.parts, unit.shares, strict=False))
            found = f", histogram {unit.histogram}" if unit.histogram is not None else ""
            own = f", epsilon {_plain(unit.epsilon)}" if unit.epsilon is not None else ""
            lines.append(f"unit {i}: shares {shares or '-'}{found}{own}")
        lines.append(f"aggregates read units {', '.join(map(str, draft.unit_of_call)) or '-'}")
        lines += [
            f"histogram {i}: {_value(h.serves)}, {len(h.bins)} bins in steps of {h.grid}{_for_whom(h)}"
            for i, h in enumerate(draft.histograms)
        ]
        lines += [f"note: {note}" for note in draft.notes]
    return lines


def _tree(node: Any) -> list[str]:
    below = [line for part in nodes.inputs(node) for line in _indented(_tree(part))]
    return [_node(node), *below]


def _node(node: Any) -> str:
    owner = f" owner {node.owner}" if node.owner is not None else ""
    match node:
        case nodes.Scan():
            return f"Scan {node.table}{owner}{f' ({node.owner_kind})' if node.owner_kind else ''}: {_fields(node)}"
        case nodes.StoredRows():
            return f"Released {node.select}: {_fields(node)}"
        case nodes.Values():
            return f"Values {list(node.rows)}: {_fields(node)}"
        case nodes.Filter():
            return f"Filter{owner}: {_expression(node.predicate)}"
        case nodes.Project():
            items = ", ".join(f"{_field(f)} = {_expression(v)}" for f, v in node.items)
            return f"Project{owner}: {items}"
        case nodes.Join():
            return f"Join {node.kind}{owner}: {_expression(node.condition)}"
        case nodes.Aggregate():
            keys = ", ".join(f"{_field(f)} = {_expression(v)}" for f, v in node.keys)
            found = ", ".join(f"{_field(f)} = {_row_aggregate(a)}" for f, a in node.aggregates)
            return f"Aggregate{owner} by {keys or '-'}: {found or '-'}"
        case nodes.Distinct():
            return f"Distinct{owner}"
        case nodes.SetOperation():
            return f"{node.kind}{owner}: {_fields(node)}"
        case nodes.Sort():
            order = ", ".join(_order(o) for o in node.order)
            limit = f" limit {node.limit}" if node.limit is not None else ""
            return f"Sort{owner} {order}{limit}{f' offset {node.offset}' if node.offset else ''}"
    raise AssertionError(type(node))


def _field(field: Any) -> str:
    return f"{field.symbol} {field.name or '(hidden)'}:{field.type}"


def _fields(node: Any) -> str:
    return ", ".join(_field(f) for f in node.fields)


def _order(order: Any) -> str:
    return (
        f"{_expression(order.value)}{' desc' if order.descending else ''}{' nulls first' if order.nulls_first else ''}"
    )


def _row_aggregate(aggregate: Any) -> str:
    inside = ", ".join(map(_expression, aggregate.arguments)) or "*"
    where = f" where {_expression(aggregate.filter)}" if aggregate.filter is not None else ""
    return f"{aggregate.function}({'distinct ' if aggregate.distinct else ''}{inside}){where}"


def _expression(value: Any) -> str:
    match value:
        case ex.Column():
            return value.symbol
        case ex.Literal():
            return repr(value.value) if not isinstance(value.value, Fraction) else _plain(value.value)
        case ex.Call():
            return f"{value.function}({', '.join(map(_expression, value.arguments))})"
        case ex.Cast():
            return f"cast({_expression(value.value)} as {value.type})"
        case ex.Case():
            branches = " ".join(f"when {_expression(c)} then {_expression(v)}" for c, v in value.branches)
            return f"case {branches} else {_expression(value.otherwise)} end"
        case ex.WindowCall():
            over = f"partition {', '.join(map(_expression, value.partition))} order {', '.join(map(_order, value.order)) or '-'}"
            frame = f" {value.frame.unit} {value.frame.start} to {value.frame.end}" if value.frame else ""
            return f"{value.function}({', '.join(map(_expression, value.arguments))}) over ({over}{frame})"
        case ex.InRelation():
            return f"{_expression(value.value)} in [{'; '.join(_tree(value.relation))}]"
        case ex.ExistsRelation():
            return f"exists [{'; '.join(_tree(value.relation))}]"
        case ex.ScalarRelation():
            return f"the value of [{'; '.join(_tree(value.relation))}]"
    raise AssertionError(type(value))


def _value(value: Any) -> str:
    """An aggregate or a measure: its name and what it holds."""
    inside = [
        f"{f.name}={_expression(v) if _is_expression(v) else _plain(v)}"
        for f in fields(value)
        if (v := getattr(value, f.name)) is not None and (f.name != "in_all" or v)
    ]
    return f"{type(value).__name__}({', '.join(inside)})"


def _is_expression(value: Any) -> bool:
    return is_dataclass(value) and type(value).__module__ == ex.__name__


def _plain(value: Any) -> str:
    if isinstance(value, Fraction) and value.denominator != 1:
        exponent = value.denominator.bit_length() - 1
        return f"{value.numerator}/2^{exponent}" if value.denominator == 2**exponent and exponent > 3 else str(value)
    return str(value)


def _bounds(bounds: Any) -> str:
    if bounds is None:
        return "no bounds"
    if isinstance(bounds, Inferred):
        return f"the bounds of histogram {bounds.histogram}"
    return f"[{_plain(bounds.lower)}, {_plain(bounds.upper)}]"


def _noise(noise: Any) -> str:
    spread = f" over {noise.shift.entries}" if noise.shift.entries is not None else ""
    moved = f"shift {noise.shift.per_coordinate} × {noise.shift.coordinates}{spread}, grid {_plain(noise.grid)}"
    if isinstance(noise, QuantileChoice):
        ranks = ", ".join(
            f"{t.fraction}{f' ({t.margin} rows inside, leaning {t.lean})' if t.margin else ''}" for t in noise.targets
        )
        around = "" if noise.around is None else f", rows around at scale {_plain(noise.around)}"
        nested = "nested " if noise.nested else ""
        return f"{nested}choice of {ranks} (scale {_plain(noise.scale)}{around}, {moved})"
    if isinstance(noise, LaplaceNoise):
        return f"Laplace(scale {_plain(noise.scale)}, {moved})"
    # The exact σ comes out of a search; six digits of it tell everything a reader wants to know.
    return f"Gaussian(sigma ≈ {float(noise.sigma):.6g}, {moved})"


def _event(event: Any) -> str:
    match event:
        case LaplaceNoise() | QuantileChoice():
            return f"epsilon {_plain(event.epsilon)} for {_noise(event)}"
        case GaussianNoise():
            return _noise(event)
        case JointGaussian():
            return f"epsilon {_plain(event.epsilon)}, {_delta(event)} for {len(event.parts)} Gaussian parts together"
        case SelectedGaussian():
            both = f"{len(event.parts)} Gaussian parts and the threshold on one of them"
            return f"epsilon {_plain(event.epsilon)}, {_delta(event)} for {both}: {_event(event.selection)}"
        case OptimalSelection():
            return f"optimal selection, epsilon {_plain(event.epsilon)}, {_delta(event)}, {_owners(event)}"
        case ThresholdSelection():
            shown = ", the noisy count is shown" if event.released else ""
            return f"threshold {event.threshold} on {_noise(event.noise)}, {_delta(event)}, {_owners(event)}{shown}"
        case WeightedSelection():
            last = f"{event.weights[0][1]} steps in one group to {event.weights[-1][1]} in {event.weights[-1][0]}"
            return f"threshold {event.threshold} on weights, {last}, {_noise(event.noise)}, {_delta(event)}, {_owners(event)}"
        case WholeSelection():
            return f"threshold {event.threshold} on both parts of a whole, {_noise(event.noise)}, {_delta(event)}, {_owners(event)}"
    raise AssertionError(type(event))


def _delta(event: Any) -> str:
    return f"delta ≈ {float(event.delta):.3g}"


def _owners(event: Any) -> str:
    return f"groups {event.max_groups_per_owner}, owners from {event.min_owners}"
