"""Collections are held against what they declare, and one whose function remembers other owners is found."""

from __future__ import annotations

import builtins

import pytest

from shoal.audit.suite import pipelines, queries
from shoal.audit.suite.replay import Neighbours
from shoal.audit.suite.run import checks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not pipelines.PIPELINES, reason="cloudpickle is not installed: pip install shoal[collections]"),
]
TABLES = queries.DATABASES["few and low"]


def replayed(pipeline, owner):
    with Neighbours.of(TABLES, queries.CATALOG, owner) as pair:
        return pair.replay(lambda session: pipeline.plan(session, 1.0), ask=False)


def test_a_function_that_raises_on_one_owners_records_moves_nobody_else():
    found = replayed(pipelines.PIPELINES[0], 4)
    assert found.entries
    assert found.problems == ()


def _numbered(records):
    """State that the checks of functions cannot see: the first owner of a worker gets everything."""
    seen = getattr(builtins, "seen", 0) + 1
    vars(builtins).update(seen=seen)
    return [{"site": "a", "y": 10.0 if seen == 1 else 0.0}] * (3 if seen == 1 else 1)


def test_a_function_that_remembers_other_owners_is_found():
    made = {"site": "text", "y": "double"}
    planted = pipelines.Pipeline("planted", lambda s: s.collection("visits").per_owner(_numbered, made, most=3))
    assert replayed(planted, 1).problems


def test_every_pipeline_is_a_check():
    assert [check.name for check in checks(["collections"])] == [pipeline.name for pipeline in pipelines.PIPELINES]
