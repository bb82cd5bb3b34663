"""The grammar of expressions: tokens → sqlglot nodes, by recursive descent; anything not defined here does not exist.

From loosest to tightest:  OR · AND · NOT · IS · comparison, BETWEEN, IN, LIKE · || · + - · * / // % · sign · :: [ ] AT
TIME ZONE. Comparisons do not chain. Parentheses leave no node behind: the tree is the grouping. Every function call
is an `exp.Anonymous` under the name the analyst wrote, with its arguments in the order written (see
`shoal.sql.grammar.syntax`).
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.sql.grammar.calls import CallGrammar
from shoal.sql.grammar.dialects.calls import element, matches
from shoal.sql.grammar.keywords import (
    FUNCTIONS_NAMED_LIKE_KEYWORDS,
    NAMES_WITHOUT_PARENTHESES,
    OPERATORS_OUTSIDE_THE_LANGUAGE,
    OUTSIDE_THE_LANGUAGE,
    QUERY_GOES_ON,
    QUERY_WORDS,
    RESERVED,
)
from shoal.sql.grammar.tokens import MAX_TOKENS, Kind, Token
from shoal.sql.grammar.types import DATA_TYPES, TYPES_OF_LITERALS, UNITS_OF_TIME

if TYPE_CHECKING:
    from collections.abc import Callable

_COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "==": exp.EQ,
    "<>": exp.NEQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}
_OPERATORS: dict[str, tuple[int, type[exp.Binary]]] = {
    "||": (1, exp.DPipe),
    "+": (2, exp.Add),
    "-": (2, exp.Sub),
    "*": (3, exp.Mul),
    "/": (3, exp.Div),
    "//": (3, exp.IntDiv),
    "DIV": (3, exp.IntDiv),
    "%": (3, exp.Mod),
}
_PATTERNS: dict[str, type[exp.Binary]] = {"LIKE": exp.Like, "ILIKE": exp.ILike}
_QUANTIFIERS: dict[str, type[exp.Expr]] = {"ANY": exp.Any, "SOME": exp.Any, "ALL": exp.All}
_EXPRESSIONS = frozenset({"REGEXP", "RLIKE", "~"})
_RANGES = frozenset({"BETWEEN", "IN", "LIKE", "ILIKE", "REGEXP", "RLIKE"})
_ONCE = frozenset({*_COMPARISONS, *_PATTERNS, *_EXPRESSIONS, "BETWEEN", "IN"})
_CASTS: dict[str, type[exp.Cast]] = {"CAST": exp.Cast, "TRY_CAST": exp.TryCast, "SAFE_CAST": exp.TryCast}


class ExpressionGrammar(CallGrammar):
    """Everything that has a value."""

    def expression(self) -> exp.Expr:
        """Any expression."""
        self.deeper()
        node = self._associative("OR", exp.Or, lambda: self._associative("AND", exp.And, self._negation))
        self.deeper(-1)
        return node

    def _associative(self, word: str, kind: type[exp.Expr], operand: Callable[[], exp.Expr]) -> exp.Expr:
        """A OR b OR c …, as a balanced tree: a thousand of them are ten levels, not a thousand."""
        start = self.token
        operands = [operand()]
        while self.accept(word):
            operands.append(operand())
        return self._balanced(kind, operands, start)

    def _balanced(self, kind: type[exp.Expr], operands: list[exp.Expr], start: Token) -> exp.Expr:
        operands = [self.made(operand, start) for operand in operands]
        while len(operands) > 1:
            pairs = [kind(this=a, expression=b) for a, b in zip(operands[::2], operands[1::2], strict=False)]
            operands = [self.mark(pair, start) for pair in pairs] + operands[len(pairs) * 2 :]
        return operands[0]

    def _negation(self) -> exp.Expr:
        starts = []
        while self.at("NOT"):
            starts.append(self.advance())
            self.deeper()
        node = self._predicate()
        for start in reversed(starts):
            node = self.mark(exp.Not(this=node), start)
        self.deeper(-len(starts))
        return node

    def _predicate(self) -> exp.Expr:
        start = self.token
        node = self._comparison(start, self.operand())
        links = 0
        while self.accept("IS"):
            links += 1
            node = self.chained(self._is(start, node), links, start)
        return node

    def _comparison(self, start: Token, left: exp.Expr) -> exp.Expr:
        if self.token.key in _COMPARISONS:
            kind = _COMPARISONS[self.advance().key]
            node: exp.Expr = self._compared(kind, left, self._quantified(), start)
        else:
            negated = self.at("NOT") and self.ahead(1).key in _RANGES and self.accept("NOT")
            ranged = self._range(start, left)
            if ranged is None:
                return left
            node = self.mark(exp.Not(this=ranged), start) if negated else ranged
        if self.at_any(_ONCE):
            self.fail("E_PARSE", "Comparisons do not chain.", "Put one of them in parentheses.")
        return node

    def _compared(self, kind: type[exp.Binary], left: exp.Expr, right: exp.Expr, start: Token) -> exp.Expr:
        """A comparison; = ANY (SELECT …) is IN, and <> ALL (SELECT …) is NOT IN."""
        if isinstance(right, (exp.Any, exp.All)) and isinstance(right.this, exp.Subquery):
            inside = exp.In(this=left, query=right.this)
            if (kind, type(right)) == (exp.EQ, exp.Any):
                return self.mark(inside, start)
            if (kind, type(right)) == (exp.NEQ, exp.All):
                return self.mark(exp.Not(this=self.mark(inside, start)), start)
        return self.mark(kind(this=left, expression=right), start)

    def _quantified(self) -> exp.Expr:
        start = self.token
        if self.at_any(set(_QUANTIFIERS)) and self.ahead(1).key == "(":
            kind = _QUANTIFIERS[self.advance().key]
            return self.mark(kind(this=self.operand()), start)
        return self.operand()

    def _range(self, start: Token, left: exp.Expr) -> exp.Expr | None:
        """What may follow [NOT]: BETWEEN, IN, LIKE, and regular expressions."""
        if self.accept("BETWEEN"):
            low = self.operand()
            self.expect("AND")
            return self.mark(exp.Between(this=left, low=low, high=self.operand()), start)
        if self.accept("IN"):
            return self.mark(self._in(left), start)
        if self.at("LIKE") or self.at("ILIKE"):
            kind = _PATTERNS[self.advance().key]
            if self.at_any(set(_QUANTIFIERS)) and self.ahead(1).key == "(":
                return self._like_several(kind, left, start)
            node: exp.Expr = self.mark(kind(this=left, expression=self.operand()), start)
            return self.mark(exp.Escape(this=node, expression=self.operand()), start) if self.accept("ESCAPE") else node
        if self.at_any(_EXPRESSIONS):
            any_case = self.advance().key == "~" and self.accept("*")
            return self.made(matches(left, self.operand(), any_case=any_case), start)
        return None

    def _like_several(self, kind: type[exp.Binary], left: exp.Expr, start: Token) -> exp.Expr:
        """LIKE ANY ('a%', 'b%') is LIKE with OR between the patterns, LIKE ALL with AND."""
        link = exp.And if self.advance().key == "ALL" else exp.Or
        patterns = self.wrapped(lambda: self.separated(self.operand))
        if sum(1 for _ in left.walk()) * len(patterns) > MAX_TOKENS:
            self.fail("E_LIMITS", "There are too many patterns for so long a value.", "Name it in a subquery first.")
        return self._balanced(link, [kind(this=left.copy(), expression=pattern) for pattern in patterns], start)

    def _in(self, left: exp.Expr) -> exp.In:
        if not self.at("("):
            self.fail(
                "E_UNSUPPORTED", "IN takes a list or a subquery in parentheses.", "Write IN (1, 2, 3) or IN (SELECT …)."
            )
        values = self._rows() if isinstance(left, exp.Tuple) else self.parenthesised()
        if isinstance(values, exp.Subquery):
            return exp.In(this=left, query=values)
        return exp.In(this=left, expressions=values.expressions if isinstance(values, exp.Tuple) else [values])

    def _rows(self) -> exp.Expr:
        """((1, 'a'), (2, 'b')): rows of values; a single row works too, so ((1, 'a')) is a list of one row."""
        start = self.token
        if self.ahead(1).key in QUERY_WORDS:
            return self.parenthesised()
        return self.mark(exp.Tuple(expressions=self.wrapped(lambda: self.separated(self.expression))), start)

    def _is(self, start: Token, left: exp.Expr) -> exp.Expr:
        negated = self.accept("NOT")
        if self.accept("DISTINCT", "FROM"):
            kind = exp.NullSafeEQ if negated else exp.NullSafeNEQ
            return self.mark(kind(this=left, expression=self.operand()), start)
        word = self.advance()
        if word.key not in {"NULL", "TRUE", "FALSE", "UNKNOWN"}:
            self.fail(
                "E_PARSE", "IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM.", "Compare values with =.", at=word
            )
        value = exp.Boolean(this=word.key == "TRUE") if word.key in {"TRUE", "FALSE"} else exp.Null()
        node = self.mark(exp.Is(this=left, expression=self.mark(value, word)), start)
        return self.mark(exp.Not(this=node), start) if negated else node

    def operand(self, loosest: int = 1) -> exp.Expr:
        """Arithmetic and ||, by precedence climbing; no comparison, no AND."""
        start = self.token
        node = self._signed()
        links = 0
        while (known := _OPERATORS.get(self.token.key)) and known[0] >= loosest and not self._is_alias_div():
            precedence, kind = known
            self.advance()
            links += 1
            node = self.chained(kind(this=node, expression=self.operand(precedence + 1)), links, start)
        if self.token.key in OPERATORS_OUTSIDE_THE_LANGUAGE:
            self.unexpected("an operator")
        return node

    def _is_alias_div(self) -> bool:
        """Whether DIV is a name here: no divisor follows it."""
        after = self.ahead(1)
        follows = after.kind in {Kind.NUMBER, Kind.NAME, Kind.WORD} and after.key not in RESERVED
        return self.token.key == "DIV" and not follows and after.key != "("

    def _signed(self) -> exp.Expr:
        minuses = []
        signs = 0
        while self.at("-") or self.at("+"):
            sign = self.advance()
            signs += 1
            self.deeper()
            if sign.key == "-":
                minuses.append(sign)
        node = self._postfixed()
        for sign in reversed(minuses):
            node = self.mark(exp.Neg(this=node), sign)
        self.deeper(-signs)
        return node

    def _postfixed(self) -> exp.Expr:
        start = self.token
        node = self._primary()
        for links in count(1):
            if self.accept("::"):
                node = self.chained(exp.Cast(this=node, to=self.data_type()), links, start)
            elif self.at("["):
                index = self._subscript()
                part = element(node, index) or exp.Bracket(this=node, expressions=[index])
                node = self.chained(self.made(part, start), links, start)
            elif self.accept("AT", "TIME", "ZONE"):
                node = self.chained(exp.AtTimeZone(this=node, zone=self._primary()), links, start)
            elif self.at("."):
                self.fail(
                    "E_UNSUPPORTED",
                    "A dot after an expression is not supported.",
                    "Call functions as f(x); name columns.",
                )
            else:
                break
        return node

    def _subscript(self) -> exp.Expr:
        self.expect("[")
        index = self.expression()
        if self.at(":"):
            self.fail("E_UNSUPPORTED", "Slices are not supported.", "Use SUBSTR(text, start, length).")
        self.expect("]")
        return index

    def _primary(self) -> exp.Expr:
        token = self.token
        match token.kind:
            case Kind.NUMBER:
                self.advance()
                return self.mark(exp.Literal(this=token.text, is_string=False), token)
            case Kind.STRING:
                return self._string()
            case Kind.NAME:
                return self._column_or_call()
            case Kind.WORD:
                return self._word()
        if token.key == "(":
            return self.parenthesised()
        if token.key == "[":
            return self._array()
        self.unexpected("a value")
        return None

    def _string(self) -> exp.Literal:
        token = self.advance()
        if self.token.kind is Kind.STRING:
            self.fail("E_PARSE", "Two strings are next to each other.", "Join them with ||.")
        return self.mark(exp.Literal(this=token.text, is_string=True), token)

    def _array(self) -> exp.Array:
        start = self.advance()
        items = [] if self.at("]") else self.separated(self.expression)
        self.expect("]")
        return self.mark(exp.Array(expressions=items), start)

    def _word(self) -> exp.Expr:
        """An expression that begins with a bare word."""
        token, following = self.token, self.ahead(1)
        key = token.key
        if key in {"NULL", "TRUE", "FALSE"}:
            self.advance()
            return self.mark(exp.Null() if key == "NULL" else exp.Boolean(this=key == "TRUE"), token)
        if key == "CASE":
            return self._case()
        if key == "EXISTS" and following.key == "(":
            self.advance()
            return self.mark(exp.Exists(this=self.wrapped(self.query)), token)
        if key in _CASTS and following.key == "(":
            return self._cast()
        if key in {"CONVERT", "TRY_CONVERT"} and following.key == "(":
            return self._convert()
        if key == "EXTRACT" and following.key == "(":
            return self._extract()
        if key == "INTERVAL":
            return self._interval()
        if key == "ARRAY" and following.key == "[":
            self.advance()
            return self._array()
        if key in TYPES_OF_LITERALS and following.kind is Kind.STRING:
            to = self.data_type()
            return self.mark(exp.Cast(this=self._string(), to=to), token)
        if key in NAMES_WITHOUT_PARENTHESES and following.key != "(":
            self.advance()
            return self.mark(exp.Anonymous(this=token.text, expressions=[]), token)
        return self._column_or_call()

    def _column_or_call(self) -> exp.Expr:
        """a, t.a, s.t.a, c.s.t.a, t.* or f(…), s.f(…)."""
        start = self.token
        parts = [self._first_part()]
        while self.at(".") and self.ahead(1).key != "*":
            self.advance()
            parts.append(self.identifier("a name", reserved=True))
        if self.at("("):
            if any(part.args["quoted"] for part in parts):
                self.fail("E_FUNCTION_NOT_ALLOWED", "Function names are not quoted.", "Write the name bare.", at=start)
            return self.call(".".join(part.name for part in parts), start)
        if self.accept("."):
            star = self.advance()
            return self.mark(_column(self.mark(exp.Star(), star), parts), start)
        if len(parts) > 4:
            self.fail("E_UNSUPPORTED", "A column has at most four parts.", "Write table.column.", at=start)
        return self.mark(_column(parts[-1], parts[:-1]), start)

    def _first_part(self) -> exp.Identifier:
        token = self.token
        if token.key in QUERY_WORDS & RESERVED:
            self.fail("E_PARSE", f"Expected a value, found '{token.key}'.", "Put subqueries in parentheses.")
        callable_word = token.key in FUNCTIONS_NAMED_LIKE_KEYWORDS and self.ahead(1).key == "("
        if token.key in OUTSIDE_THE_LANGUAGE and not callable_word:
            self.unexpected("a value")
        if token.kind is Kind.WORD and token.key in RESERVED and not callable_word:
            hint = f'Put a column of that name in double quotes: "{token.text}".'
            self.fail("E_PARSE", f"Expected a value, found the keyword {token.key}.", hint)
        return self.identifier("a value", reserved=callable_word)

    def _case(self) -> exp.Case:
        start = self.advance()
        subject = None if self.at("WHEN") else self.expression()
        branches = []
        while self.at("WHEN"):
            when = self.advance()
            condition = self.expression()
            self.expect("THEN")
            branches.append(self.mark(exp.If(this=condition, true=self.expression()), when))
        if not branches:
            self.unexpected("WHEN")
        default = self.expression() if self.accept("ELSE") else None
        self.expect("END")
        return self.mark(exp.Case(this=subject, ifs=branches, default=default), start)

    def _cast(self) -> exp.Expr:
        start = self.advance()
        self.expect("(")
        value = self.expression()
        self.expect("AS")
        to = self.data_type()
        if self.at("FORMAT"):
            self.fail("E_UNSUPPORTED", "CAST … FORMAT is not supported.", "Use PARSE_DATE or FORMAT_DATE.")
        self.expect(")")
        return self.mark(_CASTS[start.key](this=value, to=to), start)

    def _convert(self) -> exp.Expr:
        """CONVERT(type, x) in SQL Server, CONVERT(x, type) in MySQL: a cast."""
        start = self.advance()
        self.expect("(")
        kind = exp.TryCast if start.key == "TRY_CONVERT" else exp.Cast
        if self.token.key in DATA_TYPES and self.ahead(1).key in {",", "("}:
            to = self.data_type()
            self.expect(",")
            value = self.expression()
        else:
            value = self.expression()
            self.expect(",")
            to = self.data_type()
        if self.at(","):
            self.fail("E_UNSUPPORTED", "CONVERT takes no style.", "Use STRFTIME(x, '%Y-%m-%d').")
        self.expect(")")
        return self.mark(kind(this=value, to=to), start)

    def _extract(self) -> exp.Extract:
        start = self.advance()
        self.expect("(")
        part = self.advance()
        first_day = f"({self.wrapped(self.advance).key})" if self.at("(") else ""
        if part.kind is not Kind.WORD or not self.accept("FROM"):
            self.fail("E_PARSE", "EXTRACT takes a part of a date.", "Write EXTRACT(YEAR FROM day).", at=part)
        node = exp.Extract(this=exp.Var(this=part.key + first_day), expression=self.expression())
        self.expect(")")
        return self.mark(node, start)

    def _interval(self) -> exp.Interval:
        """INTERVAL 30 DAY, INTERVAL '30' DAY, INTERVAL '30 days', INTERVAL n DAY: a number and one unit."""
        start = self.advance()
        amount: exp.Expr
        if self.token.kind is Kind.STRING:
            written = self.advance()
            number, _, unit = written.text.strip().partition(" ")
            amount = self._amount(number, written)
            unit = unit.strip().upper() or self.advance().key
        else:
            amount = self._signed()
            unit = self.advance().key
        if unit not in UNITS_OF_TIME or self.at("TO"):
            hint = "Write a number and one unit: INTERVAL 30 DAY, INTERVAL '2 months'."
            self.fail("E_PARSE", "An interval is one number with one unit of time.", hint, at=start)
        return self.mark(exp.Interval(this=amount, unit=exp.Var(this=UNITS_OF_TIME[unit])), start)

    def _amount(self, number: str, token: Token) -> exp.Expr:
        digits = number.removeprefix("+").removeprefix("-")
        if not (digits.isascii() and digits.replace(".", "", 1).isdigit()):
            self.fail(
                "E_PARSE", "An interval begins with a number.", "Write INTERVAL '30' DAY or INTERVAL 30 DAY.", at=token
            )
        literal = self.mark(exp.Literal(this=digits, is_string=False), token)
        return self.mark(exp.Neg(this=literal), token) if number.startswith("-") else literal

    def data_type(self) -> exp.DataType:
        """The name of a type, with its length or precision."""
        start = self.token
        name = self.advance().key
        if name == "DOUBLE":
            self.accept("PRECISION")
        elif name in {"CHARACTER", "CHAR"}:
            self.accept("VARYING")
        known = DATA_TYPES.get(name)
        if known is None or self.at("<") or self.at("["):
            self.fail(
                "E_UNSUPPORTED", "This type is not supported.", f"Use one of {', '.join(sorted(DATA_TYPES))}.", at=start
            )
        parameters = self.wrapped(lambda: self.separated(self._type_parameter)) if self.at("(") else []
        if name in {"TIMESTAMP", "TIME"} and self.accept("WITH", "TIME", "ZONE"):
            known = exp.DType.TIMESTAMPTZ if name == "TIMESTAMP" else exp.DType.TIMETZ
        elif name in {"TIMESTAMP", "TIME"}:
            self.accept("WITHOUT", "TIME", "ZONE")
        return self.mark(exp.DataType(this=known, expressions=parameters), start)

    def _type_parameter(self) -> exp.DataTypeParam:
        token = self.advance()
        if token.kind is not Kind.NUMBER or not token.text.isdigit() or len(token.text) > 9:
            self.fail(
                "E_PARSE", "The length of a type is a whole number.", "Write DECIMAL(12, 2) or VARCHAR(20).", at=token
            )
        return self.mark(exp.DataTypeParam(this=exp.Literal(this=token.text, is_string=False)), token)

    def parenthesised(self) -> exp.Expr:
        """(expression), (a, b) or (SELECT …); only tuples and subqueries produce a node."""
        start = self.token
        self.expect("(")
        if self.at_query():
            inner: exp.Expr = exp.Subquery(this=self.query())
        else:
            inner = self.expression()
            if isinstance(inner, exp.Subquery) and self.at_any(QUERY_GOES_ON):
                inner = exp.Subquery(this=self.query(inner.this))
        if self.at(","):
            self.advance()
            inner = exp.Tuple(expressions=[inner, *self.separated(self.expression)])
        self.expect(")")
        return self.mark(inner, start) if isinstance(inner, (exp.Subquery, exp.Tuple)) else inner


def _column(last: exp.Expr, qualifiers: list[exp.Identifier]) -> exp.Column:
    """The column with its table, schema and catalog, from right to left."""
    keys = ("table", "db", "catalog")
    return exp.Column(this=last, **dict(zip(keys, reversed(qualifiers), strict=False)))
