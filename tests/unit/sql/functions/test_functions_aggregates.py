"""Aggregates and windows over one owner's rows: exact, total, and blind to the order of rows."""

from __future__ import annotations

import itertools
import math
import statistics
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pytest
from sqlglot import exp

from shoal.plan.expressions import Column, Literal
from shoal.plan.types import BOOLEAN, DATE, DOUBLE, INTEGER, NULL, TEXT, TIME, TIMESTAMP, Type, decimal
from shoal.sql import functions

MAX = 2**63 - 1
GRID = Fraction(1, 2**30)
TYPES = {"i": INTEGER, "d": DOUBLE, "m": decimal(38, 4), "s": TEXT, "b": BOOLEAN, "t": DATE, "z": TIMESTAMP, "c": TIME}
ROWS = 1200


@pytest.fixture(scope="module")
def connection():
    """Owners 0 to 6 with nasty rows, in two orders; owner 7 has only NULLs."""
    with duckdb.connect() as con:
        con.execute(
            f"""CREATE TABLE forwards AS SELECT
              CAST(n % 7 AS BIGINT) AS owner,
              CASE n % 5 WHEN 0 THEN NULL WHEN 1 THEN {MAX} WHEN 2 THEN -{MAX} ELSE n END AS i,
              CASE n % 11 WHEN 0 THEN 'inf' WHEN 1 THEN '-inf' WHEN 2 THEN NULL WHEN 3 THEN 1e308 WHEN 4 THEN -1e308
                WHEN 5 THEN 5e-324 ELSE sin(n) * pow(10, n % 20 - 9) END::DOUBLE AS d,
              CASE n % 3 WHEN 0 THEN '9999999999999999999999999999999999.9999' ELSE n::VARCHAR END::DECIMAL(38, 4) AS m,
              CASE n % 4 WHEN 0 THEN NULL ELSE 'é' || (n % 9) END AS s,
              n % 6 = 0 AS b,
              CASE n % 9 WHEN 0 THEN 'infinity' WHEN 1 THEN '290000-01-01'
                ELSE DATE '2024-01-01' + (n % 50)::INTEGER END::DATE AS t,
              CASE n % 9 WHEN 0 THEN 'infinity' ELSE TIMESTAMP '2024-01-01' + to_hours(n % 50) END::TIMESTAMP AS z,
              CASE n % 9 WHEN 0 THEN '24:00:00' ELSE '12:00:00' END::TIME AS c
            FROM range({ROWS}) AS r(n)
            UNION ALL SELECT 7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM range(3)"""
        )
        con.execute("CREATE TABLE backwards AS SELECT * FROM forwards ORDER BY hash(forwards)")
        yield con


def form(name: str, symbol: str | None, *, distinct: bool = False) -> tuple[str, Type]:
    types = [TYPES[symbol]] if symbol else []
    known, result = functions.owner_aggregate(name, types, None)
    arguments: list[exp.Expr] = [exp.column(symbol)] if symbol else []
    return functions.owner_aggregate_form(known, arguments, types, distinct).sql("duckdb"), result


def every_aggregate() -> list[tuple[str, str | None]]:
    found: list[tuple[str, str | None]] = [("count", None)]
    for name, symbol in itertools.product(functions.OWNER_AGGREGATES, TYPES):
        try:
            functions.owner_aggregate(name, [TYPES[symbol]], None)
        except functions.ShoalError:
            continue
        found.append((name, symbol))
    return found


@pytest.mark.parametrize(("name", "symbol"), every_aggregate())
@pytest.mark.parametrize("distinct", [False, True])
def test_an_aggregate_never_fails_and_does_not_see_the_order_of_rows(connection, name, symbol, distinct):
    sql, result = form(name, symbol, distinct=distinct and symbol is not None)
    cast = f"CAST(CAST({sql} AS {functions.engine_type(result)}) AS VARCHAR)"
    queries = [
        f"SELECT owner, {cast} FROM {table} GROUP BY owner ORDER BY owner" for table in ("forwards", "backwards")
    ]
    forwards, backwards = (connection.sql(query).fetchall() for query in queries)
    assert forwards == backwards
    assert not {"nan", "-0.0", "inf", "-inf"} & {value for _, value in forwards} or name in {"min", "max", "median"}
    connection.execute("SET threads = 1")
    assert connection.sql(queries[1]).fetchall() == forwards
    connection.execute("RESET threads")
    assert connection.sql(f"SELECT {cast} FROM forwards WHERE false").fetchall() == [
        ("0" if "count" in name else None,)
    ]


def one(values: list[object], name: str, type_: Type, **options: object) -> object:
    rows = ", ".join(
        f"(CAST({'NULL' if v is None else repr(str(v))} AS {functions.engine_type(type_)}))" for v in values
    )
    sql = functions.owner_aggregate_form(name, [exp.column("x")], [type_], **options).sql("duckdb")
    return duckdb.sql(f"SELECT {sql} FROM (VALUES {rows}) AS t(x)").fetchall()[0][0]


def test_a_sum_of_integers_is_exact_or_null():
    assert one([MAX, -MAX, MAX], "sum", INTEGER) == MAX
    assert one([MAX, 1], "sum", INTEGER) is None
    assert one([1, None, 2], "sum", INTEGER) == 3
    assert one([None], "sum", INTEGER) is None


def test_a_sum_of_reals_is_the_sum_of_grid_steps():
    values = np.random.default_rng(3).normal(0, 1e6, 2000).tolist()
    exact = sum(math.floor(v * 2**30 + 0.5) for v in values) * GRID
    assert one(values, "sum", DOUBLE) == float(exact)
    assert one([0.1] * 10, "sum", DOUBLE) == pytest.approx(1, abs=10 * float(GRID))


def test_a_sum_of_reals_saturates_row_by_row():
    assert one([math.inf, -math.inf, 2.0], "sum", DOUBLE) == 2.0
    assert one([1e308, 1e308], "sum", DOUBLE) == 2.0**61


def test_a_mean_is_exact_up_to_its_last_rounding():
    assert one([MAX, MAX], "avg", INTEGER) == float(MAX)
    assert one([1, 2, None], "avg", INTEGER) == 1.5
    assert one([1.25, 2.75], "avg", DOUBLE) == 2.0
    assert one([Decimal("1.10"), Decimal("2.20")], "avg", decimal(5, 2)) == pytest.approx(1.65, abs=1e-8)
    assert one([None], "avg", DOUBLE) is None


def test_the_spread_of_rows():
    values = [1.5, 2.5, 4.0, 10.0]
    assert one(values, "var_pop", DOUBLE) == pytest.approx(statistics.pvariance(values))
    assert one(values, "stddev_samp", DOUBLE) == pytest.approx(statistics.stdev(values))
    assert one([math.inf, -math.inf], "stddev_pop", DOUBLE) == 2.0**60
    assert one([5.0], "var_samp", DOUBLE) is None
    assert functions.owner_aggregate("variance", [DOUBLE], None) == ("var_samp", DOUBLE)


def test_the_other_aggregates():
    assert one([3, 1, None, 2, 2], "median", INTEGER) == 2.0
    assert one(["b", "a", "B", None], "min", TEXT) == "B"
    assert one([True, None, False], "bool_and", BOOLEAN) is False
    assert one([True, None, False], "count_if", BOOLEAN) == 1
    assert one([1, 1, None, 2], "count", INTEGER, distinct=True) == 2
    assert one([1, 1, 2], "sum", INTEGER, distinct=True) == 3
    assert one([5, 3], "bit_xor", INTEGER) == 6
    assert one([1, 2, 3], "sum", INTEGER, condition=exp.GT(this=exp.column("x"), expression=exp.Literal.number(1))) == 5
    assert (
        one([1, 2, 3], "avg", INTEGER, condition=exp.GT(this=exp.column("x"), expression=exp.Literal.number(1))) == 2.5
    )


def over(call: exp.Expr) -> exp.Expr:
    """By owner, in the order of all columns, as the binder writes it."""
    order = exp.Order(expressions=[exp.Ordered(this=exp.column(c)) for c in ("d", *TYPES)])
    return exp.Window(this=call, partition_by=[exp.column("owner")], order=order)


WINDOWS = [
    *((name, ()) for name in ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist")),
    ("ntile", (Literal(4, INTEGER),)),
    *(
        (name, (Column(symbol, type_),))
        for name in ("lag", "first_value", "last_value")
        for symbol, type_ in TYPES.items()
    ),
    ("lag", (Column("i", INTEGER), Literal(2, INTEGER), Literal(0, INTEGER))),
    ("lead", (Column("d", DOUBLE), Literal(1_000_000, INTEGER), Literal(1, INTEGER))),
    ("lag", (Column("i", INTEGER), Literal(0, INTEGER))),
    ("nth_value", (Column("s", TEXT), Literal(3, INTEGER))),
    *((name, (Column("d", DOUBLE),)) for name in ("sum", "avg", "min", "max", "median", "stddev", "count")),
    ("count", ()),
    ("sum", (Column("i", INTEGER),)),
]


@pytest.mark.parametrize(("name", "arguments"), WINDOWS)
def test_a_window_never_fails_and_does_not_see_the_order_of_rows(connection, name, arguments):
    known, taken, result = functions.window_result(name, arguments, None)
    compiled = [
        functions.literal_form(a) if isinstance(a, Literal) else exp.column(a.symbol) for a in taken
    ]  # fmt: skip
    sql = functions.window_form(known, compiled, [a.type for a in taken], over).sql("duckdb")
    cast = f"CAST(CAST({sql} AS {functions.engine_type(result)}) AS VARCHAR)"
    queries = [f"SELECT owner, {cast} AS w FROM {table} ORDER BY ALL" for table in ("forwards", "backwards")]
    forwards, backwards = (connection.sql(query).fetchall() for query in queries)
    assert forwards == backwards
    assert len(forwards) == ROWS + 3


def test_window_functions_say_whether_they_need_an_order():
    assert functions.needs_order("ROW_NUMBER")
    assert functions.needs_order("lag")
    assert not functions.needs_order("sum")


def test_the_default_of_lag_has_the_type_of_the_value():
    _, arguments, result = functions.window_result(
        "LAG", (Column("d", DOUBLE), Literal(1, INTEGER), Literal(0, INTEGER)), None
    )
    assert arguments[2] == Literal(0.0, DOUBLE)
    assert result == DOUBLE
    assert functions.window_result("lead", (Literal(None, NULL),), None)[2] == NULL
