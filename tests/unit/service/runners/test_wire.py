"""What crosses between a service and its runners arrives whole, in any pieces, or not at all."""

from __future__ import annotations

import json
import socket
import struct
import threading

import pytest

from shoal.service.runners import wire


@pytest.fixture
def channel():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


@pytest.mark.parametrize("size", [0, 1, 1000, wire._PIECE - 10, wire._PIECE, wire._PIECE + 1, 3 * wire._PIECE + 7])
def test_messages_with_bytes_of_any_size_arrive_as_they_were_sent(channel, size):
    ours, theirs = channel
    messages = [
        ({"run": {"sql": "é" * 50}}, bytes(range(256)) * (size // 256) + b"x" * (size % 256)),
        ({"noted": True}, b""),
    ]
    sender = threading.Thread(target=lambda: [wire.send(ours, *each) for each in messages])
    sender.start()
    assert [wire.receive(theirs) for _ in messages] == messages
    sender.join()


def test_a_message_that_arrives_byte_by_byte_is_the_same(channel):
    ours, theirs = channel
    head = json.dumps({"answered": True}).encode()
    data = struct.pack(">IQ", len(head), 3) + head + b"abc"
    sender = threading.Thread(target=lambda: [ours.sendall(data[i : i + 1]) for i in range(len(data))])
    sender.start()
    assert wire.receive(theirs) == ({"answered": True}, b"abc")
    sender.join()


@pytest.mark.parametrize("cut", [0, 5, 12, 20, -1])
def test_a_message_that_ends_early_is_from_nobody(channel, cut):
    ours, theirs = channel
    head = json.dumps({"answered": True}).encode()
    ours.sendall((struct.pack(">IQ", len(head), 3) + head + b"abc")[:cut])
    ours.close()
    with pytest.raises(wire.Gone):
        wire.receive(theirs)


@pytest.mark.parametrize("head", [b"[]", b"{", b"\xff", b""])
def test_what_is_no_message_is_from_nobody(channel, head):
    ours, theirs = channel
    ours.sendall(struct.pack(">IQ", len(head), 0) + head)
    with pytest.raises(wire.Gone):
        wire.receive(theirs)


def test_lengths_that_no_message_has_are_not_waited_for(channel):
    ours, theirs = channel
    ours.sendall(struct.pack(">IQ", 1, 2**60))
    with pytest.raises(wire.Gone):
        wire.receive(theirs)
