"""What is released of one owner beyond a limit for all groups: its parts of the limit, and noise made for the whole of it."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from shoal.audit.suite.sampled_query import SampledQuery

SAMPLES = 20_000
CLOSE = math.sqrt(math.log(2 / 1e-10) / 2 / SAMPLES)
"""An empirical distribution is further than this from its own once in 10¹⁰ times (Dvoretzky, Kiefer, Wolfowitz, Massart)."""
SITES = ["a", "b", "c", "d"]
CATALOG = {"tables": {"t": {"owner": "uid", "columns": {"site": {"values": SITES}}}}}
SQL = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=0.01) site, SUM(x) AS total FROM t GROUP BY site"


def distribution(values: np.ndarray, middle: float, scale: float) -> np.ndarray:
    """Of Laplace noise; the steps of the grid are 2⁻³² of its scale."""
    z = (values - middle) / scale
    return np.where(z < 0, np.exp(np.minimum(z, 0.0)) / 2, 1 - np.exp(-np.maximum(z, 0.0)) / 2)


@pytest.mark.parametrize("sums", [(9.0, 9.0, 9.0, 9.0), (100.0, -0.5, 0.25, 0.0), (0.25, 0.5, 0.25, -0.75)])
def test_an_owner_adds_its_parts_of_the_limit_and_the_noise_is_made_for_all_of_it(sums):
    rows = pa.table({"uid": [1] * 4, "site": SITES, "x": list(sums)})
    with SampledQuery(SQL, CATALOG, {"one": {"t": rows}}) as query:
        (release,) = query._plan.releases
        limit = float(release.bounds.upper)
        answers = query("one", SAMPLES)
        epsilon = query.epsilon
    clamped = np.clip(np.array(sums), -limit, limit)
    parts = clamped * min(1.0, limit / np.abs(clamped).sum())
    for group, part in enumerate(parts):
        values = np.sort(answers[:, group])
        expected = distribution(values, part, limit / epsilon)
        steps = np.arange(1, SAMPLES + 1) / SAMPLES
        assert np.abs(steps - expected).max() <= CLOSE + 1 / SAMPLES
