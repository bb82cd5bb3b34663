"""Stored columns, constants, casts and group keys; and canonical integers, the same in the engine and in memory."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from shoal.errors import InternalError
from shoal.plan.expressions import Cast, Column, Literal
from shoal.plan.types import BOOLEAN, DATE, DOUBLE, INTEGER, NULL, TEXT, TIME, TIMESTAMP, Kind, Type, decimal
from shoal.sql import functions

T = dt.datetime


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as con:
        yield con


SCANS = [
    ("TINYINT", "-128", INTEGER, -128),
    ("UINTEGER", "4294967295", INTEGER, 4294967295),
    ("UBIGINT", "18446744073709551615", decimal(20, 0), Decimal(18446744073709551615)),
    ("HUGEINT", "170141183460469231731687303715884105727", decimal(38, 0), None),
    ("HUGEINT", "-5", decimal(38, 0), Decimal(-5)),
    ("FLOAT", "0.5", DOUBLE, 0.5),
    ("DOUBLE", "'nan'", DOUBLE, None),
    ("DOUBLE", "'-0.0'", DOUBLE, 0.0),
    ("DOUBLE", "'-inf'", DOUBLE, -math.inf),
    ("DECIMAL(5,2)", "1.5", decimal(5, 2), Decimal("1.50")),
    ("VARCHAR", "'x'", TEXT, "x"),
    ("UUID", "'6F9619FF-8B86-D011-B42D-00C04FC964FF'", TEXT, "6f9619ff-8b86-d011-b42d-00c04fc964ff"),
    ("ENUM('a', 'b')", "'b'", TEXT, "b"),
    ("JSON", "'{\"a\": 1}'", TEXT, '{"a": 1}'),
    ("BOOLEAN", "true", BOOLEAN, True),
    ("DATE", "'2024-02-29'", DATE, dt.date(2024, 2, 29)),
    ("TIME", "'12:30:00'", TIME, dt.time(12, 30)),
    ("TIMESTAMP_S", "'2024-02-29 12:30:00'", TIMESTAMP, T(2024, 2, 29, 12, 30)),
    ("TIMESTAMP_NS", "'2024-02-29 12:30:00.123456789'", TIMESTAMP, T(2024, 2, 29, 12, 30, 0, 123457)),
    ("TIMESTAMPTZ_NS", "'2024-02-29 12:30:00.123456789+02'", TIMESTAMP, T(2024, 2, 29, 10, 30, 0, 123457)),
    ("TIMESTAMP WITH TIME ZONE", "'2024-02-29 12:30:00+02'", TIMESTAMP, T(2024, 2, 29, 10, 30)),
    ("TIMESTAMP WITH TIME ZONE", "'infinity'", TIMESTAMP, None),
]


@pytest.mark.parametrize(("stored", "value", "type_", "expected"), SCANS)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_stored_column_is_scanned_as_one_of_few_types(stored, value, type_, expected, zone):
    found = functions.type_of(stored)
    assert found.plain() == type_
    form = functions.scan_form(exp.column("c"), found).sql("duckdb")
    with duckdb.connect() as con:
        con.execute(f"SET TimeZone = '{zone}'")
        con.execute(f"CREATE TABLE t (c {stored})")
        con.execute(f"INSERT INTO t SELECT CAST({value} AS {stored})")
        (described,) = con.sql("DESCRIBE t").fetchall()
        assert functions.type_of(described[1]).plain() == type_
        ((result, engine_type),) = con.sql(f"SELECT r, typeof(r) FROM (SELECT {form} AS r FROM t)").fetchall()
    assert result == expected
    assert not (isinstance(result, float) and math.copysign(1, result) < 0 and result == 0)
    assert engine_type.replace(",", ", ") == functions.engine_type(type_)


@pytest.mark.parametrize(
    "stored",
    [
        "BLOB",
        "INTEGER[]",
        "STRUCT(a INTEGER)",
        "MAP(VARCHAR, INTEGER)",
        "UNION(a INTEGER)",
        "BIT",
        "INTERVAL",
        "VARIANT",
        "TIME WITH TIME ZONE",
        "ENUM('a', 'b')[]",
        "DECIMAL(5,2)[]",
        "GEOMETRY",
        "",
        "BIGNUM",
        "INTEGER[3]",
    ],
)
def test_types_that_can_spell_equal_values_differently_are_unsupported(stored):
    assert functions.type_of(stored) == Type(Kind.UNSUPPORTED, storage=stored)
    with pytest.raises(InternalError):
        functions.scan_form(exp.column("c"), functions.type_of(stored))


@pytest.mark.parametrize("stored", ["BIGINT", "BOOLEAN", "DECIMAL(12,2)"])
def test_the_plans_own_types_are_scanned_as_they_are(stored):
    assert functions.scan_form(exp.column("c"), functions.type_of(stored)).sql("duckdb") == "c"


@pytest.mark.parametrize(
    ("stored", "kept", "lost"),
    [
        (
            "DATE",
            ["0001-01-01", "2024-02-29", "9999-12-31"],
            ["infinity", "-infinity", "10000-01-01", "0001-12-31 (BC)"],
        ),
        ("TIMESTAMP", ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"], ["infinity", "10000-01-01 00:00:00"]),
        ("TIME", ["00:00:00", "23:59:59.999999"], ["24:00:00"]),
    ],
)
def test_days_and_times_outside_the_calendar_are_scanned_as_missing(stored, kept, lost):
    form = functions.scan_form(exp.column("c"), functions.type_of(stored)).sql("duckdb", normalize_functions=False)
    with duckdb.connect() as con:
        for values, expected in ((kept, True), (lost, False)):
            listed = ", ".join(f"('{value}'::{stored})" for value in values)
            seen = con.sql(f"SELECT ({form}) IS NOT NULL FROM (VALUES {listed}) AS t(c)").fetchall()
            assert seen == [(expected,)] * len(values)


@pytest.mark.parametrize("to", [DATE, TIMESTAMP])
def test_texts_outside_the_calendar_are_cast_to_missing(to):
    form = functions.cast_form(exp.column("c"), TEXT, to).sql("duckdb", normalize_functions=False)
    lost = ["infinity", "-infinity", "0001-12-31 (BC)", "10000-01-01", "290000-01-01"]
    listed = ", ".join(f"('{value}')" for value in (*lost, "2024-02-29"))
    with duckdb.connect() as con:
        seen = con.sql(f"SELECT c FROM (VALUES {listed}) AS t(c) WHERE ({form}) IS NOT NULL").fetchall()
    assert seen == [("2024-02-29",)]


def test_a_declared_collation_makes_no_texts_equal():
    with duckdb.connect() as con:
        con.execute("CREATE TABLE t (c VARCHAR COLLATE NOCASE)")
        con.execute("INSERT INTO t VALUES ('a'), ('A')")
        form = functions.scan_form(exp.column("c"), functions.type_of("VARCHAR")).sql("duckdb")
        assert con.sql(f"SELECT count(DISTINCT k) FROM (SELECT {form} AS k FROM t)").fetchall() == [(2,)]
        assert con.sql(f"SELECT count(*) FROM (SELECT {form} AS k FROM t) GROUP BY k").fetchall() == [(1,), (1,)]


@pytest.mark.parametrize(
    ("written", "type_"),
    [
        *((name, INTEGER) for name in ("INT64", "bigint", "Integer", "smallint", "HUGEINT", "INT")),
        *((name, DOUBLE) for name in ("FLOAT64", "double", "real", "DOUBLE  PRECISION", "float")),
        *((name, TEXT) for name in ("STRING", "text", "VARCHAR", "varchar(10)", "CHAR(3)")),
        *((name, TIMESTAMP) for name in ("DATETIME", "timestamp", "TIMESTAMPTZ")),
        ("BOOL", BOOLEAN),
        ("date", DATE),
        ("time", TIME),
        ("NUMERIC", decimal(38, 9)),
        ("DECIMAL", decimal(18, 3)),
        ("decimal(10)", decimal(10, 0)),
        ("NUMERIC(10, 2)", decimal(10, 2)),
        ("DECIMAL(40, 2)", None),
        ("DECIMAL(2, 5)", None),
        ("BLOB", None),
        ("INTEGER[]", None),
    ],
)
def test_a_cast_names_types_as_several_dialects_do(written, type_):
    assert functions.type_named(written) == type_


LITERALS = [
    Literal(None, NULL),
    Literal(None, DATE),
    Literal(True, BOOLEAN),
    Literal(5, INTEGER),
    Literal(-5, INTEGER),
    Literal(2**63 - 1, INTEGER),
    Literal(-(2**63), INTEGER),
    Literal(0.1, DOUBLE),
    Literal(-1e-300, DOUBLE),
    Literal(5e-324, DOUBLE),
    Literal(1.7976931348623157e308, DOUBLE),
    Literal(math.inf, DOUBLE),
    Literal(-math.inf, DOUBLE),
    Literal('it\'s; -- "x" /* é */', TEXT),
    Literal("", TEXT),
    Literal(dt.date(1, 1, 1), DATE),
    Literal(T(9999, 12, 31, 23, 59, 59, 999999), TIMESTAMP),
    Literal(dt.time(1, 2, 3), TIME),
]


@pytest.mark.parametrize("literal", LITERALS, ids=str)
def test_a_constant_reaches_the_engine_unchanged(literal):
    assert duckdb.sql(f"SELECT {functions.literal_form(literal).sql('duckdb')}").fetchall() == [(literal.value,)]


@settings(max_examples=300, deadline=None)
@given(value=st.floats(allow_nan=False))
def test_every_double_reaches_the_engine_to_the_last_bit(connection, value):
    form = functions.literal_form(Literal(value, DOUBLE)).sql("duckdb")
    assert connection.sql(f"SELECT {form}, typeof({form})").fetchall() == [(value, "DOUBLE")]


@pytest.mark.parametrize(
    ("value", "scale", "expected"),
    [(Fraction(1, 3), 2, "0.33"), (Fraction(-1, 200), 2, "-0.01"), (Fraction(7), 0, "7")],
)
def test_a_decimal_constant_has_its_scale(value, scale, expected):
    form = functions.literal_form(Literal(value, decimal(10, scale))).sql("duckdb")
    assert duckdb.sql(f"SELECT CAST({form} AS VARCHAR)").fetchall() == [(expected,)]


CASTS = [
    ("'12'", TEXT, INTEGER, 12),
    ("'west:7000.0'", TEXT, INTEGER, None),
    ("'99999999999999999999'", TEXT, INTEGER, None),
    ("'zz'", TEXT, BOOLEAN, None),
    ("'true'", TEXT, BOOLEAN, True),
    ("'nan'", TEXT, DOUBLE, None),
    ("'1e5'", TEXT, DOUBLE, 1e5),
    ("'2024-02-30'", TEXT, DATE, None),
    ("'2024-02-29'", TEXT, DATE, dt.date(2024, 2, 29)),
    ("'12:30'", TEXT, TIME, dt.time(12, 30)),
    ("2.5", DOUBLE, INTEGER, 2),
    ("3.5", DOUBLE, INTEGER, 4),
    ("'inf'", DOUBLE, INTEGER, None),
    ("1e19", DOUBLE, INTEGER, None),
    ("1000", DOUBLE, decimal(5, 2), None),
    ("'inf'", DOUBLE, decimal(5, 2), None),
    ("999.99", DOUBLE, decimal(5, 2), Decimal("999.99")),
    ("1.5", DOUBLE, TEXT, "1.5"),
    ("2.50", decimal(5, 2), INTEGER, 3),
    ("true", BOOLEAN, INTEGER, 1),
    ("2", INTEGER, BOOLEAN, True),
    ("'2024-02-29'", DATE, TEXT, "2024-02-29"),
    ("'290000-01-01'", DATE, TIMESTAMP, T(9999, 12, 31)),
    ("'5881580-07-10'", DATE, TIMESTAMP, None),
    ("'2024-02-29 12:30:00'", TIMESTAMP, DATE, dt.date(2024, 2, 29)),
    ("'2024-02-29 12:30:00'", TIMESTAMP, TIME, dt.time(12, 30)),
]


@pytest.mark.parametrize(("value", "source", "target", "expected"), CASTS)
def test_a_cast_gives_the_value_or_null(value, source, target, expected):
    bound = functions.resolve_cast(Column("c", source), target, None)
    assert bound.type == target
    assert isinstance(bound, Cast)
    form = functions.cast_form(exp.column("c"), source, target).sql("duckdb")
    if expected == T(9999, 12, 31):  # Python has no such year: the engine keeps it
        form, expected = f"year({form})", 290000
    ((found,),) = duckdb.sql(
        f"SELECT {form} FROM (SELECT CAST({value} AS {functions.engine_type(source)}) AS c)"
    ).fetchall()
    assert found == expected


def test_casting_a_constant_makes_a_constant():
    assert functions.resolve_cast(Literal(3, INTEGER), DOUBLE, None) == Literal(3.0, DOUBLE)
    assert functions.resolve_cast(Literal("2024-02-29", TEXT), DATE, None) == Literal(dt.date(2024, 2, 29), DATE)
    assert functions.resolve_cast(Literal(None, NULL), TEXT, None) == Literal(None, TEXT)
    assert isinstance(functions.resolve_cast(Literal("2024-02-30", TEXT), DATE, None), Cast)


def test_group_keys_stay_within_the_calendar():
    form = functions.key_form(exp.column("c"), DATE).sql("duckdb")
    days = "VALUES ('infinity'::DATE), ('290000-01-01'), ('2024-02-29'), (NULL)"
    keys = duckdb.sql(f"SELECT {form} AS k FROM ({days}) AS t(c) GROUP BY k ORDER BY k NULLS FIRST").fetchall()
    assert keys == [(None,), (dt.date(2024, 2, 29),)]


CANONICAL: list[tuple[Type, pa.Array]] = [
    (INTEGER, pa.array([0, 1, -1, 2**62, -(2**62), 2**63 - 1, -(2**63), None])),
    (INTEGER, pa.array([1, -1, None], pa.int8())),
    (BOOLEAN, pa.array([True, False, None])),
    (TEXT, pa.array(["", "a", "A", "é", "日本語", "x" * 5000, None, "a"])),
    (TEXT, pa.array(["b", None, "a", "b"]).dictionary_encode()),
    (TEXT, pa.array(["a", None], pa.large_string())),
    (
        DOUBLE,
        pa.array(
            [0.0, -0.0, 1.0, 0.1, 1e16, 1e-5, 5e-324, 1.7976931348623157e308, math.inf, -math.inf, math.nan, None]
        ),
    ),
    (decimal(5, 2), pa.array([Decimal("0.50"), Decimal("-12.00"), Decimal(0), None], pa.decimal128(5, 2))),
    (decimal(2, 2), pa.array([Decimal("0.50"), Decimal("-0.07"), None], pa.decimal128(2, 2))),
    (decimal(38, 10), pa.array([Decimal("0.0000000001"), None], pa.decimal128(38, 10))),
    (DATE, pa.array([dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), None])),
    (TIMESTAMP, pa.array([T(1970, 1, 1), T(1, 1, 1), T(2024, 2, 29, 1, 2, 3, 4), None])),
    (TIMESTAMP, pa.array([0, 499, 500, -500, -501, 2**62, None], pa.timestamp("ns"))),
    (TIMESTAMP, pa.array([1, -1, None], pa.timestamp("s"))),
    (TIME, pa.array([dt.time(0), dt.time(23, 59, 59, 999999), None], pa.time64("us"))),
]


@pytest.mark.parametrize(("type_", "array"), CANONICAL)
def test_canonical_integers_are_the_same_in_the_engine_and_in_memory(type_, array):
    here = functions.canonical_integers(array, type_)
    scanned = functions.scan_form(exp.column("c"), Type(type_.kind, type_.precision, type_.scale)).sql("duckdb")
    form = functions.canonical_integer(exp.column("k"), type_).sql("duckdb")
    with duckdb.connect() as con:
        con.register("t", pa.table({"n": range(len(array)), "c": array}))
        rows = con.sql(f"SELECT {form} FROM (SELECT n, {scanned} AS k FROM t) ORDER BY n").fetchall()
    assert here.tolist() == [value for (value,) in rows]
    assert here.dtype == np.uint64
    assert here.max() < 2**62


@settings(max_examples=50, deadline=None)
@given(values=st.lists(st.floats() | st.none(), min_size=1, max_size=50))
def test_canonical_integers_of_doubles_are_the_same_everywhere(connection, values):
    array = pa.array(values, pa.float64())
    form = functions.canonical_integer(functions.scan_form(exp.column("c"), DOUBLE), DOUBLE).sql("duckdb")
    connection.register("t", pa.table({"n": range(len(values)), "c": array}))
    rows = connection.sql(f"SELECT {form} FROM t ORDER BY n").fetchall()
    assert functions.canonical_integers(array, DOUBLE).tolist() == [value for (value,) in rows]


def test_equal_values_have_equal_canonical_integers_and_dictionaries_do_not_show():
    plain = pa.chunked_array([pa.array(["b", "a"]), pa.array([None, "b"])])
    reordered = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 1]), pa.array(["a", "b"]))
    assert functions.canonical_integers(plain, TEXT).tolist() == functions.canonical_integers(reordered, TEXT).tolist()


def test_a_column_without_values_has_the_canonical_integer_of_null():
    assert set(functions.canonical_integers(pa.nulls(3), NULL).tolist()) == {1983613069789375825}
    assert functions.canonical_integers(pa.array([], pa.string()), TEXT).tolist() == []
