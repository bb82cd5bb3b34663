"""Sums of whole numbers are whole, however a column stores them; what is beyond 64 bits counts as the end of them."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

import shoal

OWNERS = 400
HUGE = 2**64 - 1
FIVES = 10 + sum(n % 5 for n in range(1, OWNERS))
SEVENS = sum(n % 7 for n in range(OWNERS))
LARGE_SEVENS = sum(n % 7 for n in range(OWNERS) if n % 7 > 3)
CATALOG = {"tables": {"t": {"owner": "uid", "columns": {"small": {"bounds": [0, 6]}}}}}


@pytest.fixture(scope="module")
def session():
    number = range(OWNERS)
    table = pa.table(
        {
            "uid": list(number),
            "unsigned": pa.array([HUGE if n == 0 else n % 5 for n in number], pa.uint64()),
            "small": pa.array([Decimal(n % 7) for n in number], pa.decimal128(12, 0)),
            "wide": pa.array([Decimal(-(10**30)) if n == 0 else Decimal(1) for n in number], pa.decimal128(38, 0)),
            "money": pa.array([Decimal("0.25")] * OWNERS, pa.decimal128(12, 2)),
        }
    )
    with shoal.connect({"t": table}, catalog=CATALOG) as opened:
        yield opened


def answer(session, call: str, options: str = ""):
    """At ε = 10⁵ the noise of a whole sum is 0 with a chance of 1 - e⁻²⁰⁰⁰ at least."""
    found = session.query(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 100000{options}) {call} AS n FROM t")
    return found.to_arrow().schema.field("n").type, found["n"][0]


@pytest.mark.parametrize(
    ("call", "options", "expected"),
    [
        ("SUM(unsigned, contribution_bounds_per_group => (0, 10))", "", FIVES),
        ("SUM(unsigned, contribution_bounds_per_group => (0, 10))", ", max_rows_contributed = 2", FIVES),
        ("SUM(wide, contribution_bounds_per_group => (-10, 10))", "", OWNERS - 1 - 10),
        ("SUM(small)", "", SEVENS),
        ("SUM(small, contribution_bounds_per_group => (0, 9)) FILTER (WHERE small > 3)", "", LARGE_SEVENS),
        ("ROUND(SUM(small))", "", SEVENS),
    ],
)
def test_a_sum_of_decimals_without_places_is_an_integer(session, call, options, expected):
    assert answer(session, call, options) == (pa.int64(), expected)


def test_a_sum_of_decimals_with_places_is_a_double(session):
    type_, value = answer(session, "SUM(money, contribution_bounds_per_group => (0, 1))")
    assert type_ == pa.float64()
    assert value == pytest.approx(OWNERS / 4, abs=0.01)


def test_bounds_of_the_catalog_stay_those_of_the_column(session):
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, max_groups_contributed = 1)"
    (column,) = session.plan(f"{clause} SUM(small) FROM t").selects[0].columns
    assert (column.call.bounds.lower, column.call.bounds.upper, column.call.bounds_source) == (0, 6, "catalog")
