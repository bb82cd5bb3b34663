"""One job of ours in a process of its own: `python -m benchmarks.anonymity.job JOB TABLE FOLDER` prints seconds and memory."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.anonymity.numbers import CASES, Q7, Q9
from shoal import anonymity

ADULT = 30_162


def peak_memory() -> float | None:
    """The largest resident memory of this process alone, in MB, where the system tells it."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8")) if status.exists() else None
    return None if found is None else int(found[1]) / 1024


def main(job: str, path: str, folder: str) -> None:
    """From the file to the numbers; imports are not counted."""
    anonymity.measure({"warm": {"a": [1, 2]}}, "a")
    began = time.perf_counter()
    note = {"three": three, "seven": seven, "recode": recode, "nine": nine}[job](path, folder)
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "memory_mb": peak_memory(), "note": note}))


def three(path: str, _folder: str) -> str:
    """All measures."""
    anonymity.measure(path, ["sex", "race", "marital-status"], "occupation").to_dict()
    return "all measures"


def seven(path: str, _folder: str) -> str:
    """All measures."""
    anonymity.measure(path, list(Q7), "occupation").to_dict()
    return "all measures"


def recode(path: str, folder: str) -> str:
    """The best recoding, its output and its measurement."""
    k = 5 * max(pq.read_metadata(path).num_rows // ADULT, 1)  # as strong on copies as 5 is on the data
    made = anonymity.enforce(path, list(Q7), k=k, suppress=0.05, hierarchies=folder)
    made.to_arrow()
    return f"k = {k}, loss {made.loss:.4f}, proved best"


def nine(path: str, folder: str) -> str:
    """The recodings of nine columns that ARX confirmed."""
    cases = [case for case in CASES if case.quasi == Q9 and not case.at_most]
    checked = sum(anonymity.enforce(path, list(Q9), hierarchies=folder, **case.options).checked for case in cases)
    return f"{checked:,} recodings checked, all proved best"


if __name__ == "__main__":
    main(*sys.argv[1:])
