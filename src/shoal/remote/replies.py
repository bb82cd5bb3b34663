"""Reads one reply of HTTP/1.1 from a connection.

The standard library reads its headers as those of a mail, which takes as long as all the rest that a client does for a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from typing import BinaryIO

LONGEST_LINE = 65_536
MOST_LINES = 256
MOST_EARLY = 16
"""Replies that only announce another one."""
LARGEST_BODY = 2**30 + 2**20
"""A service keeps no answer of more than 1 GiB."""
PIECE = 2**20
WITHOUT_BODY = frozenset({204, 304})


class NotWhole(Exception):  # noqa: N818 - the connection is lost, which sending again usually mends
    """The connection ended early, or what arrived is no reply."""


@dataclass(frozen=True, slots=True)
class Read:
    """A status, a body, and whether the connection ends with it."""

    status: int
    body: bytes
    is_last: bool


def read_reply(stream: BinaryIO) -> Read:
    """The next reply; `NotWhole` if there is none."""
    for _ in range(MOST_EARLY):
        version, status = _first_line(stream)
        headers = _headers(stream)
        if status >= 200:
            break
    else:  # what is said in advance has no body, and no end
        raise NotWhole
    said = headers.get(b"connection", b"").lower()
    is_last = b"close" in said or (version == b"HTTP/1.0" and b"keep-alive" not in said)
    if status in WITHOUT_BODY:
        return Read(status, b"", is_last)
    if b"chunked" in headers.get(b"transfer-encoding", b"").lower():
        return Read(status, _chunks(stream), is_last)
    length = headers.get(b"content-length")
    if length is None:
        return Read(status, _until_the_end(stream), is_last=True)
    return Read(status, _exactly(stream, _number(length, 10)), is_last)


def _first_line(stream: BinaryIO) -> tuple[bytes, int]:
    version, _, rest = _line(stream).partition(b" ")
    if version not in {b"HTTP/1.1", b"HTTP/1.0"} or len(rest) < 3:
        raise NotWhole
    return version, max(100, _number(rest[:3], 10))


def _headers(stream: BinaryIO) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for _ in range(MOST_LINES):
        line = _line(stream)
        if not line:
            return found
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip()
        if name == b"content-length" and found.get(name, value) != value:
            raise NotWhole
        found[name] = value
    raise NotWhole


def _chunks(stream: BinaryIO) -> bytes:
    found = bytearray()
    while size := _number(_line(stream).partition(b";")[0].strip(), 16):
        _require_room(len(found) + size)
        found += _exactly(stream, size)
        if _line(stream):
            raise NotWhole
    _headers(stream)  # of the end; most often none
    return bytes(found)


def _until_the_end(stream: BinaryIO) -> bytes:
    found = _at_most(stream, LARGEST_BODY + 1)
    _require_room(len(found))
    return found


def _line(stream: BinaryIO) -> bytes:
    line = stream.readline(LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise NotWhole
    return line.rstrip(b"\r\n")


def _exactly(stream: BinaryIO, size: int) -> bytes:
    _require_room(size)
    found = _at_most(stream, size)
    if len(found) != size:
        raise NotWhole
    return found


def _at_most(stream: BinaryIO, size: int) -> bytes:
    """So many bytes, or those before the end. Memory is taken for what arrives, not for what was announced."""
    if size <= PIECE:
        return stream.read(size)
    found = bytearray()
    while piece := stream.read(min(size - len(found), PIECE)):
        found += piece
    return bytes(found)


def _require_room(size: int) -> None:
    """Asking again would bring the same."""
    if size > LARGEST_BODY:
        raise ShoalError("E_SOURCE", "The reply is larger than any answer of a service.", hint="Check the address.")


def _number(text: bytes, base: int) -> int:
    """Digits alone: `int` would take signs, spaces and underscores."""
    if not text.isalnum() or len(text) > 16:
        raise NotWhole
    try:
        return int(text, base)
    except ValueError:
        raise NotWhole from None
