"""An answer as bytes: what comes back is the same, bit for bit, and nothing else was in them."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import shoal
from shoal.plan.aggregates.spellings import SPELLINGS, Extra, Written
from shoal.plan.expressions import Column
from shoal.plan.types import DOUBLE
from shoal.release.answer_bytes import AGGREGATES, MAGIC
from shoal.result import PolicyResult

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
LEVELS = (0.5, 0.9, 0.95, 0.999999)
QUESTIONS = [
    "(epsilon = 2, delta = 1e-6) region, COUNT(DISTINCT uid) AS n FROM customers GROUP BY region",
    "(epsilon = 1, confidence_level = 0.8) COUNT(*, contribution_bounds_per_group => (0, 5)) AS n FROM visits",
    (
        "(epsilon = 1) SUM(items, contribution_bounds_per_group => (0, 9)) AS s,"
        " SUM(spend, contribution_bounds_per_group => (0, 9.5)) AS r FROM visits"
    ),
    (
        "(epsilon = 1, max_rows_contributed = 3) AVG(spend, contribution_bounds_per_group => (0, 9)) AS a,"
        " VAR_SAMP(spend, contribution_bounds_per_row => (0, 9)) AS v,"
        " STDDEV_POP(spend, contribution_bounds_per_row => (0, 9)) AS d FROM visits"
    ),
    "(epsilon = 1) AVG(spend, contribution_bounds_per_group => (0, 9)) AS a FROM visits",
    "(epsilon = 1, max_rows_contributed = 3) COUNT(DISTINCT site) AS n FROM visits",
    (
        "(epsilon = 5, max_rows_contributed = 3) MEDIAN(spend, contribution_bounds_per_row => (0, 9)) AS m,"
        " MIN(spend, contribution_bounds_per_row => (0, 9)) AS low FROM visits"
    ),
    "(epsilon = 50, delta = 1e-3, noise = GAUSSIAN) region, SUM(income) AS s FROM customers GROUP BY region",
    "(epsilon = 50) COUNT(DISTINCT uid, report_format => 'JSON') AS n FROM customers",
]


def same(one, other) -> bool:
    return one.schema.equals(other.schema, check_metadata=True) and one.equals(other)


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_comes_back_bit_for_bit_at_any_level(shop, question):
    result = shop.query(CLAUSE + question)
    back = shoal.Result.from_bytes(result.to_bytes())
    assert same(result.to_arrow(), back.to_arrow())
    assert all(same(result.intervals(level).to_arrow(), back.intervals(level).to_arrow()) for level in LEVELS)
    assert (back.epsilon, back.delta, back.level, back.notes) == (
        result.epsilon,
        result.delta,
        result.level,
        result.notes,
    )
    assert repr(back) == repr(result)
    assert back._repr_html_() == result._repr_html_()
    assert back.to_bytes() == result.to_bytes()


def test_copies_in_outer_queries_keep_their_intervals(shop):
    inner = f"{CLAUSE}(epsilon = 9, delta = 1e-3) region, COUNT(DISTINCT uid) AS n FROM customers GROUP BY region"
    result = shop.query(
        f"SELECT r.region, t.n FROM regions r LEFT JOIN ({inner}) t ON r.region = t.region ORDER BY r.region"
    )
    back = shoal.Result.from_bytes(result.to_bytes())
    assert same(result.intervals(0.9).to_arrow(), back.intervals(0.9).to_arrow())
    assert back.to_dicts()[1] == {"region": "nowhere", "n": None}


def test_an_answer_without_private_tables_comes_back(shop):
    back = shoal.Result.from_bytes(shop.query("SELECT region FROM regions ORDER BY region").to_bytes())
    assert (back["region"], back.cost) == (["north", "nowhere", "south"], "")


def test_an_answer_under_a_policy_comes_back():
    policy = {"domain": {"age": [0, 99]}, "secret": {"distance": {"age": 5}}}
    people = {"owner": "uid", "policies": {"nearby": policy}}
    table = pa.table({"uid": range(200), "age": pa.array([i % 100 for i in range(200)], pa.int64())})
    with shoal.connect({"people": table}, catalog={"tables": {"people": people}}) as session:
        result = session.query("SELECT WITH POLICY OPTIONS(policy = 'nearby', epsilon = 1) SUM(age) AS s FROM people")
    back = shoal.Result.from_bytes(result.to_bytes())
    assert isinstance(back, PolicyResult)
    assert (back.promise, back.exact_epsilon) == (result.promise, result.exact_epsilon)
    assert same(result.intervals(0.9).to_arrow(), back.intervals(0.9).to_arrow())


def numbers_in(data: bytes) -> set[float]:
    """Every aligned double and 64-bit integer of the bytes, and every number of the JSON."""
    found: set[float] = set(map(float, re.findall(rb"\d+", data)))
    for shift in range(8):
        usable = (len(data) - shift) // 8 * 8
        found |= set(np.frombuffer(data[shift : shift + usable], "<f8").tolist())
        found |= set(map(float, np.frombuffer(data[shift : shift + usable], "<i8").tolist()))
    return found


def test_no_exact_total_is_in_the_bytes(shop_tables):
    # A total that noise of scale 10⁵ has a chance below 10⁻⁴ to hit, in an answer that is taken three times: 10⁻¹² in all.
    spend = pa.array(np.full(2000, 0.0) + 617_239.0)
    tables = {**shop_tables, "visits": shop_tables["visits"].set_column(2, "spend", spend)}
    exact = {float(617_239 * 2000), 617_239.0 * 5, float(617_239)}
    with shoal.connect(tables, catalog={"tables": {"visits": {"owner": "uid"}}}) as session:
        sql = f"{CLAUSE}(epsilon = 0.1) SUM(spend, contribution_bounds_per_group => (0, 4000000)) AS s FROM visits"
        assert any(not exact & numbers_in(session.query(sql).to_bytes()) for _ in range(3))


def test_the_json_has_public_parameters_alone(shop):
    data = shop.query(CLAUSE + QUESTIONS[6]).to_bytes()
    size = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "big")
    said = json.loads(data[len(MAGIC) + 8 : len(MAGIC) + 8 + size])
    taken = said["columns"]["0"][0]["classes"][0][0]
    assert taken.keys() == {"measure", "noise", "grid", "bounds", "steps"}
    assert "forest" not in json.dumps(said)


@pytest.mark.parametrize("level", [0, 1, -1, float("nan"), "0.9"])
def test_a_wrong_level_is_refused_as_before(shop, level, refusal):
    back = shoal.Result.from_bytes(shop.query(CLAUSE + QUESTIONS[1]).to_bytes())
    with pytest.raises(shoal.ShoalError, match="E_OPTION_INVALID"):
        back.intervals(level)


# ---- hostile bytes -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def answer_bytes() -> bytes:
    with shoal.connect({"t": {"uid": list(range(50))}}, catalog={"tables": {"t": {"owner": "uid"}}}) as session:
        result = session.query(f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT uid) AS n FROM t")
    return result.to_bytes()


def refused_or_read(data: bytes) -> None:
    """Some bytes, such as those of a number, may well be others; everything else has one refusal."""
    with suppress(shoal.ShoalError):
        shoal.Result.from_bytes(data)


@settings(deadline=None, max_examples=300)
@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), cut=st.integers(0, 200))
def test_damaged_bytes_are_refused_in_one_way(answer_bytes, place, byte, cut):
    changed = bytearray(answer_bytes)
    changed[place % len(changed)] = byte
    refused_or_read(bytes(changed[: len(changed) - cut]))


@pytest.mark.parametrize("data", [b"", MAGIC, MAGIC + b"\xff" * 8, b"\x80\x04N.", MAGIC + bytes(24)])
def test_other_bytes_are_refused(data):
    with pytest.raises(shoal.ShoalError, match="not the bytes of an answer"):
        shoal.Result.from_bytes(data)


def test_a_byte_too_many_is_refused(answer_bytes):
    with pytest.raises(shoal.ShoalError, match="not the bytes of an answer"):
        shoal.Result.from_bytes(answer_bytes + b"x")


@pytest.mark.parametrize("number", ["1e999999999", "1e-999999999", "0.1", " 1", "1/0", "٣", "9" * 5000, "1_0"])
def test_a_number_that_nobody_would_write_is_refused_before_it_is_computed(answer_bytes, number):
    """An exponent of nine digits stands for a number that fills the memory."""
    size = int.from_bytes(answer_bytes[len(MAGIC) : len(MAGIC) + 8], "big")
    said, rest = answer_bytes[len(MAGIC) + 8 :][:size], answer_bytes[len(MAGIC) + 8 + size :]
    for field in ("epsilon", "delta", "level"):
        changed = json.dumps(json.loads(said) | {field: number}).encode()
        with pytest.raises(shoal.ShoalError) as refused:
            shoal.Result.from_bytes(MAGIC + len(changed).to_bytes(8, "big") + changed + rest)
        assert refused.value.code == "E_USAGE"


def test_a_class_that_is_not_listed_is_refused(answer_bytes):
    changed = answer_bytes.replace(b'"CountOwners"', b'"StatementPl"')
    assert changed != answer_bytes
    with pytest.raises(shoal.ShoalError, match="not the bytes of an answer"):
        shoal.Result.from_bytes(changed)


# ---- keys ----------------------------------------------------------------------------------------------------------


def test_the_same_query_under_the_same_key_is_charged_once(open_shop, tmp_path):
    sql = f"{CLAUSE}(epsilon = 0.25) COUNT(DISTINCT uid) AS n FROM customers"
    sessions = [open_shop(budget=(1.0, 0.0), ledger=tmp_path / "l.db", user="ann") for _ in range(2)]
    answers = [session.query(sql, key="k1") for session in sessions * 2]
    assert len({answer.to_bytes() for answer in answers}) == 1
    assert sessions[0].spent == (0.25, 0.0)
    assert sessions[0].query(sql).epsilon == 0.25
    assert sessions[0].spent == (0.5, 0.0)


def test_another_query_under_the_same_key_is_refused_and_free(open_shop, tmp_path):
    session = open_shop(budget=(1.0, 0.0), ledger=tmp_path / "l.db")
    sql = f"{CLAUSE}(epsilon = 0.25) COUNT(DISTINCT uid) AS n FROM customers"
    session.query(sql, key="k1")
    with pytest.raises(shoal.ShoalError, match="E_IDEMPOTENCY"):
        session.query(sql.replace("0.25", "0.5"), key="k1")
    assert session.spent == (0.25, 0.0)


@pytest.mark.parametrize("row", SPELLINGS, ids=lambda row: row.name)
def test_an_answer_may_hold_every_aggregate_that_can_be_written(row):
    extra = {None: None, Extra.FRACTION: Fraction(1, 2), Extra.PARTS: 4}[row.extra]
    assert type(row.make(Written(Column("x", DOUBLE), extra, 1, None))) in AGGREGATES
