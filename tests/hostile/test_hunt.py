"""The hunt finds what it hunts for: the first exact oracle, planted again, within its first hundred statements."""

from __future__ import annotations

from pathlib import Path

import hunt
import packed_hunt
import pytest

from shoal.plan.expressions import InRelation
from shoal.stack import on_its_own_stack

WITHIN = 100
WITHIN_TOGETHER = 4


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


def found_together(seeds):
    """The finds of statements with many expressions each."""

    def hunted():
        pair = packed_hunt.Neighbours(hunt.sessions_of("second", stated=True))
        found = hunt.Hunt(Path("nowhere"), 0)
        for seed in seeds:
            found.next_seed = seed
            packed_hunt.one(found, pair, packed_hunt.of_the_second(seed), ask=False)
        return found

    return on_its_own_stack(hunted, shared=True)


@pytest.mark.slow
def test_a_planted_oracle_is_found_among_many_expressions_and_cut_down_to_one(planted):
    found = found_together(range(WITHIN_TOGETHER, 2 * WITHIN_TOGETHER))
    assert found.finds
    for find in found.finds.values():
        assert "a cast from" in find
        assert find.count("CASE WHEN") < packed_hunt.EXPRESSIONS


@pytest.mark.slow
def test_without_a_plant_the_same_expressions_are_computed_on_both_neighbours():
    found = found_together(range(WITHIN_TOGETHER))
    assert found.finds == {}
    assert found.asked["expressions computed on both"] > found.asked["expressions written"] // 2


def test_a_refusal_is_blamed_on_what_stands_in_its_line():
    branch = packed_hunt.Branch("uid", "people", "", ("n", "n < n < n", "r"))
    packed = packed_hunt.Packed((), (branch, branch))
    lines = packed.sql().split("\n")
    for number, line in enumerate(lines, start=1):
        blamed = packed.blamed(number)
        assert (blamed is not None and blamed[1] is not None) == line.startswith("+ CASE"), line
    assert packed.without(1, 1).branches == (branch, packed_hunt.Branch("uid", "people", "", ("n", "r")))
    assert packed.without(0, None).branches == (branch,)


FAILS_IN_THE_ENGINE = """
WITH joined (uid, year, kind, amount, hour, month) AS (
    SELECT uid, 12 + e.year, TRIM(TRAILING 'é' FROM r.kind), e.amount, r.hour, e.month
    FROM events AS e NATURAL RIGHT OUTER JOIN recent AS r)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) SUM(x, contribution_bounds_per_group => (0, 1)) AS found FROM (
    SELECT a.uid, 0
        + CASE WHEN SAFE_CAST(a.amount AS NUMERIC) IS NULL THEN 0 ELSE 1 END
        + CASE WHEN DATE_TRUNC(a.month, YEAR) IS NULL THEN 0 ELSE 1 END
        + CASE WHEN DATETIME_ADD(a.hour, INTERVAL 1 MONTH) IS NULL THEN 0 ELSE 1 END
        + CASE WHEN CAST(a.kind AS TIME) IS NULL THEN 0 ELSE 1 END AS x
    FROM joined AS a JOIN joined AS b USING (uid) WHERE a.year = ANY (SELECT p.r FROM places AS p))
"""


@pytest.mark.slow
def test_an_outer_join_that_the_engine_could_fail_on_looks_alike_on_neighbours():
    """DuckDB 2.0.0 has a join that fails on rows as an outer join brings them (docs/results/hunt.md)."""
    faces = [hunt.seen(hunt.asked, session, FAILS_IN_THE_ENGINE) for session in hunt.sessions_of("second", stated=True)]
    assert hunt.judged(faces) == ""
