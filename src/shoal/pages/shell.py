"""Reports as self-contained web pages: one file, no network, light and dark, sortable, readable without scripts too.

Names come from data and are escaped wherever they go. A content security policy lets the page run its own script, by
hash, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib import resources
from pathlib import Path

from shoal.errors import ShoalError


def page(title: str, body: str, script: str = "") -> str:
    """A whole page around a body; its own script runs after that of all pages."""
    folder = resources.files("shoal.pages")
    script = (folder / "page.js").read_text(encoding="utf-8") + script
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    shell = (folder / "page.html").read_text(encoding="utf-8")
    for mark, text in (
        ("@SCRIPT_HASH@", f"sha256-{digest}"),
        ("@TITLE@", escape(title)),
        ("@SCRIPT@", script),
        ("@BODY@", body),  # last: names in it may look like a mark
    ):
        shell = shell.replace(mark, text, 1)
    return shell


def embedded(whole: str) -> str:
    """A page inside a notebook, kept apart from it."""
    return (
        f'<iframe sandbox="allow-scripts" style="width:100%;height:640px;border:0" srcdoc="{escape(whole)}"></iframe>'
    )


def write_page(page: str, path: str | Path | None) -> str:
    """Write a page to a file if one is named."""
    if path is not None:
        try:
            Path(path).write_text(page, encoding="utf-8")
        except OSError as error:
            raise ShoalError("E_USAGE", f"The page {str(path)!r} was not written: {error.strerror}.") from None
    return page


def top(title: str, lead: str) -> str:
    """The head of a page."""
    return (
        f'<header class="top"><div><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p></div>'
        '<button class="theme" type="button">Dark</button></header>'
    )


def tile(number: str, label: str, kind: str = "") -> str:
    """A number that matters."""
    return f'<div class="tile {kind}"><b>{escape(number)}</b><span>{escape(label)}</span></div>'


def heads(headings: tuple[tuple[str, bool], ...], first: str = "details") -> str:
    """Sortable column headings, after one for what begins a row; the flag says that a column is text."""
    cells = "".join(
        f'<th scope="col" class="{"text" if text else ""}"><button type="button">{name}</button></th>'
        for name, text in headings
    )
    return f'<thead><tr><th aria-label="{first}"></th>{cells}</tr></thead>'
