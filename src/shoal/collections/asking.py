"""What a collection asks of its session while it is built: names and types. No data is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.catalog import fold
from shoal.collections.recipes import fields_seen
from shoal.errors import ShoalError
from shoal.plan.lineage import owner_names
from shoal.plan.types import Kind
from shoal.rewrite.check_ownership import Ownership
from shoal.rewrite.checks.mixed_owners import refuse_mixed_owners
from shoal.sql.binding.clauses.from_clause import FromBinder
from shoal.sql.binding.context import Scope
from shoal.stack import on_its_own_stack

if TYPE_CHECKING:
    from shoal.collections.recipes import Recipe
    from shoal.plan.types import Type
    from shoal.session import Session


def fields_of(session: Session, recipe: Recipe) -> tuple[tuple[str, Type], ...]:
    """The fields of a recipe's records; refuses recipes that lose the owner."""

    def bound() -> tuple[tuple[str, Type], ...]:
        binder = session.binder()
        node = recipe.bind(binder)
        refuse_mixed_owners(node)
        Ownership(binder.context.references).own(node, ())
        return tuple((f.name, f.type) for f in fields_seen(node))

    return on_its_own_stack(bound)


def public_fields(session: Session, table: str) -> list[str]:
    """The fields of a public table."""
    binder = session.binder()
    known = binder.context.catalog.table(table)
    if known is None or not known.public:
        raise ShoalError(
            "E_USAGE" if known is not None else "E_UNKNOWN_TABLE",
            f"{table!r} is not a public table of the catalog.",
            hint="A private table is a separate collection: .join(session.collection(…)).",
        )
    fields = FromBinder(binder, Scope(), {}).scan(known.name).fields
    return [f.name for f in fields if f.type.kind is not Kind.UNSUPPORTED]


def refuse_owner(session: Session, recipe: Recipe, name: str) -> None:
    """E_UID_EXPOSED where a field that is to be shown is the owner."""
    if fold(name) in owner_names(recipe.bind(session.binder())):
        raise ShoalError(
            "E_UID_EXPOSED",
            "The owner cannot be shown or grouped by: every group would be one person.",
            hint="Group by something that many owners share.",
        )
