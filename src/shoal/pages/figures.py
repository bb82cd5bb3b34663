"""Pictures by Matplotlib (extra: plot): one size, one way to make them and one way to save them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal.errors import missing_extra

if TYPE_CHECKING:
    from pathlib import Path


def new_figure(purpose: str, height: float = 4.5) -> tuple[Any, Any]:
    """A figure with one pair of axes, drawn without a display; figures are not kept alive by a global registry."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("plot", purpose) from None
    figure = Figure(figsize=(8, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.add_subplot()


def saved(figure: Any, path: str | Path | None) -> Any:
    """The figure, also written to a file where one is named."""
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
