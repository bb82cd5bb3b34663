"""Sixty-four clients on a budget of 2 at ε 0.1: exactly twenty charged answers, on both stores and with two processes."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from fractions import Fraction

import httpx
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.slow

CLIENTS, TIMES = 64, 1
CATALOG = '[tables.visits]\nowner = "uid"\nmax_rows_per_owner_and_group = 5\n[defaults]\nmax_groups_per_owner = 3\n'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    number = list(range(600))
    table = pa.table({"uid": [i % 120 for i in number], "site": [f"s{i % 4}" for i in number]})
    pq.write_table(table, tmp_path / "data" / "visits.parquet")
    (tmp_path / "shoal.toml").write_text(CATALOG)
    return tmp_path


@pytest.fixture
def database(postgres_server):
    name = f"d{secrets.token_hex(8)}"
    with psycopg.connect(postgres_server[0], autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres_server[0].replace("/postgres?", f"/{name}?")


def shoal_command(*words):
    command = [sys.executable, "-m", "shoal", *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def serving(folder, kept, *options):
    words = ["serve", folder / "data", "--catalog", folder / "shoal.toml", "--budget", "2,1e-5", *kept, "--port", "0"]
    words += ["--json", "--answer-time", "off", "--rates", "off", *options]
    command = [sys.executable, "-m", "shoal", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process, json.loads(process.stdout.readline())["url"]
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(300)
            finally:
                process.kill()


def with_analyst(kept):
    shoal_command("service", "user", "add", "ann", "--role", "analyst", *kept)
    shoal_command("service", "allow", "data", "--to", "everyone", *kept)
    return {"Authorization": "Bearer " + shoal_command("service", "token", "create", "ann", *kept).strip()}


def counting(name):
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1) COUNT(DISTINCT uid) AS {name} FROM visits"


def spend(url, headers, client):
    """What each of a client's questions, each one new, came to."""
    found = []
    with httpx.Client(base_url=url, headers=headers, timeout=300) as http:
        for time_ in range(TIMES):
            body, key = {"sql": counting(f"n{client}_{time_}"), "wait": 60}, {"Idempotency-Key": f"{client} {time_}"}
            while True:
                reply = http.post("/v1/datasets/data/query", json=body, headers=key)
                if reply.status_code != 503:
                    break
                time.sleep(0.1)  # too many wait already: nothing was charged
            found.append(reply.status_code)
    return found


AT_NIGHT = [pytest.param(*each, marks=pytest.mark.nightly) for each in (("postgresql", 1), ("file", 2))]


@pytest.mark.parametrize(("store", "workers"), [("file", 1), ("postgresql", 2), *AT_NIGHT])
def test_64_clients_get_exactly_what_the_budget_holds(request, folder, store, workers):
    kept = ("--home", folder / "home") if store == "file" else ("--store", request.getfixturevalue("database"))
    with serving(folder, kept, "--workers", workers) as (_, url):
        headers = with_analyst(kept)
        with ThreadPoolExecutor(CLIENTS) as clients:
            found = Counter(s for each in clients.map(lambda c: spend(url, headers, c), range(CLIENTS)) for s in each)
        budget = httpx.get(f"{url}/v1/datasets/data/budget", headers=headers, timeout=300).json()
    assert found == {200: 20, 402: CLIENTS * TIMES - 20}
    assert Fraction(budget["spent"]["exact"]["epsilon"]) == 2
    assert "20 charges are right" in shoal_command("service", "check", *kept)


@pytest.mark.parametrize("store", ["file", "postgresql"])
def test_a_killed_worker_is_replaced_and_its_job_runs_once_more_under_the_same_charge(request, folder, store):
    kept = ("--home", folder / "home") if store == "file" else ("--store", request.getfixturevalue("database"))
    with serving(folder, kept, "--workers", 2, "--answer-time", "1s") as (process, url):
        headers = with_analyst(kept)
        with httpx.Client(base_url=url, headers=headers, timeout=300) as http:
            bodies = [{"sql": counting(f"n{i}"), "wait": 0} for i in range(4)]
            asked = [http.post("/v1/datasets/data/query", json=body).json()["job"] for body in bodies]
            time.sleep(0.3)
        children = subprocess.run(["pgrep", "-P", str(process.pid)], check=True, capture_output=True, text=True).stdout
        os.kill(int(children.split()[0]), signal.SIGKILL)
        with httpx.Client(base_url=url, headers=headers, transport=httpx.HTTPTransport(retries=5), timeout=300) as http:
            states = Counter()
            for job in asked:
                state = "waiting"
                for _ in range(60):
                    state = http.get(f"/v1/jobs/{job}", params={"wait": 5}).json()["state"]
                    if state in {"answered", "failed", "cancelled"}:
                        break
                states[state] += 1
            budget = http.get("/v1/datasets/data/budget").json()
    assert states == {"answered": 4}
    assert Fraction(budget["spent"]["exact"]["epsilon"]) == Fraction(4, 10)
    assert "4 charges are right" in shoal_command("service", "check", *kept)
