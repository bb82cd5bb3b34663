"""The service without HTTP: what is answered, what it costs, and what is free."""

from __future__ import annotations

import threading
from fractions import Fraction

import pytest
from service_calls import ask, caller, refused, spent
from service_shop import counting

from shoal.service import jobs, log
from shoal.service.acts import planned
from shoal.service.allowances import Grant
from shoal.service.questions import Question
from shoal.service.service import OPERATOR


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


def test_the_same_request_is_the_same_job(service):
    first = ask(service, "ann", counting(), key="k", fresh=True)
    assert ask(service, "ann", counting(), key="k", fresh=True).id == first.id
    assert spent(service) == Fraction(1, 10)
    with refused("E_IDEMPOTENCY"):
        ask(service, "ann", counting(0.2), key="k")
    assert ask(service, "bob", counting(0.2), key="k").state == "answered"


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
    assert not planned._TELLS_TIME.search(counting(0.1, "known"))


def test_nobody_waits_for_a_reply_that_another_asked_to_leave_later(opened):
    service = opened(start=False)
    ann, bob, carla = (
        service.ask(caller(service, name), "visits", Question(counting(), answer_time=seconds))
        for name, seconds in (("ann", 3600.0), ("bob", None), ("carla", 3600.0))
    )
    assert [job.leader for job in (ann, bob, carla)] == ["", "", ann.id]


def test_whoever_is_promoted_makes_nobody_wait_longer(opened):
    service = opened(start=False)
    carla, ann, bob = (
        service.ask(caller(service, name), "visits", Question(counting(), answer_time=seconds))
        for name, seconds in (("carla", None), ("ann", 3600.0), ("bob", None))
    )
    assert (ann.leader, bob.leader) == (carla.id, carla.id)
    service.cancel(caller(service, "carla"), carla.id)
    with service.store.reading() as rows:
        assert [jobs.get(rows, job.id).leader for job in (ann, bob)] == [bob.id, ""]
