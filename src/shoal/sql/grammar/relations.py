"""The grammar of FROM: tables, subqueries, VALUES, and their joins."""

from __future__ import annotations

from sqlglot import exp

from shoal.sql.grammar.expressions import ExpressionGrammar
from shoal.sql.grammar.keywords import QUERY_GOES_ON, RESERVED
from shoal.sql.grammar.tokens import Kind

_NOT_AN_ALIAS = frozenset({"CLAMPED", "MINUS", "SETTINGS"})
_JOINS: dict[str, dict[str, str]] = {
    "": {"kind": "INNER"},
    "INNER": {"kind": "INNER"},
    "CROSS": {"kind": "CROSS"},
    "LEFT": {"side": "LEFT"},
    "RIGHT": {"side": "RIGHT"},
    "FULL": {"side": "FULL"},
    "SEMI": {"kind": "SEMI"},
    "ANTI": {"kind": "ANTI"},
    "LEFT SEMI": {"kind": "SEMI"},
    "LEFT ANTI": {"kind": "ANTI"},
    "NATURAL": {"method": "NATURAL", "kind": "INNER"},
    "NATURAL INNER": {"method": "NATURAL", "kind": "INNER"},
    "NATURAL LEFT": {"method": "NATURAL", "side": "LEFT"},
    "NATURAL RIGHT": {"method": "NATURAL", "side": "RIGHT"},
    "NATURAL FULL": {"method": "NATURAL", "side": "FULL"},
    "ASOF": {"method": "ASOF", "kind": "INNER"},
    "ASOF LEFT": {"method": "ASOF", "side": "LEFT"},
    "POSITIONAL": {"method": "POSITIONAL", "kind": "INNER"},
}


class RelationGrammar(ExpressionGrammar):
    """Everything that can appear in FROM."""

    def from_clause(self) -> tuple[exp.From, list[exp.Join]]:
        """The contents of FROM."""
        start = self.token
        first = self._relation()
        return self.mark(exp.From(this=first), start), self._joins()

    def _joins(self) -> list[exp.Join]:
        """Joins associate to the left, the comma too; RIGHT and FULL after a comma would mean two things."""
        joins: list[exp.Join] = []
        comma = False
        while True:
            start = self.token
            if self.accept(","):
                comma = True
                joins.append(self.mark(exp.Join(this=self._relation(), kind="CROSS"), start))
                continue
            words = self._join_words()
            if words is None:
                return joins
            if comma and words.get("side") in {"RIGHT", "FULL"}:
                hint = "Put the join in parentheses, or write CROSS JOIN instead of the comma."
                self.fail("E_UNSUPPORTED", "Engines disagree on RIGHT and FULL joins after a comma.", hint, at=start)
            joins.append(self.mark(self._join(words), start))

    def _join_words(self) -> dict[str, str] | None:
        """The words of a join as method, side and kind: NATURAL | ASOF …, LEFT | RIGHT …, INNER | CROSS …."""
        known = {"NATURAL", "ASOF", "POSITIONAL", "LEFT", "RIGHT", "FULL", "OUTER", "INNER", "CROSS", "SEMI", "ANTI"}
        found: list[str] = []
        start = self.token
        while self.token.key in known:
            found.append(self.advance().key)
        if not found and not self.at("JOIN"):
            return None
        self.expect("JOIN")
        words = _JOINS.get(" ".join(word for word in found if word != "OUTER" or len(found) == 1))
        if words is None:
            self.fail(
                "E_PARSE", "There is no such join.", "Write [INNER | LEFT | RIGHT | FULL | CROSS] JOIN.", at=start
            )
        return words

    def _join(self, words: dict[str, str]) -> exp.Join:
        relation = self._relation()
        join = exp.Join(this=relation, **words)
        if words.get("method") in {"NATURAL", "POSITIONAL"} or words.get("kind") == "CROSS":
            return join
        if self.accept("ON"):
            join.set("on", self.expression())
        elif self.accept("USING"):
            join.set("using", self.wrapped(lambda: self.separated(lambda: self.identifier("a column"))))
        else:
            self.fail("E_PARSE", "A join needs ON or USING.", "Write JOIN t ON a.key = t.key, or CROSS JOIN.")
        return join

    def _relation(self) -> exp.Expr:
        """One item of FROM, with its alias."""
        start = self.token
        if self.accept("LATERAL"):
            inner = self._lateral()
            return self.mark(exp.Lateral(this=inner, alias=self._table_alias()), start)
        node = self._relation_in_parentheses() if self.at("(") else self._table()
        if isinstance(node, exp.Paren):
            if self.at("AS") or self.at_alias():
                self.fail(
                    "E_UNSUPPORTED", "Joined tables take no alias together.", "Name each table, or write a subquery."
                )
            return node
        alias = self._table_alias()
        if alias is not None and node.args.get("alias"):
            node = exp.Subquery(this=everything_from(node))
        if alias is not None:
            node.set("alias", alias)
        return self.mark(node, start)

    def _lateral(self) -> exp.Expr:
        start = self.token
        if self.at("("):
            return self.mark(exp.Subquery(this=self.wrapped(self.query)), start)
        return self._table()

    def _relation_in_parentheses(self) -> exp.Expr:
        start = self.token
        self.expect("(")
        if self.at("VALUES", "("):
            node: exp.Expr = self.values()
            if self.at_any(QUERY_GOES_ON):
                node = exp.Subquery(this=self.query(everything_from(node)))
        elif self.at_query():
            node = exp.Subquery(this=self.query())
        else:
            node = self._relation()
            if isinstance(node, exp.Subquery) and not node.args.get("alias") and self.at_any(QUERY_GOES_ON):
                node = exp.Subquery(this=self.query(node.this))
            elif joins := self._joins():
                node = exp.Paren(this=self.mark(exp.From(this=node, joins=joins), start))
        self.expect(")")
        return self.mark(node, start)

    def _table(self) -> exp.Table:
        start = self.token
        if start.kind is Kind.STRING:
            hint = "Use the tables of the catalog, by name; files cannot be read."
            self.fail("E_UNKNOWN_TABLE", "A string is not the name of a table.", hint)
        if start.kind is Kind.WORD and start.key not in RESERVED and self.ahead(1).key == "(":
            call = self.call(self.advance().text, start)
            if self.at("WITH") or not isinstance(call, exp.Anonymous):
                self.fail(
                    "E_TABLE_FUNCTION", "Functions in FROM are not supported.", "Use a table of the catalog.", at=start
                )
            return self.mark(exp.Table(this=call), start)
        return self._table_name()

    def _table_name(self) -> exp.Table:
        start = self.token
        parts = [self.identifier("a table")]
        while self.accept("."):
            parts.append(self.identifier("a table", reserved=True))
        if self.at("("):
            self.fail(
                "E_TABLE_FUNCTION", "Functions in FROM are not supported.", "Use a table of the catalog.", at=start
            )
        if len(parts) > 3:
            self.fail("E_UNKNOWN_TABLE", "A table has at most three parts.", "Write catalog.schema.table.", at=start)
        names = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
        return self.mark(exp.Table(**names), start)

    def _table_alias(self) -> exp.TableAlias | None:
        if self.at_any({"AT", "VERSION", "TIMESTAMP"}) and self.ahead(1).key in {"(", "AS"}:
            self.fail("E_UNSUPPORTED", "Time travel is not supported.", "Read the table as it is.")
        if not self.accept("AS") and not (self.at_alias() and self.token.key not in _NOT_AN_ALIAS):
            return None
        return self.named_with_columns("an alias")

    def values(self) -> exp.Values:
        """VALUES (…), (…): rows of one length."""
        start = self.advance()
        rows = self.separated(self._row)
        if len({len(row.expressions) for row in rows}) > 1:
            self.fail(
                "E_PARSE", "The rows of VALUES differ in length.", "Give each row the same number of values.", at=start
            )
        return self.mark(exp.Values(expressions=rows), start)

    def _row(self) -> exp.Tuple:
        start = self.token
        return self.mark(exp.Tuple(expressions=self.wrapped(lambda: self.separated(self.expression))), start)

    def named_with_columns(self, what: str) -> exp.TableAlias:
        """A name, and names for the columns if they follow."""
        start = self.token
        name = self.identifier(what)
        columns = self.wrapped(lambda: self.separated(lambda: self.identifier("a column"))) if self.at("(") else []
        return self.mark(exp.TableAlias(this=name, columns=columns), start)


def everything_from(relation: exp.Expr) -> exp.Select:
    """SELECT * FROM the relation."""
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=relation))
