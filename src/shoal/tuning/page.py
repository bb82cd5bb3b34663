"""The report: one table of settings, framed as what it is."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from shoal.pages.shell import heads, page, top, write_page

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
    ("advice", False),
)


def tuning_page(tuning: Tuning, path: str | Path | None) -> str:
    """One page; written to a file where one is named."""
    body = top("Tuning", tuning.warning)
    rows = "".join(_row(one) for one in tuning.settings)
    body += f'<table class="sortable"><thead>{heads(_HEADINGS)}</thead><tbody>{rows}</tbody></table>'
    return write_page(page("Tuning: not private", body), path)


def _row(one: Setting) -> str:
    bounds = "; ".join(f"{name} {pair[0]:g}…{pair[1]:g}" for name, pair in one.bounds.items() if pair is not None)
    clamped = None if one.clamped_low is None else one.clamped_low + (one.clamped_high or 0.0)
    cells = (
        f"{one.epsilon:g}",
        str(one.max_groups),
        bounds,
        f"{one.expected_groups_kept:.1f} of {one.groups}",
        _share(clamped),
        _share(one.lost_to_clamping),
        _share(one.lost_to_groups_limit),
        "" if one.noise_standard_deviation is None else f"{one.noise_standard_deviation:,.4g}",
        _share(one.median_relative_error),
        " ".join(one.advice),
    )
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
