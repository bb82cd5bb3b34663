"""Whose rows a join counts: the one private table whose rows each become at most one row, because all else is matched by key.

What the catalog says about that table's rows then holds after the join as well. Privacy does not depend on it: it becomes a
limit like any other, and anything beyond it is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.frozen import dataclass
from shoal.plan import nodes
from shoal.plan.expressions import Call, Column
from shoal.plan.traverse import is_owned

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.plan.expressions import Expression
    from shoal.plan.nodes import Node
    from shoal.plan.public_facts import PublicFacts
    from shoal.plan.references import References

_NONE = frozenset[str]()


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Finds keys from counts of public tables, and from the catalog's references for private ones."""

    facts: PublicFacts
    references: References

    def counted(self, node: Node) -> nodes.Scan | None:
        """The private table whose rows are counted, each at most once."""
        found = self._counted(node)
        return found if isinstance(found, nodes.Scan) else None

    def is_one_row(self, node: Node, has_one: Callable[[str], bool], is_owner: Callable[[Expression], bool]) -> bool:
        """Whether an owner has at most one row: known for the table, or because rows were grouped by owner alone."""
        match self._counted(node):
            case nodes.Scan(table=table):
                return has_one(table)
            case nodes.Aggregate(keys=((_, key),)):
                return is_owner(key)
        return False

    def _counted(self, node: Node) -> nodes.Scan | nodes.Aggregate | None:
        match node:
            case nodes.Scan():
                return node if node.owner is not None else None
            case nodes.Aggregate():
                return node if is_owned(node) else None
            case nodes.Filter(input=nodes.Join() as join) if self._only_unmatched(join, node.predicate):
                return self._counted(join.left)
            case nodes.Filter() | nodes.Project():
                return self._counted(node.input)
            case nodes.Join(kind="semi" | "anti"):
                return self._counted(node.left)
            case nodes.Join():
                left_kept, right_kept = _kept(node.condition, self._unique(node.left), self._unique(node.right))
                if left_kept and node.kind in {"inner", "left"} and is_owned(node.left):
                    return self._counted(node.left)
                if right_kept and node.kind in {"inner", "right"} and is_owned(node.right):
                    return self._counted(node.right)
        return None

    def _only_unmatched(self, join: nodes.Join, condition: Expression) -> bool:
        """LEFT JOIN … WHERE key IS NULL: the rows of the left side without a match, each once.

        A key, or a column that the join compares, is missing only where nothing matches.
        """
        compared = {symbol for pair in equal_columns(join.condition) for symbol in pair} | self._unique(join.right)
        theirs = compared & {field.symbol for field in join.right.fields}
        return join.kind == "left" and any(
            isinstance(part, Call)
            and part.function == "is_null"
            and isinstance(part.arguments[0], Column)
            and part.arguments[0].symbol in theirs
            for part in _conjuncts(condition)
        )

    def _unique(self, node: Node) -> frozenset[str]:
        """Columns in which no value repeats."""
        match node:
            case nodes.Scan():
                pairs = zip(node.fields, node.columns, strict=True)
                return frozenset(f.symbol for f, column in pairs if self._is_key(node, f.symbol, column))
            case nodes.Filter():
                return self._unique(node.input)
            case nodes.Project():
                below = self._unique(node.input)
                return frozenset(f.symbol for f, v in node.items if isinstance(v, Column) and v.symbol in below)
            case nodes.Join(kind="semi" | "anti"):
                return self._unique(node.left)
            case nodes.Join():
                # Each side is asked once: asking it again would double the work with every join.
                left, right = self._unique(node.left), self._unique(node.right)
                left_kept, right_kept = _kept(node.condition, left, right)
                return (left if left_kept and node.kind in {"inner", "left"} else _NONE) | (
                    right if right_kept and node.kind in {"inner", "right"} else _NONE
                )
            case nodes.Aggregate() if len(node.keys) == 1:
                return frozenset({node.keys[0][0].symbol})
        return _NONE

    def _is_key(self, scan: nodes.Scan, symbol: str, column: str) -> bool:
        if scan.owner is None:
            return self.facts.is_counted(scan.table) and self.facts.most_rows(scan.table, column) <= 1
        return self.references.origins.get(symbol) in self.references.leads.values()


def _kept(condition: Expression, left: frozenset[str], right: frozenset[str]) -> tuple[bool, bool]:
    """Whether each row of the left side, and of the right side, matches at most one row of the other, by their unique columns."""
    used = {symbol for pair in equal_columns(condition) for symbol in pair}
    return bool(used & right), bool(used & left)


def equal_columns(condition: Expression) -> list[tuple[str, str]]:
    """Pairs of columns that a condition requires to be equal."""
    found = []
    for part in _conjuncts(condition):
        if isinstance(part, Call) and part.function == "equal":
            a, b = part.arguments
            found += [(a.symbol, b.symbol)] if isinstance(a, Column) and isinstance(b, Column) else []
    return found


def _conjuncts(condition: Expression) -> list[Expression]:
    if isinstance(condition, Call) and condition.function == "and":
        return [part for argument in condition.arguments for part in _conjuncts(argument)]
    return [condition]
