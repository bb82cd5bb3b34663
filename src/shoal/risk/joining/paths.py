"""From pairs to paths: which datasets can be linked over several others, and the groups that hang together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.risk.joining.containment import Matrix
    from shoal.risk.joining.pairs import Comparison, Pair, Places


@dataclass(frozen=True, slots=True)
class LinkPath:
    """A way from one dataset to another; its score is the product of its pairs' scores."""

    start: str
    end: str
    pairs: tuple[Pair, ...]

    @property
    def score(self) -> float:
        """How good the whole way is."""
        return math.prod(pair.score for pair in self.pairs)

    @property
    def datasets(self) -> list[str]:
        """The datasets along the way."""
        stations = [self.start]
        for pair in self.pairs:
            stations.append(pair.b_dataset if pair.a_dataset == stations[-1] else pair.a_dataset)
        return stations

    def to_dict(self) -> dict[str, object]:
        """All of it, for machines."""
        hops = [{"a": pair.a, "b": pair.b, "score": pair.score} for pair in self.pairs]
        return {"from": self.start, "to": self.end, "datasets": self.datasets, "score": self.score, "hops": hops}


class LinkGraph:
    """Datasets, the best pair between each two of them, and the best way between any two.

    Ways are found by Floyd and Warshall's algorithm on products: allowing one more station s, a way from i to j is as good as
    max(best(i, j), best(i, s) · best(s, j)).
    """

    def __init__(self, comparison: Comparison, minimum_score: float) -> None:
        self._comparison = comparison
        self.datasets = list(dict.fromkeys(column.dataset for column in comparison.columns))
        numbers = {name: number for number, name in enumerate(self.datasets)}
        of_column = np.array([numbers[column.dataset] for column in comparison.columns], dtype=np.int64)
        self._direct, self._best_pair = _best_links(comparison, of_column, len(self.datasets), minimum_score)
        self._best, self._over = _best_ways(self._direct)

    def path(self, start: str, end: str) -> LinkPath | None:
        """The best way between two datasets; None when there is none."""
        i, j = self.datasets.index(start), self.datasets.index(end)
        if i == j or self._best[i, j] == 0:
            return None
        return LinkPath(start, end, tuple(self._comparison.pair(position) for position in self._positions(i, j)))

    def _positions(self, i: int, j: int) -> list[int]:
        station = int(self._over[i, j])
        return (
            [int(self._best_pair[i, j])] if station < 0 else self._positions(i, station) + self._positions(station, j)
        )

    def indirect_paths(self, most: int) -> list[LinkPath]:
        """Ways over other datasets that beat the direct one, or serve where there is none; the best first."""
        starts, ends = np.nonzero(np.triu(self._over >= 0, 1))
        order = np.argsort(-self._best[starts, ends], kind="stable")[:most]
        paths = [self.path(self.datasets[starts[position]], self.datasets[ends[position]]) for position in order]
        return [path for path in paths if path is not None]

    def groups(self) -> list[list[str]]:
        """The datasets that hang together, the largest group first; those that are alone are not listed."""
        left, groups = set(range(len(self.datasets))), []
        while left:
            group, edge = set[int](), {min(left)}
            while edge:
                group |= edge
                edge = {int(there) for here in edge for there in np.flatnonzero(self._direct[here])} - group
            groups.append(sorted(self.datasets[number] for number in group))
            left -= group
        return sorted((group for group in groups if len(group) > 1), key=lambda group: (-len(group), group))


def _best_links(comparison: Comparison, of_column: Places, count: int, minimum: float) -> tuple[Matrix, Places]:
    """For each two datasets the highest score of a pair, and the position of that pair."""
    scores, positions = np.zeros((count, count)), np.full((count, count), -1, dtype=np.int64)
    chosen = np.flatnonzero(comparison.evident & (comparison.score >= minimum))
    chosen = chosen[np.argsort(comparison.score[chosen], kind="stable")]  # the best is written last
    first, second = of_column[comparison.first[chosen]], of_column[comparison.second[chosen]]
    for here, there in ((first, second), (second, first)):
        scores[here, there] = comparison.score[chosen]
        positions[here, there] = chosen
    return scores, positions


def _best_ways(direct: Matrix) -> tuple[Matrix, Places]:
    """The score of the best way between each two, and a station on it (−1: the direct pair)."""
    best, over = direct.copy(), np.full(direct.shape, -1, dtype=np.int64)
    np.fill_diagonal(best, 1.0)
    ways = np.empty_like(best)
    for station in np.flatnonzero(direct.any(axis=1)):
        np.multiply(best[:, station, None], best[None, station, :], out=ways)
        better = ways > best
        np.copyto(best, ways, where=better)
        np.copyto(over, station, where=better)
    return best, over
