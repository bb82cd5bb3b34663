"""Two keys and one answer per charge: replays, requests, resumed runs, answers that are no longer kept."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.accounting.spending.asking import Request
from shoal.accounting.stores.check import check_everything
from shoal.errors import ShoalError
from shoal.params import Budget

TENTH = Loss(Fraction(1, 10), Fraction(0))
REQUEST = Request.of("ann", "visits", "key-1", b"SELECT 1")


def refusal(call, *args, **options):
    with pytest.raises(ShoalError) as caught:
        call(*args, **options)
    return caught.value


def asked(ledger, *, request=REQUEST, user="ann", **options):
    return ledger.reserve(TENTH, user=user, request=request, **options)


def test_a_request_is_charged_once_and_its_answer_comes_back(ledger):
    assert asked(ledger).commit(b"rows") == b"rows"
    assert asked(ledger).answer == b"rows"
    assert asked(ledger, resume=True).answer == b"rows"
    assert ledger.spent[0] == Fraction(1, 10)


def test_another_body_under_the_same_key_is_refused(ledger):
    asked(ledger).commit(b"rows")
    other = Request.of("ann", "visits", "key-1", b"SELECT 2")
    assert refusal(asked, ledger, request=other).code == "E_IDEMPOTENCY"
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize("other", [("bob", "visits", "key-1"), ("ann", "sales", "key-1"), ("ann", "visits", "key-2")])
def test_a_key_belongs_to_one_user_and_one_data_set(ledger, other):
    asked(ledger).commit(b"rows")
    assert asked(ledger, request=Request.of(*other, b"SELECT 1"), user=other[0]).answer is None
    assert ledger.spent[0] == Fraction(1, 5)


def test_names_cannot_run_into_each_other_in_a_key():
    assert refusal(Request.of, "a\x1fb", "c", "k", b"").code == "E_USAGE"
    assert Request.of("a", "bc", "k", b"") != Request.of("ab", "c", "k", b"")


def test_a_request_that_ended_without_an_answer_says_so_and_is_not_charged_again(ledger):
    asked(ledger).cancel()
    assert refusal(asked, ledger).code == "E_EXECUTION"
    assert ledger.spent[0] == Fraction(1, 10)


def test_a_withheld_request_stays_withheld(ledger):
    first = asked(ledger)
    ledger.reserve(TENTH, user="ann").fail()
    assert refusal(first.commit, b"rows").code == "E_SUSPENDED"
    ledger.lift("ann", because="looked")
    assert refusal(asked, ledger).code == "E_SUSPENDED"


def test_a_charge_that_was_cut_short_is_taken_up_again_once(ledger):
    first = asked(ledger)
    again = asked(ledger, resume=True)
    assert (again.sequence, again.answer) == (first.sequence, None)
    assert ledger.spent[0] == Fraction(1, 10)
    with ledger._store.reading() as transaction:
        assert transaction.is_resumed(first.sequence)
        check_everything(transaction)
    third = asked(ledger, resume=True)
    assert third.sequence != first.sequence
    assert ledger.spent[0] == Fraction(1, 5)


@pytest.mark.parametrize("dearer", [Loss(Fraction(1, 5), Fraction(0)), Loss(Fraction(1, 10), Fraction(1, 10**9))])
def test_a_charge_that_was_cut_short_does_not_pay_for_a_dearer_run(ledger, dearer):
    first = asked(ledger)
    again = ledger.reserve(dearer, user="ann", request=REQUEST, resume=True)
    assert again.sequence != first.sequence
    assert ledger.spent == (Fraction(1, 10) + dearer.epsilon, dearer.delta)


def test_a_charge_that_was_cut_short_pays_for_a_cheaper_run(ledger):
    first = asked(ledger)
    again = ledger.reserve(Loss(Fraction(1, 20), Fraction(0)), user="ann", request=REQUEST, resume=True)
    assert (again.sequence, ledger.spent[0]) == (first.sequence, Fraction(1, 10))


def test_without_resume_a_charge_that_was_cut_short_is_charged_again(ledger):
    first, second = asked(ledger), asked(ledger)
    assert second.sequence > first.sequence
    second.commit(b"rows")
    assert asked(ledger).answer == b"rows"
    assert ledger.spent[0] == Fraction(1, 5)


def test_of_two_runs_of_one_charge_the_first_answer_is_handed_out_by_both(ledger):
    first, again = asked(ledger), asked(ledger, resume=True)
    assert again.commit(b"again") == b"again"
    assert first.commit(b"first") == b"again"
    assert asked(ledger).answer == b"again"
    assert [entry.state for entry in ledger.entries()] == ["answered"]


def test_a_resumed_run_of_a_suspended_user_is_refused(ledger):
    asked(ledger)
    ledger.reserve(TENTH, user="ann").fail()
    assert refusal(asked, ledger, resume=True).code == "E_SUSPENDED"


def test_a_fingerprint_is_answered_to_everybody_and_a_request_to_its_user(ledger):
    asked(ledger, fingerprint="plan").commit(b"rows")
    assert ledger.reserve(TENTH, user="bob", fingerprint="plan").answer == b"rows"
    assert ledger.spent[0] == Fraction(1, 10)


def test_answers_may_be_dropped_and_their_digests_stay(ledger):
    asked(ledger, fingerprint="plan").commit(b"rows")
    before = ledger.anchor
    assert ledger.drop_answers("2000-01-01T00:00:00Z") == 0
    assert ledger.drop_answers("2999-01-01T00:00:00Z") == 1
    assert ledger.anchor == before
    assert refusal(asked, ledger).code == "E_GONE"
    assert refusal(asked, ledger, resume=True).code == "E_GONE"
    assert ledger.stored_answer("plan") is None
    assert ledger.reserve(TENTH, user="bob", fingerprint="plan").answer is None
    with ledger._store.reading() as transaction:
        check_everything(transaction)
        assert len(transaction.end_of(1).row.answer_sha256) == 64


def test_a_request_whose_answer_was_not_kept_is_gone(ledger):
    assert asked(ledger).commit() is None
    assert refusal(asked, ledger).code == "E_GONE"


def test_keys_survive_reopening(path):
    ledger = Ledger.create(path, Budget(Fraction(1), Fraction(0)))
    asked(ledger).commit([b"ro", b"ws"])
    assert asked(Ledger.open(path)).answer == b"rows"


@pytest.mark.parametrize("resume", [False, True])
def test_a_request_that_is_charged_once_is_not_charged_by_a_run_that_comes_too_late(ledger, resume):
    once = Request("r", "b", is_charged_once=True)
    first = ledger.reserve(TENTH, user="ann", request=once)
    if resume:
        assert ledger.reserve(TENTH, user="ann", request=once, resume=True).sequence == first.sequence
    with pytest.raises(ShoalError, match="E_EXECUTION"):
        ledger.reserve(TENTH, user="ann", request=once, resume=resume)
    assert (ledger.spent[0], first.commit(b"rows")) == (Fraction(1, 10), b"rows")
