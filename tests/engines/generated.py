"""Generated queries asked of the embedded engine and of another one: the same refusal, or the same integers under one key."""

from __future__ import annotations

import sys
from pathlib import Path

from questions import by_keys

from shoal.engines.deadline import Deadline
from shoal.errors import ShoalError
from shoal.mechanisms.entropy import seeded_entropy
from shoal.release.bounds_per_group import release_by_group
from shoal.release.execute import fresh_sampling_key, measure

sys.path.append(str(Path(__file__).parent.parent / "hostile"))
from fuzz_grammar import Grammar


class SameTotals:
    """Asks two engines, and compares; what follows from the answer is the same for both."""

    def __init__(self, embedded, other):
        self._embedded, self._other, self.asked = embedded, other, 0

    def totals(self, query, key):
        here, there = self._embedded.totals(query, key), self._other.totals(query, key)
        assert by_keys(there) == by_keys(here)
        assert there.keys.schema.types == here.keys.schema.types
        self.asked += 1
        return here


def planned(session, sql):
    """The plan, or the whole text of the refusal."""
    try:
        return session.plan(sql)
    except ShoalError as error:
        return str(error)


def compared(seed, here, there):
    """How many totals of a generated query were the same on two sessions; 0 where it is refused, or reads nothing private."""
    sql = Grammar(seed).query()
    if " WITH POLICY " in sql:
        return 0
    plan, other = planned(here, sql), planned(there, sql)
    if isinstance(plan, str) or isinstance(other, str):
        assert other == plan, sql
        return 0
    if not plan.selects:
        return 0
    select, key = plan.selects[0], fresh_sampling_key(seeded_entropy(seed))
    with here._engine.snapshot(Deadline(600)) as embedded, there._engine.snapshot(Deadline(600)) as taken:
        both = SameTotals(embedded, taken)
        if select.finds_bounds_per_group:
            release_by_group(select, both, key, seeded_entropy(seed))
        else:
            measure(select, both, key, seeded_entropy(seed))
    assert both.asked, sql
    return both.asked
