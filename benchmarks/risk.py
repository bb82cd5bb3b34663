"""Risk scan of ten million rows and ten columns of parquet, beside DuckDB's exact COUNT(DISTINCT owner) GROUP BY column.

    python -m benchmarks risk [--rows N] [--workers N] [--skip-exact]

Each side runs in a process of its own over the same file; core-seconds are user and system time of the process and its
workers, peak memory is the largest sum of resident memory of all of them, looked at 20 times a second. GB are bytes of the
parquet file on disk (the same columns take about two and a half times as much in memory). Writes
benchmarks/results/risk-DATE.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.records import write_record

DATA = Path(__file__).parent / "data"
PART = 1_000_000
OWNER = "uid"
PUBLISHED = {"core_seconds_per_gb": 978, "exact_core_seconds_per_gb": 4010}


def events(rows: int, start: int, rng: np.random.Generator) -> pa.Table:
    """A part of a log: skewed owners; identifiers, quasi-identifiers, times, amounts and flags."""
    owners = max(1_000, rows // 5)
    count = min(PART, rows - start)
    uid = (rng.zipf(1.5, count) * 7919 + rng.integers(0, owners, count)) % owners
    return pa.table(
        {
            OWNER: uid,
            "event": np.arange(start, start + count) * 2654435761 % (1 << 45),
            "email": pa.array(np.char.add(np.char.add("user", uid.astype("U8")), "@example.org")),
            "postcode": pa.array(rng.integers(10_000, 99_999, count)).cast(pa.string()),
            "city": pa.array(np.char.add("city ", np.minimum(rng.zipf(1.2, count), 500).astype("U3"))),
            "birth": pa.array((uid * 31 % 29_000).astype(np.int32)).cast(pa.date32()),
            "moment": pa.array(1_600_000_000_000_000 + rng.integers(0, 10**14, count)).cast(pa.timestamp("us")),
            "amount": np.round(rng.gamma(2, 30, count), 2),
            "page": pa.array(np.char.add("/page/", np.minimum(rng.zipf(1.3, count), 10**7).astype("U8"))),
            "member": rng.integers(0, 2, count).astype(bool),
        }
    )


def data_file(rows: int) -> Path:
    """The log as one parquet file, made once."""
    path = DATA / f"risk-{rows}.parquet"
    if path.exists():
        return path
    DATA.mkdir(parents=True, exist_ok=True)
    rng, beside = np.random.default_rng(1), path.with_suffix(".part")
    writer = None
    for start in range(0, rows, PART):
        table = events(rows, start, rng)
        writer = writer or pq.ParquetWriter(beside, table.schema)
        writer.write_table(table, row_group_size=PART)
    if writer is not None:
        writer.close()
    beside.replace(path)
    return path


def scan_all(path: Path, workers: int | None) -> dict[str, Any]:
    """All columns by sketches."""
    from shoal import risk

    report = risk.scan(path, owner=OWNER, key=b"benchmark key of 32 bytes length", workers=workers)
    sizes = {name: len(sketch.to_bytes()) for name, sketch in report.sketches.items()}
    alone = {name.split(".")[1]: sketch.share_below(2).value for name, sketch in report.sketches.items()}
    return {"bytes": sum(sizes.values()), "alone": alone}


def count_all(path: Path) -> dict[str, Any]:
    """The distribution of owners per value of each column, exactly, by DuckDB."""
    import duckdb

    alone = {}
    with duckdb.connect() as connection:
        for column in pq.read_schema(path).names:
            found = connection.sql(
                f'SELECT owners, count(*) FROM (SELECT "{column}", count(DISTINCT {OWNER}) AS owners '
                f"FROM '{path}' GROUP BY \"{column}\") GROUP BY owners"
            ).fetchall()
            alone[column] = sum(n for owners, n in found if owners == 1) / sum(n for _, n in found)
    return {"alone": alone}


def tree_memory(process: int) -> int:
    """Resident bytes of a process and all below it."""
    total, waiting = 0, [process]
    while waiting:
        number = waiting.pop()
        try:
            total += int(Path(f"/proc/{number}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            for task in Path(f"/proc/{number}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except (OSError, ValueError):
            continue
    return total


def measured(side: str, path: Path, workers: int | None) -> dict[str, Any]:
    """One side in a process of its own, watched from here."""
    words = [sys.executable, "-m", "benchmarks.risk", "--side", side, "--file", str(path)]
    if workers:
        words += ["--workers", str(workers)]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    peak = [0]

    def watch() -> None:
        while process.poll() is None:
            peak[0] = max(peak[0], tree_memory(process.pid))
            time.sleep(0.05)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    answer, _ = process.communicate()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{side} failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cores = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    gigabytes = path.stat().st_size / 1e9
    return {
        "wall_seconds": time.perf_counter() - start,
        "core_seconds": cores,
        "core_seconds_per_gb": cores / gigabytes,
        "peak_gb": peak[0] / 1e9,
        **json.loads(answer),
    }


def main(argv: list[str]) -> int:
    """Run both sides and compare."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks risk", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--workers", type=int, default=None)
    parser.add_argument("--skip-exact", action="store_true")
    parser.add_argument("--side", choices=["scan", "exact"], help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.side:
        side = count_all(options.file) if options.side == "exact" else scan_all(options.file, options.workers)
        print(json.dumps(side))
        return 0
    path = data_file(options.rows)
    columns = len(pq.read_schema(path).names)
    print(f"{options.rows:,} rows × {columns} columns, {path.stat().st_size / 1e9:.2f} GB of parquet")
    found = {"scan": measured("scan", path, options.workers)}
    if not options.skip_exact:
        found["exact"] = measured("exact", path, None)
    for side, numbers in found.items():
        print(
            f"{side:>6}: {numbers['wall_seconds']:7.1f} s, {numbers['core_seconds']:7.1f} core-seconds "
            f"({numbers['core_seconds_per_gb']:.1f} per GB), peak {numbers['peak_gb']:.2f} GB"
        )
    print(f"  sketches: {found['scan']['bytes'] / 1e6:.1f} MB for {columns} columns; published: {PUBLISHED}")
    if "exact" in found:
        off = {c: abs(found["scan"]["alone"][c] - share) for c, share in found["exact"]["alone"].items()}
        print(f"  largest error of the share of values with one owner: {max(off.values()):.3f}")
    print(
        write_record(
            "risk", {"rows": options.rows, "file_bytes": path.stat().st_size, "sides": found, "published": PUBLISHED}
        )
    )
    within = found["scan"]["core_seconds_per_gb"] <= 40 and found["scan"]["peak_gb"] < 1.5
    print("within 40 core-seconds per GB and 1.5 GB" if within else "NOT within 40 core-seconds per GB and 1.5 GB")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
