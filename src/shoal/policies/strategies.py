"""Prefix counts of ordered values under a policy: three ways to place noise, their exact errors, and the one that fits best.

c_j counts the records below position j: c_0 = 0, and c_w is public where the number of records is. A move along an edge of length
at most θ adds ±1 to a run of at most θ neighbouring c_j.

| strategy | noisy numbers | L1 sensitivity |
|---|---|---|
| ordered | every c_j | θ |
| two-level | every s-th c_j on a share a of ε; all cells on the rest | ⌈θ/s⌉; 2 |
| tree | blocks of s cells on a share a of ε; all cells on the rest | 2; 2 |
| cells | all cells (best on very short lines) | 2 |

**Least squares as resistors.** Noise of variance V between c_i and c_j (a cell, a block) is a resistor V between two nodes, noise
on c_j alone a resistor to the ground, a known c_j is ground. The best linear unbiased estimate has Var(c_j − c_i) = the effective
resistance between them. Inside a block the nodes form a string of equal resistors, so only the ends of blocks have to be solved
for: a tridiagonal system. Inner nodes interpolate between the ends, plus a bridge: the cells' noise with its sum taken out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import numpy as np
import numpy.typing as npt

from shoal.frozen import dataclass
from shoal.mechanisms.certified import round_scale_up
from shoal.policies.domain import require
from shoal.remembered import remembered

Floats = npt.NDArray[np.float64]
Variance = Callable[[Fraction], float]
Kind = Literal["ordered", "two-level", "tree", "cells"]
SHARES = 64


def discrete_variance(scale: Fraction) -> float:
    """2p/(1 − p)² with p = e^{−1/scale}: the variance of one draw of discrete Laplace noise, in steps²."""
    if scale <= 0:
        return 0.0
    half = float(1 / (2 * scale))
    return 1 / (2 * math.sinh(half) ** 2) if half < 350 else 0.0


def continuous_variance(scale: Fraction) -> float:
    """2·scale², the variance of continuous Laplace noise: what published tables count in."""
    return 2 * float(scale) ** 2


@dataclass(frozen=True, slots=True)
class Line:
    """A stretch of an ordered attribute that is solved alone: nothing crosses its ends."""

    width: int
    theta: int
    """The longest edge inside it."""
    closed: bool = True
    """Whether the count at its end is public."""

    @property
    def unknown(self) -> int:
        """How many prefix counts are not public."""
        return self.width - 1 if self.closed else self.width


@dataclass(frozen=True, slots=True)
class Chain:
    """A strategy for one line. `factor` multiplies every sensitivity: records that move at once, times rows per owner."""

    line: Line
    kind: Kind
    stride: int
    top_l1: int
    top_scale: Fraction
    cell_l1: int = 0
    cell_scale: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        noisy = self.cell_scale if self.kind == "cells" else self.top_scale
        require(noisy > 0 or self.line.unknown == 0, "prefixes that are secret get noise")

    @property
    def blocks(self) -> Floats:
        """The lengths of the blocks, the last one may be shorter."""
        whole, rest = divmod(self.line.width, self.stride)
        return np.array([self.stride] * whole + [rest] * bool(rest), dtype=np.float64)

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """Positions of the block ends, 0 left out."""
        return np.cumsum(self.blocks).astype(np.int64)


# ---- exact errors ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """The system of a chain: conductances along it and to the ground, for the ends of blocks that are not known."""

    links: Floats
    """Between neighbouring ends; the first leads to the known 0, the last (where closed) to the known end."""
    grounds: Floats
    cell_variance: float

    @property
    def diagonal(self) -> Floats:
        """The diagonal of the precision matrix."""
        right = self.links[1:] if len(self.links) > len(self.grounds) else np.append(self.links[1:], 0.0)
        return np.asarray(self.links[: len(self.grounds)] + right + self.grounds)


def network(chain: Chain, variance: Variance) -> Network:
    """The resistors of a chain."""
    top, cell = variance(chain.top_scale), variance(chain.cell_scale)
    nodes = len(chain.blocks) - 1 if chain.line.closed else len(chain.blocks)
    if chain.kind == "ordered":
        return Network(np.zeros(len(chain.blocks)), np.full(nodes, 1 / max(top, 1e-300)), 0.0)
    along = 1 / np.maximum(chain.blocks * cell, 1e-300)
    if chain.kind == "cells":
        return Network(along, np.zeros(nodes), cell)
    if chain.kind == "tree":
        return Network(along + 1 / max(top, 1e-300), np.zeros(nodes), cell)
    return Network(along, np.full(nodes, 1 / max(top, 1e-300)), cell)


def covariances(net: Network) -> tuple[Floats, Floats]:
    """Variances of the unknown ends and covariances of neighbours among them: two sweeps."""
    count = len(net.grounds)
    diagonal, between = net.diagonal.tolist(), net.links[1:count].tolist()
    left, right = diagonal.copy(), diagonal.copy()
    for i in range(1, count):
        left[i] -= between[i - 1] ** 2 / left[i - 1]
    for i in range(count - 2, -1, -1):
        right[i] -= between[i] ** 2 / right[i + 1]
    variances = 1 / (np.array(left) + np.array(right) - net.diagonal)
    beside = variances[:-1] * net.links[1:count] / np.array(right[1:])
    return variances, beside


def solve(net: Network, sides: Floats) -> Floats:
    """Σ·sides for the covariance Σ of the unknown ends: one tridiagonal system."""
    count = len(sides)
    pivots, between, values = net.diagonal.tolist(), net.links[1:count].tolist(), sides.astype(np.float64).tolist()
    for i in range(1, count):
        ratio = between[i - 1] / pivots[i - 1]
        pivots[i] -= ratio * between[i - 1]
        values[i] += ratio * values[i - 1]
    values[-1] /= pivots[-1]
    for i in range(count - 2, -1, -1):
        values[i] = (values[i] + between[i] * values[i + 1]) / pivots[i]
    return np.array(values)


def position_variances(chain: Chain, variance: Variance) -> Floats:
    """Var c_j for j = 1 … w."""
    if chain.kind == "ordered":
        each = np.full(chain.line.unknown, variance(chain.top_scale))
        return np.append(each, 0.0) if chain.line.closed else each
    net = network(chain, variance)
    ends, beside = covariances(net) if len(net.grounds) else (np.zeros(0), np.zeros(0))
    if chain.line.closed:
        ends, beside = np.append(ends, 0.0), np.append(beside, 0.0)[: len(ends)]
    before, joint = np.append(0.0, ends[:-1]), np.append(0.0, beside)
    count = np.arange(chain.line.width) // chain.stride
    f = (np.arange(chain.line.width) % chain.stride + 1) / chain.blocks[count]
    bridge = net.cell_variance * chain.blocks[count] * f * (1 - f)
    return np.asarray(
        (1 - f) ** 2 * before[count] + f**2 * ends[count] + 2 * f * (1 - f) * joint[count] + bridge, dtype=np.float64
    )


def summed_errors(chain: Chain, variance: Variance) -> tuple[float, float]:
    """(Σ_j Var c_j, Var Σ_j c_j): all ranges of m values together have (m + 1)·first − second."""
    if chain.kind == "ordered":
        each = chain.line.unknown * variance(chain.top_scale)
        return each, each
    net = network(chain, variance)
    lengths = chain.blocks
    weights = (lengths + np.append(lengths[1:], 1.0)) / 2
    inner = net.cell_variance * float((lengths * (lengths**2 - 1)).sum()) / 12
    unknown = weights[: len(net.grounds)]
    joint = float(unknown @ solve(net, unknown)) if len(unknown) else 0.0
    return float(position_variances(chain, variance).sum()), joint + inner


def mean_range_error(chains: list[Chain], values: int, variance: Variance = discrete_variance) -> float:
    """The mean variance over all ranges of an attribute of this many values, its lines solved alone."""
    sums = [summed_errors(chain, variance) for chain in chains if chain.line.unknown]
    return sum((values + 1) * each - joint for each, joint in sums) / (values * (values + 1) / 2)


def range_variance(chain: Chain, low: int, high: int, variance: Variance) -> float:
    """Var(c_high − c_low) for two positions of one line (0 and, where closed, the width are known)."""
    net = network(chain, variance)
    weight = np.zeros(len(chain.blocks) + 1)
    bridges = 0.0
    pieces = [(_between(chain, position), sign) for position, sign in ((low, -1.0), (high, 1.0))]
    for (block, f, _), sign in pieces:
        weight[block] += sign * (1 - f)
        weight[block + 1] += sign * f
    (first, f, length), (second, g, _) = pieces[0][0], pieces[1][0]
    bridges = net.cell_variance * (length * f * (1 - f) + pieces[1][0][2] * g * (1 - g))
    if first == second:
        bridges -= 2 * net.cell_variance * length * min(f, g) * (1 - max(f, g))
    unknown = weight[1 : len(net.grounds) + 1]
    return bridges + (float(unknown @ solve(net, unknown)) if len(unknown) else 0.0)


def _between(chain: Chain, position: int) -> tuple[int, float, float]:
    """The block of a position, how far inside it (0 … 1), and its length."""
    block = min(max(position - 1, 0) // chain.stride, len(chain.blocks) - 1)
    length = chain.blocks[block]
    return block, (position - block * chain.stride) / length, float(length)


# ---- the estimate ----------------------------------------------------------------------------------------------------


def estimate(chain: Chain, top: Floats, cells: Floats, total: float | None, variance: Variance) -> Floats:
    """c_1 … c_w by generalised least squares.

    `top` holds noisy prefixes (ordered, two-level) or noisy blocks (tree), `cells` noisy cells; `total` is c_w where public.
    """
    if chain.kind == "ordered":
        return np.asarray(top if total is None else np.append(top, total), dtype=np.float64)
    net = network(chain, variance)
    starts = np.append(0, chain.ends[:-1])
    sums = np.add.reduceat(cells, starts)
    nodes = len(net.grounds)
    if chain.kind == "tree":
        inside = variance(chain.cell_scale) * chain.blocks
        share = 1 / np.maximum(inside, 1e-300) / np.maximum(net.links, 1e-300)
        sums = share * sums + (1 - share) * top
    pull = net.links * sums
    sides = pull[:nodes] - (pull[1 : nodes + 1] if len(pull) > nodes else np.append(pull[1:], 0.0)[:nodes])
    if chain.kind == "two-level":
        sides = sides + net.grounds * top
    if total is not None and nodes:
        sides[-1] += net.links[-1] * total
    ends = solve(net, sides) if nodes else np.zeros(0)
    ends = ends if total is None else np.append(ends, total)
    return _filled(chain, ends, cells)


def _filled(chain: Chain, ends: Floats, cells: Floats) -> Floats:
    """Inner prefixes: the noisy cells, their excess over the block taken off evenly."""
    starts = np.append(0, chain.ends[:-1])
    excess = (np.diff(np.append(0.0, ends)) - np.add.reduceat(cells, starts)) / chain.blocks
    return np.asarray(np.cumsum(cells + np.repeat(excess, chain.blocks.astype(int))))


# ---- the choice ------------------------------------------------------------------------------------------------------


@remembered(256)
def best_chain(
    line: Line,
    factor: int,
    epsilon: Fraction,
    values: int,
    variance: Variance = discrete_variance,
    *,
    cell_l1: int = 2,
    kinds: tuple[Kind, ...] = ("ordered", "two-level", "tree"),
) -> Chain:
    """The strategy with the least mean error over all ranges of `values` values.

    Blocks and shares are searched with blocks of equal length, where eigenvalues give the error at once; what is found is
    then compared exactly. `cell_l1` is 2 under a policy, and 1 for the tree that owner-level privacy would use.
    """
    found = [ordered_chain(line, factor, epsilon)] if "ordered" in kinds else []
    limit = _objective(found[0], values, variance) if found else math.inf
    if line.width > 1:
        found.append(cells_chain(line, factor, epsilon, cell_l1))
        limit = min(limit, _objective(found[-1], values, variance))
    for kind in kinds:
        if kind != "ordered" and line.width > 1:
            found += _searched(line, kind, factor, epsilon, values, variance, cell_l1, limit)
    return min(found, key=lambda chain: _objective(chain, values, variance))


def _objective(chain: Chain, values: int, variance: Variance) -> float:
    each, joint = summed_errors(chain, variance)
    return (values + 1) * each - joint


def ordered_chain(line: Line, factor: int, epsilon: Fraction) -> Chain:
    """Noise of scale θ/ε on every prefix."""
    return Chain(line, "ordered", 1, line.theta * factor, round_scale_up(line.theta * factor / epsilon))


def cells_chain(line: Line, factor: int, epsilon: Fraction, cell_l1: int = 2) -> Chain:
    """Noise on every cell, and nothing else."""
    l1 = cell_l1 * factor
    return Chain(line, "cells", line.width, 0, Fraction(0), l1, round_scale_up(l1 / epsilon))


def layered_chain(
    line: Line, kind: Kind, stride: int, share: Fraction, factor: int, epsilon: Fraction, cell_l1: int = 2
) -> Chain:
    """Prefixes or blocks on a share of ε, cells on the rest."""
    top_l1 = factor * (_crossed(line, stride) if kind == "two-level" else cell_l1)
    return Chain(
        line,
        kind,
        stride,
        top_l1,
        round_scale_up(top_l1 / (share * epsilon)),
        cell_l1 * factor,
        round_scale_up(cell_l1 * factor / ((1 - share) * epsilon)),
    )


def _crossed(line: Line, stride: int) -> int:
    """How many of the prefixes s, 2s, … one edge crosses at most."""
    prefixes = -(-line.width // stride) - (1 if line.closed else 0)
    return min(-(-line.theta // stride), max(prefixes, 1))


def _searched(
    line: Line, kind: Kind, factor: int, epsilon: Fraction, values: int, variance: Variance, cell_l1: int, limit: float
) -> list[Chain]:
    """The best two of a kind, unless they are clearly above the limit."""
    closed = replace(line, closed=True)
    scored = []
    for stride in _strides(line):
        share = _best_share(closed, kind, stride, factor, epsilon, values, variance, cell_l1)
        chain = layered_chain(closed, kind, stride, share, factor, epsilon, cell_l1)
        scored.append((_even_objective(chain, values, variance), stride, share))
    return [
        layered_chain(line, kind, stride, share, factor, epsilon, cell_l1)
        for error, stride, share in sorted(scored)[:2]
        if error < 1.2 * limit
    ]


def _strides(line: Line) -> list[int]:
    """Block lengths worth trying: all small ones, then ever longer steps, and those that cut θ evenly."""
    tried = {-(-line.theta // k) for k in range(1, 17)}
    length = 1.0
    while length <= line.width:
        tried.add(int(length))
        length = max(length + 1, length * 1.12)
    tried |= {d for d in range(1, 257) if line.width % d == 0}
    most = max(1, -(-line.width // 2))
    return sorted(s for s in tried if 1 <= s <= most)


def _best_share(
    line: Line, kind: Kind, stride: int, factor: int, epsilon: Fraction, values: int, variance: Variance, cell_l1: int
) -> Fraction:
    """The share of ε for prefixes or blocks, in 64ths: the error falls, then rises."""

    def error(share: int) -> float:
        chain = layered_chain(line, kind, stride, Fraction(share, SHARES), factor, epsilon, cell_l1)
        return _even_objective(chain, values, variance)

    low, high = 1, SHARES - 1
    while high - low > 2:
        third = (high - low) // 3
        a, b = low + third, high - third
        low, high = (low, b) if error(a) <= error(b) else (a, high)
    return Fraction(min(range(low, high + 1), key=error), SHARES)


def _even_objective(chain: Chain, values: int, variance: Variance) -> float:
    """About `_objective`, as if the stride divided the width: eigenvalues of a chain of equal blocks, both ends known."""
    top, cell, t = variance(chain.top_scale), max(variance(chain.cell_scale), 1e-300), chain.stride
    blocks = -(-chain.line.width // t)
    cosines, weights = _spectrum(blocks)
    ground = 1 / max(top, 1e-300) if chain.kind == "two-level" else 0.0
    link = 1 / (t * cell) + (1 / max(top, 1e-300) if chain.kind == "tree" else 0.0)
    eigenvalues = ground + 2 * link * (1 - cosines)
    squares, products = (t - 1) * (2 * t - 1) / (6 * t), (t * t - 1) / (6 * t)
    each = float((1 / eigenvalues).sum()) * (1 + 2 * squares) + 2 * products * float((cosines / eigenvalues).sum())
    each += blocks * cell * (t * t - 1) / 6
    joint = t * t * float((weights / eigenvalues).sum()) + blocks * cell * t * (t * t - 1) / 12
    longer = blocks * t / chain.line.width
    return ((values + 1) * longer * each - joint) / longer**2


@remembered(128)
def _spectrum(blocks: int) -> tuple[Floats, Floats]:
    """Cos of the eigenangles of a string between two known ends, and the squared sums of its eigenvectors."""
    k = np.arange(1, blocks)
    angle = k * np.pi / blocks
    weights = np.where(k % 2 == 1, 2 / blocks / np.tan(angle / 2) ** 2, 0.0)
    return np.cos(angle), weights
