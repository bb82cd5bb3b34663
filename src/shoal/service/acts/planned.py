"""Plans that were made before: whoever explains and then asks, or asks the same again, is planned for once.

Planning is done in other processes (`runners/planners.py`); what they tell is remembered here. What somebody asked is remembered
for them alone: how quickly a reply comes tells nobody what others ask.
"""

from __future__ import annotations

import base64
import re
import threading
from collections import OrderedDict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.explain import Explanation
from shoal.frozen import dataclass
from shoal.service.runners.errand import PlanErrand, facts_of

if TYPE_CHECKING:
    from shoal.params import Budget
    from shoal.service.datasets import DataSet, DataSets
    from shoal.service.runners.planners import Planners

MOST = 512
LONGEST = 8192
_TELLS_TIME = re.compile(r"now|today|current|local|timestamp|\btime", re.IGNORECASE)
"""Such a text may be planned otherwise a moment later."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The fingerprint of a plan, what it costs, and the rest of what was told of it."""

    key: str
    cost: tuple[Fraction, Fraction]
    more: dict[str, Any]

    @property
    def only_explained(self) -> bool:
        """Whether the statement asks for its explanation alone."""
        return bool(self.more["only_explained"])

    @property
    def schema(self) -> bytes:
        """The columns of the answer, as Arrow writes them; known of a question, not of an explanation."""
        return base64.b64decode(self.more["schema"])

    def explained(self, left: tuple[float, float] | None) -> dict[str, Any]:
        """The explanation with its text; what is left of the budget is that of now."""
        data: dict[str, Any] = self.more["explained"]
        text = self.more["text"]
        if left is not None and "remaining" in data:
            data = data | {"remaining": list(left)}
        return data | {"text": str(Explanation(data)) if text is None else text}


class Plans:
    """The plans of one process; the one that was not used for longest is forgotten first."""

    def __init__(self, planners: Planners, seconds: float) -> None:
        self._planners = planners
        self._seconds = seconds
        self._known: OrderedDict[tuple[Any, ...], Planned] = OrderedDict()
        self._lock = threading.Lock()

    def make_ready(self, datasets: DataSets) -> None:
        """Those who plan have the newest data sets open, and no older ones."""
        if not self._planners.are_ready(datasets.versions()):
            self._planners.make_ready([each.place(self._seconds) for each in datasets.newest()])

    def asked(self, dataset: DataSet, person: str, sql: str, epsilon: float | None, composition: str) -> Planned:
        """What is known of a question; refused where asking would be."""
        return self._made("asked", dataset, person, sql, epsilon, composition)

    def explained(
        self,
        dataset: DataSet,
        person: str,
        sql: str,
        epsilon: float | None,
        composition: str,
        limit: Budget | None = None,
    ) -> Planned:
        """The same, with its explanation; `limit` is the ledger's, of whoever has just looked."""
        return self._made("explained", dataset, person, sql, epsilon, composition, limit)

    def epsilon_for(
        self, dataset: DataSet, person: str, sql: str, error: float, level: float, owners: int | None
    ) -> float:
        """The smallest ε at which no interval is wider than ± error."""
        errand = self._errand("epsilon", dataset, person, sql, None, "basic", (error, level, owners))
        return float(self._planners.plan(errand)["epsilon"])

    def _made(
        self,
        what: str,
        dataset: DataSet,
        person: str,
        sql: str,
        epsilon: float | None,
        composition: str,
        limit: Budget | None = None,
    ) -> Planned:
        about = (what, dataset.name, dataset.version, person, sql, epsilon, composition)
        with self._lock:
            known = self._known.get(about)
            if known is not None:
                self._known.move_to_end(about)
                return known
        told = self._planners.plan(self._errand(what, dataset, person, sql, epsilon, composition, limit=limit))
        cost = told.pop("cost")
        made = Planned(told.pop("key"), (Fraction(cost[0]), Fraction(cost[1])), told)
        if len(sql) <= LONGEST and _TELLS_TIME.search(sql) is None:
            with self._lock:
                self._known[about] = made
                while len(self._known) > MOST:
                    self._known.popitem(last=False)
        return made

    def _errand(
        self,
        what: str,
        dataset: DataSet,
        person: str,
        sql: str,
        epsilon: float | None,
        composition: str,
        width: tuple[float, float, int | None] | None = None,
        limit: Budget | None = None,
    ) -> PlanErrand:
        return PlanErrand(
            dataset.place(self._seconds),
            what,
            person,
            dataset.share_answers,
            dataset.catalog.version,
            sql,
            composition,
            epsilon,
            *facts_of(limit or dataset.ledger.budget, dataset.ledger.promise),
            width,
        )
