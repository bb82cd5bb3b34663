"""Processes that listen at one socket take as many connections as each other, and none waits for one that does not come."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import ExitStack, suppress

import pytest

from shoal.web.operation import sharing
from shoal.web.operation.sharing import Seat, Seats, SharedListener
from shoal.web.server import bound_socket


def test_a_seat_counts_its_connections_from_none():
    seats = Seats(3)
    seats.put(1, 7)  # whoever sat there died
    first, second = Seat(seats, 0), Seat(seats, 1)
    for _ in range(3):
        first.came()
    first.went()
    second.came()
    assert [seats.of(number) for number in range(2)] == [2, 1]
    assert [seats.fewest_beside(number) for number in range(3)] == [1, 2, 1]  # nobody sits in the third
    seats.leave(1)
    assert seats.fewest_beside(0) > 2**40


def test_what_was_accepted_counts_until_it_is_made_or_given_up(monkeypatch):
    """One loop of asyncio accepts all that wait; and an agreement on TLS that fails is never heard of again."""
    now = [100.0]
    monkeypatch.setattr(sharing.time, "monotonic", lambda: now[0])
    seats = Seats(2)
    first, second = Seat(seats, 0), Seat(seats, 1)
    first.accepted()
    assert (seats.of(0), first.leaves()) == (1, True)
    first.came()
    assert seats.of(0) == 1
    first.accepted()
    assert seats.of(0) == 2
    now[0] += sharing.COMING_SECONDS + 1
    second.came()
    assert not first.leaves()
    assert seats.of(0) == 1
    first.went()
    assert seats.of(0) == 0


def test_whoever_has_more_leaves_the_next_one_for_a_moment_only(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(sharing.time, "monotonic", lambda: now[0])
    seats = Seats(2)
    first, second = Seat(seats, 0), Seat(seats, 1)
    assert not first.leaves()
    first.came()
    assert first.leaves()
    assert not second.leaves()
    now[0] += sharing.MOMENT_SECONDS * 0.9
    assert first.leaves()
    now[0] += sharing.MOMENT_SECONDS * 0.2
    assert not first.leaves()  # nobody came for it
    now[0] += 60
    assert first.leaves()  # that is another one
    second.came()
    assert not first.leaves()


def test_one_process_alone_leaves_nothing():
    seat = Seat(Seats(1), 0)
    for _ in range(5):
        assert not seat.leaves()
        seat.came()


def counted(listening, seats, number, pipe):
    """A process that accepts all it can at once, as asyncio does, and says whenever it did."""
    listening.setblocking(False)
    listening.seat = Seat(seats, number)
    os.write(pipe, b"r")
    kept, seen = [], 0
    while True:
        with suppress(BlockingIOError):
            while True:
                kept.append(listening.accept())
                os.write(pipe, b"%d" % number)
        while seen < len(kept):
            seen += 1
            listening.seat.came()
        time.sleep(0.0005)


def test_two_processes_take_as_many_connections_as_each_other():
    listening, seats = bound_socket("127.0.0.1", 0), Seats(2)
    assert isinstance(listening, SharedListener)
    read, write = os.pipe()
    children = []
    for number in range(2):
        child = os.fork()
        if child == 0:
            try:
                counted(listening, seats, number, write)
            finally:
                os._exit(1)
        children.append(child)
    try:
        with ExitStack() as stack:
            assert [os.read(read, 1) for _ in children] == [b"r"] * 2
            took = b""
            for _ in range(10):
                stack.enter_context(socket.create_connection(listening.getsockname()))
                took += os.read(read, 1)
            for child in children:
                os.kill(child, signal.SIGSTOP)
            for _ in range(10):  # so many wait when they come back
                stack.enter_context(socket.create_connection(listening.getsockname()))
            for child in children:
                os.kill(child, signal.SIGCONT)
            while len(took) < 20:
                took += os.read(read, 1)
            counts = sorted((took.count(b"0"), took.count(b"1")))
            os.kill(children[0], 9)
            for _ in range(3):  # it has gone: the other one takes all
                stack.enter_context(socket.create_connection(listening.getsockname()))
                assert os.read(read, 1) == b"1"
    finally:
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, 9)
            os.waitpid(child, 0)
        listening.close()
    assert sum(counts) == 20
    assert counts[0] >= 5  # by turns, unless one of them was kept from working for a moment


@pytest.mark.parametrize("seat", [None, Seat(Seats(2), 0)])
def test_what_is_accepted_is_an_ordinary_socket(seat):
    with bound_socket("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()) as client:
        listening.seat = seat
        server, address = listening.accept()
        with server:
            assert type(server) is socket.socket
            assert address == client.getsockname()
