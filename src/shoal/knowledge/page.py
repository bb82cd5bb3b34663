"""A guarantee as a page, a notebook cell or a picture: assumptions above the numbers, always."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

from shoal.pages import page, top
from shoal.pages.figures import new_figure, saved

if TYPE_CHECKING:
    from pathlib import Path

    from shoal.knowledge.guarantee import Guarantee

_DELTAS = (1e-3, 1e-6, 1e-9)
_LEFT, _RIGHT, _TOP, _BOTTOM = 50.0, 630.0, 12.0, 270.0
_INK, _MARK = "currentColor", "#1b6ca8"


def fragment(kept: Guarantee) -> str:
    """Assumptions, numbers, what is left without the assumptions, warnings."""
    return f"<div>{_assumptions(kept)}{_numbers(kept)}</div>"


def _assumptions(kept: Guarantee) -> str:
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in kept.assumptions)
    return f"<p><b>{escape(kept.release)}.</b> This holds only if:</p><ul>{sentences}</ul>"


def _numbers(kept: Guarantee) -> str:
    rows = "".join(f"<tr><td>{delta:g}</td><td>{kept.epsilon_words(delta)}</td></tr>" for delta in _DELTAS)
    warnings = "".join(f"<p><b>Warning:</b> {escape(warning)}</p>" for warning in kept.warnings)
    return (
        '<table style="width:auto"><thead><tr><th style="text-align:left;padding-right:3em">δ</th>'
        f'<th style="text-align:left">ε ({escape(kept.method)})</th></tr></thead><tbody>{rows}</tbody></table>'
        f"<p>Against somebody who knows all other answers: {escape(kept.worst_words)}.</p>{warnings}"
    )


def whole_page(kept: Guarantee) -> str:
    """One page that needs nothing but a browser."""
    lead = "A conditional promise: it is worth as much as its assumptions, and it is not differential privacy."
    parts = (_assumptions(kept), _numbers(kept) + _curve(kept))
    cards = "".join(
        f'<section class="card"><div style="padding:6px 22px 18px">{part}</div></section>' for part in parts
    )
    return page("shoal knowledge", f"{top(kept.release, lead)}<main>{cards}</main>")


def _curve(kept: Guarantee) -> str:
    """δ over ε, δ on a logarithmic axis."""
    points = kept.curve(60)
    end, lowest = points[-1][0], math.floor(min(-1.0, math.log10(max(points[-1][1], 1e-12))))
    drawn = [(epsilon / end, math.log10(max(delta, 10.0**lowest)) / lowest) for epsilon, delta in points]
    path = " L".join(f"{_x(share):.1f},{_y(depth):.1f}" for share, depth in drawn)
    powers = "".join(_gridline(power, power / lowest) for power in range(0, lowest - 1, -max(1, -lowest // 6)))
    steps = "".join(_label(_x(i / 4), _BOTTOM + 18, f"{end * i / 4:.2g}", "middle") for i in range(5))
    return (
        '<svg viewBox="0 0 660 300" role="img" aria-label="δ for every ε" style="max-width:660px">'
        f'{powers}<path d="M{path}" fill="none" stroke="{_MARK}" stroke-width="2"/>{steps}'
        f"{_label(8, _TOP + 4, 'δ', 'middle')}{_label(650, _BOTTOM + 18, 'ε', 'middle')}</svg>"
    )


def _x(share: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * share


def _y(depth: float) -> float:
    return _TOP + (_BOTTOM - _TOP) * depth


def _gridline(power: int, depth: float) -> str:
    y = _y(depth)
    line = f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{_INK}" stroke-opacity="0.15"/>'
    return line + _label(_LEFT - 6, y + 4, f"1e{power}", "end")


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{_INK}" font-size="12" text-anchor="{anchor}">{text}</text>'


def draw(kept: Guarantee, path: str | Path | None) -> Any:
    """δ over ε with the assumptions above, by Matplotlib."""
    figure, axes = new_figure("A plot of a guarantee", height=5.5)
    points = kept.curve()
    axes.semilogy([epsilon for epsilon, _ in points], [delta for _, delta in points], color=_MARK)
    axes.set(xlabel="ε", ylabel="δ")
    axes.set_title("\n".join((f"{kept.release}, only if:", *kept.assumptions)), fontsize=8, loc="left")
    return saved(figure, path)
