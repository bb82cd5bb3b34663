"""Ten thousand budgets: the rationals really sampled keep every inequality, and one owner alone stays below δ."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from test_groups import broken_inequalities

from shoal.accounting.events import OptimalSelection
from shoal.mechanisms.calibrate import delta_per_group
from shoal.mechanisms.selection.keep_tables import keep_probabilities

TRIPLES = 10_000
SHARDS = 8


def triples(shard):
    """Random (ε, δ, κ): ε from 10⁻¹⁰ to 10³, δ from 10⁻¹² to 0.1, κ from 1 to 10,000, on logarithmic scales."""
    rng = np.random.default_rng(shard)
    for _ in range(TRIPLES // SHARDS):
        groups = int(10 ** rng.uniform(0, 4)) if rng.random() < 0.7 else 1
        exponent = rng.uniform(-10, 3) if rng.random() < 0.2 else rng.uniform(-1.2, 2) + np.log10(groups)
        yield Fraction(float(10**exponent)), Fraction(float(10 ** rng.uniform(-12, -1))), groups


def places(table):
    """All n of a short table; of a long one the ends, the middle and some more, with their neighbours."""
    if table.sure_from <= 1000:
        return [range(table.sure_from + 2)]
    rng = np.random.default_rng(table.sure_from % 2**32)
    crossing = getattr(table, "crossing", table.sure_from // 2)
    centres = [1, crossing, table.sure_from, *(int(rng.random() * table.sure_from) for _ in range(3))]
    return [range(max(0, centre - 2), centre + 3) for centre in centres]


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_budget_keeps_the_four_inequalities_and_hides_one_owner(shard):
    for epsilon, delta, groups in triples(shard):
        table = keep_probabilities(OptimalSelection(epsilon, delta, groups))
        single = delta_per_group(delta, groups)
        alone = Fraction(table.numerator(1), 1 << table.bits)
        assert alone <= single
        if groups <= 64:
            assert 1 - (1 - alone) ** groups <= delta
        assert alone >= single * (1 - Fraction(1, 2**59))
        for window in places(table):
            numerators = [table.numerator(n) for n in window]
            assert not broken_inequalities(numerators, table.bits, epsilon / groups, single)
