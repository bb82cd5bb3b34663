"""Few owners whose sums spread over many octaves hide behind noise one by one: what noise has filled is not taken for them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.rewrite.limits.choosing import find, reading_of, scale_of
from shoal.rewrite.pipeline import plan_select
from shoal.rewrite.verify.searches import verify_found

FIRST = 19
OWNERS = [1, 3, 6, 11, 18, 22, 16, 9, 3]
"""Eighty-nine owners in nine octaves, from 2⁹ on."""


@pytest.fixture(scope="module")
def plan():
    orders = pa.table({"uid": range(89), "total": [float(2**9 * (n + 1)) for n in range(89)]})
    catalog = {
        "tables": {"orders": {"owner": "uid"}},
        "defaults": {"epsilon": 2.0, "delta": 1e-6, "population": 90},
    }
    return shoal.connect({"orders": orders}, catalog=catalog).plan("SELECT SUM(total) FROM orders").selects[0]


def histogram(plan, **filled):
    """Owners of every bin of both signs; `at_n`: how many noise puts into bin n, `below_n`: among negative sums."""
    bins = len(plan.search.sought[0].bins) // 2
    counts = np.zeros(2 * bins)
    for name, owners in filled.items():
        sign, _, position = name.partition("_")
        counts[int(position) + (bins if sign == "below" else 0)] = owners
    return counts, bins


def read(plan, counts):
    return reading_of(plan.search.sought[0], plan.search.histograms[0], list(counts), grouped=False)


SPREAD = [5, 8, 9, 14, 17, 18, 15, 12, 6]


@pytest.mark.parametrize("noise", [{"at_4": 34}, {"below_4": 34}, {"below_30": 34}, {"at_2": 30, "below_6": 30}, {}])
def test_a_bin_that_noise_has_filled_is_not_taken_for_owners_who_are_spread(plan, noise):
    assert scale_of(plan.search.histograms[0]) == pytest.approx(4.5, rel=0.01)
    counts, _ = histogram(plan, **noise)
    counts[FIRST : FIRST + len(SPREAD)] = SPREAD
    reading = read(plan, counts)
    assert reading.found
    assert FIRST + 5 <= reading.top < FIRST + len(SPREAD)


def test_where_nothing_is_sure_a_sum_looks_for_its_bounds_under_a_plan_that_was_charged(plan):
    counts, _ = histogram(plan, at_4=28)
    counts[FIRST : FIRST + 9] = [6, 7, 9, 8, 9, 8, 9, 7, 0]
    found = find(plan, [list(counts)], lambda select: plan_select(select, "basic"))
    assert found.missing in {(), ("sum",)}
    assert found.limits.of_call[0] is None or found.limits.of_call[0] >= 2**12
    assert verify_found(plan, found.plan) is found.plan


def test_few_owners_are_seldom_misread(plan):
    counts, bins = histogram(plan)
    counts[FIRST : FIRST + len(OWNERS)] = OWNERS
    draw = np.random.default_rng(89)
    readings = [read(plan, counts + np.round(draw.laplace(0, 4.5, 2 * bins))) for _ in range(1500)]
    found = [reading for reading in readings if reading.found]
    assert sum(reading.top < FIRST + 2 for reading in found) <= 5
    assert len(readings) - len(found) < 75
