"""Demands that no recoding meets: which one fails when everything is `*`, and how much suppression would be enough."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from shoal.anonymity.searching.search import search
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.anonymity.measuring.classes import Classes
    from shoal.anonymity.searching.problem import Problem

SECONDS_TO_LOOK = 5.0


def _failing(problem: Problem, classes: Classes) -> str:
    broken = [demand.sentence for demand in problem.demands if not demand.holds(classes).all()]
    if not broken and problem.keeps_everything and classes.absent:
        broken = ["every class of the population is in the table"]
    return "; ".join(broken) or "every demand at once"


def demands_failed(problem: Problem) -> ShoalError:
    """Nothing in the lattice fits."""
    _, classes = problem.partition(problem.top)
    hint = "No suppression would be enough; ask for less."
    if not problem.keeps_everything:
        found = search(replace(problem, limit=problem.rows - 1), time_limit=SECONDS_TO_LOOK).best
        if found is not None:
            hint = f"suppress={share_above(found.suppressed, problem.rows)} would be enough."
    return ShoalError(
        "E_DEMANDS",
        f"No recoding meets the demands. With everything * this one fails: {_failing(problem, classes)}.",
        hint=hint,
    )


def fixed_recoding_failed(suppressed: int, rows: int) -> ShoalError:
    """The recoding of a transformation drops more than it may."""
    return ShoalError(
        "E_DEMANDS",
        f"The transformation would have to suppress {suppressed:,} of {rows:,} rows.",
        hint=f"suppress={share_above(suppressed, rows)} would be enough."
        if suppressed < rows
        else "Nothing would be left; make another transformation.",
    )


def whole_table_failed(problem: Problem, classes: Classes) -> ShoalError:
    """Local recoding suppresses nothing, and the table as one class fails."""
    return ShoalError(
        "E_DEMANDS",
        f"No recoding meets the demands. With the whole table as one class this one fails: {_failing(problem, classes)}.",
        hint="Local recoding suppresses nothing; ask for less, or try recoding='global' with suppress=.",
    )


def share_above(rows: int, total: int) -> str:
    """The smallest share with four decimals that lets this many rows go.

    >>> share_above(1, 3)
    '0.3334'
    """
    return f"{math.ceil(rows * 10_000 / total) / 10_000:g}"
