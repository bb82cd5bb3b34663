"""Policies the slow way: neighbours by enumeration, straight from the definition."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from shoal.policies import known, secrets
from shoal.policies.domain import Domain
from shoal.policies.policy import Policy


def values(rule):
    return list(itertools.product(*(range(size) for size in rule.domain.shape)))


def edge(rule, x, y):
    """The definition of each kind of edge, written out."""
    secret, names = rule.secret, rule.domain.names
    gaps = {name: abs(a - b) for name, a, b in zip(names, x, y, strict=True)}
    if x == y:
        return False
    match secret:
        case secrets.Full():
            return True
        case secrets.Attributes():
            return sum(gap > 0 for gap in gaps.values()) <= secret.count
        case secrets.Distance():
            moved = [name for name, gap in gaps.items() if gap]
            return len(moved) == 1 and gaps[moved[0]] <= dict(secret.reaches).get(moved[0], 0)
        case secrets.Within():
            weights = dict(secret.weights)
            inside = all(name in weights for name, gap in gaps.items() if gap)
            return inside and sum(weights[n] * g for n, g in gaps.items() if g) <= secret.limit
        case secrets.Partition():
            cuts = dict(secret.parts)

            def part(name, position):
                value = rule.domain.attribute(name).values[position]
                return sum(cut <= value for cut in cuts[name]) if name in cuts else value

            return all(part(n, a) == part(n, b) for n, a, b in zip(names, x, y, strict=True))
        case secrets.Graph():
            listed = {(rule.domain.positions(a), rule.domain.positions(b)) for a, b in secret.listed}
            return (x, y) in listed or (y, x) in listed
    raise AssertionError


def all_edges(rule):
    return [(x, y) for x, y in itertools.combinations(values(rule), 2) if edge(rule, x, y)]


def row(rule, query, x):
    """v(x) as exact fractions, by the query's own totals on one record."""
    names = query.attributes(rule.domain)
    seen = rule.domain.projected(names)
    position = tuple(x[rule.domain.axis(name)] for name in seen.names)
    counts = np.zeros(seen.size, dtype=np.int64)
    counts[np.ravel_multi_index(position, seen.shape)] = 1
    table = query.table(rule.domain)
    return [Fraction(total) * table.grid for total in table.totals(counts)]


def largest(rule, query):
    """max over edges of the L1 norm and of the squared L2 norm."""
    rows = {x: row(rule, query, x) for x in values(rule)}
    gaps = [[abs(a - b) for a, b in zip(rows[x], rows[y], strict=True)] for x, y in all_edges(rule)]
    return max(map(sum, gaps), default=0), max((sum(g * g for g in gap) for gap in gaps), default=0)


def hops(rule, x, y, cell=None):
    reached, front, count = {x}, {x}, 0
    edges = all_edges(rule)
    while y not in reached:
        step = {
            b for a, b in [*edges, *((b, a) for a, b in edges)] if a in front and (cell is None or cell[a] == cell[b])
        }
        front = step - reached
        if not front:
            return math.inf
        reached |= front
        count += 1
    return count


def sensitivity_with_known_counts(rule, query, cell, most=4):
    """max ‖f(D) − f(D′)‖₁ over all minimal sets of at most `most` moves that keep the counts of every cell."""
    rows = {x: row(rule, query, x) for x in values(rule)}
    edges = all_edges(rule)
    moves = [*edges, *((y, x) for x, y in edges)]
    best = 0
    for size in range(1, most + 1):
        for chosen in itertools.combinations_with_replacement(moves, size):
            if keeps(chosen, cell) and not any(
                keeps(part, cell) for length in range(1, size) for part in itertools.combinations(chosen, length)
            ):
                change = [
                    sum(b - a for a, b in zip(column_x, column_y, strict=True))
                    for column_x, column_y in zip(
                        zip(*(rows[x] for x, _ in chosen), strict=True),
                        zip(*(rows[y] for _, y in chosen), strict=True),
                        strict=True,
                    )
                ]
                best = max(best, sum(map(abs, change)))
    return best


def keeps(moves, cell):
    return Counter(cell[x] for x, _ in moves) == Counter(cell[y] for _, y in moves)


@st.composite
def policies(draw, largest_domain=40, *, with_graph=True):
    """A random small domain with a random secret of any kind."""
    sizes = draw(
        st.lists(st.integers(1, 6), min_size=1, max_size=3).filter(lambda s: 1 < math.prod(s) <= largest_domain)
    )
    low = draw(st.integers(-3, 3))
    domain = Domain({f"a{i}": range(low, low + size) for i, size in enumerate(sizes)})
    kinds = ["full", "attributes", "distance", "within", "partition", *(["graph"] if with_graph else [])]
    kind = draw(st.sampled_from(kinds))
    names = list(domain.names)
    if kind == "full":
        secret = secrets.full()
    elif kind == "attributes":
        secret = secrets.attributes(draw(st.integers(1, len(names))))
    elif kind == "distance":
        named = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        secret = secrets.distance(**{name: draw(st.integers(1, 4)) for name in named})
    elif kind == "within":
        named = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        secret = secrets.distance(within=draw(st.integers(2, 7)), **{name: draw(st.integers(1, 3)) for name in named})
    elif kind == "partition":
        named = draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
        cuts = {
            name: sorted(draw(st.sets(st.sampled_from(list(domain.attribute(name).values)), min_size=1)))
            for name in named
        }
        secret = secrets.partition(**cuts)
    else:
        every = list(itertools.combinations(itertools.product(*(a.values for a in domain.attributes)), 2))
        secret = secrets.graph(draw(st.lists(st.sampled_from(every), min_size=1, max_size=12, unique=True)))
    if not secret.has_edges(domain):
        secret = secrets.full()
    return Policy(domain, secret)


def with_known(rule, *names):
    return Policy(rule.domain, rule.secret, [known.counts_by(*names)], rule.name)
