"""Tuning: figures that were computed by hand elsewhere, and held against real answers."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import shoal
from shoal import tuning

CATALOG = {"tables": {"t": {"owner": "u"}}}
SQL = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2) g,"
    " COUNT(*, contribution_bounds_per_group => (0, 3)) AS n FROM t GROUP BY g"
)


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Owners 1 … 400 in g1 always and in g2 … g8 where g divides the owner, 1 + (7u + 3g) mod 6 rows each."""
    rows = [
        (u, f"g{g}") for u in range(1, 401) for g in range(1, 9) if u % g == 0 for _ in range(1 + (7 * u + 3 * g) % 6)
    ]
    assert len(rows) == 3332
    return pa.table({"u": [u for u, _ in rows], "g": [g for _, g in rows]})


def group(found, index, name):
    return next(row for row in found.groups(index) if row["group"] == [name])


@pytest.mark.parametrize(
    ("setting", "clamped", "lost", "lost_to_kappa", "g1"),
    [
        ((1, 1, 3), 0.416206, 0.252101, 0.458123, (-401, -474.8571, 394.3858)),
        ((1, 2, 3), 0.416206, 0.252101, 0.250279, (-401, -223.7143, 285.5526)),
        ((1, 4, 6), 0, 0, 0.064792, (0, -59.5048, 180.1252)),
        ((0.5, 2, 3), 0.416206, 0.252101, 0.250279, (-401, -223.7143, 285.5526)),
    ],
)
def test_figures_are_those_of_the_check(table, setting, clamped, lost, lost_to_kappa, g1):
    epsilon, kappa, upper = setting
    found = tuning.tune({"t": table}, CATALOG, SQL, epsilon=[epsilon], groups=[kappa], bounds={"n": [(0, upper)]})
    (one,) = found.settings
    assert (one.groups, one.max_groups, one.bounds) == (8, kappa, {"n": (0.0, float(upper))})
    assert one.clamped_high == pytest.approx(clamped, abs=1e-6)
    assert (one.lost_to_clamping, one.lost_to_groups_limit) == pytest.approx((lost, lost_to_kappa), abs=1e-6)
    row = group(found, 0, "g1")
    assert (row["clamp_bias"], row["kappa_bias"], row["kappa_variance"]) == pytest.approx(g1, abs=1e-4)
    wanted = np.sqrt((g1[0] + g1[1]) ** 2 + g1[2] + one.noise_standard_deviation**2)
    assert row["rmse"] == pytest.approx(wanted, rel=1e-6)


def test_noise_and_chances_are_the_planners_own(table):
    found = tuning.tune({"t": table}, CATALOG, SQL)
    with shoal.connect({"t": table}, catalog=CATALOG) as session:
        column = session.explain(SQL).to_dict()["selects"][0]["columns"][0]
    assert found.settings[0].rule == "LAPLACE_THRESHOLD"  # a name that OPTIONS knows
    assert found.settings[0].noise_standard_deviation == pytest.approx(column["releases"][0]["standard_deviation"])
    assert found.settings[0].expected_groups_kept == pytest.approx(sum(row["keep"] for row in found.groups(0)))


@pytest.mark.slow
def test_groups_appear_as_often_as_foretold(table):
    """200 answers; a group outside the central 1 − 10⁻⁷ of its binomial fails: 8 groups, false alarms below 10⁻⁶."""
    found = tuning.tune({"t": table}, CATALOG, SQL)
    seen: dict[str, int] = {}
    with shoal.connect({"t": table}, catalog=CATALOG) as session:
        for _ in range(200):
            for name in session.query(SQL)["g"]:
                seen[name] = seen.get(name, 0) + 1
    for row in found.groups(0):
        low, high = binom.interval(1 - 1e-7, 200, min(1.0, row["keep"]))
        assert low <= seen.get(row["group"][0], 0) <= high


def test_the_grid_is_every_combination(table):
    found = tuning.tune(
        {"t": table}, CATALOG, SQL, epsilon=[0.5, 1], groups=[1, 2, 4], bounds={"n": [(0, 2), (0, 6)]}, delta=1e-7
    )
    assert len(found.settings) == 12
    assert {one.delta for one in found.settings} == {1e-7}
    assert found.to_dict()["warning"].startswith("not private")
    assert "Not private" in found.to_html()
    assert "max_groups_contributed = 1" in found.options(0)["sql"]


def test_each_figure_of_the_page_is_below_its_heading(table):
    found = tuning.tune({"t": table}, CATALOG, SQL, epsilon=[0.5, 1], groups=[2])
    page = found.to_html()
    headings = ["", *re.findall(r'<th scope="col"[^>]*><button type="button">([^<]*)</button>', page)]
    (first, _) = re.findall(r"<tbody><tr>(.*?)</tr></tbody>", page)
    row = dict(zip(headings, re.findall(r"<td[^>]*>(.*?)</td>", first), strict=True))
    one = found.settings[0]
    assert (row["ε"], row["groups per owner"]) == ("0.5", "2")
    assert row["groups kept"] == f"{one.expected_groups_kept:.1f} of 8"
    assert row["lost to the groups limit"] == f"{one.lost_to_groups_limit:.1%}"
    assert row["noise (σ)"] == f"{one.noise_standard_deviation:.4g}"


def test_options_to_copy_lose_no_digit(table):
    wide = tuning.tune({"t": table}, CATALOG, SQL, epsilon=[0.123456789], bounds={"n": [(0, 1234567)]})
    assert "epsilon = 0.123456789," in wide.options(0)["sql"]
    assert wide.options(0)["bounds"] == "n: contribution_bounds_per_group => (0, 1234567)"
    median = SQL.replace("COUNT(*", "MEDIAN(u").replace("contribution_bounds_per_group", "contribution_bounds_per_row")
    assert (
        tuning.tune({"t": table}, CATALOG, median)
        .options(0)["bounds"]
        .startswith("n: contribution_bounds_per_row => (")
    )


def test_a_histogram_shows_what_clamping_does(table):
    shape = tuning.tune({"t": table}, CATALOG, SQL).histogram(0, "n")
    assert sum(shape["raw"]) == sum(shape["clamped"]) == 1086
    assert sum(shape["clamped"][-10:]) == 0


def test_advice_comes_in_the_order_in_which_it_helps(table):
    tight, wide = tuning.tune({"t": table}, CATALOG, SQL, groups=[1], bounds={"n": [(0, 1), (0, 60)]}).settings
    assert "coarser groups" in tight.advice[0]
    assert any("raise max_groups_contributed" in one for one in tight.advice)
    assert any("wider bounds" in one for one in tight.advice)
    assert any("narrower bounds" in one for one in wide.advice)


FINE = "Even at four times this epsilon"


def test_a_question_is_called_too_fine_where_noise_hides_it_and_not_where_a_limit_does(table):
    """One group per owner leaves out more than half of every count, which no epsilon mends and another limit does."""
    limited = tuning.tune({"t": table}, CATALOG, SQL, epsilon=[500], groups=[1], bounds={"n": [(0, 6)]}).settings[0]
    assert limited.median_relative_error > 0.5
    assert not any(one.startswith(FINE) for one in limited.advice)
    hidden = tuning.tune({"t": table}, CATALOG, SQL, epsilon=[0.01], groups=[1], bounds={"n": [(0, 6)]}).settings[0]
    assert any(one.startswith(FINE) for one in hidden.advice)


def test_sums_averages_and_other_aggregates():
    rows = pa.table({"u": list(range(100)) * 2, "g": ["a"] * 100 + ["b"] * 100, "x": [float(i) for i in range(200)]})
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2) g,"
        " SUM(x, contribution_bounds_per_group => (0, 150)) AS s, AVG(x, contribution_bounds_per_group => (0, 200)) AS a,"
        " MEDIAN(x, contribution_bounds_per_row => (0, 200)) AS m FROM t GROUP BY g"
    )
    found = tuning.tune({"t": rows}, CATALOG, sql)
    assert group(found, 0, "b")["exact"] == sum(range(100, 200))
    assert group(found, 0, "b")["clamp_bias"] == -sum(range(1, 50))
    assert "exact" in found.groups(0, "a")[0]
    assert "exact" not in found.groups(0, "m")[0]


@pytest.mark.parametrize(
    "options",
    [{"bounds": {"x": [(0, 1)]}}, {"epsilon": []}, {"epsilon": [0]}, {"groups": [0]}, {"epsilon": [1] * 1001}],
)
def test_wrong_settings_are_refused(table, options):
    with pytest.raises(shoal.ShoalError):
        tuning.tune({"t": table}, CATALOG, SQL, **options)
