"""The service without HTTP: who may ask what, how much, and who has to agree."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest
from service_calls import ask, caller, refused, spent
from service_shop import CATALOG, counting

from shoal.params import budget
from shoal.service import jobs, log
from shoal.service.allowances import Grant
from shoal.service.datasets import NewDataSet
from shoal.service.people import later
from shoal.service.questions import Question
from shoal.service.runners.hired import Hired
from shoal.service.service import OPERATOR


def test_an_allowance_is_a_limit_inside_the_budget(service):
    service.allow(OPERATOR, Grant("visits", "ann", "day", budget((0.15, 0.0))))
    assert ask(service, "ann", counting(0.1)).state == "answered"
    refusal = ask(service, "ann", counting(0.1, "m"))
    assert (refusal.state, refusal.error["code"]) == ("failed", "E_BUDGET")
    assert "the allowance of ann on visits today has epsilon 0.05" in refusal.error["message"]
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


def test_a_second_data_set_of_a_ledger_may_name_its_budget_and_no_other(service, folder):
    limit = service.datasets.ledger("visits").budget
    catalog = str(folder.parent / "shoal.toml")
    with refused("E_USAGE"):
        other = budget((float(limit.epsilon) / 2, 0.0))
        service.add_dataset(OPERATOR, NewDataSet("more", str(folder), catalog, other, ledger="visits"))
    service.add_dataset(OPERATOR, NewDataSet("more", str(folder), catalog, limit, ledger="visits"))
    assert service.datasets.get("more").ledger_name == "visits"


def test_the_most_a_query_may_cost_is_the_smallest_limit(service):
    service.allow(OPERATOR, Grant("visits", "ann", max_epsilon=Fraction(1, 20)))
    with refused("E_POLICY"):
        ask(service, "ann", counting(0.1))
    assert ask(service, "ann", counting(0.05)).state == "answered"


def test_an_explanation_says_that_a_question_costs_more_than_one_may_and_a_free_answer_is_not_refused(service):
    service.allow(OPERATOR, Grant("visits", "ann", max_epsilon=Fraction(1, 20)))
    assert not service.explain(caller(service, "ann"), "visits", counting(0.1))["affordable"]
    assert service.explain(caller(service, "ann"), "visits", counting(0.05))["affordable"]
    paid = ask(service, "bob", counting(0.1))
    replayed = ask(service, "ann", counting(0.1))
    assert (replayed.answer, replayed.charged) == (paid.answer, False)
    with refused("E_POLICY"):
        ask(service, "ann", counting(0.1), fresh=True)


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


@pytest.mark.parametrize("limit", ["allowance", "ledger", "suspension"])
def test_a_question_that_cannot_be_charged_does_not_wait_for_approval(service, limit):
    room = budget((0.3, 0)) if limit == "allowance" else None
    service.allow(OPERATOR, Grant("visits", "ann", "week", budget=room, approve_above=Fraction(1, 10)))
    asked = ask(service, "ann", counting(0.05))
    if limit == "suspension":
        service.datasets.get("visits").ledger.suspend("ann", 1, "late replies")
    with refused("E_SUSPENDED" if limit == "suspension" else "E_BUDGET"):
        ask(service, "ann", counting(51 if limit == "ledger" else 0.3))
    assert service.approvals(caller(service, "carla")) == []
    assert (spent(service), ask(service, "ann", counting(0.05)).answer) == (Fraction(1, 20), asked.answer)
    if limit != "suspension":
        assert ask(service, "ann", counting(0.25)).state == "approval"  # exactly what is left


def test_a_question_with_an_answer_needs_neither_room_nor_approval(service):
    service.allow(OPERATOR, Grant("visits", "bob", budget=budget((0.1, 0)), approve_above=Fraction(1, 10)))
    paid = ask(service, "ann", counting(0.5))
    assert ask(service, "bob", counting(0.5)).answer == paid.answer
    with refused("E_BUDGET"):
        ask(service, "bob", counting(0.5), fresh=True)
    assert spent(service) == Fraction(1, 2)


def test_a_refused_question_costs_nothing(service):
    service.allow(OPERATOR, Grant("visits", "everyone", approve_above=Fraction(1, 10)))
    waiting = ask(service, "ann", counting(0.5))
    (approval,) = service.approvals(caller(service, "carla"))
    service.decide(caller(service, "carla"), approval["id"], "refuse", "too dear")
    assert service.wait(waiting.id, 1).error["code"] == "E_POLICY"
    assert spent(service) == 0


@pytest.mark.parametrize(("fresh", "cost"), [(False, Fraction(1, 2)), (True, 1)])
def test_a_question_that_was_sent_twice_and_approved_twice_is_run_once(opened, fresh, cost):
    service = opened(start=False)
    service.allow(OPERATOR, Grant("visits", "everyone", approve_above=Fraction(1, 10)))
    asked = [service.ask(caller(service, "ann"), "visits", Question(counting(0.5), fresh=fresh)) for _ in range(2)]
    for approval in service.approvals(caller(service, "carla")):
        service.decide(caller(service, "carla"), approval["id"], "approve")
    first, second = (service.job(caller(service, "ann"), job.id) for job in asked)
    assert {first.leader, second.leader} == ({""} if fresh else {"", first.id if second.leader else second.id})
    service.start()
    answers = {service.wait(job.id, 30).answer for job in asked}
    assert (len(answers), spent(service)) == (2 if fresh else 1, cost)


# ---- questions that wait while the data set changes ------------------------------------------------------------------

PLAIN = "SELECT COUNT(DISTINCT uid) AS n FROM visits"


def set_default(folder, epsilon):
    """What plain SQL costs by the catalog."""
    (folder.parent / "shoal.toml").write_text(f"{CATALOG}\nepsilon = {epsilon}\ndelta = 1e-6\n")


@pytest.mark.parametrize("after", [0.5, 1.9])
def test_an_approval_is_for_the_version_and_the_price_that_were_shown(opened, folder, after):
    set_default(folder, 0.5)
    service = opened()
    service.allow(OPERATOR, Grant("visits", "everyone", max_epsilon=Fraction(3, 5), approve_above=Fraction(1, 10)))
    waiting = ask(service, "ann", PLAIN)
    (approval,) = service.approvals(caller(service, "carla"))
    assert (waiting.state, approval["explanation"]["epsilon"]) == ("approval", 0.5)
    set_default(folder, after)
    service.refresh(OPERATOR, "visits")
    service.decide(caller(service, "carla"), approval["id"], "approve")
    ended = service.wait(waiting.id, 30)
    assert (ended.state, ended.error["code"], ended.charged, spent(service)) == ("failed", "E_POLICY", False, 0)


@pytest.mark.parametrize("fresh", [False, True])
def test_a_question_that_waited_is_not_run_at_another_price(opened, folder, fresh):
    set_default(folder, 0.1)
    service = opened(start=False)
    service.allow(OPERATOR, Grant("visits", "everyone", max_epsilon=Fraction(1, 5)))
    job = service.ask(caller(service, "ann"), "visits", Question(PLAIN, fresh=fresh))
    set_default(folder, 1.9)
    service.refresh(OPERATOR, "visits")
    service.start()
    ended = service.wait(job.id, 30)
    assert (ended.state, ended.error["code"], spent(service)) == ("failed", "E_POLICY", 0)


def test_a_question_that_waited_is_answered_by_the_new_version_and_found_there(opened):
    service = opened(start=False)
    job = service.ask(caller(service, "ann"), "visits", Question(counting()))
    service.refresh(OPERATOR, "visits")
    service.start()
    ended = service.wait(job.id, 30)
    assert (ended.state, spent(service)) == ("answered", Fraction(1, 10))
    assert service.explain(caller(service, "ann"), "visits", counting())["replay"] == ended.answer


def test_an_allowance_can_be_withdrawn_and_the_others_stay(service):
    ann, carla = caller(service, "ann"), caller(service, "carla")
    service.withdraw(OPERATOR, "visits", "group:research")
    with refused("E_NOT_FOUND"):
        service.explain(ann, "visits", counting())
    service.allow(OPERATOR, Grant("visits", "ann"))
    service.allow(OPERATOR, Grant("visits", "ann", "week", max_epsilon=Fraction(1, 5)))
    with refused("E_POLICY"):
        ask(service, "ann", counting(0.5))
    service.withdraw(carla, "visits", "ann", "week")
    assert ask(service, "ann", counting(0.5)).state == "answered"
    for who, whom, per in ((carla, "ann", "week"), (carla, "bob", "ever"), (carla, "nobody", "ever")):
        with refused("E_NOT_FOUND"):
            service.withdraw(who, "visits", whom, per)
    with refused("E_NOT_FOUND"):
        service.withdraw(carla, "elsewhere", "ann")
    with refused("E_FORBIDDEN"):
        service.withdraw(ann, "visits", "ann")
    lines = [line for line in map(json.loads, log.export(service.store)) if line.get("outcome") == "withdrawn"]
    assert [(line["actor"], json.loads(line["detail"])) for line in lines] == [
        ("operator", {"per": "ever", "to": "group:research"}),
        ("carla", {"per": "week", "to": "ann"}),
    ]


def test_a_question_that_waits_when_its_allowance_is_withdrawn_is_refused_and_free(opened):
    service = opened(start=False)
    service.allow(OPERATOR, Grant("visits", "ann"))
    job = service.ask(caller(service, "ann"), "visits", Question(counting()))
    for whom in ("ann", "group:research"):
        service.withdraw(OPERATOR, "visits", whom)
    service.start()
    ended = service.wait(job.id, 60)
    assert (ended.state, ended.error["code"], ended.charged, spent(service)) == ("failed", "E_NOT_FOUND", False, 0)


def test_whoever_may_ask_reads_what_they_asked_for_and_nothing_else(service):
    """A program that waits for a long answer fetches it when its job has ended."""
    ann, bob = (replace(caller(service, name), scope=frozenset({"query"})) for name in ("ann", "bob"))
    job = service.ask(ann, "visits", Question(counting()))
    answer = service.wait(job.id, 60).answer
    assert service.answer(ann, answer)[0]["id"] == answer
    for reader, wanted in ((bob, answer), (ann, "a_nothing"), (replace(ann, scope=frozenset({"explain"})), answer)):
        with refused("E_FORBIDDEN"):
            service.answer(reader, wanted)
    assert service.ask(bob, "visits", Question(counting())).answer == answer
    assert service.answer(bob, answer)[0]["id"] == answer


def test_whoever_waits_behind_the_same_question_needs_an_allowance_when_it_is_answered(opened):
    service = opened(start=False)
    for name in ("ann", "bob", "carla"):
        service.allow(OPERATOR, Grant("visits", name))
    service.withdraw(OPERATOR, "visits", "group:research")
    asked = {
        name: service.ask(caller(service, name), "visits", Question(counting())) for name in ("ann", "bob", "carla")
    }
    assert {name: bool(job.leader) for name, job in asked.items()} == {"ann": False, "bob": True, "carla": True}
    for name in ("bob", "carla"):
        service.withdraw(OPERATOR, "visits", name)
    service.start()
    ended = {name: service.wait(job.id, 60) for name, job in asked.items()}
    assert {name: job.state for name, job in ended.items()} == {"ann": "answered", "bob": "failed", "carla": "answered"}
    assert (ended["bob"].error["code"], ended["bob"].charged) == ("E_NOT_FOUND", False)
    assert (ended["carla"].answer, spent(service)) == (ended["ann"].answer, Fraction(1, 10))


def test_whoever_waits_behind_the_same_question_when_answers_cease_to_be_shared_gets_their_own(opened, folder):
    service = opened(start=False)
    asked = [service.ask(caller(service, name), "visits", Question(counting())) for name in ("ann", "bob")]
    (folder.parent / "shoal.toml").write_text(CATALOG + "[service]\nshare_answers = false\n")
    service.refresh(OPERATOR, "visits")
    service.start()
    first, second = (service.wait(job.id, 60) for job in asked)
    assert (first.state, second.state, first.answer == second.answer) == ("answered", "answered", False)
    assert (second.charged, spent(service)) == (True, Fraction(1, 5))


@pytest.mark.parametrize("limit", ["max_epsilon", "approve_above"])
def test_a_limit_that_is_set_while_a_question_waits_holds_for_it(opened, limit):
    service = opened(start=False)
    waiting = [service.ask(caller(service, name), "visits", Question(counting(0.1, name))) for name in ("ann", "bob")]
    service.allow(OPERATOR, Grant("visits", "ann", **{limit: Fraction(1, 20)}))
    service.start()
    refusal, other = (service.wait(job.id, 60) for job in waiting)
    assert (refusal.state, refusal.error["code"], refusal.charged) == ("failed", "E_POLICY", False)
    assert (other.state, spent(service)) == ("answered", Fraction(1, 10))


def test_a_question_that_was_approved_needs_no_second_approval_for_a_lower_limit(opened):
    service = opened(start=False)
    service.allow(OPERATOR, Grant("visits", "ann", approve_above=Fraction(1, 20)))
    job = service.ask(caller(service, "ann"), "visits", Question(counting()))
    carla = caller(service, "carla")
    service.decide(carla, service.approvals(carla)[0]["id"], "approve")
    service.allow(OPERATOR, Grant("visits", "ann", approve_above=Fraction(1, 50)))
    service.start()
    assert service.wait(job.id, 60).state == "answered"


@pytest.mark.parametrize("limit", ["max_epsilon", "approve_above"])
def test_a_limit_that_is_set_after_a_death_holds_for_what_was_not_charged(opened, limit):
    service = opened(start=False)
    job = service.ask(caller(service, "ann"), "visits", Question(counting()))
    with service.store.writing() as rows:
        jobs.take_next(rows)
        rows.run("UPDATE jobs SET process = 'nobody 1 1', lease = ''")
    service.allow(OPERATOR, Grant("visits", "ann", **{limit: Fraction(1, 20)}))
    service.start()
    ended = service.wait(job.id, 60)
    assert (ended.state, ended.error["code"], ended.charged, spent(service)) == ("failed", "E_POLICY", False, 0)


@pytest.mark.parametrize("change", ["not shared", "retired"])
def test_whoever_waits_behind_a_question_gets_their_own_when_answers_cease_to_be_shared_while_it_runs(
    opened, folder, monkeypatch, change
):
    """The run had read the catalog before."""
    service = opened(start=False, slots=1)
    asked = [service.ask(caller(service, name), "visits", Question(counting())) for name in ("ann", "bob")]
    run = Hired.run

    def changing(*about):
        answer = run(*about)
        if change == "retired":
            service.retire_dataset(OPERATOR, "visits")
        elif service.datasets.versions()["visits"] == 1:
            (folder.parent / "shoal.toml").write_text(CATALOG + "[service]\nshare_answers = false\n")
            service.refresh(OPERATOR, "visits")
        return answer

    monkeypatch.setattr(Hired, "run", changing)
    service.start()
    first, second = (service.wait(job.id, 60) for job in asked)
    assert (first.state, first.answer != second.answer) == ("answered", True)
    assert second.state == ("failed" if change == "retired" else "answered")


@pytest.mark.parametrize("change", ["withdrawn", "not shared"])
def test_an_answer_that_exists_is_for_nobody_who_lost_it_while_their_question_was_planned(
    service, folder, monkeypatch, change
):
    """It was given to them: what was looked up before planning decided."""
    for name in ("ann", "bob"):
        service.allow(OPERATOR, Grant("visits", name))
    service.withdraw(OPERATOR, "visits", "group:research")
    paid = ask(service, "ann", counting())
    asked = service._plans.asked

    def changing(about):
        planned = asked(about)
        if about.person == "bob" and change == "withdrawn":
            service.withdraw(OPERATOR, "visits", "bob")
        elif about.person == "bob" and service.datasets.versions()["visits"] == 1:
            (folder.parent / "shoal.toml").write_text(CATALOG + "[service]\nshare_answers = false\n")
            service.refresh(OPERATOR, "visits")
        return planned

    monkeypatch.setattr(service._plans, "asked", changing)
    if change == "withdrawn":
        with refused("E_NOT_FOUND"):
            ask(service, "bob", counting())
    else:
        own = ask(service, "bob", counting())
        assert (own.state, own.charged, own.answer == paid.answer) == ("answered", True, False)


@pytest.mark.parametrize("change", ["withdrawn", "not shared"])
def test_an_answer_that_the_ledger_has_is_for_nobody_who_lost_it_while_their_question_ran(
    service, folder, monkeypatch, change
):
    """As where its own job could not yet be recorded as answered: the next run finds it in the ledger."""
    for name in ("ann", "bob"):
        service.allow(OPERATOR, Grant("visits", name))
    service.withdraw(OPERATOR, "visits", "group:research")
    ask(service, "ann", counting())
    run = Hired.run

    def changing(*about):
        answer = run(*about)
        if change == "withdrawn":
            service.withdraw(OPERATOR, "visits", "bob")
        else:
            (folder.parent / "shoal.toml").write_text(CATALOG + "[service]\nshare_answers = false\n")
            service.refresh(OPERATOR, "visits")
        return answer

    monkeypatch.setattr(Hired, "run", changing)
    monkeypatch.setattr(jobs, "released", lambda *_: None)
    ended = ask(service, "bob", counting())
    expected = "E_NOT_FOUND" if change == "withdrawn" else "E_POLICY"
    assert (ended.state, ended.error and ended.error["code"], ended.charged) == ("failed", expected, False)
    assert spent(service) == Fraction(1, 10)
