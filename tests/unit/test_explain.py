"""Plans in words and numbers: what an explanation tells is what will be done, and nothing was read for it."""

from __future__ import annotations

import json

import pytest

import shoal
from shoal.mechanisms import groups

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"


def explained(session, sql: str) -> tuple[dict, str]:
    explanation = session.explain(sql)
    return explanation.to_dict(), str(explanation)


def test_ownership_contribution_bounds_noise_selection_error_and_cost_are_told(quiet_shop):
    sql = (
        f"{CLAUSE}(epsilon = 1, delta = 1e-6, max_groups_contributed = 3, noise = LAPLACE) c.region, "
        "COUNT(*, contribution_bounds_per_group => (0, 5)), SUM(v.spend) FROM customers c JOIN visits v USING (uid) "
        "JOIN regions r ON r.region = c.region GROUP BY c.region"
    )
    told, text = explained(quiet_shop, sql)
    (select,) = told["selects"]
    assert select["ownership"]["private_tables"] == ["customers", "visits"]
    assert select["ownership"]["public_tables"] == ["regions"]
    assert select["contribution"]["max_groups_per_owner"] == 3
    count, total = select["columns"]
    assert (count["bounds"], count["bounds_source"]) == ([0.0, 5.0], "query")
    assert (total["bounds"], total["bounds_source"]) == (None, "inferred")
    assert count["releases"][0]["mechanism"] == "discrete Laplace"
    assert count["releases"][0]["scale"] == pytest.approx(45, rel=1e-6)
    assert count["releases"][0]["grid"] == 1.0
    assert select["inferred_bounds"][0]["bins"] > 100
    assert (told["epsilon"], told["delta"]) == (1.0, 1e-6)
    for words in (
        "uid of customers, visits; public: regions",
        "at most 3 groups",
        "± ",
        "to be found privately",
        "ε = 1, δ = 1e-06",
    ):
        assert words in text


def test_the_expected_error_is_the_half_width_of_the_interval(shop):
    sql = f"{CLAUSE}(epsilon = 1, confidence_level = 0.9) COUNT(*, contribution_bounds_per_group => (0, 5)) AS n FROM visits"
    told, text = explained(shop, sql)
    (row,) = shop.query(sql).intervals().to_dicts()
    assert told["selects"][0]["columns"][0]["expected_error"] == row["n_high"] - row["n"] == row["n"] - row["n_low"]
    assert "at 90%" in text


def test_a_threshold_and_the_owners_for_an_even_chance_are_told(quiet_shop):
    for strategy in ("OPTIMAL", "LAPLACE_THRESHOLD", "GAUSSIAN_THRESHOLD"):
        options = f"epsilon = 1, delta = 1e-6, min_privacy_units_per_group = 5, group_selection_strategy = {strategy}"
        sql = f"{CLAUSE}({options}) site, COUNT(DISTINCT uid) FROM visits GROUP BY site"
        selection = explained(quiet_shop, sql)[0]["selects"][0]["selection"]
        chosen = quiet_shop.plan(sql).selects[0].selection
        half = selection["owners_for_even_chance"]
        assert selection["rule"] == strategy
        assert selection["min_owners"] == 5
        assert groups.keep_probability(chosen, half) >= 0.5 > groups.keep_probability(chosen, half - 1)
        assert selection["keep_probability"]["1"] == 0.0
        assert (selection["threshold"] is None) == (strategy == "OPTIMAL")


LISTED = (
    f"{CLAUSE}(epsilon = 1, group_selection_strategy = PUBLIC_GROUPS) r.region, COUNT(*) "
    "FROM customers c RIGHT JOIN regions r ON c.region = r.region GROUP BY r.region"
)


@pytest.mark.parametrize(
    ("sql", "rule", "words"),
    [
        (f"{CLAUSE}(epsilon = 1) COUNT(*) FROM visits", "NONE", "always appears"),
        (LISTED, "PUBLIC_GROUPS", "public side of the join"),
    ],
)
def test_where_nothing_is_selected_the_reason_is_told(quiet_shop, sql, rule, words):
    selection = explained(quiet_shop, sql)[0]["selects"][0]["selection"]
    assert selection["rule"] == rule
    assert words in selection["why"]


def test_an_epsilon_that_protects_nobody_is_called_that(quiet_shop):
    assert "protects nobody" in explained(quiet_shop, f"{CLAUSE}(epsilon = 100) COUNT(*) FROM visits")[1]
    assert "protects nobody" not in explained(quiet_shop, f"{CLAUSE}(epsilon = 1) COUNT(*) FROM visits")[1]


def test_a_query_over_public_tables_costs_nothing(quiet_shop):
    told, text = explained(quiet_shop, "SELECT * FROM regions")
    assert (told["epsilon"], told["delta"], told["selects"]) == (0.0, 0.0, [])
    assert "costs nothing" in text


def test_what_is_left_of_the_budget_is_told(open_shop):
    told, text = explained(open_shop(budget=(2, 1e-5)), f"{CLAUSE}(epsilon = 1) COUNT(*) FROM visits")
    assert told["remaining"] == [2.0, 1e-5]
    assert "budget left" in text


def test_several_private_selects_are_numbered(quiet_shop):
    half = f"SELECT n FROM ({CLAUSE}(epsilon = 0.5) COUNT(DISTINCT uid) AS n FROM visits)"
    told, text = explained(quiet_shop, f"{half} UNION ALL {half}")
    assert told["epsilon"] == 1.0
    assert "private SELECT 2 of 2" in text


def test_an_explanation_is_plain_data_and_safe_to_show(quiet_shop):
    explanation = quiet_shop.explain(
        f'{CLAUSE}(epsilon = 1, delta = 1e-6) site AS "<b>", COUNT(*) FROM visits GROUP BY site'
    )
    assert json.loads(json.dumps(explanation.to_dict())) == explanation.to_dict()
    assert "<b>" not in explanation._repr_html_().removeprefix("<pre>")
    assert explanation.to_dict()["output"] == ["<b>", "count"]


def test_explaining_is_refused_as_the_query_would_be(quiet_shop):
    with pytest.raises(shoal.ShoalError) as refused:
        quiet_shop.explain(f"{CLAUSE}(epsilon = 1) uid, COUNT(*) FROM visits GROUP BY uid")
    assert refused.value.code in {"E_OPTION_INVALID", "E_UID_EXPOSED"}


@pytest.mark.parametrize("error", [1, 10, 1000])
def test_epsilon_for_a_wanted_error_is_the_smallest_that_reaches_it(quiet_shop, error):
    sql = f"{CLAUSE}(epsilon = {{}}) COUNT(*, contribution_bounds_per_group => (0, 5)) AS n FROM visits"
    epsilon = quiet_shop.epsilon_for(sql.format(1), error=error)

    def width(asked: float) -> float:
        return explained(quiet_shop, sql.format(f"{asked:.12f}"))[0]["selects"][0]["columns"][0]["expected_error"]

    assert width(epsilon) <= error < width(epsilon * 0.99)
