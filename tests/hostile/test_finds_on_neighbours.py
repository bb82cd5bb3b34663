"""Finds that refusals keep out, held once more by what an analyst sees on two databases that differ in one owner."""

from __future__ import annotations

import duckdb
import nasty_data
import numpy as np
import pyarrow as pa
import pytest
from corpus import PRIVATE
from oracles import face_of

import shoal
from shoal.engines.deadline import Deadline
from shoal.plan.totals import SamplingKey
from shoal.release.execute import measure

VICTIM = nasty_data.OWNER
KEY = SamplingKey((11, 12, 13, 14))
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2) "


def faces(sessions, sql):
    return [face_of(session, sql) for session in sessions]


def moved(sessions, sql):
    """How far one owner moves each exact number of a plan; both are drawn with one key."""
    totals = []
    for session in sessions:
        select = session.plan(sql).selects[0]
        with session._engine.snapshot(Deadline(60)) as taken:
            found = measure(select, taken, KEY).measurement
        totals.append([int(np.sum(found.owners)), *(int(np.sum(np.asarray(t))) for t in found.totals)])
    return [first - second for first, second in zip(*totals, strict=True)]


# ---- raw columns that are named like parts of dates ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["day", "month", "year", "hour", "week", "quarter"])
def test_a_column_named_like_a_part_of_a_date_is_refused_alike_and_for_nothing(name):
    tables = nasty_data.built(*nasty_data.ordinary())
    catalog = {"tables": {"visits": {"owner": "uid"}}}
    pair = [
        shoal.connect({"visits": data["visits"].rename_columns(["uid", "site", name, "spend"])}, catalog=catalog)
        for data in (tables, nasty_data.without(tables))
    ]
    for call in (f"YEAR({name})", f"DATE_TRUNC('month', {name})", f"EXTRACT(DAY FROM {name})"):
        first, second = faces(pair, PRIVATE + f"site, {call} AS x, COUNT(*) FROM visits GROUP BY site")
        assert first == second
        assert first[0].startswith("E_RAW_OUTPUT")
        assert first[2] == (0.0, 0.0)


# ---- sources that fail late ------------------------------------------------------------------------------------------

SALARY = 1005
VIEWS = {
    "plain": "SELECT uid, CAST(amount AS INTEGER) AS salary FROM raw",
    "tried": "SELECT uid, TRY_CAST(amount AS INTEGER) AS salary FROM raw",
}


def paid(*, with_victim):
    """The victim has a salary, and an amount that is no number."""
    owners = [owner for owner in range(50) if owner != VICTIM]
    amounts = [str(1000 + owner) for owner in owners]
    if with_victim:
        owners, amounts = [*owners, VICTIM, VICTIM], [*amounts, str(SALARY), "many"]
    return {"raw": pa.table({"uid": owners, "amount": amounts})}


def test_a_view_that_could_fail_for_one_owner_is_refused_with_and_without_that_owner():
    catalog = {"tables": {"people": {"owner": "uid", "view": VIEWS["plain"]}}}
    said = []
    for there in (True, False):
        with pytest.raises(shoal.ShoalError) as refused:
            shoal.connect(paid(with_victim=there), catalog=catalog)
        said.append(str(refused.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("than", [SALARY - 1, SALARY, SALARY + 1])
def test_no_condition_finds_the_value_that_cannot_be_read(than):
    catalog = {"tables": {"people": {"owner": "uid", "view": VIEWS["tried"]}}}
    pair = [shoal.connect(paid(with_victim=there), catalog=catalog) for there in (True, False)]
    first, second = faces(pair, CLAUSE + f"COUNT(*) FROM people WHERE uid = {VICTIM} AND salary > {than}")
    assert first == second
    assert first[0] == "answered"


@pytest.mark.parametrize("text", ["many", "1e400", "99999999999", "", "2026-13-45"])
def test_a_stored_text_that_is_no_value_of_the_catalogs_type_is_read_alike(text, tmp_path):
    sessions = []
    columns = {"x": {"type": "INTEGER"}, "d": {"type": "DATE"}}
    for there in (True, False):
        lines = [f"{owner},{owner},2026-01-01" for owner in range(50) if owner != VICTIM]
        lines += [f"{VICTIM},{text},{text}"] if there else []
        folder = tmp_path / str(there)
        folder.mkdir()
        (folder / "people.csv").write_text("uid,x,d\n" + "\n".join(lines) + "\n")
        catalog = {"tables": {"people": {"owner": "uid", "columns": {"uid": {"type": "BIGINT"}, **columns}}}}
        sessions.append(shoal.connect(folder, catalog=catalog))
    for where in (f"uid = {VICTIM} AND x > 5", f"uid = {VICTIM} AND d < DATE '2027-01-01'", "x IS NULL OR d IS NULL"):
        first, second = faces(sessions, CLAUSE + f"COUNT(*) FROM people WHERE {where}")
        assert first == second


# ---- windows that follow physical order ------------------------------------------------------------------------------

FRAMED = "SUM(r, contribution_bounds_per_group => (0, 100)) FROM (SELECT uid, COUNT(*) OVER (PARTITION BY uid {}) AS r FROM t)"


def test_a_window_moves_by_one_owners_bound_on_a_table_of_many_row_groups():
    rng = np.random.default_rng(4)
    uid, x = rng.integers(0, 2_000, 300_000), rng.integers(0, 5, 300_000)
    whole = pa.table({"uid": uid, "x": x})
    catalog = {"tables": {"t": {"owner": "uid"}}}
    pair = [shoal.connect({"t": rows}, catalog=catalog) for rows in (whole, whole.filter(pa.array(uid != VICTIM)))]
    for frame in ("", "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"):
        first, second = faces(pair, CLAUSE + FRAMED.format(frame))
        assert first == second
    ordered = FRAMED.format("ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
    owners, *sums = moved(pair, CLAUSE + ordered)
    assert owners == 1
    assert all(0 <= each <= 100 for each in sums)


TWO = "SUM(a * b, contribution_bounds_per_group => (0, 1e15)) FROM (SELECT uid, {} AS a, {} AS b FROM t{})"
PLACES = {
    "two numberings": (
        "ROW_NUMBER() OVER (PARTITION BY uid ORDER BY x)",
        "ROW_NUMBER() OVER (PARTITION BY uid ORDER BY x DESC)",
        "",
    ),
    "a frame and a part": (
        "COUNT(*) OVER (PARTITION BY uid ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
        "NTILE(7) OVER (PARTITION BY uid ORDER BY x DESC)",
        "",
    ),
    "QUALIFY": (
        "ROW_NUMBER() OVER (PARTITION BY uid ORDER BY x)",
        "RANK() OVER (PARTITION BY uid ORDER BY x)",
        " QUALIFY ROW_NUMBER() OVER (PARTITION BY uid ORDER BY x DESC) <= 40",
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_two_windows_give_together_follows_no_physical_order(name):
    """Equal rows have no order of their own: two windows that break this tie apart let other owners decide about a sum."""
    rng = np.random.default_rng(4)
    rows = 300_000
    uid, x = rng.integers(0, 300, rows), rng.integers(0, 3, rows)
    found = set()
    for _ in range(3):
        order = rng.permutation(rows)
        stored = {"t": pa.table({"uid": uid[order], "x": x[order]})}
        session = shoal.connect(stored, catalog={"tables": {"t": {"owner": "uid"}}})
        (select,) = session.plan(CLAUSE + TWO.format(*PLACES[name])).selects
        found.add(int(measure(select, session._engine, KEY).measurement.totals[0][0]))
    assert len(found) == 1


# ---- owner columns that merge owners ---------------------------------------------------------------------------------

NAMES = {
    "39 digits": ("HUGEINT", [170141183460469231731687303715884100000 + n for n in range(50)]),
    "unsigned": ("UBIGINT", [2**64 - 1 - n for n in range(50)]),
    "texts": ("VARCHAR", [f"{n}{end}" for n in range(25) for end in ("", ".0")]),
    "letters": ("VARCHAR", [letter * n for n in range(1, 26) for letter in ("a", "A")]),
    "microseconds": ("TIMESTAMP", [f"2026-01-01 00:00:00.{n:06}" for n in range(50)]),
}


@pytest.mark.parametrize(("type_", "names"), NAMES.values(), ids=NAMES.keys())
def test_each_owner_moves_a_count_of_owners_by_one_whatever_owners_are_called(type_, names):
    catalog = {"tables": {"t": {"owner": "uid"}}}

    def opened(listed):
        connection = duckdb.connect()
        connection.execute(f"CREATE TABLE t (uid {type_})")
        connection.executemany("INSERT INTO t VALUES (?)", [(str(name),) for name in listed for _ in range(2)])
        return shoal.connect(connection, catalog=catalog)

    whole = opened(names)
    for left_out in (names[0], names[7], names[-1]):
        neighbour = opened([name for name in names if name != left_out])
        assert moved([whole, neighbour], CLAUSE + "COUNT(DISTINCT uid) FROM t") == [1, 1]
