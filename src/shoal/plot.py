"""A chart that fits the shape of an answer: bars by group, points over dates or numbers, with error bars (extra: plot)."""

from __future__ import annotations

import datetime as dt
from io import BytesIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError, missing_extra
from shoal.frozen import dataclass
from shoal.params import many
from shoal.release.answer_notes import WITHOUT_INTERVAL
from shoal.release.found_limits import NOBODY_KNOWS
from shoal.sql.binding.context import SEVERAL_GROUPINGS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from shoal.result import Result

MOST_GROUPS = 30
LONGEST_LABEL = 24
MOST_SERIES = 8
FEW_LABELS = 12
"""Up to this many, two keys are groups of bars even where the first one is a number."""
ALL = "(all)"
KINDS = ("bar", "point", "line")
COLORS = ("#4c86a8", "#d9822b", "#6a9a58", "#a5567f", "#8a6fb0", "#b5a642", "#5b5b5b", "#3aa6a0")


@dataclass(frozen=True, slots=True)
class Cell:
    """A number that was released and the ends of its interval, which may be missing."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Shape:
    """What is drawn: labels along the axis, and named series of cells over them."""

    labels: list[Any]
    series: dict[str, list[Cell | None]]
    axis: str
    value: str
    apart: str | None = None
    left_out: int = 0
    most: int = MOST_GROUPS


def plot_result(
    result: Result,
    column: str | None = None,
    *,
    kind: str | None = None,
    title: str | None = None,
    file: str | Path | None = None,
) -> Any:
    """A matplotlib figure, which a notebook shows by itself; written to `file` as well, if one is named."""
    if kind is not None and kind not in KINDS:
        raise ShoalError("E_USAGE", f"kind is one of {', '.join(KINDS)}.")
    figure = _empty_figure()
    axes = figure.add_subplot()
    rows = result.intervals().to_dicts()
    numbers = _numbers(result, rows)
    if column is not None and column not in numbers:
        raise ShoalError(
            "E_USAGE", f"There is no private number {column!r} here.", hint=f"There are: {', '.join(numbers)}."
        )
    drawn = [column] if column else numbers
    keys = _keys(result, numbers)
    shown = drawn[:1] if keys else drawn
    in_parts, words = _without_totals(result, rows, keys)
    if not rows:
        _write(axes, "No group is in this answer.\nWhat may help is among its notes.")
    elif not numbers:
        raise ShoalError("E_USAGE", "There is no private number with an interval in this answer to draw.")
    elif all(row[name] is None for row in in_parts for name in shown):
        _write(axes, f"Without a number: {', '.join(shown)} (NULL).\nThe answer's notes say why.")
    else:
        shape = _shape(in_parts, keys, drawn, result.ranks(drawn[0]))
        quantiles = all(result.ranks(name) for name in (drawn if not shape.axis else drawn[:1]))
        _draw(axes, shape, kind or ("point" if quantiles else _fitting_kind(shape)))
        more = [f"also in the answer: {', '.join(drawn[1:])}"] if keys and len(drawn) > 1 else []
        for line in (*words, *more, *_missing(in_parts, shown, keys), *_unknown(result, rows, shown)):
            axes.set_xlabel(f"{axes.get_xlabel()}\n{line}")
    axes.set_title(title or _title(result, shown, rows), fontsize=10)
    if file is not None:
        figure.savefig(file)
    return figure


def _without_totals(
    result: Result, rows: list[dict[str, Any]], keys: list[str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Of several groupings (ROLLUP, CUBE …) the finest one: a total beside its parts would look like one of them.

    A key that a grouping leaves out is NULL. Where each grouping leaves one out, all are drawn, and NULL stands for all.
    """
    if not any(SEVERAL_GROUPINGS in note for note in result.notes):
        return rows, []
    finest = [row for row in rows if all(row[key] is not None for key in keys)]
    if finest:
        return finest, ["totals, and groups in which a key is missing, are in the answer alone"]
    return [{name: ALL if name in keys and value is None else value for name, value in row.items()} for row in rows], []


def _missing(rows: Sequence[dict[str, Any]], shown: list[str], keys: list[str]) -> list[str]:
    """Places without a bar: a NULL is no zero."""
    names = [name for name in shown if any(row[name] is None for row in rows)]
    if not names:
        return []
    number = sum(row[names[0]] is None for row in rows)
    return [
        f"{many(number, 'group')} without a number: NULL" if keys else f"without a number: {', '.join(names)} (NULL)"
    ]


def _unknown(result: Result, rows: Sequence[dict[str, Any]], shown: list[str]) -> list[str]:
    """Bars that end where something may go on."""
    said = _counts_cuts(rows, shown) and any(NOBODY_KNOWS in note for note in result.notes)
    return [f"a few owners have much of it: beyond the bars, {NOBODY_KNOWS}"] if said else []


def _counts_cuts(rows: Sequence[dict[str, Any]], names: list[str]) -> bool:
    """Whether ends count what limits cut; such ends have no level."""
    return bool(rows) and any(f"{name}_noise_low" in rows[0] for name in names)


def _title(result: Result, drawn: list[str], rows: Sequence[dict[str, Any]]) -> str:
    """What the bars cover: the noise, and what was cut where that is counted."""
    if _counts_cuts(rows, drawn):
        covered = f"error bars: {result.level:.0%} of the noise, and what limits and bounds may cut"
    else:
        covered = f"{result.level:.0%} error bars"
    return f"{covered}, ε = {result.epsilon:g}"


def _gap(labels: list[Any]) -> float:
    """The least distance of two positions along a scale."""
    ordered = sorted(float(label) for label in labels)
    return min((b - a for a, b in pairwise(ordered) if b > a), default=1.0)


def _empty_figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise missing_extra("plot", "A chart") from None

    class Shown(Figure):
        """A figure that a notebook shows by itself."""

        def _repr_png_(self) -> bytes:
            image = BytesIO()
            self.savefig(image, format="png", dpi=110)
            return image.getvalue()

    return Shown(figsize=(8, 4.5), layout="constrained")


def _numbers(result: Result, rows: Sequence[dict[str, Any]]) -> list[str]:
    return [name for name in result.columns if rows and f"{name}_low" in rows[0]]


def _keys(result: Result, numbers: list[str]) -> list[str]:
    """What distinguishes rows: no number, neither with an interval nor with a reason instead."""
    ends = {f"{name}{end}" for name in numbers for end in ("_low", "_high")}
    computed = {name for name in result.columns if f"{name}{WITHOUT_INTERVAL}" in result.notes}
    return [name for name in result.columns if name not in {*numbers, *ends, *computed}]


def _shape(rows: list[dict[str, Any]], keys: list[str], numbers: list[str], ranks: tuple[float, ...] = ()) -> Shape:
    """No key: a bar for each number. One: its groups. More: the last key with few values distinguishes the series."""
    if any(isinstance(row[numbers[0]], list) for row in rows):
        return _list_shape(rows, keys, numbers[0], ranks)
    if not keys:
        cells: list[Cell | None] = [_cell(rows[0], name) for name in numbers]
        return Shape(list(numbers), {"": cells}, "", numbers[0] if len(numbers) == 1 else "")
    value = numbers[0]
    apart = next((key for key in reversed(keys[1:]) if len({row[key] for row in rows}) <= MOST_SERIES), None)
    along = [key for key in keys if key != apart]
    labels = list(dict.fromkeys(_label(row, along) for row in rows))
    kept, left_out = _largest(labels, rows, along, value)
    names = list(dict.fromkeys(_text(row[apart]) for row in rows)) if apart else [""]
    found = {(_label(row, along), _text(row[apart]) if apart else ""): _cell(row, value) for row in rows}
    series = {name: [found.get((label, name)) for label in kept] for name in names}
    return Shape(kept, series, ", ".join(along), value, apart, left_out)


def _list_shape(rows: list[dict[str, Any]], keys: list[str], name: str, ranks: tuple[float, ...]) -> Shape:
    """A list of quantiles: its numbers over the fraction of rows below them, a series for each group."""
    longest = max(len(row[name]) for row in rows if row[name] is not None)
    along: list[Any] = list(ranks) if len(ranks) == longest else list(range(longest))
    series = {
        (_text(_label(row, keys)) if keys else ""): _cells_of_list(row, name)
        for row in rows[:MOST_SERIES]
        if row[name] is not None
    }
    left_out = max(0, len(rows) - MOST_SERIES)
    kept: dict[str, list[Cell | None]] = {label: list(cells) for label, cells in series.items()}
    axis = "fraction of rows below" if len(ranks) == longest else "quantile"
    return Shape(along, kept, axis, name, ", ".join(keys) or None, left_out, MOST_SERIES)


def _cells_of_list(row: dict[str, Any], name: str) -> list[Cell]:
    """Every number of a list with the ends of its own interval."""
    nothing = [None] * len(row[name])
    low, high = row.get(f"{name}_low") or nothing, row.get(f"{name}_high") or nothing
    return [Cell(float(value), a, b) for value, a, b in zip(row[name], low, high, strict=True)]


def _label(row: dict[str, Any], keys: list[str]) -> Any:
    return row[keys[0]] if len(keys) == 1 else ", ".join(_text(row[key]) for key in keys)


def _text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))  # a key such as FLOOR(age / 10) * 10
    return "(none)" if value is None else str(value)


def _cell(row: dict[str, Any], name: str) -> Cell | None:
    value = row[name]
    if value is None or isinstance(value, (str, list)):
        return None
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return Cell(float(value), None if low is None else float(low), None if high is None else float(high))


def _largest(labels: list[Any], rows: list[dict[str, Any]], along: list[str], value: str) -> tuple[list[Any], int]:
    """Too many groups for one picture: those with the largest numbers, these first unless the answer is in order of its keys."""
    if len(labels) <= MOST_GROUPS or all(_is_scale(label) for label in labels):
        return labels, 0
    height: dict[Any, float] = {}
    for row in rows:
        cell = _cell(row, value)
        label = _label(row, along)
        height[label] = max(height.get(label, float("-inf")), cell.value if cell is not None else float("-inf"))
    best = sorted(labels, key=lambda label: height[label], reverse=True)[:MOST_GROUPS]
    in_order = [_text(label) for label in labels] == sorted(_text(label) for label in labels)
    return [label for label in labels if label in set(best)] if in_order else best, len(labels) - MOST_GROUPS


def _ticks(labels: list[Any]) -> list[str]:
    """Labels below an axis, cut where they would leave no room for the picture and stay different."""
    texts = [_text(label) for label in labels]
    short = [text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 1].rstrip()}…" for text in texts]
    return short if len(set(short)) == len(set(texts)) else texts


def _is_scale(label: Any) -> bool:
    return isinstance(label, (int, float, dt.date)) and not isinstance(label, bool)


def _fitting_kind(shape: Shape) -> str:
    scale = shape.axis and len(shape.labels) > 1 and all(map(_is_scale, shape.labels))
    side_by_side = len(shape.series) > 1 and len(shape.labels) <= FEW_LABELS
    return "point" if scale and not side_by_side else "bar"


def _draw(axes: Any, shape: Shape, kind: str) -> None:
    scale = kind != "bar" and all(map(_is_scale, shape.labels))
    width = 0.8 / len(shape.series)
    numbers = scale and not any(isinstance(label, dt.date) for label in shape.labels)
    beside = width if kind == "bar" else _gap(shape.labels) * width / 2 if numbers else 0.0
    for number, (name, cells) in enumerate(shape.series.items()):
        shift = (number - (len(shape.series) - 1) / 2) * beside
        at = [label + shift if numbers else label if scale else i + shift for i, label in enumerate(shape.labels)]
        drawn = [(x, cell) for x, cell in zip(at, cells, strict=True) if cell is not None]
        _draw_series(axes, drawn, kind, width, COLORS[number % len(COLORS)], name)
    if not scale:
        angle = 0 if len(shape.labels) <= 6 and all(len(_text(label)) <= 12 for label in shape.labels) else 45
        side = "center" if angle == 0 else "right"
        axes.set_xticks(range(len(shape.labels)), _ticks(shape.labels), rotation=angle, ha=side)
    elif all(isinstance(label, int) for label in shape.labels):
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0f}")
    elif numbers and len(shape.labels) <= FEW_LABELS:
        axes.set_xticks(shape.labels)
    elif not numbers:
        axes.tick_params(axis="x", labelrotation=30)
    axes.set_xlabel(shape.axis)
    axes.set_ylabel(shape.value)
    # 1,000,000 as in the table, not 1.0 under a small 1e6 in a corner.
    axes.yaxis.set_major_formatter(lambda y, _: f"{y:,.0f}" if abs(y) >= 1000 else f"{y:.6g}")
    if len(shape.series) > 1:
        outside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1.01, 0.5)} if kind != "bar" else {}
        axes.legend(fontsize=8, title=shape.apart, **outside)
    if shape.left_out:
        which = f"first {shape.most}" if shape.most == MOST_SERIES else f"{shape.most} largest"
        axes.set_xlabel(f"{shape.axis} (the {which} groups; {shape.left_out} more are in the answer)")


def _draw_series(axes: Any, drawn: list[tuple[Any, Cell]], kind: str, width: float, color: str, name: str) -> None:
    if not drawn:
        return
    x, heights = [at for at, _ in drawn], [cell.value for _, cell in drawn]
    below = [max(0.0, c.value - c.low) if c.low is not None else 0.0 for _, c in drawn]
    above = [max(0.0, c.high - c.value) if c.high is not None else 0.0 for _, c in drawn]
    label = name or None
    if kind == "bar":
        axes.bar(x, heights, width, yerr=[below, above], capsize=3, color=color, label=label)
    else:
        axes.errorbar(
            x, heights, yerr=[below, above], fmt="o-" if kind == "line" else "o", capsize=3, color=color, label=label
        )


def _write(axes: Any, words: str) -> None:
    axes.set_axis_off()
    axes.text(0.5, 0.5, words, ha="center", va="center", transform=axes.transAxes)
