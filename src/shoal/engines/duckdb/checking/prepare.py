"""Everything that a query will run, written with placeholders and read by the engine before it is charged.

What the analyst wrote is in the rows that a question reads: they are read once, over an empty copy of the schema, and
hand over columns of the plan's own types. What bounds and sums these columns is ours and depends on types alone. Its parts are
read once for all queries; its numbers are checked one by one.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.engines.duckdb.checking.apart import divided, rows_like, taken_of
from shoal.engines.duckdb.checking.casts import Named, surprise
from shoal.engines.duckdb.checking.reading import Reader
from shoal.engines.duckdb.checking.remembered import Hashed, Remembered
from shoal.engines.duckdb.rendering import render
from shoal.engines.memory.rows import rows_statement
from shoal.engines.python_rows.stages import rows_read, rows_seen, staged_queries, statement
from shoal.engines.statements.bound_owners import BoundOwners
from shoal.engines.statements.crowded_owners import (
    CROWDED,
    MAX_JOINED_ROWS,
    crowded_source,
    most_rows_statement,
    products_of,
    without_owners,
)
from shoal.engines.statements.integers import check_width
from shoal.engines.statements.pruned import read_input
from shoal.engines.statements.relations import Compiler, aliased, by_bytes, column, name, select
from shoal.engines.statements.sum_owners import Summing
from shoal.frozen import dataclass
from shoal.params import Bounds
from shoal.plan import nodes
from shoal.plan.expressions import Column
from shoal.plan.measures import Histogram, RowMoment, Steps
from shoal.plan.nodes import Field
from shoal.plan.totals import GridMeasure, SamplingKey, TotalsQuery
from shoal.plan.types import DOUBLE, INTEGER, Kind, Type
from shoal.sql.functions import engine_type
from shoal.sql.functions.forms import cast
from shoal.stack import on_its_own_stack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from shoal.engines.base import Asked
    from shoal.engines.duckdb.checking.apart import Apart
    from shoal.engines.python_rows.stages import Stage
    from shoal.engines.statements.crowded_owners import Product
    from shoal.plan.expressions import Expression
    from shoal.plan.measures import Measure
    from shoal.plan.nodes import Node
    from shoal.plan.releases import Contribution, StatementPlan

    Schemas = Mapping[str, Iterable[tuple[str, str]]]
    Written = tuple[exp.Query, list[Type] | None]

PLACEHOLDER_KEY = SamplingKey(tuple((1 << 60) + i for i in range(160)))
"""Numbers as wide as those of a real key, and no two the same."""

PARTS: Remembered[Hashed[tuple[Part, bool]], None] = Remembered(2048)
"""Questions without the analyst's part and without numbers, and whether their operators are written by qualified name: they
depend on no schema, so all sessions share them."""
PLAIN_KEYS = 2
"""Two keys stand for any number of them: what is written for one is repeated for each."""
PLAIN_TASK = GridMeasure(
    RowMoment(Column("a0", INTEGER), power=1, rows=2),
    Fraction(1),
    Fraction(1),
    Steps(-1, 1, 0),
    Bounds(Fraction(-1), Fraction(1)),
)
"""Rows of an owner that are sampled and summed: it has every common table, and every comparison of keys."""


class PlanChecker:
    """Reads the statements of plans as one engine writes them, each plan once."""

    def __init__(self, lockdown: tuple[str, ...], *, qualify_operators: bool = False) -> None:
        self._lockdown = lockdown
        self._qualify_operators = qualify_operators
        self._reader: Reader | None = None
        self._plans: Remembered[Hashed[StatementPlan], None] = Remembered(512)
        self._over_rows: Remembered[Hashed[TotalsQuery], None] = Remembered(512)
        self._lock = threading.Lock()

    def check(self, plan: StatementPlan, asked_of: Callable[[StatementPlan], Asked], schemas: Schemas) -> None:
        """InternalError where the engine reads a statement differently from what it was written for."""
        key = Hashed(plan, plan.sql)
        if key not in self._plans:
            on_its_own_stack(lambda: self._read(asked_of(plan), schemas), shared=True)
            self._plans.add(key, None)

    def _read(self, asked: Asked, schemas: Schemas) -> None:
        reader = self._ready(schemas)
        tables: dict[str, exp.Expr] = {
            table: exp.Table(this=name(table), db=name("main"), catalog=name("temp")) for table in schemas
        }
        queries, stages = staged_queries(asked.totals)
        asked = replace(asked, totals=queries)
        written: list[Written] = []
        for stage in stages:
            tables[stage.table] = stage.nothing
            written += rows_for(stage, tables)
        wanted = ((Hashed((part, self._qualify_operators)), part) for query in asked.totals for part in parts_of(query))
        parts = {key: part for key, part in wanted if key not in PARTS}
        for query in asked.totals:
            _check_numbers(query)
        written += [(together(statements_of(part.question())), None) for part in parts.values()]
        whole, over_others = divided(asked.totals)
        written += [(Compiler(tables, whole_texts=True).relation(scan), None) for scan in dict.fromkeys(asked.public)]
        rows = [rows_with(query, over_others, tables) for query in whole]
        written += others_of(whole, tables)
        found = self._check(reader, [*rows, *written], [] if asked.finishing is None else [asked.finishing])
        rest = [left for query, types in zip(whole, found, strict=False) for left in rest_of(query, over_others, types)]
        self._read_the_rest(reader, rest, tables)
        for key in parts:
            PARTS.add(key, None)

    def _check(self, reader: Reader, written: list[Written], finishing: list[str]) -> list[list[Named]]:
        """The types of columns of each, after those that are wanted."""
        texts = [render(tree, qualify_operators=self._qualify_operators) for tree, _ in written]
        found = reader.check_all([*texts, *finishing])[: len(written)]
        for (_, types), read in zip(written, found, strict=True):
            _check_types(read[: None if types is None else len(types)], types)
        return [read[0 if types is None else len(types) :] for (_, types), read in zip(written, found, strict=True)]

    def _read_the_rest(self, reader: Reader, queries: list[TotalsQuery], tables: Mapping[str, exp.Expr]) -> None:
        """Questions over rows that were read: nothing of the analyst is in them, so most were met before."""
        new = {key: query for query in queries if (key := Hashed(query)) not in self._over_rows}
        if new:
            asked = list(new.values())
            self._check(reader, [*(rows_with(query, (), tables) for query in asked), *others_of(asked, tables)], [])
        for key in new:
            self._over_rows.add(key, None)

    def _ready(self, schemas: Schemas) -> Reader:
        with self._lock:
            if self._reader is None:
                self._reader = Reader(self._lockdown)
            self._reader.copy(schemas)
            return self._reader


# ---- the analyst's part --------------------------------------------------------------------------------------------


def rows_with(query: TotalsQuery, over_others: Iterable[Apart], tables: Mapping[str, exp.Expr]) -> Written:
    """The rows that a question reads, with the types they must have, and then what other questions take of them."""
    types = [_owner_of(query).type, *(field.type for field, _ in query.keys)]
    for argument in query.arguments:
        types += [argument.type, DOUBLE] if argument.type.kind is Kind.DECIMAL else [argument.type]
    relation, known = _uncrowded(query.input, products_of(read_input(query)), tables)
    rows = rows_statement(replace(query, input=relation), known)
    compiler = Compiler(known)
    for value in taken_of(query, over_others):
        rows.append("expressions", aliased(compiler.expression(value), f"t{len(rows.expressions)}"))
    return rows, types


def others_of(queries: Iterable[TotalsQuery], tables: Mapping[str, exp.Expr]) -> list[Written]:
    """What is asked beside rows: who has too many of them, and which groups are listed."""
    found: dict[object, Written] = {}
    for query in queries:
        found |= dict(_counting(products_of(read_input(query)), tables))
        if query.public_groups is not None and (query.public_groups, query.keys) not in found:
            found[query.public_groups, query.keys] = BoundOwners(query, PLACEHOLDER_KEY, tables).groups(), None
    return list(found.values())


def rest_of(query: TotalsQuery, over_others: list[Apart], found: list[Named]) -> list[TotalsQuery]:
    """What is left to read of questions over the rows of this one; all of a question where a value has another type."""
    types = dict(zip(taken_of(query, over_others), found, strict=True))
    return [
        each.above if all(types[value] == _named(value.type) for value in each.taken) else each.question
        for each in over_others
        if each.below is query
    ]


def rows_for(stage: Stage, tables: Mapping[str, exp.Expr]) -> list[Written]:
    """What is read for the first function of a stage."""
    types = [stage.owner.type, *(value.type for _, value in stage.steps[0].arguments)]
    products = products_of(rows_read(stage))
    relation, known = _uncrowded(stage.input, products, tables)
    rows = [(rows_seen(stage, relation, known), types), (statement(stage, relation, known), None)]
    return [*rows, *(counting for _, counting in _counting(products, tables))]


def _uncrowded(
    relation: Node, products: list[Product], tables: Mapping[str, exp.Expr]
) -> tuple[Node, Mapping[str, exp.Expr]]:
    """The same without owners who have more than their share of rows, and the tables it reads: who they are is read apart.

    The statement that runs where nobody is left out has all the same expressions and relations, and one filter less.
    """
    if not products:
        return relation, tables
    owner = by_bytes(cast(exp.Null(), engine_type(_owner_in(products))), _owner_in(products))
    nobody = exp.Subquery(this=select([aliased(owner, "o")]), alias=exp.TableAlias(this=name("crowded")))
    return without_owners(relation, products), {**tables, CROWDED: nobody}


def _counting(products: list[Product], tables: Mapping[str, exp.Expr]) -> list[tuple[object, Written]]:
    """What is asked to find out whether there are such owners, and who they are."""
    if not products:
        return []
    scans = dict.fromkeys(scan for found in products for scan in found)
    they = select([column("o")], crowded_source(products, tables, MAX_JOINED_ROWS)), [_owner_in(products)]
    return [(tuple(products), they), *((("most", scan), (most_rows_statement(scan, tables), None)) for scan in scans)]


def _owner_in(products: list[Product]) -> Type:
    scan = products[0][0]
    return nodes.field_of(scan, scan.owner or "").type.plain()


def _owner_of(query: TotalsQuery) -> Field:
    return nodes.field_of(query.input, query.input.owner or "")


def _check_types(found: list[Named], expected: list[Type] | None) -> None:
    if expected is not None and found != [_named(type_) for type_ in expected]:
        raise surprise("columns of other types than the plan's")


def _named(type_: Type) -> Named:
    if type_.kind is Kind.DECIMAL:
        return "DECIMAL", type_.precision, type_.scale
    return (engine_type(type_),)


# ---- ours ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One measure, or the histogram of one, by keys of some types: all that what bounds and sums it depends on."""

    owner: Type
    keys: tuple[Type, ...]
    argument: Type | None
    asked: GridMeasure | Histogram
    contribution: Contribution
    listed: bool

    def question(self) -> TotalsQuery:
        """The part over typed NULLs."""
        owner, keys = _column("o", self.owner), [_column(f"k{i}", type_) for i, type_ in enumerate(self.keys)]
        read = [] if self.argument is None else [_column("a0", self.argument)]
        return TotalsQuery(
            rows_like([owner, *keys, *read], owner=owner.symbol),
            tuple((Field("", key.symbol, key.type), key) for key in keys),
            (self.asked,) if isinstance(self.asked, GridMeasure) else (),
            (self.asked,) if isinstance(self.asked, Histogram) else (),
            self.contribution,
            rows_like(keys, owner=None) if self.listed else None,
        )


def parts_of(query: TotalsQuery) -> list[Part]:
    """The question in parts: each measure with plain keys, and each key with a plain measure.

    A statement for several measures has one item for each, which reads that measure's own column; a statement for several keys
    has one column and one comparison for each, with itself. So nothing that the engine reads is in the whole and in no part.
    """
    plain = (INTEGER,) * (PLAIN_KEYS if query.keys else 0)
    own = list(dict.fromkeys(field.type.plain() for field, _ in query.keys))
    return [
        *(_part(query, plain, task) for task in query.tasks or (PLAIN_TASK,)),
        *(_part(query, plain, histogram) for histogram in query.histograms),
        *(_part(query, (type_,), PLAIN_TASK) for type_ in own),
    ]


def _part(query: TotalsQuery, types: tuple[Type, ...], asked: GridMeasure | Histogram) -> Part:
    measure = asked.serves if isinstance(asked, Histogram) else asked.measure
    columns = {} if measure.argument is None else {measure.argument: _column("a0", measure.argument.type)}
    like = (
        replace(asked, serves=_measure_like(measure, columns))
        if isinstance(asked, Histogram)
        else _task_like(asked, columns)
    )
    limits = query.contribution
    limits = replace(limits, max_groups=2, max_rows=None if limits.max_rows is None else 2)
    argument = None if measure.argument is None else measure.argument.type.plain()
    return Part(_owner_of(query).type.plain(), types, argument, like, limits, query.public_groups is not None)


def _column(symbol: str, type_: Type) -> Column:
    return Column(symbol, type_.plain())


def _measure_like(measure: Measure, columns: Mapping[Expression, Column]) -> Measure:
    if measure.argument is not None:
        measure = replace(measure, argument=columns[measure.argument])
    return measure.typical()


def _task_like(task: GridMeasure, columns: Mapping[Expression, Column]) -> GridMeasure:
    """The grid is 1 or a fraction, and that of the sum finer, the same or coarser: these make a difference, and no others."""
    row_grid = Fraction(1) if task.row_grid == 1 else Fraction(1, 2**20)
    sum_grid = row_grid**task.measure.power
    grid = sum_grid / 8 if task.stretch > 1 else sum_grid * 8 if task.shrink > 1 else sum_grid
    steps = None if task.steps is None else Steps(-(1 << 80), 1 << 80, 1)
    bounds = None if task.bounds is None else Bounds(Fraction(-5), Fraction(5))
    return GridMeasure(_measure_like(task.measure, columns), grid, row_grid, steps, bounds)


def _check_numbers(query: TotalsQuery) -> None:
    """Every number that will be written can be."""
    for task in query.tasks:
        steps = () if task.steps is None else (task.steps.lower, task.steps.upper, task.steps.middle)
        for number in (*steps, *task.measure.own_numbers(), task.stretch, 2 * task.shrink):
            check_width(number)
        float(1 / task.row_grid)
        if task.measure.is_tree:
            assert task.leaf_scale  # noqa: S101 - computed, to see that it can be


def statements_of(query: TotalsQuery) -> tuple[exp.Query, ...]:
    """Bounding and summing by SQL."""
    return Summing(query, PLACEHOLDER_KEY, {}).statements().all()


def together(queries: tuple[exp.Query, ...]) -> exp.Query:
    """One statement that reads them all; the common tables in front of them are those of the first."""
    whole = select([exp.Literal.number(1)])
    for common in _common_tables(queries[0]):
        whole = whole.with_(common.alias, as_=common.this, copy=False)
    for number, query in enumerate(queries):
        query.set("with_", None)
        whole = whole.with_(f"s{number}_", as_=query, copy=False)
        source = exp.Table(this=exp.to_identifier(f"s{number}_"))
        whole = whole.from_(source, copy=False) if number == 0 else whole.join(source, join_type="CROSS", copy=False)
    return whole


def _common_tables(query: exp.Query) -> list[exp.CTE]:
    clause = query.args.get("with_")
    return [] if clause is None else list(clause.expressions)
