"""The engine's own reading of a statement: what must pass, what must not, and that the lists are true of this engine."""

from __future__ import annotations

import itertools
from contextlib import suppress

import duckdb
import pytest
from sqlglot import exp

from shoal.engines.duckdb.checking import reading
from shoal.engines.duckdb.checking.casts import always_casts
from shoal.engines.duckdb.checking.known_calls import BITS, FUNCTIONS
from shoal.engines.duckdb.checking.reading import Reader
from shoal.engines.duckdb.checking.remembered import Remembered
from shoal.engines.duckdb.engine import LOCKDOWN
from shoal.engines.duckdb.rendering import render
from shoal.engines.statements.relations import Compiler, aliased, select
from shoal.errors import InternalError, ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import Column, Literal, ScalarRelation, WindowCall
from shoal.plan.expressions import Order as Ordered
from shoal.plan.nodes import Field
from shoal.plan.types import BOOLEAN, DATE, DOUBLE, INTEGER, INTERVAL, NULL, TEXT, TIME, TIMESTAMP, Kind, decimal
from shoal.sql import functions

TYPES = {
    "i": (INTEGER, "BIGINT"),
    "f": (DOUBLE, "DOUBLE"),
    "m": (decimal(9, 2), "DECIMAL(9, 2)"),
    "h": (decimal(38, 0), "DECIMAL(38, 0)"),
    "s": (TEXT, "VARCHAR"),
    "d": (DATE, "DATE"),
    "t": (TIMESTAMP, "TIMESTAMP"),
    "c": (TIME, "TIME"),
    "b": (BOOLEAN, "BOOLEAN"),
}
OTHERS = [
    ("small", "INTEGER"),
    ("e", "ENUM('x', 'y')"),
    ("z", "TIMESTAMP WITH TIME ZONE"),
    ("ns", "TIMESTAMP_NS"),
    ("u", "UBIGINT"),
]
COLUMNS = [Column(symbol, type_) for symbol, (type_, _) in TYPES.items()]
NUMBERS, WORDS = [Literal(2, INTEGER), Literal(0.5, DOUBLE)], ["a", "month", "week", "%Y-%m"]
CONSTANTS = [*NUMBERS, *(Literal(word, TEXT) for word in WORDS), Literal(None, NULL), Literal((1, 2, 3), INTERVAL)]


@pytest.fixture(scope="module")
def reader():
    made = Reader(LOCKDOWN)
    made.copy(
        {
            "r": [*((symbol, stored) for symbol, (_, stored) in TYPES.items()), *OTHERS],
            "odd": [("g", "GEOMETRY_OF_NOBODY")],
        }
    )
    return made


def read(reader, expressions):
    """Several expressions, as the compiler writes them."""
    compiler = Compiler({})
    items = [aliased(compiler.expression(e), f"x{i}") for i, e in enumerate(expressions)]
    found = reader.check(render(select(items, exp.Table(this=exp.to_identifier("r")))))
    for expression, (name, *sizes) in zip(expressions, found, strict=True):
        type_ = expression.type
        if type_.kind is Kind.INTEGER:
            assert BITS.get(name, 99) <= 64, (name, expression)
        elif type_.kind is Kind.DECIMAL:
            assert (name, *sizes) == ("DECIMAL", type_.precision, type_.scale), expression
        elif type_.kind is not Kind.NULL:
            assert name == functions.engine_type(type_), expression


# ---- what must pass ------------------------------------------------------------------------------------------------


def calls_of(function):
    """Every call of a function with up to two columns or constants, and some with three."""
    few = [Column("i", INTEGER), Column("s", TEXT), Column("d", DATE), *CONSTANTS[:4]]
    pools = [COLUMNS + CONSTANTS] * 2 + [few]
    for arity in range(4):
        for arguments in itertools.product(*([pools[arity - 1]] * arity)):
            with suppress(ShoalError):
                bound = function.bind(function, arguments, None)
                if bound.type.kind is not Kind.INTERVAL and not isinstance(bound, Literal):
                    yield bound


@pytest.mark.parametrize("name", sorted(functions.FUNCTIONS))
def test_every_call_of_a_function_is_read_as_it_was_written(reader, name):
    calls = list(dict.fromkeys(calls_of(functions.FUNCTIONS[name])))
    for start in range(0, len(calls), 100):
        read(reader, calls[start : start + 100])


def test_every_cast_is_read_as_it_was_written(reader):
    casts = []
    for column, (target, _) in itertools.product(COLUMNS, TYPES.values()):
        with suppress(ShoalError):
            casts.append(functions.resolve_cast(column, target, None))
    assert len(casts) > 40
    read(reader, casts)


@pytest.mark.parametrize("name", sorted({*functions.OWNER_AGGREGATES, *functions.WINDOW_FUNCTIONS}))
def test_every_aggregate_and_window_is_read_as_it_was_written(reader, name):
    windows, aggregates = [], []
    for arguments in [
        (),
        *((c,) for c in COLUMNS),
        *((c, Literal(1, INTEGER), c) for c in COLUMNS),
        (COLUMNS[0], NUMBERS[0]),
        (NUMBERS[0],),
    ]:
        with suppress(ShoalError):
            known, taken, type_ = functions.window_result(name, arguments, None)
            windows.append(WindowCall(known, taken, (COLUMNS[0],), (Ordered(COLUMNS[5]),), None, type_))
        with suppress(ShoalError):
            known, type_ = functions.owner_aggregate(name, [a.type for a in arguments], None)
            aggregates += [
                nodes.RowAggregate(known, arguments, type_, distinct) for distinct in (False, bool(arguments))
            ]
    assert windows
    read(reader, windows)
    compiler = Compiler({})
    for aggregate in aggregates:
        table = exp.Table(this=exp.to_identifier("r"))
        reader.check(render(select([aliased(compiler.row_aggregate(aggregate), "x")], table)))


def test_a_value_that_is_a_relation_is_read_as_one_row_at_most(reader):
    listed = nodes.Values(((1,), (2,)), (Field("", "v", INTEGER),))
    read(reader, [ScalarRelation(listed, INTEGER), COLUMNS[0]])


def test_a_join_with_a_condition_of_its_own_is_read(reader):
    reader.check("SELECT x.i FROM r x LEFT JOIN r y ON x.i = y.i AND x.i <> 7 AND y.s IS NULL")


def test_a_column_of_a_type_that_nobody_knows_stops_nothing(reader):
    assert reader.check("SELECT TRY_CAST(g AS BIGINT) FROM odd") == [("BIGINT",)]


# ---- what must not -------------------------------------------------------------------------------------------------

SURPRISES = {
    "a cast that narrows": "SELECT CAST(i AS INTEGER) FROM r",
    "a cast of a text": "SELECT CAST(s AS BIGINT) FROM r",
    "a date that becomes a timestamp": "SELECT CAST(d AS TIMESTAMP) FROM r",
    "an integer among decimals of few digits": "SELECT i FROM r WHERE i IN (SELECT TRY_CAST(0.5 AS DECIMAL(38, 37)))",
    "two types compared": "SELECT d = t FROM r",
    "two types listed": "SELECT d IN (t, t) FROM r",
    "two types between": "SELECT d BETWEEN t AND t FROM r",
    "two types chosen": "SELECT CASE WHEN b THEN d ELSE t END FROM r",
    "two types, the first present": "SELECT COALESCE(d, t) FROM r",
    "two types united": "SELECT d FROM r UNION ALL SELECT t FROM r",
    "two types joined": "SELECT x.i FROM r x JOIN r y ON x.d = y.t",
    "two types joined on text and number": "SELECT x.i FROM r x JOIN r y ON x.s = y.i",
    "a text beside a number": "SELECT s = 1 FROM r",
    "an enum beside a text": "SELECT e = s FROM r WHERE CAST(s AS ENUM('x', 'y')) = e",
    "the default of LAG": "SELECT LAG(d, 1, t) OVER (ORDER BY i) FROM r",
    "a sum of integers that may not fit": "SELECT small * small FROM r",
    "a sum of decimals": "SELECT m + m FROM r",
    "a function that fails": "SELECT error('no') FROM r",
    "a function that fails on some rows": "SELECT strptime(s, '%Y') FROM r",
    "a logarithm in another type": "SELECT factorial(small) FROM r",
    "chance": "SELECT random() FROM r",
    "another chance": "SELECT uuid() FROM r",
    "the clock": "SELECT now() FROM r",
    "today": "SELECT current_date FROM r",
    "a setting": "SELECT current_setting('threads') FROM r",
    "a sequence of its own": "SELECT nextval('q') FROM r",
    "a table that is a function": "SELECT * FROM range(10)",
    "a file": "SELECT * FROM read_csv('/etc/passwd')",
    "a sample": "SELECT i FROM r USING SAMPLE 3",
    "lists of rows": "SELECT unnest(string_split(s, ',')) FROM r",
    "an aggregate that follows physical order": "SELECT string_agg(s, ',') FROM r",
    "the first of many": "SELECT any_value(i) FROM r",
    "sums of doubles": "SELECT sum(f) FROM r",
    "windows that leave rows out": "SELECT sum(i) OVER (ORDER BY i ROWS UNBOUNDED PRECEDING EXCLUDE TIES) FROM r",
    "windows that ignore NULL": "SELECT last_value(i IGNORE NULLS) OVER (ORDER BY i) FROM r",
    "a value of many rows": "SELECT (SELECT i FROM r) FROM r",
    "a value of two rows": "SELECT (SELECT i FROM r LIMIT 2) FROM r",
    "another way to compare texts": "SELECT s COLLATE NOCASE = 'a' FROM r",
    "texts sorted another way": "SELECT s FROM r ORDER BY s COLLATE NOCASE",
    "a structure": "SELECT {'a': i} FROM r",
    "no table": "SELECT * FROM nowhere",
    "no query": "DROP TABLE r",
    "no SQL": "SELECT FROM WHERE",
    "two statements": "SELECT 1; SELECT 2",
    "nothing": "",
    "a constant that is no date": "SELECT d = CAST('2026-02-30' AS DATE) FROM r",
    "a constant that does not fit": "SELECT CAST(5000000000 AS INTEGER) = small FROM r",
}


@pytest.mark.parametrize("statement", SURPRISES.values(), ids=SURPRISES.keys())
def test_a_statement_that_is_read_differently_is_a_surprise(reader, statement):
    with pytest.raises(InternalError):
        reader.check(statement)


def test_a_macro_of_the_same_name_is_no_built_in(reader):
    made = Reader(())
    made.copy({"r": [("i", "BIGINT")]})
    made._connection.execute("CREATE MACRO sqrt(x) AS random()")
    with pytest.raises(InternalError):
        made.check("SELECT sqrt(i) FROM r")


def test_types_that_were_read_before_are_not_forgotten_while_new_texts_are_read(monkeypatch):
    """What is new pushes the oldest out, also where the same question asks for it."""
    monkeypatch.setattr(reading, "REMEMBERED_TEXTS", 2)
    made = Reader(LOCKDOWN)
    assert made.check_all(["SELECT 'a'"]) == [[("VARCHAR",)]]
    read = made.check_all(["SELECT 'a'", *(f"SELECT {n}" for n in range(4)), "SELECT 'a'"])
    assert read == [[("VARCHAR",)], *([[("INTEGER",)]] * 4), [("VARCHAR",)]]


def test_what_is_asked_for_is_remembered_longest():
    kept = Remembered(2)
    kept.add("old", 1)
    kept.add("new", 2)
    assert kept.get("old") == 1
    kept.add("newest", 3)
    assert (kept.get("old"), kept.get("new"), "newest" in kept) == (1, None, True)


# ---- that the lists are true ---------------------------------------------------------------------------------------

EXTREMES = {
    **{name: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for name, bits in BITS.items() if not name.startswith("U")},
    **{name: (0, 2**bits - 1) for name, bits in BITS.items() if name.startswith("U")},
    "BOOLEAN": ("true", "false"),
    "FLOAT": ("-3.4e38", "inf", "nan"),
    "DOUBLE": ("-1.7e308", "inf", "nan", "5e-324"),
    "DECIMAL(4, 1)": ("-999.9", "999.9"),
    "DECIMAL(38, 10)": ("-" + "9" * 28 + "." + "9" * 10, "9" * 28 + "." + "9" * 10),
    "DECIMAL(38, 0)": ("9" * 38, "-" + "9" * 38),
    "VARCHAR": ("", "é"),
    "DATE": ("5881580-07-10", "-infinity", "0001-01-01"),
    "TIMESTAMP": ("294247-01-10 04:00:54", "infinity"),
    "TIME": ("24:00:00", "00:00:00"),
    "BIT": ("1",),
}


def as_named(type_):
    name, _, sizes = type_.partition("(")
    return (name, *(int(size) for size in sizes.rstrip(")").split(",") if size))


def test_a_cast_that_is_said_to_have_a_value_for_every_value_has_one_for_the_outermost():
    tried = 0
    for source, target in itertools.product(EXTREMES, repeat=2):
        if always_casts(as_named(source), as_named(target)):
            tried += 1
            for value in EXTREMES[source]:
                # An error would end the test; a value that is lost would be NULL.
                ((found,),) = duckdb.execute(
                    f"SELECT CAST(CAST('{value}' AS {source}) AS {target}) IS NOT NULL"
                ).fetchall()
                assert found, (source, target, value)
    assert tried > 60


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("BIGINT", "INTEGER"),
        ("BIGINT", "UBIGINT"),
        ("UBIGINT", "BIGINT"),
        ("DOUBLE", "BIGINT"),
        ("DATE", "TIMESTAMP"),
        ("VARCHAR", "BIGINT"),
        ("BIGINT", "DECIMAL(18, 0)"),
        ("DECIMAL(4, 1)", "DECIMAL(4, 2)"),
        ("DOUBLE", "FLOAT"),
        ("TIMESTAMP", "DATE"),
        ("HUGEINT", "DECIMAL(38, 0)"),
        ("DECIMAL(4, 1)", "DECIMAL(38, 0)"),
        ("TIME", "TIMESTAMP"),
    ],
)
def test_a_cast_that_loses_values_is_not_among_them(source, target):
    assert not always_casts(as_named(source), as_named(target))


def test_nothing_volatile_and_nothing_of_the_environment_is_on_the_list():
    rows = duckdb.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
    ).fetchall()
    volatile = {name for (name,) in rows}
    assert volatile > {"random", "nextval"}
    assert not volatile & {name for name, _ in FUNCTIONS}


# ---- that nothing is read ------------------------------------------------------------------------------------------


def test_the_copy_is_empty_and_locked(reader):
    assert reader._connection.execute("SELECT count(*) FROM r").fetchone() == (0,)
    for statement in ("SET lock_configuration = false", "ATTACH 'somewhere.db'", "INSTALL httpfs"):
        with pytest.raises(duckdb.Error):
            reader._connection.execute(statement)
