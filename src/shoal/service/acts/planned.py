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
class Asked:
    """What somebody asks of a data set."""

    dataset: DataSet
    person: str
    sql: str
    epsilon: float | None = None
    composition: str = "basic"

    @property
    def key(self) -> tuple[Any, ...]:
        """Under which its plan is remembered: another version of the data set may be planned otherwise."""
        return self.dataset.name, self.dataset.version, self.person, self.sql, self.epsilon, self.composition


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

    def asked(self, asked: Asked) -> Planned:
        """What is known of a question; refused where asking would be."""
        return self._made("asked", asked)

    def explained(self, asked: Asked, limit: Budget | None = None) -> Planned:
        """The same, with its explanation; `limit` is the ledger's, of whoever has just looked."""
        return self._made("explained", asked, limit)

    def epsilon_for(self, asked: Asked, error: float, level: float, owners: int | None) -> float:
        """The smallest ε at which no interval is wider than ± error."""
        errand = self._errand("epsilon", asked, width=(error, level, owners))
        return float(self._planners.plan(errand)["epsilon"])

    def _made(self, what: str, asked: Asked, limit: Budget | None = None) -> Planned:
        key = (what, *asked.key)
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        told = self._planners.plan(self._errand(what, asked, limit=limit))
        cost = told.pop("cost")
        made = Planned(told.pop("key"), (Fraction(cost[0]), Fraction(cost[1])), told)
        if len(asked.sql) <= LONGEST and _TELLS_TIME.search(asked.sql) is None:
            with self._lock:
                self._known[key] = made
                while len(self._known) > MOST:
                    self._known.popitem(last=False)
        return made

    def _errand(
        self,
        what: str,
        asked: Asked,
        *,
        width: tuple[float, float, int | None] | None = None,
        limit: Budget | None = None,
    ) -> PlanErrand:
        dataset = asked.dataset
        return PlanErrand(
            dataset.place(self._seconds),
            what,
            asked.person,
            dataset.share_answers,
            dataset.catalog.version,
            asked.sql,
            asked.composition,
            asked.epsilon,
            *facts_of(limit or dataset.ledger.budget, dataset.ledger.promise),
            width,
        )
