"""One job of ours in a process of its own: `python -m benchmarks.anonymity.job JOB TABLE FOLDER` prints seconds and memory."""

from __future__ import annotations

import json
import resource
import sys
import time

from benchmarks.anonymity.numbers import CASES, Q7, Q9
from shoal import anonymity


def main(job: str, path: str, folder: str) -> None:
    """From the file to the numbers; imports are not counted."""
    anonymity.measure({"warm": {"a": [1, 2]}}, "a")
    began = time.perf_counter()
    note = {"three": three, "seven": seven, "recode": recode, "nine": nine}[job](path, folder)
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "memory_mb": memory, "note": note}))


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
    made = anonymity.enforce(path, list(Q7), k=5, suppress=0.05, hierarchies=folder)
    made.to_arrow()
    return f"loss {made.loss:.4f}, proved best"


def nine(path: str, folder: str) -> str:
    """The recodings of nine columns that ARX confirmed."""
    cases = [case for case in CASES if case.quasi == Q9 and not case.at_most]
    checked = sum(anonymity.enforce(path, list(Q9), hierarchies=folder, **case.options).checked for case in cases)
    return f"{checked:,} recodings checked, all proved best"


if __name__ == "__main__":
    main(*sys.argv[1:])
