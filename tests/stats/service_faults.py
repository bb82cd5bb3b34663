"""A service to which everything happens: seeded random acts and faults on real processes, then what must hold; run as a program.

    python tests/stats/service_faults.py --seeds 1000 [--first N] [--steps 40]

People ask, cancel and read; custodians allow, withdraw, refresh, share, approve and retire; runners and services are killed,
stopped for longer than a lease and replaced, one or two of them over one store; ledger and store are locked, cannot be reached, or
lose the connection after a commit; the source is away. Then everything is mended, and what must hold is looked up in the store, the
ledger and the log (`fault_findings.py`). One line of JSON for each seed; the exit status is 0 where nothing was found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import sys
import tempfile
import time
from contextlib import closing, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fault_findings import Seen, findings
from faulty_service import LEASE_SECONDS, LIMITS, Process, serve
from forked import in_child

from shoal.params import budget
from shoal.service.allowances import Grant
from shoal.service.datasets import NewDataSet
from shoal.service.runners import nursery
from shoal.service.service import OPERATOR, Service

CATALOG = '[tables.visits]\nowner = "uid"\nmax_rows_per_owner_and_group = 5\n[tables.sites]\npublic = true\n'
CATALOG += "[defaults]\nmax_groups_per_owner = 3\n"
NOT_SHARED = "[service]\nshare_answers = false\n"
ANALYSTS = ("ann", "bob", "dora", "emil")
PEOPLE = {name: ["analyst"] for name in ANALYSTS} | {"carla": ["custodian"], "clara": ["custodian"]}
DEAR = "0.5"
"""Above what anybody may ask without an approval."""
APPROVE_ABOVE = "0.4"
EPSILONS = ("0.1", "0.1", "0.2", DEAR)
PATIENCE_SECONDS = 180.0
"""However busy the machine is."""
GRANTS = (("group:research", "ever"), ("dora", "ever"), ("dora", "day"), ("everyone", "ever"), ("ann", "ever"))


class Simulation:
    """One service from its beginning to its end."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.home, self.seed = folder, folder / "home", seed
        self.random = random.Random(seed)
        self.processes: list[Process] = []
        self.helpers: list[int] = []
        self.seen = Seen()
        self.jobs: list[tuple[str, str]] = []
        self.pending: list[tuple[Process, int, str, dict[str, Any]]] = []
        self.source_back = 0.0
        self.wake_at: dict[Process, float] = {}
        self.mend_at: dict[tuple[Process, str], float] = {}
        self.told: list[str] = []
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(folder / "template", self.home)
        (folder / "shoal.toml").write_text(CATALOG)

    # ---- processes -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """One more process over the same store."""
        ours, theirs = socket.socketpair()
        channels = [ours, *(one._channel for one in self.processes)]
        number = self.random.randrange(2**30)

        def work() -> None:
            for channel in channels:
                channel.close()
            serve(self.home, number, theirs)

        process = Process(in_child(work), ours)
        theirs.close()
        if process.hear(0, PATIENCE_SECONDS) is None:
            self.told.append("a process did not start")  # the store was locked, or could not be reached
            self._bury(process)
            return
        self.processes.append(process)
        process.send("pause", seconds=self.random.choice((0.0, 0.1, 0.4)))

    def kill(self, process: Process) -> None:
        """It dies, whatever it does."""
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        self._bury(process)

    def _bury(self, process: Process) -> None:
        process.close()
        os.waitpid(process.pid, 0)
        if process in self.processes:
            self.processes.remove(process)

    def stop(self, process: Process) -> None:
        """In order."""
        self.wake(process)
        self.mend(process)
        reply = process.hear(process.send("end"), PATIENCE_SECONDS)
        if reply is None or not reply["value"]:
            self.told.append("it did not end in order")
        self._bury(process)

    def wake(self, process: Process) -> None:
        """It goes on."""
        if self.wake_at.pop(process, None) is not None:
            os.kill(process.pid, signal.SIGCONT)

    def mend(self, process: Process) -> None:
        """Nothing goes wrong in it any more."""
        for what in ("ledger", "store"):
            self.mend_at.pop((process, what), None)
            process.send("faults", what=what, when="")

    # ---- acts ----------------------------------------------------------------------------------------------------

    def one(self) -> Process | None:
        """A process that can be spoken to."""
        awake = [process for process in self.processes if process not in self.wake_at]
        return self.random.choice(awake) if awake else None

    def tell(self, act: str, seconds: float = 0.0, **words: Any) -> dict[str, Any] | None:
        """Says it to a process, and waits this long for the reply; one that comes later is heard later."""
        process = self.one()
        if process is None:
            return None
        try:
            number = process.send(act, **words)
        except OSError:
            return None
        reply = process.hear(number, seconds)
        if reply is None:
            self.pending.append((process, number, act, words))
        else:
            self.note(act, words, reply)
        return reply

    def note(self, act: str, words: dict[str, Any], reply: dict[str, Any]) -> None:
        """What was heard must be so in the end."""
        if reply.get("error") == "bug":
            self.seen.wrong.append(f"{act}: {reply['told']}")
        if "error" in reply:
            return
        if act == "ask":
            self.jobs.append((words["who"], reply["value"]["id"]))
            self.seen.note_asked(words, reply["value"])
        elif act == "cancel":
            self.seen.note_cancelled(reply["value"])

    def hear_late(self) -> None:
        """Replies that came meanwhile."""
        for each in list(self.pending):
            process, number, act, words = each
            if process not in self.processes:
                self.pending.remove(each)
                continue
            reply = process.hear(number, 0.0)
            if reply is not None:
                self.pending.remove(each)
                self.note(act, words, reply)

    def ask(self) -> None:
        who = self.random.choice((*ANALYSTS, *ANALYSTS, "carla"))
        what, epsilon = self.random.choice("abc"), self.random.choice(EPSILONS)
        options = f"WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {epsilon})"
        sql = f"SELECT {options} COUNT(DISTINCT uid) AS {what} FROM visits"
        if self.random.random() < 0.1:
            sql = f"SELECT COUNT(*) AS {what} FROM sites"
        key = f"k{self.random.randrange(6)}" if self.random.random() < 0.5 else None
        fresh = self.random.random() < 0.3
        self.tell("ask", self.random.choice((0.0, 0.0, 1.0)), who=who, sql=sql, key=key, fresh=fresh)

    def cancel(self) -> None:
        if self.jobs:
            who, job = self.random.choice(self.jobs[-6:])
            self.tell("cancel", self.random.choice((0.0, 1.0)), who=who, job=job)

    def read(self) -> None:
        """Somebody reads an answer of somebody's, while nobody else changes who may."""
        answers = self._stored("SELECT id FROM answers ORDER BY id")
        if not answers or self.pending:
            return
        who, answer = self.random.choice(ANALYSTS), self.random.choice(answers)["id"]
        before, version = self._lines(), self._version()
        reply = self.tell("read", PATIENCE_SECONDS, who=who, answer=answer)
        if reply is not None and "error" not in reply:
            self.seen.read.append((who, answer, before, self._lines()))
            if version == self._version() and not self.seen.shared[version] and answer not in self._own(who):
                self.seen.wrong.append(f"{who} read {answer}, which was not shared")

    def allow(self) -> None:
        to, per = self.random.choice(GRANTS[:3] + GRANTS[4:])
        words = {"to": to, "per": per, "approve": APPROVE_ABOVE}
        words["epsilon"] = self.random.choice((None, "0.3", "0.7", "2"))
        words["most"] = self.random.choice((None, None, "0.15", "0.6"))
        self.tell("allow", self.random.choice((0.0, 1.0)), **words)

    def withdraw(self) -> None:
        to, per = self.random.choice(GRANTS)
        self.tell("withdraw", self.random.choice((0.0, 1.0)), to=to, per=per)

    def refresh(self) -> None:
        """The catalog is what it was until the service has read it, or never will."""
        share = self.random.random() < 0.5
        if any(act == "refresh" for _, _, act, _ in self.pending):
            return
        (self.folder / "shoal.toml").write_text(CATALOG + ("" if share else NOT_SHARED))
        self.tell("refresh", PATIENCE_SECONDS)
        version, known = self._version(), max(self.seen.shared)
        self.seen.shared.update(dict.fromkeys(range(known + 1, version + 1), share))

    def decide(self) -> None:
        who, decision = self.random.choice(("carla", "clara")), self.random.choice(("approve", "approve", "refuse"))
        self.tell("decide", self.random.choice((0.0, 1.0)), who=who, decision=decision)

    def retire(self) -> None:
        if self.random.random() < 0.3:
            self.tell("retire", 1.0, who=self.random.choice(("emil", "bob")))

    def lift(self) -> None:
        self.tell("lift", 1.0)

    # ---- faults --------------------------------------------------------------------------------------------------

    def kill_runner(self) -> None:
        reply = self.tell("runners", 1.0)
        if reply and reply.get("value"):
            with suppress(ProcessLookupError):
                os.kill(self.random.choice(reply["value"]), signal.SIGKILL)

    def die(self) -> None:
        if self.processes:
            self.kill(self.random.choice(self.processes))
        if not self.processes or self.random.random() < 0.3:
            self.start()

    def restart(self) -> None:
        process = self.one()
        if process is not None:
            self.stop(process)
        if not self.processes:
            self.start()

    def second(self) -> None:
        if len(self.processes) < 2:
            self.start()

    def freeze(self) -> None:
        """It is stopped for longer than its lease, as a machine that is moved is."""
        process = self.one()
        if process is not None and len(self.processes) > 1:
            os.kill(process.pid, signal.SIGSTOP)
            self.wake_at[process] = time.monotonic() + LEASE_SECONDS + 1.5

    def outage(self) -> None:
        """Of one process from its ledger or its store."""
        process = self.one()
        if process is not None:
            what, when = self.random.choice(("ledger", "ledger", "store")), self.random.choice(("before", "after"))
            process.send("faults", what=what, when=when)
            self.mend_at[process, what] = time.monotonic() + self.random.choice((0.2, 0.6, 2.0))

    def lock(self) -> None:
        """Somebody else writes for longer than anybody waits."""
        path = self.home / self.random.choice(("service.db", "ledgers/visits.db"))
        seconds = self.random.choice((0.2, 0.8))

        def hold() -> None:
            with closing(sqlite3.connect(path, timeout=5, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                time.sleep(seconds)
                connection.execute("ROLLBACK")

        self.helpers.append(in_child(hold))

    def source_away(self) -> None:
        data = self.folder / "data"
        if data.exists():
            data.rename(self.folder / "away")
            self.source_back = time.monotonic() + self.random.choice((0.3, 1.0, 2.5))

    def rest(self) -> None:
        time.sleep(self.random.choice((0.05, 0.2, 0.5)))

    def tend(self, *, now: bool = False) -> None:
        """What lasts for a while ends."""
        moment = time.monotonic()
        if self.source_back and (now or moment > self.source_back):
            (self.folder / "away").rename(self.folder / "data")
            self.source_back = 0.0
        for process, until in list(self.wake_at.items()):
            if now or moment > until or process not in self.processes:
                self.wake(process) if process in self.processes else self.wake_at.pop(process)
        for (process, what), until in list(self.mend_at.items()):
            if process not in self.processes:
                self.mend_at.pop((process, what))
            elif (now or moment > until) and process not in self.wake_at:
                self.mend_at.pop((process, what))
                process.send("faults", what=what, when="")
        self.hear_late()

    # ---- the whole -----------------------------------------------------------------------------------------------

    def run(self, steps: int) -> dict[str, Any]:
        """What was found, and how much there was."""
        acts = [self.ask] * 24 + [self.cancel] * 4 + [self.rest] * 6 + [self.kill_runner] * 3 + [self.outage] * 3
        acts += [self.lock, self.lock, self.read, self.read, self.allow, self.allow, self.withdraw, self.withdraw]
        acts += [self.refresh, self.refresh, self.decide, self.decide, self.retire, self.lift, self.die, self.die]
        acts += [self.restart, self.second, self.second, self.freeze, self.source_away]
        done: dict[str, int] = {}
        try:
            self.start()
            for _ in range(steps):
                self.tend()
                act = self.random.choice(acts)
                done[act.__name__] = done.get(act.__name__, 0) + 1
                act()
            self.quiesce()
        finally:
            self.tend(now=True)
            for process in list(self.processes):
                self.kill(process)
            self.reap()
        found = self.look()
        return {"seed": self.seed, **found, "acts": done, "told": self.told}

    def quiesce(self) -> None:
        """Nothing goes wrong any more; what waits ends, is found by a start if need be, and ends."""
        self.tend(now=True)
        self.reap()
        for process in self.processes:
            self.mend(process)
        for is_last in (False, True):  # a run that was cancelled and died may wait for the next start
            if not self.processes:
                self.start()
            self.tell("lift", PATIENCE_SECONDS)
            ends = time.monotonic() + PATIENCE_SECONDS
            while self._unfinished(runs=is_last) and time.monotonic() < ends:
                self.tend()
                time.sleep(0.05)
            for process in list(self.processes):
                self.stop(process)
        self.seen.wrong += [f"never ended: {row}" for row in self._unfinished(runs=True)]

    def reap(self) -> None:
        for child in self.helpers:
            os.waitpid(child, 0)
        self.helpers.clear()

    def _unfinished(self, *, runs: bool) -> list[dict[str, Any]]:
        """Jobs; with `runs` also those that were cancelled and still run."""
        return self._stored(
            "SELECT id, person, state, leader, runs, process, lease FROM jobs WHERE state IN ('waiting', 'running')"
            + " OR process <> ''" * runs
        )

    def _stored(self, sql: str) -> list[dict[str, Any]]:
        with closing(sqlite3.connect(self.home / "service.db", timeout=30)) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(sql).fetchall()]

    def _own(self, who: str) -> set[str]:
        return {row["id"] for row in self._stored("SELECT id, person FROM answers") if row["person"] == who}

    def _version(self) -> int:
        return int(self._stored("SELECT version FROM datasets")[0]["version"])

    def _lines(self) -> int:
        return int(self._stored("SELECT coalesce(max(n), 0) AS n FROM log")[0]["n"])

    def look(self) -> dict[str, Any]:
        """In a process of its own: this one has no threads."""
        read, write = os.pipe()

        def work() -> None:
            service = Service.open(self.home, LIMITS)
            os.write(write, json.dumps(findings(service, self.seen)).encode())
            service.close(5.0)

        child = in_child(work)
        os.close(write)
        with os.fdopen(read, "rb") as heard:
            said = heard.read()
        os.waitpid(child, 0)
        if not said:
            return {"wrong": [*self.seen.wrong, "what is left cannot be opened"]}
        found: dict[str, Any] = json.loads(said)
        return found


def prepare(folder: Path) -> None:
    """Data, a catalog and a service that each simulation begins with; one nursery for all."""
    (folder / "data").mkdir(parents=True)
    number = list(range(600))
    table = pa.table({"uid": [i % 120 for i in number], "site": [f"s{i % 4}" for i in number]})
    pq.write_table(table, folder / "data" / "visits.parquet")
    pq.write_table(pa.table({"site": ["s0", "s1"], "town": ["here", "there"]}), folder / "data" / "sites.parquet")
    (folder / "shoal.toml").write_text(CATALOG)

    def make() -> None:
        service = Service.open(folder / "template", LIMITS)
        catalog = str(folder / "shoal.toml")
        service.add_dataset(OPERATOR, NewDataSet("visits", str(folder / "data"), catalog, budget((3, 1e-5))))
        for name, roles in PEOPLE.items():
            service.add_user(OPERATOR, name, roles, ["research"] if name in {"ann", "bob", "emil"} else [])
        service.allow(OPERATOR, Grant("visits", "group:research", approve_above=Fraction(APPROVE_ABOVE)))
        service.allow(OPERATOR, Grant("visits", "dora", "day", budget((0.7, 1e-5)), None, Fraction(APPROVE_ABOVE)))
        service.close(5.0)

    _, status = os.waitpid(in_child(make), 0)
    if status:
        raise SystemExit("the service could not be made")
    nursery.new_runner(2**30)[0].close()  # from here on runners are forked at once


def main() -> int:
    """The exit status is 0 where nothing was found."""
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", type=int, default=20)
    options.add_argument("--first", type=int, default=1)
    options.add_argument("--steps", type=int, default=60)
    said = options.parse_args()
    bad = 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "all"
        prepare(folder)
        for seed in range(said.first, said.first + said.seeds):
            began = time.monotonic()
            found = Simulation(folder, seed).run(said.steps)
            print(json.dumps(found | {"seconds": round(time.monotonic() - began, 1)}), flush=True)
            bad += bool(found["wrong"])
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
