"""OpenDP's Polars API on many questions: groups truncated per owner, one clamped row per owner and group, stable keys.

Values are whole numbers: its sum of floats pays for the order of additions, which hides every group. Groups are truncated in
sort order: choosing them at random (`keep="sample"`) fails in OpenDP 0.16 with a single key. Of κ groups that it charges for it
keeps κ − 1, so that it is asked for one more; where every owner has one row, nothing needs to be truncated.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import opendp.prelude as dp
import polars as pl

warnings.simplefilter("ignore")
dp.enable_features("contrib", "honest-but-curious")


def answer(question: dict[str, Any]) -> dict[str, tuple[float, ...]]:
    """Counts and sums of the groups that are shown."""
    rows, upper = question["rows"], int(question["upper"])
    single = question["kappa"] == rows == 1
    context = dp.Context.compositor(
        data=pl.scan_parquet(question["table"]).with_columns(pl.col("value").round().cast(pl.Int64)),
        privacy_unit=dp.unit_of(contributions=1, identifier=None if single else pl.col("owner")),
        privacy_loss=dp.loss_of(epsilon=question["epsilon"], delta=question["delta"]),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["key"], max_groups=question["most_groups"], max_length=question["most_rows"])],
    )
    if single:
        total = pl.col("value").fill_null(0).dp.sum((0, upper)).alias("s")
        return _shown(context.query().group_by("key").agg(dp.len().alias("n"), total))
    few = context.query().truncate_num_groups(question["kappa"] + 1, by=["key"], keep="first").group_by("owner", "key")
    per_owner = few.agg(pl.len().alias("n").clip(0, rows), pl.col("value").sum().clip(0, upper).alias("s"))
    if question["names_only"]:
        names = per_owner.group_by("key").agg(dp.len()).release().collect()
        return dict.fromkeys(names["key"].to_list(), ())
    total = pl.col("s").fill_null(0).dp.sum((0, upper))
    if rows == 1:
        return _shown(per_owner.group_by("key").agg(dp.len().alias("n"), total))
    return _shown(per_owner.group_by("key").agg(dp.len(), pl.col("n").fill_null(0).dp.sum((0, rows)), total))


def _shown(query: Any) -> dict[str, tuple[float, ...]]:
    released = query.release().collect()
    return dict(zip(released["key"].to_list(), released.select("n", "s").rows(), strict=True))


def main(path: str) -> None:
    """Reads the questions, prints for each all answers or why there is none."""
    found = []
    for question in json.loads(Path(path).read_text(encoding="utf-8")):
        try:
            found.append({"answers": [answer(question) for _ in range(question["runs"])]})
        except Exception as problem:  # noqa: BLE001 - whatever a library says, the others go on
            found.append({"failure": f"{type(problem).__name__}: {str(problem).splitlines()[0][:120]}"})
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
