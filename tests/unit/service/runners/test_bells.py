"""Bells: what one process of a service says, the others hear; nobody waits for one who does not listen."""

from __future__ import annotations

import queue
import threading

import pytest

from shoal.service.runners.bells import A_JOB_WAITS, Bell, bells
from shoal.service.service import Service

LONG = 300.0


def test_all_others_hear_each_word_and_the_ringer_does_not():
    seats = bells(3)
    heard = [queue.Queue() for _ in seats]
    for bell, words in zip(seats, heard, strict=True):
        bell.listen(words.put)
    seats[0].ring("j_1")
    seats[1].ring("j_2")
    assert [heard[2].get(timeout=LONG), heard[2].get(timeout=LONG)] == ["j_1", "j_2"]
    assert heard[1].get(timeout=LONG) == "j_1"
    assert heard[0].get(timeout=LONG) == "j_2"  # not its own word, which was rung first


def test_a_process_that_does_not_listen_keeps_nobody_waiting():
    ringing, _ = bells(2)
    for _ in range(100_000):  # many times what a pipe holds
        ringing.ring("j_0123456789")


def test_a_bell_without_others_is_silent():
    Bell().ring("j_1")
    Bell().listen(lambda _: pytest.fail("heard something"))


def test_whoever_waits_in_another_process_hears_of_a_job(tmp_path):
    one, other = (Service.open(tmp_path / "home", bell=bell) for bell in bells(2))
    try:
        heard = threading.Event()
        one._bell.listen(one._hear)
        with one.listening("j_1", lambda _: heard.set()):
            other._changed("j_1")
            assert heard.wait(LONG)
    finally:
        one.close(0.0)
        other.close(0.0)


def test_an_idle_slot_hears_of_a_job_that_waits_elsewhere(tmp_path):
    one, other = (Service.open(tmp_path / "home", bell=bell) for bell in bells(2))
    try:
        one._bell.listen(one._hear)
        woken = threading.Event()

        def sleep():
            one._slots._idle.wait(LONG, has_worked=False)
            woken.set()

        threading.Thread(target=sleep, daemon=True).start()
        other._slots.wake()  # it has no idle slot
        assert woken.wait(LONG)
    finally:
        one.close(0.0)
        other.close(0.0)


def test_no_job_has_the_name_of_a_job_that_waits():
    assert A_JOB_WAITS == ""
