"""The report: one table of settings, framed as what it is."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from shoal.pages.shell import heads, page, top, write_page
from shoal.tuning.cells import advised, cells, clamped

if TYPE_CHECKING:
    from pathlib import Path

    from shoal.tuning.tune import Setting, Tuning

_HEADINGS = (
    ("ε", False),
    ("groups per owner", False),
    ("bounds", True),
    ("groups kept", False),
    ("clamped", False),
    ("lost to clamping", False),
    ("lost to the groups limit", False),
    ("noise (σ)", False),
    ("median relative error", False),
    ("90th percentile", False),
)


def tuning_page(tuning: Tuning, path: str | Path | None) -> str:
    """One page; written to a file where one is named."""
    rows = "".join(_row(number, one) for number, one in enumerate(tuning.settings, 1))
    table = f'<div class="scroll"><table class="main">{heads(_HEADINGS, "row")}{rows}</table></div>'
    said = "".join(f"<li>{escape(line)}{about}</li>" for line, about in advised(tuning).items())
    advice = f'<section class="card"><div class="head"><h2>Advice</h2></div><ul class="notes">{said}</ul></section>'
    body = (
        f'{top("Tuning", tuning.warning)}<main><section class="card">{table}</section>{advice if said else ""}</main>'
    )
    return write_page(page("Tuning: not private", body), path)


def _row(number: int, one: Setting) -> str:
    """A body of its own, as the sorting script wants it."""
    sizes = (
        one.epsilon,
        one.max_groups,
        None,
        one.expected_groups_kept,
        clamped(one),
        one.lost_to_clamping,
        one.lost_to_groups_limit,
        one.noise_standard_deviation,
        one.median_relative_error,
        one.ninetieth_relative_error,
    )
    told = "".join(
        f'<td class="text">{escape(cell)}</td>'
        if is_text
        else f'<td data-sort="{-1.0 if size is None else size!r}">{escape(cell)}</td>'
        for (_, is_text), cell, size in zip(_HEADINGS, cells(one), sizes, strict=True)
    )
    return f"<tbody><tr><td>{number}</td>{told}</tr></tbody>"
