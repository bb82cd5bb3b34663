"""The grid: every construct, every pair of types, nasty values. Refused when planning, or answered alike on neighbours.

Functions are computed on columns of every stored type, all of them on all pairs; relations (IN, set operations, joins, windows,
subqueries) are asked as queries: both with and without the owner who has the nasty values. What is refused is refused for its
types.
"""

from __future__ import annotations

import itertools
import random
from contextlib import suppress
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import shoal
from shoal.errors import ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import Column, Literal, Order, WindowCall
from shoal.plan.nodes import Field
from shoal.plan.types import INTEGER, NULL, TEXT, Kind, common_type
from shoal.sql import functions

if TYPE_CHECKING:
    from pathlib import Path

NASTY = {
    "BOOLEAN": ("true", "false"),
    "TINYINT": ("-128", "127", "0", "-1"),
    "SMALLINT": ("-32768", "32767"),
    "INTEGER": ("-2147483648", "2147483647", "0", "-1"),
    "BIGINT": ("-9223372036854775808", "9223372036854775807", "0", "-1", "100"),
    "UTINYINT": ("255", "0"),
    "USMALLINT": ("65535",),
    "UINTEGER": ("4294967295", "0"),
    "UBIGINT": ("18446744073709551615", "0"),
    "HUGEINT": ("-170141183460469231731687303715884105728", "170141183460469231731687303715884105727", "7"),
    "UHUGEINT": ("340282366920938463463374607431768211455", "7"),
    "FLOAT": ("inf", "-inf", "nan", "3.4e38", "-0.0"),
    "DOUBLE": ("inf", "-inf", "nan", "1.7976931348623157e308", "-0.0", "5e-324", "100", "-1"),
    "DECIMAL(4, 1)": ("-999.9", "999.9", "0.5"),
    "DECIMAL(18, 3)": ("-999999999999999.999", "0.001"),
    "DECIMAL(38, 0)": ("-" + "9" * 38, "9" * 38, "0"),
    "DECIMAL(38, 37)": ("9.9999999999999999999999999999999999999", "0.5"),
    "DECIMAL(38, 38)": ("0.99999999999999999999999999999999999999", "-0.5"),
    "VARCHAR": ("", "infinity", "nan", "99999-01-01", "2026-02-30", "1e999", "%", "\\x00", "é", "24:00:00", "100"),
    "UUID": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "ENUM('x', 'y', 'infinity')": ("x", "infinity"),
    "DATE": ("infinity", "-infinity", "5881580-07-10", "5877642-06-25 (BC)", "0001-01-01", "9999-12-31"),
    "TIMESTAMP": (
        "infinity",
        "-infinity",
        "294247-01-10 04:00:54.775806",
        "290309-12-22 (BC) 00:00:00",
        "9999-12-31 23:59:59.999999",
    ),
    "TIMESTAMP_S": ("infinity", "294247-01-10 04:00:54"),
    "TIMESTAMP_MS": ("-infinity", "294247-01-10 04:00:54.775"),
    "TIMESTAMP_NS": ("infinity", "2262-04-11 23:47:16.854775806", "1677-09-22 00:00:00"),
    "TIMESTAMP WITH TIME ZONE": ("infinity", "294247-01-10 04:00:54.775806+00"),
    "TIME": ("00:00:00", "24:00:00", "23:59:59.999999"),
}
UNUSABLE = {"l": "INTEGER[]", "r": "STRUCT(a INTEGER)", "o": "BLOB", "v": "INTERVAL"}
"""Stored beside the others: no query can name them, and none may stumble over them."""
COLUMNS = {f"c{i}": stored for i, stored in enumerate(NASTY)}
KINDS = ["BOOLEAN", "BIGINT", "DOUBLE", "DECIMAL(4, 1)", "DECIMAL(38, 37)", "VARCHAR", "DATE", "TIMESTAMP", "TIME"]
"""A column as it is stored becomes one of these types, or a decimal of another size, before anything looks at it."""
NARROW = {column: stored for column, stored in COLUMNS.items() if stored in KINDS}
ROWS, OWNERS = 60, range(1, 30)
VICTIM = 7


def database(path: Path, *, with_victim: bool) -> str:
    """Ordinary owners have the last value of every type and NULL; the victim has all values, in many combinations."""
    with duckdb.connect(str(path)) as connection:
        for table, columns in (("wide", COLUMNS), ("t", NARROW), ("p", NARROW)):
            typed = ", ".join(
                f"{c} {stored}" for c, stored in (columns | (UNUSABLE if table == "wide" else {})).items()
            )
            connection.execute(f"CREATE TABLE {table} (uid BIGINT, {typed})")
            rows = nasty_rows(columns) if with_victim or table == "p" else []
            filled = [*(ordinary_rows(columns) if table != "p" else ()), *rows]
            marks, named = ", ".join("?" for _ in range(len(columns) + 1)), ", ".join(["uid", *columns])
            connection.executemany(f"INSERT INTO {table} ({named}) VALUES ({marks})", filled)
    return str(path)


def nasty_rows(columns):
    draw = random.Random(7)
    return [(VICTIM, *(draw.choice((*NASTY[s], None)) for s in columns.values())) for _ in range(ROWS)]


def ordinary_rows(columns):
    owners = [uid for uid in OWNERS if uid != VICTIM]
    return [(uid, *(None if uid % 5 == 0 else NASTY[s][-1] for s in columns.values())) for uid in owners]


CATALOG = {"tables": {"wide": {"owner": "uid"}, "t": {"owner": "uid"}, "p": {"public": True}}}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("grid")
    paths = [database(folder / f"{victim}.duckdb", with_victim=victim) for victim in (True, False)]
    opened = [shoal.connect(path, catalog=CATALOG) for path in paths]
    yield opened
    for session in opened:
        session.close()


# ---- functions -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows(sessions):
    """The scan of all columns, with the types that a session gives them."""
    schema = sessions[0]._schemas["wide"]
    fields = tuple(Field(column, f"s_{column}", type_) for column, type_ in schema)
    return nodes.Scan("wide", fields, tuple(column for column, _ in schema), "s_uid", "uid")


def evaluated(sessions, rows, expressions):
    """Computes every expression on every row of both databases: nobody's values follow from whether the victim is there."""
    uid = next(f for f in rows.fields if f.symbol == "s_uid")
    owner = (Field("", "owner", uid.type), Column(uid.symbol, uid.type))
    for start in range(0, len(expressions), 150):
        some = expressions[start : start + 150]
        node = nodes.Project(rows, (owner, *((Field("", f"e{i}", e.type), e) for i, e in enumerate(some))))
        whole, without = (session._engine.fetch(node).sort_by("owner") for session in sessions)
        assert whole.num_rows == ROWS + len(OWNERS) - 1
        others = whole.filter(pc.not_equal(whole["owner"], VICTIM))
        for column, theirs in zip(others.columns, without.columns, strict=True):
            assert same_values(column, theirs)


def same_values(left, right):
    """Equality in which NaN is itself, and −0 is not 0."""
    if pa.types.is_floating(left.type):
        left, right = (pa.array(c.to_numpy().view("int64"), mask=c.is_null().to_numpy()) for c in (left, right))
    return left.equals(right)


def pairs_of(rows):
    """All columns; and all pairs of columns and constants, one stored type for each type of the plan."""
    everything = [
        Column(f.symbol, f.type) for f in rows.fields if f.type.kind is not Kind.UNSUPPORTED and f.symbol != "s_uid"
    ]
    usable = [c for c in everything if c.symbol.removeprefix("s_") in NARROW]
    constants = [Literal(None, NULL), Literal(100, INTEGER), Literal("infinity", TEXT), Literal("month", TEXT)]
    return everything, list(itertools.product([*usable, *constants], repeat=2))


def bound(function, *arguments):
    with suppress(ShoalError):
        call = function.bind(function, arguments, None)
        if call.type.kind is not Kind.INTERVAL and not isinstance(call, Literal):
            yield call


@pytest.mark.parametrize("section", functions.SECTIONS)
def test_every_function_is_total_on_every_pair_of_types(sessions, rows, section):
    usable, pairs = pairs_of(rows)
    found = []
    for function in functions.SECTIONS[section]:
        for value in usable:
            found += bound(function, value)
        for pair in pairs:
            found += bound(function, *pair)
            if function.name in {"between", "coalesce", "if", "in", "greatest", "replace"}:
                found += [*bound(function, *pair, pair[1]), *bound(function, pair[0], *pair)]
    found = list(dict.fromkeys(found))
    assert len(found) > 150
    evaluated(sessions, rows, found)


def test_every_choice_cast_and_window_is_total_on_every_pair_of_types(sessions, rows):
    usable, pairs = pairs_of(rows)
    found = []
    for left, right in pairs:
        with suppress(ShoalError):
            found.append(functions.case([(functions.resolve("is_null", [left]), left)], right, None))
        with suppress(ShoalError):
            name_, taken, type_ = functions.window_result("lag", (left, Literal(1, INTEGER), right), None)
            found.append(
                WindowCall(name_, taken, (Column("s_uid", INTEGER),), (Order(left), Order(right)), None, type_)
            )
    for value, target in itertools.product(usable, {u.type.plain() for u in usable}):
        with suppress(ShoalError):
            found.append(functions.resolve_cast(value, target, None))
    for value, aggregate in itertools.product(usable, functions.OWNER_AGGREGATES):
        with suppress(ShoalError):
            name_, type_ = functions.owner_aggregate(aggregate, [value.type], None)
            found.append(WindowCall(name_, (value,), (Column("s_uid", INTEGER),), (), None, type_))
    assert len(found) > 500
    evaluated(sessions, rows, list(dict.fromkeys(found)))


# ---- relations -----------------------------------------------------------------------------------------------------

RELATIONS = {
    "IN": "SELECT uid FROM t WHERE {a} IN (SELECT {b} FROM p)",
    "NOT IN": "SELECT uid FROM t WHERE {a} NOT IN (SELECT {b} FROM p)",
    "= ANY": "SELECT uid FROM t WHERE uid < 0 OR {a} = ANY (SELECT {b} FROM p)",
    "<> ALL": "SELECT uid FROM t WHERE uid > 0 AND NOT ({a} <> ALL (SELECT {b} FROM p))",
    "IN of a constant type": "SELECT uid FROM t WHERE CASE WHEN uid = 7 THEN {a} END IN (SELECT {b} FROM p WHERE uid = 7)",
    "a scalar": "SELECT uid FROM t WHERE {a} < (SELECT MAX({b}) FROM p)",
    "EXISTS": "SELECT uid FROM t WHERE EXISTS (SELECT 1 FROM p WHERE p.{b} = t.{a})",
    "NOT EXISTS": "SELECT uid FROM t WHERE NOT EXISTS (SELECT 1 FROM p WHERE p.{b} >= t.{a})",
    "JOIN ON": "SELECT t.uid FROM t JOIN p ON t.{a} = p.{b} AND p.uid = 7",
    "LEFT JOIN ON": "SELECT t.uid FROM t LEFT JOIN p ON t.{a} > p.{b}",
    "USING": "SELECT t.uid FROM (SELECT uid, {a} AS x FROM t) t JOIN (SELECT {b} AS x FROM p) p USING (x)",
    "NATURAL": "SELECT t.uid FROM (SELECT uid, {a} AS x FROM t) t NATURAL JOIN (SELECT {b} AS x FROM p) p",
    "FULL JOIN USING": "SELECT uid FROM (SELECT uid, {a} AS x FROM t) FULL JOIN (SELECT uid, {b} AS x FROM t) USING (uid, x)",
    "UNION ALL": "SELECT uid FROM (SELECT uid, {a} AS x FROM t UNION ALL SELECT uid, {b} FROM t) WHERE x = x",
    "UNION": "SELECT uid FROM (SELECT uid, {a} AS x FROM t UNION SELECT uid, {b} FROM t)",
    "INTERSECT": "SELECT uid FROM (SELECT uid, {a} AS x FROM t INTERSECT SELECT uid, {b} FROM t)",
    "EXCEPT": "SELECT uid FROM (SELECT uid, {a} AS x FROM t EXCEPT SELECT uid, {b} FROM t)",
    "HAVING": "SELECT uid FROM (SELECT uid, MAX({a}) AS x, MIN({b}) AS y FROM t GROUP BY uid HAVING MAX({a}) <> MIN({b}))",
    "a group key": "SELECT uid FROM (SELECT uid, {a} AS k, COUNT(DISTINCT {b}) AS n FROM t GROUP BY uid, {a}) WHERE n > 0",
    "QUALIFY": "SELECT uid FROM t QUALIFY MAX({a}) OVER (PARTITION BY uid ORDER BY {b} ROWS 1 PRECEDING) IS NOT NULL",
    "RANGE": "SELECT uid FROM (SELECT uid, COUNT({a}) OVER (PARTITION BY uid ORDER BY {b}) AS x FROM t) WHERE x > 0",
    "CASE x WHEN": "SELECT uid FROM t WHERE CASE {a} WHEN {b} THEN 1 ELSE 0 END = 1",
    "rows in a list": "SELECT uid FROM t WHERE (uid, {a}) IN ((7, {b}), (8, {b}))",
    "BETWEEN": "SELECT uid FROM t WHERE {a} BETWEEN {b} AND {a}",
    "IN a list": "SELECT uid FROM t WHERE {a} IN ({b}, NULL)",
    "NOT IN of the owner": "SELECT uid FROM t WHERE {a} NOT IN (SELECT o.{b} FROM t AS o WHERE o.uid = t.uid)",
    "a value of the owner": "SELECT uid FROM t WHERE {a} = (SELECT MAX(o.{b}) FROM t AS o WHERE o.uid = t.uid)",
    "the owner's least": "SELECT uid FROM t WHERE (SELECT MIN(o.{b}) FROM t AS o WHERE o.uid = t.uid AND o.{a} <> o.{b}) <= {a}",
    "FILTER": "SELECT uid FROM (SELECT uid, COUNT(*) FILTER (WHERE {a} = {b}) AS n FROM t GROUP BY uid) WHERE n > 0",
}
APART = {"a group key", "QUALIFY", "RANGE"}
"""Here the two columns do not meet: any pair is answered."""
ASKED = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM ({})"
AT_ONCE = 24


@pytest.mark.slow
@pytest.mark.parametrize("construct", RELATIONS)
def test_a_relation_between_any_two_types_is_refused_or_answered_alike_on_neighbours(sessions, construct):
    types = dict(sessions[0]._schemas["t"])
    answered = []
    for a, b in itertools.product(NARROW, repeat=2):
        relation = RELATIONS[construct].format(a=a, b=b)
        if construct in APART or common_type([types[a], types[b]]) is not None:
            answered.append(relation)
            continue
        with pytest.raises(ShoalError, match="E_UNSUPPORTED"):
            sessions[0].plan(ASKED.format(relation))
    for start in range(0, len(answered), AT_ONCE):
        together = " UNION ALL ".join(answered[start : start + AT_ONCE])
        faces = [list(session.query(ASKED.format(together)).to_arrow().schema) for session in sessions]
        assert faces[0] == faces[1]


# ---- private SELECTs ------------------------------------------------------------------------------------------------

PRIVATE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=3{}) "
COUNTED = "COUNT(*, contribution_bounds_per_group => (0, 1)) AS n"
VALUES = "COUNT(DISTINCT {a}, max_contributions_per_group => 2) AS v"


def faces_of(sessions, sql):
    return [list(session.query(sql).to_arrow().schema) for session in sessions]


@pytest.mark.slow
@pytest.mark.parametrize("a", NARROW)
def test_a_key_of_any_type_is_grouped_rolled_up_and_counted_alike_on_neighbours(sessions, a):
    grouped = f"{PRIVATE.format('')}{a}, {COUNTED}, {VALUES.format(a=a)} FROM t GROUP BY ROLLUP ({a})"
    faces = faces_of(sessions, grouped)
    assert faces[0] == faces[1]


@pytest.mark.slow
@pytest.mark.parametrize("a", NARROW)
def test_listed_groups_of_any_two_types_are_refused_or_answered_alike_on_neighbours(sessions, a):
    types = dict(sessions[0]._schemas["t"])
    for b in NARROW:
        options = ", group_selection_strategy=PUBLIC_GROUPS"
        listed = f"{PRIVATE.format(options)}p.{b}, {COUNTED} FROM t RIGHT JOIN p ON t.{a} = p.{b} GROUP BY p.{b}"
        if common_type([types[a], types[b]]) is None:
            with pytest.raises(ShoalError, match="E_UNSUPPORTED"):
                sessions[0].plan(listed)
        else:
            faces = faces_of(sessions, listed)
            assert faces[0] == faces[1]
