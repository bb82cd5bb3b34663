"""SELECT WITH POLICY: what is charged to a budget about owners, to a ledger of the policy, and under other promises."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from policy_people import CATALOG, TABLES, query

import shoal
from shoal.accounting.ledger import Ledger
from shoal.errors import ShoalError
from shoal.params import Budget
from shoal.policies import charging


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
        monkeypatch.setattr(run, "read_counts", fails)
        with pytest.raises(ShoalError) as refused:
            opened.query(query("SUM(age) FROM people", epsilon=1))
        assert refused.value.code == "E_EXECUTION"
        assert "the secret" not in str(refused.value)
        assert opened.spent == (20.0, 0.0)


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
        monkeypatch.setattr("shoal.release.policy_clause.run.read_counts", fails)
        codes = []
        for _ in range(3):
            with pytest.raises(ShoalError) as refused:
                opened.query(sql)
            codes.append(refused.value.code)
        assert codes == ["E_EXECUTION", "E_SUSPENDED", "E_SUSPENDED"]
        assert [entry.state for entry in opened.ledger.entries()] == ["answered", "failed"]
        assert (opened.spent[0] == 0) == (budget is None)


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
