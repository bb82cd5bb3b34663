"""A catalogue of planted bugs: each was shipped by a real system, is patched into our own code, and must set off an alarm.

An alarm is a function that looks at the code as it stands and says whether something is wrong. The same alarm has to stay quiet
on the healthy code and to ring on the mutant, so that no mutant is killed by an alarm that always rings.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from shoal.accounting.events import LaplaceNoise, Shift
from shoal.accounting.ledger import Ledger
from shoal.audit import check
from shoal.audit.suite.replay import replay, without_owner
from shoal.catalog import Catalog
from shoal.engines.duckdb.engine import DuckDBEngine
from shoal.engines.sources import open_source
from shoal.errors import InternalError, ShoalError
from shoal.mechanisms.entropy import seeded_entropy
from shoal.release.execute import fresh_sampling_key, measure
from shoal.session import Session

PLAN_CHECK = "plan check"
EXACT = "exact mathematics"
REPLAY = "replay on neighbours"
ALIKE = "neighbours look alike"
TESTER = "stochastic tester"
REFUSAL = "refusals"
INVARIANT = "invariant"
LAYERS = {
    PLAN_CHECK: "the loss of a finished plan is computed again from what will be run; more than was asked stops it",
    EXACT: "tails and keep probabilities of the noise that is really drawn, in exact or outward-rounded arithmetic",
    REPLAY: "what one owner moves is held against what each mechanism declared",
    ALIKE: "status, error text, charge, columns and types are the same with and without an owner",
    TESTER: "samples on two neighbours; a violation is certain up to a chance of 10⁻⁶",
    REFUSAL: "what must be refused before any data is read",
    INVARIANT: "a property that every release has",
}

LAPLACE = "epsilon=1, delta=0.01, max_groups_contributed=2, noise=LAPLACE"
THRESHOLD = f"{LAPLACE}, group_selection_strategy=LAPLACE_THRESHOLD"


@dataclass(frozen=True)
class Bug:
    """A bug that was shipped, our mutant of it, and the alarm of the layer that is meant to catch it."""

    shipped: str
    mutant: str
    layer: str
    alarm: Callable[[], bool]
    plant: Callable[[pytest.MonkeyPatch], None]

    @property
    def name(self) -> str:
        return self.plant.__name__


CATALOGUE: list[Bug] = []


def planted(shipped, mutant, layer, alarm):
    """Enters a function that patches a bug in."""

    def enter(plant):
        CATALOGUE.append(Bug(shipped, mutant, layer, alarm, plant))
        return plant

    return enter


def forget_everything():
    """Empties every cache of the package: a mutant must not see, nor leave behind, numbers of another code."""
    for name, module in list(sys.modules.items()):
        if name == "shoal" or name.startswith("shoal."):
            for value in list(vars(module).values()):
                if callable(getattr(value, "cache_clear", None)) and not isinstance(value, type):
                    value.cache_clear()


# ---- data and queries --------------------------------------------------------------------------------------------

CATALOG = {
    "tables": {
        "visits": {"owner": "uid"},
        "customers": {"owner": "uid"},
        "names": {"owner": "uid"},
        "regions": {"public": True},
    }
}


def _tables():
    rng = np.random.default_rng(0)
    rows = 60
    busy = [1e9, -1e9, 7.5, np.inf, 0.0, 1.0, 2.0, 3.0, 4.0]
    return {
        "visits": pa.table(
            {
                "uid": np.append(rng.integers(0, 8, rows), [8] * 9),
                "site": np.append(rng.choice(list("abcde"), rows), list("abcdefghi")),
                "spend": np.append(np.round(rng.normal(20, 30, rows), 2), busy),
                "steps": np.append(rng.integers(0, 50, rows), [2**40] * 9),
            }
        ),
        "customers": pa.table({"uid": np.arange(9), "region": rng.choice(["north", "south"], 9)}),
        "names": pa.table({"uid": list("aaaaAAAAccccb"), "site": list("pqrstuvwpqrsp")}),
        "regions": pa.table({"region": ["north", "south", "east"], "part": [1, 2, 3]}),
    }


TABLES = _tables()
BUSY_OWNER = 8
"""An owner in nine groups, with outliers."""


def private(*items, options="epsilon=1, delta=0.01, max_groups_contributed=2", source="visits", group="site"):
    keys = [group] if group else []
    grouped = f" GROUP BY {group}" if group else ""
    columns = ", ".join([*keys, *items])
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) {columns} FROM {source}{grouped}"


ROWS = "COUNT(*, contribution_bounds_per_group => (0, 3)) AS n"
OWNERS = "COUNT(DISTINCT uid) AS n"
TOTAL = "SUM(spend, contribution_bounds_per_group => (-5, 50)) AS total"
MEAN = "AVG(spend, contribution_bounds_per_group => (0, 50)) AS mean"
SPREAD = "VAR_POP(spend, contribution_bounds_per_row => (0, 50), max_contributions_per_group => 3) AS spread"
WHOLE = {"group": None, "options": "epsilon=1"}


def session(tables=TABLES, catalog=CATALOG, budget=None):
    return Session(open_source(dict(tables)), Catalog.load(catalog), Ledger.in_memory(budget))


# ---- alarms ------------------------------------------------------------------------------------------------------


def stops_the_plan(sql):
    """The plan is not let through."""

    def alarm():
        with session() as asked:
            try:
                asked.plan(sql)
            except InternalError:
                return True
        return False

    return alarm


def moves_too_far(sql, tables=TABLES, owner=BUSY_OWNER, catalog=CATALOG, sampling_keys=1):
    """One owner moves some mechanism by more than it declared."""

    def alarm():
        neighbour = without_owner(tables, catalog, owner)
        found = [replay(sql, tables, neighbour, catalog, seed) for seed in range(sampling_keys)]
        return any(not entry.holds for each in found for entry in each.entries)

    return alarm


def looks_different(sql, tables, neighbour, catalog=CATALOG):
    """An analyst can tell two databases apart without looking at values."""

    def face(data):
        with session(data, catalog) as asked:
            try:
                return str(asked.query(sql).to_arrow().schema.remove_metadata()), asked.spent
            except ShoalError as error:
                return str(error), asked.spent

    return lambda: face(tables) != face(neighbour)


def is_not_refused(code, sql, catalog=CATALOG):
    """A query is let through, or refused for another reason."""

    def alarm():
        with session(catalog=catalog) as asked:
            try:
                asked.plan(sql)
            except ShoalError as error:
                return error.code != code
        return True

    return alarm


def is_caught_sampling(mechanism, epsilon=1.0, delta=0.0, samples=20_000, **options):
    """The tester proves a violation."""
    return lambda: not check(mechanism(), epsilon, delta, samples=samples, **options).passed


def measured(sql, tables=TABLES):
    """A plan of one SELECT, and the exact integers that enter its mechanisms."""
    with session(tables) as asked:
        plan = asked.plan(sql).selects[0]
        key = fresh_sampling_key(seeded_entropy(1))
        return plan, measure(plan, asked._engine, key, seeded_entropy(1))


def totals_of(tables, sql):
    """Groups with their exact integers, before any noise."""
    exact = measured(sql, tables)[1].measurement
    groups = [tuple(row.values()) for row in exact.keys.to_pylist()] or [()]
    return dict(zip(groups, zip(exact.owners.tolist(), *(t.tolist() for t in exact.totals), strict=True), strict=True))


def by_sql(patch):
    """Measure by SQL statements, so that patches of them are what is run."""
    patch.setattr(DuckDBEngine, "totals", DuckDBEngine.measure_by_sql)


def with_changed_question(patch, change):
    """The engine is asked something else than the plan says."""
    honest = DuckDBEngine.totals
    patch.setattr(DuckDBEngine, "totals", lambda engine, query, key: honest(engine, change(query), key))


UNIT = LaplaceNoise(Shift(1), Fraction(1))
