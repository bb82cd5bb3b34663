"""Which groups may appear: the table of rules, and the operations on a selection, whichever rule made it.

A new rule is one file in `selection/` and one row of `RULES`: OPTIONS, the planner, `explain` and the accountants look it up.
n is a group's number of owners after bounding, minus (`min_owners` − 1); a group with n < 1 is never kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.errors import InternalError
from shoal.mechanisms.entropy import SYSTEM, Entropy
from shoal.mechanisms.selection.optimal import OptimalRule
from shoal.mechanisms.selection.thresholds import GaussianThreshold, LaplaceThreshold
from shoal.mechanisms.selection.weighted import WeightedRule
from shoal.mechanisms.selection.whole import GaussianWholeRule, WholeRule

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from shoal.accounting.events import Selection
    from shoal.mechanisms.selection.rule import Rule, SelectionDraw

RULES: dict[str, Rule] = {
    rule.name: rule for rule in (OptimalRule(), LaplaceThreshold(), GaussianThreshold(), WeightedRule())
}
"""In the order the planner tries them."""
ON_RELEASED_WHOLES: tuple[Rule, ...] = WholeRule(), GaussianWholeRule()
"""Rules that a query cannot name: they read what an aggregate releases."""


def rule_of(selection: Selection) -> Rule:
    """The rule that made a selection."""
    found = next((rule for rule in (*RULES.values(), *ON_RELEASED_WHOLES) if rule.made(selection)), None)
    if found is None:
        raise InternalError("a selection that no rule made")
    return found


def select(
    selection: Selection,
    owners: npt.NDArray[np.int64],
    entropy: Entropy = SYSTEM,
    weights: npt.NDArray[np.int64] | None = None,
) -> SelectionDraw:
    """Decides for each group, given its owners after bounding, whether it appears; each decision uses a separate draw.

    `weights` are the sums of the owners' weights, for a rule that uses them.
    """
    return rule_of(selection).draw(selection, owners, entropy, weights)


def keep_probability(selection: Selection, owners: int, weight: float | None = None) -> float:
    """The chance that a group of this many owners is kept; without their weights, that of owners in κ groups each."""
    if owners < selection.min_owners:
        return 0.0
    return rule_of(selection).keep_probability(selection, owners - (selection.min_owners - 1), weight)


def half_point(selection: Selection) -> int:
    """The smallest number of owners at which a group is at least as likely to be kept as not."""
    return rule_of(selection).half_point(selection) + selection.min_owners - 1


def typical_owners(selection: Selection) -> float:
    """Roughly the same if a group's owners are in 1 to κ groups, all equally likely: a public prior."""
    return rule_of(selection).typical_owners(selection)


def threshold(selection: Selection) -> int | None:
    """The noisy number of owners from which a group appears, if the rule has one."""
    return rule_of(selection).threshold(selection)
