"""Windows over the groups of an answer: shares of a total, ranks and the row before have intervals, drawn over all groups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.engines.deadline import Deadline
from shoal.plan import nodes
from shoal.plan.expressions import Column, WindowCall
from shoal.plan.nodes import Field
from shoal.plan.types import DOUBLE, INTEGER
from shoal.release.computed.draws import DRAW, MORE, LookedAt, _within_one_draw
from shoal.release.postprocess import evaluated

SIZES = {"a": 4000, "b": 3000, "c": 2000, "d": 1000}
SMALL = 200
"""Groups of five owners each, none of which appears: about a twelfth of all."""
SHARE = "100.0 * COUNT(*) / SUM(COUNT(*)) OVER ()"


def session(sizes, *, listed):
    kind = np.repeat(list(sizes), list(sizes.values()))
    table = pa.table({"uid": np.arange(len(kind)), "kind": kind, "spend": np.full(len(kind), 2.0)})
    columns = {"kind": {"values": list(sizes)}} if listed else {}
    return shoal.connect(
        {"t": table},
        catalog={
            "tables": {"t": {"owner": "uid", "one_row_per_owner": True, "columns": columns}},
            "defaults": {"epsilon": 1, "delta": 1e-6},
        },
    )


def rows_of(result):
    return {row["kind"]: row for row in result.intervals().to_dicts()}


def test_a_share_of_all_groups_has_a_narrow_interval():
    result = session(SIZES, listed=True).query(f"SELECT kind, COUNT(*) AS n, {SHARE} AS share FROM t GROUP BY kind")
    for kind, row in rows_of(result).items():
        exact = SIZES[kind] / 100
        assert row["share_low"] <= row["share"] <= row["share_high"]
        assert abs(row["share_low"] - exact) < 1
        assert 0 < row["share_high"] - row["share_low"] < 1
    assert not any(note.startswith("share is") for note in result.notes)


def test_a_share_counts_groups_that_are_left_out_of_the_total():
    # Besides the small groups there are some next to the threshold, as wherever sizes fall off: they tell of those below.
    sizes = SIZES | {f"near {n}": 18 + n % 8 for n in range(40)} | {f"small {n}": 5 for n in range(SMALL)}
    result = session(sizes, listed=False).query(
        f"SELECT kind, COUNT(*) AS n, {SHARE} AS share FROM t GROUP BY kind ORDER BY n DESC LIMIT 4"
    )
    total = sum(sizes.values())
    for kind, row in rows_of(result).items():
        exact = 100 * sizes[kind] / total
        assert row["share_low"] <= exact <= row["share_high"]
        assert exact < row["share_noise_low"]  # without what is feared it would not be held
    assert any(note.startswith("share:") and "smaller ones" in note for note in result.notes)


def test_rows_that_are_left_out_later_still_count_in_the_total():
    asked = session(SIZES, listed=True)
    result = asked.query(f"SELECT kind, {SHARE} AS share FROM t GROUP BY kind ORDER BY share DESC LIMIT 1")
    (row,) = result.intervals().to_dicts()
    assert row["kind"] == "a"
    assert 39 < row["share_low"] <= row["share_high"] < 41


def test_the_difference_from_the_row_before_is_as_uncertain_as_both():
    result = session(SIZES, listed=False).query(
        "SELECT kind, COUNT(*) AS n, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY kind) AS change FROM t GROUP BY kind"
    )
    rows = rows_of(result)
    assert rows["a"]["change"] is None
    assert rows["a"]["change_low"] is None
    for kind in "bcd":
        assert rows[kind]["change_low"] < rows[kind]["change"] < rows[kind]["change_high"]
        width, of_one = (rows[kind][f"{name}_high"] - rows[kind][f"{name}_low"] for name in ("change", "n"))
        assert of_one <= width <= 4 * of_one


@pytest.mark.parametrize("total", ["SUM(SUM(spend)) OVER ()", "SUM(SUM(spend)) OVER (ORDER BY kind)"])
def test_a_total_without_a_count_beside_it_counts_groups_that_are_left_out(total):
    """Each owner adds 2 of at most 2: the sum tells how many owners a group has at least."""
    sizes = SIZES | {f"near {n}": 34 + n % 16 for n in range(40)} | {f"small {n}": 5 for n in range(SMALL)}
    asked = session(sizes, listed=False)
    exact = 2 * (sum(sizes.values()) if "ORDER" not in total else sizes["a"])

    def is_held():
        result = asked.query(
            f"SELECT kind, SUM(spend) AS s, {total} AS total FROM t GROUP BY kind ORDER BY s DESC LIMIT 1"
        )
        assert not any(note.startswith("total is computed") for note in result.notes)
        (row,) = result.intervals().to_dicts()
        noise = 5 * (row["s_high"] - row["s_low"])
        # Without what is feared the total would not be held.
        is_feared = "ORDER" in total or row["total_noise_high"] + noise < exact
        return is_feared and row["total_low"] - noise <= exact <= row["total_high"] + noise < 1.5 * exact + noise

    # Noise that fills an empty bin of large values carries an end away in less than 1 of 100 answers.
    assert any(is_held() for _ in range(4))


def test_an_average_of_neighbouring_rows_has_the_noise_of_its_rows():
    frame = "OVER (ORDER BY kind ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
    asked = session(SIZES, listed=False)
    result = asked.query(f"SELECT kind, COUNT(*) AS n, AVG(COUNT(*)) {frame} AS moving FROM t GROUP BY kind")
    rows, means = rows_of(result), {"a": 4000, "b": 3500, "c": 2500, "d": 1500}
    for kind, exact in means.items():
        assert rows[kind]["moving_low"] < rows[kind]["moving"] < rows[kind]["moving_high"]
        assert abs(rows[kind]["moving"] - exact) < 40
        assert rows[kind]["moving_high"] - rows[kind]["moving_low"] < 20
    assert any(
        note.startswith("moving: the rows before and after are those of groups that appear") for note in result.notes
    )
    # The average of all groups misses those that are left out, and its interval counts them.
    result = asked.query("SELECT kind, COUNT(*) AS n, AVG(COUNT(*)) OVER () AS mean FROM t GROUP BY kind")
    assert any(note.startswith("mean: it is over the groups that appear") for note in result.notes)


def test_a_rank_has_an_interval_where_all_groups_appear_and_a_reason_elsewhere():
    ranked = "SELECT kind, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM t GROUP BY kind"
    close = {"a": 1000, "b": 1000, "c": 1000, "d": 10}
    rows = rows_of(session(close, listed=True).query(ranked))
    assert rows["d"]["place_low"] == rows["d"]["place_high"] == 4
    assert min(row["place_low"] for row in rows.values()) == 1
    assert max(row["place_high"] for kind, row in rows.items() if kind != "d") == 3
    assert any(note.startswith("place is") for note in session(close, listed=False).query(ranked).notes)


@pytest.mark.parametrize(
    "value",
    ["AVG(spend) / SUM(AVG(spend)) OVER ()", "MIN(COUNT(*)) OVER ()", "SUM(SUM(spend) + SUM(spend + 1)) OVER ()"],
)
def test_what_groups_that_are_left_out_would_change_has_a_reason_instead(value):
    result = session(SIZES, listed=False).query(f"SELECT kind, {value} AS v FROM t GROUP BY kind")
    assert "v_low" not in result.intervals().columns
    assert any(note.startswith("v is") for note in result.notes)


def test_the_same_answer_shows_the_same_interval_every_time():
    result = session(SIZES, listed=True).query(f"SELECT kind, {SHARE} AS share FROM t GROUP BY kind")
    again = shoal.Result.from_bytes(result.to_bytes())
    assert again.intervals().to_dicts() == result.intervals().to_dicts()


def test_noise_below_zero_takes_nothing_from_a_total():
    # Few owners, and a noisy count that is negative: what is left out used to be in proportion to it, and shares were −60%.
    looked_at = LookedAt(3, np.arange(3), np.array([1.0, 400.0, 300.0]), 40)
    assert looked_at.left_out()[0] < 10
    total = _within_one_draw(WindowCall("sum", (Column("n", DOUBLE),), (), (), None, DOUBLE))
    fields = (Field("", "n", DOUBLE), Field("", MORE, DOUBLE), Field("", DRAW, INTEGER))
    root = nodes.Project(nodes.StoredRows(0, fields), ((Field("", "total", DOUBLE), total),))
    table = pa.table({"n": [-700.0, 1000.0], MORE: [9.0, 1.5], DRAW: [0, 0]})
    assert evaluated(root, {"released_0": table}, Deadline(60))["total"].to_pylist() == [800.0, 800.0]


BY_KIND = "(SELECT kind, COUNT(*) AS n, SUM(spend) AS s FROM t GROUP BY kind) AS g"


def test_aggregates_over_all_groups_have_intervals():
    sql = f"SELECT AVG(n) AS mean, MAX(n) AS most, MIN(n) AS least, SUM(n) AS total, ROUND(SUM(n) / 2.0) AS half FROM {BY_KIND}"
    (found,) = session(SIZES, listed=True).query(sql).intervals().to_dicts()
    exact = {"mean": 2500, "most": 4000, "least": 1000, "total": 10_000, "half": 5000}
    for name, number in exact.items():
        assert found[f"{name}_low"] <= found[name] <= found[f"{name}_high"]
        assert abs(found[f"{name}_low"] - number) < 40
        assert abs(found[f"{name}_high"] - number) < 40


def test_an_average_over_groups_counts_that_small_ones_are_left_out():
    # One group of a single owner is left out: the average over five groups is a fifth less than that of the four that appear.
    result = session({**SIZES, "e": 1}, listed=False).query(f"SELECT AVG(n) AS mean, MIN(n) AS least FROM {BY_KIND}")
    (found,) = result.intervals().to_dicts()
    assert found["mean_low"] < 2010
    assert found["mean_high"] < 2600
    assert any(note.startswith("mean: it is over the groups that appear") for note in result.notes)
    assert "least_low" not in found
    assert "least is computed from noisy numbers, and has no interval of its own." in result.notes


DIFFERENCE = "SELECT kind, m - AVG(m) OVER () AS off FROM (SELECT kind, AVG(x) AS m FROM t GROUP BY kind) AS g"


def averages(*, listed):
    """Two kinds of 2,000 owners each, with 10 and 30: their averages are 10 off the mean of both."""
    kind = np.repeat(["a", "b"], 2000)
    table = pa.table({"uid": np.arange(4000), "kind": kind, "x": np.where(kind == "a", 10.0, 30.0)})
    columns = {"x": {"bounds": [0, 40]}} | ({"kind": {"values": ["a", "b"]}} if listed else {})
    return shoal.connect(
        {"t": table},
        catalog={
            "tables": {"t": {"owner": "uid", "one_row_per_owner": True, "columns": columns}},
            "defaults": {"epsilon": 1, "delta": 1e-6},
        },
    )


def test_the_difference_from_the_mean_of_all_groups_has_an_interval():
    """95% hold, so that 14 of 40 miss once in 10⁸ runs."""
    with averages(listed=True) as asked:
        found = [rows_of(asked.query(DIFFERENCE)) for _ in range(40)]
    assert sum(each["a"]["off_low"] <= -10 <= each["a"]["off_high"] for each in found) > 26
    assert all(0 < each[kind]["off_high"] - each[kind]["off_low"] < 2 for each in found for kind in "ab")


def test_a_mean_over_groups_counts_that_one_may_be_left_out_which_is_like_the_others():
    """With a third group at either end, the mean is a third of the way from 20 to 10 or 30."""
    with averages(listed=False) as asked:
        result = asked.query(DIFFERENCE)
    rows = rows_of(result)
    assert rows["a"]["off_low"] < -12.5
    assert rows["a"]["off_high"] > -7.5
    assert rows["a"]["off_noise_high"] - rows["a"]["off_noise_low"] < 2
    assert any(note.startswith("off: it is over the groups that appear") for note in result.notes)


@pytest.mark.parametrize("having", ["", " HAVING AVG(n) > 1e9"])
def test_without_any_group_there_is_no_number_and_no_row_that_has_none(having):
    result = session({"a": 1, "b": 1}, listed=False).query(
        f"SELECT AVG(n) AS mean, SUM(s) AS total FROM {BY_KIND}{having}"
    )
    assert result.to_dicts() in ([], [{"mean": None, "total": None}])


@pytest.mark.parametrize("value", ["AVG(DISTINCT n)", "SUM(n) FILTER (WHERE n > 5)", "MEDIAN(n)", "STDDEV(n)"])
def test_other_aggregates_over_groups_have_a_reason(value):
    result = session(SIZES, listed=True).query(f"SELECT {value} AS v FROM {BY_KIND}")
    assert "v is computed from noisy numbers, and has no interval of its own." in result.notes
