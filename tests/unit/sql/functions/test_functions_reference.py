"""The reference page is written from the allow-list, and stays that way."""

from __future__ import annotations

from pathlib import Path

from shoal.sql import functions
from shoal.sql.functions.reference import page

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "functions.md"


def test_the_reference_page_is_what_the_allow_list_says():
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "python -m shoal.sql.functions.reference > docs/reference/functions.md"
    )


def test_every_name_stands_on_the_page():
    text = page().upper()
    for function in functions.FUNCTIONS.values():
        names = (function.name, *function.aliases) if not function.operator else ()
        for name in names:
            assert name.upper() in text


def test_no_name_means_two_things():
    names = [name for f in functions.FUNCTIONS.values() for name in (f.name, *f.aliases)]
    assert len(names) == len(set(names))
    listed = [f.name for section in functions.SECTIONS.values() for f in section]
    assert len(listed) == len(set(listed))
    assert not set(names) & set(functions.OWNER_AGGREGATES)
    assert not set(names) & set(functions.WINDOW_FUNCTIONS)
    assert set(functions.OWNER_AGGREGATES) <= functions.AGGREGATE_NAMES
    assert not set(names) & functions.AGGREGATE_NAMES
