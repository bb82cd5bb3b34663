"""The service's end of a runner: a word about one statement is never taken for one about another."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress

import pytest

from shoal.service.runners import nursery, wire
from shoal.service.runners.errand import Place, PlanErrand
from shoal.service.runners.hired import Died, Hired, nothing

PLACE = Place("visits", 1, "nowhere", "", 1.0)
ERRAND = PlanErrand(PLACE, "asked", "ann", True, "c", "SELECT 1", "basic", None, True, {})


class GivenUpError(Exception):
    """Somebody gives up."""


@pytest.fixture
def hired(monkeypatch):
    """A runner, what it says to each errand, and the processes that it was: threads of this one."""
    says, begun = [], []

    def new_runner(_share):
        ours, theirs = socket.socketpair()
        begun.append(threading.Thread(target=answers, args=(theirs, says), daemon=True))
        begun[-1].start()
        return ours, 2**22 + len(begun)  # a process that cannot be

    monkeypatch.setattr(nursery, "new_runner", new_runner)
    found = Hired(0)
    yield found, says, begun
    found.close()
    for thread in begun:
        thread.join(10)


def answers(channel, says):
    with channel, suppress(wire.Gone):
        while True:
            message, _ = wire.receive(channel)
            if "ready" in message:
                wire.send(channel, {"ready": True, "errand": message["errand"]})
            elif "plan" in message:
                for said in says.pop(0)(message["errand"]):
                    wire.send(channel, said)


def planned(errand, what):
    return {"planned": {"key": what}, "errand": errand}


def test_a_reply_is_about_the_errand_that_was_sent(hired):
    runner, says, begun = hired
    says += [lambda number: [planned(number, "first")], lambda number: [planned(number, "second")]]
    assert [runner.plan(ERRAND, 5.0)[0]["key"] for _ in range(2)] == ["first", "second"]
    assert len(begun) == 1


@pytest.mark.parametrize("number", [-1, 1, None])
def test_a_word_about_another_statement_ends_the_process_that_says_it(hired, number):
    runner, says, begun = hired
    says += [
        lambda n: [planned(None if number is None else n + number, "another")],
        lambda n: [planned(n, "right")],
    ]
    with pytest.raises(Died):
        runner.plan(ERRAND, 5.0)
    assert runner.plan(ERRAND, 5.0)[0] == {"key": "right"}
    assert len(begun) == 2


def test_a_second_word_about_a_statement_is_not_about_the_next(hired):
    runner, says, _ = hired
    says += [lambda n: [planned(n, "first"), planned(n, "once more")], lambda n: [planned(n, "second")]]
    assert runner.plan(ERRAND, 5.0)[0] == {"key": "first"}
    with suppress(Died):
        assert runner.plan(ERRAND, 5.0)[0] == {"key": "second"}


def test_a_process_whose_statement_was_given_up_is_not_asked_another(hired, monkeypatch):
    """What it had to say about the first was the reply to the next: the plan, price and key of somebody else's question."""
    runner, says, begun = hired
    killed = []
    monkeypatch.setattr(os, "kill", lambda pid, _: killed.append(pid))
    says += [lambda n: [planned(n, "given up")], lambda n: [planned(n, "right")]]

    def gives_up():
        raise GivenUpError

    with pytest.raises(GivenUpError):
        runner.plan(ERRAND, 5.0, gives_up)
    assert runner.plan(ERRAND, 5.0, nothing)[0] == {"key": "right"}
    assert (len(begun), killed) == (2, [2**22 + 1])
