"""kill -9 of a service at twelve points of its life, before and after each; run as a program.

    python tests/stats/service_kills.py --times 100 --store DIR|URL [--point NAME | --asked]

Each trial serves HTTP in a process of its own, forked from a parent without threads, which kills itself with SIGKILL when it comes
to the point. The client then sends the same request under the same key to a new process. It prints one line of JSON for each point:
how often a process was killed there, and what must be 0: answers without a charge, requests charged twice, answers that changed,
requests that never ended, chains that do not verify.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import signal
import sys
import time
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from forked import in_child
from planted_kills import PLAN, dies, kill_at

from shoal.accounting.ledger import Ledger
from shoal.accounting.spending import pen, turns
from shoal.accounting.spending.asking import Request
from shoal.accounting.stores import postgresql as ledgers_in_postgresql
from shoal.accounting.stores import sqlite as ledgers_in_sqlite
from shoal.errors import ShoalError
from shoal.params import budget
from shoal.service import running
from shoal.service.acts import approving, following
from shoal.service.allowances import Grant
from shoal.service.datasets import NewDataSet
from shoal.service.questions import Question
from shoal.service.runners import nursery
from shoal.service.service import OPERATOR, Limits, Service
from shoal.service.stores import postgresql, sqlite
from shoal.service.stores.opening import migrate
from shoal.service.stores.tables import REMEMBERED
from shoal.web import jobs as web_jobs
from shoal.web import server

CATALOG = '[tables.visits]\nowner = "uid"\nmax_rows_per_owner_and_group = 5\n[defaults]\nmax_groups_per_owner = 3\n'
LIMITS = Limits(slots=2, answer_time=0.0, rates=False)
EPSILON = 0.01
SOON = 15.0
FEW = 2
"""How many requests are in flight at once."""


class DeadlyTables(tuple[str, ...]):
    """Whoever lists these tables dies: in the middle of a migration."""

    __slots__ = ()

    def __iter__(self) -> object:
        dies(os.getpid())


def plant() -> None:
    """The points of a process that serves; those of its runners are planted where they are made."""
    for when in ("before", "after"):
        for owner in (ledgers_in_sqlite.SqliteTransaction, ledgers_in_postgresql.PostgresTransaction):
            kill_at(owner, "put_answer", "store", when)
        for owner, name, point in (
            (Ledger, "reserve", "reserve"),
            (Ledger, "_settle", "settle"),
            (web_jobs, "answer_reply", "reply"),
            (running, "log_charge", "log"),
            (pen.Pen, "_resume", "resume"),
        ):
            kill_at(owner, name, point, when)
    # In the middle of the transaction, and once it is kept.
    kill_at(turns, "_require_change", "group commit", "before", "after")
    kill_at(turns.Turns, "_commit", "group commit", "after")
    kill_at(approving, "later", "approval", "before", "after")
    kill_at(Service, "decide", "approval", "after")
    kill_at(following, "cancelled", "cancel", "before", "after")
    kill_at(Service, "cancel", "cancel", "after")


def plant_in_migration(when: str) -> None:
    """What the child changes in itself before it migrates."""
    for module in (sqlite, postgresql):
        if when == "before":
            module.APPEND_ONLY = DeadlyTables(("log",))
        else:
            migrates = module.migrate
            module.migrate = lambda *args, migrates=migrates: (migrates(*args), dies(os.getpid()))


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
        self.socket = server.bound_socket("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.tokens: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        self.seen: dict[str, list[object]] = {}
        self.wrong = {"unpaid": 0, "charged twice": 0, "changed": 0, "never ended": 0, "chains": 0}
        self.deaths = {"before": 0, "after": 0}
        self.tried = self.serving = self.armed = 0
        self.patience = 20.0

    @property
    def killed(self) -> int:
        """How many processes died at the point itself, before or after it."""
        return sum(self.deaths.values())

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

    def serve(self) -> int:
        """A process that serves, and dies where the plan says."""

        def work() -> None:
            plant()
            listening = server.Listening(self.socket, None)
            server._serve_here(self.place, LIMITS, server.Place(port=0), listening, lambda *_: None, server.Bell())

        self.serving = in_child(work)
        return self.serving

    def arm(self, point: str, when: str) -> None:
        """The process that serves dies at the point."""
        said = {"point": point, "when": when, "call": self.call(point), "pid": self.serving, "trial": self.armed}
        self.armed += 1
        path = Path(os.environ[PLAN])
        path.with_suffix(".new").write_text(json.dumps(said))
        path.with_suffix(".new").replace(path)

    def disarm(self) -> None:
        """Nobody dies from now on."""
        folder = Path(os.environ[PLAN]).parent
        for path in folder.glob("plan*"):
            path.unlink()

    def send(
        self, method: str, path: str, who: str = "ann", said: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, object] | None:
        """Status and object of one request; None where the process died over it."""
        if self.is_dead():
            return None
        known = {"Authorization": f"Bearer {self.tokens[who]}", "Content-Type": "application/json", **(headers or {})}
        connection = http.client.HTTPConnection("127.0.0.1", self.socket.getsockname()[1], timeout=self.patience)
        try:
            connection.request(method, path, None if said is None else json.dumps(said), known)
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def is_dead(self) -> bool:
        """Whether the process that serves has died; nobody would take the connection."""
        return os.waitid(os.P_PID, self.serving, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def ask(self, key: str, wait: float) -> tuple[int, object] | None:
        name = self.keys.setdefault(key, f"n{len(self.keys)}")
        sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {EPSILON}) COUNT(DISTINCT uid) AS {name} FROM visits"
        reply = self.send(
            *("POST", "/v1/datasets/visits/query"),
            said={"sql": sql, "wait": wait, "fresh": True},
            headers={"Idempotency-Key": key},
        )
        if reply is not None and reply[0] == 200:
            rows = reply[1]["rows"]
            if self.seen.setdefault(key, rows) != rows:
                self.wrong["changed"] += 1
        return reply

    # ---- one trial -----------------------------------------------------------------------------------------------

    def trial(self, point: str, when: str) -> None:
        """Requests, a death, the same requests once more."""
        self.tried += 1
        keys = [f"{point} {when} {self.tried} {i}" for i in range(FEW)]
        jobs: dict[str, str] = {}
        if not self.serving or self.is_dead():
            self.serve()
        if point == "resume":
            self.arm("run", "before")
            self.first_round(keys, jobs, "run")
            ending_of(self.serving)
            self.disarm()
            self.serve()
        self.arm(point, when)
        self.first_round(keys, jobs, point)
        self.deaths[when] += self.ended(SOON)
        self.disarm()
        self.serve()
        self.second_round(keys, point)
        if point == "resume":  # a run that died twice suspended its user
            self.send("POST", "/v1/datasets/visits/lift", "carla", {"user": "ann", "because": "a test"})

    def ended(self, seconds: float) -> bool:
        """Whether the process that serves was killed at its point; one that was not is killed now, wherever it is."""
        return ending_of(self.serving, seconds) == -signal.SIGKILL

    def end(self) -> None:
        """No process serves."""
        if self.serving and not self.is_dead():
            os.kill(self.serving, signal.SIGKILL)
        if self.serving:
            ending_of(self.serving)
        self.serving = 0

    def call(self, point: str) -> int:
        """At which call of the point the process dies: the first two trials at the first."""
        return 1 if self.tried <= 2 or point in {"approval", "cancel", "resume"} else random.randint(1, FEW)

    def first_round(self, keys: list[str], jobs: dict[str, str], point: str) -> None:
        """A connection that a dying process never took is given up soon."""
        self.patience = 12.0
        for key in keys:
            reply = self.ask(key, 8.0 if point == "reply" else 0.0)
            if reply is None:
                break
            if reply[0] == 202:
                jobs[key] = reply[1]["job"]
        if point == "cancel" and jobs:
            self.send("DELETE", f"/v1/jobs/{next(iter(jobs.values()))}")
        elif point == "approval":
            self.decide()
        else:
            for job in jobs.values():
                if self.send("GET", f"/v1/jobs/{job}?wait=8") is None:
                    break

    def decide(self) -> None:
        reply = self.send("GET", "/v1/approvals", "carla")
        for one in [] if reply is None else reply[1]["approvals"]:
            decision = {"decision": "approve"}
            if self.send("POST", f"/v1/approvals/{one['id']}", "carla", decision) is None:
                return

    def second_round(self, keys: list[str], point: str) -> None:
        self.patience = 20.0
        for key in keys:
            for _ in range(20):
                reply = self.ask(key, 10.0)
                if reply is not None and reply[0] not in {202, 503}:
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
                plant_in_migration(when)
                migrate(place, "x")

            trials.deaths[when] += ending_of(in_child(work)) == -signal.SIGKILL
            if ending_of(in_child(lambda: migrate(place, "x"))):
                trials.wrong["chains"] += 1
        trials.serve()
        trials.second_round([f"migration {number}"], "migration")
        trials.end()
    trials.check()
    return trials


def back_to_format_one(place: Path | str) -> None:
    """The store as the first version had it."""
    changes = ["DROP TABLE sessions", "ALTER TABLE identity DROP COLUMN kept_since"]
    changes += ["ALTER TABLE identity DROP COLUMN timeline", "ALTER TABLE jobs DROP COLUMN came_to"]
    changes += ["ALTER TABLE identity DROP COLUMN changes"]
    if isinstance(place, Path):
        connection = sqlite.connect(place / "service.db")
        acts = ("insert", "update", "delete")
        triggers = [f"DROP TRIGGER {table}_{act}" for table in REMEMBERED for act in acts]
        for change in [*triggers, *changes, "PRAGMA user_version = 1"]:
            connection.execute(change)
        connection.close()
        return
    import psycopg

    with psycopg.connect(place) as connection:
        connection.execute("SET search_path = shoal")
        changes += ["DROP FUNCTION service_remembered CASCADE", "DELETE FROM service_migrations WHERE number > 1"]
        for change in changes:
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
    trials.end()
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


def prepare_runners(folder: Path) -> None:
    """One nursery for all services, whose runners know the points of theirs."""
    os.environ[PLAN] = str(folder / "plans" / "plan")
    (folder / "plans").mkdir(exist_ok=True)
    found = [str(Path(__file__).resolve().parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(found)
    nursery.PRELOAD = (*nursery.PRELOAD, "planted_kills")
    nursery.new_runner(2**30)[0].close()  # from here on runners are forked at once


def done_before(kept: Path | None, store: str) -> dict[str, int]:
    """Deaths that an earlier run wrote down, by point."""
    lines = kept.read_text().splitlines() if kept is not None and kept.exists() else []
    found = dict.fromkeys(POINTS, 0)
    for line in map(json.loads, lines):
        found[line["point"]] += line["killed"] if line["store"] == store else 0
    return found


def main() -> int:
    """The exit status is 0 where nothing went wrong and every process was killed at least once."""
    options = argparse.ArgumentParser()
    options.add_argument("--times", type=int, default=5)
    options.add_argument("--store", required=True)
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--point", choices=POINTS, action="append")
    options.add_argument("--keep", type=Path, help="append each line here, and go on until each point has --deaths")
    options.add_argument("--deaths", type=int, default=0)
    options.add_argument("--asked", action="store_true", help="read the points from standard input, one a line")
    said = options.parse_args()
    prepare_runners(said.folder)
    kind = "file" if "://" not in said.store else "postgresql"
    bad = number = 0
    if said.asked:
        for number, line in enumerate(sys.stdin):
            trials = trials_of(line.strip(), said.folder, place_for(said.store, said.folder, number), said.times)
            print(json.dumps(trials.deaths | trials.wrong), flush=True)
        return 0
    while True:
        done = done_before(said.keep, kind)
        points = [p for p in said.point or POINTS if not said.deaths or done[p] < said.deaths]
        for point in points:
            number += 1
            started = time.monotonic()
            trials = trials_of(point, said.folder, place_for(said.store, said.folder, number), said.times)
            line = {"point": point, "tried": trials.tried, "killed": trials.killed, "answers seen": len(trials.seen)}
            line |= trials.wrong | {"seconds": round(time.monotonic() - started)}
            print(json.dumps(line), flush=True)
            if said.keep is not None:
                with said.keep.open("a") as file:
                    file.write(json.dumps({"store": kind, **line}) + "\n")
            bad += any(trials.wrong.values()) or not trials.killed
        if not said.deaths or not points:
            return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
