"""Plans that were made before: explaining and then asking, or asking the same again, plans only once.

Other processes do the planning (`runners/planners.py`); their reports are remembered here. What a person asks is remembered
for that person alone, so the speed of a reply reveals nothing about what others ask.
"""

from __future__ import annotations

import base64
import re
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from shoal.explain import Explanation
from shoal.frozen import dataclass
from shoal.service.runners.errand import PlanErrand, facts_of, loss_of
from shoal.service.runners.hired import nothing

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from shoal.accounting.accountants import Loss
    from shoal.service.datasets import DataSet, DataSets
    from shoal.service.runners.planners import Planners

MOST = 512
LONGEST = 8192
_TELLS_TIME = re.compile(r"\bnow\b|today|current|local|timestamp|\btime", re.IGNORECASE)
"""A statement like this may be planned differently a moment later."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A person's question about a data set."""

    dataset: DataSet
    person: str
    sql: str
    epsilon: float | None = None
    composition: str = "basic"

    @property
    def key(self) -> tuple[Any, ...]:
        """The key its plan is remembered under: another version of the data set may be planned differently."""
        return self.dataset.name, self.dataset.version, self.person, self.sql, self.epsilon, self.composition


@dataclass(frozen=True, slots=True)
class Planned:
    """The fingerprint of a plan, its price, and the rest of its report."""

    key: str
    price: Loss
    more: dict[str, Any]
    made: bytes = b""
    """The plan itself, for the process that runs it."""

    @property
    def cost(self) -> tuple[Fraction, Fraction]:
        """(ε, δ) of its price."""
        return self.price.epsilon, self.price.delta

    @property
    def only_explained(self) -> bool:
        """Whether the statement only asks for its explanation."""
        return bool(self.more["only_explained"])

    @property
    def schema(self) -> bytes:
        """The columns of the answer, as an Arrow schema; known for a question, not for an explanation."""
        return base64.b64decode(self.more["schema"])

    def explained(self, left: tuple[float, float] | None) -> dict[str, Any]:
        """The explanation with its text; the remaining budget is current."""
        data: dict[str, Any] = self.more["explained"]
        text = self.more["text"]
        if left is not None and "remaining" in data:
            data = data | {"remaining": list(left)}
        return data | {"text": str(Explanation(data)) if text is None else text}


class Plans:
    """The plans of one process; the least recently used one is forgotten first."""

    def __init__(self, planners: Planners, seconds: float) -> None:
        self._planners = planners
        self._seconds = seconds
        self._known: OrderedDict[tuple[Any, ...], Planned] = OrderedDict()
        self._lock = threading.Lock()

    def make_ready(self, datasets: DataSets) -> None:
        """Planners have the newest data sets open, and no older ones."""
        places = [each.place(self._seconds) for each in datasets.newest()]
        if not self._planners.are_ready({place.name: place.version for place in places}):
            self._planners.make_ready(places)

    def asked(self, asked: Asked) -> Planned:
        """What is known about a question; refused wherever asking would be."""
        return self._made("asked", asked)

    def made(self, asked: Asked) -> bytes:
        """The plan of a question that was planned in this process, for the one that runs it; else nothing."""
        with self._lock:
            known = self._known.get(("asked", *asked.key))
        return b"" if known is None else known.made

    def explained(self, asked: Asked, meanwhile: Callable[[], None] = nothing) -> Planned:
        """The same, with its explanation; `meanwhile` is called if another process has to plan."""
        return self._made("explained", asked, meanwhile)

    def epsilon_for(self, asked: Asked, error: float, level: float, owners: int | None) -> float:
        """The smallest ε at which no interval is wider than ± error."""
        errand = self._errand("epsilon", asked, width=(error, level, owners))
        return float(self._planners.plan(errand)[0]["epsilon"])

    def _made(self, what: str, asked: Asked, meanwhile: Callable[[], None] = nothing) -> Planned:
        key = (what, *asked.key)
        with self._lock:
            known = self._known.get(key)
            if known is not None:
                self._known.move_to_end(key)
                return known
        told, plan = self._planners.plan(self._errand(what, asked), meanwhile)
        made = Planned(told.pop("key"), loss_of(told.pop("price")), told, plan)
        if len(asked.sql) <= LONGEST and _TELLS_TIME.search(asked.sql) is None:
            with self._lock:
                self._known[key] = made
                while len(self._known) > MOST:
                    self._known.popitem(last=False)
        return made

    def _errand(self, what: str, asked: Asked, *, width: tuple[float, float, int | None] | None = None) -> PlanErrand:
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
            *facts_of(dataset.ledger),
            width,
        )
