"""The releases whose loss can be computed: bare counts, histograms, thresholds, k-anonymous tables, repeated counts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.knowledge import checks
from shoal.knowledge.blanket import Blanket
from shoal.knowledge.counts import MOST_CORNERS, KnownChances, count_loss
from shoal.knowledge.guarantee import (
    Guarantee,
    assumptions_about,
    chances_words,
    expectation_warning,
    ignorance_warnings,
    spread_words,
)
from shoal.knowledge.k_anonymous import KAnonymity
from shoal.knowledge.repeated import RepeatedBlanket, RepeatedKnownChances
from shoal.knowledge.thresholds import KnownThreshold, Threshold

if TYPE_CHECKING:
    from collections.abc import Iterable

    from shoal.knowledge.losses import Loss


def count(
    people: int,
    *,
    uncertainty: float | None = None,
    probabilities: Iterable[float] | None = None,
    known: int = 0,
    noise_scale: float | None = None,
    related: int = 1,
) -> Guarantee:
    """The exact number of yes among people, of whom the attacker knows `known` and not the target.

    Everybody else says yes with a chance in [uncertainty, 1 − uncertainty], or with the given probabilities (one for each
    unknown person, the target included). `noise_scale` adds two-sided geometric noise, `related` people move together.

    >>> count(1000, uncertainty=0.1, known=900).epsilon_at(1e-6)
    inf
    """
    people, known = checks.people_and_known(people, known)
    noise = checks.noise_scale_of(noise_scale)
    group = checks.whole(related, "related", 1, checks.MOST_RELATED)
    if people - known < group:
        raise ShoalError(
            "E_USAGE", "There are fewer unknown people than related ones.", hint=f"related={people - known}"
        )
    checks.exactly_one(uncertainty, probabilities, "uncertainty and probabilities")
    unknown = people - known - group
    loss: Loss
    if probabilities is not None:
        chances = checks.probabilities_of(probabilities, people - known, "unknown person, the target included")
        checks.groups_are_few(chances, group)
        loss, method, words = KnownChances(chances, group, noise), "exact", chances_words()
    else:
        spread = checks.uncertainty_of(uncertainty)
        loss = count_loss(unknown, spread, group, noise)
        method, words = "worst case" if unknown <= MOST_CORNERS else "blanket", spread_words(spread)
    warned = ignorance_warnings(people, unknown, uncertainty, 0.0 if noise else loss.smallest)
    return Guarantee(
        "An exact count" if noise is None else f"A count with geometric noise of scale {noise:g}",
        loss,
        method,
        (*assumptions_about(people, known, words, group), *_group_words(group)),
        warned,
        None if noise is None else (group / noise, 0.0),
    )


def _group_words(group: int) -> tuple[str, ...]:
    if group == 1:
        return ()
    return (
        (
            f"At most {group} people, the target among them, move together, and everybody outside this group still answers "
            "independently. (If all vote in pairs, the parity of the total reveals a single target.)"
        ),
    )


def histogram(people: int, *, uncertainty: float, known: int = 0) -> Guarantee:
    """Exact counts of all options of a choice, each of which everybody unknown takes with a chance of at least λ.

    >>> round(histogram(1000, uncertainty=0.05).epsilon_at(1e-6), 4)
    0.9004
    """
    people, known = checks.people_and_known(people, known)
    spread = checks.uncertainty_of(uncertainty)
    loss = Blanket(people - known - 1, spread)
    words = f"Everybody unknown to the attacker chooses every option with a chance of at least {spread:g}."
    warned = ignorance_warnings(people, loss.unknown, spread, loss.smallest)
    total = "The total is known: the count of one option follows from the others."
    return Guarantee(
        "Exact counts of every option", loss, "blanket", assumptions_about(people, known, words), (*warned, total)
    )


def threshold(
    people: int,
    threshold: int,
    *,
    at_most: float | None = None,
    probabilities: Iterable[float] | None = None,
    known: int = 0,
    attacker: str = "passive",
    both_sides: bool = False,
) -> Guarantee:
    """A count that is shown when it is above the threshold; `both_sides`: and when more than that many said no.

    Every unknown chance is at most `at_most`, or as given: with known people, their probabilities come last. A passive
    attacker sees what the known people said, an active one makes them say it.

    >>> f"{threshold(1000, 20, at_most=0.005).delta_at(1):.4e}"
    '1.1340e-07'
    """
    people, known = checks.people_and_known(people, known)
    shown_above = checks.whole(threshold, "threshold", 0, checks.MOST_PEOPLE)
    if both_sides and 2 * shown_above >= people:
        raise ShoalError(
            "E_USAGE", "With both_sides, threshold must be below half of the people.", hint="A smaller one."
        )
    checks.exactly_one(at_most, probabilities, "at_most and probabilities")
    active = checks.one_of(attacker, checks.ATTACKERS, "attacker") == "active"
    if probabilities is not None:
        chances = checks.probabilities_of(probabilities, people, "person, the known ones last")
        loss: Loss = KnownThreshold(chances, shown_above, known, active, both_sides)
        method, words, expected = "exact", chances_words(), math.fsum(chances)
    else:
        most = checks.number_between(at_most, "at_most", 0.0, 1.0, open_low=False)
        loss = Threshold(people - known - 1, shown_above, most, known, active, both_sides)
        method, expected = "worst case", people * most
        words = f"Everybody unknown to the attacker says yes with a chance of at most {most:g}."
    warned = ignorance_warnings(people, people - known - 1, None, loss.smallest)
    return Guarantee(
        f"A count shown only where more than {shown_above} said yes"
        + (f" and more than {shown_above} said no" if both_sides else ""),
        loss,
        method,
        (*assumptions_about(people, known, words), *(_attacker_words(active=active) if known else ())),
        (*warned, *expectation_warning(shown_above, expected)),
    )


def _attacker_words(*, active: bool) -> tuple[str, ...]:
    if active:
        return ("The attacker decides what the known people answer.",)
    return ("The known people's answers are random like the others'.",)


def k_anonymity(
    people: int, threshold: int, *, boundary: float, known: int = 0, fixed_generalization: bool = True
) -> Guarantee:
    """A k-anonymous table: a fixed generalization, and the count of each value where it is above the threshold.

    >>> f"{k_anonymity(2000, 60, boundary=0.01).delta_at(4):.4e}"
    '2.4214e-06'
    """
    people, known = checks.people_and_known(people, known)
    shown_above = checks.whole(threshold, "threshold", 0, checks.MOST_PEOPLE)
    rare = checks.uncertainty_of(boundary, "boundary")
    if fixed_generalization is not True:
        raise ShoalError(
            "E_USAGE",
            "A generalization that depends on the data is part of the release, and nothing is known about what it gives away.",
            hint="Fix the generalization before looking at the data.",
        )
    words = f"Each value is for all unknown people either rare (a chance of at most {rare:g}) or common (at least {rare:g})."
    absent = (
        (
            f"Everybody unknown is absent from the table with a chance of at least {rare:g}, and the number of absent people is "
            "never shown."
        ),
        "The generalization was fixed before anybody looked at the data.",
    )
    loss = KAnonymity(people - known - 1, shown_above, rare, known)
    warned = (
        *ignorance_warnings(people, loss.unknown, rare, loss.smallest),
        "Minimality, homogeneity and linkage with other tables are not covered.",
    )
    release = f"A k-anonymous table that shows counts above {shown_above}"
    return Guarantee(release, loss, "blanket", (*assumptions_about(people, known, words), *absent), warned)


def repeated(
    people: int,
    times: int,
    *,
    uncertainty: float | None = None,
    probabilities: Iterable[float] | None = None,
    known: int = 0,
    answers: str,
) -> Guarantee:
    """A count that is released `times` times. Exact counts over the same people compose only under stated assumptions.

    `answers`: "new people" (nobody is in two releases), "independent" (what a person says at one time reveals nothing about
    another), "dependent" (given a person's past, each answer keeps a chance of at least λ).

    >>> f"{repeated(1000, 2, uncertainty=0.2, answers='dependent').delta_at(1):.4e}"
    '1.8346e-06'
    """
    together = checks.answers_of(answers)
    people, known = checks.people_and_known(people, known)
    number = checks.whole(times, "times", 1, checks.MOST_TIMES)
    checks.exactly_one(uncertainty, probabilities, "uncertainty and probabilities")
    if together == "new people":
        return _new_people(count(people, uncertainty=uncertainty, probabilities=probabilities, known=known), number)
    release = f"An exact count, released {number} times"
    if probabilities is not None:
        if together == "dependent":
            raise ShoalError(
                "E_USAGE",
                "Probabilities do not say what an answer depends on.",
                hint="Give uncertainty=, the smallest chance of either answer given a person's past.",
            )
        chances = checks.probabilities_of(probabilities, people - known, "unknown person, the target included")
        loss: Loss = RepeatedKnownChances(chances, number)
        return _repeated(release, people, known, loss, "grid", chances_words(), together)
    spread = checks.uncertainty_of(uncertainty)
    if together == "dependent":
        loss = Blanket(people - known - 1, spread**number)
        return _repeated(release, people, known, loss, "blanket", spread_words(spread), together, spread**number)
    loss = RepeatedBlanket(people - known - 1, spread, number)
    return _repeated(release, people, known, loss, "grid", spread_words(spread), together, spread)


def _new_people(single: Guarantee, times: int) -> Guarantee:
    return Guarantee(
        f"An exact count, released {times} times",
        single.loss,
        single.method,
        (*single.assumptions, "Nobody is in two of the releases."),
        single.warnings,
    )


def _repeated(
    release: str,
    people: int,
    known: int,
    loss: Loss,
    method: str,
    words: str,
    together: str,
    spread: float | None = None,
) -> Guarantee:
    how = {
        "independent": "A person's answers at different times are independent of each other.",
        "dependent": "Given everything a person said before, this holds for each new answer.",
    }
    warned = ignorance_warnings(people, people - known - 1, spread, loss.smallest)
    return Guarantee(release, loss, method, (*assumptions_about(people, known, words), how[together]), warned)
