"""Parsed expressions → typed, total ones. Names are looked up in a scope, functions on the allow-list; nothing else exists."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.errors import InternalError, ShoalError
from shoal.plan import nodes
from shoal.plan.expressions import (
    Column,
    ExistsRelation,
    Expression,
    Frame,
    InRelation,
    Literal,
    Order,
    Position,
    ScalarRelation,
    WindowCall,
)
from shoal.plan.traverse import is_owned
from shoal.plan.types import BOOLEAN, DOUBLE, INTEGER, INTERVAL, NULL, TEXT, Kind, Type, decimal
from shoal.sql import functions
from shoal.sql.parse import function_call, position_of

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable

    from shoal.plan.nodes import Field, Node
    from shoal.sql.binding.context import Scope
    from shoal.sql.parse import FunctionCall

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "integer_divide",
    exp.Mod: "modulo",
    exp.DPipe: "concat",
    exp.EQ: "equal",
    exp.NEQ: "not_equal",
    exp.LT: "less",
    exp.LTE: "less_equal",
    exp.GT: "greater",
    exp.GTE: "greater_equal",
    exp.And: "and",
    exp.Or: "or",
    exp.NullSafeEQ: "is_not_distinct_from",
    exp.NullSafeNEQ: "is_distinct_from",
    exp.Like: "like",
    exp.ILike: "ilike",
}

LAST_VERDICTS = frozenset({"E_UID_EXPOSED", "E_RAW_OUTPUT"})
"""If several codes apply to a query, these are reported last."""

_RANKS = {"rank", "dense_rank", "percent_rank", "cume_dist"}

_TYPES: dict[str, Type] = {
    **dict.fromkeys(("BOOLEAN",), BOOLEAN),
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INT", "BIGINT", "UTINYINT", "USMALLINT", "UINT", "UBIGINT", "INT128", "INT64"), INTEGER
    ),
    **dict.fromkeys(("FLOAT", "DOUBLE", "REAL"), DOUBLE),
    **dict.fromkeys(("TEXT", "VARCHAR", "CHAR", "NVARCHAR", "NCHAR"), TEXT),
    "DATE": Type(Kind.DATE),
    **dict.fromkeys(("TIMESTAMP", "DATETIME", "TIMESTAMPTZ", "TIMESTAMPNTZ"), Type(Kind.TIMESTAMP)),
    "TIME": Type(Kind.TIME),
}


def data_type(node: exp.DataType) -> Type:
    """Our type for a type name in the query."""
    kind = node.this.value if hasattr(node.this, "value") else str(node.this)
    if kind in {"DECIMAL", "BIGDECIMAL", "NUMERIC"}:
        sizes = [int(p.this.name) for p in node.expressions]
        precision, scale = [*sizes, 0][:2] if sizes else (18, 3)
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise ShoalError(
                "E_UNSUPPORTED",
                "DECIMAL takes a precision from 1 to 38 and a scale below it.",
                position=position_of(node),
            )
        return decimal(precision, scale)
    found = _TYPES.get(kind)
    if found is None:
        raise ShoalError(
            "E_UNSUPPORTED",
            "This type is not supported.",
            hint="Use BOOLEAN, BIGINT, DOUBLE, DECIMAL(p, s), VARCHAR, DATE or TIMESTAMP.",
            position=position_of(node),
        )
    return found


class ExpressionBinder:
    """Binds expressions in a scope. Subclasses decide what a function call or a column means in their context."""

    def __init__(self, scope: Scope, subquery: Callable[[exp.Expr, Scope], Node] | None = None) -> None:
        self.scope = scope
        self._subquery = subquery

    def bind(self, node: exp.Expr) -> Expression:
        """The typed expression."""
        return self._bind(node)

    def condition(self, node: exp.Expr) -> Expression:
        """An expression that is true or false."""
        bound = self.bind(node)
        if bound.type.kind not in {Kind.BOOLEAN, Kind.NULL}:
            raise ShoalError(
                "E_UNSUPPORTED",
                f"Expected a condition, but this is a value of type {bound.type}.",
                hint="Compare it with something: x <> 0, name = 'a'.",
                position=position_of(node),
            )
        # An expression with only NULL's type is NULL, however it is written; the engine would choose some other type for it.
        return bound if bound.type.kind is Kind.BOOLEAN else Literal(None, NULL, position_of(node))

    def _bind(self, node: exp.Expr) -> Expression:
        position = position_of(node)
        name = _BINARY.get(type(node))
        if name is not None:
            operands = [self.bind(node.this), self.bind(node.expression)]
            # SQL Server concatenates strings with +.
            joined = name == "add" and all(operand.type.kind is Kind.TEXT for operand in operands)
            return functions.resolve("concat" if joined else name, operands, position)
        match node:
            case exp.Column():
                return self.column(node, position)
            case exp.Literal() | exp.Boolean() | exp.Null():
                return _literal(node, position)
            case exp.Neg():
                return self._negative(node, position)
            case exp.Not():
                return functions.resolve("not", [self.bind(node.this)], position)
            case exp.Is():
                return self._is(node, position)
            case exp.Between():
                return functions.resolve(
                    "between", [self.bind(p) for p in (node.this, node.args["low"], node.args["high"])], position
                )
            case exp.Escape():
                kind = "ilike" if isinstance(node.this, exp.ILike) else "like"
                parts = (node.this.this, node.this.expression, node.expression)
                return functions.resolve(kind, [self.bind(p) for p in parts], position)
            case exp.In():
                return self._in(node, position)
            case exp.Case():
                return self._case(node, position)
            case exp.Cast():
                return self._cast(node, position)
            case exp.Extract():
                part = Literal(node.this.name.lower(), TEXT, position)
                return functions.resolve("extract", [part, self.bind(node.expression)], position)
            case exp.Interval():
                return self._interval(node, position)
            case exp.Exists():
                return ExistsRelation(self._public(node.this, position), position=position)
            case exp.Subquery():
                return self._scalar(node, position)
            case exp.Star():
                raise ShoalError("E_PARSE", "* is not allowed here.", position=position)
            case exp.Bracket():
                raise ShoalError(
                    "E_UNSUPPORTED",
                    "An element of a list cannot be taken with [ ].",
                    hint="For one quantile write PERCENTILE_CONT(x, 0.5) or MEDIAN(x), which cost no more.",
                    position=position,
                )
            case exp.Any() | exp.All():
                raise ShoalError(
                    "E_UNSUPPORTED",
                    "Of comparisons with ANY and ALL only = ANY (SELECT …) and <> ALL (SELECT …) are supported.",
                    hint="Compare with the largest or the smallest value: x > (SELECT MAX(y) FROM …).",
                    position=position,
                )
            case exp.Tuple():
                raise ShoalError(
                    "E_UNSUPPORTED",
                    "Several values in parentheses are allowed only on the left of IN, before a list of such rows.",
                    hint="Compare them one by one: a = 1 AND b = 2, for a subquery inside of EXISTS (SELECT 1 FROM t WHERE …).",
                    position=position,
                )
        call = function_call(node)
        if call is None:
            raise ShoalError("E_UNSUPPORTED", "This expression is not supported.", position=position)
        return self.call(call)

    # ---- what subclasses change ----------------------------------------------------------------------------------

    def column(self, node: exp.Column, position: Position) -> Expression:
        """A column by name."""
        if isinstance(node.this, exp.Star):
            raise ShoalError("E_PARSE", "* is not allowed here.", position=position)
        if node.args.get("db") or node.args.get("catalog"):
            raise ShoalError(
                "E_UNKNOWN_TABLE",
                "Columns are named table.column.",
                hint="Leave out schema and database.",
                position=position,
            )
        computed = self.scope.computed(node.table or None, node.name)
        if computed is not None:
            return computed
        try:
            found = self.scope.resolve(node.table or None, node.name, position)
        except ShoalError as error:
            if error.code == "E_UNKNOWN_COLUMN" and node.this.args.get("quoted"):
                error.hint = f"In double quotes this is a name; strings go in single quotes. {error.hint}"
            raise
        return replace(found, position=position)

    def call(self, call: FunctionCall) -> Expression:
        """A function call: scalar functions here, aggregates where a subclass knows what they mean."""
        if call.over is not None:
            return self.window(call)
        if is_aggregate(call):
            raise ShoalError(
                "E_AGG_NOT_DP",
                f"The aggregate {call.name} is not allowed here.",
                hint="Aggregates belong in the SELECT list, HAVING or ORDER BY, not in WHERE, GROUP BY or another aggregate.",
                position=call.position,
            )
        refuse_extras(call)
        if not call.arguments:
            constant = functions.fold_environment(call.name, self.now())
            if constant is not None:
                return replace(constant, position=call.position)
        return functions.resolve(call.name, self._arguments(call), call.position)

    def _arguments(self, call: FunctionCall) -> list[Expression]:
        """Reports unknown names before unknown functions, and those before anything that may not be shown."""
        try:
            unit = _unit_in_words(call)
            arguments = call.arguments if unit is None else call.arguments[:-1]
            return [*map(self._argument, arguments), *([unit] if unit is not None else [])]
        except ShoalError as error:
            if error.code in LAST_VERDICTS:
                functions.check_known(call.name, call.position)
            raise

    def now(self) -> dt.datetime:
        """The moment of planning, the same for a whole statement."""
        return self.scope.now

    def _argument(self, node: exp.Expr) -> Expression:
        """Arguments such as MONTH in DATE_TRUNC(day, MONTH) are words, not columns."""
        if isinstance(node, exp.Var):
            return Literal(node.name, TEXT, position_of(node))
        if isinstance(node, exp.Column) and not node.table and functions.is_date_part(node.name):
            try:
                return self.bind(node)
            except ShoalError as error:
                if error.code != "E_UNKNOWN_COLUMN":
                    raise
                return Literal(node.name, TEXT, position_of(node))
        return self.bind(node)

    def window(self, call: FunctionCall) -> Expression:
        """A window function over the rows in scope."""
        over = call.over
        if over is None:
            raise InternalError("a window function without its window")
        extras = (call.distinct, call.named, call.clamped, call.within_group, call.order_by, call.filter)
        if any(extras) or call.nulls == "IGNORE":
            raise ShoalError("E_UNSUPPORTED", "A window function takes plain arguments only.", position=call.position)
        arguments = () if call.star else tuple(self.bind(a) for a in call.arguments)
        partition = tuple(self.bind(p) for p in over.args.get("partition_by") or [])
        order = tuple(self.ordered(o) for o in (over.args["order"].expressions if over.args.get("order") else []))
        name, arguments, type_ = functions.window_result(call.name, arguments, call.position)
        frame = _frame(over.args.get("spec"))
        if not treats_ties_alike(name, frame):
            order = self.without_ties(order)
        return WindowCall(name, arguments, partition, order, frame, type_, call.position)

    def without_ties(self, order: tuple[Order, ...]) -> tuple[Order, ...]:
        """An order with all columns in scope as the final tie-break, so that physical order never matters."""
        usable = [f for f in self.fields_in_sight() if f.type.kind is not Kind.UNSUPPORTED]
        return (*order, *(Order(Column(f.symbol, f.type)) for f in usable)) if order else order

    def fields_in_sight(self) -> list[Field]:
        """The columns of the rows a window reads."""
        return [f for relation in self.scope.relations for f in relation.fields]

    def ordered(self, node: exp.Expr) -> Order:
        """One item of ORDER BY; NULLs come last unless the query says otherwise."""
        value = self.bind(node.this if isinstance(node, exp.Ordered) else node)
        descending = bool(node.args.get("desc"))
        nulls_first = node.args.get("nulls_first")
        return Order(value, descending, bool(nulls_first) if nulls_first is not None else False)

    # ---- pieces --------------------------------------------------------------------------------------------------

    def _negative(self, node: exp.Neg, position: Position) -> Expression:
        value = self.bind(node.this)
        if (
            isinstance(value, Literal)
            and isinstance(value.value, (int, float, Fraction))
            and not isinstance(value.value, bool)
        ):
            return replace(value, value=-value.value, position=position)
        return functions.resolve("negate", [value], position)

    def _is(self, node: exp.Is, position: Position) -> Expression:
        value = self.bind(node.this)
        if isinstance(node.expression, exp.Null):
            return functions.resolve("is_null", [value], position)
        return functions.resolve("is_true" if node.expression.this else "is_false", [value], position)

    def _in(self, node: exp.In, position: Position) -> Expression:
        if isinstance(node.this, exp.Tuple):
            return self._rows_in(node, position)
        value = self.bind(node.this)
        query = node.args.get("query")
        if query is None:
            return functions.resolve("in", [value, *(self.bind(i) for i in node.expressions)], position)
        return in_relation(value, self._public(query, position), position)

    def _rows_in(self, node: exp.In, position: Position) -> Expression:
        """(a, b) IN ((1, 2), (3, 4)) is a = 1 AND b = 2 OR a = 3 AND b = 4."""
        values = [self.bind(value) for value in node.this.expressions]
        rows = node.expressions
        if not all(isinstance(row, exp.Tuple) and len(row.expressions) == len(values) for row in rows) or not rows:
            raise ShoalError(
                "E_UNSUPPORTED",
                "Several values in parentheses are looked for in a list of rows, each of as many values.",
                hint="Write (a, b) IN ((1, 2), (3, 4)).",
                position=position,
            )

        def same(row: exp.Expr) -> Expression:
            pairs = zip(values, map(self.bind, row.expressions), strict=True)
            return functions.resolve("and", [functions.resolve("equal", pair, position) for pair in pairs], position)

        found = [same(row) for row in rows]
        return found[0] if len(found) == 1 else functions.resolve("or", found, position)

    def _public(self, query: exp.Expr, position: Position) -> Node:
        """A relation inside an expression: it must be public and uncorrelated."""
        if self._subquery is None:
            raise ShoalError("E_EXPR_SUBQUERY", "A subquery is not allowed here.", position=position)
        inner = query.this if isinstance(query, exp.Subquery) else query
        relation = self._subquery(inner, self.scope)
        if is_owned(relation):
            raise ShoalError(
                "E_EXPR_SUBQUERY",
                "A subquery over a private table inside an expression would let one owner decide about the others.",
                hint="Use EXISTS or IN in WHERE, tied to the owner: WHERE EXISTS (SELECT 1 FROM v WHERE v.uid = c.uid).",
                position=position,
            )
        return relation

    def _scalar(self, node: exp.Subquery, position: Position) -> Expression:
        relation = self._public(node.this, position)
        if len(relation.fields) != 1:
            raise ShoalError("E_PARSE", "A subquery used as a value has one column.", position=position)
        return ScalarRelation(relation, relation.fields[0].type, position)

    def _case(self, node: exp.Case, position: Position) -> Expression:
        subject = self.bind(node.this) if node.this is not None else None
        branches = []
        for part in node.args["ifs"]:
            condition = (
                self.condition(part.this)
                if subject is None
                else functions.resolve("equal", [subject, self.bind(part.this)], position_of(part.this))
            )
            branches.append((condition, self.bind(part.args["true"])))
        default = node.args.get("default")
        return functions.case(branches, self.bind(default) if default is not None else Literal(None, NULL), position)

    def _cast(self, node: exp.Cast, position: Position) -> Expression:
        value, target = self.bind(node.this), data_type(node.to)
        return functions.resolve_cast(value, target, position)

    def _interval(self, node: exp.Interval, position: Position) -> Expression:
        amount = self.bind(node.this)
        return (
            functions.resolve_interval(amount, node.args["unit"].name, position) if amount.type != INTERVAL else amount
        )


def in_relation(value: Expression, relation: Node, position: Position) -> InRelation:
    """Value IN (SELECT …), both sides converted to one type by casts that cannot fail; an engine's own cast may."""
    if len(relation.fields) != 1:
        raise ShoalError("E_PARSE", "IN (SELECT …) takes one column.", position=position)
    (field,) = relation.fields
    own = Column(field.symbol, field.type)
    wanted, listed = functions.unified([value, own], "IN", position)
    if listed != own:
        widened = replace(field, symbol=f"{field.symbol}_as", type=listed.type)
        relation = nodes.Project(relation, ((widened, listed),), position=position)
    return InRelation(wanted, relation, position=position)


def _unit_in_words(call: FunctionCall) -> Literal | None:
    """The unit at the end of a call, as BigQuery writes it: MONTH, WEEK(MONDAY). It is not a column, even if there is one."""
    if len(call.arguments) < 2 or (isinstance(call.arguments[0], exp.Literal) and call.arguments[0].is_string):
        return None
    word = _bare_word(call.arguments[-1])
    unit = functions.unit_in_words(call.name, word) if word is not None else None
    return Literal(unit, TEXT, position_of(call.arguments[-1])) if unit is not None else None


def _bare_word(node: exp.Expr) -> str | None:
    """A word, or one with another in parentheses."""
    if isinstance(node, exp.Column) and not node.table and not node.this.args.get("quoted"):
        return str(node.name)
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        inner = _bare_word(node.expressions[0])
        return f"{node.name}({inner})" if inner is not None else None
    return None


def is_aggregate(call: FunctionCall) -> bool:
    """Whether a name is an aggregate of SQL, ours or not."""
    name = call.name.upper()
    return name.startswith("ANON_") or name.lower() in functions.AGGREGATE_NAMES


def refuse_extras(call: FunctionCall) -> None:
    """Named arguments, DISTINCT, FILTER … that reach a function which does not take them are refused, never dropped."""
    what = (
        "Named arguments"
        if call.named
        else "CLAMPED BETWEEN"
        if call.clamped
        else "DISTINCT"
        if call.distinct
        else "FILTER"
        if call.filter is not None
        else "ORDER BY"
        if call.order_by
        else "WITHIN GROUP"
        if call.within_group is not None
        else "A star"
        if call.star
        else None
    )
    if what:
        code = "E_UNSUPPORTED" if functions.is_known(call.name) else "E_FUNCTION_NOT_ALLOWED"
        raise ShoalError(code, f"{what} cannot be used with the function {call.name}.", position=call.position)


def treats_ties_alike(function: str, frame: Frame | None) -> bool:
    """Whether tied rows get the same answer in any stored order: ranks do, and aggregates unless their frame counts ROWS."""
    if function in functions.WINDOW_FUNCTIONS:
        return function in _RANKS
    return frame is None or frame.unit != "ROWS"


def _frame(spec: exp.WindowSpec | None) -> Frame | None:
    if spec is None:
        return None

    def bound(key: str) -> tuple[int | None, str]:
        value, side = spec.args.get(key), spec.args.get(f"{key}_side")
        if isinstance(value, str):
            return (None, "CURRENT ROW") if value == "CURRENT ROW" else (None, str(side))
        if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit() or len(value.name) > 9:
            raise ShoalError("E_UNSUPPORTED", "A window frame takes whole numbers.", position=position_of(spec))
        return int(value.name), str(side)

    if spec.args["kind"] != "ROWS" and any(bound(k)[0] is not None for k in ("start", "end")):
        raise ShoalError(
            "E_UNSUPPORTED",
            "Only ROWS frames take numbers.",
            hint="Write ROWS BETWEEN 1 PRECEDING AND CURRENT ROW.",
            position=position_of(spec),
        )
    return Frame(spec.args["kind"], bound("start"), bound("end"))


def _literal(node: exp.Expr, position: Position) -> Literal:
    """Numbers keep their exact decimal value; in arithmetic, non-integers are doubles."""
    if isinstance(node, exp.Null):
        return Literal(None, NULL, position)
    if isinstance(node, exp.Boolean):
        return Literal(bool(node.this), BOOLEAN, position)
    if node.is_string:
        return Literal(node.name, TEXT, position)
    text = node.name
    if text.isdigit():
        whole = int(text)
        return Literal(whole, INTEGER, position) if whole < 2**63 else Literal(float(whole), DOUBLE, position)
    value = float(text)
    if value in {float("inf"), float("-inf")}:
        raise ShoalError("E_PARSE", "This number is too large.", position=position)
    return Literal(value, DOUBLE, position)
