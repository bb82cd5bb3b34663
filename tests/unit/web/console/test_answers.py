"""The page of an answer: its table, lists in it, its numbers and intervals, and downloads."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from console_browser import new_question

from shoal.web.console.answers import _days, _label, _listed, _places, _shown


def test_long_keys_leave_room_for_numbers(ann):
    page = ann.answer("SELECT REPEAT('x', 90) AS long, 'x' AS short").text
    assert re.findall(r'<td class="(\w*)">x', page) == ["long", ""]


def test_a_list_of_quantiles_is_shown_number_by_number_beside_a_chart_of_the_others(ann):
    found = "QUANTILE_CONT(LENGTH(site), [0.25, 0.75], contribution_bounds_per_row => (0, 5)) AS q, COUNT(*) AS n"
    sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.05) {found} FROM visits"
    sent = ann.answer(sql)
    (rows,) = ann.get(f"{sent.url.path}/json").json()["rows"]
    listed = re.findall(r'<li><span>([^<]*)</span> <span class="bar-text">([^<]*)</span></li>', sent.text)
    assert [float(value) for value, _ in listed] == pytest.approx(rows["q"], rel=1e-3)
    assert all(re.fullmatch("[0-9.]+ to [0-9.]+|± [0-9.]+", interval) for _, interval in listed)
    assert "q, each with its 95% interval</th>" in sent.text
    assert "n with 95% error bars" in sent.text
    assert ann.get(f"{sent.url.path}?column=q").status_code == 400


def test_a_number_without_an_interval_is_no_part_of_a_groups_name(ann):
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-5, max_groups_contributed = 1)"
    page = ann.answer(f"{clause} site, COUNT(*) AS n, 2 * COUNT(*) * COUNT(*) AS m FROM visits GROUP BY site").text
    names = re.findall(r'<text class="name"[^>]*>([^<]*)<', page)
    assert names
    assert all(re.fullmatch(r"s\d", name) for name in names)


def test_a_long_list_is_cut_and_says_so():
    ends = [float(n) for n in range(101)]
    row = {"q": ends, "q_low": ends, "q_high": ends}
    shown, more = _listed(row, "q", 4)
    assert shown == [("0.0", "± 0"), ("1.0", "± 0"), ("2.0", "± 0"), ("3.0", "± 0")]
    assert more == 97
    assert _listed({"q": None, "q_low": None, "q_high": None}, "q", 4) == ([], 0)


def test_months_beside_another_key_are_named_without_their_hours():
    rows = [
        {"month": dt.datetime.fromisoformat(f"2025-0{month}-01"), "ok": ok} for month in (1, 2) for ok in (True, None)
    ]
    assert _label(rows[0], ["month", "ok"], _days(rows, ["month", "ok"])) == "2025-01-01, true"
    rows.append({"month": dt.datetime.fromisoformat("2025-03-01T12:00"), "ok": None})
    assert _label(rows[1], ["month", "ok"], _days(rows, ["month", "ok"])) == "2025-01-01 00:00:00, NULL"


def test_an_owner_is_called_what_the_data_set_protects(ann):
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.2, delta = 1e-6, max_groups_contributed = 1)"
        " site, COUNT(DISTINCT uid) AS owned FROM visits GROUP BY site"
    )
    explained = ann.send_form("/d/visits/ask", sql=sql, do="explain").text
    assert "the chance that a group of one person appears is at most δ" in explained
    page = ann.answer(sql).text
    assert "Each person counts in at most 1 group" in page
    assert "Promise: owner-level differential privacy (an owner is one person)." in page


def test_an_answer_of_public_tables_promises_nothing_and_aligns_its_numbers(ann):
    page = ann.answer("SELECT town, COUNT(*) AS n FROM sites GROUP BY town").text
    assert "No private table was read." in page
    assert "Promise:" not in page
    assert re.search(r'<th scope="col" >town</th><th scope="col" class="number">n</th>', page)


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ([(84, 67.0, 101.6), (1200, 1182.4, 1217.6)], ["84 67 to 102", "1,200 ± 18"]),
        ([(-4.8, -8.6046, -0.52494), (-5.4741, -9.2, -1.0)], ["-4.800 -8.605 to -0.525", "-5.474 -9.200 to -1.000"]),
        ([(22.03, 22.029, 22.031)], ["22.03 ± 0.001"]),
        ([(0.5, 0.0, 1.0), (2000.25, 1000.0, 4000.0)], ["0.5 ± 0.5", "2,000 1,000 to 4,000"]),
        ([(3e-7, 1e-7, 9e-7)], ["3e-07 1e-07 to 9e-07"]),
        ([(2.5e17, -1e18, 1e18)], ["2.5e+17 -1e+18 to 1e+18"]),
        ([(None, None, None), (1.5, 1.0, 2.0)], ["NULL", "1.500 ± 0.500"]),
        ([(float("inf"), 1.0, float("inf"))], ["inf 1 to inf"]),
    ],
)
def test_numbers_of_a_column_have_as_many_places_and_so_have_their_intervals(values, written):
    places = _places([value for value, _, _ in values])
    rows = [{"n": value, "n_low": low, "n_high": high} for value, low, high in values]
    assert [" ".join(_shown(row, "n", places, is_number=True)).strip() for row in rows] == written


def test_downloads_are_the_released_rows(ann):
    place = ann.answer(new_question()).url.path
    rows = ann.get(f"{place}/json").json()["rows"]
    csv = ann.get(f"{place}/csv", params={"level": 0.9})
    assert csv.headers["Content-Disposition"].startswith('attachment; filename="visits-')
    assert str(next(iter(rows[0].values()))) in csv.text
    assert ann.get(f"{place}/exe").status_code == 404
    assert ann.get(place, params={"level": 1.5}).status_code == 400
