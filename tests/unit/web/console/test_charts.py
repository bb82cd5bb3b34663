"""Charts: whatever the numbers and names are, a picture with finite places in which no name is markup."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.web.console import charts
from shoal.web.console.charts import Point

REALS = st.floats(allow_nan=True, allow_infinity=True)
POINTS = st.lists(
    st.builds(Point, st.text(max_size=30), REALS, st.none() | REALS, st.none() | REALS), min_size=1, max_size=8
)
MARKS = {"div", "svg", "g", "line", "rect", "circle", "text", "polyline", "polygon"}
PLACE = re.compile(r'(?:x|y|x1|x2|y1|y2|cx|cy|width|height|points|d)="([^"]*)"')


def drawn(markup: str) -> str:
    assert not re.search("nan|inf", " ".join(PLACE.findall(markup)))
    assert "<script" not in markup
    return markup


@given(POINTS)
def test_any_numbers_make_a_picture(points):
    for chart in (charts.bars, charts.line, charts.dots):
        drawn(chart(points, "title"))


@given(
    st.lists(st.tuples(st.text(max_size=12), st.floats(0, 1e9)), min_size=1, max_size=8), st.none() | st.floats(0, 1e9)
)
def test_any_budget_makes_steps(totals, limit):
    picture = drawn(charts.steps(totals, limit, "title"))
    assert ("limit" in picture) == (limit is not None)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_any_belief_makes_a_picture(prior, low, high):
    drawn(charts.belief(prior, low, high, "title"))
    drawn(charts.beliefs(lambda _: (min(low, high), max(low, high)), prior, "title"))


def test_names_and_titles_are_text():
    name = "<script>alert(1)</script>\"'&"
    for chart in (charts.bars, charts.dots, charts.line):
        picture = drawn(chart([Point(name, 1.0, 0.0, 2.0), Point("b", 2.0)], name))
        assert "&lt;script" in picture
        assert set(re.findall(r"</?([a-z]+)", picture)) <= MARKS


def test_whiskers_reach_from_end_to_end_and_a_missing_end_has_none():
    assert 'class="whisker"' in charts.bars([Point("a", 5.0, 4.0, 6.0)], "t")
    assert 'class="whisker"' not in charts.bars([Point("a", 5.0, None, 6.0)], "t")


@pytest.mark.parametrize(("share", "kind"), [(0, "some"), (0.59, "some"), (0.7, "most"), (0.95, "full"), (7, "full")])
def test_a_meter_warns_as_the_budget_ends(share, kind):
    assert f'class="{kind}"' in charts.meter(share, "t")
    assert 'class="some"' in charts.meter(share, "t", warns=False)


def test_a_histogram_draws_what_is_there():
    picture = drawn(charts.histogram([0.0, 1.0, 2.0, 3.0], [5.0, 0.0, 1.0], [5.0, 1.0, 0.0], "t"))
    assert picture.count('class="raw"') == 2 * 2
    assert picture.count('class="clamped"') == 2 * 2


def test_a_histogram_with_one_tall_column_shows_the_others_too():
    picture = drawn(charts.histogram([0.0, 1.0, 2.0, 3.0], [40_000.0, 30.0, 1.0], [40_000.0, 30.0, 0.0], "t"))
    heights = [float(height) for height in re.findall(r'class="raw"[^>]* height="([0-9.]+)"', picture)]
    assert min(heights) > 5
    assert "10k" in picture


def test_a_hundred_dots_are_a_hundred():
    picture = charts.hundred(73, "t")
    assert (picture.count('class="on"'), picture.count('class="off"')) == (73, 27)


LABEL = re.compile(r'<text class="tick" x="([0-9.]+)" y="232[^"]*" text-anchor="(start|middle|end)">([^<]*)</text>')


@pytest.mark.parametrize("days", [2, 5, 12, 31, 90, 365, 699])
def test_labels_below_a_line_do_not_run_into_each_other(days):
    points = [Point(f"2025-{day:06}", 1.0) for day in range(days)]
    for chart in charts.line(points, "t").split("</svg>")[:2]:
        ends = 0.0
        labels = LABEL.findall(chart)
        assert labels
        for x, anchor, text in labels:
            wide = 7 * len(text)
            start = float(x) - {"start": 0, "middle": wide / 2, "end": wide}[anchor]
            assert start > ends
            ends = start + wide


def test_names_that_are_cut_can_still_be_told_apart():
    points = [Point(f"a name that is far too long for any chart, number {number}", 1.0) for number in range(30)]
    for picture in (charts.bars(points, "t"), charts.dots(points, "t")):
        for chart in picture.split("</svg>")[:2]:
            assert len(set(re.findall(r'<text class="name"[^>]*>([^<]*)</text>', chart))) == 30
