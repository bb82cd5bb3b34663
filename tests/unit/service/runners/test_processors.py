"""Short runs compute as many at once as there are places; charged ones come first; long ones keep nobody waiting."""

from __future__ import annotations

import queue
import socket
import threading

from shoal.service.runners.hired import Hired
from shoal.service.runners.processors import Processors, Turn

LONG = 300.0
FAR = (float("inf"), float("inf"))


def waiter(processors, taken, name, *, charged):
    """A thread that waits for a place."""

    def wait():
        processors.take(charged=charged)
        taken.put(name)

    threading.Thread(target=wait, daemon=True).start()


def test_there_are_never_more_at_once_than_places():
    processors, lock = Processors(2), threading.Lock()
    now, most = 0, 0

    def compute():
        nonlocal now, most
        for _ in range(50):
            turn = Turn(processors)
            turn.begin()
            with lock:
                now += 1
                most = max(most, now)
            with lock:
                now -= 1
            turn.end()

    threads = [threading.Thread(target=compute) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
    assert not any(thread.is_alive() for thread in threads)
    assert 1 <= most <= 2


def test_a_charged_run_comes_before_one_that_waits_longer():
    processors, taken = Processors(1), queue.Queue()
    processors.take(charged=False)
    waiter(processors, taken, "free", charged=False)
    waiter(processors, taken, "charged", charged=True)
    while not processors._charged_waiting:
        threading.Event().wait(0.001)
    processors.give()
    assert taken.get(timeout=LONG) == "charged"
    processors.give()
    assert taken.get(timeout=LONG) == "free"


def test_a_turn_gives_back_one_place_however_often_it_ends():
    processors = Processors(1)
    turn = Turn(processors)
    turn.end()
    turn.begin()
    turn.begin(charged=True)
    turn.end()
    turn.end()
    assert processors._free == 1


def test_a_long_run_makes_room_and_goes_on():
    """The other run gets the only place while this one still computes: without that, neither would end."""
    processors = Processors(1)
    long, short = Turn(processors), Turn(processors)
    ours, theirs = socket.socketpair()
    long.begin()

    def other():
        short.begin()
        theirs.sendall(b"x")

    threading.Thread(target=other, daemon=True).start()
    ended = threading.Thread(target=Hired(0, processors)._await_in_turn, args=(ours, FAR, long), daemon=True)
    ended.start()
    ended.join(LONG)
    assert not ended.is_alive()
    with ours, theirs:
        assert ours.recv(1) == b"x"
