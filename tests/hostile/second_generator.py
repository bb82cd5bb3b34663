"""A second generator of statements, built from the top down out of the reference pages, and not from the first one.

A type is picked first, then an expression of it. Forms are dealt: after enough seeds each of them was in a query, in
company that changes from round to round. A seed replays its statement.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from second_clauses import (
    AGGREGATES,
    EVENTS,
    OF_ONE_OWNER,
    OLD_OPTIONS,
    OPTIONS,
    PLACES,
    POLICY_SELECTS,
    PUBLIC_BY_TYPE,
    SET_OPERATIONS,
    STATEMENTS,
)
from second_expressions import LITERALS, TYPES
from second_rows import Rows, Scope

if TYPE_CHECKING:
    from collections.abc import Sequence


class SecondGenerator(Rows):
    """One statement from one seed."""

    # ---- private SELECTs -------------------------------------------------------------------------------------------

    def clause(self) -> str:
        epsilon = self.one(("1", "0.5", "1.0", "5e-1", ".25"))
        options = [f"epsilon = {epsilon}", *self.take(self.options, OPTIONS).split(", ")]
        return f"WITH DIFFERENTIAL_PRIVACY OPTIONS({', '.join(options)}) "

    def private_select(self, clause: str | None = None, scope: Scope | None = None, keys: int | None = None) -> Scope:
        """Keys and aggregates, with their types; perhaps HAVING."""
        rows = scope or self.source()
        wanted = keys if keys is not None else 1 if self.grouping else self.draw.choice((0, 0, 1, 1, 2))
        made = [(*self.any_expression(rows, self.draw.randint(0, 1)), self.name("k")) for _ in range(wanted)]
        cards = [self.take(self.private, AGGREGATES)] + [self.one(AGGREGATES[:16])] * self.draw.randint(0, 1)
        counted = [(*self.aggregate(card, rows), self.name("a")) for card in cards]
        counted += self.left_over("COUNT", rows)
        return self.select_of(clause if clause is not None else self.clause(), rows, made, counted)

    def left_over(self, aggregate: str, rows: Scope) -> list[tuple[str, str, str]]:
        """Counts of the dealt expressions that stand nowhere yet."""
        found = []
        while self.expressions:
            found.append(("int", f"{aggregate}({self.any_expression(rows)[1]})", self.name("a")))
        return found

    def select_of(
        self, clause: str, rows: Scope, keys: list[tuple[str, str, str]], counted: list[tuple[str, str, str]]
    ) -> Scope:
        listed = [f"{text}{self.one((' AS ', ' '))}{name}" for _, text, name in (*keys, *counted)]
        if self.chance(0.15):
            listed.append(f"RANK() OVER (ORDER BY {counted[0][1]} DESC) AS place")
        text = f"SELECT {clause}{', '.join(listed)} FROM {rows.text}{self.where(rows)}"
        if keys:
            places = [self.one((expr, name, str(i + 1))) for i, (_, expr, name) in enumerate(keys)]
            text += f" {self.grouping}" if self.grouping else f" GROUP BY {', '.join(places)}"
        if keys and self.chance(0.3):
            text += f" HAVING {self.one((counted[0][2], counted[0][1]))} {self.one(('> 1', 'IS NOT NULL', '<> 0'))}"
        return Scope(text, tuple((name, kind) for kind, _, name in (*keys, *counted)))

    def ending(self, columns: Sequence[tuple[str, str]]) -> str:
        """ORDER BY, LIMIT, OFFSET."""
        sortable = [name for name, kind in columns if kind != "list"]
        order = f" ORDER BY {self.one(sortable)}{self.one(('', ' DESC', ' ASC NULLS FIRST'))}" if sortable else ""
        cut = self.one(("", "", " LIMIT 3", " LIMIT 5 OFFSET 1", " OFFSET 1 ROWS", " FETCH FIRST 2 ROWS ONLY"))
        return (order if self.chance(0.5) else "") + (cut if self.chance(0.4) else "")

    # ---- statements ------------------------------------------------------------------------------------------------

    def statement(self) -> str:
        body = getattr(self, f"{self.shape}_statement")()
        if self.with_tables:
            body = f"WITH {', '.join(self.with_tables)} {body}"
        body = f"EXPLAIN PRIVACY {body}" if self.chance(0.06) else body
        return body + self.one(("", "", "", ";", " -- the end", " /* the end */"))

    def private_statement(self) -> str:
        select = self.private_select()
        return select.text + self.ending(select.columns)

    def old_statement(self) -> str:
        rows = self.source()
        clause = f"WITH ANONYMIZATION OPTIONS(epsilon = 1, {self.one(OLD_OPTIONS)}) "
        keys = [(*self.any_expression(rows), "k")] if self.chance(0.5) else []
        counted = [(*self.aggregate(card, rows), self.name("a")) for card in self.old]
        counted += self.left_over("ANON_COUNT", rows)
        return self.select_of(clause, rows, keys, counted).text

    def plain_statement(self) -> str:
        select = self.private_select(clause="")
        return select.text + self.ending(select.columns)

    def around_statement(self) -> str:
        """A SELECT around a private one: a window, a filter, the public table."""
        inner = self.private_select()
        usable = tuple((f"o.{name}", kind) for name, kind in inner.columns if kind != "list")
        outer = Scope("", usable)
        kind, call, window = self.window(outer, self.maybe(usable[0][0]) if usable else "")
        made = [self.any_expression(outer) for _ in range(2)]
        listed = ", ".join(f"{text} AS e{i}" for i, (_, text) in enumerate(made))
        source = f"({inner.text}) AS o"
        if self.chance(0.5):
            self.with_tables.append(f"released AS ({inner.text})")
            source = self.one(
                ("released AS o", "released AS o CROSS JOIN places AS x", "released AS o, released AS o2")
            )
        qualify = self.maybe(f" QUALIFY {call} OVER ({window}) IS NOT NULL", 0.2)
        where = self.maybe(f" WHERE {self.condition(outer)}")
        text = f"SELECT {listed}, {call} OVER ({window}) AS win FROM {source}{where}{qualify}"
        return text + self.ending([("e0", made[0][0]), ("win", kind)])

    def table_statement(self) -> str:
        """Aggregates and GROUP BY over released rows."""
        inner = self.private_select(keys=2)
        self.with_tables.append(f"released AS ({inner.text})")
        outer = Scope("", tuple((name, kind) for name, kind in inner.columns if kind != "list"))
        kind, aggregate = self.aggregate(self.take(self.inner, OF_ONE_OWNER), outer)
        key = inner.columns[0][0]
        having = self.maybe(f" HAVING {self.one(('COUNT(*) > 0', f'{aggregate} IS NULL'))}", 0.3)
        scalar = self.one(("(SELECT COUNT(*) FROM released)", f"{key} IN (SELECT {key} FROM released)"))
        form = self.one((f"{key}, {aggregate} AS c", f"{aggregate} AS c", f"{key}, MAX({scalar}) AS c"))
        group = f" GROUP BY {self.one((key, '1'))}" if form.startswith(key) else ""
        distinct = self.maybe("DISTINCT ", 0.2)
        return f"SELECT {distinct}{form} FROM released{group}{having}{self.ending([('c', kind)])}"

    def united_statement(self) -> str:
        """Set operations of released rows, constants and public tables."""
        first = self.private_select(keys=1)
        kinds = [kind for _, kind in first.columns]
        if "list" in kinds or "place" in first.text:
            return first.text
        public = Scope("", tuple(PLACES.items()))
        columns = ", ".join(self.expression(self.nearly(kind), public, 1) for kind in kinds)
        constants = ", ".join(self.one(LITERALS[kind]) for kind in kinds)
        second = self.one((f"SELECT {columns} FROM places", f"VALUES ({constants})", f"({first.text})"))
        operation = self.take(self.set_operations, SET_OPERATIONS)
        return f"{first.text} {operation} {second}{self.ending([])}"

    def steered_statement(self) -> str:
        """A private SELECT that looks at what another one released."""
        kind, column = self.one([(k, c) for c, k in EVENTS.items()])
        options = "OPTIONS(epsilon = 0.5, delta = 1e-2)"
        self.with_tables.append(
            f"busy AS (SELECT WITH DIFFERENTIAL_PRIVACY {options} {column} AS k, COUNT(DISTINCT uid) AS c"
            f" FROM events GROUP BY 1)"
        )
        probe = f"({self.expression(self.nearly(kind), Scope('', tuple(EVENTS.items())), 1)})"
        test = self.one(("{p} IN (SELECT k FROM busy)", "{p} NOT IN (SELECT k FROM busy WHERE c > 3)",
                         "EXISTS (SELECT 1 FROM busy WHERE k = {p})", "{p} = (SELECT MAX(k) FROM busy)"))  # fmt: skip
        rows = Scope("events", tuple(EVENTS.items()), "uid", test.format(p=probe))
        if self.chance(0.3):
            columns = (*((f"v.{c}", k) for c, k in EVENTS.items()), ("b.k", kind))
            rows = Scope(f"events AS v JOIN busy AS b ON b.k = v.{column}", columns, "v.uid")
        return self.private_select(scope=rows).text

    def listed_statement(self) -> str:
        """Public groups from a public side that is preserved."""
        kind = self.one(TYPES)
        public = self.one(PUBLIC_BY_TYPE[kind])
        left = self.table()
        probe = f"({self.expression(kind, left, 1)})"
        text = self.one((f"places AS x LEFT JOIN {left.text} ON {probe} = x.{public}",
                         f"{left.text} RIGHT JOIN places AS x ON x.{public} = {probe}"))  # fmt: skip
        return self.listing(f"x.{public}", kind, replace(left, text=text))

    def values_statement(self) -> str:
        kind = self.one(TYPES)
        left = self.table()
        values = ", ".join(f"({self.one(LITERALS[kind])})" for _ in range(3))
        text = f"(VALUES {values}) AS x(g) LEFT JOIN {left.text} ON ({self.expression(kind, left, 1)}) = x.g"
        return self.listing("x.g", kind, replace(left, text=text))

    def listing(self, key: str, kind: str, rows: Scope) -> str:
        clause = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, group_selection_strategy = PUBLIC_GROUPS) "
        counted = [(*self.aggregate(self.take(self.private, AGGREGATES), rows), "a"), *self.left_over("COUNT", rows)]
        return self.select_of(clause, rows, [(kind, key, "k")], counted).text

    def public_statement(self) -> str:
        """No private table at all: exact and free."""
        scope = Scope("", tuple((f"x.{c}", k) for c, k in PLACES.items()))
        made = [self.any_expression(scope) for _ in range(3)]
        _, call, window = self.window(scope, "")
        listed = ", ".join(f"{text} AS e{i}" for i, (_, text) in enumerate(made))
        if self.chance(0.3):
            grouped = self.aggregate(self.take(self.inner, OF_ONE_OWNER), scope)[1]
            return f"SELECT x.kind, {grouped} AS c FROM places AS x GROUP BY x.kind"
        recursive = self.maybe("WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) ", 0.1)
        return f"{recursive}SELECT {listed}, {call} OVER ({window}) AS w FROM places AS x{self.where(scope)}"

    def policy_statement(self) -> str:
        """SELECT WITH POLICY over the attributes of its domain."""
        scope = Scope("", (("small", "int"), ("e", "text")))
        clause = "SELECT WITH POLICY OPTIONS(policy = 'near', epsilon = 1, confidence_level = 0.9)"
        condition = self.maybe(f" WHERE {self.condition(scope)}")
        form = self.one(POLICY_SELECTS)
        filled = re.sub(r"\{(int|bool)\}", lambda hole: self.expression(hole[1], scope, 1), form)
        return f"{clause} {filled.replace('{w}', condition)}"

    def raw_statement(self) -> str:
        """Single rows, an owner as a key, an aggregate beside a column."""
        rows = self.table()
        column = self.one(rows.columns)[0]
        clause = self.maybe(self.clause())
        return self.one(
            (
                f"SELECT {clause}{column}, COUNT(*) FROM {rows.text}",
                f"SELECT {clause}* FROM {rows.text}",
                f"SELECT {clause}{rows.owner}, COUNT(*) FROM {rows.text} GROUP BY 1",
                f"SELECT {clause}{self.any_expression(rows)[1]} FROM {rows.text} LIMIT 1",
            )
        )

    def distinct_statement(self) -> str:
        """SELECT DISTINCT is GROUP BY."""
        rows = self.source()
        keys = [self.any_expression(rows)[1] for _ in range(max(1, len(self.expressions)))]
        return f"SELECT DISTINCT {', '.join(keys)} FROM {rows.text}{self.where(rows)}"

    def statement_statement(self) -> str:
        """What is no query, or is two."""
        return self.take(self.odd, STATEMENTS)


def statement(seed: int) -> str:
    """The statement of a seed."""
    return SecondGenerator(seed).statement()
