"""Small drawings in SVG: curves and bars that a page carries in itself."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

from shoal.risk.sketch.grading import percent
from shoal.risk.sketch.measures import WHOLES

if TYPE_CHECKING:
    from shoal.risk.sketch.measures import Measures

_WIDTH, _HEIGHT = 520, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 14, 12, 34


def _x(k: float, largest: float) -> float:
    """A logarithmic axis from 1."""
    span = math.log10(max(largest, 10))
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * math.log10(max(k, 1)) / span


def _y(share: float) -> float:
    return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - min(max(share, 0.0), 1.0))


def short(k: float) -> str:
    """A tick: 1, 100, 1k, 1M."""
    if k >= 1_000_000:
        return f"{k / 1_000_000:g}M"
    return f"{k / 1_000:g}k" if k >= 1_000 else f"{k:g}"


def _grid() -> str:
    lines = []
    for share in (0, 0.25, 0.5, 0.75, 1):
        lines.append(
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{_y(share):.1f}" y2="{_y(share):.1f}"/>'
        )
        lines.append(f'<text class="tick" x="{_LEFT - 8}" y="{_y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    return "".join(lines)


def _opened(label: str) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">'


def _axis_title(text: str) -> str:
    return (
        f'<text class="axis" x="{(_LEFT + _WIDTH - _RIGHT) / 2}" y="{_HEIGHT - 3}" text-anchor="middle">{text}</text>'
    )


def cumulative_curve(measures: Measures) -> str:
    """What dropping values with fewer than k owners loses: of values, owners and rows."""
    largest = max(measures.curve[-1].k, 10)
    parts = [_opened("share of values, owners and rows with fewer than k owners per value"), _grid()]
    for power in range(int(math.log10(largest)) + 1):
        x = _x(10**power, largest)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - 18}" text-anchor="middle">{short(10**power)}</text>'
        )
    for of in reversed(WHOLES):
        path = " ".join(f"{_x(p.k, largest):.1f},{_y(getattr(p, of)):.1f}" for p in measures.curve)
        parts.append(f'<polyline class="line {of}" points="{path}"/>')
    parts += [_whisker(k, measures, largest) for k in measures.shares if k <= largest]
    return "".join([*parts, _axis_title("k, owners per value"), "</svg>"])


def _whisker(k: int, measures: Measures, largest: float) -> str:
    """The 95% interval of the share of values at one k."""
    share, x = measures.shares[k]["values"], _x(k, largest)
    title = f"k = {k}: {percent(share.value)} of values ({percent(share.low)} to {percent(share.high)})"
    return (
        f'<g class="whisker"><title>{escape(title)}</title>'
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_y(share.low):.1f}" y2="{_y(share.high):.1f}"/>'
        f'<circle cx="{x:.1f}" cy="{_y(share.value):.1f}" r="3.5"/></g>'
    )


def histogram(measures: Measures) -> str:
    """Shares of values, owners and rows by owners per value."""
    bins = measures.histogram
    slot = (_WIDTH - _LEFT - _RIGHT) / len(bins)
    width = min(slot * 0.26, 22)
    parts = [_opened("histogram of owners per value"), _grid()]
    for position, entry in enumerate(bins):
        middle = _LEFT + slot * (position + 0.5)
        low, high = entry["from_owners"], entry["to_owners"]
        label = (
            f"{short(low or 1)}+"
            if high is None
            else short(low or 1)
            if high == low
            else f"{short(low or 1)}–{short(high)}"
        )
        for series, of in enumerate(WHOLES):
            share = float(entry[of] or 0)
            x, y = middle + width * (series - 1.5), _y(share)
            title = f"{label} owners: {percent(share)} of {of}"
            parts.append(
                f'<rect class="bar {of}" x="{x:.1f}" y="{y:.1f}" width="{width * 0.9:.1f}" '
                f'height="{_y(0) - y:.1f}"><title>{escape(title)}</title></rect>'
            )
        if len(bins) <= 8 or position % 2 == 0:
            parts.append(f'<text class="tick" x="{middle:.1f}" y="{_HEIGHT - 18}" text-anchor="middle">{label}</text>')
    return "".join([*parts, _axis_title("owners per value"), "</svg>"])


def spark(measures: Measures) -> str:
    """The curve of values in the size of a word, on a fixed axis from 1 to 1,000 owners."""
    points = [(min(math.log10(p.k) / 3, 1.0), p.values) for p in measures.curve if p.k <= 1_000]
    points.append((1.0, points[-1][1]))
    shape = " ".join(f"{1 + 78 * x:.1f},{23 - 22 * y:.1f}" for x, y in points)
    area = f"1,23 {shape} 79,23"
    return (
        '<svg class="spark" viewBox="0 0 80 24" aria-hidden="true">'
        f'<polygon points="{area}"/><polyline points="{shape}"/></svg>'
    )
