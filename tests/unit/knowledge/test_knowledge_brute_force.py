"""Small numbers of people, enumerated: nothing in the box is worse than what is reported, and a corner attains it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from shoal import knowledge
from shoal.knowledge.distributions import binomial, sum_of_answers

EPSILONS = (0.0, 0.3, 1.0, 2.5)


def counts_of(chances):
    """P[S = k] for each row of chances."""
    rows = np.zeros((len(chances), chances.shape[1] + 1))
    rows[:, 0] = 1.0
    for chance in chances.T[:, :, None]:
        rows[:, 1:] = rows[:, 1:] * (1 - chance) + rows[:, :-1] * chance
        rows[:, :1] *= 1 - chance
    return rows


def hockey_stick(first, second, epsilon):
    """The larger of both directions."""
    ratio = math.exp(epsilon)
    there = np.maximum(first - ratio * second, 0).sum(axis=-1)
    return np.maximum(there, np.maximum(second - ratio * first, 0).sum(axis=-1))


def delta_of(rows, epsilon, shift=1):
    room = np.zeros((len(rows), shift))
    return hockey_stick(np.hstack((room, rows)), np.hstack((rows, room)), epsilon)


@pytest.mark.parametrize("uncertainty", [0.1, 0.2, 0.5])
def test_no_vector_in_the_box_is_worse_and_a_corner_attains_it(uncertainty):
    rng = np.random.default_rng(18)
    for unknown in range(1, 13):
        inside = counts_of(rng.uniform(uncertainty, 1 - uncertainty, (10_000, unknown)))
        corners = [[uncertainty] * a + [1 - uncertainty] * (unknown - a) for a in range(unknown + 1)]
        at_corners = counts_of(np.array(corners))
        kept = knowledge.count(unknown + 1, uncertainty=uncertainty)
        for epsilon in EPSILONS:
            told = kept.delta_at(epsilon)
            assert delta_of(inside, epsilon).max() <= told
            assert delta_of(at_corners, epsilon).max() == pytest.approx(told, rel=1e-8)


@pytest.mark.parametrize("related", [2, 3])
def test_a_group_that_moves_together_is_a_larger_shift(related):
    kept = knowledge.count(8 + related, uncertainty=0.2, related=related)
    corners = counts_of(np.array([[0.2] * a + [0.8] * (8 - a) for a in range(9)]))
    for epsilon in EPSILONS:
        assert delta_of(corners, epsilon, related).max() == pytest.approx(kept.delta_at(epsilon), rel=1e-8)
    first_or_last = max(corners[:, :related].sum(axis=1).max(), corners[:, -related:].sum(axis=1).max())
    assert kept.smallest_delta == pytest.approx(first_or_last, rel=1e-8)


def test_every_target_is_tried():
    chances = np.array([0.02, 0.4, 0.5, 0.97, 0.6, 0.3])
    kept = knowledge.count(6, probabilities=chances)
    for epsilon in EPSILONS:
        worst = max(delta_of(counts_of(np.delete(chances, i)[None, :]), epsilon)[0] for i in range(6))
        assert kept.delta_at(epsilon) == pytest.approx(worst, rel=1e-8)


def test_every_group_of_related_targets_is_tried():
    chances = np.array([0.02, 0.4, 0.5, 0.97, 0.4])
    kept = knowledge.count(5, probabilities=chances, related=2)
    pairs = [np.delete(chances, [i, j]) for i in range(5) for j in range(i)]
    for epsilon in EPSILONS:
        worst = max(delta_of(counts_of(rest[None, :]), epsilon, 2)[0] for rest in pairs)
        assert kept.delta_at(epsilon) == pytest.approx(worst, rel=1e-8)


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_noise_on_top_is_a_convolution(scale):
    corners = counts_of(np.array([[0.2] * a + [0.8] * (7 - a) for a in range(8)]))
    noise = np.exp(-np.abs(np.arange(-300, 301)) / scale)
    noisy = np.array([np.convolve(row, noise / noise.sum()) for row in corners])
    kept = knowledge.count(8, uncertainty=0.2, noise_scale=scale)
    for epsilon in (0.0, 0.1, 0.2):
        assert delta_of(noisy, epsilon).max() == pytest.approx(kept.delta_at(epsilon), rel=1e-7)


def outcomes(others, unknown, known, yes_of_known, threshold, *, both_sides):
    """The two distributions over what is shown: (target says yes, target says no)."""
    shown = {}
    for answer, row in ((1, 0), (0, 1)):
        for yes, chance in enumerate(others):
            total = yes + answer + yes_of_known
            label = "few" if total <= threshold else total
            if both_sides and unknown + 1 + known - total <= threshold:
                label = "nearly all"
            shown.setdefault(label, np.zeros(2))[row] += chance
    table = np.array(list(shown.values()))
    return table[:, 0], table[:, 1]


def both_directions(first, second, epsilon):
    ratio = math.exp(epsilon)
    return np.array([np.maximum(first - ratio * second, 0).sum(), np.maximum(second - ratio * first, 0).sum()])


def test_thresholds_are_the_worst_of_all_corners():
    rng = np.random.default_rng(5)
    for _ in range(120):
        unknown, known = int(rng.integers(0, 9)), int(rng.integers(0, 4))
        both_sides, active = bool(rng.integers(2)), bool(rng.integers(2))
        people = unknown + known + 1
        limit = int(rng.integers(0, (people + 1) // 2 if both_sides else people + 1))
        chance, epsilon = float(rng.choice([0.1, 0.3, 0.5, 0.8])), float(rng.choice(EPSILONS))
        worst = 0.0
        for a in range(unknown + 1):
            others = binomial(a, chance).dense(unknown)
            apart = np.array(
                [
                    both_directions(*outcomes(others, unknown, known, b, limit, both_sides=both_sides), epsilon)
                    for b in range(known + 1)
                ]
            )
            means = [binomial(c, chance).dense(known) @ apart for c in range(known + 1)]
            worst = max(worst, apart.max() if active else np.max(means))
        kept = knowledge.threshold(
            people,
            limit,
            at_most=chance,
            known=known,
            attacker="active" if active else "passive",
            both_sides=both_sides,
        )
        assert kept.delta_at(epsilon) == pytest.approx(worst, rel=1e-8, abs=1e-250)
        assert kept.delta_at(300) >= kept.smallest_delta * (1 - 1e-9)


def test_thresholds_with_known_chances_are_enumerated():
    rng = np.random.default_rng(6)
    for _ in range(60):
        unknown, known = int(rng.integers(0, 6)), int(rng.integers(0, 4))
        both_sides, active = bool(rng.integers(2)), bool(rng.integers(2))
        people = unknown + known + 1
        limit = int(rng.integers(0, (people + 1) // 2 if both_sides else people + 1))
        chances, epsilon = rng.choice([0.1, 0.3, 0.7, 0.9], people), float(rng.choice(EPSILONS))
        answers = sum_of_answers(chances[people - known :]).dense(known)
        worst = 0.0
        for target in range(unknown + 1):
            others = sum_of_answers(np.delete(chances[: unknown + 1], target)).dense(unknown)
            apart = np.array(
                [
                    both_directions(*outcomes(others, unknown, known, b, limit, both_sides=both_sides), epsilon)
                    for b in range(known + 1)
                ]
            )
            worst = max(worst, apart.max() if active else (answers @ apart).max())
        kept = knowledge.threshold(
            people,
            limit,
            probabilities=chances,
            known=known,
            attacker="active" if active else "passive",
            both_sides=both_sides,
        )
        assert kept.delta_at(epsilon) == pytest.approx(worst, rel=1e-8, abs=1e-250)


def test_passive_is_never_worse_than_active():
    for limit in (1, 3, 10):
        passive, active = (
            knowledge.threshold(60, limit, at_most=0.1, known=5, attacker=attacker)
            for attacker in ("passive", "active")
        )
        assert all(passive.delta_at(epsilon) <= active.delta_at(epsilon) for epsilon in EPSILONS)


def test_one_leg_of_a_k_anonymous_table_is_the_worst_corner_of_an_enumeration():
    """Each of m others is at the value, absent or elsewhere; elsewhere is shown. Rare: chances of the value in {0, β}."""
    unknown, limit, boundary, epsilon = 6, 1, 0.2, 0.7
    worst = 0.0
    for a in range(unknown + 1):
        coins = binomial(a, 2 * boundary).dense(unknown)
        apart = np.zeros(2)
        for number, weight in enumerate(coins):
            heads = binomial(number, 0.5).dense(unknown)
            apart += weight * both_directions(*outcomes(heads, unknown, 0, 0, limit, both_sides=False), epsilon)
        worst = max(worst, apart.max())
    common = knowledge.histogram(unknown + 1, uncertainty=boundary).delta_at(epsilon)
    kept = knowledge.k_anonymity(unknown + 1, limit, boundary=boundary).loss
    assert kept.leg(epsilon) == pytest.approx(max(worst, common), rel=1e-8)


def test_repeated_independent_answers_are_the_product_of_two_pairs():
    one = binomial(9, 0.3).dense(9)
    up, same = np.append(0.0, one), np.append(one, 0.0)
    worst = {}
    for epsilon in (0.5, 1.5):
        mixtures = [(up, same, up, same), (up, same, same, up), (same, up, same, up)]
        worst[epsilon] = max(
            np.maximum(np.outer(a, c) - math.exp(epsilon) * np.outer(b, d), 0).sum() for a, b, c, d in mixtures
        )
    kept = knowledge.repeated(10, 2, probabilities=[0.3] * 10, answers="independent")
    for epsilon, exact in worst.items():
        assert exact <= kept.delta_at(epsilon) <= 1.01 * exact


def test_a_repeated_blanket_dominates_every_corner():
    kept = knowledge.repeated(13, 2, uncertainty=0.2, answers="independent")
    for a in range(13):
        one = counts_of(np.array([[0.2] * a + [0.8] * (12 - a)]))[0]
        up, same = np.append(0.0, one), np.append(one, 0.0)
        for epsilon in (0.5, 1.5):
            exact = np.maximum(np.outer(up, up) - math.exp(epsilon) * np.outer(same, same), 0).sum()
            assert exact <= kept.delta_at(epsilon)
