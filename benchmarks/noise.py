"""Draws per second of exact discrete noise: our vectorised sampler and OpenDP's, on one core.

    python -m benchmarks noise [--draws N]

Writes benchmarks/results/noise-DATE.json.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.records import FOLDER, write_record
from benchmarks.showing import shown
from shoal.mechanisms.entropy import SYSTEM
from shoal.mechanisms.sampling import opendp_samplers, vectorised

if TYPE_CHECKING:
    from collections.abc import Callable

DRAWS, RUNS = 1_000_000, 3
SCALES = (Fraction(1), Fraction(15), Fraction(2**20))
GOALS = {"discrete Laplace": 500_000, "discrete Gaussian": 250_000}
OURS = {"discrete Laplace": vectorised.discrete_laplace, "discrete Gaussian": vectorised.discrete_gaussian}
OPENDP = {"discrete Laplace": opendp_samplers.discrete_laplace, "discrete Gaussian": opendp_samplers.discrete_gaussian}


def rate(draw: Callable[[], object], draws: int) -> float:
    """Draws per second, the median of some runs."""
    taken = []
    for _ in range(RUNS):
        start = time.perf_counter()
        draw()
        taken.append(time.perf_counter() - start)
    return draws / statistics.median(taken)


def rates(name: str, scale: Fraction, draws: int) -> dict[str, object]:
    """Both samplers at one scale; OpenDP gets a tenth of the draws."""
    few = max(draws // 10, 1)
    ours = rate(lambda: OURS[name](scale, draws, SYSTEM), draws)
    return {
        "noise": name,
        "scale": float(scale),
        "ours": ours,
        "opendp": rate(lambda: OPENDP[name](scale, few), few),
        "goal": GOALS[name],
    }


def main(argv: list[str]) -> int:
    """Runs all scales, prints the table, writes the record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks noise", description=__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--results", type=Path, default=FOLDER, help="where the JSON file goes")
    parser.add_argument("--write", action="store_true", help="put the table into docs/results/benchmarks.md")
    asked = parser.parse_args(argv)
    load = os.getloadavg()
    found = [rates(name, scale, asked.draws) for name in OURS for scale in SCALES]
    lines = ["| noise | scale | ours, draws per second | OpenDP | goal |", "|---|---:|---:|---:|---:|"]
    lines += [
        f"| {row['noise']} | {row['scale']:g} | {row['ours']:,.0f} | {row['opendp']:,.0f} | {row['goal']:,} |"
        for row in found
    ]
    shown(lines, "noise", load, write=asked.write)
    print(f"\n{write_record('noise', {'draws': asked.draws, 'load_before': load, 'rates': found}, asked.results)}")
    return 0
