"""anjana: k-anonymity of seven columns by its greedy generalization; its loss is counted as ours is."""

from __future__ import annotations

import csv
import json
import re
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import pandas as pd
from anjana.anonymity import k_anonymity

warnings.simplefilter("ignore")
SEVEN = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass"]


def hierarchy(folder: str, column: str) -> list[list[str]]:
    """Level → the label of each value, in the order of the file."""
    path = Path(folder) / f"adult_hierarchy_{column}.csv"
    with path.open(encoding="utf-8") as file:
        lines = list(csv.reader(file, delimiter=";"))
    return [list(level) for level in zip(*lines, strict=True)]


def loss(made: pd.DataFrame, rows: int, folder: str) -> float:
    """The mean loss of a cell; a row that is gone loses everything."""
    total = 0.0
    for column in SEVEN:
        levels = hierarchy(folder, column)
        sizes: dict[str, int] = {}
        for level in levels:
            sizes |= Counter(level)
        leaves = len(levels[0])
        lost = [(sizes[str(value)] - 1) / (leaves - 1) for value in made[column]]
        total += sum(lost) + (rows - len(made))
    return total / rows / len(SEVEN)


def peak_memory() -> float | None:
    """The largest resident memory of this process alone, in MB, where the system tells it."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8")) if status.exists() else None
    return None if found is None else int(found[1]) / 1024


def main(_job: str, path: str, folder: str) -> None:
    """Times the recoding."""
    data = pd.read_parquet(path)[SEVEN].astype(str)
    ladders = {column: dict(enumerate(hierarchy(folder, column))) for column in SEVEN}
    began = time.perf_counter()
    made = k_anonymity(data, [], SEVEN, 5, 5, ladders)
    seconds = time.perf_counter() - began
    note = f"loss {loss(made, len(data), folder):.4f}, greedy"
    print(json.dumps({"seconds": seconds, "memory_mb": peak_memory(), "note": note}))


if __name__ == "__main__":
    main(*sys.argv[1:])
