from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from shoal import local
from shoal.accounting.claims import shuffling
from shoal.errors import ShoalError


def brute_force_delta(epsilon, local_epsilon, n, chance):
    """The sum as it is written: over all numbers of clones and all outcomes, nothing left out."""
    own = math.exp(local_epsilon) / (math.exp(local_epsilon) + 1)
    total = 0.0
    for clones in range(n):
        first = np.arange(clones + 2)
        before, here = stats.binom.pmf(first - 1, clones, 0.5), stats.binom.pmf(first, clones, 0.5)
        p, q = own * before + (1 - own) * here, (1 - own) * before + own * here
        total += stats.binom.pmf(clones, n - 1, chance) * np.maximum(p - math.exp(epsilon) * q, 0).sum()
    return total


@pytest.mark.parametrize("local_epsilon", [0.3, 1, 3])
@pytest.mark.parametrize("n", [2, 10, 300])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("binary", [False, True])
def test_delta_is_the_sum_over_everything_rounded_up(local_epsilon, n, epsilon, binary):
    chance = shuffling.clone_chance(local_epsilon, binary=binary)
    exact = brute_force_delta(epsilon, local_epsilon, n, chance)
    found = shuffling.shuffled_delta(epsilon, local_epsilon, n, binary=binary)
    assert exact <= found * (1 + 1e-12)
    assert found == pytest.approx(exact, rel=1e-6, abs=1e-30)


def test_binary_randomized_response_is_bounded_by_its_exact_loss():
    """Counts of shuffled yes/no reports are binomial sums: their true δ, by convolution, is never above the bound."""
    n, local_epsilon = 400, 1.0
    keep = math.exp(local_epsilon) / (math.exp(local_epsilon) + 1)
    for others in (0, 100, 200):
        rest = np.convolve(
            stats.binom.pmf(np.arange(others + 1), others, keep),
            stats.binom.pmf(np.arange(n - others), n - 1 - others, 1 - keep),
        )
        one, other = np.convolve(rest, [1 - keep, keep]), np.convolve(rest, [keep, 1 - keep])
        for epsilon in (0.05, 0.1, 0.2, 0.4):
            bound = shuffling.shuffled_delta(epsilon, local_epsilon, n, binary=True)
            for p, q in ((one, other), (other, one)):
                assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= bound * (1 + 1e-9)


def test_blocks_of_clones_only_raise_delta(monkeypatch):
    exact = shuffling.shuffled_delta(0.05, 1.0, 20_000)
    shuffling._clones.cache_clear()
    monkeypatch.setattr(shuffling, "MOST_BLOCKS", 200)
    coarse = shuffling.shuffled_delta(0.05, 1.0, 20_000)
    shuffling._clones.cache_clear()
    assert exact <= coarse <= exact * 1.2


def test_shuffling_never_costs_more_than_no_shuffling():
    assert local.shuffled(0.5, 1, 1e-6) == 0.5
    assert local.shuffled(0.5, 100, 0) == 0.5
    assert local.shuffled(8, 5, 1e-6) <= 8
    assert local.shuffled(40, 10**6, 1e-6) <= 40


def test_more_honest_reports_hide_better():
    losses = [local.shuffled(1, 10_000, 1e-6, honest=share) for share in (0.1, 0.5, 0.8, 1.0)]
    assert losses == sorted(losses, reverse=True)
    assert losses[2] == local.shuffled(1, 8000, 1e-6)


def test_the_largest_local_epsilon_shuffles_to_what_is_wanted():
    found = local.local_for(0.1, 10_000, 1e-6)
    assert found > 1
    assert local.shuffled(found, 10_000, 1e-6) <= 0.1 < local.shuffled(found * 1.001, 10_000, 1e-6)
    assert local.local_for(0.1, 1, 1e-6) == 0.1


@pytest.mark.parametrize(
    "call",
    [
        lambda: local.shuffled(0, 10, 1e-6),
        lambda: local.shuffled(41, 10, 1e-6),
        lambda: local.shuffled(1, 0, 1e-6),
        lambda: local.shuffled(1, 1.5, 1e-6),
        lambda: local.shuffled(1, 10, 1),
        lambda: local.shuffled(1, 10, 1e-6, oracle="unary"),
        lambda: local.shuffled(1, 10, 1e-6, honest=0),
        lambda: local.shuffled(1, 10, 1e-6, honest=1.1),
        lambda: local.local_for(-1, 10, 1e-6),
    ],
)
def test_wrong_arguments_are_refused(call):
    with pytest.raises(ShoalError):
        call()
