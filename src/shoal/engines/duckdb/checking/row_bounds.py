"""How many rows a relation has, at the most, how many of them can agree in some columns, and how long their strings are.

Tables are counted; a join looks at no more pairs than the rows of one side times the partners that each can have on the other.
"""

from __future__ import annotations

from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shoal.engines.duckdb.checking.casts import always_casts, named, type_of
from shoal.engines.duckdb.checking.string_bounds import A_VALUE, MOST_BYTES, Strings, has_any_size, one_of
from shoal.errors import InternalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from shoal.engines.duckdb.checking.string_bounds import Statistics

    Json = dict[str, Any]

MOST_COPIES = 100
FEW_PAIRS = 10**6
"""A view may look at a hundred pairs for each row that is stored below it, and at so many however few these are."""

_ALIKE = frozenset({"=", "COMPARE_EQUAL"})
_ALIKE_OR_NULL = frozenset({"IS NOT DISTINCT FROM", "COMPARE_NOT_DISTINCT_FROM"})


class MultipliedError(InternalError):
    """A view may make any number of rows of one. Says which tables it joins, by which columns."""


class RepeatedError(MultipliedError):
    """A view may hand a long string to many rows. Says what hands it on."""


# ---- relations -----------------------------------------------------------------------------------------------------


class Source:
    """What columns come from: a table, or a relation that joins are not moved across."""

    name: str

    def most(self, columns: frozenset[int], *, nulls: bool) -> int:
        """How many rows agree in some columns, at the most."""
        raise NotImplementedError

    @property
    def strings(self) -> Strings:
        """The strings of its rows."""
        raise NotImplementedError

    @property
    def stored_bytes(self) -> int:
        """Of the strings that are stored below it."""
        raise NotImplementedError


class Table(Source):
    """A stored table, counted where something has to be known of it."""

    def __init__(self, get: Json, asked: Statistics) -> None:
        data = get["function_data"]
        self._place = data["catalog"], data["schema"], data["table"]
        self._asked = asked
        stored, names, types = (
            [each.get("index", 0) for each in get["column_indexes"]],
            get["names"],
            get["returned_types"],
        )
        self._names = [names[i] if i < len(names) else None for i in stored]
        self._texts = sorted({names[i] for i in stored if i < len(names) and has_any_size(types[i])})
        self.name = str(data["table"])

    @cached_property
    def rows(self) -> int:
        """How many there are."""
        return self._asked.rows(self._place, (), False)

    @cached_property
    def strings(self) -> Strings:
        """Measured in the data, of the columns that are read."""
        return self._asked.strings(self._place, tuple(self._texts)) if self._texts else Strings()

    @property
    def stored_bytes(self) -> int:
        """All of them."""
        return self.strings.whole

    def most(self, columns: frozenset[int], *, nulls: bool) -> int:
        """Counted in the data."""
        names = sorted({name for i in columns if (name := self._names[i]) is not None})
        return self._asked.rows(self._place, tuple(names), nulls) if names else self.rows

    def column(self, position: int) -> str:
        """The name of a column."""
        return self._names[position] or "rowid"


@dataclass(frozen=True)
class Column:
    """A column that is one of a source, as it is."""

    source: Source
    position: int


@dataclass(frozen=True)
class Rows:
    """At most so many rows, made of so many that are stored; for each source how often one of its rows can be there."""

    rows: int
    stored: int
    columns: tuple[Column | None, ...]
    copies: Mapping[Source, Callable[[], int]] = field(default_factory=dict)
    padded: frozenset[Source] = frozenset()
    """Sources whose columns are NULL where an outer join found nothing."""

    def most(self, columns: Iterable[Column], *, nulls: bool) -> int:
        """How many rows agree in some columns of one source, at the most."""
        found = frozenset(columns)
        sources = {each.source for each in found}
        if len(sources) != 1 or (nulls and sources & self.padded):
            return self.rows
        (source,) = sources
        return min(self.rows, source.most(frozenset(c.position for c in found), nulls=nulls) * self.copies[source]())

    @property
    def strings(self) -> Strings:
        """The strings of all sources, side by side."""
        found = Strings()
        for source, copies in self.copies.items():
            each = source.strings
            many = each.longest * self.rows > MOST_BYTES
            found += each.repeated(copies() if many else self.rows, self.rows)
        return found

    @property
    def stored_bytes(self) -> int:
        """Of all rows that are stored below, and of their strings."""
        return self.stored * A_VALUE + sum(source.stored_bytes for source in self.copies)

    def check_strings(self, told: Callable[[], str]) -> None:
        """RepeatedError where copies of strings take much more than what is stored, or those of one row very much."""
        if sum(source.strings.longest for source in self.copies) * self.rows <= MOST_BYTES:
            return
        if any(source.strings.longest * copies() > MOST_BYTES for source, copies in self.copies.items()):
            raise RepeatedError(told())
        self.check_whole(self.strings, told)

    def check_whole(self, strings: Strings, told: Callable[[], str]) -> None:
        """RepeatedError where these strings take much more than all that is stored below."""
        if strings.whole > max(MOST_BYTES, MOST_COPIES * self.stored_bytes):
            raise RepeatedError(told())


class Made(Source):
    """A relation whose rows are made of others: where some of its columns are a key, one row has them."""

    name = "a subquery"

    def __init__(
        self,
        parts: list[tuple[Rows, list[Column | None]]],
        keys: list[frozenset[int]],
        times: int = 1,
        more: Strings | None = None,
    ) -> None:
        self._parts, self._keys, self._times, self._more = parts, keys, times, more or Strings()

    def most(self, columns: frozenset[int], *, nulls: bool) -> int:
        """What the rows below allow."""
        if any(key <= columns for key in self._keys):
            return 1
        found = 0
        for rows, below in self._parts:
            known = [each for i in columns if (each := below[i]) is not None]
            by_source = {each.source: [c for c in known if c.source is each.source] for each in known}
            found += min([rows.rows, *(rows.most(some, nulls=nulls) for some in by_source.values())])
        return found * self._times

    @cached_property
    def strings(self) -> Strings:
        """Those of the rows below, and what was made of them."""
        below = one_of(rows.strings for rows, _ in self._parts)
        return replace(below, whole=below.whole * self._times, long=below.long * self._times) + self._more

    @property
    def stored_bytes(self) -> int:
        """Below all parts."""
        return sum(source.stored_bytes for rows, _ in self._parts for source in rows.copies)


def made(
    rows: int,
    width: int,
    parts: list[tuple[Rows, list[Column | None]]],
    *keys: frozenset[int],
    times: int = 1,
    more: Strings | None = None,
) -> Rows:
    """A relation that is a source of its own, over others: for each of these, which of its columns the new ones are."""
    source = Made(parts, list(keys), times, more)
    columns = tuple(Column(source, i) for i in range(width))
    return Rows(rows, sum(part.stored for part, _ in parts), columns, {source: lambda: 1})


# ---- conditions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """An expression of an equality: the columns that it reads, and the one that it is, if it is one."""

    reads: frozenset[int]
    column: int | None

    def moved(self, by: int) -> Side:
        """The same where columns are counted from another place."""
        return Side(frozenset(i + by for i in self.reads), None if self.column is None else self.column + by)


@dataclass(frozen=True)
class Equality:
    """Two expressions that are equal in every row that is kept; `nulls` where NULL equals NULL."""

    left: Side
    right: Side
    nulls: bool


def _side(expression: Json) -> Side:
    return Side(frozenset(_references(expression)), plain(expression))


def plain(expression: Json) -> int | None:
    """The column that an expression is, or is but for a cast that keeps different values apart."""
    if expression["expression_class"] == "BOUND_REF":
        return int(expression.get("index", 0))
    if expression["expression_class"] == "BOUND_FUNCTION" and expression["qname"]["path"][-1] == "__cast":
        (child,) = expression["children"]
        target = named(expression["return_type"])
        if target[0] not in {"DOUBLE", "FLOAT"} and always_casts(type_of(child), target):
            return plain(child)
    return None


def _references(part: Any) -> Iterator[int]:
    if isinstance(part, list):
        for each in part:
            yield from _references(each)
    elif isinstance(part, dict):
        if part.get("expression_class") == "BOUND_REF":
            yield int(part.get("index", 0))
        for value in part.values():
            yield from _references(value)


def equalities_of(expressions: Iterable[Json]) -> Iterator[Equality]:
    """The equalities that must hold for every row which these conditions keep."""
    for each in expressions:
        if each["expression_class"] == "BOUND_CONJUNCTION" and each["type"] == "CONJUNCTION_AND":
            yield from equalities_of(each["children"])
        elif each["expression_class"] == "BOUND_COMPARISON" and each["type"] in _ALIKE | _ALIKE_OR_NULL:
            yield Equality(_side(each["left"]), _side(each["right"]), each["type"] in _ALIKE_OR_NULL)
        elif each["expression_class"] == "BOUND_FUNCTION" and each["qname"]["path"][-1] in _ALIKE | _ALIKE_OR_NULL:
            left, right = each["children"]
            yield Equality(_side(left), _side(right), each["qname"]["path"][-1] in _ALIKE_OR_NULL)


def compared(join: Json, width: int) -> tuple[list[Equality], bool]:
    """The equalities of a join, columns of its right side counted from `width`, and whether there is nothing else."""
    conditions = join.get("conditions", [])
    if "condition" in join:
        return list(equalities_of([join["condition"]])), False
    found = [
        Equality(_side(each["left"]), _side(each["right"]).moved(width), each["comparison"] in _ALIKE_OR_NULL)
        for each in conditions
        if each.get("comparison") in _ALIKE | _ALIKE_OR_NULL
    ]
    return found, bool(conditions) and len(found) == len(conditions)


# ---- joins ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Joined:
    """A part of a join: its rows, and where its columns are in the whole."""

    rows: Rows
    places: tuple[int, ...]

    def sources(self, side: Side) -> frozenset[Source | None]:
        """What an expression is made of; None for something computed."""
        known = (self.rows.columns[self.places.index(i)] for i in side.reads)
        return frozenset(None if each is None else each.source for each in known)

    def column(self, side: Side) -> Column | None:
        """The column of a source that an expression is."""
        return None if side.column is None else self.rows.columns[self.places.index(side.column)]


def whole_of(rows: Rows, start: int = 0) -> Joined:
    """A relation as a part of a join, its columns in one piece."""
    return Joined(rows, tuple(range(start, start + len(rows.columns))))


@dataclass(frozen=True)
class Partners:
    """Of two parts of a join, the partners that one row can have on either side; asked only where it is needed."""

    left: Joined
    right: Joined
    between: tuple[tuple[Side, Side, bool], ...]

    @cached_property
    def _groups(self) -> list[list[tuple[Side, Side, bool]]]:
        """Equalities of the same sources: another order may compare those of others later."""
        found: dict[object, list[tuple[Side, Side, bool]]] = {}
        for each in self.between:
            found.setdefault((self.left.sources(each[0]), self.right.sources(each[1])), []).append(each)
        return list(found.values())

    @cached_property
    def of_left(self) -> int:
        """Partners of a row on the left, at the most."""
        return self._most(self.right, 1)

    @cached_property
    def of_right(self) -> int:
        """Partners of a row on the right."""
        return self._most(self.left, 0)

    def _most(self, part: Joined, side: int) -> int:
        found = [part.rows.rows]
        for group in self._groups:
            columns = [c for each in group if (c := part.column((each[0], each[1])[side])) is not None]
            if columns:
                found.append(part.rows.most(columns, nulls=any(each[2] for each in group)))
        return min(found)

    def pairs(self, enough: int) -> int:
        """The pairs that are looked at; the smaller side is counted first, and the other one where that is not enough."""
        left, right = self.left.rows.rows, self.right.rows.rows
        if right <= left:
            found = left * self.of_left
            return found if found <= enough else min(found, right * self.of_right)
        found = right * self.of_right
        return found if found <= enough else min(found, left * self.of_left)

    @property
    def enough(self) -> int:
        """As many pairs are allowed."""
        left, right = self.left.rows, self.right.rows
        return max(FEW_PAIRS, MOST_COPIES * (left.stored + right.stored), left.rows, right.rows)

    def told(self) -> str:
        """The join in words."""
        for a, b, _ in self.between:
            names = [_told(self.left.column(a)), _told(self.right.column(b))]
            if None not in names:
                return " = ".join(map(str, names))
        joined = sorted({s.name for p in (self.left, self.right) for s in p.rows.copies})
        return (
            "a join of " + ", ".join(joined[:4]) + (" by other conditions" if self.between else " without an equality")
        )


def _told(column: Column | None) -> str | None:
    if column is None or not isinstance(column.source, Table):
        return None
    return f"{column.source.name}.{column.source.column(column.position)}"


def between(left: Joined, right: Joined, equalities: Iterable[Equality]) -> Partners:
    """Two parts of a join and what is compared between them."""
    here, there = frozenset(left.places), frozenset(right.places)
    found = []
    for each in equalities:
        for one, other in ((each.left, each.right), (each.right, each.left)):
            if one.reads and other.reads and one.reads <= here and other.reads <= there:
                found.append((one, other, each.nulls))
    return Partners(left, right, tuple(found))


def looked_at(partners: Partners) -> int:
    """The pairs of a join; MultipliedError where they are too many."""
    pairs = partners.pairs(partners.enough)
    if pairs > partners.enough:
        raise MultipliedError(partners.told())
    return pairs


def _times(copies: Callable[[], int], factor: Callable[[], int]) -> Callable[[], int]:
    return lambda: copies() * max(1, factor())


def both(partners: Partners, rows: int, padded: frozenset[Source] = frozenset()) -> Joined:
    """What comes out of a join."""
    left, right = partners.left, partners.right
    copies = {s: _times(c, lambda: partners.of_left) for s, c in left.rows.copies.items()}
    copies |= {s: _times(c, lambda: partners.of_right) for s, c in right.rows.copies.items()}
    whole = Rows(
        rows,
        left.rows.stored + right.rows.stored,
        (*left.rows.columns, *right.rows.columns),
        copies,
        left.rows.padded | right.rows.padded | padded,
    )
    return Joined(whole, (*left.places, *right.places))


def padded(partners: Partners, kind: str) -> Rows:
    """An outer join: rows without partners are there too."""
    left, right = partners.left.rows, partners.right.rows
    by_left, by_right = left.rows * max(1, partners.of_left), right.rows * max(1, partners.of_right)
    if kind == "LEFT":
        return both(partners, min(by_left, by_right + left.rows), frozenset(right.copies)).rows
    if kind == "RIGHT":
        return both(partners, min(by_right, by_left + right.rows), frozenset(left.copies)).rows
    rows = min(by_left + right.rows, by_right + left.rows)
    return both(partners, rows, frozenset({*left.copies, *right.copies})).rows
