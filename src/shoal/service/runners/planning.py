"""Planning in a separate process: what a service needs to know about a plan, as plain values.

Statements are untrusted. Whatever harm one does, it does to this process only: the service has others.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, cast

from shoal.errors import ShoalError
from shoal.release.answer_bytes import OWNER_LEVEL, PROMISE_KEY
from shoal.release.policy_clause.explain import PolicyExplanation
from shoal.release.policy_clause.plan import PolicyPlan
from shoal.release.postprocess import schema_of
from shoal.service.acts.pricing import price_of
from shoal.service.fingerprints import answer_key
from shoal.service.runners.carried import packed
from shoal.service.runners.errand import loss_data, promise_of

if TYPE_CHECKING:
    from shoal.accounting.ledger import Ledger
    from shoal.plan.releases import StatementPlan
    from shoal.service.runners.errand import PlanErrand
    from shoal.session import Session


class Facts:
    """The ledger as a plan sees it: whether it has a limit, and what it is about. The service adds what is left of it."""

    remaining = None

    def __init__(self, errand: PlanErrand) -> None:
        self.promise = promise_of(errand.promise)
        self.has_budget = errand.has_budget


def planned(opened: Session, errand: PlanErrand, basis: str) -> tuple[dict[str, Any], bytes]:
    """Key and price of a plan, and its explanation if requested; or the ε for an interval. With a plan to be run, the plan."""
    facts = cast("Ledger", Facts(errand))
    session = opened.for_user(errand.person, facts)
    if errand.width is not None:
        return {"epsilon": session.epsilon_for(errand.sql, *errand.width)}, b""
    if errand.what == "asked":
        plan, only_explained = session.asked(errand.sql, epsilon=errand.epsilon, composition=errand.composition)
        told = _told(plan, facts, errand) | {"only_explained": only_explained, "schema": _schema(plan)}
        return told, packed(plan, basis)
    made, plan = session.explained_with_plan(errand.sql, epsilon=errand.epsilon, composition=errand.composition)
    text = str(made) if isinstance(made, PolicyExplanation) else None
    return _told(plan, facts, errand) | {"explained": made.to_dict(), "text": text}, b""


def _told(plan: StatementPlan | PolicyPlan, facts: Ledger, errand: PlanErrand) -> dict[str, Any]:
    about = (errand.place.name, errand.place.version, errand.catalog_version, errand.composition)
    key = answer_key(plan, about, None if errand.shared else errand.person)
    return {"key": key, "price": loss_data(price_of(plan, facts))}


def _schema(plan: StatementPlan | PolicyPlan) -> str:
    """The columns of the answer, as Arrow writes them."""
    if isinstance(plan, PolicyPlan):
        root, promise = plan.select.root, plan.promise
    else:
        root, promise = plan.root, OWNER_LEVEL
    found = schema_of(root.fields).with_metadata({PROMISE_KEY: promise})
    return base64.b64encode(found.serialize().to_pybytes()).decode()


def cannot_be_planned() -> ShoalError:
    """The error for a statement that kills its process or takes too much time."""
    return ShoalError(
        "E_LIMITS",
        "The statement cannot be planned in the time and memory that there is for it.",
        hint="Ask it in smaller parts.",
    )
