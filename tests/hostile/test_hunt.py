"""The hunt finds what it hunts for: the first exact oracle, planted again, within its first hundred statements."""

from __future__ import annotations

import hunt
import pytest

from shoal.plan.expressions import InRelation
from shoal.stack import on_its_own_stack

WITHIN = 100


def found_by(look, seeds):
    """The finds of the second generator's statements, by seed."""

    def hunted():
        pair = hunt.Pair(hunt.sessions_of("second", stated=True))
        faces = {seed: hunt.faces_of(pair, look, seed, hunt.statement(seed)) for seed in seeds}
        return {seed: find for seed, seen in faces.items() if (find := hunt.judged(seen))}

    return on_its_own_stack(hunted, shared=True)


@pytest.fixture
def planted(monkeypatch):
    """Neither the binder nor the plan brings the two sides of IN (SELECT …) to one type."""
    monkeypatch.setattr(InRelation, "__post_init__", lambda _: None)
    monkeypatch.setattr("shoal.sql.functions.unified", lambda arguments, *_: list(arguments))


@pytest.mark.slow
def test_a_planted_oracle_is_found_and_nothing_else(planted):
    finds = found_by(hunt.prepared, range(1, WITHIN))
    assert finds
    assert all("a cast from" in find for find in finds.values()), finds


@pytest.mark.slow
def test_without_a_plant_the_same_statements_find_nothing():
    assert found_by(hunt.prepared, range(WITHIN - 10, WITHIN)) == {}
