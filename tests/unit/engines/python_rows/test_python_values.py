"""Values between Arrow and Python: what fits its type stays what it is, and everything else is NULL."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.engines.python_rows.values import ValueType, column_of, values_of

KINDS = ["boolean", "integer", "double", "text", "date", "timestamp", "time"]
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(),
    st.binary(),
    st.dates(),
    st.datetimes(timezones=st.none() | st.just(dt.UTC)),
    st.times(),
    st.decimals(),
    st.fractions(),
    st.lists(st.integers(), max_size=2),
    st.just(object()),
    st.just(np.int64(5)),
    st.just("\ud800"),
)


@settings(deadline=None, max_examples=300)
@given(st.lists(ANYTHING, max_size=6), st.sampled_from([*map(ValueType, KINDS), ValueType("decimal", 9, 2)]))
def test_any_values_become_a_column_of_the_declared_type(values, type_):
    column = column_of(values, type_)
    assert column.type == type_.arrow
    assert len(column) == len(values)
    again = column_of(values_of(column), type_)
    assert again.equals(column)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_whole_numbers_come_back_as_they_are(values):
    assert values_of(column_of(values, ValueType("integer"))) == values


@settings(deadline=None, max_examples=200)
@given(st.lists(st.none() | st.dates() | st.datetimes()))
def test_dates_and_instants_are_told_apart(values):
    dates = [v if type(v) is dt.date else None for v in values]
    instants = [v if isinstance(v, dt.datetime) else None for v in values]
    assert values_of(column_of(values, ValueType("date"))) == dates
    assert values_of(column_of(values, ValueType("timestamp"))) == instants


@pytest.mark.parametrize(
    ("kind", "value", "kept"),
    [
        ("integer", True, None),
        ("integer", 5.0, None),
        ("integer", np.int32(5), 5),
        ("integer", 2**63, None),
        ("double", 5, 5.0),
        ("double", Fraction(1, 4), 0.25),
        ("double", Decimal("0.5"), 0.5),
        ("double", math.nan, None),
        ("double", math.inf, math.inf),
        ("double", 10**400, None),
        ("double", "5", None),
        ("boolean", 1, None),
        ("boolean", np.bool_(True), True),
        ("text", b"a", None),
        ("text", "\ud800", None),
        ("text", "日本\0", "日本\0"),
        (
            "timestamp",
            dt.datetime(2024, 1, 1, 5, tzinfo=dt.timezone(dt.timedelta(hours=2))),
            dt.datetime.fromisoformat("2024-01-01 03:00"),
        ),
        ("timestamp", dt.date(2024, 1, 1), None),
        ("time", dt.time(5, tzinfo=dt.UTC), None),
    ],
)
def test_what_fits_is_kept_and_what_does_not_is_missing(kind, value, kept):
    assert column_of([value], ValueType(kind)).to_pylist() == [kept]


@pytest.mark.parametrize(
    ("value", "kept"),
    [("1.25", "1.3"), ("-1.25", "-1.3"), ("999.94", "999.9"), ("999.95", None), ("NaN", None), ("Infinity", None)],
)
def test_decimals_are_rounded_as_a_cast_rounds_them(value, kept):
    expected = None if kept is None else Decimal(kept)
    assert column_of([Decimal(value)], ValueType("decimal", 4, 1)).to_pylist() == [expected]


def test_values_of_reads_every_type_of_a_record():
    column = pa.array([Decimal("1.50"), None], pa.decimal128(5, 2))
    assert values_of(column) == [Decimal("1.50"), None]
    assert values_of(pa.array([True, None])) == [True, None]
    assert values_of(pa.array(["a", None])) == ["a", None]
    assert values_of(pa.array([dt.time(1, 2), None], pa.time64("us"))) == [dt.time(1, 2), None]


class Zone(dt.tzinfo):
    """A zone whose code raises what nobody expects."""

    def utcoffset(self, _):
        raise KeyboardInterrupt


class Instant(dt.datetime):
    """An instant that says it has no zone, and has one."""

    @property
    def tzinfo(self):
        return None


class Number(float):
    """A number that ends the process when it is read."""

    def __float__(self):
        raise SystemExit


def test_code_of_a_values_class_can_only_make_it_missing():
    aware = Instant(2024, 1, 2, 3, 4, 5, 6, tzinfo=Zone())
    assert column_of([Number(1.5), 2.5], ValueType("double")).to_pylist() == [None, 2.5]
    assert column_of([dt.datetime(2024, 1, 2, tzinfo=Zone())], ValueType("timestamp")).to_pylist() == [None]
    assert column_of([aware], ValueType("timestamp")).to_pylist() == [dt.datetime(2024, 1, 2, 3, 4, 5, 6)]  # noqa: DTZ001 - as it is kept


def test_whether_there_is_memory_is_not_a_matter_of_one_value():
    class Greedy(float):
        def __float__(self):
            raise MemoryError

    with pytest.raises(MemoryError):
        column_of([Greedy(1)], ValueType("double"))
