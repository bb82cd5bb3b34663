"""A proxy in front of a service, certificates that change, and what the process says about itself."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import suppress
from urllib.parse import urlsplit

import httpx
import pytest
from web_server import Served, write_folder

from shoal.errors import ShoalError
from shoal.web import gate, server
from shoal.web.app import application
from shoal.web.operation import certificates
from shoal.web.operation.process_log import Lines
from shoal.web.operation.proxy import Proxy
from shoal.web.server import Place

SECRET = "a-secret-of-the-proxy-0123456789"  # noqa: S105 - of nobody
ANYWHERE = "0.0.0.0"  # noqa: S104 - nothing listens


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    made = Served(tmp_path_factory.mktemp("proxy"))
    yield made
    made.close()


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET + "\n")
    return str(path)


@pytest.fixture
def behind(served, secret_file):
    """A client at an address, in front of a service that believes 10.1.0.0/16."""
    app = application(served.service, proxy=Proxy.of("10.1.0.0/16, ::1", "X-Forwarded-User", secret_file))

    def client(address="10.1.2.3", user="ann", secret=SECRET, **more):
        headers = {"Host": "127.0.0.1", **more}
        headers |= {"X-Forwarded-User": user} if user else {}
        headers |= {"X-Shoal-Proxy-Secret": secret} if secret else {}
        transport = httpx.ASGITransport(app=app, client=(address, 1))
        return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)

    return client


@pytest.fixture
def anyio_backend():
    return "asyncio"


async def status(client, path="/v1/me"):
    async with client:
        return (await client.get(path)).status_code


@pytest.mark.anyio
async def test_a_proxy_names_people_who_exist(behind):
    async with behind() as client:
        assert (await client.get("/v1/me")).json()["user"] == "ann"
    assert await status(behind(address="::1")) == 200
    assert await status(behind(address="::ffff:10.1.0.9")) == 200
    assert await status(behind(user="nobody")) == 401
    assert await status(behind(user="Ann")) == 401


@pytest.mark.anyio
async def test_the_header_from_elsewhere_or_without_the_secret_is_refused_not_ignored(behind, served):
    token = {"Authorization": f"Bearer {served.token('ann')}"}
    assert await status(behind(user="", secret="", **token)) == 200
    for wrong in (
        behind(address="10.2.0.1"),
        behind(address="10.2.0.1", user="", secret="", **token),
        behind(secret=""),
        behind(secret=SECRET + "x"),
        behind(user="", **token),
        behind(secret="", **token),
        behind(user="carla", **token),
    ):
        assert await status(wrong) == 401
    assert await status(behind(address="10.2.0.1"), "/v1/health") == 200
    for path in ("/openapi.json", "/", "/login", "/static/shoal.css"):
        assert await status(behind(address="10.2.0.1"), path) == 401
        assert await status(behind(), path) == 200


@pytest.mark.anyio
async def test_a_header_said_twice_is_refused(behind):
    async with behind() as client:
        again = [*client.headers.raw, (b"x-forwarded-user", b"carla")]
        assert (await client.get("/v1/me", headers=again)).status_code == 401


@pytest.mark.anyio
async def test_the_first_page_signs_in_whom_the_proxy_names_and_another_name_is_another_session(behind):
    async with behind() as client:
        first = await client.get("/")
        assert (first.status_code, "ann" in first.text) == (200, True)
        cookie = first.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert "set-cookie" not in (await client.get("/")).headers
        other = await client.get("/", headers={"X-Forwarded-User": "carla"})
        assert "set-cookie" in other.headers
    assert await status(behind(user="nobody"), "/") == 401
    async with behind(user="nobody") as client, behind(secret="") as other:
        page, same = (await client.get("/")).text, (await other.get("/")).text
        assert "Ask the data custodian whether you were added" in page
        assert same == page


@pytest.mark.anyio
async def test_whoever_runs_the_service_reads_once_why_a_proxy_was_not_believed(behind, caplog):
    for _ in range(3):
        for wrong in (
            behind(secret=""),
            behind(secret=SECRET + "x"),
            behind(address="10.2.0.1"),
            behind(user="nobody"),
        ):
            assert await status(wrong) == 401
    said = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert len(said) == 3, said
    assert "without the proxy's secret" in said[0]
    assert "10.2.0.1 is no address of the proxy" in said[1]
    assert "the proxy names 'nobody', who has no account here" in said[2]
    assert SECRET not in caplog.text


@pytest.mark.anyio
async def test_whom_a_proxy_signed_in_signs_out_there(served, secret_file):
    places = {"": None, "/oauth2/sign_out": "/oauth2/sign_out"}
    for known, place in places.items():
        app = application(served.service, proxy=Proxy.of("10.1.0.0/16", "X-Forwarded-User", secret_file, known))
        headers = {"X-Forwarded-User": "ann", "X-Shoal-Proxy-Secret": SECRET, "Origin": "http://127.0.0.1"}
        transport = httpx.ASGITransport(app=app, client=("10.1.2.3", 1))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
            page = (await client.get("/help")).text
            assert (">Sign out</button>" in page, "sign out there" in page) == (place is not None, place is None)
            form = re.search('name="form" value="([0-9a-f]{64})"', page)[1]
            reply = await client.post("/logout", data={"form": form})
            assert reply.status_code == (200 if place else 400)
            assert (f'content="0; url={place}"' in reply.text) == (place is not None)
            assert ("Max-Age=0" in reply.headers.get("set-cookie", "")) == (place is not None)
    for wrong in ("//evil.example", "https://evil.example", "sign_out", "/a b"):
        with pytest.raises(ShoalError, match="--sign-out"):
            Proxy.of("10.1.0.0/16", "X-Forwarded-User", secret_file, wrong)


@pytest.mark.anyio
async def test_an_unknown_host_is_a_page_for_people_and_a_line_of_the_log(served, caplog):
    transport = httpx.ASGITransport(app=application(served.service))
    async with httpx.AsyncClient(transport=transport, base_url="http://evil.example") as client:
        for _ in range(2):
            page = await client.get("/d/visits")
            assert (page.status_code, page.headers["Content-Type"]) == (421, "text/html; charset=utf-8")
            assert "--allow-host" in page.text
        assert (await client.get("/v1/me")).json()["error"]["code"] == "E_USAGE"
    (line,) = [record.getMessage() for record in caplog.records if "refused (421)" in record.getMessage()]
    assert "'evil.example'" in line


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "it names no host"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "it names its host more than once"),
        (b"shoal_secret\r\n\r\n", "it is not HTTP"),
    ],
)
def test_what_cannot_be_read_is_a_page_and_its_reason_a_line_of_the_log(served, caplog, sent, why):
    port = int(served.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 10) as talking:
        talking.sendall(sent)
        reply = b"".join(iter(lambda: talking.recv(65_536), b""))
    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: text/html" in reply.lower()
    assert why.encode() in reply
    assert [r.getMessage() for r in caplog.records if r.name == "shoal.web"] == [
        f"refused (400): a request cannot be read, {why}"
    ]
    assert "shoal_secret" not in caplog.text


@pytest.mark.anyio
@pytest.mark.parametrize("header", ["X-Shoal-Proxy-Secret", "X-Forwarded-User"])
async def test_a_service_behind_no_proxy_refuses_what_only_a_proxy_says(served, header):
    transport = httpx.ASGITransport(app=application(served.service), client=("127.0.0.1", 1))
    headers = {"Authorization": f"Bearer {served.token('ann')}", header: "ann"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
        assert (await client.get("/v1/me")).status_code == 401


@pytest.mark.parametrize(
    ("networks", "header", "secret"),
    [
        ("10.0.0.0/33", "X-User", SECRET),
        ("proxy.example", "X-User", SECRET),
        ("10.0.0.1", "Authorization", SECRET),
        ("10.0.0.1", "X User", SECRET),
        ("10.0.0.1", "X-User", "short"),
        ("10.0.0.1", "X-User", None),
    ],
)
def test_half_of_a_proxy_is_refused(tmp_path, networks, header, secret):
    if secret is not None:
        (tmp_path / "s").write_text(secret)
    with pytest.raises(ShoalError, match="E_USAGE"):
        Proxy.of(networks, header, None if secret is None else str(tmp_path / "s"))


@pytest.mark.parametrize("said", [{"host": "2001:db8::1"}, {"host": "::1", "public_url": "https://[2001:db8::1]:8642"}])
def test_an_address_of_ipv6_is_known_as_requests_name_it(said):
    place = Place(**said, plain_http=True)
    assert urlsplit(place.url(8642)).netloc.rpartition(":")[0] == "[2001:db8::1]"
    assert "[2001:db8::1]" in place.known_hosts


def test_a_proxy_stands_in_for_tls_and_not_beside_it(secret_file):
    proxy = Proxy.of("10.0.0.1", "X-User", secret_file)
    assert Place(ANYWHERE, proxy=proxy, public_url="https://shoal.example").known_hosts >= {"shoal.example"}
    with pytest.raises(ShoalError, match="E_USAGE"):
        Place(ANYWHERE)
    with pytest.raises(ShoalError, match="E_USAGE"):
        Place(ANYWHERE, proxy=proxy, plain_http=True)


# ---- the process log -----------------------------------------------------------------------------------------------


def test_an_event_is_one_line_of_json_and_an_exception_its_name():
    try:
        int("row 17: secret")
    except ValueError:
        record = logging.LogRecord("shoal.web", logging.ERROR, "", 1, "it\n%s", ("broke",), sys.exc_info())
    (line,) = Lines().format(record).splitlines()
    found = json.loads(line)
    assert (found["message"], found["exception"], found["level"]) == ("it\nbroke", "ValueError", "error")
    assert "secret" not in line


# ---- certificates --------------------------------------------------------------------------------------------------


def new_certificate(folder, name):
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", folder / "key.pem", "-out", folder / "cert.pem", "-days", "2", "-subj", f"/CN={name}"]
    subprocess.run([*command, "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)


def shown_certificate(port):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain) as wrapped:
        return wrapped.getpeercert(binary_form=True)


def eventually(holds) -> bool:
    ends = time.monotonic() + 300
    while time.monotonic() < ends:
        with suppress(OSError):
            if holds():
                return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
def test_sighup_reads_the_certificate_again_and_a_broken_one_changes_nothing(tmp_path):
    new_certificate(tmp_path, "first")
    command = [sys.executable, "-m", "shoal", "serve", str(write_folder(tmp_path / "data"))]
    command += ["--catalog", str(tmp_path / "shoal.toml"), "--budget", "2,1e-5", "--home", str(tmp_path / "home")]
    command += [
        "--port",
        "0",
        "--json",
        "--tls-cert",
        str(tmp_path / "cert.pem"),
        "--tls-key",
        str(tmp_path / "key.pem"),
        "--flight-port",
        "0",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            ready = json.loads(process.stdout.readline())
            port, flight = (int(ready[door].rpartition(":")[2]) for door in ("url", "flight"))
            first = shown_certificate(port)
            assert shown_certificate(flight) == first
            assert json.loads(process.stderr.readline())["message"] == "serving"
            (tmp_path / "cert.pem").write_text("broken")
            os.kill(process.pid, signal.SIGHUP)
            assert json.loads(process.stderr.readline())["level"] == "error"
            assert shown_certificate(port) == first
            new_certificate(tmp_path, "second")
            os.kill(process.pid, signal.SIGHUP)
            assert json.loads(process.stderr.readline())["message"] == "the certificate was read again"
            second = shown_certificate(port)
            assert second != first
            assert eventually(lambda: shown_certificate(flight) == second)
            process.terminate()
            assert process.wait(300) == 0
        finally:
            process.kill()


def test_without_a_certificate_there_is_nothing_to_read():
    assert not certificates.reload(None, None, None)


# ---- requests that never end -----------------------------------------------------------------------------------------


@pytest.fixture
def impatient(tmp_path, monkeypatch):
    """A service that gives requests half a second."""
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(gate, "REQUEST_SECONDS", 0.5)
    made = Served(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-",
        b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\nGET",
    ],
)
def test_a_request_whose_headers_do_not_come_is_hung_up_on(impatient, sent):
    with socket.create_connection(("127.0.0.1", int(impatient.url.rpartition(":")[2])), timeout=300) as raw:
        raw.sendall(sent)
        reply = b""
        with suppress(ConnectionResetError):
            while piece := raw.recv(65_536):
                reply += piece
    assert (b"200" in reply) == (b"\r\n\r\n" in sent)


def test_a_request_whose_body_does_not_come_is_told_so(impatient):
    head = f"POST /v1/tokens HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {impatient.token('ann')}\r\n"
    with socket.create_connection(("127.0.0.1", int(impatient.url.rpartition(":")[2])), timeout=300) as raw:
        raw.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{{".encode())
        assert raw.recv(65_536).split()[1] == b"408"
