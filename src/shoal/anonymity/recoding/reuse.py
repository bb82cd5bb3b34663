"""`apply`: a recoding fixed before, on new data. `compose`: what several recodings of one table give away together."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.anonymity.measuring.classes import classes_of
from shoal.anonymity.measuring.definitions import Presence, surviving
from shoal.anonymity.measuring.demands import usage
from shoal.anonymity.measuring.grounds import distances_for
from shoal.anonymity.measuring.measure_table import Roles, checked_sampling, measured, names, read_population
from shoal.anonymity.measuring.population import population_classes, shared_codes
from shoal.anonymity.measuring.rows import Rows, read_rows
from shoal.anonymity.measuring.tuples import Tuples, number_classes
from shoal.anonymity.recoding.enforce import finish
from shoal.anonymity.recoding.output import Labels, recoded_tuples
from shoal.anonymity.recoding.recode import Recoded, labels_of_cuts, recode_globally
from shoal.anonymity.recoding.refusals import fixed_recoding_failed
from shoal.anonymity.recoding.task import THRESHOLD, fixed_ladders, read_task, task_of
from shoal.anonymity.recoding.transformation import Transformation
from shoal.anonymity.searching.problem import Problem
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from shoal.anonymity.measuring.measurement import Measurement
    from shoal.anonymity.recoding.anonymized import Anonymized
    from shoal.anonymity.recoding.local_cuts import LocalCuts
    from shoal.anonymity.recoding.task import Task

    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

SUPPRESSED = "suppressed"


def apply(
    source: Any,
    transformation: Transformation | str | Path,
    owner: str | None = None,
    table: str | None = None,
    keep: str | Sequence[str] = (),
    suppress: float = 0.0,
    population: Any = None,
    *,
    keep_owner: bool = False,
) -> Anonymized:
    """Recode a table with a transformation fixed beforehand; its demands are checked, and nothing is chosen from the data."""
    fixed = transformation if isinstance(transformation, Transformation) else Transformation.read(transformation)
    if keep_owner and owner is None:
        raise usage("keep_owner needs an owner.", hint="Give owner= (--owner).")
    roles = Roles(fixed.quasi, fixed.sensitive, names(keep), owner)
    sampling = None if population is not None else checked_sampling(fixed.sampling, None)
    task = read_task(
        source, roles, asked=fixed.demands, table=table, population=population, sampling=sampling,
        distance=fixed.distances, suppress=suppress,
    )  # fmt: skip
    recoded = _recoded(task, fixed)
    suppressed = int(task.tuples.rows[~recoded.kept].sum())
    if suppressed > task.limit or suppressed == task.rows.total:
        raise fixed_recoding_failed(suppressed, task.rows.total)
    made = finish(task, recoded, fixed, recoding="fixed", keep_owner=keep_owner)
    return replace(made, levels=dict(fixed.levels))


def _recoded(task: Task, fixed: Transformation) -> Recoded:
    """What a transformation makes of a table; every row may be dropped."""
    if fixed.local is not None:
        return _by_cuts(task, fixed.local)
    ladders = fixed_ladders(task, fixed.hierarchies)
    levels = tuple(fixed.levels[name] for name in fixed.quasi)
    if any(not 0 <= level < ladder.levels for level, ladder in zip(levels, ladders, strict=True)):
        raise usage("The transformation names a level that its hierarchy does not have.")
    weights = tuple(Fraction(1) for _ in levels)
    problem = Problem(task.tuples, ladders, task.demands, task.limit, weights, task.people, task.sampling)
    return recode_globally(problem, levels)


def _by_cuts(task: Task, cuts: LocalCuts) -> Recoded:
    """Parts whose demands fail are dropped, and so is what falls into no part."""
    found = labels_of_cuts(cuts, task.tuples, task.people)
    labelled = recoded_tuples(task.tuples, found.labels)
    people = None if task.people is None or found.people is None else recoded_tuples(task.people, found.people)
    part, count, population = _classes_of_labels(labelled, people)
    classes = classes_of(task.tuples, part, count, population, task.sampling)
    allowed = np.ones(count, dtype=bool)
    allowed[part[~found.kept]] = False
    kept = surviving(classes, task.demands, allowed)
    everything = any(isinstance(demand, Presence) and demand.keeps_everything for demand in task.demands)
    if everything and (classes.absent or not kept.all()):
        kept[:] = False
    rows = task.tuples.rows
    lost = _loss_of_cuts(cuts, task.tuples, kept[part])
    return Recoded(found.labels, kept[part], found.people, {"loss": lost / max(int(rows.sum()), 1)})


def _classes_of_labels(
    labelled: Tuples, people: Tuples | None
) -> tuple[Integers, int, tuple[Integers, int, int] | None]:
    own = [labelled.codes[:, position] for position in range(len(labelled.quasi))]
    if people is None:
        part, first = number_classes(own, [len(column.values) for column in labelled.quasi])
        return part, len(first), None
    return population_classes(own, *shared_codes(labelled, people), people)


def _loss_of_cuts(cuts: LocalCuts, tuples: Tuples, kept: Mask) -> float:
    """Mean loss of a row: of its part's spans, or everything."""
    most = np.array([max(len(column.leaves) - 1, 1) for column in cuts.columns])
    by_part = ((cuts.high - cuts.low) / most).mean(axis=1)
    return float((tuples.rows * np.where(kept, by_part[cuts.part_of_tuples(tuples)], 1.0)).sum())


def compose(
    source: Any,
    transformations: Sequence[Transformation | str | Path],
    sensitive: str | Sequence[str] | None = None,
    owner: str | None = None,
    table: str | None = None,
    population: Any = None,
) -> Measurement:
    """Measure the publication of several recodings of one table: anyone who knows a person sees their class in each."""
    fixed = [each if isinstance(each, Transformation) else Transformation.read(each) for each in transformations]
    if len(fixed) < 2:
        raise usage("compose takes two or more transformations.", hint="compose SOURCE t1.toml t2.toml")
    watched = names(sensitive)
    wanted = dict.fromkeys(name for each in fixed for name in (*each.quasi, *each.sensitive))
    rows = read_rows(source, tuple(dict.fromkeys((*wanted, *watched))), owner=owner, table=table)
    releases = [_release(rows, each, owner, population) for each in fixed]
    return _joint(rows, fixed, releases, watched, owner)


@dataclass(frozen=True, eq=False, slots=True)
class _Release:
    """One publication: for every combination its labels and whether it appears."""

    labels: tuple[Labels, ...]
    kept: Mask


def _release(rows: Rows, fixed: Transformation, owner: str | None, population: Any) -> _Release:
    roles = Roles(fixed.quasi, fixed.sensitive, (), owner)
    people = None if population is None else read_population(population, roles, rows.table)
    task = task_of(
        rows, roles, fixed.demands, people=people, sampling=None if people is not None else fixed.sampling,
        distance=fixed.distances,
    )  # fmt: skip
    recoded = _recoded(task, fixed)
    of_row = task.tuples.of_row
    labels = tuple(Labels(each.values, each.of_tuple[of_row]) for each in recoded.labels)
    return _Release(labels, recoded.kept[of_row])


def _joint(
    rows: Rows,
    fixed: Sequence[Transformation],
    releases: Sequence[_Release],
    watched: tuple[str, ...],
    owner: str | None,
) -> Measurement:
    """Classes of the labels in all releases; what one of them suppressed looks the same there."""
    anywhere = np.any([release.kept for release in releases], axis=0)
    columns = {name: rows.columns[name] for name in watched}
    chosen = np.flatnonzero(anywhere)
    for number, (each, release) in enumerate(zip(fixed, releases, strict=True), start=1):
        for name, labels in zip(each.quasi, release.labels, strict=True):
            values = pa.array([*labels.values.cast(pa.string()).to_pylist(), SUPPRESSED])
            codes = np.where(release.kept, labels.of_tuple, len(values) - 1)
            columns[f"{name} ({number})"] = Labels(values, codes).column(f"{name} ({number})", chosen)
    kept = rows.where(anywhere)
    joint = Rows(
        rows.table,
        {**kept.columns, **{n: c for n, c in columns.items() if n not in watched}},
        kept.owner,
        kept.count,
        (),
    )
    quasi = tuple(name for name in columns if name not in watched)
    roles = Roles(quasi, watched, (), owner)
    distances = distances_for({name: joint.columns[name] for name in watched}, None)
    hidden = int(rows.count[~anywhere].sum())
    return measured(joint, roles, distances, people=None, sampling=None, threshold=THRESHOLD, suppressed=hidden)
