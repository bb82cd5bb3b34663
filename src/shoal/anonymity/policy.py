"""Limits that a pipeline holds tables to: `[[anonymity]]` rules of a TOML file, checked by measuring."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.anonymity.measuring.demands import NAMES, exact_number, usage
from shoal.anonymity.measuring.measure_table import measure
from shoal.anonymity.measuring.rows import table_names
from shoal.anonymity.measuring.verdicts import Finding, Verdict
from shoal.catalog import fold
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.anonymity.measuring.measurement import Measurement

COLUMNS = ("table", "quasi", "sensitive", "owner", "population", "sampling", "distance")
LIMITS = ("max_share_below_k", "max_risk")
_HINT = "shoal help anonymity-check shows how a policy is written."


@dataclass(frozen=True)
class Rule:
    """Demands on a table; with `max_share_below_k`, k is a threshold that so large a share of owners may miss."""

    table: str | None
    quasi: tuple[str, ...]
    sensitive: tuple[str, ...]
    owner: str | None
    population: str | None
    sampling: float | None
    distance: Mapping[str, Any]
    demands: Mapping[str, Any]
    max_share_below_k: float | None = None
    max_risk: float | None = None

    def __post_init__(self) -> None:
        if not self.quasi:
            raise usage("A rule needs quasi: a list of columns.", hint=_HINT)
        if not self.demands and self.max_risk is None:
            raise usage("A rule demands nothing.", hint="Write k = 5 below [[anonymity]].")
        if self.max_share_below_k is not None and "k" not in self.demands:
            raise usage("max_share_below_k needs k.", hint="Write k = 5 as well.")


@dataclass(frozen=True)
class Policy:
    """All rules of a file."""

    rules: tuple[Rule, ...] = field(default_factory=tuple)


def read_policy(path: str | Path) -> Policy:
    """A policy from a TOML file; populations are looked up next to it."""
    try:
        with Path(path).open("rb") as file:
            data = tomllib.load(file)
    except OSError as error:
        raise ShoalError("E_USAGE", f"The policy {str(path)!r} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise ShoalError("E_USAGE", f"The policy {str(path)!r} is not TOML.") from None
    return policy_from(data, Path(path).parent)


def policy_from(data: Mapping[str, Any], folder: Path | None = None) -> Policy:
    """A policy from parsed TOML; what is not understood is refused, so that no typo turns a rule off."""
    unknown = set(data) - {"anonymity"}
    entries = data.get("anonymity")
    if unknown or not isinstance(entries, list) or not entries:
        raise usage("A policy has tables [[anonymity]], at least one, and nothing else.", hint=_HINT)
    return Policy(tuple(_rule(entry, folder or Path()) for entry in entries))


def _rule(entry: Any, folder: Path) -> Rule:
    if not isinstance(entry, Mapping):
        raise usage("Write [[anonymity]] with keys below it.", hint=_HINT)
    unknown = set(entry) - {*COLUMNS, *LIMITS, *NAMES}
    if unknown:
        raise usage(f"[[anonymity]] has no key {min(unknown)!r}.", hint=_HINT)
    population = _text(entry, "population")
    beside = None if population is None else folder / population
    return Rule(
        table=_text(entry, "table"),
        quasi=_texts(entry, "quasi"),
        sensitive=_texts(entry, "sensitive"),
        owner=_text(entry, "owner"),
        population=str(beside) if beside is not None and beside.exists() else population,
        sampling=entry.get("sampling"),
        distance=_distance(entry, folder),
        demands={name: entry[name] for name in NAMES if name in entry},
        max_share_below_k=_share(entry, "max_share_below_k"),
        max_risk=_share(entry, "max_risk"),
    )


def _text(entry: Mapping[str, Any], key: str) -> str | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, str):
        raise usage(f"{key} of [[anonymity]] must be a string.", hint=_HINT)
    return value


def _texts(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = entry.get(key, [])
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise usage(f"{key} of [[anonymity]] must be a list of columns.", hint=_HINT)
    return tuple(listed)


def _share(entry: Mapping[str, Any], key: str) -> float | None:
    return None if key not in entry else float(exact_number(key, entry[key], 0, 1))


def _distance(entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    given = entry.get("distance", {})
    if not isinstance(given, Mapping) or not all(isinstance(value, str) for value in given.values()):
        raise usage('distance of [[anonymity]] is a table such as { dx = "ordered" }.', hint=_HINT)
    words = {"equal", "ordered"}
    return {name: value if value in words else str(folder / value) for name, value in given.items()}


def check(source: Any, policy: Policy | str | Path | Mapping[str, Any]) -> Verdict:
    """Check the tables of a source against a policy; a rule that matches no table counts as broken."""
    if isinstance(policy, Policy):
        rules = policy.rules
    else:
        rules = (policy_from(policy) if isinstance(policy, Mapping) else read_policy(policy)).rules
    known = table_names(source)
    return Verdict(tuple(finding for rule in rules for finding in _findings(source, rule, known)))


def _findings(source: Any, rule: Rule, known: list[str]) -> list[Finding]:
    wanted = None if rule.table is None else fold(rule.table)
    tables = known if wanted is None else [name for name in known if fnmatchcase(name, wanted)]
    if not tables or (rule.table is None and len(tables) > 1):
        said = f"No table matches {rule.table}" if rule.table else "Several tables, and the rule names none"
        return [Finding("anonymity", rule.table or "", broken=True, sentence=f"{said}: the rule cannot be checked.")]
    found: list[Finding] = []
    for table in tables:
        measured = measure(
            source, rule.quasi, rule.sensitive, rule.owner, table, rule.population, rule.sampling, rule.distance
        )
        found += [_named(finding, table) for finding in _of_table(measured, rule)]
    return found


def _named(finding: Finding, table: str) -> Finding:
    return Finding(
        finding.rule, f"{table}: {finding.subject}", finding.broken, f"{table}: {finding.sentence}", finding.measured,
        finding.limit,
    )  # fmt: skip


def _of_table(measured: Measurement, rule: Rule) -> list[Finding]:
    demands = dict(rule.demands)
    found = []
    if rule.max_share_below_k is not None:
        found.append(_share_below(measured, int(demands.pop("k")), rule.max_share_below_k))
    found += [measured.finding(demand) for demand in (measured.demands(demands) if demands else ())]
    if rule.max_risk is not None:
        found.append(_risk(measured, rule.max_risk))
    return found


def _share_below(measured: Measurement, k: int, limit: float) -> Finding:
    share = measured.below(k).owners / max(int(measured.found.owners.sum()), 1)
    sentence = f"{share:.2%} of the {measured.unit} are in classes of fewer than {k:,}; the limit is {limit:.2%}."
    return Finding("max_share_below_k", ", ".join(measured.quasi), share > limit, sentence, share, limit)


def _risk(measured: Measurement, limit: float) -> Finding:
    attacker = measured.risk.journalist or measured.risk.prosecutor
    sentence = f"The highest risk of re-identification is {attacker.highest:.3g}; the limit is {limit:.3g}."
    broken = attacker.highest > limit + 1e-12
    return Finding("max_risk", ", ".join(measured.quasi), broken, sentence, attacker.highest, limit)
