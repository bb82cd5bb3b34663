"""Windows in the wrong place: refused before anything is read, whatever rows they look at."""

from __future__ import annotations

import pytest

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6)"
EVERYBODY = "RANK() OVER (ORDER BY spend)"
OWN = "RANK() OVER (PARTITION BY uid ORDER BY spend)"
PLACES = {
    "a group key": "{w} AS k, COUNT(items) FROM visits GROUP BY 1",
    "an aggregate": "SUM({w}, contribution_bounds_per_group => (0, 9)) FROM visits",
    "a distinct count": "COUNT(DISTINCT {w}) FROM visits",
    "FILTER": "COUNT(items) FILTER (WHERE {w} > 2) FROM visits",
    "WHERE": "COUNT(items) FROM visits WHERE {w} > 2",
    "a condition of EXISTS": "COUNT(age) FROM customers c WHERE EXISTS (SELECT 1 FROM visits WHERE visits.uid = c.uid AND {w} > 2)",
    "a key of a subquery": "COUNT(n) FROM (SELECT uid, {w} AS k, COUNT(*) AS n FROM visits GROUP BY uid, 2)",
    "an aggregate of a subquery": "COUNT(n) FROM (SELECT uid, SUM({w}) AS n FROM visits GROUP BY uid)",
    "a join": "COUNT(age) FROM customers c JOIN (SELECT uid AS u, spend FROM visits) v ON v.u = c.uid AND {w} > 2",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_window_over_everybody_is_refused_wherever_it_stands(quiet_shop, refusal, place):
    error = refusal(quiet_shop, f"{CLAUSE} {PLACES[place].format(w=EVERYBODY)}")
    assert error.code == "E_CROSS_USER"
    assert error.position is not None


@pytest.mark.parametrize("place", [place for place in PLACES if place != "a join"])
def test_a_window_over_one_owners_rows_stands_in_a_select_list_only(quiet_shop, refusal, place):
    error = refusal(quiet_shop, f"{CLAUSE} {PLACES[place].format(w=OWN)}")
    assert error.code == "E_UNSUPPORTED"
    assert "subquery" in error.hint


def test_a_window_in_a_window_is_refused(quiet_shop, refusal):
    nested = f"SELECT uid, SUM({OWN}) OVER (PARTITION BY uid) AS s FROM visits"
    assert refusal(quiet_shop, f"{CLAUSE} SUM(s) FROM ({nested})").code == "E_UNSUPPORTED"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT region FROM regions WHERE RANK() OVER (ORDER BY region) = 1",
        "SELECT continent, COUNT(*) FROM regions GROUP BY continent HAVING RANK() OVER (ORDER BY continent) = 1",
        "SELECT SUM(RANK() OVER (ORDER BY region)) FROM regions",
    ],
)
def test_public_rows_are_no_exception(quiet_shop, refusal, sql):
    assert refusal(quiet_shop, sql).code == "E_UNSUPPORTED"


@pytest.mark.parametrize(
    "sql",
    [
        f"{CLAUSE} COUNT(r) FROM (SELECT uid, {OWN} AS r FROM visits) WHERE r = 1",
        f"{CLAUSE} COUNT(spend) FROM (SELECT uid, spend FROM visits QUALIFY {OWN} = 1)",
        f"{CLAUSE} site, COUNT(items) AS n FROM visits GROUP BY site ORDER BY RANK() OVER (ORDER BY n)",
        f"SELECT site, SUM(n) OVER (ORDER BY site) AS s FROM ({CLAUSE} site, COUNT(items) AS n FROM visits GROUP BY site)",
        "SELECT continent, SUM(COUNT(*)) OVER () AS n FROM regions GROUP BY continent",
    ],
)
def test_windows_in_their_place_are_planned(quiet_shop, sql):
    quiet_shop.plan(sql)
