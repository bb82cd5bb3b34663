"""A chart that fits the shape of an answer: bars with error bars by group, points over dates or numbers (extra: plot)."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError, missing_extra

if TYPE_CHECKING:
    from shoal.result import Result


def plot_result(result: Result) -> Any:
    """A matplotlib figure: the first private number of the answer over its first group key."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("plot", "A chart") from None
    intervals = result.intervals().to_dicts()
    value = next((n for n in result.columns if intervals and f"{n}_low" in intervals[0]), None)
    if value is None:
        raise ShoalError("E_USAGE", "There is no private number with an interval in this answer to draw.")
    key = next((n for n in result.columns if n != value and not n.endswith(("_low", "_high"))), None)
    rows = [row for row in intervals if row[value] is not None]
    labels = [row[key] if key is not None else value for row in rows]
    heights = [row[value] for row in rows]
    errors = [
        [row[value] - row[f"{value}_low"] for row in rows],
        [row[f"{value}_high"] - row[value] for row in rows],
    ]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    if labels and all(isinstance(label, (int, float, dt.date)) and not isinstance(label, bool) for label in labels):
        axes.errorbar(labels, heights, yerr=errors, fmt="o", capsize=3)
    else:
        axes.bar([str(label) for label in labels], heights, yerr=errors, capsize=3, color="#4c86a8")
        axes.tick_params(axis="x", rotation=45)
    axes.set_ylabel(value)
    axes.set_xlabel(key or "")
    axes.set_title(f"{value} with {result.level:.0%} error bars (ε = {result.epsilon:g})")
    return figure
