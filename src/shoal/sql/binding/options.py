"""The options of a private SELECT: every name known, every value checked once, nothing dropped and nothing guessed."""

from __future__ import annotations

import difflib
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal import params
from shoal.errors import ShoalError
from shoal.plan.releases import Options

if TYPE_CHECKING:
    from shoal.catalog import Defaults
    from shoal.sql.parse import Constant, PrivacyClause

STRATEGIES = ("LAPLACE_THRESHOLD", "PUBLIC_GROUPS", "OPTIMAL", "GAUSSIAN_THRESHOLD", "AUTO")
NOISES = ("LAPLACE", "GAUSSIAN", "AUTO")
INFERRED = ("GLOBAL", "PER_GROUP")
_SHARED = (
    "epsilon",
    "delta",
    "max_groups_contributed",
    "kappa",
    "confidence_level",
    "noise",
    "inferred_bounds",
    "privacy_unit_column",
)
KNOWN = {
    "DIFFERENTIAL_PRIVACY": (
        *_SHARED,
        "max_rows_contributed",
        "group_selection_strategy",
        "min_privacy_units_per_group",
        "group_selection_epsilon",
    ),
    "ANONYMIZATION": (*_SHARED, "k_threshold", "group_selection_strategy"),
}


ABOUT_GROUPS = frozenset(
    {
        "max_groups_contributed",
        "kappa",
        "group_selection_strategy",
        "group_selection_epsilon",
        "min_privacy_units_per_group",
        "k_threshold",
    }
)
"""Options that say something about groups, and nothing where there is no GROUP BY."""

_OTHER_CLAUSE = {"min_privacy_units_per_group": "k_threshold", "k_threshold": "min_privacy_units_per_group"}
"""One option that each clause calls by a name of its own."""


def _invalid(message: str, constant: Constant | None, hint: str | None = None) -> ShoalError:
    return ShoalError("E_OPTION_INVALID", message, hint=hint, position=constant.position if constant else None)


def read_options(
    clause: PrivacyClause, defaults: Defaults, epsilon: Fraction | None = None
) -> tuple[Options, Constant | None]:
    """The checked options, and what the analyst wrote as privacy_unit_column; `epsilon` replaces the one that is written."""
    given = _by_name(clause)
    groups = given.get("max_groups_contributed") or given.get("kappa")
    if "max_groups_contributed" in given and "kappa" in given:
        raise _invalid("max_groups_contributed and kappa are one option.", given["kappa"], "Write only one of them.")
    rows = given.get("max_rows_contributed")
    if groups is not None and rows is not None:
        raise _invalid(
            "max_groups_contributed and max_rows_contributed exclude each other.",
            rows,
            "Bound either the groups or the rows of an owner.",
        )
    options = Options(
        clause=clause.kind,
        epsilon=epsilon if epsilon is not None else _epsilon(given.get("epsilon"), clause, defaults),
        delta=_checked(given.get("delta"), params.delta, "delta", defaults.default_delta),
        max_groups_per_owner=_checked(
            groups, params.max_groups_per_owner, "max_groups_contributed", defaults.max_groups_per_owner
        ),
        max_rows_per_owner=_checked(rows, params.max_groups_per_owner, "max_rows_contributed", None),
        strategy=_word(given.get("group_selection_strategy"), "group_selection_strategy", STRATEGIES),
        min_owners=_min_owners(given),
        selection_epsilon=_checked(
            given.get("group_selection_epsilon"), params.epsilon, "group_selection_epsilon", None
        ),
        confidence_level=_checked(
            given.get("confidence_level"), params.confidence_level, "confidence_level", Fraction(19, 20)
        ),
        noise=_word(given.get("noise"), "noise", NOISES),
        inferred_bounds=_word(given.get("inferred_bounds"), "inferred_bounds", INFERRED, "GLOBAL"),
    )
    _check_together(options, given)
    return options, given.get("privacy_unit_column")


def default_options(defaults: Defaults, epsilon: Fraction | None = None) -> Options:
    """What plain SQL over private tables gets."""
    chosen = epsilon if epsilon is not None else defaults.epsilon
    if chosen is None:
        raise ShoalError("E_NO_DP_CLAUSE", "This session has no default epsilon.")
    return Options("DIFFERENTIAL_PRIVACY", chosen, defaults.default_delta, defaults.max_groups_per_owner)


def _by_name(clause: PrivacyClause) -> dict[str, Constant]:
    known = KNOWN[clause.kind]
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
    close = [_OTHER_CLAUSE[name]] if name in _OTHER_CLAUSE else difflib.get_close_matches(name.lower(), known, n=1)
    nearest = f"Did you mean {close[0]}? " if close else ""
    return f"{nearest}Known options: {', '.join(sorted(known))}."


def plain_number(constant: Constant) -> int | Fraction:
    """The number of a constant; text, names and NULL are not converted."""
    if isinstance(constant.value, bool) or not isinstance(constant.value, (int, Fraction)):
        raise TypeError
    return constant.value


def _checked(constant: Constant | None, check: Any, option: str, default: Any) -> Any:
    """The value after its check; the error points at the place in the SQL."""
    if constant is None:
        return default
    try:
        number = plain_number(constant)
    except TypeError:
        raise _invalid(f"{option} must be a number.", constant, f"Write it without quotes: {option} = 1.") from None
    try:
        return check(number, option=option)
    except ShoalError as error:
        error.position = constant.position
        raise


def _epsilon(constant: Constant | None, clause: PrivacyClause, defaults: Defaults) -> Fraction:
    value = _checked(constant, params.epsilon, "epsilon", defaults.epsilon)
    if value is None:
        raise ShoalError(
            "E_OPTION_INVALID",
            "The option epsilon is missing.",
            hint="Write OPTIONS(epsilon = 1, delta = 1e-6): a smaller epsilon means more privacy and more noise.",
            position=clause.position,
        )
    limit = defaults.max_epsilon_per_query
    if limit is not None and value > limit:
        raise ShoalError(
            "E_POLICY",
            f"The catalog allows at most epsilon = {float(limit):g} for one query.",
            hint=f"Write epsilon = {float(limit):g} or less.",
            position=constant.position if constant else None,
        )
    exact: Fraction = value
    return exact


def _word(constant: Constant | None, option: str, allowed: tuple[str, ...], default: str = "AUTO") -> str:
    if constant is None:
        return default
    word = constant.value.upper() if isinstance(constant.value, str) else ""
    if word not in allowed:
        raise _invalid(f"{option} must be one of {', '.join(allowed)}.", constant)
    return word


def _min_owners(given: dict[str, Constant]) -> int:
    name = "k_threshold" if "k_threshold" in given else "min_privacy_units_per_group"
    owners: int = _checked(given.get(name), params.max_groups_per_owner, name, 1)
    return owners


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
        # Which R rows are kept depends on what is read of them: bounds and sums would not be of the same rows.
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
