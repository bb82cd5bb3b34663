"""Trees → DuckDB's SQL text, for the nodes that our statements are made of.

The text is the one that sqlglot's generator writes (a test compares them), in a quarter of the time and without loading it. A
tree with any other node, or with an argument that is not known here, is left to the generator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from shoal.sql.functions.forms import qualified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Node = Any
    Write = Callable[[Node], str]

BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseLeftShift: "<<",
    exp.DPipe: "||",
}
"""Operators that a macro can shadow; under their qualified names none can."""
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_TYPES: dict[exp.DType, str] = {
    exp.DType.BIGINT: "BIGINT",
    exp.DType.BIT: "BIT",
    exp.DType.BOOLEAN: "BOOLEAN",
    exp.DType.DATE: "DATE",
    exp.DType.DECIMAL: "DECIMAL",
    exp.DType.DOUBLE: "DOUBLE",
    exp.DType.INT: "INT",
    exp.DType.INT128: "INT128",
    exp.DType.TEXT: "TEXT",
    exp.DType.TIME: "TIME",
    exp.DType.TIMESTAMPNTZ: "TIMESTAMP",
    exp.DType.UBIGINT: "UBIGINT",
    exp.DType.UINT128: "UINT128",
}


_SET_OPERATIONS: dict[type[exp.Expr], str] = {
    exp.Union: "UNION",
    exp.Intersect: "INTERSECT",
    exp.Except: "EXCEPT",
}


class Unknown(Exception):  # noqa: N818 - not an error: somebody else writes this tree
    """A node, or an argument of one, that is not written here."""


def write(tree: exp.Expr, *, qualified: bool = False) -> str:
    """The SQL text of a tree; operators by qualified name, and orders in full, where somebody may have redefined them.

    Unknown for a tree that the generator must write.
    """
    return (_QUALIFIED if qualified else _PLAIN).write(tree)


class _Writer:
    """One method for each kind of node."""

    def __init__(self, *, qualified: bool) -> None:
        self._qualified = qualified
        self._methods: dict[type, Write] = {kind: getattr(self, name) for kind, name in _METHODS.items()}
        for table in (BINARY, _COMPARISONS):
            operator = self._called if qualified and table is BINARY else self._between_operands
            self._methods |= {kind: _bound(operator, sign) for kind, sign in table.items()}
        self._methods |= dict.fromkeys(_SET_OPERATIONS, self.set_operation)
        if not qualified:
            self._methods[exp.BitwiseLeftShift] = self._shifted

    def write(self, node: Node) -> str:
        """The text of one node."""
        method = self._methods.get(type(node))
        if method is None:
            raise Unknown
        return method(node)

    def _listed(self, nodes: Iterable[Node]) -> str:
        return ", ".join([self.write(node) for node in nodes])

    def _part(self, node: Node, key: str, before: str = "", after: str = "") -> str:
        """An optional argument, and what surrounds it."""
        part = node.args.get(key)
        return "" if part is None else f"{before}{self.write(part)}{after}"

    # ---- names and constants ---------------------------------------------------------------------------------------

    def identifier(self, node: Node) -> str:
        text = node.args["this"]
        if node.args.get("quoted"):
            return '"' + str(text).replace('"', '""') + '"'
        if not text.isidentifier():
            raise Unknown
        return str(text)

    def column(self, node: Node) -> str:
        _only(node, "this", "table")
        table = self._part(node, "table", after=".")
        return table + self.write(node.args["this"])

    def table(self, node: Node) -> str:
        _only(node, "this", "db", "catalog", "alias")
        path = self._part(node, "catalog", after=".") + self._part(node, "db", after=".")
        return path + self.write(node.args["this"]) + self._part(node, "alias", " AS ")

    def table_alias(self, node: Node) -> str:
        _only(node, "this", "columns")
        columns = node.args.get("columns")
        return self.write(node.args["this"]) + (f"({self._listed(columns)})" if columns else "")

    def alias(self, node: Node) -> str:
        _only(node, "this", "alias")
        return f"{self.write(node.args['this'])} AS {self.write(node.args['alias'])}"

    def literal(self, node: Node) -> str:
        text = node.args["this"]
        return "'" + str(text).replace("'", "''") + "'" if node.args.get("is_string") else str(text)

    def null(self, _: Node) -> str:
        return "NULL"

    def boolean(self, node: Node) -> str:
        return "TRUE" if node.args.get("this") else "FALSE"

    def star(self, node: Node) -> str:
        _only(node)
        return "*"

    def var(self, node: Node) -> str:
        return str(node.args["this"])

    # ---- types -----------------------------------------------------------------------------------------------------

    def data_type(self, node: Node) -> str:
        _only(node, "this", "expressions")
        name, parameters = _TYPES.get(node.args["this"]), node.args.get("expressions")
        if name is None or (parameters and name != "DECIMAL"):
            raise Unknown
        return f"{name}({self._listed(parameters)})" if parameters else name

    def data_type_parameter(self, node: Node) -> str:
        _only(node, "this")
        return self.write(node.args["this"])

    def cast(self, node: Node) -> str:
        _only(node, "this", "to")
        return f"CAST({self.write(node.args['this'])} AS {self.write(node.args['to'])})"

    def try_cast(self, node: Node) -> str:
        return "TRY_" + self.cast(node)

    # ---- expressions -----------------------------------------------------------------------------------------------

    def paren(self, node: Node) -> str:
        return f"({self.write(node.args['this'])})"

    def _between_operands(self, node: Node, sign: str) -> str:
        _only(node, "this", "expression")
        return f"{self.write(node.args['this'])} {sign} {self.write(node.args['expression'])}"

    def _shifted(self, node: Node) -> str:
        """Beside another operator in parentheses: the engine would read a << b | c as a << (b | c)."""
        written = self._between_operands(node, "<<")
        return f"({written})" if isinstance(node.parent, exp.Binary) else written

    def _called(self, node: Node, sign: str) -> str:
        _only(node, "this", "expression")
        return f"{qualified(sign)}({self.write(node.args['this'])}, {self.write(node.args['expression'])})"

    def _connected(self, node: Node, word: str) -> str:
        """Long chains lean to the left, and are followed without a call for each link."""
        kind, right = type(node), []
        while type(node) is kind:
            _only(node, "this", "expression")
            right.append(self.write(node.args["expression"]))
            node = node.args["this"]
        return f" {word} ".join([self.write(node), *reversed(right)])

    def and_(self, node: Node) -> str:
        return self._connected(node, "AND")

    def or_(self, node: Node) -> str:
        return self._connected(node, "OR")

    def not_(self, node: Node) -> str:
        return f"NOT {self.write(node.args['this'])}"

    def negative(self, node: Node) -> str:
        value = self.write(node.args["this"])
        if self._qualified:
            return f"{qualified('-')}({value})"
        return f"- {value}" if value.startswith("-") else f"-{value}"

    def is_(self, node: Node) -> str:
        _only(node, "this", "expression")
        return f"{self.write(node.args['this'])} IS {self.write(node.args['expression'])}"

    def between(self, node: Node) -> str:
        _only(node, "this", "low", "high")
        low, high = self.write(node.args["low"]), self.write(node.args["high"])
        return f"{self.write(node.args['this'])} BETWEEN {low} AND {high}"

    def in_(self, node: Node) -> str:
        _only(node, "this", "expressions", "query")
        query = node.args.get("query")
        if query is not None:
            if type(query) is not exp.Subquery or node.args.get("expressions"):
                raise Unknown
            return f"{self.write(node.args['this'])} IN {self.write(query)}"
        return f"{self.write(node.args['this'])} IN ({self._listed(node.args['expressions'])})"

    def exists(self, node: Node) -> str:
        _only(node, "this")
        return f"EXISTS({self.write(node.args['this'])})"

    def case(self, node: Node) -> str:
        _only(node, "ifs", "default")
        branches = [_branch(each) for each in node.args["ifs"]]
        written = [f"WHEN {self.write(condition)} THEN {self.write(value)}" for condition, value in branches]
        return " ".join(["CASE", *written, *_some(self._part(node, "default", "ELSE ")), "END"])

    def coalesce(self, node: Node) -> str:
        _only(node, "this", "expressions")
        return f"COALESCE({self._listed([node.args['this'], *(node.args.get('expressions') or ())])})"

    def collate(self, node: Node) -> str:
        _only(node, "this", "expression")
        if type(node.args["expression"]) is not exp.Identifier:
            raise Unknown
        return f"{self.write(node.args['this'])} COLLATE {self.write(node.args['expression'])}"

    def call(self, node: Node) -> str:
        _only(node, "this", "expressions")
        name = node.args["this"]
        if not isinstance(name, str):
            raise Unknown
        return f"{name}({self._listed(node.args.get('expressions') or ())})"

    def function(self, node: Node) -> str:
        _only(node, "this", "expressions", "colon")
        return f"LAMBDA {self._listed(node.args['expressions'])} : {self.write(node.args['this'])}"

    def filter(self, node: Node) -> str:
        _only(node, "this", "expression")
        return f"{self.write(node.args['this'])} FILTER({self.write(node.args['expression']).lstrip()})"

    def window(self, node: Node) -> str:
        _only(node, "this", "partition_by", "order", "spec")
        by = node.args.get("partition_by")
        partition = f"PARTITION BY {self._listed(by)}" if by else ""
        order = self._part(node, "order").lstrip()
        parts = " ".join([*_some(partition), *_some(order), *_some(self._part(node, "spec"))])
        return f"{self.write(node.args['this'])} OVER ({parts})"

    def frame(self, node: Node) -> str:
        _only(node, "kind", "start", "start_side", "end", "end_side")
        start, end = (self._frame_end(node, key) for key in ("start", "end"))
        return f"{node.args['kind']} BETWEEN {start} AND {end}"

    def _frame_end(self, node: Node, key: str) -> str:
        found, side = node.args.get(key), node.args.get(f"{key}_side")
        if found is None:
            raise Unknown
        return " ".join([found if isinstance(found, str) else self.write(found), *_some(side)])

    # ---- relations -------------------------------------------------------------------------------------------------

    def select(self, node: Node) -> str:
        _only(
            node,
            "with_",
            "distinct",
            "expressions",
            "from_",
            "joins",
            "where",
            "group",
            "having",
            "order",
            "limit",
            "offset",
        )
        distinct = self._part(node, "distinct", before=" ")
        items = self._listed(node.args.get("expressions") or ())
        joins = "".join([self.write(join) for join in node.args.get("joins") or ()])
        clauses = "".join([self._part(node, key) for key in ("where", "group", "having", "order", "limit", "offset")])
        return f"{self._part(node, 'with_')}SELECT{distinct} {items}{self._part(node, 'from_')}{joins}{clauses}"

    def set_operation(self, node: Node) -> str:
        """Of two SELECTs that end with their groups; the generator knows what else can follow the word."""
        _only(node, "this", "expression", "distinct")
        sides, distinct = (node.args["this"], node.args["expression"]), node.args.get("distinct")
        if distinct is None or any(type(side) is not exp.Select for side in sides):
            raise Unknown
        for side in sides:
            _only(side, "distinct", "expressions", "from_", "joins", "where", "group", "having")
        word = _SET_OPERATIONS[type(node)] + ("" if distinct else " ALL")
        return f" {word} ".join([self.write(side) for side in sides])

    def with_(self, node: Node) -> str:
        _only(node, "expressions")
        return f"WITH {self._listed(node.args['expressions'])} "

    def common_table(self, node: Node) -> str:
        _only(node, "this", "alias", "materialized")
        first = " MATERIALIZED" if node.args.get("materialized") else ""
        return f"{self.write(node.args['alias'])} AS{first} ({self.write(node.args['this'])})"

    def distinct(self, node: Node) -> str:
        _only(node, "expressions")
        values = node.args.get("expressions")
        return f"DISTINCT {self._listed(values)}" if values else "DISTINCT"

    def from_(self, node: Node) -> str:
        _only(node, "this")
        return f" FROM {self.write(node.args['this'])}"

    def join(self, node: Node) -> str:
        _only(node, "this", "side", "kind", "on")
        kind, on = " ".join([*_some(node.side), *_some(node.kind)]), node.args.get("on")
        if not kind or (on is None and kind != "CROSS"):
            raise Unknown
        condition = "" if on is None else f" ON {self.write(on)}"
        return f" {kind} JOIN {self.write(node.args['this'])}{condition}"

    def where(self, node: Node) -> str:
        return f" WHERE {self.write(node.args['this'])}"

    def group(self, node: Node) -> str:
        _only(node, "expressions")
        return f" GROUP BY {self._listed(node.args['expressions'])}"

    def having(self, node: Node) -> str:
        return f" HAVING {self.write(node.args['this'])}"

    def order(self, node: Node) -> str:
        _only(node, "expressions")
        return f" ORDER BY {self._listed(node.args['expressions'])}"

    def ordered(self, node: Node) -> str:
        _only(node, "this", "desc", "nulls_first")
        value, down, first = self.write(node.args["this"]), node.args.get("desc"), node.args.get("nulls_first")
        if self._qualified:
            return f"{value} {'DESC' if down else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"
        direction = " DESC" if down else " ASC" if down is False else ""
        return f"{value}{direction}{' NULLS FIRST' if first else ''}"

    def limit(self, node: Node) -> str:
        _only(node, "expression")
        return f" LIMIT {self.write(node.args['expression'])}"

    def offset(self, node: Node) -> str:
        _only(node, "expression")
        return f" OFFSET {self.write(node.args['expression'])}"

    def subquery(self, node: Node) -> str:
        _only(node, "this", "alias")
        return f"({self.write(node.args['this'])}){self._part(node, 'alias', ' AS ')}"

    def values(self, node: Node) -> str:
        _only(node, "expressions", "alias")
        if node.args.get("alias") is None:
            raise Unknown
        return f"(VALUES {self._listed(node.args['expressions'])}) AS {self.write(node.args['alias'])}"

    def tuple(self, node: Node) -> str:
        return f"({self._listed(node.args['expressions'])})"


_METHODS: dict[type, str] = {
    exp.Alias: "alias",
    exp.And: "and_",
    exp.Anonymous: "call",
    exp.Between: "between",
    exp.Boolean: "boolean",
    exp.CTE: "common_table",
    exp.Case: "case",
    exp.Cast: "cast",
    exp.Coalesce: "coalesce",
    exp.Collate: "collate",
    exp.Column: "column",
    exp.DataType: "data_type",
    exp.DataTypeParam: "data_type_parameter",
    exp.Distinct: "distinct",
    exp.Exists: "exists",
    exp.Filter: "filter",
    exp.From: "from_",
    exp.Group: "group",
    exp.Having: "having",
    exp.Identifier: "identifier",
    exp.In: "in_",
    exp.Is: "is_",
    exp.Join: "join",
    exp.Lambda: "function",
    exp.Limit: "limit",
    exp.Literal: "literal",
    exp.Neg: "negative",
    exp.Not: "not_",
    exp.Null: "null",
    exp.Offset: "offset",
    exp.Or: "or_",
    exp.Order: "order",
    exp.Ordered: "ordered",
    exp.Paren: "paren",
    exp.Select: "select",
    exp.Star: "star",
    exp.Subquery: "subquery",
    exp.Table: "table",
    exp.TableAlias: "table_alias",
    exp.TryCast: "try_cast",
    exp.Tuple: "tuple",
    exp.Values: "values",
    exp.Var: "var",
    exp.Where: "where",
    exp.Window: "window",
    exp.WindowSpec: "frame",
    exp.With: "with_",
}


def _bound(method: Callable[[Node, str], str], sign: str) -> Write:
    return lambda node: method(node, sign)


def _only(node: Node, *known: str) -> None:
    """Unknown where the node has an argument that would be left out."""
    for key, value in node.args.items():
        if value and key not in known:
            raise Unknown


def _branch(node: Node) -> tuple[Node, Node]:
    _only(node, "this", "true")
    return node.args["this"], node.args["true"]


def _some(text: str | None) -> list[str]:
    return [text] if text else []


_PLAIN, _QUALIFIED = _Writer(qualified=False), _Writer(qualified=True)
