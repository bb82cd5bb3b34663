"""Bounds next to zero are no bounds: noise beside a bin of zeros says nothing about other values."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shoal.accounting.events import LaplaceNoise, Shift
from shoal.plan.expressions import Column
from shoal.plan.measures import Histogram, OwnerSum
from shoal.plan.releases import HistogramRelease
from shoal.plan.types import DOUBLE, INTEGER
from shoal.release import noisy

NOISE = LaplaceNoise(Shift(1, 1), Fraction(1))


def read(monkeypatch, type_, filled):
    """What is read where just these bins have owners, after noise of nothing."""
    histogram = Histogram(OwnerSum(Column("x", type_), is_integer=type_ is INTEGER))
    monkeypatch.setattr(noisy, "add_noise", lambda _noise, counts, _entropy: counts)
    counts = np.array([[100 if number in filled else 0 for number in histogram.bins]])
    return noisy.read_bounds(HistogramRelease(histogram, NOISE), counts, None)[0].bounds


@pytest.mark.parametrize("filled", [{0}, {0, 1}, {-1, 0}, {0, 1, 2}])
def test_reals_next_to_zero_are_zeros(monkeypatch, filled):
    assert read(monkeypatch, DOUBLE, filled) is None


def test_small_reals_and_whole_numbers_are_found(monkeypatch):
    assert read(monkeypatch, DOUBLE, {0, 21}).upper == Fraction(1, 2**9)
    assert read(monkeypatch, INTEGER, {0, 1}).upper == 1
    assert read(monkeypatch, INTEGER, {0}) is None
