"""The attacker against a real session: SQL in, private answers out, one budget for everything that is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from shoal.session import Session, connect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_SUMS_PER_STATEMENT = 200
_CATALOG = {
    "tables": {"people": {"owner": "uid"}, "slots": {"public": True}},
    # Averaging asks the same thing a thousand times on one budget, more cheaply than a custodian would allow.
    "defaults": {"min_epsilon_per_query": 1e-10},
}


def _open(columns: Mapping[str, Any], epsilon: float, delta: float = 0.0, slots: int = 1) -> Session:
    """A session over a table `people` with an owner a row, and a public list of slots."""
    rows = len(next(iter(columns.values())))
    people = pa.table({"uid": np.arange(rows), **columns})
    tables = {"people": people, "slots": pa.table({"slot": np.arange(slots)})}
    return connect(tables, catalog=_CATALOG, budget=(epsilon, delta))


def private_sums(columns: Mapping[str, Any], expressions: Sequence[str], epsilon: float) -> Floats:
    """SUM of each expression (0 or 1 a row), in statements of up to 200 sums that share ε evenly."""
    answers: list[float] = []
    with _open(columns, epsilon) as session:
        for start in range(0, len(expressions), _SUMS_PER_STATEMENT):
            part = expressions[start : start + _SUMS_PER_STATEMENT]
            sums = ", ".join(
                f"SUM({x}, contribution_bounds_per_group => (0, 1)) AS answer_{i}" for i, x in enumerate(part)
            )
            share = _share(epsilon, len(part), len(expressions))
            (row,) = session.query(
                f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {share}) {sums} FROM people"
            ).to_dicts()
            answers += row.values()
    return np.array(answers, dtype=np.float64)


def private_bits(secret: Floats, times: int, epsilon: float) -> Floats:
    """Everybody's own bit, asked `times` times: a public group for each person, ε shared by the repetitions."""
    slots = np.arange(len(secret))
    answers = np.empty((times, len(secret)))
    with _open({"slot": slots, "secret": secret.astype(np.int64)}, epsilon, slots=len(slots)) as session:
        for repetition in answers:
            rows = session.query(
                f"""SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {_share(epsilon, 1, times)},
                    max_groups_contributed = 1, group_selection_strategy = PUBLIC_GROUPS)
                      slots.slot AS slot, SUM(secret, contribution_bounds_per_group => (0, 1)) AS answer
                    FROM people RIGHT JOIN (SELECT DISTINCT slot FROM slots) AS slots ON people.slot = slots.slot
                    GROUP BY slots.slot"""
            ).to_arrow()
            repetition[rows["slot"].to_numpy()] = rows["answer"].to_numpy()
    return answers


def private_histogram(columns: Mapping[str, Any], epsilon: float, delta: float) -> dict[tuple[Any, ...], int]:
    """How many people have each combination of values, for the combinations that enough people share."""
    keys = ", ".join(columns)
    with _open(columns, epsilon, delta) as session:
        rows = session.query(
            f"""SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {epsilon}, delta = {delta},
                max_groups_contributed = 1) {keys}, COUNT(DISTINCT uid) AS people FROM people GROUP BY {keys}"""
        ).to_dicts()
    return {tuple(row[key] for key in columns): row["people"] for row in rows}


def _share(epsilon: float, part: int, whole: int) -> str:
    """part/whole of ε as a decimal constant, rounded down so that the shares never exceed the budget."""
    return f"{epsilon * part / whole * (1 - 1e-9):.12g}"
