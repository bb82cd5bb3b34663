"""A pattern that passes our check is one that the engine reads; a pattern that does not never reaches it."""

from __future__ import annotations

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.sql.functions import patterns

PIECES = st.sampled_from(
    [
        *"ab()|[]^$.*+?{}0159,-:é\n ",
        *("[a-z]", "[^b]", "(?:", "(?i)", "{2}", "{1,3}", "{2,}", "[[:alpha:]]", "[:", "(?", "]]", "[^]", "[]", "[a-"),
        *("--", "(?P<n>", "[]a]", "[^]a]", "[z-[:digit:]]", "[a-b-c]", "{100}", "(a|b)", "a+?", "(?is)"),
    ]
)
SUBJECTS = ("aab", "", "é[]-^", "a1b2\n", "NULL")


@pytest.fixture(scope="module")
def connection():
    with duckdb.connect() as con:
        con.execute("CREATE TABLE subjects AS SELECT unnest(?) AS x", [list(SUBJECTS)])
        yield con


@settings(max_examples=500, deadline=None)
@given(pieces=st.lists(PIECES, min_size=1, max_size=10))
def test_the_engine_reads_every_regular_expression_that_passes_the_check(connection, pieces):
    pattern = "".join(pieces)
    if patterns.regex_complaint(pattern) is not None:
        return
    quoted = pattern.replace("'", "''")
    groups = patterns.groups_in(pattern)
    connection.execute(
        f"SELECT regexp_matches(x, '{quoted}'), regexp_extract(x, '{quoted}', {min(groups, 9)}), "
        f"regexp_replace(x, '{quoted}', 'y', 'g'), regexp_full_match(x, '{quoted}') FROM subjects"
    ).fetchall()


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "abc",
        "^a+$",
        "(a|b)*",
        "[a-z0-9_.-]+@[a-z]+[.]com",
        "(?i)x",
        "a{2,3}",
        "a*?",
        "[^]a]",
        "[[:digit:]]+",
        "日本|語",
    ],
)
def test_ordinary_regular_expressions_pass(pattern):
    assert patterns.regex_complaint(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "(",
            ")",
            "a)",
            "(a",
            "*a",
            "a**",
            "a+{2}",
            "{2}",
            "a{2",
            "[",
            "[a",
            "[z-a]",
            "[]",
            "[^]",
            "]",
            "}",
            "(?P<n>a)",
        ),
        *("a{3,2}", "(a{50}){50}", "a{1001}", r"\d", r"(a)\1", "(?=a)", "(?<!a)b", "a" * 201, "x(?i)", "[a--]", "(*)"),
    ],
)
def test_what_some_engine_would_refuse_or_take_long_over_is_refused(pattern):
    complaint = patterns.regex_complaint(pattern)
    assert complaint is not None
    assert complaint.endswith(".")


@settings(max_examples=500, deadline=None)
@given(
    pattern=st.text(st.sampled_from("ab%_!é\\"), max_size=8),
    escape=st.sampled_from([None, "!", "a", "%", "é", "", "ab"]),
)
def test_the_engine_reads_every_like_pattern_that_passes_the_check(connection, pattern, escape):
    if patterns.like_complaint(pattern, escape) is not None:
        return
    if escape is None:
        calls = ('"~~"', '"~~*"')
        rest = ""
    else:
        calls = ("like_escape", "ilike_escape")
        rest = f", '{escape}'"
    for call in calls:
        connection.execute(f"SELECT system.main.{call}(x, '{pattern}'{rest}) FROM subjects").fetchall()


def test_matching_takes_time_in_proportion_to_the_text(connection):
    """Both kinds of pattern that ruin backtracking engines; half a million characters in well under a second each."""
    for form in ("regexp_matches(s, '^(a+)+$')", "s LIKE '%a%a%a%a%a%a%ab'"):
        connection.execute(f"SELECT {form} FROM (SELECT repeat('a', 500000) || '!' AS s)").fetchall()
