"""A service against a session in this process: explain, a small query, a replay; medians of interleaved rounds, loopback.

python -m benchmarks service [--rounds 20] [--workers 2 --clients 16] [--json]
"""

from __future__ import annotations

import argparse
import json
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

if TYPE_CHECKING:
    from collections.abc import Callable

CROWD_ROUNDS = 3
EACH_ASKS = {"explain": 40, "query": 15}
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
    """Each act once a round: with a question, or with a new one of this prefix."""
    found: dict[str, list[float]] = {name: [] for name in acts}
    for number in range(rounds):
        for name, (act, about) in acts.items():
            found[name].append(seconds(act, about if " " in about else counting(f"{about}{number}")))
    return found


def crowd(local: Any, url: str, token: str, clients: int) -> dict[str, float]:
    """How much more is done for many clients at once than in one session, in the same time: medians of interleaved rounds."""
    found: dict[str, list[float]] = {what: [] for what in EACH_ASKS}
    with ExitStack() as stack:
        remotes = [stack.enter_context(shoal.connect(url, token=token)) for _ in range(clients)]
        pool = stack.enter_context(ThreadPoolExecutor(clients))
        for number, (what, ratios) in product(range(CROWD_ROUNDS), found.items()):
            texts = [[counting(f"c{number}{what}{c}_{i}") for i in range(EACH_ASKS[what])] for c in range(clients)]
            alone = median(seconds(getattr(local, what), text) for text in texts[0] + texts[1])
            start = time.perf_counter()
            list(pool.map(_all_asked, [getattr(remote, what) for remote in remotes], texts))
            each = (time.perf_counter() - start) / sum(map(len, texts))
            ratios.append(alone / each)
    return {f"{what}, {clients} clients": median(ratios) for what, ratios in found.items()}


def _all_asked(act: Callable[[str], Any], texts: list[str]) -> None:
    for text in texts:
        act(text)


def main(argv: list[str] | None = None) -> None:
    """Prints medians, and ratios of speed."""
    options = argparse.ArgumentParser()
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--clients", type=int, default=0, help="also so many at once, beside one session")
    options.add_argument("--json", action="store_true")
    said = options.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder)
        serve = [sys.executable, "-m", "shoal", "serve", str(folder / "data"), "--catalog", str(folder / "shoal.toml")]
        serve += ["--budget", "1000,1e-5", "--home", str(folder / "home"), "--port", "0", "--json"]
        serve += ["--answer-time", "off", "--rates", "off", "--workers", str(said.workers)]
        with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True) as process:
            try:
                ready = json.loads(process.stdout.readline() if process.stdout else "")
                home = ("--home", str(folder / "home"))
                command("service", "user", "add", "ann", "--role", "analyst", *home)
                command("service", "allow", "data", "--to", "everyone", *home)
                token = command("service", "token", "create", "ann", *home)
                catalog, ledger = folder / "shoal.toml", folder / "ledger.db"
                with (
                    shoal.connect(folder / "data", catalog=catalog, budget=(1000, 1e-5), ledger=ledger) as local,
                    shoal.connect(f"{ready['url']}/d/data", token=token) as remote,
                ):
                    found = measured(local, remote, said.rounds)
                    many = crowd(local, f"{ready['url']}/d/data", token, said.clients) if said.clients else {}
            finally:
                process.terminate()
    medians = {name: median(times[1:]) for name, times in found.items()}
    ratios = {
        "explain": medians["session.explain"] / medians["service explain"],
        "query": medians["session.query"] / medians["service query"],
        "replay against explain": medians["service explain"] / medians["service replay"],
        "replay against explain, known": medians["service explain, known"] / medians["service replay"],
    } | many
    if said.json:
        print(json.dumps({"seconds": medians, "ratios": ratios}))
        return
    for name, value in medians.items():
        print(f"{name:<30} {1000 * value:8.1f} ms")
    for name, value in ratios.items():
        print(f"{name:<30} {value:8.2f}")


if __name__ == "__main__":
    main()
