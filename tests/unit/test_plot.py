"""Charts that fit the shape of an answer."""

from __future__ import annotations

import pytest

import shoal

matplotlib = pytest.importorskip("matplotlib")
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
SURE = "epsilon = 100000, delta = 0.01, max_groups_contributed = 4"
COUNT = "COUNT(*, contribution_bounds_per_group => (0, 5)) AS n"


@pytest.mark.parametrize(
    ("sql", "bars"),
    [
        (f"{CLAUSE}({SURE}) site, {COUNT} FROM visits GROUP BY site", 4),
        (f"{CLAUSE}({SURE}) vip, {COUNT} FROM customers GROUP BY vip", 2),
        (f"{CLAUSE}({SURE}) region, {COUNT} FROM customers GROUP BY region", 5),
        (f"{CLAUSE}(epsilon = 1) {COUNT} FROM visits", 1),
        (f"{CLAUSE}({SURE}) born, {COUNT} FROM customers GROUP BY born", 0),
        (f"{CLAUSE}({SURE}) items, {COUNT} FROM visits GROUP BY items", 0),
    ],
)
def test_groups_are_bars_and_numbers_and_dates_are_points(shop, tmp_path, sql, bars):
    figure = shop.query(sql).plot()
    (axes,) = figure.axes
    assert len(axes.patches) == bars
    assert axes.get_ylabel() == "n"
    assert "95% error bars" in axes.get_title()
    figure.savefig(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 1000


def test_an_answer_without_a_private_number_cannot_be_drawn(shop):
    with pytest.raises(shoal.ShoalError) as refused:
        shop.query("SELECT * FROM regions").plot()
    assert refused.value.code == "E_USAGE"


def test_cells_that_are_null_are_left_out(open_shop):
    session = open_shop()
    result = session.query(f"{CLAUSE}(epsilon = 0.0001, delta = 1e-6) SUM(spend) AS s FROM visits")
    if result.to_dicts()[0]["s"] is None:
        assert len(result.plot().axes[0].patches) == 0
