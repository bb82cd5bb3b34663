"""Answers as people and programs get them: faces, types, intervals that cover, nothing that a terminal or a browser would obey."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binom

import shoal
from shoal.accounting.events import LaplaceNoise
from shoal.result import Rows, html_table, shown, text_table

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
SURE = "epsilon = 100000, delta = 0.01"
COUNT = "COUNT(*, contribution_bounds_per_group => (0, 5)) AS n"


# ---- faces ---------------------------------------------------------------------------------------------------------


def test_an_answer_turns_into_every_kind_of_table(shop):
    result = shop.query(f"{CLAUSE}({SURE}) vip, {COUNT} FROM customers GROUP BY vip ORDER BY vip")
    rows = [{"vip": False, "n": 300}, {"vip": True, "n": 100}]
    assert result.to_dicts() == rows
    assert len(result) == 2
    assert result.columns == ["vip", "n"]
    assert isinstance(result.to_arrow(), pa.Table)
    assert isinstance(result.to_pandas(), pd.DataFrame)
    assert result.to_pandas().to_dict("records") == rows
    assert isinstance(result.to_polars(), pl.DataFrame)
    assert result.to_polars().to_dicts() == rows


def test_columns_are_named_and_ordered_as_the_analyst_wrote_them(shop):
    items = f'{COUNT}, vip AS "A Name", COUNT(DISTINCT uid), vip, 2 * COUNT(DISTINCT uid)'
    sql = f"{CLAUSE}({SURE}) {items} FROM customers GROUP BY vip"
    assert shop.query(sql).columns == ["n", "A Name", "count", "vip", "col4"]


def test_an_answer_knows_what_it_cost(shop):
    result = shop.query(f"{CLAUSE}(epsilon = 0.5, delta = 1e-7) vip, {COUNT} FROM customers GROUP BY vip")
    assert (result.epsilon, result.delta) == (0.5, 1e-7)
    assert "ε = 0.5" in repr(result)


@pytest.mark.parametrize("column", ["region", "age % 2", "vip", "score", "born", "seen", "CAST(age AS DOUBLE) / 100"])
def test_keys_keep_their_type_and_null_is_a_group_of_its_own(shop, column):
    table = shop.query(f"{CLAUSE}({SURE}) {column} AS k, {COUNT} FROM customers GROUP BY k").to_arrow()
    wanted = {
        "region": (pa.string(), {"north", "south", "east", "west", None}),
        "age % 2": (pa.int64(), {0, 1}),
        "vip": (pa.bool_(), {True, False}),
        "score": (pa.decimal128(10, 2), {Decimal("0.00"), Decimal("0.25"), Decimal("0.50")}),
        "born": (pa.date32(), {dt.date(1990, 1, 1), dt.date(1990, 1, 2)}),
        "seen": (pa.timestamp("us"), {dt.datetime.fromisoformat(f"2026-01-01 0{h}:30") for h in (0, 1)}),
        "CAST(age AS DOUBLE) / 100": (pa.float64(), {(18 + i) / 100 for i in range(60)}),
    }[column]
    assert table.schema.field("k").type == wanted[0]
    assert set(table.column("k").to_pylist()) == wanted[1]


@pytest.mark.parametrize("stored", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float32"])
def test_a_key_leaves_as_wide_as_it_was_stored(open_shop, stored):
    keys = pa.array(np.arange(600) % 3, stored)
    session = open_shop({"tables": {"t": {"owner": "uid"}}}, {"t": pa.table({"uid": np.arange(600), "k": keys})})
    table = session.query(f"{CLAUSE}({SURE}) k, {COUNT} FROM t GROUP BY k ORDER BY k").to_arrow()
    assert table.schema.field("k").type == keys.type
    assert table.column("k").to_pylist() == [0, 1, 2]


def test_aggregates_have_the_types_they_promise(shop):
    items = {
        "COUNT(*)": pa.int64(), "COUNT(DISTINCT uid)": pa.int64(), "COUNT(DISTINCT age)": pa.int64(), "SUM(age)": pa.int64(),
        "SUM(income)": pa.float64(), "SUM(score)": pa.float64(), "AVG(age)": pa.float64(), "VAR_POP(age)": pa.float64(),
        "MEDIAN(age)": pa.float64(), "MIN(age)": pa.float64(), "APPROX_QUANTILES(age, 2)": pa.list_(pa.float64()),
    }  # fmt: skip
    sql = ", ".join(f"{item} AS c{i}" for i, item in enumerate(items))
    schema = shop.query(f"{CLAUSE}({SURE}) {sql} FROM customers").to_arrow().schema
    assert [schema.field(i).type for i in range(len(items))] == list(items.values())


def test_dictionaries_of_a_stored_column_do_not_travel(open_shop):
    """Categories that no released row has would tell of rows that were withheld."""
    keys = pa.array(["shown"] * 300 + ["withheld"]).dictionary_encode()
    session = open_shop({"tables": {"t": {"owner": "uid"}}}, {"t": pa.table({"uid": np.arange(301), "k": keys})})
    result = session.query(f"{CLAUSE}(epsilon = 1, delta = 1e-9, kappa = 1) k, {COUNT} FROM t GROUP BY k")
    assert result.to_arrow().schema.field("k").type == pa.string()
    assert "withheld" not in str(result.to_arrow().to_pydict())
    assert b"withheld" not in result.to_arrow().column("k").combine_chunks().buffers()[2].to_pybytes()


# ---- public groups -------------------------------------------------------------------------------------------------


def test_listed_groups_all_appear_and_no_other(open_shop):
    listed = {"tables": {"customers": {"owner": "uid", "columns": {"region": {"values": ["north", "atlantis", None]}}}}}
    rows = (
        open_shop(listed).query(f"{CLAUSE}(epsilon = 100000) region, {COUNT} FROM customers GROUP BY region").to_dicts()
    )
    assert {row["region"]: row["n"] for row in rows} == {"north": 80, "atlantis": 0, None: 80}


def test_groups_of_a_list_in_the_query_all_appear_with_null_among_them(shop):
    sql = (
        f"{CLAUSE}(epsilon = 100000, group_selection_strategy = PUBLIC_GROUPS) p.region, {COUNT} "
        "FROM (VALUES ('north'), ('atlantis'), (NULL)) AS p(region) "
        "LEFT JOIN customers c ON c.region IS NOT DISTINCT FROM p.region GROUP BY p.region"
    )
    assert {row["region"]: row["n"] for row in shop.query(sql).to_dicts()} == {"north": 80, "atlantis": 0, None: 80}


def test_groups_of_a_public_table_all_appear(shop):
    sql = (
        f"{CLAUSE}(epsilon = 100000, group_selection_strategy = PUBLIC_GROUPS) r.region, {COUNT} "
        "FROM customers c RIGHT JOIN regions r ON c.region = r.region GROUP BY r.region"
    )
    assert {row["region"]: row["n"] for row in shop.query(sql).to_dicts()} == {"north": 80, "south": 80, "nowhere": 0}
    assert shop.spent == (100000.0, 0.0)


def test_all_combinations_of_listed_values_appear(open_shop):
    facts = {"region": {"values": ["north", "south"]}, "vip": {"values": [True, False]}}
    session = open_shop({"tables": {"customers": {"owner": "uid", "columns": facts}}})
    rows = session.query(
        f"{CLAUSE}(epsilon = 100000) region, vip, {COUNT} FROM customers GROUP BY region, vip"
    ).to_dicts()
    assert len(rows) == 4
    assert sum(row["n"] for row in rows) == 160


def test_an_empty_table_gives_one_row_without_groups_and_listed_groups_with_them(open_shop, shop_tables):
    empty = {"customers": shop_tables["customers"].slice(0, 0)}
    facts = {"region": {"values": ["north", "south"]}}
    session = open_shop({"tables": {"customers": {"owner": "uid", "columns": facts}}}, empty)
    items = "COUNT(*), SUM(income), AVG(income), VAR_POP(income), MEDIAN(income), COUNT(DISTINCT age)"
    assert len(session.query(f"{CLAUSE}(epsilon = 1, kappa = 2) {items} FROM customers")) == 1
    assert len(session.query(f"{CLAUSE}(epsilon = 1, kappa = 2) region, {items} FROM customers GROUP BY region")) == 2
    assert (
        len(session.query(f"{CLAUSE}(epsilon = 1, delta = 1e-6, kappa = 2) age, {items} FROM customers GROUP BY age"))
        == 0
    )


# ---- intervals -----------------------------------------------------------------------------------------------------

GROUPS = 1500
OWNERS_OF_A_GROUP = 9


VALUES = np.arange(OWNERS_OF_A_GROUP) / 2
AGGREGATES = {
    "COUNT(*, contribution_bounds_per_group => (0, 2))": OWNERS_OF_A_GROUP,
    "COUNT(DISTINCT uid)": OWNERS_OF_A_GROUP,
    "SUM(x, contribution_bounds_per_group => (0, 4))": VALUES.sum(),
    "COUNT(DISTINCT x)": OWNERS_OF_A_GROUP,
    "AVG(x, contribution_bounds_per_group => (-1, 5))": VALUES.mean(),
    "VAR_POP(x, contribution_bounds_per_row => (-1, 5))": VALUES.var(),
    "STDDEV_SAMP(x, contribution_bounds_per_row => (-1, 5))": VALUES.std(ddof=1),
}


@pytest.fixture(scope="module", params=["LAPLACE", "GAUSSIAN"])
def many_draws(request):
    """1,500 public groups of nine owners with one row each: one answer is 1,500 independent draws of every noise."""
    number = np.arange(GROUPS * OWNERS_OF_A_GROUP)
    table = pa.table({"uid": number, "g": number // OWNERS_OF_A_GROUP, "x": (number % OWNERS_OF_A_GROUP) / 2})
    catalog = {"tables": {"t": {"owner": "uid", "columns": {"g": {"values": list(range(GROUPS))}}}}}
    items = ", ".join(f"{aggregate} AS v{i}" for i, aggregate in enumerate(AGGREGATES))
    with shoal.connect({"t": table}, catalog=catalog) as session:
        sql = f"{CLAUSE}(epsilon = 10, delta = 1e-6, kappa = 1, noise = {request.param}) g, {items} FROM t GROUP BY g"
        return session.query(sql), session.plan(sql).selects[0]


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.999])
def test_intervals_cover_as_often_as_they_say(many_draws, level):
    """1,500 draws of seven aggregates; an honest interval fails with a chance below 1e-8 each (exact binomial)."""
    result, plan = many_draws
    rows = result.intervals(level=level).to_dicts()
    assert len(rows) == GROUPS
    for i, (aggregate, truth) in enumerate(AGGREGATES.items()):
        covered = sum(row[f"v{i}_low"] <= truth <= row[f"v{i}_high"] for row in rows)
        assert covered >= binom.ppf(1e-8, GROUPS, level), aggregate
        if len(plan.columns[i].releases) == 1:  # exact quantiles: not much wider than they need to be
            noise = plan.releases[plan.columns[i].releases[0]].noise
            assert covered <= binom.ppf(1 - 1e-8, GROUPS, min(1.0, level + _chance_of_two_values(noise))), aggregate


def _chance_of_two_values(noise) -> float:
    """A discrete quantile may cover by the chance of its outermost two values more than the level."""
    if isinstance(noise, LaplaceNoise):
        return 2 * math.tanh(1 / (2 * float(noise.scale)))
    return 2 / (float(noise.sigma) * math.sqrt(2 * math.pi))


def test_intervals_stand_beside_their_column_and_take_the_level_of_the_query(shop):
    options = "epsilon = 1, delta = 1e-6, kappa = 1, confidence_level = 0.5"
    result = shop.query(f"{CLAUSE}({options}) vip, {COUNT}, COUNT(DISTINCT uid) AS u FROM customers GROUP BY vip")
    assert result.level == 0.5
    assert result.intervals().columns == ["vip", "n", "n_low", "n_high", "u", "u_low", "u_high"]
    assert result.intervals().to_dicts() == result.intervals(level=0.5).to_dicts()
    narrow, wide = result.intervals(level=0.5).to_dicts()[0], result.intervals(level=0.99).to_dicts()[0]
    assert wide["n_low"] < narrow["n_low"] <= narrow["n"] <= narrow["n_high"] < wide["n_high"]


def test_where_limits_are_found_the_noise_part_stands_beside_the_interval_and_inside_it(shop):
    result = shop.query(f"{CLAUSE}(epsilon = 10, delta = 1e-6, kappa = AUTO) vip, {COUNT} FROM customers GROUP BY vip")
    ends = result.intervals()
    assert ends.columns == ["vip", "n", "n_low", "n_high", "n_noise_low", "n_noise_high"]
    assert len(ends.to_dicts()) == 2
    for row in ends.to_dicts():
        assert row["n_low"] == row["n_noise_low"] <= row["n"] <= row["n_noise_high"] < row["n_high"]
    assert "Limits on groups per owner were found privately" in repr(result)


@pytest.mark.parametrize("level", [0, 1, -1, 95, float("nan"), "0.95", None])
def test_a_level_is_strictly_between_0_and_1(shop, level):
    result = shop.query(f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT uid) AS n FROM customers")
    if level is None:
        assert result.intervals(level=None).columns == ["n", "n_low", "n_high"]
        return
    with pytest.raises(shoal.ShoalError) as refused:
        result.intervals(level=level)
    assert refused.value.code == "E_OPTION_INVALID"


def test_aggregates_and_what_is_computed_from_them_have_intervals(shop):
    items = "COUNT(DISTINCT uid) AS n, COUNT(DISTINCT uid) + 1 AS m, MEDIAN(age, contribution_bounds_per_row => (0, 99)) AS q"
    (row,) = shop.query(f"{CLAUSE}(epsilon = 1) {items} FROM customers").intervals().to_dicts()
    assert list(row) == ["n", "n_low", "n_high", "m", "m_low", "m_high", "q", "q_low", "q_high"]
    assert row["m_low"] <= row["m"] <= row["m_high"]
    assert row["q_low"] <= row["q"] <= row["q_high"]


def test_intervals_follow_their_numbers_through_outer_queries(shop):
    inner = f"{CLAUSE}({SURE}, kappa = 1) region, {COUNT} FROM customers GROUP BY region"
    outer = "SELECT c.region AS place, c.n AS people, continent FROM c JOIN regions USING (region)"
    (row,) = (
        shop.query(f"WITH c AS ({inner}) {outer} WHERE n > 10 ORDER BY people, place LIMIT 1").intervals().to_dicts()
    )
    assert list(row) == ["place", "people", "people_low", "people_high", "continent"]
    assert row["people"] == 80
    assert row["people_low"] <= 80 <= row["people_high"]


def test_rows_of_union_all_keep_the_intervals_of_the_select_they_come_from(shop):
    narrow = f"{CLAUSE}(epsilon = 10) 'owners' AS what, COUNT(DISTINCT uid) AS n FROM customers"
    wide = f"{CLAUSE}(epsilon = 0.1) 'rows', {COUNT} FROM customers"
    average = f"{CLAUSE}(epsilon = 1) 'age', AVG(age, contribution_bounds_per_group => (0, 99)) FROM customers"
    sql = f"{narrow} UNION ALL {wide} UNION ALL SELECT 'known', 7"
    rows = {row["what"]: row for row in shop.query(f"SELECT * FROM ({sql}) AS u ORDER BY what").intervals().to_dicts()}
    assert rows["known"]["n_low"] is rows["known"]["n_high"] is None
    widths = {what: rows[what]["n_high"] - rows[what]["n_low"] for what in ("owners", "rows")}
    assert widths["owners"] < 3
    assert widths["rows"] > 200
    mixed = shop.query(f"{wide} UNION ALL {average} UNION ALL {wide}").intervals().to_dicts()
    assert [row["n_low"] is not None for row in mixed] == [True, True, True]


def test_rows_of_other_set_operations_keep_their_intervals(shop):
    one = f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT uid) AS n FROM customers"
    for operation in ("UNION", "EXCEPT", "INTERSECT"):
        assert shop.query(f"{one} {operation} {one}").intervals().columns == ["n", "n_low", "n_high"]


# ---- reading it ----------------------------------------------------------------------------------------------------

HOSTILE = [
    "<script>alert(1)</script>",
    "\x1b[31mred\x1b[0m",
    "a\nb\rc\td",
    "\u202eabc",
    "\x00",
    '"quoted" & <b>',
    "x" * 500,
]


@pytest.fixture
def hostile_answer(open_shop):
    keys = [HOSTILE[i % len(HOSTILE)] for i in range(100 * len(HOSTILE))]
    session = open_shop({"tables": {"t": {"owner": "uid"}}}, {"t": pa.table({"uid": np.arange(len(keys)), "k": keys})})
    result = session.query(f'{CLAUSE}({SURE}) k AS "<i>k</i>", {COUNT} FROM t GROUP BY k')
    assert len(result) == len(HOSTILE)
    return result


def test_a_terminal_sees_no_control_characters_of_keys(hostile_answer):
    text = repr(hostile_answer)
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "\x1b" not in text
    assert len([line for line in text.splitlines() if not line.startswith("note: ")]) == 2 + len(HOSTILE) + 2


def test_a_notebook_sees_no_tags_of_keys_or_names(hostile_answer):
    page = hostile_answer._repr_html_()
    assert "<script>" not in page
    assert "<i>k" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page


def test_a_table_shows_error_bars_what_it_cost_and_what_is_not_covered(shop):
    options = "epsilon = 1, delta = 1e-6, kappa = 1"
    given = repr(shop.query(f"{CLAUSE}({options}) vip, {COUNT} FROM customers GROUP BY vip"))
    assert "±" in given
    assert "not clamping or groups that were left out" in given
    found = repr(shop.query(f"{CLAUSE}({options}) vip, {COUNT}, AVG(income) AS a FROM customers GROUP BY vip"))
    assert "their far ends also count what lies beyond the limits" in found
    assert "found privately" in found


def test_an_answer_that_protects_nobody_says_so(shop):
    result = shop.query(f"{CLAUSE}(epsilon = 1000) COUNT(DISTINCT uid) AS n FROM customers")
    assert "protects nobody" in repr(result)
    assert "protects nobody" in result._repr_html_()


@pytest.mark.parametrize(("epsilon", "told"), [(10, False), (11, True)])
def test_the_promise_says_next_to_nothing_above_ten(shop, epsilon, told):
    result = shop.query(f"{CLAUSE}(epsilon = {epsilon}) COUNT(DISTINCT uid) AS n FROM customers")
    assert ("protects nobody" in repr(result)) == told
    assert any("protects nobody" in text for text in result.warnings) == told


def test_the_whole_answer_as_text_has_every_row_and_long_keys_in_full(open_shop):
    keys = [f"{'k' * 300}{i:03d}" for i in range(60)]
    table = pa.table({"uid": np.arange(6000), "k": [keys[i % 60] for i in range(6000)]})
    result = open_shop({"tables": {"t": {"owner": "uid"}}}, {"t": table}).query(
        f"{CLAUSE}({SURE}) k, {COUNT} FROM t GROUP BY k"
    )
    text = result.to_text()
    assert all(key in text for key in keys)
    assert "more rows" not in text
    assert "20 more rows" in repr(result)
    assert len(Rows(result.to_arrow()).to_text().splitlines()) == 62


def test_the_level_of_the_text_is_the_one_that_was_asked_for(shop):
    result = shop.query(f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT uid) AS n FROM customers")
    assert "99.9% of the time" in result.to_text(level=0.999)
    assert "95% of the time" in result.to_text()
    with pytest.raises(shoal.ShoalError):
        result.to_text(level=2)


def test_notes_call_aggregates_by_their_output_columns(shop):
    items = "SUM(SQRT(income)) AS a, SUM(LN(income + 1)) AS b, 2 * SUM(income * income) AS c, SUM(income)"
    result = shop.query(f"{CLAUSE}(epsilon = 100, kappa = 1) {items} FROM customers")
    assert [note.split(":")[0] for note in result.notes if "privately" in note] == [
        "a",
        "b",
        "SUM(income * income) in c",
        "sum",
    ]


def test_notes_of_bounds_for_each_group_call_aggregates_by_their_output_columns(shop):
    options = "epsilon = 100, delta = 1e-6, kappa = 1, inferred_bounds = PER_GROUP"
    result = shop.query(f"{CLAUSE}({options}) vip, SUM(SQRT(income)) AS a, SUM(income) FROM customers GROUP BY vip")
    assert [note.split(":")[0] for note in result.notes if "privately" in note] == ["a", "sum"]


def test_long_answers_are_cut_in_sight_only():
    rows = Rows(pa.table({"n": range(1000)}))
    assert len(repr(rows).splitlines()) == 43
    assert "960 more rows" in repr(rows)
    html = rows._repr_html_()
    assert html.index("</tbody>") < html.index("960 more rows") < html.index("</table>")  # below the rows, not above
    assert len(rows.to_dicts()) == 1000


def test_values_are_written_for_people():
    assert [shown(v) for v in (None, True, 1234567, 0.000123456, 12345.678, 1e20, dt.date(2026, 1, 2), "a\x07b")] == [
        "NULL", "true", "1,234,567", "0.0001235", "12,346", "1e+20", "2026-01-02", r"a\x07b",
    ]  # fmt: skip
    assert shown("x" * 300).endswith("…")
    assert text_table([], [], 0) == "(no columns)"
    assert text_table(["a"], [], 0).splitlines()[0] == "a"
    assert "<td>1</td>" in html_table(["a"], [["1"]], 1)


def test_columns_of_one_name_are_told_apart(shop):
    items = "COUNT(DISTINCT uid), COUNT(DISTINCT age), COUNT(DISTINCT vip) AS count_low, 7 AS x, 8 AS x"
    result = shop.query(f"{CLAUSE}({SURE}, kappa = 1) {items} FROM customers")
    assert result.columns == ["count", "count_2", "count_low", "x", "x_2"]
    assert len(result.to_dicts()[0]) == len(result.to_polars().columns) == 5
    ends = result.intervals()
    assert ends.columns[:4] == ["count", "count_low_2", "count_high", "count_2"]
    assert len(ends.to_dicts()[0]) == 11
    assert "count_2" in repr(result)


def test_the_interval_of_a_sum_that_ends_at_64_bits_covers_the_sum_itself():
    rows = {"uid": list(range(300)), "v": [9 * 10**18] * 300}
    with shoal.connect({"t": rows}, catalog={"tables": {"t": {"owner": "uid"}}}) as session:
        bounds = "contribution_bounds_per_group => (0, 9000000000000000000)"
        result = session.query(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1000) SUM(v, {bounds}) AS s FROM t")
    (row,) = result.intervals(level=0.999999).to_dicts()  # the noise is real: at 95% one run in twenty would miss
    assert row["s"] == 2**63 - 1
    assert row["s_low"] < 27 * 10**20 < row["s_high"]
    assert row["s_high"] < 28 * 10**20


def test_keys_that_are_numbers_have_no_commas(open_shop):
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10000, delta = 0.01, max_groups_contributed = 2)"
    count = "COUNT(*, contribution_bounds_per_group => (0, 5000)) AS n"
    answer = open_shop().query(f"{clause} 1996 + items % 2 AS year, {count} FROM visits GROUP BY 1")
    assert "1996" in repr(answer)
    assert "1,996" not in repr(answer)


def test_a_list_of_fractions_gives_a_list_that_rises(open_shop):
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 10000)"
    bounds = "contribution_bounds_per_row => (0, 200), max_contributions_per_group => 5"
    sql = f"{clause} PERCENTILE_CONT(spend, [0.1, 0.5, 0.9], {bounds}) AS q, MEDIAN(spend, {bounds}) AS m FROM visits"
    row = open_shop().query(sql).to_dicts()[0]
    assert len(row["q"]) == 3
    assert row["q"] == sorted(row["q"])
    assert row["q"][1] == row["m"]
