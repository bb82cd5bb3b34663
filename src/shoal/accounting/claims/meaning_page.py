"""The picture of what ε means: beliefs after an answer over beliefs before it, as SVG, as a page, as a figure."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError, missing_extra
from shoal.pages import page, top
from shoal.params import percent

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from shoal.accounting.claims.meaning import Meaning

_SIZE, _LEFT, _TOP = 300, 62, 14
_STEPS = 80

_CHART_STYLE = """
.shoal-meaning .frame, .shoal-meaning .grid { stroke: #8b96ab; fill: none; stroke-width: 1; }
.shoal-meaning .grid { stroke-opacity: .3; } .shoal-meaning .same { stroke: #8b96ab; stroke-dasharray: 4 4; fill: none; }
.shoal-meaning .band { fill: #2f5fd0; fill-opacity: .16; } .shoal-meaning .edge { fill: none; stroke: #4f7fe8; stroke-width: 2; }
.shoal-meaning text { fill: currentColor; font: 12px system-ui, sans-serif; }
"""


def chart(meaning: Meaning) -> str:
    """Beliefs after over beliefs before; drawn in the colour of the text around it."""
    priors = [step / _STEPS for step in range(_STEPS + 1)]
    bounds = [meaning.posterior(prior) for prior in priors]
    upper = [_point(prior, bound.high) for prior, bound in zip(priors, bounds, strict=True)]
    lower = [_point(prior, bound.low) for prior, bound in zip(priors, bounds, strict=True)]
    grid = "".join(_grid(step / 4) for step in range(5))
    label = f"Beliefs after an answer with epsilon {meaning.epsilon:g}, over beliefs before it"
    return (
        f'<svg class="shoal-meaning" viewBox="0 0 {_LEFT + _SIZE + 20} {_TOP + _SIZE + 46}" role="img" '
        f'aria-label="{escape(label)}"><style>{_CHART_STYLE}</style>{grid}'
        f'<polygon class="band" points="{" ".join(upper + lower[::-1])}"/>'
        f'<polyline class="edge" points="{" ".join(upper)}"/><polyline class="edge" points="{" ".join(lower)}"/>'
        f'<polyline class="same" points="{_point(0, 0)} {_point(1, 1)}"/>'
        f'<text x="{_LEFT + _SIZE / 2}" y="{_TOP + _SIZE + 40}" text-anchor="middle">sure before</text>'
        f'<text x="12" y="{_TOP + _SIZE / 2}" text-anchor="middle" transform="rotate(-90 12 {_TOP + _SIZE / 2})">'
        "sure after</text></svg>"
    )


def _point(x: float, y: float) -> str:
    return f"{_LEFT + _SIZE * x:.1f},{_TOP + _SIZE * (1 - y):.1f}"


def _grid(share: float) -> str:
    x, y = _LEFT + _SIZE * share, _TOP + _SIZE * (1 - share)
    return (
        f'<path class="grid" d="M{x:.1f} {_TOP}V{_TOP + _SIZE}M{_LEFT} {y:.1f}H{_LEFT + _SIZE}"/>'
        f'<text x="{x:.1f}" y="{_TOP + _SIZE + 18}" text-anchor="middle">{share:.0%}</text>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{share:.0%}</text>'
    )


def meaning_page(meaning: Meaning, reasons: tuple[str, ...]) -> str:
    """A whole page: the picture, the sentences, the numbers, the defaults with their reasons."""
    title = f"What ε = {meaning.epsilon:g} means"
    delta = f", δ = {meaning.delta:g}" if meaning.delta else ""
    warning = f"<p><b>Warning:</b> {escape(meaning.warning)}</p>" if meaning.warning else ""
    parts = (
        f'{warning}<div style="max-width:440px;margin:12px auto">{chart(meaning)}</div>{_listed(meaning.sentences)}',
        _table(meaning),
        f"<h2>Defaults, and why</h2>{_listed(reasons)}",
    )
    cards = "".join(
        f'<section class="card"><div style="padding:12px 22px 18px">{part}</div></section>' for part in parts
    )
    return page(
        title, f"{top(title + delta, 'How much one answer can change what somebody believes.')}<main>{cards}</main>"
    )


def _listed(sentences: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in sentences)}</ul>"


def _table(meaning: Meaning) -> str:
    rows = "".join(
        f"<tr><td>{percent(row['prior'])}</td><td>{row['low']:.2%}</td><td>{row['high']:.2%}</td>"
        f"<td>{row['best_guess']:.2%}</td></tr>"
        for row in meaning.table
    )
    heads = "".join(
        f"<th>{name}</th>" for name in ("before", "after, at least", "after, at most", "best guess is right")
    )
    return f'<div class="scroll inside"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'


def plot_beliefs(meaning: Meaning, path: str | Path | None) -> Any:
    """The same chart as a matplotlib figure."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("plot", "A chart") from None
    priors = [step / _STEPS for step in range(_STEPS + 1)]
    bounds = [meaning.posterior(prior) for prior in priors]
    figure = Figure(figsize=(5, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.fill_between(priors, [one.low for one in bounds], [one.high for one in bounds], alpha=0.2)
    axes.plot([0, 1], [0, 1], "--", color="gray", linewidth=1)
    axes.set(xlabel="sure before", ylabel="sure after", xlim=(0, 1), ylim=(0, 1), title=f"ε = {meaning.epsilon:g}")
    write_figure(figure, path)
    return figure


def write_figure(figure: Any, path: str | Path | None) -> None:
    """Write a figure to a file if one is named."""
    if path is None:
        return
    try:
        figure.savefig(path)
    except (OSError, ValueError):
        raise ShoalError(
            "E_USAGE",
            f"The chart {str(path)!r} was not written.",
            hint="Name a .png, .svg or .pdf file that can be written.",
        ) from None
