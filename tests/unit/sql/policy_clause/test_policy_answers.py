"""SELECT WITH POLICY: answers beside plain SQL, noise, what is promised, and the same face on neighbours of the policy."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from policy_people import CATALOG, ROWS, TABLES, people, query

import shoal
from shoal.result import OWNER_LEVEL


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
