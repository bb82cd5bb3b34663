"""kill -9 of a service at twelve points of its life, before and after each; run as a program.

    python tests/stats/service_kills.py --times 100 --store DIR|URL [--point NAME]

Each trial serves HTTP in a process of its own, forked from a parent without threads, which kills itself with SIGKILL when it comes
to the point. The client then sends the same request under the same key to a new process. It prints one line of JSON for each point:
how often a process was killed there, and what must be 0: answers without a charge, requests charged twice, answers that changed,
requests that never ended, chains that do not verify.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import signal
import sys
import time
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq

from shoal.accounting.ledger import Ledger
from shoal.accounting.spending import pen, turns
from shoal.accounting.spending.asking import Request
from shoal.accounting.stores import postgresql as ledgers_in_postgresql
from shoal.accounting.stores import sqlite as ledgers_in_sqlite
from shoal.errors import ShoalError
from shoal.params import budget
from shoal.release import execute
from shoal.service import running
from shoal.service.acts import approving, following
from shoal.service.allowances import Grant
from shoal.service.datasets import NewDataSet
from shoal.service.questions import Question
from shoal.service.service import OPERATOR, Limits, Service
from shoal.service.stores import postgresql, sqlite
from shoal.service.stores.opening import migrate
from shoal.web import jobs as web_jobs
from shoal.web import server

CATALOG = '[tables.visits]\nowner = "uid"\nmax_rows_per_owner_and_group = 5\n[defaults]\nmax_groups_per_owner = 3\n'
LIMITS = Limits(slots=4, answer_time=0.0, rates=False)
EPSILON = 0.01
FEW = 3
"""How many requests are in flight at once."""


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # the signal is on its way


def kill_at(owner: object, name: str, when: str, call: int) -> None:
    """The process dies before or after the n-th call of a function."""
    original, calls = getattr(owner, name), itertools.count(1)

    def wrapped(*args: object, **options: object) -> object:
        number = next(calls)
        if number == call and when == "before":
            dies()
        value = original(*args, **options)
        if number == call and when == "after":
            dies()
        return value

    setattr(owner, name, wrapped)


class DeadlyTables(tuple[str, ...]):
    """Whoever lists these tables dies: in the middle of a migration."""

    __slots__ = ()

    def __iter__(self) -> object:
        dies()


def plant(point: str, when: str, call: int) -> None:
    """What the child changes in itself before it serves."""
    stores = (ledgers_in_sqlite.SqliteTransaction, ledgers_in_postgresql.PostgresTransaction)
    if point == "migration":
        for module in (sqlite, postgresql):
            if when == "before":
                module.APPEND_ONLY = DeadlyTables(("log",))
            else:
                kill_at(module, "migrate", "after", 1)
    elif point == "store":
        for owner in stores:
            kill_at(owner, "put_answer", when, call)
    elif point == "group commit":
        kill_at(turns, "_require_change", "after", call) if when == "before" else kill_at(
            turns.Turns, "_commit", "after", call
        )
    else:
        owner, name, within = {
            "reserve": (Ledger, "reserve", when),
            "run": (execute, "_run", when),
            "noise": (execute, "release", when),
            "settle": (Ledger, "_settle", when),
            "reply": (web_jobs, "answer_reply", when),
            "log": (running, "log_charge", when),
            "resume": (pen.Pen, "_resume", when),
            # In the middle of the transaction, and once it is kept.
            "approval": (approving, "later", "after") if when == "before" else (Service, "decide", "after"),
            "cancel": (following, "cancelled", "after") if when == "before" else (Service, "cancel", "after"),
        }[point]
        kill_at(owner, name, within, call)


POINTS = (
    "reserve",
    "run",
    "noise",
    "store",
    "reply",
    "settle",
    "log",
    "group commit",
    "resume",
    "migration",
    "approval",
)
POINTS += ("cancel",)


def in_child(work: object) -> int:
    """A process that does the work."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    return child


def ending_of(child: int, seconds: float = 60.0) -> int:
    """How a process ended; one that does not is ended, and 99 is told."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 99


class Trials:
    """All trials of one point on one service."""

    def __init__(self, folder: Path, place: Path | str) -> None:
        self.folder, self.place = folder, place
        self.socket = server.bound_socket(server.Place(port=0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.tokens: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        self.seen: dict[str, list[object]] = {}
        self.wrong = {"unpaid": 0, "charged twice": 0, "changed": 0, "never ended": 0, "chains": 0}
        self.killed = self.tried = self.serving = 0
        self.patience = 20.0

    def prepare(self, *, approve: bool) -> None:
        """A service with data, an analyst and a custodian; made in a child, because opening a source starts threads."""
        read, write = os.pipe()

        def make() -> None:
            (self.folder / "data").mkdir(exist_ok=True)
            number = list(range(600))
            table = pa.table({"uid": [i % 120 for i in number], "site": [f"s{i % 4}" for i in number]})
            pq.write_table(table, self.folder / "data" / "visits.parquet")
            (self.folder / "shoal.toml").write_text(CATALOG)
            service = Service.open(self.place, LIMITS)
            catalog = str(self.folder / "shoal.toml")
            service.add_dataset(
                OPERATOR, NewDataSet("visits", str(self.folder / "data"), catalog, budget((100_000, 1e-5)))
            )
            service.add_user(OPERATOR, "ann", ["analyst"])
            service.add_user(OPERATOR, "carla", ["custodian"])
            grant = Grant("visits", "ann", approve_above=Fraction(1, 10**6) if approve else None)
            service.allow(OPERATOR, grant)
            made = {name: service.create_token(OPERATOR, name)["token"] for name in ("ann", "carla")}
            os.write(write, json.dumps(made).encode())
            service.close(5)

        if ending_of(in_child(make), 120):
            raise SystemExit("the service could not be made")
        self.tokens = json.loads(os.read(read, 10_000))

    def serve(self, point: str | None = None, when: str = "", call: int = 1) -> int:
        """A process that serves, and dies at the point."""

        def work() -> None:
            if point is not None:
                plant(point, when, call)
            server._serve_here(self.place, LIMITS, server.Place(port=0), self.socket, lambda *_: None)

        self.serving = in_child(work)
        return self.serving

    def send(self, method: str, path: str, who: str = "ann", **options: object) -> httpx.Response | None:
        """One request; None where the process died over it."""
        if self.is_dead():
            return None
        headers = {"Authorization": f"Bearer {self.tokens[who]}", **options.pop("headers", {})}
        with suppress(httpx.TransportError), httpx.Client(base_url=self.url, timeout=self.patience) as client:
            return client.request(method, path, headers=headers, **options)
        return None

    def is_dead(self) -> bool:
        """Whether the process that serves has died; nobody would take the connection."""
        return os.waitid(os.P_PID, self.serving, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def ask(self, key: str, wait: float) -> httpx.Response | None:
        name = self.keys.setdefault(key, f"n{len(self.keys)}")
        sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {EPSILON}) COUNT(DISTINCT uid) AS {name} FROM visits"
        reply = self.send(
            *("POST", "/v1/datasets/visits/query"),
            json={"sql": sql, "wait": wait, "fresh": True},
            headers={"Idempotency-Key": key},
        )
        if reply is not None and reply.status_code == 200:
            rows = reply.json()["rows"]
            if self.seen.setdefault(key, rows) != rows:
                self.wrong["changed"] += 1
        return reply

    # ---- one trial -----------------------------------------------------------------------------------------------

    def trial(self, point: str, when: str) -> None:
        """Requests, a death, the same requests once more."""
        self.tried += 1
        keys = [f"{point} {when} {self.tried} {i}" for i in range(FEW)]
        jobs: dict[str, str] = {}
        if point == "resume":
            dead = self.serve("run", "before", self.call("run"))
            self.first_round(keys, jobs, "run")
            ending_of(dead)
        child = self.serve(point, when, self.call(point))
        self.first_round(keys, jobs, point)
        self.killed += ending_of(child, 30.0) == -signal.SIGKILL
        alive = self.serve()
        self.second_round(keys, point)
        if point == "resume":  # a run that died twice suspended its user
            self.send("POST", "/v1/datasets/visits/lift", "carla", json={"user": "ann", "because": "a test"})
        os.kill(alive, signal.SIGKILL)
        ending_of(alive)

    def call(self, point: str) -> int:
        """At which call of the point the process dies: the first two trials at the first."""
        return 1 if self.tried <= 2 or point in {"approval", "cancel"} else random.randint(1, FEW)

    def first_round(self, keys: list[str], jobs: dict[str, str], point: str) -> None:
        """A connection that a dying process never took is given up soon."""
        self.patience = 12.0
        for key in keys:
            reply = self.ask(key, 8.0 if point == "reply" else 0.0)
            if reply is None:
                break
            if reply.status_code == 202:
                jobs[key] = reply.json()["job"]
        if point == "cancel" and jobs:
            self.send("DELETE", f"/v1/jobs/{next(iter(jobs.values()))}")
        elif point == "approval":
            self.decide()
        else:
            for job in jobs.values():
                if self.send("GET", f"/v1/jobs/{job}", params={"wait": 8}) is None:
                    break

    def decide(self) -> None:
        reply = self.send("GET", "/v1/approvals", "carla")
        for one in [] if reply is None else reply.json()["approvals"]:
            decision = {"decision": "approve"}
            if self.send("POST", f"/v1/approvals/{one['id']}", "carla", json=decision) is None:
                return

    def second_round(self, keys: list[str], point: str) -> None:
        self.patience = 20.0
        for key in keys:
            for _ in range(20):
                reply = self.ask(key, 10.0)
                if reply is not None and reply.status_code not in {202, 503}:
                    break
                if point == "approval":
                    self.decide()
            else:
                self.wrong["never ended"] += 1

    # ---- what must hold ------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Every answer that was seen has one charge; no request has two; log and ledgers agree."""
        read, write = os.pipe()

        def look() -> None:
            service = Service.open(self.place, LIMITS)
            ledger = service.datasets.ledger("visits")
            found = {"unpaid": 0, "charged twice": 0, "chains": 0}
            entries = {entry.sequence: entry for entry in ledger.entries()}
            with ledger._store.reading() as transaction:
                for key in self.keys:
                    request = Request.of("ann", "visits", key, Question("").canonical).key
                    charges = transaction.spends_with_request(request)
                    found["charged twice"] += len(charges) > 1
                    answered = [c for c in charges if entries[c].state == "answered"]
                    found["unpaid"] += key in self.seen and len(answered) != 1
            try:
                service.check()
            except ShoalError:
                found["chains"] += 1
            if ledger.spent[0] != Fraction(str(EPSILON)) * len(entries):
                found["chains"] += 1
            os.write(write, json.dumps(found).encode())
            service.close(5)

        if ending_of(in_child(look), 300):
            self.wrong["chains"] += 1
        else:
            for name, number in json.loads(os.read(read, 10_000)).items():
                self.wrong[name] += number


def migrations(folder: Path, place: Path | str, times: int) -> Trials:
    """A store of format 1 is migrated; the process dies in the middle, and right after."""
    trials = Trials(folder, place)
    trials.prepare(approve=False)
    for number in range(times):
        for when in ("before", "after"):
            trials.tried += 1
            if ending_of(in_child(lambda: back_to_format_one(place))):
                raise SystemExit("there is no older store to migrate")

            def work(when: str = when) -> None:
                plant("migration", when, 1)
                migrate(place, "x")

            trials.killed += ending_of(in_child(work)) == -signal.SIGKILL
            if ending_of(in_child(lambda: migrate(place, "x"))):
                trials.wrong["chains"] += 1
        alive = trials.serve()
        trials.second_round([f"migration {number}"], "migration")
        os.kill(alive, signal.SIGKILL)
        ending_of(alive)
    trials.check()
    return trials


def back_to_format_one(place: Path | str) -> None:
    """The store as the first version had it."""
    changes = ["DROP TABLE sessions", "ALTER TABLE identity DROP COLUMN kept_since"]
    changes += ["ALTER TABLE identity DROP COLUMN timeline"]
    if isinstance(place, Path):
        connection = sqlite.connect(place / "service.db")
        for change in [*changes, "PRAGMA user_version = 1"]:
            connection.execute(change)
        connection.close()
        return
    import psycopg

    with psycopg.connect(place) as connection:
        connection.execute("SET search_path = shoal")
        for change in [*changes, "DELETE FROM service_migrations WHERE number > 1"]:
            connection.execute(change)


def trials_of(point: str, folder: Path, place: Path | str, times: int) -> Trials:
    """All trials of a point."""
    if point == "migration":
        return migrations(folder, place, times)
    trials = Trials(folder, place)
    trials.prepare(approve=point == "approval")
    for _ in range(times):
        for when in ("before", "after"):
            trials.trial(point, when)
    trials.check()
    return trials


def place_for(store: str, folder: Path, number: int) -> Path | str:
    """A folder of its own, or an empty database: the schema of the last point is dropped."""
    if "://" not in store:
        return folder / f"home{number}"

    def empty() -> None:
        import psycopg

        with psycopg.connect(store, autocommit=True) as connection:
            connection.execute("SET client_min_messages = error; DROP SCHEMA IF EXISTS shoal CASCADE")

    ending_of(in_child(empty))
    return store


def main() -> int:
    """The exit status is 0 where nothing went wrong and every process was killed at least once."""
    options = argparse.ArgumentParser()
    options.add_argument("--times", type=int, default=5)
    options.add_argument("--store", required=True)
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--point", choices=POINTS, action="append")
    said = options.parse_args()
    bad = 0
    for number, point in enumerate(said.point or POINTS):
        started = time.monotonic()
        trials = trials_of(point, said.folder, place_for(said.store, said.folder, number), said.times)
        line = {"point": point, "tried": trials.tried, "killed": trials.killed, "answers seen": len(trials.seen)}
        print(json.dumps(line | trials.wrong | {"seconds": round(time.monotonic() - started)}), flush=True)
        bad += any(trials.wrong.values()) or not trials.killed
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
