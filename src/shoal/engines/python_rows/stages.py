"""Python taken out of a question: what functions make becomes a table, and the question reads that table.

Consecutive functions are one stage, run in one pass. A stage reads a relation of the embedded engine; stages that read what others
made come later.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from shoal.engines.base import EngineFailure
from shoal.engines.python_rows.records import Step
from shoal.engines.python_rows.values import ValueType
from shoal.engines.python_rows.worker import Work
from shoal.engines.statements.pruned import pruned
from shoal.engines.statements.relations import Compiler, aliased, by_bytes, column, name, select
from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.expressions import Column
from shoal.plan.traverse import all_nodes, columns_read, rebuilt
from shoal.plan.types import Kind
from shoal.sql import functions
from shoal.sql.functions import engine_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from shoal.engines.python_rows.batches import OwnedBatch
    from shoal.plan.nodes import Field, Node, PythonRows
    from shoal.plan.releases import StatementPlan
    from shoal.plan.totals import TotalsQuery
    from shoal.plan.types import Type

OWNER = "o"
NAME = "(python {})"
"""No table of a catalog can be called so, because queries quote what they name and this is nothing that they could find."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Functions that run one after the other over a relation: the first one reads it, the last one makes the table."""

    table: str
    steps: tuple[PythonRows, ...]

    @property
    def input(self) -> Node:
        """What the first function reads."""
        return self.steps[0].input

    @property
    def owner(self) -> Field:
        """The owner, as what comes out of the last function carries it."""
        return nodes.field_of(self.steps[-1], self.steps[-1].owner or "")

    @property
    def reads_texts(self) -> bool:
        """Whether rows that the first function sees may be long."""
        types = [self.owner.type, *(value.type for _, value in self.steps[0].arguments)]
        return any(type_.kind is Kind.TEXT for type_ in types)

    @property
    def needs_whole_owners(self) -> bool:
        """Whether some function sees all records of an owner at once."""
        return any(step.step.kind == "per_owner" for step in self.steps)

    @property
    def made_of_one(self) -> int:
        """How many records the functions make of one row at most; what an owner's rows become together is counted as one."""
        return int(prod(step.step.most for step in self.steps if step.step.kind == "flat_map"))

    @property
    def columns(self) -> tuple[tuple[str, Type], ...]:
        """The columns of the table."""
        return ((OWNER, self.owner.type), *((f"m{i}", f.type) for i, f in enumerate(self.steps[-1].made)))

    @property
    def scan(self) -> nodes.Scan:
        """What replaces the functions."""
        last = self.steps[-1]
        fields = [_stored(f) for f in last.fields]
        names = [f"m{i}" for i in range(len(last.made))] + [OWNER for _ in last.carried]
        # Texts that functions make are read as long as stored ones, so that joins repeat neither too often.
        read = next((part for part in all_nodes(self.input) if isinstance(part, nodes.Scan)), None)
        longest, share = (None, None) if read is None else (read.longest_text, read.owner_share)
        return nodes.Scan(self.table, tuple(fields), tuple(names), last.owner, longest_text=longest, owner_share=share)

    @property
    def nothing(self) -> exp.Subquery:
        """A relation with the columns of the table, to read statements by before there is a table."""
        nulls = [aliased(exp.cast(exp.Null(), engine_type(type_), dialect="duckdb"), c) for c, type_ in self.columns]
        return exp.Subquery(this=select(nulls), alias=exp.TableAlias(this=name(self.table)))

    def schema(self, owner: pa.DataType) -> pa.Schema:
        """The table as Arrow has it."""
        made = [pa.field(f"m{i}", value_type(f.type).arrow) for i, f in enumerate(self.steps[-1].made)]
        return pa.schema([pa.field(OWNER, owner), *made])

    def work(self, memory: int) -> Work:
        """What a worker gets to know."""
        steps = tuple(
            Step(
                step.step.kind,
                tuple(name for name, _ in step.arguments),
                tuple((f.name, value_type(f.type)) for f in step.made),
                step.step.most,
                step.step.max_rows,
            )
            for step in self.steps
        )
        seconds = min(step.step.seconds for step in self.steps)
        return Work(steps, tuple(step.step.function for step in self.steps), seconds, memory)


def _stored(f: Field) -> Field:
    return replace(f, type=replace(f.type, storage=engine_type(f.type)))


def value_type(type_: Type) -> ValueType:
    """A plan's type as records speak it."""
    return ValueType(type_.kind.value, type_.precision, type_.scale)


def has_python(node: Node) -> bool:
    """Whether functions run under a relation."""
    return any(isinstance(part, nodes.PythonRows) for part in all_nodes(node))


def stages_of(plan: StatementPlan) -> tuple[Stage, ...]:
    """All functions that a plan will call."""
    return tuple(stage for select in plan.selects for stage in staged([select.select.input])[1])


def staged_queries(queries: Iterable[TotalsQuery]) -> tuple[tuple[TotalsQuery, ...], list[Stage]]:
    """Questions over tables, and the stages that fill those tables, in order."""
    asked = tuple(queries)
    inputs, stages = staged([query.input for query in asked])
    return tuple(replace(query, input=node) for query, node in zip(asked, inputs, strict=True)), stages


def staged(roots: Iterable[Node]) -> tuple[list[Node], list[Stage]]:
    """Relations over tables, and the stages that fill them; equal functions over equal rows are one stage."""
    stages: dict[tuple[PythonRows, ...], Stage] = {}

    def change(node: Node) -> Node:
        if not isinstance(node, nodes.PythonRows):
            return rebuilt(node, change)
        chain = [node]
        while isinstance(below := chain[-1].input, nodes.PythonRows) and _reads_all(chain[-1], below):
            chain.append(below)
        first, *others = reversed(chain)
        steps = (replace(first, input=change(first.input)), *others)
        if steps not in stages:
            stages[steps] = Stage(NAME.format(len(stages)), steps)
        return stages[steps].scan

    return [change(root) if has_python(root) else root for root in roots], list(stages.values())


def _reads_all(node: PythonRows, below: PythonRows) -> bool:
    """Whether a function sees what another one makes, and nothing else: then records go from one to the other."""
    seen = [(name, value.symbol) for name, value in node.arguments if isinstance(value, Column)]
    return seen == [(f.name, f.symbol) for f in below.made]


# ---- reading what the first function sees ----------------------------------------------------------------------------


def statement(stage: Stage, relation: Node, tables: Mapping[str, exp.Expr]) -> exp.Select:
    """The rows that the first function sees, sorted by owner and then by all that it sees."""
    types = [stage.owner.type, *(value.type for _, value in stage.steps[0].arguments)]
    named = zip(_names(stage), types, strict=True)
    ordered = [exp.Ordered(this=by_bytes(column(n), t), desc=False, nulls_first=True) for n, t in named]
    rows = exp.Subquery(this=rows_seen(stage, relation, tables), alias=exp.TableAlias(this=name("rows")))
    whole = select([column(each) for each in _names(stage)], rows)
    whole.set("order", exp.Order(expressions=ordered))
    return whole


def rows_seen(stage: Stage, relation: Node, tables: Mapping[str, exp.Expr]) -> exp.Select:
    """Owner and arguments of every row that has an owner."""
    compiler = Compiler(tables)
    owner = nodes.field_of(relation, relation.owner or "")
    items = [aliased(column(owner.symbol), OWNER)]
    for number, (_, value) in enumerate(stage.steps[0].arguments):
        items.append(aliased(functions.key_form(compiler.expression(value), value.type), f"a{number}"))
    rows = select(items, compiler.subquery(compiler.relation(rows_read(stage, relation))))
    has_owner = exp.Not(this=exp.Is(this=column(owner.symbol), expression=exp.Null()))
    return rows.where(has_owner, copy=False)


def rows_read(stage: Stage, relation: Node | None = None) -> Node:
    """What the first function sees is computed from; or another relation, with the columns that are read of it."""
    read = frozenset[str]().union(*(columns_read(value) for _, value in stage.steps[0].arguments))
    return pruned(stage.input if relation is None else relation, read)


def _names(stage: Stage) -> list[str]:
    return [OWNER, *(f"a{i}" for i in range(len(stage.steps[0].arguments)))]


def checked(stage: Stage, batch: OwnedBatch, answer: pa.Table) -> pa.Table:
    """Rows with their owners: whatever a process says, a row has the owner of a row that was handed to it."""
    schema = stage.schema(batch.owners.type)
    wanted = pa.schema([pa.field("row", pa.int64()), *list(schema)[1:]])
    if answer.schema.remove_metadata() != wanted or answer.column("row").null_count:
        raise EngineFailure
    positions = answer.column("row").combine_chunks()
    if len(positions) and (pc.min(positions).as_py() < 0 or pc.max(positions).as_py() >= len(batch.owners)):
        raise EngineFailure
    columns = [batch.owners.take(positions), *answer.columns[1:]]
    return pa.table(columns, schema=schema).replace_schema_metadata(answer.schema.metadata)
