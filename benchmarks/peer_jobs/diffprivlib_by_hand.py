"""diffprivlib knows mechanisms, not owners or unknown groups: bounding is written by hand, and all sites must be public."""

from __future__ import annotations

import json
import sys
import time

import polars as pl
from diffprivlib.mechanisms import Geometric, Laplace

SITES, GROUPS = 20_000, 5
EPSILON_EACH = 0.5 / GROUPS


def main(path: str) -> None:
    """Times everything from the file to the answer."""
    began = time.perf_counter()
    owned = pl.read_parquet(path, columns=["uid", "site", "spend"]).group_by("uid", "site")
    partials = owned.agg(n=pl.len().clip(0, 10).cast(pl.Int64), s=pl.col("spend").sum().clip(0, 100))
    kept = partials.filter(pl.int_range(pl.len()).shuffle().over("uid") < GROUPS)
    totals = {site: (n, s) for site, n, s in kept.group_by("site").agg(pl.sum("n"), pl.sum("s")).iter_rows()}
    count, total = Geometric(epsilon=EPSILON_EACH, sensitivity=10), Laplace(epsilon=EPSILON_EACH, sensitivity=100)
    exact = {site: totals.get(site, (0, 0.0)) for site in range(1, SITES + 1)}
    answer = {site: (count.randomise(n), total.randomise(s)) for site, (n, s) in exact.items()}
    counts = {site: n for site, (n, _) in answer.items()}
    print(json.dumps({"seconds": time.perf_counter() - began, "counts": counts}))


if __name__ == "__main__":
    main(sys.argv[1])
