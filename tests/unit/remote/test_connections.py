"""HTTP to one service: kept connections, whole replies, nothing of a header's value becomes another header."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import tracemalloc
from contextlib import closing, contextmanager, suppress
from io import BufferedReader, BytesIO
from urllib.parse import urlsplit

import pytest

import shoal
from shoal.errors import ShoalError
from shoal.remote import RemoteSession
from shoal.remote.connections import Direct, Lost, Proxied, Reply, client_of
from shoal.remote.replies import NotWhole, read_reply

LAST = b"(then it closes)"


@contextmanager
def answering(*replies: bytes, tls: ssl.SSLContext | None = None):
    """A server that gives one reply to each request, in order; it closes a connection after one that ends with `LAST`."""
    heard: list[bytes] = []
    accepted: list[int] = []
    waiting = list(replies)

    def serve(listening: socket.socket) -> None:
        while waiting:
            connection, _ = listening.accept()
            accepted.append(1)
            with connection, suppress(OSError), _spoken(connection, tls) as spoken:
                while waiting and (request := spoken.recv(65536)):
                    heard.append(request)
                    said = waiting.pop(0)
                    spoken.sendall(said.removesuffix(LAST))
                    if said.endswith(LAST):
                        break

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,))
        thread.start()
        yield listening.getsockname()[1], heard, accepted
        thread.join(300)


def _spoken(connection: socket.socket, tls: ssl.SSLContext | None) -> socket.socket:
    return tls.wrap_socket(connection, server_side=True) if tls else connection


def reply(body: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join([b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *headers, b"", body])


@contextmanager
def client(port: int):
    with closing(Direct(urlsplit(f"http://127.0.0.1:{port}/base"))) as made:
        yield made


def test_one_connection_serves_one_request_after_the_other():
    with answering(reply(b"1"), reply(b"2")) as (port, heard, accepted), client(port) as made:
        first = made.request("POST", "/x", headers={"A": "b"}, body={"sql": "ä"})
        second = made.request("GET", "/y z", headers={}, parameters={"wait": "1 2"})
    assert (first.json(), second.json(), len(accepted)) == (1, 2, 1)
    assert heard[0].startswith(b"POST /base/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nA: b\r\n" % port)
    assert heard[0].endswith(b'\r\n\r\n{"sql":"\\u00e4"}')
    assert heard[1].startswith(b"GET /base/y%20z?wait=1+2 HTTP/1.1\r\n")


def test_a_connection_that_the_service_closed_is_not_used_again():
    announced = reply(b"1", b"Connection: close") + LAST
    with answering(announced, reply(b"2"), LAST, reply(b"3")) as (port, _, accepted), client(port) as made:
        assert [made.request("GET", "/", headers={}).json() for _ in range(2)] == [1, 2]
        with pytest.raises(Lost):
            made.request("GET", "/", headers={})
        assert made.request("GET", "/", headers={}).json() == 3
    assert len(accepted) == 3


def test_replies_of_something_in_between_are_read_too():
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[1\r\n2\r\n2]\r\n0\r\n\r\n"
    early = b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
    until_the_end = b"HTTP/1.0 502 Bad Gateway\r\n\r\n<html>" + LAST
    with answering(chunked, early, until_the_end) as (port, *_), client(port) as made:
        assert made.request("GET", "/", headers={}).json() == [12]
        assert made.request("GET", "/", headers={}) == Reply(204)
        assert made.request("GET", "/", headers={}) == Reply(502, b"<html>")


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 +20 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 300 + b"Content-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[1]\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nf_f\r\n",
        b"\x00" * 70_000,
    ],
)
def test_what_is_no_whole_reply_is_lost(said):
    with answering(said + LAST) as (port, *_), client(port) as made, pytest.raises(Lost):
        made.request("GET", "/", headers={})


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nfffffffffffffff\r\nabc",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 101,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 101 + b"0\r\n\r\n",
    ],
)
def test_a_reply_larger_than_any_answer_is_refused_at_once(said, monkeypatch):
    monkeypatch.setattr("shoal.remote.replies.LARGEST_BODY", 100)
    with (
        answering(said + LAST) as (port, *_),
        client(port) as made,
        pytest.raises(ShoalError, match=r"E_SOURCE.*larger than any answer"),
    ):
        made.request("GET", "/", headers={})


def test_memory_is_taken_for_what_arrives():
    tracemalloc.start()
    try:
        announced = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\nshort" % 2**30
        with pytest.raises(NotWhole):
            read_reply(BufferedReader(BytesIO(announced)))
        assert tracemalloc.get_traced_memory()[1] < 2**26
    finally:
        tracemalloc.stop()


def test_a_large_body_is_read_whole(monkeypatch):
    monkeypatch.setattr("shoal.remote.replies.PIECE", 7)
    body = bytes(range(256))
    assert read_reply(BytesIO(reply(body))).body == body
    assert read_reply(BytesIO(b"HTTP/1.1 200 OK\r\n\r\n" + body)).body == body


def test_replies_that_only_announce_another_have_an_end():
    announced = b"HTTP/1.1 100 Continue\r\n\r\n" * 1000
    with pytest.raises(NotWhole):
        read_reply(BytesIO(announced + reply(b"1")))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (302, b""),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"[" * 100_000),
        (200, b'{"job": {"a": 1}}'),
        (402, b'{"error": {"code": "E_BUDGET"}}'),
        (402, b'{"error": {"code": ["E_BUDGET"], "message": ""}}'),
        (402, b'{"error": {"code": "E_BUDGET", "message": "m", "position": 7}}'),
        (402, b'{"error": {"code": "E_BUDGET", "message": "m", "hint": ["h"]}}'),
        (402, b"[" * 100_000),
    ],
)
def test_what_no_service_would_say_is_one_error_of_ours(status, body):
    """A page of a proxy, a redirect to another host (the token stays here), or somebody else at the address."""
    heard = []

    class Odd:
        def request(self, method, path, **_):
            heard.append((method, path))
            return Reply(status, body)

        def close(self):
            pass

    session = RemoteSession("https://host/d/visits", "shoal_x", Odd())
    acts = [lambda: session.epsilon_for("SELECT 1", 1.0), session.tables, lambda: session.submit("SELECT 1")]
    for act in [*acts, lambda: session.spent, lambda: session.job("j").result(0.0), lambda: session.job("j").state]:
        with pytest.raises(ShoalError, match="E_SOURCE"):
            act()
    assert len(heard) == 6


def test_a_port_where_nobody_listens_is_lost():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with client(port) as made, pytest.raises(Lost):
        made.request("GET", "/", headers={})


@pytest.mark.parametrize("value", ["a\r\nHost: b", "a\nb", "\x00", "ä", "\u2028"])
def test_a_header_stays_one_header(value):
    with client(1) as made, pytest.raises(shoal.ShoalError, match="E_USAGE"):
        made.request("GET", "/", headers={"Authorization": value})
    with pytest.raises(shoal.ShoalError, match="E_USAGE"), shoal.connect("http://127.0.0.1:1/d/x", token=value) as one:
        one.tables()


def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path):
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(tmp_path / "k"), "-out", str(tmp_path / "c")]
    subprocess.run([*made, *names, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c", tmp_path / "k")
    with answering(reply(b"1"), tls=context) as (port, heard, _):
        with closing(client_of(f"https://localhost:{port}")) as careful, pytest.raises(ShoalError, match="not trusted"):
            careful.request("GET", "/", headers={"Authorization": "Bearer secret"})
        with closing(client_of(f"https://localhost:{port}")) as trusting:
            trusting._tls.load_verify_locations(tmp_path / "c")
            assert trusting.request("GET", "/", headers={}).json() == 1
    assert not any(b"secret" in each for each in heard)


def test_a_proxy_of_the_environment_is_used_for_other_machines_only(monkeypatch):
    pytest.importorskip("httpx")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert isinstance(client_of("https://example.com"), Proxied)
    assert isinstance(client_of("https://inside.example"), Direct)
    assert isinstance(client_of("http://127.0.0.1:8642"), Direct)
    with closing(client_of("https://example.com")) as made, pytest.raises(Lost):
        made.request("GET", "/", headers={})


ODD = [
    b"1" + b"0" * 400,
    b"-1" + b"0" * 400,
    b'"\\ud800"',
    b'"../../etc"',
    b'"x?y#z"',
    b'"a b"',
    b'""',
    b'"\\u00e9"',
    b"NaN",
    b"[]",
]
TOKEN = "t"  # noqa: S105 - of nobody
ASKED = {
    "spent": lambda session: session.spent,
    "remaining": lambda session: session.remaining,
    "epsilon_for": lambda session: session.epsilon_for("SELECT 1", 1.0),
    "submit": lambda session: session.submit("SELECT 1").result(0.0),
    "job": lambda session: session.job("j_1").result(0.0),
    "explain": lambda session: str(session.query("EXPLAIN PRIVACY SELECT 1")),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_whatever_a_server_writes_into_a_reply_is_an_error_with_a_code_or_a_value(asked, value):
    amounts = b'{"epsilon": %b, "delta": %b}' % (value, value)
    body = (
        b'{"job": %b, "state": %b, "answer": %b, "error": null, "epsilon": %b, "text": %b, "selects": %b, '
        b'"ledger": {"spent": %b, "remaining": %b}}' % (value, value, value, value, value, value, amounts, amounts)
    )
    with (
        answering(*[reply(body) + LAST] * 2) as (port, heard, _),
        shoal.connect(f"http://127.0.0.1:{port}/d/x", token=TOKEN) as session,
    ):
        with suppress(ShoalError):
            ASKED[asked](session)
        with suppress(ShoalError):  # whatever is left to hear, so that the server ends
            session.tables()
    assert all(b"etc" not in request and b"x?y" not in request for request in heard)


@pytest.mark.parametrize("identifier", ["../v1/users", "a?b", "", "é", "\ud800", "a" * 300])
def test_an_id_that_would_change_the_address_is_not_sent(identifier):
    session = RemoteSession("http://127.0.0.1:9/d/x", token=TOKEN)
    for ask in (
        lambda: session.answer(identifier),
        lambda: session.job(identifier).state,
        lambda: session.job(identifier).cancel(),
    ):
        with pytest.raises(ShoalError) as refused:
            ask()
        assert refused.value.code == "E_NOT_FOUND"
