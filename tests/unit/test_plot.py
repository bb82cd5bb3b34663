"""Charts that fit the shape of an answer."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.plot import _missing, _ticks
from shoal.release.found_limits import NOBODY_KNOWS

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


def test_ends_that_count_what_was_cut_have_no_level(shop):
    counted = shop.query(
        f"{CLAUSE}(epsilon = 1, measure_cut = 0.1) COUNT(*, contribution_bounds_per_group => (0, 2)) AS n FROM visits"
    )
    (axes,) = counted.plot().axes
    assert axes.get_title().startswith("error bars: 95% of the noise, and what limits and bounds may cut")


@pytest.fixture(scope="module")
def uneven():
    """A few of 20,000 people have most of what is paid, and nobody has an age."""
    owners = np.arange(20_000)
    paid = (20_000 / (owners + 1.0)) ** (1 / 0.6)
    ages = pa.array([None] * len(owners), pa.float64())
    table = pa.table({"uid": owners, "town": owners % 3, "paid": paid, "age": ages})
    catalog = {
        "tables": {"t": {"owner": "uid", "columns": {"town": {"values": [0, 1, 2]}}}},
        "defaults": {"epsilon": 2.0, "delta": 1e-6, "population": len(owners)},
    }
    with shoal.connect({"t": table}, catalog=catalog) as session:
        yield session


def test_a_picture_says_where_a_number_is_missing(uneven):
    (axes,) = uneven.query("SELECT COUNT(*) AS n, AVG(age) AS age FROM t").plot().axes
    assert "without a number: age (NULL)" in axes.get_xlabel()
    some = [{"town": 0, "age": None}, {"town": 1, "age": 30.0}]
    assert _missing(some, ["age"], ["town"]) == ["1 group without a number: NULL"]
    (axes,) = uneven.query("SELECT town, AVG(age) AS age FROM t GROUP BY town").plot().axes
    assert "Without a number: age (NULL)" in axes.texts[0].get_text()


def test_a_picture_says_where_bars_end_too_soon(uneven):
    """The limit of a heavy tail is found in nearly every asking, and its notes say that nobody knows the rest."""
    answers = [uneven.query("SELECT town, SUM(paid) AS paid FROM t GROUP BY town") for _ in range(4)]
    heavy = [NOBODY_KNOWS in " ".join(answer.notes) for answer in answers]
    assert any(heavy)
    assert [NOBODY_KNOWS in answer.plot().axes[0].get_xlabel() for answer in answers] == heavy
    (axes,) = uneven.query("SELECT town, COUNT(DISTINCT uid) AS n FROM t GROUP BY town").plot().axes
    assert NOBODY_KNOWS not in axes.get_xlabel()


def test_an_answer_without_a_private_number_cannot_be_drawn(shop):
    with pytest.raises(shoal.ShoalError) as refused:
        shop.query("SELECT * FROM regions").plot()
    assert refused.value.code == "E_USAGE"


def test_cells_that_are_null_are_left_out(open_shop):
    session = open_shop()
    result = session.query(f"{CLAUSE}(epsilon = 0.0001, delta = 1e-6) SUM(spend) AS s FROM visits")
    if result.to_dicts()[0]["s"] is None:
        assert len(result.plot().axes[0].patches) == 0


def drawn(shop, sql, **options):
    return shop.query(f"{CLAUSE}({SURE}) {sql}").plot(**options).axes[0]


def test_two_keys_are_groups_of_bars(shop):
    axes = drawn(shop, f"site, items > 2 AS many, {COUNT} FROM visits GROUP BY ALL")
    assert len(axes.patches) == 8
    assert [text.get_text() for text in axes.get_legend().get_texts()] in (["True", "False"], ["False", "True"])


def test_a_number_without_an_interval_is_no_key(shop):
    result = shop.query(
        f"SELECT site, n, MEDIAN(n) OVER () AS typical FROM ({CLAUSE}({SURE}) site, {COUNT} FROM visits GROUP BY site) AS s"
    )
    assert "typical_low" not in result.intervals().columns
    axes = result.plot().axes[0]
    assert axes.get_xlabel() == "site"
    assert {tick.get_text() for tick in axes.get_xticklabels()} == {"s0", "s1", "s2", "s3"}


def test_without_keys_every_number_has_a_bar(shop):
    axes = drawn(shop, f"{COUNT}, COUNT(DISTINCT uid) AS m FROM visits")
    assert len(axes.patches) == 2
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["n", "m"]


def test_years_are_written_as_years(shop):
    axes = drawn(shop, f"1990 + items AS year, {COUNT} FROM visits GROUP BY ALL", kind="line")
    axes.figure.canvas.draw()
    assert all("," not in tick.get_text() and "." not in tick.get_text() for tick in axes.get_xticklabels())


def test_of_many_groups_the_largest_are_drawn_and_the_rest_is_told(shop):
    from shoal.plot import MOST_GROUPS, _largest

    rows = [{"site": f"s{i}", "n": i, "n_low": i, "n_high": i} for i in range(40)]
    kept, left_out = _largest([row["site"] for row in rows], rows, ["site"], "n")
    assert (len(kept), left_out) == (MOST_GROUPS, 10)
    assert kept[:2] == ["s39", "s38"]
    in_order = sorted(rows, key=lambda row: row["site"])
    kept, _ = _largest([row["site"] for row in in_order], in_order, ["site"], "n")
    assert kept == sorted(kept)


def test_an_answer_without_groups_is_a_sentence(shop):
    sql = f"{CLAUSE}(epsilon = 1, delta = 1e-6) site, {COUNT} FROM visits WHERE site = 'nowhere' GROUP BY site"
    axes = shop.query(sql).plot().axes[0]
    assert "No group" in axes.texts[0].get_text()


def test_a_chart_is_titled_written_and_shown_in_a_notebook(shop, tmp_path):
    figure = shop.query(f"{CLAUSE}({SURE}) {COUNT} FROM visits").plot("n", title="Visits", file=tmp_path / "visits.png")
    assert figure.axes[0].get_title() == "Visits"
    assert (tmp_path / "visits.png").read_bytes()[:4] == figure._repr_png_()[:4] == b"\x89PNG"


@pytest.mark.parametrize("options", [{"kind": "pie"}, {"column": "m"}])
def test_what_cannot_be_drawn_is_said(shop, options):
    with pytest.raises(shoal.ShoalError) as refused:
        drawn(shop, f"{COUNT} FROM visits", **options)
    assert refused.value.code == "E_USAGE"


def test_quantiles_are_points_alone_and_by_group(shop):
    assert not drawn(shop, "MEDIAN(spend) AS m, PERCENTILE_CONT(spend, 0.9) AS p FROM visits").patches
    assert not drawn(shop, "site, MEDIAN(spend) AS m FROM visits GROUP BY site").patches


def test_a_list_of_quantiles_is_drawn_over_its_fractions(shop):
    axes = drawn(shop, "PERCENTILE_CONT(spend, [0.25, 0.5, 0.75]) AS q FROM visits")
    assert next(list(line.get_xdata()) for line in axes.lines if len(line.get_xdata()) == 3) == [0.25, 0.5, 0.75]
    assert len(axes.collections) == 1  # whiskers
    assert axes.get_xlabel() == "fraction of rows below"
    by_site = drawn(shop, "site, APPROX_QUANTILES(spend, 4) AS q FROM visits GROUP BY site")
    assert len(by_site.get_legend().get_texts()) == 4
    places = [line.get_xdata()[1] for line in by_site.lines if len(line.get_xdata()) == 5]
    assert len(set(places)) == 4  # beside each other, so that no bar hides another


def test_whiskers_of_a_list_go_beyond_bounds_as_those_of_a_greatest_value():
    catalog = {
        "tables": {"t": {"owner": "uid", "one_row_per_owner": True}},
        "defaults": {"epsilon": 1.0, "delta": 1e-6},
    }
    table = {"uid": list(range(3000)), "x": [3.0 + n % 60 for n in range(3000)]}
    answer = shoal.connect({"t": table}, catalog=catalog).query("SELECT APPROX_QUANTILES(x, 2) AS q FROM t")
    (axes,) = answer.plot().axes
    tops = [float(whisker[:, 1].max()) for whisker in axes.collections[0].get_segments()]
    (row,) = answer.intervals().to_dicts()
    assert tops == pytest.approx(row["q_high"])
    assert tops[-1] > row["q_noise_high"][-1]
    assert "what limits and bounds may cut" in axes.get_title()


def test_two_keys_are_groups_of_bars_where_the_first_is_a_number_too(shop):
    assert len(drawn(shop, f"items % 2 AS odd, site, {COUNT} FROM visits GROUP BY ALL").patches) == 8


def test_large_numbers_are_written_out():
    table = {"uid": list(range(400)), "kind": [n % 2 for n in range(400)], "pay": [50_000.0 + n for n in range(400)]}
    columns = {"kind": {"values": [0, 1]}, "pay": {"bounds": [0, 100_000]}}
    catalog = {"tables": {"t": {"owner": "uid", "one_row_per_owner": True, "columns": columns}}}
    session = shoal.connect({"t": table}, catalog=catalog)
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10, delta = 1e-6, max_groups_contributed = 1)"
    axes = session.query(f"{clause} kind, SUM(pay) AS total FROM t GROUP BY kind").plot().axes[0]
    axes.figure.canvas.draw()
    assert axes.yaxis.get_offset_text().get_text() == ""
    # where the noise puts the ticks is not known; millions are written with both commas wherever they are
    written = [label.get_text() for label in axes.get_yticklabels()]
    assert any(re.fullmatch(r"\d{1,2},\d{3},\d{3}", text) for text in written), written


def labels(axes):
    return {tick.get_text() for tick in axes.get_xticklabels()}


def test_totals_of_a_rollup_are_not_drawn_beside_their_parts(shop):
    axes = drawn(shop, f"site, {COUNT} FROM visits GROUP BY ROLLUP (site)")
    assert len(axes.patches) == 4
    assert "(none)" not in labels(axes)
    assert "totals" in axes.get_xlabel()


def test_where_every_grouping_leaves_a_key_out_null_stands_for_all(shop):
    axes = drawn(shop, f"vip, region, {COUNT} FROM customers GROUP BY GROUPING SETS ((vip), (region))")
    assert "(all)" in labels(axes)
    assert "(none)" not in labels(axes)


def test_numbers_that_are_not_drawn_are_named(shop):
    axes = drawn(shop, f"site, {COUNT}, COUNT(DISTINCT uid) AS people FROM visits GROUP BY site")
    assert axes.get_xlabel() == "site\nalso in the answer: people"
    chosen = drawn(shop, f"site, {COUNT}, COUNT(DISTINCT uid) AS people FROM visits GROUP BY site", column="people")
    assert chosen.get_xlabel() == "site"


def test_whole_numbers_are_written_without_a_point(shop):
    axes = drawn(shop, f"FLOOR(items / 2) * 2.0 AS pairs, {COUNT} FROM visits GROUP BY pairs", kind="bar")
    assert labels(axes)
    assert not any("." in label for label in labels(axes))


def test_long_labels_leave_room_for_the_picture():
    names = ["Seven Samurai (Shichinin no samurai) (1954)", "Up (2009)"]
    assert _ticks(names) == ["Seven Samurai (Shichini…", "Up (2009)"]
    alike = ["The Lord of the Rings, part one", "The Lord of the Rings, part two"]
    assert _ticks(alike) == alike
