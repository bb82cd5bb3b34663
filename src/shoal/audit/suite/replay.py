"""Record and replay: freeze the noise, run a private query on two neighbours, compare what enters each mechanism.

The stochastic tester sees outputs. This instrument sees inputs: every number that will get noise is recorded on both
databases, and what one owner moved is held against the shift its mechanism declared. It needs no samples and misses no small
δ; it says nothing about the noise itself. Beside the numbers nothing may differ: plan, charge, refusal, columns, types.
With a third database that holds the owner alone, the move must be exactly what that owner adds by itself: nobody else's part
may change by one step (but for counts of different values, where owners replace each other).

    >>> tables = {"t": {"uid": [1, 1, 2], "x": [3.0, 4.0, 90.0]}}
    >>> catalog = {"tables": {"t": {"owner": "uid"}}}
    >>> sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) SUM(x, contribution_bounds_per_group => (0, 5)) FROM t"
    >>> found = replay(sql, tables, without_owner(tables, catalog, 2), catalog)
    >>> found.passed
    True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.accounting.events import QuantileChoice, Shift, WeightedSelection
from shoal.accounting.ledger import Ledger
from shoal.catalog import Catalog
from shoal.engines.base import EngineFailure
from shoal.engines.sources import open_source
from shoal.errors import InternalError, ShoalError
from shoal.frozen import dataclass
from shoal.mechanisms.entropy import seeded_entropy
from shoal.plan.totals import LeafCounts
from shoal.release.bounds_per_group import find_bounds, measure_classes, release_by_group
from shoal.release.execute import fresh_sampling_key, infer, measure, release, with_stored_rows
from shoal.release.noisy import weights_among
from shoal.release.prepare import steps_of
from shoal.release.resolve_bounds import histogram_query, selecting_tasks
from shoal.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal.engines.base import Engine
    from shoal.plan.releases import Release, SelectPlan, StatementPlan
    from shoal.plan.totals import ExactTotals, SamplingKey, TotalsQuery
    from shoal.release.resolve_bounds import ResolvedTotals
    from shoal.release.stored_rows import StoredRows

    Asked = str | Callable[[Session], StatementPlan]

Moves = dict[Any, int]
"""Which entry of a vector moved by how many steps, where it moved at all."""


@dataclass(frozen=True, slots=True)
class Entry:
    """How one owner moved what enters one mechanism, beside what the mechanism declared."""

    mechanism: str
    declared: Shift
    l1: int
    l2_squared: int
    touched: int
    largest: int = 0

    @property
    def holds(self) -> bool:
        """Whether the move is one the mechanism is calibrated for."""
        return (
            self.largest <= self.declared.per_coordinate
            and self.l1 <= self.declared.l1
            and self.l2_squared <= self.declared.l2_squared
            and self.touched <= self.declared.touched
        )

    def __str__(self) -> str:
        allowed = self.declared
        return (
            f"{self.mechanism}: moved L1 {self.l1}, L2² {self.l2_squared}, entries {self.touched}, one by {self.largest}; "
            f"declared L1 {allowed.l1}, L2² {allowed.l2_squared}, entries {allowed.touched}, one by {allowed.per_coordinate}"
        )


@dataclass(frozen=True, slots=True)
class Replay:
    """A query on two neighbours: every mechanism's entry, and whatever else differed."""

    sql: str
    entries: tuple[Entry, ...]
    differences: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every entry holds and nothing else differs."""
        return not self.differences and all(entry.holds for entry in self.entries)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, in sentences."""
        return (*self.differences, *(str(entry) for entry in self.entries if not entry.holds))


def without_owner(
    tables: Mapping[str, Any], catalog: Catalog | Mapping[str, Any], owner: object
) -> dict[str, pa.Table]:
    """The same tables without any row of one owner; tables that the catalog does not own stay as they are."""
    return _with_owners(tables, catalog, lambda value: value != owner)


def only_owner(tables: Mapping[str, Any], catalog: Catalog | Mapping[str, Any], owner: object) -> dict[str, pa.Table]:
    """The same tables with the rows of one owner alone; tables that the catalog does not own stay as they are."""
    return _with_owners(tables, catalog, lambda value: value == owner)


def _with_owners(
    tables: Mapping[str, Any], catalog: Catalog | Mapping[str, Any], wanted: Callable[[object], bool]
) -> dict[str, pa.Table]:
    known = Catalog.load(catalog)
    kept = {}
    for name, data in tables.items():
        table = data if isinstance(data, pa.Table) else pa.table(data)
        column = known.tables[name].owner if name in known.tables else None
        if column is not None:
            table = table.filter(pa.array([wanted(value) for value in table.column(column).to_pylist()], pa.bool_()))
        kept[name] = table
    return kept


def replay(
    sql: Asked,
    tables: Mapping[str, Any],
    neighbour: Mapping[str, Any],
    catalog: Catalog | Mapping[str, Any],
    seed: int = 0,
) -> Replay:
    """Run a query, or a plan, on two neighbours with the same sampling key and the same noise, and compare all that differs."""
    with Neighbours(tables, neighbour, catalog) as pair:
        return pair.replay(sql, seed)


class Neighbours:
    """Two databases that differ by one owner, opened once; any number of queries can be replayed on them.

    `alone` is the owner by itself, to see that nobody else's part moves.
    """

    def __init__(
        self,
        tables: Mapping[str, Any],
        neighbour: Mapping[str, Any],
        catalog: Catalog | Mapping[str, Any],
        alone: Mapping[str, Any] | None = None,
    ) -> None:
        known = Catalog.load(catalog)
        sources = [tables, neighbour, *([alone] if alone is not None else [])]
        self._engines = [Recorder(open_source(dict(source))) for source in sources]
        self._sessions = [Session(engine, known, Ledger.in_memory(None)) for engine in self._engines]

    @classmethod
    def of(cls, tables: Mapping[str, Any], catalog: Catalog | Mapping[str, Any], owner: object) -> Neighbours:
        """All three databases, from one and an owner in it."""
        return cls(tables, without_owner(tables, catalog, owner), catalog, only_owner(tables, catalog, owner))

    def __enter__(self) -> Neighbours:  # noqa: PYI034 - not subclassed
        return self

    def __exit__(self, *_: object) -> None:
        for engine in self._engines:
            engine.close()

    def replay(self, asked: Asked, seed: int = 0, *, ask: bool = True) -> Replay:
        """Compare plans, then (`ask`) whole answers, then what enters every mechanism.

        What is asked is the text of a query, or makes a plan in a session.
        """
        sql = asked if isinstance(asked, str) else ""
        first, second = self._sessions[:2]
        plan, other = _plan(first, asked), _plan(second, asked)
        if plan != other:
            return Replay(sql, (), ("the plan, or the refusal, depends on the data",))
        if isinstance(plan, str):
            return Replay(sql, (), ())
        differences = tuple(_visible_differences(first, second, asked)) if ask else ()
        try:
            return Replay(sql, tuple(entries_of(plan, self._engines, seed)), differences)
        except EngineFailure:
            return Replay(sql, (), (*differences, "the engine fails where data is read"))


def _plan(session: Session, asked: Asked) -> StatementPlan | str:
    try:
        return session.plan(asked) if isinstance(asked, str) else asked(session)
    except ShoalError as error:
        return str(error)


def _visible_differences(first: Session, second: Session, asked: Asked) -> Iterator[str]:
    """What an analyst could tell apart without looking at values."""
    faces = _face(first, asked), _face(second, asked)
    if any(status.startswith("E_EXECUTION") for status, _, _ in faces):
        yield "the query fails after data was read"
    for name, one, other in zip(("status", "columns and types", "charge"), *faces, strict=True):
        if one != other:
            yield f"{name} differs: {one} and {other}"


def _face(session: Session, asked: Asked) -> tuple[str, str, str]:
    before = session.spent
    status, schema = "answered", ""
    try:
        answer = session.query(asked) if isinstance(asked, str) else session.run(asked(session))
        schema = str(answer.to_arrow().schema.remove_metadata())
    except ShoalError as error:
        status = str(error)
        if session.ledger.is_suspended(None):
            session.ledger.lift(None, because="every query is looked at by itself")
    return status, schema, str(tuple(after - start for after, start in zip(session.spent, before, strict=True)))


class Recorder:
    """An engine that remembers the exact integers it answered with."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.answers: list[ExactTotals] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    def totals(self, query: TotalsQuery, key: SamplingKey) -> ExactTotals:
        """Ask, and remember."""
        self.answers.append(self.engine.totals(query, key))
        return self.answers[-1]


def entries_of(plan: StatementPlan, engines: list[Recorder], seed: int) -> Iterator[Entry]:
    """All entries of all SELECTs, and of the histograms that limits are found from.

    Rows that a later SELECT reads are released once, from the first database, and others are not released at all.
    """
    stored = _ReleasedWhenRead()
    for number, select in ((number, step) for number, one in enumerate(plan.selects) for step in steps_of(one)):
        ready = with_stored_rows(select, stored)
        key = fresh_sampling_key(seeded_entropy(seed))
        if ready.finds_bounds_per_group:
            yield from _entries_by_group(ready, engines, key, seed)
            stored.later(number, partial(release_by_group, ready, engines[0], key, seeded_entropy(seed)))
            continue
        found, *_ = (infer(ready, engine, key, seeded_entropy(seed))[0] for engine in engines)
        if ready.histograms:
            yield from _histogram_entries(ready, [engine.answers[-1] for engine in engines])
        measured = [measure(ready, engine, key, seeded_entropy(seed), found) for engine in engines]
        yield from _select_entries(ready, measured)
        stored.later(number, partial(release, ready, measured[0], seeded_entropy(seed)))


class _ReleasedWhenRead(Mapping[int, "StoredRows"]):
    """What earlier SELECTs release: drawn by the first one that reads it."""

    def __init__(self) -> None:
        self._later: dict[int, Callable[[], StoredRows]] = {}
        self._made: dict[int, StoredRows] = {}

    def later(self, number: int, make: Callable[[], StoredRows]) -> None:
        """What is released for this SELECT, if somebody reads it."""
        self._later[number] = make
        self._made.pop(number, None)

    def __getitem__(self, number: int) -> StoredRows:
        if number not in self._made:
            self._made[number] = self._later[number]()
        return self._made[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._later)

    def __len__(self) -> int:
        return len(self._later)


def _entries_by_group(plan: SelectPlan, engines: list[Recorder], key: SamplingKey, seed: int) -> Iterator[Entry]:
    """The same where every group has its own bounds: everything is compared for all groups, under the bounds of each."""
    seen = [engine.totals(histogram_query(plan), key) for engine in engines]
    yield from _histogram_entries(plan, seen)
    everyone = np.arange(len(seen[0].owners), dtype=np.int64)
    classes = find_bounds(plan, seen[0], everyone, seeded_entropy(seed)).classes
    selecting = selecting_tasks(plan)
    sides = [
        [
            replace(found, weights=weights_among(own, selecting))
            for found in measure_classes(plan, engine, key, own, classes)
        ]
        for engine, own in zip(engines, seen, strict=True)
    ]
    for measured in zip(*sides, strict=True):
        yield from _select_entries(plan, list(measured))


def _histogram_entries(plan: SelectPlan, seen: list[ExactTotals]) -> Iterator[Entry]:
    """Logarithmic histograms from which bounds are read."""
    for index, item in enumerate(plan.histograms):
        counted = [_bins(side, side.histograms[index]) for side in seen]
        yield from _compared(f"bounds of {type(item.histogram.serves).__name__}", item.noise.shift, counted)


def _bins(measurement: ExactTotals, counts: dict[int, int] | LeafCounts) -> Moves:
    """A histogram as one vector; where each group has its own, as one vector over groups and bins."""
    if not isinstance(counts, LeafCounts):
        return dict(counts)
    names = _group_names(measurement)
    cells = zip(counts.groups.tolist(), counts.leaves.tolist(), counts.counts.tolist(), strict=True)
    return {(names[group], number): count for group, number, count in cells}


def _select_entries(plan: SelectPlan, measured: list[ResolvedTotals]) -> Iterator[Entry]:
    """Owners per group, then every release."""
    groups = [_group_names(side.measurement) for side in measured]
    owners: list[Moves] = [
        dict(zip(names, side.measurement.owners.tolist(), strict=True))
        for names, side in zip(groups, measured, strict=True)
    ]
    reach = Shift(1, plan.contribution.groups)
    yield from _compared("owners of a group", reach, owners)
    appeared = set(groups[0]) ^ set(groups[1])
    yield _entry("groups that exist", reach if plan.selection is not None else Shift(0), dict.fromkeys(appeared, 1))
    if isinstance(plan.selection, WeightedSelection):
        sums = [_weights(names, side) for names, side in zip(groups, measured, strict=True)]
        yield from _compared("weights of owners", plan.selection.noise.shift, sums)
    for index, (item, noise) in enumerate(zip(plan.releases, measured[0].noises, strict=True)):
        vectors = [
            _vector(names, side.measurement.totals[index], item) for names, side in zip(groups, measured, strict=True)
        ]
        yield from _compared(
            type(item.measure).__name__, noise.shift, vectors if item.measure.additive else vectors[:2]
        )
    yield from _whole_entries(plan, measured, groups)


def _whole_entries(
    plan: SelectPlan, measured: list[ResolvedTotals], groups: list[list[tuple[Any, ...]]]
) -> Iterator[Entry]:
    """Sums that make a whole share one noise: what is moved of all of them together."""
    for positions in dict.fromkeys(column.releases for column in plan.columns):
        if not positions or plan.releases[positions[0]].measure.origin == "middle":
            continue
        together: list[Moves] = [
            {
                (position, group): int(value)
                for position in positions
                for group, value in zip(names, np.asarray(side.measurement.totals[position]), strict=True)
            }
            for names, side in zip(groups, measured, strict=True)
        ]
        yield from _compared("parts of a whole", measured[0].noises[positions[0]].shift, together)


def _weights(groups: list[tuple[Any, ...]], side: ResolvedTotals) -> Moves:
    """What a selection by weights goes by."""
    if side.weights is None:
        raise InternalError("a selection by weights without weights")
    return dict(zip(groups, side.weights.tolist(), strict=True))


def _compared(mechanism: str, declared: Shift, vectors: list[Moves]) -> Iterator[Entry]:
    """What the owner moved; and, where the owner was measured alone, what is left of the move without the owner's own part."""
    moves = _moves(vectors[0], vectors[1])
    yield _entry(mechanism, declared, moves)
    for alone in vectors[2:]:
        yield _entry(f"{mechanism}, part of the other owners", Shift(0), _moves(moves, alone))


def _group_names(measurement: ExactTotals) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in measurement.keys.to_pylist()] or [()] * len(measurement.owners)


def _vector(groups: list[tuple[Any, ...]], total: Any, item: Release) -> Moves:
    """What a release goes by: a number a group, or one for every node of every group's tree below its root, or for every leaf."""
    leaves = item.measure
    if not hasattr(total, "leaves") or not leaves.is_tree:
        return {group: int(value) for group, value in zip(groups, total, strict=True)}
    levels = 1 if isinstance(item.noise, QuantileChoice) else leaves.height
    vector: Moves = {}
    for group, leaf, count in zip(total.groups.tolist(), total.leaves.tolist(), total.counts.tolist(), strict=True):
        for level in range(levels):
            node = (groups[group], level, leaf // leaves.branching**level)
            vector[node] = vector.get(node, 0) + count
    return vector


def _moves(one: Moves, other: Moves) -> Moves:
    """Entries that differ; what is absent counts as 0."""
    differences = {position: one.get(position, 0) - other.get(position, 0) for position in one.keys() | other.keys()}
    return {position: step for position, step in differences.items() if step}


def _entry(mechanism: str, declared: Shift, moves: Moves) -> Entry:
    steps = np.array([abs(step) for step in moves.values()], dtype=object)
    return Entry(mechanism, declared, int(sum(steps)), int(sum(steps**2)), len(steps), int(max(steps, default=0)))
