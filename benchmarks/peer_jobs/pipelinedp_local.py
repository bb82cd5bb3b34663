"""PipelineDP on its local backend: Python objects, row by row."""

from __future__ import annotations

import json
import operator
import sys
import time

import pipeline_dp
import polars as pl


def main(path: str) -> None:
    """Times everything from the file to the answer."""
    began = time.perf_counter()
    rows = list(pl.read_parquet(path, columns=["uid", "site", "spend"]).iter_rows())
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-6)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM],
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        max_partitions_contributed=5,
        max_contributions_per_partition=10,
        min_sum_per_partition=0,
        max_sum_per_partition=100,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=operator.itemgetter(0),
        partition_extractor=operator.itemgetter(1),
        value_extractor=operator.itemgetter(2),
    )
    result = engine.aggregate(rows, params, extractors)
    accountant.compute_budgets()
    counts = {site: metrics.count for site, metrics in result}
    print(json.dumps({"seconds": time.perf_counter() - began, "counts": counts}))


if __name__ == "__main__":
    main(sys.argv[1])
