"""reserve → count the domain → noise → answer → commit. The private table provides its domain histogram and nothing else."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.accounting.spending.asking import NO_TERMS
from shoal.engines.domain_records import Counted, Inside, read_counts
from shoal.errors import InternalError
from shoal.frozen import dataclass
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
from shoal.release.policy_clause.intervals import CopiedSpread, OneDraw, QuantileSpread, Ratio
from shoal.release.postprocess import evaluated, is_ordered, typed
from shoal.release.stored_rows import arrow_type, distinct_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.accounting.ledger import Ledger
    from shoal.accounting.spending.asking import Terms
    from shoal.engines.base import Engine
    from shoal.engines.deadline import Deadline
    from shoal.plan.nodes import Node
    from shoal.plan.policy_select import PolicyAggregate
    from shoal.policies.domain import Attribute
    from shoal.release.policy_clause.intervals import Spread
    from shoal.release.policy_clause.plan import Column, PolicyPlan, Quantiles


@dataclass(frozen=True)
class PolicyAnswer:
    """Rows, and for each output column that is an aggregate: its noise, and from which stored row each number comes."""

    table: pa.Table
    spreads: Mapping[int, CopiedSpread]


def execute_policy(
    plan: PolicyPlan,
    engine: Engine,
    ledger: Ledger | None,
    user: str | None,
    deadline: Deadline,
    entropy: Entropy = SYSTEM,
    terms: Terms = NO_TERMS,
) -> KeptAnswer:
    """Runs a plan once. A failure after the charge stays charged and always gives the same message."""
    select = plan.select
    with ExitStack() as open_until_the_end:
        taken = snapshot_of(engine, deadline, open_until_the_end)

        def run() -> KeptAnswer:
            with open_until_the_end.pop_all():  # closed before the answer is settled, so that nothing fails later
                every, kept = counted(plan, taken, deadline, entropy)
                deadline.check()
                return kept_answer(plan, finish(plan, *stored_rows(plan, every, kept, entropy), deadline, entropy))

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
        spreads=answer.spreads,
    )


def counted(plan: PolicyPlan, engine: Engine, deadline: Deadline, entropy: Entropy = SYSTEM) -> tuple[Counted, Counted]:
    """What the plan reads of the table: rows by value, of all of them and of those for which WHERE holds."""
    select, families = (
        plan.select,
        [*plan.families, *(each for q in plan.quantiles.values() for each in q.plan.measured)],
    )
    wanted = [names for each in families for names in each.sets]
    filtered = any(each.filtered for each in plan.quantiles.values())
    inside = Inside(plan.values.names, plan.values.passes) if filtered else None
    return read_counts(
        engine, select.table, select.rule.domain, select.owner, select.rows_per_owner, wanted, deadline, inside, entropy
    )


def stored_rows(
    plan: PolicyPlan, every: Counted, kept: Counted, entropy: Entropy = SYSTEM
) -> tuple[pa.Table, dict[str, Spread]]:
    """Keys and aggregates, and the noise of each aggregate; `kept` are the rows for which WHERE holds."""
    drawn = [add_noise(each.event, each.totals(every), entropy) for each in plan.families]
    prefixes = {
        name: _prefixes(each, plan, kept if each.filtered else every, entropy) for name, each in plan.quantiles.items()
    }
    columns: dict[str, Any] = {f.symbol: plan.values.keys.column(f.symbol) for f, _ in plan.select.keys}
    spreads: dict[str, Spread] = {}
    for column in plan.columns:
        numbers, spread = _finished(plan, column, drawn, prefixes)
        field = column.aggregate.field
        columns[field.symbol] = pa.array(numbers, arrow_type(field.type))
        if spread is not None:
            spreads[field.symbol] = spread
    rows = np.arange(plan.values.count, dtype=np.float64)
    return pa.table({**columns, STORED_ROW: rows}), spreads


STORED_ROW = "stored_row"
"""The column that says which stored row a row came from."""


def _finished(
    plan: PolicyPlan, column: Column, drawn: list[Any], prefixes: dict[str, answers.Answers]
) -> tuple[list[Any], Spread | None]:
    aggregate = column.aggregate
    if aggregate.attribute:
        return _quantiles(plan.quantiles[aggregate.attribute], aggregate, prefixes[aggregate.attribute])
    if aggregate.kind == "avg":
        return _averages(plan, column, drawn)
    family, numbers = plan.families[column.families[-1]], drawn[column.families[-1]]
    whole = aggregate.field.type.kind is Kind.INTEGER
    values = saturate_int64(numbers).tolist() if whole else [float(number * family.table.grid) for number in numbers]
    return values, OneDraw(tuple(map(float, values)), family.scale, family.table.grid)


def _averages(plan: PolicyPlan, column: Column, drawn: list[Any]) -> tuple[list[Any], Spread]:
    """Averages c + S/C between the values a row can have; C counts as at least 1."""
    tallied, summed = (plan.families[i] for i in column.families)
    counts, sums = ([int(number) for number in drawn[i]] for i in column.families)
    grid = summed.table.grid
    means = tuple(
        float(min(max(centre + number * grid / max(1, count), low), high))
        for number, count, centre, (low, high) in zip(sums, counts, column.centres, column.ends, strict=True)
    )
    if not tallied.scale:
        return list(means), OneDraw(means, summed.scale, grid, tuple(max(1, count) for count in counts))
    limits = tuple((float(low), float(high)) for low, high in column.ends)
    totals, centres = tuple(float(number * grid) for number in sums), tuple(map(float, column.centres))
    return list(means), Ratio(totals, tuple(counts), centres, limits, summed.scale, grid, tallied.scale)


# ---- quantiles -------------------------------------------------------------------------------------------------------


def _prefixes(found: Quantiles, plan: PolicyPlan, kept: Counted, entropy: Entropy) -> answers.Answers:
    """c_1 … c_m from one draw, as drawn and rising; if rows are filtered, no secret edge leads in or out."""
    drawn = answers.draw(found.plan, kept, entropy)
    return answers.answer(found.plan, drawn, kept.n if plan.public_n else None, 0.95)


def _quantiles(
    found: Quantiles, aggregate: PolicyAggregate, prefixes: answers.Answers
) -> tuple[list[Any], Spread | None]:
    """The quantiles in the one row there is; a list of them has no interval."""
    rising = [0.0, *prefixes.values]
    values = [quantile(found, rising, share, aggregate.continuous) for share in aggregate.shares]
    if aggregate.field.type == RELEASED_LIST:
        return [values], None
    return values, QuantileSpread(
        tuple(map(float, _ordered(found).values[found.low : found.high + 1])),
        (0.0, *prefixes.raw),
        answers.prefix_noise(found.plan),
        found.low,
        found.high,
        float(aggregate.shares[0]),
        values[0],
    )


def _ordered(found: Quantiles) -> Attribute:
    return found.plan.rule.domain.ordered(found.plan.query.attributes(found.plan.rule.domain)[0])


def quantile(found: Quantiles, prefixes: list[float], share: Fraction, continuous: bool) -> float:
    """The quantile of the positions that WHERE leaves; if nobody is there, the middle of them."""
    attribute = _ordered(found)
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


def finish(
    plan: PolicyPlan, stored: pa.Table, spreads: Mapping[str, Spread], deadline: Deadline, entropy: Entropy = SYSTEM
) -> PolicyAnswer:
    """HAVING, expressions, ORDER BY and LIMIT over stored rows; in random order unless ORDER BY says otherwise."""
    root, carried = with_stored_row(plan.select.root)
    rows = evaluated(root, {"released_0": stored}, deadline)
    if not is_ordered(plan.select.root):
        rows = rows.take(pa.array(entropy.permutation(rows.num_rows)))
    shown = plan.select.root.fields
    columns = [typed(rows.column(f.symbol).combine_chunks(), f) for f in shown]
    table = pa.Table.from_arrays(columns, names=distinct_names([f.name for f in shown]))
    origin = tuple(int(row) for row in rows.column(STORED_ROW).to_pylist())
    originals = {i: carried[f.symbol] for i, f in enumerate(shown) if f.symbol in carried}
    return PolicyAnswer(table, {i: CopiedSpread(spreads[s], origin) for i, s in originals.items() if s in spreads})


def with_stored_row(node: Node) -> tuple[Node, dict[str, str]]:
    """The tree with the number of the stored row carried along, and which symbols are plain copies of which stored ones."""
    row = Field("", STORED_ROW, DOUBLE)
    if isinstance(node, nodes.StoredRows):
        return replace(node, fields=(*node.fields, row)), {f.symbol: f.symbol for f in node.fields}
    if isinstance(node, nodes.Filter | nodes.Sort):
        below, carried = with_stored_row(node.input)
        return replace(node, input=below), carried
    if isinstance(node, nodes.Project):
        below, carried = with_stored_row(node.input)
        copies = [(f.symbol, v.symbol) for f, v in node.items if isinstance(v, ColumnOf) and v.symbol in carried]
        items = (*node.items, (row, ColumnOf(STORED_ROW, DOUBLE)))
        return replace(node, input=below, items=items), {copy: carried[of] for copy, of in copies}
    raise InternalError("a policy's query has an unexpected shape")
