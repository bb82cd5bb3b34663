"""What the calculators of `shoal.knowledge` and the private sketches cost.

    python -m benchmarks knowledge [--share N] [--write] [--results FOLDER]

Every line is the quickest of three runs, by the clock, beside its goal. With --write the numbers go to
benchmarks/results/knowledge-DATE.json.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.records import FOLDER, write_record
from shoal import knowledge, risk
from shoal.knowledge.counts import corners
from shoal.knowledge.distributions import sum_of_answers

if TYPE_CHECKING:
    from collections.abc import Callable

RUNS = 3
ROWS = 2_000_000
KEY = b"a secret for benchmarks only"


def seconds(run: Callable[[], object]) -> float:
    """The quickest of a few runs."""
    times = []
    for _ in range(RUNS):
        corners.cache_clear()
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def measure(share: int) -> dict[str, dict[str, float]]:
    """Each line: what was measured and its goal; sizes divided by `share`."""
    chances, owners = np.linspace(0.05, 0.95, 10**5 // share), np.arange(ROWS // share)
    raw = risk.DistinctSketch(key=KEY)
    raw.update(owners)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", risk.RepeatedReleaseWarning)
        release = seconds(lambda: raw.release(1))

    def large_histogram() -> None:
        kept = knowledge.histogram(10**7 // share, uncertainty=0.1, known=9_900_000 // share)
        kept.delta_at(0.1)
        kept.epsilon_at(1e-10)

    def rate(update: Callable[[], object]) -> float:
        return len(owners) / seconds(update)

    return {
        "count(2000), curve of 200 points, s": {
            "measured": seconds(lambda: knowledge.count(2000 // share, uncertainty=0.1).curve()),
            "goal": 5,
        },
        "histogram of 10⁷ people, δ and ε, s": {"measured": seconds(large_histogram), "goal": 2},
        "Poisson-binomial of 10⁵ people, s": {"measured": seconds(lambda: sum_of_answers(chances)), "goal": 3},
        "δ of 10⁵ people with known chances, s": {
            "measured": seconds(lambda: knowledge.count(len(chances), probabilities=chances).delta_at(0.05)),
            "goal": 3,
        },
        "release of a 4096 × 24 sketch, s": {"measured": release, "goal": 0.1},
        "DistinctSketch.update, rows/s": {
            "measured": rate(lambda: risk.DistinctSketch(key=KEY).update(owners)),
            "goal": 0,
        },
        "Sketch.update, rows/s (the rate to reach)": {
            "measured": rate(lambda: risk.Sketch(key=KEY).update(owners, owners)),
            "goal": 0,
        },
    }


def main(argv: list[str]) -> int:
    """Measures, shows, and writes where asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks knowledge")
    parser.add_argument("--share", type=int, default=1, help="divide every size by this")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where to keep a record")
    parser.add_argument("--write", action="store_true", help="keep a record")
    arguments = parser.parse_args(argv)
    found = measure(arguments.share)
    for name, line in found.items():
        goal = f"   (goal: at most {line['goal']:g})" if line["goal"] else ""
        print(f"{name:<44}{line['measured']:>14,.4g}{goal}")
    if arguments.write:
        print(f"record: {write_record('knowledge', {'lines': found}, arguments.results)}")
    return 0
