"""The messages between a service and a runner: a JSON object and bytes, each with its length.

The bytes are those of an answer, or of a plan between two runners (`carried`).
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

_LENGTHS = struct.Struct(">IQ")
_LARGEST_HEAD = 64 * 2**20
_LARGEST_BODY = 4 * 2**30
_PIECE = 1024 * 1024


class Gone(Exception):  # noqa: N818 - not an error of whoever hears it
    """The process at the other end has died or closed the channel."""


def send(channel: socket.socket, message: dict[str, Any], body: bytes = b"") -> None:
    """Sends one message; `Gone` if nobody receives it."""
    head = json.dumps(message, separators=(",", ":")).encode()
    first = _LENGTHS.pack(len(head), len(body)) + head
    try:
        if len(body) <= _PIECE:
            channel.sendall(first + body)
        else:
            channel.sendall(first)
            channel.sendall(body)
    except OSError:
        raise Gone from None


def receive(channel: socket.socket) -> tuple[dict[str, Any], bytes]:
    """The next message; `Gone` if there will be none."""
    size_of_head, size_of_body = _LENGTHS.unpack(_read(channel, _LENGTHS.size))
    if size_of_head > _LARGEST_HEAD or size_of_body > _LARGEST_BODY:
        raise Gone
    if size_of_head + size_of_body <= _PIECE:  # nearly all: in one piece, as they are in the channel already
        both = _read(channel, size_of_head + size_of_body)
        head, body = both[:size_of_head], both[size_of_head:]
    else:
        head, body = _read(channel, size_of_head), _read(channel, size_of_body)
    try:
        message = json.loads(head)
    except ValueError:
        raise Gone from None
    if not isinstance(message, dict):
        raise Gone
    return message, body


def _read(channel: socket.socket, size: int) -> bytes:
    found = _piece(channel, size) if size else b""
    if len(found) == size:
        return found
    longer = bytearray(found)
    while len(longer) < size:
        longer += _piece(channel, size - len(longer))
    return bytes(longer)


def _piece(channel: socket.socket, most: int) -> bytes:
    try:
        piece = channel.recv(min(_PIECE, most))
    except OSError:
        raise Gone from None
    if not piece:
        raise Gone
    return piece
