"""The service without HTTP: what survives a death, and when replies leave."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

import pytest
from service_calls import (
    ask,
    caller,
    is_running,
    left_by_a_dead_process,
    out_of_reach,
    refused,
    soon_left,
    spent,
    until,
)
from service_shop import counting

import shoal
from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger, Reservation
from shoal.accounting.spending.asking import Request
from shoal.params import budget
from shoal.service import jobs, log, running
from shoal.service.datasets import NewDataSet
from shoal.service.desk import Desk, Ladder
from shoal.service.questions import Question
from shoal.service.running import After
from shoal.service.service import OPERATOR
from shoal.service.store import unusable


def test_a_job_whose_process_died_runs_once_more_under_the_same_charge(opened):
    first = opened(start=False)
    job = first.ask(caller(first, "ann"), "visits", Question(counting()), "k")
    gone = "nobody 1 1"
    with first.store.writing() as rows:
        taken = jobs.take_next(rows)
        rows.run("UPDATE jobs SET process = ?, lease = '' WHERE id = ?", gone, taken.id)
    ledger = first.datasets.get("visits").ledger
    request = Request(job.request, job.body)
    ledger.reserve(Loss(Fraction(1, 10), Fraction(0)), user="ann", description=job.sql, request=request)
    second = opened()
    ended = second.wait(job.id, 30)
    assert (ended.state, ended.runs, spent(second)) == ("answered", 2, Fraction(1, 10))


def test_an_answer_whose_end_never_reached_the_disk_is_found_again_under_its_id(opened, monkeypatch):
    """As after a power failure: the ledger has the answer, and the store has the job as it was when it was charged."""
    first = opened()
    lost = []
    monkeypatch.setattr(first._slots, "_answered", lambda *about: lost.append(about))
    job = first.ask(caller(first, "ann"), "visits", Question(counting()), "k")
    ends = time.monotonic() + 60
    while not lost and time.monotonic() < ends:
        time.sleep(0.01)
    first.close(5.0)
    second = opened(start=False)
    with second.store.writing() as rows:
        rows.run("UPDATE jobs SET process = 'nobody 1 1', lease = ''")
    second.start()
    ended = second.wait(job.id, 30)
    assert (ended.state, ended.answer, spent(second)) == ("answered", jobs.answer_id(job.id), Fraction(1, 10))
    found, data, _ = second.answer(caller(second, "ann"), ended.answer)
    assert (data, found["charge"] > 0) == (lost[0][3], True)
    assert second.ask(caller(second, "ann"), "visits", Question(counting()), "k").answer == ended.answer
    log.verify(log.export(second.store))


def test_an_answer_about_old_data_is_no_replay_for_the_new(opened, monkeypatch):
    """The ledger has it, the process dies before the store does, and the data changes before the next one starts."""
    first = opened()
    lost = []
    monkeypatch.setattr(first._slots, "_answered", lambda *about: lost.append(about))
    job = first.ask(caller(first, "ann"), "visits", Question(counting()), "k")
    until(lambda: lost)
    first.close(5.0)
    second = opened(start=False)
    second.refresh(OPERATOR, "visits")
    with second.store.writing() as rows:
        rows.run("UPDATE jobs SET process = 'nobody 1 1', lease = ''")
    second.start()
    assert second.wait(job.id, 60).answer == jobs.answer_id(job.id)
    again = ask(second, "bob", counting())
    assert (again.answer != jobs.answer_id(job.id), again.charged, spent(second)) == (True, True, Fraction(1, 5))


def test_only_the_end_of_a_first_charged_run_is_not_waited_for(opened, monkeypatch):
    service = opened(start=False)
    seen = []
    writing = service.store.writing
    monkeypatch.setattr(
        service.store, "writing", lambda *, at_once=True: seen.append(at_once) or writing(at_once=at_once)
    )
    job = replace(service.ask(caller(service, "ann"), "visits", Question(counting())), state="running")
    dataset = service.datasets.get("visits")
    for charge, resumed, waited in ((7, False, False), (7, True, True), (0, False, True)):
        desk = Desk(dataset.ledger, Ladder(0.0), lambda: False, service.store.keep)
        desk.charge, desk.resumed = charge, resumed
        seen.clear()
        service._slots._answered(replace(job, id=f"j_{charge}"), dataset, desk, b"", Ladder(0.0), After())
        assert seen[0] is waited


def test_a_job_that_a_slot_takes_while_its_place_is_counted_was_the_first(opened):
    service = opened(start=False)
    job = service.ask(caller(service, "ann"), "visits", Question(counting()), "k")
    with service.store.writing() as rows:
        jobs.take_next(rows)
    assert service.position(job) == 1


def test_a_second_death_ends_the_job(opened):
    first = opened(start=False)
    job = first.ask(caller(first, "ann"), "visits", Question(counting()))
    with first.store.writing() as rows:
        jobs.take_next(rows)
        rows.run("UPDATE jobs SET process = 'nobody 1 1', lease = '', runs = 2")
    second = opened()
    ended = second.wait(job.id, 30)
    assert (ended.state, ended.error["code"]) == ("failed", "E_EXECUTION")


@pytest.mark.parametrize("charge", ["none", "open", "taken up", "answered"])
def test_what_becomes_of_a_second_death_is_for_the_ledger_to_say(opened, charge):
    """It was said to be charged, whether it was or not; an open charge had no end and no line of the log; an answer was lost."""
    before = opened()
    kept = before.answer(caller(before, "bob"), ask(before, "bob", counting(0.1, "n"), fresh=True).answer)[1]
    before.close(5.0)
    first = opened(start=False)
    job = left_by_a_dead_process(first, charged=charge != "none", fresh=True)
    ledger = first.datasets.get("visits").ledger
    options = {"user": "ann", "description": job.sql, "request": Request(job.request, job.body), "resume": True}
    if charge in {"taken up", "answered"}:
        again = ledger.reserve(Loss(Fraction(1, 10), Fraction(0)), **options)
        if charge == "answered":
            again.commit(kept)
    with first.store.writing() as rows:
        rows.run("UPDATE jobs SET runs = 2 WHERE id = ?", job.id)
    second = opened()
    ended = second.wait(job.id, 60)
    states = [entry.state for entry in second.datasets.get("visits").ledger.entries() if entry.user == "ann"]
    expected = {
        "none": ("failed", False, [], False),
        "open": ("failed", True, ["cancelled"], False),
        "taken up": ("failed", True, ["failed"], True),
        "answered": ("answered", True, ["answered"], False),
    }
    assert (ended.state, ended.charged, states, ledger.is_suspended("ann")) == expected[charge]
    assert ended.error is None or ended.error["code"] == "E_EXECUTION"
    logged = [line["charge"] for line in log.lines(second.store) if line["charge"] and line["actor"] == "ann"]
    assert (len(logged), second.check()[1]) == (len(states), len(second.datasets.get("visits").ledger.entries()))


def test_a_second_death_waits_for_its_ledger(opened, monkeypatch):
    first = opened(start=False)
    job = left_by_a_dead_process(first)
    with first.store.writing() as rows:
        rows.run("UPDATE jobs SET runs = 2")
    monkeypatch.setattr(running, "HEARTBEAT_SECONDS", 0.0)
    second = opened(start=False)
    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "end_request", lambda *_, **__: out_of_reach())
        second.start()
        second._slots.recover()
        assert second.wait(job.id, 0).state == "running"
    ended = second.wait(job.id, 60)
    assert (ended.state, ended.charged, second.check()[1]) == ("failed", True, 1)


def test_waiting_jobs_stay_for_the_next_start(opened):
    first = opened(start=False)
    job = first.ask(caller(first, "ann"), "visits", Question(counting()))
    first.close()
    assert opened().wait(job.id, 30).state == "answered"


def test_a_failed_run_stays_charged_suspends_and_is_the_same_to_look_at_afterwards(service, folder):
    job = ask(service, "ann", counting())
    dataset = service.datasets.get("visits")
    dataset.ledger.suspend("ann", 1, "a test")
    with_suspension = ask(service, "ann", counting(0.2))
    assert with_suspension.error["code"] == "E_SUSPENDED"
    assert ask(service, "ann", counting()).answer == job.answer
    service.lift(caller(service, "carla"), "visits", "ann", "looked at it")
    assert ask(service, "ann", counting(0.3)).state == "answered"


def test_replies_that_read_data_end_on_the_ladder_and_late_ones_suspend(opened, monkeypatch):
    service = opened(answer_time=1e-9)
    for number in range(3):
        assert ask(service, "ann", counting(0.1, f"n{number}")).state == "answered"
    ended = ask(service, "ann", counting(0.1, "last"))
    assert ended.error["code"] == "E_SUSPENDED"
    assert any(line["action"] == "suspension" for line in log.lines(service.store))


def test_a_question_or_a_catalog_names_a_longer_time_at_which_replies_leave(opened, folder):
    service = opened(answer_time=0.01)
    before = time.monotonic()
    ask(service, "ann", counting(0.1, "named"), answer_time=0.8)
    assert time.monotonic() - before >= 0.8
    (folder.parent / "slow.toml").write_text('[tables.visits]\nowner = "uid"\n[service]\nanswer_time = 0.7\n')
    more = NewDataSet("slow", str(folder / "visits.parquet"), str(folder.parent / "slow.toml"), budget((1.0, 0.0)))
    service.add_dataset(OPERATOR, replace(more, new_people=True))
    carla, before = caller(service, "carla"), time.monotonic()
    job = service.wait(service.ask(carla, "slow", Question(counting(0.1, "n"))).id, 60)
    assert (job.state, time.monotonic() - before >= 0.7) == ("answered", True)
    for wrong in (0, -1, 3601, "1", True):
        with refused("E_USAGE"):
            Question(counting(), answer_time=wrong)


def test_an_answer_that_cannot_be_written_twice_is_said_to_be_charged(service, monkeypatch):
    """The ledger's own words are about questions that are still to be charged."""

    def lost(self, answer=None):
        raise shoal.ShoalError("E_LEDGER", "The database with the ledger cannot be reached, so nothing can be spent.")

    soon_left(monkeypatch)
    monkeypatch.setattr("shoal.accounting.ledger.Reservation.commit", lost)
    ended = ask(service, "ann", counting(0.1, "lost"))
    assert (ended.state, ended.error["code"], ended.charged) == ("failed", "E_LEDGER", True)
    assert "stays charged" in ended.error["message"]


def broken_once(monkeypatch, store, kind, holds):
    """Transactions of a store fail once `holds`, until what it returns is called; `kind` is 'before' or 'after' they are stored."""
    writing, mended = type(store).writing, threading.Event()

    @contextmanager
    def failing(mine, **options):
        with writing(mine, **options) as rows:
            yield rows
            fails = not mended.is_set() and holds(rows)
            if fails and kind == "before":
                raise unusable("cannot be written")
        if fails:
            raise unusable("cannot be written")

    monkeypatch.setattr(type(store), "writing", failing)
    return mended.set


def test_a_charged_run_whose_end_the_ledger_did_not_take_runs_once_more_under_its_charge(service, monkeypatch):
    """It stayed charged without an answer, and the next question suspended its asker, after any restart of the database."""
    soon_left(monkeypatch)
    commit, failed = Reservation.commit, []

    def lost_once(self, answer=None):
        if not failed:
            failed.append(service.datasets.get("visits").ledger)
            with monkeypatch.context() as broken:
                broken.setattr(type(failed[0]._turns), "do", lost)
                return commit(self, answer)
        return commit(self, answer)

    def lost(*_):
        raise shoal.ShoalError("E_LEDGER", "The database with the ledger cannot be reached, so nothing can be spent.")

    monkeypatch.setattr(Reservation, "commit", lost_once)
    ended = ask(service, "ann", counting(0.1, "lost"))
    assert (ended.state, ended.runs, spent(service)) == ("answered", 2, Fraction(1, 10))
    assert ask(service, "ann", counting(0.2)).state == "answered"


@pytest.mark.parametrize("noted", [False, True])
def test_a_second_run_that_finds_no_ledger_does_not_count(opened, monkeypatch, noted):
    """As when the machine of the database starts again after that of the service; `noted`: it was taken up, and nobody was told."""
    first = opened(start=False)
    job = left_by_a_dead_process(first)
    soon_left(monkeypatch)
    reserve, lost = Ledger.reserve, []

    def lost_twice(self, *args, **options):
        if len(lost) < 2:
            lost.append(options["resume"])
            if noted and len(lost) == 1:
                reserve(self, *args, **options)
            raise shoal.ShoalError("E_LEDGER", "The database with the ledger cannot be reached.")
        return reserve(self, *args, **options)

    monkeypatch.setattr(Ledger, "reserve", lost_twice)
    second = opened()
    ended = second.wait(job.id, 60)
    assert spent(second) == Fraction(1, 10)
    assert (ended.state, ended.charged, lost[0]) == ("failed" if noted else "answered", True, True)
    assert second._slots._left == set()


def test_a_run_whose_end_the_store_did_not_take_is_answered_once_it_can_be_written(opened, monkeypatch):
    """A slot here had given it up, and this process said that it ran, for as long as it lived."""
    service = opened(start=False)
    soon_left(monkeypatch)
    ledger = service.datasets.get("visits").ledger
    mend = broken_once(monkeypatch, service.store, "before", lambda _: ledger.ended())
    service.start()
    job = service.ask(caller(service, "ann"), "visits", Question(counting()), "k")
    until(lambda: ledger.ended() and not service._slots._held)
    mend()
    ended = service.wait(job.id, 60)
    assert (ended.state, ended.runs, ended.charged, spent(service)) == ("answered", 2, True, Fraction(1, 10))
    assert service.check()[1] == 1


@pytest.mark.parametrize("takes", ["handed over", "taken"])
def test_a_job_that_was_stored_as_running_though_the_store_failed_runs_all_the_same(opened, monkeypatch, takes):
    """The connection is lost when the transaction is stored and before anybody is told."""
    service = opened(start=takes == "handed over")
    soon_left(monkeypatch)
    if takes == "handed over":
        until(lambda: service._slots._idle._waiting)
    else:
        service.ask(caller(service, "ann"), "visits", Question(counting()), "k")
    with monkeypatch.context() as broken:
        mend = broken_once(broken, service.store, "after", is_running)
        if takes == "handed over":
            with refused("E_LEDGER"):
                service.ask(caller(service, "ann"), "visits", Question(counting()), "k")
        else:
            monkeypatch.setattr(running, "IDLE_SECONDS", 0.01)
            assert service._slots._taken(looks_first=False) is None
        mend()
    if takes == "taken":
        service.start()
    job = service.ask(caller(service, "ann"), "visits", Question(counting()), "k")
    assert (service.wait(job.id, 60).state, spent(service)) == ("answered", Fraction(1, 10))
