"""Pictures of verdicts and attacks (extra: plot)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.pages.figures import new_figure, saved

if TYPE_CHECKING:
    from pathlib import Path

    from shoal.audit.tester.verdicts import Verdict, Witness

_DATASET, _NEIGHBOUR, _BOUND = "#1b6ca8", "#e08e45", "#5a5a5a"


def plot_verdict(verdict: Verdict, path: str | Path | None = None) -> Any:
    """The witness's two histograms against the bound e^ε·q, its event shaded; saved where a path is given."""
    figure, axes = new_figure("A plot of a verdict")
    axes.set_title(str(verdict).splitlines()[0], fontsize=10)
    if verdict.witness is None:
        axes.text(0.5, 0.5, "no event distinguishes the data sets", ha="center", va="center", transform=axes.transAxes)
    elif len(verdict.witness.view.bins.edges) > 2:
        _draw_densities(axes, verdict.witness, verdict.epsilon)
    else:
        _draw_bars(axes, verdict.witness, verdict.epsilon, verdict.delta)
    if verdict.witness is not None:
        axes.legend(frameon=False)
    return saved(figure, path)


def _shares(witness: Witness) -> tuple[Any, Any]:
    larger, smaller = witness.view.test
    return larger / larger.sum(), smaller / smaller.sum()


def _draw_densities(axes: Any, witness: Witness, epsilon: float) -> None:
    """Steps over the bounded intervals; bins narrower than 1/300 of the picture are joined to the next."""
    edges = witness.view.bins.edges
    low, high = np.quantile(edges, [0.02, 0.98])
    apart = np.concatenate(([True], np.diff(edges) > (1 / 300) * (high - low)))
    ends = edges[apart & np.isfinite(edges)]
    widths = np.diff(ends)
    shares = [share[1 : len(edges)] for share in _shares(witness)]
    positions = np.clip(np.searchsorted(ends, edges[:-1], "right") - 1, 0, len(widths) - 1)
    p, q = (np.bincount(positions, weights=share, minlength=len(widths)) / widths for share in shares)
    axes.stairs(p, ends, color=_DATASET, label="data set")
    axes.stairs(q, ends, color=_NEIGHBOUR, label="neighbour")
    axes.stairs(math.exp(min(300.0, epsilon)) * q, ends, color=_BOUND, linestyle="--", label="bound e^ε · neighbour")
    inside = np.bincount(positions, weights=shares[0] * witness.chosen[1 : len(edges)], minlength=len(widths)) / widths
    axes.stairs(inside, ends, fill=True, color=_DATASET, alpha=0.2, label="event")
    axes.set(
        xlim=(low, high), ylim=(0, 1.3 * max(p.max(), q.max())), xlabel=witness.view.bins.feature, ylabel="density"
    )


def _draw_bars(axes: Any, witness: Witness, epsilon: float, delta: float) -> None:
    """Bars for outputs that are labels, cells or a few values: the twelve most frequent."""
    p, q = _shares(witness)
    names = [f"interval {i + 1}" for i in range(len(witness.view.bins.edges) + 1)] + list(witness.view.bins.labels)
    shown = np.argsort(-(p + q), kind="stable")[:12]
    shown = shown[(p + q)[shown] > 0]
    positions = np.arange(len(shown))
    bound = np.minimum(1.0, math.exp(min(300.0, epsilon)) * q[shown] + delta)
    axes.bar(positions - 0.2, p[shown], 0.4, color=_DATASET, label="data set")
    axes.bar(positions + 0.2, q[shown], 0.4, color=_NEIGHBOUR, label="neighbour")
    axes.hlines(
        bound, positions - 0.4, positions + 0.4, color=_BOUND, linestyle="--", label="bound e^ε · neighbour + δ"
    )
    marks = ["*" if witness.chosen[i] else "" for i in shown]
    texts = [f"{names[i][:30]}{mark}" for i, mark in zip(shown, marks, strict=True)]
    axes.set_xticks(positions, texts, rotation=20, ha="right")
    axes.set_ylabel("share of runs (* = event)")
