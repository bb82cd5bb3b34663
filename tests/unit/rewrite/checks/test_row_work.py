"""What an expression costs for one row, by its plan."""

from __future__ import annotations

import pytest

from shoal.plan import nodes
from shoal.plan.expressions import Call, Case, Cast, Column, Frame, Literal, ScalarRelation, WindowCall
from shoal.plan.types import BOOLEAN, INTEGER, TEXT, Kind, Type
from shoal.rewrite.checks.row_work import (
    CAST,
    CAST_BYTE,
    CAST_DECIMAL,
    COMPUTED,
    FRAMED_MEDIAN,
    LIKE_BYTE,
    PATTERN_BYTE,
    PATTERN_STATE,
    PLAIN_BYTES,
    STORED_TEXT,
    TEXT_BYTE,
    WINDOW,
    held_texts,
    longest_of,
    longest_text,
    nanoseconds,
    text_work,
)

STORED, LONG, NUMBER = Column("s", TEXT), Column("long", TEXT), Column("n", INTEGER)
TEXTS = {"long": 5_000, "listed": 700, "none": 0}
JOINED = Call("concat", (STORED, LONG), TEXT)
FIRST = WindowCall("first_value", (JOINED,), (NUMBER,), (), None, TEXT)
ONE = ScalarRelation(nodes.Values((("a",),), (nodes.Field("x", "listed", TEXT),)), TEXT)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (STORED, STORED_TEXT),
        (LONG, 5_000),
        (Column("none", TEXT), STORED_TEXT),
        (Literal("é", TEXT), 2),
        (Cast(NUMBER, TEXT), PLAIN_BYTES),
        (JOINED, STORED_TEXT + 5_000 + PLAIN_BYTES),
        (FIRST, STORED_TEXT + 5_000 + PLAIN_BYTES),
        (ONE, 700),
    ],
)
def test_how_long_a_text_may_be(value, size):
    assert longest_text(value, TEXTS) == size
    assert longest_of([value, NUMBER], TEXTS) == size


def test_numbers_are_no_texts():
    assert longest_of([NUMBER], TEXTS) == 0


def test_each_part_of_an_expression_takes_its_time():
    matches = Call("regexp_matches", (LONG, Literal("a[ab]{40}c", TEXT)), BOOLEAN)
    upper = Call("upper", (STORED,), TEXT)
    chosen = Case(((matches, upper),), Literal("", TEXT), TEXT)
    pattern = COMPUTED + 5_000 * (PATTERN_BYTE + 400 * PATTERN_STATE)
    assert nanoseconds(matches, TEXTS) == pattern
    assert nanoseconds(upper, TEXTS) == COMPUTED + STORED_TEXT * TEXT_BYTE
    assert nanoseconds(chosen, TEXTS) == COMPUTED + pattern + COMPUTED + STORED_TEXT * TEXT_BYTE
    assert nanoseconds(NUMBER, TEXTS) == 0
    assert nanoseconds(WindowCall("row_number", (), (NUMBER,), (), None, INTEGER), TEXTS) == WINDOW
    assert nanoseconds(WindowCall("median", (NUMBER,), (NUMBER,), (), None, INTEGER), TEXTS) == WINDOW
    decimal = Type(Kind.DECIMAL, 38, 10)
    assert nanoseconds(Cast(NUMBER, TEXT), TEXTS) == CAST
    assert nanoseconds(Cast(LONG, INTEGER), TEXTS) == CAST + 5_000 * CAST_BYTE
    assert nanoseconds(Cast(STORED, decimal), TEXTS) == CAST_DECIMAL + STORED_TEXT * CAST_BYTE
    frame = Frame("ROWS", (1, "PRECEDING"), (None, "CURRENT ROW"))
    assert nanoseconds(WindowCall("median", (NUMBER,), (NUMBER,), (), frame, INTEGER), TEXTS) == FRAMED_MEDIAN


@pytest.mark.parametrize(
    ("function", "pattern", "longest"),
    [
        ("like", ("%aaaaaaaa%",), 0),
        ("like", ("%a_a_a_a_b%cc",), 9),
        ("like", ("%aaaaaaaa%", "!"), 8),
        ("ilike", ("é%aaaa",), 4),
        ("ilike", ("aaa%é_",), 3),
    ],
)
def test_a_pattern_is_tried_at_every_place_of_a_string(function, pattern, longest):
    """A `_` after a `%`, ILIKE and an escape take time for every byte of both: a row of one owner passed the deadline."""
    call = Call(function, (LONG, *(Literal(each, TEXT) for each in pattern)), BOOLEAN)
    assert nanoseconds(call, TEXTS) == COMPUTED + 5_000 * (TEXT_BYTE + LIKE_BYTE * longest)


def test_every_value_of_a_list_counts_unless_all_are_constants():
    """`x IN (y, z, y, z, …)` with 8,000 values took 122 microseconds a row, and counted as 20 nanoseconds."""
    constants = tuple(Literal(number, INTEGER) for number in range(1_000))
    assert nanoseconds(Call("in", (NUMBER, *constants), BOOLEAN), TEXTS) == COMPUTED
    assert nanoseconds(Call("in", (NUMBER, *constants, NUMBER), BOOLEAN), TEXTS) == COMPUTED * 1_000
    assert nanoseconds(Call("greatest", (NUMBER,) * 100, INTEGER), TEXTS) == COMPUTED * 98


def test_what_is_shared_in_an_expression_counts_once():
    upper = Call("upper", (STORED,), TEXT)
    assert (
        nanoseconds(Call("equal", (upper, upper), BOOLEAN), {})
        < 2 * nanoseconds(upper, {}) + COMPUTED + 2 * 320 * TEXT_BYTE
    )


def test_constants_of_a_list_take_no_time_and_long_texts_are_looked_at():
    listed = Call("in", (STORED, *(Literal(f"name {n}", TEXT) for n in range(300))), BOOLEAN)
    assert nanoseconds(listed, {}) == COMPUTED + STORED_TEXT * TEXT_BYTE
    assert text_work(Call("upper", (LONG,), TEXT), TEXTS, 4_096) == 5_000
    assert text_work(Call("upper", (STORED,), TEXT), TEXTS, 4_096) == 0


def test_windows_hold_computed_texts():
    assert held_texts(FIRST, TEXTS) == STORED_TEXT + 5_000 + PLAIN_BYTES
    assert held_texts(WindowCall("lag", (STORED,), (NUMBER,), (), None, TEXT), TEXTS) == 0
    assert held_texts(JOINED, TEXTS) == 0
