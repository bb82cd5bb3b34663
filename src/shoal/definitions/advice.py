"""The guide: from what must be protected, against whom, and how often, to a definition, with reasons.

The rules are data, tried in order, the first that fits is taken: the web page asks the same ones. `definition` says what
is protected and assumed, `combine_with` how losses are counted.

    >>> advice = guide(repeats="many", attacker="partial")
    >>> advice.definition, advice.combine_with, advice.offered_by
    ('participant-dp', 'approximate-dp', 'session')
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from shoal.definitions.catalogue import get
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

PROTECTS = ("person", "event", "attribute", "place", "text", "some values", "group", "graph", "stream")
ATTACKERS = ("full", "partial", "polynomial")
REPEATS = ("once", "few", "many")
NEEDS = (
    "never fails",
    "exact output",
    "personal levels",
    "constraints",
    "many gaussians",
    "no trusted collector",
)


@dataclass(frozen=True)
class Rule:
    """If everything it names is so, then this. An empty list means whatever."""

    reason: str
    gives: str | None = None
    protects: tuple[str, ...] = ()
    attacker: tuple[str, ...] = ()
    repeats: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    watch_out: tuple[str, ...] = ()
    offered_by: str = "none"
    first: tuple[str, ...] = ()
    """What is said before the reason."""

    def fits(self, protects: str, attacker: str, repeats: str, needs: frozenset[str]) -> bool:
        """Whether it applies."""
        return (
            (not self.protects or protects in self.protects)
            and (not self.attacker or attacker in self.attacker)
            and (not self.repeats or repeats in self.repeats)
            and set(self.needs) <= needs
        )


@dataclass(frozen=True)
class Advice:
    """A definition, how to count losses, why, what to choose, what to watch out for, and what this program offers for it."""

    definition: str
    combine_with: str | None
    reasons: tuple[str, ...]
    parameters_to_choose: dict[str, str]
    watch_out: tuple[str, ...]
    offered_by: str

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)

    def __str__(self) -> str:
        counted = f", losses counted as {self.combine_with}" if self.combine_with else ""
        lines = [
            f"{get(self.definition).name} [{self.definition}]{counted}",
            *(f"  because: {reason}" for reason in self.reasons),
            *(f"  choose {name}: {what}" for name, what in self.parameters_to_choose.items()),
            *(f"  watch out: {warning}" for warning in self.watch_out),
            f"  offered here by: {OFFERS[self.offered_by]}",
        ]
        return "\n".join(lines)


OFFERS = {
    "session": "session (shoal.connect, shoal query)",
    "knowledge": "knowledge (shoal.knowledge)",
    "policy": "policy (shoal.policy)",
    "local": "local (shoal.local)",
    "none": "none: nothing here implements it",
}

BRITTLE = (
    "brittle: the promise breaks when the attacker knows a little more than assumed, or when anything else is ever "
    "released from the same data"
)

DEFINITIONS = (
    Rule(
        "one exact output, never repeated, against somebody who lacks part of the data: their uncertainty is the noise",
        "active-pk-dp",
        attacker=("partial",),
        repeats=("once",),
        needs=("exact output",),
        first=(BRITTLE,),
        watch_out=(
            "If the attacker cannot choose what they know, passive-pk-dp is enough; for plain counts both are equal.",
        ),
        offered_by="knowledge",
    ),
    Rule(
        "for places, how much may be revealed grows with the distance",
        "geo-indistinguishability",
        protects=("place",),
        watch_out=("Repeated positions of one person add up: a track needs a budget.",),
        offered_by="local",
    ),
    Rule("for text, how much may be revealed grows with a distance of words", "d-privacy", protects=("text",),
         watch_out=("The distance decides everything: what is far apart is hardly protected.",), offered_by="local"),
    Rule(
        "some values are secret, and everybody knows constraints on the data",
        "blowfish",
        protects=("some values",),
        needs=("constraints",),
        watch_out=("Values that the policy does not connect are not protected from each other.",),
        offered_by="policy",
    ),
    Rule(
        "only some values are secret; records without them may be revealed exactly",
        "one-sided-dp",
        protects=("some values",),
        watch_out=("That a record is *not* sensitive is revealed.",),
        offered_by="policy",
    ),
    Rule(
        "constraints on the data are known to everybody: neighbours must respect them",
        "blowfish",
        protects=("person", "event", "attribute"),
        needs=("constraints",),
        watch_out=("Constraints tie people together: the sensitivity may grow with the longest chain.",),
        offered_by="policy",
    ),
    Rule(
        "people whose data hangs together must be protected together",
        "group-dp",
        protects=("group",),
        watch_out=("Noise grows with the size of the group.",),
        offered_by="session",
    ),
    Rule(
        "each person has their own epsilon",
        "personalized-dp",
        needs=("personal levels",),
        watch_out=("Asking for more protection may itself reveal something: keep levels secret, or independent of the data.",),
    ),
    Rule(
        "parties compute together, and the attacker is bounded to polynomial time",
        "ind-computational-dp",
        attacker=("polynomial",),
        watch_out=("It rests on cryptographic assumptions, and on every party following the protocol.",),
    ),
    Rule(
        "people are the nodes of a graph, with all their edges",
        "node-dp",
        protects=("graph",),
        watch_out=("edge-dp is easier and hides one edge, not a person.",),
    ),
    Rule(
        "the state of a stream may leak: it must be private too",
        "pan-privacy-user",
        protects=("stream",),
        needs=("no trusted collector",),
    ),
    Rule(
        "all that a person contributes to the stream is protected together",
        "participant-dp",
        protects=("stream",),
        watch_out=("Every release of the stream spends from one budget.",),
        offered_by="session",
    ),
    Rule(
        "nobody may be trusted with raw data: each person randomises before it is collected",
        "local-dp",
        protects=("person", "event", "attribute"),
        needs=("no trusted collector",),
        watch_out=("Errors are larger by the square root of the number of people.",),
        offered_by="local",
    ),
    Rule(
        "single events are what must be hidden",
        "event-dp",
        protects=("event",),
        watch_out=("A person with many events is hardly protected: participant-dp unless single events are all that matters.",),
    ),
    Rule(
        "one attribute of a person is what must be hidden",
        "attribute-dp",
        protects=("attribute",),
        watch_out=("That a person is in the data, and all attributes together, are not hidden.",),
        offered_by="policy",
    ),
    Rule(
        "people are what must be protected, with everything they contribute: never single events",
        "participant-dp",
        offered_by="session",
    ),
)  # fmt: skip

LOSSES = (
    Rule("the bound may never fail", "dp", needs=("never fails",)),
    Rule("many answers with Gaussian noise add up best in this currency; gaussian-dp is exact for them",
         "zero-concentrated-dp", needs=("many gaussians",)),
    Rule("a small chance of failure buys much accuracy; never probabilistic-dp, which post-processing breaks", "approximate-dp"),
)  # fmt: skip

NOTES = (
    Rule("more than one answer: definitions that count on what the attacker lacks (dimension B) do not compose, whoever "
         "the attacker is", repeats=("few", "many")),
    Rule("", watch_out=("Exact output is not possible here: it needs a single output, and an attacker who lacks data.",),
         needs=("exact output",), repeats=("few", "many")),
    Rule("", watch_out=("Exact output is not possible here: against this attacker there must be noise.",),
         needs=("exact output",), attacker=("full", "polynomial"), repeats=("once",)),
    Rule("", watch_out=("Gaussian noise always needs a δ: with a bound that never fails, take Laplace noise.",),
         needs=("never fails", "many gaussians")),
    Rule("", watch_out=("Many answers: fix a budget for all of them, and count everybody who may compare notes as one.",),
         repeats=("many",)),
)  # fmt: skip

PARAMETERS = {
    "epsilon": "how much may be learned; 1 a question and 3 in all unless there is a reason",
    "delta": "min(1e-6, 1/(100 · people))",
    "Theta": "the distributions of the data, as seen by the attacker",
    "d": "the distance, and how much of it makes one epsilon",
    "P": "the policy: which records are sensitive",
    "G": "the graph: which values must look alike",
    "Q": "the constraints that everybody knows",
    "c": "the size of a group",
    "Psi": "the epsilon of each person",
    "epsilon_kappa": "epsilon, for each length of the keys",
    "xi": "0 unless there is a reason",
    "rho": "epsilon²/2 of a pure release, or 1/(2σ²) of Gaussian noise",
}


def guide(
    protects: str = "person", attacker: str = "full", repeats: str = "few", needs: Iterable[str] | str = ()
) -> Advice:
    """Which definition suits: what is protected, against whom, how many answers, and what else is needed.

    >>> guide(protects="some values", needs=["constraints"]).definition
    'blowfish'
    """
    wanted = frozenset([needs] if isinstance(needs, str) else needs)
    for word, allowed, what in (
        (protects, PROTECTS, "protects"),
        (attacker, ATTACKERS, "attacker"),
        (repeats, REPEATS, "repeats"),
        *((need, NEEDS, "needs") for need in sorted(wanted, key=str)),
    ):
        if word not in allowed:
            raise ShoalError(
                "E_USAGE", f"The guide does not know this word for {what}.", hint=f"Words: {', '.join(allowed)}."
            )
    situation = (protects, attacker, repeats, wanted)
    main = next(rule for rule in DEFINITIONS if rule.fits(*situation))
    loss = next(rule for rule in LOSSES if rule.fits(*situation))
    notes = [] if main.gives == "active-pk-dp" else [rule for rule in NOTES if rule.fits(*situation)]
    counted = None if main.gives == "active-pk-dp" else loss.gives
    return Advice(
        str(main.gives),
        counted,
        (*main.first, *(rule.reason for rule in (main, *([loss] if counted else []), *notes) if rule.reason)),
        _parameters(str(main.gives), counted),
        tuple(warning for rule in (main, *notes) for warning in rule.watch_out),
        main.offered_by,
    )


def _parameters(definition: str, counted: str | None) -> dict[str, str]:
    """Every parameter of both, once, in words; an ε that ρ replaces is not asked for."""
    named = [*get(definition).parameters, *(get(counted).parameters if counted else ())]
    if counted == "zero-concentrated-dp" and "epsilon" in named:
        named.remove("epsilon")
    return {name: PARAMETERS.get(name, "see its source") for name in dict.fromkeys(named)}
