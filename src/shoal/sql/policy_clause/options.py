"""The options of SELECT WITH POLICY: which policy, how much ε, and the level of intervals."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal import params
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.sql.binding.options import require_allowed

if TYPE_CHECKING:
    from shoal.catalog.defaults import Defaults
    from shoal.sql.parse import Constant, PrivacyClause

KNOWN = ("policy", "epsilon", "confidence_level")


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """Checked options; the policy is a name of the catalog."""

    policy: str
    epsilon: Fraction
    level: Fraction


def read_policy_options(clause: PrivacyClause, defaults: Defaults, epsilon: Fraction | None = None) -> PolicyOptions:
    """Every option known, given once and in range; `epsilon` replaces the one in the query."""
    given: dict[str, Constant] = {}
    for name, constant, position in clause.options:
        if name not in KNOWN:
            hint = f"Known options: {', '.join(KNOWN)}."
            raise ShoalError("E_OPTION_UNKNOWN", f"There is no option {name!r} here.", hint=hint, position=position)
        if name in given:
            raise _invalid(f"The option {name} is given twice.", constant, "Give it once.")
        given[name] = constant
    policy = given.get("policy")
    if policy is None or not isinstance(policy.value, str):
        raise _invalid("The option policy names a policy of the catalog.", policy, _EXAMPLE, clause)
    return PolicyOptions(
        policy.value,
        epsilon if epsilon is not None else _epsilon(given.get("epsilon"), clause, defaults),
        _number(given.get("confidence_level"), params.confidence_level, "confidence_level") or Fraction(19, 20),
    )


_EXAMPLE = "SELECT WITH POLICY OPTIONS(policy = 'nearby_age', epsilon = 1) …"


def _invalid(
    message: str, constant: Constant | None, hint: str | None = None, clause: PrivacyClause | None = None
) -> ShoalError:
    position = constant.position if constant is not None else clause.position if clause is not None else None
    return ShoalError("E_OPTION_INVALID", message, hint=hint, position=position)


def _number(constant: Constant | None, check: Any, option: str) -> Fraction | None:
    if constant is None:
        return None
    if isinstance(constant.value, bool) or not isinstance(constant.value, int | Fraction):
        raise _invalid(f"{option} must be a number.", constant, f"Write it without quotes: {option} = 1.")
    try:
        checked: Fraction = check(constant.value, option=option)
    except ShoalError as error:
        error.position = constant.position
        raise
    return checked


def _epsilon(constant: Constant | None, clause: PrivacyClause, defaults: Defaults) -> Fraction:
    value = _number(constant, params.epsilon, "epsilon") or defaults.epsilon
    if value is None:
        raise _invalid("The option epsilon is missing.", None, _EXAMPLE, clause)
    require_allowed(value, defaults, constant.position if constant is not None else clause.position)
    return value
