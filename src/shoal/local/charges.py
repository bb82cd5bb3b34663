"""What opening a question costs: one entry of the same ledger that private queries are charged to.

The charge is written before the first report is asked for, and estimates are free from then on. The entry carries its promise,
and that it covers values alone; `details` is the one place that says which question it is about.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal import params
from shoal.accounting.accountants import Loss
from shoal.accounting.claims.shuffling import shuffled_epsilon
from shoal.accounting.ledger import Ledger
from shoal.accounting.promises import Promise
from shoal.errors import ShoalError
from shoal.exact import as_fraction
from shoal.frozen import dataclass

if TYPE_CHECKING:
    import os

MOST_REPORTS = 10**12
PROMISES = {"local": Promise("local"), "shuffled": Promise("shuffled")}
NOT_HIDDEN = "that somebody took part is not hidden"


@dataclass(frozen=True, slots=True)
class Opening:
    """What was charged when a question was opened; `charged` is False where it had been opened before."""

    promise: str
    epsilon: Fraction
    delta: Fraction
    charged: bool


def details(promise: str, sha256: str, turn: str, title: str) -> str:
    """The text of an entry: promise, what it covers, and which question of which round."""
    about = f" {title!r}" if title else ""
    which = f", round {turn!r}" if turn else ""
    return f"promise: {promise}; covers: value ({NOT_HIDDEN}); question {sha256[:8]}{about}{which}"


def open_question(
    ledger: str | os.PathLike[str] | Ledger,
    promise: str,
    loss: Loss,
    sha256: str,
    title: str,
    user: str | None,
    turn: str,
) -> Opening:
    """Charge the loss once for a question and round, whoever opens it again."""
    if not isinstance(turn, str):
        raise ShoalError("E_USAGE", "A round must be a string.", hint='Write round="2026-01".')
    book = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    what = json.dumps([promise, sha256, turn, str(loss.epsilon), str(loss.delta)])
    key = "local-" + hashlib.sha256(what.encode()).hexdigest()
    reservation = book.reserve(
        loss,
        user=user,
        description=details(promise, sha256, turn, title),
        fingerprint=key,
        promise=PROMISES[promise],
        resume=True,
    )
    if reservation.answer is None:
        reservation.commit(what.encode())
    return Opening(promise, loss.epsilon, loss.delta, reservation.answer is None)


def loss_of(epsilon: Fraction, *, shuffled: bool, n: int | None, delta: float | None, binary: bool) -> tuple[str, Loss]:
    """(promise, loss): ε itself, or the (ε, δ) that a trusted shuffler leaves of it."""
    if not shuffled:
        if n is not None or delta is not None:
            raise ShoalError("E_USAGE", "n and delta only work with shuffled=True.", hint="Leave them out, or shuffle.")
        return "local", Loss(epsilon, Fraction(0))
    if n is None or delta is None:
        raise ShoalError(
            "E_USAGE",
            "A shuffled question needs n, the number of honest reports, and delta.",
            hint="Write shuffled=True, n=100_000, delta=1e-6.",
        )
    count = params.whole_number(n, option="n", largest=MOST_REPORTS)
    exact = params.delta(delta)
    amplified = as_fraction(shuffled_epsilon(float(epsilon), count, float(exact), binary=binary))
    return "shuffled", Loss(min(epsilon, amplified), exact)
