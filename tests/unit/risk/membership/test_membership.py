"""What the holder of a sketch learns about a target."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from shoal import risk
from shoal.errors import ShoalError
from shoal.risk.membership.ratios import ratio_table
from shoal.risk.membership.without_key import places_of_target, ratios_at
from shoal.risk.sketch.owner_sets import OwnerBatch, OwnerSets

KEY = b"a secret of the operator"


def sketch_of(owners, values=None):
    sketch = risk.Sketch(key=KEY)
    sketch.update([0] * len(owners) if values is None else values, owners)
    return sketch


def test_a_list_of_owners_decides():
    sketch = sketch_of(["ann", "bob"])
    there, gone = risk.membership(sketch, "ann", prior=0.01), risk.membership(sketch, "eve", prior=0.99)
    assert there.likelihood_ratio == 2.0**63
    assert there.posterior > 0.999999
    assert gone.posterior == 0.0


def test_registers_never_say_that_an_owner_inside_is_absent():
    sketch = sketch_of(list(range(3000)))
    ratios = [risk.membership(sketch, owner).likelihood_ratio for owner in range(0, 3000, 50)]
    assert min(ratios) > 0.9
    strangers = [risk.membership(sketch, owner).posterior for owner in range(10_000, 10_100)]
    assert strangers.count(0.0) > 20


def test_a_value_that_was_kept_or_cannot_have_been_there_tells():
    sketch = sketch_of(["ann", "bob"], ["Oslo", "Riga"])
    assert risk.membership(sketch, "ann", value="Oslo").posterior > 0.999
    assert risk.membership(sketch, "ann", value="Riga").posterior == 0.0
    assert risk.membership(sketch, "ann", value="Rome").why.startswith("the value is not in the data")


def test_a_value_above_the_sample_says_nothing():
    sketch = risk.Sketch(k=16, key=KEY)
    sketch.update([f"v{i}" for i in range(500)], ["ann"] * 500)
    found = [risk.membership(sketch, "ann", value=f"v{i}", prior=0.3) for i in range(500)]
    unsampled = [one for one in found if one.likelihood_ratio == 1.0]
    assert len(unsampled) > 400
    assert all(one.posterior == pytest.approx(0.3) for one in unsampled)
    assert sum(one.posterior > 0.999 for one in found) == 16


def test_the_ratios_of_a_register_are_those_of_the_definition():
    """F_k(c) in plain powers, for a size at which they do not cancel."""
    m, n = 16, 20
    table = ratio_table(m, n)

    def f(k, c):
        return (1 - 2.0**-c / m) ** k

    for rho in range(1, 8):
        assert table[rho - 1, rho] == 0
        assert table[rho, rho] == pytest.approx(f(n - 1, rho) / (f(n, rho) - f(n, rho - 1)))
        for c in range(rho + 1, 12):
            expected = (f(n - 1, c) - f(n - 1, c - 1)) / (f(n, c) - f(n, c - 1))
            assert table[c, rho] == pytest.approx(expected)


@pytest.mark.slow
def test_posteriors_are_calibrated():
    """8 buckets, 20 owners, 400,000 draws, the target inside in half of them: in every bin the posterior is the truth.

    A bin has at least 20,000 draws, so half a point is 1.4 standard errors at worst; the seed is fixed.
    """
    rng = np.random.default_rng(7)
    draws, buckets, owners = 400_000, 8, 20
    place = rng.integers(0, buckets, (draws, owners))
    rank = np.minimum(rng.geometric(0.5, (draws, owners)), 49)
    inside = rng.random(draws) < 0.5
    target_place = np.where(inside, place[:, 0], rng.integers(0, buckets, draws))
    target_rank = np.where(inside, rank[:, 0], np.minimum(rng.geometric(0.5, draws), 49))
    register = np.where(place == target_place[:, None], rank, 0).max(axis=1)
    ratios = ratio_table(buckets, owners)[register, target_rank]
    beliefs = ratios / (1 + ratios)
    cuts = np.quantile(beliefs[beliefs > 0], np.linspace(0, 1, 9))
    for low, high in pairwise(np.unique(np.concatenate(([0.0], cuts[1:-1], [1.0001])))):
        chosen = (beliefs >= low) & (beliefs < high)
        if chosen.sum() >= 20_000:
            assert abs(beliefs[chosen].mean() - inside[chosen].mean()) < 0.005
    assert not inside[beliefs == 0].any()


def test_without_the_key_agreeing_sketches_find_the_target():
    with_target = [sketch_of([f"other {i} {j}" for j in range(800)] + ["ann"]) for i in range(12)]
    there = sketch_of([f"more {j}" for j in range(800)] + ["ann"])
    gone = sketch_of([f"more {j}" for j in range(801)])
    assert risk.membership_without_key(with_target, there).likelihood_ratio > 1
    assert risk.membership_without_key(with_target, gone).posterior < 0.2
    alone = risk.membership_without_key(with_target[:1], there)
    assert 0.4 < alone.posterior < 0.75


def test_without_the_key_lists_are_intersected():
    lists = [sketch_of(["ann", f"other {i}"]) for i in range(3)]
    assert risk.membership_without_key(lists, sketch_of(["ann", "eve"])).posterior > 0.999
    assert risk.membership_without_key(lists, sketch_of(["bob", "eve"])).posterior == 0.0
    registers = sketch_of([f"more {j}" for j in range(2000)] + ["ann"])
    assert risk.membership_without_key(lists, registers).likelihood_ratio == pytest.approx(
        risk.membership(registers, "ann").likelihood_ratio
    )


def test_a_list_against_registers_counts_the_hashes_in_each_place():
    dense, short = OwnerSets(64, count=1), OwnerSets(64, count=1)
    hashes = np.random.default_rng(3).integers(0, 2**64, 300, dtype=np.uint64)
    dense.fill(OwnerBatch(hashes))
    short.fill(OwnerBatch(hashes[:5]))
    places = places_of_target([dense])
    assert places.chances.sum() == pytest.approx(1)
    ratios = ratios_at(places, short)
    assert np.count_nonzero(ratios) <= 5
    assert ratios.max() > 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: risk.membership(sketch_of(["ann"]), "ann", prior=0),
        lambda: risk.membership(sketch_of(["ann"]), "ann", prior=1),
        lambda: risk.membership(sketch_of(["ann"]), None),
        lambda: risk.membership("sketch", "ann"),
        lambda: risk.membership_without_key([], sketch_of(["ann"])),
        lambda: risk.membership_without_key([sketch_of(["ann"])], risk.Sketch(key=b"another key")),
        lambda: risk.membership_without_key([sketch_of(["ann"]), sketch_of(["bob"])], sketch_of(["ann"])),
        lambda: risk.smallest_error(1, 100, 50),
        lambda: risk.smallest_error(-1, 100, 1000),
        lambda: risk.smallest_error(1, 100, 1000, delta=1),
        lambda: risk.smallest_error(1, 0, 1000),
        lambda: risk.sketch_loss(500, 1000),
    ],
)
def test_bad_questions_are_refused(call):
    with pytest.raises(ShoalError) as refused:
        call()
    assert refused.value.code in {"E_USAGE", "E_SKETCH"}


def test_a_sketch_of_rows_says_nothing_about_owners():
    sketch = risk.Sketch(key=KEY)
    sketch.update([1, 2, 3])
    with pytest.raises(ShoalError, match="counts rows"):
        risk.membership(sketch, 1)


@pytest.mark.parametrize(
    ("registers", "owners", "average", "expected", "accuracy"),
    [(32768, 10_000, 2.6235, 2.4152, 0.9104), (512, 1000, 1.0196, 0.7162, 0.6742)],
)
def test_losses_of_a_sketch_are_the_independent_numbers(registers, owners, average, expected, accuracy):
    loss = risk.sketch_loss(registers, owners)
    assert loss.average == pytest.approx(average, abs=1e-4)
    assert loss.expected == pytest.approx(expected, abs=1e-4)
    assert loss.accuracy == pytest.approx(accuracy, abs=1e-4)


def test_shares_above_a_loss_fall_and_cover_everybody_at_zero():
    loss = risk.sketch_loss(512, 1000)
    assert loss.share_above(0.0) == pytest.approx(1)
    assert loss.share_above(1) == pytest.approx(0.25)
    assert loss.share_above(50) < 1e-15
    assert math.isinf(risk.sketch_loss(512, 0).expected)


@pytest.mark.parametrize(
    ("epsilon", "above", "owners", "expected"),
    [(1, 100, 1000, 0.0874), (1, 500, 10_000, 0.1962), (2, 100, 10_000, 2.2863)],
)
def test_what_no_mergeable_private_sketch_can_avoid(epsilon, above, owners, expected):
    assert risk.smallest_error(epsilon, above, owners) == pytest.approx(expected, abs=1e-4)


def test_the_smallest_error_of_enormous_sets_is_still_a_number():
    assert risk.smallest_error(1, 1, 10**12) == math.inf
    assert risk.smallest_error(1, 10**12, 10**12) == 0.0


# Slips of the literature: each of these fails when the old statement is put in place of ours.


def test_ignored_newcomers_follow_from_the_definition_at_once():
    """1 ≤ e^ε·P[unchanged | absent] + δ: the chance is (1 − δ)e^{−ε}, not (½ − δ)e^{−ε}, and the bound is larger for it."""
    epsilon, delta, above, owners = 1.0, 0.01, 100, 1000

    def bound(ignored):
        c = 1 - ignored
        return math.sqrt(max((1 - c**k) / c**k * (owners - k * above) for k in range(1, owners // above + 1))) / owners

    ours = risk.smallest_error(epsilon, above, owners, delta=delta)
    assert ours == pytest.approx(bound((1 - delta) * math.exp(-epsilon)))
    assert ours > 1.1 * bound((0.5 - delta) * math.exp(-epsilon))


def test_averaging_the_loss_buys_nothing():
    """KL(present ‖ absent) ≥ ln(1/P[unchanged | absent]): the newcomer is ignored with e^{−ε}, not with e^{−4ε}/4."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        absent = rng.dirichlet(np.ones(6))
        present = np.append(rng.dirichlet(np.ones(3)), [0, 0, 0])  # the first three outcomes are "unchanged"
        loss = float((present[:3] * np.log(present[:3] / absent[:3])).sum())
        assert absent[:3].sum() >= math.exp(-loss) * (1 - 1e-9)
    half = np.array([0.5, 0.5])
    attained = float((1.0 * np.log(1.0 / half[:1])).sum())
    assert half[0] == pytest.approx(math.exp(-attained))
    assert half[0] > 1.5 * math.exp(-4 * attained) / 4


def test_the_bound_speaks_of_more_owners_than_are_protected():
    with pytest.raises(ShoalError, match="at least above"):
        risk.smallest_error(1, 1000, 100)
    assert risk.smallest_error(1, 100, 1000) > 0


def test_a_thousand_users_nearly_always_have_a_rank_of_eight():
    """ "98% that some of 1000 users has rank ≥ 8" is 99.96%; 98% is rank ≥ 9."""
    at_least = {rank: 1 - (1 - 2.0 ** (1 - rank)) ** 1000 for rank in (8, 9)}
    assert at_least[8] == pytest.approx(0.9996, abs=1e-4)
    assert at_least[9] == pytest.approx(0.98, abs=1e-3)
