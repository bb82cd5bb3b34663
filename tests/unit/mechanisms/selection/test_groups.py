"""Group selection: the closed form, the inequalities for the rationals really sampled, thresholds, minimum owners."""

from __future__ import annotations

import math
from bisect import bisect_left
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest

from shoal.accounting.events import GaussianNoise, LaplaceNoise, OptimalSelection, Shift, ThresholdSelection
from shoal.errors import InternalError
from shoal.mechanisms.calibrate import delta_per_group, threshold_for
from shoal.mechanisms.entropy import SYSTEM, seeded_entropy
from shoal.mechanisms.group_selection import half_point, keep_probability, select
from shoal.mechanisms.selection import keep_tables
from shoal.mechanisms.selection.keep_tables import keep_probabilities


def broken_inequalities(numerators, bits, epsilon, delta):
    """Which of the four inequalities fail between neighbours in this list; e^ε is replaced by a certain lower bound."""
    context = Context(prec=2 * bits)
    power = context.exp(context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator)))
    growth = math.floor(Fraction(power) * (1 - Fraction(1, 10**bits)) * 2 ** (2 * bits)) if epsilon else 2 ** (2 * bits)
    allowed = math.floor(delta * 2 ** (3 * bits))
    kept = np.array(numerators, dtype=object)
    lost = (1 << bits) - kept
    pairs = {1: (kept[1:], kept[:-1]), 2: (lost[:-1], lost[1:]), 3: (kept[:-1], kept[1:]), 4: (lost[1:], lost[:-1])}
    return {name for name, (left, right) in pairs.items() if ((left << 2 * bits) > growth * right + allowed).any()}


def closed_form(owners, epsilon, delta):
    """The formula of the literature, in floats."""
    growth = math.exp(epsilon)
    first = 1 + math.floor(math.log((growth + 2 * delta - 1) / ((growth + 1) * delta)) / epsilon)

    def rising(n):
        return math.expm1(n * epsilon) / math.expm1(epsilon) * delta

    if owners <= first:
        return rising(owners)
    second = first + math.floor(math.log1p(math.expm1(epsilon) / delta * (1 - rising(first))) / epsilon)
    if owners > second:
        return 1.0
    shrink = math.exp(-(owners - first) * epsilon)
    return (1 - shrink) * (1 + delta / math.expm1(epsilon)) + shrink * rising(first)


@pytest.mark.parametrize("epsilon", [Fraction(1, 50), Fraction(1, 3), Fraction(1), Fraction(5)])
@pytest.mark.parametrize("delta", [Fraction(1, 20), Fraction(1, 10**5), Fraction(1, 10**12)])
def test_the_recursion_is_the_closed_form(epsilon, delta):
    selection = OptimalSelection(epsilon, delta, 1)
    sure = keep_probabilities(selection).sure_from
    for owners in range(sure + 2):
        assert keep_probability(selection, owners) == pytest.approx(
            closed_form(owners, float(epsilon), float(delta)), rel=1e-9
        )


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 3), Fraction(0), Fraction(2000)])
@pytest.mark.parametrize("kappa", [1, 7])
def test_all_four_inequalities_hold_for_every_number_of_owners(epsilon, kappa):
    selection = OptimalSelection(epsilon, Fraction(1, 1000), kappa)
    table = keep_probabilities(selection)
    numerators = [table.numerator(n) for n in range(table.sure_from + 2)]
    delta = delta_per_group(selection.delta, kappa)
    assert numerators[0] == 0
    assert numerators[-1] == 1 << table.bits
    assert not broken_inequalities(numerators, table.bits, epsilon / kappa, delta)


def test_the_inequalities_catch_planted_bugs():
    epsilon, delta, kappa = Fraction(1), Fraction(1, 10**6), 4
    table = keep_probabilities(OptimalSelection(epsilon, delta, kappa))
    whole = keep_probabilities(OptimalSelection(epsilon, delta, 1))
    single = delta_per_group(delta, kappa)
    good = [table.numerator(n) for n in range(table.sure_from + 1)]
    unsplit = [
        whole.numerator(n) >> (whole.bits - table.bits) if whole.bits > table.bits else whole.numerator(n)
        for n in range(40)
    ]
    assert not broken_inequalities(good, table.bits, epsilon / kappa, single)
    rounded_up = [n + (1 << 30) if 0 < n < 1 << table.bits else n for n in good]
    assert 1 in broken_inequalities(rounded_up, table.bits, epsilon / kappa, single)
    assert 1 in broken_inequalities(good[1:], table.bits, epsilon / kappa * Fraction(95, 100), single)
    assert 1 in broken_inequalities(unsplit, whole.bits, epsilon / kappa, single)
    skipped = [good[0], *good[2:]]
    assert broken_inequalities(skipped, table.bits, epsilon / kappa, single)


def test_the_closed_form_table_agrees_with_the_recursion_where_both_exist():
    epsilon, delta, bits = Fraction(1, 400), Fraction(1, 10**8), 192
    recursed = keep_tables._recurse(epsilon, delta, bits)
    closed = keep_tables._closed_form(epsilon, delta, bits)
    for owners in [*range(0, recursed.sure_from, 97), recursed.sure_from, recursed.sure_from + 5]:
        gap = abs(recursed.numerator(owners) - closed.numerator(owners))
        assert gap <= (1 << bits) >> 50
    assert abs(recursed.sure_from - closed.sure_from) <= 2


@pytest.mark.parametrize(
    ("epsilon", "delta", "kappa"),
    [("1e-3", "1e-6", 10), ("1e-10", "1e-15", 3), ("1e-10", "1e-6", 1), ("1e-2", "1e-12", 50)],
)
def test_a_tiny_epsilon_builds_no_giant_table_and_keeps_the_inequalities(epsilon, delta, kappa):
    selection = OptimalSelection(Fraction(epsilon), Fraction(delta), kappa)
    table = keep_probabilities(selection)
    assert isinstance(table, keep_tables.ClosedFormTable)
    rng = np.random.default_rng(5)
    centres = [1, table.crossing, table.sure_from, *rng.integers(1, table.sure_from, 20).tolist()]
    for centre in centres:
        numerators = [table.numerator(n) for n in range(max(0, centre - 3), centre + 4)]
        assert not broken_inequalities(
            numerators, table.bits, selection.epsilon / kappa, delta_per_group(selection.delta, kappa)
        )


def test_a_closed_form_for_a_large_epsilon_is_a_bug_of_ours():
    with pytest.raises(InternalError):
        keep_tables._closed_form(Fraction(2), Fraction(1, 10), 192)


def test_without_epsilon_the_chance_grows_by_delta_with_each_owner():
    selection = OptimalSelection(Fraction(0), Fraction(1, 8), 1)
    assert [keep_probability(selection, n) for n in (0, 1, 4, 8, 99)] == [0, 0.125, 0.5, 1, 1]
    assert half_point(selection) == 4


def test_minimum_owners_shifts_the_rule():
    plain, strict = (
        OptimalSelection(Fraction(1), Fraction(1, 100), 1),
        OptimalSelection(Fraction(1), Fraction(1, 100), 1, 10),
    )
    assert [keep_probability(strict, n) for n in (0, 9)] == [0, 0]
    assert [keep_probability(strict, n + 9) for n in range(1, 20)] == [keep_probability(plain, n) for n in range(1, 20)]
    assert half_point(strict) == half_point(plain) + 9


@pytest.mark.parametrize(
    "selection",
    [
        OptimalSelection(Fraction(1), Fraction(1, 10**5), 1),
        OptimalSelection(Fraction(1, 1000), Fraction(1, 10**5), 3, 4),
        ThresholdSelection(LaplaceNoise(Shift(1), Fraction(2)), 25, Fraction(1, 10**3), 1),
        ThresholdSelection(GaussianNoise(Shift(1), Fraction(4)), 25, Fraction(1, 10**3), 1, 3),
    ],
)
def test_the_half_point_is_where_a_group_is_as_likely_kept_as_not(selection):
    half = half_point(selection)
    assert keep_probability(selection, half) >= 0.5 > keep_probability(selection, half - 1)


def test_optimal_selection_never_keeps_an_empty_group_and_always_a_large_one():
    selection = OptimalSelection(Fraction(2), Fraction(1, 10**4), 2, 3)
    draw = select(selection, np.array([0, 1, 2, 10**9, 10**12] * 200))
    assert draw.noisy_owners is None
    assert draw.kept.reshape(200, 5).tolist() == [[False, False, False, True, True]] * 200


def test_a_selection_over_no_groups_keeps_none():
    for selection in (
        OptimalSelection(Fraction(2), Fraction(1, 10**4), 2),
        ThresholdSelection(LaplaceNoise(Shift(1), Fraction(2)), 25, Fraction(1, 10**3), 1),
    ):
        assert select(selection, np.zeros(0, dtype=np.int64)).kept.shape == (0,)


@pytest.mark.parametrize("noise", [LaplaceNoise(Shift(1, 2), Fraction(4)), GaussianNoise(Shift(1, 2), Fraction(4))])
def test_a_threshold_keeps_exactly_the_noisy_counts_that_reach_it(noise):
    threshold = threshold_for(noise, 2, Fraction(1, 10**3))
    selection = ThresholdSelection(noise, threshold, Fraction(1, 10**3), 2, min_owners=4, released=True)
    owners = np.array([0, 3, 4, threshold, 3 * threshold] * 300)
    draw = select(selection, owners, seeded_entropy(6))
    eligible = owners >= 4
    assert not draw.kept[~eligible].any()
    assert not draw.noisy_owners[~eligible].any()
    assert (draw.kept[eligible] == (draw.noisy_owners[eligible] - 3 >= threshold)).all()
    assert len(set((draw.noisy_owners - owners)[eligible].tolist())) > 10


def test_no_noise_is_drawn_for_groups_below_the_minimum():
    asked = []

    class Counting(type(SYSTEM)):
        safe = False

        def uint64(self, count):
            asked.append(count)
            return super().uint64(count)

    selection = ThresholdSelection(LaplaceNoise(Shift(1), Fraction(1, 2)), 9, Fraction(1, 10**3), 1, min_owners=5)
    select(selection, np.array([1, 2, 3, 4, 5, 6]), Counting())
    assert set(asked) == {2}


def test_noise_beyond_int64_decides_without_wrapping():
    noise = LaplaceNoise(Shift(1), Fraction(2**70))
    draw = select(ThresholdSelection(noise, 2**69, Fraction(1, 100), 1), np.full(500, 10))
    assert 0 < draw.kept.sum() < 250  # a chance of e^{−1/2}/2 = 0.30 each; false alarm below 1e-15
    assert (draw.noisy_owners[draw.kept] == 2**63 - 1).all()


def half_of_table(selection):
    table = keep_probabilities(selection)
    return bisect_left(range(table.sure_from), 1 << (table.bits - 1), key=table.numerator)


@pytest.mark.parametrize("delta", [Fraction(1, 10**3), Fraction(1, 10**6), Fraction(1, 10**9), Fraction(1, 7)])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(22, 7), Fraction(40)])
def test_the_half_point_is_that_of_the_table_wherever_it_is_found(epsilon, delta):
    for groups in (1, 2, 3, 5, 17, 40, 66, 101, 300):
        selection = OptimalSelection(epsilon, delta, groups, 1)
        assert half_point(selection) == half_of_table(selection)


def test_where_a_chance_is_one_half_the_table_decides():
    """δ = 1/2: the first step of every table is a half, less what rounding takes."""
    selection = OptimalSelection(Fraction(1, 32), Fraction(1, 2), 1, 1)
    assert half_point(selection) == half_of_table(selection)


def test_the_half_point_outlives_its_table(monkeypatch):
    """Planners ask for it of more selections than tables are kept."""
    selections = [OptimalSelection(Fraction(30), Fraction(1, 10**6), groups, 1) for groups in range(1, 60)]
    first = [half_point(selection) for selection in selections]
    monkeypatch.setattr(keep_tables, "keep_probabilities", None)
    assert [half_point(selection) for selection in selections] == first == sorted(first)
