"""The socket in front of Flight SQL: what a stranger sends is counted before it is read; what programs send passes."""

from __future__ import annotations

import random
import socket

import pyarrow.flight as fl
import pytest
from web_server import Served

from shoal.web.flight_sql import front
from shoal.web.flight_sql.front import MOST_BYTES, MOST_CALLS, Calls, Frames, TooMuchError
from shoal.web.flight_sql.messages import written
from shoal.web.server import Doorway, Place, bound_socket

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS = 0, 1, 3, 4


def frame(kind, call, body=b"", flags=0, length=None):
    size = len(body) if length is None else length
    return size.to_bytes(3, "big") + bytes([kind, flags]) + call.to_bytes(4, "big") + body


# ---- counting ------------------------------------------------------------------------------------------------------


def test_frames_are_found_however_the_bytes_are_cut():
    chance = random.Random(7)
    sent = [
        (chance.randrange(10), chance.randrange(256), chance.randrange(9), chance.randrange(500)) for _ in range(200)
    ]
    data = PREFACE + b"".join(frame(k, call, bytes(length), flags) for k, flags, call, length in sent)
    for _ in range(20):
        frames, found, at = Frames(PREFACE), [], 0
        while at < len(data):
            size = chance.choice([1, 3, 8, 9, 10, 500])
            found += frames.read(data[at : at + size])
            at += size
        assert found == sent


def test_what_does_not_begin_as_http_2_is_not_passed_on():
    with pytest.raises(TooMuchError):
        Calls().asked(b"GET / HTTP/1.1\r\n\r\n")


def test_a_frame_that_announces_too_much_is_refused_before_its_bytes_come():
    calls = Calls()
    calls.asked(PREFACE + frame(HEADERS, 1, b"x" * 100))
    with pytest.raises(TooMuchError):
        calls.asked(frame(DATA, 1, length=MOST_BYTES))


def test_calls_count_together_until_their_last_reply():
    calls = Calls()
    calls.asked(PREFACE)
    half = MOST_BYTES // 2 - 50_000
    for call in (1, 3):
        calls.asked(frame(HEADERS, call, b"h") + frame(DATA, call, bytes(half)))
    with pytest.raises(TooMuchError):
        calls.asked(frame(DATA, 5, length=200_000))
    again = Calls()
    again.asked(PREFACE)
    for call in range(1, 99, 2):  # many times the limit, one call after the other
        again.asked(frame(HEADERS, call, b"h") + frame(DATA, call, bytes(half)))
        again.replied(frame(HEADERS, call, b"h") + frame(HEADERS, call, b"t", flags=0x1))


def test_there_are_only_so_many_open_calls():
    calls = Calls()
    calls.asked(PREFACE)
    for call in range(MOST_CALLS):
        calls.asked(frame(HEADERS, 2 * call + 1, b"h"))
    calls.asked(frame(RESET, 1, bytes(4)))
    calls.asked(frame(HEADERS, 1001, b"h"))
    with pytest.raises(TooMuchError):
        calls.asked(frame(HEADERS, 1003, b"h"))


def test_other_frames_are_short():
    calls = Calls()
    with pytest.raises(TooMuchError):
        calls.asked(PREFACE + frame(SETTINGS, 0, length=MOST_BYTES + 1))


# ---- a service -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("front"))
    opened = Doorway(served.service, Place(flight_port=0), bound_socket("127.0.0.1", 0))
    yield opened.address
    opened.close()
    served.close()


def test_a_large_message_without_a_token_ends_its_connection_and_no_other(address):
    huge = fl.FlightDescriptor.for_command(bytes(8 * MOST_BYTES))
    small = fl.FlightDescriptor.for_command(written("CommandStatementQuery", [(1, b"SELECT 1")]))
    options = fl.FlightCallOptions(timeout=300)
    with fl.connect(address) as good, fl.connect(address) as bad:
        with pytest.raises(fl.FlightUnauthenticatedError):
            good.get_flight_info(small, options)
        with pytest.raises(fl.FlightUnavailableError):
            bad.get_flight_info(huge, options)
        with pytest.raises(fl.FlightUnauthenticatedError):
            good.get_flight_info(small, options)


def test_who_asks_nothing_does_not_stay(address, monkeypatch):
    monkeypatch.setattr(front, "FIRST_CALL_SECONDS", 0.05)
    host, _, port = address.removeprefix("grpc://").rpartition(":")
    with socket.create_connection((host, int(port)), 300) as silent:
        silent.sendall(PREFACE + frame(SETTINGS, 0))
        while silent.recv(4096):
            continue


def test_there_are_only_so_many_connections(address, monkeypatch):
    monkeypatch.setattr(front, "MOST_CONNECTIONS", 0)
    host, _, port = address.removeprefix("grpc://").rpartition(":")
    with socket.create_connection((host, int(port)), 300) as one_too_many:
        assert one_too_many.recv(1) == b""


def test_a_connection_that_asks_nothing_makes_room_for_a_new_one(address, monkeypatch):
    """Who held all of them after one refused call each shut everybody else out."""
    monkeypatch.setattr(front, "MOST_CONNECTIONS", 1)
    asked = fl.FlightDescriptor.for_command(written("CommandStatementQuery", [(1, b"SELECT 1")]))
    host, _, port = address.removeprefix("grpc://").rpartition(":")
    with socket.create_connection((host, int(port)), 300) as idle:
        idle.sendall(PREFACE + frame(SETTINGS, 0))
        assert idle.recv(9)
        with fl.connect(address) as newcomer, pytest.raises(fl.FlightUnauthenticatedError):
            newcomer.get_flight_info(asked, fl.FlightCallOptions(timeout=300))
        while idle.recv(4096):
            continue


def test_a_connection_is_at_work_from_a_whole_question_to_its_last_reply():
    calls = Calls()
    calls.asked(PREFACE + frame(HEADERS, 1, b"x"))
    assert calls.is_answered
    calls.asked(frame(DATA, 1, b"y", flags=1))
    assert not calls.is_answered
    calls.replied(frame(HEADERS, 1, b"z", flags=1))
    assert calls.is_answered
