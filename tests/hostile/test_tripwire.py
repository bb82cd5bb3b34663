"""Oracles that are planted on purpose: whatever still fails on demand fails once, and tells nothing more."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import shoal
from planted_engine import PlantedEngine
from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.engines.base import EngineFailure
from shoal.engines.deadline import Deadline
from shoal.params import Budget
from shoal.release.execute import execute

CATALOG = {"tables": {"people": {"owner": "uid"}, "places": {"public": True}}}
TABLES = {
    "people": pa.table({"uid": np.arange(50), "income": np.arange(50) * 100.0}),
    "places": pa.table({"place": ["north", "south"]}),
}
COUNT = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.01) COUNT(DISTINCT uid) AS n FROM people WHERE income > {}"
)
PUBLIC = "SELECT COUNT(*) AS n FROM places"


class Remembered:
    """An engine that is asked once, however many threads ask: a thousand real measurements would take a minute."""

    def __init__(self, engine) -> None:
        self._engine, self._lock, self._answer = engine, threading.Lock(), None

    def totals(self, *arguments):
        with self._lock:
            self._answer = self._answer or self._engine.totals(*arguments)
        return self._answer

    def __getattr__(self, name):
        return getattr(self._engine, name)


def fails_when(wrong, error=EngineFailure):
    """A check that fails whenever the condition holds."""

    def check():
        if wrong():
            raise error

    return check


def opened(before=lambda: None, **options):
    session = shoal.connect(TABLES, catalog=CATALOG, **options)
    session._engine = PlantedEngine(session._engine, before)
    return session


def told(session, sql):
    """All that an analyst sees of a query: 'answered', or the whole text of the error."""
    try:
        session.query(sql)
    except shoal.ShoalError as error:
        return str(error)
    return "answered"


@pytest.mark.parametrize("error", [EngineFailure, MemoryError, RecursionError, ValueError, TimeoutError])
def test_an_oracle_that_fails_on_demand_answers_one_question_only(error):
    """Binary search for an income by failures: the first failure is the last thing that is told."""
    secret, asked = 1234, []
    session = opened(fails_when(lambda: asked[-1] < secret, error), budget=(3, 1e-6))
    replies = []
    for guess in (2000, 1500, 1000, 1250, 1125, 1200):
        asked.append(guess)
        replies.append(told(session, COUNT.format(guess)))
    assert replies[:2] == ["answered", "answered"]
    assert replies[2].startswith("E_EXECUTION")
    assert len(set(replies[3:])) == 1
    assert replies[3].startswith("E_SUSPENDED")
    assert session.spent[0] == pytest.approx(0.03)
    assert asked[-1] < secret


def test_a_refusal_of_a_suspended_user_is_free_and_says_the_same_whatever_is_asked():
    session = opened(fails_when(lambda: True), budget=(3, 1e-6))
    told(session, COUNT.format(1))
    spent, entries = session.spent, len(session.ledger.entries())
    assert len({told(session, COUNT.format(guess)) for guess in range(5)}) == 1
    assert (session.spent, len(session.ledger.entries())) == (spent, entries)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("clients", "failing"), [(1000, range(1000)), (200, range(100, 101))], ids=["all fail", "one fails"]
)
def test_many_queries_at_once_tell_of_one_failure_and_no_more(clients, failing):
    """Fewer where most are answered: each answer costs as much as twenty failures."""
    everybody, numbers, lock = threading.Barrier(clients), iter(range(clients)), threading.Lock()

    def together():
        with lock:
            number = next(numbers)
        everybody.wait()
        if number in failing:
            raise EngineFailure

    session = opened()
    ledger = Ledger.in_memory(Budget(Fraction(100), Fraction(0)))
    plan = session.plan(COUNT.format(100))
    answered_before = Remembered(session._engine._engine)
    replies = Counter()

    def ask():
        try:
            execute(plan, PlantedEngine(answered_before, together), ledger, "ann")
            reply = "answered"
        except shoal.ShoalError as error:
            reply = error.code
        with lock:
            replies[reply] += 1

    run_all([threading.Thread(target=ask) for _ in range(clients)])
    states = Counter(entry.state for entry in ledger.entries())
    assert replies["E_EXECUTION"] == states["failed"] == 1
    assert replies["E_SUSPENDED"] == states["withheld"] == clients - 1 - replies["answered"]
    assert replies["answered"] == states["answered"]
    if len(failing) == clients:
        assert replies["answered"] == 0
    assert ledger.spent[0] == Fraction(clients, 100)
    assert [s.user for s in ledger.suspensions()] == ["ann"]


def run_all(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_run_that_ends_while_its_user_is_suspended_is_withheld_though_it_has_an_answer():
    ledger_holder = []
    session = opened(lambda: suspend(ledger_holder[0]), budget=(3, 1e-6))
    ledger_holder.append(session.ledger)
    assert told(session, COUNT.format(1)).startswith("E_SUSPENDED")
    assert [e.state for e in session.ledger.entries()] == ["withheld", "failed"]
    assert session.spent[0] > 0.01


def suspend(ledger):
    if not ledger.suspensions():
        ledger.reserve(Loss(Fraction(1, 100), Fraction(0))).fail()


def test_another_user_of_the_same_ledger_may_ask(tmp_path):
    path = tmp_path / "ledger.db"
    failing = opened(fails_when(lambda: True), budget=(3, 1e-6), ledger=path, user="ann")
    assert told(failing, COUNT.format(1)).startswith("E_EXECUTION")
    for user, reply in (("ann", "E_SUSPENDED"), ("bob", "answered"), (None, "answered")):
        assert told(opened(ledger=path, user=user), COUNT.format(1)).startswith(reply)


def test_after_a_lift_the_user_may_ask_again(tmp_path):
    path = tmp_path / "ledger.db"
    session = opened(fails_when(lambda: True), budget=(3, 1e-6), ledger=path, user="ann")
    told(session, COUNT.format(1))
    Ledger.open(path).lift("ann", because="looked at the query")
    assert told(session, COUNT.format(1)).startswith("E_EXECUTION")
    assert told(session, COUNT.format(1)).startswith("E_SUSPENDED")


@contextmanager
def closed(_deadline):
    raise EngineFailure
    yield


def test_what_happens_before_the_charge_suspends_nobody():
    session = opened(budget=(3, 1e-6))
    session._engine.snapshot = closed
    refused = [COUNT.format("nonsense("), "SELECT income FROM people", COUNT.format(1)]
    assert all(told(session, sql) != "answered" for sql in refused)
    del session._engine.snapshot
    assert told(session, COUNT.format(1)) == "answered"


def test_queries_over_public_tables_suspend_nobody_and_are_answered_to_the_suspended(monkeypatch):
    session = opened(fails_when(lambda: True), budget=(3, 1e-6))
    passed = Deadline(1)
    passed.spend(1)
    with monkeypatch.context() as patched:
        patched.setattr("shoal.release.execute.Deadline", lambda _: passed)
        assert told(session, PUBLIC).startswith("E_EXECUTION")
    assert session.ledger.suspensions() == []
    told(session, COUNT.format(1))
    assert len(session.ledger.suspensions()) == 1
    assert told(session, PUBLIC) == "answered"


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_run_that_is_cancelled_stays_charged_and_suspends_nobody(stop):
    session = opened(fails_when(lambda: True, stop), budget=(3, 1e-6))
    with pytest.raises(stop):
        session.query(COUNT.format(1))
    assert [e.state for e in session.ledger.entries()] == ["cancelled"]
    assert session.spent[0] == pytest.approx(0.01)
    assert session.ledger.suspensions() == []


def test_a_session_without_a_budget_is_suspended_too():
    session = opened(fails_when(lambda: True))
    assert told(session, COUNT.format(1)).startswith("E_EXECUTION")
    assert told(session, COUNT.format(1)).startswith("E_SUSPENDED")


# ---- the floor -----------------------------------------------------------------------------------------------------

CHEAP = COUNT.replace("0.01", "0.0099").format(1)


def test_a_query_below_the_floor_is_refused_for_nothing_where_there_is_a_budget():
    session = opened(budget=(3, 1e-6))
    reply = told(session, CHEAP)
    assert reply.startswith("E_POLICY")
    assert "0.01" in reply
    assert session.ledger.entries() == []
    assert told(session, COUNT.format(1)) == "answered"


def test_private_selects_reach_the_floor_together():
    cheap = CHEAP.replace("0.0099", "0.006")
    assert told(opened(budget=(3, 1e-6)), f"{cheap} UNION ALL {cheap}") == "answered"


def test_without_a_budget_there_is_no_floor_unless_the_catalog_has_one():
    assert told(opened(), CHEAP) == "answered"
    strict = {**CATALOG, "defaults": {"min_epsilon_per_query": 0.1}}
    with shoal.connect(TABLES, catalog=strict) as session:
        assert told(session, COUNT.format(1)).startswith("E_POLICY")
        assert session.epsilon_for(COUNT.format(1), error=1e6) == 0.1


def test_the_catalog_may_lower_the_floor():
    lax = {**CATALOG, "defaults": {"min_epsilon_per_query": 0.001}}
    with shoal.connect(TABLES, catalog=lax, budget=(3, 1e-6)) as session:
        assert told(session, CHEAP) == "answered"


DIES = """
import os, sys, pyarrow, shoal
from shoal.engines.duckdb.engine import DuckDBEngine
if sys.argv[3] == "dies":
    DuckDBEngine.totals = lambda *arguments, **options: os._exit(9)
session = shoal.connect({"t": pyarrow.table({"uid": range(100)})}, catalog={"tables": {"t": {"owner": "uid"}}},
    budget=(3, 1e-5), ledger=sys.argv[1], user="eve")
sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1) COUNT(DISTINCT uid) AS n FROM t"
try:
    session.query(sql, key=sys.argv[2] or None)
except shoal.ShoalError as error:
    print(error.code)
"""


@pytest.mark.parametrize("key", ["", "mine"])
def test_a_process_that_dies_suspends_its_user_with_a_key_too(tmp_path, key):
    """Nobody takes up what a session asked under a key, so a new key for each death would have been an oracle without end."""

    def run(key, ending):
        arguments = [sys.executable, "-c", DIES, str(tmp_path / "l.ledger"), key, ending]
        return subprocess.run(arguments, capture_output=True, text=True, check=False)

    assert run(key, "dies").returncode == 9
    assert run("another", "lives").stdout.strip() == "E_SUSPENDED"
