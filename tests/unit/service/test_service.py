"""The service without HTTP: who may ask what, what it costs, what is free, and what survives a death."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest
from service_shop import counting

import shoal
from shoal.params import budget
from shoal.service import jobs, log, rates
from shoal.service.acts import planned
from shoal.service.allowances import Grant
from shoal.service.datasets import NewDataSet
from shoal.service.people import later
from shoal.service.questions import Question
from shoal.service.service import OPERATOR


def caller(service, name):
    return service.people.trusted(name, "test")


def ask(service, name, sql, key=None, seconds=30.0, **more):
    job = service.ask(caller(service, name), "visits", Question(sql, **more), key)
    return service.wait(job.id, seconds)


def refused(code):
    return pytest.raises(shoal.ShoalError, match=code)


def spent(service):
    return service.datasets.get("visits").ledger.spent[0]


# ---- asking --------------------------------------------------------------------------------------------------------


def test_an_analyst_gets_an_answer_and_the_ledger_has_the_charge(service):
    job = ask(service, "ann", counting())
    assert (job.state, job.charged, spent(service)) == ("answered", True, Fraction(1, 10))
    _, _, result = service.answer(caller(service, "ann"), job.answer)
    assert result.columns == ["n"]
    assert result.epsilon == 0.1


def test_the_same_question_is_free_for_everybody_whatever_its_text(service):
    first = ask(service, "ann", counting())
    texts = [
        counting(),
        f"  {counting()} -- a remark",
        counting().replace("SELECT", "select").replace("(epsilon", "( epsilon"),
    ]
    again = [ask(service, name, sql) for name in ("ann", "bob") for sql in texts]
    assert {job.answer for job in again} == {first.answer}
    assert not any(job.charged for job in again)
    assert spent(service) == Fraction(1, 10)


def test_the_level_of_the_error_bars_is_chosen_afterwards(service):
    first = ask(service, "ann", counting())
    at_another_level = counting().replace("epsilon = 0.1", "epsilon = 0.1, confidence_level = 0.5")
    assert ask(service, "bob", at_another_level).answer == first.answer


@pytest.mark.parametrize(
    "other",
    [counting(0.2), counting(what="m"), counting() + " WHERE site = 's1'", counting().replace("DISTINCT uid", "*")],
)
def test_another_question_is_charged(service, other):
    first = ask(service, "ann", counting())
    second = ask(service, "ann", other)
    assert second.answer != first.answer
    assert second.charged


def test_fresh_noise_is_drawn_and_paid_for(service):
    first, second = ask(service, "ann", counting()), ask(service, "ann", counting(), fresh=True)
    assert second.answer != first.answer
    assert spent(service) == Fraction(2, 10)
    assert ask(service, "bob", counting()).answer == first.answer


def test_a_refresh_begins_a_new_version(service):
    first = ask(service, "ann", counting())
    service.refresh(OPERATOR, "visits")
    assert ask(service, "ann", counting()).answer != first.answer


def test_answers_that_are_not_shared_are_free_for_their_asker_alone(opened, folder):
    catalog = folder.parent / "shoal.toml"
    catalog.write_text(catalog.read_text() + "[service]\nshare_answers = false\n")
    service = opened()
    first = ask(service, "ann", counting())
    assert ask(service, "ann", counting()).answer == first.answer
    other = ask(service, "bob", counting())
    assert other.charged
    assert service.explain(caller(service, "ann"), "visits", counting())["replay"] is None
    with refused("E_NOT_FOUND"):
        service.answer(caller(service, "bob"), first.answer)


def test_a_question_about_public_tables_costs_nothing(service):
    job = ask(service, "ann", "SELECT town FROM sites ORDER BY town")
    assert (job.state, job.charged, spent(service)) == ("answered", False, 0)
    _, _, result = service.answer(caller(service, "bob"), job.answer)
    assert result["town"] == ["here", "there"]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT uid FROM visits", "E_NO_DP_CLAUSE"),
        ("DROP TABLE visits", "E_STATEMENT"),
        (counting(0.001), "E_POLICY"),
        ("", "E_PARSE"),
        (f"EXPLAIN PRIVACY {counting()}", "E_USAGE"),
    ],
)
def test_a_refused_question_is_free_and_logged(service, sql, code):
    with refused(code):
        ask(service, "ann", sql)
    assert spent(service) == 0
    assert log.lines(service.store)[-1]["outcome"] == code


def test_what_does_not_fit_the_budget_fails_and_costs_nothing(service):
    job = ask(service, "ann", counting(3.0))
    assert (job.state, job.error["code"], spent(service)) == ("failed", "E_BUDGET", 0)


def test_64_people_at_once_never_overspend(opened):
    service = opened((2.0, 0.0), slots=4)
    for number in range(64):
        service.add_user(OPERATOR, f"u{number}", ["analyst"])
    service.allow(OPERATOR, Grant("visits", "everyone"))
    ended = []

    def one(number):
        ended.append(ask(service, f"u{number}", counting(0.1, f"n{number}"), seconds=120))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(job.state == "answered" for job in ended) == 20
    assert {job.error["code"] for job in ended if job.state == "failed"} == {"E_BUDGET"}
    assert spent(service) == 2


def test_identical_questions_in_flight_are_one_run(opened):
    service = opened(start=False)
    waiting = [service.ask(caller(service, name), "visits", Question(counting())) for name in ("ann", "bob", "ann")]
    service.start()
    ended = [service.wait(job.id, 30) for job in waiting]
    assert len({job.answer for job in ended}) == 1
    assert [job.charged for job in ended] == [True, False, False]
    assert spent(service) == Fraction(1, 10)


def test_one_cancel_leaves_the_run_to_the_others(opened):
    service = opened(start=False)
    first, second = (service.ask(caller(service, name), "visits", Question(counting())) for name in ("ann", "bob"))
    assert service.cancel(caller(service, "ann"), first.id).state == "cancelled"
    service.start()
    assert service.wait(second.id, 30).charged
    assert [entry.user for entry in service.datasets.get("visits").ledger.entries()] == ["bob"]


# ---- keys ----------------------------------------------------------------------------------------------------------


def test_the_same_request_is_the_same_job(service):
    first = ask(service, "ann", counting(), key="k", fresh=True)
    assert ask(service, "ann", counting(), key="k", fresh=True).id == first.id
    assert spent(service) == Fraction(1, 10)
    with refused("E_IDEMPOTENCY"):
        ask(service, "ann", counting(0.2), key="k")
    assert ask(service, "bob", counting(0.2), key="k").state == "answered"


# ---- limits --------------------------------------------------------------------------------------------------------


def test_an_allowance_is_a_limit_inside_the_budget(service):
    service.allow(OPERATOR, Grant("visits", "ann", "day", budget((0.15, 0.0))))
    assert ask(service, "ann", counting(0.1)).state == "answered"
    refusal = ask(service, "ann", counting(0.1, "m"))
    assert (refusal.state, refusal.error["code"]) == ("failed", "E_BUDGET")
    assert ask(service, "bob", counting(0.1, "m")).state == "answered"
    left = service.describe(caller(service, "ann"), "visits")["allowances"]
    assert [grant["left"]["epsilon"] for grant in left if grant["to"] == "ann"] == [0.05]


def test_a_group_shares_its_allowance_and_everyone_has_their_own(service):
    service.allow(OPERATOR, Grant("visits", "group:research", "ever", budget((0.3, 0.0))))
    service.allow(OPERATOR, Grant("visits", "everyone", "ever", budget((0.2, 0.0))))
    assert ask(service, "ann", counting(0.2)).state == "answered"
    assert ask(service, "ann", counting(0.1, "m")).state == "failed"
    assert ask(service, "bob", counting(0.1, "k")).state == "answered"
    assert ask(service, "bob", counting(0.1, "l")).state == "failed"


def test_who_is_in_two_groups_is_charged_to_both(service):
    service.add_user(OPERATOR, "dora", ["analyst"], ["north", "south"])
    for group in ("north", "south"):
        service.allow(OPERATOR, Grant("visits", f"group:{group}", "ever", budget((1.0, 0.0))))
    assert ask(service, "dora", counting(0.2)).state == "answered"
    left = [each["left"]["epsilon"] for each in service.describe(caller(service, "dora"), "visits")["allowances"]]
    assert left == [0.8, 0.8]


def test_the_most_a_query_may_cost_is_the_smallest_limit(service):
    service.allow(OPERATOR, Grant("visits", "ann", max_epsilon=Fraction(1, 20)))
    with refused("E_POLICY"):
        ask(service, "ann", counting(0.1))
    assert ask(service, "ann", counting(0.05)).state == "answered"


def test_who_is_not_allowed_sees_nothing_in_the_same_words_as_for_what_is_not_there(service):
    service.add_user(OPERATOR, "eve", ["analyst"])
    eve = caller(service, "eve")
    assert service.list_datasets(eve) == []
    texts = set()
    for name in ("visits", "nothing"):
        for act in (lambda n: service.describe(eve, n), lambda n: service.ask(eve, n, Question(counting()))):
            with refused("E_NOT_FOUND") as error:
                act(name)
            texts.add(str(error.value))
    assert len(texts) == 1


def test_roles_do_what_they_may_and_nothing_else(service):
    answered = ask(service, "carla", counting())
    otto, ann = caller(service, "otto"), caller(service, "ann")
    assert service.budget(otto, "visits")["entries"][0]["user"] == "carla"
    assert service.budget(ann, "visits")["entries"] == []
    assert "by_user" not in service.budget(ann, "visits")
    for act in (
        lambda: service.ask(otto, "visits", Question(counting())),
        lambda: service.answer(otto, answered.answer),
        lambda: service.allow(ann, Grant("visits", "ann")),
        lambda: service.log(ann),
        lambda: service.add_user(otto, "x", ["custodian"]),
    ):
        with refused("E_FORBIDDEN"):
            act()


def test_a_second_ledger_for_the_same_people_is_refused_unless_it_is_said(service, folder):
    catalog = str(folder.parent / "shoal.toml")
    with refused("E_POLICY"):
        service.add_dataset(OPERATOR, NewDataSet("again", str(folder), catalog, budget((1, 0))))
    service.add_dataset(OPERATOR, NewDataSet("shared", str(folder), catalog, None, ledger="visits"))
    service.add_dataset(OPERATOR, NewDataSet("others", str(folder), catalog, budget((1, 0)), new_people=True))
    job = service.ask(caller(service, "carla"), "shared", Question(counting()))
    assert service.wait(job.id, 30).charged
    assert spent(service) == Fraction(1, 10)


# ---- approvals -----------------------------------------------------------------------------------------------------


def test_a_dear_question_waits_for_somebody_else(service):
    service.allow(OPERATOR, Grant("visits", "everyone", approve_above=Fraction(1, 10)))
    waiting = ask(service, "carla", counting(0.5), reason="the board asks")
    (approval,) = service.approvals(caller(service, "carla"))
    assert (waiting.state, approval["reason"], approval["explanation"]["epsilon"]) == (
        "approval",
        "the board asks",
        0.5,
    )
    with refused("E_FORBIDDEN"):
        service.decide(caller(service, "carla"), approval["id"], "approve")
    service.add_user(OPERATOR, "clara", ["custodian"])
    service.decide(caller(service, "clara"), approval["id"], "approve")
    assert service.wait(waiting.id, 30).state == "answered"
    assert ask(service, "carla", counting(0.5), fresh=True).charged
    with service.store.writing() as rows:
        rows.run("UPDATE approvals SET expires = ?", later(rows.now(), timedelta(seconds=-1)))  # seven days later
    assert ask(service, "carla", counting(0.5), fresh=True).state == "approval"
    assert ask(service, "ann", counting(0.5)).answer
    assert spent(service) == 1


def test_a_refused_question_costs_nothing(service):
    service.allow(OPERATOR, Grant("visits", "everyone", approve_above=Fraction(1, 10)))
    waiting = ask(service, "ann", counting(0.5))
    (approval,) = service.approvals(caller(service, "carla"))
    service.decide(caller(service, "carla"), approval["id"], "refuse", "too dear")
    assert service.wait(waiting.id, 1).error["code"] == "E_POLICY"
    assert spent(service) == 0


# ---- what survives -------------------------------------------------------------------------------------------------


def test_a_job_whose_process_died_runs_once_more_under_the_same_charge(opened):
    first = opened(start=False)
    job = first.ask(caller(first, "ann"), "visits", Question(counting()), "k")
    gone = "nobody 1 1"
    with first.store.writing() as rows:
        taken = jobs.take_next(rows)
        rows.run("UPDATE jobs SET process = ?, lease = '' WHERE id = ?", gone, taken.id)
    from shoal.accounting.accountants import Loss
    from shoal.accounting.spending.asking import Request

    ledger = first.datasets.get("visits").ledger
    request = Request(job.request, job.body)
    ledger.reserve(Loss(Fraction(1, 10), Fraction(0)), user="ann", description=job.sql, request=request)
    second = opened()
    ended = second.wait(job.id, 30)
    assert (ended.state, ended.runs, spent(second)) == ("answered", 2, Fraction(1, 10))


def test_a_second_death_ends_the_job(opened):
    first = opened(start=False)
    job = first.ask(caller(first, "ann"), "visits", Question(counting()))
    with first.store.writing() as rows:
        jobs.take_next(rows)
        rows.run("UPDATE jobs SET process = 'nobody 1 1', lease = '', runs = 2")
    second = opened()
    ended = second.wait(job.id, 30)
    assert (ended.state, ended.error["code"]) == ("failed", "E_EXECUTION")


def test_waiting_jobs_stay_for_the_next_start(opened):
    first = opened(start=False)
    job = first.ask(caller(first, "ann"), "visits", Question(counting()))
    first.close()
    assert opened().wait(job.id, 30).state == "answered"


def test_a_failed_run_stays_charged_suspends_and_is_the_same_to_look_at_afterwards(service, folder):
    job = ask(service, "ann", counting())
    dataset = service.datasets.get("visits")
    dataset.ledger.suspend("ann", 1, "a test")
    with_suspension = ask(service, "ann", counting(0.2))
    assert with_suspension.error["code"] == "E_SUSPENDED"
    assert ask(service, "ann", counting()).answer == job.answer
    service.lift(caller(service, "carla"), "visits", "ann", "looked at it")
    assert ask(service, "ann", counting(0.3)).state == "answered"


# ---- time ----------------------------------------------------------------------------------------------------------


def test_replies_that_read_data_end_on_the_ladder_and_late_ones_suspend(opened, monkeypatch):
    service = opened(answer_time=1e-9)
    for number in range(3):
        assert ask(service, "ann", counting(0.1, f"n{number}")).state == "answered"
    ended = ask(service, "ann", counting(0.1, "last"))
    assert ended.error["code"] == "E_SUSPENDED"
    assert any(line["action"] == "suspension" for line in log.lines(service.store))


def test_a_question_or_a_catalog_names_a_longer_time_at_which_replies_leave(opened, folder):
    service = opened(answer_time=0.01)
    before = time.monotonic()
    ask(service, "ann", counting(0.1, "named"), answer_time=0.8)
    assert time.monotonic() - before >= 0.8
    (folder.parent / "slow.toml").write_text('[tables.visits]\nowner = "uid"\n[service]\nanswer_time = 0.7\n')
    more = NewDataSet("slow", str(folder / "visits.parquet"), str(folder.parent / "slow.toml"), budget((1.0, 0.0)))
    service.add_dataset(OPERATOR, replace(more, new_people=True))
    carla, before = caller(service, "carla"), time.monotonic()
    job = service.wait(service.ask(carla, "slow", Question(counting(0.1, "n"))).id, 60)
    assert (job.state, time.monotonic() - before >= 0.7) == ("answered", True)
    for wrong in (0, -1, 3601, "1", True):
        with refused("E_USAGE"):
            Question(counting(), answer_time=wrong)


# ---- tokens --------------------------------------------------------------------------------------------------------


def test_a_token_is_shown_once_and_good_until_it_is_revoked_in_whichever_process(opened):
    service, other = opened(), opened(start=False)
    with refused("E_USAGE"):
        service.create_token(OPERATOR, "ann", days=367)
    made = service.create_token(OPERATOR, "ann", datasets=["visits"], days=1)
    found = service.people.caller(made["token"])
    assert (found.name, found.scope) == ("ann", {"explain", "query", "read"})
    assert len(made["token"]) == len("shoal_") + 43
    assert made["token"] not in str(service.tokens(caller(service, "carla"))) + "".join(log.export(service.store))
    assert other.people.caller(made["token"]).name == "ann"
    service.revoke_token(caller(service, "carla"), made["id"])
    for each in (service, other):
        with refused("E_AUTH"):
            each.people.caller(made["token"])


@pytest.mark.parametrize("token", ["", "shoal_", "shoal_" + "A" * 43, "\udcff", "x" * 10**6])
def test_any_other_text_is_not_a_token(service, token):
    with refused("E_AUTH"):
        service.people.caller(token)


def test_a_token_cannot_make_one_that_can_do_more(service):
    narrow = service.people.caller(service.create_token(OPERATOR, "carla", ["explain"], ["visits"])["token"])
    assert service.people.caller(service.create_token(narrow)["token"]).scope == {"explain"}
    for act in (lambda: service.create_token(narrow, scope=["admin"]), lambda: service.create_token(narrow, "ann")):
        with refused("E_FORBIDDEN"):
            act()


def test_names_are_never_used_twice(service):
    token = service.create_token(OPERATOR, "bob")["token"]
    service.retire_user(OPERATOR, "bob")
    with refused("E_AUTH"):
        service.people.caller(token)
    with refused("E_USAGE"):
        service.add_user(OPERATOR, "bob", ["analyst"])


@pytest.mark.parametrize("name", ["", "Ann", "a b", "../x", "everyone", "a" * 64, "é"])
def test_odd_names_are_refused(service, name):
    with refused("E_USAGE"):
        service.add_user(OPERATOR, name, ["analyst"])


# ---- the log -------------------------------------------------------------------------------------------------------


def test_every_charge_has_one_line_and_the_chain_verifies(service):
    for number in range(3):
        ask(service, "ann", counting(0.1, f"n{number}"))
    ask(service, "bob", counting(0.1, "n0"))
    exported = list(log.export(service.store))
    noted = log.anchor(service.store)
    assert log.verify(exported, noted) == len(exported) - 1
    charges = [line["charge"] for line in log.lines(service.store) if line["charge"]]
    ledger = service.datasets.get("visits").ledger
    assert charges == ["{}:{}".format(*ledger.anchor_of(entry.sequence)) for entry in ledger.entries()]
    assert {line["epsilon"] for line in log.lines(service.store) if line["charge"]} == {"1/10"}


def test_a_changed_missing_or_rolled_back_line_is_found(service):
    ask(service, "ann", counting())
    exported = list(log.export(service.store))
    noted = log.anchor(service.store)
    for wrong in (
        [*exported[:-1], exported[-1].replace("ann", "bob")],
        exported[:2] + exported[3:],
        [exported[0].replace('"log":1', '"log":2'), *exported[1:]],
    ):
        with refused("E_LEDGER"):
            log.verify(wrong)
    assert log.verify(exported[:-1])
    with refused("E_LEDGER"):
        log.verify(exported[:-1], noted)


def test_a_line_that_a_death_left_out_is_written_at_the_next_start(opened):
    first = opened()
    from shoal.accounting.accountants import Loss

    ledger = first.datasets.get("visits").ledger
    ledger.reserve(Loss(Fraction(1, 4), Fraction(0)), user="ann", description="SELECT 1").commit(b"x")
    second = opened()
    line = log.lines(second.store)[-1]
    assert (line["actor"], line["epsilon"], line["detail"]) == ("ann", "1/4", "written from the ledger")


@pytest.mark.parametrize("place", ["file"], indirect=True)
def test_an_older_copy_of_a_ledger_is_refused(opened, place):
    service = opened()
    place = place / "ledgers" / "visits.db"
    before = place.read_bytes()
    ask(service, "ann", counting())
    service.close()
    place.write_bytes(before)
    with refused("E_LEDGER"):
        opened()


def test_the_log_cannot_be_changed_through_the_store(service):
    with refused("E_LEDGER"), service.store.writing() as rows:
        rows.run("UPDATE log SET line = 'x'")
    with refused("E_LEDGER"), service.store.writing() as rows:
        rows.run("DELETE FROM log")


def test_refusals_are_logged_in_full_a_hundred_times_an_hour(service):
    before = len(log.lines(service.store))
    for _ in range(105):
        with refused("E_PARSE"):
            ask(service, "ann", "SELECT ,")
    assert len(log.lines(service.store)) - before == 100


def test_rates_refuse_a_flood(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(rates.time, "monotonic", lambda: clock[0])
    buckets = rates.Rates()
    for _ in range(10):
        buckets.take("ann", "query")
    with refused("E_RATE"):
        buckets.take("ann", "query")
    buckets.take("bob", "query")
    clock[0] += 0.5
    buckets.take("ann", "query")
    with refused("E_RATE"):
        buckets.take("ann", "query")


def test_explanations_are_counted_in_batches_and_none_is_lost(opened):
    service = opened()
    for _ in range(5):
        service.explain(caller(service, "ann"), "visits", counting())
    service.close()
    with opened(start=False).store.reading() as rows:
        found = rows.all("SELECT person, sum(number) AS number FROM counts WHERE what = 'explain' GROUP BY person")
    assert found == [{"person": "ann", "number": 5}]


# ---- plans that were made before -----------------------------------------------------------------------------------


def test_an_explanation_of_a_known_question_says_what_is_left_now(service):
    ann = caller(service, "ann")
    first = service.explain(ann, "visits", counting())
    ask(service, "ann", counting(0.5, "other"))
    again = service.explain(ann, "visits", counting())
    assert (first["remaining"][0], again["remaining"][0]) == (2.0, 1.5)
    assert "1.5" in again["text"]
    assert {**first, "remaining": 0, "text": 0} == {**again, "remaining": 0, "text": 0}


def test_a_refresh_forgets_plans_and_the_time_of_day_is_never_remembered(service, folder):
    ann = caller(service, "ann")
    service.explain(ann, "visits", counting())
    (folder.parent / "shoal.toml").write_text('[tables.visits]\nowner = "site"\n')
    service.refresh(OPERATOR, "visits")
    assert service.explain(ann, "visits", counting())["selects"][0]["ownership"]["owner"] == ["site"]
    texts = ["SELECT CURRENT_DATE", "SELECT today()", "SELECT now()", "SELECT localtimestamp"]
    assert all(planned._TELLS_TIME.search(text) for text in texts)
