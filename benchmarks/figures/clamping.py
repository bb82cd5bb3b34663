"""A clamped mean of lognormal values, by upper bound: too low a bound cuts values off, too high a bound brings noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from benchmarks.tpch.repeat import answers, exact_answers
from shoal.accounting.ledger import Ledger
from shoal.catalog import Catalog
from shoal.engines.sources import open_source
from shoal.release.execute import fresh_sampling_key, measure
from shoal.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterable

OWNERS = 10_000
EPSILONS = (0.1, 1.0)
BOUNDS = tuple(round(2 ** (step / 2), 1) for step in range(4, 21))


def spend(owners: int = OWNERS) -> pa.Table:
    """One value per owner, lognormal(2, 1), the same every time."""
    values = np.random.default_rng(20).lognormal(2, 1, owners)
    return pa.table({"uid": np.arange(owners), "spend": values})


def clamped_means(runs: int, owners: int = OWNERS) -> Iterable[tuple[float, float, float, float]]:
    """(ε, upper bound, median relative error, relative error of clamping alone)."""
    rows = spend(owners)
    truth = float(np.mean(rows["spend"].to_numpy()))
    engine = open_source({"visits": rows})
    session = Session(engine, Catalog.from_dict({"tables": {"visits": {"owner": "uid"}}}), Ledger.in_memory())
    for epsilon in EPSILONS:
        for upper in BOUNDS:
            call = f"AVG(spend, contribution_bounds_per_group => (0, {upper}))"
            sql = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {epsilon}) {call} AS mean FROM visits"
            select = session.plan(sql).selects[0]
            measured = measure(select, engine, fresh_sampling_key())
            noisy = answers(select, measured, runs)["answer"].to_numpy()
            clamped = exact_answers(select, measured)["answer"].to_numpy()[0]
            yield epsilon, upper, float(np.median(np.abs(noisy - truth)) / truth), float(abs(clamped - truth) / truth)
    session.close()
