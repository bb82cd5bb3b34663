"""The picture of what ε means: beliefs after an answer over beliefs before it, as SVG, as a page, as a figure."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError, missing_extra
from shoal.params import percent

if TYPE_CHECKING:
    from shoal.accounting.claims.meaning import Meaning

_SIZE, _LEFT, _TOP = 300, 62, 14
_STEPS = 80

_STYLE = """
:root { color-scheme: light dark; }
:root { --page: #f6f7f9; --card: #fff; --ink: #14213a; --soft: #5b6780; --edge: #d9dee8; --line: #2f5fd0; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0e131c; --card: #171e2a; --ink: #e7ecf5; --soft: #a4b0c5; --edge: #33405a; --line: #7ea6ff; }
}
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 760px; margin: 0 auto; padding: 28px 18px 60px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 12px; } h2 { font-size: 18px; margin: 28px 0 8px; }
.card { background: var(--card); border: 1px solid var(--edge); border-radius: 14px; padding: 16px; }
.card { margin: 16px 0; overflow-x: auto; }
.warning { border-left: 4px solid #c4500c; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 6px 8px; border-bottom: 1px solid var(--edge); } th { color: var(--soft); font-size: 13px; }
svg { display: block; width: 100%; max-width: 440px; height: auto; margin: 0 auto; }
"""
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
    """A whole page: no script, no network."""
    title = f"What ε = {meaning.epsilon:g} means"
    rows = "".join(
        f"<tr><td>{percent(row['prior'])}</td><td>{row['low']:.2%}</td><td>{row['high']:.2%}</td>"
        f"<td>{row['best_guess']:.2%}</td></tr>"
        for row in meaning.table
    )
    warning = f'<p class="card warning">{escape(meaning.warning)}</p>' if meaning.warning else ""
    sentences = "".join(f"<li>{escape(sentence)}</li>" for sentence in meaning.sentences)
    defaults = "".join(f"<li>{escape(reason)}</li>" for reason in reasons)
    delta = f", δ = {meaning.delta:g}" if meaning.delta else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main><h1>{escape(title + delta)}</h1>{warning}"
        f'<div class="card">{chart(meaning)}</div><ul>{sentences}</ul>'
        '<div class="card"><table><thead><tr><th>before</th><th>after, at least</th><th>after, at most</th>'
        f"<th>best guess is right</th></tr></thead><tbody>{rows}</tbody></table></div>"
        f"<h2>Defaults, and why</h2><ul>{defaults}</ul></main></body></html>\n"
    )


def write_page(page: str, path: str | Path | None) -> str:
    """Write a page to a file if one is named."""
    if path is not None:
        try:
            Path(path).write_text(page, encoding="utf-8")
        except OSError as error:
            raise ShoalError("E_USAGE", f"The page {str(path)!r} was not written: {error.strerror}.") from None
    return page


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
