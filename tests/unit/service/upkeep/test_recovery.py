"""What a death, or a store, a ledger or a source that is away, leaves without an end: it runs once more, or ends."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest
from service_calls import ask, caller, left_by_a_dead_process, out_of_reach, soon_left, spent, until
from service_shop import counting

import shoal
from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger, Reservation
from shoal.accounting.spending.asking import Request
from shoal.params import Budget, budget
from shoal.service import jobs, log, running
from shoal.service.allowances import Grant
from shoal.service.datasets import NewDataSet
from shoal.service.desk import Desk, Ladder
from shoal.service.people import later
from shoal.service.questions import Question
from shoal.service.runners.hired import Died, Hired
from shoal.service.service import OPERATOR
from shoal.service.store import unusable


@pytest.mark.parametrize("restarted", [False, True])
def test_whoever_follows_a_cancelled_run_whose_process_died_gets_an_answer(opened, restarted):
    """They waited for ever, and the charge stayed open and without a line of the log."""
    first = opened(start=not restarted, slots=1)
    first._slots._ending = True  # its slots take nothing
    leader = left_by_a_dead_process(first)
    follower = first.ask(caller(first, "bob"), "visits", Question(counting()))
    assert first.cancel(caller(first, "ann"), leader.id).charged
    second = opened()
    assert (second.wait(follower.id, 60).state, spent(second)) == ("answered", Fraction(1, 5))
    ledger = second.datasets.get("visits").ledger
    assert [(entry.user, entry.state) for entry in ledger.entries()] == [("ann", "cancelled"), ("bob", "answered")]
    assert (second.check()[1], ledger.is_suspended("ann")) == (2, False)
    assert {"cancelled", "answered"} <= {line["outcome"] for line in log.lines(second.store) if line["charge"]}


def test_a_cancelled_job_that_runs_here_is_not_left(opened):
    service = opened(start=False)
    job = left_by_a_dead_process(service, charged=False)
    service.cancel(caller(service, "ann"), job.id)
    with service.store.reading() as rows:
        assert [found.id for found in jobs.left(rows, (), at_start=True)] == [job.id]
        assert jobs.left(rows, (), at_start=False) == []  # nobody waits behind it
        assert jobs.left(rows, (job.id,), at_start=True) == []


def test_a_job_that_was_charged_before_a_death_is_never_said_to_be_free(opened):
    """What refuses it the second time comes before its charge: a data set that was retired, an allowance that was withdrawn."""
    first = opened(start=False)
    job, free = left_by_a_dead_process(first, "k"), left_by_a_dead_process(first, "l", charged=False)
    first.withdraw(caller(first, "carla"), "visits", "group:research")
    second = opened()
    ended = second.wait(job.id, 60)
    assert (ended.state, ended.error["code"], ended.charged) == ("failed", "E_EXECUTION", True)
    ended = second.wait(free.id, 60)
    assert (ended.state, ended.error["code"], ended.charged) == ("failed", "E_NOT_FOUND", False)
    ledger = second.datasets.get("visits").ledger
    assert ([entry.state for entry in ledger.entries()], ledger.is_suspended("ann")) == (["cancelled"], False)
    assert second.check()[1] == 1


def test_a_cancelled_run_whose_process_died_ends_like_one_that_lived(tmp_path):
    """Its charge stayed open for ever, so whoever cancels every question saw each death, and none suspended them."""
    ledger = Ledger.create(tmp_path / "a.ledger", Budget(Fraction(1), Fraction(0)))
    tenth, states = Loss(Fraction(1, 10), Fraction(0)), []
    for died in (False, True):
        was_cancelled = []
        desk = Desk(ledger, Ladder(0.0), lambda found=was_cancelled: bool(found), lambda: None)
        asked = {"user": "eve", "request": Request(str(died), "body")}
        charge = desk.reserve(tenth, **asked)
        was_cancelled.append(True)
        with pytest.raises(shoal.ShoalError, match="cancelled"):
            desk.reserve(tenth, **asked, resume=True) if died else charge.commit(b"rows")
        states.append((ledger.entries()[-1].state, ledger.is_suspended("eve")))
    assert states == [("cancelled", False)] * 2


@pytest.mark.parametrize("dies", ["before its answer", "after it"])
def test_a_charged_run_that_was_cut_short_waits_for_its_source_even_across_a_restart(opened, folder, monkeypatch, dies):
    """After a power failure a service may start before the database with the data does: what was charged was lost."""
    first = opened(start=dies == "after it")
    if dies == "after it":
        lost = []
        monkeypatch.setattr(first._slots, "_answered", lambda *about: lost.append(about))
        job = first.ask(caller(first, "ann"), "visits", Question(counting()), "k")
        until(lambda: lost)
        first.close(5.0)
    else:
        job = left_by_a_dead_process(first)
    monkeypatch.setattr(running, "HEARTBEAT_SECONDS", 0.0)
    (folder / "visits.parquet").rename(folder / "away")
    for _ in range(2):
        service = opened(start=False)
        with service.store.writing() as rows:
            rows.run("UPDATE jobs SET process = 'nobody 1 1', lease = ''")
        service.start()
        until(lambda: service._slots._left and not service._slots._held)  # noqa: B023 - called here
        assert service.wait(job.id, 0).state == "running"
        service.close(5.0)
    service = opened(start=False)
    with service.store.writing() as rows:
        rows.run("UPDATE jobs SET process = 'nobody 1 1', lease = ''")
    service.start()
    until(lambda: service._slots._left and not service._slots._held)
    (folder / "away").rename(folder / "visits.parquet")
    ended = service.wait(job.id, 60)
    assert (ended.state, ended.charged, spent(service)) == ("answered", True, Fraction(1, 10))
    assert (ended.answer, service._slots._left) == (jobs.answer_id(job.id), set())


def test_a_second_run_that_waits_for_its_ledger_is_left_to_the_process_that_knows(opened, monkeypatch):
    """Whichever process looked first said that it had failed, and one of two came too early."""
    first = opened(start=False)
    job = left_by_a_dead_process(first)
    monkeypatch.setattr(running, "HEARTBEAT_SECONDS", 0.0)
    reserve, lost, away = Ledger.reserve, [], threading.Event()

    def lost_once(self, *args, **options):
        if not lost:
            lost.append(away.set())
            raise shoal.ShoalError("E_LEDGER", "The database with the ledger cannot be reached.")
        return reserve(self, *args, **options)

    service, other = opened(start=False), opened(start=False)
    monkeypatch.setattr(Ledger, "reserve", lost_once)
    monkeypatch.setattr(service.datasets, "is_awaited", lambda _: away.is_set())
    service.start()
    until(lambda: service._slots._left and not service._slots._held)
    with other.store.writing() as rows:
        rows.run("UPDATE jobs SET lease = ''")
    until(lambda: service.wait(job.id, 0).lease)
    other._slots.recover()
    assert other.wait(job.id, 0).state == "running"
    away.clear()
    ended = service.wait(job.id, 60)
    assert (ended.state, spent(service)) == ("answered", Fraction(1, 10))


def test_whoever_was_cut_off_from_the_store_gives_others_time_to_say_that_they_live(opened, monkeypatch):
    """They were cut off, too: their runs were taken from them, or ended as if they had died."""
    for module, name, seconds in ((jobs, "LEASE", 3), (running, "HEARTBEAT", 0.5), (running, "KEEP", 0.05)):
        monkeypatch.setattr(module, f"{name}_SECONDS", seconds)
    service, other = opened(), opened(start=False)
    writing, down, beats, renew = service.store.writing, threading.Event(), [], jobs.renew
    monkeypatch.setattr(jobs, "renew", lambda *about: beats.append(1) or renew(*about))

    def lost(**how):
        if down.is_set():
            raise unusable("cannot be reached")
        return writing(**how)

    monkeypatch.setattr(service.store, "writing", lost)
    down.set()
    service._slots._ending = True  # its slots take nothing
    job = left_by_a_dead_process(other)
    time.sleep(3.5)
    beats.clear()
    down.clear()
    until(lambda: len(beats) > 1)
    assert other.wait(job.id, 0).state == "running"


def test_a_heart_beats_where_nothing_can_be_flushed(opened, monkeypatch):
    """Others would take its runs over, as if it had died."""
    for name, seconds in (("HEARTBEAT", 0.05), ("KEEP", 0.01)):
        monkeypatch.setattr(running, f"{name}_SECONDS", seconds)
    beats, renew = [], jobs.renew
    monkeypatch.setattr(jobs, "renew", lambda *about: beats.append(1) or renew(*about))
    service = opened()

    def fail():
        raise unusable("cannot be reached")

    monkeypatch.setattr(service.store, "keep", fail)
    beats.clear()
    until(lambda: len(beats) > 3)
    monkeypatch.undo()


def test_whoever_slept_with_their_machine_gives_others_time_to_say_that_they_live(opened, monkeypatch):
    """The clock of leases goes on when a machine sleeps; the one that was looked at stops."""
    for module, name, seconds in ((jobs, "LEASE", 6), (running, "HEARTBEAT", 0.5), (running, "KEEP", 0.05)):
        monkeypatch.setattr(module, f"{name}_SECONDS", seconds)
    service, other, beats, renew = opened(), opened(start=False), [], jobs.renew
    monkeypatch.setattr(jobs, "renew", lambda *about: beats.append(1) or renew(*about))
    service._slots._ending = True  # its slots take nothing
    until(lambda: beats)
    job = other.ask(caller(other, "ann"), "visits", Question(counting()))
    with other.store.writing() as rows:
        jobs.take_next(rows)
        rows.run("UPDATE jobs SET process = 'nobody 1 1' WHERE id = ?", job.id)
        rows.run("UPDATE identity SET clock = ?", later(rows.now(), timedelta(seconds=60)))
    beats.clear()
    until(lambda: len(beats) > 2)
    assert other.wait(job.id, 0).state == "running"


def test_a_ledger_that_cannot_be_written_keeps_no_other_jobs_from_their_end(opened, folder, monkeypatch):
    first = opened(start=False)
    new = NewDataSet("more", str(folder), str(folder.parent / "shoal.toml"), budget((2.0, 1e-5)))
    first.add_dataset(OPERATOR, replace(new, new_people=True))
    first.allow(OPERATOR, Grant("more", "everyone"))
    behind = {}
    for name in ("more", "visits"):
        leader = first.ask(caller(first, "ann"), name, Question(counting()), name)
        with first.store.writing() as rows:
            jobs.take_next(rows)
            rows.run("UPDATE jobs SET process = 'nobody 1 1', lease = '' WHERE id = ?", leader.id)
        behind[name] = first.ask(caller(first, "bob"), name, Question(counting()))
        first.cancel(caller(first, "ann"), leader.id)
    second = opened(start=False)

    def damaged(*_, **__):
        raise shoal.ShoalError("E_LEDGER", "The ledger is damaged.")

    monkeypatch.setattr(second.datasets.ledger("more"), "end_request", damaged)
    second.start()
    assert second.wait(behind["visits"].id, 60).state == "answered"
    assert second.wait(behind["more"].id, 0).state == "waiting"


def test_a_charge_whose_run_was_left_ends_when_its_question_is_cancelled(service, monkeypatch):
    """It stayed open, and without a line of the log, until the service was started again."""
    ledger = service.datasets.get("visits").ledger
    with monkeypatch.context() as broken:
        broken.setattr(Reservation, "commit", lambda *_: out_of_reach())
        broken.setattr(ledger, "fate_of", lambda _: out_of_reach())
        job = service.ask(caller(service, "ann"), "visits", Question(counting()))
        until(lambda: service._slots._left and not service._slots._held)
        assert service.cancel(caller(service, "ann"), job.id).charged
        service._slots.recover()
    until(lambda: not service._slots._left)
    assert ([entry.state for entry in ledger.entries()], service.check()[1]) == (["cancelled"], 1)
    assert not ledger.is_suspended("ann")


def test_a_second_run_that_is_cancelled_while_its_ledger_is_away_suspends_nobody(opened, monkeypatch):
    """Its charge stayed open, and the next question of whoever cancelled ended it as a failure, for which they were suspended."""
    first = opened(start=False)
    job = left_by_a_dead_process(first)
    monkeypatch.setattr(running, "HEARTBEAT_SECONDS", 0.0)
    run = Hired.run

    def cancelling(self, errand, terms, desk, plan):
        about = {"user": "ann", "description": errand.sql, "request": terms.request, "resume": terms.resume}
        charge = desk.reserve(Loss(Fraction(1, 10), Fraction(0)), **about)
        service.cancel(caller(service, "ann"), job.id)
        monkeypatch.setattr(Hired, "run", run)
        with monkeypatch.context() as broken:
            broken.setattr(ledger._turns, "do", out_of_reach)
            return charge.commit(b"rows")

    service = opened(start=False)
    ledger = service.datasets.get("visits").ledger
    monkeypatch.setattr(Hired, "run", cancelling)
    service.start()
    until(ledger.ended)
    assert ([entry.state for entry in ledger.entries()], ledger.is_suspended("ann")) == (["cancelled"], False)
    assert ask(service, "ann", counting(0.2)).state == "answered"
    assert service.check()[1] == 2


def test_a_charge_whose_runner_died_is_taken_up_when_the_ledger_can_be_reached(opened, monkeypatch):
    """The same process runs it a second time, and found no ledger: its asker was told that an answer was ready, and lost."""
    monkeypatch.setattr(running, "HEARTBEAT_SECONDS", 0.0)
    run, reserve, left = Hired.run, Ledger.reserve, ["the ledger", "the runner"]

    def dies_once(self, errand, terms, desk, plan):
        if left[-1:] == ["the runner"]:
            left.pop()
            about = {"user": errand.person, "description": errand.sql, "request": terms.request}
            desk.reserve(Loss(Fraction(1, 10), Fraction(0)), **about, resume=terms.resume)
            raise Died
        return run(self, errand, terms, desk, plan)

    def lost_once(self, *args, **options):
        if options["resume"] and left:
            out_of_reach(left.pop())
        return reserve(self, *args, **options)

    monkeypatch.setattr(Hired, "run", dies_once)
    monkeypatch.setattr(Ledger, "reserve", lost_once)
    service = opened()
    ended = ask(service, "ann", counting(), seconds=60)
    assert (ended.state, ended.charged, left, spent(service)) == ("answered", True, [], Fraction(1, 10))
    assert service.check()[1] == 1


@pytest.mark.parametrize(("code", "expected"), [("E_SOURCE", "answered"), ("E_LIMITS", "failed")])
def test_a_charge_whose_runner_died_ends_where_the_second_run_is_refused_before_it_takes_that_up(
    opened, monkeypatch, code, expected
):
    """A source that is away is waited for; any other refusal left the charge open, for the user's next question to find."""
    monkeypatch.setattr(running, "HEARTBEAT_SECONDS", 0.0)
    run, left = Hired.run, ["refused", "died"]

    def dies_then_is_refused(self, errand, terms, desk, plan):
        match left and left.pop():
            case "died":
                about = {"user": errand.person, "description": errand.sql, "request": terms.request}
                desk.reserve(Loss(Fraction(1, 10), Fraction(0)), **about, resume=terms.resume)
                raise Died
            case "refused":
                raise shoal.ShoalError(code, "It is away, or too much.")
            case _:
                return run(self, errand, terms, desk, plan)

    monkeypatch.setattr(Hired, "run", dies_then_is_refused)
    service = opened()
    ended = ask(service, "ann", counting(), seconds=60)
    assert (ended.state, ended.charged, left, spent(service)) == (expected, True, [], Fraction(1, 10))
    (entry,) = service.datasets.get("visits").ledger.entries()
    assert (entry.state, service.check()[1]) == ("answered" if expected == "answered" else "cancelled", 1)
    assert not service.datasets.get("visits").ledger.is_suspended("ann")


def test_a_job_that_another_process_took_over_is_its_own(opened):
    """This one had left it for later, and was cut off from the store in between."""
    service, other = opened(start=False), opened(start=False)
    job = left_by_a_dead_process(service)
    service._slots._left.add(job.id)
    with other.store.writing() as rows:
        rows.run("UPDATE jobs SET process = 'elsewhere 1 1', lease = ?", later(rows.now(), timedelta(minutes=1)))
    service._slots.recover()
    assert (service.wait(job.id, 0).state, service._slots._left) == ("running", set())


def lost_after_it_is_stored(monkeypatch, ledger, calls):
    """The connection to the ledger is lost right after these of its commits."""
    writing, made = ledger._store.writing, []

    @contextmanager
    def losing():
        with writing() as transaction:
            yield transaction
        made.append(1)
        if len(made) in calls:
            out_of_reach()

    monkeypatch.setattr(ledger._store, "writing", losing)


@pytest.mark.parametrize("calls", [{1}, {2}, {1, 3}, {1, 2}])
def test_what_the_ledger_stored_though_the_connection_was_lost_is_taken_up(opened, monkeypatch, calls):
    """The asker was told that nothing was charged, and the charge had neither an end nor a line of the log."""
    monkeypatch.setattr(running, "HEARTBEAT_SECONDS", 0.0)
    service = opened()
    ledger = service.datasets.get("visits").ledger
    lost_after_it_is_stored(monkeypatch, ledger, calls)
    ended = ask(service, "ann", counting(), seconds=60)
    if calls == {1, 2}:  # it was taken up, and nobody was told
        assert (ended.state, ended.error["code"], ended.charged) == ("failed", "E_EXECUTION", True)
    else:
        assert (ended.state, ended.charged) == ("answered", True)
    assert (spent(service), service.check()[1], len(ledger.entries())) == (Fraction(1, 10), 1, 1)
    assert ledger.entries()[0].state in {"answered", "failed"}


def test_the_answer_of_a_second_run_that_the_store_did_not_take_is_given_when_it_does(opened, monkeypatch):
    """It was said to be lost, and the log said so of a charge that the ledger says was answered."""
    first = opened(start=False)
    job = left_by_a_dead_process(first)
    soon_left(monkeypatch)
    service = opened(start=False)
    kept, lost = running.kept_answer, []

    def unkept(*about):
        if not lost:
            lost.append(1)
            raise unusable("cannot be written")
        return kept(*about)

    monkeypatch.setattr(running, "kept_answer", unkept)
    service.start()
    ended = service.wait(job.id, 60)
    assert (ended.state, ended.charged, lost, spent(service)) == ("answered", True, [1], Fraction(1, 10))
    assert {line["outcome"] for line in log.lines(service.store) if line["charge"]} == {"answered"}


@pytest.mark.parametrize("restarted", [False, True])
def test_a_question_that_is_cancelled_while_it_waits_for_its_second_run_ends_with_its_charge(opened, restarted):
    """It was said to be free, and its charge stayed open, without a line of the log."""
    first = opened(start=False)
    job = left_by_a_dead_process(first)
    first._slots.recover()
    follower = first.ask(caller(first, "bob"), "visits", Question(counting()))
    cancelled = first.cancel(caller(first, "ann"), job.id)
    assert (cancelled.state, cancelled.charged) == ("cancelled", True)
    if restarted:
        with first.store.writing() as rows:
            rows.run("UPDATE jobs SET process = 'nobody 1 1' WHERE process <> ''")
        first.close(5.0)
    service = opened() if restarted else first
    if not restarted:
        first.start()
        first._slots.recover()
    assert service.wait(follower.id, 60).state == "answered"
    ledger = service.datasets.get("visits").ledger
    assert [(entry.user, entry.state) for entry in ledger.entries()] == [("ann", "cancelled"), ("bob", "answered")]
    assert (service.check()[1], ledger.is_suspended("ann"), service._slots._left) == (2, False, set())


def taken_by_another(service, job, runs):
    """This process was silent for so long that another one took the job over."""
    with service.store.writing() as rows:
        process = "elsewhere 1 1"
        rows.run(
            "UPDATE jobs SET process = ?, runs = ?, lease = '9999-01-01T00:00:00Z' WHERE id = ?", process, runs, job
        )


@pytest.mark.parametrize("when", ["before it was charged", "after its runner died"])
def test_a_process_that_was_taken_for_dead_charges_nothing_twice_and_leaves_the_job_alone(opened, monkeypatch, when):
    """Its machine slept for longer than its lease: the request was charged once more under the same key."""
    service = opened(start=False)
    ledger = service.datasets.get("visits").ledger
    tenth, run = Loss(Fraction(1, 10), Fraction(0)), Hired.run

    def slept(self, errand, terms, desk, plan):
        about = {"user": "ann", "description": errand.sql, "request": terms.request}
        if when == "before it was charged":
            ledger.reserve(tenth, **about)
            taken_by_another(service, job.id, 2)
            return run(self, errand, terms, desk, plan)
        desk.reserve(tenth, **about)
        ledger.reserve(tenth, **about, resume=True)
        taken_by_another(service, job.id, 2)
        raise Died

    monkeypatch.setattr(Hired, "run", slept)
    job = service.ask(caller(service, "ann"), "visits", Question(counting()))
    service.start()
    until(lambda: ledger.entries() and not service._slots._held)
    assert [(entry.state, entry.epsilon) for entry in ledger.entries()] == [("reserved", Fraction(1, 10))]
    found = service.wait(job.id, 0)
    assert (found.state, found.process, found.runs, ledger.is_suspended("ann")) == (
        "running",
        "elsewhere 1 1",
        2,
        False,
    )


def test_a_heart_that_meets_a_bug_beats_on(opened, monkeypatch):
    """Others took over what this process ran, for ever."""
    monkeypatch.setattr(running, "HEARTBEAT_SECONDS", 0.0)
    monkeypatch.setattr(running, "KEEP_SECONDS", 0.01)
    service, beats = opened(start=False), []
    monkeypatch.setattr(jobs, "renew", lambda *_: beats.append(1) or [][len(beats)])
    service.start()
    until(lambda: len(beats) > 2)
