"""PipelineDP on many questions, on its local backend, with the noise that suits the number of groups per owner."""

from __future__ import annotations

import json
import operator
import sys
from pathlib import Path
from typing import Any

import pipeline_dp
import polars as pl

MANY = 4


def answer(question: dict[str, Any]) -> dict[str, tuple[float, ...]]:
    """Counts and sums of the groups that are shown."""
    rows = list(pl.read_parquet(question["table"], columns=["owner", "key", "value"]).iter_rows())
    accountant = pipeline_dp.NaiveBudgetAccountant(question["epsilon"], question["delta"])
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=operator.itemgetter(0),
        partition_extractor=operator.itemgetter(1),
        value_extractor=operator.itemgetter(2),
    )
    if question["names_only"]:
        few = pipeline_dp.SelectPartitionsParams(max_partitions_contributed=question["kappa"])
        names = engine.select_partitions(rows, few, extractors)
        accountant.compute_budgets()
        return dict.fromkeys(names, ())
    kinds = pipeline_dp.NoiseKind
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM],
        noise_kind=kinds.GAUSSIAN if question["kappa"] >= MANY else kinds.LAPLACE,
        max_partitions_contributed=question["kappa"],
        max_contributions_per_partition=question["rows"],
        min_sum_per_partition=0,
        max_sum_per_partition=question["upper"],
    )
    result = engine.aggregate(rows, params, extractors)
    accountant.compute_budgets()
    return {key: (float(metrics.count), float(metrics.sum)) for key, metrics in result}


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
