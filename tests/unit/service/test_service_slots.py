"""An idle slot takes a job on its way to the store; a job that others come before waits for its turn."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction

import pytest
from service_calls import caller, refused, spent
from service_shop import counting

from shoal.accounting.spending.processes import this_process
from shoal.service import jobs, running
from shoal.service.questions import Question
from shoal.service.running import Slots
from shoal.service.store import unusable

TENTH = Fraction(1, 10)


@pytest.fixture(autouse=True)
def slots_sleep_long(monkeypatch):
    """A slot that looks around is not idle for a moment."""
    monkeypatch.setattr(running, "IDLE_SECONDS", 300.0)


@pytest.fixture
def idle(opened):
    """A service with a slot that waits for work."""
    service = opened()
    until(lambda: service._slots._idle._waiting)
    return service


def until(holds):
    ends = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.01)


def ask(service, text, key=None, **more):
    return service.ask(caller(service, "ann"), "visits", Question(text, **more), key)


def from_the_queue(monkeypatch):
    """Ids of the jobs that slots take from the store."""
    found = []
    take_next = jobs.take_next

    def noted(*about):
        job = take_next(*about)
        found.extend([] if job is None else [job.id])
        return job

    monkeypatch.setattr(jobs, "take_next", noted)
    return found


def test_an_idle_slot_begins_at_once(idle, monkeypatch):
    queued = from_the_queue(monkeypatch)
    job = ask(idle, counting())
    assert (job.state, job.runs, idle.position(job)) == ("running", 1, None)
    ended = idle.wait(job.id, 60)
    assert (ended.state, ended.runs, ended.charged, spent(idle)) == ("answered", 1, True, TENTH)
    assert queued == []
    until(lambda: not idle._slots._held)


def test_without_a_slot_it_waits(opened):
    service = opened(start=False)
    assert ask(service, counting()).state == "waiting"


def test_a_question_that_comes_when_somebody_waits_comes_after_them(opened, monkeypatch):
    service = opened(start=False)
    first = ask(service, counting())
    second = ask(service, counting(0.2))
    with service.store.reading() as rows:
        assert not jobs.may_begin(rows, second)
        assert jobs.under_request(rows, first.request).state == "waiting"
    queued = from_the_queue(monkeypatch)
    service.start()
    assert {service.wait(job.id, 60).state for job in (first, second)} == {"answered"}
    assert queued == [first.id, second.id]


@pytest.mark.parametrize(
    ("text", "more"), [("SELECT COUNT(*) AS n FROM sites", {}), (counting(), {"answer_time": 1.5})]
)
def test_questions_that_few_slots_are_for_wait_in_the_queue(idle, monkeypatch, text, more):
    queued = from_the_queue(monkeypatch)
    job = ask(idle, text, **more)
    assert job.state == "waiting"
    assert idle.wait(job.id, 60).state == "answered"
    assert queued == [job.id]


def test_nothing_runs_that_the_store_does_not_have(idle, monkeypatch):
    """The transaction fails when the slot has the job already: the slot looks for another, and the question can be asked again."""
    writing, run, ran = type(idle.store).writing, Slots._run, []
    monkeypatch.setattr(Slots, "_run", lambda slots, job, *others: ran.append(job.id) or run(slots, job, *others))

    @contextmanager
    def failing(store, **options):
        with writing(store, **options) as rows:
            yield rows
            raise unusable("cannot be written")

    with monkeypatch.context() as broken, refused("E_LEDGER"):
        broken.setattr(type(idle.store), "writing", failing)
        ask(idle, counting(), "k")
    assert (ran, idle._slots._held, spent(idle)) == ([], set(), 0)
    until(lambda: idle._slots._idle._waiting)
    job = ask(idle, counting(), "k")
    assert (idle.wait(job.id, 60).state, ran, spent(idle)) == ("answered", [job.id], TENTH)


def test_a_service_that_ends_hands_nothing_over(idle):
    idle._slots._ending = True
    try:
        with idle._slots.offered() as take:
            assert take is None
        assert idle._slots._idle._waiting
    finally:
        idle._slots._ending = False


def test_what_was_handed_over_is_ended_when_the_service_stops(opened):
    service = opened()
    until(lambda: service._slots._idle._waiting)
    job = ask(service, counting())
    assert job.state == "running"
    assert service.close(60.0)
    later = opened(start=False)
    with later.store.reading() as rows:
        assert jobs.get(rows, job.id).state == "answered"


def in_the_queue(service, *names):
    """Questions that wait, in this order."""
    return [ask(service, counting(what=name)).id for name in names]


def test_a_slot_takes_its_next_job_in_the_transaction_that_ends_one(opened, monkeypatch):
    """And looks no further: whoever comes later calls it."""
    service = opened(start=False, slots=1)
    asked = in_the_queue(service, "a", "b", "c")
    looks, taken, whole = [], [], Slots._taken
    monkeypatch.setattr(Slots, "_taken", lambda slots, **how: looks.append(len(taken)) or whole(slots, **how))
    run = Slots._run
    monkeypatch.setattr(Slots, "_run", lambda slots, job, *others: taken.append(job.id) or run(slots, job, *others))
    service.start()
    assert [service.wait(job, 60).state for job in asked] == ["answered"] * 3
    assert taken == asked
    assert 1 not in looks
    assert 2 not in looks
    until(lambda: not service._slots._held)


def test_what_was_taken_in_a_transaction_that_fails_waits_on(opened, monkeypatch):
    service = opened(start=False, slots=1)
    first, second = in_the_queue(service, "a", "b")
    with service.store.writing() as rows:
        job = jobs.take_next(rows)
    after = running.After()

    def fail():
        with service._slots._then_taken(job, after) as take, service.store.writing() as rows:
            take(rows)
            assert after.job.id == second
            assert second in service._slots._held
            raise unusable("cannot be written")

    with refused("E_LEDGER"):
        fail()
    assert (job.id, after.job, after.has_looked, service._slots._held) == (first, None, False, set())
    with service.store.reading() as rows:
        assert jobs.get(rows, second).state == "waiting"


def test_nothing_is_taken_by_a_service_that_ends(opened):
    service = opened(start=False, slots=1)
    in_the_queue(service, "a", "b")
    with service.store.writing() as rows:
        job = jobs.take_next(rows)
    after = running.After()
    service._slots._ending = True
    with service._slots._then_taken(job, after) as take, service.store.writing() as rows:
        take(rows)
    assert (after.job, service._slots._held) == (None, set())


def test_jobs_that_came_to_this_process_come_first_for_a_while(opened, monkeypatch):
    """It has their plans, and whoever waits for them. Nobody waits for ever for a process that is gone, whatever the clock says."""
    monkeypatch.setattr(jobs, "LEFT_TO_OTHERS", 2)
    service = opened(start=False)
    ids = in_the_queue(service, "a", "b", "c", "d", "e")
    with service.store.writing() as rows:
        for job, came_to in zip(ids, ("gone", "gone", "other", this_process(), "other"), strict=True):
            rows.run("UPDATE jobs SET came_to = ? WHERE id = ?", came_to, job)
        taken = [jobs.take_next(rows).id for _ in ids]
    assert taken == [ids[0], ids[1], ids[3], ids[2], ids[4]]


def test_whoever_runs_fewest_comes_first_wherever_they_came(opened):
    service = opened(start=False)
    ids = in_the_queue(service, "a", "b")
    with service.store.writing() as rows:
        rows.run("UPDATE jobs SET came_to = 'other', person = 'bob' WHERE id = ?", ids[1])
        jobs.put(rows, replace(jobs.get(rows, ids[0]), id="j_x", request="x", state="running"))
        assert jobs.take_next(rows).id == ids[1]


def test_a_job_that_ends_is_told_whole_to_whoever_waits_in_this_process(opened):
    """They need not look it up; whoever waits behind it does, as its answer is theirs only if the store says so."""
    service = opened(start=False)
    ann, told, told_behind = caller(service, "ann"), [], []
    first, second = ask(service, counting()), ask(service, counting(), "again")
    with service.listening(first.id, told.append), service.listening(second.id, told_behind.append):
        service.start()
        assert [service.wait(job.id, 60).state for job in (first, second)] == ["answered"] * 2
        until(lambda: told and told_behind)
    (ended,) = told
    assert (ended.id, ended.state, ended.charged) == (first.id, "answered", True)
    assert ended.answer == service.job(ann, first.id).answer
    assert service.at_hand(ann, ended) == service.answer(ann, ended.answer)[1]
    assert service.at_hand(caller(service, "bob"), ended) is None
    assert service.at_hand(replace(ann, datasets=frozenset()), ended) is None
    assert service.at_hand(replace(ann, scope=frozenset({"explain"})), ended) is None
    assert told_behind == [None]


def test_a_new_job_has_the_id_that_its_asker_listens_for(opened):
    service = opened(start=False)
    ann = caller(service, "ann")
    first = service.ask(ann, "visits", Question(counting()), "k", identifier="j_mine")
    again = service.ask(ann, "visits", Question(counting()), "k", identifier="j_other")
    assert (first.id, again.id) == ("j_mine", "j_mine")
