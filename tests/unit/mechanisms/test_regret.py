"""The expected error over a public prior of group sizes: its closed form, and what it prefers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from shoal.mechanisms.regret import expected_log_error, largest_group


@pytest.mark.parametrize(("error", "owners"), [(5.0, 30.0), (40.0, 12.0), (0.2, 1.0), (1e6, 10.0)])
def test_the_closed_form_is_the_mean_over_sizes(error, owners):
    largest = 1e4
    sizes = np.exp((np.arange(200_000) + 0.5) / 200_000 * np.log(largest))
    relative = np.where(sizes >= owners, np.minimum(1.0, error / sizes), 1.0)
    assert expected_log_error([error], owners, largest) == pytest.approx(float(np.log(relative).mean()), abs=1e-4)


def test_small_groups_make_the_selection_count_and_large_ones_the_error():
    closer, more = ([10.0], 150.0), ([15.0], 75.0)
    assert expected_log_error(*more, 1e3) < expected_log_error(*closer, 1e3)
    assert expected_log_error(*closer, 1e8) < expected_log_error(*more, 1e8)


def test_without_numbers_only_groups_count():
    assert expected_log_error([], 50.0, 1e4) < expected_log_error([], 60.0, 1e4)
    assert expected_log_error([], 1e5, 1e4) == 0.0


def test_the_prior_ends_where_delta_says():
    assert largest_group(Fraction(1, 10**8)) == pytest.approx(1e6)
    assert largest_group(Fraction(1, 10)) == 1e3
    assert largest_group(Fraction(0)) == largest_group(Fraction(1, 10**300)) == 1e9
