"""The ledger: reserve, commit, fail, refuse, replay, report; in memory and in a file alike."""

import os
import stat
import threading
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.accounting.accountants import Loss
from shoal.accounting.ledger import Ledger
from shoal.accounting.stores.check import check_everything
from shoal.accounting.suspension import most_bits
from shoal.errors import InternalError, ShoalError
from shoal.params import Budget

TENTH = Loss(Fraction(1, 10), Fraction(0))
ONE = Budget(Fraction(1), Fraction(1, 10**6))


def refusal(call, *args, **options):
    with pytest.raises(ShoalError) as caught:
        call(*args, **options)
    return caught.value


def test_a_tenth_fits_ten_times_and_the_eleventh_is_refused(ledger):
    for _ in range(10):
        ledger.reserve(TENTH)
    error = refusal(ledger.reserve, TENTH)
    assert error.code == "E_BUDGET"
    assert ledger.spent == (1, 0)
    assert ledger.remaining == (0, Fraction(1, 10**6))
    assert len(ledger.entries()) == 10


def test_a_refusal_says_what_is_left_what_was_asked_and_what_would_fit(ledger):
    ledger.reserve(Loss(Fraction(7, 10), Fraction(1, 2 * 10**6)))
    error = refusal(ledger.reserve, Loss(Fraction(1, 2), Fraction(1, 10**7)))
    assert "asks for epsilon 0.5 and delta 1e-7" in error.message
    assert "epsilon 0.3 and delta 5e-7 left" in error.message
    assert "epsilon = 0.3 would fit" in error.hint
    ledger.reserve(Loss(Fraction(3, 10), Fraction(1, 10**7)))


def test_a_refusal_names_the_delta_when_that_is_what_does_not_fit(ledger):
    error = refusal(ledger.reserve, Loss(Fraction(1, 2), Fraction(1, 10**5)))
    assert "delta = 0.000001 or less would fit" in error.hint or "delta = 1e-6 or less would fit" in error.hint


def test_when_nothing_is_left_the_refusal_says_so(ledger):
    ledger.reserve(Loss(Fraction(1), Fraction(0)))
    assert "No query" in refusal(ledger.reserve, TENTH).hint


def test_a_refused_spend_leaves_no_trace(ledger):
    before = ledger.anchor
    refusal(ledger.reserve, Loss(Fraction(2), Fraction(0)))
    assert ledger.anchor == before


def test_many_tiny_spends_are_not_lost(ledger):
    speck = Loss(Fraction(1, 10**17), Fraction(0))
    for _ in range(20):
        ledger.reserve(speck)
    assert ledger.spent == (Fraction(20, 10**17), 0)


def test_a_failure_stays_charged(ledger):
    ledger.reserve(TENTH).fail()
    assert ledger.spent == (Fraction(1, 10), 0)
    assert [entry.state for entry in ledger.entries()] == ["failed"]


def test_a_failure_suspends_its_user_and_nobody_else(ledger):
    ledger.reserve(TENTH, user="ann", description="SELECT 1").fail()
    error = refusal(ledger.reserve, TENTH, user="ann")
    assert (error.code, ledger.is_suspended("ann"), ledger.is_suspended("bob")) == ("E_SUSPENDED", True, False)
    ledger.reserve(TENTH, user="bob").commit()
    ledger.reserve(TENTH).commit()
    assert ledger.spent == (Fraction(3, 10), 0)
    (suspension,) = ledger.suspensions()
    assert (suspension.user, suspension.charge, suspension.statement) == ("ann", 1, "SELECT 1")


def test_runs_that_end_while_their_user_is_suspended_are_withheld_in_the_same_words(ledger):
    open_runs = [ledger.reserve(TENTH, user="ann", fingerprint=f"k{i}") for i in range(4)]
    open_runs[0].fail()
    words = {
        str(refusal(open_runs[1].commit, b"rows")),
        str(refusal(open_runs[2].fail)),
        str(refusal(open_runs[3].cancel)),
        str(refusal(ledger.reserve, TENTH, user="ann")),
    }
    assert len(words) == 1
    assert [entry.state for entry in ledger.entries()] == ["failed", "withheld", "withheld", "withheld"]
    assert ledger.stored_answer("k1") is None
    assert len(ledger.suspensions()) == 1


def test_a_suspended_user_may_still_read_stored_answers(ledger):
    ledger.reserve(TENTH, user="ann", fingerprint="k").commit(b"rows")
    ledger.reserve(TENTH, user="ann").fail()
    assert ledger.reserve(TENTH, user="ann", fingerprint="k").answer == b"rows"


def test_a_lift_ends_a_suspension_once_and_keeps_its_reason(ledger):
    ledger.reserve(TENTH, user="ann").fail()
    assert refusal(ledger.lift, "ann", because="  ").code == "E_USAGE"
    assert refusal(ledger.lift, "bob", because="no reason").code == "E_USAGE"
    ledger.lift("ann", because="the disk was\x1b full")
    assert refusal(ledger.lift, "ann", because="again").code == "E_USAGE"
    ledger.reserve(TENTH, user="ann").fail()
    first, second = ledger.suspensions()
    assert (first.because, second.because) == ("the disk was\\x1b full", "")
    assert ledger.is_suspended("ann")


def test_a_cancelled_run_stays_charged_and_suspends_nobody(ledger):
    ledger.reserve(TENTH, user="ann").cancel()
    ledger.reserve(TENTH, user="ann").commit()
    assert [entry.state for entry in ledger.entries()] == ["cancelled", "answered"]
    assert ledger.spent == (Fraction(1, 5), 0)


def test_what_failures_can_tell_is_counted(ledger):
    for user in ("ann", "bob"):
        ledger.reserve(Loss(Fraction(1, 100), Fraction(0)), user=user).commit()
    ledger.reserve(Loss(Fraction(1, 100), Fraction(0)), user="ann").fail()
    ledger.lift("ann", because="looked")
    told = ledger.told_by_failures(Fraction(1, 100))
    assert (told.charges, told.users, told.failures, told.lifts) == (3, 2, 1, 1)
    assert told.bits == pytest.approx(3)  # all 2³ ways in which three queries can fail
    assert told.bits_by_the_end == pytest.approx(most_bits(100, 3))


def test_a_release_that_cannot_tell_anything_is_recorded_and_costs_nothing(ledger):
    ledger.reserve(Loss(Fraction(0), Fraction(0))).commit(b"rows")
    assert ledger.spent == (0, 0)
    assert len(ledger.entries()) == 1


def test_a_charge_has_one_answer_and_whoever_comes_later_gets_it(ledger):
    reservation = ledger.reserve(TENTH, fingerprint="k")
    assert reservation.commit(b"first") == b"first"
    assert reservation.commit(b"second") == b"first" == ledger.stored_answer("k")
    reservation.fail()
    assert ledger.entries()[0].state == "answered"
    assert ledger.suspensions() == []


def test_an_answer_that_comes_after_a_failure_is_not_handed_out(ledger):
    reservation = ledger.reserve(TENTH)
    reservation.cancel()
    assert refusal(reservation.commit, b"late").code == "E_EXECUTION"


def test_the_same_key_returns_the_stored_answer_and_is_not_charged_again(ledger):
    ledger.reserve(TENTH, fingerprint="k").commit(b"\x00rows\xff")
    again = ledger.reserve(TENTH, fingerprint="k")
    assert again.answer == b"\x00rows\xff" == ledger.stored_answer("k")
    assert ledger.spent == (Fraction(1, 10), 0)
    with pytest.raises(InternalError):
        again.commit(b"other")


def test_a_stored_answer_is_returned_even_when_the_budget_is_gone(ledger):
    ledger.reserve(Loss(Fraction(1), Fraction(0)), fingerprint="k").commit(b"rows")
    assert ledger.reserve(Loss(Fraction(1), Fraction(0)), fingerprint="k").answer == b"rows"


def test_a_key_without_an_answer_is_charged_again(ledger):
    ledger.reserve(TENTH, fingerprint="k")
    ledger.reserve(TENTH, fingerprint="k").cancel()
    assert ledger.stored_answer("k") is None
    third = ledger.reserve(TENTH, fingerprint="k")
    assert third.answer is None
    assert ledger.spent == (Fraction(3, 10), 0)


def test_an_answer_may_be_empty_and_a_commit_may_keep_none(ledger):
    ledger.reserve(TENTH, fingerprint="empty").commit(b"")
    ledger.reserve(TENTH, fingerprint="none").commit()
    assert ledger.stored_answer("empty") == b""
    assert ledger.stored_answer("none") is None


def test_an_answer_too_large_to_keep_is_charged_and_suspends_nobody(monkeypatch):
    monkeypatch.setattr("shoal.accounting.spending.pen.LARGEST_STORED_ANSWER", 10)
    ledger = Ledger.in_memory(ONE)
    ledger.reserve(TENTH, fingerprint="k").commit([b"12345", b"67890"])
    assert refusal(ledger.reserve(TENTH, fingerprint="l").commit, b"12345678901").code == "E_LIMITS"
    assert (ledger.stored_answer("k"), ledger.stored_answer("l")) == (b"1234567890", None)
    assert [entry.state for entry in ledger.entries()] == ["answered", "failed"]
    assert ledger.suspensions() == []


def test_an_answer_is_kept_in_pieces(ledger, monkeypatch):
    monkeypatch.setattr("shoal.accounting.spending.pen.CHUNK", 3)
    ledger.reserve(TENTH, fingerprint="k").commit([b"ab", b"cdefg", b""])
    with ledger._store.reading() as transaction:
        assert transaction.answer(1) == [b"abc", b"def", b"g"]
    assert ledger.stored_answer("k") == b"abcdefg"


@pytest.mark.parametrize("key", ["", "x" * 257, "line\nbreak", "\x1f", 7])
def test_a_strange_key_is_refused(ledger, key):
    assert refusal(ledger.reserve, TENTH, fingerprint=key).code == "E_USAGE"


def test_entries_tell_who_spent_what_on_what(ledger):
    ledger.reserve(TENTH, user="ann", description="SELECT 1").commit(b"")
    ledger.reserve(Loss(Fraction(1, 5), Fraction(1, 10**9)), user="bob", description="SELECT 2")
    first, second = ledger.entries()
    assert (first.sequence, first.user, first.description, first.state) == (1, "ann", "SELECT 1", "answered")
    assert (second.epsilon, second.delta, second.state) == (Fraction(1, 5), Fraction(1, 10**9), "reserved")
    assert list(ledger.spent_by_user().items()) == [
        ("bob", (Fraction(1, 5), Fraction(1, 10**9))),
        ("ann", (Fraction(1, 10), 0)),
    ]


def test_names_do_not_multiply_the_budget(ledger):
    for user in ["ann", "Ann", "ANN", "ann ", None, "bob", "a", "b", "c", "d"]:
        ledger.reserve(TENTH, user=user)
    assert refusal(ledger.reserve, TENTH, user="yet another").code == "E_BUDGET"


def test_descriptions_are_capped_and_cannot_drive_a_terminal(ledger):
    ledger.reserve(TENTH, user="\x1b]0;x\x07", description="SELECT '\x1b[2J\u202e\x1f\n\ud800" + "é" * 10_000)
    (entry,) = ledger.entries()
    assert entry.description.startswith("SELECT '\\x1b[2J\\u202e\\x1f\\n\\ud800é")
    assert entry.description.endswith("…")
    assert len(entry.description.encode()) <= 4096
    assert entry.description.isprintable()
    assert entry.user.isprintable()


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_can_be_recorded_and_checked(user, description):
    ledger = Ledger.in_memory(ONE)
    ledger.reserve(TENTH, user=user, description=description)
    with ledger._store.reading() as transaction:
        check_everything(transaction)


def test_exact_thirds_fill_the_budget_exactly(ledger):
    for _ in range(3):
        ledger.reserve(Loss(Fraction(1, 3), Fraction(0)))
    assert ledger.remaining[0] == 0


def test_sums_of_unrelated_fractions_stay_short_and_are_rounded_against_the_analyst():
    ledger, exact = Ledger.in_memory(Budget(Fraction(1000), Fraction(0))), Fraction(0)
    for i in range(150):
        loss = Loss(Fraction(1, 2**61 - 1 - 2 * i), Fraction(0))
        ledger.reserve(loss)
        exact += loss.epsilon
    spent = ledger.spent[0]
    assert exact < spent < exact * (1 + Fraction(1, 10**35))
    assert spent.denominator.bit_length() < 9000
    with ledger._store.reading() as transaction:
        check_everything(transaction)


def test_without_a_budget_the_ledger_only_adds_up():
    ledger = Ledger.in_memory()
    for _ in range(3):
        ledger.reserve(Loss(Fraction(10**6), Fraction(1, 2)))
    assert ledger.spent == (3 * 10**6, Fraction(3, 2))
    assert ledger.budget is None
    assert ledger.remaining is None


def test_zcdp_survives_reopening(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger.create(path, ONE, "zcdp")
    ledger.reserve(Loss(Fraction(1, 100), Fraction(1, 10**9), rho=Fraction(1, 10**5), rho_delta=Fraction(0)))
    again = Ledger.open(path)
    assert again.accountant == "zcdp"
    assert again.spent == ledger.spent
    assert 0 < again.spent[0] < 1
    assert again.remaining[1] == Fraction(1, 2 * 10**6)


def test_zcdp_refuses_with_an_epsilon_that_would_fit():
    ledger = Ledger.in_memory(ONE, "zcdp")
    error = refusal(ledger.reserve, Loss(Fraction(1), Fraction(0)))
    fitting = error.hint.split("epsilon = ")[1].split(" ")[0]
    ledger.reserve(Loss(Fraction(fitting), Fraction(0)))


@pytest.mark.parametrize("make", [Ledger.in_memory, lambda *args: Ledger.create("never-made.db", *args)])
def test_a_ledger_is_not_made_with_an_accountant_that_cannot_keep_it(make):
    assert refusal(make, ONE, "rdp").code == "E_OPTION_INVALID"
    assert refusal(make, Budget(Fraction(1), Fraction(0)), "zcdp").code == "E_OPTION_INVALID"


def test_a_new_file_is_for_its_owner_only_and_nothing_else_is_left_behind(tmp_path):
    Ledger.create(tmp_path / "ledger.db", ONE).reserve(TENTH)
    assert list(tmp_path.iterdir()) == [tmp_path / "ledger.db"]
    assert stat.S_IMODE((tmp_path / "ledger.db").stat().st_mode) == 0o600


def test_an_existing_file_is_never_replaced(tmp_path):
    path = tmp_path / "ledger.db"
    Ledger.create(path, ONE).reserve(TENTH)
    before = path.read_bytes()
    assert refusal(Ledger.create, path, Budget(Fraction(100), Fraction(0))).code == "E_LEDGER"
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [tmp_path / "ledger.db"]


def test_one_file_is_one_budget_however_often_it_is_opened(tmp_path):
    path = tmp_path / "led?ger #1 ü.db"
    Ledger.create(path, ONE)
    handles = [Ledger.open(path) for _ in range(5)]
    for handle in handles * 2:
        handle.reserve(TENTH)
    assert all(refusal(handle.reserve, TENTH).code == "E_BUDGET" for handle in handles)


def test_an_answer_stored_through_one_handle_is_seen_through_another(tmp_path):
    first = Ledger.create(tmp_path / "ledger.db", ONE)
    second = Ledger.open(tmp_path / "ledger.db")
    first.reserve(TENTH, fingerprint="k").commit(b"rows")
    assert second.stored_answer("k") == b"rows"


def test_threads_cannot_overspend(ledger):
    answered, refused = [], []

    def spend():
        for _ in range(10):
            try:
                answered.append(ledger.reserve(Loss(Fraction(1, 25), Fraction(0))))
            except ShoalError as error:
                refused.append(error.code)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(answered), len(refused), set(refused)) == (25, 55, {"E_BUDGET"})
    assert ledger.spent[0] == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_shares_a_file_and_may_not_copy_a_budget_in_memory(tmp_path):
    shared, private = Ledger.create(tmp_path / "ledger.db", ONE), Ledger.in_memory(ONE)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            shared.reserve(TENTH)
            private.reserve(TENTH)
        except ShoalError as error:
            status = 0 if error.code == "E_LEDGER" else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert shared.spent == (Fraction(1, 10), 0)
