"""Limits that nobody named are found in two steps under one charge that depends on nothing but the query."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import shoal
from shoal.accounting.accountants import plan_loss
from shoal.errors import InternalError
from shoal.plan.limits.sought import IN_ALL
from shoal.rewrite.limits.choosing import find
from shoal.rewrite.pipeline import plan_select
from shoal.rewrite.verify.searches import loss_of_search, verify_found

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS"
OWNERS, GROUPS = 2000, 6


def tables(owners=OWNERS, rows=2):
    """Every owner has this many rows in each of three groups of six."""
    uid, turn, _ = np.meshgrid(np.arange(owners), np.arange(3), np.arange(rows), indexing="ij")
    uid, turn = uid.ravel(), turn.ravel()
    place = (uid + turn) % GROUPS
    return {
        "visits": pa.table({"uid": uid, "place": place, "item": np.arange(len(uid)), "spend": np.ones(len(uid)) * 8})
    }


def connected(defaults=None, facts=None, data=None):
    catalog = {
        "tables": {"visits": {"owner": "uid", "columns": facts or {}}},
        "defaults": {"epsilon": 2.0, "delta": 1e-6} | (defaults or {}),
    }
    return shoal.connect(data or tables(), catalog=catalog)


def kinds(plan):
    search = plan.selects[0].search
    return None if search is None or not search.finds else [sought.kind for sought in search.sought]


@pytest.mark.parametrize(
    ("sql", "sought"),
    [
        ("SELECT place, COUNT(*) FROM visits GROUP BY place", ["groups", "rows"]),
        ("SELECT place, SUM(spend) FROM visits GROUP BY place", ["groups", "sum"]),
        ("SELECT COUNT(*) FROM visits", ["rows"]),
        ("SELECT SUM(spend) FROM visits", ["sum"]),
        ("SELECT COUNT(DISTINCT item) FROM visits", ["values"]),
        ("SELECT MEDIAN(spend) FROM visits", ["rows"]),
        ("SELECT COUNT(DISTINCT uid) FROM visits", None),
        (f"{CLAUSE}(epsilon = 1, max_groups_contributed = 2, delta = 1e-6) place, COUNT(*) FROM visits GROUP BY place", None),
        (f"{CLAUSE}(epsilon = 1, delta = 1e-6) place, COUNT(DISTINCT uid) FROM visits GROUP BY place", ["groups"]),
        (f"{CLAUSE}(epsilon = 1, kappa = AUTO, delta = 1e-6) place, COUNT(DISTINCT uid) FROM visits GROUP BY place", ["groups"]),
        (f"{CLAUSE}(epsilon = 1, max_rows_contributed = 9, delta = 1e-6) place, COUNT(*) FROM visits GROUP BY place", None),
    ],
)  # fmt: skip
def test_what_nobody_named_is_sought_and_nothing_else(sql, sought):
    assert kinds(connected().plan(sql)) == sought


def test_choices_of_a_search_are_not_composed_numerically():
    """Each of them took seconds, and there may be dozens: 215 seconds of planning, for free."""
    sql = f"{CLAUSE}(epsilon = 1, delta = 1e-6, noise = LAPLACE) place, COUNT(*), SUM(spend), AVG(spend) FROM visits GROUP BY place"
    facts = {"spend": {"bounds": [0, 9]}}
    session = connected(facts=facts)
    assert session.plan(sql, composition="pld").selects == session.plan(sql).selects


def test_a_catalog_says_auto_by_name():
    session = connected({"max_groups_per_owner": "auto"})
    assert kinds(session.plan("SELECT place, COUNT(DISTINCT uid) FROM visits GROUP BY place")) == ["groups"]


@pytest.mark.parametrize("select", ["SELECT", f"{CLAUSE}(epsilon = 2)"])
def test_a_number_in_the_catalog_is_named_for_plain_sql_and_a_clause_alike(select):
    sql = f"{select} place, COUNT(*) FROM visits GROUP BY place"
    assert kinds(connected({"max_groups_per_owner": 3}).plan(sql)) is None
    assert kinds(connected().plan(sql)) == ["groups", "rows"]


@pytest.mark.parametrize(
    ("key", "largest"),
    [
        ("place = 2", 3),
        ("CASE WHEN place > 3 THEN 'far' ELSE 'near' END", 2),
        ("EXTRACT(month FROM DATE '2026-01-01' + place)", 13),
        ("'Q' || QUARTER(DATE '2026-01-01' + place)", 5),
        ("LEFT(UPPER(CASE WHEN place > 3 THEN 'far' WHEN place > 2 THEN 'middle' ELSE 'near' END), 1)", 4),
    ],
)
def test_candidates_end_at_what_is_possible(key, largest):
    plan = connected().plan(f"SELECT {key} AS k, COUNT(DISTINCT uid) FROM visits GROUP BY k")
    assert max(choice.contribution.groups for choice in plan.selects[0].search.choices) == largest


def test_few_owners_get_public_guesses_and_are_told():
    result = connected({"population": 60}, data=tables(60)).query("SELECT place, COUNT(*) FROM visits GROUP BY place")
    said = " ".join(result.notes)
    assert "public guesses" in said
    assert "counts in at most" in said
    assert "about half was counted" in said
    row = (
        connected({"population": 60}, data=tables(60))
        .query("SELECT COUNT(*) AS n FROM visits")
        .intervals()
        .to_dicts()[0]
    )
    assert row["n_high"] > row["n_noise_high"] > row["n"]


def test_both_steps_add_up_to_what_was_asked():
    plan = connected().plan("SELECT place, COUNT(*), SUM(spend) FROM visits GROUP BY place")
    search = plan.selects[0].search
    first = sum(histogram.select.options.epsilon for histogram in search.histograms)
    assert first == Fraction(2, 10)
    assert first + search.epsilon == plan.epsilon == 2
    assert plan.loss.epsilon <= 2
    assert plan.loss == loss_of_search(plan.selects[0])
    steps = [plan_loss(choice.events).zcdp[0] for choice in search.choices]
    assert plan.loss.zcdp[0] > max(steps)


@pytest.mark.slow
def test_limits_that_are_found_are_those_of_the_data():
    """Ten answers: an empty bin of either histogram stands out with a chance of 1/20, so that eight go wrong in 4 of 10⁷ runs."""
    session = connected()
    answers = [session.query("SELECT place, COUNT(*) AS n FROM visits GROUP BY place") for _ in range(10)]
    found = [answer for answer in answers if _says_limits_of_the_data(" ".join(answer.notes))]
    assert len(found) >= 3
    assert all(len(answer) == GROUPS for answer in found)


def _says_limits_of_the_data(said):
    """Three groups of two rows; the choice may be the next candidate, which costs little."""
    return any(f"at most {groups} groups" in said for groups in (3, 5)) and any(
        f"at most {rows} rows of each owner in each group" in said for rows in (2, 4)
    )


@pytest.mark.parametrize("counts", ["heavy", "nothing", "negative", "everything"])
def test_whatever_comes_out_of_step_one_has_a_plan_that_was_charged(counts):
    plan = (
        connected()
        .plan("SELECT place, COUNT(*), SUM(spend), COUNT(DISTINCT item) FROM visits GROUP BY place")
        .selects[0]
    )
    sizes = [len(sought.bins) for sought in plan.search.sought]
    made = {
        "heavy": [[5000.0 * (place == size - 1) for place in range(size)] for size in sizes],
        "nothing": [[0.0] * size for size in sizes],
        "negative": [[-1e6] * size for size in sizes],
        "everything": [[1e6] * size for size in sizes],
    }[counts]
    found = find(plan, made, lambda select: plan_select(select, "basic"))
    assert verify_found(plan, found.plan) is found.plan


def test_a_step_two_that_costs_more_than_was_charged_is_refused():
    plan = connected().plan("SELECT place, COUNT(*) FROM visits GROUP BY place").selects[0]
    dear = plan_select(
        replace(
            plan.search.choices[0].select, options=replace(plan.search.choices[0].select.options, epsilon=Fraction(2))
        ),
        "basic",
    )
    with pytest.raises(InternalError):
        verify_found(plan, dear)


def test_a_plan_that_fails_between_the_steps_gives_way_to_one_that_was_verified():
    plan = connected().plan("SELECT place, COUNT(*) FROM visits GROUP BY place").selects[0]

    def fails(_):
        raise InternalError("no plan")

    counts = [[3000.0 * (place == 2) for place in sought.bins] for sought in plan.search.sought]
    assert find(plan, counts, fails).plan in plan.search.choices


def test_an_explanation_tells_both_steps():
    text = str(connected().explain("SELECT place, COUNT(*) FROM visits GROUP BY place"))
    assert "step one: groups per owner" in text
    assert "step two: ε = 1.8" in text


def test_the_far_end_counts_what_lies_beyond_the_limits():
    heavy = tables(1500, 1)["visits"]
    number = np.arange(16000)
    columns = {"uid": number // 400, "place": number * 0, "item": number, "spend": np.ones(16000)}
    many = pa.table(columns)
    session = connected(data={"visits": pa.concat_tables([heavy, many.cast(heavy.schema)])})
    row = session.query("SELECT COUNT(*) AS n FROM visits").intervals().to_dicts()[0]
    assert row["n_low"] == row["n_noise_low"]
    assert row["n_high"] > row["n_noise_high"]


def test_bytes_keep_the_whole_interval():
    result = connected().query("SELECT COUNT(*) AS n FROM visits")
    again = shoal.Result.from_bytes(result.to_bytes())
    assert again.intervals(0.9).to_dicts() == result.intervals(0.9).to_dicts()


@pytest.mark.parametrize("grouped", ["", "place, "])
def test_values_with_a_public_list_take_few_of_each_owner(grouped):
    """Twelve values that all owners share: with the list one or two of each owner find them all, and the high end stops there."""
    data = tables(1500, 4)["visits"]
    shared = data.set_column(2, "item", pa.array(np.arange(len(data)) % 12))
    by = " GROUP BY place" if grouped else ""
    sql = f"SELECT {grouped}COUNT(DISTINCT item) AS n FROM visits{by}"
    listed = connected(facts={"item": {"values": list(range(12))}}, data={"visits": shared})
    plan = listed.plan(sql).selects[0]
    values = next(sought for sought in plan.search.sought if sought.kind == "values")
    assert (values.domain, values.edges[-1], plan.domains) == (12, 12, (12,))
    rows = listed.query(sql).intervals().to_dicts()
    assert all(row["n_high"] <= max(12, row["n_noise_high"]) for row in rows)
    assert connected(data={"visits": shared}).plan(sql).selects[0].domains == ()


def test_values_that_a_join_requires_to_be_in_a_public_table_are_as_many_as_its_rows():
    """Of few owners the high end of a guess goes up to the list, which no reference has to name; an outer join lists nothing."""
    data = tables(20, 4)["visits"]
    items = pa.table({"item": np.arange(3000), "name": [f"i{n}" for n in range(3000)]})
    defaults = {"epsilon": 1.0, "delta": 1e-6, "population": 20}
    catalog = {"tables": {"visits": {"owner": "uid"}, "items": {"public": True}}, "defaults": defaults}
    sql = "SELECT COUNT(DISTINCT visits.item) AS n FROM visits {} JOIN items ON visits.item = items.item"
    with shoal.connect({"visits": data, "items": items}, catalog=catalog) as session:
        inner, left = (session.plan(sql.format(kind)).selects[0].domains for kind in ("", "LEFT"))
        assert (inner, left) == ((3000,), ())
        result = session.query(sql.format(""))
        (row,) = result.intervals().to_dicts()
    assert "Intervals of different values: too few owners" in " ".join(result.notes)
    # Eight times what noise allows, as a quarter to the power of 1.5 is an eighth, but no more than there are.
    assert row["n_high"] == pytest.approx(min(3000, 8 * row["n_noise_high"]), rel=0.01)


@pytest.mark.parametrize("population", [None, 20])
def test_values_that_are_keys_of_a_public_table_are_as_many_as_its_rows(population):
    """The list is the table that a column refers to; with few owners, one value of each finds what many of them share."""
    data = tables(1500 if population is None else population, 4)["visits"]
    shared = data.set_column(2, "item", pa.array(np.arange(len(data)) % 12))
    items = pa.table({"item": np.arange(12), "name": [f"i{n}" for n in range(12)]})
    sql = "SELECT COUNT(DISTINCT item) AS n FROM visits"
    defaults = {"epsilon": 1.0, "delta": 1e-6} | ({} if population is None else {"population": population})

    def opened(**more):
        catalog = {"tables": {"visits": {"owner": "uid"} | more, "items": {"public": True}}, "defaults": defaults}
        return shoal.connect({"visits": shared, "items": items}, catalog=catalog)

    referring, other = (session.plan(sql).selects[0] for session in (opened(references={"item": "items"}), opened()))
    assert (referring.domains, other.domains) == ((12,), ())
    if population is not None:
        assert referring.releases[0].measure.values < other.releases[0].measure.values
    (row,) = opened(references={"item": "items"}).query(sql).intervals().to_dicts()
    assert row["n_high"] <= max(12, row["n_noise_high"], row["n"])


def test_a_reference_to_a_public_table_of_another_type_is_refused():
    catalog = {"tables": {"visits": {"owner": "uid", "references": {"item": "items"}}, "items": {"public": True}}}
    with pytest.raises(shoal.ShoalError) as refused:
        shoal.connect(tables(5) | {"items": pa.table({"item": ["a", "b"]})}, catalog=catalog)
    assert refused.value.code == "E_CATALOG"
    catalog["tables"]["visits"]["references"] = {"item": {"to": "items", "key": "nothing"}}
    with pytest.raises(shoal.ShoalError) as refused:
        shoal.connect(tables(5) | {"items": pa.table({"item": [1, 2]})}, catalog=catalog)
    assert refused.value.code == "E_CATALOG"


def test_a_reference_to_a_public_table_relates_no_owners():
    """It is no way to join private tables, as references between these are."""
    items = pa.table({"item": np.arange(12)})
    catalog = {
        "tables": {
            "visits": {"owner": "uid", "references": {"item": "items"}},
            "others": {"owner": "uid", "references": {"item": "items"}},
            "items": {"public": True},
        },
        "defaults": {"epsilon": 1.0, "delta": 1e-6},
    }
    session = shoal.connect(tables(5) | {"others": tables(5)["visits"], "items": items}, catalog=catalog)
    with pytest.raises(shoal.ShoalError) as refused:
        session.plan("SELECT COUNT(*) FROM visits JOIN others ON visits.item = others.item")
    assert refused.value.code == "E_JOIN_NOT_ON_UID"


def test_counts_in_few_listed_groups_limit_rows_in_all_of_them():
    listed = {"place": {"values": list(range(GROUPS))}}
    session = connected(facts=listed)
    sql = "SELECT place, COUNT(*) AS n FROM visits GROUP BY place"
    assert kinds(session.plan(sql)) == ["all"]
    assert kinds(session.plan("SELECT place, COUNT(*), SUM(spend) FROM visits GROUP BY place")) != ["all"]
    assert kinds(connected(facts={"place": {"values": list(range(40))}}).plan(sql)) == ["groups", "rows"]
    # Each owner has six rows, and 1,000 owners two of them in each group. Seven rows are the next candidate; one answer in thirty
    # takes ten, as noise next to that bin suggests, and six in a row do not say seven once in 10⁸ runs. ε = 2 leaves noise of
    # scale 7 / 1.8 at most, so that 100 is 25 scales.
    said = "Each owner counts with at most 7 rows, chosen at random."
    answers = [result for result in (session.query(sql) for _ in range(6)) if said in result.notes]
    assert answers
    assert all(abs(row["n"] - 2000) < 100 for result in answers for row in result.to_dicts())


def test_a_median_looks_at_few_rows_of_heavy_owners():
    """Half as many owners in every octave: all rows of the heaviest would make each of them worth a thousand others."""
    plan = connected({"epsilon": 1.0}, facts={"spend": {"bounds": [0, 100]}}).plan(
        "SELECT place, MEDIAN(spend) FROM visits GROUP BY place"
    )
    search = plan.selects[0].search
    halving = [[10_000 * 0.5**place for place in range(len(histogram.bins))] for histogram in search.sought]
    found = find(plan.selects[0], halving, lambda select: plan_select(select, "basic"))
    assert found.limits.of_call[0] <= 16


def test_few_owners_find_how_many_rows_to_count():
    session = connected({"population": 100, "epsilon": 1.0}, data=tables(owners=100, rows=3))
    plan = session.plan("SELECT COUNT(*) FROM visits").selects[0]
    assert kinds(session.plan("SELECT COUNT(*) FROM visits")) == ["rows"]
    assert plan.search.histograms[0].select.options.epsilon == Fraction(1, 5)
    assert kinds(connected({"population": 50, "epsilon": 1.0}).plan("SELECT COUNT(*) FROM visits")) is None


def test_a_key_that_is_a_trait_of_the_owner_puts_each_into_one_group():
    people = pa.table({"uid": np.arange(100), "town": np.arange(100) % 4})
    catalog = {
        "tables": {"visits": {"owner": "uid"}, "people": {"owner": "uid", "one_row_per_owner": True}},
        "defaults": {"epsilon": 2.0, "delta": 1e-6},
    }
    session = shoal.connect(tables(owners=100) | {"people": people}, catalog=catalog)
    joined = "FROM people JOIN visits ON people.uid = visits.uid GROUP BY"
    assert kinds(session.plan(f"SELECT town, COUNT(*) {joined} town")) == ["rows"]
    assert kinds(session.plan(f"SELECT town, place, COUNT(*) {joined} town, place")) == ["groups", "rows"]
    plan = session.plan(f"SELECT town, COUNT(*) {joined} town").selects[0]
    assert {choice.contribution.groups for choice in plan.search.choices} == {1}


def test_limits_that_were_not_planned_for_cost_no_more_than_was_charged():
    # Nobody is there, so the guess of ten rows stands in; it is no power of two, and rounds its noise otherwise than the stand-ins.
    # Noise alone fills a bin now and then, and another limit is found; not eight times in a row.
    session = connected({"population": 90, "epsilon": 1.0}, data=tables(owners=2))
    answers = [session.query("SELECT COUNT(*) AS n FROM visits") for _ in range(8)]
    assert any("COUNT(*) counts at most 10 rows of each owner." in answer.notes for answer in answers)


def test_a_step_that_releases_other_numbers_than_it_was_explained_by_is_answered():
    # each owner has one row in each of three groups: a count of owners is one number, of rows it may be two
    session = connected(data=tables(rows=1))
    result = session.query("SELECT place, COUNT(*) AS n, SUM(spend) AS s FROM visits GROUP BY place ORDER BY 2 DESC")
    again = session.query("SELECT place, COUNT(*) + 1 AS n FROM visits GROUP BY place ORDER BY 2 DESC")
    assert len(result) == len(again) == GROUPS
    assert len(result.intervals()) == GROUPS


def of_both_signs(refunds):
    """900 owners who buy, a few of them for much, and 90 who only get something back."""
    bought = [20.0 + uid % 30 if uid % 90 else 4000.0 for uid in range(900)]
    table = {"uid": list(range(990)), "amount": [*bought, *[-float(refunds)] * 90]}
    defaults = {"epsilon": 2, "delta": 1e-6}
    return shoal.connect({"t": table}, catalog={"tables": {"t": {"owner": "uid"}}, "defaults": defaults})


def test_each_end_of_a_sum_of_both_signs_counts_what_is_cut_of_its_own_sign():
    """What is cut is positive: the low end stays where the noise has it, and the high end goes far."""
    session = of_both_signs(15)
    (row,) = session.query("SELECT SUM(amount) AS s FROM t").intervals().to_dicts()
    below, above = row["s_noise_low"] - row["s_low"], row["s_high"] - row["s_noise_high"]
    assert 0 <= below < above / 4


def test_where_both_signs_have_about_as_much_both_ends_move_alike():
    session = of_both_signs(900)
    (row,) = session.query("SELECT SUM(amount) AS s FROM t").intervals().to_dicts()
    below, above = row["s_noise_low"] - row["s_low"], row["s_high"] - row["s_noise_high"]
    assert below == pytest.approx(above)


def test_a_sum_that_cannot_be_negative_has_no_bins_for_it():
    session = of_both_signs(15)
    either = session.plan("SELECT SUM(amount) AS s FROM t").selects[0].search.sought
    ones = session.plan("SELECT SUM(CASE WHEN amount > 30 THEN 1 ELSE 0 END) AS s FROM t").selects[0].search.sought
    assert [s.signed for s in either] == [True]
    assert [s.signed for s in ones] == [False]
    assert len(either[0].bins) == 2 * (len(either[0].edges) + 1)


def test_owners_who_add_nothing_do_not_make_the_limit_on_a_sum_small():
    """Nine of ten owners have no refund: their zeros say nothing about how large the others' are."""
    amounts = [float(-100 - uid % 50) if uid % 10 == 0 else 30.0 for uid in range(4000)]
    catalog = {"tables": {"t": {"owner": "uid"}}, "defaults": {"epsilon": 1, "delta": 1e-6}}
    session = shoal.connect({"t": {"uid": list(range(4000)), "amount": amounts}}, catalog=catalog)
    (row,) = session.query("SELECT SUM(CASE WHEN amount < 0 THEN amount ELSE 0 END) AS s FROM t").intervals().to_dicts()
    exact = sum(amount for amount in amounts if amount < 0)
    assert 1.2 * exact < row["s"] < 0.8 * exact
    assert row["s_low"] <= exact


def test_a_sum_over_every_possible_group_is_cut_by_no_guess():
    # 90 owners: limits are guesses. Six listed groups are all that an owner can be in, and a sum finds its own bounds.
    listed = {"place": {"values": list(range(GROUPS))}}
    session = connected({"population": 90}, listed, tables(90))
    sums = session.plan("SELECT place, SUM(spend) FROM visits GROUP BY place").selects[0]
    assert sums.contribution.groups == GROUPS
    assert sums.guessed == ()
    assert session.plan("SELECT item % 300 AS k, SUM(spend) FROM visits GROUP BY 1").selects[0].guessed == (0,)
    beside = "SELECT place, SUM(spend), COUNT(*) FROM visits GROUP BY place"
    assert kinds(session.plan(beside)) == ["sum in all", "rows in all"]
    fewer = connected({"population": 50}, listed, tables(50))
    assert fewer.plan(beside).selects[0].guessed == (1,)


@pytest.mark.parametrize(
    ("aggregates", "sought"),
    [
        ("SUM(spend)", ["sum in all"]),
        ("COUNT(*)", ["all"]),
        ("COUNT(spend), SUM(spend)", ["rows in all", "sum in all"]),
        ("COUNT(*), AVG(spend)", ["groups", "rows in all"]),
        ("SUM(spend), COUNT(DISTINCT uid), MEDIAN(spend)", ["groups", "sum in all", "rows"]),
        ("COUNT(DISTINCT item)", ["groups", "values"]),
    ],
)
def test_counts_and_sums_of_listed_groups_have_one_limit_for_all_of_them(aggregates, sought):
    session = connected(facts={"place": {"values": list(range(GROUPS))}})
    plan = session.plan(f"SELECT place, {aggregates} FROM visits GROUP BY place")
    assert kinds(plan) == sought
    if sought == ["sum in all"]:
        assert {choice.contribution.groups for choice in plan.selects[0].search.choices} == {GROUPS}


@pytest.mark.parametrize("option", ["noise = GAUSSIAN", "inferred_bounds = PER_GROUP", "max_rows_contributed = 9"])
def test_what_needs_a_limit_in_each_group_has_one(option):
    session = connected(facts={"place": {"values": list(range(GROUPS))}})
    plan = session.plan(
        f"{CLAUSE}(epsilon = 1, delta = 1e-6, {option}) place, SUM(spend), COUNT(*) FROM visits GROUP BY place"
    )
    assert not any(kind in IN_ALL for kind in kinds(plan) or [])


def test_keys_with_many_public_values_have_a_limit_for_each_group():
    session = connected(facts={"item": {"values": list(range(100))}})
    assert kinds(session.plan("SELECT item, SUM(spend) FROM visits GROUP BY item")) == ["groups", "sum"]


@pytest.mark.parametrize(("owners", "measured"), [(150.0, False), (400.0, True)])
def test_few_owners_say_nothing_about_the_cut_of_sums_in_all_groups(owners, measured):
    session = connected({"epsilon": 8}, {"place": {"values": list(range(GROUPS))}})
    plan = session.plan("SELECT place, SUM(spend) AS s FROM visits GROUP BY place").selects[0]
    counts = [0.0] * len(plan.search.sought[0].bins)
    counts[15] = owners
    (kept,) = find(plan, [counts], lambda select: plan_select(select, "basic")).kept
    assert kept.measured == measured
    assert measured or kept.share == 0.5


def test_an_answer_says_that_a_limit_is_for_all_groups():
    session = connected({"epsilon": 4}, {"place": {"values": list(range(GROUPS))}})
    result = session.query("SELECT place, COUNT(spend) AS n, SUM(spend) AS s FROM visits GROUP BY place")
    said = " ".join(result.notes)
    assert "COUNT(spend) counts at most 8 rows of each owner in all groups together." in said
    assert "SUM(spend): the sum of each owner in all groups together is clamped to [-64, 64]." in said
    exact = OWNERS * 3 * 2 // GROUPS
    for row in result.intervals().to_dicts():
        assert row["n_low"] <= exact <= row["n_high"]
        assert row["s_low"] <= 8 * exact <= row["s_high"]
        assert abs(row["n"] - exact) < 200  # noise of 8 rows at 1.8: one in 10¹⁵ is further


def test_a_count_of_some_rows_has_no_larger_limit_than_that_of_all():
    """Some of an owner's rows are never more than all of them, whatever noise fills of the histogram."""
    sql = "SELECT COUNT(*) AS n, SUM(CASE WHEN spend > 9 THEN 1 ELSE 0 END) AS some FROM visits"
    plan = connected().plan(sql).selects[0]
    of_all, of_some = ([0.0] * len(sought.bins) for sought in plan.search.sought)
    of_all[3], of_some[0], of_some[9] = 4000.0, 500.0, 900.0
    found = find(plan, [of_all, of_some], lambda select: plan_select(select, "basic"))
    assert found.limits.of_call == (8, 8)


@pytest.mark.parametrize(("value", "exact"), [("amount", 40_000.0), ("COALESCE(amount, 0)", 40_000.0)])
def test_owners_without_any_value_are_in_no_bin_of_sums(value, exact):
    """A sum of nothing is NULL; as the largest of all it made the bound 2³⁰, and the noise with it.

    Noise of scale 2⁻⁷ or less on what is within bounds of 512: off by 100 once in e^{100·1000/1024}.
    """
    owners = np.arange(800)
    data = {"t": pa.table({"uid": owners, "amount": pa.array([100.0 if i % 2 else None for i in owners])})}
    facts = {"tables": {"t": {"owner": "uid"}}, "defaults": {"epsilon": 1000, "delta": 1e-6}}
    answer = shoal.connect(data, catalog=facts).query(f"SELECT SUM({value}) AS s FROM t")
    assert abs(answer["s"][0] - exact) < 100


@pytest.mark.parametrize("values", [12, 300])
def test_a_limit_for_all_groups_is_one_for_the_large_ones_however_many_there_may_be(values):
    """600 people with 40 or 400 rows, 60,000 in all: a limit of 64 loses half of them, where one of 512 has noise of 700."""
    films = pa.table({"item": np.arange(values), "title": [f"{i % 9} film" for i in range(values)]})
    catalog = {
        "tables": {"visits": {"owner": "uid"}, "films": {"public": True}},
        "defaults": {"epsilon": 1.0, "delta": 1e-6, "population": 600},
    }
    session = shoal.connect(tables() | {"films": films}, catalog=catalog)
    sql = "SELECT SUBSTR(title, 1, 1) AS k, COUNT(spend) AS n FROM visits JOIN films USING (item) GROUP BY k"
    plan = session.plan(sql).selects[0]
    (sought,) = plan.search.sought
    counts = [0.0] * len(sought.bins)
    for rows, owners in ((40, 500.0), (400, 100.0)):
        counts[next(place for place, edge in enumerate(sought.edges) if edge >= rows)] = owners
    limits = find(plan, [counts], lambda select: plan_select(select, "basic")).limits
    assert (limits.rows or limits.of_call[0]) >= 400


@pytest.mark.parametrize(("key", "limit"), [("", 256), ("GROUP BY place", 64)])
def test_one_sum_reckons_with_a_tail_that_noise_may_hide(key, limit):
    """900 owners of 33 to 64, and nobody seen beyond: of 43,000 in all, four times the limit costs one hundredth."""
    plan = connected({"epsilon": 1, "population": 1000}).plan(f"SELECT SUM(spend) FROM visits {key}").selects[0]
    counts = [[900.0 * (place == 0) for place in sought.bins] for sought in plan.search.sought]
    edges = plan.search.sought[-1].edges
    counts[-1] = [900.0 * (place == edges.index(64)) for place in range(len(counts[-1]))]
    assert find(plan, counts, lambda select: plan_select(select, "basic")).limits.of_call[0] == limit
