"""What a question would do and cost: free, counted, and without reading data."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from shoal.accounting.claims.meaning import meaning
from shoal.errors import ShoalError
from shoal.service import allowances, jobs, log
from shoal.service.acts.looking import Looking
from shoal.service.acts.planned import Asked
from shoal.service.questions import only_explained

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from shoal.service.allowances import Grant
    from shoal.service.datasets import DataSet
    from shoal.service.limits import Limits
    from shoal.service.people import Caller
    from shoal.service.rates import Buckets
    from shoal.service.runners.bells import Bell
    from shoal.service.store import Store

T = TypeVar("T")
COUNT_SECONDS = 1.0


class Explaining(Looking):
    """Plans in words and numbers."""

    def __init__(self, store: Store, limits: Limits, bell: Bell | None = None, buckets: Buckets | None = None) -> None:
        super().__init__(store, limits, bell, buckets)
        self._explained: dict[str, int] = {}
        self._counted_at = 0.0

    def explain(
        self, caller: Caller, name: str, sql: str, epsilon: float | None = None, composition: str = "basic"
    ) -> dict[str, Any]:
        """The plan in words and numbers, what it would cost the caller, and whether its answer already exists. Free."""
        dataset, grants = self._explains(caller, name)
        looked = Later(lambda: self._standing(caller, dataset, grants))
        planned = self._plans.explained(Asked(dataset, caller.name, sql, epsilon, composition), looked.now)
        remaining, left = looked.found
        explained = planned.explained(_least([remaining, *left]))
        replay = self._released(dataset, caller, planned.key)
        cost = planned.cost
        approve = allowances.smallest([grant.approve_above for grant in grants])
        price = {"epsilon": float(cost[0]), "delta": float(cost[1])}
        return explained | {
            "price": price,
            "affordable": _fits(cost, [remaining, *left]) and allowances.are_within(grants, cost[0]),
            "replay": replay if dataset.share_answers else None,
            "needs_approval": approve is not None and cost[0] > approve and replay is None,
            "allowances": allowances.shown(grants, left),
            "meaning": _meaning(max(price["epsilon"], 1e-10), price["delta"], dataset.unit),
            "unit": dataset.unit,
            "advice": _advice(explained),
        }

    def answer_schema(self, caller: Caller, name: str, sql: str) -> bytes:
        """The columns of the answer, as an Arrow schema; free, and refused wherever asking would be."""
        planned = self._plans.asked(Asked(self._explains(caller, name)[0], caller.name, sql))
        if planned.only_explained:
            raise only_explained()
        return planned.schema

    def _explains(self, caller: Caller, name: str) -> tuple[DataSet, list[Grant]]:
        """The data set and its allowances, for callers who may have questions about it explained."""
        caller.require("explain")
        self._rates.take(caller.name, "explain")
        opened = self._opened_to(caller, name)
        self._count_explain(caller.name)
        return opened

    def _count_explain(self, person: str) -> None:
        """Explanations cost nothing: their counts are written in batches, once a second at most."""
        with self._lock:
            self._explained[person] = self._explained.get(person, 0) + 1
            due = time.monotonic() - self._counted_at > COUNT_SECONDS
        if due:
            self._write_counts()

    def _write_counts(self) -> None:
        with self._lock:
            counted, self._explained, self._counted_at = self._explained, {}, time.monotonic()
        if counted:
            with self.store.writing(at_once=False) as rows:
                for person, number in counted.items():
                    log.count(rows, person, "explain", number)

    def _released(self, dataset: DataSet, caller: Caller, fingerprint: str) -> str | None:
        return jobs.released(self.store.glance, dataset, caller, fingerprint)

    def epsilon_for(
        self, caller: Caller, name: str, sql: str, error: float, level: float = 0.95, owners: int | None = None
    ) -> float:
        """The smallest ε at which no interval is wider than ± error."""
        caller.require("explain")
        self._rates.take(caller.name, "explain")
        asked = Asked(self._opened_to(caller, name)[0], caller.name, sql)
        return self._plans.epsilon_for(asked, error, level, owners)


class Later(Generic[T]):
    """What is done once: while something else takes its time, or when it is needed."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._found: list[T] = []

    def now(self) -> None:
        """Does it; an error comes again for whoever needs what was to be found."""
        with suppress(ShoalError):
            self._found = [self._work()]

    @property
    def found(self) -> T:
        """What came of it."""
        return self._found[0] if self._found else self._work()


@lru_cache(1024)
def _meaning(epsilon: float, delta: float, unit: str) -> dict[str, Any]:
    """The same for everybody; most questions cost what others cost."""
    return meaning(epsilon, delta).to_dict(unit=unit)


def _fits(cost: tuple[Fraction, Fraction], limits: list[tuple[Fraction, Fraction] | None]) -> bool:
    return all(cost[0] <= limit[0] and cost[1] <= limit[1] for limit in limits if limit is not None)


def _least(limits: list[tuple[Fraction, Fraction] | None]) -> tuple[float, float] | None:
    """What the caller may still spend: of ε and of δ, the least that any limit leaves; None if there is no limit."""
    known = [limit for limit in limits if limit is not None]
    return (float(min(each[0] for each in known)), float(min(each[1] for each in known))) if known else None


def _advice(explained: dict[str, Any]) -> list[str]:
    """What would make the question better, from the plan alone."""
    found = []
    for select in explained.get("selects", ()):
        owners = select["selection"].get("owners_for_even_chance")
        if owners is not None:
            found.append(f"Groups of fewer than about {owners:,} people are likely to be left out.")
        if any(column["bounds_source"] == "inferred" for column in select["columns"]):
            found.append("Bounds are found at the cost of a part of epsilon: give them if you know them.")
    return found
