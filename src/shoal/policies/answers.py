"""A plan and records → noisy numbers, the nearest answers that could be true, and intervals. Noise is drawn here, once a number.

Everything after `draw` is post-processing. Intervals belong to the raw answers: exact for one draw and for the difference of two,
else by a Chernoff bound. For independent discrete Laplace draws of variance v_i with weights |w_i| ≤ 1 and σ² = Σ w_i²·v_i,
log E exp(λS) ≤ σ²·u / (1 − v·u) with u = cosh λ − 1 and v = min(max v_i, σ²), as long as v·u < 1: the generating function of one
draw is 1/(1 − v_i(cosh λ − 1)), and cosh(λw) − 1 ≤ w²(cosh λ − 1).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shoal.accounting.events import LaplaceNoise, Shift
from shoal.frozen import dataclass
from shoal.mechanisms.calibrate import noise_quantile
from shoal.mechanisms.entropy import SYSTEM, Entropy
from shoal.mechanisms.noise import add_noise
from shoal.policies import strategies
from shoal.policies.isotonic import onto_total, rising_between
from shoal.policies.planning import Counts, ReleasePlan, range_error
from shoal.policies.queries import Cumulative, Histogram, Query, Ranges, Sum
from shoal.policies.strategies import discrete_variance
from shoal.policies.tables import Dense, OneHot, Prefixes

if TYPE_CHECKING:
    from collections.abc import Mapping

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """What leaves: raw answers, consistent answers, and an interval around each."""

    raw: list[Any]
    values: list[Any]
    low: list[Any]
    high: list[Any]


def draw(plan: ReleasePlan, records: Counts, entropy: Entropy = SYSTEM) -> list[list[int]]:
    """The noisy numbers of every family, in steps."""
    return [[int(number) for number in add_noise(each.event, each.totals(records), entropy)] for each in plan.measured]


def answer(
    plan: ReleasePlan,
    drawn: list[list[int]],
    n: int | None,
    level: float,
    totals: Mapping[Any, int] | None = None,
) -> Answers:
    """Answers from noisy numbers; `n` and `totals` are public counts, or None where they may not be used."""
    query = plan.query
    if isinstance(query, Sum):
        return _sums(plan, query, drawn[0], n, level)
    if isinstance(query, Histogram):
        return _histogram(plan, query, drawn[0], n, level, totals)
    if isinstance(query, Cumulative):
        return _cumulative(plan, drawn, n, level)
    if isinstance(query, Ranges) and plan.mechanism != "noise":
        return _ranges(plan, query, drawn, n, level)
    return _linear(plan, query, drawn[-1], n, level)


# ---- intervals -------------------------------------------------------------------------------------------------------


def one_draw(scale: Fraction, level: float) -> int:
    """The half-width for one draw, exact for the discrete noise."""
    return noise_quantile(LaplaceNoise(Shift(1), scale), level) if scale else 0


def two_draws(scale: Fraction, level: float) -> int:
    """The half-width for the sum of two draws: P[S ≥ t] = a²·p^t·((t + c)/(1 − p) + p/(1 − p)²), a = (1 − p)/(1 + p),
    c = 1 + 2p²/(1 − p²), from P[S = k] = a²·p^k·(k + c) for k ≥ 0.
    """  # noqa: D205 - one formula
    if not scale:
        return 0
    rate = float(1 / scale)
    p = math.exp(-rate)
    if p == 0.0:
        return 0
    c = 1 + 2 * p * p / -math.expm1(-2 * rate)
    gap = -math.expm1(-rate)

    def tail(t: int) -> float:
        return (gap / (1 + p)) ** 2 * math.exp(-rate * t) * ((t + c) / gap + p / gap**2)

    chance, high = (1 - level) / 2 * (1 - 1e-9), 1
    while tail(high) > chance:
        high *= 2
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if tail(middle) <= chance else (middle, high)
    return high - 1


def many_draws(variance: Floats, largest: float, level: float) -> Floats:
    """The half-width for weighted sums of many draws with these variances (weights at most 1): Chernoff's bound."""
    bound = np.minimum(np.maximum(variance, 1e-300), max(largest, 1e-300))
    best = np.full(len(variance), np.inf)
    for part in np.geomspace(1e-3, 0.95, 60):
        u = part / bound
        rate = np.arccosh(1 + u)
        best = np.minimum(best, (math.log(2 / (1 - level)) + variance * u / (1 - part)) / rate)
    return np.where(variance > 0, best, 0.0)


# ---- kinds of questions ----------------------------------------------------------------------------------------------


def _clip(value: Any, low: Any, high: Any) -> Any:
    return max(low, value) if high is None else min(max(low, value), high)


def _histogram(
    plan: ReleasePlan, query: Histogram, drawn: list[int], n: int | None, level: float, totals: Mapping[Any, int] | None
) -> Answers:
    reach = one_draw(plan.measured[0].scale, level)
    low = [_clip(value - reach, 0, n) for value in drawn]
    high = [_clip(value + reach, 0, n) for value in drawn]
    if not reach and plan.mechanism == "exact":
        return Answers(drawn, list(drawn), low, high)
    groups = _known_groups(plan, query, totals)
    if groups is not None:
        values = np.zeros(len(drawn))
        for members, total in groups:
            values[members] = onto_total(np.array(drawn, dtype=float)[members], total)
    elif n is not None:
        values = onto_total(np.array(drawn, dtype=float), n)
    else:
        values = np.maximum(np.array(drawn, dtype=float), 0.0)
    return Answers(drawn, values.tolist(), low, high)


def _known_groups(
    plan: ReleasePlan, query: Histogram, totals: Mapping[Any, int] | None
) -> list[tuple[npt.NDArray[np.int64], float]] | None:
    """The cells of the histogram by known cell, with the known totals; None where these do not fit together."""
    cells, domain = plan.rule.cells, plan.rule.domain
    if totals is None or cells is None or not set(cells.attributes(domain)) <= set(query.names):
        return None
    label = cells.labels(domain, query.attributes(domain))
    keys = cells.keys(domain)
    return [(np.flatnonzero(label == i), float(totals[key])) for i, key in enumerate(keys)]


def _sums(plan: ReleasePlan, query: Sum, drawn: list[int], n: int | None, level: float) -> Answers:
    reach = one_draw(plan.measured[0].scale, level)
    ends = query.ends(plan.rule.domain)
    limits = [(low * n, high * n) if n is not None else (-math.inf, math.inf) for low, high in ends]
    low, values, high = (
        [_clip(value + shift, *limit) for value, limit in zip(drawn, limits, strict=True)]
        for shift in (-reach, 0, reach)
    )
    if not query.mean:
        return Answers(drawn, values, low, high)
    divide = max(1, n or 0)
    middle = [(a + b) / 2 for a, b in ends]
    if not n:
        return Answers(middle, middle, [a for a, _ in ends], [b for _, b in ends])
    return Answers(
        [v / divide for v in drawn], [v / divide for v in values], [v / divide for v in low], [v / divide for v in high]
    )


def _linear(plan: ReleasePlan, query: Query, drawn: list[int], n: int | None, level: float) -> Answers:
    table = query.table(plan.rule.domain)
    grid, found = table.grid, plan.measured[-1]
    if plan.mechanism == "cells":
        raw = table.totals(np.array(drawn, dtype=np.int64))
        halves = _cell_halves(table, discrete_variance(found.scale), level)
    else:
        raw = drawn
        halves = [one_draw(found.scale, level)] * len(drawn)
    limits = _limits(table, n)
    rows = [
        [
            _plain(_clip(value + sign * half, *limit) * grid)
            for value, half, limit in zip(raw, halves, limits, strict=True)
        ]
        for sign in (-1, 0, 1)
    ]
    return Answers([_plain(value * grid) for value in raw], rows[1], rows[0], rows[2])


def _cell_halves(table: Any, variance: float, level: float) -> list[int]:
    columns = _columns(table)
    found = []
    for column in columns:
        weight = float(np.max(np.abs(column), initial=0)) or 1.0
        scaled = float(((column.astype(float) / weight) ** 2).sum()) * variance
        found.append(math.ceil(weight * float(many_draws(np.array([scaled]), variance, level)[0])))
    return found


def _columns(table: Any) -> list[Any]:
    if isinstance(table, Dense):
        return [table.rows[:, i] for i in range(table.coordinates)]
    if isinstance(table, OneHot):
        return [np.where(table.groups == i, table.amounts, 0) for i in range(table.coordinates)]
    return [table.above]


def _limits(table: Any, n: int | None) -> list[tuple[Any, Any]]:
    """Between which numbers n records can lie, answer by answer."""
    if n is None or isinstance(table, Prefixes):
        return [(-math.inf, math.inf)] * table.coordinates
    return [(int(column.min()) * n, int(column.max()) * n) for column in _columns(table)]


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Fraction) and value.denominator == 1 else value


def _cumulative(plan: ReleasePlan, drawn: list[list[int]], n: int | None, level: float) -> Answers:
    raw = prefix_estimates(plan, drawn, n)
    values = _consistent(plan, raw, drawn, n)
    half = prefix_noise(plan).half_widths(level)
    top = math.inf if n is None else n
    low, high = np.clip(raw - half, 0, top), np.clip(raw + half, 0, top)
    return Answers(raw.tolist(), values.tolist(), low.tolist(), high.tolist())


@dataclass(frozen=True)
class PrefixNoise:
    """The noise of c_1 … c_m: `which` is 0 where a prefix is known, k where it is one draw of `scales[k − 1]`, −1 where it is a
    combination of draws with this variance, the largest of one draw being `largest`.
    """  # noqa: D205 - one sentence

    which: tuple[int, ...]
    scales: tuple[Fraction, ...]
    variances: tuple[float, ...]
    largest: float

    def half_widths(self, level: float) -> Floats:
        """How far the noise may have moved each prefix: exact where it is one draw."""
        which = np.array(self.which)
        half = np.array([0, *(one_draw(scale, level) for scale in self.scales), 0], dtype=float)[which]
        return np.where(which < 0, many_draws(np.array(self.variances), self.largest, level), half)


def prefix_noise(plan: ReleasePlan) -> PrefixNoise:
    """Line by line, as the plan says."""
    size = plan.rule.domain.attribute(plan.query.attributes(plan.rule.domain)[0]).size
    scales = tuple(dict.fromkeys(line.chain.top_scale for line in plan.lines if line.chain.kind == "ordered"))
    which, variances = np.zeros(size, dtype=int), np.zeros(size)
    for line in plan.lines:
        chain, stop = line.chain, line.start + line.chain.line.width
        if chain.kind == "ordered":
            which[line.start : line.start + chain.line.unknown] = 1 + scales.index(chain.top_scale)
        elif chain.line.unknown:
            variances[line.start : stop] = strategies.position_variances(chain, discrete_variance)
            which[line.start : stop] = np.where(variances[line.start : stop] > 0, -1, 0)
    largest = max((discrete_variance(each.scale) for each in plan.measured), default=0.0)
    return PrefixNoise(tuple(which.tolist()), scales, tuple(variances.tolist()), largest)


def prefix_estimates(plan: ReleasePlan, drawn: list[list[int]], n: int | None) -> Floats:
    """c_1 … c_m by least squares."""
    size = plan.rule.domain.attribute(plan.query.attributes(plan.rule.domain)[0]).size
    known = [0, *drawn[0]]
    raw = np.zeros(size)
    for number, line in enumerate(plan.lines):
        chain, stop = line.chain, line.start + line.chain.line.width
        base = known[number]
        end = known[number + 1] if number + 1 < len(known) else n
        total = None if not chain.line.closed or end is None else float(end - base)
        numbers = [np.array(drawn[i], dtype=float) for i in line.families]
        if chain.line.unknown == 0:
            raw[line.start : stop] = base + (total or 0.0)
            continue
        cells = numbers[-1] if chain.kind != "ordered" else np.zeros(0)
        raw[line.start : stop] = base + strategies.estimate(chain, numbers[0], cells, total, discrete_variance)
    return raw


def _consistent(plan: ReleasePlan, raw: Floats, drawn: list[list[int]], n: int | None) -> Floats:
    """Line by line: rising, between the counts that are known at its ends."""
    known = [0, *drawn[0]]
    values = raw.copy()
    for number, line in enumerate(plan.lines):
        stop = line.start + line.chain.line.width
        end = known[number + 1] if number + 1 < len(known) else n
        top = math.inf if end is None else float(end)
        values[line.start : stop] = rising_between(raw[line.start : stop], float(known[number]), top)
        if end is not None:
            values[stop - 1] = top
    return values


def _ranges(plan: ReleasePlan, query: Ranges, drawn: list[list[int]], n: int | None, level: float) -> Answers:
    domain = plan.rule.domain
    ends = query.positions(domain)
    prefix, consistent = _prefix_lookup(plan, query, drawn, n)
    raw = [prefix[high + 1] - prefix[low] for low, high in ends]
    values = [consistent[high + 1] - consistent[low] for low, high in ends]
    half = [range_half_width(plan, low, high + 1, level) for low, high in ends]
    low_ends = [_clip(value - h, 0, n) for value, h in zip(raw, half, strict=True)]
    high_ends = [_clip(value + h, 0, n) for value, h in zip(raw, half, strict=True)]
    return Answers(raw, [_clip(value, 0, n) for value in values], low_ends, high_ends)


def _prefix_lookup(
    plan: ReleasePlan, query: Ranges, drawn: list[list[int]], n: int | None
) -> tuple[dict[int, float], dict[int, float]]:
    """Raw and consistent counts below every position that a range needs."""
    size = plan.rule.domain.attribute(query.attribute).size
    if plan.mechanism == "cells" and not plan.lines:
        summed = np.append(0, np.cumsum(drawn[0])).astype(float)
        return dict(enumerate(summed)), dict(enumerate(rising_between(summed, 0.0, math.inf if n is None else n)))
    if plan.lines:
        raw = prefix_estimates(plan, drawn, n)
        consistent = _consistent(plan, raw, drawn, n)
        return dict(enumerate(np.append(0.0, raw))), dict(enumerate(np.append(0.0, consistent)))
    found: dict[int, float] = {0: 0.0}
    if n is not None:
        found[size] = float(n)
    for each, numbers in zip(plan.measured, drawn, strict=True):
        found.update(zip(thresholds_of(each.table), map(float, numbers), strict=True))
    order = sorted(found)
    smooth = rising_between([found[end] for end in order], 0.0, math.inf if n is None else n)
    return found, dict(zip(order, smooth.tolist(), strict=True))


def thresholds_of(table: Any) -> list[int]:
    """The positions of a table of prefixes."""
    falls = -np.diff(np.append(table.coordinates, table.above))
    return np.repeat(np.arange(len(table.above)), falls).tolist() + [len(table.above)] * int(table.above[-1])


def range_half_width(plan: ReleasePlan, low: int, high: int, level: float) -> float:
    """The half-width of c_high − c_low (positions, high left out)."""
    size = plan.rule.domain.attribute(plan.query.attributes(plan.rule.domain)[0]).size
    if plan.mechanism == "cells" and not plan.lines:
        each = discrete_variance(plan.measured[0].scale)
        return float(many_draws(np.array([each * (high - low)]), each, level)[0])
    if not plan.lines:
        noisy = plan.measured[1]
        touched = sum(end in set(thresholds_of(noisy.table)) for end in (low, high))
        return float(two_draws(noisy.scale, level) if touched == 2 else one_draw(noisy.scale, level) * touched)
    noisy_ends = [_single_scale(plan, end) for end in (low, high) if 0 < end <= size]
    scales = [scale for scale in noisy_ends if scale]
    if None not in noisy_ends and len(set(scales)) <= 1:
        if not scales:
            return 0.0
        return float(two_draws(scales[0], level) if len(scales) == 2 else one_draw(scales[0], level))
    largest = max(discrete_variance(each.scale) for each in plan.measured)
    return float(many_draws(np.array([range_error(plan, low, high)]), largest, level)[0])


def _single_scale(plan: ReleasePlan, position: int) -> Fraction | None:
    """The scale of a prefix that is one draw; 0 where it is known; None where it is a combination of draws."""
    for line in plan.lines:
        chain = line.chain
        if line.start < position < line.start + chain.line.width + (not chain.line.closed):
            return chain.top_scale if chain.kind == "ordered" else None
    return Fraction(0)
