"""SELECT WITH POLICY: intervals, the ε for an error, and both after a trip through bytes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from policy_people import ROWS, TABLES, query

import shoal
from shoal.errors import ShoalError


def test_intervals_are_those_of_the_noise(session):
    ends = session.query(query("SUM(age) AS s, COUNT(*) AS n, AVG(age) AS a FROM people", epsilon=1)).intervals(0.95)
    assert ends.columns == ["s", "s_low", "s_high", "n", "n_low", "n_high", "a", "a_low", "a_high"]
    (row,) = ends.to_dicts()
    assert row["s_high"] - row["s"] == row["s"] - row["s_low"] == 30  # ⌈10·ln 20⌉ − 1, one draw of scale 10
    assert row["n_low"] == row["n_high"] == ROWS


def plain_answers(text):
    import duckdb

    with duckdb.connect() as plain:
        plain.register("people", TABLES["people"])
        spelled = text.replace("PERCENTILE_", "QUANTILE_")
        return plain.sql(f"SELECT {spelled}").to_arrow_table().to_pylist()


COVERED = [
    ("nearby_age", "AVG(age) AS x FROM people WHERE age >= 18"),
    ("everything", "ward, AVG(age) AS x FROM people GROUP BY ward ORDER BY ward"),
    ("facts", "age // 50 AS half, AVG(age * 2 - 30) AS x FROM people WHERE age < 100 GROUP BY half ORDER BY half"),
    ("nearby_age", "MEDIAN(age) AS x FROM people"),
    ("everything", "PERCENTILE_DISC(age, 0.9) AS x FROM people"),
    ("everything", "PERCENTILE_CONT(age, 0.25) AS x FROM people WHERE age BETWEEN 20 AND 60"),
    ("tens", "MEDIAN(age) AS x FROM people WHERE ward = 'A'"),
]


@pytest.mark.parametrize(("policy", "text"), COVERED)
def test_intervals_of_averages_and_quantiles_hold_the_exact_value(session, policy, text):
    """30 answers at 90%: fewer than 16 held would be chance in less than one run of a million (binomial, all rows)."""
    exact = [row["x"] for row in plain_answers(text)]
    held = np.zeros(len(exact))
    for _ in range(30):
        rows = session.query(query(text, policy, epsilon=0.2)).intervals(level=0.9).to_dicts()
        held += [row["x_low"] - 1e-3 <= true <= row["x_high"] + 1e-3 for row, true in zip(rows, exact, strict=True)]
        assert all(row["x_low"] - 1e-9 <= row["x"] <= row["x_high"] + 1e-9 for row in rows)
    assert held.min() >= 16


def test_intervals_narrow_with_epsilon_and_widen_with_the_level(session):
    text = "AVG(age) AS a, MEDIAN(age) AS m FROM people WHERE age >= 18"

    def width(column, epsilon, level):
        rows = [session.query(query(text, "everything", epsilon)).intervals(level).to_dicts()[0] for _ in range(5)]
        return np.median([row[f"{column}_high"] - row[f"{column}_low"] for row in rows])

    for column in "am":
        assert width(column, 10, 0.9) < width(column, 0.1, 0.9)
        assert width(column, 0.1, 0.5) < width(column, 0.1, 0.999)


def test_intervals_follow_rows_through_having_order_and_limit(session):
    asked = query("age // 10 AS d, COUNT(*) AS n FROM people GROUP BY d HAVING COUNT(*) > 150 ORDER BY n DESC LIMIT 3")
    rows = session.query(asked).intervals().to_dicts()
    assert len(rows) == 3
    assert all(row["n_low"] <= row["n"] <= row["n_high"] for row in rows)


@pytest.mark.parametrize(
    ("total", "reach", "count", "count_reach", "ends"),
    [
        (10, 2, 10, 1, (8 / 11, 12 / 9)),
        (-10, 2, 10, 1, (-12 / 9, -8 / 11)),
        (0, 2, 10, 1, (-2 / 9, 2 / 9)),
        (10, 2, 1, 1, (4, math.inf)),
        (1, 2, 1, 1, (-math.inf, math.inf)),
        (10, 2, -5, 1, (-math.inf, math.inf)),
    ],
)
def test_a_ratio_lies_between_the_ratios_of_its_ends(total, reach, count, count_reach, ends):
    from shoal.release.policy_clause.intervals import ratio_ends

    assert ratio_ends(total, reach, count, count_reach) == pytest.approx(ends)


@pytest.mark.parametrize(
    ("text", "error", "owners"),
    [
        ("SUM(age) AS s FROM people", 50, None),
        ("ward, COUNT(*) AS n, SUM(age) AS s FROM people WHERE age > 9 GROUP BY ward", 200, None),
        ("AVG(age) AS a FROM people WHERE age >= 18", 1, ROWS),
    ],
)
def test_epsilon_for_an_error_is_the_smallest_that_reaches_it(session, text, error, owners):
    from shoal.release.policy_clause.accuracy import widest

    epsilon = session.epsilon_for(query(text, epsilon=1), error=error, owners=owners)

    def width(at):
        return widest(session._under_policy(query(text), Fraction(at))[0], 0.95, owners)

    assert width(epsilon) <= error < width(epsilon * 0.98)


@pytest.mark.parametrize(
    ("text", "code"),
    [("MEDIAN(age) FROM people", "E_UNSUPPORTED"), ("AVG(age) FROM people", "E_USAGE"), ("1 FROM people", "E_USAGE")],
)
def test_an_error_that_cannot_be_promised_is_refused(session, text, code):
    with pytest.raises(ShoalError) as refused:
        session.epsilon_for(query(text, epsilon=1), error=10)
    assert refused.value.code == code


@pytest.mark.parametrize("policy", ["nearby_age", "tens", "everything"])
def test_answers_read_back_from_bytes_have_the_same_intervals(session, policy):
    asked = "COUNT(*) AS n, AVG(age) AS a, MEDIAN(age) AS m, APPROX_QUANTILES(age, 4) AS q FROM people"
    result = session.query(query(asked, policy, epsilon=0.3))
    again = shoal.Result.from_bytes(result.to_bytes())
    assert again.promise == result.promise
    for level in (0.5, 0.99):
        assert again.intervals(level).to_dicts() == result.intervals(level).to_dicts()
