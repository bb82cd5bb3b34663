"""The models themselves, enumerated: choices between options, tables with suppressed counts, histories of answers.

No vector of chances that the assumptions allow is worse than what is told. These tests know nothing of coins and blankets.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from shoal import knowledge

EPSILONS = (0.2, 1.0, 2.0)


def joint_counts(chances):
    """P[(A, B) = (i, j)] for people who choose A, B or something else with chances (a, b, …)."""
    table = np.ones((1, 1))
    for a, b in chances:
        grown = np.zeros((table.shape[0] + 1, table.shape[1] + 1))
        grown[:-1, :-1] += (1 - a - b) * table
        grown[1:, :-1] += a * table
        grown[:-1, 1:] += b * table
        table = grown
    return table


def moved(table, i, j):
    """The table with the target added at (i, j), in a frame that fits all."""
    frame = np.zeros((table.shape[0] + 1, table.shape[1] + 1))
    frame[i : i + table.shape[0], j : j + table.shape[1]] = table
    return frame


def suppressed(table, threshold):
    """The rows and columns up to the threshold become one each."""
    for axis in (0, 1):
        table = np.moveaxis(table, axis, 0)
        table = np.concatenate((table[: threshold + 1].sum(axis=0, keepdims=True), table[threshold + 1 :]))
        table = np.moveaxis(table, 0, axis)
    return table


def worse_direction(first, second, epsilon):
    ratio = math.exp(epsilon)
    return max(np.maximum(first - ratio * second, 0).sum(), np.maximum(second - ratio * first, 0).sum())


def test_a_histogram_of_three_options_is_within_the_blanket():
    """Everybody takes each of three options with a chance of at least λ; the target moves from A to B. 400 vectors."""
    rng = np.random.default_rng(3)
    for unknown, spread in ((3, 0.2), (6, 0.1), (8, 0.3)):
        told = knowledge.histogram(unknown + 1, uncertainty=spread)
        for _ in range(130):
            shares = spread + (1 - 3 * spread) * rng.dirichlet(np.full(3, 0.3), unknown)
            table = joint_counts(shares[:, :2])
            for epsilon in EPSILONS:
                assert worse_direction(moved(table, 1, 0), moved(table, 0, 1), epsilon) <= told.delta_at(epsilon)


def chances_of_values(rng, unknown, boundary, *, rare):
    """Chances of two values, each rare or common for everybody; absence keeps at least the boundary."""
    corner = rng.random(unknown) < 0.5
    first = np.where(corner, rng.choice([0.0, boundary], unknown), rng.uniform(0, boundary, unknown))
    if not rare:
        first = rng.uniform(boundary, 1 - 2 * boundary, unknown)
    second = rng.uniform(0, 1, unknown) * (1 - boundary - first)
    second = (
        np.minimum(second, boundary)
        if rng.random() < 0.5
        else np.maximum(second, np.minimum(boundary, 1 - boundary - first))
    )
    return np.column_stack((first, second))


@pytest.mark.parametrize("rare", [True, False])
@pytest.mark.parametrize("threshold", [0, 1, 2])
def test_a_k_anonymous_table_is_within_its_bound(threshold, rare):
    """Two values and absence; counts up to T are hidden, absence always. 60 vectors, every move of the target."""
    rng = np.random.default_rng(10 * threshold + rare)
    unknown, boundary = 7, 0.15
    told = knowledge.k_anonymity(unknown + 1, threshold, boundary=boundary)
    for _ in range(60):
        table = joint_counts(chances_of_values(rng, unknown, boundary, rare=rare))
        first, second, absent = (suppressed(moved(table, i, j), threshold) for i, j in ((1, 0), (0, 1), (0, 0)))
        for epsilon in EPSILONS:
            leg = told.loss.leg(epsilon) * (1 + 1e-9)
            assert worse_direction(first, absent, epsilon) <= leg
            assert worse_direction(first, second, epsilon) <= told.delta_at(epsilon)


def test_dependent_answers_are_within_the_blanket_of_histories():
    """Two releases; the second answer keeps a chance of at least λ given the first. 150 vectors, every pair of histories."""
    rng = np.random.default_rng(9)
    unknown, spread = 6, 0.25
    told = knowledge.repeated(unknown + 1, 2, uncertainty=spread, answers="dependent")
    histories = [(0, 0), (0, 1), (1, 0), (1, 1)]
    for _ in range(150):
        first, after_no, after_yes = rng.choice([spread, 1 - spread, 0.5], (3, unknown))
        table = np.ones((1, 1))
        for p, q, r in zip(first, after_no, after_yes, strict=True):
            weights = {(0, 0): (1 - p) * (1 - q), (0, 1): (1 - p) * q, (1, 0): p * (1 - r), (1, 1): p * r}
            grown = np.zeros((table.shape[0] + 1, table.shape[1] + 1))
            for (i, j), weight in weights.items():
                grown[i : i + table.shape[0], j : j + table.shape[1]] += weight * table
            table = grown
        for one in histories:
            for other in histories:
                for epsilon in EPSILONS:
                    assert worse_direction(moved(table, *one), moved(table, *other), epsilon) <= told.delta_at(epsilon)
