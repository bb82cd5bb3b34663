"""Idle threads: one call wakes one of them, no call is lost, and the one that worked last comes first."""

from __future__ import annotations

import queue
import threading

from shoal.service.runners.idle import Idle

LONG = 300.0


def sleeper(idle, name, woken, *, has_worked=True):
    """A thread that waits and says when it was called."""
    before = len(idle._waiting)

    def sleep():
        idle.wait(LONG, has_worked=has_worked)
        woken.put(name)

    thread = threading.Thread(target=sleep, daemon=True)
    thread.start()
    while len(idle._waiting) == before:
        thread.join(0.001)
    return thread


def test_one_call_wakes_the_one_that_worked_last():
    idle, woken = Idle(), queue.Queue()
    for name in ("first", "second"):
        sleeper(idle, name, woken)
    sleeper(idle, "idle before", woken, has_worked=False)
    order = []
    for _ in range(3):
        idle.call_one()
        order.append(woken.get(timeout=LONG))
    assert order == ["second", "first", "idle before"]


def test_one_call_wakes_one():
    idle, woken = Idle(), queue.Queue()
    for name in ("first", "second"):
        sleeper(idle, name, woken)
    idle.call_one()
    woken.get(timeout=LONG)
    assert len(idle._waiting) == 1
    idle.call_all()
    assert woken.get(timeout=LONG) == "first"


def test_a_call_that_found_nobody_is_heard_by_who_comes_next():
    idle = Idle()
    idle.call_one()
    idle.wait(LONG, has_worked=True)
    assert not idle._waiting


def test_who_was_not_called_leaves_no_place_behind():
    idle, woken = Idle(), queue.Queue()
    idle.wait(0.001, has_worked=True)
    assert not idle._waiting
    sleeper(idle, "other", woken)
    idle.call_one()
    assert woken.get(timeout=LONG) == "other"


def test_a_thread_that_was_taken_waits_for_its_work_however_late_it_comes():
    idle, got = Idle(), queue.Queue()
    thread = threading.Thread(target=lambda: got.put(idle.wait(0.05, has_worked=True)))
    thread.start()
    taken = None
    while taken is None and thread.is_alive():
        taken = idle.take()
    if taken is None:  # it gave up first, as it may
        assert got.get() == (False, None)
        return
    assert idle.take() is None
    thread.join(0.2)  # longer than it would have waited
    assert thread.is_alive()
    taken.call("work")
    assert got.get(timeout=LONG) == (True, "work")


def test_a_thread_that_is_called_without_work_looks_for_it_itself():
    idle, got = Idle(), queue.Queue()
    thread = threading.Thread(target=lambda: got.put(idle.wait(LONG, has_worked=True)))
    thread.start()
    while (taken := idle.take()) is None:
        thread.join(0.001)
    taken.call()
    assert got.get(timeout=LONG) == (True, None)
