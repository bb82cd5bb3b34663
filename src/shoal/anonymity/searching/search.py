"""The search for the best levels: a greedy first answer, then every recoding that could still beat it.

Recodings come from the highest plain bound down: general ones first, because what they teach holds for their whole
down-set. What is left when nobody's bound is below the best is the optimum, proved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from shoal.anonymity.searching.boxes import search_boxes
from shoal.anonymity.searching.evaluation import Clock, Evaluator, Found, Searched
from shoal.anonymity.searching.lattice import DEAD, Lattice

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.anonymity.searching.problem import Levels, Problem
    from shoal.anonymity.searching.quality import Quality

MOST_NODES = 20_000_000
CHUNK = 4096


def search(
    problem: Problem,
    quality: Quality = "loss",
    *,
    time_limit: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Searched:
    """The best recoding of a table, with its proof or the remaining gap."""
    nodes = int(np.prod([float(levels) for levels in problem.shape]))
    evaluator, clock = Evaluator(problem, quality), Clock(time_limit, progress, nodes)
    if nodes > MOST_NODES:
        return search_boxes(evaluator, clock, nodes)
    return LatticeSearch(evaluator, clock).run()


class LatticeSearch:
    """A search with the bounds of all recodings in memory."""

    def __init__(self, evaluator: Evaluator, clock: Clock) -> None:
        self._evaluator, self._clock = evaluator, clock
        self._problem = evaluator.problem
        self._lattice = Lattice(evaluator.problem)
        self._best: Found | None = None
        self._by_loss = evaluator.quality == "loss"

    def run(self) -> Searched:
        """Greedy, then everything that could still win."""
        done = self._descend() and self._sweep()
        return Searched(self._best, self._evaluator.checked, self._lattice.bound.size, done, self._bound(done=done))

    def _bound(self, *, done: bool) -> float | None:
        if done:
            return None if self._best is None else self._best.score_as_number
        if not self._by_loss:
            return None
        least = self._lattice.least()
        best = self._best.loss if self._best is not None else self._problem.everything
        whole = best if least == DEAD else min(best, least * self._lattice.divisor)
        return whole / self._problem.everything

    def _check(self, levels: Levels) -> Found:
        found = self._evaluator.evaluate(levels)
        self._lattice.checked[self._lattice.index(levels)] = True
        if found.rows_failing_below > self._problem.room:
            self._lattice.kill(levels)
        elif self._by_loss and found.rows_failing_below:
            self._lattice.learn(levels, found.failing_below, found.rows_failing_below)
        if found.feasible and (self._best is None or found.key < self._best.key):
            self._best = found
        return found

    def _descend(self) -> bool:
        """From the top, one level less in the column that gains most, while that helps; False when time is up."""
        here = self._check(self._problem.top)
        moved = True
        while moved and not self._clock.over(self._evaluator.checked):
            moved = False
            for levels in self._finer(here.levels):
                index = self._lattice.index(levels)
                if self._lattice.checked[index] or self._lattice.bound.flat[index] == DEAD:
                    continue
                found = self._check(levels)
                if found.feasible and (not here.feasible or found.key < here.key):
                    here, moved = found, True
                    break
        return not moved

    def _finer(self, levels: Levels) -> list[Levels]:
        """One level less in one column, the largest gain first."""
        loss = self._problem.column_loss
        steps = [
            (loss[position][level] - loss[position][level - 1], position)
            for position, level in enumerate(levels)
            if level > 0
        ]
        ordered = sorted(steps, key=lambda step: (-step[0], step[1]))
        return [tuple(level - (position == column) for position, level in enumerate(levels)) for _, column in ordered]

    def _sweep(self) -> bool:
        """Every living recoding that could still win, general ones first; False when time is up."""
        order, bound, checked = self._lattice.order, self._lattice.bound.reshape(-1), self._lattice.checked
        for start in range(0, len(order), CHUNK):
            chunk = order[start : start + CHUNK]
            at = 0
            while at < len(chunk):
                rest = chunk[at:]
                alive = np.flatnonzero((bound[rest] <= self._threshold()) & ~checked[rest])
                if not len(alive):
                    break
                at += int(alive[0])
                index = int(chunk[at])
                if self._can_win(index):
                    self._check(self._lattice.levels(index))
                    if self._clock.over(self._evaluator.checked):
                        return False
                at += 1
        return True

    def _threshold(self) -> int:
        """The largest bound that may still win."""
        if self._best is None or not self._by_loss:
            return DEAD - 1
        return self._best.loss // self._lattice.divisor

    def _can_win(self, index: int) -> bool:
        """With the bound of the best itself only a tie is left: won by fewer rows suppressed or by smaller levels."""
        if self._best is None or not self._by_loss or self._lattice.divisor > 1:
            return True
        if int(self._lattice.bound.flat[index]) < self._best.loss:
            return True
        return self._best.suppressed > 0 or index < self._lattice.index(self._best.levels)
