"""The face: what a session answers, refuses, charges and tells."""

from __future__ import annotations

import re
from fractions import Fraction

import duckdb
import pytest

import shoal
from planted_engine import PlantedEngine
from shoal.engines.base import EngineFailure

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
COUNT = "COUNT(*, contribution_bounds_per_group => (0, 5)) AS n"


def by_region(options: str) -> str:
    return f"{CLAUSE}({options}) region, {COUNT} FROM customers GROUP BY region"


# ---- options that are wrong ----------------------------------------------------------------------------------------

WRONG_OPTIONS = [
    # ε
    ("delta = 1e-6", "E_OPTION_INVALID", "epsilon is missing"),
    ("epsilon = 0, delta = 1e-6", "E_OPTION_INVALID", "from 1e-10 to 1e6"),
    ("epsilon = -1, delta = 1e-6", "E_OPTION_INVALID", "from 1e-10 to 1e6"),
    ("epsilon = 1e-11, delta = 1e-6", "E_OPTION_INVALID", "from 1e-10 to 1e6"),
    ("epsilon = 1000001, delta = 1e-6", "E_OPTION_INVALID", "from 1e-10 to 1e6"),
    ("epsilon = 1e400, delta = 1e-6", "E_OPTION_INVALID", "epsilon"),
    ("epsilon = 'one', delta = 1e-6", "E_OPTION_INVALID", "must be a number"),
    ("epsilon = '1', delta = 1e-6", "E_OPTION_INVALID", "must be a number"),
    ("epsilon = NaN, delta = 1e-6", "E_OPTION_INVALID", "must be a number"),
    ("epsilon = NULL, delta = 1e-6", "E_OPTION_INVALID", "must be a number"),
    ("epsilon = TRUE, delta = 1e-6", "E_OPTION_INVALID", "must be a number"),
    ("epsilon = (1, 2), delta = 1e-6", "E_OPTION_INVALID", "must be a number"),
    ("epsilon = 1, epsilon = 1, delta = 1e-6", "E_OPTION_INVALID", "twice"),
    # δ
    ("epsilon = 1", "E_OPTION_INVALID", "delta is missing"),
    ("epsilon = 1, delta = 0", "E_OPTION_INVALID", "no unknown group"),
    ("epsilon = 1, delta = -1e-6", "E_OPTION_INVALID", "at least 0 and less than 1"),
    ("epsilon = 1, delta = 1", "E_OPTION_INVALID", "at least 0 and less than 1"),
    ("epsilon = 1, delta = 0.5", "E_OPTION_INVALID", "at most 0.1"),
    ("epsilon = 1, delta = 1e-301", "E_OPTION_INVALID", "too small"),
    ("epsilon = 1, delta = 'tiny'", "E_OPTION_INVALID", "must be a number"),
    ("epsilon = 1, delta = NaN", "E_OPTION_INVALID", "must be a number"),
    # groups and rows per owner
    ("epsilon = 1, delta = 1e-6, max_groups_contributed = 0", "E_OPTION_INVALID", "from 1 to 1000000"),
    ("epsilon = 1, delta = 1e-6, max_groups_contributed = -3", "E_OPTION_INVALID", "from 1 to 1000000"),
    ("epsilon = 1, delta = 1e-6, max_groups_contributed = 2.7", "E_OPTION_INVALID", "whole number"),
    ("epsilon = 1, delta = 1e-6, max_groups_contributed = 2.0", "E_OPTION_INVALID", "whole number"),
    ("epsilon = 1, delta = 1e-6, max_groups_contributed = 1000001", "E_OPTION_INVALID", "from 1 to 1000000"),
    ("epsilon = 1, delta = 1e-6, max_groups_contributed = '3'", "E_OPTION_INVALID", "must be a number"),
    ("epsilon = 1, delta = 1e-6, max_groups_contributed = 3, kappa = 3", "E_OPTION_INVALID", "one option"),
    (
        "epsilon = 1, delta = 1e-6, max_groups_contributed = 3, max_rows_contributed = 3",
        "E_OPTION_INVALID",
        "cannot be combined",
    ),
    ("epsilon = 1, delta = 1e-6, max_rows_contributed = 0", "E_OPTION_INVALID", "from 1 to 1000000"),
    ("epsilon = 1, delta = 1e-6, max_rows_contributed = 1.5", "E_OPTION_INVALID", "whole number"),
    # the rest
    ("epsilon = 1, delta = 1e-6, group_selection_strategy = BEST", "E_OPTION_INVALID", "LAPLACE_THRESHOLD"),
    ("epsilon = 1, delta = 1e-6, group_selection_strategy = 5", "E_OPTION_INVALID", "OPTIMAL"),
    ("epsilon = 1, delta = 1e-6, noise = NONE", "E_OPTION_INVALID", "GAUSSIAN"),
    ("epsilon = 1, delta = 1e-6, min_privacy_units_per_group = 0", "E_OPTION_INVALID", "from 1 to 1000000"),
    (
        "epsilon = 1, delta = 1e-6, min_privacy_units_per_group = 5, group_selection_strategy = PUBLIC_GROUPS",
        "E_OPTION_INVALID",
        "PUBLIC_GROUPS",
    ),
    ("epsilon = 1, delta = 1e-6, group_selection_epsilon = 1", "E_OPTION_INVALID", "less than epsilon"),
    ("epsilon = 1, delta = 1e-6, group_selection_epsilon = 2", "E_OPTION_INVALID", "less than epsilon"),
    ("epsilon = 1, delta = 1e-6, group_selection_epsilon = 0", "E_OPTION_INVALID", "from 1e-10"),
    ("epsilon = 1, delta = 1e-6, confidence_level = 1", "E_OPTION_INVALID", "between 0 and 1"),
    ("epsilon = 1, delta = 1e-6, confidence_level = 95", "E_OPTION_INVALID", "between 0 and 1"),
    ("epsilon = 1, delta = 1e-6, privacy_unit_column = region", "E_OPTION_INVALID", "owner column"),
    ("epsilon = 1, delta = 1e-6, privacy_unit_column = 7", "E_OPTION_INVALID", "owner column"),
    ("epsilon = 1, delta = 1e-6, k_threshold = 5", "E_OPTION_UNKNOWN", "k_threshold"),
    ("epsilon = 1, delta = 1e-6, epsilom = 5", "E_OPTION_UNKNOWN", "epsilom"),
    ("epsilon = 1, delta = 1e-6, shoal.epsilon = 5", "E_OPTION_UNKNOWN", ""),
]


@pytest.mark.parametrize(("options", "code", "words"), WRONG_OPTIONS, ids=[options for options, _, _ in WRONG_OPTIONS])
def test_a_wrong_option_is_refused_with_a_sentence_that_helps(quiet_shop, refusal, options, code, words):
    error = refusal(quiet_shop, by_region(options))
    assert error.code == code
    assert words in error.message
    assert error.position is not None
    assert re.search(r"\n +\^", str(error))  # the place is underlined


def test_an_unknown_option_names_the_nearest_and_all_known_ones(quiet_shop, refusal):
    hint = refusal(quiet_shop, by_region("epsilon = 1, delta = 1e-6, max_group_contributed = 3")).hint
    assert "Did you mean max_groups_contributed?" in hint
    assert "group_selection_strategy" in hint


WRONG_BOUNDS = [
    ("SUM(income, contribution_bounds_per_group => (5, 1))", "E_BOUNDS_INVALID"),
    ("SUM(income, contribution_bounds_per_group => (0, 1e31))", "E_BOUNDS_INVALID"),
    ("SUM(income, contribution_bounds_per_group => (0, 1e-31))", "E_BOUNDS_INVALID"),
    ("SUM(income, contribution_bounds_per_group => (0, 1e400))", "E_BOUNDS_INVALID"),
    ("SUM(income, contribution_bounds_per_group => (0, NaN))", "E_BOUNDS_INVALID"),
    ("SUM(income, contribution_bounds_per_group => (NULL, 1))", "E_BOUNDS_INVALID"),
    ("SUM(income, contribution_bounds_per_group => ('0', '1'))", "E_BOUNDS_INVALID"),
    ("SUM(income, contribution_bounds_per_group => (0, 1, 2))", "E_BOUNDS_INVALID"),
    ("SUM(income, contribution_bounds_per_group => 5)", "E_BOUNDS_INVALID"),
    ("SUM(income, contribution_bounds_per_group => (0, income))", "E_BOUNDS_INVALID"),
    (
        "SUM(income, contribution_bounds_per_group => (0, 1), contribution_bounds_per_group => (0, 2))",
        "E_OPTION_INVALID",
    ),
    ("SUM(income, contribution_bounds_per_row => (0, 1))", "E_OPTION_UNKNOWN"),
    ("SUM(income, 0, 1)", "E_BOUNDS_INVALID"),
    ("COUNT(DISTINCT age, contribution_bounds_per_group => (0, 1))", "E_OPTION_UNKNOWN"),
    ("AVG(income, max_contributions_per_group => 3)", "E_OPTION_UNKNOWN"),
    ("MEDIAN(income, max_contributions_per_group => 0)", "E_OPTION_INVALID"),
    ("MEDIAN(income, max_contributions_per_group => 2.5)", "E_OPTION_INVALID"),
    ("SUM(income, epsilon => 0)", "E_OPTION_INVALID"),
    ("SUM(income, epsilon => -1)", "E_OPTION_INVALID"),
    ("SUM(income, epsilon => 'x')", "E_OPTION_INVALID"),
    ("SUM(income, epsilon => 2)", "E_OPTION_INVALID"),
    ("SUM(income, report_format => 'XML')", "E_OPTION_INVALID"),
    ("SUM(income, bounds => (0, 1))", "E_OPTION_UNKNOWN"),
]


@pytest.mark.parametrize(("aggregate", "code"), WRONG_BOUNDS, ids=[aggregate for aggregate, _ in WRONG_BOUNDS])
def test_wrong_arguments_of_aggregates_are_refused_and_never_dropped(quiet_shop, refusal, aggregate, code):
    error = refusal(quiet_shop, f"{CLAUSE}(epsilon = 1, delta = 1e-6) {aggregate} FROM customers")
    assert error.code == code
    assert error.position is not None


@pytest.mark.parametrize("sql", [None, 7, b"SELECT 1", ["SELECT 1"]])
def test_what_is_no_text_is_refused(quiet_shop, sql):
    with pytest.raises(shoal.ShoalError) as refused:
        quiet_shop.query(sql)
    assert refused.value.code in {"E_USAGE", "E_PARSE"}


# ---- the catalog's own rules ---------------------------------------------------------------------------------------


def with_defaults(catalog: dict, **defaults: object) -> dict:
    return {**catalog, "defaults": defaults}


@pytest.fixture
def catalog(shop) -> dict:
    return {
        "tables": {
            t.name: ({"public": True} if t.public else {"owner": t.owner}) for t in shop._catalog.tables.values()
        }
    }


def test_more_than_the_catalog_allows_is_a_matter_of_policy(open_shop, catalog, refusal):
    session = open_shop(with_defaults(catalog, max_epsilon_per_query=2))
    error = refusal(session, by_region("epsilon = 2.1, delta = 1e-6"))
    assert error.code == "E_POLICY"
    assert "epsilon = 2" in error.message
    assert len(session.query(by_region("epsilon = 2, delta = 1e-6"))) > 0


def test_the_limit_holds_for_all_private_selects_of_a_query_together(open_shop, catalog, refusal):
    session = open_shop(with_defaults(catalog, max_epsilon_per_query=2))
    half = f"SELECT n FROM ({CLAUSE}(epsilon = {{}}) COUNT(DISTINCT uid) AS n FROM customers)"
    assert refusal(session, f"{half.format(1.5)} UNION ALL {half.format(1)}").code == "E_POLICY"
    assert len(session.query(f"{half.format(1)} UNION ALL {half.format(1)}")) == 2


def test_plain_sql_over_private_tables_needs_defaults(quiet_shop, refusal):
    error = refusal(quiet_shop, "SELECT region, COUNT(*) FROM customers GROUP BY region")
    assert error.code == "E_NO_DP_CLAUSE"
    assert "SELECT WITH DIFFERENTIAL_PRIVACY" in error.hint


def test_plain_sql_is_answered_as_if_the_clause_stood_there(open_shop, catalog):
    session = open_shop(with_defaults(catalog, epsilon=0.5, delta=1e-6, max_groups_per_owner=5))
    count = "region, COUNT(DISTINCT uid) AS n FROM customers GROUP BY region"
    plain = session.plan(f"SELECT {count}")
    clause = session.plan(
        f"{CLAUSE}(epsilon = 0.5, delta = 1e-6, max_groups_contributed = 5, measure_cut = 0.05) {count}"
    )
    assert plain.selects == clause.selects
    session.query("SELECT region, COUNT(*) AS n FROM customers GROUP BY region")
    assert session.spent == (0.5, 1e-6)


def test_options_left_out_come_from_the_catalog(open_shop, catalog):
    session = open_shop(with_defaults(catalog, epsilon=0.5, population=10**6, max_groups_per_owner=3))
    plan = session.plan(f"{CLAUSE}() region, COUNT(*) FROM customers GROUP BY region").selects[0]
    assert plan.select.options.epsilon == Fraction(1, 2)
    assert plan.select.options.delta == Fraction(1, 10**8)
    assert plan.contribution.max_groups == 3


def test_a_query_that_touches_no_private_table_runs_as_it_is_and_is_free(shop):
    result = shop.query("SELECT continent, COUNT(*) AS n FROM regions GROUP BY continent ORDER BY n DESC")
    assert result.to_dicts() == [{"continent": "EU", "n": 2}, {"continent": "XX", "n": 1}]
    assert (result.epsilon, result.delta) == (0.0, 0.0)
    assert shop.spent == (0.0, 0.0)


def test_a_private_clause_over_public_tables_has_nobody_to_protect(quiet_shop, refusal):
    assert refusal(quiet_shop, f"{CLAUSE}(epsilon = 1) COUNT(*) FROM regions").code == "E_UNSUPPORTED"


# ---- explaining is free --------------------------------------------------------------------------------------------


def test_explain_privacy_through_query_is_one_column_of_text_and_free(shop):
    rows = shop.query(f"EXPLAIN PRIVACY {by_region('epsilon = 1, delta = 1e-6')}")
    assert rows.columns == ["explanation"]
    text = "\n".join(row["explanation"] for row in rows.to_dicts())
    assert text == str(shop.explain(by_region("epsilon = 1, delta = 1e-6")))
    assert shop.spent == (0.0, 0.0)
    assert shop.ledger.entries() == []


def test_planning_and_explaining_spend_nothing_also_with_a_budget(open_shop):
    session = open_shop(budget=(1, 1e-5))
    session.plan(by_region("epsilon = 3, delta = 1e-6"))
    session.explain(by_region("epsilon = 3, delta = 1e-6"))
    assert session.epsilon_for(f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT uid) FROM customers", error=10) > 0
    assert session.spent == (0.0, 0.0)
    assert session.remaining == (1.0, 1e-5)


@pytest.mark.parametrize(("tables", "said"), [({}, True), (None, False)], ids=["no source", "a source"])
def test_an_unknown_column_without_a_source_may_lack_its_type_in_the_catalog(shop_tables, refusal, tables, said):
    source = shop_tables if tables is None else tables
    with shoal.connect(source, catalog={"tables": {"customers": {"owner": "uid"}}}) as session:
        error = refusal(session, f"{CLAUSE}(epsilon = 1, delta = 1e-6) planet, COUNT(*) FROM customers GROUP BY planet")
    assert error.code == "E_UNKNOWN_COLUMN"
    assert error.hint.startswith("Available columns: ")
    assert error.hint.endswith("name its type there, or open the data (--db).") == said


# ---- the budget ----------------------------------------------------------------------------------------------------


def test_a_session_without_a_budget_adds_up_what_was_spent(shop):
    for _ in range(3):
        result = shop.query(by_region("epsilon = 0.1, delta = 1e-7"))
    assert (result.epsilon, result.delta) == (0.1, 1e-7)
    assert shop.spent == (0.3, 3e-7)  # exact rationals: 0.1 three times is 0.3
    assert shop.remaining is None


def test_delta_that_no_mechanism_uses_is_not_charged(shop):
    result = shop.query(f"{CLAUSE}(epsilon = 1, delta = 1e-6, noise = LAPLACE) COUNT(DISTINCT uid) AS n FROM customers")
    assert (result.epsilon, result.delta) == (1.0, 0.0)
    assert shop.spent == (1.0, 0.0)


def test_a_query_over_budget_is_refused_and_told_what_is_left_what_was_asked_and_what_fits(open_shop):
    session = open_shop(budget=(1, 1e-5))
    session.query(by_region("epsilon = 0.75, delta = 1e-6"))
    with pytest.raises(shoal.ShoalError) as refused:
        session.query(by_region("epsilon = 0.5, delta = 1e-6"))
    assert refused.value.code == "E_BUDGET"
    told = f"{refused.value.message} {refused.value.hint}"
    for amount in ("0.25", "0.5"):
        assert amount in told
    assert session.spent == (0.75, 1e-6)
    session.query(by_region("epsilon = 0.25, delta = 1e-6"))
    assert session.remaining == (0.0, 8e-6)


def test_the_charge_is_written_before_the_engine_is_asked(open_shop):
    session = open_shop(budget=(1, 1e-5))
    seen = []
    engine = session._engine
    session._engine = PlantedEngine(
        engine, lambda: seen.append([(e.state, float(e.epsilon)) for e in session.ledger.entries()])
    )
    session.query(by_region("epsilon = 0.5, delta = 1e-6"))
    assert seen
    assert all(entries == [("reserved", 0.5)] for entries in seen)
    assert [e.state for e in session.ledger.entries()] == ["answered"]


@pytest.mark.parametrize(
    "failure", [EngineFailure(), MemoryError("data"), ValueError("row 7 holds secret"), KeyError("secret")]
)
def test_a_failure_after_the_charge_stays_charged_and_says_one_thing_only(open_shop, failure):
    session = open_shop(budget=(1, 1e-5))

    def fail() -> None:
        raise failure

    session._engine = PlantedEngine(session._engine, fail)
    with pytest.raises(shoal.ShoalError) as refused:
        session.query(by_region("epsilon = 0.5, delta = 1e-6"))
    assert refused.value.code == "E_EXECUTION"
    assert refused.value.message == "The query failed. It stays charged, because data may have been read."
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None or refused.value.__suppress_context__
    assert session.spent == (0.5, 1e-6)
    assert [e.state for e in session.ledger.entries()] == ["failed"]


def test_the_ledger_remembers_who_asked_what(open_shop, tmp_path):
    path = tmp_path / "ledger.db"
    open_shop(budget=(2, 1e-5), ledger=path, user="ann").query(by_region("epsilon = 0.5, delta = 1e-6"))
    session = open_shop(ledger=path, user="bob")
    session.query(by_region("epsilon = 0.25, delta = 1e-6"))
    assert [(e.user, float(e.epsilon)) for e in session.ledger.entries()] == [("ann", 0.5), ("bob", 0.25)]
    assert "GROUP BY region" in session.ledger.entries()[0].description
    assert session.spent == (0.75, 2e-6)


def test_a_ledger_keeps_its_own_budget_and_accountant(open_shop, tmp_path):
    path = tmp_path / "ledger.db"
    open_shop(budget=(2, 1e-5), ledger=path, accountant="zcdp")
    open_shop(budget=(2, 1e-5), ledger=path, accountant="zcdp")
    for options in ({"budget": (3, 1e-5)}, {"accountant": "basic"}):
        with pytest.raises(shoal.ShoalError) as refused:
            open_shop(ledger=path, **options)
        assert refused.value.code == "E_LEDGER"
    with pytest.raises(shoal.ShoalError) as refused:
        open_shop(ledger=tmp_path / "missing.db")
    assert refused.value.code == "E_LEDGER"


@pytest.mark.parametrize(
    "budget", [1, (1,), (1, 2, 3), ("1", 0), (1, 1), (0, 0), (float("nan"), 0), (1, -1), (float("inf"), 0)]
)
def test_a_budget_is_a_pair_of_numbers(open_shop, budget):
    with pytest.raises(shoal.ShoalError) as refused:
        open_shop(budget=budget)
    assert refused.value.code == "E_OPTION_INVALID"


def test_an_accountant_that_is_none_is_refused(open_shop):
    with pytest.raises(shoal.ShoalError):
        open_shop(budget=(1, 1e-5), accountant="magic")


def test_many_small_gaussian_queries_cost_less_under_zcdp(open_shop):
    sql = f"{CLAUSE}(epsilon = 0.1, delta = 1e-8, noise = GAUSSIAN) COUNT(DISTINCT uid) AS n FROM customers"
    spent = {}
    for accountant in ("basic", "zcdp"):
        session = open_shop(budget=(20, 1e-5), accountant=accountant)
        for _ in range(12):
            session.query(sql)
        spent[accountant] = session.spent[0]
    assert spent["basic"] == pytest.approx(1.2)
    assert spent["zcdp"] < 0.6


def test_under_zcdp_a_session_ends_too(open_shop):
    session = open_shop(budget=(0.5, 1e-5), accountant="zcdp")
    sql = f"{CLAUSE}(epsilon = 0.2, delta = 1e-8, noise = GAUSSIAN) COUNT(DISTINCT uid) AS n FROM customers"
    codes = []
    for _ in range(100):
        try:
            session.query(sql)
        except shoal.ShoalError as error:
            codes.append(error.code)
            break
    assert codes == ["E_BUDGET"]
    assert session.spent[0] <= 0.5


# ---- several private SELECTs in one statement ----------------------------------------------------------------------


def test_every_private_subquery_pays(shop):
    half = f"SELECT n FROM ({CLAUSE}(epsilon = 0.5) COUNT(DISTINCT uid) AS n FROM customers)"
    result = shop.query(f"{half} UNION ALL {half}")
    assert (result.epsilon, shop.spent[0]) == (1.0, 1.0)
    assert len(result) == 2


def test_a_common_table_is_drawn_once_however_often_it_is_read(shop):
    noisy = f"{CLAUSE}(epsilon = 0.001) COUNT(DISTINCT uid) AS n FROM customers"
    sql = f"WITH c AS ({noisy}) SELECT a.n AS first, b.n AS second, (SELECT MAX(n) FROM c) AS third FROM c AS a CROSS JOIN c AS b"
    for _ in range(5):
        (row,) = shop.query(sql).to_dicts()
        assert row["first"] == row["second"] == row["third"]
    assert shop.spent == (0.005, 0.0)


def test_private_rows_may_be_joined_with_released_ones(shop):
    options = "epsilon = 100000, delta = 0.01, max_groups_contributed = 4"
    busy = f"{CLAUSE}({options}) site, COUNT(DISTINCT uid) AS n FROM visits GROUP BY site"
    rows = "FROM visits JOIN busy USING (site) WHERE busy.n > 10"
    sql = f"WITH busy AS ({busy}) {CLAUSE}(epsilon = 100000) {COUNT} {rows}"
    assert shop.query(sql).to_dicts() == [{"n": 2000}]
    assert shop.spent == (200000.0, 0.01)


def test_the_same_aggregate_twice_is_one_draw(shop):
    owners = "COUNT(DISTINCT uid)"
    sql = f"{CLAUSE}(epsilon = 0.001) {owners} AS a, {owners} AS b, 2 * {owners} AS c FROM customers"
    (row,) = shop.query(sql).to_dicts()
    assert row["a"] == row["b"]
    assert row["c"] == 2 * row["a"]


# ---- what the session knows ----------------------------------------------------------------------------------------


def test_tables_tell_what_the_catalog_knows(open_shop):
    known = {
        "tables": {
            "customers": {
                "owner": "uid",
                "columns": {"region": {"values": ["north", None]}, "age": {"bounds": [18, 99]}},
            }
        }
    }
    tables = open_shop(known).tables()
    assert list(tables) == ["customers"]
    assert tables["customers"]["owner"] == "uid"
    assert tables["customers"]["columns"]["age"] == {"type": "integer", "bounds": [18.0, 99.0], "values": None}
    assert tables["customers"]["columns"]["region"]["values"] == ["north", None]


@pytest.mark.parametrize(
    "table",
    [
        "visits",
        "customers.uid",
        "main.visits",
        "elsewhere.customers",
        "duckdb_tables",
        "sqlite_master",
        "information_schema.tables",
    ],
)
def test_a_table_that_is_not_in_the_catalog_does_not_exist(open_shop, refusal, table):
    session = open_shop({"tables": {"customers": {"owner": "uid"}}})
    error = refusal(session, f"{CLAUSE}(epsilon = 1) COUNT(*) FROM {table}")
    assert error.code == "E_UNKNOWN_TABLE"


def test_closing_a_session_closes_what_it_opened(shop_tables):
    session = shoal.connect(shop_tables, catalog={"tables": {"customers": {"owner": "uid"}}})
    session.close()
    with pytest.raises(shoal.ShoalError):
        session.query(f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT uid) AS n FROM customers")


@pytest.mark.parametrize(
    "options", [{"user": 5}, {"ledger": 5, "budget": (1, 1e-6)}, {"catalog": "\0"}, {"catalog": 5}], ids=str
)
def test_arguments_of_another_type_are_told_like_any_other_mistake(open_shop, options):
    with pytest.raises(shoal.ShoalError) as refused:
        open_shop(**options)
    assert refused.value.code in {"E_USAGE", "E_CATALOG"}


def test_a_composition_that_is_no_text_is_refused(quiet_shop):
    with pytest.raises(shoal.ShoalError) as refused:
        quiet_shop.query(by_region("epsilon = 1, delta = 1e-6"), composition=[])
    assert refused.value.code == "E_USAGE"


def test_two_sessions_of_one_process_read_one_database(tmp_path, shop_tables):
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("frame", shop_tables["customers"])
        connection.execute("CREATE TABLE customers AS SELECT uid, region FROM frame")
    catalog = {"tables": {"customers": {"owner": "uid"}}}
    with shoal.connect(path, catalog) as first, shoal.connect(path, catalog) as second:
        for session in (first, second, first):
            assert len(session.query(f"{CLAUSE}(epsilon = 1) {COUNT} FROM customers").to_arrow()) == 1
            with pytest.raises(duckdb.Error):
                session._engine._connection.execute("SET enable_external_access = true")


def test_an_epsilon_given_beside_the_query_stays_within_the_catalogs_limit():
    catalog = {
        "tables": {"t": {"owner": "uid"}},
        "defaults": {"epsilon": 0.5, "delta": 1e-6, "max_epsilon_per_query": 1, "min_epsilon_per_query": 0.1},
    }
    with shoal.connect({"t": {"uid": [1, 2, 3]}}, catalog=catalog) as session:
        assert session.query("SELECT COUNT(DISTINCT uid) FROM t", epsilon=0.75).epsilon == 0.75
        for beyond in (1.5, 0.05):
            with pytest.raises(shoal.ShoalError) as refused:
                session.query("SELECT COUNT(DISTINCT uid) FROM t", epsilon=beyond)
            assert refused.value.code == "E_POLICY"
        assert session.spent[0] == 0.75
