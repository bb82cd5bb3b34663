"""`enforce`: make a table meet demands with the least loss. `apply`: a recoding that was fixed before."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.anonymity.measuring.demands import exact_number, usage
from shoal.anonymity.measuring.measure_table import Roles, checked_sampling, names
from shoal.anonymity.recoding.anonymized import Anonymized
from shoal.anonymity.recoding.local_cuts import LocalCuts
from shoal.anonymity.recoding.output import recoded_rows, recoded_tuples
from shoal.anonymity.recoding.recode import recode_globally, recode_locally
from shoal.anonymity.recoding.refusals import demands_failed, whole_table_failed
from shoal.anonymity.recoding.stored import stored_demands, stored_distances, stored_hierarchy
from shoal.anonymity.recoding.task import ladders_for, read_task
from shoal.anonymity.recoding.transformation import Transformation
from shoal.anonymity.searching.evaluation import Evaluator
from shoal.anonymity.searching.mondrian import Mondrian
from shoal.anonymity.searching.problem import Problem
from shoal.anonymity.searching.quality import QUALITIES
from shoal.anonymity.searching.search import search
from shoal.anonymity.searching.spans import line_of
from shoal.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from fractions import Fraction

    from shoal.anonymity.recoding.recode import Recoded
    from shoal.anonymity.recoding.task import Task

RECODINGS = ("global", "local")


def enforce(
    source: Any,
    quasi: str | Sequence[str],
    *,
    k: int | None = None,
    l: Any = None,  # noqa: E741 - the letter of the definition
    entropy_l: Any = None,
    recursive: Any = None,
    t: Any = None,
    k_map: int | None = None,
    presence: Any = None,
    sensitive: str | Sequence[str] | None = None,
    owner: str | None = None,
    table: str | None = None,
    population: Any = None,
    sampling: float | None = None,
    distance: Mapping[str, Any] | None = None,
    hierarchies: Any = None,
    suppress: float = 0.0,
    quality: str = "loss",
    weights: Mapping[str, Any] | None = None,
    recoding: str = "global",
    keep: str | Sequence[str] = (),
    keep_owner: bool = False,
    time_limit: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Anonymized:
    """Recode a table so that every demand holds, with the least loss.

    >>> people = {"zip": [4217, 4217, 1742, 1691, 9755], "age": [34, 39, 75, 77, 13]}
    >>> from shoal.anonymity import Hierarchy
    >>> ladders = {"zip": Hierarchy.intervals([1000]), "age": Hierarchy.intervals([5, 10])}
    >>> r = enforce({"people": people}, quasi=["zip", "age"], k=2, hierarchies=ladders, suppress=0.2)
    >>> r.levels, r.suppressed
    ({'zip': 1, 'age': 2}, 1)
    """
    asked = {
        "k": k, "l": l, "entropy_l": entropy_l, "recursive": recursive, "t": t, "k_map": k_map, "presence": presence,
    }  # fmt: skip
    made = {name: value for name, value in asked.items() if value is not None}
    if not made:
        raise usage("No demand was made.", hint="Ask for one, such as k=5 (--k 5).")
    _check_choices(recoding, quality, time_limit)
    if keep_owner and owner is None:
        raise usage("keep_owner needs an owner.", hint="Give owner= (--owner).")
    roles = Roles(names(quasi), names(sensitive), names(keep), owner)
    weighed = checked_weights(roles.quasi, weights)
    task = read_task(
        source, roles, asked=made, table=table, population=population,
        sampling=checked_sampling(sampling, population), distance=distance, suppress=suppress,
    )  # fmt: skip
    ladders = ladders_for(task, hierarchies)
    problem = Problem(task.tuples, ladders, task.demands, task.limit, weighed, task.people, task.sampling)
    if recoding == "local":
        return _local(task, problem, keep_owner=keep_owner)
    return _global(task, problem, quality, keep_owner=keep_owner, time_limit=time_limit, progress=progress)


def _check_choices(recoding: str, quality: str, time_limit: float | None) -> None:
    if recoding not in RECODINGS:
        raise usage(f"recoding is one of {', '.join(RECODINGS)}.")
    if quality not in QUALITIES:
        raise usage(f"quality is one of {', '.join(QUALITIES)}.")
    if recoding == "local" and (quality != "loss" or time_limit is not None):
        raise usage("Local recoding has no search: quality and time_limit do nothing there.", hint="Leave them out.")
    if time_limit is not None:
        exact_number("time_limit", time_limit, 0)


def checked_weights(quasi: Sequence[str], weights: Mapping[str, Any] | None) -> tuple[Fraction, ...]:
    """A weight above 0 for each column; 1 by default."""
    given = dict(weights or {})
    unknown = set(given) - set(quasi)
    if unknown:
        raise usage(f"weights names {min(unknown)!r}, which is not a quasi-identifier.")
    found = tuple(exact_number("weights", given.get(name, 1)) for name in quasi)
    if any(weight <= 0 for weight in found):
        raise usage("weights must be above 0.", hint='Write weights={"zip": 2}.')
    return found


def _global(
    task: Task,
    problem: Problem,
    quality: Any,
    *,
    keep_owner: bool,
    time_limit: float | None,
    progress: Callable[[int, int], None] | None,
) -> Anonymized:
    found = search(problem, quality, time_limit=time_limit, progress=progress)
    if found.best is None:
        raise demands_failed(problem)
    levels = found.best.levels
    recoded = recode_globally(problem, levels)
    by_name = dict(zip(task.roles.quasi, levels, strict=True))
    transformation = Transformation(
        quasi=task.roles.quasi,
        recoding="global",
        demands=stored_demands(task.demands),
        sensitive=task.roles.sensitive,
        distances=stored_distances(task),
        sampling=task.sampling,
        levels=by_name,
        hierarchies={ladder.column: stored_hierarchy(ladder) for ladder in problem.ladders},
    )
    made = finish(task, recoded, transformation, recoding="global", keep_owner=keep_owner)
    return replace(
        made,
        levels=by_name,
        optimal=found.optimal,
        bound=found.bound,
        checked=found.checked,
        lattice=found.nodes,
        finer=_finer(problem, levels),
        automatic=tuple(ladder.column for ladder in problem.ladders if ladder.hierarchy.automatic),
        judged_by=quality,
    )


def _finer(problem: Problem, levels: tuple[int, ...]) -> dict[str, int]:
    """Rows that fail at one level less, column by column: what the choice of levels gives away."""
    found = {}
    for position, level in enumerate(levels):
        if level:
            finer = tuple(each - (at == position) for at, each in enumerate(levels))
            found[problem.ladders[position].column] = Evaluator(problem, "loss").evaluate(finer).suppressed
    return found


def _local(task: Task, problem: Problem, *, keep_owner: bool) -> Anonymized:
    lines = tuple(line_of(ladder) for ladder in problem.ladders)
    mondrian = Mondrian(problem, lines)
    failing = mondrian.holds_whole()
    if failing is not None:
        raise whole_table_failed(problem, failing)
    parts = mondrian.run()
    cuts = LocalCuts.of(parts, lines, [ladder.kind for ladder in problem.ladders])
    transformation = Transformation(
        quasi=task.roles.quasi,
        recoding="local",
        demands=stored_demands(task.demands),
        sensitive=task.roles.sensitive,
        distances=stored_distances(task),
        sampling=task.sampling,
        local=cuts,
    )
    recoded = recode_locally(problem, lines, parts, cuts)
    made = finish(task, recoded, transformation, recoding="local", keep_owner=keep_owner)
    automatic = tuple(ladder.column for ladder in problem.ladders if ladder.hierarchy.automatic)
    return replace(made, automatic=automatic)


def finish(
    task: Task, recoded: Recoded, transformation: Transformation, *, recoding: str, keep_owner: bool
) -> Anonymized:
    """The published rows, measured again; a demand that does not hold there is a bug of ours and stops everything."""
    rows = recoded_rows(task.rows, task.tuples.of_row, task.roles.quasi, recoded.labels, recoded.kept)
    people = None if task.people is None or recoded.people is None else recoded_tuples(task.people, recoded.people)
    suppressed = task.rows.total - rows.total
    after = task.measured(rows, people, suppressed + task.earlier)
    checked = after.demands(stored_demands(task.demands)) if task.demands else ()
    if not np.all([demand.holds(after.found).all() for demand in checked]):
        raise InternalError("a demand does not hold in the output")
    owner = task.roles.owner if keep_owner else None
    return Anonymized(
        rows=rows,
        published=(*task.roles.read, *(() if owner is None else (owner,))),
        left_out=(*task.rows.left_out, *(() if keep_owner or task.roles.owner is None else (task.roles.owner,))),
        owner=owner,
        recoding=recoding,
        levels={},
        quality=recoded.quality,
        suppressed=suppressed,
        earlier=task.earlier,
        before=task.before,
        after=after,
        transformation=transformation,
        demands=tuple(demand.sentence for demand in task.demands),
    )
