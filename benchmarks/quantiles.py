"""Quantiles chosen by the exponential mechanism beside those read off a noisy tree, on the same rows.

Errors of single choices are expected ones, from the chance of every leaf; those of trees and all intervals are of many draws.

A second table has lists of quantiles: by recursion, drawn apart from each other, and off the tree.

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
from shoal.accounting.events import LaplaceNoise, QuantileChoice, Shift
from shoal.mechanisms.entropy import SYSTEM
from shoal.mechanisms.quantile_choice import ChosenQuantiles, Pieces, distances, units_per_row
from shoal.mechanisms.quantiles import BRANCHING, HEIGHT, NoisyForest
from shoal.mechanisms.ranks.whole_numbers import WholeQuantiles, number_of
from shoal.rewrite.assigning.sizing import share_around, target_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Copies = tuple[int, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

PAGE = Path(__file__).parent.parent / "docs" / "theory" / "quantiles.md"
LEAVES = BRANCHING**HEIGHT
SEED = 20
HEADER = [
    "| rows | values | quantile | root mean square error: choice | tree | median: choice | tree | interval holds | half width | rows in half |",  # noqa: E501 - a line of the page
    "|---:|---|---|---:|---:|---:|---:|---:|---:|---:|",
]
LIST_HEADER = [
    "| quantiles | values | root mean square error in rows: recursion | apart | tree | median: recursion | apart | tree | intervals hold | rows in half |",  # noqa: E501 - a line of the page
    "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|",
]
LISTS = tuple((quantiles, values) for quantiles in (2, 3, 5, 9, 15) for values in ("uniform", "ages"))
ROWS_OF_LISTS = 3000
LEVEL = 0.95
NEARLY = 1e-6
Generator = np.random.Generator

VALUES: dict[str, Callable[[Generator, int], NDArray[np.float64]]] = {
    "uniform": lambda generator, rows: generator.random(rows),
    "lognormal(2, 1) in [0, 1000]": lambda generator, rows: generator.lognormal(2, 1, rows) / 1000,
    "lognormal(2, 1) in [0, 100000]": lambda generator, rows: generator.lognormal(2, 1, rows) / 100_000,
    "normal(95, 3) in [0, 100]": lambda generator, rows: generator.normal(0.95, 0.03, rows),
    "ages": lambda generator, rows: np.clip(np.round(generator.normal(38, 13, rows)), 17, 90) / 120,
}
WHOLE = {"ages": 120}
"""Values that are whole numbers, and how far apart their bounds are."""
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
    (100, "ages", Fraction(1, 2)),
    (1_000, "ages", Fraction(1, 2)),
    (10_000, "ages", Fraction(9, 10)),
    (100_000, "ages", Fraction(1, 100)),
    (10_000, "normal(95, 3) in [0, 100]", Fraction(0)),
    (10_000, "ages", Fraction(1)),
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
    held: float
    half_width: float
    rows_in_half: float

    def line(self) -> str:
        """One row of the page."""
        name = {0.0: "MIN", 1.0: "MAX"}.get(self.fraction, f"{self.fraction:g}")
        numbers = (self.choice.root_mean_square, self.tree.root_mean_square, self.choice.median, self.tree.median)
        errors = " | ".join(f"{n:.2g}" for n in numbers)
        interval = f"{self.held:.1%} | {self.half_width:.2g} | {self.rows_in_half:,.0f}"
        return f"| {self.rows:,} | {self.values} | {name} | {errors} | {interval} |"


def compared(rows: int, values: str, fraction: Fraction, runs: int) -> Comparison:
    """As many groups with the same rows as there are runs, at ε = 1 for one owner a row."""
    places = np.clip(VALUES[values](np.random.default_rng(SEED), rows), 0, 1 - 1e-9)
    leaf, count = np.unique((places * LEAVES).astype(np.int64), return_counts=True)
    group = np.repeat(np.arange(runs), len(leaf))
    copies = runs, group, np.tile(leaf, runs), np.tile(count, runs)
    choice = _chosen(copies, _choice([fraction]), values)
    tree = NoisyForest(*copies, LaplaceNoise(Shift(1, HEIGHT), Fraction(HEIGHT)))
    truth = float(np.quantile(places, float(fraction)))
    of_law = _errors_of_law(leaf, count, _choice([fraction]), truth, WHOLE.get(values))
    found = of_law, _errors(tree.quantiles([float(fraction)])[:, 0] - truth)
    low, high = (end[:, 0] for end in _ends(choice, [fraction]))
    held = float(np.mean((low <= truth + NEARLY) & (truth <= high + NEARLY)))
    inside = _rows_between(np.sort(places), low, high)
    widths = float(np.median(high - low)) / 2, float(np.median(inside)) / 2
    return Comparison(rows, values, float(fraction), *found, held, *widths)


def _choice(fractions: list[Fraction], *, nested: bool | None = None) -> QuantileChoice:
    """What the planner makes of ε = 1, with a row for each owner."""
    nested = len(fractions) > 1 if nested is None else nested
    draws = len(fractions).bit_length() if nested else len(fractions)
    share = share_around(fractions)
    scale = 2 * draws / (1 - share)
    targets = tuple(target_of(fraction, scale, LEAVES) for fraction in fractions)
    return QuantileChoice(Shift(1), scale, targets, 1 / share, nested)


def _chosen(copies: Copies, choice: QuantileChoice, values: str) -> ChosenQuantiles | WholeQuantiles:
    """Whole numbers are chosen among whole numbers, as queries do."""
    width = WHOLE.get(values)
    if width is None:
        return ChosenQuantiles(*copies, choice, LEAVES)
    return WholeQuantiles.of(*copies, choice, LEAVES, SYSTEM, width)


def _errors_of_law(
    leaf: NDArray[np.int64], count: NDArray[np.int64], choice: QuantileChoice, truth: float, width: int | None
) -> Errors:
    """What is expected of one drawn leaf, from the chance of every leaf: rare draws far off are in it."""
    places = (np.arange(LEAVES) + 0.5) / LEAVES if width is None else np.arange(width + 1) / width
    own = leaf if width is None else number_of(leaf, LEAVES, width)
    pieces = Pieces.of(1, np.zeros_like(own), own, count, len(places))
    target = choice.targets[0]
    rate = float(1 / (units_per_row(target) * target.reach * choice.scale))
    chance = np.repeat(np.exp(-distances(pieces, target) * rate), pieces.width)
    chance /= chance.sum()
    off = np.abs(places - truth)
    rising = np.argsort(off)
    median = off[rising][np.searchsorted(np.cumsum(chance[rising]), 0.5)]
    return Errors(float(np.sqrt(np.sum(chance * off**2))), float(median))


def _ends(
    chosen: ChosenQuantiles | WholeQuantiles, fractions: list[Fraction]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    bands = chosen.bands(fractions, [LEVEL])
    ends = bands.at(LEVEL) if bands is not None else None
    assert ends is not None
    return ends


@dataclass(frozen=True)
class Lists:
    """Three ways to several quantiles of the same rows, errors in rows."""

    quantiles: int
    values: str
    recursion: Errors
    apart: Errors
    tree: Errors
    held: float
    rows_in_half: float

    def line(self) -> str:
        """One row of the page."""
        ways = (self.recursion, self.apart, self.tree)
        squares, medians = [f"{way.root_mean_square:.1f}" for way in ways], [f"{way.median:.1f}" for way in ways]
        interval = f"{self.held:.1%} | {self.rows_in_half:,.0f}"
        return f"| {self.quantiles} | {self.values} | {' | '.join([*squares, *medians])} | {interval} |"


def compared_lists(quantiles: int, values: str, runs: int) -> Lists:
    """Evenly spread quantiles of 3,000 rows."""
    places = np.sort(np.clip(VALUES[values](np.random.default_rng(SEED), ROWS_OF_LISTS), 0, 1 - 1e-9))
    leaf, count = np.unique((places * LEAVES).astype(np.int64), return_counts=True)
    copies = runs, np.repeat(np.arange(runs), len(leaf)), np.tile(leaf, runs), np.tile(count, runs)
    fractions = [Fraction(i, quantiles + 1) for i in range(1, quantiles + 1)]
    shares = [float(p) for p in fractions]
    nested = _chosen(copies, _choice(fractions), values)
    ways = (
        nested,
        _chosen(copies, _choice(fractions, nested=False), values),
        NoisyForest(*copies, LaplaceNoise(Shift(1, HEIGHT), Fraction(HEIGHT))),
    )
    found = [_errors(_rows_off(places, way.quantiles(shares), shares)) for way in ways]
    low, high = _ends(nested, fractions)
    truth = np.quantile(places, shares)
    inside = _rows_between(places, low, high)
    return Lists(
        quantiles,
        values,
        *found,
        float(np.mean((low <= truth + NEARLY) & (truth <= high + NEARLY))),
        float(np.median(inside)) / 2,
    )


def _rows_between(rows: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.int64]:
    upto, before = np.searchsorted(rows, high + NEARLY, "right"), np.searchsorted(rows, low - NEARLY)
    return np.asarray(upto - before)


def _rows_off(rows: NDArray[np.float64], found: NDArray[np.float64], shares: list[float]) -> NDArray[np.float64]:
    """Rows between the leaf that was found and the rank."""
    leaf, own = np.minimum(np.floor(found * LEAVES + NEARLY), LEAVES - 1), np.floor(rows * LEAVES + NEARLY)
    rank = np.array(shares) * len(rows)
    below, upto = np.searchsorted(own, leaf, "left"), np.searchsorted(own, leaf, "right")
    return np.maximum(0.0, np.maximum(rank - upto, below - rank))


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
    lists = [compared_lists(*case, asked.runs) for case in LISTS]
    of_lists = [*LIST_HEADER, *(one.line() for one in lists)]
    print("\n".join(["", *of_lists]))
    if asked.write:
        replace_between(PAGE, "choice", table)
        replace_between(PAGE, "lists", of_lists)
    record = {"epsilon": 1, "rows": [asdict(one) for one in found], "lists": [asdict(one) for one in lists]}
    print(f"\n{write_record('quantiles', record, asked.results)}")
    return 0
