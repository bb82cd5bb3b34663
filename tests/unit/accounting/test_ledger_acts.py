"""Acts of the custodian and accidents: promises, raised budgets, booked losses, anchors, copies, dead processes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from fractions import Fraction
from pathlib import Path

import pytest

from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.accounting.promises import Promise
from shoal.accounting.spending import processes
from shoal.accounting.spending.asking import Request
from shoal.accounting.spending.turns import Turns
from shoal.accounting.stores.check import check_everything
from shoal.accounting.stores.rows import Row
from shoal.errors import InternalError, ShoalError
from shoal.params import Budget

TENTH = Loss(Fraction(1, 10), Fraction(0))
ONE = Budget(Fraction(1), Fraction(1, 10**6))
NEARBY = Promise("policy", '{"distance":5}')


def refusal(call, *args, **options):
    with pytest.raises(ShoalError) as caught:
        call(*args, **options)
    return caught.value


def check(ledger):
    with ledger._store.reading() as transaction:
        check_everything(transaction)


def test_a_row_of_an_unknown_kind_is_refused_however_well_it_is_chained(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db", ONE)
    ledger._turns.do(lambda pen: pen._append(Row("refund", amounts=("1/10", "0", "0", "0"))))
    told = refusal(Ledger.open, tmp_path / "ledger.db")
    assert (told.code, "unknown kind" in told.message) == ("E_LEDGER", True)


# ---- promises ------------------------------------------------------------------------------------------------------


def test_promises_are_listed_side_by_side_and_only_costs_are_added(ledger):
    ledger.reserve(TENTH)
    ledger.reserve(Loss(Fraction(1, 5), Fraction(0)), promise=Promise("local"))
    ledger.reserve(TENTH, promise=NEARBY, cost=Loss(Fraction(1, 2), Fraction(0)))
    assert ledger.spent[0] == Fraction(8, 10)
    assert ledger.asked_by_promise() == {
        "local": (Fraction(1, 5), 0),
        "owner": (Fraction(1, 10), 0),
        NEARBY.label: (Fraction(1, 10), 0),
    }
    assert [entry.covers for entry in ledger.entries()] == ["", "value", ""]
    assert ledger.covers == "value"
    check(ledger)


def test_a_policy_release_without_a_loss_for_owners_is_refused_for_nothing(ledger):
    assert refusal(ledger.reserve, TENTH, promise=NEARBY).code == "E_BUDGET"
    assert (ledger.entries(), ledger.covers) == ([], "")


def test_a_ledger_of_a_policy_keeps_it(path):
    ledger = Ledger.create(path, ONE, promise=NEARBY)
    ledger.reserve(TENTH, promise=NEARBY)
    ledger.reserve(TENTH)
    again = Ledger.open(path)
    assert again.promise == NEARBY
    assert again.spent[0] == Fraction(3, 10)


def test_a_ledger_of_a_policy_adds_up_by_sums():
    assert refusal(Ledger.in_memory, ONE, "zcdp", NEARBY).code == "E_USAGE"
    assert refusal(Ledger.in_memory, ONE, "basic", Promise("local")).code == "E_USAGE"


# ---- budgets, losses, copies ---------------------------------------------------------------------------------------


def test_a_budget_can_be_raised_with_a_reason_and_not_lowered(ledger):
    ledger.reserve(Loss(Fraction(1), Fraction(0)))
    more = Budget(Fraction(2), Fraction(1, 10**6))
    assert refusal(ledger.raise_budget, more, because=" ").code == "E_USAGE"
    ledger.raise_budget(more, because="a second survey")
    assert (ledger.budget, ledger.remaining[0]) == (more, 1)
    assert [(each.epsilon, each.delta, each.because) for each in ledger.raises()] == [
        (more.epsilon, more.delta, "a second survey")
    ]
    ledger.reserve(TENTH)
    assert refusal(ledger.raise_budget, ONE, because="a mistake").code == "E_USAGE"
    check(ledger)


def test_a_budget_that_two_raise_at_once_is_never_lowered(ledger):
    """Both looked at the same budget; what counts is the one in force when the second is written."""
    three, two = (Budget(Fraction(number), Fraction(1, 10**6)) for number in (3, 2))
    acts = (lambda pen: pen.raise_budget(three, "a survey"), lambda pen: pen.raise_budget(two, "another"))
    assert refusal(ledger._turns.do, *acts).code == "E_USAGE"
    assert ledger.budget == three
    check(ledger)


def test_a_suspension_that_two_lift_at_once_is_lifted_once(ledger):
    ledger.reserve(TENTH, user="ann").fail()
    acts = (lambda pen: pen.lift("ann", "one"), lambda pen: pen.lift("ann", "two"))
    assert refusal(ledger._turns.do, *acts).code == "E_USAGE"
    assert [each.because for each in ledger.suspensions()] == ["one"]
    check(ledger)


def test_a_raised_budget_survives_reopening(path):
    Ledger.create(path, ONE).raise_budget(Budget(Fraction(2), Fraction(1, 10**6)), because="more")
    assert Ledger.open(path).budget.epsilon == 2


def test_a_loss_is_booked_whether_or_not_it_fits(ledger):
    ledger.book_loss(Loss(Fraction(5), Fraction(1, 10**7)), because="yesterday's copy was restored")
    assert ledger.spent == (5, Fraction(1, 10**7))
    assert [(entry.state, entry.epsilon) for entry in ledger.entries()] == [("booked", 5)]
    assert refusal(ledger.reserve, TENTH).code == "E_BUDGET"
    check(ledger)


def test_a_restored_copy_is_refused_until_its_loss_is_booked(tmp_path):
    path, copy = tmp_path / "ledger.db", tmp_path / "copy.db"
    ledger = Ledger.create(path, ONE)
    ledger.reserve(TENTH)
    noted = ledger.backup(copy)
    assert noted == ledger.anchor
    ledger.reserve(TENTH)
    anchor = ledger.anchor
    copy.replace(path)
    error = refusal(Ledger.open, path, anchor=anchor)
    assert error.code == "E_LEDGER"
    assert "--loss" in error.hint
    Ledger.open(path, anchor=noted).book_loss(TENTH, because="restored", anchor=anchor)
    assert Ledger.open(path, anchor=anchor).spent[0] == Fraction(1, 5)
    assert refusal(Ledger.open, path, anchor=(anchor[0], "0" * 64)).code == "E_LEDGER"


def test_a_copy_is_whole_private_and_never_replaces_a_file(tmp_path):
    ledger = Ledger.create(tmp_path / "ledger.db", ONE)
    ledger.reserve(TENTH, fingerprint="k").commit(b"rows")
    ledger.backup(tmp_path / "copy.db")
    assert Ledger.open(tmp_path / "copy.db").stored_answer("k") == b"rows"
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    assert refusal(ledger.backup, tmp_path / "copy.db").code == "E_LEDGER"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy.db", "ledger.db"]


def test_only_files_are_copied_here():
    assert refusal(Ledger.in_memory(ONE).backup, Path("copy.db")).code == "E_USAGE"


# ---- dead processes ------------------------------------------------------------------------------------------------


def die_after_reserving(path, **options):
    """A child that is killed between its charge and its answer."""
    child = os.fork()
    if child == 0:
        try:
            Ledger.open(path).reserve(TENTH, **options)
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
no_fork_warning = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


@needs_fork
@no_fork_warning
def test_the_death_of_a_users_process_suspends_the_user(path):
    ledger = Ledger.create(path, ONE)
    running = ledger.reserve(TENTH, user="ann")
    die_after_reserving(path, user="ann")
    assert refusal(ledger.reserve, TENTH, user="ann").code == "E_SUSPENDED"
    assert refusal(running.commit, b"rows").code == "E_SUSPENDED"
    assert [(entry.state, entry.why) for entry in ledger.entries()] == [("withheld", ""), ("failed", "death")]
    ledger.reserve(TENTH, user="bob").commit()
    check(Ledger.open(path))
    ledger.lift("ann", because="the machine was out of memory")
    ledger.reserve(TENTH, user="ann").commit()


@needs_fork
@no_fork_warning
def test_a_death_is_noticed_by_the_next_run_that_ends_too(path):
    ledger = Ledger.create(path, ONE)
    running = ledger.reserve(TENTH, user="ann")
    die_after_reserving(path, user="ann")
    assert refusal(running.commit, b"rows").code == "E_SUSPENDED"


@needs_fork
@no_fork_warning
def test_a_dead_run_under_a_request_is_left_to_be_resumed(path):
    request = Request.of("ann", "visits", "key", b"SELECT 1")
    ledger = Ledger.create(path, ONE)
    die_after_reserving(path, user="ann", request=request)
    ledger.reserve(TENTH, user="ann").commit()
    assert ledger.reserve(TENTH, user="ann", request=request, resume=True).commit(b"rows") == b"rows"
    assert ledger.spent[0] == Fraction(1, 5)


@needs_fork
@no_fork_warning
def test_a_run_that_dies_once_more_after_it_was_resumed_suspends_its_user(path):
    request = Request.of("ann", "visits", "key", b"SELECT 1")
    ledger = Ledger.create(path, ONE)
    die_after_reserving(path, user="ann", request=request)
    die_after_reserving(path, user="ann", request=request, resume=True)
    assert refusal(ledger.reserve, TENTH, user="ann").code == "E_SUSPENDED"
    assert ledger.spent[0] == Fraction(1, 10)


def test_runs_of_living_processes_are_no_deaths(ledger):
    runs = [ledger.reserve(TENTH, user="ann") for _ in range(3)]
    assert not ledger.is_suspended("ann")
    for run in runs:
        run.commit()


def test_a_process_is_gone_only_where_that_is_known(monkeypatch):
    here = processes.this_process()
    machine, _, _ = here.rpartition(" ")[0].rpartition(" ")
    assert not processes.is_gone(here)
    assert not processes.is_gone("")
    assert not processes.is_gone(f"elsewhere {os.getpid()} 1")
    if sys.platform == "linux":
        assert processes.is_gone(f"{machine} {os.getpid()} 1")
        assert not processes.is_gone(f"another-start pid:[1] {os.getpid()} 1")


# ---- settling that fails -------------------------------------------------------------------------------------------


def test_a_run_whose_end_could_not_be_written_ends_as_a_failure_before_the_next_charge(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger.db", ONE)
    reservation = ledger.reserve(TENTH, user="ann")
    with monkeypatch.context() as broken:
        broken.setattr("shoal.accounting.stores.files.FileStore.writing", unwritable)
        assert refusal(reservation.commit, b"rows").code == "E_LEDGER"
    assert refusal(ledger.reserve, TENTH, user="ann").code == "E_SUSPENDED"
    assert [entry.state for entry in ledger.entries()] == ["failed"]
    assert ledger._unsettled == []


def unwritable(_):
    raise ShoalError("E_LEDGER", "The disk is full.")


# ---- group commit --------------------------------------------------------------------------------------------------


def test_charges_that_wait_share_a_transaction_and_none_overspends(ledger):
    transactions, writing, gate = [], ledger._store.writing, threading.Event()

    def slow_writing():
        transactions.append(1)
        gate.wait(300)
        return writing()

    ledger._store.writing = slow_writing
    outcomes = []

    def spend():
        try:
            outcomes.append(ledger.reserve(TENTH).sequence)
        except ShoalError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=spend) for _ in range(16)]
    for thread in threads:
        thread.start()
    while len(ledger._turns._waiting) < 16:
        time.sleep(0.001)
    gate.set()
    for thread in threads:
        thread.join()
    assert sorted(map(str, outcomes)) == sorted([*map(str, range(1, 11)), *["E_BUDGET"] * 6])
    assert len(transactions) == 1
    check(ledger)


def test_a_ledger_that_cannot_be_written_refuses_everybody_who_waits(ledger, monkeypatch):
    monkeypatch.setattr(ledger._store, "writing", lambda: unwritable(None))
    for _ in range(2):
        assert refusal(ledger.reserve, TENTH).code == "E_LEDGER"
    monkeypatch.undo()
    ledger.reserve(TENTH)


def test_an_interrupted_writer_leaves_the_others_in_the_queue(ledger, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger._store, "writing", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ledger.reserve(TENTH)
    monkeypatch.undo()
    ledger.reserve(TENTH)
    assert len(ledger.entries()) == 1


def test_a_bug_in_one_charge_is_not_told_to_the_others(ledger):
    def broken(_):
        raise InternalError("a bug")

    with pytest.raises(InternalError):
        ledger._turns.do(broken)
    assert isinstance(ledger._turns, Turns)
    ledger.reserve(TENTH)


@needs_fork
@no_fork_warning
def test_a_dead_run_under_a_key_that_nobody_resumes_suspends_its_user(path):
    """A session only replays under a key. Left to be resumed, each death would be seen for nothing, with a new key each time."""
    request = Request.of("ann", "", "key", b"SELECT 1", may_resume=False)
    ledger = Ledger.create(path, ONE)
    die_after_reserving(path, user="ann", request=request)
    assert refusal(ledger.reserve, TENTH, user="ann").code == "E_SUSPENDED"
