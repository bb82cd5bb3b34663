"""A chart of a composition: δ over ε, a line for each rule that applies (extra `plot`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.accounting.claims.meaning_page import write_figure
from shoal.errors import missing_extra

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def plot_curves(
    curves: Mapping[str, Sequence[tuple[float, float]]], title: str, chosen: str, path: str | Path | None
) -> Any:
    """A matplotlib figure, written to a file where one is named."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("plot", "A chart") from None
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name, curve in curves.items():
        visible = [pair for pair in curve if pair[1] > 0]
        if visible:
            axes.semilogy(*zip(*visible, strict=True), label=name, linewidth=2.5 if name == chosen else 1.2)
    axes.set(xlabel="ε", ylabel="δ", title=title[:90])
    axes.legend()
    write_figure(figure, path)
    return figure
