"""The grammar of queries: WITH, SELECT, the privacy clause, FROM and its joins, set operations, ORDER BY and LIMIT.

A query becomes a Select, Union, Intersect or Except, never anything else: parentheses around it vanish, VALUES and
TABLE become a SELECT of everything. An item of FROM is a Table (its `this` an Anonymous for a table function), a
Subquery, Values, a Lateral, or, for joins in parentheses, a Paren around a From with its own `joins`. Windows
named in WINDOW are inlined where they are used.
"""

from __future__ import annotations

import difflib

from sqlglot import exp

from shoal.sql.grammar.keywords import OTHER_STATEMENTS
from shoal.sql.grammar.relations import RelationGrammar, everything_from
from shoal.sql.grammar.tokens import MAX_TOKENS, Kind

_CLAUSES = (
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "QUALIFY",
    "WINDOW",
    "ORDER",
    "LIMIT",
    "JOIN",
    "UNION",
    "USING",
)
PRIVACY_CLAUSES = ("DIFFERENTIAL_PRIVACY", "ANONYMIZATION", "POLICY")
_SET_OPERATIONS: dict[str, tuple[int, type[exp.SetOperation]]] = {
    "UNION": (1, exp.Union),
    "EXCEPT": (1, exp.Except),
    "INTERSECT": (2, exp.Intersect),
}
_NOT_AN_ALIAS = frozenset({"CLAMPED", "MINUS", "SETTINGS"})


class QueryGrammar(RelationGrammar):
    """Everything that has rows."""

    def statement(self) -> exp.Query:
        """One query and nothing after it."""
        tree = self.query()
        while self.accept(";"):
            pass
        if self.token.kind is not Kind.END:
            self._suggest_a_clause()
            self._suggest_quotes()
            self.unexpected("the end of the query")
        return tree

    def _suggest_a_clause(self) -> None:
        """A misspelt clause reads like an alias, and the query breaks one word later: point at the word before."""
        before = self.tokens[self.index - 1]
        close = difflib.get_close_matches(before.key, _CLAUSES, n=1, cutoff=0.7)
        if close and before.key not in _CLAUSES:
            hint = f"Did you mean {close[0]}?"
            self.fail("E_PARSE", f"'{before.text}' is read as a name, and nothing can follow it.", hint, at=before)

    def _suggest_quotes(self) -> None:
        """A table whose name has dashes ends, as far as anybody can tell, at the first of them."""
        before, dash = self.tokens[self.index - 1], self.token
        if dash.key != "-" or before.kind is not Kind.WORD or before.end != dash.start:
            return
        position = self.index
        while (
            self.tokens[position].start == self.tokens[position - 1].end and self.tokens[position].kind is not Kind.END
        ):
            position += 1
        name = self.source.sql[before.start : self.tokens[position - 1].end].rstrip(";")
        self.fail("E_PARSE", "A name with a dash needs double quotes.", f'Write "{name}".', at=before)

    def at_query(self) -> bool:
        """Whether a query begins here, or a statement that will be refused as a non-query."""
        if self.token.kind is not Kind.WORD:
            return False
        following = self.ahead(1)
        if self.token.key in {"SELECT", "WITH", "FROM"}:
            return True
        if self.token.key in {"VALUES", "TABLE"}:
            return following.key == "(" if self.token.key == "VALUES" else following.kind in {Kind.WORD, Kind.NAME}
        return self.token.key in OTHER_STATEMENTS and following.kind in {Kind.WORD, Kind.NAME}

    def query(self, left: exp.Query | None = None) -> exp.Query:
        """[WITH …] set operations [ORDER BY …] [LIMIT …] [OFFSET …]; `left` is a first operand already read."""
        self.deeper()
        start = self.token
        with_ = self._with() if self.at("WITH") and left is None else None
        body = self._set_operation(1, left)
        tail = self._tail(body)
        # TOP 5 is the LIMIT of the whole query: ORDER BY comes before it.
        own = ("order", "offset") if "limit" not in tail and body.meta.get("top") else ("order", "limit", "offset")
        taken = (*(own if tail else ()), *(("with_",) if with_ else ()))
        if any(body.args.get(key) for key in taken):  # (SELECT … LIMIT 5) LIMIT 3: each clause keeps its own query
            body = self.mark(everything_from(exp.Subquery(this=body)), start)
        for key, clause in (*tail.items(), ("with_", with_)):
            if clause is not None:
                body.set(key, clause)
        self.deeper(-1)
        return body

    def _tail(self, body: exp.Query) -> dict[str, exp.Expr]:
        found: dict[str, exp.Expr] = {}
        if self.at("ORDER", "BY", "ALL") and self.ahead(3).key != "(":
            found["order"] = self._order_all(body)
        elif self.at("ORDER", "BY"):
            found["order"] = self.order()
        while self.at_any({"LIMIT", "OFFSET", "FETCH"}):
            start = self.token
            key = "offset" if start.key == "OFFSET" else "limit"
            if key in found:
                self.unexpected("the end of the query")
            found[key] = self.mark(self._offset() if key == "offset" else self._limit(), start)
        return found

    def _order_all(self, body: exp.Query) -> exp.Order:
        """ORDER BY ALL: by every output column, from left to right."""
        start = self.token
        self.move(3)
        while isinstance(body, exp.SetOperation):
            body = body.this
        shown = body.expressions
        if any(item.is_star for item in shown):
            self.fail("E_UNSUPPORTED", "ORDER BY ALL cannot be combined with a star.", "Name the columns.", at=start)
        descending = self.accept("DESC")
        if not descending:
            self.accept("ASC")
        first, last = self.accept("NULLS", "FIRST"), self.accept("NULLS", "LAST")
        positions = [self.mark(exp.Literal.number(position), start) for position in range(1, len(shown) + 1)]
        nulls_first = first if first or last else None
        items = [exp.Ordered(this=position, desc=descending, nulls_first=nulls_first) for position in positions]
        return self.mark(exp.Order(expressions=[self.mark(item, start) for item in items]), start)

    def _limit(self) -> exp.Limit:
        if self.accept("FETCH"):
            if not (self.accept("FIRST") or self.accept("NEXT")):
                self.unexpected("FIRST or NEXT")
            count = self.operand()
            if not (self.accept("ROWS", "ONLY") or self.accept("ROW", "ONLY")):
                self.fail("E_UNSUPPORTED", "FETCH takes a number of rows.", "Write LIMIT 10.")
            return exp.Limit(expression=count)
        self.expect("LIMIT")
        if self.at("ALL"):
            self.fail("E_UNSUPPORTED", "LIMIT ALL is not supported.", "Leave the clause out.")
        limit = exp.Limit(expression=self.operand())
        if self.at(","):
            self.fail("E_PARSE", "LIMIT takes one number.", "Write LIMIT 10 OFFSET 20.")
        if self.at("PERCENT") or self.at("WITH", "TIES"):
            self.fail("E_UNSUPPORTED", "LIMIT takes a number of rows.", "Write LIMIT 10.")
        return limit

    def _offset(self) -> exp.Offset:
        self.expect("OFFSET")
        offset = exp.Offset(expression=self.operand())
        if not self.accept("ROWS"):
            self.accept("ROW")
        return offset

    def _with(self) -> exp.With:
        start = self.advance()
        recursive = self.accept("RECURSIVE")
        return self.mark(exp.With(expressions=self.separated(self._common_table), recursive=recursive), start)

    def _common_table(self) -> exp.CTE:
        start = self.token
        alias = self.named_with_columns("the name of a common table")
        self.expect("AS")
        negated = self.at("NOT", "MATERIALIZED") and self.accept("NOT")
        materialized = (not negated) if self.accept("MATERIALIZED") else None
        inner = self.wrapped(self.query)
        return self.mark(exp.CTE(this=inner, alias=alias, materialized=materialized), start)

    def _set_operation(self, loosest: int, left: exp.Query | None = None) -> exp.Query:
        start = self.token
        node = left or self._simple_query()
        links = 0
        while (known := _SET_OPERATIONS.get(self.token.key)) and known[0] >= loosest:
            precedence, kind = known
            self.advance()
            distinct = not self.accept("ALL")
            if distinct:
                self.accept("DISTINCT")
            if self.at("BY") or self.at("CORRESPONDING"):
                self.fail(
                    "E_UNSUPPORTED", "Set operations match columns by position.", "List the columns in the same order."
                )
            right = self._set_operation(precedence + 1)
            links += 1
            node = self.chained(kind(this=node, expression=right, distinct=distinct), links, start)
        return node

    def _simple_query(self) -> exp.Query:
        start = self.token
        match start.key:
            case "SELECT":
                return self._select()
            case "VALUES":
                return self.mark(everything_from(self.values()), start)
            case "TABLE":
                self.advance()
                return self.mark(everything_from(self._table_name()), start)
            case "(":
                return self.wrapped(self.query)
            case "FROM":
                return self._from_first()
            case word if word in OTHER_STATEMENTS:
                self.fail(
                    "E_STATEMENT", f"{word} is not a query; only SELECT and WITH are accepted.", "Write a SELECT."
                )
        self.unexpected("SELECT")
        return None

    def _from_first(self) -> exp.Select:
        """FROM t [SELECT …] [WHERE …] …; without SELECT it means everything."""
        if any(token.key == "|>" for token in self.tokens):
            self.fail("E_PARSE", "The pipe form is not supported.", "Write SELECT … FROM … WHERE … GROUP BY ….")
        start = self.advance()
        source = self.from_clause()
        if self.at("SELECT"):
            return self._select(source)
        clauses = {"expressions": [self.mark(exp.Star(), start)], "from_": source[0], "joins": source[1]}
        return self.mark(exp.Select(**{k: v for k, v in (clauses | self._filters()).items() if v}), start)

    def _select(self, source: tuple[exp.From, list[exp.Join]] | None = None) -> exp.Select:
        """A SELECT; `source` is what FROM named before it."""
        start = self.advance()
        clauses: dict[str, object] = {"hint": self._privacy()}
        clauses["distinct"] = self._distinct(private=clauses["hint"] is not None)
        clauses["limit"] = self._top()
        if self.at("AS", "STRUCT") or self.at("AS", "VALUE"):
            self.fail("E_UNSUPPORTED", "SELECT AS STRUCT and AS VALUE are not supported.", "Name the columns.")
        clauses["expressions"] = self._select_list()
        if source is not None:
            clauses["from_"], clauses["joins"] = source
        elif self.accept("FROM"):
            clauses["from_"], clauses["joins"] = self.from_clause()
        clauses |= self._filters()
        windows = self._windows()
        if self.at("QUALIFY"):
            clauses["qualify"] = self._condition(exp.Qualify)
        windows = windows or self._windows()
        if self.at("USING", "SAMPLE"):
            self.fail(
                "E_UNSUPPORTED",
                "USING SAMPLE is not supported.",
                "Contributions are bounded by max_groups_contributed.",
            )
        select = self.mark(exp.Select(**{key: clause for key, clause in clauses.items() if clause}), start)
        select.meta["top"] = clauses["limit"] is not None
        self._resolve_windows(select, windows)
        return select

    def _privacy(self) -> exp.Hint | None:
        """WITH DIFFERENTIAL_PRIVACY [OPTIONS (…)], kept as the `hint` of the SELECT: a call with the options."""
        start = self.token
        if not self.accept("WITH"):
            return None
        kind = self.advance()
        if kind.key == "AGGREGATION_THRESHOLD":
            self.fail(
                "E_UNSUPPORTED",
                "Aggregation thresholds are not supported.",
                "Write WITH DIFFERENTIAL_PRIVACY.",
                at=kind,
            )
        if kind.key not in PRIVACY_CLAUSES:
            hint = f"Write SELECT WITH {PRIVACY_CLAUSES[0]} OPTIONS (epsilon = 1, delta = 1e-6) …."
            self.fail("E_PARSE", "SELECT WITH takes DIFFERENTIAL_PRIVACY, ANONYMIZATION or POLICY.", hint, at=kind)
        options: list[exp.Expr] = []
        if self.at("OPTIONS", "("):
            self.move(2)
            options = [] if self.at(")") else self.separated(self._option)
            self.expect(")")
        clause = self.mark(exp.Anonymous(this=kind.key, expressions=options), start)
        return self.mark(exp.Hint(expressions=[clause]), start)

    def _option(self) -> exp.EQ:
        start = self.token
        parts = [self.identifier("the name of an option", reserved=True).name]
        while self.accept("."):
            parts.append(self.identifier("the name of an option", reserved=True).name)
        name = self.mark(exp.Identifier(this=".".join(parts), quoted=False), start)
        self.expect("=")
        return self.mark(exp.EQ(this=name, expression=self.expression()), start)

    def _distinct(self, *, private: bool) -> exp.Distinct | None:
        start = self.token
        if not self.accept("DISTINCT"):
            self.accept("ALL")
            return None
        if private or self.at("WITH"):
            hint = "The groups of a private SELECT are distinct already; remove DISTINCT."
            self.fail("E_UNSUPPORTED", "A private SELECT takes no DISTINCT.", hint, at=start)
        on = None
        if self.accept("ON"):
            on = exp.Tuple(expressions=self.wrapped(lambda: self.separated(self.expression)))
        return self.mark(exp.Distinct(on=on), start)

    def _top(self) -> exp.Limit | None:
        """TOP 5 or TOP (5), as SQL Server writes LIMIT 5."""
        start, bare = self.token, self.ahead(1).kind is Kind.NUMBER
        if not self.at("TOP") or not (bare or (self.ahead(1).key == "(" and self.ahead(2).kind is Kind.NUMBER)):
            return None
        self.advance()
        limit = exp.Limit(expression=self._primary() if bare else self.parenthesised())
        if self.at("PERCENT") or self.at("WITH", "TIES"):
            self.fail("E_UNSUPPORTED", "TOP takes a number of rows.", "Write TOP 10.")
        return self.mark(limit, start)

    def _select_list(self) -> list[exp.Expr]:
        items = [self._select_item()]
        while self.accept(","):
            if self.at("FROM"):
                break
            items.append(self._select_item())
        return items

    def _select_item(self) -> exp.Expr:
        start = self.token
        if self.accept("*"):
            value: exp.Expr = self.mark(exp.Star(), start)
        else:
            value = self.expression()
        if (
            value.is_star
            and self.at_any({"EXCEPT", "EXCLUDE", "REPLACE", "RENAME", "ILIKE", "LIKE"})
            and self.ahead(1).key != "SELECT"
        ):
            self.fail("E_UNSUPPORTED", f"* {self.token.key} is not supported.", "Name the columns.")
        if value.is_star and isinstance(value, (exp.Star, exp.Column)):
            return value
        if self.accept("AS"):
            if self.token.kind is Kind.STRING:
                self.fail("E_PARSE", "Names go in double quotes, not single quotes.", 'Write AS "name".')
            return self.mark(exp.Alias(this=value, alias=self.identifier("a name", reserved=True)), start)
        if self.at_alias() and self.token.key not in _NOT_AN_ALIAS:
            return self.mark(exp.Alias(this=value, alias=self.identifier("a name")), start)
        return value

    def _filters(self) -> dict[str, exp.Expr]:
        found: dict[str, exp.Expr] = {}
        if self.at("WHERE"):
            found["where"] = self._condition(exp.Where)
        if self.at("GROUP", "BY"):
            found["group"] = self._group()
        if self.at("HAVING"):
            found["having"] = self._condition(exp.Having)
        return found

    def _condition(self, kind: type[exp.Expr]) -> exp.Expr:
        start = self.advance()
        return self.mark(kind(this=self.expression()), start)

    def _group(self) -> exp.Group:
        start = self.token
        self.expect("GROUP", "BY")
        if self.at("ALL") and self.ahead(1).key != "(":
            self.advance()
            return self.mark(exp.Group(expressions=[], all=True), start)
        if self.at("DISTINCT"):
            self.fail("E_GROUPING", "GROUP BY DISTINCT is not supported.", "List the keys.")
        items: list[exp.Expr] = []
        for item in self.separated(self._grouping):
            items.extend(item.expressions if isinstance(item, exp.Tuple) and item.expressions else [item])
        if self.at("WITH", "ROLLUP") or self.at("WITH", "CUBE"):
            self.advance()
            kind = exp.Rollup if self.advance().key == "ROLLUP" else exp.Cube
            items = [self.mark(kind(expressions=items), start)]
        if not items or self.at("WITH"):
            self.fail(
                "E_GROUPING",
                "This form of GROUP BY is not supported.",
                "List the keys, or leave GROUP BY out for one total.",
            )
        return self.mark(exp.Group(expressions=items), start)

    def _grouping(self) -> exp.Expr:
        """An expression, ROLLUP (…), CUBE (…) or GROUPING SETS (…)."""
        start = self.token
        if self.at("ROLLUP", "(") or self.at("CUBE", "("):
            kind = exp.Rollup if self.advance().key == "ROLLUP" else exp.Cube
            return self.mark(kind(expressions=self.wrapped(lambda: self.separated(self.expression))), start)
        if self.accept("GROUPING", "SETS"):
            return self.mark(exp.GroupingSets(expressions=self.wrapped(lambda: self.separated(self._grouping))), start)
        if self.accept("(", ")"):
            return self.mark(exp.Tuple(expressions=[]), start)
        return self.expression()

    def _windows(self) -> dict[str, exp.Window]:
        """WINDOW w AS (…), …: lower-case name → definition."""
        found: dict[str, exp.Window] = {}
        if not self.accept("WINDOW"):
            return found
        while True:
            name = self.identifier("the name of a window")
            self.expect("AS")
            definition = exp.Window(this=exp.Null(), **self.wrapped(self.window_specification))
            if any(window.args.get("alias") for window in definition.find_all(exp.Window)):
                self.fail("E_UNSUPPORTED", "A window cannot use another one.", "Write the whole window out.")
            if found.setdefault(_folded(name), definition) is not definition:
                self.fail("E_PARSE", "Two windows have the same name.", "Rename one of them.")
            if not self.accept(","):
                return found

    def _resolve_windows(self, select: exp.Select, windows: dict[str, exp.Window]) -> None:
        """Replace each window name by its definition; those of inner queries are already replaced."""
        copied = 0
        for window in list(select.find_all(exp.Window)) if self.names_windows else ():
            name = window.args.get("alias")
            if name is None:
                continue
            definition = windows.get(_folded(name))
            if definition is None:
                refused = next(token for token in self.tokens if token.start == name.meta["start"])
                self.fail(
                    "E_PARSE", "No window of this name is defined here.", "Define it: WINDOW w AS (…).", at=refused
                )
            copied += sum(1 for _ in definition.walk())
            if copied > MAX_TOKENS:
                self.fail("E_LIMITS", "The windows of the query are too large.", "Shorten the named windows.")
            window.set("alias", None)
            for key in ("partition_by", "order", "spec"):
                if definition.args.get(key):
                    window.set(key, definition.copy().args[key])


def _folded(name: exp.Expr) -> str:
    return name.name if name.args.get("quoted") else name.name.lower()
