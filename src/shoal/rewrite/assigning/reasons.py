"""Explains in words why a kind of noise was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.mechanisms.group_selection import RULES
from shoal.rewrite.assigning.budget import part_moves

if TYPE_CHECKING:
    from shoal.rewrite.assigning.budget import Budget
    from shoal.rewrite.draft import Draft


NAMES = {"LAPLACE": "Laplace noise", "GAUSSIAN": "Jointly calibrated Gaussian noise"}


def noise_asked(draft: Draft) -> str:
    """The requested noise; a threshold that reads a released count implies the kind it is named after."""
    options = draft.select.options
    if options.noise != "AUTO" or draft.shared_unit is None:
        return options.noise
    rule = RULES.get(options.strategy)
    return rule.reads if rule is not None and rule.reads is not None else "AUTO"


def reason_for(draft: Draft, budget: Budget, noise: str) -> str:
    """The reason for a kind of noise in words; it claims better accuracy only where the planner could choose."""
    name = NAMES[noise]
    options = draft.select.options
    if any(part.targets for part in draft.parts):
        left = "" if all(part.targets for part in draft.parts) else f"; {name} for the rest"
        return f"Quantiles are chosen among leaves, which is more accurate here than a noisy tree{left}"
    if not any(part_moves(part) for part in draft.parts):
        return "No owner can change these numbers, so they get no noise"
    if options.noise == noise:
        return f"{name}, as asked"
    if noise_asked(draft) == noise:
        return f"{name}: the rule {options.strategy}, as asked, reads a count that is shown"
    if noise == "LAPLACE" and budget.delta == 0:
        return f"{name}: Gaussian noise would need delta > 0"
    if noise == "LAPLACE" and not budget.is_even:
        return f"{name}, because a part of epsilon is fixed in the query"
    other = "Gaussian" if noise == "LAPLACE" else "Laplace"
    return f"{name} is more accurate here than {other} noise"
