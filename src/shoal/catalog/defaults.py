"""What a catalog says for all tables at once: its section [defaults], and how a section is read at all."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal import params
from shoal.errors import ShoalError
from shoal.exact import as_fraction
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

MAX_GROUPS_PER_OWNER = 10**6
LONGEST_QUERY_SECONDS = Fraction(300)


def wrong(message: str, hint: str | None = None) -> ShoalError:
    """What is wrong with a catalog."""
    return ShoalError("E_CATALOG", message, hint=hint)


def known_keys(what: str, data: Any, known: AbstractSet[str]) -> None:
    """Refuse what is not a section, and keys that nobody knows; `what` begins the sentence."""
    if not isinstance(data, dict):
        raise wrong(f"{what} must be a section with keys.")
    for key in data:
        if key not in known:
            raise wrong(f"{what} has the unknown key {key!r}.", f"Known keys: {', '.join(sorted(known))}.")


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a query gets when it does not say; and the limits that it cannot pass."""

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    max_groups_per_owner: int | None = None
    """0 where the catalog says "auto": found privately."""
    population: int | None = None
    max_epsilon_per_query: Fraction | None = None
    min_epsilon_per_query: Fraction | None = None
    max_seconds_per_query: Fraction = LONGEST_QUERY_SECONDS
    measure_cut: Fraction | None = None
    """The share of ε that measures what limits cut; None where plain SQL and clauses have their own."""
    single_owner_groups: int | None = None
    """About how many groups of one owner there may be, which is public: explanations say how many of them may ever show."""

    def floor(self, *, has_budget: bool) -> Fraction | None:
        """The least ε of one query: what the catalog says, else 0.01 where a budget counts queries by their price."""
        if self.min_epsilon_per_query is not None:
            return self.min_epsilon_per_query
        return params.MIN_EPSILON_PER_QUERY if has_budget else None

    @property
    def answers_plain_sql(self) -> bool:
        """Whether an ordinary SELECT over private tables is answered as if the clause stood there."""
        return self.epsilon is not None

    @property
    def default_delta(self) -> Fraction | None:
        """The stated δ, else min(10⁻⁶, 1/(100·population)), else nothing. Never from the data."""
        if self.delta is not None:
            return self.delta
        if self.population is None:
            return None
        return params.default_delta(self.population)


def read_defaults(raw: Any) -> Defaults:
    """The section, checked."""
    known = {
        "epsilon",
        "delta",
        "max_groups_per_owner",
        "population",
        "measure_cut",
        "max_epsilon_per_query",
        "min_epsilon_per_query",
        "max_seconds_per_query",
        "single_owner_groups",
    }
    known_keys("In the catalog, [defaults]", raw, known)

    def number(key: str, low: Fraction, high: Fraction) -> Fraction | None:
        if key not in raw:
            return None
        try:
            value = as_fraction(raw[key])
        except (TypeError, ValueError):
            value = None
        if value is None or not low <= value <= high:
            raise wrong(f"In the catalog, defaults.{key} must be a number from {float(low):g} to {float(high):g}.")
        return value

    def whole(key: str, high: int) -> int | None:
        value = raw.get(key)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= high):
            raise wrong(f"In the catalog, defaults.{key} must be a whole number from 1 to {high}.")
        return value

    tiny, huge = Fraction(1, 10**10), Fraction(10**6)
    defaults = Defaults(
        number("epsilon", tiny, huge),
        number("delta", Fraction(0), Fraction(1, 10)),
        0 if raw.get("max_groups_per_owner") == "auto" else whole("max_groups_per_owner", MAX_GROUPS_PER_OWNER),
        whole("population", 10**12),
        number("max_epsilon_per_query", tiny, huge),
        number("min_epsilon_per_query", tiny, huge),
        number("max_seconds_per_query", Fraction(1), huge) or LONGEST_QUERY_SECONDS,
        number("measure_cut", Fraction(0), params.LARGEST_SHARE),
        whole("single_owner_groups", 10**12),
    )
    limit = defaults.max_epsilon_per_query
    if limit is not None and defaults.epsilon is not None and defaults.epsilon > limit:
        raise wrong("In the catalog, defaults.epsilon is above defaults.max_epsilon_per_query.")
    floor = defaults.min_epsilon_per_query
    if floor is not None and any(e is not None and e < floor for e in (defaults.epsilon, limit)):
        raise wrong("In the catalog, defaults.min_epsilon_per_query is above another epsilon of [defaults].")
    return defaults
