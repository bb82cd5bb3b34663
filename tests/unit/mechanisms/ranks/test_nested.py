"""Quantiles by recursion: what one row changes of their law, that they rise, and how far off they are."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.accounting.accountants import plan_loss
from shoal.accounting.events import QuantileChoice, RankTarget, Shift
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.quantile_choice import ChosenQuantiles, rank_error
from shoal.mechanisms.ranks.nested import SUB_LEAVES, Part, ways_to

QUARTILES = tuple(RankTarget(Fraction(i, 4)) for i in (1, 2, 3))
SCALE = 3.0


def part_of(counts) -> Part:
    leaf = np.flatnonzero(counts)
    ends = np.zeros(1, dtype=np.int64), np.array([len(counts)])
    return Part(np.zeros_like(leaf), leaf, np.asarray(counts)[leaf], *ends)


def law_of_cut(counts, lowest: int, beyond: int, fraction: Fraction) -> dict[int, float]:
    """The chance of every sub-leaf, from the definition: eight of them to a leaf, which hold its rows evenly."""
    rank, reach = fraction * sum(counts), max(fraction, 1 - fraction)
    weights = {}
    for leaf, j in itertools.product(range(lowest, beyond), range(SUB_LEAVES)):
        before = sum(counts[:leaf])
        below, upto = (before + counts[leaf] * step // SUB_LEAVES for step in (j, j + 1))
        weights[leaf * SUB_LEAVES + j] = math.exp(-float(max(0, rank - upto, below - rank) / reach) / SCALE)
    whole = sum(weights.values())
    return {place: weight / whole for place, weight in weights.items()}


def law_of_quartiles(counts) -> dict[tuple[int, int, int], float]:
    """The law of all three sub-leaves, cut by cut."""
    found: dict[tuple[int, int, int], float] = {}
    half = Fraction(1, 2)
    for middle, chance in law_of_cut(counts, 0, len(counts), half).items():
        leaf, j = divmod(middle, SUB_LEAVES)
        shared = counts[leaf] * (2 * j + 1) // (2 * SUB_LEAVES)
        left = [*counts[:leaf], shared, *[0] * (len(counts) - leaf - 1)]
        right = [whole - part for whole, part in zip(counts, left, strict=True)]
        lower, upper = law_of_cut(left, 0, leaf + 1, half), law_of_cut(right, leaf, len(counts), half)
        for (low, first), (high, second) in itertools.product(lower.items(), upper.items()):
            key = low, middle, high
            found[key] = found.get(key, 0.0) + chance * first * second
    return found


@pytest.mark.parametrize("counts", [(3, 0), (9, 0), (2, 5), (17, 4)])
@pytest.mark.parametrize("added", [(1, 0), (0, 1), (2, 1)])
def test_an_owner_moves_no_probability_by_more_than_two_levels_cost(counts, added):
    more = tuple(a + b for a, b in zip(counts, added, strict=True))
    one, other = law_of_quartiles(counts), law_of_quartiles(more)
    largest = max(abs(math.log(one[key] / other[key])) for key in one)
    paid = QuantileChoice(Shift(sum(added)), Fraction(3), QUARTILES, nested=True)
    assert largest <= float(paid.epsilon) + 1e-12
    assert plan_loss([paid]).zcdp[0] == Fraction(2 * sum(added) ** 2, 2 * 9)


def test_quartiles_are_drawn_with_their_probabilities():
    """8,000 draws of leaves of three quartiles; the largest of nine deviations is 5 standard errors once in 10⁵ runs."""
    counts, times = (9, 1, 0, 6), 8000
    leaf = np.flatnonzero(counts)
    copies = np.repeat(np.arange(times), len(leaf)), np.tile(leaf, times), np.tile(np.asarray(counts)[leaf], times)
    choice = QuantileChoice(Shift(1), Fraction(3), QUARTILES, nested=True)
    drawn = ChosenQuantiles(times, *copies, choice, 4, seeded_entropy(4)).quantiles([0.25, 0.5, 0.75])
    leaves = np.floor(drawn * 4).astype(int)
    expected = np.zeros((3, 4))
    for places, chance in law_of_quartiles(counts).items():
        for target, place in enumerate(places):
            expected[target, place // SUB_LEAVES] += chance
    found = np.stack([np.bincount(leaves[:, target], minlength=4) / times for target in range(3)])
    assert np.abs(found - expected).max() < 5 * 0.5 / math.sqrt(times)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(0, 47), st.integers(0, 5), st.integers(1, 3))
@settings(max_examples=60)
def test_a_cut_adds_a_row_to_one_part_only(counts, chosen, leaf, rows):
    chosen, leaf = chosen % (len(counts) * SUB_LEAVES), leaf % len(counts)
    more = list(counts)
    more[leaf] += rows
    sides = [part_of(each).cut(np.array([chosen])) for each in (counts, more)]
    moved = [
        np.bincount(after.leaf, after.rows, len(counts)) - np.bincount(before.leaf, before.rows, len(counts))
        for before, after in zip(*sides, strict=True)
    ]
    assert all((each >= 0).all() for each in moved)
    assert sum(each.sum() for each in moved) == rows


@pytest.mark.parametrize("quantiles", [2, 3, 9, 15])
def test_lists_rise_and_are_closer_than_drawn_apart(quantiles):
    rows = np.sort(np.random.default_rng(6).random(2000))
    leaf, count = np.unique((rows * 65536).astype(np.int64), return_counts=True)
    copies = 40, np.repeat(np.arange(40), len(leaf)), np.tile(leaf, 40), np.tile(count, 40)
    fractions = [Fraction(i, quantiles + 1) for i in range(1, quantiles + 1)]
    targets = tuple(RankTarget(p) for p in fractions)
    errors = []
    for nested in (True, False):
        draws = QuantileChoice(Shift(1), Fraction(1), targets, nested=nested).draws
        choice = QuantileChoice(Shift(1), Fraction(2 * draws), targets, nested=nested)
        assert choice.epsilon == 1
        found = ChosenQuantiles(*copies, choice, 65536, seeded_entropy(7)).quantiles([float(p) for p in fractions])
        assert (np.diff(found, axis=1) >= 0).all()
        ranks = np.searchsorted(rows, found)
        off = np.abs(ranks - 2000 * np.array([float(p) for p in fractions]))
        errors.append(float(np.sqrt((off**2).mean())))
        assert (off <= [rank_error(choice, target, 1 - 1e-6, 65536) for target in targets]).all()
    assert errors[0] < errors[1] * (1.15 if quantiles == 2 else 0.9)


def test_equal_values_do_not_pull_the_other_quantiles_along():
    """Half of the rows are one value; the quartiles beside it stay where they are."""
    counts = np.array([250, 0, 1000, 0, 200, 550])
    choice = QuantileChoice(Shift(1), Fraction(1), (*QUARTILES, RankTarget(Fraction(9, 10))), nested=True)
    leaf = np.flatnonzero(counts)
    group = np.repeat(np.arange(50), len(leaf))
    chosen = ChosenQuantiles(50, group, np.tile(leaf, 50), np.tile(counts[leaf], 50), choice, 6, seeded_entropy(8))
    assert np.median(np.floor(chosen.quantiles([0.25, 0.5, 0.75, 0.9]) * 6), axis=0).tolist() == [2, 2, 5, 5]


def test_every_target_is_reached_once():
    ways = ways_to(QUARTILES)
    assert [len(ways[target]) for target in QUARTILES] == [2, 1, 2]
    assert all(way[-1].fraction == Fraction(1, 2) for way in ways.values())


@pytest.mark.parametrize(("quantiles", "draws"), [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (9, 4), (1001, 10)])
def test_a_row_takes_part_in_as_many_draws_as_there_are_levels(quantiles, draws):
    targets = tuple(RankTarget(Fraction(i, quantiles + 1)) for i in range(1, quantiles + 1))
    assert QuantileChoice(Shift(1), Fraction(1), targets, nested=True).draws == draws
    assert max(map(len, ways_to(targets).values())) == draws
