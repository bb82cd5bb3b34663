"""Far quantiles at a tiny ε: the margin that they keep from the end of the data is public, and so large that 64 bits are few.

Rows and margin were held against what 64 bits can hold, after the charge. Somebody who chose ε so that the margin lay just below
that was told by a failure whether a group has more rows than what was left: an exact count of any WHERE.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from oracles import face_of

import shoal

CATALOG = {"tables": {"people": {"owner": "uid"}}}
ONCE_HELD = 2**62
LEFT = 500


def opened(rows):
    return shoal.connect({"people": pa.table({"uid": np.arange(rows), "x": np.arange(rows) % 97})}, catalog=CATALOG)


def asked(epsilon, fraction):
    return (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*, epsilon => 0.5) AS n, "
        f"PERCENTILE_CONT(x, {fraction}, epsilon => {epsilon}, contribution_bounds_per_row => (0, 100)) AS p FROM people"
    )


def margin_and_most(session, epsilon, fraction):
    """The margin of a plan, and what rows and margin were held against."""
    releases = session.plan(asked(epsilon, fraction)).selects[0].releases
    target = next(each.noise.targets[0] for each in releases if hasattr(each.noise, "targets"))
    return target.margin, ONCE_HELD // (4 * target.fraction.denominator * target.lean.denominator)


@pytest.mark.parametrize("fraction", ["0.000001", "0.999999", "0.000009"])
def test_how_many_rows_there_are_decides_about_no_failure(fraction):
    with opened(10) as session:
        margin, most = margin_and_most(session, 1e-8, fraction)
        epsilon = f"{Decimal(margin) / (most - LEFT) / 10**8:.20f}"  # a margin is as large as ε is small
        assert 0 < most - margin_and_most(session, epsilon, fraction)[0] < 2 * LEFT, "the attack is another one now"
    faces = set()
    for rows in (LEFT // 2, 4 * LEFT):
        with opened(rows) as session:
            faces |= {face_of(session, asked(each, fraction)) for each in (epsilon, 1e-10)}
    assert len(faces) == 1
    assert next(iter(faces))[0] == "answered"
