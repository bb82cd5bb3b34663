"""An answer says what of each owner counts, why groups or numbers are missing, and when noise is larger than what is shown."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import shoal

OWNERS, ROWS = 300, 3000
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"


@pytest.fixture(scope="module")
def session():
    """Ten rows of each owner; orders of two rows; twenty towns."""
    number = np.arange(ROWS)
    orders = pa.table(
        {
            "uid": number % OWNERS,
            "order_id": number // 2,
            "town": number % 20,
            "spend": (number % 50).astype(float),
        }
    )
    towns = pa.table({"town": np.arange(20), "land": np.arange(20) % 4})
    facts = {"spend": {"bounds": [0, 50]}}
    tables = {"orders": {"owner": "uid", "columns": facts}, "towns": {"public": True}}
    defaults = {"epsilon": 1.0, "delta": 1e-6, "max_groups_per_owner": 4}
    catalog = {"tables": tables, "defaults": defaults}
    return shoal.connect({"orders": orders, "towns": towns}, catalog=catalog)


def notes(session, sql):
    return " ".join(session.query(sql).notes)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT town, COUNT(*) FROM orders GROUP BY town", "Each owner counts in at most 4 groups"),
        ("SELECT COUNT(DISTINCT order_id) FROM orders", "COUNT(DISTINCT order_id) counts at most"),
        (f"{CLAUSE}(epsilon = 1) COUNT(*, contribution_bounds_per_group => (0, 3)) FROM orders", "counts at most 3 rows of each"),
        (f"{CLAUSE}(epsilon = 1, max_rows_contributed = 7) COUNT(*) FROM orders", "Each owner counts with at most 7 rows"),
        (f"{CLAUSE}(epsilon = 1) SUM(spend, contribution_bounds_per_group => (0, 9)) FROM orders", "is clamped to [0, 9]"),
        (f"{CLAUSE}(epsilon = 1) AVG(spend) FROM orders", "AVG(spend) is the average of the owners' own averages"),
        (f"{CLAUSE}(epsilon = 1) MEDIAN(spend) FROM orders", "looks at no more than"),
    ],
)  # fmt: skip
def test_limits_on_each_owner_are_said_on_the_answer(session, sql, said):
    assert said in notes(session, sql)


def test_a_catalog_bound_of_one_row_that_clamps_a_sum_is_said(session):
    sql = f"{CLAUSE}(epsilon = 1) SUM(spend) FROM orders"
    assert "bounds of a column are those of one row" in notes(session, sql)


def test_notes_reach_the_terminal_and_the_notebook(session):
    result = session.query("SELECT COUNT(DISTINCT order_id) FROM orders")
    assert "note: COUNT(DISTINCT order_id) counts at most" in repr(result)
    assert "counts at most" in result._repr_html_()


def test_an_answer_without_groups_says_how_many_owners_a_group_needs_and_what_helps(session):
    sql = f"{CLAUSE}(epsilon = 0.01, delta = 1e-9, max_groups_contributed = 4) town, COUNT(*) FROM orders GROUP BY town"
    said = notes(session, sql)
    plan = session.explain(sql).to_dict()["selects"][0]["selection"]
    assert f"it takes {plan['owners_for_even_chance']:,} owners" in said
    assert "for an even chance" in said
    assert "a larger epsilon" in said
    assert "a smaller max_groups_contributed than 4" in said
    assert "values of town in the catalog" in said


def test_keys_of_a_public_table_come_with_the_clause_that_lists_them(session):
    clause = f"{CLAUSE}(epsilon = 0.01, delta = 1e-9, max_groups_contributed = 1)"
    sql = f"{clause} t.land, COUNT(*) FROM orders o JOIN towns t ON o.town = t.town GROUP BY t.land"
    found = notes(session, sql)
    assert "OPTIONS(group_selection_strategy = PUBLIC_GROUPS, epsilon = 0.01, delta = 1e-9" in found
    assert "FROM orders o RIGHT JOIN towns t ON o.town = t.town GROUP BY t.land." in found


def test_an_answer_with_groups_says_which_are_mostly_left_out(session):
    sql = f"{CLAUSE}(epsilon = 9, delta = 1e-6) town % 2 AS k, COUNT(DISTINCT uid) FROM orders GROUP BY k"
    assert "has an even chance of appearing" in notes(session, sql)


def test_a_cell_without_bounds_says_how_many_owners_finding_them_takes(session):
    # An empty bin stands out by chance in 3 of 100 answers: six of them in a row do so once in 10⁹ runs.
    said = [notes(session, f"{CLAUSE}(epsilon = 0.001) SUM(town) FROM orders") for _ in range(6)]
    assert any("so the cell is NULL" in each and "Finding them takes about" in each for each in said)


@pytest.mark.parametrize("name", ["SUM", "AVG", "MIN", "MAX", "MEDIAN", "STDDEV"])
def test_what_to_write_instead_of_a_cell_without_bounds_is_understood(session, name):
    # As above: none of six.
    said = " ".join(notes(session, f"{CLAUSE}(epsilon = 0.001) {name}(town) FROM orders") for _ in range(6))
    argument = re.search(r"as the last argument: (\w+ => \(0, 100\))", said)
    assert argument is not None
    (row,) = session.query(f"{CLAUSE}(epsilon = 1) {name}(town, {argument[1]}) AS x FROM orders").to_dicts()
    assert row["x"] is not None


def test_an_error_bar_larger_than_the_number_warns(session):
    weak = session.query(f"{CLAUSE}(epsilon = 0.0000001) COUNT(DISTINCT uid) AS n FROM orders")
    strong = session.query(f"{CLAUSE}(epsilon = 100) COUNT(DISTINCT uid) AS n FROM orders")
    # |noise| exceeds 3 of its own scales with chance 5%: at worst the warning is missing from one run in twenty
    assert ("n: the noise is larger" in " ".join(weak.notes)) == (
        abs(weak["n"][0]) < weak.intervals()["n_high"][0] - weak["n"][0]
    )
    assert "the noise is larger" not in " ".join(strong.notes)


def test_a_number_without_an_interval_has_a_reason(session):
    told = session.query(f"{CLAUSE}(epsilon = 1, kappa = 1) MEDIAN(spend) AS m, MEDIAN(spend) + 1 AS r FROM orders")
    assert {"m_low", "r_low"} <= set(told.intervals().columns)
    mixed = session.query(
        f"SELECT MEDIAN(n) AS r FROM ({CLAUSE}(epsilon = 1, kappa = 1) COUNT(*) AS n FROM orders) AS s"
    )
    assert "r is computed from noisy numbers, and has no interval of its own." in mixed.notes


@pytest.mark.parametrize("epsilon", ["1e-10", "1e-8", "1e-6"])
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_a_count_at_a_tiny_epsilon_has_noise_and_an_interval_that_says_so(session, epsilon, delta):
    sql = f"{CLAUSE}(epsilon = {epsilon}, delta = {delta}) COUNT(*) AS n FROM orders"
    row = session.query(sql).intervals().to_dicts()[0]
    assert row["n_high"] - row["n_low"] > 1000


@pytest.mark.parametrize("aggregate", ["AVG(v)", "MAX(v)", "COUNT(*)"])
def test_an_aggregate_over_groups_of_single_owners_is_refused_with_the_way_out(session, aggregate):
    sql = f"SELECT {aggregate} FROM (SELECT order_id, SUM(spend) AS v FROM orders GROUP BY order_id) AS o"
    with pytest.raises(shoal.ShoalError) as refused:
        session.query(sql)
    assert refused.value.code == "E_UID_LOST"
    assert "Add uid to GROUP BY" in str(refused.value.hint)
    session.query(sql.replace("SELECT order_id,", "SELECT order_id, uid,").replace("BY order_id", "BY order_id, uid"))


def test_an_average_over_released_groups_is_still_answered(session):
    assert len(session.query("SELECT AVG(n) FROM (SELECT town, COUNT(*) AS n FROM orders GROUP BY town) AS t")) == 1


def test_zeros_alone_are_no_bounds():
    """Where only zeros stand out, 0 ± 0 would say that there is nothing else."""
    table = {"uid": list(range(60)), "x": [0.0 if uid % 2 else 5.0 * uid for uid in range(60)]}
    catalog = {"tables": {"t": {"owner": "uid"}}, "defaults": {"epsilon": 1, "delta": 1e-6}}
    asked = shoal.connect({"t": table}, catalog=catalog)
    for _ in range(4):
        result = asked.query("SELECT AVG(x) AS a FROM t")
        (row,) = result.intervals().to_dicts()
        assert (row["a"] is None and any(note.startswith("a: no bounds") for note in result.notes)) or (
            row["a_low"] < row["a_high"]
        )


def test_the_note_about_averages_of_owners_names_the_average_of_rows(session):
    said = notes(session, f"{CLAUSE}(epsilon = 100) AVG(town) FROM orders")
    written = re.search(r"The average of rows may be another: (SUM\(town\) / COUNT\(town\))\.", said)
    assert written is not None
    # The average is 9.5.
    (row,) = session.query(f"{CLAUSE}(epsilon = 100) {written[1]} AS a FROM orders").to_dicts()
    assert 5 < row["a"] < 15
    computed = notes(session, f"{CLAUSE}(epsilon = 100) AVG(ABS(town)) FROM orders")
    assert "The average of rows may be another: SUM(x) / COUNT(x)." in computed
