"""Quantiles chosen by the exponential mechanism beside those read off a noisy tree: errors over many draws on the same rows.

    python -m benchmarks quantiles [--runs 200] [--write]

Prints the table and writes benchmarks/results/quantiles-DATE.json; `--write` puts the table into docs/theory/quantiles.md.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.records import FOLDER, replace_between, write_record
from shoal.accounting.events import LaplaceNoise, QuantileChoice, RankTarget, Shift
from shoal.mechanisms.quantile_choice import ChosenQuantiles, outer_margin
from shoal.mechanisms.quantiles import BRANCHING, HEIGHT, NoisyForest
from shoal.rewrite.assigning.sizing import FAR_TAIL

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

PAGE = Path(__file__).parent.parent / "docs" / "theory" / "quantiles.md"
LEAVES = BRANCHING**HEIGHT
SEED = 20
HEADER = [
    "| rows | values | quantile | root mean square error: choice | tree | median error: choice | tree |",
    "|---:|---|---|---:|---:|---:|---:|",
]
Generator = np.random.Generator
VALUES: dict[str, Callable[[Generator, int], NDArray[np.float64]]] = {
    "uniform": lambda generator, rows: generator.random(rows),
    "lognormal(2, 1) in [0, 1000]": lambda generator, rows: generator.lognormal(2, 1, rows) / 1000,
    "lognormal(2, 1) in [0, 100000]": lambda generator, rows: generator.lognormal(2, 1, rows) / 100_000,
    "normal(95, 3) in [0, 100]": lambda generator, rows: generator.normal(0.95, 0.03, rows),
}
CASES = (
    (100, "lognormal(2, 1) in [0, 1000]", Fraction(1, 2)),
    (1_000, "lognormal(2, 1) in [0, 1000]", Fraction(1, 2)),
    (1_000, "lognormal(2, 1) in [0, 1000]", Fraction(19, 20)),
    (10_000, "lognormal(2, 1) in [0, 1000]", Fraction(99, 100)),
    (1_000, "uniform", Fraction(1, 2)),
    (10_000, "uniform", Fraction(1, 2)),
    (10_000, "uniform", Fraction(19, 20)),
    (1_000, "lognormal(2, 1) in [0, 100000]", Fraction(99, 100)),
    (1_000, "normal(95, 3) in [0, 100]", Fraction(0)),
    (1_000, "uniform", Fraction(0)),
    (1_000, "uniform", Fraction(99, 100)),
)


@dataclass(frozen=True)
class Errors:
    """In parts of U − L."""

    root_mean_square: float
    median: float


@dataclass(frozen=True)
class Comparison:
    """Both ways to one quantile of the same rows."""

    rows: int
    values: str
    fraction: float
    choice: Errors
    tree: Errors

    def line(self) -> str:
        """One row of the page."""
        name = {0.0: "MIN", 1.0: "MAX"}.get(self.fraction, f"{self.fraction:g}")
        numbers = (self.choice.root_mean_square, self.tree.root_mean_square, self.choice.median, self.tree.median)
        return f"| {self.rows:,} | {self.values} | {name} | " + " | ".join(f"{n:.2g}" for n in numbers) + " |"


def compared(rows: int, values: str, fraction: Fraction, runs: int) -> Comparison:
    """As many groups with the same rows as there are runs, at ε = 1 for one owner a row."""
    places = np.clip(VALUES[values](np.random.default_rng(SEED), rows), 0, 1 - 1e-9)
    leaf, count = np.unique((places * LEAVES).astype(np.int64), return_counts=True)
    group = np.repeat(np.arange(runs), len(leaf))
    copies = runs, group, np.tile(leaf, runs), np.tile(count, runs)
    scale = Fraction(2)
    margin = 0 if FAR_TAIL <= fraction <= 1 - FAR_TAIL else outer_margin(scale, LEAVES)
    choice = ChosenQuantiles(*copies, QuantileChoice(Shift(1), scale, (RankTarget(fraction, margin),)), LEAVES)
    tree = NoisyForest(*copies, LaplaceNoise(Shift(1, HEIGHT), Fraction(HEIGHT)))
    truth = float(np.quantile(places, float(fraction)))
    found = [_errors(way.quantiles([float(fraction)])[:, 0] - truth) for way in (choice, tree)]
    return Comparison(rows, values, float(fraction), *found)


def _errors(off: NDArray[np.float64]) -> Errors:
    return Errors(float(np.sqrt(np.mean(off**2))), float(np.median(np.abs(off))))


def main(argv: list[str]) -> int:
    """Prints the table, writes the record and, when asked, the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks quantiles", description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="how often each quantile is drawn")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where the JSON file goes")
    parser.add_argument("--write", action="store_true", help="put the table into docs/theory/quantiles.md")
    asked = parser.parse_args(argv)
    found = [compared(*case, asked.runs) for case in CASES]
    table = [*HEADER, *(one.line() for one in found)]
    print("\n".join(table))
    if asked.write:
        replace_between(PAGE, "choice", table)
    print(f"\n{write_record('quantiles', {'epsilon': 1, 'rows': [asdict(one) for one in found]}, asked.results)}")
    return 0
