"""More recodings than fit into memory: best-first over boxes of them, with a proved bound at every moment.

A box is all levels between `low` and `high`. Rows that fail at `high` fail in the whole box, so no recoding in it loses
less than those rows entirely and the others at `low`. The box with the least bound is split; the least bound of all boxes
is a bound for the table.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from shoal.anonymity.searching.evaluation import Searched
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.anonymity.searching.evaluation import Clock, Evaluator, Found
    from shoal.anonymity.searching.problem import Levels

MOST_CHECKED = 20_000


@dataclass(frozen=True, order=True, slots=True)
class _Box:
    bound: int
    low: Levels
    high: Levels


def search_boxes(evaluator: Evaluator, clock: Clock, nodes: int) -> Searched:
    """The best recoding found before the time is up, or the optimum where the boxes run out first."""
    return _BoxSearch(evaluator, clock, nodes).run()


class _BoxSearch:
    def __init__(self, evaluator: Evaluator, clock: Clock, nodes: int) -> None:
        self._evaluator, self._clock, self._nodes = evaluator, clock, nodes
        self._problem = evaluator.problem
        self._known: dict[Levels, Found] = {}
        self._best: Found | None = None

    def run(self) -> Searched:
        top = self._problem.top
        boxes = self._boxed(tuple(0 for _ in top), top)
        self._descend(self._look(top))
        while boxes and not self._beaten(boxes[0]):
            if self._clock.over(self._evaluator.checked) or self._evaluator.checked > MOST_CHECKED:
                break
            box = heapq.heappop(boxes)
            for half in self._halves(box):
                heapq.heappush(boxes, half)
        proved = not boxes or self._beaten(boxes[0])
        return Searched(self._best, self._evaluator.checked, self._nodes, proved, self._bound(boxes, proved=proved))

    def _beaten(self, box: _Box) -> bool:
        if self._best is None or self._evaluator.quality != "loss":
            return False
        return box.bound > self._best.loss

    def _bound(self, boxes: list[_Box], *, proved: bool) -> float | None:
        if self._evaluator.quality != "loss":
            return None if self._best is None or not proved else self._best.score_as_number
        best = self._problem.everything if self._best is None else self._best.loss
        least = best if proved or not boxes else min(best, boxes[0].bound)
        return least / self._problem.everything

    def _look(self, levels: Levels) -> Found:
        if levels not in self._known:
            found = self._evaluator.evaluate(levels)
            self._known[levels] = found
            if found.feasible and (self._best is None or found.key < self._best.key):
                self._best = found
        return self._known[levels]

    def _boxed(self, low: Levels, high: Levels) -> list[_Box]:
        """The box with its bound; none where all of it is dead or it is one recoding that is known."""
        found = self._look(high)
        if found.rows_failing_below > self._problem.room or low == high:
            return []
        loss = self._problem.column_loss
        lost = found.failing_below
        bound = found.rows_failing_below * self._problem.suppressed_row
        bound += sum(
            loss[position][level] - (lost[position][level] if lost else 0) for position, level in enumerate(low)
        )
        return [_Box(bound, low, high)]

    def _halves(self, box: _Box) -> list[_Box]:
        """Cut where the loss of a column differs most between the two ends."""
        loss = self._problem.column_loss
        spread = [
            loss[position][high] - loss[position][low]
            for position, (low, high) in enumerate(zip(box.low, box.high, strict=True))
        ]
        wide = [position for position, (low, high) in enumerate(zip(box.low, box.high, strict=True)) if high > low]
        column = max(wide, key=lambda position: (spread[position], -position))
        middle = (box.low[column] + box.high[column]) // 2
        lower = tuple(middle if position == column else level for position, level in enumerate(box.high))
        upper = tuple(middle + 1 if position == column else level for position, level in enumerate(box.low))
        return [*self._boxed(box.low, lower), *self._boxed(upper, box.high)]

    def _descend(self, here: Found) -> None:
        """A greedy first answer."""
        moved = True
        while moved and not self._clock.over(self._evaluator.checked):
            moved = False
            for column, level in enumerate(here.levels):
                if level == 0:
                    continue
                finer = tuple(each - (position == column) for position, each in enumerate(here.levels))
                found = self._look(finer)
                if found.feasible and (not here.feasible or found.key < here.key):
                    here, moved = found, True
                    break
