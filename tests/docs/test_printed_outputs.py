"""The explanation that a page prints is the real one: it depends on no noise."""

from __future__ import annotations

import itertools
from pathlib import Path

from code_blocks import blocks_of

from shoal.session import connect

PAGE = Path(__file__).parent.parent.parent / "docs" / "reference" / "sql" / "explain.md"


def test_the_printed_explanation_is_the_real_one(workplace):
    pairs = itertools.pairwise(blocks_of(PAGE.read_text(encoding="utf-8")))
    ((asked, shown),) = [(a, b) for a, b in pairs if (a.language, b.language) == ("sql", "text")]
    assert shown.text.splitlines() == connect("data/", catalog="shoal.toml").query(asked.text)["explanation"]
