"""pycanon: k, l, entropy l and t of three columns; t alone of seven. Reading the file is not counted."""

from __future__ import annotations

import json
import re
import sys
import time
import warnings
from pathlib import Path

import pandas as pd
from pycanon import anonymity

warnings.simplefilter("ignore")
SEVEN = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass"]
THREE = ["sex", "race", "marital-status"]


def peak_memory() -> float | None:
    """The largest resident memory of this process alone, in MB, where the system tells it."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8")) if status.exists() else None
    return None if found is None else int(found[1]) / 1024


def main(job: str, path: str, _folder: str) -> None:
    """Times the measures."""
    data = pd.read_parquet(path)
    began = time.perf_counter()
    if job == "three":
        anonymity.k_anonymity(data, THREE)
        anonymity.l_diversity(data, THREE, ["occupation"])
        anonymity.entropy_l_diversity(data, THREE, ["occupation"])
        anonymity.t_closeness(data, THREE, ["occupation"])
        note = "k, l, entropy l and t"
    else:
        anonymity.t_closeness(data, SEVEN, ["occupation"])
        note = "t alone"
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "memory_mb": peak_memory(), "note": note}))


if __name__ == "__main__":
    main(*sys.argv[1:])
