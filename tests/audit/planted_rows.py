"""Planted bugs on the way from rows to noise: owners, clamps, sampling."""

from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
from planted import (
    ALIKE,
    INVARIANT,
    OWNERS,
    REFUSAL,
    REPLAY,
    ROWS,
    TABLES,
    TESTER,
    TOTAL,
    WHOLE,
    by_sql,
    is_not_refused,
    looks_different,
    moves_too_far,
    planted,
    private,
    totals_of,
    with_changed_question,
)
from sqlglot import exp

from shoal.accounting.ledger import Ledger
from shoal.audit import check
from shoal.audit.suite.replay import without_owner
from shoal.audit.suite.sampled_query import SampledQuery
from shoal.catalog import Catalog
from shoal.engines.duckdb.engine import DuckDBEngine
from shoal.engines.memory import totals
from shoal.engines.statements import bound_owners
from shoal.engines.statements.bound_owners import OWNER, BoundOwners
from shoal.engines.statements.relations import Compiler, call, column
from shoal.mechanisms.entropy import seeded_entropy
from shoal.plan.aggregates import Average
from shoal.plan.expressions import Call, Literal
from shoal.plan.measures import Steps
from shoal.release import execute
from shoal.rewrite import check_ownership
from shoal.rewrite.checks import mixed_owners
from shoal.session import Session
from shoal.sql.functions import values

OWNERS_OF_SITES = private(OWNERS)

# ---- what one owner adds -----------------------------------------------------------------------------------------


@planted("L0 ignored", "an owner counts in every group it has", REPLAY, moves_too_far(OWNERS_OF_SITES))
def owners_in_all_of_their_groups(patch):
    with_changed_question(patch, lambda q: replace(q, contribution=replace(q.contribution, max_groups=1000)))


BY_LISTED_SITE = {"tables": {"t": {"owner": "uid", "columns": {"site": {"values": ["a", "b", "c", "d"]}}}}}
IN_ALL = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=0.01) site, SUM(x) AS total FROM t GROUP BY site"


def _moves_every_group():
    """With one owner, whose sums are beyond the limit in all four groups, and without."""
    rows = {"t": pa.table({"uid": [1] * 4, "site": list("abcd"), "x": [9.0] * 4})}
    with SampledQuery(IN_ALL, BY_LISTED_SITE, {"one": rows, "none": {"t": rows["t"].slice(0, 0)}}) as query:
        return not check(query, query.epsilon, 0.0, samples=20_000, inputs=[("one", "none")], search=False).passed


@planted(
    "L0 ignored",
    "a limit for all groups of an owner together is applied to each of them",
    TESTER,
    _moves_every_group,
)
def a_limit_for_all_groups_in_each(patch):
    patch.setattr(totals, "cut_in_all", lambda values, *_: values)


def _unclamped(query):
    wide = Steps(-(2**60), 2**60, 0)
    return replace(query, tasks=tuple(replace(t, steps=wide if t.steps else None) for t in query.tasks))


@planted("Linf ignored", "what an owner adds is not clamped", REPLAY, moves_too_far(private(TOTAL, **WHOLE)))
def owners_without_a_clamp(patch):
    with_changed_question(patch, _unclamped)


@planted(
    "clamp before the expression",
    "single rows are clamped, and their sum is not",
    REPLAY,
    moves_too_far(private("SUM(steps, contribution_bounds_per_group => (0, 50)) AS total", **WHOLE)),
)
def rows_clamped_instead_of_owners(patch):
    def clamped_rows(query):
        tasks = []
        for task in _unclamped(query).tasks:
            argument = task.measure.argument
            least = Call("least", (argument, Literal(50, argument.type)), argument.type)
            tasks.append(replace(task, measure=replace(task.measure, argument=least)))
        return replace(query, tasks=tuple(tasks))

    with_changed_question(patch, clamped_rows)


@planted(
    "bounding before a fan-out join",
    "rows are bounded first, and then joined with three public rows each",
    REPLAY,
    moves_too_far(private(ROWS, source="visits CROSS JOIN regions", group="part")),
)
def bounded_before_the_join(patch):
    def fanned_out(query):
        return replace(
            query,
            tasks=tuple(
                replace(t, steps=Steps(0, 3 * t.steps.upper, 0)) if t.steps is not None else t for t in query.tasks
            ),
        )

    with_changed_question(patch, fanned_out)


WIDE = private("SUM(big, contribution_bounds_per_group => (0, 4611686018427387904)) AS total", source="wide", **WHOLE)
WIDE_TABLES = {"wide": pa.table({"uid": [1, 2], "big": [2**62, 2**62]})}
WIDE_CATALOG = {"tables": {"wide": {"owner": "uid"}}}


@planted(
    "integer wrap-around",
    "sums over owners are kept in 64 bits",
    REPLAY,
    moves_too_far(WIDE, WIDE_TABLES, owner=2, catalog=WIDE_CATALOG),
)
def totals_in_64_bits(patch):
    honest = DuckDBEngine.totals

    def narrow(self, query, key):
        exact = honest(self, query, key)
        wrapped = tuple(np.array([(int(v) + 2**63) % 2**64 - 2**63 for v in t], dtype=object) for t in exact.totals)
        return replace(exact, totals=wrapped)

    patch.setattr(DuckDBEngine, "totals", narrow)


NAN_TABLES = {"visits": pa.table({"uid": [1, 2], "site": ["a", "a"], "spend": [1.0, float("nan")], "steps": [1, 1]})}
NAN_CATALOG = {"tables": {"visits": {"owner": "uid"}}}


@planted(
    "NaN through the clamp",
    "NaN is neither NULL at the scan nor saturated on the grid",
    ALIKE,
    looks_different(private(TOTAL, **WHOLE), NAN_TABLES, without_owner(NAN_TABLES, NAN_CATALOG, 2), NAN_CATALOG),
)
def nan_reaches_the_clamp(patch):
    by_sql(patch)
    patch.setattr(values, "canonical_double", lambda value: value)

    def unsaturated(value, type_, row_grid):
        return bound_owners.wide(call("floor", bound_owners.times(value, exp.Literal.number(int(1 / row_grid)))))

    patch.setattr(bound_owners, "on_grid", unsaturated)


@planted(
    "an error on empty input",
    "AVG divides by the exact number of owners, and finds none",
    ALIKE,
    looks_different(
        private("AVG(spend, contribution_bounds_per_group => (0, 50)) AS mean", **WHOLE),
        {"visits": NAN_TABLES["visits"].slice(0, 1)},
        {"visits": NAN_TABLES["visits"].slice(0, 0)},
        NAN_CATALOG,
    ),
)
def a_mean_of_nothing(patch):
    honest = execute.release

    def dividing(plan, exact, entropy):
        if any(isinstance(c.call.aggregate, Average) for c in plan.columns):
            _ = 1 / int(exact.measurement.owners.sum())
        return honest(plan, exact, entropy)

    patch.setattr(execute, "release", dividing)


# ---- which rows are kept -----------------------------------------------------------------------------------------


@planted(
    "sampling by the database's rand()",
    "the groups of an owner are chosen by random(), anew for each database",
    REPLAY,
    # eight owners choose alike by chance about one time in twenty
    moves_too_far(private(OWNERS, options="epsilon=1, delta=0.01, max_groups_contributed=1"), sampling_keys=12),
)
def picks_of_the_database(patch):
    by_sql(patch)
    patch.setattr(
        BoundOwners,
        "_pick",
        lambda _self: bound_owners.wide(bound_owners.times(call("random"), bound_owners.integer(10**9))),
    )


@planted(
    "rare groups first",
    "the groups of an owner are chosen by how many other owners they have",
    REPLAY,
    moves_too_far(
        private(OWNERS, options="epsilon=1, delta=0.01, max_groups_contributed=1", source="names"), owner="b"
    ),
)
def picks_that_look_at_others(patch):
    by_sql(patch)

    def rarest(self):
        return exp.Window(this=call("count", exp.Star()), partition_by=[column(k) for k in self.keys])

    patch.setattr(BoundOwners, "_pick", rarest)


@planted(
    "the sampling key from the query's text",
    "two runs of a query keep the same groups of every owner",
    INVARIANT,
    lambda: execute.fresh_sampling_key() == execute.fresh_sampling_key(),
)
def the_same_key_every_time(patch):
    fixed = execute.fresh_sampling_key(seeded_entropy(0))
    patch.setattr(execute, "fresh_sampling_key", lambda _entropy=None: fixed)


@planted(
    "case-folded owner ids",
    "the owners 'a' and 'A' are one",
    REPLAY,
    moves_too_far(
        private(OWNERS, options="epsilon=1, delta=0.01, max_groups_contributed=1", source="names"),
        owner="A",
        sampling_keys=4,
    ),
)
def owners_without_case(patch):
    by_sql(patch)
    honest = bound_owners.aliased
    patch.setattr(
        bound_owners,
        "aliased",
        lambda value, symbol: honest(call("lower", value) if symbol == OWNER else value, symbol),
    )


ORPHANS = {
    **TABLES,
    "customers": pa.table({"uid": pa.array([*range(9), None, None], pa.int64()), "region": ["north"] * 11}),
}


def _counts_orphans():
    kept = {**TABLES, "customers": ORPHANS["customers"].slice(0, 9)}
    sql = private(OWNERS, source="customers", group="region")
    return totals_of(ORPHANS, sql) != totals_of(kept, sql)


@planted("NULL owner as many owners", "rows without an owner are kept", INVARIANT, _counts_orphans)
def rows_of_nobody(patch):
    by_sql(patch)
    honest = Compiler._scan
    patch.setattr(Compiler, "_scan", lambda self, node: honest(self, replace(node, owner=None)))
    patch.setattr(bound_owners, "not_null", lambda _value: exp.true())


def _depends_on_row_order():
    small, large = [0.1, 0.2, 0.3] * 40, [1e15, -1e15]
    rows = {"uid": [1] * 122, "site": ["a"] * 122, "steps": [1] * 122}
    forward = {**TABLES, "visits": pa.table({**rows, "spend": [*large, *small]})}
    backward = {**TABLES, "visits": pa.table({**rows, "spend": [large[0], *small, large[1]]})}
    sql = private(TOTAL, **WHOLE)
    return totals_of(forward, sql) != totals_of(backward, sql)


@planted("float sums depending on order", "rows are summed as doubles", INVARIANT, _depends_on_row_order)
def sums_of_doubles(patch):
    by_sql(patch)

    def as_doubles(value, type_, row_grid):
        return bound_owners.times(value, exp.Literal.number(int(1 / row_grid)))

    patch.setattr(bound_owners, "on_grid", as_doubles)


def _minds_a_macro():
    answers = []
    for macro in ("", "CREATE MACRO sum(x) AS 7; CREATE MACRO count(x) AS 7"):
        connection = duckdb.connect(":memory:")
        connection.execute(f"CREATE TABLE visits AS SELECT 1 AS uid, 'a' AS site, 5 AS steps; {macro}")
        asked = Session(DuckDBEngine(connection, ours=False), Catalog.load(NAN_CATALOG), Ledger.in_memory())
        plan = asked.plan(private("SUM(steps, contribution_bounds_per_group => (0, 9)) AS n", **WHOLE)).selects[0]
        exact = execute.measure(plan, asked._engine, execute.fresh_sampling_key(seeded_entropy(0)))
        answers.append(exact.measurement.totals[0].tolist())
        connection.close()
    return answers[0] != answers[1]


@planted("a macro named sum", "built-ins are called by their short names", INVARIANT, _minds_a_macro)
def built_ins_by_short_names(patch):
    by_sql(patch)
    patch.setattr(bound_owners, "call", lambda name, *arguments: exp.Anonymous(this=name, expressions=list(arguments)))


# ---- whose rows they are -----------------------------------------------------------------------------------------


@planted(
    "owner from the nullable side of an outer join",
    "the side of a left join that may be missing names the owner",
    REFUSAL,
    is_not_refused(
        "E_UID_LOST",
        private(
            ROWS,
            source="(SELECT c.uid AS uid, v.site AS site FROM visits v LEFT JOIN customers c ON v.uid = c.uid) AS j",
        ),
    ),
)
def owner_of_the_missing_side(patch):
    honest = check_ownership.Ownership._owned_owned

    def trusting(self, node, left, right, given):
        owned = honest(self, node, left, right, given)
        return replace(owned, equal=owned.equal | owned.nullable, nullable=frozenset())

    patch.setattr(check_ownership.Ownership, "_owned_owned", trusting)


@planted(
    "owner forged by an alias",
    "another column may be called like the owner",
    REFUSAL,
    is_not_refused("E_UID_FORGED", private(ROWS, source="(SELECT steps AS uid, site FROM visits) AS forged")),
)
def a_forged_owner(patch):
    patch.setattr(mixed_owners, "_refuse_forged", lambda _node: None)


@planted(
    "union columns out of position",
    "the owner of the left side stands for both",
    REFUSAL,
    is_not_refused(
        "E_SETOP_UID",
        private(
            ROWS, source="(SELECT uid, steps, site FROM visits UNION ALL SELECT steps, uid, site FROM visits) AS u"
        ),
    ),
)
def a_union_by_position(patch):
    def careless(self, node):
        left, right = self._must(node.left), self._must(node.right)
        place = next(i for i, f in enumerate(node.left.fields) if f.symbol in left.equal)
        owner = node.fields[place].symbol
        return replace(
            left, node=replace(node, left=left.node, right=right.node, owner=owner), equal=frozenset({owner})
        )

    patch.setattr(check_ownership.Ownership, "_set_operation", careless)


@planted(
    "a window over all owners",
    "a window need not go by owner",
    REFUSAL,
    is_not_refused(
        "E_CROSS_USER",
        private(ROWS, source="(SELECT uid, SUM(steps) OVER (PARTITION BY site) AS site FROM visits) AS w"),
    ),
)
def windows_over_all_owners(patch):
    patch.setattr(mixed_owners, "_refuse_cross_owner", lambda _node: None)
    patch.setattr(check_ownership, "_refuse_missing_partition", lambda _node, _below: None)
