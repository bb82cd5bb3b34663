"""What is kept of some owners, and rows sampled from it: asked for by measures, computed once for all of them."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.engines.memory.segments import Segments, duplicate_numbers, first_of_kind, keep_smallest
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from numpy.typing import NDArray

    from shoal.engines.memory.pairs import Pairs
    from shoal.engines.memory.picks import Picks
    from shoal.engines.memory.rows import Argument


@dataclass(frozen=True)
class Bounded:
    """What is kept of some owners, and rows sampled from it. Everything is computed when it is first asked for."""

    pairs: Pairs
    picks: Picks
    arguments: tuple[Argument, ...]
    rows_are_cut: bool = False
    _taken: dict[int, Argument] = field(default_factory=dict)
    _samples: dict[tuple[int, int], tuple[NDArray[np.int64], Argument]] = field(default_factory=dict)
    _computed: dict[Hashable, NDArray[Any]] = field(default_factory=dict)

    @property
    def groups(self) -> NDArray[np.int64]:
        """The group of every pair."""
        return self.pairs.groups

    @property
    def segments(self) -> Segments:
        """The rows of every pair."""
        return self.pairs.segments

    @cached_property
    def runs(self) -> Segments:
        """Runs of pairs of the same owner."""
        return Segments.of_runs(self.pairs.owners)

    @cached_property
    def pair_picks(self) -> NDArray[np.uint64]:
        """The pick of every pair."""
        owners = self.picks.of_owners(self.pairs.owners[self.runs.starts])
        return self.picks.of_pairs(self.runs.spread(owners), self.pairs.groups)

    @cached_property
    def first_pairs(self) -> NDArray[np.bool_]:
        """The pair with the smallest pick of each owner."""
        return keep_smallest(self.pair_picks, self.runs, 1)

    def once(self, name: Hashable, compute: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """What several measures read, computed for the first of them."""
        if name not in self._computed:
            self._computed[name] = compute()
        return self._computed[name]

    def argument(self, number: int) -> Argument:
        """An argument for the kept rows."""
        if number not in self._taken:
            self._taken[number] = self.arguments[number].take(self.pairs.rows)
        return self._taken[number]

    def counts(self, number: int | None) -> NDArray[np.int64]:
        """Rows of each pair, or those where an argument has a value."""
        if number is None or self.argument(number).missing is None:
            return self.segments.lengths
        return self.segments.sums(self.argument(number).present().astype(np.int64))

    def always_present(self, number: int | None) -> bool:
        """Whether an argument has a value in every row."""
        return number is None or self.arguments[number].missing is None

    def sample(self, number: int, most: int) -> tuple[NDArray[np.int64], Argument]:
        """At most this many rows of each pair that have a value: their groups, and the argument there."""
        wanted = (number, most)
        if wanted not in self._samples:
            self._samples[wanted] = self._sampled(number, most)
        return self._samples[wanted]

    def _sampled(self, number: int, most: int) -> tuple[NDArray[np.int64], Argument]:
        if most == 1 and self.always_present(number) and not self.rows_are_cut:
            return self.groups, self._one_of_each(self.argument(number))
        rows = self._with_value(number, first_pairs_only=False)
        pairs, argument = rows if self.rows_are_cut else self._smallest(*rows, most)
        return self.groups[pairs], argument

    def _one_of_each(self, argument: Argument) -> Argument:
        """One row of each pair, where every row has a value: `_smallest` without looking for the rows of a pair."""
        segments = self.segments
        crowded = np.flatnonzero(segments.lengths > 1)
        if not len(crowded):
            return argument
        inner = Segments.of_lengths(segments.lengths[crowded])
        members = np.arange(inner.size) + inner.spread(segments.starts[crowded] - inner.starts)
        picks = self._row_picks(argument.take(members), crowded, inner)
        chosen = segments.starts.copy()
        chosen[crowded] = members[keep_smallest(picks, inner, 1)]
        return argument.take(chosen)

    def one_row(self, number: int, *, first_pairs_only: bool) -> tuple[NDArray[np.int64], Argument]:
        """One row with a value of each pair, or of the first pair of each owner."""
        return self._smallest(*self._with_value(number, first_pairs_only=first_pairs_only), 1)

    def _with_value(self, number: int, *, first_pairs_only: bool) -> tuple[NDArray[np.int64], Argument]:
        argument = self.argument(number)
        pairs = self.segments.spread(np.arange(len(self.groups)))
        if argument.missing is None and not first_pairs_only:
            return pairs, argument
        wanted = argument.present()
        if first_pairs_only:
            wanted &= self.segments.spread(self.first_pairs)
        chosen = np.flatnonzero(wanted)
        return pairs[chosen], argument.take(chosen)

    def _smallest(self, pairs: NDArray[np.int64], argument: Argument, most: int) -> tuple[NDArray[np.int64], Argument]:
        """The rows of each pair that have the smallest picks."""
        segments = Segments.of_runs(pairs)
        crowded = segments.lengths > most
        if not crowded.any():
            return pairs, argument
        members, inner = segments.members(crowded), Segments.of_lengths(segments.lengths[crowded])
        several = argument.take(members)
        picks = self._row_picks(several, pairs[segments.starts[crowded]], inner)
        kept = np.ones(len(pairs), dtype=bool)
        kept[members] = keep_smallest(picks, inner, most)
        chosen = np.flatnonzero(kept)
        return pairs[chosen], argument.take(chosen)

    def _row_picks(self, rows: Argument, pairs: NDArray[np.int64], segments: Segments) -> NDArray[np.uint64]:
        """The picks of the rows of some pairs: equal rows of a pair are numbered."""
        duplicates = duplicate_numbers(rows.identities(), segments)
        return self.picks.of_rows(segments.spread(self._pick(pairs)), [rows.canonical()], duplicates)

    def _pick(self, pairs: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The picks of some pairs."""
        return self.picks.of_pairs(self.picks.of_owners(self.pairs.owners[pairs]), self.pairs.groups[pairs])

    def distinct(self, number: int, most: int) -> tuple[NDArray[np.int64], Argument]:
        """At most this many different values of each pair."""
        pairs, argument = self._with_value(number, first_pairs_only=False)
        if not len(pairs):
            return pairs, argument
        first = np.flatnonzero(first_of_kind(argument.identities(), Segments.of_runs(pairs)))
        pairs, argument = pairs[first], argument.take(first)
        picks = self.picks.of_rows(self.pair_picks[pairs], [argument.canonical()], np.ones(len(pairs), dtype=np.uint64))
        chosen = np.flatnonzero(keep_smallest(picks, Segments.of_runs(pairs), most))
        return pairs[chosen], argument.take(chosen)
