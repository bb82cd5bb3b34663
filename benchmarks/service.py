"""A service against a session in this process: explain, a small query, a replay; medians of interleaved rounds, loopback.

python -m benchmarks service [--rounds 120] [--workers 2 --clients 16] [--first] [--json]

A ratio is told for all rounds, and for the blocks that they are cut into: how far blocks lie apart is how far to trust it. On a
busy machine the service loses more than the session, because three processes wait for a processor where the session is one:
`--first` runs before everything else there (round robin, root's right). Processor time per request is told too, for the client,
the service, and the processes that plan and run; it hardly depends on the load.

`--clients` also measures what these processors give without any service: as many sessions at once as there are processors, each in
a process and with a ledger of its own. Processors that share caches, or are two threads of one, do less than twice what one does.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import shoal
from benchmarks.ledgers import processor_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

CROWD_ROUNDS = 5
BLOCKS = 6
EACH_ASKS = {"explain": 60, "query": 20}
"""How many questions each of several clients asks in a round, one after the other."""
CATALOG = '[tables.visits]\nowner = "uid"\nmax_rows_per_owner_and_group = 5\n[defaults]\nmax_groups_per_owner = 3\n'


def counting(name: str) -> str:
    """A small question that nobody asked before."""
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.01) COUNT(DISTINCT uid) AS {name} FROM visits"


def command(*words: str) -> str:
    """What a verb of shoal prints."""
    return subprocess.run(
        [sys.executable, "-m", "shoal", *words], check=True, capture_output=True, text=True
    ).stdout.strip()


def written(folder: Path) -> None:
    """600 visits of 120 people."""
    (folder / "data").mkdir()
    table = pa.table({"uid": [i % 120 for i in range(600)], "site": [f"s{i % 4}" for i in range(600)]})
    pq.write_table(table, folder / "data" / "visits.parquet")
    (folder / "shoal.toml").write_text(CATALOG)


def seconds(act: Callable[[str], Any], sql: str) -> float:
    """How long it takes."""
    start = time.perf_counter()
    act(sql)
    return time.perf_counter() - start


def measured(local: Any, remote: Any, rounds: int) -> dict[str, list[float]]:
    """Seconds of each act: what is compared takes turns, and nothing else runs in between."""
    asked = counting("replayed")
    remote.query(asked)
    return (
        _in_turn({"session.explain": (local.explain, "e"), "service explain": (remote.explain, "e")}, rounds)
        | _in_turn({"session.query": (local.query, "l"), "service query": (remote.query, "r")}, rounds)
        | _in_turn({"service explain, known": (remote.explain, asked), "service replay": (remote.query, asked)}, rounds)
    )


def _in_turn(acts: dict[str, tuple[Callable[[str], Any], str]], rounds: int) -> dict[str, list[float]]:
    """Each act once a round: with a question, or with a new one of this prefix. What comes first changes from round to round."""
    found: dict[str, list[float]] = {name: [] for name in acts}
    for number in range(rounds):
        for name, (act, about) in sorted(acts.items(), reverse=bool(number % 2)):
            found[name].append(seconds(act, about if " " in about else counting(f"{about}{number}")))
    return found


def alone(remote: Any, serving: int, asked: str) -> dict[str, dict[str, float]]:
    """Processor milliseconds of requests one after the other."""
    acts = {
        "explain": (remote.explain, "x", 200),
        "explain, known": (remote.explain, asked, 200),
        "query": (remote.query, "y", 40),
    }
    found = {}
    for name, (act, about, times) in acts.items():
        before = processors(serving)
        for number in range(times):
            act(about if " " in about else counting(f"{about}{number}"))
        found[name] = per_request(before, processors(serving), times)
    return found


def blocks(above: list[float], below: list[float]) -> dict[str, float]:
    """How much faster the second is, by medians: of everything, and of the blocks that it is cut into."""
    size = max(1, len(above) // BLOCKS)
    each = sorted(
        median(above[i : i + size]) / median(below[i : i + size]) for i in range(0, len(above) - size + 1, size)
    )
    return {"all": median(above) / median(below), "lowest block": each[0], "highest block": each[-1]}


def crowd(local: Any, url: str, tokens: list[str], serving: int) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """How much more is done while many clients ask than in one session in the same time, round by round; processor time."""
    found: dict[str, list[float]] = {what: [] for what in EACH_ASKS}
    taken: dict[str, Any] = {}
    with ExitStack() as stack:
        remotes = [stack.enter_context(shoal.connect(url, token=token)) for token in tokens]
        pool = stack.enter_context(ThreadPoolExecutor(len(tokens)))
        for number, (what, ratios) in product(range(CROWD_ROUNDS), found.items()):
            texts = [[counting(f"c{number}{what}{c}_{i}") for i in range(EACH_ASKS[what])] for c in range(len(tokens))]
            alone = median(seconds(getattr(local, what), text) for text in texts[0] + texts[1])
            before = processors(serving)
            start = time.perf_counter()
            ends = list(pool.map(_all_asked, [getattr(remote, what) for remote in remotes], texts))
            taken[f"{what}, {len(tokens)} clients"] = per_request(before, processors(serving), sum(map(len, texts)))
            first = min(each[-1] for each in ends)  # until then all of them ask
            asked = sum(end <= first for each in ends for end in each)
            ratios.append(alone * asked / (first - start))
    return {f"{what}, {len(tokens)} clients": ratios for what, ratios in found.items()}, taken


def sessions_at_once(folder: Path, number: int) -> dict[str, list[float]]:
    """How much more sessions in processes of their own do at once than the first of them alone, round by round."""
    started = multiprocessing.get_context("spawn")
    pipes = [started.Pipe() for _ in range(number)]
    each = [
        started.Process(target=_ask_as_told, args=(folder, n, pipe[1]), daemon=True) for n, pipe in enumerate(pipes)
    ]
    found: dict[str, list[float]] = {what: [] for what in EACH_ASKS}
    for process in each:
        process.start()
    for round_, (what, ratios) in product(range(CROWD_ROUNDS), found.items()):
        alone = median(_told(pipes[:1], what, f"{round_}alone")[0])
        together = _told(pipes, what, f"{round_}both")
        ratios.append(alone * sum(1 / median(times) for times in together))
    for pipe, _ in pipes:
        pipe.send(None)
    for process in each:
        process.join()
    return {f"{what}, {number} sessions": ratios for what, ratios in found.items()}


def _told(pipes: list[Any], what: str, name: str) -> list[list[float]]:
    """Seconds of each question of each session, all of which ask at once."""
    for pipe, _ in pipes:
        pipe.send((what, name))
    return [pipe.recv() for pipe, _ in pipes]


def _ask_as_told(folder: Path, number: int, pipe: Any) -> None:
    """A session in this process, and what it is told to ask."""
    ledger = folder / f"session{number}.db"
    with shoal.connect(folder / "data", catalog=folder / "shoal.toml", budget=(1000, 1e-5), ledger=ledger) as session:
        while (told := pipe.recv()) is not None:
            what, name = told
            texts = [counting(f"s{name}{what}{number}_{i}") for i in range(4 * EACH_ASKS[what])]
            pipe.send([seconds(getattr(session, what), text) for text in texts])


def processors(serving: int) -> dict[str, float]:
    """Processor seconds so far: of this process, of those that serve, and of those that plan and run."""
    found = {"client": time.process_time(), "service": 0.0, "planners and runners": 0.0}
    waiting = [serving]
    while waiting:
        process = waiting.pop()
        try:
            is_runner = b"nursery" in Path(f"/proc/{process}/cmdline").read_bytes()
            found["planners and runners" if is_runner else "service"] += processor_seconds(process)
            waiting += [
                int(each)
                for path in Path(f"/proc/{process}/task").glob("*/children")
                for each in path.read_text().split()
            ]
        except FileNotFoundError:
            continue
    return found


def per_request(before: dict[str, float], after: dict[str, float], requests: int) -> dict[str, float]:
    """Processor milliseconds of one request."""
    each = {name: 1000 * (after[name] - before[name]) / requests for name in before}
    return {name: round(value, 2) for name, value in (each | {"all": sum(each.values())}).items()}


def _all_asked(act: Callable[[str], Any], texts: list[str]) -> list[float]:
    """When each was answered."""
    ends = []
    for text in texts:
        act(text)
        ends.append(time.perf_counter())
    return ends


def main(argv: list[str] | None = None) -> None:
    """Prints medians, ratios of speed, and processor time."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=120)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--clients", type=int, default=0, help="also so many people at once, beside one session")
    options.add_argument("--slots", type=int, default=0, help="of each worker; 0: as the service chooses")
    options.add_argument("--first", action="store_true", help="before everything else on this machine")
    options.add_argument("--json", action="store_true")
    said = options.parse_args(argv)
    if said.first:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(20))
    with tempfile.TemporaryDirectory() as name:
        told = compared(Path(name), said)
    if said.json:
        print(json.dumps(told))
        return
    for title, found in told.items():
        print(title)
        for name, value in found.items():
            print(f"  {name:<30} {_line(value)}")


def _line(value: dict[str, float] | float) -> str:
    parts = value.items() if isinstance(value, dict) else [("", value)]
    return "  ".join(f"{name} {number:.2f}".strip() for name, number in parts)


def compared(folder: Path, said: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What was measured, under titles."""
    written(folder)
    serve = [sys.executable, "-m", "shoal", "serve", str(folder / "data"), "--catalog", str(folder / "shoal.toml")]
    serve += ["--budget", "1000,1e-5", "--home", str(folder / "home"), "--port", "0", "--json"]
    serve += ["--answer-time", "off", "--rates", "off", "--workers", str(said.workers)]
    serve += ["--slots", str(said.slots)] if said.slots else []
    with subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            ready = json.loads(process.stdout.readline() if process.stdout else "")
            tokens = [token_of(f"ann{number}", folder / "home") for number in range(max(1, said.clients))]
            command("service", "allow", "data", "--to", "everyone", "--home", str(folder / "home"))
            catalog, ledger = folder / "shoal.toml", folder / "ledger.db"
            url = f"{ready['url']}/d/data"
            with (
                shoal.connect(folder / "data", catalog=catalog, budget=(1000, 1e-5), ledger=ledger) as local,
                shoal.connect(url, token=tokens[0]) as remote,
            ):
                found = measured(local, remote, said.rounds)
                taken: dict[str, Any] = alone(remote, process.pid, counting("replayed"))
                many: dict[str, list[float]] = {}
                if said.clients:
                    many, more = crowd(local, url, tokens, process.pid)
                    taken |= more
        finally:
            process.terminate()
    if said.clients:
        many |= sessions_at_once(folder, os.cpu_count() or 1)
    ratios: dict[str, Any] = {
        "explain": blocks(found["session.explain"], found["service explain"]),
        "query": blocks(found["session.query"], found["service query"]),
        "replay against explain, known": blocks(found["service explain, known"], found["service replay"]),
        "replay against explain": median(found["service explain"]) / median(found["service replay"]),
    }
    ratios |= {
        name: {"all": median(each), "lowest round": min(each), "highest round": max(each)}
        for name, each in many.items()
    }
    return {
        "milliseconds, medians": {name: 1000 * median(times) for name, times in found.items()},
        "times the speed": ratios,
        "processor milliseconds of a request": taken,
    }


def token_of(name: str, home: Path) -> str:
    """A new analyst's token."""
    command("service", "user", "add", name, "--role", "analyst", "--home", str(home))
    return command("service", "token", "create", name, "--home", str(home))


if __name__ == "__main__":
    main()
