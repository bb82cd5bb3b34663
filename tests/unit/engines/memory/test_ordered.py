"""Which runs of sorted words an owner keeps, beside a count of the runs of every owner."""

from __future__ import annotations

import numpy as np
import pytest

from shoal.engines.memory.layout import Layout
from shoal.engines.memory.ordered import Ordered

LAYOUT = Layout(part_bits=0, owner_bits=4, pick_bits=3, group_bits=5)


def words(rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    owners, picks, groups = rng.integers(0, 16, rows), rng.integers(0, 8, rows), rng.integers(0, 3, rows)
    above = (owners << 8 | picks << 5 | groups).astype(np.uint64)
    return np.sort(above << np.uint64(LAYOUT.below_group) | np.arange(rows, dtype=np.uint64))


def by_counting(sorted_words: np.ndarray, most: int) -> tuple[list[int], set[int]]:
    """The words of each owner's first runs, and the owners of whom the run after them has the same pick as the last."""
    kept, runs, doubtful = [], {}, set()
    for word in sorted_words.tolist():
        head = word >> LAYOUT.below_group
        known = runs.setdefault(head >> 8, [])
        if head not in known:
            known.append(head)
            if len(known) == most + 1 and known[-2] >> 5 == head >> 5:
                doubtful.add(head >> 8)
        if len(known) <= most:
            kept.append(word)
    return kept, doubtful


@pytest.mark.parametrize("most", [1, 2, 5, 24, 25, 10_000])
@pytest.mark.parametrize("rows", [0, 1, 2, 40, 3000])
def test_an_owner_keeps_its_first_runs(rows, most):
    given = words(rows, seed=rows)
    kept, doubtful = by_counting(given, most)
    ordered = Ordered.of(given, LAYOUT, most)
    found = ordered.first_runs()
    assert found.words.tolist() == kept
    assert found.segments.spread(found.heads).tolist() == [word >> LAYOUT.below_group for word in kept]
    assert set(ordered.in_doubt().tolist()) == doubtful


@pytest.mark.parametrize("owners", [[], [0], [15], [3, 4, 15]])
def test_all_runs_and_words_of_some_owners_are_found(owners):
    given = words(700, seed=1)
    ordered = Ordered.of(given, LAYOUT, 2)
    wanted = np.array(owners, dtype=np.uint64)
    assert set((ordered.runs.heads[ordered.runs_of(wanted)] >> np.uint64(8)).tolist()) == set(owners)
    theirs = np.isin(given >> np.uint64(LAYOUT.below_owner), wanted)
    assert ordered.words_of(wanted).tolist() == given[theirs].tolist()


def test_what_is_known_of_some_runs_is_kept():
    ordered = Ordered.of(words(700, seed=1), LAYOUT, 2)
    theirs = ordered.runs_of(np.array([3], dtype=np.uint64))
    nothing = ordered.keeping(theirs, np.zeros(len(theirs), dtype=bool)).first_runs()
    assert 3 not in (nothing.heads >> np.uint64(8)).tolist()
    everything = ordered.keeping(theirs, np.ones(len(theirs), dtype=bool)).first_runs()
    assert (everything.heads >> np.uint64(8)).tolist().count(3) == len(theirs) > 2
