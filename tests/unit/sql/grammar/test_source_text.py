"""The text of a call, found again by where it stands."""

from __future__ import annotations

import pytest

from shoal.sql.grammar.source_text import LONGEST, CallsAsWritten


@pytest.mark.parametrize(
    ("sql", "place", "text"),
    [
        ("SELECT COUNT(*) AS n", (1, 8), "COUNT(*)"),
        ("SELECT\n  Sum(\n  f(x), (1 + 2)\n) + 1", (2, 3), "Sum( f(x), (1 + 2) )"),
        ("SELECT SUM(x) FILTER (WHERE y IN (1, 2)) AS s", (1, 8), "SUM(x) FILTER (WHERE y IN (1, 2))"),
        ("SELECT p(0.5) WITHIN GROUP (ORDER BY x) q", (1, 8), "p(0.5) WITHIN GROUP (ORDER BY x)"),
        ("SELECT f(')', \"(\") FROM t", (1, 8), "f(')', \"(\")"),
        ("SELECT COUNT(*) AS n", (1, 9), None),
        ("SELECT COUNT(*) AS n", (7, 1), None),
        ("SELECT a AS n", (1, 8), None),
        ("SELECT f(", (1, 8), None),
        ("SELECT $", (1, 8), None),
        ("SELECT COUNT(*) AS n", None, None),
    ],
)
def test_a_call_is_shown_as_it_was_written(sql, place, text):
    assert CallsAsWritten(sql).at(place) == text


def test_a_long_call_is_cut():
    text = CallsAsWritten(f"SELECT SUM({' + '.join(['spend'] * 40)})").at((1, 8))
    assert len(text) == LONGEST
    assert text.endswith("…")
