"""The grid of settings, and exact figures for each: what a custodian looks at before anybody spends anything.

Reads raw data and adds no noise: **not private**. Choosing parameters by it is not charged, so it is for the custodian alone, and
every output says so.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal import params
from shoal.accounting.events import QuantileChoice
from shoal.accounting.ledger import Ledger
from shoal.catalog import Catalog
from shoal.engines.deadline import Deadline
from shoal.engines.sources import open_source
from shoal.errors import InternalError, ShoalError
from shoal.frozen import dataclass
from shoal.mechanisms.calibrate import noise_standard_deviation
from shoal.mechanisms.group_selection import rule_of
from shoal.plan.releases import SelectPlan, StatementPlan
from shoal.release.output_names import output_names
from shoal.result import text_table
from shoal.rewrite.pipeline import PASSES
from shoal.session import Session
from shoal.tuning.advice import advice
from shoal.tuning.cells import SHORT_HEADINGS, cells
from shoal.tuning.figures import ColumnFigures, column_figures, keep_chances
from shoal.tuning.pairs import Pairs, read_pairs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from fractions import Fraction
    from pathlib import Path

    from numpy.typing import NDArray

    from shoal.plan.releases import PrivateSelect

NOT_PRIVATE = (
    "Not private, not for release: exact figures about raw data. Show them to nobody who may not see the data."
)
MOST_SETTINGS = 1000
BINS = 40


@dataclass(frozen=True, slots=True)
class Setting:
    """One choice of parameters, and what it does. Shares of pairs (`clamped_*`) and of Σ|x| (`lost_*`) are of the first column."""

    epsilon: float
    delta: float
    max_groups: int
    bounds: dict[str, tuple[float, float] | None]
    rule: str
    groups: int
    expected_groups_kept: float
    rows_in_lost_groups: float
    clamped_low: float | None
    clamped_high: float | None
    lost_to_clamping: float | None
    lost_to_groups_limit: float | None
    noise_standard_deviation: float | None
    median_relative_error: float | None
    ninetieth_relative_error: float | None
    advice: tuple[str, ...] = ()


class Tuning:
    """Figures for every setting of one question."""

    warning = NOT_PRIVATE

    def __init__(self, pairs: Pairs, names: list[str], arguments: list[str], settings: list[_Computed]) -> None:
        self._pairs = pairs
        self._names = names
        self._arguments = dict(zip(names, arguments, strict=True))
        self._computed = settings
        self.settings: list[Setting] = [one.setting for one in settings]

    def __repr__(self) -> str:
        rows = [list(cells(one)) for one in self.settings]
        return f"{NOT_PRIVATE}\n{text_table(list(SHORT_HEADINGS), rows, len(rows))}"

    def groups(self, index: int, column: str | None = None) -> list[dict[str, Any]]:
        """Group by group: exact value, biases, variance, error, the chance to appear."""
        one, number = self._computed[index], self._column(column)
        figures = one.columns[number]
        found = []
        for position, key in enumerate(self._pairs.keys):
            row: dict[str, Any] = {"group": list(key), "keep": float(one.keep[position])}
            if figures is not None:
                row |= {
                    name: float(getattr(figures, name)[position])
                    for name in ("exact", "clamp_bias", "kappa_bias", "kappa_variance", "rmse")
                }
            found.append(row)
        return found

    def histogram(self, index: int, column: str | None = None) -> dict[str, list[float]]:
        """How many (owner, group) values are where, raw and after clamping."""
        number = self._column(column)
        values = self._pairs.values[number]
        if values is None or not len(values):
            raise ShoalError("E_UNSUPPORTED", "There is no histogram of this aggregate.")
        bounds = self.settings[index].bounds[self._names[number]]
        clamped = values if bounds is None else np.clip(values, *bounds)
        edges = np.histogram_bin_edges(np.concatenate([values, clamped]), BINS)
        counts = {"raw": np.histogram(values, edges)[0], "clamped": np.histogram(clamped, edges)[0]}
        return {"edges": edges.tolist()} | {name: each.astype(float).tolist() for name, each in counts.items()}

    def _column(self, name: str | None) -> int:
        if name is None:
            return 0
        if name not in self._names:
            raise ShoalError("E_USAGE", f"There is no column {name!r}.", hint=f"Columns: {', '.join(self._names)}.")
        return self._names.index(name)

    def options(self, index: int) -> dict[str, str]:
        """The setting as it is written: OPTIONS of the query, and lines of the catalog."""
        one = self.settings[index]
        epsilon, delta = _written(one.epsilon), _written(one.delta)
        said = f"epsilon = {epsilon}, delta = {delta}, max_groups_contributed = {one.max_groups}"
        lines = ["[defaults]", f"epsilon = {epsilon}", f"max_groups_per_owner = {one.max_groups}"]
        clamps = [
            f"{name}: {self._arguments[name]} => ({_written(pair[0])}, {_written(pair[1])})"
            for name, pair in one.bounds.items()
            if pair is not None
        ]
        return {"sql": f"OPTIONS({said})", "bounds": "; ".join(clamps), "catalog": "\n".join(lines)}

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {"settings": [asdict(one) for one in self.settings], "warning": NOT_PRIVATE.replace("Not", "not", 1)}

    def to_html(self, path: str | Path | None = None) -> str:
        """One page without network; written to a file where one is named."""
        from shoal.tuning.page import tuning_page

        return tuning_page(self, path)


@dataclass(frozen=True, slots=True)
class _Computed:
    setting: Setting
    columns: tuple[ColumnFigures | None, ...]
    keep: NDArray[np.float64]


def _written(number: float) -> str:
    """A number of a setting, without losing a digit."""
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e15 else repr(float(number))


def tune(
    source: Any,
    catalog: Catalog | Mapping[str, Any] | str | Path,
    sql: str,
    *,
    epsilon: Sequence[float] | None = None,
    groups: Sequence[int] | None = None,
    bounds: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    delta: float | None = None,
) -> Tuning:
    """What each setting does to one private SELECT. Lists replace the query's own ε, κ and bounds (by output name)."""
    with Session(open_source(source), Catalog.load(catalog), Ledger.in_memory()) as session:
        return tune_in(session, sql, epsilon=epsilon, groups=groups, bounds=bounds, delta=delta)


def tune_in(
    session: Session,
    sql: str,
    *,
    epsilon: Sequence[float] | None = None,
    groups: Sequence[int] | None = None,
    bounds: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    delta: float | None = None,
) -> Tuning:
    """The same over an open session."""
    return OpenTuning(session, sql, delta).settings(epsilon, groups, bounds)


class OpenTuning:
    """One question whose raw facts are read once, so that a look at another setting reads nothing."""

    def __init__(self, session: Session, asked_for: str | StatementPlan, delta: float | None = None) -> None:
        plan = session.asked(asked_for)[0] if isinstance(asked_for, str) else asked_for
        if isinstance(plan, StatementPlan) and not plan.selects:
            raise ShoalError(
                "E_UNSUPPORTED",
                "This query reads no private table.",
                hint="It costs nothing: there is nothing to tune.",
            )
        if not isinstance(plan, StatementPlan) or len(plan.selects) != 1:
            raise ShoalError(
                "E_UNSUPPORTED", "Tuning is about one private SELECT.", hint="Tune each of them by itself."
            )
        asked = plan.selects[0].select
        if delta is not None:
            asked = replace(asked, options=replace(asked.options, delta=params.delta(delta)))
        self._asked = asked
        self.columns = [
            each.first or call.aggregate.name
            for each, call in zip(output_names(plan)[0], asked.aggregates, strict=True)
        ]
        self.averages = {
            name for name, call in zip(self.columns, asked.aggregates, strict=True) if call.aggregate.name == "AVG"
        }
        """The columns whose figures are those of a sum of owners' averages."""
        with session.snapshot(Deadline(3600.0)) as engine:
            self._pairs = read_pairs(engine, asked)

    def settings(
        self,
        epsilon: Sequence[float] | None = None,
        groups: Sequence[int] | None = None,
        bounds: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    ) -> Tuning:
        """Figures for every combination; a list that is not given is the question's own."""
        choices = _choices(self._asked, self.columns, epsilon, groups, bounds or {})
        computed = [_computed(each, self.columns, self._pairs) for each in choices]
        arguments = [call.aggregate.bounds_argument for call in self._asked.aggregates]
        return Tuning(self._pairs, self.columns, arguments, computed)


def _choices(
    asked: PrivateSelect,
    names: list[str],
    epsilon: Sequence[float] | None,
    groups: Sequence[int] | None,
    bounds: Mapping[str, Sequence[tuple[float, float]]],
) -> list[PrivateSelect]:
    """Every combination, as a separate question."""
    unknown = set(bounds) - set(names)
    if unknown:
        raise ShoalError("E_USAGE", f"There is no column {min(unknown)!r}.", hint=f"Columns: {', '.join(names)}.")
    losses = [asked.options.epsilon] if epsilon is None else [params.epsilon(each) for each in epsilon]
    kappas: list[int | None] = (
        [asked.options.max_groups_per_owner] if groups is None else [params.max_groups_per_owner(k) for k in groups]
    )
    pairs = [
        [params.bounds(*pair, option=name) for pair in bounds[name]] if name in bounds else [None] for name in names
    ]
    combinations: list[tuple[Any, ...]] = list(product(losses, kappas, *pairs))
    if not 0 < len(combinations) <= MOST_SETTINGS:
        raise ShoalError("E_LIMITS", f"At most {MOST_SETTINGS} settings are looked at together, and at least one.")
    return [_with(asked, each[0], each[1], each[2:]) for each in combinations]


def _with(
    asked: PrivateSelect, epsilon: Fraction, kappa: int | None, bounds: tuple[params.Bounds | None, ...]
) -> PrivateSelect:
    calls = tuple(
        call if pair is None else replace(call, bounds=pair, bounds_source="query")
        for call, pair in zip(asked.aggregates, bounds, strict=True)
    )
    options = replace(asked.options, epsilon=epsilon, max_groups_per_owner=kappa)
    return replace(asked, aggregates=calls, options=options)


def _planned(select: PrivateSelect) -> SelectPlan:
    draft: Any = select
    for step in PASSES:
        draft = step(draft)
    if not isinstance(draft, SelectPlan):
        raise InternalError("the passes did not end in a plan")
    return draft


def _computed(select: PrivateSelect, names: list[str], pairs: Pairs) -> _Computed:
    plan = _planned(select)
    kappa = plan.contribution.groups if plan.contribution.grouped else 10**9
    keep = keep_chances(pairs, kappa, plan.selection)
    columns = tuple(_of_column(plan, index, pairs, kappa) for index in range(len(names)))
    first = columns[0] if columns else None
    rows = np.bincount(pairs.group, weights=pairs.rows, minlength=len(pairs.keys))
    kept, limits = float(keep.sum()), [_bounds(plan, index) for index in range(len(names))]
    at_four = _at_four_times(select, first) if first is not None else None
    kinds = tuple(call.aggregate.name for call in select.aggregates)
    options = select.options
    setting = Setting(
        float(options.epsilon),
        float(options.delta or 0),
        plan.contribution.groups,
        dict(zip(names, limits, strict=True)),
        rule_of(plan.selection).name if plan.selection is not None else "public groups",
        len(pairs.keys),
        kept,
        float((rows * (1 - keep)).sum() / rows.sum()) if rows.sum() else 0.0,
        None if first is None else first.clamped_low,
        None if first is None else first.clamped_high,
        None if first is None else first.lost_to_clamping,
        None if first is None else first.lost_to_groups_limit,
        None if first is None else first.noise,
        None if first is None else first.median_relative_error,
        None if first is None else first.relative_error(0.9),
        tuple(advice(kept, len(pairs.keys), first, pairs.values[0] if names else None, limits[0], kinds, at_four)),
    )
    return _Computed(setting, columns, keep)


def _bounds(plan: SelectPlan, index: int) -> tuple[float, float] | None:
    found = plan.columns[index].call.bounds
    return None if found is None else (float(found.lower), float(found.upper))


def _of_column(plan: SelectPlan, index: int, pairs: Pairs, kappa: int) -> ColumnFigures | None:
    """Figures of counts and sums; of AVG what happens to its sum of means."""
    values, noise = pairs.values[index], _noise(plan, index)
    return (
        None if values is None or noise is None else column_figures(pairs, values, _bounds(plan, index), kappa, noise)
    )


def _noise(plan: SelectPlan, index: int) -> float | None:
    """σ of a column's first release."""
    column = plan.columns[index]
    if not column.releases or column.histogram is not None:
        return None
    release = plan.releases[column.releases[0]]
    if isinstance(release.noise, QuantileChoice):
        return None
    return noise_standard_deviation(release.noise) * float(release.noise.grid)


def _at_four_times(select: PrivateSelect, figures: ColumnFigures) -> ColumnFigures | None:
    """The same with less noise: nothing else changes with ε."""
    four = replace(select, options=replace(select.options, epsilon=4 * select.options.epsilon))
    noise = _noise(_planned(four), 0)
    return None if noise is None else replace(figures, noise=noise)
