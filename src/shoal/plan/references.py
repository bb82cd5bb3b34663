"""Which columns of a statement hold values of the same key, according to the references the catalog declares.

Two private tables may be joined on such columns: the owners of both sides are compared as well, so privacy does not depend on
the declaration being true. If it is true, comparing owners changes nothing.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from shoal.catalog import fold
from shoal.frozen import dataclass
from shoal.plan.expressions import Call, Column

if TYPE_CHECKING:
    from collections.abc import Mapping

    from shoal.catalog import Catalog
    from shoal.plan.expressions import Expression

Origin = tuple[str, str]
"""A table and a column of the catalog, folded."""


@dataclass(frozen=True, slots=True)
class References:
    """`origins` maps a symbol to the catalog column it copies; `leads` maps a column to the key it refers to.

    `of_one_owner`: columns whose rows with the same value all have the same owner.
    """

    origins: Mapping[str, Origin] = field(default_factory=dict)
    leads: Mapping[Origin, Origin] = field(default_factory=dict)
    of_one_owner: frozenset[Origin] = frozenset()

    @classmethod
    def declared(cls, catalog: Catalog, origins: Mapping[str, Origin]) -> References:
        """The references of a catalog, for the symbols of a statement."""
        leads = {
            (name, fold(reference.column)): (fold(reference.to), fold(reference.key))
            for name, table in catalog.tables.items()
            for reference in table.references
        }
        private = {name for name, table in catalog.tables.items() if not table.public}
        keys = {key for key in leads.values() if key[0] in private}
        through = {
            (name, fold(table.through.column)) for name, table in catalog.tables.items() if table.through is not None
        }
        return cls(origins, leads, frozenset(keys | through))

    def has_one_owner(self, value: Expression) -> bool:
        """Whether rows with the same value have one owner: it is a key of a private table, or leads to the one its owner is in."""
        origin = self.origins.get(value.symbol) if isinstance(value, Column) else None
        return origin is not None and origin in self.of_one_owner

    def key_of(self, value: Expression) -> Origin | None:
        """The key that a column holds or refers to, through any number of tables."""
        found = self.origins.get(value.symbol) if isinstance(value, Column) else None
        seen: set[Origin] = set()
        while found is not None and found in self.leads and found not in seen:
            seen.add(found)
            found = self.leads[found]
        return found if found in self.leads.values() else None

    def relate(self, condition: Expression) -> Origin | None:
        """The key that both sides of an equality hold, if there is one."""
        if not isinstance(condition, Call) or condition.function != "equal":
            return None
        here, there = map(self.key_of, condition.arguments)
        return here if here is not None and here == there else None
