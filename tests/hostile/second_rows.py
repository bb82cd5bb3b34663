"""Rows that a second generator reads: relations of every form with their typed columns, and expressions over them."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from second_clauses import (
    AGGREGATES,
    FRAMES,
    JOINS,
    ODD_SOURCES,
    OF_ONE_OWNER,
    OLD_AGGREGATES,
    OPTIONS,
    PEOPLE,
    PLACES,
    PRIVATE,
    PUBLIC_BY_TYPE,
    RANKED,
    SET_OPERATIONS,
    SHAPES,
    SOURCES,
    SPOILED,
    TIED,
    WITH_PUBLIC,
)
from second_expressions import ALIKE, DECK, FORMS, LITERALS, NAMED, ONE_OF, TYPES, WORDS, lines

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


@dataclass(frozen=True)
class Scope:
    """What is in FROM: its text, the columns that can be named with their types, the owner."""

    text: str
    columns: tuple[tuple[str, str], ...]
    owner: str = ""
    more: str = ""
    """A condition that WHERE must hold, of joins by comma."""


def dealt(deck: Sequence[T], seed: int, hand: int, salt: int) -> list[T]:
    """The cards of a seed: consecutive seeds go through the whole deck, shuffled anew every round."""
    cards = []
    for place in range(seed * hand, (seed + 1) * hand):
        order = list(range(len(deck)))
        random.Random(f"{salt} {place // len(deck)}").shuffle(order)
        cards.append(deck[order[place % len(deck)]])
    return cards


class Rows:
    """What one seed deals: expressions and relations."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(f"second {seed}")
        self.expressions = dealt(DECK, seed, 3, 1)
        self.private = dealt(AGGREGATES, seed, 1, 2)
        self.old = dealt(OLD_AGGREGATES, seed, 3, 3)
        self.inner = dealt(OF_ONE_OWNER, seed, 1, 4)
        self.ranked = dealt(RANKED, seed, 1, 5)
        self.shape = dealt(SHAPES, seed, 1, 6)[0]
        self.options = dealt(OPTIONS, seed, 1, 7)
        self.sources = dealt(SOURCES, seed, 1, 8)
        self.joins = dealt(JOINS, seed, 1, 9)
        self.frames = dealt(FRAMES, seed, 1, 10)
        self.set_operations = dealt(SET_OPERATIONS, seed, 1, 11)
        self.odd: list[str] = []
        self.grouping = ""
        self.mixed = 0.0
        if seed % 4 == 3:
            self.spoil(*dealt(SPOILED, seed // 4, 1, 12)[0])
        self.with_tables: list[str] = []
        self.names = 0

    def spoil(self, kind: str, card: Any) -> None:
        """Puts a flaw where it will be read."""
        self.shape = kind if kind in {"raw", "statement"} else "private"
        hands = {"expression": self.expressions, "options": self.options, "private": self.private, "odd": self.odd}
        hands |= {"ranked": self.ranked, "set_operation": self.set_operations, "statement": self.odd}
        sources = {"ranked": "windowed", "odd": "odd", "set_operation": "set_operation"}
        hands.get(kind, []).append(card)
        self.sources.extend([sources[kind]] if kind in sources else [])
        self.grouping = card if kind == "grouping" else ""
        self.mixed = 0.3 if kind == "mixed" else 0.0

    # ---- words and names -------------------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return self.draw.random() < share

    def one(self, choices: Sequence[T]) -> T:
        return self.draw.choice(choices)

    def take(self, hand: list[T], deck: Sequence[T]) -> T:
        """The next card of the hand, else any."""
        return hand.pop() if hand else self.one(deck)

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def maybe(self, text: str, share: float = 0.5) -> str:
        return text if self.chance(share) else ""

    # ---- expressions -----------------------------------------------------------------------------------------------

    def column(self, kind: str, scope: Scope) -> str:
        """A column of the type, else a constant."""
        fitting = [name for name, k in scope.columns if k == kind]
        return self.one(fitting) if fitting and self.chance(0.85) else self.one(LITERALS[kind])

    def expression(self, kind: str, scope: Scope, depth: int) -> str:
        if depth <= 0 or self.chance(0.3):
            return self.column(kind, scope)
        form = self.one(lines(ALIKE)) if self.chance(0.15) else self.one(FORMS[kind])
        return self.filled(form, kind, scope, depth - 1)

    def any_expression(self, scope: Scope, depth: int = 1) -> tuple[str, str]:
        """Of a type that the deal, or else chance, picks first."""
        if self.expressions:
            kind, form = self.expressions.pop()
            return kind, self.filled(form, kind, scope, depth)
        kind = self.one(TYPES)
        return kind, self.expression(kind, scope, depth)

    def filled(self, form: str, kind: str, scope: Scope, depth: int) -> str:
        """The form with its parts; where it compares, of one type drawn for all of them."""
        same = kind if form in lines(ALIKE) else self.one(TYPES)
        return re.sub(r"\{(\w+)\}", lambda hole: self.part(hole[1], same, scope, depth), form)

    def part(self, hole: str, same: str, scope: Scope, depth: int) -> str:
        fixed = {"NAMED": NAMED[same], "TILES": "4", "owner": scope.owner or "uid"}
        if hole in fixed:
            return fixed[hole]
        if hole in WORDS:
            return self.one(WORDS[hole])
        publics = {"column": (same,), "numbers": ONE_OF["num"], "times": ONE_OF["when"]}
        if hole in publics:
            return self.one(PUBLIC_BY_TYPE[self.one(publics[hole])])
        kind = same if hole == "any" else self.one(ONE_OF.get(hole, (hole,)))
        if self.chance(self.mixed):
            kind = self.one(TYPES)
        text = self.expression(kind, scope, depth)
        return text if re.fullmatch(r"[\w.]+|\w+\([^()]*\)|'[^']*'", text) else f"({text})"

    def condition(self, scope: Scope, depth: int = 1) -> str:
        return self.expression("bool", scope, depth)

    # ---- private rows ----------------------------------------------------------------------------------------------

    def source(self, depth: int = 2) -> Scope:
        if depth <= 0:
            return self.table()
        kind = self.take(self.sources, SOURCES)
        return getattr(self, f"{kind}_rows")(depth - 1) if kind != "table" else self.table()

    def table(self) -> Scope:
        name = self.one(list(PRIVATE))
        alias = self.name("p")
        columns = tuple((f"{alias}.{column}", kind) for column, kind in PRIVATE[name].items())
        quoted = self.one((alias, f'"{alias}"', f"`{alias}`"))
        return Scope(f"{name}{self.one((' AS ', ' '))}{quoted}", columns, f"{alias}.uid")

    def where(self, scope: Scope) -> str:
        """WHERE, sometimes tied to the owner's rows of another table."""
        conditions = [scope.more] if scope.more else []
        if self.chance(0.5):
            kinds = [k for k, _ in self.expressions[-1:]]
            dealt_one = kinds == ["bool"]
            conditions.append(self.any_expression(scope)[1] if dealt_one else self.condition(scope))
        if self.chance(0.2):
            conditions.append(self.tied(scope))
        return f" WHERE {' AND '.join(f'({c})' for c in conditions)}" if conditions else ""

    def tied(self, scope: Scope) -> str:
        other = self.table()
        form = self.one(TIED)
        return form.format(
            t=other.text, o=other.owner, u=scope.owner, c=self.condition(other), i=self.column("int", scope)
        )

    def narrowed_rows(self, depth: int, distinct: str = "") -> Scope:
        """SELECT of expressions and of columns as they are."""
        inner = self.source(depth)
        made = [self.any_expression(inner) for _ in range(self.draw.randint(1, 3))]
        made += [(kind, text) for text, kind in self.draw.sample(inner.columns, min(3, len(inner.columns)))]
        named = [(kind, text, self.name("c")) for kind, text in made]
        owner = "uid" if inner.owner.endswith(".uid") else inner.owner
        listed = ", ".join([f"{inner.owner} AS uid", *(f"{text} AS {name}" for _, text, name in named)])
        alias = self.name("q")
        text = f"(SELECT {distinct}{listed} FROM {inner.text}{self.where(inner)}) AS {alias}"
        columns = tuple((f"{alias}.{name}", kind) for kind, _, name in named)
        return Scope(text, columns, f"{alias}.{owner}")

    def different_rows(self, depth: int) -> Scope:
        return self.narrowed_rows(depth, "DISTINCT ")

    def aggregated_rows(self, depth: int) -> Scope:
        """GROUP BY the owner, and perhaps more."""
        inner = self.source(depth)
        kind, aggregate = self.aggregate(self.take(self.inner, OF_ONE_OWNER), inner)
        keys = [f"{inner.owner} AS uid"]
        columns: list[tuple[str, str]] = [("c", kind)]
        groups = [inner.owner]
        if self.chance(0.4):
            key_kind, key = self.any_expression(inner, 0)
            keys.append(f"{key} AS k")
            groups.append(self.one((key, "k", "2")))
            columns.append(("k", key_kind))
        having = self.maybe(f" HAVING {self.one(('COUNT(*) > 1', aggregate + ' IS NOT NULL'))}", 0.3)
        alias = self.name("g")
        body = f"SELECT {', '.join(keys)}, {aggregate} AS c FROM {inner.text}{self.where(inner)}"
        text = f"({body} GROUP BY {', '.join(groups)}{having}) AS {alias}"
        return Scope(text, tuple((f"{alias}.{name}", k) for name, k in columns), f"{alias}.uid")

    def aggregate(self, card: str, scope: Scope) -> tuple[str, str]:
        """The type and the text of an aggregate or a ranking function."""
        kind, form = card.split(" ", 1)
        same = kind = self.one(TYPES) if kind == "any" else kind
        if kind == "list" or not card.startswith("any"):
            same = self.one(TYPES)
        return kind, re.sub(r"\{(\w+)\}", lambda hole: self.argument(hole[1], same, scope), form)

    def argument(self, hole: str, same: str, scope: Scope) -> str:
        """What an aggregate takes: a dealt expression where its type fits."""
        wanted = ONE_OF.get(hole, (same if hole == "any" else hole,))
        if self.expressions and self.expressions[-1][0] in wanted:
            return self.any_expression(scope)[1]
        return self.part(hole, same, scope, 1)

    def window(self, scope: Scope, owner: str) -> tuple[str, str, str]:
        """The type, the call and the window."""
        ranked = len(self.ranked) > 1 or self.chance(0.7)
        kind, call = self.aggregate(
            self.take(self.ranked, RANKED) if ranked else self.take(self.inner, OF_ONE_OWNER), scope
        )
        order = self.order(scope) if ranked or self.chance(0.7) else ""
        takes_frame = order and (not ranked or "VALUE" in call)
        frame = self.take(self.frames, FRAMES) if takes_frame else ""
        parts = [f"PARTITION BY {owner}" if owner else "", order, frame]
        return kind, call, " ".join(part for part in parts if part)

    def order(self, scope: Scope) -> str:
        direction = self.one(("", " ASC", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
        return f"ORDER BY {self.column(self.one(TYPES), replace(scope))}{direction}"

    def windowed_rows(self, depth: int) -> Scope:
        inner = self.source(depth)
        kind, call, window = self.window(inner, inner.owner)
        alias = self.name("w")
        over, named = (f"OVER ({window})", "") if self.chance(0.6) else ("OVER win", f" WINDOW win AS ({window})")
        text = (
            f"(SELECT {inner.owner} AS uid, {call} {over} AS c FROM {inner.text}{self.where(inner)}{named}) AS {alias}"
        )
        return Scope(text, ((f"{alias}.c", kind),), f"{alias}.uid")

    def qualified_rows(self, depth: int) -> Scope:
        inner = self.source(depth)
        _, call, window = self.window(inner, inner.owner)
        kind, kept = self.any_expression(inner, 0)
        alias = self.name("f")
        test = self.one((f"{call} OVER ({window}) IS NOT NULL", f"ROW_NUMBER() OVER ({window or 'ORDER BY 1'}) <= 2"))
        text = (
            f"(SELECT {inner.owner} AS uid, {kept} AS c FROM {inner.text}{self.where(inner)} QUALIFY {test}) AS {alias}"
        )
        return Scope(text, ((f"{alias}.c", kind),), f"{alias}.uid")

    def set_operation_rows(self, depth: int) -> Scope:
        """Two or three SELECTs with columns of the same types, not always stored alike."""
        kinds = [self.one(TYPES) for _ in range(self.draw.randint(0, 2))]
        operands = [self.operand(kinds, depth)]
        for _ in range(self.draw.choice((1, 1, 2))):
            operands += [self.take(self.set_operations, SET_OPERATIONS), self.operand(kinds, depth)]
        alias = self.name("u")
        columns = tuple((f"{alias}.c{place}", kind) for place, kind in enumerate(kinds))
        named = ", ".join(["uid", *(f"c{place}" for place in range(len(kinds)))])
        return Scope(f"({' '.join(operands)}) AS {alias}({named})", columns, f"{alias}.uid")

    def operand(self, kinds: list[str], depth: int) -> str:
        inner = self.source(depth - 1)
        listed = ", ".join([inner.owner, *(self.expression(self.nearly(kind), inner, 1) for kind in kinds)])
        select = f"SELECT {listed} FROM {inner.text}{self.where(inner)}"
        return f"({select})" if self.chance(0.3) else select

    def nearly(self, kind: str) -> str:
        """The type, or one that widens to it."""
        wider = {"double": ("int", "dec"), "dec": ("int",), "ts": ("date",)}
        return self.one(wider[kind]) if kind in wider and self.chance(0.3) else kind

    def joined_rows(self, depth: int) -> Scope:
        """Two private sides, on their owners."""
        left, right = self.source(depth), self.source(depth - 1)
        join = self.take(self.joins, JOINS)
        both = (*left.columns, *right.columns) if join[:4] not in {"SEMI", "ANTI"} else left.columns
        owner = right.owner if join.startswith("RIGHT") else left.owner
        equal = f"{left.owner} = {right.owner}"
        how = self.draw.randrange(5)
        if how == 0 and join == "JOIN":
            return Scope(f"{left.text}, {right.text}", both, owner, equal)
        if how == 1:
            return Scope(f"{left.text} NATURAL {join} {right.text}", both, "uid")
        if how == 2:
            return Scope(f"{left.text} {join} {right.text} USING (uid)", both, "uid")
        also = f" AND {self.condition(Scope('', (*left.columns, *right.columns)))}" if self.chance(0.4) else ""
        return Scope(f"{left.text} {join} {right.text} ON {equal}{also}", both, owner)

    def self_joined_rows(self, depth: int) -> Scope:
        """One table with itself, or rows with the owner's own totals."""
        left = self.table()
        right = self.aggregated_rows(depth - 1)
        text = f"{left.text} JOIN {right.text} ON {left.owner} = {right.owner}"
        return Scope(text, (*left.columns, *right.columns), left.owner)

    def with_public_rows(self, depth: int) -> Scope:
        """A private side and a public one."""
        left, alias = self.source(depth), self.name("x")
        columns = tuple((f"{alias}.{column}", kind) for column, kind in PLACES.items())
        both = Scope("", (*left.columns, *columns))
        kind = self.one(TYPES)
        equal = f"({self.expression(kind, left, 1)}) = {alias}.{self.one(PUBLIC_BY_TYPE[kind])}"
        conditions = (equal, f"{equal} AND {self.condition(both)}", self.condition(both))
        form = self.one(WITH_PUBLIC)
        shown = left.columns if "SEMI" in form or "ANTI" in form else both.columns
        return Scope(form.format(l=left.text, a=alias, c=self.one(conditions)), shown, left.owner, left.more)

    def named_rows(self, depth: int) -> Scope:
        """A table of WITH, used once or twice."""
        inner = self.narrowed_rows(depth)
        table, alias = self.name("with_"), self.name("n")
        how = self.one(("", "", "MATERIALIZED ", "NOT MATERIALIZED "))
        body = inner.text[: inner.text.rindex(" AS ")]
        inner_names = [column.split(".")[1] for column, _ in inner.columns]
        given = f" (uid, {', '.join(inner_names)})" if self.chance(0.3) else ""
        self.with_tables.append(f"{table}{given} AS {how}{body}")
        columns = tuple((f"{alias}.{name}", kind) for name, (_, kind) in zip(inner_names, inner.columns, strict=True))
        if self.chance(0.3):
            again = self.name("n")
            return Scope(f"{table} AS {alias} JOIN {table} AS {again} USING (uid)", columns, f"{alias}.uid")
        return Scope(f"{table} AS {alias}", columns, f"{alias}.uid")

    def nested_rows(self, _: int) -> Scope:
        """Stars, and SELECTs inside SELECTs."""
        inner, alias = self.table(), self.name("s")
        own = inner.owner.split(".")[0]
        star = self.one(("*", f"{own}.*", f"{own}.*, 1 AS one", "ALL *"))
        text = f"(SELECT {star} FROM {inner.text}{self.where(inner)}) AS {alias}"
        return Scope(text, tuple((f"{alias}.{c.split('.')[1]}", k) for c, k in inner.columns), f"{alias}.uid")

    def written_table_rows(self, _: int) -> Scope:
        alias = self.name("t")
        return Scope(
            f"(TABLE people) AS {alias}", tuple((f"{alias}.{c}", k) for c, k in PEOPLE.items()), f"{alias}.uid"
        )

    def odd_rows(self, _: int) -> Scope:
        """What is read so that the refusal can tell why, and what loses the owner."""
        return Scope(self.take(self.odd, ODD_SOURCES), (("p.n", "int"),), "p.uid")
