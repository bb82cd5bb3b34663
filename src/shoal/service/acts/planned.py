"""Plans that were made before: whoever explains and then asks, or asks the same again, is planned for once.

What somebody asked is remembered for them alone: how quickly a reply comes tells nobody what others ask.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from shoal.service.running import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.explain import Explanation
    from shoal.plan.releases import StatementPlan
    from shoal.release.policy_clause.plan import PolicyPlan
    from shoal.service.datasets import DataSet
    from shoal.service.people import Caller

MOST = 512
LONGEST = 8192
_TELLS_TIME = re.compile(r"now|today|current|local|timestamp|\btime", re.IGNORECASE)
"""Such a text may be planned otherwise a moment later."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, its fingerprint, and what was made of it: its explanation, or whether it is only to be explained."""

    plan: StatementPlan | PolicyPlan
    key: str
    more: Any


class Plans:
    """The plans of one process; the one that was not used for longest is forgotten first."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Any, ...], Planned] = OrderedDict()
        self._lock = threading.Lock()

    def asked(
        self, dataset: DataSet, caller: Caller, sql: str, epsilon: float | None, composition: str
    ) -> tuple[StatementPlan | PolicyPlan, str, bool]:
        """Plan, fingerprint, and whether it is only to be explained; refused where asking would be."""

        def make() -> tuple[StatementPlan | PolicyPlan, Any]:
            return dataset.session.asked(sql, epsilon=epsilon, composition=composition)

        found = self._made(("asked", *_about(dataset, caller, sql, epsilon, composition)), dataset, make)
        return found.plan, found.key, bool(found.more)

    def explained(
        self, dataset: DataSet, caller: Caller, sql: str, epsilon: float | None, composition: str
    ) -> tuple[StatementPlan | PolicyPlan, str, dict[str, Any]]:
        """Plan, fingerprint, and the explanation with its text; what is left of the budget is that of now."""

        def make() -> tuple[StatementPlan | PolicyPlan, Any]:
            made, plan = dataset.session.explained_with_plan(sql, epsilon=epsilon, composition=composition)
            return plan, made

        found = self._made(("explained", *_about(dataset, caller, sql, epsilon, composition)), dataset, make)
        explanation: Explanation = found.more
        left = dataset.session.remaining
        if left is not None and "remaining" in explanation.data:
            explanation = replace(explanation, data=explanation.data | {"remaining": list(left)})
        return found.plan, found.key, explanation.to_dict() | {"text": str(explanation)}

    def _made(
        self, about: tuple[Any, ...], dataset: DataSet, make: Callable[[], tuple[StatementPlan | PolicyPlan, Any]]
    ) -> Planned:
        with self._lock:
            known = self._known.get(about)
            if known is not None:
                self._known.move_to_end(about)
                return known
        plan, more = make()
        _, _, _, person, sql, _, composition = about
        made = Planned(plan, key_of(plan, dataset, person, composition), more)
        if isinstance(sql, str) and len(sql) <= LONGEST and _TELLS_TIME.search(sql) is None:
            with self._lock:
                self._known[about] = made
                while len(self._known) > MOST:
                    self._known.popitem(last=False)
        return made


def _about(dataset: DataSet, caller: Caller, sql: str, epsilon: float | None, composition: str) -> tuple[Any, ...]:
    return dataset.name, dataset.version, caller.name, sql, epsilon, composition
