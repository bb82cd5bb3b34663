"""Charts as SVG: bars with whiskers, lines with bands, steps against a limit, beliefs. Colours are classes of shoal.css.

Every chart is drawn twice, for a wide and for a narrow screen: text in a scaled-down picture is unreadable.
Numbers come from released answers, from public parameters or, only on the tuning page, from raw data.
"""

from __future__ import annotations

import math
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from markupsafe import Markup

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WIDE = 720
HALF = 480
"""Beside something else."""
NARROW = 330
BESIDE = 380
LONGEST_LABEL = 18
"""Below a chart."""
LONGEST_NAME = 34
"""Beside a bar."""
LETTER = 7.2
BESIDE_LABEL = 18
ROW = 26
STEEP = 50
FARTHEST = 1e300


@dataclass(frozen=True, slots=True)
class Point:
    """A number and the ends of its interval, which may be missing."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        """The ends, or the number itself."""
        return (
            self.value if self.low is None else self.low,
            self.value if self.high is None else self.high,
        )


def bars(points: Sequence[Point], title: str) -> Markup:
    """One bar per category, with whiskers."""
    return _twice(lambda width: _bars(points, title, width))


def line(points: Sequence[Point], title: str) -> Markup:
    """A line over an ordered axis, with a band."""
    return _twice(lambda width: _line(points, title, width))


def dots(points: Sequence[Point], title: str) -> Markup:
    """A dot with whiskers for each number."""
    return _twice(lambda width: _dots(points, title, width))


def steps(totals: Sequence[tuple[str, float]], limit: float | None, title: str) -> Markup:
    """What was spent, step by step, against the limit."""
    return _twice(lambda width: _steps(totals, limit, title, width))


def histogram(edges: Sequence[float], raw: Sequence[float], clamped: Sequence[float], title: str) -> Markup:
    """Values before and after clamping."""
    return _twice(lambda width: _histogram(edges, raw, clamped, title, width), HALF)


def beliefs(bounds: Callable[[float], tuple[float, float]], prior: float, title: str) -> Markup:
    """The prior belief against the band of posterior beliefs."""
    return _twice(lambda width: _beliefs(bounds, prior, title, width))


def belief(prior: float, low: float, high: float, title: str) -> Markup:
    """One prior belief, and how far it may move: small enough to fit anywhere."""
    return Markup(_belief(prior, low, high, title, BESIDE))  # noqa: S704 - the same


def meter(share: float, title: str, *, warns: bool = True) -> Markup:
    """How much of a budget is gone; in another colour once most of it is, if that is a warning."""
    gone = 100 * min(1.0, max(0.0, share))
    kind = "some" if not warns or gone < 60 else "most" if gone < 90 else "full"
    drawn = f'<rect class="track" width="100" height="4" rx="2"/><rect class="{kind}" width="{gone:.2f}" height="4" rx="2"/>'
    return Markup(  # noqa: S704 - numbers and escaped text
        f'<svg class="meter" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label="{escape(title)}">{drawn}</svg>'
    )


def hundred(filled: int, title: str) -> Markup:
    """A hundred dots, some of them filled."""
    cells = "".join(
        f'<circle cx="{12 + 22 * (i % 10)}" cy="{12 + 22 * (i // 10)}" r="8" class="{"on" if i < filled else "off"}"/>'
        for i in range(100)
    )
    return Markup(_svg(222, 222, title, cells, "hundred"))  # noqa: S704 - the same


# ---- one width ----------------------------------------------------------------------------------------------------


def _bars(points: Sequence[Point], title: str, width: int) -> str:
    left, right, top = _label_room(points, width), 14, 6
    scale, ticks = _scale([end for p in points for end in (*p.ends, p.value)] + [0.0], left, width - right)
    bottom = top + ROW * len(points)
    drawn = _vertical_grid(ticks, scale, top, bottom)
    names = _names([point.label for point in points], left)
    for number, point in enumerate(points):
        middle = top + ROW * number + ROW / 2
        start, end = sorted((scale(0.0), scale(point.value)))
        drawn += f'<text class="name" x="{left - 10}" y="{middle + 4:.1f}" text-anchor="end">{names[number]}</text>'
        drawn += f'<rect class="bar" x="{start:.1f}" y="{middle - 8:.1f}" width="{max(1.0, end - start):.1f}" height="16" rx="2"/>'
        drawn += _whisker(point, scale, middle)
    drawn += f'<line class="axis" x1="{scale(0.0):.1f}" x2="{scale(0.0):.1f}" y1="{top}" y2="{bottom}"/>'
    return _svg(width, bottom + 26, title, drawn)


def _dots(points: Sequence[Point], title: str, width: int) -> str:
    left, right, top = _label_room(points, width), 24, 6
    scale, ticks = _scale([end for p in points for end in p.ends], left, width - right)
    bottom = top + (ROW + 10) * len(points)
    drawn = _vertical_grid(ticks, scale, top, bottom)
    names = _names([point.label for point in points], left)
    for number, point in enumerate(points):
        middle = top + (ROW + 10) * number + (ROW + 10) / 2
        drawn += f'<text class="name" x="{left - 10}" y="{middle + 4:.1f}" text-anchor="end">{names[number]}</text>'
        drawn += _whisker(point, scale, middle)
        drawn += f'<circle class="dot" cx="{scale(point.value):.1f}" cy="{middle:.1f}" r="5"/>'
    return _svg(width, bottom + 26, title, drawn)


def _line(points: Sequence[Point], title: str, width: int) -> str:
    left, right, top, height = 58, 16, 12, 240
    bottom = height - 30
    up, ticks = _scale([end for p in points for end in p.ends], bottom, top)
    across = _places(len(points), left, width - right)
    drawn = _horizontal_grid(ticks, up, left, width - right)
    upper = [f"{x:.1f},{up(p.ends[1]):.1f}" for x, p in zip(across, points, strict=True)]
    lower = [f"{x:.1f},{up(p.ends[0]):.1f}" for x, p in zip(across, points, strict=True)]
    drawn += f'<polygon class="band" points="{" ".join([*upper, *reversed(lower)])}"/>'
    middle = " ".join(f"{x:.1f},{up(p.value):.1f}" for x, p in zip(across, points, strict=True))
    drawn += f'<polyline class="line" points="{middle}"/>'
    if len(points) <= 40:
        drawn += "".join(
            f'<circle class="dot" cx="{x:.1f}" cy="{up(p.value):.1f}" r="2.5"/>'
            for x, p in zip(across, points, strict=True)
        )
    drawn += _bottom_labels([p.label for p in points], across, height - 8)
    return _svg(width, height, title, drawn)


def _steps(totals: Sequence[tuple[str, float]], limit: float | None, title: str, width: int) -> str:
    left, right, top, height = 48, 16, 22, 230
    bottom = height - 30
    up, ticks = _scale([0.0, limit or 0.0, *(total for _, total in totals)], bottom, top)
    # The first step rises from 0, and the last one has room to be visible.
    across = _places(len(totals) + 2, left, width - right)[:-1]
    drawn = _horizontal_grid(ticks, up, left, width - right)
    path = f"M{across[0]:.1f},{up(0.0):.1f}"
    for x, (_, total) in zip(across[1:], totals, strict=True):
        path += f"H{x:.1f}V{up(total):.1f}"
    drawn += f'<path class="band" d="{path}H{width - right}V{bottom}H{left}Z"/><path class="line" d="{path}H{width - right}"/>'
    if limit is not None:
        y = up(limit)
        drawn += f'<line class="limit" x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        drawn += f'<text class="limit-label" x="{width - right}" y="{y - 6:.1f}" text-anchor="end">limit {_brief(limit)}</text>'
    drawn += _bottom_labels([label for label, _ in totals], across[1:], height - 8)
    return _svg(width, height, title, drawn)


def _histogram(edges: Sequence[float], raw: Sequence[float], clamped: Sequence[float], title: str, width: int) -> str:
    left, right, top, height = 52, 14, 10, 220
    bottom = height - 28
    up, ticks = _counts_scale([*raw, *clamped], bottom, top)
    across, bottom_ticks = _scale(list(edges), left, width - right, round_out=False)
    drawn = _horizontal_grid(ticks, up, left, width - right)
    for number in range(len(raw)):
        start, end = across(edges[number]), across(edges[number + 1])
        drawn += _column("raw", start, end, up(raw[number]), bottom)
        drawn += _column(
            "clamped", start + (end - start) * 0.25, end - (end - start) * 0.25, up(clamped[number]), bottom
        )
    drawn += "".join(
        f'<text class="tick" x="{across(t):.1f}" y="{height - 8}" text-anchor="middle">{_brief(t)}</text>'
        for t in bottom_ticks
        if edges[0] <= t <= edges[-1]
    )
    return _svg(width, height, title, drawn)


def is_steep(counts: Sequence[float]) -> bool:
    """Whether one column is so much taller than most that the others would be invisible."""
    there = sorted(count for count in counts if count > 0)
    return bool(there) and there[-1] > STEEP * there[len(there) // 2]


def _counts_scale(counts: Sequence[float], start: float, end: float) -> tuple[Callable[[float], float], list[float]]:
    """How tall columns are: in proportion, or by powers of ten if the tallest would hide the others."""
    if not is_steep(counts):
        return _scale([0.0, *counts], start, end)
    powers = math.ceil(math.log10(max(counts)))

    def place(count: float) -> float:
        return start + (math.log10(count) + 0.3) / (powers + 0.3) * (end - start) if count > 0 else start

    return place, [10.0**power for power in range(powers + 1)]


def _column(kind: str, start: float, end: float, y: float, bottom: float) -> str:
    if bottom - y < 0.05:
        return ""
    wide, tall = max(0.5, end - start - 1), bottom - y
    return f'<rect class="{kind}" x="{start + 0.5:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{tall:.1f}"/>'


def _beliefs(bounds: Callable[[float], tuple[float, float]], prior: float, title: str, width: int) -> str:
    left, right, top, height = 52, 14, 10, 300
    bottom = height - 42
    priors = [number / 50 for number in range(51)]
    ends = [bounds(p) for p in priors]

    def x(share: float) -> float:
        return left + share * (width - right - left)

    def y(share: float) -> float:
        return bottom - share * (bottom - top)

    quarters = (0.0, 0.25, 0.5, 0.75, 1.0)
    drawn = "".join(
        f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y(q):.1f}" y2="{y(q):.1f}"/>'
        f'<text class="tick" x="{left - 8}" y="{y(q) + 4:.1f}" text-anchor="end">{q:.0%}</text>'
        f'<text class="tick" x="{x(q):.1f}" y="{bottom + 18}" text-anchor="middle">{q:.0%}</text>'
        for q in quarters
    )
    upper = [f"{x(p):.1f},{y(high):.1f}" for p, (_, high) in zip(priors, ends, strict=True)]
    lower = [f"{x(p):.1f},{y(low):.1f}" for p, (low, _) in zip(priors, ends, strict=True)]
    drawn += f'<polygon class="band" points="{" ".join([*upper, *reversed(lower)])}"/>'
    drawn += f'<polyline class="line" points="{" ".join(upper)}"/><polyline class="line" points="{" ".join(lower)}"/>'
    drawn += f'<line class="same" x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}"/>'
    low, high = bounds(prior)
    drawn += f'<line class="chosen" x1="{x(prior):.1f}" x2="{x(prior):.1f}" y1="{y(low):.1f}" y2="{y(high):.1f}"/>'
    drawn += "".join(f'<circle class="dot" cx="{x(prior):.1f}" cy="{y(end):.1f}" r="4"/>' for end in (low, high))
    drawn += f'<text class="tick" x="{(left + width - right) / 2:.0f}" y="{height - 6}" text-anchor="middle">belief before</text>'
    return _svg(width, height, title, drawn)


def _belief(prior: float, low: float, high: float, title: str, width: int) -> str:
    left, right = 16, 16

    def x(share: float) -> float:
        return left + share * (width - right - left)

    drawn = f'<line class="grid" x1="{left}" x2="{width - right}" y1="30" y2="30"/>'
    drawn += "".join(
        f'<line class="grid" x1="{x(q):.1f}" x2="{x(q):.1f}" y1="24" y2="36"/>'
        f'<text class="tick" x="{x(q):.1f}" y="54" text-anchor="{anchor}">{q:.0%}</text>'
        for q, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
    )
    drawn += (
        f'<rect class="range" x="{x(low):.1f}" y="22" width="{max(2.0, x(high) - x(low)):.1f}" height="16" rx="8"/>'
    )
    drawn += f'<circle class="before" cx="{x(prior):.1f}" cy="30" r="6"/>'
    drawn += f'<text class="name" x="{x(prior):.1f}" y="14" text-anchor="middle">before</text>'
    return _svg(width, 60, title, drawn)


# ---- pieces -------------------------------------------------------------------------------------------------------


def _twice(drawn: Callable[[int], str], wide: int = WIDE) -> Markup:
    return Markup(f'<div class="wide">{drawn(wide)}</div><div class="narrow">{drawn(NARROW)}</div>')  # noqa: S704 - as above


def _svg(width: float, height: float, title: str, drawn: str, kind: str = "chart") -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}">{drawn}</svg>'
    )


def _scale(
    values: Sequence[float], start: float, end: float, *, round_out: bool = True
) -> tuple[Callable[[float], float], list[float]]:
    """Maps numbers to positions between two ends, and picks round numbers for the marks."""
    finite = [max(-FARTHEST, min(FARTHEST, value)) for value in values if not math.isnan(value)] or [0.0]
    low, high = min(finite), max(finite)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-9):
        room = max(1.0, abs(high) / 2)
        low, high = low - room, high + room
    ticks = _ticks(low, high)
    if round_out:
        low, high = min(low, ticks[0]), max(high, ticks[-1])
    width = high - low

    def place(value: float) -> float:
        return start + (min(high, max(low, value)) - low) / width * (end - start)

    return place, ticks


def _ticks(low: float, high: float) -> list[float]:
    """About four round numbers that enclose both ends."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [step * number for number in range(first, last + 1)]


def _places(number: int, start: float, end: float) -> list[float]:
    return [start + (end - start) * (i / (number - 1) if number > 1 else 0.5) for i in range(number)]


def _vertical_grid(ticks: Sequence[float], scale: Callable[[float], float], top: float, bottom: float) -> str:
    return "".join(
        f'<line class="grid" x1="{scale(t):.1f}" x2="{scale(t):.1f}" y1="{top}" y2="{bottom}"/>'
        f'<text class="tick" x="{scale(t):.1f}" y="{bottom + 18}" text-anchor="middle">{_brief(t)}</text>'
        for t in ticks
    )


def _horizontal_grid(ticks: Sequence[float], scale: Callable[[float], float], left: float, right: float) -> str:
    return "".join(
        f'<line class="grid" x1="{left}" x2="{right}" y1="{scale(t):.1f}" y2="{scale(t):.1f}"/>'
        f'<text class="tick" x="{left - 8}" y="{scale(t) + 4:.1f}" text-anchor="end">{_brief(t)}</text>'
        for t in ticks
    )


def _bottom_labels(labels: Sequence[str], across: Sequence[float], y: float) -> str:
    """As many labels as fit, evenly apart from the first on; none twice in a row."""
    if not labels:
        return ""
    # The first one begins where it belongs, the others have their middle there.
    apart = max(60.0, LETTER * (1.5 * max(min(len(label), LONGEST_LABEL) for label in labels) + 2))
    every = max(1, math.ceil((len(labels) - 1) * apart / max(1.0, across[-1] - across[0])))
    shown = list(range(0, len(labels), every))
    shown = shown[:1] + [i for before, i in pairwise(shown) if labels[before] != labels[i]]
    drawn = ""
    for i in shown:
        at_the_end = len(labels) > 1 and across[-1] - across[i] < apart / 3
        anchor = "end" if at_the_end else "start" if i == 0 and len(labels) > 1 else "middle"
        drawn += f'<text class="tick" x="{across[i]:.1f}" y="{y}" text-anchor="{anchor}">{_short(labels[i])}</text>'
    return drawn


def _whisker(point: Point, scale: Callable[[float], float], middle: float) -> str:
    if point.low is None or point.high is None:
        return ""
    low, high = scale(point.low), scale(point.high)
    ends = "".join(
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{middle - 5:.1f}" y2="{middle + 5:.1f}"/>' for x in (low, high)
    )
    return f'<g class="whisker"><line x1="{low:.1f}" x2="{high:.1f}" y1="{middle:.1f}" y2="{middle:.1f}"/>{ends}</g>'


def _label_room(points: Sequence[Point], width: int) -> float:
    longest = max((min(len(p.label), LONGEST_NAME) for p in points), default=0)
    return min(0.38 * width, BESIDE_LABEL + LETTER * longest)


def _names(labels: Sequence[str], room: float) -> list[str]:
    """Labels that fit: cut at the end or, if that tells more of them apart, in the middle."""
    most = int((room - BESIDE_LABEL) / LETTER + 0.01)
    begin = (most - 1) // 2
    ways = [
        [label if len(label) <= most else f"{label[: most - 1]}…" for label in labels],
        [
            label if len(label) <= most else f"{label[:begin]}…{label[len(label) - most + 1 + begin :]}"
            for label in labels
        ],
    ]
    return [escape(name) for name in max(ways, key=lambda names: len(set(names)))]


def _short(label: str) -> str:
    return escape(label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…")


def _brief(value: float) -> str:
    """A number for an axis."""
    for size, sign in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if sign == 'k' else size):.4g}{sign}"
    return f"{value:,.4g}".replace("-", "−") if abs(value) > 1e-12 else "0"
