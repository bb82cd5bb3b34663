"""Ratios, differences, ROUND and other expressions over aggregates have intervals: drawn from the noise, the same every time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.release.computed.draws import Ladder, _wherever

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, kappa = 1, noise = LAPLACE)"
COUNT, TOTAL = "COUNT(*, contribution_bounds_per_group => (0, 2))", "SUM(x, contribution_bounds_per_group => (0, 40))"
OWNERS = 2000


@pytest.fixture(scope="module")
def session():
    """Two rows of each owner, in one of four groups."""
    number = np.arange(2 * OWNERS)
    table = pa.table({"uid": number // 2, "g": number // 2 % 4, "x": (number % 10).astype(float)})
    names = pa.table({"g": np.arange(4), "name": ["a", "b", "c", "d"], "size": [1.0, 2.0, 4.0, 8.0]})
    catalog = {"tables": {"t": {"owner": "uid"}, "names": {"public": True}}}
    return shoal.connect({"t": table, "names": names}, catalog=catalog)


def row(session, sql, level=0.95):
    return session.query(sql).intervals(level).to_dicts()[0]


@pytest.mark.parametrize(
    "value",
    [f"{TOTAL} / {COUNT}", f"{TOTAL} - {COUNT}", f"ROUND({COUNT} / 3.0, 2)", f"CASE WHEN {COUNT} > 9 THEN {COUNT} * 2 ELSE 0 END"],
)  # fmt: skip
def test_what_is_computed_from_noisy_numbers_has_an_interval(session, value):
    result = session.query(f"{CLAUSE} {value} AS v FROM t")
    found = result.intervals().to_dicts()[0]
    assert found["v_low"] < found["v"] < found["v_high"]
    assert "no interval" not in " ".join(result.notes)


def test_intervals_of_a_linear_expression_are_those_of_the_number(session):
    found = row(session, f"{CLAUSE} {COUNT} AS n, 3 * {COUNT} + 1 AS v FROM t")
    for end in ("low", "high"):
        assert found[f"v_{end}"] == pytest.approx(
            3 * found[f"n_{end}"] + 1, abs=0.25 * 3 * (found["n_high"] - found["n"])
        )


def test_the_same_numbers_have_the_same_interval_and_bytes_keep_it(session):
    result = session.query(f"{CLAUSE} {TOTAL} / {COUNT} AS v FROM t")
    again = shoal.Result.from_bytes(result.to_bytes())
    for level in (0.5, 0.9, 0.95):
        assert again.intervals(level).to_dicts() == result.intervals(level).to_dicts()
    assert result.intervals(0.999).to_dicts()[0]["v_low"] is None


def test_a_quotient_of_numbers_that_stray_together_is_narrower_than_its_parts(session):
    found = row(session, f"{CLAUSE} {COUNT} / {COUNT} AS one FROM t")
    assert found["one_low"] == found["one_high"] == 1


def test_a_ratio_holds_the_truth(session):
    """Twenty answers at 95%: fewer than nine hold once in 10¹⁰ runs."""
    rows = [row(session, f"{CLAUSE} {TOTAL} / {COUNT} AS v FROM t") for _ in range(20)]
    assert sum(found["v_low"] <= 4.5 <= found["v_high"] for found in rows) >= 9


def test_groups_joins_with_public_tables_and_outer_queries_are_drawn_row_by_row(session):
    grouped = f"{CLAUSE} g, {COUNT} AS n, {TOTAL} AS s FROM t GROUP BY g"
    sql = f"SELECT name, s / n AS v, n * size AS w FROM ({grouped}) k JOIN names ON names.g = k.g WHERE n > 1 ORDER BY v LIMIT 3"
    rows = session.query(sql).intervals().to_dicts()
    assert len(rows) == 3
    assert all(r["v_low"] < r["v"] < r["v_high"] and r["w_low"] < r["w"] < r["w_high"] for r in rows)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT MEDIAN(n) AS v FROM ({CLAUSE} g, {COUNT} AS n FROM t GROUP BY g) k",
        f"SELECT n / (SELECT SUM(size) FROM names) AS v FROM ({CLAUSE} g, {COUNT} AS n FROM t GROUP BY g) k",
    ],
)
def test_what_mixes_rows_or_reads_no_noisy_number_has_none(session, sql):
    assert "v_low" not in session.query(sql).intervals().columns


def test_a_quotient_that_may_be_undefined_has_no_ends(session):
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.001) SUM(x, contribution_bounds_per_group => (0, 1)) / "
    found = row(session, f"{sql} COUNT(*, contribution_bounds_per_group => (0, 1)) AS v FROM t WHERE uid < 0")
    assert found["v_low"] is None or found["v_low"] <= found["v"] <= found["v_high"]


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        (f"SELECT STDDEV(n) AS v, MEDIAN(n) AS w FROM ({CLAUSE} g, {COUNT} AS n FROM t GROUP BY g) k", ["v", "w"]),
        (f"SELECT n FROM ({CLAUSE} g, {COUNT} AS n FROM t GROUP BY g) k UNION SELECT 7", []),
        (f"SELECT DISTINCT n FROM ({CLAUSE} g, {COUNT} AS n FROM t GROUP BY g) k", []),
        (f"SELECT n FROM ({CLAUSE} g, {COUNT} AS n FROM t GROUP BY g) k UNION ALL SELECT 7", []),
        (f"{CLAUSE} {COUNT} + 1 AS v FROM t", []),
    ],
)
def test_no_number_is_without_an_interval_and_without_a_reason(session, sql, names):
    result = session.query(sql)
    said = [note.split(" ")[0] for note in result.notes if "has no interval of its own" in note]
    assert said == names
    assert all(f"{name}_low" not in result.intervals().columns for name in names)


@pytest.mark.parametrize("noise", ["", ", noise = LAPLACE"])
def test_quantiles_have_intervals_in_the_answer_and_in_its_bytes(session, noise):
    chosen = CLAUSE.replace(", noise = LAPLACE", noise)
    bounds = "contribution_bounds_per_row => (0, 9)"
    items = f"g, MEDIAN(x, {bounds}) AS v, MIN(x, {bounds}) AS w, QUANTILE_CONT(x, [0.2, 0.5, 0.8], {bounds}) AS q"
    result = session.query(f"{chosen} {items} FROM t GROUP BY g")
    again = type(result).from_bytes(result.to_bytes())
    for level in (0.5, 0.95, 0.999):
        rows = result.intervals(level).to_dicts()
        assert rows == again.intervals(level).to_dicts()
        for row in rows:
            if level > 0.99:
                assert row["v_low"] is row["w_high"] is row["q_low"] is None
                continue
            assert 0 <= row["v_low"] <= row["v"] <= row["v_high"] <= 9
            assert row["w_low"] <= row["w"] <= row["w_high"]
            assert all(a <= b <= c for a, b, c in zip(row["q_low"], row["q"], row["q_high"], strict=True))
    assert repr(again) == repr(result)
    assert "no interval" not in " ".join(result.notes)


@pytest.mark.parametrize("noise", ["", ", noise = LAPLACE"])
def test_what_follows_from_one_quantile_has_its_interval(session, noise):
    chosen = CLAUSE.replace(", noise = LAPLACE", noise)
    median = "MEDIAN(x, contribution_bounds_per_row => (0, 9))"
    result = session.query(f"{chosen} g, {median} AS v, 2 * {median} + 1 AS w, -{median} AS u FROM t GROUP BY g")
    again = type(result).from_bytes(result.to_bytes())
    for level in (0.5, 0.95):
        rows = result.intervals(level).to_dicts()
        assert rows == again.intervals(level).to_dicts()
        for row in rows:
            assert row["w_low"] <= 2 * row["v_low"] + 1 + 1e-9
            assert row["w_high"] >= 2 * row["v_high"] + 1 - 1e-9
            assert row["u_low"] <= -row["v_high"] + 1e-9
    assert "no interval" not in " ".join(result.notes)


def test_the_distance_of_two_quantiles_is_as_wide_as_both_together():
    """Levels with ends 1 to 6 to either side of 0: at 95% one ends at 4, and two against each other reach 8 and more."""
    ladder = Ladder(-np.arange(1.0, 7.0)[:, None], np.arange(1.0, 7.0)[:, None])
    generator = np.random.default_rng(1)
    common = generator.random((4000, 1))
    first, second = (ladder.at(_wherever(common, number, generator)) for number in (0, 1))
    assert np.quantile(first, 0.975) in {4.0, 5.0}
    assert np.quantile(first - second, 0.975) >= 6.0
    assert np.quantile(first, 0.999) == 6.0


def test_a_level_that_is_asked_for_is_kept_however_high(session):
    clause = CLAUSE.replace("(", "(confidence_level = 0.999, ", 1)
    items = "MAX(x, contribution_bounds_per_row => (0, 9)) AS v"
    (row,) = session.query(f"{clause} {items} FROM t").intervals().to_dicts()
    assert row["v_low"] <= row["v"] <= row["v_high"] == 9


def test_the_whole_interval_is_never_inside_that_of_the_noise():
    rows = pa.table({"uid": np.repeat(np.arange(400), 1 + np.arange(400) % 40), "x": np.ones(8200)})
    session = shoal.connect({"t": rows}, catalog={"tables": {"t": {"owner": "uid"}}, "defaults": {"epsilon": 1.0}})
    answer = session.query("SELECT COUNT(*) / COUNT(DISTINCT uid) AS each FROM t").intervals().to_dicts()[0]
    assert answer["each_low"] <= answer["each_noise_low"] <= answer["each_noise_high"] <= answer["each_high"]


@pytest.mark.parametrize("noise", ["", ", noise = LAPLACE"])
def test_an_answer_without_groups_has_intervals_of_nothing(session, noise):
    chosen = CLAUSE.replace(", noise = LAPLACE", noise).replace(
        "epsilon = 1, delta = 1e-6", "epsilon = 0.0001, delta = 1e-15"
    )
    bounds = "contribution_bounds_per_row => (0, 9)"
    items = f"g, MEDIAN(x, {bounds}) AS v, QUANTILE_CONT(x, [0.2, 0.8], {bounds}) AS q, MAX(x, {bounds}) AS w"
    result = session.query(f"{chosen} {items} FROM t GROUP BY g")
    assert len(result.intervals()) == len(result) == 0
    assert repr(type(result).from_bytes(result.to_bytes())) == repr(result)


@pytest.mark.parametrize(
    "part", ["SUM(CASE WHEN x < 9 THEN 1 ELSE 0 END)", "COUNT(*) FILTER (WHERE x < 9)", "COUNTIF(x < 9)", "COUNT(NULLIF(x, 9))"]
)  # fmt: skip
def test_a_part_of_the_rows_is_never_more_than_all_of_them(session, part):
    found = session.query(
        f"{CLAUSE.replace('kappa = 1', 'kappa = 1, measure_cut = 0.3')} {part} / {COUNT} AS share FROM t"
    )
    (ends,) = found.intervals().to_dicts()
    assert ends["share_high"] <= max(1, ends["share"])


@pytest.mark.parametrize(("digits", "half"), [("", 0.5), (", 0", 0.5), (", -2", 50.0), (", 1", 0.05)])
def test_no_interval_around_noise_has_a_width_of_zero_where_rounding_hides_it(digits, half):
    people = pa.table({"uid": list(range(3000)), "x": [n % 2 for n in range(3000)]})
    catalog = {
        "tables": {"people": {"owner": "uid", "one_row_per_owner": True}},
        "defaults": {"epsilon": 50.0, "delta": 1e-6},
    }
    with shoal.connect({"people": people}, catalog=catalog) as quiet:
        rounded = quiet.query(f"SELECT ROUND(COUNT(*) / 1000.0{digits}) AS n FROM people")
    (row,) = rounded.intervals().to_dicts()
    assert (row["n_low"], row["n_high"]) == pytest.approx((row["n"] - half, row["n"] + half)) or row[
        "n_low"
    ] == 0 == row["n"]
    assert row["n_low"] < row["n_high"]
