"""What parameters do to a release, before anything is spent: exact figures about raw data, for the custodian."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from shoal.errors import ShoalError
from shoal.tuning.tune import OpenTuning

if TYPE_CHECKING:
    from shoal.collections.aggregates import Aggregate
    from shoal.collections.groups import Groups, Releasing
    from shoal.tuning.tune import Tuning


def utility(groups: Groups, aggregates: dict[str, Aggregate], max_groups: Any, epsilon: Any, delta: Any) -> Tuning:
    """Figures for every combination of candidates; reads raw data, charges nothing."""
    kappas = _several(max_groups)
    if kappas == [None]:
        raise ShoalError(
            "E_USAGE",
            "utility compares numbers of groups per owner, and none was given.",
            hint="max_groups_per_owner=[1, 3, 10]",
        )
    return _tuned(groups.among(kappas[0]), aggregates, kappas, _several(epsilon), delta)


def utility_of_all(records: Releasing, aggregates: dict[str, Aggregate], epsilon: Any, delta: Any) -> Tuning:
    """The same of one row over all records."""
    return _tuned(records, aggregates, None, _several(epsilon), delta)


def _tuned(
    asked: Releasing, aggregates: dict[str, Aggregate], kappas: list[Any] | None, epsilons: list[Any], delta: Any
) -> Tuning:
    first = {
        name: replace(aggregate, bounds=aggregate.candidates[0]) if aggregate.candidates else aggregate
        for name, aggregate in aggregates.items()
    }
    plan = asked.planned(**first, epsilon=epsilons[0], delta=delta)
    bounds = {name: each.candidates for name, each in aggregates.items() if each.candidates}
    return OpenTuning(asked.session, plan).settings(epsilons, kappas, bounds)


def _several(given: Any) -> list[Any]:
    """A list of candidates, or the only one."""
    return list(given) if isinstance(given, (list, tuple)) else [given]
