"""Allowances inside a budget: charged with it in one write, per period of a clock that never goes back."""

from __future__ import annotations

import time
from fractions import Fraction

import pytest

from shoal.accounting.accountants import Loss
from shoal.accounting.allowances import Allowance
from shoal.accounting.ledger import Ledger
from shoal.accounting.stores import files, sqlite
from shoal.accounting.stores.check import check_everything
from shoal.errors import InternalError, ShoalError
from shoal.params import Budget

TENTH = Loss(Fraction(1, 10), Fraction(0))


def to(name, epsilon, per="ever"):
    return Allowance(name, per, Budget(Fraction(epsilon), Fraction(0)))


def refusal(call, *args, **options):
    with pytest.raises(ShoalError) as caught:
        call(*args, **options)
    return caught.value


def test_a_charge_must_fit_every_allowance_and_is_charged_to_all(ledger):
    accounts = [to("user:ann", "0.2"), to("group:g", "0.5"), to("everyone", "0.9")]
    for _ in range(2):
        ledger.reserve(TENTH, user="ann", accounts=accounts)
    error = refusal(ledger.reserve, TENTH, user="ann", accounts=accounts)
    assert error.code == "E_BUDGET"
    assert "the allowance of user:ann has epsilon 0 and delta 0 left" in error.message
    ledger.reserve(TENTH, user="bob", accounts=[to("user:bob", "0.2"), *accounts[1:]])
    fifth, tenth = (Fraction(1, 5), 0), (Fraction(1, 10), 0)
    third = (Fraction(3, 10), 0)
    assert ledger.accounts() == {
        "ever everyone": third,
        "ever group:g": third,
        "ever user:ann": fifth,
        "ever user:bob": tenth,
    }
    assert ledger.entries()[-1].accounts == ("ever everyone", "ever group:g", "ever user:bob")
    assert ledger.spent[0] == Fraction(3, 10)


def test_an_allowance_larger_than_the_budget_allows_no_more_than_the_budget(ledger):
    assert refusal(ledger.reserve, Loss(Fraction(2), Fraction(0)), accounts=[to("user:ann", 100)]).code == "E_BUDGET"
    assert ledger.accounts() == {}


def test_an_account_without_a_limit_adds_up(ledger):
    ledger.reserve(TENTH, accounts=[Allowance("group:g")])
    assert ledger.accounts() == {"ever group:g": (Fraction(1, 10), 0)}


@pytest.fixture
def clock(ledger, monkeypatch):
    """Sets the store's clock."""
    with ledger._store.reading() as transaction:
        kind = type(transaction)
    return lambda moment: monkeypatch.setattr(kind, "clock", lambda _: moment)


def test_a_new_period_is_a_new_account(ledger, clock):
    daily = [to("user:ann", "0.1", "day")]
    clock("2030-12-31T23:59:59Z")
    ledger.reserve(TENTH, accounts=daily)
    assert refusal(ledger.reserve, TENTH, accounts=daily).code == "E_BUDGET"
    clock("2031-01-01T00:00:00Z")
    ledger.reserve(TENTH, accounts=daily)
    assert list(ledger.accounts()) == ["day 2030-12-31 user:ann", "day 2031-01-01 user:ann"]


def test_a_clock_set_back_stays_in_the_latest_period(ledger, clock):
    daily = [to("user:ann", "0.1", "day")]
    clock("2031-01-02T00:00:00Z")
    ledger.reserve(TENTH, accounts=daily)
    for moment in ("2031-01-01T00:00:00Z", "1999-01-01T00:00:00Z", "2031-01-02T00:00:00Z"):
        clock(moment)
        assert refusal(ledger.reserve, TENTH, accounts=daily).code == "E_BUDGET"
    ledger.reserve(TENTH)
    assert [entry.noted_at for entry in ledger.entries()] == ["2031-01-02T00:00:00Z"] * 2
    with ledger._store.reading() as transaction:
        check_everything(transaction)


def test_periods_are_those_of_the_calendar():
    moments = {"day": "2026-12-31", "week": "2026-W53", "month": "2026-12"}
    for per, period in moments.items():
        assert Allowance("everyone", per).account_at("2026-12-31T12:00:00Z") == f"{per} {period} everyone"
    assert Allowance("everyone", "week").account_at("2027-01-03T12:00:00Z") == "week 2026-W53 everyone"
    for wrong in ({"per": "hour"}, {"to": ""}, {"to": "a\nb"}):
        with pytest.raises(InternalError):
            Allowance(**({"to": "everyone"} | wrong))


def test_the_machines_clock_is_in_utc():
    assert len(sqlite.now()) == 20
    assert sqlite.now().endswith("Z")


def test_accounts_survive_reopening(path):
    ledger = Ledger.create(path, Budget(Fraction(1), Fraction(0)))
    ledger.reserve(TENTH, accounts=[to("user:ann", "0.1")])
    assert refusal(Ledger.open(path).reserve, TENTH, accounts=[to("user:ann", "0.1")]).code == "E_BUDGET"


def test_allowances_use_the_accountant_of_the_ledger():
    budget = Budget(Fraction(1), Fraction(1, 10**6))
    ledger = Ledger.in_memory(Budget(Fraction(10), Fraction(1, 10**5)), "zcdp")
    small = Loss(Fraction(1, 10), Fraction(0), rho=Fraction(1, 10**4), rho_delta=Fraction(0))
    for _ in range(100):
        ledger.reserve(small, accounts=[Allowance("user:ann", "ever", budget)])
    assert ledger.accounts()["ever user:ann"][0] == 10


def test_how_a_ledger_stands_is_what_is_left_and_every_sum(path):
    """Whoever charges meanwhile, through whatever handle, is seen at once."""
    ledger = Ledger.create(path, Budget(Fraction(1), Fraction(1, 10**6)))
    other = Ledger.open(path)
    for number in range(1, 4):
        other.reserve(TENTH, user="ann", accounts=[Allowance("ann")])
        standing = ledger.standing()
        assert standing.remaining == ledger.remaining == (1 - number * TENTH.epsilon, Fraction(1, 10**6))
        assert standing.accounts == ledger.accounts() == {"ever ann": (number * TENTH.epsilon, 0)}
        assert ledger.standing(accounts=False).accounts == {}


def test_a_file_that_was_still_is_not_read_again_and_a_change_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "STILL_NANOSECONDS", 0)
    ledger = Ledger.create(tmp_path / "ledger.db", Budget(Fraction(1), Fraction(1, 10**6)))
    other = Ledger.open(tmp_path / "ledger.db")
    for number in range(3):
        time.sleep(0.1)  # no file system takes this long for one moment
        before = ledger.standing()
        assert before.remaining[0] == 1 - number * TENTH.epsilon
        assert ledger.standing() is before
        other.reserve(TENTH)
        assert ledger.standing() is not before


def test_a_file_that_changed_a_moment_ago_is_read_again(tmp_path):
    """Two changes may have the same time."""
    ledger = Ledger.create(tmp_path / "ledger.db", Budget(Fraction(1), Fraction(1, 10**6)))
    ledger.reserve(TENTH)
    found = (tmp_path / "ledger.db").stat()
    if time.time_ns() - found.st_mtime_ns < files.STILL_NANOSECONDS / 2:
        assert ledger._store.mark() is None
    (tmp_path / "ledger.db").unlink()
    assert ledger._store.mark() is None
