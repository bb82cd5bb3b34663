"""Which groups may appear: public ones always, unknown ones through a private selection that needs δ."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.mechanisms.group_selection import RULES
from shoal.params import LARGEST_DELTA_FOR_UNKNOWN_GROUPS
from shoal.plan.measures import OwnerCount

if TYPE_CHECKING:
    from shoal.plan.releases import Options
    from shoal.rewrite.draft import Draft


def select_groups(draft: Draft) -> Draft:
    """The draft knowing whether groups must be selected, and whether a released owner count decides it."""
    select = draft.select
    if not select.keys or select.public_groups is not None:
        return draft
    _require_delta(select.options, select.position)
    shared = next(
        (
            i
            for i, unit in enumerate(draft.units)
            if len(unit.parts) == 1 and draft.parts[unit.parts[0]].measure == OwnerCount()
        ),
        None,
    )
    if select.options.selection_epsilon is not None or not _may_share(select.options):
        shared = None
    return replace(draft, needs_selection=True, shared_unit=shared)


def _may_share(options: Options) -> bool:
    """Whether the requested rule can read a released count: its noise must be of the requested kind."""
    rule = RULES.get(options.strategy)
    return rule is None or (rule.reads is not None and options.noise in {"AUTO", rule.reads})


def _require_delta(options: Options, position: tuple[int, int] | None) -> None:
    hint = (
        "Write delta = 1e-6 (less than one over the number of owners), or list the groups: "
        "group_selection_strategy = PUBLIC_GROUPS, or values in the catalog."
    )
    if options.delta is None:
        raise ShoalError("E_OPTION_INVALID", "The option delta is missing.", hint=hint, position=position)
    if options.delta == 0:
        raise ShoalError(
            "E_OPTION_INVALID", "With delta = 0 no unknown group can be released.", hint=hint, position=position
        )
    if options.delta > LARGEST_DELTA_FOR_UNKNOWN_GROUPS:
        raise ShoalError(
            "E_OPTION_INVALID",
            "delta is the chance that a single owner's group is shown; it can be at most 0.1 here.",
            hint=hint,
            position=position,
        )


def delta_of(options: Options) -> Fraction:
    """The δ of a SELECT; one that needs none may leave it out."""
    return options.delta if options.delta is not None else Fraction(0)
