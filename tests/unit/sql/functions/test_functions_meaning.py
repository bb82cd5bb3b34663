"""What functions give, each checked by running its form."""

from __future__ import annotations

import datetime as dt
import math
from fractions import Fraction

import duckdb
import pytest
from function_forms import compiled

from shoal.plan.expressions import Column, Expression, Literal
from shoal.plan.types import BOOLEAN, DATE, DOUBLE, INTEGER, NULL, TEXT, TIME, TIMESTAMP, Type, decimal
from shoal.sql import functions

MAX = 2**63 - 1
D = dt.date
T = dt.datetime


def typed(value: object) -> Literal:
    """A constant of the type that a value of Python suggests."""
    kinds: dict[type, Type] = {
        bool: BOOLEAN,
        int: INTEGER,
        float: DOUBLE,
        str: TEXT,
        D: DATE,
        T: TIMESTAMP,
        dt.time: TIME,
        Fraction: decimal(10, 2),
        type(None): NULL,
    }
    return Literal(value, kinds[type(value)])


def stored(value: object, number: int) -> tuple[Expression, str]:
    """A value as a column, so that nothing is folded when planning."""
    literal = typed(value)
    return Column(f"c{number}", literal.type), functions.literal_form(literal).sql("duckdb")


def evaluate(name: str, *values: object, constants: tuple[int, ...] = ()) -> object:
    """The function over columns that hold the values; `constants` names the places of constant arguments."""
    arguments, cells = [], []
    for number, value in enumerate(values):
        if number in constants or value is None:
            arguments.append(typed(value))
            continue
        argument, cell = stored(value, number)
        arguments.append(argument)
        cells.append(f"{cell} AS {argument.symbol}")
    bound = functions.resolve(name, arguments)
    result = f"CAST({compiled(bound).sql('duckdb')} AS {functions.engine_type(bound.type)})"
    source = f"SELECT {', '.join(cells)}" if cells else "SELECT 1"
    return duckdb.sql(f"SELECT {result} FROM ({source})").fetchall()[0][0]


NUMBERS = [
    ("add", (1, 2), 3),
    ("add", (MAX, 1), None),
    ("subtract", (-MAX, 2), None),
    ("multiply", (3037000500, 3037000500), None),
    ("multiply", (1.5, 2), 3.0),
    ("multiply", (Fraction(5, 2), 2), 5.0),
    ("add", (1e308, 1e308), math.inf),
    ("subtract", (math.inf, math.inf), None),
    ("divide", (1, 2), 0.5),
    ("divide", (1, 0), None),
    ("divide", (0.0, 0.0), None),
    ("divide", (1.0, 5e-324), math.inf),
    ("integer_divide", (-7, 2), -3),
    ("integer_divide", (7, 0), None),
    ("div", (-MAX - 1, -1), None),
    ("modulo", (-7, 2), -1),
    ("mod", (7, 0), None),
    ("modulo", (7.5, 2.0), 1.5),
    ("modulo", (7.5, 0.0), None),
    ("negate", (-MAX - 1,), None),
    ("negate", (0.0,), 0.0),
    ("abs", (-MAX - 1,), None),
    ("abs", (-2.5,), 2.5),
    ("sign", (-0.5,), -1),
    ("round", (2.5,), 3.0),
    ("round", (-2.5,), -3.0),
    ("round", (7,), 7),
    ("floor", (-0.5,), -1.0),
    ("ceil", (-0.5,), 0.0),
    ("trunc", (-1.9,), -1.0),
    ("sqrt", (9,), 3.0),
    ("sqrt", (-1.0,), None),
    ("sqrt", (math.inf,), math.inf),
    ("ln", (0.0,), None),
    ("ln", (-1.0,), None),
    ("log", (1,), 0.0),
    ("log", (8, 2), 3.0),
    ("log", (8, 1), None),
    ("log10", (100,), 2.0),
    ("log10", (0.0,), None),
    ("log2", (8,), 3.0),
    ("pow", (2, 10), 1024.0),
    ("pow", (0, -1), None),
    ("power", (-8.0, 0.5), None),
    ("exp", (1000,), math.inf),
    ("asin", (2.0,), None),
    ("sin", (math.inf,), None),
    ("pi", (), math.pi),
]

LOGIC = [
    ("equal", (1, 1.0), True),
    ("equal", (None, 1), None),
    ("is_distinct_from", (None, 1), True),
    ("is_not_distinct_from", (None, None), True),
    ("less", (D(2024, 1, 1), T(2024, 1, 1, 1)), True),
    ("less", ("B", "a"), True),
    ("equal", ("a", "A"), False),
    ("between", (2, 1, 3), True),
    ("in", (2, 1, None), None),
    ("in", (2, 1, 2, None), True),
    ("and", (True, None), None),
    ("and", (False, None, True), False),
    ("or", (True, None), True),
    ("not", (None,), None),
    ("is_true", (None,), False),
    ("is_not_true", (None,), True),
    ("is_false", (False,), True),
    ("is_not_false", (None,), True),
    ("is_null", (1,), False),
    ("is_not_null", (1,), True),
    ("coalesce", (None, 2, 3), 2),
    ("coalesce", (1, 2.5), 1.0),
    ("ifnull", (None, "x"), "x"),
    ("nullif", (1, 1), None),
    ("nullif", ("a", "b"), "a"),
    ("if", (False, 1), None),
    ("iif", (True, 1, 2.5), 1.0),
    ("greatest", (1, None, 3), 3),
    ("least", (2.5, 1), 1.0),
]

TEXTS = [
    ("concat", ("a", 1, True), "a1true"),
    ("||", ("a", None), None),
    ("concat", ("x", 1.5), "x1.5"),
    ("lower", ("ÄB",), "äb"),
    ("upper", ("äb",), "ÄB"),
    ("length", ("日本語",), 3),
    ("octet_length", ("日本語",), 9),
    ("substring", ("hello", 2, 3), "ell"),
    ("substr", ("hello", -3), "llo"),
    ("substring", ("hello", -MAX - 1, 3), ""),
    ("substring", ("hello", 1, MAX), "hello"),
    ("substring", ("hello", 2, -5), ""),
    ("substring", ("hello", MAX), ""),
    ("left", ("hello", 2), "he"),
    ("left", ("hello", -2), "hel"),
    ("right", ("hello", MAX), "hello"),
    ("trim", ("  a ",), "a"),
    ("ltrim", ("xxa", "x"), "a"),
    ("replace", ("banana", "an", "AN"), "bANANa"),
    ("strpos", ("banana", "nan"), 3),
    ("position", ("banana", "x"), 0),
    ("starts_with", ("banana", "ban"), True),
    ("ends_with", ("banana", "ban"), False),
    ("contains", ("banana", "nan"), True),
    ("reverse", ("abc",), "cba"),
    ("split_part", ("a,b,c", ",", 2), "b"),
    ("split_part", ("a,b,c", ",", 9), ""),
    ("ascii", ("a",), 97),
]

CONSTANT_LAST = [
    ("like", ("banana", "b%a"), True),
    ("like", ("50%", "50!%", "!"), True),
    ("ilike", ("BANANA", "b_nana"), True),
    ("repeat", ("ab", 3), "ababab"),
    ("lpad", ("7", 3, "0"), "007"),
    ("rpad", ("abc", 2), "ab"),
    ("round", (2.345, 2), 2.35),
    ("round", (1234.0, -2), 1200.0),
    ("trunc", (2.349, 2), 2.34),
    ("regexp_matches", ("banana", "(an)+"), True),
    ("regexp_contains", ("banana", "^an"), False),
    ("regexp_full_match", ("banana", "b.*"), True),
    ("regexp_extract", ("order 66!", "[0-9]+"), "66"),
    ("regexp_extract", ("a=1", "([a-z])=([0-9])", 2), "1"),
    ("regexp_extract", ("none", "[0-9]+"), None),
    ("regexp_extract", ("order 66!", "order ([0-9]+)"), "66"),
    ("regexp_extract", ("order 66!", "order ([0-9]+)", 0), "order 66"),
    ("regexp_extract", ("order 66!", "(?:order) [0-9]+"), "order 66"),
    ("regexp_extract", ("a=1", "([a-z])=([0-9])"), "a=1"),
    ("regexp_replace", ("a1b2", "[0-9]", "#"), "a#b#"),
    ("strftime", (D(2024, 2, 29), "%d.%m.%Y"), "29.02.2024"),
    ("strftime", (T(2024, 2, 29, 13, 5), "%F %T"), "2024-02-29 13:05:00"),
    ("strptime", ("29.02.2024", "%d.%m.%Y"), T(2024, 2, 29)),
    ("strptime", ("30.02.2024", "%d.%m.%Y"), None),
    ("date_trunc", (D(2024, 5, 17), "month"), D(2024, 5, 1)),
    ("date_trunc", (D(2024, 5, 17), "WEEK"), D(2024, 5, 13)),
    ("timestamp_trunc", (T(2024, 5, 17, 13, 5), "HOUR"), T(2024, 5, 17, 13)),
    ("date_trunc", (D(2024, 5, 17), "hour"), T(2024, 5, 17)),
    ("date_diff", (D(2024, 3, 1), D(2024, 2, 28), "day"), 2),
    ("date_diff", (T(2024, 3, 1), T(2023, 12, 31), "YEAR"), 1),
    ("timestamp_diff", (T(2024, 3, 1), T(2024, 2, 28, 1), "day"), 1),
    ("timestamp_diff", (T(2024, 2, 28, 1), T(2024, 3, 1), "day"), -1),
]

CONSTANT_FIRST = [
    ("date_trunc", ("quarter", D(2024, 5, 17)), D(2024, 4, 1)),
    ("datediff", ("month", D(2024, 1, 31), D(2024, 3, 1)), 2),
    ("extract", ("year", D(2024, 5, 17)), 2024),
    ("date_part", ("dow", D(2024, 5, 19)), 0),
    ("date_part", ("isodow", D(2024, 5, 19)), 7),
    ("date_part", ("week", D(2024, 12, 30)), 1),
    ("extract", ("isoweek", D(2024, 12, 30)), 1),
    ("extract", ("week", D(2024, 12, 30)), 52),
    ("extract", ("week(monday)", D(2024, 12, 30)), 53),
    ("extract", ("dayofweek", D(2024, 12, 29)), 1),
    ("extract", ("hour", T(2024, 5, 17, 13, 5)), 13),
    ("extract", ("minute", dt.time(13, 5)), 5),
    ("extract", ("date", T(2024, 5, 17, 13, 5)), D(2024, 5, 17)),
    ("extract", ("epoch", T(1970, 1, 2)), 86400.0),
    ("parse_date", ("%Y%m%d", "20240229"), D(2024, 2, 29)),
    ("format_date", ("%b %Y", D(2024, 2, 29)), "Feb 2024"),
]

DATES = [
    ("add", (D(2024, 2, 28), 2), D(2024, 3, 1)),
    ("add", (2, D(2024, 2, 28)), D(2024, 3, 1)),
    ("add", (D(2024, 2, 28), 2_000_000_000), None),
    ("add", (D(2024, 2, 28), MAX), None),
    ("add", (D(9999, 12, 31), 1), None),
    ("subtract", (D(2024, 3, 1), 1), D(2024, 2, 29)),
    ("subtract", (D(2024, 3, 1), -MAX - 1), None),
    ("subtract", (D(2024, 3, 1), D(2024, 2, 1)), 29),
    ("date_add", (D(2024, 3, 1), 1), D(2024, 3, 2)),
    ("date_sub", (D(2024, 3, 1), 1), D(2024, 2, 29)),
    ("year", (T(2024, 5, 17),), 2024),
    ("dayofyear", (D(2024, 12, 31),), 366),
    ("last_day", (D(2024, 2, 1),), D(2024, 2, 29)),
    ("dayname", (D(2024, 5, 17),), "Friday"),
    ("monthname", (D(2024, 5, 17),), "May"),
    ("make_date", (2024, 2, 29), D(2024, 2, 29)),
    ("make_date", (2023, 2, 29), None),
    ("date", (2024, 13, 1), None),
    ("make_date", (MAX, 1, 1), None),
    ("make_date", (0, 1, 1), None),
    ("date", (T(2024, 5, 17, 13),), D(2024, 5, 17)),
    ("date", ("2024-05-17",), D(2024, 5, 17)),
    ("date", ("soon",), None),
    ("timestamp", (D(2024, 5, 17),), T(2024, 5, 17)),
    ("unix_seconds", (T(1969, 12, 31, 23, 59, 59, 999999),), -1),
    ("unix_seconds", (T(9999, 12, 31, 23, 59, 59, 999999),), 253402300799),
    ("unix_millis", (T(1970, 1, 1, 0, 0, 1),), 1000),
    ("unix_micros", (T(1970, 1, 1, 0, 0, 1),), 1_000_000),
    ("unix_date", (D(1970, 1, 3),), 2),
    ("timestamp_seconds", (1,), T(1970, 1, 1, 0, 0, 1)),
    ("timestamp_seconds", (MAX,), None),
    ("timestamp_micros", (-1,), T(1969, 12, 31, 23, 59, 59, 999999)),
    ("epoch", (T(1970, 1, 1, 0, 0, 0, 500000),), 0.5),
]


@pytest.mark.parametrize(("name", "values", "expected"), NUMBERS + LOGIC + TEXTS + DATES)
def test_a_function_over_columns_gives(name, values, expected):
    assert evaluate(name, *values) == expected


@pytest.mark.parametrize(("name", "values", "expected"), CONSTANT_LAST)
def test_a_function_with_a_constant_behind_gives(name, values, expected):
    last = range(2, len(values)) if name in {"date_diff", "timestamp_diff"} else range(1, len(values))
    assert evaluate(name, *values, constants=tuple(last)) == expected


@pytest.mark.parametrize(("name", "values", "expected"), CONSTANT_FIRST)
def test_a_function_with_a_constant_in_front_gives(name, values, expected):
    assert evaluate(name, *values, constants=(0,)) == expected


@pytest.mark.parametrize(("name", "values", "expected"), NUMBERS + LOGIC + TEXTS + DATES)
def test_constants_give_what_columns_give(name, values, expected):
    assert evaluate(name, *values, constants=tuple(range(len(values)))) == expected


INTERVALS = [
    (D(2024, 1, 31), (1, "MONTH"), D(2024, 2, 29), D(2023, 12, 31)),
    (D(2024, 1, 31), (1, "year"), D(2025, 1, 31), D(2023, 1, 31)),
    (D(2024, 1, 31), (90, "days"), D(2024, 4, 30), D(2023, 11, 2)),
    (D(2024, 1, 31), (1, "HOUR"), T(2024, 1, 31, 1), T(2024, 1, 30, 23)),
    (T(2024, 1, 31), (2, "week"), T(2024, 2, 14), T(2024, 1, 17)),
    (D(2024, 1, 31), (10**9, "day"), None, None),
    (T(2024, 1, 31), (10**12, "second"), None, None),
    (T(2024, 1, 31), (10**12, "year"), None, None),
]


@pytest.mark.parametrize(("start", "interval", "later", "earlier"), INTERVALS)
@pytest.mark.parametrize("amount_is_a_column", [False, True])
def test_intervals_move_dates_and_timestamps(start, interval, later, earlier, amount_is_a_column):
    amount, unit = interval
    given = Column("n", INTEGER) if amount_is_a_column else Literal(amount, INTEGER)
    span = functions.resolve_interval(given, unit)
    for name, expected in (("add", later), ("date_add", later), ("subtract", earlier), ("date_sub", earlier)):
        bound = functions.resolve(name, [typed(start), span])
        sql = f"SELECT {compiled(bound).sql('duckdb')} FROM (SELECT CAST({amount} AS BIGINT) AS n)"
        assert duckdb.sql(sql).fetchall() == [(expected,)]


def test_an_interval_may_be_written_as_text():
    span = functions.resolve("interval", [Literal("1 year 2 months -3 days", TEXT)])
    assert span.value == (14, -3, 0)
    assert functions.resolve_interval(Literal("90", TEXT), "DAY").value == (0, 90, 0)


def test_arithmetic_of_constants_is_done_when_planning():
    assert functions.resolve("multiply", [Literal(2, INTEGER), Literal(3, INTEGER)]) == Literal(6, INTEGER)
    assert functions.resolve("negate", [Literal(Fraction(1, 2), decimal(2, 1))]).value == Fraction(-1, 2)
    assert functions.resolve("add", [Literal(MAX, INTEGER), Literal(1, INTEGER)]) == Literal(None, INTEGER)
    infinite = [Literal(math.inf, DOUBLE), Literal(math.inf, DOUBLE)]
    assert functions.resolve("subtract", infinite) == Literal(None, DOUBLE)


def test_the_clock_is_read_when_planning():
    now = T(2026, 5, 1, 12, 30)
    assert functions.fold_environment("CURRENT_DATE", now) == Literal(D(2026, 5, 1), DATE)
    assert functions.fold_environment("now", now) == Literal(now, TIMESTAMP)
    assert functions.fold_environment("random", now) is None


def test_no_text_grows_without_end():
    column = Column("c", TEXT)
    doubled = functions.resolve("concat", [column, column])
    thousand = functions.resolve("repeat", [column, Literal(1000, INTEGER)])
    swollen = functions.resolve("replace", [column, Literal("a", TEXT), Literal("b" * 900, TEXT)])
    pattern = [column, Literal("", TEXT), Literal("b" * 900, TEXT)]
    for bound in (doubled, thousand, swollen, functions.resolve("regexp_replace", pattern)):
        sql = compiled(bound).sql("duckdb")
        for size in (1, 1000, 1_000_000):
            ((length,),) = duckdb.sql(f"SELECT strlen({sql}) FROM (SELECT repeat('a', {size}) AS c)").fetchall()
            assert length is None or length <= 2**20
    assert duckdb.sql(
        f"SELECT {compiled(doubled).sql('duckdb')} FROM (SELECT repeat('a', 600000) AS c)"
    ).fetchall() == [(None,)]


def test_nesting_does_not_multiply_the_text():
    """Guards need their value more than once; a value that is not a column is bound once, so the text grows in step."""
    sizes = []
    expression: Expression = Column("c", DOUBLE)
    for _ in range(8):
        for name in ("sqrt", "ln", "abs"):
            expression = functions.resolve(name, [expression])
        expression = functions.resolve("nullif", [expression, Column("c", DOUBLE)])
        sizes.append(len(compiled(expression).sql("duckdb")))
    assert sizes[-1] < 10 * sizes[0]
    assert duckdb.sql(f"SELECT {compiled(expression).sql('duckdb')} FROM (SELECT 2.0::DOUBLE AS c)").fetchall()


def test_a_long_sum_is_one_flat_sum():
    """A hundred terms nest a hundred calls deep and no deeper, and only the whole is checked for overflow and NaN."""
    for type_, cells in ((INTEGER, f"{MAX} AS c"), (DOUBLE, "'inf'::DOUBLE AS c")):
        expression: Expression = Column("c", type_)
        for _ in range(50):
            expression = functions.resolve("add", [expression, Column("c", type_)])
        for _ in range(50):
            expression = functions.resolve("subtract", [expression, Column("c", type_)])
        sql = compiled(expression).sql("duckdb")
        assert sql.count("TRY_CAST") + sql.count("ISNAN") == 1
        expected = MAX if type_ is INTEGER else None
        assert duckdb.sql(f"SELECT {sql} FROM (SELECT {cells})").fetchall() == [(expected,)]
