"""One row of the table, measured: repeated runs beside closed forms, against the answer of plain SQL."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from benchmarks.tpch.closed_forms import Group, is_one_count, median_relative_error, share_withheld
from benchmarks.tpch.repeat import answers, exact_answers
from benchmarks.tpch.tables import delta_at
from shoal.accounting.events import LaplaceNoise, OptimalSelection, QuantileChoice, WeightedSelection, WholeSelection
from shoal.release.execute import fresh_sampling_key, measure

if TYPE_CHECKING:
    from benchmarks.tpch.rows import Row
    from benchmarks.tpch.tables import Opened
    from shoal.accounting.events import Randomised, Selection
    from shoal.plan.releases import SelectPlan
    from shoal.release.resolve_bounds import ResolvedTotals

MOST_CELLS = 4_000_000
Truths = dict[tuple[Any, ...], float]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out for one row; None where a number has no meaning."""

    row: Row
    mechanism: str
    groups: int
    runs: int
    error: float | None
    closed_error: float | None
    bounding_error: float | None
    """What bounding alone does to the released cells' truth: the error that would be left without any noise."""
    withheld: float | None
    expected_withheld: float | None
    seconds: float


def outcome(row: Row, tables: Opened, scale: float, runs: int) -> Outcome:
    """Plans once, asks the engine once per sample, draws noise `runs` times (fewer where a query has very many groups)."""
    began = time.perf_counter()
    select = tables.session.plan(row.private(delta_at(row.owners, scale))).selects[0]
    truths = _truths(tables, row)
    samples = min(row.samples, runs)
    runs = max(samples, min(runs, MOST_CELLS // max(1, len(truths))))
    measured = [measure(select, tables.engine, fresh_sampling_key()) for _ in range(samples)]
    released = pa.concat_tables([answers(select, m, runs // samples) for m in measured])
    wants_error = row.error is not None
    grouped = bool(row.keys)
    done = runs // samples * samples
    return Outcome(
        row,
        mechanism(select, measured[0]),
        len(truths),
        done,
        _median_error(released, truths) if wants_error else None,
        _closed_error(select, measured[0], truths) if wants_error else None,
        _median_error(pa.concat_tables([exact_answers(select, m) for m in measured]), truths) if wants_error else None,
        1 - released.num_rows / (done * len(truths)) if grouped else None,
        share_withheld(select.selection, measured[0].measurement.owners.tolist(), len(truths)) if grouped else None,
        time.perf_counter() - began,
    )


def _truths(tables: Opened, row: Row) -> Truths:
    return {tuple(line[:-1]): float(line[-1]) for line in tables.plain.execute(row.plain()).fetchall()}


def _median_error(released: pa.Table, truths: Truths) -> float | None:
    """Over all released cells of all runs."""
    if not released.num_rows:
        return None
    keys = zip(*(column.to_pylist() for column in released.columns[:-1]), strict=True)
    truth = np.array([truths[key] for key in keys] if released.num_columns > 1 else truths[()])
    answer = released["answer"].to_numpy().astype(np.float64)
    return float(np.median(np.abs(answer - truth) / truth))


def _closed_error(select: SelectPlan, measured: ResolvedTotals, truths: Truths) -> float | None:
    if not is_one_count(select, measured):
        return None
    exact = measured.measurement
    keys = (
        list(zip(*(column.to_pylist() for column in exact.keys.columns), strict=True)) if select.select.keys else [()]
    )
    numbers = zip(exact.owners.tolist(), list(exact.totals[0]), keys, strict=True)  # type: ignore[arg-type] # no trees here
    groups = [Group(owners, int(count), truths[key]) for owners, count, key in numbers]
    return median_relative_error(select, measured.noises[0], groups)


def mechanism(select: SelectPlan, measured: ResolvedTotals) -> str:
    """Noise and selection in a few words."""
    noises = " and ".join(_noise(noise) for noise in measured.noises)
    return noises if select.selection is None else f"{noises}; {_selection(select.selection)}"


def _noise(noise: Randomised) -> str:
    if isinstance(noise, QuantileChoice):
        return f"chosen, {float(noise.scale):,.4g} rows"
    if isinstance(noise, LaplaceNoise):
        return f"Laplace {float(noise.scale * noise.grid):,.4g}"
    return f"Gaussian {float(noise.sigma * noise.grid):,.4g}"


def _selection(selection: Selection) -> str:
    if isinstance(selection, OptimalSelection):
        return "optimal selection"
    if isinstance(selection, WeightedSelection):
        return f"threshold {selection.threshold / 2**20:.1f} on weights"
    if isinstance(selection, WholeSelection):
        return f"threshold {selection.threshold / selection.whole:.1f} on the owners that both tell"
    return f"threshold {selection.threshold}" + (" on the released count" if selection.released else "")
