"""What an entry costs under the promise of its ledger: every line of the table."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.accounting.accountants import Loss
from shoal.accounting.promises import Promise, canonical_policy, cost_of
from shoal.errors import InternalError, ShoalError

OWNER, LOCAL, SHUFFLED = Promise.owner(), Promise("local"), Promise("shuffled")
POLICY = Promise("policy", '{"distance":5}')
OTHER = Promise("policy", '{"distance":9}', moves=3, rows_per_owner=4)
ASKED = Loss(Fraction(1, 2), Fraction(1, 10**6))


def test_on_a_ledger_of_owners():
    assert cost_of(OWNER, OWNER, ASKED) is ASKED
    assert cost_of(OWNER, SHUFFLED, ASKED) is ASKED
    assert cost_of(OWNER, LOCAL, ASKED) == Loss(Fraction(1, 2), Fraction(0))
    assert cost_of(OWNER, POLICY, ASKED, Loss(Fraction(20), Fraction(0))).epsilon == 20


@pytest.mark.parametrize(("ledger", "entry"), [(OWNER, POLICY), (POLICY, OTHER), (OTHER, POLICY)])
def test_a_policy_without_a_bound_under_the_ledgers_promise_is_refused(ledger, entry):
    with pytest.raises(ShoalError) as refused:
        cost_of(ledger, entry, ASKED)
    assert refused.value.code == "E_BUDGET"


def test_on_a_ledger_of_the_same_policy():
    assert cost_of(POLICY, POLICY, ASKED) is ASKED
    assert cost_of(POLICY, POLICY, ASKED, Loss(Fraction(3), Fraction(0))).epsilon == 3
    assert cost_of(POLICY, OTHER, ASKED, Loss(Fraction(3), Fraction(0))).epsilon == 3


@pytest.mark.parametrize("ledger", [POLICY, OTHER, Promise("policy", "1", moves=2, rows_per_owner=1)])
def test_owners_and_surveys_on_a_ledger_of_a_policy(ledger):
    half = 1 + ledger.rows_per_owner * (ledger.moves - 1)
    for entry, times in ((OWNER, 2 * half), (SHUFFLED, half)):
        cost = cost_of(ledger, entry, ASKED)
        assert cost.epsilon == times * ASKED.epsilon
        series = sum(math.exp(0.5 * i) for i in range(times))
        assert float(cost.delta) == pytest.approx(1e-6 * series, rel=1e-12)
    assert cost_of(ledger, LOCAL, ASKED) == Loss(half * ASKED.epsilon, Fraction(0))


@given(
    st.fractions(Fraction(1, 10**30), Fraction(20)),
    st.fractions(Fraction(1, 10**12), Fraction(1, 10)),
    st.integers(1, 12),
)
def test_the_delta_of_a_group_is_rounded_up(epsilon, delta, half):
    """Against a lower bound of the sum of powers, from the first terms of the exponential series."""
    ledger = Promise("policy", "1", moves=half, rows_per_owner=1)
    cost = cost_of(ledger, OWNER, Loss(epsilon, delta))
    assert cost.delta >= delta * sum(1 + i * epsilon + (i * epsilon) ** 2 / 2 for i in range(2 * half))
    assert float(cost.delta) <= float(delta) * sum(math.exp(i * float(epsilon)) for i in range(2 * half)) * (1 + 1e-9)


def test_without_delta_there_is_none_and_beyond_all_bounds_there_is_a_refusal():
    assert cost_of(OTHER, OWNER, Loss(Fraction(10**6), Fraction(0))).delta == 0
    with pytest.raises(ShoalError):
        cost_of(OTHER, OWNER, Loss(Fraction(10**6), Fraction(1, 10**9)))
    nothing = cost_of(POLICY, OWNER, Loss(Fraction(0), Fraction(1, 10**6))).delta
    assert Fraction(2, 10**6) <= nothing < Fraction(2, 10**6) * (1 + Fraction(1, 2**120))


def test_promises_are_kept_as_data_and_read_back():
    for promise in (OWNER, LOCAL, SHUFFLED, POLICY, OTHER):
        assert Promise.from_data(promise.to_data()) == promise
    assert POLICY.to_data()["sha256"] == POLICY.sha256
    assert canonical_policy({"b": 1, "a": [2]}) == '{"a":[2],"b":1}'
    assert len({promise.label for promise in (OWNER, LOCAL, SHUFFLED, POLICY, OTHER)}) == 5


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "policy"}, {"kind": "owner", "policy": "1"}, {"kind": "magic"}, {"kind": "policy", "policy": '{"a": 1}'}],
)
def test_what_is_no_promise_is_a_bug(wrong):
    with pytest.raises(InternalError):
        Promise(**wrong)


def test_moves_and_rows_are_positive():
    for wrong in ({"moves": 0}, {"rows_per_owner": 0}):
        with pytest.raises(InternalError):
            Promise("policy", "1", **wrong)
