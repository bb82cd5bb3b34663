"""Random queries over the whole surface, from a seed: most are well formed, many are answered, some are cut to pieces.

A relation is text with typed columns; expressions are drawn by the type they must have. Nothing here knows what is allowed:
that is for the engine to say.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import corpus
from fuzz_forms import (
    ALONG_REFERENCES,
    BOUNDS,
    CALLABLE,
    DAY,
    DAYS,
    EXPRESSIONS,
    FLAG,
    FOREIGN,
    LISTS,
    NASTY,
    NUMBER,
    NUMBERS,
    OLD_AGGREGATES,
    OWNED,
    OWNER,
    POLICY_AGGREGATES,
    PRIVATE_AGGREGATES,
    REFERRING,
    REGIONS,
    ROW_AGGREGATES,
    TEXT,
    TEXTS,
    WINDOWS,
    Columns,
)

from shoal.sql.grammar.parameters import with_parameters

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Relation:
    """Something that can stand in FROM."""

    sql: str
    columns: Columns


class Grammar:
    """One random query after another, replayable from the seed."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self._names = 0

    def query(self) -> str:
        """Any query: generated, a mutation of one, or a mutation of the corpus."""
        kind = self.dice.random()
        if kind < 0.1:
            return self.mutated(self.dice.choice(corpus.CASES).sql)
        if kind < 0.2:
            return self.mutated(self.statement())
        if kind < 0.25:
            return self.with_placeholders(self.statement())
        if kind < 0.98:
            return self.statement()
        return self.under_policy() if kind < 0.995 else self.mutated(self.under_policy())

    # ---- statements ----------------------------------------------------------------------------------------------

    def statement(self) -> str:
        """A private SELECT, alone or with something around it."""
        kind = self.dice.random()
        inner = self.private()
        if kind < 0.7:
            return inner
        if kind < 0.78:
            return f"SELECT * FROM ({inner}) AS p ORDER BY 1 LIMIT {self.dice.randint(0, 5)}"
        if kind < 0.84:
            return f"WITH p AS ({inner}) SELECT COUNT(*) AS rows_seen FROM p a CROSS JOIN p b"
        if kind < 0.9:
            common = self.subquery(2)
            inner, _, name = common.sql.rpartition(" AS ")
            columns = tuple((column.replace(f"{name}.", "w."), kind) for column, kind in common.columns)
            return f"WITH w AS {inner} {self.private(Relation('w', columns))}"
        if kind < 0.95:
            return f"SELECT r.region, p.* FROM regions r LEFT JOIN ({inner}) AS p ON TRUE"
        if kind < 0.97:
            return self.public_groups()
        if kind < 0.985:
            return f"{self.private(total=True)} UNION ALL {self.private(total=True)}"
        return self.of_owners()

    def of_owners(self) -> str:
        """Values that a subquery computes of the same owner, lists of quantiles, weights, and cuts that are measured."""
        outer, inner = self.table(), self.table()
        a, b = self.owner_of(outer), self.owner_of(inner)
        also = f" AND {self.expression(FLAG, inner.columns, 1)}" if self.dice.random() < 0.5 else ""
        value = f"(SELECT {self.filled(self.dice.choice(ROW_AGGREGATES), inner.columns, 1)} FROM {inner.sql} WHERE {b} = {a}{also})"
        text = self.expression(TEXT, outer.columns, 1)
        rows = self.derived(
            f"SELECT {a} AS uid, {text} AS t, {value} AS n FROM {outer.sql}", [("t", TEXT), ("n", NUMBER)]
        )
        counted = self.filled(self.dice.choice((*LISTS, *FOREIGN, *FOREIGN, *PRIVATE_AGGREGATES[:6])), rows.columns, 1)
        extra = self.dice.choice(("", ", group_selection_strategy=WEIGHTED", ", measure_cut=0.2", ", noise=GAUSSIAN"))
        key, by = self.dice.choice((("", ""), (f"{rows.columns[1][0]} AS k0, ", " GROUP BY 1")))
        options = f"epsilon=1, delta=1e-6, max_groups_contributed={self.dice.choice((1, 3, 10))}{extra}"
        return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) {key}{counted} AS v0 FROM {rows.sql}{by}"

    def public_groups(self) -> str:
        """Every region of the public table, with whatever is known about it."""
        below = self.subquery(1)
        on = self.dice.choice([name for name, kind in below.columns if kind == TEXT] or ["'north'"])
        value = self.filled(self.dice.choice(PRIVATE_AGGREGATES), below.columns, 1)
        options = f"{self.options(old=False)}, group_selection_strategy=PUBLIC_GROUPS"
        mixed = self.expression(FLAG, (*below.columns, ("r.region", TEXT), ("r.continent", TEXT)), 1)
        where = self.dice.choice(
            ("", " WHERE r.region <> 'west'", f" WHERE {mixed}", f" WHERE r.region < 's' AND {mixed}")
        )
        return (
            f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) r.region, {value} AS v0 "
            f"FROM {below.sql} RIGHT JOIN regions r ON {on} = r.region{where} GROUP BY r.region"
        )

    def private(self, source: Relation | None = None, *, total: bool = False) -> str:
        """A SELECT with one of the clauses; `total` asks for one number and nothing after it."""
        source = source or self.relation(3)
        old = self.dice.random() < 0.1
        count = 0 if total else self.dice.choice((0, 0, 1, 1, 1, 2, 3))
        key_list = [
            self.expression(self.dice.choice((TEXT, TEXT, NUMBER, FLAG, DAY)), source.columns, 1) for _ in range(count)
        ]
        forms = OLD_AGGREGATES if old else PRIVATE_AGGREGATES
        wanted = 1 if total else self.dice.choice((0, 1, 1, 1, 2, 3)) if count else self.dice.randint(1, 3)
        values = [self.filled(self.dice.choice(forms), source.columns, 1) for _ in range(wanted)]
        items = [f"{k} AS k{i}" for i, k in enumerate(key_list)] + [f"{v} AS v{i}" for i, v in enumerate(values)]
        clause = "ANONYMIZATION" if old else "DIFFERENTIAL_PRIVACY"
        where = f" WHERE {self.expression(FLAG, source.columns, 2)}" if self.dice.random() < 0.4 else ""
        tail = self.grouping(count) if count else ""
        if total:
            return f"SELECT WITH {clause} OPTIONS({self.options(old=old)}) {items[0]} FROM {source.sql}{where}"
        if values and self.dice.random() < 0.15:
            tail += f" HAVING {self.dice.choice(values)} > {self.dice.choice(NUMBERS)}"
        if values and self.dice.random() < 0.1:
            tail += f" QUALIFY ROW_NUMBER() OVER (ORDER BY {self.dice.choice(values)}) <= 3"
        if values and self.dice.random() < 0.1:
            items.append("v0 AS again")
        if self.dice.random() < 0.2:
            tail += f" ORDER BY {self.dice.randint(1, max(1, len(items)))} DESC"
        elif self.dice.random() < 0.1:
            tail += " ORDER BY ALL"
        if self.dice.random() < 0.1:
            tail += f" LIMIT {self.dice.randint(0, 9)}"
        listed = f"SELECT WITH {clause} OPTIONS({self.options(old=old)}) {', '.join(items)}"
        if not old and self.dice.random() < 0.1:
            listed = f"SELECT {', '.join(items)}"
        if self.dice.random() < 0.05:
            return f"FROM {source.sql} {listed}{where}{tail}"
        return f"{listed} FROM {source.sql}{where}{tail}"

    def grouping(self, count: int) -> str:
        """Keys by their places; now and then several groupings."""
        places = [str(i + 1) for i in range(count)]
        keys = ", ".join(places)
        sets = ", ".join((*(f"({place})" for place in places), "()"))
        forms = (keys, "ALL", f"ROLLUP ({keys})", f"CUBE ({keys})", f"GROUPING SETS ({sets})")
        return f" GROUP BY {self.dice.choices(forms, (85, 5, 4, 3, 3))[0]}"

    def options(self, *, old: bool) -> str:
        """Mostly sensible."""
        chosen = [f"epsilon={self.dice.choice(('1', '0.5', '3', '10', '1e-3', '1000'))}"]
        if self.dice.random() < 0.95:
            chosen.append(f"delta={self.dice.choice(('1e-6', '1e-9', '0.01'))}")
        bound = self.dice.random()
        if bound < 0.6:
            chosen.append(f"max_groups_contributed={self.dice.choice((1, 2, 3, 10))}")
        elif bound < 0.75 and not old:
            chosen.append(f"max_rows_contributed={self.dice.choice((1, 2, 5))}")
        elif bound < 0.85:
            chosen.append(self.dice.choice(("max_groups_contributed=AUTO", "kappa = 'AUTO'")))
        extras = (
            "noise=GAUSSIAN",
            "noise=LAPLACE",
            "group_selection_strategy=OPTIMAL",
            "group_selection_strategy=LAPLACE_THRESHOLD",
            "inferred_bounds=PER_GROUP",
            "inferred_bounds=PER_GROUP",
        )
        extras += (
            ("k_threshold=3",)
            if old
            else ("min_privacy_units_per_group=3", "group_selection_strategy=GAUSSIAN_THRESHOLD")
        )
        if self.dice.random() < 0.3:
            chosen.append(self.dice.choice(extras))
        self.dice.shuffle(chosen)
        return ", ".join(chosen)

    # ---- relations -----------------------------------------------------------------------------------------------

    def relation(self, depth: int) -> Relation:
        """Something in which every row has an owner, usually."""
        if depth <= 0 or self.dice.random() < 0.3:
            return self.table()
        ways = (self.subquery, self.joined, self.subquery, self.joined, self.with_public, self.per_owner, self.along)
        made: Callable[[int], Relation] = self.dice.choice((*ways, self.united, self.windowed, self.semi))
        return made(depth - 1)

    def table(self) -> Relation:
        """A table under a fresh name."""
        name = self.fresh()
        table, columns = self.dice.choice(OWNED if self.dice.random() < 0.75 else REFERRING)
        return Relation(f"{table} AS {name}", self.named(name, columns))

    def subquery(self, depth: int) -> Relation:
        """Projection and filter, sometimes DISTINCT."""
        below = self.relation(depth)
        owner = self.owner_of(below)
        outputs = [(f"x{i}", kind, self.expression(kind, below.columns, 1)) for i, kind in enumerate(self.kinds())]
        items = ([f"{owner} AS uid"] if self.dice.random() < 0.85 else []) + [f"{e} AS {n}" for n, _, e in outputs]
        distinct = "DISTINCT " if self.dice.random() < 0.15 else ""
        where = f" WHERE {self.expression(FLAG, below.columns, 2)}" if self.dice.random() < 0.4 else ""
        return self.derived(
            f"SELECT {distinct}{', '.join(items)} FROM {below.sql}{where}", [(n, k) for n, k, _ in outputs]
        )

    def per_owner(self, depth: int) -> Relation:
        """GROUP BY the owner inside FROM."""
        below = self.relation(depth)
        owner = self.owner_of(below)
        values = [
            self.filled(self.dice.choice(ROW_AGGREGATES), below.columns, 1) for _ in range(self.dice.randint(1, 2))
        ]
        keys = [owner, *(self.expression(TEXT, below.columns, 0) for _ in range(self.dice.choice((0, 0, 1))))]
        items = [f"{owner} AS uid", *(f"{v} AS x{i}" for i, v in enumerate(values))]
        having = f" HAVING {self.dice.choice(values)} IS NOT NULL" if self.dice.random() < 0.2 else ""
        numbered = [name for name, _ in below.columns if name.endswith(("order_id", "line_id", ".line"))]
        if numbered and self.dice.random() < 0.5:
            return self._per_key(self.dice.choice(numbered), values, below, having)
        sql = f"SELECT {', '.join(items)} FROM {below.sql} GROUP BY {', '.join(keys)}{having}"
        return self.derived(sql, [(f"x{i}", NUMBER) for i in range(len(values))])

    def _per_key(self, key: str, values: list[str], below: Relation, having: str) -> Relation:
        """GROUP BY a key that belongs to one owner, by the catalog or not, without the owner."""
        items = [f"{key} AS k", *(f"{v} AS x{i}" for i, v in enumerate(values))]
        name = self.fresh()
        sql = f"(SELECT {', '.join(items)} FROM {below.sql} GROUP BY {key}{having}) AS {name}"
        return Relation(sql, self.named(name, (("k", NUMBER), *((f"x{i}", NUMBER) for i in range(len(values))))))

    def windowed(self, depth: int) -> Relation:
        """A window over one owner's rows (now and then over everybody's)."""
        below = self.relation(depth)
        owner = self.owner_of(below)
        partition = f"PARTITION BY {owner}" if self.dice.random() < 0.9 else ""
        order = f" ORDER BY {self.expression(NUMBER, below.columns, 0)}"
        frame = self.dice.choice(
            ("", "", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW")
        )
        window = self.filled(self.dice.choice(WINDOWS), below.columns, 0)
        text = self.expression(TEXT, below.columns, 0)
        sql = f"SELECT {owner} AS uid, {text} AS t, {window} OVER ({partition}{order}{frame}) AS w FROM {below.sql}"
        if self.dice.random() < 0.3:
            sql += f" QUALIFY {self.dice.choice(('ROW_NUMBER()', 'RANK()', 'COUNT(*)'))} OVER ({partition}{order}) <= 2"
        return self.derived(sql, [("t", TEXT), ("w", NUMBER)])

    def joined(self, depth: int) -> Relation:
        """Two owned relations, on the owner nearly always."""
        left, right = self.relation(depth), self.relation(depth - 1)
        a, b = self.owner_of(left), self.owner_of(right)
        columns = left.columns + right.columns
        kind = self.dice.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        condition = f"{a} = {b}" if self.dice.random() < 0.95 else self.expression(FLAG, columns, 1)
        if self.dice.random() < 0.4:
            condition += f" AND {self.expression(FLAG, columns, 2)}"
        if self.dice.random() < 0.1:
            return Relation(f"{left.sql}, {right.sql}", columns)
        nested = f"({right.sql})" if " ON " in right.sql and not right.sql.startswith("(") else right.sql
        return Relation(f"{left.sql} {kind} {nested} ON {condition}", columns)

    def along(self, _depth: int) -> Relation:
        """Two tables along a reference, usually the one that is declared."""
        left, left_columns, right, right_columns, key, reference = self.dice.choice(ALONG_REFERENCES)
        a, b = self.fresh(), self.fresh()
        columns = self.named(a, left_columns) + self.named(b, right_columns)
        kind = self.dice.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN"))
        on = f"{a}.{key} = {b}.{reference}"
        if self.dice.random() < 0.2:
            on += f" AND {self.expression(FLAG, columns, 1)}"
        if key == reference and self.dice.random() < 0.2:
            kept = tuple((name if not name.endswith(f".{key}") else key, kind) for name, kind in columns)
            return Relation(f"{left} AS {a} JOIN {right} AS {b} USING ({key})", kept)
        return Relation(f"{left} AS {a} {kind} {right} AS {b} ON {on}", columns)

    def public(self, name: str) -> str:
        """The public table, or one row for each part of its texts."""
        if self.dice.random() < 0.7:
            return f"regions AS {name}"
        cut, separator = self.dice.choice(("region", "continent")), self.dice.choice(("o", "U", "th", "", "%"))
        kept = {"region": "continent", "continent": "region"}[cut]
        return f"(SELECT {kept}, UNNEST(STRING_SPLIT({cut}, '{separator}')) AS {cut} FROM regions) AS {name}"

    def with_public(self, depth: int) -> Relation:
        """An owned relation beside a public one."""
        left, name = self.relation(depth), self.fresh()
        columns = left.columns + self.named(name, REGIONS)
        kind = self.dice.choice(("JOIN", "LEFT JOIN", "LEFT JOIN", "CROSS JOIN", "RIGHT JOIN"))
        on = "" if kind == "CROSS JOIN" else f" ON {self.expression(FLAG, columns, 2)}"
        return Relation(f"{left.sql} {kind} {self.public(name)}{on}", columns)

    def united(self, depth: int) -> Relation:
        """UNION ALL and its relatives."""
        kinds = self.kinds()
        sides = []
        for _ in range(2):
            below = self.relation(depth)
            items = [
                f"{self.owner_of(below)} AS uid",
                *(f"{self.expression(k, below.columns, 1)} AS x{i}" for i, k in enumerate(kinds)),
            ]
            sides.append(f"SELECT {', '.join(items)} FROM {below.sql}")
        operator = self.dice.choice(("UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"))
        return self.derived(f" {operator} ".join(sides), [(f"x{i}", k) for i, k in enumerate(kinds)])

    def semi(self, depth: int) -> Relation:
        """EXISTS and IN, tied to the owner nearly always."""
        outer, inner = self.relation(depth), self.table()
        a, b = self.owner_of(outer), self.owner_of(inner)
        tie = f"{a} = {b}" if self.dice.random() < 0.9 else "TRUE"
        extra = f" AND {self.expression(FLAG, inner.columns, 1)}" if self.dice.random() < 0.5 else ""
        negation = self.dice.choice(("", "NOT "))
        test = f"{negation}EXISTS (SELECT 1 FROM {inner.sql} WHERE {tie}{extra})"
        if self.dice.random() < 0.3:
            test = f"{a} {negation}IN (SELECT {b} FROM {inner.sql})"
        items = [f"{a} AS uid", f"{self.expression(NUMBER, outer.columns, 1)} AS x0"]
        return self.derived(f"SELECT {', '.join(items)} FROM {outer.sql} WHERE {test}", [("x0", NUMBER)])

    def derived(self, sql: str, columns: list[tuple[str, str]]) -> Relation:
        """(sql) AS fresh."""
        name = self.fresh()
        return Relation(f"({sql}) AS {name}", self.named(name, (("uid", OWNER), *columns)))

    # ---- expressions ---------------------------------------------------------------------------------------------

    def expression(self, kind: str, columns: Columns, depth: int) -> str:
        """An expression of a type; columns and constants at the end."""
        if depth <= 0 or self.dice.random() < 0.4:
            return self.leaf(kind, columns)
        return self.filled(self.dice.choice(EXPRESSIONS[kind]), columns, depth - 1)

    def leaf(self, kind: str, columns: Columns) -> str:
        """A column of the type, or a constant."""
        named = [name for name, k in columns if k == kind]
        if named and self.dice.random() < 0.8:
            return self.dice.choice(named)
        if kind == FLAG:
            return self.filled(self.dice.choice(EXPRESSIONS[FLAG][:12]), columns, 0)
        return self.dice.choice({NUMBER: NUMBERS, TEXT: TEXTS, DAY: DAYS}[kind])

    def filled(self, form: str, columns: Columns, depth: int) -> str:
        """A form with its holes filled."""
        kinds = {"n": NUMBER, "t": TEXT, "f": FLAG, "d": DAY}

        def hole(match: re.Match[str]) -> str:
            what = match[1]
            if what in kinds:
                return self.expression(kinds[what], columns, depth)
            if what == "o":
                return self.owner_in(columns)
            if what == "c":
                return self.dice.choice(TEXTS)
            if what == "any":
                return self.any_call(columns, depth)
            named = {"group": "contribution_bounds_per_group", "row": "contribution_bounds_per_row"}
            if self.dice.random() < 0.4:
                return ""
            if what == "most":
                return f", max_contributions_per_group => {self.dice.randint(1, 4)}"
            return f", {named[what]} => {self.dice.choice(BOUNDS)}"

        return re.sub(r"\{(\w+)\}", hole, form)

    def any_call(self, columns: Columns, depth: int) -> str:
        """Any function of the allow-list over anything; half of these do not fit, and must be refused."""
        kinds = self.dice.choices((NUMBER, TEXT, DAY, FLAG), weights=(4, 3, 2, 1), k=self.dice.choice((1, 1, 2, 2, 3)))
        name = self.dice.choice(CALLABLE)
        return f"{name}({', '.join(self.expression(kind, columns, depth) for kind in kinds)})"

    def kinds(self) -> list[str]:
        return [self.dice.choice((NUMBER, NUMBER, TEXT, DAY)) for _ in range(self.dice.randint(1, 3))]

    def owner_of(self, relation: Relation) -> str:
        return self.owner_in(relation.columns)

    def owner_in(self, columns: Columns) -> str:
        """The owner, or the first column where no column is the owner."""
        return self.dice.choice([name for name, kind in columns if kind == OWNER] or [columns[0][0]])

    def named(self, name: str, columns: Columns) -> Columns:
        return tuple((f"{name}.{column}", kind) for column, kind in columns)

    def fresh(self) -> str:
        self._names += 1
        return f"q{self._names}"

    def with_placeholders(self, sql: str) -> str:
        """Some constants taken out of the text and given as parameters: by place, by number or by name."""
        values: list[Any] = []
        style = self.dice.randrange(3)
        if "\\" in sql:
            return sql

        def placeholder(found: re.Match[str]) -> str:
            if self.dice.random() < 0.5:
                return found[0]
            values.append(found[0][1:-1].replace("''", "'") if found[0][0] == "'" else int(found[0]))
            return ("?", f"${len(values)}", f":p{len(values)}")[style]

        text = re.sub(r"'[^'\\]*'|(?<![\w.'+-])\d{1,9}(?![\w.'])", placeholder, sql)
        named = {f"p{place + 1}": value for place, value in enumerate(values)}
        return with_parameters(text, named if style == 2 else values)

    def under_policy(self) -> str:
        """SELECT WITH POLICY over the attributes of its domain, with conditions that may not fit it."""
        columns = (("age", NUMBER), ("region", TEXT), ("uid", OWNER))
        values = [self.filled(self.dice.choice(POLICY_AGGREGATES), columns, 1) for _ in range(self.dice.randint(1, 2))]
        key = self.dice.choice(("", "", "region", "age", self.expression(NUMBER, columns, 1)))
        where = self.dice.choice(("", f" WHERE {self.expression(FLAG, columns, 2)}"))
        listed = ", ".join([*([f"{key} AS k"] if key else []), *values])
        clause = f"SELECT WITH POLICY OPTIONS(policy = 'near', epsilon = {self.dice.choice(('0.5', '1', '2'))})"
        return f"{clause} {listed} FROM customers{where}{' GROUP BY 1' if key else ''}"

    # ---- cutting to pieces ---------------------------------------------------------------------------------------

    def mutated(self, sql: str) -> str:
        """A text with some of its words dropped, doubled, swapped, taken from another text, or replaced by something nasty."""
        words = re.findall(r"\w+|'[^']*'|\s+|[^\w\s]", sql)
        for _ in range(self.dice.randint(1, 4)):
            place = self.dice.randrange(len(words) + 1)
            other = self.dice.randrange(len(words) + 1)
            change = self.dice.randrange(6)
            if change == 0:
                del words[place : place + self.dice.randint(1, 3)]
            elif change == 1:
                words[place:place] = words[place : place + self.dice.randint(1, 6)]
            elif change == 2 and place < len(words) and other < len(words):
                words[place], words[other] = words[other], words[place]
            elif change == 3:
                words.insert(place, self.dice.choice(NASTY))
            elif change == 4:
                donor = re.findall(r"\w+|'[^']*'|\s+|[^\w\s]", self.dice.choice(corpus.CASES).sql)
                start = self.dice.randrange(len(donor))
                words[place:place] = donor[start : start + self.dice.randint(1, 12)]
            elif place < len(words):
                words[place] = chr(self.dice.choice((0, 9, 34, 39, 92, 96, 160, 0x200B, 0x202E, 0xD800, 0x1F986)))
            if not words:
                return ""
        return "".join(words)
