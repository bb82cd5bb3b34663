"""Composition: what many claims cost together, by every rule that applies, side by side.

>>> together = compose("dp(0.1)*50", delta=1e-6)
>>> together.rule, round(together.epsilon, 6)
('optimal', 3.172903)
>>> round(together.by_rule["advanced"], 6), together.by_rule["gdp"]
(3.919797, 'only for Gaussian claims, and dp(0.1) is not one')
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from shoal.accounting.claims import composition, loss_distributions, profiles
from shoal.accounting.claims.profiles import above, decimal_of
from shoal.accounting.zcdp import zcdp_delta, zcdp_epsilon
from shoal.errors import ShoalError, missing_extra
from shoal.frozen import dataclass
from shoal.guarantees.claims import (
    WHAT_CLAIMS,
    Claim,
    Claims,
    count_of,
    exact,
    kept_number,
    number_above,
    refused_parameter,
)
from shoal.guarantees.converting import delta_of, epsilon_of
from shoal.guarantees.parsing import parse
from shoal.mechanisms.certified import arithmetic

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

ADAPTIVE = "Holds also when each mechanism is chosen after seeing earlier answers, as long as these claims were fixed beforehand."


@dataclass(frozen=True)
class Question:
    """Either ε at a δ, or δ at an ε."""

    delta: Fraction | None
    epsilon: Fraction | None


Answer = float | str
"""A number, or a sentence that says why a rule has none."""


@dataclass(frozen=True)
class Composition:
    """Claims together: ε at the δ that was asked, or δ at the ε."""

    claims: Claims
    question: Question
    rule: str
    answer: float

    @property
    def epsilon(self) -> float:
        """The ε of all claims together."""
        return self.answer if self.question.epsilon is None else float(self.question.epsilon)

    @property
    def delta(self) -> float:
        """The δ that belongs to it."""
        return self.answer if self.question.delta is None else float(self.question.delta)

    @cached_property
    def by_rule(self) -> dict[str, float | str]:
        """Every rule's number, or why it has none."""
        counts = self.claims.counted()
        return {name: _asked(name, counts, self.question) for name in RULES}

    @cached_property
    def epsilon_at_least(self) -> float | None:
        """No analysis can show a smaller ε at this δ for all mechanisms that are meant; None where that is not known."""
        counts = self.claims.counted()
        pairs = _pairs(counts)
        if is_exact(counts) and not isinstance(pairs, str):
            exactly = _exactly(pairs)
            if not isinstance(exactly, str):
                return exactly.epsilon_at_least(exact(self.delta))
        parts = _parts(counts)
        if isinstance(parts, str) or loss_distributions.why_not(parts[0]) or not loss_distributions.is_installed():
            return None
        return _numerical_of(tuple(parts[0].items()), parts[1]).epsilon_at_least(exact(self.delta))

    def curve(self, points: int | Iterable[float] = 50, rule: str | None = None) -> list[tuple[float, float]]:
        """(ε, δ) pairs by the rule of this composition, or another: this many, spaced evenly, or at the ε that are given."""
        name = rule or self.rule
        answers = named_rule(name)
        if isinstance(points, int):
            count, last = count_of(points), self.epsilon * 1.25 or 1.0
            points = [last * step / max(count - 1, 1) for step in range(count)]
        counts = self.claims.counted()
        pairs = ((value, answers(counts, _question(None, value))) for value in points)
        return [(value, delta) for value, delta in pairs if isinstance(delta, float)]

    def to_dict(self) -> dict[str, Any]:
        """For machines."""
        return {"epsilon": self.epsilon, "delta": self.delta, "rule": self.rule, "by_rule": self.by_rule}

    def plot(self, path: str | Path | None = None) -> Any:
        """δ over ε, a line for each rule that applies (extra `plot`); written to a file where one is named."""
        from shoal.guarantees.charts import plot_curves

        applies = [name for name, value in self.by_rule.items() if isinstance(value, float)]
        return plot_curves({name: self.curve(60, name) for name in applies}, str(self.claims), self.rule, path)

    def __str__(self) -> str:
        asked, letter = (
            (f"δ = {self.delta:g}", "ε") if self.question.epsilon is None else (f"ε = {self.epsilon:g}", "δ")
        )
        numbers = {name: value for name, value in self.by_rule.items() if isinstance(value, float)}
        lines = [f"{self.claims} at {asked}", "", f"{'rule':<10} {letter}"]
        for name in sorted(numbers, key=numbers.__getitem__):
            chosen = "  ← taken" if name == self.rule else ""
            lines.append(f"{name:<10} {numbers[name]:.7g}{chosen}")
        lines += [f"{name:<10} {why}" for name, why in self.by_rule.items() if isinstance(why, str)]
        if self.rule not in numbers:
            lines.append("\nNothing is promised by the rule that was asked for.")
        return "\n".join([*lines, "", ADAPTIVE])


def compose(
    claims: str | Claim | Iterable[Claim | Claims],
    delta: float | Fraction | None = None,
    *,
    epsilon: float | Fraction | None = None,
    rule: str = "best",
) -> Composition:
    """What the claims cost together: ε at `delta`, or δ at `epsilon` (exactly one of them).

    `rule` is one of basic, advanced, optimal, zcdp, renyi, gdp, numerical, or best, the smallest of them. Where it does not
    apply, nothing is promised: ε is infinite (δ is 1), and `by_rule` says why.

    >>> round(compose("gaussian(20)*50", delta=1e-6, rule="gdp").epsilon, 6)
    1.54363
    """
    question = _question(delta, epsilon)
    listed = claims_of(claims)
    counts = listed.counted()
    if rule == "best":
        chosen, answer = _best(counts, question)
    else:
        chosen, answer = rule, named_rule(rule)(counts, question)
    if isinstance(answer, str):
        # What always holds: any loss at all, with chance 1.
        answer = math.inf if question.epsilon is None else 1.0
    return Composition(listed, question, chosen, answer)


def claims_of(claims: str | Claim | Iterable[Claim | Claims]) -> Claims:
    """Claims from text, from one claim or from a list; at least one."""
    listed = parse(claims) if isinstance(claims, str) else Claims.of(claims)
    if not len(listed):
        raise ShoalError("E_USAGE", "There are no claims to compose.", hint=WHAT_CLAIMS)
    count_of(len(listed))
    return listed


def named_rule(name: str) -> Callable[[Counter[Claim], Question], Answer]:
    """A rule by its name."""
    if name not in RULES:
        raise ShoalError("E_USAGE", "There is no such rule.", hint=f"Rules: {', '.join(RULES)}, best.")
    return RULES[name]


def _question(delta: object, epsilon: object) -> Question:
    if (delta is None) == (epsilon is None):
        raise ShoalError(
            "E_USAGE", "Exactly one of delta and epsilon is asked for.", hint="Write delta=1e-6, or epsilon=1."
        )
    if delta is not None:
        chance = exact(kept_number(delta, "delta", "at least 0 and less than 1"))
        if not 0 <= chance < 1:
            raise refused_parameter("delta", "must be at least 0 and less than 1", "0 ≤ delta < 1")
        return Question(chance, None)
    loss = exact(kept_number(epsilon, "epsilon", "from 0 to 1e6"))
    if not 0 <= loss <= 10**13:
        raise refused_parameter("epsilon", "must be at least 0 and at most 1e13", "0 ≤ epsilon ≤ 1e13")
    return Question(None, loss)


def _best(counts: Counter[Claim], question: Question) -> tuple[str, Answer]:
    """The smallest number; the numerical rule is spared where the optimal one is exact."""
    known: dict[str, Answer] = {name: rule(counts, question) for name, rule in RULES.items() if name != "numerical"}
    if not (is_exact(counts) and isinstance(known["optimal"], float)):
        known["numerical"] = _asked("numerical", counts, question)
    numbers = {name: value for name, value in known.items() if isinstance(value, float)}
    if not numbers:
        return "best", "; ".join(f"{name} {why}" for name, why in known.items())
    chosen = min(numbers, key=lambda name: (numbers[name], _PREFERENCE.index(name)))
    return chosen, numbers[chosen]


def _asked(name: str, counts: Counter[Claim], question: Question) -> Answer:
    """A rule's row of the table: without its extra, the numerical one says so."""
    if name == "numerical" and not loss_distributions.is_installed():
        return "not installed: pip install 'shoal[accounting]'"
    return RULES[name](counts, question)


def is_exact(counts: Counter[Claim]) -> bool:
    """Whether every claim is no better than randomised response, so that the optimal rule is the truth."""
    losses = [loss[0] for claim in counts if (loss := claim.loss()) is not None]
    return len(losses) == len(counts) and all(isinstance(loss, profiles.Response) for loss in losses)


# --- the rules --------------------------------------------------------------------------------------------------------


def _basic(counts: Counter[Claim], question: Question) -> Answer:
    """Σε and Σδ; claims without an ε share what is left evenly."""
    pairs = {claim: claim.approximate() for claim in counts}
    fixed = [(pair, counts[claim]) for claim, pair in pairs.items() if pair is not None]
    free = {claim: counts[claim] for claim, pair in pairs.items() if pair is None}
    epsilon = sum((pair[0] * times for pair, times in fixed), Fraction(0))
    delta = sum((pair[1] * times for pair, times in fixed), Fraction(0))
    if question.delta is not None:
        return _basic_epsilon(epsilon, delta, free, question.delta)
    return _basic_delta(epsilon, delta, free, question.epsilon or Fraction(0))


def _basic_epsilon(epsilon: Fraction, delta: Fraction, free: dict[Claim, int], asked: Fraction) -> Answer:
    if delta > asked:
        return f"the claims' own δ add up to {float(delta):g}"
    share = (asked - delta) / max(1, sum(free.values()))
    for claim, times in free.items():
        own = epsilon_of(claim, share)
        if own is None:
            return f"{claim} has no ε at δ = {float(share):g}"
        epsilon += own * times
    return number_above(epsilon)


def _basic_delta(epsilon: Fraction, delta: Fraction, free: dict[Claim, int], asked: Fraction) -> Answer:
    if epsilon > asked:
        return f"the claims' own ε add up to {float(epsilon):g}"
    if len(free) > 1:
        return _smallest_shared_delta(epsilon, delta, free, asked)
    for claim, times in free.items():
        own = delta_of(claim, (asked - epsilon) / times)
        if own is None:
            return f"{claim} has no δ at ε = {float(asked):g}"
        delta += own * times
    return number_above(min(delta, Fraction(1)))


def _smallest_shared_delta(epsilon: Fraction, delta: Fraction, free: dict[Claim, int], asked: Fraction) -> Answer:
    """The smallest δ, by bisection of its logarithm, at which an even share for each claim fits the ε."""

    def enough(power: float) -> bool:
        there = _basic_epsilon(epsilon, delta, free, delta + (1 - delta) * Fraction(10.0**power))
        return isinstance(there, float) and exact(there) <= asked

    low, high = -300.0, math.log10(1 - 1e-9)
    if not enough(high):
        return "the ε is too small to be shared"
    while high - low > 1e-12 * abs(low):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return number_above(min(delta + (1 - delta) * Fraction(10.0**high), Fraction(1)))


def _advanced(counts: Counter[Claim], question: Question) -> Answer:
    pairs = _pairs(counts)
    if isinstance(pairs, str):
        return pairs
    if len(pairs) > 1:
        return "only for claims with the same ε and δ"
    ((epsilon, delta), times), *_ = pairs.items()
    chance = composition.chance_of_any({delta: times})
    if question.delta is not None:
        if chance > question.delta:
            return f"the claims' own δ add up to {float(chance):g}"
        return number_above(composition.advanced_epsilon(epsilon, times, (question.delta - chance) / (1 - chance)))
    extra = composition.advanced_delta(epsilon, times, question.epsilon or Fraction(0))
    return "the mean loss is above this ε" if extra is None else number_above(chance + (1 - chance) * extra)


def _optimal(counts: Counter[Claim], question: Question) -> Answer:
    pairs = _pairs(counts)
    if isinstance(pairs, str):
        return pairs
    exactly = _exactly(pairs)
    if isinstance(exactly, str):
        return exactly
    if question.delta is None:
        return exactly.delta_at(question.epsilon or Fraction(0))
    epsilon_there = exactly.epsilon_at(question.delta)
    return "the claims' own δ add up to more" if epsilon_there is None else epsilon_there


def _exactly(pairs: Mapping[tuple[Fraction, Fraction], int]) -> composition.Optimal | str:
    """The joint profile of (ε, δ) claims, or why it is too large."""
    losses: dict[Fraction, int] = {}
    for (epsilon, _), times in pairs.items():
        if epsilon:
            losses[epsilon] = losses.get(epsilon, 0) + times
    if len(losses) > composition.MOST_DISTINCT:
        return f"only for up to {composition.MOST_DISTINCT} different ε"
    states = math.prod(count + 1 for count in losses.values())
    if states > composition.MOST_STATES:
        return f"there are {states:,} sums of losses, and at most {composition.MOST_STATES:,} are tried"
    return _optimal_of(tuple(losses.items()), _chance(pairs))


def _zcdp(counts: Counter[Claim], question: Question) -> Answer:
    rho, xi = Fraction(0), Fraction(0)
    deltas: dict[Fraction, int] = {}
    for claim, times in counts.items():
        dense = claim.concentrated()
        if dense is None:
            return f"{claim} has no ρ"
        rho, xi = rho + dense.rho * times, xi + dense.xi * times
        deltas[dense.chance] = deltas.get(dense.chance, 0) + times
    chance = composition.chance_of_any(deltas)
    if question.delta is not None:
        if question.delta <= chance:
            return "needs a larger δ"
        return number_above(xi + zcdp_epsilon(rho, (question.delta - chance) / (1 - chance)))
    room = (question.epsilon or Fraction(0)) - xi
    return "ξ alone is above this ε" if room < 0 else number_above(chance + (1 - chance) * zcdp_delta(rho, room))


def _renyi(counts: Counter[Claim], question: Question) -> Answer:
    curves = {claim: claim.renyi_curve() for claim in counts}
    without = next((claim for claim, curve in curves.items() if curve is None), None)
    if without is not None:
        return f"{without} has no Rényi curve"
    known = [(curve, counts[claim]) for claim, curve in curves.items() if curve is not None]
    deltas: dict[Fraction, int] = {}
    for curve, times in known:
        deltas[curve.chance] = deltas.get(curve.chance, 0) + times
    chance = composition.chance_of_any(deltas)
    together = composition.RenyiCurve(
        [(curve.at, times) for curve, times in known],
        min((curve.largest_order for curve, _ in known if curve.largest_order is not None), default=None),
        any(curve.whole_orders for curve, _ in known),
    )
    if question.delta is None:
        return number_above(chance + (1 - chance) * together.delta_at(question.epsilon or Fraction(0)))
    if question.delta <= chance:
        return "needs a larger δ"
    return number_above(together.epsilon_at((question.delta - chance) / (1 - chance)))


def _gdp(counts: Counter[Claim], question: Question) -> Answer:
    squares = Fraction(0)
    for claim, times in counts.items():
        mu = claim.gaussian_mu()
        if mu is None:
            return f"only for Gaussian claims, and {claim} is not one"
        squares += mu * mu * times
    with arithmetic():
        together = profiles.Gaussian(above(decimal_of(squares).sqrt()))
    if question.delta is None:
        return number_above(together.delta_at(question.epsilon or Fraction(0)))
    return number_above(together.epsilon_at(question.delta)) if question.delta > 0 else "needs a δ above 0"


def _numerical(counts: Counter[Claim], question: Question) -> Answer:
    if not loss_distributions.is_installed():
        raise missing_extra("accounting", "Numerical composition of losses")
    parts = _parts(counts)
    if isinstance(parts, str):
        return parts
    why = loss_distributions.why_not(parts[0])
    if why is not None:
        return why
    together = _numerical_of(tuple(parts[0].items()), parts[1])
    if question.delta is None:
        return together.delta_at(question.epsilon or Fraction(0))
    epsilon = together.epsilon_at(question.delta)
    return "δ is too small for floating point" if epsilon is None else epsilon


RULES: Mapping[str, Callable[[Counter[Claim], Question], Answer]] = {
    "basic": _basic,
    "advanced": _advanced,
    "optimal": _optimal,
    "zcdp": _zcdp,
    "renyi": _renyi,
    "gdp": _gdp,
    "numerical": _numerical,
}
_PREFERENCE = ("optimal", "gdp", "basic", "zcdp", "renyi", "advanced", "numerical")
"""Among equals: exact rules first."""


def _pairs(counts: Counter[Claim]) -> dict[tuple[Fraction, Fraction], int] | str:
    """(ε, δ) of every claim, equal ones counted."""
    pairs: dict[tuple[Fraction, Fraction], int] = {}
    for claim, times in counts.items():
        pair = claim.approximate()
        if pair is None:
            return f"{claim} has no (ε, δ) of its own"
        pairs[pair] = pairs.get(pair, 0) + times
    return pairs


def _chance(pairs: Mapping[tuple[Fraction, Fraction], int]) -> Fraction:
    deltas: dict[Fraction, int] = {}
    for (_, delta), times in pairs.items():
        deltas[delta] = deltas.get(delta, 0) + times
    return composition.chance_of_any(deltas)


def _parts(counts: Counter[Claim]) -> tuple[dict[profiles.Loss, int], Fraction] | str:
    """The losses of all claims, equal ones counted, and the chance that everything is revealed."""
    parts: dict[profiles.Loss, int] = {}
    deltas: dict[Fraction, int] = {}
    for claim, times in counts.items():
        worst = claim.loss()
        if worst is None:
            return f"{claim} names no mechanism and no (ε, δ)"
        loss, delta = worst
        deltas[delta] = deltas.get(delta, 0) + times
        if not (isinstance(loss, profiles.Response) and loss.epsilon == 0):
            parts[loss] = parts.get(loss, 0) + times
    return parts, composition.chance_of_any(deltas)


@lru_cache(maxsize=16)
def _optimal_of(losses: tuple[tuple[Fraction, int], ...], chance: Fraction) -> composition.Optimal:
    return composition.Optimal(dict(losses), chance)


@lru_cache(maxsize=16)
def _numerical_of(parts: tuple[tuple[profiles.Loss, int], ...], chance: Fraction) -> loss_distributions.Numerical:
    return loss_distributions.Numerical(dict(parts), chance)
