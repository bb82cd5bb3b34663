"""Which statements may have the clause: one SELECT, over one private table, and nothing around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from shoal.errors import ShoalError
from shoal.sql.parse import position_of, privacy_clause

if TYPE_CHECKING:
    from shoal.sql.parse import Statement

CLAUSE = "POLICY"


def has_policy_clause(statement: Statement) -> bool:
    """Whether any SELECT of the statement names a policy."""
    return any(_kind(select) == CLAUSE for select in statement.tree.find_all(exp.Select))


def _kind(select: exp.Expr) -> str | None:
    clause = privacy_clause(select)
    return clause.kind if clause is not None else None


def the_select(statement: Statement) -> exp.Select:
    """The one SELECT; clauses are never mixed, and nothing is joined, nested or combined."""
    tree = statement.tree
    selects = list(tree.find_all(exp.Select))
    other = next((s for s in selects if _kind(s) not in {CLAUSE, None}), None)
    if other is not None:
        raise ShoalError(
            "E_POLICY",
            "A statement makes one promise: WITH POLICY and WITH DIFFERENTIAL_PRIVACY cannot be mixed.",
            hint="Ask two queries.",
            position=position_of(other),
        )
    if not isinstance(tree, exp.Select) or len(selects) > 1 or tree.args.get("with_") is not None:
        raise _alone(tree)
    source = tree.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table) or tree.args.get("joins"):
        raise _alone(tree)
    if isinstance(source.this.this, exp.Anonymous):
        raise ShoalError("E_TABLE_FUNCTION", "Table functions cannot be used.", position=position_of(source))
    if tree.args.get("qualify") is not None or source.this.args.get("sample"):
        raise ShoalError(
            "E_UNSUPPORTED", "QUALIFY and TABLESAMPLE do not go with a policy.", position=position_of(tree)
        )
    return tree


def _alone(tree: exp.Expr) -> ShoalError:
    return ShoalError(
        "E_UNSUPPORTED",
        "SELECT WITH POLICY reads one private table: no joins, subqueries, WITH or set operations.",
        hint="SELECT WITH POLICY OPTIONS(policy = 'nearby_age', epsilon = 1) SUM(age) FROM people",
        position=position_of(tree),
    )
