"""What is not on the list does not exist, and a wrong call says what would be right; errors depend on the text alone."""

from __future__ import annotations

import duckdb
import pytest

from shoal.errors import ShoalError
from shoal.plan.expressions import Column, Expression, Literal
from shoal.plan.types import BOOLEAN, DATE, DOUBLE, INTEGER, INTERVAL, TEXT, TIMESTAMP, Kind, Type, decimal
from shoal.sql import functions

BLOB = Type(Kind.UNSUPPORTED, storage="BLOB")
PLACE = (3, 14)


def refusal(name: str, *arguments: Expression) -> ShoalError:
    with pytest.raises(ShoalError) as caught:
        functions.resolve(name, arguments, PLACE)
    return caught.value


def column(type_: Type) -> Column:
    return Column("c", type_)


def constant(value: str | float, type_: Type) -> Literal:
    return Literal(value, type_)


@pytest.mark.parametrize(
    "name",
    [
        "random",
        "uuid",
        "gen_random_uuid",
        "setseed",
        "nextval",
        "currval",
        "version",
        "current_setting",
        "getenv",
        "current_user",
        "pg_sleep",
        "sleep_ms",
        "read_csv",
        "read_text",
        "pg_read_file",
        "lo_import",
        "dblink_connect",
        "reflect",
        "java_method",
        "raise_error",
        "error",
        "assert_true",
        "my_udf",
        "stats",
        "query",
        "query_table",
        "columns",
        "hash",
        "txid_current",
        "current_database",
        "in_search_path",
        "getvariable",
        "write_log",
        "parse_path",
        "list_value",
        "struct_pack",
        "array_extract",
        "map",
        "unnest",
        "range",
        "generate_series",
        "json_extract",
        "from_base64",
        "encode",
        "sha256",
        "md5",
        "chr",
        "printf",
        "format",
        "invoke",
        "typeof",
        "alias",
        "vector_type",
        "add_parquet_key",
        "sum",
    ],
)
def test_a_function_that_is_not_listed_is_refused(name):
    error = refusal(name.upper(), column(INTEGER))
    assert error.code == "E_FUNCTION_NOT_ALLOWED"
    assert error.position == PLACE
    assert name.upper() in error.message


def test_a_near_miss_is_answered_with_the_right_name():
    assert "SUBSTRING" in str(refusal("substrng", column(TEXT)).hint)


def test_a_hostile_name_is_shown_short_and_printable():
    message = refusal("a\x1b[31m" + "x" * 500, column(TEXT)).message
    assert "\x1b" not in message
    assert len(message) < 200


WRONG = [
    ("add", (column(INTEGER), column(TEXT))),
    ("add", (column(INTEGER),)),
    ("add", (column(DATE), column(DOUBLE))),
    ("add", (column(DATE), column(DATE))),
    ("subtract", (column(INTEGER), column(DATE))),
    ("multiply", (column(DATE), column(INTEGER))),
    ("integer_divide", (column(DOUBLE), column(INTEGER))),
    ("negate", (column(TEXT),)),
    ("sqrt", (column(TEXT),)),
    ("sqrt", (column(BLOB),)),
    ("is_null", (column(BLOB),)),
    ("equal", (column(INTEGER), column(TEXT))),
    ("equal", (column(BLOB), column(BLOB))),
    ("equal", (column(DATE), constant("next week", TEXT))),
    ("equal", (column(DATE), constant("2024-02-30", TEXT))),
    ("equal", (Literal((0, 1, 0), INTERVAL), Literal((0, 1, 0), INTERVAL))),
    ("and", (column(BOOLEAN), column(INTEGER))),
    ("not", (column(INTEGER),)),
    ("in", (column(INTEGER), constant("a", TEXT))),
    ("coalesce", (column(INTEGER), column(TEXT))),
    ("coalesce", ()),
    ("if", (column(INTEGER), column(TEXT))),
    ("concat", (column(BLOB),)),
    ("lower", (column(INTEGER),)),
    ("substring", (column(TEXT), column(DOUBLE))),
    ("repeat", (column(TEXT), column(INTEGER))),
    ("repeat", (column(TEXT), constant(1001, INTEGER))),
    ("repeat", (column(TEXT), constant(-1, INTEGER))),
    ("lpad", (column(TEXT), constant(5, INTEGER), constant("", TEXT))),
    ("lpad", (column(TEXT), constant(5, INTEGER), column(TEXT))),
    ("round", (column(DOUBLE), column(INTEGER))),
    ("round", (column(DOUBLE), constant(400, INTEGER))),
    ("like", (column(TEXT), column(TEXT))),
    ("like", (column(INTEGER), constant("a%", TEXT))),
    ("like", (column(TEXT), constant("a!", TEXT), constant("!", TEXT))),
    ("like", (column(TEXT), constant("a", TEXT), constant("ab", TEXT))),
    ("like", (column(TEXT), constant("a" * 1001, TEXT))),
    ("regexp_matches", (column(TEXT), column(TEXT))),
    ("regexp_matches", (column(TEXT), constant("(", TEXT))),
    ("regexp_extract", (column(TEXT), constant("(a)", TEXT), constant(2, INTEGER))),
    ("regexp_replace", (column(TEXT), constant("(a)", TEXT), constant("\\1", TEXT))),
    ("date_trunc", (column(TEXT), column(DATE))),
    ("date_trunc", (constant("fortnight", TEXT), column(DATE))),
    ("date_trunc", (constant("month", TEXT), column(INTEGER))),
    ("date_diff", (constant("month", TEXT), column(DATE))),
    ("timestamp_diff", (column(TIMESTAMP), column(TIMESTAMP), constant("month", TEXT))),
    ("extract", (constant("nanosecond", TEXT), column(DATE))),
    ("extract", (column(TEXT), column(DATE))),
    ("year", (column(INTEGER),)),
    ("strftime", (column(DATE), column(TEXT))),
    ("strftime", (column(DATE), constant("%z", TEXT))),
    ("strftime", (column(DATE), constant("%Y" * 60, TEXT))),
    ("strptime", (column(INTEGER), constant("%Y", TEXT))),
    ("interval", (column(DOUBLE), constant("day", TEXT))),
    ("interval", (column(INTEGER), constant("moon", TEXT))),
    ("interval", (constant("soon", TEXT),)),
    ("interval", (constant(10**13, INTEGER), constant("day", TEXT))),
    ("date_add", (column(INTEGER), Literal((0, 1, 0), INTERVAL))),
    ("date", (column(DOUBLE),)),
]


@pytest.mark.parametrize(("name", "arguments"), WRONG)
def test_wrong_arguments_are_refused_with_a_sentence(name, arguments):
    error = refusal(name, *arguments)
    assert error.code == "E_UNSUPPORTED"
    assert error.message.endswith(".")
    assert error.position is not None


@pytest.mark.parametrize(
    ("source", "target"),
    [(DATE, INTEGER), (BLOB, TEXT), (TIMESTAMP, DOUBLE), (BOOLEAN, DATE), (DOUBLE, BOOLEAN), (INTEGER, DATE)],
)
def test_a_cast_that_means_nothing_is_refused(source, target):
    with pytest.raises(ShoalError) as caught:
        functions.resolve_cast(column(source), target, PLACE)
    assert caught.value.code == "E_UNSUPPORTED"


@pytest.mark.parametrize(
    "name",
    [
        "first",
        "last",
        "any_value",
        "list",
        "array_agg",
        "string_agg",
        "arg_max",
        "arg_min",
        "mode",
        "histogram",
        "approx_quantile",
        "kahan_sum",
        "product",
    ],
)
def test_an_aggregate_that_depends_on_the_order_of_rows_is_refused(name):
    assert name in functions.AGGREGATE_NAMES
    with pytest.raises(ShoalError) as caught:
        functions.owner_aggregate(name, [TEXT], PLACE)
    assert caught.value.code == "E_FUNCTION_NOT_ALLOWED"


def test_every_aggregate_of_the_engine_is_known_as_one():
    query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
    assert {name for (name,) in duckdb.sql(query).fetchall()} <= functions.AGGREGATE_NAMES


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("sum", [TEXT]),
        ("avg", []),
        ("min", [BLOB]),
        ("bool_and", [INTEGER]),
        ("count", [TEXT, TEXT]),
        ("bit_or", [DOUBLE]),
    ],
)
def test_an_aggregate_of_the_wrong_type_is_refused(name, types):
    with pytest.raises(ShoalError) as caught:
        functions.owner_aggregate(name, types, PLACE)
    assert caught.value.code == "E_UNSUPPORTED"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("lag", ()),
        ("lag", (column(TEXT), column(INTEGER))),
        ("lag", (column(TEXT), constant(-1, INTEGER))),
        ("lag", (column(TEXT), constant(1, INTEGER), constant(1, INTEGER))),
        ("lead", (column(BLOB),)),
        ("ntile", ()),
        ("ntile", (constant(0, INTEGER),)),
        ("row_number", (column(INTEGER),)),
        ("nth_value", (column(INTEGER),)),
        ("nth_value", (column(INTEGER), constant(0, INTEGER))),
    ],
)
def test_a_window_function_with_wrong_arguments_is_refused(name, arguments):
    with pytest.raises(ShoalError) as caught:
        functions.window_result(name, arguments, PLACE)
    assert caught.value.code == "E_UNSUPPORTED"


@pytest.mark.parametrize("name", ["lower", "random", "fill", "string_agg"])
def test_what_is_no_window_function_is_refused(name):
    with pytest.raises(ShoalError) as caught:
        functions.window_result(name, (column(TEXT),), PLACE)
    assert caught.value.code == "E_FUNCTION_NOT_ALLOWED"


def test_an_error_speaks_of_types_and_never_of_constants():
    assert "secret" not in str(refusal("sqrt", constant("secret", TEXT)))
    assert "decimal(5, 2)" in str(refusal("lower", column(decimal(5, 2))))
