"""What every code means: the page `why-was-my-query-refused.md`, which the wheel carries along, cut by code."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

PAGE = "why-was-my-query-refused.md"
_DIRECTIVE = re.compile(r"<!--.*?-->\n?", re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def page() -> str:
    """The whole page, from the installed package or from the source tree."""
    carried = resources.files("shoal") / PAGE
    if carried.is_file():
        return carried.read_text(encoding="utf-8")
    return (Path(__file__).parents[4] / "docs" / "howto" / PAGE).read_text(encoding="utf-8")


def explained(code: str) -> str | None:
    """What a code means and what to do, as plain text; None for a code that does not exist.

    >>> print(explained("E_MULTI_STATEMENT").splitlines()[0])
    E_MULTI_STATEMENT — more than one statement. Send them one by one.
    """
    text = page()
    section = re.search(rf"^\*\*{re.escape(code)}\*\* — .*?(?=^\*\*E_|^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section is not None:
        return _plain(section[0].replace(f"**{code}**", code, 1))
    row = re.search(rf"^\| `{re.escape(code)}` \| (.*) \|$", text, re.MULTILINE)
    return None if row is None else _plain(f"{code} — {row[1].replace(' | ', '. ')}")


def codes() -> list[str]:
    """Every code that is explained."""
    return sorted(set(re.findall(r"^(?:\*\*|\| `)(E_[A-Z_]+)", page(), re.MULTILINE)))


def _plain(markdown: str) -> str:
    return _LINK.sub(r"\1", _DIRECTIVE.sub("", markdown)).strip()
