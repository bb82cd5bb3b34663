"""One setting as a row of a table: in a terminal, in Python and on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.tuning.tune import Setting, Tuning

SHORT_HEADINGS = (
    *(
        "ε",
        "groups/owner",
        "bounds",
        "kept",
        "clamped",
        "lost: clamp",
        "lost: groups",
        "σ",
        "error",
        "error of 9 in 10",
    ),
)
"""The last two: what half of the groups, and nine in ten of them, are off by at most."""


def cells(one: Setting) -> tuple[str, ...]:
    """What the headings announce."""
    bounds = "; ".join(f"{name} {pair[0]:g}…{pair[1]:g}" for name, pair in one.bounds.items() if pair is not None)
    return (
        f"{one.epsilon:g}",
        str(one.max_groups),
        bounds,
        f"{one.expected_groups_kept:.1f} of {one.groups}",
        _share(clamped(one)),
        _share(one.lost_to_clamping),
        _share(one.lost_to_groups_limit),
        "" if one.noise_standard_deviation is None else f"{one.noise_standard_deviation:,.4g}",
        _share(one.median_relative_error),
        _share(one.ninetieth_relative_error),
    )


def advised(found: Tuning) -> dict[str, str]:
    """Each sentence, and the rows of the table that it is about where it is not about all of them."""
    said: dict[str, list[int]] = {}
    for row, one in enumerate(found.settings, start=1):
        for sentence in one.advice:
            said.setdefault(sentence, []).append(row)
    return {
        sentence: "" if len(rows) == len(found.settings) else f" (rows {', '.join(map(str, rows))})"
        for sentence, rows in said.items()
    }


def clamped(one: Setting) -> float | None:
    """The share of values outside the bounds."""
    return None if one.clamped_low is None else one.clamped_low + (one.clamped_high or 0.0)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
