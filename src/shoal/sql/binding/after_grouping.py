"""Expressions after grouping: they may use group keys and aggregates, and nothing else from a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.catalog import fold
from shoal.errors import ShoalError
from shoal.plan.expressions import Column, Expression
from shoal.sql.binding.expressions import LAST_VERDICTS, ExpressionBinder, is_aggregate
from shoal.sql.binding.split_columns import is_unnested
from shoal.sql.parse import function_call, position_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.plan.nodes import Field
    from shoal.plan.traverse import Weights
    from shoal.sql.parse import FunctionCall


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an expression contains an aggregate (not a window), outside subqueries."""
    stack = [node]
    while stack:
        current = stack.pop()
        if isinstance(current, (exp.Select, exp.Subquery)):
            continue
        call = function_call(current)
        if call is not None and call.over is not None:
            # A window's function is not an aggregate; its arguments may contain one.
            stack.extend([*call.arguments, *(p for p in call.over.iter_expressions() if p is not call.over.this)])
            continue
        if call is not None and is_aggregate(call):
            return True
        stack.extend(current.iter_expressions())
    return False


def is_grouped(tree: exp.Select) -> bool:
    """Whether a SELECT groups: by GROUP BY, or as a whole by an aggregate or HAVING."""
    clauses = tree.args.get("group") is not None or tree.args.get("having") is not None
    return clauses or any(has_aggregate(value) for _, value in select_items(tree.expressions))


def refuse_distinct_on(tree: exp.Select) -> None:
    """DISTINCT ON keeps the row that happens to come first."""
    distinct = tree.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        raise ShoalError(
            "E_UNSUPPORTED",
            "DISTINCT ON depends on the order of rows.",
            hint="Use GROUP BY.",
            position=position_of(tree),
        )


def select_items(expressions: list[exp.Expr]) -> list[tuple[str | None, exp.Expr]]:
    """(alias, expression) of a SELECT list."""
    return [(e.alias, e.this) if isinstance(e, exp.Alias) else (None, e) for e in expressions]


def output_name(alias: str | None, node: exp.Expr, index: int) -> str:
    """The name of a column when the query gives none: its own name, the function's, or its position."""
    if alias is not None:
        return alias
    if isinstance(node, exp.Column):
        return str(node.name)
    if "called" in node.meta:
        return str(node.meta["called"]).lower()
    call = function_call(node)
    if call is not None:
        return call.name.lower()
    return f"col{index}"


class RowNames:
    """Names of the SELECT list for what it computes from one row: in WHERE, in keys and in aggregates they mean that value."""

    def __init__(self, items: list[tuple[str | None, exp.Expr]], rows: ExpressionBinder, weights: Weights) -> None:
        self._values: dict[str, exp.Expr | None] = {}
        for alias, value in items:
            if alias is not None:
                # A name that is given twice means neither.
                self._values[fold(alias)] = None if fold(alias) in self._values or not _is_of_row(value) else value
        self._rows = rows
        self._weights = weights
        self._bound: dict[str, Expression] = {}

    def __call__(self, name: str) -> Expression | None:
        """The value by that name; None if there is none, or if it would be computed from itself."""
        key = fold(name)
        if key not in self._bound:
            value = self._values.pop(key, None)
            if value is None:
                return None
            try:
                bound = self._rows.bind(value)
            finally:
                self._values[key] = value
            self._weights.check(bound)
            self._bound[key] = bound
        return self._bound[key]


def _is_of_row(value: exp.Expr) -> bool:
    return not (value.is_star or has_aggregate(value) or is_unnested(value) or value.find(exp.Window, exp.Select))


class KeyResolver:
    """GROUP BY items: ordinals, aliases of the SELECT list, expressions."""

    def __init__(self, items: list[tuple[str | None, exp.Expr]], binder: ExpressionBinder) -> None:
        self._items = items
        self._binder = binder

    def resolve(self, node: exp.Expr) -> Expression:
        """The bound key. An input column wins over an alias; if they differ, the name means two things."""
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            return self._ordinal(node)
        if isinstance(node, exp.Column) and not node.table and not isinstance(node.this, exp.Star):
            return self._name(node)
        self._refuse(node)
        return self._binder.bind(node)

    def resolved(self, node: exp.Expr) -> Expression | None:
        """The same; None for what would be refused."""
        try:
            return self.resolve(node)
        except ShoalError:
            return None

    def _ordinal(self, node: exp.Literal) -> Expression:
        number = int(node.name)
        if not 1 <= number <= len(self._items):
            raise ShoalError(
                "E_GROUPING", f"GROUP BY {number} names no column of the SELECT list.", position=position_of(node)
            )
        target = self._items[number - 1][1]
        self._refuse(target)
        return self._binder.bind(target)

    def _name(self, node: exp.Column) -> Expression:
        aliased = [value for alias, value in self._items if alias is not None and fold(alias) == fold(node.name)]
        try:
            found = self._binder.bind(node)
        except ShoalError:
            if len(aliased) != 1:
                raise
            self._refuse(aliased[0])
            return self._binder.bind(aliased[0])
        for value in aliased:
            if has_aggregate(value) or self._binder.bind(value) != found:
                return self.ambiguous(node, found)
        return found

    def ambiguous(self, node: exp.Column, found: Expression) -> Expression:  # noqa: ARG002 - a subclass may know better
        """One name, two meanings."""
        raise ShoalError(
            "E_GROUPING",
            f"{node.name!r} is both a column and another expression of the SELECT list.",
            hint="Give the expression another name.",
            position=position_of(node),
        )

    @staticmethod
    def _refuse(node: exp.Expr) -> None:
        if isinstance(node, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
            raise ShoalError(
                "E_GROUPING",
                "Several values in parentheses, ROLLUP, CUBE and GROUPING SETS go side by side in GROUP BY, not inside each other.",
                hint="Write GROUP BY ROLLUP (a, b), or GROUP BY a, b.",
                position=position_of(node),
            )
        if has_aggregate(node):
            raise ShoalError("E_GROUPING", "A group key cannot contain an aggregate.", position=position_of(node))


class GroupedBinder(ExpressionBinder):
    """Binds over groups: keys by their expression, aggregates through a callback, aliases of the SELECT list by name."""

    def __init__(
        self,
        rows: ExpressionBinder,
        keys: dict[Expression, Field],
        aggregate: Callable[[FunctionCall], Expression],
        raw: Callable[[exp.Expr], ShoalError],
    ) -> None:
        super().__init__(rows.scope, rows._subquery)  # noqa: SLF001 - two halves of one binder
        self._rows = rows
        self._keys = keys
        self._aggregate = aggregate
        self._raw = raw
        self.aliases: dict[str, Expression] = {}
        self.prefers_aliases = False
        self.inputs_first = False

    def name(self, alias: str, value: Expression) -> None:
        """Later items can refer to earlier ones in the SELECT list by name; the first of that name wins."""
        self.aliases.setdefault(fold(alias), value)

    def bind(self, node: exp.Expr) -> Expression:
        """A key, an aggregate, or an expression over them."""
        if isinstance(node, exp.Subquery | exp.Exists):
            return super().bind(node)
        if self.prefers_aliases and isinstance(node, exp.Column) and not node.table and fold(node.name) in self.aliases:
            return self.aliases[fold(node.name)]
        key = self._key(node)
        if key is not None:
            return Column(key.symbol, key.type, position_of(node))
        if isinstance(node, exp.Column):
            if not node.table and fold(node.name) in self.aliases and not self._is_input(node):
                return self.aliases[fold(node.name)]
            if node.table or self.scope.has(node.name):
                self._rows.bind(node)
                raise self._raw(node)
            self.scope.resolve(None, node.name, position_of(node))
        return self._bind(node)

    def _is_input(self, node: exp.Column) -> bool:
        """Whether FROM has a column of this name. In the SELECT list the name means that column; elsewhere it means the alias."""
        return self.inputs_first and self.scope.has(node.name)

    def _key(self, node: exp.Expr) -> Field | None:
        if has_aggregate(node) or isinstance(node, (exp.Literal, exp.Boolean, exp.Null)):
            return None
        if node.find(exp.Select) is not None:
            # Binding it here and again as a whole would draw, and charge, a private subquery twice.
            return None
        try:
            return self._keys.get(self._rows.bind(node))
        except ShoalError:
            return None

    def fields_in_sight(self) -> list[Field]:
        """A window over groups sees their keys, which are unique per group."""
        return list(self._keys.values())

    def call(self, call: FunctionCall) -> Expression:
        """Aggregates through the callback; everything else as usual."""
        if call.over is None and is_aggregate(call):
            return self._aggregate(call)
        return super().call(call)

    def window(self, call: FunctionCall) -> Expression:
        """A window over groups; an aggregate that would read rows through one is refused with that reason."""
        try:
            return super().window(call)
        except ShoalError as error:
            if error.code not in LAST_VERDICTS or not is_aggregate(call):
                raise
            raise ShoalError(
                "E_UNSUPPORTED",
                f"{call.name}(…) OVER (…) in a private SELECT looks at released groups, not at rows.",
                hint="Leave out OVER for a private aggregate; put windows over one owner's rows in a subquery in FROM.",
                position=call.position,
            ) from None
