"""A made-up census with the shape of the UCI Adult data: nine columns, the same skew and heights of hierarchies, seeded."""

from __future__ import annotations

import csv

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

SHAPES = {
    # column: leaves, sizes of groups per inner level, skew
    "sex": (2, (), 0.6),
    "age": (100, (5, 10, 20), None),
    "race": (5, (), 2.5),
    "marital-status": (7, (4,), 1.2),
    "education": (16, (4, 8), 1.0),
    "native-country": (41, (14,), 3.0),
    "workclass": (8, (4,), 2.0),
    "occupation": (14, (5,), 0.5),
    "salary-class": (2, (), 1.2),
}
NAMES = tuple(SHAPES)


def values(column):
    leaves, _, skew = SHAPES[column]
    return (
        [str(number) for number in range(1, leaves + 1)] if skew is None else [f"{column}-{n}" for n in range(leaves)]
    )


def lines(column):
    """The hierarchy as a file has it."""
    _, sizes, _ = SHAPES[column]
    return [
        [value, *(f"{column}/{size}/{number // size}" for size in sizes), "*"]
        for number, value in enumerate(values(column))
    ]


def census(rows=2_000, seed=11):
    """Rows of made-up people; columns hang together a little, so that classes are uneven."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=rows)
    columns = {}
    for column, (leaves, _, skew) in SHAPES.items():
        if skew is None:
            ages = np.clip(38 + 10 * common + rng.normal(0, 9, rows), 17, 90).astype(int)
            columns[column] = pa.array(ages)
            continue
        chances = np.arange(1, leaves + 1) ** -float(skew)
        places = rng.choice(leaves, rows, p=chances / chances.sum())
        places = np.where((common > 1) & (rng.random(rows) < 0.4), leaves - 1 - places, places)
        columns[column] = pa.array(values(column)).take(pa.array(places))
    return pa.table(columns)


def write(folder, table):
    """The files a benchmark asks for."""
    options = pa_csv.WriteOptions(delimiter=";", quoting_style="none")
    pa_csv.write_csv(table, folder / "adult.csv", write_options=options)
    pa_csv.write_csv(table.slice(0, table.num_rows // 10), folder / "adult_subset.csv", write_options=options)
    for column in NAMES:
        with (folder / f"adult_hierarchy_{column}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, delimiter=";").writerows(lines(column))
