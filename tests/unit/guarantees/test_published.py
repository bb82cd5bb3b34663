"""Documented deployments: a source and a unit beside every number."""

from __future__ import annotations

import itertools

import pytest

from shoal import guarantees as g
from shoal.errors import ShoalError


def test_the_documented_rows_are_there():
    rows = {(one.organisation, one.epsilon, one.delta, one.unit) for one in g.deployments()}
    assert rows >= {
        ("Apple", 16, 0, "user-day"),
        ("Apple", 8, 0, "user-day"),
        ("Apple", 4, 0, "user-day"),
        ("Apple", 2, 0, "user-day"),
        ("Google", 1.68, 0, "user-day"),
        ("Google", 2.19, 1e-5, "user-day"),
        ("LinkedIn", 34.9, 7e-9, "user-month"),
    }


def test_every_row_has_a_source_and_a_unit_and_rows_are_sorted_within_a_unit():
    rows = g.deployments()
    assert all(one.source.count("https://") == 1 and one.model in {"central", "local"} for one in rows)
    for _, same in itertools.groupby(rows, key=lambda one: one.unit):
        losses = [one.epsilon for one in same]
        assert losses == sorted(losses)
    assert len({one.unit for one in rows}) == sum(1 for _ in itertools.groupby(rows, key=lambda one: one.unit))


def test_definitions_of_deployments_are_entries_of_the_catalogue():
    from shoal import definitions

    assert all(definitions.get(one.definition) for one in g.deployments())


def test_the_power_against_a_gaussian_claim_is_its_trade_off_curve():
    assert g.power(0.05, g.Gaussian(1)) == pytest.approx(0.2595110, rel=1e-6)
    assert g.power(0.05, g.GaussianNoise(2, 2)) == g.power(0.05, g.Gaussian(1))
    assert (g.power(0, g.Gaussian(1)), g.power(1, g.Gaussian(1))) == (0, 1)
    with pytest.raises(ShoalError, match="E_UNSUPPORTED"):
        g.power(0.05, g.ZeroConcentrated(1))
    with pytest.raises(ShoalError, match="E_OPTION_INVALID"):
        g.power(2, g.Gaussian(1))
