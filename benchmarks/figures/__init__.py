"""The published figures, drawn anew: PNG and CSV of each, written by one command.

    python -m benchmarks figures [--scale 1] [--runs 2000] [--folder docs/figures]

Needs the extra `plot`, and TPC-H tables for one of the pictures; they are generated where they are missing.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import curves, drawing
from benchmarks.figures.clamping import clamped_means
from benchmarks.records import FOLDER as RESULTS
from benchmarks.records import write_record
from benchmarks.tpch.rows import Q13
from benchmarks.tpch.tables import DATA, generate, open_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matplotlib.axes import Axes

__all__ = ["main"]

FOLDER = Path(__file__).parent.parent.parent / "docs" / "figures"


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture and the data it shows."""

    name: str
    columns: tuple[str, ...]
    lines: Callable[[], Iterable[tuple[Any, ...]]]
    draw: Callable[[list[Axes], Sequence[tuple[Any, ...]]], None]
    panels: int = 1


def figures(q13_owners: list[int], runs: int) -> tuple[Figure, ...]:
    """All of them; nothing is computed yet."""
    return (
        Figure(
            "q13-withheld-by-delta",
            ("delta", "way", "share_withheld"),
            lambda: curves.withheld_by_delta(q13_owners),
            drawing.withheld_by_delta,
        ),
        Figure(
            "kept-by-owners",
            ("epsilon", "delta", "owners", "rule", "chance_kept"),
            curves.kept_by_owners,
            drawing.kept_by_owners,
            panels=2,
        ),
        Figure(
            "half-points",
            ("varies", "epsilon", "delta", "rule", "owners_for_even_chance"),
            curves.half_points,
            drawing.half_points,
            panels=2,
        ),
        Figure(
            "half-points-by-groups-per-owner",
            ("groups_per_owner", "rule", "owners_for_even_chance"),
            curves.half_points_by_groups,
            drawing.half_points_by_groups,
        ),
        Figure(
            "clamped-mean",
            ("epsilon", "upper_bound", "median_relative_error", "error_of_clamping_alone"),
            lambda: clamped_means(runs),
            drawing.clamped_means,
        ),
    )


def main(argv: list[str] | None = None) -> int:
    """Writes every PNG and CSV."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks figures", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="scale factor of the TPC-H tables")
    parser.add_argument("--runs", type=int, default=2000, help="how often noise is drawn for the clamped mean")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the pictures go")
    parser.add_argument("--data", type=Path, default=DATA, help="where the tables are kept")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where the JSON record goes")
    arguments = parser.parse_args(argv)
    owners = customers_by_orders(arguments.data, arguments.scale)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    shown = {}
    for figure in figures(owners, arguments.runs):
        shown[figure.name] = write(figure, arguments.folder)
        print(f"{arguments.folder / figure.name}.png and .csv ({len(shown[figure.name])} lines)", flush=True)
    print(f"written: {write_record('figures', {'scale': arguments.scale, 'figures': shown}, arguments.results)}")
    return 0


def write(figure: Figure, folder: Path) -> list[dict[str, Any]]:
    """Both files of one figure; gives its lines."""
    lines = list(figure.lines())
    with (folder / f"{figure.name}.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(figure.columns)
        table.writerows([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in line] for line in lines)
    drawing.picture(lines, figure.draw, figure.panels, folder / f"{figure.name}.png")
    return [dict(zip(figure.columns, line, strict=True)) for line in lines]


def customers_by_orders(data: Path, scale: float) -> list[int]:
    """How many customers have placed 0, 1, 2, … orders: the owners of Q13's groups, each customer in one of them."""
    tables = open_tables(generate(scale, data), Q13.owners)
    owners = [int(line[-1]) for line in tables.plain.execute(Q13.plain()).fetchall()]
    tables.close()
    return sorted(owners, reverse=True)
