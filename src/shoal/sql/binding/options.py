"""The options of a private SELECT: one row of `OPTIONS` each; every value checked once, nothing dropped and nothing guessed.

A new option is one row here and one field of `plan.releases.Options`. The table in docs/reference/sql/options.md is
`option_table()`; checks across rows (two options that exclude each other) are in `_check_together`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal import params
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.mechanisms.group_selection import RULES
from shoal.plan.releases import Options
from shoal.sql.parse import Constant

if TYPE_CHECKING:
    from shoal.catalog.defaults import Defaults
    from shoal.plan.expressions import Position
    from shoal.sql.parse import PrivacyClause

STRATEGIES = ("AUTO", *RULES, "PUBLIC_GROUPS")
NOISES = ("LAPLACE", "GAUSSIAN", "AUTO")
INFERRED = ("GLOBAL", "PER_GROUP")
MEASURED_IN_PLAIN_SQL = Fraction(1, 20)
"""The share of ε spent on measuring what a catalog's limits cut, if neither query nor catalog sets it."""
AUTO = 0
"""Groups per owner, to be found privately."""
BOTH = ("DIFFERENTIAL_PRIVACY", "ANONYMIZATION")

Read = Callable[[Constant, str], Any]
"""Reads an option's constant; the name as written goes into the error."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: how it is written, which field it fills, how it is read, and its default."""

    name: str
    field: str | None
    """The field of `plan.releases.Options`; None if the binder reads it itself."""
    read: Read
    meaning: str
    left_out: str
    default: Callable[[Defaults], Any] = lambda _: None
    clauses: tuple[str, ...] = BOTH
    about_groups: bool = False
    """Concerns groups, and means nothing without GROUP BY."""
    other_name: str | None = None
    """A second spelling in the same clauses."""

    @property
    def names(self) -> tuple[str, ...]:
        """All spellings, the usual one first."""
        return (self.name,) if self.other_name is None else (self.name, self.other_name)


def _invalid(message: str, constant: Constant | None, hint: str | None = None) -> ShoalError:
    return ShoalError("E_OPTION_INVALID", message, hint=hint, position=constant.position if constant else None)


def plain_number(constant: Constant) -> int | Fraction:
    """The number of a constant; text, names and NULL are not converted."""
    if isinstance(constant.value, bool) or not isinstance(constant.value, (int, Fraction)):
        raise TypeError
    return constant.value


def _number(check: Callable[..., Any]) -> Read:
    """A number that passes `check`; the error points at the position in the SQL."""

    def read(constant: Constant, option: str) -> Any:
        try:
            number = plain_number(constant)
        except TypeError:
            raise _invalid(f"{option} must be a number.", constant, f"Write it without quotes: {option} = 1.") from None
        try:
            return check(number, option=option)
        except ShoalError as error:
            error.position = constant.position
            raise

    return read


def _word(allowed: tuple[str, ...]) -> Read:
    """One of some words, in any case."""

    def read(constant: Constant, option: str) -> str:
        word = constant.value.upper() if isinstance(constant.value, str) else ""
        if word not in allowed:
            raise _invalid(f"{option} must be one of {', '.join(allowed)}.", constant)
        return word

    return read


def _groups(constant: Constant, option: str) -> int:
    """A whole number, or the word AUTO."""
    if isinstance(constant.value, str) and constant.value.upper() == "AUTO":
        return AUTO
    groups: int = _number(params.max_groups_per_owner)(constant, option)
    return groups


def _as_written(constant: Constant, option: str) -> Constant:  # noqa: ARG001 - the binder compares it with the catalog
    return constant


OPTIONS = (
    Option(
        "epsilon",
        "epsilon",
        _number(params.epsilon),
        "The price of this SELECT, from 1e-10 to 1e6. Smaller is more private and less accurate.",
        "the catalog's default, else refused",
        lambda defaults: defaults.epsilon,
    ),
    Option(
        "delta",
        "delta",
        _number(params.delta),
        "An extra allowance on top of ε, such as the chance that a group with one owner is shown: 0 ≤ δ < 1; at most "
        "0.1 where unknown groups may appear. Use far less than one over the number of owners.",
        "the catalog's `delta`, else min(1e-6, 1/(100 · `population`)), else refused where it is needed",
        lambda defaults: defaults.default_delta,
    ),
    Option(
        "max_groups_contributed",
        "max_groups_per_owner",
        _groups,
        "Groups per owner: in how many groups one owner may count. 1 to 1,000,000, or `AUTO`: found privately, with every "
        "other limit that nobody named ([limits that find themselves](../../theory/limits.md)).",
        "the catalog's `max_groups_per_owner`, else `AUTO`",
        lambda defaults: defaults.max_groups_per_owner,
        about_groups=True,
        other_name="kappa",
    ),
    Option(
        "max_rows_contributed",
        "max_rows_per_owner",
        _number(params.max_groups_per_owner),
        "Rows per owner instead (below). Cannot be combined with the former.",
        "no such limit",
        clauses=("DIFFERENTIAL_PRIVACY",),
    ),
    Option(
        "group_selection_strategy",
        "strategy",
        _word(STRATEGIES),
        f"Which rule decides which groups appear: {', '.join(f'`{name}`' for name in STRATEGIES)}. "
        "See [group selection](group-selection.md).",
        "`AUTO`",
        lambda _: "AUTO",
        about_groups=True,
    ),
    Option(
        "min_privacy_units_per_group",
        "min_owners",
        _number(params.max_groups_per_owner),
        "Groups with fewer owners than this never appear.",
        "1",
        lambda _: 1,
        clauses=("DIFFERENTIAL_PRIVACY",),
        about_groups=True,
    ),
    Option(
        "k_threshold",
        "min_owners",
        _number(params.max_groups_per_owner),
        "The same in `SELECT WITH ANONYMIZATION`.",
        "1",
        lambda _: 1,
        clauses=("ANONYMIZATION",),
        about_groups=True,
    ),
    Option(
        "group_selection_epsilon",
        "selection_epsilon",
        _number(params.epsilon),
        "How much of ε decides about groups; less than `epsilon`.",
        "an even share",
        clauses=("DIFFERENTIAL_PRIVACY",),
        about_groups=True,
    ),
    Option(
        "confidence_level",
        "confidence_level",
        _number(params.confidence_level),
        "The confidence level of the intervals.",
        "0.95",
        lambda _: Fraction(19, 20),
    ),
    Option(
        "noise",
        "noise",
        _word(NOISES),
        "The noise of the aggregates: `LAPLACE`, `GAUSSIAN` (needs δ > 0) or `AUTO`, whichever is more accurate. The rule "
        "that selects groups is named by `group_selection_strategy` and may use other noise.",
        "`AUTO`",
        lambda _: "AUTO",
    ),
    Option(
        "inferred_bounds",
        "inferred_bounds",
        _word(INFERRED),
        "Missing bounds are found once for all groups (`GLOBAL`) or for each group (`PER_GROUP`, below).",
        "`GLOBAL`",
        lambda _: "GLOBAL",
    ),
    Option(
        "measure_cut",
        "measure_cut",
        _number(params.share),
        "The share of ε that measures how much of counts and sums the given limits leave out, and what lies beyond given bounds "
        "of averages, variances and quantiles, so that intervals count it "
        "([intervals that count what was cut](../../theory/limits.md#limits-that-were-given)). 0 to 0.5.",
        "the catalog's `measure_cut`, else 0; in plain SQL 0.05",
        lambda defaults: defaults.measure_cut or Fraction(0),
    ),
    Option(
        "privacy_unit_column",
        None,
        _as_written,
        "The owner column. The catalog decides; naming another one is refused.",
        "not needed",
    ),
)
ABOUT_GROUPS = frozenset(name for option in OPTIONS if option.about_groups for name in option.names)
"""Options that concern groups, and mean nothing without GROUP BY."""


def options_of(clause: str) -> tuple[Option, ...]:
    """The options that a clause takes."""
    return tuple(option for option in OPTIONS if clause in option.clauses)


def known_names(clause: str) -> tuple[str, ...]:
    """Every spelling that a clause takes."""
    return tuple(name for option in options_of(clause) for name in option.names)


def option_table() -> str:
    """The table of docs/reference/sql/options.md."""
    rows = (
        f"| {', or '.join(f'`{name}`' for name in option.names)} | {option.meaning} | {option.left_out} |"
        for option in OPTIONS
    )
    return "\n".join(("| option | meaning | if left out |", "|---|---|---|", *rows))


def read_options(
    clause: PrivacyClause, defaults: Defaults, epsilon: Fraction | None = None
) -> tuple[Options, Constant | None]:
    """The checked options, and what the analyst wrote as privacy_unit_column; `epsilon` replaces the one in the query."""
    given = _by_name(clause)
    _check_exclusive(given)
    values: dict[str, Any] = {"clause": clause.kind}
    for option in options_of(clause.kind):
        if option.field == "epsilon":
            values["epsilon"] = epsilon if epsilon is not None else _epsilon(option, given, clause, defaults)
        elif option.field is not None:
            values[option.field] = _value(option, given, defaults)
    options = _with_open_limits(Options(**values))
    _check_together(options, given)
    return options, given.get("privacy_unit_column")


def default_options(defaults: Defaults, epsilon: Fraction | None = None) -> Options:
    """What plain SQL over private tables gets."""
    chosen = epsilon if epsilon is not None else defaults.epsilon
    if chosen is None:
        raise ShoalError("E_NO_DP_CLAUSE", "This session has no default epsilon.")
    return _with_open_limits(
        Options(
            "DIFFERENTIAL_PRIVACY",
            chosen,
            defaults.default_delta,
            defaults.max_groups_per_owner,
            measure_cut=MEASURED_IN_PLAIN_SQL if defaults.measure_cut is None else defaults.measure_cut,
        )
    )


def _with_open_limits(options: Options) -> Options:
    """Limits are found if query and catalog omit groups per owner, or say AUTO; a number keeps its usual meaning."""
    named = bool(options.max_groups_per_owner) or options.max_rows_per_owner is not None
    return replace(options, max_groups_per_owner=options.max_groups_per_owner or None, find_limits=not named)


def _value(option: Option, given: dict[str, Constant], defaults: Defaults) -> Any:
    """The value given under one of the option's names; else its default."""
    constant = _written(option.names, given)
    return option.default(defaults) if constant is None else option.read(constant, option.name)


def _written(names: tuple[str, ...], given: dict[str, Constant]) -> Constant | None:
    return next((given[name] for name in names if name in given), None)


def _by_name(clause: PrivacyClause) -> dict[str, Constant]:
    known = known_names(clause.kind)
    given: dict[str, Constant] = {}
    for name, constant, position in clause.options:
        if name not in known:
            raise ShoalError(
                "E_OPTION_UNKNOWN",
                f"There is no option {name!r} here.",
                hint=_known_hint(name, known),
                position=position,
            )
        if name in given:
            raise ShoalError(
                "E_OPTION_INVALID", f"The option {name} is given twice.", hint="Give it once.", position=position
            )
        given[name] = constant
    return given


def _known_hint(name: str, known: tuple[str, ...]) -> str:
    """The same option under the name it has in this clause, else the nearest spelling, and all of them."""
    field = next((option.field for option in OPTIONS if name in option.names), None)
    same = [other.name for other in OPTIONS if field is not None and other.field == field and other.name in known]
    close = same or difflib.get_close_matches(name.lower(), known, n=1)
    nearest = f"Did you mean {close[0]}? " if close else ""
    return f"{nearest}Known options: {', '.join(sorted(known))}."


def _epsilon(option: Option, given: dict[str, Constant], clause: PrivacyClause, defaults: Defaults) -> Fraction:
    value: Fraction | None = _value(option, given, defaults)
    if value is None:
        raise ShoalError(
            "E_OPTION_INVALID",
            "The option epsilon is missing.",
            hint="Write OPTIONS(epsilon = 1, delta = 1e-6): a smaller epsilon means more privacy and more noise.",
            position=clause.position,
        )
    require_allowed(value, defaults, given["epsilon"].position if "epsilon" in given else None)
    return value


def require_allowed(epsilon: Fraction, defaults: Defaults, position: Position) -> None:
    """Refuse more than the catalog allows for one query."""
    limit = defaults.max_epsilon_per_query
    if limit is not None and epsilon > limit:
        raise ShoalError(
            "E_POLICY",
            f"The catalog allows at most epsilon = {float(limit):g} for one query.",
            hint=f"Write epsilon = {float(limit):g} or less.",
            position=position,
        )


def _check_exclusive(given: dict[str, Constant]) -> None:
    for option in OPTIONS:
        if option.other_name is not None and set(option.names) <= given.keys():
            raise _invalid(
                f"{option.name} and {option.other_name} are one option.",
                given[option.other_name],
                "Write only one of them.",
            )
    groups, rows = _written(("max_groups_contributed", "kappa"), given), given.get("max_rows_contributed")
    if groups is not None and rows is not None:
        raise _invalid(
            "max_groups_contributed and max_rows_contributed cannot be combined.",
            rows,
            "Bound either the groups or the rows of an owner.",
        )


def _check_together(options: Options, given: dict[str, Constant]) -> None:
    public = options.strategy == "PUBLIC_GROUPS"
    if public and options.min_owners > 1:
        raise _invalid(
            "min_privacy_units_per_group has no meaning with PUBLIC_GROUPS: every listed group appears.",
            given.get("min_privacy_units_per_group") or given.get("k_threshold"),
            "Drop one of the two options.",
        )
    if public and options.selection_epsilon is not None:
        raise _invalid(
            "group_selection_epsilon has no meaning with PUBLIC_GROUPS.", given.get("group_selection_epsilon")
        )
    if options.inferred_bounds == "PER_GROUP" and options.max_rows_per_owner is not None:
        # Which R rows are kept depends on the columns read: bounds and sums would not cover the same rows.
        raise _invalid(
            "inferred_bounds = PER_GROUP needs max_groups_contributed, not max_rows_contributed.",
            given.get("inferred_bounds"),
            "Bound the groups of an owner, or give bounds in the query.",
        )
    if options.selection_epsilon is not None and options.selection_epsilon >= options.epsilon:
        raise _invalid(
            "group_selection_epsilon must be less than epsilon.",
            given.get("group_selection_epsilon"),
            "It is the part of epsilon that decides which groups appear.",
        )
