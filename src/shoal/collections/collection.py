"""A private collection: lazy, without a way to look inside, ending in the same releases as SQL.

>>> import shoal
>>> from shoal import aggregates as agg
>>> data = {"visits": {"uid": [1, 1, 2], "cents": [250, 100, 300]}}
>>> session = shoal.connect(data, catalog={"tables": {"visits": {"owner": "uid"}}})
>>> visits = session.collection("visits").filter(lambda v: v.cents > 0)
>>> len(visits.release(n=agg.count(upper=2), epsilon=1))
1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shoal import params
from shoal.catalog import fold
from shoal.collections.asking import fields_of, public_fields, refuse_owner
from shoal.collections.functions import SECONDS_A_CALL, step_of
from shoal.collections.groups import Groups, Releasing
from shoal.collections.public_lists import listed_groups
from shoal.collections.recipes import Joined, Selected, Transformed, United, quoted, steps_in
from shoal.collections.schemas import schema_of
from shoal.collections.statements import GROUPS, Question
from shoal.collections.trying import tried
from shoal.errors import ShoalError
from shoal.sql.parse import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from shoal.collections.recipes import Recipe
    from shoal.plan.types import Type
    from shoal.session import Session

MOST_RECORDS_OF_A_CALL = 10_000
MOST_RECORDS_OF_AN_OWNER = 10**7


class Collection(Releasing):
    """Private records that functions and SQL may transform; only `release` gives anything out."""

    def __init__(self, session: Session, recipe: Recipe, seconds: float = SECONDS_A_CALL) -> None:
        self._session, self._recipe, self._seconds = session, recipe, seconds
        self._fields = fields_of(session, recipe)

    def __repr__(self) -> str:
        return f"<private collection {self._recipe}: {', '.join(f'{n} {t}' for n, t in self.schema.items())}>"

    @property
    def schema(self) -> dict[str, str]:
        """The fields that functions and aggregates may name, with their types."""
        return {name: str(type_) for name, type_ in self._fields}

    def _question(self) -> Question:
        return Question()

    def _with(self, recipe: Recipe) -> Collection:
        return Collection(self._session, recipe, self._seconds)

    # ---- functions -------------------------------------------------------------------------------------------------

    def filter(self, function: Callable[[Any], Any]) -> Collection:
        """Records for which the function gives something true."""
        step = step_of("filter", function, seconds=self._seconds)
        return self._with(Transformed(self._recipe, step, None))

    def map(self, function: Callable[[Any], Mapping[str, Any] | None], schema: Mapping[str, str]) -> Collection:
        """One record for each: what the function gives, typed by the schema; None leaves the record out."""
        fields = schema_of(schema)
        return self._with(Transformed(self._recipe, step_of("map", function, seconds=self._seconds), fields))

    def flat_map(
        self, function: Callable[[Any], Iterable[Mapping[str, Any]]], schema: Mapping[str, str], most: int = 100
    ) -> Collection:
        """Several records for each, `most` at most."""
        fields = schema_of(schema)
        step = step_of("flat_map", function, most=_most(most), seconds=self._seconds)
        return self._with(Transformed(self._recipe, step, fields))

    def per_owner(
        self,
        function: Callable[[list[Any]], Iterable[Mapping[str, Any]]],
        schema: Mapping[str, str],
        most: int = 100,
        max_rows: int = 10_000,
    ) -> Collection:
        """Records made of all records of an owner, which come in canonical order, `max_rows` of them at most."""
        fields = schema_of(schema)
        rows = params.whole_number(max_rows, option="max_rows", largest=MOST_RECORDS_OF_AN_OWNER)
        step = step_of("per_owner", function, most=_most(most), max_rows=rows, seconds=self._seconds)
        return self._with(Transformed(self._recipe, step, fields))

    # ---- SQL -------------------------------------------------------------------------------------------------------

    def select(self, *fields: str) -> Collection:
        """Some of the fields."""
        return self._with(Selected(self._recipe, f"SELECT {quoted(_texts(fields))} FROM this"))

    def where(self, condition: str) -> Collection:
        """Records for which a condition, written in SQL, is true."""
        (text,) = _texts([condition])
        kept = quoted([name for name, _ in self._fields])
        return self._with(Selected(self._recipe, f"SELECT {kept} FROM this WHERE ({text}\n)"))

    def sql(self, query: str) -> Collection:
        """A SELECT over the records, which it calls `this`; every row must keep its owner, as in SQL."""
        (text,) = _texts([query])
        parse(text)
        return self._with(Selected(self._recipe, text))

    def join(self, other: Collection, how: str = "inner") -> Collection:
        """Pairs of records with the same owner: the only join of two collections."""
        self._refuse_other_session(other)
        if how not in {"inner", "left"}:
            raise ShoalError("E_USAGE", "A join is inner or left.", hint='how="left" keeps records without a partner.')
        return self._with(Joined(self._recipe, other._recipe, how))

    def join_public(self, table: str, on: str | Iterable[str]) -> Collection:
        """Records with the fields of a public table, where the fields `on` are the same."""
        names = _texts([on] if isinstance(on, str) else on)
        (name,) = _texts([table])
        offered = public_fields(self._session, name)
        keys = {fold(key) for key in names}
        added = [field for field in offered if fold(field) not in keys]
        clash = {fold(field) for field in added} & {fold(field) for field, _ in self._fields}
        if clash:
            raise ShoalError(
                "E_USAGE", f"Both sides have a field {min(clash)!r}.", hint="Join on it, or rename it first."
            )
        mine = [f"t.{quoted([field])}" for field, _ in self._fields] + [f"p.{quoted([field])}" for field in added]
        same = " AND ".join(f"t.{quoted([key])} = p.{quoted([key])}" for key in names)
        return self._with(
            Selected(self._recipe, f"SELECT {', '.join(mine)} FROM this AS t JOIN {quoted([name])} AS p ON {same}")
        )

    def union(self, other: Collection) -> Collection:
        """The records of both, which have the same fields."""
        self._refuse_other_session(other)
        return self._with(United(self._recipe, other._recipe))

    def _refuse_other_session(self, other: Any) -> None:
        if not isinstance(other, Collection) or other._session is not self._session:  # noqa: SLF001 - one of us
            raise ShoalError("E_USAGE", "Only collections of one session meet.", hint='session.collection("customers")')

    # ---- releases --------------------------------------------------------------------------------------------------

    def group_by(self, *fields: str, max_groups_per_owner: Any = None, public: Any = None) -> Groups:
        """Records in groups; `public` lists groups that everybody may know of."""
        names = _texts(fields)
        types = [self._type(name) for name in names]
        if public is None:
            return Groups(self._session, self._recipe, Question(tuple(names), max_groups_per_owner))
        if isinstance(public, str):
            public_fields(self._session, public)
            return Groups(self._session, self._recipe, Question(tuple(names), max_groups_per_owner, public))
        rows = listed_groups(public, names, types)
        question = Question(tuple(names), max_groups_per_owner, GROUPS)
        return Groups(self._session, self._recipe, question, tuple(types), rows)

    def _type(self, name: str) -> Type:
        for known, type_ in self._fields:
            if known == name or fold(known) == fold(name):
                return type_
        refuse_owner(self._session, self._recipe, name)
        raise ShoalError(
            "E_UNKNOWN_COLUMN",
            f"The collection has no field {name!r}.",
            hint=f"Fields: {', '.join(known for known, _ in self._fields)}.",
        )

    def try_on(self, records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """What the last functions make of records that you give, in this process; errors are shown as they are.

        The records are what the first of these functions is given: those of the table, or of the last SQL or join before it.
        With per_owner, they are all taken for one owner's.
        """
        steps = steps_in(self._recipe)
        below = steps[0].input if steps else self._recipe
        return tried(steps, fields_of(self._session, below), self._fields, records)


def _most(most: Any) -> int:
    return params.whole_number(most, option="most", largest=MOST_RECORDS_OF_A_CALL)


def _texts(given: Iterable[Any]) -> list[str]:
    found = list(given)
    if not found or not all(isinstance(text, str) and text for text in found):
        raise ShoalError(
            "E_USAGE", "Fields, tables and conditions are named by strings.", hint='.select("day", "site")'
        )
    return found
