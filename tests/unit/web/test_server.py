"""`shoal serve` as people start it: a line when it is ready, a link, signals, a death in the middle."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from fractions import Fraction

import httpx
import pyarrow.flight as fl
import pytest
from web_server import counting, write_folder

import shoal
from shoal.web.flight_sql.messages import written
from shoal.web.server import Place

pytestmark = pytest.mark.slow


@contextmanager
def serving(tmp_path, *options):
    if not (tmp_path / "data").exists():
        write_folder(tmp_path / "data")
    command = [
        sys.executable,
        "-m",
        "shoal",
        "serve",
        str(tmp_path / "data"),
        "--catalog",
        str(tmp_path / "shoal.toml"),
    ]
    command += ["--budget", "2,1e-5", "--home", str(tmp_path / "home"), "--port", "0", "--json", *options]
    with (
        (tmp_path / "process.log").open("a") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            yield process, json.loads(process.stdout.readline())
        finally:
            process.kill()


def run(tmp_path, *words):
    command = [sys.executable, "-m", "shoal", "service", *words, "--home", str(tmp_path / "home")]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_from_a_folder_to_an_analysts_first_answer_and_an_ordered_end(tmp_path):
    with serving(tmp_path, "--answer-time", "off") as (process, ready):
        assert "This link signs you in once." in httpx.get(ready["login"]).text
        link = {"link": ready["login"].partition("link=")[2]}
        with httpx.Client(base_url=ready["url"], timeout=300) as browser:
            assert browser.post("/login", data=link).headers["Location"] == "/"
            form = re.search('name="form" value="([0-9a-f]{64})"', browser.get("/tokens").text)[1]
            page = browser.post("/tokens", data={"form": form}, headers={"Origin": ready["url"]})
        custodian = re.search("shoal_[A-Za-z0-9_-]{43}", page.text)[0]
        assert httpx.post(f"{ready['url']}/login", data=link).status_code == 401
        head = {"Authorization": f"Bearer {custodian}"}
        with httpx.Client(base_url=ready["url"], headers=head, timeout=300) as client:
            client.post("/v1/users", json={"name": "ann", "roles": ["analyst"]}).raise_for_status()
            client.post("/v1/allowances", json={"dataset": "data", "to": "ann"}).raise_for_status()
        token = run(tmp_path, "token", "create", "ann").strip()
        with shoal.connect(f"{ready['url']}/d/data", token=token) as session:
            assert len(session.query(counting(0.5))) == 1
            assert session.remaining == (1.5, 1e-5)
            with pytest.raises(shoal.ShoalError):
                session.query("SELECT uid FROM visits")
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 0
    lines = (tmp_path / "process.log").read_text().splitlines()
    assert [json.loads(line)["message"] for line in lines] == ["serving", "ended"]  # no statement, no token
    assert "agree" in run(tmp_path, "check")
    with serving(tmp_path, "--answer-time", "600s") as (process, ready):
        assert ready["login"] is None
        with httpx.Client(base_url=ready["url"], headers={"Authorization": f"Bearer {token}"}, timeout=300) as client:
            asked = {"sql": counting(0.5, "m"), "wait": 0}
            job = client.post("/v1/datasets/data/query", json=asked).json()["job"]
            while client.get(f"/v1/jobs/{job}").json()["state"] != "running":
                time.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            reply = client.post("/v1/datasets/data/query", json=asked | {"sql": counting(0.5, "k")})
            while reply.status_code == 202:
                reply = client.post("/v1/datasets/data/query", json=asked | {"sql": counting(0.5, "k")})
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "E_BUSY")
        process.send_signal(signal.SIGTERM)  # the second: at once, whatever runs
        assert process.wait(300) == 1


def test_a_killed_service_owes_nothing_and_charges_nothing_twice(tmp_path):
    tokens = []
    for round_ in range(3):
        with serving(tmp_path, "--answer-time", "1s", "--rates", "off") as (process, ready):
            if not tokens:
                run(tmp_path, "user", "add", "ann", "--role", "analyst")
                run(tmp_path, "allow", "data", "--to", "everyone")
                tokens.append(run(tmp_path, "token", "create", "ann").strip())
            head = {"Authorization": f"Bearer {tokens[0]}"}
            with httpx.Client(base_url=ready["url"], headers=head, timeout=300) as client:
                body = {"sql": counting(0.1, f"n{round_}"), "wait": 0, "fresh": True}
                path, key = "/v1/datasets/data/query", {"Idempotency-Key": f"k{round_}"}
                job = client.post(path, json=body, headers=key).json()["job"]
                time.sleep(0.2 * round_)
            os.kill(process.pid, signal.SIGKILL)
            process.wait(300)
        with serving(tmp_path, "--answer-time", "off", "--rates", "off") as (_, ready):
            with httpx.Client(base_url=ready["url"], headers=head, timeout=300) as client:
                ended = client.get(f"/v1/jobs/{job}", params={"wait": 60}).json()
                assert ended["state"] == "answered"
                again = client.post(path, json=body, headers=key).json()
                assert again["answer"] == ended["answer"]
                budget = client.get("/v1/datasets/data/budget").json()
            assert Fraction(budget["spent"]["exact"]["epsilon"]) == Fraction(round_ + 1, 10)
    assert "3 charges" in run(tmp_path, "check")


def test_users_are_listed_with_roles_and_groups_and_a_missing_service_says_what_makes_one(tmp_path):
    run(tmp_path, "init")
    assert run(tmp_path, "user", "list") == "There is no user.\n"
    run(tmp_path, "user", "add", "ann", "--role", "analyst", "--group", "research")
    run(tmp_path, "user", "add", "otto", "--role", "auditor", "--role", "custodian")
    run(tmp_path, "user", "retire", "otto")
    assert run(tmp_path, "user", "list").splitlines() == [
        "ann  analyst  group:research",
        "otto  auditor, custodian  retired",
    ]
    assert [one["name"] for one in json.loads(run(tmp_path, "user", "list", "--json"))["users"]] == ["ann", "otto"]
    with pytest.raises(subprocess.CalledProcessError) as refused:
        run(tmp_path / "elsewhere", "user", "list")
    assert "shoal service init --home DIR makes one." in refused.value.stderr
    with pytest.raises(subprocess.CalledProcessError) as refused:
        run(tmp_path, "allow", "shop", "--to", "ann")
    assert "dataset list" in refused.value.stderr


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def asked_by_flight(port, token, sql):
    """The rows of an answer, from whichever process has the port by then."""
    sent = [(b"authorization", f"Bearer {token}".encode()), (b"database", b"data")]
    options = fl.FlightCallOptions(headers=sent, timeout=300)
    asked = fl.FlightDescriptor.for_command(written("CommandStatementQuery", [(1, sql.encode())]))
    for _ in range(600):
        with suppress(fl.FlightUnavailableError), fl.connect(f"grpc://127.0.0.1:{port}") as client:
            info = client.get_flight_info(asked, options)
            return client.do_get(info.endpoints[0].ticket, options).read_all().to_pylist()
        time.sleep(0.1)
    raise AssertionError


def test_two_processes_share_one_budget_and_both_speak_flight(tmp_path):
    port, off = free_port(), ("--answer-time", "off", "--rates", "off")
    with serving(tmp_path, "--workers", "2", "--flight-port", str(port), *off) as (process, ready):
        assert ready["flight"] == f"grpc://127.0.0.1:{port}"
        run(tmp_path, "user", "add", "ann", "--role", "analyst")
        run(tmp_path, "allow", "data", "--to", "everyone")
        token = run(tmp_path, "token", "create", "ann").strip()
        with httpx.Client(base_url=ready["url"], headers={"Authorization": f"Bearer {token}"}, timeout=300) as client:
            path = "/v1/datasets/data/query"
            replies = [client.post(path, json={"sql": counting(0.3, f"n{i}")}) for i in range(8)]
        assert sorted(reply.status_code for reply in replies) == [200] * 6 + [402] * 2
        assert asked_by_flight(port, token, counting(0.3, "n0")) == replies[0].json()["rows"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) == 0


ORDERED_WHILE_FORKING = """
import os, signal, sys, time
from shoal.service.limits import Limits
from shoal.web import server

def fork(real=os.fork):
    child = real()
    if child:
        os.kill(os.getpid(), signal.SIGTERM)
    return child

server.nursery.start = lambda: None
server._serve_here = lambda *_: time.sleep(600) or 0
server.os.fork = fork
place = server.Place(port=0, workers=2)
status = server._serve_in_children(sys.argv[1], Limits(), place, server.Listening.at(place), print)
try:
    os.wait()
except ChildProcessError:
    print("no child is left", status)
"""


def test_an_order_to_end_that_comes_while_a_process_is_made_ends_it_too(tmp_path):
    command = [sys.executable, "-c", ORDERED_WHILE_FORKING, str(tmp_path / "home")]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "no child is left 0\n"


@pytest.mark.parametrize(
    "options",
    [{"host": "0.0.0.0"}, {"certificate": "c"}, {"workers": 0}, {"port": 70_000}],  # noqa: S104 - refused
)
def test_places_that_would_send_tokens_in_the_clear_are_refused(options):
    with pytest.raises(shoal.ShoalError, match="E_USAGE"):
        Place(**options)


def test_a_second_start_says_that_a_budget_is_for_life_and_which_names_are_answered(tmp_path):
    with serving(tmp_path):
        pass
    command = [
        sys.executable,
        "-m",
        "shoal",
        "serve",
        str(tmp_path / "data"),
        "--catalog",
        str(tmp_path / "shoal.toml"),
    ]
    command += [
        "--budget",
        "9,1e-5",
        "--home",
        str(tmp_path / "home"),
        "--port",
        "0",
        "--host",
        "0.0.0.0",  # noqa: S104 - on a machine of tests
        "--plain-http",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline().startswith("shoal serves at")
        process.terminate()
        said = process.stderr.read()
    assert "The data set data is there already and keeps its budget (epsilon 2, delta 1e-05)" in said
    assert "under the name localhost alone" in said


@pytest.mark.parametrize("workers", [1, 2])
def test_a_service_whose_folder_is_gone_still_ends(tmp_path, workers):
    """It had counts to write, could not, and went on for ever."""
    with serving(tmp_path, "--workers", str(workers)) as (process, ready):
        run(tmp_path, "user", "add", "ann", "--role", "analyst")
        run(tmp_path, "allow", "data", "--to", "ann")
        token = run(tmp_path, "token", "create", "ann").strip()
        with shoal.connect(f"{ready['url']}/d/data", token=token) as session:
            for number in range(8):
                session.explain(counting(0.5, f"n{number}"))
        shutil.rmtree(tmp_path / "home")
        process.send_signal(signal.SIGTERM)
        assert process.wait(300) in {0, 1}
