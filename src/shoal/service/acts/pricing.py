"""What a question costs the ledger it is charged to, known before anything is read: every limit is checked against this."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.accountants import Loss
from shoal.plan.releases import StatementPlan
from shoal.policies.charging import loss_on
from shoal.release.execute import charge_of

if TYPE_CHECKING:
    from shoal.accounting.ledger import Ledger
    from shoal.release.policy_clause.plan import PolicyPlan


def price_of(plan: StatementPlan | PolicyPlan, ledger: Ledger) -> Loss:
    """The loss under the ledger's own promise: a policy's release may cost many times the ε it names."""
    if not isinstance(plan, StatementPlan):
        return loss_on(ledger, plan, plan.select.owner)
    return charge_of(plan) if plan.selects else Loss(Fraction(0), Fraction(0))
