"""What none of this protects from: each limit with a number of this very table, and the page that shows the attack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shoal.anonymity.reports.words import counted, number, of_owners, percent
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.anonymity.measuring.measurement import Measurement, Sensitive

CAVEAT = (
    "k-anonymity and its relatives are syntactic: a property of the output, not of the process that made it. They say "
    "nothing about what an attacker infers from how it was made or from other data. For a property of the process: shoal query."
)


@dataclass(frozen=True, slots=True)
class Limit:
    """One thing an attacker can still do."""

    name: str
    title: str
    sentence: str
    number: float | None
    see: str

    def to_dict(self) -> dict[str, object]:
        """For machines."""
        return {"name": self.name, "sentence": self.sentence, "number": self.number, "see": self.see}


def not_protected(
    found: Measurement, recoded: str | None = None, finer: dict[str, int] | None = None
) -> tuple[Limit, ...]:
    """Every limit, in the order of the page."""
    return (
        *_of_values(found),
        *_of_columns(found),
        _composition(found),
        *_of_the_search(recoded, finer),
        _fake_owners(found),
        *_presence(found),
        *_profiles(found),
        _choice(found),
    )


def _of_values(found: Measurement) -> Iterator[Limit]:
    if not found.sensitive:
        yield Limit(
            "homogeneity", "Homogeneity",
            "No sensitive column was named: whether all owners of a class share a value was not measured.",
            None, "shoal help howto/attack-homogeneity",
        )  # fmt: skip
    for column in found.sensitive.values():
        yield _homogeneity(found, column)
        yield _background(found, column)
        yield _gain(column)


def _homogeneity(found: Measurement, column: Sensitive) -> Limit:
    known = of_owners(column.homogeneous, int(found.found.owners.sum()), found.unit)
    sentence = f"The value of {column.column} is known for certain for {known}, whatever k is."
    if column.alpha < 1:
        sentence += (
            f" An attacker is surest of {counted(column.surest)} {found.unit}: their class has one value for "
            f"{percent(column.alpha)} of them."
        )
    return Limit(
        "homogeneity",
        f"Homogeneity: {column.column}",
        sentence,
        column.homogeneous,
        "shoal help howto/attack-homogeneity",
    )


def _background(found: Measurement, column: Sensitive) -> Limit:
    known = of_owners(column.nearly_known, int(found.found.owners.sum()), found.unit)
    return Limit(
        "background_knowledge", f"Background knowledge: {column.column}",
        f"An attacker who can rule out one value of {column.column} is certain about {known}: their class has at most "
        "two values.",
        column.nearly_known, "shoal help howto/attack-homogeneity",
    )  # fmt: skip


def _gain(column: Sensitive) -> Limit:
    return Limit(
        "similar_values", f"Similar values and probabilistic gain: {column.column}",
        f"Seeing a class makes some value of {column.column} up to {number(1 + column.beta)} times as likely as in the whole "
        f"table (β = {number(column.beta)}), and moves up to {percent(column.t)} of the distribution "
        f"(t = {number(column.t)}, {column.distance}). A class of HIV and hepatitis B counts as two values.",
        column.beta, "shoal help theory/anonymity",
    )  # fmt: skip


def _of_columns(found: Measurement) -> Iterator[Limit]:
    for name, unique in (found.extra or {}).items():
        yield Limit(
            "published_columns", f"Also published: {name}",
            f"Together with {name}, which is published as it is, {of_owners(unique, found.owners, found.unit)} are unique.",
            unique, "shoal help howto/attack-linkage",
        )  # fmt: skip


def _composition(found: Measurement) -> Limit:
    return Limit(
        "composition", "Composition",
        f"Nothing is known of other releases. Two that are k-anonymous each need not be so together: whoever is in both is in "
        f"the overlap of two classes, and the smallest class here has {counted(found.k)}. `shoal anonymity compose` measures two "
        "recodings of one table.",
        found.k, "shoal help howto/attack-composition",
    )  # fmt: skip


def _of_the_search(recoded: str | None, finer: dict[str, int] | None) -> Iterator[Limit]:
    if recoded is None:
        return
    if recoded == "fixed":
        yield Limit(
            "thresholding", "Thresholding",
            "The recoding was fixed beforehand. Which classes were suppressed still reveals that they were too small.",
            None, "shoal help theory/anonymity",
        )  # fmt: skip
        return
    worst = max((finer or {}).values(), default=0)
    sentence = (
        "The cuts were chosen from the data: whoever knows the method learns from each label that no finer cut was possible. "
        "Local recoding has been undone on real data (combinatorial refinement attacks, 2025)."
        if recoded == "local"
        else f"Levels were chosen from the data: whoever knows the method learns that each finer recoding failed, at one level "
        f"less by up to {counted(worst)} rows. Minimal recodings can be undone on some data (Cohen, 2022)."
    )
    sentence += " A transformation fixed beforehand (`shoal anonymity apply`) does not have this."
    yield Limit("minimality", "Minimality and downcoding", sentence, worst, "shoal help theory/anonymity")


def _fake_owners(found: Measurement) -> Limit:
    fakes = max(found.k - 1, 0)
    sentence = (
        f"With {counted(fakes)} fake {'owner' if fakes == 1 else 'owners'} in the smallest class, one real one is left."
        if fakes
        else "Somebody is alone in a class already: no fake owner is needed."
    )
    sentence += " A known total gives a suppressed count back by subtraction."
    return Limit("added_rows", "An attacker who adds rows", sentence, fakes, "shoal help howto/attack-differencing")


def _presence(found: Measurement) -> Iterator[Limit]:
    if found.presence is None:
        yield Limit(
            "presence", "Presence",
            "Whether somebody is in the table at all is not protected: no population was given to measure δ-presence with.",
            None, "shoal help howto/attack-membership",
        )  # fmt: skip
    else:
        yield Limit(
            "presence", "Presence",
            f"Of some class, {percent(found.presence[1])} of the population is in the table: an attacker is that sure.",
            found.presence[1], "shoal help howto/attack-membership",
        )  # fmt: skip


def _profiles(found: Measurement) -> Iterator[Limit]:
    if found.profile_k < found.k:
        yield Limit(
            "profiles", "Owners with several rows",
            f"An owner is known by the set of their classes. Only {counted(found.profile_k)} share the rarest set, while every "
            f"class has {counted(found.k)}.",
            found.profile_k, "shoal help theory/anonymity",
        )  # fmt: skip


def _choice(found: Measurement) -> Limit:
    return Limit(
        "quasi_identifiers", "The choice of quasi-identifiers",
        f"All of this holds against an attacker who knows {', '.join(found.quasi)} and nothing else. k-anonymity is also not "
        "closed under post-processing: a table computed from this one need not have it.",
        len(found.quasi), "shoal help howto/attack-linkage",
    )  # fmt: skip
