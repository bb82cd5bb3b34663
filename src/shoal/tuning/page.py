"""The report: one table of settings, framed as what it is."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from shoal.pages.shell import heads, page, top, write_page
from shoal.tuning.cells import cells

if TYPE_CHECKING:
    from pathlib import Path

    from shoal.tuning.tune import Setting, Tuning

_HEADINGS = (
    ("ε", True),
    ("groups per owner", True),
    ("bounds", False),
    ("groups kept", True),
    ("clamped", True),
    ("lost to clamping", True),
    ("lost to the groups limit", True),
    ("noise (σ)", True),
    ("median relative error", True),
    ("90th percentile", True),
    ("advice", False),
)


def tuning_page(tuning: Tuning, path: str | Path | None) -> str:
    """One page; written to a file where one is named."""
    body = top("Tuning", tuning.warning)
    rows = "".join(_row(one) for one in tuning.settings)
    body += f'<table class="sortable"><thead>{heads(_HEADINGS)}</thead><tbody>{rows}</tbody></table>'
    return write_page(page("Tuning: not private", body), path)


def _row(one: Setting) -> str:
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (*cells(one), " ".join(one.advice))) + "</tr>"
