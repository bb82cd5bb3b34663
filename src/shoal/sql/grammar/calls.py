"""The grammar of function calls: arguments, named arguments, CLAMPED BETWEEN, FILTER, WITHIN GROUP, OVER."""

from __future__ import annotations

from sqlglot import exp

from shoal.sql.grammar.cursor import Cursor
from shoal.sql.grammar.dialects.calls import MOST_NODES, as_one_value, respelt, share_of_total
from shoal.sql.grammar.dialects.pairs import NAMES, with_filter
from shoal.sql.grammar.keywords import QUERY_WORDS
from shoal.sql.grammar.tokens import Kind, Token

CLAMPED = "CLAMPED BETWEEN"
"""The keyword, as `exp.Var`, of the pair that CLAMPED BETWEEN lo AND hi becomes; no analyst can write that name."""


class CallGrammar(Cursor):
    """f(…), and whatever may follow it."""

    def expression(self) -> exp.Expr:
        """Any expression."""
        raise NotImplementedError

    def operand(self, loosest: int = 1) -> exp.Expr:
        """An expression without comparisons."""
        raise NotImplementedError

    def query(self, left: exp.Query | None = None) -> exp.Query:
        """A whole query, or the rest of one whose first part is there."""
        raise NotImplementedError

    def at_query(self) -> bool:
        """Whether a query begins here; FROM and non-query statements count too, so that they can be refused as such."""
        raise NotImplementedError

    def call(self, name: str, start: Token) -> exp.Expr:
        """The call of a function whose name has been read."""
        self.expect("(")
        match name.upper():
            case "SUBSTRING" | "SUBSTR":
                name, arguments = self._substring(name)
            case "TRIM":
                name, arguments = self._trim(name)
            case "POSITION":
                arguments = self._position()
            case "COUNT":
                arguments = self._one_value(self._arguments(), start)
            case _:
                arguments = self._arguments()
        node: exp.Expr = self._nulls(exp.Anonymous(this=name, expressions=arguments), start)
        self.expect(")")
        if isinstance(node, exp.Anonymous):
            node = self.made(respelt(node), start)
            if name.upper() in NAMES and node.name.upper() != name.upper():
                return self._of_pairs(name, node, start)
        return self._suffixes(self.mark(node, start), start)

    def _of_pairs(self, name: str, node: exp.Expr, start: Token) -> exp.Expr:
        """An aggregate of pairs, written out: it is called as before, each of its parts has the FILTER, and it is not a window."""
        if self.at("FILTER", "("):
            self.advance()
            node = self.made(with_filter(node, self.wrapped(self._where)), start)
        if self.at("OVER"):
            self.fail(
                "E_UNSUPPORTED",
                f"{name.upper()} cannot be a window.",
                "Compute it in a subquery with GROUP BY, and join that.",
                at=start,
            )
        node.meta["called"] = name
        return node

    def made(self, node: exp.Expr, start: Token) -> exp.Expr:
        """A tree built from what was read, with every new part marked. Trees inside it that came from here have no such parts."""
        waiting = [node]
        while waiting:
            part = waiting.pop()
            if "line" not in part.meta:
                self.mark(part, start)
            if "whole" not in part.meta:
                waiting.extend(part.iter_expressions())
        node.meta["whole"] = True
        return node

    def _arguments(self) -> list[exp.Expr]:
        """Positional arguments (DISTINCT around them), then the ORDER BY of an aggregate, then named ones."""
        start = self.token
        distinct = self.accept("DISTINCT")
        if not distinct and self.at("ALL") and self.ahead(1).key != "(":
            self.advance()
        if self.at(")") and not distinct:
            return []
        positional, named = self._argument_list()
        if distinct:
            if not positional or any(isinstance(argument, exp.Star) for argument in positional):
                self.fail("E_PARSE", "DISTINCT needs a value.", "Write COUNT(DISTINCT x).", at=start)
            positional = [self.mark(exp.Distinct(expressions=positional), start)]
        if self.at("ORDER", "BY"):
            last = positional.pop() if positional else None
            positional.append(self.mark(exp.Order(this=last, expressions=self.order_items()), start))
        if self.at_any({"LIMIT", "HAVING", "SEPARATOR"}):
            self.fail(
                "E_UNSUPPORTED", f"{self.token.key} inside a function is not supported.", "Filter in WHERE instead."
            )
        return positional + named

    def _one_value(self, arguments: list[exp.Expr], start: Token) -> list[exp.Expr]:
        """COUNT(DISTINCT a, b): several values, each small enough to be written twice, become one."""
        for argument in arguments[:1]:
            values = argument.expressions if isinstance(argument, exp.Distinct) else []
            if values and all(sum(1 for _ in value.walk()) <= MOST_NODES * len(values) for value in values):
                argument.set("expressions", [self.made(as_one_value(values), start)])
        return arguments

    def _argument_list(self) -> tuple[list[exp.Expr], list[exp.Expr]]:
        positional: list[exp.Expr] = []
        named: list[exp.Expr] = []
        while True:
            start = self.token
            if self.token.kind in {Kind.WORD, Kind.NAME} and self.ahead(1).key == "=>":
                named.append(self._named_argument())
            elif named:
                self.fail("E_PARSE", "A positional argument follows a named one.", "Put named arguments last.")
            else:
                positional.append(self._positional_argument(first=not positional))
                if self.at("CLAMPED", "BETWEEN"):
                    named.append(self._clamped(start))
            if not self.accept(","):
                return positional, named

    def _positional_argument(self, *, first: bool) -> exp.Expr:
        """An expression, a subquery, a lambda; a star in the first place only."""
        start = self.token
        if first and self.at("*") and self.ahead(1).key in {",", ")", "CLAMPED"}:
            self.advance()
            return self.mark(exp.Star(), start)
        if self.token.key in QUERY_WORDS and self.at_query():
            return self.mark(exp.Subquery(this=self.query()), start)
        node = self.expression()
        if self.at("AS"):
            self.fail(
                "E_UNSUPPORTED",
                "AS inside a function is not supported.",
                "Structs are not supported; pass the value alone.",
            )
        if self.at("->") and isinstance(node, (exp.Column, exp.Tuple)):
            self.advance()
            return self.mark(exp.Lambda(this=self.expression(), expressions=[node]), start)
        return node

    def _named_argument(self) -> exp.Kwarg:
        start = self.token
        name = self.identifier("the name of an argument", reserved=True)
        self.expect("=>")
        return self.mark(exp.Kwarg(this=name, expression=self.expression()), start)

    def _clamped(self, start: Token) -> exp.Kwarg:
        self.expect("CLAMPED", "BETWEEN")
        low = self.operand()
        self.expect("AND")
        bounds = self.mark(exp.Tuple(expressions=[low, self.operand()]), start)
        return self.mark(exp.Kwarg(this=exp.Var(this=CLAMPED), expression=bounds), start)

    def _substring(self, name: str) -> tuple[str, list[exp.Expr]]:
        """SUBSTRING(x FROM n FOR m) is SUBSTRING(x, n, m); with a string after FROM, the part that matches it."""
        arguments = self._arguments()
        if len(arguments) == 1 and self.accept("FROM"):
            matched = self.token.kind is Kind.STRING and self.ahead(1).key == ")"
            arguments.append(self.expression())
            if matched:
                return "REGEXP_EXTRACT", arguments
            if self.accept("FOR"):
                arguments.append(self.expression())
        return name, arguments

    def _trim(self, name: str) -> tuple[str, list[exp.Expr]]:
        """TRIM([BOTH | LEADING | TRAILING] [characters] FROM x) is TRIM, LTRIM or RTRIM (x, characters)."""
        sides = {"BOTH": "TRIM", "LEADING": "LTRIM", "TRAILING": "RTRIM"}
        if self.token.key in sides and self.ahead(1).key not in {",", ")", "."}:
            name = sides[self.advance().key]
        arguments = [] if self.at("FROM") else self._arguments()
        if len(arguments) <= 1 and self.accept("FROM"):
            arguments = [self.expression(), *arguments]
        return name, arguments

    def _position(self) -> list[exp.Expr]:
        """POSITION(needle IN text) is POSITION(needle, text)."""
        needle = self.operand()
        if not self.accept("IN"):
            self.expect(",")
        return [needle, self.expression()]

    def _suffixes(self, node: exp.Expr, start: Token) -> exp.Expr:
        """WITHIN GROUP, IGNORE NULLS, FILTER, OVER: each at most once, in this order."""
        if self.accept("WITHIN", "GROUP"):
            order = self.wrapped(self.order)
            node = self.mark(exp.WithinGroup(this=node, expression=order), start)
        node = self._nulls(node, start)
        if self.at("FILTER", "("):
            self.advance()
            node = self.mark(exp.Filter(this=node, expression=self.wrapped(self._where)), start)
        if self.at("OVER") and (self.ahead(1).key == "(" or self.ahead(1).kind in {Kind.WORD, Kind.NAME}):
            self.advance()
            node = self.made(self._over(node), start)
        return node

    def _nulls(self, node: exp.Expr, start: Token) -> exp.Expr:
        """IGNORE NULLS or RESPECT NULLS, inside the parentheses or after them."""
        if isinstance(node, (exp.IgnoreNulls, exp.RespectNulls)):
            return node
        if self.accept("IGNORE", "NULLS"):
            return self.mark(exp.IgnoreNulls(this=node), start)
        if self.accept("RESPECT", "NULLS"):
            return self.mark(exp.RespectNulls(this=node), start)
        return node

    def _where(self) -> exp.Where:
        """FILTER (WHERE p), and FILTER (p) as DuckDB also has it."""
        start = self.token
        self.accept("WHERE")
        return self.mark(exp.Where(this=self.expression()), start)

    def _over(self, node: exp.Expr) -> exp.Expr:
        """OVER name keeps the name in `alias`, for the WINDOW clause to resolve."""
        if not self.at("("):
            self.names_windows = True
            return exp.Window(this=node, alias=self.identifier("the name of a window"))
        specification = self.wrapped(self.window_specification)
        return share_of_total(node, specification) or exp.Window(this=node, **specification)

    def window_specification(self) -> dict[str, object]:
        """The contents of OVER (…)."""
        if self.token.kind is Kind.NAME or (
            self.token.kind is Kind.WORD and not self.at_any({"PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS"})
        ):
            self.fail("E_UNSUPPORTED", "A window cannot extend another one.", "Write the whole window, or OVER name.")
        found: dict[str, object] = {}
        if self.accept("PARTITION", "BY"):
            found["partition_by"] = self.separated(self.expression)
        if self.at("ORDER", "BY"):
            found["order"] = self.order()
        if self.at_any({"ROWS", "RANGE", "GROUPS"}):
            found["spec"] = self._frame()
        return found

    def _frame(self) -> exp.WindowSpec:
        start = self.advance()
        both = self.accept("BETWEEN")
        first = self._frame_bound()
        if both:
            self.expect("AND")
        last = self._frame_bound() if both else ("CURRENT ROW", None)
        if self.at("EXCLUDE"):
            self.fail("E_UNSUPPORTED", "EXCLUDE in a window is not supported.", "Remove it.")
        spec = exp.WindowSpec(kind=start.key, start=first[0], start_side=first[1], end=last[0], end_side=last[1])
        return self.mark(spec, start)

    def _frame_bound(self) -> tuple[str | exp.Expr, str | None]:
        if self.accept("CURRENT", "ROW"):
            return "CURRENT ROW", None
        bound: str | exp.Expr = "UNBOUNDED" if self.accept("UNBOUNDED") else self.operand()
        if not self.at_any({"PRECEDING", "FOLLOWING"}):
            self.unexpected("PRECEDING or FOLLOWING")
        return bound, self.advance().key

    def order(self) -> exp.Order:
        """ORDER BY and its items."""
        start = self.token
        return self.mark(exp.Order(expressions=self.order_items()), start)

    def order_items(self) -> list[exp.Expr]:
        """The items of ORDER BY; reads the keywords too."""
        self.expect("ORDER", "BY")
        if self.at("ALL"):
            self.fail("E_UNSUPPORTED", "ORDER BY ALL is not supported.", "Name the columns.")
        return self.separated(self._ordered)

    def _ordered(self) -> exp.Expr:
        """`nulls_first` is None where the query does not say."""
        start = self.token
        value = self.expression()
        descending = self.accept("DESC")
        if not descending:
            self.accept("ASC")
        first, last = self.accept("NULLS", "FIRST"), self.accept("NULLS", "LAST")
        nulls_first = first if first or last else None
        return self.mark(exp.Ordered(this=value, desc=descending, nulls_first=nulls_first), start)
