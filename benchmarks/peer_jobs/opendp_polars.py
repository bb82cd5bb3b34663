"""OpenDP's Polars API: truncate to five sites per owner, one clamped row per owner and site, stable keys.

Sites are truncated in sort order: choosing them at random (`keep="sample"`) fails in OpenDP 0.16 with a single key.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import opendp.prelude as dp
import polars as pl

warnings.simplefilter("ignore")
dp.enable_features("contrib", "honest-but-curious")
ROWS = 10_000_000


def main(path: str) -> None:
    """Times everything from the file to the answer."""
    began = time.perf_counter()
    context = dp.Context.compositor(
        data=pl.scan_parquet(path).select("uid", "site", "spend"),
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("uid")),
        privacy_loss=dp.loss_of(epsilon=1.0, delta=1e-6),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=["site"], max_groups=20_000, max_length=ROWS)],
    )
    owned = context.query().truncate_num_groups(5, by=["site"], keep="first").group_by("uid", "site")
    per_owner = owned.agg(pl.len().alias("n").clip(0, 10), pl.col("spend").sum().clip(0, 100).alias("s"))
    query = per_owner.group_by("site").agg(
        dp.len(),
        pl.col("n").fill_null(0).dp.sum((0, 10)),
        pl.col("s").fill_null(0.0).fill_nan(0.0).dp.sum((0, 100)),
    )
    answer = query.release().collect()
    counts = dict(zip(answer["site"].to_list(), answer["n"].to_list(), strict=True))
    print(json.dumps({"seconds": time.perf_counter() - began, "counts": counts}))


if __name__ == "__main__":
    main(sys.argv[1])
