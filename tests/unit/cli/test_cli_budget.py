from __future__ import annotations

import json
import re
from fractions import Fraction

import pytest

from shoal.accounting.accountants import Loss
from shoal.accounting.allowances import Allowance
from shoal.accounting.ledger import Ledger
from shoal.accounting.promises import Promise
from shoal.params import Budget


@pytest.fixture
def ledger_file(tmp_path):
    return tmp_path / "ledger.db"


def test_a_new_ledger_has_its_whole_budget_left(shoal, ledger_file):
    done = shoal("budget", "--ledger", str(ledger_file), "--create", "3,1e-5")
    assert done.status == 0, done.err
    assert "remaining  epsilon 3, delta 1e-05" in done.out
    assert "No queries yet." in done.out


def test_amounts_on_the_command_line_are_exact(shoal, ledger_file):
    assert shoal("budget", "--ledger", str(ledger_file), "--create", " 0.1 , 1e-7 ").status == 0
    assert Ledger.open(ledger_file).budget.epsilon == Fraction(1, 10)


def test_an_existing_ledger_is_never_replaced(shoal, ledger_file):
    shoal("budget", "--ledger", str(ledger_file), "--create", "3,1e-5")
    again = shoal("budget", "--ledger", str(ledger_file), "--create", "9,1e-5")
    assert again.status == 2
    assert again.err.startswith("E_LEDGER")
    assert Ledger.open(ledger_file).budget.epsilon == 3


def test_the_ledger_shows_who_spent_what_on_what(shoal, ledger_file):
    shoal("budget", "--ledger", str(ledger_file), "--create", "3,1e-5")
    book = Ledger.open(ledger_file)
    book.reserve(Loss(Fraction(1, 4), Fraction(0)), user="ada", description="SELECT [red] 1").commit()
    shown = shoal("budget", "--ledger", str(ledger_file))
    assert shown.status == 0
    for part in ("ada", "0.25", "answered", "SELECT [red] 1", "remaining  epsilon 2.75"):
        assert part in shown.out


def test_machines_read_exact_amounts(shoal, ledger_file):
    shoal("budget", "--ledger", str(ledger_file), "--create", "1,0", "--accountant", "basic")
    Ledger.open(ledger_file).reserve(Loss(Fraction(1, 3), Fraction(0)), user="bob", description="q").commit()
    data = json.loads(shoal("budget", "--ledger", str(ledger_file), "--json").out)
    assert data["remaining"]["exact"] == {"epsilon": "2/3", "delta": "0"}
    assert [(one["user"], one["query"], one["exact"]["epsilon"]) for one in data["entries"]] == [("bob", "q", "1/3")]


@pytest.mark.parametrize("wrong", ["3", "a,b", "1,2,3", "nan,0", "-1,0", "1,1", "1e9999,0", "", "inf,0"])
def test_a_wrong_budget_is_refused_in_a_sentence(shoal, ledger_file, wrong):
    done = shoal("budget", "--ledger", str(ledger_file), f"--create={wrong}")
    assert done.status == 2
    assert done.err.startswith("E_")
    assert "Hint: " in done.err
    assert not ledger_file.exists()


def test_a_ledger_that_is_not_there_is_refused_in_a_sentence(shoal, ledger_file):
    done = shoal("budget", "--ledger", str(ledger_file), "--json")
    assert done.status == 2
    assert done.err.startswith("E_LEDGER")
    assert json.loads(done.out)["error"]["code"] == "E_LEDGER"
    assert not ledger_file.exists()


def test_an_accountant_without_a_new_ledger_is_refused(shoal, ledger_file):
    shoal("budget", "--ledger", str(ledger_file), "--create", "3,1e-5")
    done = shoal("budget", "--ledger", str(ledger_file), "--accountant", "zcdp")
    assert done.status == 2
    assert done.err.startswith("E_USAGE: --accountant only works with --create")


@pytest.mark.parametrize("wrong", ["0,0", "1,2", "1e10,0", "1,-1"])
def test_a_hint_is_written_as_on_the_command_line(shoal, ledger_file, wrong):
    done = shoal("budget", "--ledger", str(ledger_file), f"--create={wrong}")
    assert "Hint: Write --create 1,1e-6: epsilon first, then delta." in done.err


def test_a_ledger_that_cannot_be_opened_is_said_to_be_that(shoal, ledger_file):
    ledger_file.write_bytes(b"")
    (ledger_file.parent / f"{ledger_file.name}-journal").mkdir()
    done = shoal("budget", "--ledger", str(ledger_file))
    assert done.status == 2
    assert done.err.startswith("E_LEDGER: The ledger")
    assert "answered" not in done.err


def failed_ledger(path):
    book = Ledger.create(path, Budget(Fraction(3), Fraction(0)))
    book.reserve(Loss(Fraction(1, 4), Fraction(0)), user="ada", description="SELECT [red]\n 1").fail()
    return book


def test_suspensions_are_shown_with_what_failures_can_tell(shoal, ledger_file):
    failed_ledger(ledger_file)
    shown = shoal("budget", "--ledger", str(ledger_file)).out
    assert "suspended  ada, since 20" in shown
    assert "failures   1, lifted 0; they can reveal at most 1.0 bits, 8.1 when all is spent at epsilon 0.01" in shown
    data = json.loads(shoal("budget", "--ledger", str(ledger_file), "--json").out)
    assert [(s["user"], s["charge"], s["lifted_at"]) for s in data["suspensions"]] == [("ada", 1, "")]
    assert data["failing"]["failures"] == 1


def test_whoever_lifts_a_suspension_sees_the_query_and_gives_a_reason(shoal, ledger_file):
    book = failed_ledger(ledger_file)
    unsaid = shoal("budget", "--ledger", str(ledger_file), "--lift", "ada")
    assert (unsaid.status, book.is_suspended("ada")) == (2, True)
    assert "SELECT [red]\\n 1" in unsaid.err
    assert "E_USAGE: Lifting a suspension needs a reason." in unsaid.err
    done = shoal("budget", "--ledger", str(ledger_file), "--lift", "ada", "--because", "a full disk")
    assert (done.status, book.is_suspended("ada")) == (0, False)
    assert "SELECT [red]\\n 1" in done.err
    assert "failures   1, lifted 1" in done.out
    assert book.suspensions()[0].because == "a full disk"


@pytest.mark.parametrize("words", [("--because", "x"), ("--lift", "bob", "--because", "x")])
def test_a_lift_of_nobody_is_refused(shoal, ledger_file, words):
    failed_ledger(ledger_file)
    done = shoal("budget", "--ledger", str(ledger_file), *words)
    assert done.status == 2
    assert done.err.startswith("E_USAGE")


def test_a_copy_is_made_with_its_anchor_and_an_older_one_is_found_out(shoal, ledger_file, tmp_path):
    book = Ledger.create(ledger_file, Budget(Fraction(3), Fraction(0)))
    copy = tmp_path / "copy.db"
    done = shoal("budget", "--ledger", str(ledger_file), "--backup", str(copy))
    assert f"the copy's anchor is 0:{book.anchor[1]}" in done.out
    book.reserve(Loss(Fraction(1, 4), Fraction(0)), user="ada").commit()
    anchor = json.loads(shoal("budget", "--ledger", str(ledger_file), "--json").out)["anchor"]
    old = shoal("budget", "--ledger", str(copy), "--anchor", anchor)
    assert (old.status, old.err.startswith("E_LEDGER: The ledger is older than its anchor")) == (2, True)
    booked = shoal("budget", "--ledger", str(copy), "--anchor", anchor, "--loss", "0.25,0", "--because", "restored")
    assert booked.status == 0, booked.err
    assert "spent      epsilon 0.25, delta 0" in booked.out
    assert shoal("budget", "--ledger", str(copy), "--anchor", anchor).status == 0


def test_a_budget_is_raised_with_a_reason(shoal, ledger_file):
    Ledger.create(ledger_file, Budget(Fraction(3), Fraction(0)))
    assert shoal("budget", "--ledger", str(ledger_file), "--raise", "4,0").status == 2
    done = shoal("budget", "--ledger", str(ledger_file), "--raise", "4,0", "--because", "a second wave")
    assert "remaining  epsilon 4, delta 0" in done.out
    assert re.search(r"raised     to epsilon 4, delta 0 on [0-9TZ:-]+: a second wave", done.out)


@pytest.mark.parametrize("wrong", ["", "5", "x:abc", "1:" + "g" * 3, "-1:" + "0" * 64])
def test_a_wrong_anchor_is_refused_in_a_sentence(shoal, ledger_file, wrong):
    Ledger.create(ledger_file, Budget(Fraction(3), Fraction(0)))
    done = shoal("budget", "--ledger", str(ledger_file), f"--anchor={wrong}")
    assert (done.status, done.err.startswith("E_USAGE: An anchor is")) == (2, True)


@pytest.mark.parametrize("wrong", ["1", "x,y", "-1,0", "nan,0", "inf,0"])
def test_a_wrong_loss_is_refused_in_a_sentence(shoal, ledger_file, wrong):
    book = Ledger.create(ledger_file, Budget(Fraction(3), Fraction(0)))
    done = shoal("budget", "--ledger", str(ledger_file), f"--loss={wrong}", "--because", "x")
    assert (done.status, done.err.startswith("E_USAGE")) == (2, True)
    assert book.entries() == []


def test_promises_and_accounts_are_shown_side_by_side_with_exact_amounts(shoal, ledger_file):
    book = Ledger.create(ledger_file, Budget(Fraction(3), Fraction(0)))
    weekly = Allowance("user:ada", "ever", Budget(Fraction(1), Fraction(0)))
    book.reserve(Loss(Fraction(1, 3), Fraction(0)), user="ada", accounts=[weekly]).commit()
    book.reserve(Loss(Fraction(1, 7), Fraction(0)), promise=Promise("local")).commit()
    shown = shoal("budget", "--ledger", str(ledger_file)).out
    for part in (
        "asked      epsilon 0.333333, delta 0 under owner",
        "under local",
        "account ever user:ada",
        "took part",
    ):
        assert part in " ".join(shown.split("\n"))
    data = json.loads(shoal("budget", "--ledger", str(ledger_file), "--json").out)
    assert data["asked"]["local"]["exact"]["epsilon"] == "1/7"
    assert data["accounts"]["ever user:ada"]["exact"]["epsilon"] == "1/3"
    assert data["spent"]["exact"]["epsilon"] == "10/21"
    assert (data["covers"], data["promise"]) == ("value", {"kind": "owner"})
    assert [(entry["promise"], entry["covers"]) for entry in data["entries"]] == [("owner", "rows"), ("local", "value")]
