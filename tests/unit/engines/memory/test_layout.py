"""Words hold what they are made of, whatever the number of owners, groups and rows."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.engines.memory.layout import Layout
from shoal.engines.memory.rows import TooWide
from shoal.engines.memory.segments import bits_for

SIZES = st.integers(1, 1 << 40)


class Rows:
    """An array of which only the length is asked."""

    def __init__(self, count):
        self._count = count

    def __len__(self):
        return self._count


def layout_of(owners, groups, rows, most):
    return Layout.of(SimpleNamespace(size=owners), SimpleNamespace(size=groups, codes=Rows(rows)), most)


@given(SIZES, st.integers(1, 1 << 22), st.integers(0, 1 << 34), st.sampled_from([None, 1, 5]))
def test_owner_pick_group_and_row_have_room_in_one_word(owners, groups, rows, most):
    layout = layout_of(owners, groups, rows, most)
    assert layout.part_bits + layout.owner_bits >= bits_for(owners)
    assert layout.below_group >= bits_for(rows)
    assert layout.group_bits in (0, bits_for(groups))
    assert bool(layout.pick_bits) <= (most is not None)


@given(SIZES, st.integers(0, 1 << 30), st.lists(st.integers(0, (1 << 40) - 1), max_size=50))
def test_owners_are_found_again_in_their_part(owners, rows, codes):
    layout = layout_of(owners, 1, rows, None)
    given_ = np.array([code % owners for code in codes], dtype=np.uint64)
    spread = layout.spread(given_)
    parts, within = spread >> np.uint64(layout.owner_bits), spread & np.uint64((1 << layout.owner_bits) - 1)
    assert (parts < 1 << layout.part_bits).all()
    found = [int(layout.codes(int(part), np.array([w]))[0]) for part, w in zip(parts, within, strict=True)]
    assert found == given_.tolist()


def test_owners_and_rows_that_do_not_fit_a_word_are_left_to_sql():
    with pytest.raises(TooWide):
        layout_of(1 << 40, 1, (1 << 35) + 1, None)
