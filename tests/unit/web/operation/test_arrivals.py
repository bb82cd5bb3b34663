"""Replies leave in one piece, whatever they are made of."""

from __future__ import annotations

from shoal.web.operation.arrivals import InOnePiece

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


class Written:
    """Where a transport would send what is written."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.pieces.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


def test_a_head_waits_for_what_follows_and_nothing_else_does():
    under = Written()
    transport = InOnePiece(under)
    for piece in (
        b"HTTP/1.1 100 Continue\r\n\r\n",
        HEAD,
        b"ab",
        b"",
        HEAD,
        b"HTTP/1.1 like a head\r\n\r\n",
        b"more",
        b"",
    ):
        transport.write(piece)
    continued, first, end, second, more, last = under.pieces
    assert (continued, first, end) == (b"HTTP/1.1 100 Continue\r\n\r\n", HEAD + b"ab", b"")
    assert (second, more, last) == (HEAD + b"HTTP/1.1 like a head\r\n\r\n", b"more", b"")


def test_a_reply_without_a_body_leaves_with_its_end():
    under = Written()
    transport = InOnePiece(under)
    for piece in (HEAD, b""):
        transport.write(piece)
    assert under.pieces == [HEAD]


def test_closing_lets_go_of_what_was_kept():
    under = Written()
    transport = InOnePiece(under)
    transport.write(HEAD)
    transport.close()
    assert (under.pieces, transport.is_closing()) == ([HEAD], True)
