"""Chains of secret pairs: how far apart two values are under a policy, and what one policy's releases cost under another.

**Chaining.** Without known counts, moving one record along one edge makes neighbours, so a move from x to y costs at most ε for
each edge of the shortest path. With known counts the path must stay inside one cell: every single step must keep the counts.

**Stretch.** Neighbours under R differ by at most R.moves records, each moved along an edge of R; each of these moves is a path of
d_P(x, y) edges of P, so a release that keeps P at ε costs at most ε · R.moves · max over edges of R of d_P(x, y).
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from shoal.errors import ShoalError
from shoal.policies.graphs import hops as searches
from shoal.policies.graphs.distances import Within
from shoal.policies.graphs.listed import Graph
from shoal.policies.graphs.parts import Partition
from shoal.policies.known import CountsBy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.policies.graphs.secret import Positions
    from shoal.policies.policy import Policy

MOST_SEARCHED = 1 << 12
"""A domain of this many values may be searched value by value."""


def hops(rule: Policy, x: Positions, y: Positions) -> int | float:
    """Edges on the shortest path that no known count forbids."""
    domain, cells = rule.domain, rule.cells
    if cells is None:
        return rule.secret.hops(domain, x, y)
    if isinstance(cells, CountsBy) and not isinstance(rule.secret, Graph):
        fixed = [domain.axis(name) for name in cells.names]
        # The shortest paths of these graphs change only attributes in which x and y differ.
        return rule.secret.hops(domain, x, y) if all(x[axis] == y[axis] for axis in fixed) else math.inf
    return searches.breadth_first(_inside_cells(rule), x, y)


def _inside_cells(rule: Policy) -> dict[Positions, tuple[Positions, ...]]:
    """The edges that stay inside a cell, value by value."""
    domain, cells = rule.domain, rule.cells
    if domain.size > MOST_SEARCHED and not isinstance(rule.secret, Graph):
        raise ShoalError("E_LIMITS", "The domain is too large to search its known cells for paths.")
    cell = cells.labels(domain, domain.names) if cells is not None else np.zeros(domain.size, dtype=np.int64)
    at = {index: tuple(int(axis[index]) for axis in domain.grid) for index in range(domain.size)}
    found: dict[Positions, list[Positions]] = {}
    for x, y in edges(rule):
        i, j = int(np.ravel_multi_index(x, domain.shape)), int(np.ravel_multi_index(y, domain.shape))
        if cell[i] == cell[j]:
            found.setdefault(at[i], []).append(at[j])
            found.setdefault(at[j], []).append(at[i])
    return {value: tuple(others) for value, others in found.items()}


def edges(rule: Policy) -> Iterator[tuple[Positions, Positions]]:
    """Every secret pair once, as positions (for small domains and for listed graphs)."""
    domain = rule.domain
    if isinstance(rule.secret, Graph):
        yield from rule.secret.edges(domain)
        return
    if domain.size > MOST_SEARCHED:
        raise ShoalError("E_LIMITS", "The domain is too large to list its secret pairs.")
    values = [tuple(int(axis[i]) for axis in domain.grid) for i in range(domain.size)]
    for x, y in itertools.combinations(values, 2):
        if rule.secret.is_edge(domain, x, y):
            yield x, y


def stretch(of: Policy, under: Policy) -> int | float:
    """What one ε under `of` costs under another policy, its moves included; infinite where nothing is promised."""
    if of.domain != under.domain:
        return math.inf
    if (of.secret, of.known) == (under.secret, under.known):
        return 1
    if of.known and of.known != under.known:
        return math.inf  # `of` may release its counts exactly, and `under` hides them
    longest = _longest(of, under)
    return longest if math.isinf(longest) else int(longest) * under.moves


def _longest(of: Policy, under: Policy) -> int | float:
    """The largest d_P over the edges of R: at the ends of spans where both graphs are boxes, else edge by edge."""
    domain = of.domain
    if isinstance(under.secret, Graph) or isinstance(of.secret, Graph):
        return _edge_by_edge(of, under)
    if isinstance(of.secret, Partition):
        return _across_parts(of.secret, under)
    if of.known and not isinstance(of.cells, CountsBy):
        return _edge_by_edge(of, under)
    start = tuple(0 for _ in domain.shape)
    spans = _outermost(under.secret.spans(domain)) if isinstance(under.secret, Within) else under.secret.spans(domain)
    return max(hops(of, start, span) for span in spans)


def _outermost(spans: list[Positions]) -> list[Positions]:
    """Spans below no other: hops only grow with the span."""
    if len(spans) > 2000:
        return spans
    return [s for s in spans if not any(s != t and all(a <= b for a, b in zip(s, t, strict=True)) for t in spans)]


def _edge_by_edge(of: Policy, under: Policy) -> int | float:
    if not isinstance(of.secret, Graph) and not of.known:
        return max(hops(of, x, y) for x, y in edges(under))
    inside = _inside_cells(of)
    return max(searches.breadth_first(inside, x, y) for x, y in edges(under))


def _across_parts(secret: Partition, under: Policy) -> int | float:
    """1 where every edge stays inside a part (and inside known cells), else infinity; attribute by attribute."""
    domain = under.domain
    for axis, name in enumerate(domain.names):
        if not any(span[axis] for span in under.secret.spans(domain)):
            continue
        part = secret.part_of(domain, name)
        moved = under.secret.part_of(domain, name) if isinstance(under.secret, Partition) else None
        groups = [part] if moved is None else [part[moved == number] for number in np.unique(moved)]
        if any(len(np.unique(group)) > 1 for group in groups):
            return math.inf
    return 1
