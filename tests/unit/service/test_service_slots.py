"""An idle slot takes a job on its way to the store; a job that others come before waits for its turn."""

from __future__ import annotations

import time
from contextlib import contextmanager
from fractions import Fraction

import pytest
from service_calls import caller, refused, spent
from service_shop import counting

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
    monkeypatch.setattr(Slots, "_run", lambda slots, job, runner: ran.append(job.id) or run(slots, job, runner))

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
