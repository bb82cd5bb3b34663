"""reserve → count the domain → noise → answer → commit. The private table is asked for its domain histogram and nothing else."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.accounting.spending.asking import NO_TERMS
from shoal.engines.domain_records import Records, read_records
from shoal.errors import InternalError
from shoal.mechanisms.entropy import SYSTEM, Entropy
from shoal.mechanisms.noise import add_noise, saturate_int64
from shoal.plan import nodes
from shoal.plan.expressions import Column as ColumnOf
from shoal.plan.nodes import Field
from shoal.plan.types import DOUBLE, RELEASED_LIST, Kind
from shoal.policies import answers, charging
from shoal.release.answer_bytes import PROMISE_KEY, KeptAnswer, from_bytes, to_bytes
from shoal.release.error_bars import ErrorBars
from shoal.release.execute import snapshot_of
from shoal.release.postprocess import evaluated, is_ordered, typed
from shoal.release.stored_rows import arrow_type, distinct_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.accounting.ledger import Ledger
    from shoal.accounting.spending.asking import Terms
    from shoal.engines.base import Engine
    from shoal.engines.deadline import Deadline
    from shoal.plan.nodes import Node
    from shoal.release.policy_clause.plan import Column, PolicyPlan, Quantiles


@dataclass(frozen=True)
class PolicyAnswer:
    """Rows, and for each output column that is an aggregate: scale and grid of its noise, and its width in every row."""

    table: pa.Table
    spreads: Mapping[int, tuple[Fraction, Fraction, Any]]


def execute_policy(
    plan: PolicyPlan,
    engine: Engine,
    ledger: Ledger | None,
    user: str | None,
    deadline: Deadline,
    entropy: Entropy = SYSTEM,
    terms: Terms = NO_TERMS,
) -> KeptAnswer:
    """Runs a plan once. A failure after the charge stays charged and says one thing only."""
    select = plan.select
    with ExitStack() as open_until_the_end:
        taken = snapshot_of(engine, deadline, open_until_the_end)

        def run() -> KeptAnswer:
            rows = select.rows_per_owner
            with open_until_the_end.pop_all():  # closed before the answer is settled, so that nothing fails later
                records = read_records(taken, select.table, select.rule.domain, select.owner, rows, entropy)
                deadline.check()
                return kept_answer(plan, finish(plan, stored_rows(plan, records, entropy), deadline, entropy))

        written = to_bytes if terms.keeps_answer else None
        answer = charging.charged_run(ledger, plan, select.owner, user, select.sql, run, terms, written)
    if isinstance(answer, bytes):
        return from_bytes(answer)
    if not isinstance(answer, KeptAnswer):
        raise InternalError("a policy's query has no answer")
    return answer


def kept_answer(plan: PolicyPlan, answer: PolicyAnswer) -> KeptAnswer:
    """What is released: rows, what they cost under the policy, and how wide their noise is."""
    return KeptAnswer(
        answer.table.replace_schema_metadata({PROMISE_KEY: plan.promise}),
        plan.promise,
        plan.epsilon,
        Fraction(0),
        Fraction(plan.select.level),
        private=True,
        notes=(),
        bars=ErrorBars(pa.table({}), {}),
        spreads={i: (scale, grid, list(widths)) for i, (scale, grid, widths) in answer.spreads.items()},
    )


def stored_rows(plan: PolicyPlan, records: Records, entropy: Entropy = SYSTEM) -> pa.Table:
    """Keys, aggregates, and beside each aggregate how far its noise reaches (as a factor of one draw)."""
    drawn = [add_noise(each.event, each.totals(records), entropy) for each in plan.families]
    prefixes = {name: _prefixes(each, plan, records, entropy) for name, each in plan.quantiles.items()}
    columns: dict[str, Any] = {f.symbol: plan.values.keys.column(f.symbol) for f, _ in plan.select.keys}
    for column in plan.columns:
        numbers, spread = _finished(plan, column, drawn, prefixes)
        field = column.aggregate.field
        columns[field.symbol] = pa.array(numbers, arrow_type(field.type))
        columns[companion(field.symbol)] = pa.array(spread, pa.float64())
    return pa.table(columns) if columns else pa.table({"nothing": pa.nulls(plan.values.count)})


def companion(symbol: str) -> str:
    """The column that says how wide an aggregate's noise is."""
    return f"{symbol}_w"


def _finished(
    plan: PolicyPlan, column: Column, drawn: list[Any], prefixes: dict[str, list[float]]
) -> tuple[list[Any], list[float | None]]:
    aggregate = column.aggregate
    if aggregate.attribute:
        found = plan.quantiles[aggregate.attribute]
        values = [quantile(found, prefixes[aggregate.attribute], s, aggregate.continuous) for s in aggregate.shares]
        single: Any = values if aggregate.field.type == RELEASED_LIST else values[0]
        return [single], [None]
    family = plan.families[column.families[-1]]
    numbers = drawn[column.families[-1]]
    if aggregate.kind != "avg":
        if aggregate.field.type.kind is Kind.INTEGER:
            return saturate_int64(numbers).tolist(), [1.0] * len(numbers)
        return [float(number * family.table.grid) for number in numbers], [1.0] * len(numbers)
    counts = drawn[column.families[0]]
    means = [
        float(min(max(centre + number * family.table.grid / max(1, int(count)), low), high))
        for number, count, centre, (low, high) in zip(numbers, counts, column.centres, column.ends, strict=True)
    ]
    exact = not plan.families[column.families[0]].scale
    return means, [1 / max(1, int(count)) if exact else None for count in counts]


# ---- quantiles -------------------------------------------------------------------------------------------------------


def _prefixes(found: Quantiles, plan: PolicyPlan, records: Records, entropy: Entropy) -> list[float]:
    """c_0 … c_m, rising, from one draw."""
    kept = _filtered(records, plan) if found.filtered else records
    drawn = answers.draw(found.plan, kept, entropy)
    return [0.0, *answers.answer(found.plan, drawn, kept.n if plan.public_n else None, 0.95).values]


def _filtered(records: Records, plan: PolicyPlan) -> Records:
    """The rows for which WHERE holds; no secret edge leads in or out."""
    seen = records.domain.projected(plan.values.names)
    index = np.ravel_multi_index([records.at(name) for name in seen.names], seen.shape)
    kept = plan.values.passes[index]
    return replace(records, positions=tuple(axis[kept] for axis in records.positions))


def quantile(found: Quantiles, prefixes: list[float], share: Fraction, continuous: bool) -> float:
    """The quantile of the positions that WHERE leaves; of nobody, the middle of them."""
    attribute = found.plan.rule.domain.ordered(found.plan.query.attributes(found.plan.rule.domain)[0])
    counts = np.array(prefixes[found.low + 1 : found.high + 2]) - prefixes[found.low]
    total = float(counts[-1])
    if total < 0.5:
        return (attribute.values[found.low] + attribute.values[found.high]) / 2

    def at(rank: float) -> float:
        """The smallest value that more than `rank` records do not exceed."""
        position = int(np.searchsorted(counts, min(rank + 0.5, total), side="left"))
        return float(attribute.values[found.low + min(position, len(counts) - 1)])

    if not continuous:
        return at(max(float(share) * total - 0.5, 0.0))
    rank = float(share) * max(total - 1, 0.0)
    below = np.floor(rank)
    return float((1 - (rank - below)) * at(below) + (rank - below) * at(below + 1))


# ---- after the noise -------------------------------------------------------------------------------------------------


def finish(plan: PolicyPlan, stored: pa.Table, deadline: Deadline, entropy: Entropy = SYSTEM) -> PolicyAnswer:
    """HAVING, expressions, ORDER BY and LIMIT over stored rows; in random order unless ORDER BY says otherwise."""
    fields = {column.aggregate.field.symbol for column in plan.columns}
    root, carried = with_companions(plan.select.root, fields)
    rows = evaluated(root, {"released_0": stored}, deadline)
    if not is_ordered(plan.select.root):
        rows = rows.take(pa.array(entropy.permutation(rows.num_rows)))
    shown = plan.select.root.fields
    columns = [typed(rows.column(f.symbol).combine_chunks(), f) for f in shown]
    table = pa.Table.from_arrays(columns, names=distinct_names([f.name for f in shown]))
    scales = {c.aggregate.field.symbol: _scale(plan, c) for c in plan.columns}
    spreads = {
        i: (*scales[carried[f.symbol][0]], rows.column(carried[f.symbol][1]).to_pylist())
        for i, f in enumerate(shown)
        if f.symbol in carried
    }
    return PolicyAnswer(table, spreads)


def _scale(plan: PolicyPlan, column: Column) -> tuple[Fraction, Fraction]:
    """The noise of an aggregate's last number: its scale in steps, and the size of a step."""
    if not column.families:
        return Fraction(0), Fraction(1)
    family = plan.families[column.families[-1]]
    return family.scale, family.table.grid


def with_companions(node: Node, wanted: set[str]) -> tuple[Node, dict[str, tuple[str, str]]]:
    """The tree with each aggregate's companion carried along its plain copies: symbol → (aggregate, its companion)."""
    if isinstance(node, nodes.StoredRows):
        extra = tuple(Field("", companion(s), DOUBLE) for s in sorted(wanted))
        return replace(node, fields=(*node.fields, *extra)), {s: (s, companion(s)) for s in wanted}
    if isinstance(node, nodes.Filter | nodes.Sort):
        below, carried = with_companions(node.input, wanted)
        return replace(node, input=below), carried
    if isinstance(node, nodes.Project):
        below, carried = with_companions(node.input, wanted)
        items, kept = list(node.items), {}
        for f, value in node.items:
            if isinstance(value, ColumnOf) and value.symbol in carried:
                original, width = carried[value.symbol]
                kept[f.symbol] = (original, companion(f.symbol))
                items.append((Field("", companion(f.symbol), DOUBLE), ColumnOf(width, DOUBLE)))
        return replace(node, input=below, items=tuple(items)), kept
    raise InternalError("a policy's query has an unexpected shape")
