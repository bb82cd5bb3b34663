"""Plans in words and numbers: what an explanation tells is what will be done, and nothing was read for it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import shoal
from shoal.mechanisms import group_selection

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
    assert count["releases"][0]["scale"] == pytest.approx(24, rel=1e-6)
    assert count["expected_error"] == 72.0
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
        assert (
            group_selection.keep_probability(chosen, half) >= 0.5 > group_selection.keep_probability(chosen, half - 1)
        )
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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("epsilon = 1, delta = 1e-6, noise = LAPLACE", ["a group of one owner"]),
        ("epsilon = 1, delta = 1e-6, noise = GAUSSIAN", ["a group of one owner", "Gaussian"]),
    ],
)
def test_what_delta_allows_for_is_told(quiet_shop, options, words):
    told, text = explained(quiet_shop, f"{CLAUSE}({options}) site, COUNT(DISTINCT uid) FROM visits GROUP BY site")
    assert len(told["delta_is"]) == len(words)
    assert all(word in said for word, said in zip(words, told["delta_is"], strict=True))
    assert f"delta         {told['delta_is'][0]}" in text
    assert explained(quiet_shop, f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT uid) FROM visits")[0]["delta_is"] == []


def test_groups_of_one_owner_that_may_show_are_counted_where_the_catalog_says_how_many_there_are():
    catalog = {"tables": {"visits": {"owner": "uid"}}, "defaults": {"single_owner_groups": 2000}}
    with shoal.connect({"visits": pa.table({"uid": [1, 2], "site": ["a", "b"]})}, catalog=catalog) as session:
        sql = f"{CLAUSE}(epsilon = 1, delta = 1e-6) site, COUNT(DISTINCT uid) FROM visits GROUP BY site"
        (said,) = explained(session, sql)[0]["delta_is"][:1]
    assert "2,000 such groups" in said
    assert "at most 0.002 are ever expected to show" in said


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


# ---- in the analyst's words ---------------------------------------------------------------------------------------


def test_every_column_is_called_by_its_output_and_as_it_was_written(quiet_shop):
    items = (
        "COUNT(*) AS visits, SUM(spend) AS a, SUM( 2*spend ) AS b, MEDIAN(spend) AS m, VARIANCE(spend) AS v, "
        "AVG(spend) FILTER (WHERE spend > 1) AS mean, COUNT(*) AS again"
    )
    told, text = explained(quiet_shop, f"{CLAUSE}(epsilon = 1, delta = 1e-6) site, {items} FROM visits GROUP BY site")
    called = [line.split(":")[0] for line in text.splitlines() if ": bounds" in line]
    assert called == [
        "visits, again = COUNT(*)",
        "a = SUM(spend)",
        "b = SUM( 2*spend )",
        "m = MEDIAN(spend)",
        "v = VARIANCE(spend)",
        "mean = AVG(spend) FILTER (WHERE spend > 1)",
    ]
    columns = told["selects"][0]["columns"]
    assert [column["name"] for column in columns] == ["visits", "a", "b", "m", "v", "mean"]
    assert columns[0]["outputs"] == ["visits", "again"]
    assert [column["aggregate"] for column in columns] == ["COUNT", "SUM", "SUM", "QUANTILE", "VAR_SAMP", "AVG"]


def test_an_aggregate_inside_an_expression_or_having_is_told_apart(quiet_shop):
    sql = (
        f"{CLAUSE}(epsilon = 1, delta = 1e-6) site, SUM(spend) / COUNT(*) AS ratio, SUM(spend) AS total "
        "FROM visits GROUP BY site HAVING COUNT(DISTINCT uid) > 10 ORDER BY COUNT(*)"
    )
    told, text = explained(quiet_shop, sql)
    assert [(c["name"], c["outputs"], c["part_of"]) for c in told["selects"][0]["columns"]] == [
        ("total", ["total"], ["ratio"]), ("ratio", [], ["ratio"]), (None, [], []),
    ]  # fmt: skip
    for line in ("total = SUM(spend): ", "COUNT(*), in ratio: ", "COUNT(DISTINCT uid): "):
        assert f"\n{line}" in text


def test_columns_without_a_name_are_called_as_in_the_answer(quiet_shop):
    told, text = explained(quiet_shop, f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT uid), COUNT(DISTINCT site) FROM visits")
    assert [column["name"] for column in told["selects"][0]["columns"]] == ["count", "count_2"]
    assert "\ncount_2 = COUNT(DISTINCT site): " in text


def test_names_come_from_the_private_select_wherever_it_stands(quiet_shop):
    inner = f"{CLAUSE}(epsilon = 1, delta = 1e-6) site, COUNT(*) AS n FROM visits GROUP BY site"
    for sql in (f"WITH c AS ({inner}) SELECT n AS m FROM c", f"SELECT MAX(n) AS m FROM ({inner} ORDER BY n LIMIT 3)"):
        assert explained(quiet_shop, sql)[0]["selects"][0]["columns"][0]["name"] == "n"


CLASS_NAMES = ("RowCount", "OwnerCount", "OwnerSum", "OwnerMean", "RowMoment", "Leaves", "DistinctValues")


@pytest.mark.parametrize("options", ["max_groups_contributed = 1", "max_rows_contributed = 1"])
def test_people_read_plain_words(quiet_shop, options):
    items = "COUNT(*), SUM(spend), AVG(spend), VAR_POP(spend), MEDIAN(spend), MIN(spend), COUNT(DISTINCT items)"
    sql = f"{CLAUSE}(epsilon = 1, delta = 1e-6, {options}) site, {items} FROM visits GROUP BY site"
    told, text = explained(quiet_shop, sql)
    assert not any(name in text for name in CLASS_NAMES)
    assert "at most 1 groups" not in text
    assert "at most 1 rows" not in text
    assert f"at most 1 {'group' if 'groups' in options else 'row'}, chosen at random" in text
    assert told["selects"][0]["columns"][0]["releases"][0]["measure"] in CLASS_NAMES


def test_bounds_that_are_found_are_told_of_their_columns(quiet_shop):
    sql = f"{CLAUSE}(epsilon = 1, kappa = 1) SUM(SQRT(spend)) AS roots, SUM(LN(spend + 1)) AS logs FROM visits"
    told, text = explained(quiet_shop, sql)
    assert [found["of"] for found in told["selects"][0]["inferred_bounds"]] == [["roots"], ["logs"]]
    assert "bounds        of roots: found from" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("delta = 1e-6, noise = LAPLACE", "Laplace noise, as asked."),
        ("delta = 1e-6, noise = GAUSSIAN", "Jointly calibrated Gaussian noise, as asked."),
        (
            "delta = 1e-6, max_groups_contributed = 50",
            "Jointly calibrated Gaussian noise is more accurate here than Laplace noise.",
        ),
        ("delta = 1e-6, kappa = 1", "Laplace noise is more accurate here than Gaussian noise."),
    ],
)
def test_the_reason_for_the_noise_is_the_true_one(quiet_shop, options, words):
    sql = f"{CLAUSE}(epsilon = 1, {options}) site, COUNT(*) AS n FROM visits GROUP BY site"
    assert words in explained(quiet_shop, sql)[0]["selects"][0]["notes"]


@pytest.mark.parametrize(
    ("options", "item", "words"),
    [
        ("epsilon = 1", "COUNT(*)", "Laplace noise: Gaussian noise would need delta > 0."),
        (
            "epsilon = 1, delta = 1e-6",
            "COUNT(*, epsilon => 0.3), COUNT(DISTINCT uid)",
            "Laplace noise, because a part of epsilon is fixed in the query.",
        ),
        (
            "epsilon = 1",
            "SUM(spend, contribution_bounds_per_group => (0, 0))",
            "No owner can change these numbers, so they get no noise.",
        ),
    ],
)
def test_noise_without_a_choice_says_why_there_was_none(quiet_shop, options, item, words):
    assert words in explained(quiet_shop, f"{CLAUSE}({options}) {item} FROM visits")[0]["selects"][0]["notes"]


def test_a_rule_that_was_asked_for_is_said_to_be_that(quiet_shop):
    def why(options: str) -> str:
        sql = f"{CLAUSE}(epsilon = 1, delta = 1e-6{options}) site, COUNT(DISTINCT uid) AS n FROM visits GROUP BY site"
        return explained(quiet_shop, sql)[0]["selects"][0]["selection"]["why"]

    assert why(", group_selection_strategy = LAPLACE_THRESHOLD").startswith("as asked; a group of ")
    assert why("").startswith("the most accurate here")


def test_the_noise_of_a_rule_that_reads_a_shown_count_is_explained(quiet_shop):
    options = "epsilon = 1, delta = 1e-6, max_groups_contributed = 50, group_selection_strategy = LAPLACE_THRESHOLD"
    notes = explained(quiet_shop, f"{CLAUSE}({options}) site, COUNT(DISTINCT uid) AS n FROM visits GROUP BY site")[0]
    assert any("LAPLACE_THRESHOLD, as asked" in note for note in notes["selects"][0]["notes"])


@pytest.mark.parametrize(("epsilon", "told"), [(10, False), (10.5, True)])
def test_the_promise_says_next_to_nothing_above_ten(quiet_shop, epsilon, told):
    text = explained(quiet_shop, f"{CLAUSE}(epsilon = {epsilon}) COUNT(*) AS n FROM visits")[1]
    assert ("protects nobody" in text) == told


@pytest.mark.parametrize("owners", [0, -1, 2.5, True, "many"])
def test_a_wrong_number_of_owners_is_not_taken_for_a_missing_one(quiet_shop, owners):
    sql = f"{CLAUSE}(epsilon = 1) AVG(spend, contribution_bounds_per_group => (0, 5)) AS a FROM visits"
    with pytest.raises(shoal.ShoalError, match="owners must be") as refused:
        quiet_shop.epsilon_for(sql, error=1, owners=owners)
    assert refused.value.code == "E_OPTION_INVALID"
    with pytest.raises(shoal.ShoalError, match="how many owners"):
        quiet_shop.epsilon_for(sql, error=1)


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ("MEDIAN(spend, contribution_bounds_per_row => (0, 5))", "E_UNSUPPORTED"),
        ("SUM(SQRT(spend))", "E_BOUNDS_REQUIRED"),
    ],
)
def test_an_aggregate_without_a_known_error_is_called_as_it_was_written(quiet_shop, item, code):
    with pytest.raises(shoal.ShoalError) as refused:
        quiet_shop.epsilon_for(f"{CLAUSE}(epsilon = 1) COUNT(DISTINCT uid), {item} AS x FROM visits", error=1)
    assert refused.value.code == code
    assert f"The error of {item} depends on" in refused.value.message
