"""How a ledger refuses: what is left, what was asked, what would fit; numbers of the ledger and the query, none of the data."""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.accounting.accountants import Accountant, Loss, Spent
    from shoal.params import Budget


class MayBeStoredError(ShoalError):
    """The connection was lost while a transaction was being stored: whether it is, only a later one tells."""


def over_budget(rule: Accountant, spent: Spent, request: Loss, budget: Budget, whose: str = "the budget") -> ShoalError:
    """The refusal of a charge that does not fit."""
    epsilon, _ = rule.total(spent, budget)
    left = _shown(max(Fraction(0), budget.epsilon - epsilon)), _shown(rule.delta_left(spent, budget))
    asked = _shown(request.epsilon, ROUND_CEILING), _shown(request.delta, ROUND_CEILING)
    message = (
        f"The query asks for epsilon {asked[0]} and delta {asked[1]};"
        f" {whose} has epsilon {left[0]} and delta {left[1]} left."
    )
    fits = rule.largest_epsilon_that_fits(spent, request, budget)
    if fits > 0:
        hint = f"epsilon = {_shown(fits)} would fit. Nothing was spent on this query."
    else:
        hint = "No query with this delta fits, whatever its epsilon. Nothing was spent on this query."
        affordable = replace(request, delta=Fraction(0), rho_delta=None if request.rho is None else Fraction(0))
        if rule.largest_epsilon_that_fits(spent, affordable, budget) > 0:
            hint = f"delta = {left[1]} or less would fit. Nothing was spent on this query."
    return ShoalError("E_BUDGET", message, hint=hint)


def other_request() -> ShoalError:
    """The same key for something else."""
    return ShoalError(
        "E_IDEMPOTENCY", "This key was already used for another request.", hint="Use a new key for a new request."
    )


def ended_without_an_answer() -> ShoalError:
    """A request that was charged before, and has no answer."""
    return ShoalError(
        "E_EXECUTION",
        "The query failed. It stays charged, because data may have been read.",
        hint="To ask (and pay) again, send it under a new key.",
    )


def too_large_to_keep() -> ShoalError:
    """An answer that nobody could be handed, or go on with; its size follows from what was released."""
    return ShoalError(
        "E_LIMITS",
        "The answer, or a part of it that the rest of the query reads, is too large. It stays charged.",
        hint="Ask for fewer groups or columns, and join released rows with private ones on their key.",
    )


def no_longer_kept() -> ShoalError:
    """An answer whose bytes were dropped, or never kept."""
    return ShoalError(
        "E_GONE",
        "The answer was already given and is no longer stored.",
        hint="Ask again under a new key; that is charged again.",
    )


def _shown(amount: Fraction, rounding: str = ROUND_FLOOR) -> str:
    """Six digits, rounded as asked."""
    context = Context(prec=6, rounding=rounding, Emin=-999999, Emax=999999, traps=[])
    short = context.divide(Decimal(amount.numerator), Decimal(amount.denominator)).normalize()
    return f"{short:f}" if -5 <= short.adjusted() <= 12 else f"{short:e}"


def not_suspended() -> ShoalError:
    """There is nothing to lift."""
    return ShoalError(
        "E_USAGE",
        "This user is not suspended on this ledger.",
        hint="The budget of the ledger names whoever is: the page Budget, or shoal budget.",
    )


def not_raised() -> ShoalError:
    """A lifetime budget only grows."""
    return ShoalError("E_USAGE", "A budget can be raised, but not lowered or added later.")
