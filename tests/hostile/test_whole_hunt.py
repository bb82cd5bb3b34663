"""The hunt with whole queries finds what is planted, counts every text once, and goes on where it stopped."""

from __future__ import annotations

from dataclasses import replace

import hunt
import pytest
import whole_hunt
from hunt_shapes import Shapes

from shoal.engines.base import EngineFailure
from shoal.engines.duckdb.engine import DuckDBEngine
from shoal.plan.expressions import InRelation
from shoal.stack import on_its_own_stack

VICTIM_ROWS = 12
ROWS_OF_ONE_THREAD = 122_880
COUNTING = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(DISTINCT uid) AS n FROM people"


def looked_at(seed, sql):
    return on_its_own_stack(lambda: whole_hunt.Ground("second").looked_at(seed, sql), shared=True)


def hunted(tmp_path, generators, stop):
    def work():
        found = hunt.Hunt.resumed(tmp_path / "progress.json", 0)
        whole_hunt.hunted(found, generators, stop)
        return found

    return on_its_own_stack(work, shared=True)


def written_in(counts):
    return sum(number for name, number in counts.items() if not name.startswith("construct"))


def test_a_query_that_is_in_order_is_computed_on_both():
    assert looked_at(3, COUNTING) == ("computed", "")


def test_an_owner_who_counts_twice_is_found(monkeypatch):
    measured = DuckDBEngine.totals

    def twice(self, query, key):
        answer = measured(self, query, key)
        return replace(answer, owners=answer.owners * 2, totals=tuple(2 * total for total in answer.totals))

    monkeypatch.setattr(DuckDBEngine, "totals", twice)
    became, wrong = looked_at(3, COUNTING)
    assert became == "computed"
    assert "owners of a group: moved L1 2" in wrong


def test_what_one_owner_changes_about_others_is_found_where_the_owner_is_computed_alone(monkeypatch):
    """An owner is left out while the victim is there: the number moves by nothing, which is less than declared."""
    measured = DuckDBEngine.totals

    def one_hides_another(self, query, key):
        answer = measured(self, query, key)
        hidden = 1 if answer.owners[0] > 1 and _rows(self) > VICTIM_ROWS + 20 else 0
        return replace(answer, owners=answer.owners - hidden, totals=tuple(total - hidden for total in answer.totals))

    monkeypatch.setattr(DuckDBEngine, "totals", one_hides_another)
    assert looked_at(3, COUNTING) == ("computed", "")
    _, wrong = looked_at(whole_hunt.WITH_ALONE, COUNTING)
    assert "part of the other owners" in wrong


def _rows(engine):
    return engine._connection.sql("SELECT COUNT(*) FROM people").fetchall()[0][0]


def test_a_failure_on_one_neighbour_is_found(monkeypatch):
    measured = DuckDBEngine.totals

    def fails(self, query, key):
        if _rows(self) == VICTIM_ROWS:
            return measured(self, query, key)
        raise EngineFailure

    monkeypatch.setattr(DuckDBEngine, "totals", fails)
    assert looked_at(3, COUNTING)[1] == "the engine fails where data is read"


def test_a_refusal_is_no_find_and_is_counted_by_its_code():
    assert looked_at(3, "SELECT t FROM people") == ("refused: E_RAW_OUTPUT", "")


@pytest.mark.slow
def test_a_query_on_large_tables_is_computed_there():
    grouped = COUNTING.replace("COUNT(DISTINCT uid)", "small, COUNT(DISTINCT uid)") + " GROUP BY 1"
    assert looked_at(whole_hunt.FIRST_LARGE, grouped) == ("computed on large tables", "")


@pytest.mark.slow
def test_large_tables_have_more_rows_than_one_thread_gets_at_a_time():
    sessions = whole_hunt.opened_large(whole_hunt.with_limits(whole_hunt.second_data.CATALOG))
    assert [_rows(session._engine) > ROWS_OF_ONE_THREAD for session in sessions] == [True, True]
    assert _rows(sessions[0]._engine) == _rows(sessions[1]._engine) + VICTIM_ROWS


@pytest.mark.slow
def test_a_planted_oracle_is_found_and_the_hunt_goes_on(monkeypatch, tmp_path):
    """Neither the binder nor the plan brings the two sides of IN (SELECT …) to one type."""
    monkeypatch.setattr(InRelation, "__post_init__", lambda _: None)
    monkeypatch.setattr("shoal.sql.functions.unified", lambda arguments, *_: list(arguments))
    monkeypatch.setattr(whole_hunt, "WRITERS", {"second": lambda seed: PLANTED.format(seed) if seed else COUNTING})
    monkeypatch.setattr(whole_hunt, "TURNS", {"second": 1})
    monkeypatch.setattr(whole_hunt, "PREPARED", 1)
    found = hunted(tmp_path, ["second"], 3)
    assert set(found.finds) == {"second 1", "second 2"}
    assert all("a cast from" in find for find in found.finds.values())
    assert found.asked["second, computed and asked"] == 1


def test_what_puts_nothing_new_together_is_planned_and_no_more():
    ground = whole_hunt.Ground("second")
    larger = COUNTING + " WHERE small > {}"
    faces = on_its_own_stack(
        lambda: [ground.looked_at(3, sql) for sql in (COUNTING, larger.format(1), larger.format(2))], shared=True
    )
    assert faces == [("computed", ""), ("planned", ""), ("planned", "")]


def test_one_query_in_some_is_computed_where_it_puts_something_new_together(monkeypatch):
    monkeypatch.setattr(whole_hunt, "NEW", 1)
    ground = whole_hunt.Ground("second")
    larger = COUNTING + " WHERE small > {}"
    faces = on_its_own_stack(
        lambda: [ground.looked_at(3, sql) for sql in (COUNTING, larger.format(1), larger.format(2))], shared=True
    )
    assert faces == [("computed", ""), ("computed", ""), ("planned", "")]


def test_a_plan_that_takes_too_long_is_found(monkeypatch):
    monkeypatch.setattr(whole_hunt, "LONGEST_PLANNING", 0.0)
    became, wrong = looked_at(3, COUNTING)
    assert became == "planned"
    assert wrong.startswith("planning took")


def test_pairs_of_constructs_are_kept_from_one_run_to_the_next(tmp_path):
    session = whole_hunt.opened("second", whole_hunt.with_limits(whole_hunt.second_data.CATALOG))[0]
    plan, other = (session.plan(COUNTING + condition) for condition in ("", " WHERE small > 1 OR flag"))
    shapes = Shapes(tmp_path / "shapes")
    shapes.add(shapes.new_of(plan))
    shapes.save()
    again = Shapes(tmp_path / "shapes")
    assert len(again) == len(shapes) > 0
    assert again.new_of(plan) == set()
    assert {"or(boolean, boolean)", "or > greater", "or > boolean", "greater(integer, integer)"} <= again.new_of(other)


PLANTED = COUNTING + " WHERE CASE WHEN uid = {} THEN 100 ELSE 0 END IN (SELECT CAST(0.5 AS DECIMAL(38, 37)))"


@pytest.mark.slow
def test_runs_add_up_and_a_text_counts_once(tmp_path, monkeypatch):
    monkeypatch.setattr(whole_hunt, "TURNS", dict.fromkeys(whole_hunt.GENERATORS, 1))
    monkeypatch.setattr(whole_hunt, "POLICIES", 1)
    first = hunted(tmp_path, whole_hunt.GENERATORS, 3)
    again = hunted(tmp_path, whole_hunt.GENERATORS, 6)
    assert first.finds == again.finds == {}
    assert (written_in(first.asked), written_in(again.asked)) == (6, 12)
    (tmp_path / "progress.json").unlink()
    repeated = hunted(tmp_path, whole_hunt.GENERATORS, 6)
    assert written_in(repeated.asked) == sum(
        repeated.asked[f"{g}, left out or written before"] for g in whole_hunt.GENERATORS
    )


@pytest.mark.parametrize("generator", whole_hunt.GENERATORS)
def test_a_query_is_replayable_from_its_seed_and_hardly_any_is_written_twice(generator):
    texts = [whole_hunt.written(generator, seed) for seed in range(400)]
    assert texts[:50] == [whole_hunt.written(generator, seed) for seed in range(50)]
    assert len(set(texts)) > 390


def test_every_construct_that_is_counted_is_written():
    texts = [whole_hunt.written(generator, seed) for generator in whole_hunt.GENERATORS for seed in range(1_300)]
    assert {name for sql in texts for name in whole_hunt.constructs_of(sql)} == set(whole_hunt.CONSTRUCTS)
