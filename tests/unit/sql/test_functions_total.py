"""Every function of the allow-list, on every nasty value there is: never an error, and no row sees another."""

from __future__ import annotations

import itertools
import math
from typing import Any

import duckdb
import pytest
from sqlglot import exp

from shoal.plan.expressions import Call, Case, Cast, Column, Expression, Literal
from shoal.plan.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIME, TIMESTAMP, Kind, Type, decimal
from shoal.sql import functions

MONEY = decimal(12, 2)
WIDE = decimal(38, 4)

NASTY: dict[Type, tuple[str, ...]] = {
    BOOLEAN: ("NULL", "true", "false"),
    INTEGER: (
        "NULL", "0", "1", "-1", "2", "7", "12", "31", "2023", "9007199254740993", "2147483648", "-2147483649",
        "9223372036854775807", "-9223372036854775807 - 1", "4294967296", "253402300799", "-62135596801",
    ),
    DOUBLE: (
        "NULL", "0.0", "1.0", "-1.0", "0.5", "-2.5", "'inf'", "'-inf'", "1e308", "-1e308", "5e-324", "1.7976931348623157e308",
        "9007199254740993.0", "1e-300", "709.8", "9223372036854775807.0",
    ),
    MONEY: ("NULL", "0", "0.01", "-9999999999.99", "9999999999.99"),
    WIDE: ("NULL", "0", "9999999999999999999999999999999999.9999", "-9999999999999999999999999999999999.9999"),
    TEXT: (
        "NULL", "''", "'a'", "'  a b '", "'Ünïcödé'", "'日本語'", "'👩‍👩‍👧'", "'%_'", "chr(0)", "repeat('a', 100000)", "repeat('é', 700000)",
        "'2023-02-29'", "'2024-02-29'", "'290000-01-01'", "'infinity'", "'nan'", "'1e400'", "'99999999999999999999'", "'true'",
        "'2024-02-29 12:00:00+02'", "'-inf'", "'(('", "'12:30:00'", "'e' || chr(769)", "'a,b,,c'",
    ),
    DATE: (
        "NULL", "'1970-01-01'", "'2024-02-29'", "'0001-01-01'", "'9999-12-31'", "'290000-01-01'", "'infinity'", "'-infinity'",
        "'5881580-07-10'", "'5877642-06-25 (BC)'", "'0001-01-01 (BC)'",
    ),
    TIMESTAMP: (
        "NULL", "'1970-01-01'", "'2024-02-29 23:59:59.999999'", "'0001-01-01'", "'9999-12-31 23:59:59.999999'", "'infinity'",
        "'-infinity'", "'294247-01-10 04:00:54.775806'", "'290309-12-22 (BC) 00:00:00'", "'1969-12-31 23:59:59.999999'",
    ),
    TIME: ("NULL", "'00:00:00'", "'23:59:59.999999'", "'24:00:00'"),
}  # fmt: skip
COLUMNS = {
    BOOLEAN: "b",
    INTEGER: "i",
    DOUBLE: "d",
    MONEY: "m",
    WIDE: "w",
    TEXT: "s",
    DATE: "t",
    TIMESTAMP: "ts",
    TIME: "c",
}
ROWS_OF_A_GRID = 6000

CONSTANTS: dict[str, tuple[Literal, ...]] = {
    "pattern": tuple(Literal(p, TEXT) for p in ("", "a%", "%_b_%", "a+(b|c)?[0-9]*$", "^$")),
    "regex": tuple(Literal(p, TEXT) for p in ("", "a|b", "^(a+)+$", "[^a-z]{2,3}", ".")),
}


def column(type_: Type) -> Column:
    return Column(COLUMNS[type_], type_)


def compiled(expression: Expression, rename: dict[str, str] | None = None) -> exp.Expression:
    """What the compiler does with an expression."""
    match expression:
        case Column():
            return exp.column((rename or {}).get(expression.symbol, expression.symbol))
        case Literal():
            return functions.literal_form(expression)
        case Call():
            return functions.safe_form(expression, [compiled(a, rename) for a in expression.arguments])
        case Cast():
            return functions.cast_form(compiled(expression.value, rename), expression.value.type, expression.type)
        case Case():
            branches = [exp.If(this=compiled(c, rename), true=compiled(v, rename)) for c, v in expression.branches]
            return exp.Case(ifs=branches, default=compiled(expression.otherwise, rename))
    raise AssertionError(expression)


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as con:
        for type_, values in NASTY.items():
            engine = functions.engine_type(type_)
            rows = ", ".join(f"({n}, CAST({v} AS {engine}))" for n, v in enumerate(values))
            con.execute(f"CREATE TABLE nasty_{COLUMNS[type_]} AS SELECT * FROM (VALUES {rows}) AS v(n, x)")
        yield con


def argument_types(name: str) -> list[tuple[Any, ...]]:
    """Every combination of columns and typical constants that a function may take, found by trying."""
    kinds: list[Expression] = [column(t) for t in NASTY]
    constants: list[Expression] = [
        Literal(3, INTEGER), Literal(-3, INTEGER), Literal(None, INTEGER), Literal("a%", TEXT), Literal("month", TEXT), Literal("hour", TEXT),
        Literal("%Y-%m-%d %H", TEXT), Literal((14, -3, 5_000_000), functions.type_named("INTERVAL") or Type(Kind.INTERVAL)),
        Literal("(a+)(b|c)?", TEXT), Literal("!", TEXT), Literal(2.5, DOUBLE),
    ]  # fmt: skip
    found = []
    for count in range(4):
        for arguments in itertools.product(kinds + constants, repeat=count):
            if count == 3 and not _plausible(name, arguments):
                continue
            try:
                bound = functions.resolve(name, arguments)
            except functions.ShoalError:
                continue
            found.append((arguments, bound))
    return found


def _plausible(name: str, arguments: tuple[Expression, ...]) -> bool:
    """Three arguments of thirty kinds each are too many to try for functions that take anything alike."""
    if name in {"coalesce", "greatest", "least", "concat", "in", "between", "and", "or", "if"}:
        return len({a.type.kind for a in arguments}) == 1 and any(isinstance(a, Column) for a in arguments)
    return any(isinstance(a, Column) for a in arguments)


def grid(columns: list[Column]) -> str:
    """A relation with every combination of nasty values of the given columns."""
    names = [f"c{n}" for n in range(len(columns))]
    tables = ", ".join(f"nasty_{c.symbol} AS t{n}" for n, c in enumerate(columns))
    picked = ", ".join(f"t{n}.x AS {name}" for n, name in enumerate(names))
    return f"SELECT {picked} FROM {tables} ORDER BY ALL LIMIT {ROWS_OF_A_GRID}"


def run(connection: duckdb.DuckDBPyConnection, bound: Expression) -> list[tuple[Any, ...]]:
    """The expression over the whole grid, as one vector after the other."""
    used = _distinct_columns(bound)
    sql = compiled(bound, {c.symbol: f"c{n}" for n, c in enumerate(used)}).sql("duckdb")
    source = grid(used) if used else "SELECT 1 AS c0"
    cast = f"CAST({sql} AS {functions.engine_type(bound.type)})"
    return connection.sql(f"SELECT * FROM (SELECT *, {cast} AS result FROM ({source}))").fetchall()


def _distinct_columns(bound: Expression) -> list[Column]:
    found: dict[str, Column] = {}

    def visit(part: Expression) -> None:
        if isinstance(part, Column):
            found.setdefault(part.symbol, part)
        for child in functions_children(part):
            visit(child)

    visit(bound)
    return list(found.values())


def functions_children(part: Expression) -> tuple[Expression, ...]:
    from shoal.plan.expressions import children

    return children(part)


@pytest.mark.parametrize("name", sorted(set(functions.FUNCTIONS) - {"interval"}))
def test_a_function_never_fails_whatever_the_row_holds(connection, name):
    calls = argument_types(name)
    assert calls, name
    for _, bound in calls:
        if bound.type.kind is Kind.INTERVAL:
            continue
        for *_, value in run(connection, bound):
            assert not (isinstance(value, float) and (math.isnan(value) or str(value) == "-0.0")), (name, bound)
