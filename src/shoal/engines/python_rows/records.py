"""Calling the functions: records go in, records come out, and whatever a function raises says nothing.

A record whose function raises is missing. So is an owner whose function of all records raises. What a function gives is typed by
its schema before the next one sees it. Want of memory is another matter: how much is left depends on what other owners' calls have
made, so a record that were missing for it would make one owner decide about others. It ends the process, and with it the release.
Runs in worker processes: imports little.
"""

from __future__ import annotations

import hashlib
from collections import namedtuple
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache
from itertools import islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from shoal.engines.python_rows.values import ValueType, column_of, values_of
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

Function = Callable[[Any], Any]


class Owners(Protocol):
    """Whose records a function sees, for whoever draws in it."""

    apart: bool
    """Whether every owner is announced before the records; otherwise `watch` is enough."""

    def begin(self, owner: int, step: int) -> int:
        """The owner with this number comes next; gives the owner's seed."""

    def watch(self, owner: NDArray[np.int64], step: int, waiting: Iterator[Any]) -> None:
        """All owners come next: how many records still wait says whose is being looked at."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one function does: its kind, what its records offer, what it makes, and its limits."""

    kind: str
    fields: tuple[str, ...]
    made: tuple[tuple[str, ValueType], ...]
    most: int = 1
    max_rows: int = 0


@dataclass(slots=True)
class Rows:
    """Some owners' rows: columns, whose they are (numbers that never fall), and the row that each of them came from."""

    columns: list[pa.Array]
    owner: NDArray[np.int64]
    origin: NDArray[np.int64]
    records: list[Any] | None = None
    standing: NDArray[np.int64] | None = None

    def take(self, kept: NDArray[np.int64]) -> Rows:
        """Fewer of them."""
        if self.records is None:
            chosen = pa.array(kept)
            return Rows([c.take(chosen) for c in self.columns], self.owner[kept], self.origin[kept])
        records = list(map(self.records.__getitem__, kept.tolist()))
        return Rows(self.columns, self.owner[kept], self.origin[kept], records, self._of_columns(kept))

    def _of_columns(self, kept: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the records are in the columns, which are only cut when they go out: the next function reads records."""
        return kept if self.standing is None else self.standing[kept]

    def written(self) -> list[pa.Array]:
        """The columns, of these rows alone."""
        if self.standing is None:
            return self.columns
        chosen = pa.array(self.standing)
        return [c.take(chosen) for c in self.columns]


@dataclass(slots=True)
class Progress:
    """The iterator that a function is fed from: how much of it is left says whether the function still moves."""

    waiting: Iterator[Any] = field(default_factory=lambda: iter(()))


@lru_cache(maxsize=64)
def record_class(fields: tuple[str, ...]) -> type:
    """Records with these fields: tuples whose attributes cannot be set.

    >>> record_class(("a", "b"))((1, 2)).b
    2
    """
    numbered = namedtuple("numbered", [f"f{position}" for position in range(len(fields))])  # type: ignore[misc]  # noqa: PYI024 - for its attributes, which C reads
    named = {
        name: getattr(numbered, f"f{position}") for position, name in enumerate(fields) if not name.startswith("__")
    }
    shown: Any = lambda self: f"Record({', '.join(f'{n}={v!r}' for n, v in zip(fields, self, strict=True))})"  # noqa: E731 - a method of a class that is made here
    return type("Record", (tuple,), {"__slots__": (), "__repr__": shown, **named})


def records_of(columns: list[pa.Array], fields: tuple[str, ...], rows: int) -> list[Any]:
    """One record for each row."""
    kind = repeat(record_class(fields))
    return list(map(tuple.__new__, kind, zip(*map(values_of, columns), strict=True) if columns else repeat((), rows)))


def run_step(step: Step, function: Function, rows: Rows, owners: Owners, number: int, progress: Progress) -> Rows:
    """The rows that a function makes of others."""
    if rows.records is None:
        rows.records = records_of(rows.columns, step.fields, len(rows.owner))
    call = _CALLS[step.kind](step, function)
    progress.waiting = waiting = iter(rows.records)
    positions: list[int] = []
    found: list[Any] = []
    if owners.apart or step.kind == "per_owner":
        start = 0
        for end in _ends(rows.owner):
            seed = owners.begin(int(rows.owner[start]), number)
            call(islice(waiting, end - start), start, seed, positions, found)
            start = end
    else:
        owners.watch(rows.owner, number, waiting)
        call(waiting, 0, 0, positions, found)
    kept = np.array(positions, dtype=np.int64)
    if step.kind == "filter":
        return rows.take(kept)
    owner = rows.owner[kept]
    columns = [
        column_of(found[position :: len(step.made)], type_, _turns(owner, owners, number))
        for position, (_, type_) in enumerate(step.made)
    ]
    return Rows(columns, owner, rows.origin[kept])


def _turns(owner: NDArray[np.int64], owners: Owners, number: int) -> Callable[[int], object]:
    """Whose value comes next: a class of the analyst's own may draw when its value is looked at, as its function may."""
    before = -1

    def turn(position: int) -> None:
        nonlocal before
        if owner[position] != before:
            before = int(owner[position])
            owners.begin(before, number)

    return turn


def _ends(owner: NDArray[np.int64]) -> list[int]:
    """Where each owner's rows end."""
    if not len(owner):
        return []
    return [*(np.flatnonzero(owner[1:] != owner[:-1]) + 1).tolist(), len(owner)]


Call = Callable[["Iterator[Any]", int, int, list[int], list[Any]], None]
"""Calls a function on records, the first of which is at a position, with an owner's seed; adds positions and what it makes, value
after value: a tuple that is kept for each record would take as long as calling the function."""


def _filter(_: Step, function: Function) -> Call:
    def call(records: Iterator[Any], first: int, _: int, positions: list[int], __: list[Any]) -> None:
        keep = positions.append
        for position, record in enumerate(records, first):
            try:
                if function(record):
                    keep(position)
            except MemoryError:
                raise
            except BaseException:  # noqa: BLE001, S110 - what a function raises says nothing
                pass

    return call


def _map(step: Step, function: Function) -> Call:
    read, together = _reader(step), _together([name for name, _ in step.made])

    def call(records: Iterator[Any], first: int, _: int, positions: list[int], found: list[Any]) -> None:
        add, missing, position = found.extend, set[int](), first - 1
        for position, record in enumerate(records, first):
            try:
                made = function(record)
                try:  # what most functions give is read without a further call
                    add(together(made) if type(made) is dict else read(made))
                except KeyError:
                    add(read(made))
            except MemoryError:
                raise
            except BaseException:  # noqa: BLE001 - what a function raises says nothing
                missing.add(position)
        there = range(first, position + 1)
        positions += [position for position in there if position not in missing] if missing else there

    return call


def _flat_map(step: Step, function: Function) -> Call:
    several, width = _several(step, function), len(step.made)

    def call(records: Iterator[Any], position: int, _: int, positions: list[int], found: list[Any]) -> None:
        for record in records:
            made = several(record)
            found += made
            positions += repeat(position, len(made) // width)
            position += 1

    return call


def _per_owner(step: Step, function: Function) -> Call:
    several, width = _several(step, function), len(step.made)

    def call(records: Iterator[Any], position: int, seed: int, positions: list[int], found: list[Any]) -> None:
        made = several(fewer(list(records), step.max_rows, seed))
        found += made
        positions += repeat(position, len(made) // width)

    return call


def _several(step: Step, function: Function) -> Callable[[Any], list[Any]]:
    """The values that come out of one call, all of them or nothing."""
    read = _reader(step)

    def several(given: Any) -> list[Any]:
        values: list[Any] = []
        try:
            for made in islice(function(given), step.most):
                if isinstance(made, Mapping):
                    values += read(made)
        except MemoryError:
            raise
        except BaseException:  # noqa: BLE001 - what a function raises says nothing
            return []
        return values

    return several


_CALLS: dict[str, Callable[[Step, Function], Call]] = {
    "filter": _filter,
    "map": _map,
    "flat_map": _flat_map,
    "per_owner": _per_owner,
}


def _together(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What reads these fields of a dictionary that has all of them."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda made: tuple([made[name] for name in names])


def _reader(step: Step) -> Callable[[Any], tuple[Any, ...]]:
    """The declared fields of a mapping, missing ones as None; TypeError for what is not a mapping."""
    names = [name for name, _ in step.made]
    together = _together(names)

    def read(made: Any) -> tuple[Any, ...]:
        if type(made) is not dict:
            if not isinstance(made, Mapping):
                raise TypeError
            made = dict(made)
        try:
            return together(made)
        except KeyError:
            return tuple([made.get(name) for name in names])

    return read


def fewer(records: list[Any], most: int, seed: int) -> list[Any]:
    """The records of an owner; where there are too many, those with the smallest keyed picks, in their order.

    Equal records are distinguished by their number, so the choice follows from what the records are, and not from where they were.
    """
    if len(records) <= most:
        return records
    key, picks, seen = seed.to_bytes(8), [], dict[bytes, int]()
    for position, record in enumerate(records):
        written = repr(tuple(record)).encode(errors="surrogatepass")
        seen[written] = number = seen.get(written, -1) + 1
        picks.append((hashlib.blake2b(written + number.to_bytes(8), key=key, digest_size=16).digest(), position))
    return [records[position] for position in sorted(position for _, position in sorted(picks)[:most])]
