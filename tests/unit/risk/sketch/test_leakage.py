from __future__ import annotations

import math

import numpy as np
import pytest

from shoal.errors import ShoalError
from shoal.risk import Sketch, average_privacy_loss, leakage
from shoal.risk.sketch.owner_sets import OwnerBatch, OwnerSets


def by_hand(registers: int, owners: int) -> float:
    return -sum(2.0**-k * math.log(1 - (1 - 2.0**-k / registers) ** owners) for k in range(1, 30))


@pytest.mark.parametrize("registers", [16, 512, 4096])
@pytest.mark.parametrize("owners", [1, 10, 1_000, 100_000])
def test_the_loss_is_the_published_sum(registers, owners):
    assert average_privacy_loss(registers, owners) == pytest.approx(by_hand(registers, owners), rel=1e-3)


def test_more_owners_hide_better_and_more_registers_hide_worse():
    assert average_privacy_loss(512, 10) > average_privacy_loss(512, 1_000) > average_privacy_loss(512, 10**8) > 0
    assert average_privacy_loss(64, 1_000) < average_privacy_loss(4096, 1_000)
    assert average_privacy_loss(512, 0) == math.inf


@pytest.mark.parametrize(("registers", "owners"), [(500, 10), (0, 10), (512, -1), (512, math.nan), (512, math.inf)])
def test_impossible_sizes_are_refused(registers, owners):
    with pytest.raises(ShoalError):
        average_privacy_loss(registers, owners)


def test_the_attack_that_the_loss_measures_works_as_often_as_it_says():
    """A newcomer of rank k (chance 2^{−k}) leaves 64 registers of 100 owners unchanged with 1 − (1 − 2^{1−k}/64)^100.

    Members always do. The published sum has 2^{−k} there, which is on the safe side. 400 sets with 1,000 newcomers each:
    the mean of a set varies by less than 0.1, so five standard errors of the mean are below 0.025 (false alarm < 1e-6).
    """
    rng = np.random.default_rng(8)
    unchanged = []
    for _ in range(400):
        hashes = rng.integers(0, 2**64, 1_100, dtype=np.uint64)
        sets = OwnerSets(64, 1)
        sets.add(np.zeros(100, np.int64), OwnerBatch(hashes[:100]))
        sets.settle()
        registers, ranks = OwnerBatch(hashes).places(6)
        same = ranks <= sets.registers[0][registers]
        assert same[:100].all()
        unchanged.append(same[100:].mean())
    exact = sum(2.0**-k * (1 - (1 - 2.0 ** (1 - k) / 64) ** 100) for k in range(1, 40))
    assert abs(np.mean(unchanged) - exact) < 0.025
    lost = -sum(2.0**-k * math.log(1 - (1 - 2.0 ** (1 - k) / 64) ** 100) for k in range(1, 40))
    assert lost <= average_privacy_loss(64, 100)


def test_a_sketch_tells_how_exposed_its_owners_are():
    sketch = Sketch(key=b"key", m=64)
    sketch.update([0] * 5_000 + [1, 2, 3], np.arange(5_003))
    found = leakage(sketch)
    assert found.values_with_listed_owners == 0.75
    assert found.median_value_loss == pytest.approx(average_privacy_loss(64, 5_000), rel=0.5)
    assert math.isfinite(found.column_loss)
    assert found.keyed
    small = Sketch(key=b"key")
    small.update([1], [1])
    assert leakage(small).to_dict()["column_loss"] is None
