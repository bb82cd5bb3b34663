"""Questions that every engine must answer with the same integers: one of each kind of measure, key, limit and relation."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from test_memory_path import AGGREGATES, by_keys, nasty_table

from shoal.errors import ShoalError
from shoal.mechanisms.entropy import SeededEntropy
from shoal.release.bounds_per_group import release_by_group
from shoal.release.execute import fresh_sampling_key, measure
from shoal.session import connect

__all__ = [
    "FEWER_QUESTIONS",
    "QUESTIONS",
    "Question",
    "by_keys",
    "measured_with",
    "nasty_tables",
    "session_for",
    "suspends_after_one_failure",
]


@dataclass(frozen=True)
class Question:
    """A private SELECT over `t` (owned), `u` (owned) and `p` (public)."""

    name: str
    select: str
    options: str = "epsilon = 1, delta = 1e-6, max_groups_contributed = 3"
    owner: str = "uid"
    columns: dict = field(default_factory=dict, hash=False)
    rows: str = "all"

    @property
    def sql(self) -> str:
        return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({self.options}) {self.select}"

    @property
    def owners(self) -> dict[str, str]:
        return {"t": self.owner, "u": "uid"}

    @property
    def about(self) -> tuple[str, str, str]:
        """What a session for it is opened with."""
        return self.rows, self.owner, repr(self.columns)

    @property
    def catalog(self) -> dict:
        tables = {"t": {"owner": self.owner, "columns": self.columns}, "p": {"public": True}}
        return {"tables": tables | ({"u": {"owner": "uid"}} if self.owner == "uid" else {})}


def _rows(choice: str) -> pa.Table:
    table = nasty_table()
    if choice == "none":
        return table.slice(0, 0)
    if choice == "one owner has a third":
        owners = table.column("uid").to_numpy().copy()
        owners[: len(owners) // 3] = 7
        return table.set_column(0, "uid", pa.array(owners))
    if choice == "no owner":
        return table.set_column(0, "uid", pa.nulls(table.num_rows, pa.int64()))
    return table


def nasty_tables(question: Question) -> dict[str, pa.Table]:
    rng = np.random.default_rng(2)
    tables = {
        "t": _rows(question.rows),
        "p": pa.table({"code": pa.array([0, 7, 100, None], pa.int64()), "label": ["zero", "seven", "hundred", "none"]}),
    }
    if question.owner == "uid":
        owners = pa.array([None if i % 50 == 0 else int(i) % 120 for i in rng.integers(1, 200, 300)], pa.int64())
        tables["u"] = pa.table({"uid": owners, "weight": rng.integers(0, 9, 300)})
    return tables


def session_for(question: Question, source=None):
    """A session over the question's tables, or over another source that holds them."""
    return connect(nasty_tables(question) if source is None else source, question.catalog)


def measured_with(session, question: Question, engine, seed: int = 5) -> None:
    """Asks an engine everything that the question needs, by one sampling key."""
    entropy = SeededEntropy(seed)
    for part in session.plan(question.sql).selects:
        if part.finds_bounds_per_group:
            release_by_group(part, engine, fresh_sampling_key(entropy), entropy)
        else:
            measure(part, engine, fresh_sampling_key(entropy), entropy)


def _together(name: str, aggregates: list[str], rest: str) -> list[Question]:
    """Several aggregates in one question: for engines that take seconds to answer one."""
    size, keys = 12, "site, " if "GROUP BY" in rest else ""
    parts = [aggregates[start : start + size] for start in range(0, len(aggregates), size)]
    return [Question(f"{name}, {i}", f"{keys}{', '.join(part)} {rest}") for i, part in enumerate(parts)]


BY_ROWS = "epsilon = 1, delta = 1e-6, max_rows_contributed = 7"
PER_GROUP = "epsilon = 100000, delta = 0.1, inferred_bounds = PER_GROUP, max_groups_contributed = 3"
BOUNDED = "COUNT(*), SUM(spend, contribution_bounds_per_group => (0, 9))"

QUESTIONS = [
    Question(
        "bounds and trees",
        "site, COUNT(*), SUM(spend), AVG(price), MEDIAN(spend), MAX(number), VAR_POP(spend, contribution_bounds_per_row => "
        "(0, 30)), COUNT(DISTINCT number, max_contributions_per_group => 2), COUNT(DISTINCT site), COUNT(DISTINCT uid) "
        "FROM t GROUP BY site",
    ),
    *(Question(f"{a} by site", f"site, {a} FROM t GROUP BY site") for a in AGGREGATES),
    *(Question(f"{a} without groups", f"{a} FROM t") for a in AGGREGATES[::5]),
    *(
        Question(f"keys {k}", f"{k} AS k, {BOUNDED} FROM t GROUP BY 1")
        for k in ("number", "far % 3", "day", "moment", "flag", "ratio", "price", "tiny", "CAST(moment AS TIME)")
    ),
    *(
        Question(
            f"owner {o}",
            "number, COUNT(*), MEDIAN(spend, contribution_bounds_per_row => (0, 9)) FROM t GROUP BY 1",
            owner=o,
        )
        for o in ("name", "wide_id", "huge_id", "site", "day")
    ),
    Question(
        "rows per owner",
        f"day, {BOUNDED}, AVG(price), COUNT(DISTINCT site, max_contributions_per_group => 2) FROM t GROUP BY day",
        BY_ROWS,
    ),
    Question("rows per owner, no groups", "COUNT(*), SUM(number), MIN(price) FROM t", BY_ROWS),
    Question(
        "bounds of each group",
        "site, COUNT(*), SUM(number), STDDEV(price), MEDIAN(spend) FROM t GROUP BY site",
        PER_GROUP,
    ),
    Question(
        "public groups",
        "number, COUNT(*), COUNT(DISTINCT site), MEDIAN(spend, contribution_bounds_per_row => (0, 9)) FROM t GROUP BY number",
        columns={"number": {"values": [0, 7, None, 100, 101, 555]}},
    ),
    Question(
        "an empty table", "site, day, COUNT(*), COUNT(DISTINCT number), MEDIAN(spend) FROM t GROUP BY 1, 2", rows="none"
    ),
    Question("an empty table, no groups", "COUNT(*), SUM(spend), COUNT(DISTINCT number) FROM t", rows="none"),
    Question(
        "an empty table, public groups",
        "number, MAX(price) FROM t GROUP BY 1",
        rows="none",
        columns={"number": {"values": [1, 2]}},
    ),
    Question("rows of nobody", "site, COUNT(*) FROM t GROUP BY site", rows="no owner"),
    Question(
        "one owner has a third",
        f"site, {BOUNDED}, COUNT(DISTINCT day) FROM t GROUP BY site",
        rows="one owner has a third",
    ),
    Question(
        "numbers beyond 64 bits",
        "site, SUM(far), AVG(wild), SUM(wild, contribution_bounds_per_group => (-1, 1)) FROM t GROUP BY site",
    ),
    Question("many keys", "site, number, day, flag, COUNT(*), SUM(spend) FROM t GROUP BY 1, 2, 3, 4"),
    Question(
        "owned joins",
        "site, COUNT(*), SUM(weight, contribution_bounds_per_group => (0, 50)) FROM t JOIN u USING (uid) GROUP BY site",
    ),
    Question(
        "left join and public join",
        "label, COUNT(*), SUM(weight) FROM t LEFT JOIN u ON t.uid = u.uid JOIN p ON number = code GROUP BY label",
    ),
    Question("full join", "weight, COUNT(*), SUM(number) FROM t FULL JOIN u USING (uid) GROUP BY weight"),
    Question("semi join", "site, COUNT(*) FROM t WHERE uid IN (SELECT uid FROM u WHERE weight > 4) GROUP BY site"),
    Question("anti join", "site, COUNT(*) FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.uid = t.uid) GROUP BY site"),
    Question(
        "public subquery",
        "site, COUNT(*) FROM t WHERE number IN (SELECT code FROM p) OR number > (SELECT MAX(code) FROM p) GROUP BY site",
    ),
    Question(
        "window",
        "rank, COUNT(*) FROM (SELECT uid, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY day) AS rank FROM t) GROUP BY rank",
    ),
    Question(
        "per-owner aggregate",
        "n, COUNT(*) FROM (SELECT uid, site, COUNT(*) AS n, SUM(spend) AS s FROM t GROUP BY uid, site) GROUP BY n",
    ),
    Question(
        "union all", "k, COUNT(*) FROM (SELECT uid, number AS k FROM t UNION ALL SELECT uid, weight FROM u) GROUP BY k"
    ),
    Question(
        "except",
        "site, COUNT(*) FROM (SELECT uid, site FROM t EXCEPT SELECT uid, site FROM t WHERE spend > 5) GROUP BY site",
    ),
    Question("distinct", "site, COUNT(*) FROM (SELECT DISTINCT uid, site, day FROM t) GROUP BY site"),
    Question("stars", "site, COUNT(*) FROM (SELECT * FROM t UNION ALL SELECT * FROM t) GROUP BY site"),
    Question(
        "text functions",
        "UPPER(SUBSTR(site, 1, 1)) AS k, COUNT(*) FROM t WHERE site LIKE '%1%' OR LENGTH(site) > 3 GROUP BY 1",
    ),
    Question(
        "texts outside of the calendar",
        "CAST(CASE number % 5 WHEN 0 THEN 'infinity' WHEN 1 THEN '10000-01-01' WHEN 2 THEN '0044-03-15 (BC)' WHEN 3 THEN "
        "'-infinity' ELSE '2024-02-29' END AS DATE) AS k, COUNT(*), COUNT(DISTINCT number, max_contributions_per_group => 2) "
        "FROM t WHERE CAST('infinity' AS DATE) IS NULL GROUP BY 1",
    ),
    Question(
        "filters that can be handed on",
        "site, COUNT(*) FROM t WHERE number BETWEEN -1 AND 120 AND day >= DATE '2026-03-02' AND site IN ('a', 'A', '日本', '1') "
        "AND flag = TRUE AND tiny <> 3 AND price > 1.5 AND uid > 3 GROUP BY site",
    ),
    Question(
        "weights of owners",
        "site, SUM(spend, contribution_bounds_per_group => (0, 9)) FROM t GROUP BY site",
        "epsilon = 1, delta = 1e-6, max_groups_contributed = 25, group_selection_strategy = WEIGHTED",
    ),
    Question(
        "weights of owners with few rows",
        "day, COUNT(*) FROM t GROUP BY day",
        "epsilon = 1, delta = 1e-6, max_rows_contributed = 6, group_selection_strategy = WEIGHTED",
        rows="one owner has a third",
    ),
    Question(
        "limits for all groups together",
        "site, COUNT(*), COUNT(number), SUM(spend), SUM(number), AVG(price) FROM t GROUP BY site",
        "epsilon = 1, delta = 1e-6",
        columns={"site": {"values": ["", "a", "é", "日本", *map(str, range(9))]}},
        rows="one owner has a third",
    ),
    Question(
        "weights before bounds of each group",
        "site, SUM(spend) FROM t GROUP BY site",
        f"{PER_GROUP}, group_selection_strategy = WEIGHTED",
    ),
]

_APART = {*(f"{a} by site" for a in AGGREGATES), *(f"{a} without groups" for a in AGGREGATES)}
FEWER_QUESTIONS = [
    *_together("all aggregates by site", AGGREGATES, "FROM t GROUP BY site"),
    *_together("some aggregates without groups", AGGREGATES[::5], "FROM t"),
    *(question for question in QUESTIONS if question.name not in _APART),
]
"""The same, with aggregates asked together."""


def suspends_after_one_failure(session, table):
    """A view that divides by zero on one row fails once, in our words, and suspends: no second guess finds that row."""
    count = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.01) COUNT(DISTINCT uid) AS n FROM {table} WHERE income > "
    errors = []
    for guess in (2000, 1000, 1250):
        with pytest.raises(ShoalError) as caught:
            session.query(f"{count}{guess}")
        errors.append(caught.value)
    assert [error.code for error in errors] == ["E_EXECUTION", "E_SUSPENDED", "E_SUSPENDED"]
    assert "divi" not in str(errors[0]).lower()
    assert errors[0].__context__ is None
    assert session.spent[0] == pytest.approx(0.01)
