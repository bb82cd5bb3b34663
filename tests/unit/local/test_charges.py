from __future__ import annotations

from fractions import Fraction

import pytest

from shoal import local
from shoal.accounting.ledger import Ledger
from shoal.errors import ShoalError
from shoal.params import Budget


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger.db", Budget(10, Fraction(1, 10**5)))


def test_a_question_is_charged_once_and_a_new_round_again(ledger):
    question = local.yes_no(epsilon=1.5, title="Do you smoke?")
    assert question.open(ledger, user="ada").charged
    assert not question.open(ledger, user="bob").charged
    assert not local.question(question.to_json()).open(ledger).charged
    assert question.open(ledger, round="2").charged
    assert local.yes_no(epsilon=1.5).open(ledger).charged
    assert ledger.spent == (Fraction(9, 2), 0)


def test_an_entry_says_what_it_covers(ledger):
    question = local.yes_no(epsilon=1, title="Do you smoke?")
    question.open(ledger, user="ada", round="May")
    (entry,) = ledger.entries()
    assert (entry.user, entry.epsilon, entry.delta, entry.state) == ("ada", 1, 0, "answered")
    assert entry.promise == "local"
    assert ledger.covers == "value"
    assert ledger.asked_by_promise() == {"local": (1, 0)}
    for part in ("promise: local", "covers: value", "not hidden", question.fingerprint, "Do you smoke?", "May"):
        assert part in entry.description


def test_a_ledger_may_be_named_by_its_path(ledger, tmp_path):
    assert local.count(3, epsilon=1).open(tmp_path / "ledger.db").epsilon == 1
    assert local.count(3, epsilon=1).open(str(tmp_path / "ledger.db")).charged is False
    assert ledger.spent == (1, 0)


def test_a_longitudinal_question_is_charged_its_total(ledger):
    local.choice(["a", "b"], longitudinal=(1, 4)).open(ledger)
    assert ledger.spent == (4, 0)


def test_a_shuffled_question_is_charged_what_the_shuffler_leaves(ledger):
    question = local.choice(range(10), epsilon=1)
    opened = question.open(ledger, shuffled=True, n=10_000, delta=1e-6)
    assert opened.promise == "shuffled"
    assert float(opened.epsilon) == pytest.approx(0.0530, abs=5e-5)
    assert ledger.spent == (opened.epsilon, Fraction(1, 10**6))
    assert "promise: shuffled" in ledger.entries()[0].description
    # The tighter bound belongs to binary randomized response, and to no other question of two values.
    yes, bits = (local.choice(["a", "b"], epsilon=1, oracle=oracle) for oracle in ("subset", "unary"))
    losses = [one.open(Ledger.in_memory(), shuffled=True, n=10_000, delta=1e-6).epsilon for one in (yes, bits)]
    assert [float(loss) for loss in losses] == pytest.approx([0.0432, 0.0530], abs=5e-5)
    # Without the shuffler it is another promise, and charged as one.
    assert question.open(ledger).charged
    longitudinal = local.choice(range(10), longitudinal=(1, 4)).open(ledger, shuffled=True, n=10**5, delta=1e-6)
    assert float(longitudinal.epsilon) == pytest.approx(0.170, abs=5e-4)


def test_what_does_not_fit_is_refused_and_free(ledger):
    with pytest.raises(ShoalError, match="E_BUDGET"):
        local.yes_no(epsilon=11).open(ledger)
    for options in (
        {"shuffled": True},
        {"shuffled": True, "n": 10},
        {"n": 10},
        {"shuffled": True, "n": 0, "delta": 1e-6},
        {"shuffled": True, "n": 10, "delta": 2},
        {"round": 7},
    ):
        with pytest.raises(ShoalError):
            local.yes_no(epsilon=1).open(ledger, **options)
    assert ledger.spent == (0, 0)
    assert ledger.entries() == []
