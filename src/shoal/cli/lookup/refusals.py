"""What every code means: the page `why-was-my-query-refused`, cut by code."""

from __future__ import annotations

import posixpath
import re

from shoal.cli.lookup import pages

PAGE = "howto/why-was-my-query-refused"


def explained(code: str) -> str | None:
    """What a code means and what to do, as plain text; None for a code that does not exist.

    >>> print(explained("E_MULTI_STATEMENT").splitlines()[0])
    E_MULTI_STATEMENT — more than one statement. Send them one by one.
    """
    text = pages.markdown(PAGE)
    section = re.search(rf"^\*\*{re.escape(code)}\*\* — .*?(?=^\*\*E_|^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section is not None:
        return _plain(section[0].replace(f"**{code}**", code, 1))
    row = re.search(rf"^\| `{re.escape(code)}` \| (.*) \|$", text, re.MULTILINE)
    return None if row is None else _plain(f"{code} — {row[1].replace(' | ', '. ')}")


def codes() -> list[str]:
    """Every code that is explained."""
    return sorted(set(re.findall(r"^(?:\*\*|\| `)(E_[A-Z_]+)", pages.markdown(PAGE), re.MULTILINE)))


def _plain(markdown: str) -> str:
    return pages.readable(markdown, posixpath.dirname(PAGE))
