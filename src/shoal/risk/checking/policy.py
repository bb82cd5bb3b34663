"""Limits on risk, in a file, that a pipeline can be held to.

    [[uniqueness]]                       # no more than 1% of the owners below 5 in these columns
    columns = ["visits.city", "customers.*"]
    below = 5
    of = "owners"                        # values (default), owners or rows
    max_share = 0.01

    [[containment]]                      # these datasets must not be joinable through any column
    between = ["crm", "clicks"]          # datasets, or patterns of dataset.column
    max = 0.1

    [[k_anonymity]]                      # every combination of these columns has at least 5 owners
    table = "customers"
    columns = ["zip", "age"]             # one column, or a combination that was scanned
    min_owners = 5

    [[change]]                           # against --baseline: the share may rise by at most 2 points
    columns = ["visits.*"]
    below = 5
    max_rise = 0.02

A limit is judged by the estimate; `judge = "surely"` breaks only when the whole 95% interval is beyond it, `judge =
"possibly"` when any of it is. A rule that matches nothing is broken: a column that vanished would pass every limit.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.risk.sketch.measures import WHOLES, Whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


Judge = Literal["estimate", "surely", "possibly"]
_JUDGES: tuple[Judge, ...] = ("estimate", "surely", "possibly")


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """At most `max_share` of the values, owners or rows of these columns are below `below` owners."""

    columns: tuple[str, ...]
    below: int
    max_share: float
    of: Whole = "values"
    judge: Judge = "estimate"


@dataclass(frozen=True, slots=True)
class Containment:
    """No column of one side is contained in one of the other by more than `max`, either way round."""

    between: tuple[str, str]
    max: float
    judge: Judge = "estimate"


@dataclass(frozen=True, slots=True)
class KAnonymity:
    """Every value of a column or combination has at least `min_owners` owners."""

    table: str
    columns: tuple[str, ...]
    min_owners: int


@dataclass(frozen=True, slots=True)
class Change:
    """Against a baseline, the share below `below` rises by at most `max_rise`."""

    columns: tuple[str, ...]
    below: int
    max_rise: float
    of: Whole = "values"
    judge: Judge = "estimate"


Rule = Uniqueness | Containment | KAnonymity | Change


@dataclass(frozen=True, slots=True)
class Policy:
    """All rules of a file."""

    rules: tuple[Rule, ...]


def read_policy(path: str | Path) -> Policy:
    """A policy from a TOML file."""
    try:
        with Path(path).open("rb") as file:
            return policy_from(tomllib.load(file))
    except OSError as error:
        raise ShoalError("E_USAGE", f"The policy {str(path)!r} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "not UTF-8"
        raise ShoalError("E_USAGE", f"The policy {str(path)!r} is not TOML: {reason}.") from None


def policy_from(data: dict[str, Any]) -> Policy:
    """A policy from parsed TOML; whatever is not understood is refused, so that no typo turns a rule off."""
    readers: dict[str, Callable[[_Entry], Rule]] = {
        "uniqueness": _uniqueness, "containment": _containment, "k_anonymity": _k_anonymity, "change": _change,
    }  # fmt: skip
    rules: list[Rule] = []
    for kind, entries in data.items():
        if kind not in readers or not isinstance(entries, list):
            raise _wrong(f"A policy has tables [[{']], [['.join(readers)}]]; found {kind!r}.")
        for entry in entries:
            taken = _Entry(kind, entry)
            rules.append(readers[kind](taken))
            taken.finish()
    if not rules:
        raise _wrong("The policy has no rules.")
    return Policy(tuple(rules))


def _wrong(sentence: str) -> ShoalError:
    return ShoalError("E_USAGE", sentence, hint="shoal help risk-check shows how a policy is written.")


class _Entry:
    """A table of the policy from which every key must be taken."""

    def __init__(self, kind: str, data: Any) -> None:
        if not isinstance(data, dict):
            raise _wrong(f"Write [[{kind}]] with keys below it.")
        self._kind, self._left = kind, dict(data)

    def _take(self, key: str, fits: Callable[[Any], bool], what: str, default: Any = None) -> Any:
        value = self._left.pop(key, default)
        if value is None:
            raise _wrong(f"[[{self._kind}]] needs {key}: {what}.")
        if not fits(value):
            raise _wrong(f"{key} in [[{self._kind}]] is not {what}.")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of one text or more."""
        return tuple(
            self._take(
                key,
                lambda value: isinstance(value, list) and bool(value) and all(isinstance(text, str) for text in value),
                "a list of strings",
            )
        )

    def text(self, key: str, allowed: Sequence[str] | None = None, default: str | None = None) -> Any:
        """A string, one of those allowed."""
        what = "a string" if allowed is None else "one of " + ", ".join(allowed)
        return self._take(
            key, lambda value: isinstance(value, str) and (allowed is None or value in allowed), what, default
        )

    def whole(self, key: str) -> int:
        """A whole number from 1."""
        fits = lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= 1  # noqa: E731
        return int(self._take(key, fits, "a whole number from 1"))

    def share(self, key: str) -> float:
        """A number from 0 to 1."""
        fits = lambda value: isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1  # noqa: E731
        return float(self._take(key, fits, "a number from 0 to 1"))

    def finish(self) -> None:
        """Refuse keys that nobody asked for."""
        if self._left:
            raise _wrong(f"[[{self._kind}]] has no key {min(self._left)!r}.")


def _uniqueness(entry: _Entry) -> Rule:
    return Uniqueness(
        entry.texts("columns"), entry.whole("below"), entry.share("max_share"), entry.text("of", WHOLES, "values"),
        entry.text("judge", _JUDGES, "estimate"),
    )  # fmt: skip


def _containment(entry: _Entry) -> Rule:
    between = entry.texts("between")
    if len(between) != 2:
        raise _wrong("between in [[containment]] names two sides.")
    return Containment((between[0], between[1]), entry.share("max"), entry.text("judge", _JUDGES, "estimate"))


def _k_anonymity(entry: _Entry) -> Rule:
    return KAnonymity(entry.text("table"), entry.texts("columns"), entry.whole("min_owners"))


def _change(entry: _Entry) -> Rule:
    return Change(
        entry.texts("columns"), entry.whole("below"), entry.share("max_rise"), entry.text("of", WHOLES, "values"),
        entry.text("judge", _JUDGES, "estimate"),
    )  # fmt: skip
