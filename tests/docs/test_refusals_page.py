"""Every code that an error can carry is explained, and every refusal of a query has an example that is refused with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from code_blocks import blocks_of

from shoal.errors import OTHER_CODES, QUERY_CODES

PAGE = Path(__file__).parent.parent.parent / "docs" / "howto" / "why-was-my-query-refused.md"


@pytest.mark.parametrize("code", sorted(QUERY_CODES))
def test_every_refusal_has_a_refused_example(code):
    page = PAGE.read_text(encoding="utf-8")
    assert f"**{code}** — " in page
    assert code in {block.directives.get("refused") for block in blocks_of(page)}


@pytest.mark.parametrize("code", sorted(OTHER_CODES))
def test_every_other_code_has_a_line_of_the_table(code):
    assert f"\n| `{code}` |" in PAGE.read_text(encoding="utf-8")
