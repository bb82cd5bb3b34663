"""A private query as a mechanism for the tester: the engine is asked once for each data set, the noise is drawn many times.

The exact integers of a data set are copied n times, as if n copies of every group had been asked for at once, and released
together: each copy has its own draws, so the copies are n independent answers. The sampling key is fixed (any fixed key is
private). Bounds that must be found are found anew for every answer, and the engine is asked once for each that comes up.

    >>> tables = {"two owners": {"t": {"uid": [1, 2], "x": [3, 4]}}, "one owner": {"t": {"uid": [1], "x": [3]}}}
    >>> sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) SUM(x, contribution_bounds_per_group => (0, 5)) FROM t"
    >>> with SampledQuery(sql, {"tables": {"t": {"owner": "uid"}}}, tables) as query:
    ...     query("two owners", 1000).shape
    (1000, 1)
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.accounting.ledger import Ledger
from shoal.catalog import Catalog
from shoal.engines.sources import open_source
from shoal.errors import InternalError
from shoal.frozen import dataclass
from shoal.mechanisms.entropy import SYSTEM, SystemEntropy, seeded_entropy
from shoal.plan.expressions import Literal
from shoal.plan.nodes import Field
from shoal.plan.totals import LeafCounts
from shoal.plan.types import INTEGER
from shoal.release.bounds_per_group import release_by_group
from shoal.release.execute import dense_bins, fresh_sampling_key, measure, release
from shoal.release.noisy import bounds_between, noisy_bins
from shoal.release.resolve_bounds import histogram_query
from shoal.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from shoal.params import Bounds
    from shoal.plan.limits.sought import Search
    from shoal.plan.releases import HistogramRelease, SelectPlan
    from shoal.plan.totals import ExactTotals, SamplingKey, TotalsQuery
    from shoal.release.resolve_bounds import ResolvedTotals

    Found = tuple[Bounds | None, ...]
    Group = tuple[Any, ...]

MOST_COPIES = 50_000
MOST_BINS = 1_000_000
_COPY = Field("", "copy_", INTEGER)


class _ForManyDraws(SystemEntropy):
    """Bits of the operating system, for the vectorised sampler only: small batches of vetted draws take long.

    Copies stay in their order: it is drawn apart from everything else, and answers are lined up by their numbers anyway.
    """

    safe = False

    def permutation(self, count: int) -> NDArray[np.int64]:
        """As they are."""
        return np.arange(count, dtype=np.int64)


_MANY = _ForManyDraws()


@dataclass
class _Copies:
    """An engine that answers about this many copies of every group, each with a number for a key; it asks only once."""

    plan: SelectPlan
    engine: Any
    copies: int = 1
    asked: dict[TotalsQuery, ExactTotals] = field(default_factory=dict)

    def totals(self, query: TotalsQuery, key: SamplingKey) -> ExactTotals:
        """What the engine answers, copied."""
        real = replace(query, keys=self.plan.select.keys)
        if real not in self.asked:
            self.asked[real] = self.engine.totals(real, key)
        return copied_groups(self.asked[real], self.copies)


@dataclass
class _DataSet:
    """One database: its exact integers, for every set of bounds that was found so far."""

    plan: SelectPlan
    engine: Any
    key: SamplingKey
    histograms: Any = None
    measured: dict[Found, ResolvedTotals] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.plan.finds_bounds_per_group:
            self.histograms = _Copies(self.plan, self.engine)
        elif self.plan.histograms:
            self.histograms = [
                dense_bins(each, counts)
                for each, counts in zip(
                    self.plan.histograms,
                    self.engine.totals(histogram_query(self.plan), self.key).histograms,
                    strict=True,
                )
            ]
        else:
            self.integers(())

    @property
    def groups(self) -> list[Group]:
        """The names of its groups."""
        if self.plan.finds_bounds_per_group:
            return group_names(self.engine.totals(histogram_query(self.plan), self.key))
        return group_names(self.integers(self.found(1)[0]).measurement)

    def found(self, times: int) -> list[Found]:
        """Bounds, found anew this many times."""
        if not self.plan.histograms:
            return [()] * times
        each = zip(self.plan.histograms, self.histograms, strict=True)
        return list(zip(*(_bounds_found(release_, counts, times) for release_, counts in each), strict=True))

    def integers(self, found: Found) -> ResolvedTotals:
        """What enters the mechanisms under these bounds."""
        if found not in self.measured:
            self.measured[found] = measure(self.plan, self.engine, self.key, SYSTEM, found)
        return self.measured[found]


class SampledQuery:
    """`query(name, n)` draws n independent answers to one private SELECT on one of several small databases.

    An answer is a row of numbers: the bounds that were found, then for every group of any of the databases whether it is shown
    (where groups are selected) and its aggregates; NaN stands for NULL and for a group that is not shown. Order is left out: it
    is drawn apart from everything else. So is what follows a release: it cannot tell more than the release does.
    """

    def __init__(
        self, sql: str, catalog: Mapping[str, Any], databases: Mapping[str, Mapping[str, Any]], seed: int = 0
    ) -> None:
        known = Catalog.load(catalog)
        self._sessions = {
            name: Session(open_source(dict(tables)), known, Ledger.in_memory(None))
            for name, tables in databases.items()
        }
        plans = [session.plan(sql) for session in self._sessions.values()]
        if any(plan != plans[0] or len(plan.selects) != 1 for plan in plans):
            raise InternalError("one private SELECT, planned alike for every database")
        self.epsilon, self.delta = float(plans[0].epsilon), float(plans[0].loss.delta and plans[0].delta)
        self._plan = plans[0].selects[0]
        search = self._plan.search
        if search is not None:
            # Step one is histograms, which are audited as such; step two is one of the plans that were verified beforehand.
            self._plan, self.epsilon = _second_step(search), float(search.epsilon)
        key = fresh_sampling_key(seeded_entropy(seed))
        self._data = {name: _DataSet(self._plan, s._engine, key) for name, s in self._sessions.items()}  # noqa: SLF001 - the session's own engine
        self._groups = self._all_groups()

    def __enter__(self) -> SampledQuery:  # noqa: PYI034 - not subclassed
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions.values():
            session.close()

    def __call__(self, name: str, samples: int) -> NDArray[np.float64]:
        """That many answers on the database of this name: (samples, numbers)."""
        data = self._data[name]
        if self._plan.finds_bounds_per_group:
            return self._in_parts(lambda copies: self._released_by_group(data, copies), samples)
        if not self._plan.histograms:
            return self._answers(data.integers(()), samples)
        found = data.found(samples)
        distinct = list(dict.fromkeys(found))
        which = np.array([distinct.index(each) for each in found])
        rows: NDArray[np.float64] | None = None
        for number, bounds in enumerate(distinct):
            here = np.flatnonzero(which == number)
            answers = self._answers(data.integers(bounds), len(here))
            edges = np.array([edge for b in bounds for edge in ([np.nan] * 2 if b is None else [b.lower, b.upper])])
            whole = np.hstack((np.tile(edges.astype(np.float64), (len(here), 1)), answers))
            rows = np.empty((samples, whole.shape[1])) if rows is None else rows
            rows[here] = whole
        assert rows is not None  # noqa: S101 - there is at least one sample
        return rows

    def _all_groups(self) -> list[Group]:
        """Every group of any database, in a fixed order."""
        return sorted({group for data in self._data.values() for group in data.groups}, key=repr)

    def _answers(self, measured: ResolvedTotals, samples: int) -> NDArray[np.float64]:
        return self._in_parts(lambda copies: self._released(measured, copies), samples)

    def _in_parts(self, drawn: Callable[[int], NDArray[np.float64]], samples: int) -> NDArray[np.float64]:
        parts = [drawn(min(MOST_COPIES, samples - start)) for start in range(0, samples, MOST_COPIES)]
        return np.concatenate(parts) if parts else drawn(0)

    def _released(self, measured: ResolvedTotals, copies: int) -> NDArray[np.float64]:
        table = release(self._copied_plan, copied(measured, copies), _MANY).table
        return self._rows(table, group_names(measured.measurement), copies)

    def _released_by_group(self, data: _DataSet, copies: int) -> NDArray[np.float64]:
        data.histograms.copies = copies
        table = release_by_group(self._copied_plan, data.histograms, data.key, _MANY).table
        return self._rows(table, data.groups, copies)

    @property
    def _copied_plan(self) -> SelectPlan:
        """The plan, with the number of a copy for a key."""
        return replace(self._plan, select=replace(self._plan.select, keys=((_COPY, Literal(0, INTEGER)),)))

    def _rows(self, table: pa.Table, names: list[Group], copies: int) -> NDArray[np.float64]:
        plan = self._plan
        copy, group = np.divmod(table.column(_COPY.symbol).to_numpy(), max(len(names), 1))
        position = np.array([self._groups.index(name) for name in names], dtype=np.int64)[group]
        numbers = [n for column in plan.columns for n in _numbers(table.column(column.call.field.symbol))]
        answers = np.full((copies, len(self._groups), 1 + len(numbers)), np.nan)
        answers[:, :, 0] = 0
        answers[copy, position, 0] = 1
        for number, values in enumerate(numbers, start=1):
            answers[copy, position, number] = values
        if plan.selection is None:
            answers = answers[:, :, 1:]
        return answers.reshape(copies, -1)


def _second_step(search: Search) -> SelectPlan:
    """The plan for the fewest groups per owner that are several, with the stand-ins of the other limits."""
    several = [choice for choice in search.choices if choice.contribution.groups > 1]
    return min(several or search.choices, key=lambda choice: choice.contribution.groups)


def _bounds_found(release_: HistogramRelease, counts: NDArray[np.int64], times: int) -> list[Bounds | None]:
    """Bounds read off this many copies of a histogram, each with its own noise."""
    at_once = max(1, MOST_BINS // counts.size)
    parts = [
        noisy_bins(release_, np.repeat(counts, min(at_once, times - start), axis=0), _MANY)[1]
        for start in range(0, times, at_once)
    ]
    ends, which = np.unique(np.concatenate(parts), axis=0, return_inverse=True)
    bounds = [bounds_between(release_, *pair) for pair in ends.tolist()]
    return [bounds[number] for number in which.reshape(-1).tolist()]


def _numbers(column: pa.ChunkedArray) -> list[NDArray[np.float64]]:
    """A column as numbers; a pair of bounds is two of them."""
    if pa.types.is_list(column.type):
        pairs = np.array([pair or (np.nan, np.nan) for pair in column.to_pylist()], dtype=np.float64).reshape(-1, 2)
        return [pairs[:, 0], pairs[:, 1]]
    return [np.asarray(column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))]


def group_names(measurement: ExactTotals) -> list[Group]:
    """The keys of every group; one empty key without GROUP BY."""
    return [tuple(row.values()) for row in measurement.keys.to_pylist()] or [()] * len(measurement.owners)


def copied(measured: ResolvedTotals, copies: int) -> ResolvedTotals:
    """The exact integers of every group this many times, each copy a separate group with a number for a key."""
    weights = None if measured.weights is None else np.tile(measured.weights, copies)
    return replace(measured, measurement=copied_groups(measured.measurement, copies), weights=weights)


def copied_groups(exact: ExactTotals, copies: int) -> ExactTotals:
    """Every group this many times."""
    size = len(exact.owners)
    keys = pa.table({_COPY.symbol: pa.array(np.arange(copies * size, dtype=np.int64))})
    totals = tuple(
        _copied_leaves(t, size, copies) if isinstance(t, LeafCounts) else np.tile(t, copies) for t in exact.totals
    )
    bins = tuple(_copied_leaves(h, size, copies) if isinstance(h, LeafCounts) else h for h in exact.histograms)
    return replace(exact, keys=keys, owners=np.tile(exact.owners, copies), totals=totals, histograms=bins)


def _copied_leaves(counts: LeafCounts, size: int, copies: int) -> LeafCounts:
    shift = np.repeat(np.arange(copies, dtype=np.int64) * size, len(counts.groups))
    return LeafCounts(
        np.tile(counts.groups, copies) + shift, np.tile(counts.leaves, copies), np.tile(counts.counts, copies)
    )
