"""What a budget is about: one promise per ledger, and what an entry made under another promise costs there.

A ledger's sum means something only under one promise. The header names it; each entry names its own, what was asked under
it, and what it costs under the header's. Amounts that were asked under different promises are never added
(docs/reference/ledger.md has the table, docs/theory/accounting.md the reason).

    >>> cost_of(Promise.owner(), Promise("local"), Loss(Fraction(1), Fraction(0))).epsilon
    Fraction(1, 1)
    >>> nearby = Promise("policy", policy='{"distance":5}', moves=1)
    >>> cost_of(nearby, Promise.owner(), Loss(Fraction(1), Fraction(0))).epsilon
    Fraction(2, 1)
"""

from __future__ import annotations

import hashlib
import json
from decimal import ROUND_CEILING, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any, Literal

from shoal.accounting.accountants import Loss
from shoal.errors import InternalError, ShoalError
from shoal.exact import ceil_to_binary_digits
from shoal.frozen import dataclass

Kind = Literal["owner", "policy", "local", "shuffled"]
VALUE = "value"
"""What an entry covers when it hides what somebody answered, and not that they took part."""
_DIGITS = Context(prec=80, Emin=-999999, Emax=999999, rounding=ROUND_CEILING, traps=[])
_MARGIN = Decimal("1e-50")
_LARGEST_EXPONENT = 10**5


@dataclass(frozen=True, slots=True)
class Promise:
    """`owner`: one owner's rows added or removed. `policy`: a policy, as canonical JSON. `local`, `shuffled`: a survey.

    `moves` is how many records one secret may take with it, `rows_per_owner` how many records an owner may have.
    """

    kind: Kind
    policy: str = ""
    moves: int = 1
    rows_per_owner: int = 1

    def __post_init__(self) -> None:
        if self.kind not in {"owner", "policy", "local", "shuffled"} or (self.kind == "policy") != bool(self.policy):
            raise InternalError("a promise is owner, local, shuffled, or a policy with its text")
        if min(self.moves, self.rows_per_owner) < 1:
            raise InternalError("a policy moves at least one record of at least one row per owner")
        if self.policy and self.policy != canonical_policy(json.loads(self.policy)):
            raise InternalError("a policy is kept as canonical JSON")

    @classmethod
    def owner(cls) -> Promise:
        """The promise of a ledger that names none."""
        return cls("owner")

    @property
    def sha256(self) -> str:
        """Of the policy's text."""
        return hashlib.sha256(self.policy.encode()).hexdigest() if self.policy else ""

    @property
    def label(self) -> str:
        """Short, for tables."""
        return f"policy {self.sha256[:12]}" if self.policy else self.kind

    def to_data(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        if self.kind != "policy":
            return {"kind": self.kind}
        return {
            "kind": "policy",
            "policy": json.loads(self.policy),
            "sha256": self.sha256,
            "moves": self.moves,
            "rows_per_owner": self.rows_per_owner,
        }

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Promise:
        """The promise that `to_data` wrote."""
        if data["kind"] != "policy":
            return cls(data["kind"])
        return cls("policy", canonical_policy(data["policy"]), data["moves"], data["rows_per_owner"])


def canonical_policy(policy: Any) -> str:
    """One text for one policy: sorted keys, no spaces."""
    return json.dumps(policy, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def cost_of(ledger: Promise, entry: Promise, asked: Loss, of_the_release: Loss | None = None) -> Loss:
    """What an entry costs under the ledger's promise.

    `of_the_release` is the loss under the ledger's promise that a policy release computed from itself; without one it is
    infinite, which is E_BUDGET.
    """
    if entry.kind == "policy":
        return _of_a_policy(ledger, entry, asked, of_the_release)
    if ledger.kind == "owner":
        return Loss(asked.epsilon, Fraction(0)) if entry.kind == "local" else asked
    if ledger.kind != "policy":
        raise InternalError("a ledger promises owners or a policy")
    half = 1 + ledger.rows_per_owner * (ledger.moves - 1)
    if entry.kind == "local":
        return Loss(half * asked.epsilon, Fraction(0))
    times = half if entry.kind == "shuffled" else 2 * half
    return Loss(times * asked.epsilon, _delta_of_a_group(asked, times))


def _of_a_policy(ledger: Promise, entry: Promise, asked: Loss, of_the_release: Loss | None) -> Loss:
    if of_the_release is not None:
        return of_the_release
    if entry == ledger:
        return asked
    raise _infinite("a release under this policy is not bounded under what the ledger promises")


def _delta_of_a_group(asked: Loss, times: int) -> Fraction:
    """δ·(e^{kε} − 1)/(e^ε − 1), rounded up: what k changes one after the other lose."""
    if not asked.delta or times == 1:
        return asked.delta
    return ceil_to_binary_digits(asked.delta * _sum_of_powers_above(asked.epsilon, times), 128)


def _sum_of_powers_above(epsilon: Fraction, times: int) -> Fraction:
    """(e^{kε} − 1)/(e^ε − 1) = 1 + e^ε + … + e^{(k−1)ε}, rounded up."""
    if times * epsilon > _LARGEST_EXPONENT:
        raise _infinite("this many changes at this epsilon leave no delta")
    if times * epsilon < Fraction(1, 10**15):
        # e^x − 1 ≤ x + x² for x ≤ 1, and ≥ x.
        return times * (1 + times * epsilon)
    with localcontext(_DIGITS):
        one = Decimal(epsilon.numerator) / Decimal(epsilon.denominator)
        # Each side is moved by far more than its last digits can be wrong.
        above = ((one * times).exp() - 1) * (1 + _MARGIN)
        below = (one.exp() - 1) * (1 - _MARGIN)
        return Fraction(above / below)


def _infinite(why: str) -> ShoalError:
    return ShoalError(
        "E_BUDGET",
        f"This cannot be charged to this ledger: {why}.",
        hint="Use a ledger with the same promise. Nothing was spent.",
    )
