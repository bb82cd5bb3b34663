"""One recoding, evaluated: which classes stay, what is lost, and what it teaches about all finer ones."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.anonymity.measuring.definitions import KAnonymity
from shoal.anonymity.searching.quality import count_classes, discernibility
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from shoal.anonymity.measuring.classes import Classes
    from shoal.anonymity.measuring.definitions import Demand
    from shoal.anonymity.searching.problem import Levels, Problem
    from shoal.anonymity.searching.quality import Quality

    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Found:
    """What evaluating one recoding gave. Scores are exact; less is better."""

    levels: Levels
    score: int | Fraction
    score_as_number: float
    loss: int
    suppressed: int
    feasible: bool
    rows_failing_below: int
    failing_below: tuple[tuple[int, ...], ...]

    @property
    def key(self) -> tuple[int | Fraction, int, Levels]:
        """The order of recodings: score, then rows suppressed, then levels."""
        return (self.score, self.suppressed, self.levels)


class Evaluator:
    """Evaluates recodings and counts them."""

    def __init__(self, problem: Problem, quality: Quality) -> None:
        self.problem, self.quality, self.checked = problem, quality, 0

    def evaluate(self, levels: Levels) -> Found:
        """Classes, what survives, loss, and the rows that fail in every finer recoding."""
        problem = self.problem
        self.checked += 1
        part, classes = problem.partition(levels)
        kept = problem.kept(classes)
        suppressed = int(classes.rows[~kept].sum())
        below = problem.fails_below(classes)
        failing = int(classes.rows[below].sum())
        dead = failing > problem.room
        teaches = failing and not dead and self.quality == "loss"
        lessons = problem.losses_of(below[part]) if teaches else ()
        feasible = bool(kept.any()) and suppressed <= problem.room
        loss = self._loss(levels, problem.losses_of(~kept[part]) if suppressed else None, suppressed) if feasible else 0
        score = self._score(loss, classes, kept) if feasible else 0
        number = score / problem.everything if self.quality == "loss" else float(score)
        return Found(levels, score, float(number), loss, suppressed, feasible, failing, lessons)

    def _loss(self, levels: Levels, dropped: tuple[tuple[int, ...], ...] | None, suppressed: int) -> int:
        total = self.problem.suppressed_row * suppressed
        for position, level in enumerate(levels):
            total += self.problem.column_loss[position][level] - (0 if dropped is None else dropped[position][level])
        return total

    def _score(self, loss: int, classes: Classes, kept: Mask) -> int | Fraction:
        if self.quality == "discernibility":
            return discernibility(classes.rows, kept, self.problem.rows)
        if self.quality == "class_size":
            return Fraction(self.problem.rows, count_classes(kept) * k_of(self.problem.demands))
        return loss


def k_of(demands: tuple[Demand, ...]) -> int:
    """The k that class sizes are multiples of; 1 where none was asked for."""
    return next((demand.k for demand in demands if isinstance(demand, KAnonymity)), 1)


@dataclass(frozen=True, slots=True)
class Searched:
    """The best recoding found, how many were checked, and what is proved about the others."""

    best: Found | None
    checked: int
    nodes: int
    optimal: bool
    bound: float | None  # no recoding is better than this; None where the quality has no bound


class Clock:
    """When to stop, and whom to report to."""

    def __init__(self, limit: float | None, progress: Callable[[int, int], None] | None, nodes: int) -> None:
        self._end = None if limit is None else time.monotonic() + limit
        self._progress, self._nodes = progress, nodes

    def over(self, checked: int) -> bool:
        """Whether the time is up; reports how far the search is."""
        if self._progress is not None:
            self._progress(checked, self._nodes)
        return self._end is not None and time.monotonic() > self._end
