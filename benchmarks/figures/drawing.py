"""The pictures: one function each, from the lines of its data to axes. Colours and dashes tell the rules apart, also in grey."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import matplotlib as mpl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

Line = tuple[Any, ...]
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#555555"
STYLES: dict[str, dict[str, Any]] = {
    "optimal": {"color": BLUE, "linestyle": "-"},
    "optimal rule, half of ε": {"color": BLUE, "linestyle": "-"},
    "Laplace threshold": {"color": ORANGE, "linestyle": "--"},
    "Laplace threshold, half of ε": {"color": ORANGE, "linestyle": "--"},
    "Gaussian threshold": {"color": GREEN, "linestyle": "-."},
    "the released count selects": {"color": GREEN, "linestyle": "-."},
}
SETTINGS = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "axes.titlesize": 9.5,
}


def picture(lines: Sequence[Line], draw: Callable[[list[Axes], Sequence[Line]], None], panels: int, path: Path) -> None:
    """Draws the lines into a PNG."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with mpl.rc_context(SETTINGS):
        figure, axes = plt.subplots(1, panels, figsize=(4.2 * panels if panels > 1 else 6.0, 3.5), squeeze=False)
        draw(list(axes[0]), lines)
        figure.tight_layout()
        figure.savefig(path, dpi=120, metadata={"Software": None})
        plt.close(figure)


def _curve(axes: Axes, points: list[tuple[float, float]], label: str, **style: Any) -> None:
    axes.plot([x for x, _ in points], [y for _, y in points], label=label, **{**STYLES.get(label, {}), **style})


def _names(lines: Sequence[Line], place: int) -> list[Any]:
    return list(dict.fromkeys(line[place] for line in lines))


def withheld_by_delta(panels: list[Axes], lines: Sequence[Line]) -> None:
    """Share of Q13's groups withheld by δ."""
    axes = panels[0]
    for way in _names(lines, 1):
        _curve(axes, [(delta, share) for delta, name, share in lines if name == way], way)
    axes.set(xscale="log", xlabel="δ", ylabel="expected share of groups withheld", ylim=(0, None))
    axes.set_title("TPC-H Q13, customers as owners, ε = 0.1")
    axes.legend(loc="lower left")


def kept_by_owners(panels: list[Axes], lines: Sequence[Line]) -> None:
    """Chance of being kept by number of owners, a panel per (ε, δ)."""
    settings = list(dict.fromkeys(line[:2] for line in lines))
    for axes, (epsilon, delta) in zip(panels, settings, strict=True):
        own = [line[2:] for line in lines if line[:2] == (epsilon, delta)]
        for rule in _names(own, 1):
            points = [(owners, chance) for owners, name, chance in own if name == rule]
            _curve(axes, points, rule, marker="o" if len(points) < 50 else None, markersize=3)
        axes.axhline(0.5, color=GREY, linewidth=0.8, linestyle=":")
        axes.set(xlabel="owners of the group", ylabel="chance that the group is kept", ylim=(-0.02, 1.02))
        axes.set_title(f"ε = {epsilon:g}, δ = {_power(delta)}, one group per owner")
    panels[0].legend(loc="lower right")


def half_points(panels: list[Axes], lines: Sequence[Line]) -> None:
    """Owners for an even chance, by ε and by δ."""
    for axes, (what, fixed, label) in zip(panels, (("ε", 2, "δ"), ("δ", 1, "ε")), strict=True):
        own = [line for line in lines if line[0] == what]
        for value, width in zip(_names(own, fixed), (1.9, 1.0), strict=True):
            for rule in _names(own, 3):
                points = [(line[3 - fixed], line[4]) for line in own if line[fixed] == value and line[3] == rule]
                shown = _power(value) if label == "δ" else f"{value:g}"
                _curve(axes, points, f"{rule}, {label} = {shown}", **STYLES[rule], linewidth=width)
        axes.set(xscale="log", yscale="log", xlabel=what, ylabel="owners for an even chance of being kept")
        axes.legend(loc="upper right", fontsize=7.5)
    panels[1].set_ylim(None, 1200)


def half_points_by_groups(panels: list[Axes], lines: Sequence[Line]) -> None:
    """Owners for an even chance, by groups per owner."""
    axes = panels[0]
    for rule in _names(lines, 1):
        _curve(axes, [(groups, owners) for groups, name, owners in lines if name == rule], rule)
    axes.set(xlabel="groups per owner κ", ylabel="owners for an even chance of being kept", xscale="log", yscale="log")
    axes.set_xticks([1, 2, 5, 10, 20, 50], labels=["1", "2", "5", "10", "20", "50"])
    axes.set_yticks([10, 20, 50, 100, 200, 500], labels=["10", "20", "50", "100", "200", "500"])
    axes.minorticks_off()
    axes.set_title(f"ε = 1.1, δ = {_power(1e-5)}")
    axes.legend(loc="upper left")


def clamped_means(panels: list[Axes], lines: Sequence[Line]) -> None:
    """Error of a clamped mean by upper bound."""
    axes = panels[0]
    for epsilon, color, dashes in zip(_names(lines, 0), (BLUE, ORANGE), ("-", "--"), strict=True):
        points = [(upper, error) for one, upper, error, _ in lines if one == epsilon]
        _curve(axes, points, f"private mean, ε = {epsilon:g}", color=color, linestyle=dashes, marker="o", markersize=3)
    clamping = [(upper, bias) for one, upper, _, bias in lines if one == lines[0][0] and bias > 1e-6]
    _curve(axes, clamping, "clamping alone", color=GREY, linestyle=":")
    axes.set(xscale="log", yscale="log", xlabel="upper bound", ylabel="median relative error")
    axes.set_ylim(1e-4, 1)
    axes.set_xticks([5, 10, 20, 50, 100, 200, 500, 1000], labels=["5", "10", "20", "50", "100", "200", "500", "1000"])
    axes.minorticks_off()
    axes.set_title("mean of lognormal(2, 1) values of 10,000 owners, clamped to [0, bound]")
    axes.legend(loc="lower left")


def _power(number: float) -> str:
    """A power of ten, typeset."""
    return f"$10^{{{round(math.log10(number))}}}$"
