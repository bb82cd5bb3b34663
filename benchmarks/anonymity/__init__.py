"""Anonymity on the UCI Adult data with ARX's hierarchies: every published number again, then speed beside pycanon and anjana.

    python -m benchmarks anonymity --data DIR [--no-peers] [--only numbers|speed] [--write]

DIR holds adult.csv, adult_subset.csv and adult_hierarchy_<column>.csv, as they come with ARX (UCI "Adult", Becker & Kohavi 1996);
they are not part of this project. The peers run in an environment of their own under benchmarks/data/; one that cannot be
installed or run is named as such. Exit status 1 when a number differs.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from benchmarks.anonymity import numbers, speed
from benchmarks.records import FOLDER, write_record
from benchmarks.showing import shown

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Checks, measures, compares."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks anonymity", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder with adult.csv and the hierarchies")
    parser.add_argument("--no-peers", action="store_true", help="measure shoal alone")
    parser.add_argument("--only", choices=("numbers", "speed"), help="one half of it")
    parser.add_argument("--times", type=int, default=100, help="the large table is the data so many times over")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/benchmarks.md")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where the JSON record goes")
    asked = parser.parse_args(argv)
    load = os.getloadavg()
    checked = [] if asked.only == "speed" else numbers.checked(asked.data)
    timed = [] if asked.only == "numbers" else speed.timed(asked.data, asked.times, peers=not asked.no_peers)
    if timed:
        shown(speed.table(timed), "anonymity", load, write=asked.write)
    record = {
        "load_average": load[0],
        "numbers": [line.to_dict() for line in checked],
        "speed": [line.to_dict() for line in timed],
    }
    print(f"\nwritten: {write_record('anonymity', record, asked.results)}")
    wrong = [line for line in checked if not line.right]
    if checked:
        print(f"{len(checked) - len(wrong)} of {len(checked)} numbers are as published.")
    return 1 if wrong else 0
