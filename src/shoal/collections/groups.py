"""Where a collection ends: releases of groups, or of everything together."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from shoal.collections.public_lists import values_of
from shoal.collections.recipes import THIS
from shoal.collections.statements import GROUPS, Question, statement
from shoal.errors import ShoalError
from shoal.sql.binding.context import CommonTable

if TYPE_CHECKING:
    from shoal.collections.aggregates import Aggregate
    from shoal.collections.public_lists import Rows
    from shoal.collections.recipes import Recipe
    from shoal.explain import Explanation
    from shoal.plan.releases import StatementPlan
    from shoal.plan.types import Type
    from shoal.result import Result
    from shoal.session import Session
    from shoal.sql.binding.statement import Binder
    from shoal.tuning.tune import Tuning


class Releasing:
    """What collections and groups have in common."""

    _session: Session
    _recipe: Recipe

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"A private collection has no {name!r}: nothing can look inside it. .release(…) gives private statistics."
        )

    @property
    def session(self) -> Session:
        """The session that is charged."""
        return self._session

    def _question(self) -> Question:
        raise NotImplementedError

    def _given(self, binder: Binder) -> dict[str, CommonTable]:
        return {THIS: CommonTable(self._recipe.bind(binder), 1)}

    def release(
        self, *, epsilon: Any = None, delta: Any = None, confidence_level: Any = 0.95, **aggregates: Aggregate
    ) -> Result:
        """Private statistics, charged to the session: n=agg.count(upper=10), euros=agg.sum("euros", bounds=(0, 100))."""
        return self._session.run(self._planned(aggregates, epsilon, delta, confidence_level))

    def explain(
        self, *, epsilon: Any = None, delta: Any = None, confidence_level: Any = 0.95, **aggregates: Aggregate
    ) -> Explanation:
        """What a release would cost and how far it may be off; reads no data, calls no function, spends nothing."""
        return self._session.explained(self._planned(aggregates, epsilon, delta, confidence_level))

    def planned(
        self, *, epsilon: Any = None, delta: Any = None, confidence_level: Any = 0.95, **aggregates: Aggregate
    ) -> StatementPlan:
        """The verified plan of a release. Reads no data."""
        return self._planned(aggregates, epsilon, delta, confidence_level)

    def utility(self, *, epsilon: Any = None, delta: Any = None, **aggregates: Aggregate) -> Tuning:
        """What each choice of bounds and ε does to a release; lists are candidates: n=agg.count(upper=[1, 5, 10]).

        **Not private**: exact figures about raw data, for the custodian alone. Nothing is charged.
        """
        # Tuning is above sessions, and sessions know collections: so it is found when it is asked for.
        told: Tuning = import_module("shoal.collections.utility").utility_of_all(self, aggregates, epsilon, delta)
        return told

    def _planned(
        self, aggregates: dict[str, Aggregate], epsilon: Any, delta: Any, level: Any, rule: str | None = None
    ) -> StatementPlan:
        if not aggregates and rule is None:
            raise ShoalError(
                "E_USAGE", "A release needs an aggregate.", hint="release(n=agg.count(upper=10), epsilon=1)"
            )
        sql = statement(
            self._recipe,
            self._question(),
            aggregates,
            epsilon=epsilon,
            delta=delta,
            confidence_level=level,
            rule=rule or "auto",
        )
        return self._session.plan_given(sql, self._given)


class Groups(Releasing):
    """Records of a collection in groups."""

    def __init__(
        self,
        session: Session,
        recipe: Recipe,
        question: Question,
        types: tuple[Type, ...] = (),
        rows: Rows | None = None,
    ) -> None:
        self._session, self._recipe, self._asked = session, recipe, question
        self._types, self._rows = types, rows

    def __repr__(self) -> str:
        return f"<private collection {self._recipe} grouped by {', '.join(self._asked.fields)}>"

    def _question(self) -> Question:
        return self._asked

    def _given(self, binder: Binder) -> dict[str, CommonTable]:
        given = super()._given(binder)
        if self._rows is not None:
            given[GROUPS] = CommonTable(values_of(binder, self._asked.fields, self._types, self._rows), 1)
        return given

    def utility(
        self, *, max_groups_per_owner: Any = None, epsilon: Any = None, delta: Any = None, **aggregates: Aggregate
    ) -> Tuning:
        """What each choice of parameters does to the groups; lists are candidates: n=agg.count(upper=[1, 5, 10]).

        **Not private**: exact figures about raw data, for the custodian alone. Nothing is charged.
        """
        # Tuning is above sessions, and sessions know collections: so it is found when it is asked for.
        utility = import_module("shoal.collections.utility").utility
        kappas = self._asked.max_groups if max_groups_per_owner is None else max_groups_per_owner
        told: Tuning = utility(self, aggregates, kappas, epsilon, delta)
        return told

    def among(self, max_groups: Any) -> Groups:
        """The same groups with another limit of groups per owner."""
        return Groups(self._session, self._recipe, replace(self._asked, max_groups=max_groups), self._types, self._rows)

    def select_groups(self, epsilon: Any = None, delta: Any = None, rule: str = "auto") -> Result:
        """The groups alone: a result that later releases take as `public`."""
        if self._asked.public is not None:
            raise ShoalError("E_USAGE", "These groups are public already: there is nothing to select.")
        return self._session.run(self._planned({}, epsilon, delta, None, rule))
