"""Hold sketches to a policy: which rules are broken, by which columns, and what moved since a baseline."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import product
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.pages import findings
from shoal.risk.checking.baseline import Comparison, Movement, compare_with_baseline, sketches_by_name
from shoal.risk.checking.policy import Change, Containment, Judge, KAnonymity, Policy, Uniqueness
from shoal.risk.joining.containment import containment
from shoal.risk.sketch.estimate import Estimate, exactly
from shoal.risk.sketch.grading import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from shoal.risk.sketch.files import SketchedDataset
    from shoal.risk.sketch.khll import Sketch


class Finding(findings.Finding[Estimate]):
    """What a rule says about a column or a pair."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Verdict(findings.Verdict[Finding]):
    """Whether a policy holds, and what moved since the baseline."""

    comparison: Comparison | None = None

    def to_dict(self) -> dict[str, object]:
        """All of it, for machines."""
        moved = self.comparison.to_dict() if self.comparison else None
        return {**findings.Verdict.to_dict(self), "baseline": moved}


def check(
    datasets: Sequence[SketchedDataset], policy: Policy, baseline: Sequence[SketchedDataset] | None = None
) -> Verdict:
    """Check sketches against a policy, and compare them with those of an earlier scan."""
    sketches = sketches_by_name(datasets)
    earlier = None if baseline is None else sketches_by_name(baseline)
    found: list[Finding] = []
    for rule in policy.rules:
        match rule:
            case Uniqueness():
                found += _check_uniqueness(rule, sketches)
            case Containment():
                found += _check_containment(rule, sketches)
            case KAnonymity():
                found += _check_k_anonymity(rule, sketches)
            case Change():
                found += _check_change(rule, sketches, earlier)
    comparison = None if baseline is None else compare_with_baseline(datasets, baseline)
    return Verdict(tuple(found), comparison)


def _beyond(measured: Estimate, limit: float, judge: Judge) -> bool:
    judged = {"estimate": measured.value, "surely": measured.low, "possibly": measured.high}[judge]
    return judged > limit


def _matching(patterns: Sequence[str], names: Sequence[str] | dict[str, Sketch]) -> list[str]:
    return [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]


def _nothing(rule: str, patterns: Sequence[str]) -> list[Finding]:
    listed = ", ".join(patterns)
    return [Finding(rule, listed, broken=True, sentence=f"No sketch matches {listed}: the rule cannot be checked.")]


def _shown(measured: Estimate) -> str:
    interval = "" if measured.exact else f" ({percent(measured.low)} to {percent(measured.high)})"
    return percent(measured.value) + interval


def _check_uniqueness(rule: Uniqueness, sketches: dict[str, Sketch]) -> list[Finding]:
    found = []
    for name in _matching(rule.columns, sketches):
        measured = sketches[name].share_below(rule.below, of=rule.of)
        broken = _beyond(measured, rule.max_share, rule.judge)
        sentence = (
            f"{_shown(measured)} of the {rule.of} of {name} are below {rule.below} owners; "
            f"the limit is {percent(rule.max_share)}."
        )
        found.append(Finding("uniqueness", name, broken, sentence, measured, rule.max_share))
    return found or _nothing("uniqueness", rule.columns)


def _check_containment(rule: Containment, sketches: dict[str, Sketch]) -> list[Finding]:
    """The pair of columns with the largest containment speaks for all."""
    here, there = (_matching([side, f"{side}.*"], sketches) for side in rule.between)
    pairs = [(a, b) for a, b in product(here, there) if a != b]
    if not pairs:
        return _nothing("containment", rule.between)
    found = [
        (containment(sketches[one], sketches[other]), one, other) for a, b in pairs for one, other in ((a, b), (b, a))
    ]
    broken = [entry for entry in found if _beyond(entry[0], rule.max, rule.judge)]
    shown = broken or [max(found, key=lambda entry: entry[0].value)]
    return [
        Finding(
            "containment", f"{one} in {other}", bool(broken),
            f"{_shown(measured)} of {one} is in {other}; the limit is {percent(rule.max)}.", measured, rule.max,
        )
        for measured, one, other in shown
    ]  # fmt: skip


def _check_k_anonymity(rule: KAnonymity, sketches: dict[str, Sketch]) -> list[Finding]:
    """The rarest value seen; where values were sampled, how many unseen ones might be rarer."""
    wanted = sorted(rule.columns)
    names = [name for name in sketches if name.startswith(f"{rule.table}.")]
    matching = [name for name in names if sorted(name.removeprefix(f"{rule.table}.").split("+")) == wanted]
    matching = matching or [name for name in names if name == f"{rule.table}.{'+'.join(rule.columns)}"]
    if not matching:
        return _nothing("k_anonymity", [f"{rule.table}.{'+'.join(rule.columns)}"])
    sample = sketches[matching[0]].sample()
    smallest = round(float(sample.owners_of_value.min())) if len(sample.owners_of_value) else rule.min_owners
    share = sketches[matching[0]].share_below(rule.min_owners)
    broken = smallest < rule.min_owners
    sentence = f"The rarest value seen of {matching[0]} has {smallest:,} owners; the limit is {rule.min_owners:,}."
    if not broken and not share.exact:
        sentence += f" Up to {percent(share.high)} of the values, which were not sampled, might have fewer."
    return [Finding("k_anonymity", matching[0], broken, sentence, exactly(smallest), rule.min_owners)]


def _check_change(rule: Change, sketches: dict[str, Sketch], earlier: dict[str, Sketch] | None) -> list[Finding]:
    if earlier is None:
        raise ShoalError("E_USAGE", "The policy has [[change]] rules, which need a baseline.", hint="--baseline FOLDER")
    found = []
    for name in _matching(rule.columns, [name for name in sketches if name in earlier]):
        shares = [each[name].share_below(rule.below, of=rule.of) for each in (earlier, sketches)]
        movement = Movement(name, f"share of {rule.of} below {rule.below}", *shares)
        slack = (movement.before.error**2 + movement.now.error**2) ** 0.5
        risen = Estimate(movement.change, movement.change - slack, movement.change + slack)
        sentence = (
            f"The share of {rule.of} of {name} below {rule.below} owners went from {percent(shares[0].value)} to "
            f"{percent(shares[1].value)}; it may rise by {percent(rule.max_rise)}."
        )
        found.append(Finding("change", name, _beyond(risen, rule.max_rise, rule.judge), sentence, risen, rule.max_rise))
    return found or _nothing("change", rule.columns)
