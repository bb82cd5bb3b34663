"""The attack on shared sketches."""

from __future__ import annotations

import pytest

from shoal import risk
from shoal.audit.attacks import sketches
from shoal.errors import ShoalError


def test_a_key_in_the_wrong_hands_is_no_key_and_a_private_sketch_holds():
    found = sketches(known_sketches=10)
    told = risk.sketch_loss(4096, 1000).accuracy
    assert told == pytest.approx(0.9265, abs=1e-4)
    assert found.curator("public hash").accuracy == pytest.approx(told, abs=0.01)
    assert found.curator("secret key, and").accuracy == pytest.approx(told, abs=0.01)
    assert found.curator("secret key, 10").accuracy == pytest.approx(0.905, abs=0.08)
    # 40,000 targets: the true share is 71.3%, and e/(1 + e) is eight standard errors away
    assert found.curator("private sketch").accuracy <= 0.7311
    assert found.curator("private sketch").decided == 0.0
    assert found.curator("public hash").decided > 0.5


@pytest.mark.parametrize(("known", "expected"), [(1, 0.50), (3, 0.75)])
def test_more_sketches_that_hold_the_target_undo_a_secret_key(known, expected):
    found = sketches(known_sketches=known)
    assert found.curators[2].accuracy == pytest.approx(expected, abs=0.08)


@pytest.mark.parametrize("words", [{"registers": 1000}, {"owners": 1}, {"known_sketches": 0}, {"registers": 8}])
def test_impossible_sketches_are_refused(words):
    with pytest.raises(ShoalError) as refused:
        sketches(**words)
    assert refused.value.code == "E_USAGE"
