"""Ledgers under load: charges with answers in a file and in PostgreSQL, sixteen at once, opening a long one, a service with it.

python -m benchmarks ledgers [--postgresql URL] [--rounds 20] [--entries 100000]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import repeat
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.accounting.promises import Promise
from shoal.accounting.spending.asking import Ask
from shoal.params import budget

AT_ONCE = 16
POOL = ThreadPoolExecutor(AT_ONCE)
ANSWER = bytes(2000)
COST = Loss(Fraction(1, 1000), Fraction(0))


def charge(ledger: Ledger, name: str) -> None:
    """One charge, and its answer."""
    ledger.reserve(COST, user="ann", fingerprint=name).commit(ANSWER)


def one_at_a_time(ledger: Ledger, name: str) -> float:
    """Seconds for sixteen, one after the other."""
    start = time.perf_counter()
    for number in range(AT_ONCE):
        charge(ledger, f"{name} {number}")
    return time.perf_counter() - start


def together(ledger: Ledger, name: str) -> float:
    """Seconds for sixteen that wait at once, in threads that are there already, as the slots of a service are."""
    start = time.perf_counter()
    list(POOL.map(charge, repeat(ledger), [f"{name} {number}" for number in range(AT_ONCE)]))
    return time.perf_counter() - start


def filled(ledger: Ledger, entries: int) -> None:
    """So many settled charges, written a thousand in a transaction."""

    def one(pen: object, number: int) -> None:
        made = pen.charge(Ask(COST, "ann", "SELECT", f"f{number}", None, Promise.owner(), None, (), False))
        pen.settle(made.sequence, "answer", [b"x"], "")

    for start in range(0, entries, 1000):
        ledger._turns.do(  # noqa: SLF001 - a thousand charges in one transaction are nobody else's wish
            *(lambda pen, n=n: one(pen, n) for n in range(start, min(entries, start + 1000)))
        )


def long_ledger(path: Path, entries: int) -> Ledger:
    """A file with so many settled charges."""
    ledger = Ledger.create(path, budget((10**6, 1e-5)))
    filled(ledger, entries)
    return ledger


def processor_seconds(process: int) -> float:
    """What a process has taken so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(int(number) for number in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def start_after_death(home: Path) -> float:
    """Processor seconds of a service from its start to its first word; it ends by kill -9, and the next one starts after that."""
    command = [sys.executable, "-m", "shoal", "serve", "--home", str(home), "--port", "0", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        if process.stdout is not None:
            process.stdout.readline()
        taken = processor_seconds(process.pid)
        process.kill()
    return taken


def starting(folder: Path, entries: int, rounds: int = 3) -> dict[str, float]:
    """A service without a charge, and one with a long ledger and all its log lines: processor seconds, medians of rounds."""
    from shoal.service.datasets import NewDataSet
    from shoal.service.service import OPERATOR, Service

    homes = {"without a charge": 0, f"with {entries:,} charges": entries}
    pq.write_table(pa.table({"uid": [1, 2, 3]}), folder / "visits.parquet")
    (folder / "shoal.toml").write_text('[tables.visits]\nowner = "uid"\n')
    source = (str(folder / "visits.parquet"), str(folder / "shoal.toml"), budget((10**6, 1e-5)))
    for name, number in homes.items():
        made = Service.open(folder / name)
        made.add_dataset(OPERATOR, NewDataSet("visits", *source))
        filled(made.datasets.get("visits").ledger, number)
        made.close(0.0)
        Service.open(folder / name).close(0.0)  # writes the lines of the log
        start_after_death(folder / name)
    found = {name: [start_after_death(folder / name) for _ in range(rounds)] for name in homes}
    return {name: median(times) for name, times in found.items()}


def main(argv: list[str] | None = None) -> None:
    """Prints medians and ratios as JSON."""
    options = argparse.ArgumentParser()
    options.add_argument("--postgresql")
    options.add_argument("--rounds", type=int, default=20)
    options.add_argument("--entries", type=int, default=100_000)
    said = options.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ledgers = {"file": Ledger.create(folder / "ledger.db", budget((10**6, 1e-5)))}
        if said.postgresql:
            ledgers["postgresql"] = Ledger.create(f"{said.postgresql}#bench{time.time_ns()}", budget((10**6, 1e-5)))
        found: dict[str, list[float]] = {}
        for number in range(said.rounds):
            for kind, ledger in ledgers.items():
                found.setdefault(f"{kind}, one at a time", []).append(one_at_a_time(ledger, f"one {number}"))
                found.setdefault(f"{kind}, together", []).append(together(ledger, f"many {number}"))
        rates = {what: AT_ONCE / median(times) for what, times in found.items()}
        ratios = {"sixteen waiting at a file": rates["file, together"] / rates["file, one at a time"]}
        if said.postgresql:
            ratios["PostgreSQL beside a file"] = rates["postgresql, one at a time"] / rates["file, one at a time"]
        long_ledger(folder / "long.db", said.entries)
        clock, processor = time.perf_counter(), time.process_time()
        remaining = Ledger.open(folder / "long.db").remaining
        opened = {"seconds": time.perf_counter() - clock, "processor seconds": time.process_time() - processor}
        begun = starting(folder, said.entries)
    told = {"charges a second": rates, "ratios": ratios, "opening": opened, "starting a service": begun}
    print(json.dumps(told | {"left": str(remaining)}, indent=1))


if __name__ == "__main__":
    main()
