"""How the console writes numbers, shares, statements and whom an allowance is for."""

from __future__ import annotations

import pytest

from shoal.web.console.rendering import audience, brief, exactly, tenths


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT WITH DIFFERENTIAL_PRIVACY\n  OPTIONS(epsilon = 1)\n  site, COUNT(*)\nFROM t", "SELECT … site, COUNT(*) FROM t"),
        ("select with anonymization options (epsilon = (1)) COUNT(*) FROM t", "SELECT … COUNT(*) FROM t"),
        ("SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM t", "SELECT … COUNT(*) FROM t"),
        ("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = (1)", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = (1)"),
        ("-- by site\nSELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) site FROM t", "-- by site SELECT … site FROM t"),
        ("SELECT a FROM (SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) AS a FROM t)", "SELECT a FROM (SELECT … COUNT(*) AS a FROM t)"),
        ("SELECT 1", "SELECT 1"),
    ],
)  # fmt: skip
def test_a_statement_is_listed_by_what_it_asks(sql, said):
    assert brief(sql) == said


def test_a_number_in_a_form_keeps_every_digit():
    assert exactly(1e-05) == "1e-5"
    assert float(exactly(1.2345678e-06)) == 1.2345678e-06


def test_shares_of_a_column_have_one_decimal_each():
    assert [tenths(share) for share in (0.59, 0.453, 1.0, None)] == ["59.0%", "45.3%", "100.0%", "—"]


def test_a_group_is_called_one():
    assert [audience(to) for to in ("group:research", "everyone", "ann")] == ["the group research", "everyone", "ann"]
