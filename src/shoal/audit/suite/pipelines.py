"""Collections of the audit: Python functions over the same small databases, compared on neighbours like queries.

One of the functions raises on rows of some owners, one keeps fewer rows, one makes more: whatever they do with one owner's
records, no other owner's part may move, and nothing but the numbers may differ.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from shoal.collections import aggregates as agg
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal.plan.releases import StatementPlan
    from shoal.session import Session

_KAPPA, _DELTA = 2, 0.01


def _is_small(record: Any) -> bool:
    """Raises for nobody, and keeps about half."""
    return bool(record.x < 50)


def _inverted(record: Any) -> dict[str, Any]:
    """Raises on the rows of the low owner, whose roots are not real."""
    if record.x < 0:
        raise ValueError(record.x)
    return {"site": record.site, "y": record.x**0.5}


def _each_kind(record: Any) -> Iterator[dict[str, Any]]:
    """Several records from one, more than are kept from the high owner's."""
    return ({"site": record.site, "y": float(i)} for i in range(record.kind))


def _largest(records: list[Any]) -> list[dict[str, Any]]:
    """One record of each owner."""
    return [{"site": records[0].site, "y": max(record.x for record in records)}]


_MADE = {"site": "text", "y": "double"}


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A release of a collection, at any ε."""

    name: str
    collection: Callable[[Session], Any]
    delta: float = _DELTA

    def plan(self, session: Session, epsilon: float) -> StatementPlan:
        """The verified plan on one database."""
        groups = self.collection(session).group_by("site", max_groups_per_owner=_KAPPA)
        plan: StatementPlan = groups.planned(
            n=agg.count(upper=3), total=agg.sum("y", bounds=(0, 10)), epsilon=epsilon, delta=self.delta
        )
        return plan


_ALL = (
    Pipeline("filter and map, raising", lambda s: s.collection("visits").filter(_is_small).map(_inverted, _MADE)),
    Pipeline("flat_map", lambda s: s.collection("visits").flat_map(_each_kind, _MADE, most=3)),
    Pipeline("per_owner", lambda s: s.collection("visits").per_owner(_largest, _MADE, most=1)),
)
PIPELINES = _ALL if find_spec("cloudpickle") else ()
"""None without the extra that functions travel by."""
