"""Policy sensitivity, exactly: how far a set of moves along secret edges can carry Σ v(record).

For f(D) = Σ v(record), neighbours differ by at most `moves` records, each moved along one edge, so ‖f(D) − f(D′)‖₁ ≤
moves · max over edges ‖v(x) − v(y)‖₁ by the triangle inequality; without known counts moves = 1, and the edge that attains the
maximum is itself a pair of neighbours, so the bound is met. With known counts it is an upper bound; it is 0 where v is constant on
every known cell, because the answer is then a function of the counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.policies.graphs.distances import Distance, Within
from shoal.policies.tables import NOTHING, Largest, Movable, Prefixes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.policies.domain import Domain, Indices
    from shoal.policies.graphs.secret import Secret
    from shoal.policies.known import Known


def over_edges(
    domain: Domain, secret: Secret, names: Sequence[str], table: Movable, *, squared: bool = False
) -> Largest:
    """The maximum of ‖v(x) − v(y)‖₁ (or its L2 square) over the edges, for a table over `domain.projected(names)`."""
    if isinstance(table, Prefixes) and len(names) == 1 and isinstance(secret, Distance | Within):
        return _over_a_line(domain, secret, names[0], table)
    best, ceiling = NOTHING, table.ceiling(squared=squared)
    for piece in secret.pieces(domain, names):
        if isinstance(piece, tuple):
            found = _over_pairs(table, *piece, squared=squared)
        else:
            found = table.over_cliques(piece, squared=squared)
        if found.amount > best.amount:
            best = found
        if best.amount == ceiling:
            break
    return best


def _over_a_line(domain: Domain, secret: Distance | Within, name: str, table: Prefixes) -> Largest:
    """Prefixes fall along the line, so that the longest step crosses the most of them: only that one is looked at."""
    step = secret.farthest(domain, (name,))[domain.axis(name)]
    if not step:
        return NOTHING
    numbers = np.arange(len(table.above) - step, dtype=np.int64)
    return _over_pairs(table, numbers, numbers + step, squared=False)


def _over_pairs(table: Movable, x: Indices, y: Indices, *, squared: bool) -> Largest:
    gaps = table.between_squared(x, y) if squared else table.between(x, y)
    at = int(np.argmax(gaps))
    return Largest(int(gaps[at]), (int(x[at]), int(y[at]))) if gaps[at] else NOTHING


def is_constant_on_cells(domain: Domain, known: Known, names: Sequence[str], table: Movable) -> bool:
    """Whether known counts decide the answer: v is the same all over each cell."""
    together = tuple(n for n in domain.names if n in names or n in known.attributes(domain))
    seen = domain.projected(together)
    if seen.size > 1 << 20:
        return False  # too large to look at: the bound stays an upper bound
    return table.on(seen.labels(names)).is_constant_on(known.labels(domain, together))
