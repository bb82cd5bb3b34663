"""SELECT WITH POLICY: answers, exactness, refusals, budgets, and the same face on neighbours of the policy."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shoal
from shoal.accounting.ledger import Ledger
from shoal.errors import ShoalError
from shoal.params import Budget
from shoal.policies import charging
from shoal.result import OWNER_LEVEL

ROWS = 2000
DOMAIN = {"age": [0, 100], "ward": ["A", "B", "C"]}
POLICIES = {
    "nearby_age": {"domain": DOMAIN, "secret": {"distance": {"age": 5}}, "known": [["ward"]]},
    "everything": {"domain": DOMAIN, "secret": "full"},
    "tens": {"domain": DOMAIN, "secret": {"partition": {"age": list(range(0, 100, 10))}}},
    "two_rows": {"domain": DOMAIN, "secret": {"distance": {"age": 5}}, "max_rows_per_owner": 2},
    "pairs": {"domain": {"age": [0, 100]}, "secret": {"graph": [[30, 31], [31, 40]]}},
    "facts": {"domain": DOMAIN, "secret": {"attributes": 1}},
}
CATALOG = {
    "tables": {
        "people": {"owner": "uid", "policies": POLICIES},
        "plain": {"owner": "uid"},
        "wards": {"public": True},
    }
}
HUGE = 10**6


def people(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "uid": np.arange(rows),
            "age": rng.integers(0, 101, rows),
            "ward": rng.choice(["A", "B", "C"], rows),
            "secret_column": np.arange(rows),
        }
    )


TABLES = {"people": people(), "plain": people(5), "wards": pa.table({"ward": ["A", "B", "C"]})}


@pytest.fixture(scope="module")
def session():
    with shoal.connect(TABLES, CATALOG) as opened:
        yield opened


def query(text, policy="nearby_age", epsilon=HUGE, more=""):
    return f"SELECT WITH POLICY OPTIONS(policy = '{policy}', epsilon = {epsilon}{more}) {text}"


@pytest.mark.parametrize("policy", ["nearby_age", "everything", "tens", "facts"])
@pytest.mark.parametrize(
    "text",
    [
        "SUM(age) AS s, COUNT(*) AS n, AVG(age) AS a, COUNT(ward) AS w FROM people",
        "SUM(age) AS s, AVG(age) AS a, COUNT(*) AS n FROM people WHERE age >= 18 AND ward <> 'B'",
        "age // 10 AS d, COUNT(*) AS n, AVG(age) AS a, SUM(age * age) AS s FROM people GROUP BY age // 10 ORDER BY d",
        "ward, SUM(IF(age > 50, 1, 0)) AS s, COUNT(*) FILTER (WHERE age < 9) AS f FROM people GROUP BY 1 ORDER BY 1",
        "SUM(age) + COUNT(*) AS t, SUM(age / 4.0) AS q FROM people",
        "ward, COUNT(*) AS n FROM people GROUP BY 1 HAVING COUNT(*) > 600 ORDER BY n DESC LIMIT 1",
        "SUM(NULLIF(age, 7)) AS s, AVG(NULLIF(age, 7)) AS a FROM people",
        "CAST(age AS DOUBLE) / 50 > 1 AS old, COUNT(*) AS n FROM people GROUP BY 1 ORDER BY 1",
    ],
)
def test_with_hardly_any_noise_answers_are_those_of_plain_sql(session, policy, text):
    import duckdb

    found = session.query(query(text, policy)).to_arrow()
    with duckdb.connect() as plain:
        plain.register("people", TABLES["people"])
        expected = plain.sql(f"SELECT {text}").to_arrow_table()
    assert found.column_names == expected.column_names
    for name in found.column_names:
        ours, theirs = found.column(name).to_pylist(), expected.column(name).to_pylist()
        if isinstance(theirs[0], str | bool):
            assert ours == theirs
        else:
            assert np.allclose(np.array(ours, dtype=float), np.array(theirs, dtype=float), rtol=1e-4, atol=0.01)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MEDIAN(age)", 0.5),
        ("PERCENTILE_CONT(age, 0.25)", 0.25),
        ("PERCENTILE_DISC(age, 0.9)", 0.9),
    ],
)
@pytest.mark.parametrize("where", ["", " WHERE age >= 18", " WHERE age BETWEEN 20 AND 60", " WHERE ward = 'A'"])
def test_quantiles_are_those_of_the_rows_that_are_left(session, text, expected, where):
    age, ward = TABLES["people"]["age"].to_numpy(), np.array(TABLES["people"]["ward"].to_pylist())
    kept = {
        "": age,
        " WHERE age >= 18": age[age >= 18],
        " WHERE age BETWEEN 20 AND 60": age[(age >= 20) & (age <= 60)],
        " WHERE ward = 'A'": age[ward == "A"],
    }[where]
    found = session.query(query(f"{text} AS q FROM people{where}"))["q"][0]
    method = "inverted_cdf" if "DISC" in text else "linear"
    assert found == pytest.approx(np.quantile(kept, expected, method=method), abs=0.51)


def test_quantiles_of_one_attribute_share_one_release(session):
    asked = session.query(
        query("MEDIAN(age) AS m, PERCENTILE_CONT(age, 0.5) AS p, APPROX_QUANTILES(age, 4) AS q FROM people")
    )
    assert asked["m"] == asked["p"]
    assert asked["q"][0][2] == asked["m"][0]
    assert len(asked["q"][0]) == 5


def test_a_range_of_the_attribute_stays_one_beside_other_attributes(session):
    text = "MEDIAN(age) AS m, SUM(IF(ward = 'A', 1, 0)) AS a FROM people WHERE age >= 18"
    age = TABLES["people"]["age"].to_numpy()
    assert session.query(query(text))["m"][0] == pytest.approx(np.median(age[age >= 18]), abs=0.51)


def test_what_no_secret_pair_changes_is_exact_and_free(session):
    found = session.query(query("ward, COUNT(*) AS n FROM people GROUP BY ward ORDER BY ward", epsilon=0.001))
    assert found["n"] == [TABLES["people"]["ward"].to_pylist().count(ward) for ward in "ABC"]
    assert found.epsilon == 0
    assert "exact: COUNT" in found.promise
    assert session.query(query("COUNT(*) AS n FROM people", policy="everything", epsilon=0.001))["n"] == [ROWS]


@pytest.mark.parametrize(
    ("text", "policy", "scale"),
    [
        ("SUM(age)", "nearby_age", 5),
        ("SUM(age)", "everything", 100),
        ("SUM(age)", "tens", 10),
        ("SUM(age)", "two_rows", 10),
        ("COUNT(*) FILTER (WHERE age >= 18)", "nearby_age", 1),
        ("SUM(CASE WHEN age >= 18 THEN age ELSE 0 END)", "nearby_age", 22),
        ("SUM(age), COUNT(*)", "nearby_age", 5),
    ],
)
def test_noise_follows_the_edges_through_every_expression(session, text, policy, scale):
    columns = session.explain(query(f"{text} FROM people", policy, epsilon=1)).to_dict()["columns"]
    assert f"scale {scale}" in columns[0]["mechanism"]


def test_epsilon_is_split_over_what_is_secret(session):
    data = session.explain(query("SUM(age), SUM(age * 2), COUNT(*) FROM people", epsilon=1)).to_dict()
    assert data["epsilon"] == 1
    assert ["scale 10" in c["mechanism"] for c in data["columns"][:2]] == [True, False]
    assert "scale 20" in data["columns"][1]["mechanism"]
    assert data["columns"][2]["mechanism"].startswith("exact")


def test_groups_of_an_average_are_centred_each_on_its_own(session):
    text = "age // 10 AS d, AVG(age) AS a FROM people GROUP BY 1"
    column = session.explain(query(text, epsilon=1)).to_dict()["columns"][0]
    assert "scale 4, 20" in column["mechanism"] or "scale 4, 18" in column["mechanism"]
    found = session.query(query(text, epsilon=0.01))
    assert all(10 * d <= a <= 10 * d + 9 for d, a in zip(found["d"], found["a"], strict=True))


def test_empty_groups_are_zero_plus_noise(session):
    empty = {"people": people(0)}
    with shoal.connect(empty | {k: v for k, v in TABLES.items() if k != "people"}, CATALOG) as opened:
        found = opened.query(query("ward, COUNT(*) AS n, SUM(age) AS s, AVG(age) AS a FROM people GROUP BY ward"))
        assert sorted(found["ward"]) == ["A", "B", "C"]
        assert found["n"] == found["s"] == [0, 0, 0]
        assert all(0 <= a <= 100 for a in found["a"])
        assert opened.query(query("MEDIAN(age) AS m FROM people"))["m"] == [50.0]


# ---- the promise is said -----------------------------------------------------------------------------------------


def test_whatever_shows_an_answer_says_what_is_promised(session, tmp_path):
    found = session.query(query("SUM(age) AS s FROM people", epsilon=1))
    assert found.promise.startswith("policy nearby_age: hidden: age up to a distance of 5")
    assert repr(found).splitlines()[0] == found.promise
    assert found.to_text().splitlines()[0] == found.promise
    assert found._repr_html_().startswith("<div>policy nearby_age")
    for table in (found.to_arrow(), found.intervals().to_arrow()):
        assert table.schema.metadata[b"shoal.promise"].decode() == found.promise
    pq.write_table(found.to_arrow(), tmp_path / "answer.parquet")
    assert pq.read_schema(tmp_path / "answer.parquet").metadata[b"shoal.promise"].decode() == found.promise
    owner_level = session.query(
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(DISTINCT uid) AS n FROM people"
    )
    assert owner_level.promise == OWNER_LEVEL
    assert owner_level.to_arrow().schema.metadata[b"shoal.promise"] == OWNER_LEVEL.encode()


def test_explain_begins_with_the_promise_and_puts_owner_level_privacy_beside_it(session):
    lines = session.query("EXPLAIN PRIVACY " + query("SUM(age), COUNT(age) FROM people WHERE age > 3", epsilon=1))[
        "explanation"
    ]
    assert lines[0] == "PROMISE: policy nearby_age (weaker than owner-level privacy)"
    assert lines[1].strip().startswith("hidden: age up to a distance of 5")
    assert lines[2].strip().startswith("not hidden: presence")
    assert any("owner-level loss" in line for line in lines)
    assert any("owner-level privacy would be as accurate" in line for line in lines)


def test_intervals_are_those_of_the_noise(session):
    ends = session.query(query("SUM(age) AS s, COUNT(*) AS n, AVG(age) AS a FROM people", epsilon=1)).intervals(0.95)
    assert ends.columns == ["s", "s_low", "s_high", "n", "n_low", "n_high", "a", "a_low", "a_high"]
    (row,) = ends.to_dicts()
    assert row["s_high"] - row["s"] == row["s"] - row["s_low"] == 30  # ⌈10·ln 20⌉ − 1, one draw of scale 10
    assert row["n_low"] == row["n_high"] == ROWS


# ---- refusals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        (query("SUM(age) FROM people JOIN wards USING (ward)"), "E_UNSUPPORTED"),
        (query("SUM(age) FROM (SELECT * FROM people)"), "E_UNSUPPORTED"),
        (query("SUM(age) FROM people WHERE age IN (SELECT 1)"), "E_UNSUPPORTED"),
        ("WITH a AS (SELECT 1 AS x) " + query("SUM(age) FROM people"), "E_UNSUPPORTED"),
        (f"SELECT * FROM ({query('SUM(age) AS s FROM people')})", "E_UNSUPPORTED"),
        (query("SUM(age) FROM people") + " UNION ALL " + query("SUM(age) FROM people"), "E_UNSUPPORTED"),
        (
            query("SUM(age) AS s FROM people") + " UNION ALL SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM people",
            "E_POLICY",
        ),
        (query("SUM(uid) FROM people"), "E_UNKNOWN_COLUMN"),
        (query("SUM(secret_column) FROM people"), "E_UNKNOWN_COLUMN"),
        (query("uid, COUNT(*) FROM people GROUP BY uid"), "E_UNKNOWN_COLUMN"),
        (query("age FROM people"), "E_RAW_OUTPUT"),
        (query("* FROM people"), "E_RAW_OUTPUT"),
        (query("MAX(age) FROM people"), "E_AGG_NOT_DP"),
        (query("STDDEV(age) FROM people"), "E_AGG_NOT_DP"),
        (query("COUNT(DISTINCT age) FROM people"), "E_UNSUPPORTED"),
        (query("SUM(age, contribution_bounds_per_group => (0, 1)) FROM people"), "E_UNSUPPORTED"),
        (query("SUM(ward) FROM people"), "E_UNSUPPORTED"),
        (query("MEDIAN(age + 1) FROM people"), "E_UNSUPPORTED"),
        (query("MEDIAN(ward) FROM people"), "E_UNSUPPORTED"),
        (query("ward, MEDIAN(age) FROM people GROUP BY ward"), "E_UNSUPPORTED"),
        (query("MEDIAN(age) FROM people WHERE age % 2 = 0"), "E_UNSUPPORTED"),
        (query("PERCENTILE_CONT(age, 2) FROM people"), "E_UNSUPPORTED"),
        (query("SUM(age) FROM people", policy="unknown"), "E_OPTION_INVALID"),
        (query("SUM(age) FROM plain"), "E_OPTION_INVALID"),
        (query("COUNT(*) FROM wards"), "E_UNSUPPORTED"),
        (query("SUM(age) FROM nobody"), "E_UNKNOWN_TABLE"),
        (query("SUM(age) FROM read_csv('x')"), "E_TABLE_FUNCTION"),
        (query("SUM(age) FROM people", epsilon=0), "E_OPTION_INVALID"),
        (query("SUM(age) FROM people", more=", delta = 0.1"), "E_OPTION_UNKNOWN"),
        (query("SUM(age) FROM people", more=", epsilon = 1"), "E_OPTION_INVALID"),
        ("SELECT WITH POLICY OPTIONS(epsilon = 1) SUM(age) FROM people", "E_OPTION_INVALID"),
        ("SELECT WITH POLICY OPTIONS(policy = 'nearby_age') SUM(age) FROM people", "E_OPTION_INVALID"),
        (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(policy = 'nearby_age', epsilon = 1) SUM(age) FROM people",
            "E_OPTION_UNKNOWN",
        ),
        (query("random() AS r, COUNT(*) FROM people GROUP BY 1"), "E_FUNCTION_NOT_ALLOWED"),
    ],
)
def test_refusals_carry_their_codes_and_spend_nothing(sql, code):
    with shoal.connect(TABLES, CATALOG, budget=(1000, 0)) as opened:
        for ask in (opened.query, opened.explain):
            with pytest.raises(ShoalError) as refused:
                ask(sql)
            assert refused.value.code == code
        assert opened.spent == (0, 0)
        assert opened.ledger.entries() == []


def test_an_unknown_column_names_the_attributes(session):
    with pytest.raises(ShoalError) as refused:
        session.query(query("SUM(income) FROM people"))
    assert "age, ward" in refused.value.hint


def test_plain_sql_never_uses_a_policy():
    catalog = CATALOG | {"defaults": {"epsilon": 1, "delta": 1e-6}}
    with shoal.connect(TABLES, catalog) as opened:
        assert opened.query("SELECT COUNT(*) AS n FROM people").promise == OWNER_LEVEL


# ---- budgets -----------------------------------------------------------------------------------------------------


def test_a_budget_about_owners_is_charged_the_owner_level_loss():
    with shoal.connect(TABLES, CATALOG, budget=(30, 0)) as opened:
        opened.query(query("SUM(age) FROM people", epsilon=1))
        assert opened.spent == (20.0, 0.0)
        for text, epsilon in (("SUM(age) FROM people", 1), ("COUNT(*) FROM people", 1), ("AVG(age) FROM people", 0.1)):
            with pytest.raises(ShoalError) as refused:
                opened.query(query(text, epsilon=epsilon))
            assert refused.value.code == "E_BUDGET"
        assert opened.spent == (20.0, 0.0)


def test_a_ledger_of_the_policy_is_charged_what_is_asked(tmp_path):
    catalog = shoal.Catalog.from_dict(CATALOG)
    chosen = catalog.table("people").policies["nearby_age"]
    promise = charging.promise_of(chosen.rule, chosen.max_rows_per_owner)
    Ledger.create(tmp_path / "ledger", Budget(Fraction(3), Fraction(0)), promise=promise)
    with shoal.connect(TABLES, catalog, ledger=tmp_path / "ledger") as opened:
        found = opened.query(query("SUM(age), COUNT(*), MEDIAN(age) FROM people", epsilon=1))
        assert opened.ledger.spent == (opened.ledger.entries()[0].asked[0], 0)
        assert opened.ledger.spent[0] == found.exact_epsilon <= 1
        opened.query("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5) COUNT(DISTINCT uid) FROM people")
        assert opened.ledger.spent[0] == found.exact_epsilon + 2 * Fraction(1, 2)
        with pytest.raises(ShoalError) as refused:
            opened.query(query("COUNT(*) FILTER (WHERE age < 9) FROM people", policy="tens", epsilon=5))
        assert refused.value.code == "E_BUDGET"


def test_the_catalogs_limit_holds_for_what_a_policy_costs_on_the_budget():
    catalog = CATALOG | {"defaults": {"max_epsilon_per_query": 2}}
    with shoal.connect(TABLES, catalog, budget=(1000, 0)) as opened:
        with pytest.raises(ShoalError, match="E_POLICY: On this budget the query would cost epsilon = 20"):
            opened.query(query("SUM(age) FROM people", epsilon=1))
        assert opened.spent == (0.0, 0.0)
        opened.query(query("SUM(age) FROM people", epsilon=0.1))
    with shoal.connect(TABLES, catalog) as opened:
        opened.query(query("SUM(age) FROM people", epsilon=1))


def test_a_session_without_a_budget_adds_up_promise_by_promise():
    with shoal.connect(TABLES, CATALOG) as opened:
        opened.query(query("SUM(age) FROM people", epsilon=1))
        opened.query(query("SUM(age) FROM people", epsilon=0.5))
        opened.query(query("SUM(age) FROM people", policy="everything", epsilon=0.25))
        assert opened.spent_by_promise == {"nearby_age": 1.5, "everything": 0.25}
        assert opened.spent == (0, 0)


def test_limits_of_the_catalog_hold_for_policies_too():
    catalog = CATALOG | {"defaults": {"max_epsilon_per_query": 2, "min_epsilon_per_query": 0.5}}
    with shoal.connect(TABLES, catalog, budget=(1000, 0)) as opened:
        for epsilon in (3, 0.1):
            with pytest.raises(ShoalError) as refused:
                opened.query(query("SUM(age) FROM people", epsilon=epsilon))
            assert refused.value.code == "E_POLICY"


def test_a_failure_after_the_charge_stays_charged_and_says_one_thing(monkeypatch):
    from shoal.release.policy_clause import run

    def fails(*_, **__):
        raise RuntimeError("the secret")

    with shoal.connect(TABLES, CATALOG, budget=(30, 0)) as opened:
        monkeypatch.setattr(run, "read_records", fails)
        with pytest.raises(ShoalError) as refused:
            opened.query(query("SUM(age) FROM people", epsilon=1))
        assert refused.value.code == "E_EXECUTION"
        assert "the secret" not in str(refused.value)
        assert opened.spent == (20.0, 0.0)


# ---- the same face on neighbours ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "age // 10 AS d, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY 1",
        "SUM(age / 7) AS s, MEDIAN(age) AS m FROM people WHERE age < 60",
        "SUM(1 / (age - 50)) AS s FROM people",
    ],
)
def test_neighbours_show_the_same_face(text):
    """Columns, types, groups, cost and promise do not depend on the values: not even on values that no domain has."""
    faces = []
    for ages in ([50, 18, 99], [51, 17, 100], [None, -5, 10**12], [50, 50, 50]):
        rows = pa.table({"uid": [1, 2, 3], "age": pa.array(ages, pa.int64()), "ward": ["A", "B", "zzz"]})
        with shoal.connect(TABLES | {"people": rows}, CATALOG) as opened:
            found = opened.query(query(text, epsilon=1))
            faces.append((found.columns, str(found.to_arrow().schema), len(found), found.epsilon, found.promise))
            if "d" in found.columns:
                faces[-1] = (*faces[-1], sorted(found["d"]))
    assert all(face == faces[0] for face in faces)


def test_rows_of_an_owner_are_limited_and_rows_without_one_are_dropped():
    rows = pa.table({"uid": pa.array([1] * 10 + [None] * 5, pa.int64()), "age": [30] * 15, "ward": ["A"] * 15})
    with shoal.connect(TABLES | {"people": rows}, CATALOG) as opened:
        for policy, expected in (("nearby_age", 1), ("two_rows", 2)):
            found = opened.query(query("ward, COUNT(*) AS n FROM people WHERE ward = 'A' GROUP BY ward", policy))
            assert found["n"] == [expected]


# ---- the catalog -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"secret": "half"},
        {"secret": {"distance": {"age": 0}}},
        {"secret": {"distance": {"height": 1}}},
        {"secret": {"partition": {"age": [500]}}},
        {"domain": {}},
        {"domain": {"age": [9, 0]}},
        {"domain": {"age": "all"}},
        {"domain": {"uid": [0, 5], "age": [0, 5]}},
        {"known": [["ward"], ["age"]]},
        {"known": [["height"]]},
        {"max_rows_per_owner": 0},
        {"unknown": 1},
    ],
)
def test_a_wrong_policy_in_the_catalog_is_refused(change):
    written = POLICIES["nearby_age"] | change
    with pytest.raises(ShoalError) as refused:
        shoal.Catalog.from_dict({"tables": {"people": {"owner": "uid", "policies": {"p": written}}}})
    assert refused.value.code == "E_CATALOG"


def test_a_public_table_has_no_policies():
    with pytest.raises(ShoalError, match="nobody to protect"):
        shoal.Catalog.from_dict({"tables": {"t": {"public": True, "policies": {"p": POLICIES["everything"]}}}})


def test_an_attribute_that_is_no_column_is_told_before_anything_is_read():
    policies = {"p": {"domain": {"height": [0, 5]}, "secret": "full"}}
    with shoal.connect(TABLES, {"tables": {"people": {"owner": "uid", "policies": policies}}}) as opened:
        with pytest.raises(ShoalError) as refused:
            opened.query(query("SUM(height) FROM people", policy="p"))
        assert refused.value.code == "E_CATALOG"


def test_the_owner_level_loss_of_an_exact_answer_is_infinite(session):
    assert session.explain(query("COUNT(*) FROM people")).to_dict()["owner_level_epsilon"] == math.inf
    assert session.explain(query("SUM(age) FROM people", epsilon=1)).to_dict()["owner_level_epsilon"] == 20
    assert session.explain(query("SUM(age) FROM people"), epsilon=Fraction(1)).to_dict()["owner_level_epsilon"] == 20


@pytest.mark.parametrize("budget", [None, (5, 0)])
def test_a_query_that_fails_under_a_policy_suspends_its_user_with_or_without_a_budget(budget, monkeypatch):
    def fails(*_, **__):
        raise MemoryError

    sql = query("SUM(age) AS s FROM people", policy="everything", epsilon=1 / 1024)
    catalog = CATALOG | {"defaults": {"min_epsilon_per_query": 1e-6}}
    with shoal.connect(TABLES, catalog, budget=budget) as opened:
        opened.query(sql)
        monkeypatch.setattr("shoal.release.policy_clause.run.read_records", fails)
        codes = []
        for _ in range(3):
            with pytest.raises(ShoalError) as refused:
                opened.query(sql)
            codes.append(refused.value.code)
        assert codes == ["E_EXECUTION", "E_SUSPENDED", "E_SUSPENDED"]
        assert [entry.state for entry in opened.ledger.entries()] == ["answered", "failed"]
        assert (opened.spent[0] == 0) == (budget is None)


# ---- intervals -------------------------------------------------------------------------------------------------------


def plain_answers(text):
    import duckdb

    with duckdb.connect() as plain:
        plain.register("people", TABLES["people"])
        spelled = text.replace("PERCENTILE_", "QUANTILE_")
        return plain.sql(f"SELECT {spelled}").to_arrow_table().to_pylist()


COVERED = [
    ("nearby_age", "AVG(age) AS x FROM people WHERE age >= 18"),
    ("everything", "ward, AVG(age) AS x FROM people GROUP BY ward ORDER BY ward"),
    ("facts", "age // 50 AS half, AVG(age * 2 - 30) AS x FROM people WHERE age < 100 GROUP BY half ORDER BY half"),
    ("nearby_age", "MEDIAN(age) AS x FROM people"),
    ("everything", "PERCENTILE_DISC(age, 0.9) AS x FROM people"),
    ("everything", "PERCENTILE_CONT(age, 0.25) AS x FROM people WHERE age BETWEEN 20 AND 60"),
    ("tens", "MEDIAN(age) AS x FROM people WHERE ward = 'A'"),
]


@pytest.mark.parametrize(("policy", "text"), COVERED)
def test_intervals_of_averages_and_quantiles_hold_the_exact_value(session, policy, text):
    """30 answers at 90%: fewer than 16 held would be chance in less than one run of a million (binomial, all rows)."""
    exact = [row["x"] for row in plain_answers(text)]
    held = np.zeros(len(exact))
    for _ in range(30):
        rows = session.query(query(text, policy, epsilon=0.2)).intervals(level=0.9).to_dicts()
        held += [row["x_low"] - 1e-3 <= true <= row["x_high"] + 1e-3 for row, true in zip(rows, exact, strict=True)]
        assert all(row["x_low"] - 1e-9 <= row["x"] <= row["x_high"] + 1e-9 for row in rows)
    assert held.min() >= 16


def test_intervals_narrow_with_epsilon_and_widen_with_the_level(session):
    text = "AVG(age) AS a, MEDIAN(age) AS m FROM people WHERE age >= 18"

    def width(column, epsilon, level):
        rows = [session.query(query(text, "everything", epsilon)).intervals(level).to_dicts()[0] for _ in range(5)]
        return np.median([row[f"{column}_high"] - row[f"{column}_low"] for row in rows])

    for column in "am":
        assert width(column, 10, 0.9) < width(column, 0.1, 0.9)
        assert width(column, 0.1, 0.5) < width(column, 0.1, 0.999)


def test_intervals_follow_rows_through_having_order_and_limit(session):
    asked = query("age // 10 AS d, COUNT(*) AS n FROM people GROUP BY d HAVING COUNT(*) > 150 ORDER BY n DESC LIMIT 3")
    rows = session.query(asked).intervals().to_dicts()
    assert len(rows) == 3
    assert all(row["n_low"] <= row["n"] <= row["n_high"] for row in rows)


@pytest.mark.parametrize(
    ("total", "reach", "count", "count_reach", "ends"),
    [
        (10, 2, 10, 1, (8 / 11, 12 / 9)),
        (-10, 2, 10, 1, (-12 / 9, -8 / 11)),
        (0, 2, 10, 1, (-2 / 9, 2 / 9)),
        (10, 2, 1, 1, (4, math.inf)),
        (1, 2, 1, 1, (-math.inf, math.inf)),
        (10, 2, -5, 1, (-math.inf, math.inf)),
    ],
)
def test_a_ratio_lies_between_the_ratios_of_its_ends(total, reach, count, count_reach, ends):
    from shoal.release.policy_clause.intervals import ratio_ends

    assert ratio_ends(total, reach, count, count_reach) == pytest.approx(ends)


# ---- the ε for an error ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error", "owners"),
    [
        ("SUM(age) AS s FROM people", 50, None),
        ("ward, COUNT(*) AS n, SUM(age) AS s FROM people WHERE age > 9 GROUP BY ward", 200, None),
        ("AVG(age) AS a FROM people WHERE age >= 18", 1, ROWS),
    ],
)
def test_epsilon_for_an_error_is_the_smallest_that_reaches_it(session, text, error, owners):
    from shoal.release.policy_clause.accuracy import widest

    epsilon = session.epsilon_for(query(text, epsilon=1), error=error, owners=owners)

    def width(at):
        return widest(session._under_policy(query(text), Fraction(at))[0], 0.95, owners)

    assert width(epsilon) <= error < width(epsilon * 0.98)


@pytest.mark.parametrize(
    ("text", "code"),
    [("MEDIAN(age) FROM people", "E_UNSUPPORTED"), ("AVG(age) FROM people", "E_USAGE"), ("1 FROM people", "E_USAGE")],
)
def test_an_error_that_cannot_be_promised_is_refused(session, text, code):
    with pytest.raises(ShoalError) as refused:
        session.epsilon_for(query(text, epsilon=1), error=10)
    assert refused.value.code == code


@pytest.mark.parametrize("policy", ["nearby_age", "tens", "everything"])
def test_answers_read_back_from_bytes_have_the_same_intervals(session, policy):
    asked = "COUNT(*) AS n, AVG(age) AS a, MEDIAN(age) AS m, APPROX_QUANTILES(age, 4) AS q FROM people"
    result = session.query(query(asked, policy, epsilon=0.3))
    again = shoal.Result.from_bytes(result.to_bytes())
    assert again.promise == result.promise
    for level in (0.5, 0.99):
        assert again.intervals(level).to_dicts() == result.intervals(level).to_dicts()


@pytest.mark.parametrize("policy", ["nearby_age", "everything", "tens", "two_rows", "facts"])
@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("COUNT(*) AS n FROM people", 0),
        ("AVG(age) AS a, COUNT(*) AS n FROM people WHERE age > 17", 1),
        ("age // 50 AS h, SUM(age) AS s FROM people GROUP BY 1", 1),
        ("MEDIAN(age) AS m, SUM(age) AS s FROM people", 1),
        ("COUNT(*) AS n, SUM(age) AS s, AVG(age) AS a FROM people", 1),
    ],
)
def test_a_plan_uses_what_it_charges(session, policy, text, used):
    """The scales that are drawn lose, under the policy itself, what is asked for; nothing where nothing can move."""
    plan, _ = session._under_policy(query(text, policy, epsilon=1))
    assert used - Fraction(1, 10**6) <= plan.loss_under(plan.rule) <= plan.epsilon <= used


# ---- what it costs under other promises ------------------------------------------------------------------------------


def values_of(family, index):
    """v(x) of one family, coordinate by coordinate."""
    table = family.table
    found = [0] * table.coordinates
    if table.groups[index] >= 0:
        found[int(table.groups[index])] = int(table.amounts[index])
    return found


@pytest.mark.parametrize("other", ["everything", "tens", "facts", "nearby_age"])
@pytest.mark.parametrize(
    "text",
    ["AVG(age) AS a, COUNT(*) AS n FROM people WHERE age > 17", "age // 50 AS h, SUM(age) AS s FROM people GROUP BY 1"],
)
def test_the_loss_under_another_promise_is_the_largest_sum_over_one_edge(session, other, text):
    plan, _ = session._under_policy(query(text, "two_rows", epsilon=1))
    rule = session._under_policy(query("COUNT(*) FROM people", other, epsilon=1))[0].rule
    seen = plan.rule.domain.projected(plan.families[0].names)
    noisy = [each for each in plan.families if each.scale]
    exact = [each for each in plan.families if not each.scale]
    vectors = [[values_of(each, i) for i in range(seen.size)] for each in noisy]

    def lost(x, y):
        gaps = (sum(abs(a - b) for a, b in zip(v[x], v[y], strict=True)) for v in vectors)
        return sum((Fraction(gap) / each.scale for gap, each in zip(gaps, noisy, strict=True)), Fraction(0))

    whole = [(age, "A") for age in range(101)]  # the ward plays no part in these questions
    edges = [(x, y) for x in range(101) for y in range(x) if rule.protects(whole[x], whole[y])]
    assert not exact
    assert seen.names == ("age",)
    largest = max((lost(x, y) for x, y in edges), default=Fraction(0))
    assert plan.loss_under(rule) == 2 * rule.moves * largest
    norms = [
        sum(Fraction(sum(map(abs, v[x]))) / f.scale for v, f in zip(vectors, noisy, strict=True)) for x in range(101)
    ]
    assert plan.owner_loss == 2 * max(norms)
