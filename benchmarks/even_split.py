"""The even split by hand: κ random groups of each owner, ε/3 each for count, sum and selection, Laplace noise, the optimal rule."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import duckdb
import numpy as np

from shoal.mechanisms.group_selection import RULES, select

BOUNDED = """
SELECT key, sum(n) AS n, sum(s) AS s, count(*) AS owners FROM (
    SELECT key, n, s, row_number() OVER (PARTITION BY owner ORDER BY lot) AS pick FROM (
        SELECT owner, key, random() AS lot, least(count(*), {rows}) AS n, least(greatest(sum(value), 0), {upper}) AS s
        FROM {table} GROUP BY owner, key))
WHERE pick <= {kappa} GROUP BY key
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Groups per owner; rows and sum of an owner in each; ε and δ; whether the names of groups are all that is asked for."""

    kappa: int
    rows: int
    upper: float
    epsilon: float
    delta: float
    names_only: bool = False

    @property
    def share(self) -> Fraction:
        """The ε of each number and of the selection; names alone have all of it."""
        return Fraction(self.epsilon) / (1 if self.names_only else 3)

    @property
    def scale(self) -> float:
        """Of the Laplace noise on a number that one owner moves by 1."""
        return self.kappa / float(self.share)


def even_split(table: str, limits: Limits, database: duckdb.DuckDBPyConnection | None = None) -> dict[str, list[float]]:
    """Count and sum of the groups that are shown, from a relation of owner, key and value."""
    query = BOUNDED.format(table=table, kappa=limits.kappa, rows=limits.rows, upper=limits.upper)
    if database is not None:
        found = database.execute(query).fetchnumpy()
    else:
        with duckdb.connect() as own:
            found = own.execute(query).fetchnumpy()
    selection = RULES["OPTIMAL"].apart(limits.kappa, 1, limits.share, Fraction(limits.delta)).selection
    kept = select(selection, np.asarray(found["owners"], dtype=np.int64)).kept
    noise = np.random.default_rng().laplace(scale=limits.scale, size=(2, len(kept)))
    noisy = [np.asarray(found["n"]) + limits.rows * noise[0], np.asarray(found["s"]) + limits.upper * noise[1]]
    shown = [str(key) for key in np.asarray(found["key"])[kept]]
    numbers = [[] for _ in shown] if limits.names_only else np.column_stack(noisy)[kept].tolist()
    return dict(zip(shown, numbers, strict=True))
