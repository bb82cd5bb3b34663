"""Planted bugs around a query: errors, randomness, options, the ledger."""

import os
import sys
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from planted import (
    INVARIANT,
    OWNERS,
    REFUSAL,
    ROWS,
    TOTAL,
    WHOLE,
    is_not_refused,
    planted,
    private,
    session,
)

from shoal import params
from shoal.accounting.accountants import Spent
from shoal.accounting.ledger import Ledger
from shoal.accounting.spending.pen import Pen
from shoal.engines.base import EngineFailure
from shoal.engines.deadline import Deadline
from shoal.engines.duckdb import connection
from shoal.errors import ShoalError
from shoal.mechanisms.entropy import SYSTEM, SystemEntropy
from shoal.params import Budget
from shoal.release import execute
from shoal.sql.binding import options

# ---- errors ------------------------------------------------------------------------------------------------------

WORDS = {"words": pa.table({"uid": [1, 2, 3], "word": ["4", "5", "secret"]})}
STRICT_VIEW = "SELECT uid, CAST(word AS INTEGER) AS x FROM words"
STRICT = {"tables": {"strict": {"owner": "uid", "view": STRICT_VIEW, "trusted_view": True}}}
STRICT_QUERY = private("SUM(x, contribution_bounds_per_group => (0, 9)) AS total", source="strict", **WHOLE)


def _tells_a_value():
    with session(WORDS, STRICT) as asked:
        try:
            asked.query(STRICT_QUERY)
        except Exception as error:  # noqa: BLE001 - whatever an analyst would see
            return "secret" in str(error)
    raise AssertionError("a view that cannot be computed must fail")


@planted("engine errors passed through", "the message of the database reaches the analyst", INVARIANT, _tells_a_value)
def the_message_of_the_database(patch):
    class Telling(connection.EngineFailure):
        def __init__(self):
            super().__init__(str(sys.exception()))

    def open_hearted(plan, engine_, ledger, user, **_):
        reservation = ledger.reserve(execute.charge_of(plan), user=user, description=plan.sql)
        finished = execute._run(plan, engine_, SYSTEM, Deadline(60))
        reservation.commit()
        return finished

    patch.setattr(connection, "EngineFailure", Telling)
    patch.setattr(execute, "execute", open_hearted)


# ---- randomness --------------------------------------------------------------------------------------------------


def _shared_after_a_fork():
    reader, writer = os.pipe()
    SYSTEM.bytes(8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.write(writer, SYSTEM.bytes(32))
        os._exit(0)
    mine = SYSTEM.bytes(32)
    os.waitpid(child, 0)
    other = os.read(reader, 32)
    os.close(reader)
    os.close(writer)
    return other == mine


@planted(
    "generator state shared after fork", "random bytes come from a generator in memory", INVARIANT, _shared_after_a_fork
)
def a_generator_in_memory(patch):
    generator = np.random.default_rng(1)
    patch.setattr(SystemEntropy, "bytes", lambda _self, count: generator.bytes(count))


# ---- options -----------------------------------------------------------------------------------------------------


@planted(
    "`2.7` groups truncated to 2",
    "counts are cut to whole numbers",
    REFUSAL,
    is_not_refused("E_OPTION_INVALID", private(ROWS, options="epsilon=1, delta=0.01, max_groups_contributed=2.7")),
)
def truncated_groups(patch):
    patch.setattr(params, "max_groups_per_owner", lambda value, **_: int(value))


@planted(
    "duplicate option, last wins",
    "an option may be given twice",
    REFUSAL,
    is_not_refused("E_OPTION_INVALID", private(ROWS, options="epsilon=1, delta=0.01, epsilon=9")),
)
def the_last_option_wins(patch):
    patch.setattr(options, "_by_name", lambda clause: {name: value for name, value, _ in clause.options})


@planted(
    "unknown option ignored",
    "a misspelt option is skipped",
    REFUSAL,
    is_not_refused("E_OPTION_UNKNOWN", private(ROWS, options="epsilon=1, delta=0.01, max_group_contributed=1")),
)
def unknown_options_skipped(patch):
    def skipping(clause):
        known = options.known_names(clause.kind)
        return {name: value for name, value, _ in clause.options if name in known}

    patch.setattr(options, "_by_name", skipping)


# ---- the ledger --------------------------------------------------------------------------------------------------


class _Unwritten:
    """A reservation that writes nothing, or only when the answer is there."""

    answer = None

    def __init__(self, charge=None):
        self._charge = charge

    def commit(self, answer=None):
        return self._charge().commit(answer) if self._charge is not None else None

    def fail(self):
        """Nothing is written."""


def _fails_for_free():
    with session(WORDS, STRICT) as asked:
        try:
            asked.query(STRICT_QUERY)
        except ShoalError:
            return asked.spent[0] != 1
    raise AssertionError("a view that cannot be computed must fail")


@planted("refunds after failure", "a query that fails is not charged", INVARIANT, _fails_for_free)
def refunds(patch):
    honest = Ledger.reserve
    patch.setattr(Ledger, "reserve", lambda self, loss, **facts: _Unwritten(lambda: honest(self, loss, **facts)))


def _reads_before_it_charges():
    with session() as asked:
        spent = []
        honest = asked._engine.totals
        asked._engine.totals = lambda query, key: spent.append(asked.spent[0]) or honest(query, key)
        asked.query(private(TOTAL, **WHOLE))
    return spent != [1.0]


@planted("charging after answering", "data is read before the charge is written", INVARIANT, _reads_before_it_charges)
def charges_afterwards(patch):
    honest = execute._run

    def late(plan, engine_, ledger, user, **_):
        finished = honest(plan, engine_, SYSTEM, Deadline(60))
        ledger.reserve(execute.charge_of(plan), user=user, description=plan.sql).commit()
        return execute.kept_answer(plan, finished)

    patch.setattr(execute, "execute", late)


def _repeats_are_free():
    """At ε = 10⁻⁶ two draws agree by chance once in a million runs."""
    with session() as asked:
        sql = private(OWNERS, options="epsilon=1e-6", group=None)
        first, second = (asked.query(sql).to_arrow() for _ in range(2))
        return first != second and asked.spent[0] != 2e-6


@planted(
    "fresh noise for a repeated query at no charge",
    "the ledger remembers the text of a query and charges it once",
    INVARIANT,
    _repeats_are_free,
)
def repeats_for_free(patch):
    honest = Ledger.reserve
    seen = set()

    def once(self, loss, *, description="", **facts):
        if description in seen:
            return _Unwritten()
        seen.add(description)
        return honest(self, loss, description=description, **facts)

    patch.setattr(Ledger, "reserve", once)


def _adds_up_wrongly():
    with session(budget=Budget(Fraction(1), Fraction(0))) as asked:
        for _ in range(10):
            asked.query(private(OWNERS, options="epsilon=0.1", group=None))
        return asked.ledger.spent[0] != 1


@planted("float ledger", "charges are added up as floats", INVARIANT, _adds_up_wrongly)
def a_ledger_of_floats(patch):
    honest = Spent.plus

    def rounded(self, loss):
        exact = honest(self, loss)
        return replace(exact, epsilon=Fraction(float(self.epsilon) + float(loss.epsilon)))

    patch.setattr(Spent, "plus", rounded)


def _overspends():
    with session(budget=Budget(Fraction(1), Fraction(0))) as asked:
        try:
            for _ in range(3):
                asked.query(private(OWNERS, options="epsilon=0.5", group=None))
        except ShoalError:
            return False
    return True


@planted("check, then act", "the budget is looked at when a session opens, and not again", INVARIANT, _overspends)
def a_budget_nobody_looks_at(patch):
    patch.setattr(Pen, "_require_fit", lambda _self, _charge, _accounts: None)


def _failures(ask):
    """How many of three queries are told to have failed; the engine fails in all of them."""
    with session() as asked:

        def fails(*_):
            raise EngineFailure

        asked._engine.totals = fails
        return ask(asked, private(TOTAL, **WHOLE)).count("E_EXECUTION")


def _one_by_one(asked, sql):
    return [_code(lambda: asked.query(sql)) for _ in range(3)]


def _all_at_once(asked, sql):
    plan = asked.plan(sql)
    runs = [asked.ledger.reserve(execute.charge_of(plan)) for _ in range(3)]
    return ["E_EXECUTION" if _code(run.fail) == "answered" else "E_SUSPENDED" for run in runs]


def _code(call):
    try:
        call()
    except ShoalError as error:
        return error.code
    return "answered"


@planted(
    "an oracle that may be asked again",
    "a query that fails suspends nobody",
    INVARIANT,
    lambda: _failures(_one_by_one) > 1,
)
def failures_without_end(patch):
    patch.setattr(Pen, "suspend", lambda *_: None)


@planted(
    "an oracle asked many times at once",
    "runs that end after a failure are not withheld",
    INVARIANT,
    lambda: _failures(_all_at_once) > 1,
)
def parallel_failures(patch):
    honest = Pen.settle

    def seen_by_nobody(self, *arguments, **named):
        with pytest.MonkeyPatch.context() as blind:
            blind.setattr(Pen, "is_suspended", lambda *_: False)
            blind.setattr(Pen, "suspend", lambda *_: None)
            return honest(self, *arguments, **named)

    patch.setattr(Pen, "settle", seen_by_nobody)
