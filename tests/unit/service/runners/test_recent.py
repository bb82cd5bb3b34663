"""Answers of late: found as they were noted, the oldest forgotten first, large ones not remembered."""

from __future__ import annotations

import pytest
from service_shop import counting

from shoal.service.questions import Question
from shoal.service.runners import recent
from shoal.service.runners.recent import RecentAnswers


def test_the_one_that_nobody_used_for_longest_is_forgotten_first(monkeypatch):
    monkeypatch.setattr(recent, "MOST", 2)
    known = RecentAnswers()
    known.note("a", b"1")
    known.note("b", b"2")
    assert known.find("a").data == b"1"
    known.note("c", b"3")
    assert (known.find("a").data, known.find("b"), known.find("c").data) == (b"1", None, b"3")


def test_a_large_answer_is_handed_over_and_not_remembered(monkeypatch):
    monkeypatch.setattr(recent, "LARGEST", 2)
    known = RecentAnswers()
    assert known.note("a", b"123").data == b"123"
    assert known.find("a") is None


@pytest.fixture
def place(tmp_path):
    return tmp_path / "home"


def test_what_a_job_hands_over_is_what_its_ledger_keeps(service):
    ann = service.people.trusted("ann", "test")
    job = service.wait(service.ask(ann, "visits", Question(counting(0.1, "n"))).id, 60)
    kept = service.answer_of(ann, job)
    found, data, result = service.answer(ann, job.answer)
    assert kept.data == data == service.datasets.ledger(found["ledger"]).answer_of_charge(found["charge"])
    assert kept.result.to_bytes() == result.to_bytes() == data
