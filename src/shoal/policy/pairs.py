"""Neighbouring data sets of a policy, for `audit.check(…, inputs=pairs(rule), search=False)`."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal import params
from shoal.policies.graphs.listed import Graph
from shoal.policies.graphs.paths import MOST_SEARCHED, edges
from shoal.policies.graphs.secret import Positions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.policies.policy import Policy

Edge = tuple[Positions, Positions]
Moves = tuple[Edge, ...]
LONGEST_SEARCH = 20_000


def pairs(rule: Policy, records: int = 3, limit: int = 64) -> list[tuple[list[Any], list[Any]]]:
    """Neighbouring data sets: extremes and cycles of known counts first; plain numbers where T has one attribute."""
    params.whole_number(records, option="records")
    params.whole_number(limit, option="limit")
    found: list[tuple[list[Any], list[Any]]] = []
    for moves, others in itertools.product(_moves(rule), range(3)):
        pair = _data_sets(rule, moves, records, others)
        if pair not in found:
            found.append(pair)
        if len(found) == limit:
            break
    return found


def _data_sets(rule: Policy, moves: Moves, records: int, others: int) -> tuple[list[Any], list[Any]]:
    """The movers, and as many records that stay as there is room for: low ones, high ones, or where a mover was."""
    domain = rule.domain
    high = tuple(size - 1 for size in domain.shape)
    stays = (tuple(0 for _ in high), high, moves[0][0])[others]
    rest = [stays] * max(0, records - len(moves))

    def shown(positions: list[Positions]) -> list[Any]:
        return [domain.plain(domain.values_at(position)) for position in positions]

    return shown([x for x, _ in moves] + rest), shown([y for _, y in moves] + rest)


def _moves(rule: Policy) -> Iterator[Moves]:
    """Sets of moves that make neighbours."""
    if rule.cells is None:
        yield from ((edge,) for edge in _extremes(rule))
        return
    cell = rule.cells.labels(rule.domain, rule.domain.names)
    listed = sorted(edges(rule), key=lambda edge: -sum(abs(a - b) for a, b in zip(*edge, strict=True)))
    arcs: dict[tuple[int, int], list[Edge]] = {}
    for x, y in [*listed, *((y, x) for x, y in listed)]:
        key = (int(cell[_flat(rule, x)]), int(cell[_flat(rule, y)]))
        arcs.setdefault(key, []).append((x, y))
    for cycle in _cycles(arcs, int(cell.max()) + 1):
        for turn in range(2):
            yield tuple(arcs[step][turn % len(arcs[step])] for step in cycle)
    inside = [edge for (u, v), found in arcs.items() if u == v for edge in found]
    yield from ((edge,) for edge in inside)


def _flat(rule: Policy, x: Positions) -> int:
    return int(np.ravel_multi_index(x, rule.domain.shape))


def _extremes(rule: Policy) -> Iterator[Edge]:
    """Edges of the largest spans at both ends of the domain, then all others of a small one."""
    domain, secret = rule.domain, rule.secret
    for span in sorted(secret.spans(domain), key=sum, reverse=True)[:32]:
        if any(span):
            x, y = secret.attain(domain, span)
            yield x, y
            top = tuple(size - 1 for size in domain.shape)
            low = tuple(t - s for t, s in zip(top, span, strict=True))
            if secret.is_edge(domain, low, top):
                yield low, top
    if domain.size <= MOST_SEARCHED or isinstance(secret, Graph):
        listed = itertools.islice(edges(rule), LONGEST_SEARCH)
        yield from sorted(listed, key=lambda edge: -sum(abs(a - b) for a, b in zip(*edge, strict=True)))


def _cycles(arcs: dict[tuple[int, int], list[Edge]], cells: int) -> Iterator[list[tuple[int, int]]]:
    """Simple cycles of cells, long ones first; at most a few thousand are looked at."""
    beside = {u: [v for v in range(cells) if u != v and (u, v) in arcs] for u in range(cells)}
    found: list[list[int]] = []

    def extend(path: list[int]) -> None:
        if len(found) > 2000:
            return
        for v in beside[path[-1]]:
            if v == path[0] and len(path) > 1:
                found.append(path.copy())
            elif v > path[0] and v not in path:
                extend([*path, v])

    for start in range(cells):
        extend([start])
    for path in sorted(found, key=len, reverse=True):
        yield list(zip(path, [*path[1:], path[0]], strict=True))
