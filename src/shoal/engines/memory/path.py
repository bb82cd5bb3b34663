"""The in-memory path: the same exact integers as the statements of `bounding`, from Arrow columns by sorting machine words.

It gives up, and the engine runs SQL instead, where a number may need more than 64 bits, or two keyed picks are equal. Which path
was taken shows in nothing but the time.
"""

from __future__ import annotations

import os
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.engines.group_keys import find_groups, roomy
from shoal.engines.memory.bounded_owners import Bounded
from shoal.engines.memory.codes import Groups, Owners
from shoal.engines.memory.held import keep_small_pieces
from shoal.engines.memory.packed import Packed
from shoal.engines.memory.picks import Picks
from shoal.engines.memory.row_limit import contents_of, cut_to_rows
from shoal.engines.memory.rows import Argument, TooWide
from shoal.engines.memory.segments import EqualPicks
from shoal.engines.memory.totals import GroupTally, HistogramTally, LeafTally, tally_of
from shoal.engines.statements.bound_owners import ONE, OWNER
from shoal.plan.measures import OwnerCount
from shoal.plan.nodes import field_of
from shoal.plan.totals import ExactTotals, GridMeasure

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from shoal.engines.memory.pairs import Pairs
    from shoal.engines.memory.totals import Tally
    from shoal.plan.totals import SamplingKey, TotalsQuery

NEEDS_SQL = (TooWide, EqualPicks, MemoryError, pa.ArrowCapacityError)
"""What the in-memory path raises where SQL must answer."""

MOST_THREADS = 8
FEW_ROWS = 20_000
"""So many are bounded in less time than it takes to start threads for them and to wait for each."""


def measure_in_memory(query: TotalsQuery, key: SamplingKey, rows: pa.Table, listed: pa.Table | None) -> ExactTotals:
    """The answer from the rows of `owned_rows.rows_statement`; `listed` are the public groups, if there are any."""
    return measure_coded(query, CodedRows.of(query, key, rows, listed))


def measure_coded(query: TotalsQuery, coded: CodedRows) -> ExactTotals:
    """The answer from rows that are coded, by this question or by another one about the same rows."""
    groups, rows, position, listed = coded.groups, coded.rows, coded.position, coded.listed
    tallies = [
        GroupTally(GridMeasure(OwnerCount(), ONE, ONE, None), (), groups.size, rows),
        *(tally_of(task, query.arguments, groups.size, rows) for task in query.tasks),
    ]
    histograms = [HistogramTally(histogram, query.arguments) for histogram in query.histograms]
    with _pool(rows) as pool:
        _run(coded.packed(pool), _bounder(query, coded), [*tallies, *histograms], pool)
    if position is None or listed is None:
        position, listed = _found(query, groups, tallies[0])
    owner_count, *totals = (_spread(tally, position, listed.num_rows if query.keys else 1) for tally in tallies)
    return ExactTotals(
        roomy(listed), owner_count, tuple(totals), tuple(histogram.counts(position) for histogram in histograms)
    )


class CodedRows:
    """Rows as codes and numbers, parted and sorted by owner: the work that all questions about the same rows have in common."""

    def __init__(
        self,
        owners: Owners,
        groups: Groups,
        values: tuple[Argument, ...],
        picks: Picks,
        listed: pa.Table | None,
        most: int | None,
        *,
        again: bool,
    ) -> None:
        self.groups, self.values, self.picks, self.listed = groups, values, picks, listed
        self.rows = len(owners.numbers)
        self.position = _places(groups, listed) if listed is not None else None
        self._owners, self._most, self._again = owners, most, again
        self._packed: Packed | None = None

    @classmethod
    def of(
        cls, query: TotalsQuery, key: SamplingKey, rows: pa.Table, listed: pa.Table | None, *, ours: bool = False
    ) -> CodedRows:
        """The rows that a question reads. Those that are `ours` were read for nobody else, and may be written over."""
        with _pool(rows.num_rows) as pool:
            coding = pool.submit(Groups.of, rows, tuple(field.type for field, _ in query.keys), ours=ours)
            owners = Owners.of(rows.column(OWNER), field_of(query.input, query.input.owner or "").type, ours=ours)
            groups = coding.result()
        values = tuple(Argument.of(rows, number, argument.type) for number, argument in enumerate(query.arguments))
        most = query.contribution.max_groups if query.keys and query.contribution.max_rows is None else None
        picks = Picks.of(key, owners, groups)
        return cls(owners, groups, values, picks, listed, most, again=query.shared is not None)

    def packed(self, pool: Executor) -> Packed:
        """The rows as words; sorted ones stay where there are more questions about them."""
        if self._packed is None:
            chosen = _listed(self.groups, self.position)
            self._packed = Packed.of(self._owners, self.groups, self.picks, chosen, self._most, pool, again=self._again)
        return self._packed


class KeptRows:
    """The coded rows of the last question that shares them, and what they are. One query has one of these."""

    def __init__(self) -> None:
        self._about: tuple[TotalsQuery, SamplingKey] | None = None
        self._coded: CodedRows | None = None

    def of(self, query: TotalsQuery, key: SamplingKey, read: Callable[[], CodedRows]) -> CodedRows:
        """The rows of a question: those that are here, or what `read` reads. Others go first, so that memory holds one."""
        about = replace(query, tasks=(), histograms=()), key
        if self._coded is not None and self._about == about:
            return self._coded
        self.drop()
        coded = read()
        if query.shared is not None:
            self._about, self._coded = about, coded
        return coded

    def drop(self) -> None:
        """Makes room: the next question reads its rows again."""
        self._about = self._coded = None


def _pool(rows: int) -> Executor:
    keep_small_pieces()
    return ThreadPoolExecutor(min(MOST_THREADS, _processors())) if rows > FEW_ROWS else _Here()


class _Here(Executor):
    """Does everything in the thread that asks."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function(*arguments, **named))
        except Exception as error:  # noqa: BLE001 - raised again where the result is asked for
            done.set_exception(error)
        return done


def _bounder(query: TotalsQuery, coded: CodedRows) -> Callable[[Pairs], Bounded]:
    """What becomes of one slice of owners, whose groups are cut to κ already: where R rows are kept, its rows are cut."""
    most_rows, picks, arguments = query.contribution.max_rows, coded.picks, coded.values
    contents = contents_of(query, query.arguments)

    def bounded(pairs: Pairs) -> Bounded:
        if most_rows is None:
            return Bounded(pairs, picks, arguments)
        return Bounded(cut_to_rows(pairs, picks, arguments, contents, most_rows), picks, arguments, rows_are_cut=True)

    return bounded


def _run(packed: Packed, bounder: Callable[[Pairs], Bounded], tallies: list[Tally], pool: Executor) -> None:
    """Reads all parts, as many at a time as there are processors, and adds them up."""

    def read(part: int) -> list[list[Any]]:
        return [[tally.of(bounded) for tally in tallies] for bounded in map(bounder, packed.slices(part))]

    for slices in pool.map(read, range(len(packed.parts))):
        for parts in slices:
            for tally, part in zip(tallies, parts, strict=True):
                tally.add(part)


def _listed(groups: Groups, position: NDArray[np.int64] | None) -> NDArray[np.bool_] | None:
    """Which groups are listed, or None where all rows are in one that is."""
    if position is None or (position[groups.existing()] >= 0).all():
        return None
    return position >= 0


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _places(groups: Groups, listed: pa.Table) -> NDArray[np.int64]:
    """For every group code, its row among the public groups, or −1."""
    position = np.full(groups.size, -1, dtype=np.int64)
    existing = groups.existing()
    position[existing] = find_groups(listed, groups.keys(existing))
    return position


def _found(query: TotalsQuery, groups: Groups, owners: GroupTally) -> tuple[NDArray[np.int64], pa.Table]:
    """Groups that an owner was kept in, numbered; without keys there is one group, with or without rows."""
    if not query.keys:
        return np.zeros(1, dtype=np.int64), pa.table({})
    found = np.flatnonzero(owners.totals)
    position = np.full(groups.size, -1, dtype=np.int64)
    position[found] = np.arange(len(found))
    return position, groups.keys(found)


def _spread(tally: Any, position: NDArray[np.int64], count: int) -> Any:
    """What a tally found, by rows of the answer; groups without owners have 0."""
    if isinstance(tally, LeafTally):
        return tally.counts(position)
    values = np.zeros(count, dtype=np.int64)
    known = np.flatnonzero(position >= 0)
    values[position[known]] = tally.totals[known]
    return values
