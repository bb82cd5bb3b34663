"""Every function of the allow-list, on every nasty value there is: never an error, and no row sees another."""

from __future__ import annotations

import functools
import itertools
import random
from typing import Any

import duckdb
import pytest
from function_forms import compiled
from sqlglot import exp

from shoal.errors import ShoalError
from shoal.plan.expressions import Column, Expression, Literal, columns_of
from shoal.plan.types import BOOLEAN, DATE, DOUBLE, INTEGER, INTERVAL, TEXT, TIME, TIMESTAMP, Kind, Type, decimal
from shoal.sql import functions

MONEY = decimal(12, 2)
WIDE = decimal(38, 4)
ROWS_OF_A_GRID = 3000
ROWS_ALONE = 2
CALLS_OF_A_FUNCTION = 40

NASTY: dict[Type, tuple[str, ...]] = {
    BOOLEAN: ("NULL", "true", "false"),
    INTEGER: (
        *("NULL", "0", "1", "-1", "2", "7", "12", "31", "2023", "9007199254740993", "2147483648", "-2147483649"),
        *("9223372036854775807", "-9223372036854775807 - 1", "4294967296", "253402300799", "-62135596801"),
    ),
    DOUBLE: (
        *("NULL", "0.0", "1.0", "-1.0", "0.5", "-2.5", "'inf'", "'-inf'", "1e308", "-1e308", "5e-324", "1e-300"),
        *("1.7976931348623157e308", "9007199254740993.0", "709.8", "9223372036854775807.0"),
    ),
    MONEY: ("NULL", "0", "0.01", "-9999999999.99", "9999999999.99"),
    WIDE: ("NULL", "0", "9999999999999999999999999999999999.9999", "-9999999999999999999999999999999999.9999"),
    TEXT: (
        *("NULL", "''", "'a'", "'  a b '", "'Ünïcödé'", "'日本語'", "'👩‍👩‍👧'", "'%_'", "chr(0)", "'(('", "'a,b,,c'"),
        *("repeat('a', 70000)", "'2023-02-29'", "'2024-02-29'", "'290000-01-01'", "'infinity'", "'nan'", "'-inf'"),
        *("'1e400'", "'99999999999999999999'", "'true'", "'2024-02-29 12:00:00+02'", "'12:30:00'", "'e' || chr(769)"),
    ),
    DATE: (
        *("NULL", "'1970-01-01'", "'2024-02-29'", "'0001-01-01'", "'9999-12-31'", "'290000-01-01'", "'infinity'"),
        *("'-infinity'", "'5881580-07-10'", "'5877642-06-25 (BC)'", "'0001-01-01 (BC)'"),
    ),
    TIMESTAMP: (
        *("NULL", "'1970-01-01'", "'2024-02-29 23:59:59.999999'", "'0001-01-01'", "'9999-12-31 23:59:59.999999'"),
        *("'infinity'", "'-infinity'", "'294247-01-10 04:00:54.775806'", "'290309-12-22 (BC) 00:00:00'"),
        "'1969-12-31 23:59:59.999999'",
    ),
    TIME: ("NULL", "'00:00:00'", "'23:59:59.999999'", "'24:00:00'"),
}
SYMBOLS = {type_: f"x{n}" for n, type_ in enumerate(NASTY)}
COLUMNS: list[Expression] = [Column(SYMBOLS[type_], type_) for type_ in NASTY]
CONSTANTS: list[Expression] = [
    *(Literal(n, INTEGER) for n in (0, 3, -3, None)),
    *(Literal(s, TEXT) for s in ("a%", "month", "hour", "week(friday)", "dayofweek", "%Y-%m-%d %H", "(a+)(b|c)?", "!")),
    Literal(2.5, DOUBLE),
    Literal((14, -3, 5_000_000), INTERVAL),
    Literal((0, 2, 3_600_000_000), INTERVAL),
]


def nasty_tables(con: duckdb.DuckDBPyConnection) -> None:
    """A table with one column for each type."""
    for type_, values in NASTY.items():
        engine = functions.engine_type(type_)
        rows = ", ".join(f"(CAST({v} AS {engine}))" for v in values)
        con.execute(f"CREATE TABLE nasty_{SYMBOLS[type_]} AS SELECT * FROM (VALUES {rows}) AS v(x)")


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as con:
        # the strict setting makes the engine raise where it would else give NaN: guards must come first
        con.execute("SET ieee_floating_point_ops = false")
        nasty_tables(con)
        yield con


@functools.cache
def calls_of(name: str) -> list[Expression]:
    """The function bound to every combination of columns and typical constants that it takes, found by trying."""
    found: dict[Expression, None] = {}
    for count in range(4 if takes_three(name) else 3):
        for arguments in itertools.product(COLUMNS + CONSTANTS, repeat=count):
            if count == 3 and len({a.type.kind for a in arguments if isinstance(a, Column)}) not in {1, 2}:
                continue
            try:
                bound = functions.resolve(name, arguments)
            except ShoalError:
                continue
            if bound.type.kind is not Kind.INTERVAL:
                found[bound] = None
    return random.Random(name).sample(list(found), min(CALLS_OF_A_FUNCTION, len(found)))


def takes_three(name: str) -> bool:
    usage = functions.FUNCTIONS[name].usage
    return (usage.count(",") >= 2 or "BETWEEN" in usage or "ESCAPE" in usage) and "…" not in usage


def grid(bound: Expression) -> str:
    """A relation with every combination of nasty values of the columns in a call."""
    symbols = sorted(columns_of(bound))
    if not symbols:
        return "SELECT 0 AS row_id"
    tables = ", ".join(f"nasty_{symbol} AS t_{symbol}" for symbol in symbols)
    picked = ", ".join(f"t_{symbol}.x AS {symbol}" for symbol in symbols)
    ordered = f"SELECT {picked} FROM {tables} ORDER BY ALL"
    return f"SELECT row_number() OVER () AS row_id, * FROM ({ordered}) LIMIT {ROWS_OF_A_GRID}"


def outcome(connection: Any, bound: Expression, source: str) -> dict[int, Any]:
    """A fingerprint of the result in each row; NaN and −0.0 are told apart from everything else."""
    result = f"CAST({compiled(bound).sql('duckdb')} AS {functions.engine_type(bound.type)})"
    told = "CASE WHEN r IN ('nan', '-0.0') THEN r ELSE md5(r) END"
    if bound.type.kind is not Kind.DOUBLE:
        told = "md5(r)"
    query = f"SELECT row_id, {told} FROM (SELECT row_id, CAST({result} AS VARCHAR) AS r FROM ({source}))"
    return dict(connection.sql(query).fetchall())


@pytest.mark.parametrize("name", sorted(set(functions.FUNCTIONS) - {"interval"}))
def test_a_function_never_fails_and_no_row_sees_another(connection, name):
    calls = calls_of(name)
    assert calls, name
    pick = random.Random(name)
    for bound in calls:
        together = outcome(connection, bound, grid(bound))
        assert not {"nan", "-0.0"} & set(together.values()), bound
        alone = pick.sample(sorted(together), min(ROWS_ALONE, len(together)))
        for row_id in alone:
            one = f"SELECT * FROM ({grid(bound)}) WHERE row_id = {row_id}"
            assert outcome(connection, bound, one) == {row_id: together[row_id]}, bound


@pytest.mark.parametrize("source", NASTY)
@pytest.mark.parametrize("target", [*NASTY, decimal(5, 2), decimal(38, 38), decimal(1, 0)])
def test_a_cast_never_fails(connection, source, target):
    try:
        bound = functions.resolve_cast(Column(SYMBOLS[source], source), target, None)
    except ShoalError:
        return
    together = outcome(connection, bound, grid(bound))
    assert not {"nan", "-0.0"} & set(together.values())


@pytest.mark.parametrize("type_", NASTY)
def test_keys_and_canonical_integers_never_fail(connection, type_):
    column = functions.scan_form(exp.column(SYMBOLS[type_]), type_)
    key = functions.key_form(column, type_).sql("duckdb")
    integer = functions.canonical_integer(column, type_).sql("duckdb")
    source = grid(Column(SYMBOLS[type_], type_))
    rows = connection.sql(f"SELECT CAST({key} AS VARCHAR), {integer} FROM ({source})").fetchall()
    assert all(0 <= n < 2**62 for _, n in rows)


@pytest.mark.parametrize("name", sorted(set(functions.FUNCTIONS) - {"interval"}))
def test_a_function_gives_the_same_without_the_optimizer_and_in_another_order(connection, name):
    for bound in calls_of(name)[::7]:
        together = outcome(connection, bound, grid(bound))
        connection.execute("PRAGMA disable_optimizer")
        try:
            backwards = f"SELECT * FROM ({grid(bound)}) ORDER BY row_id DESC"
            assert outcome(connection, bound, backwards) == together, bound
        finally:
            connection.execute("PRAGMA enable_optimizer")
