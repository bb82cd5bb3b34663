"""What (ε, δ) means for a person: beliefs before and after, the power of a test, how often a guess is right.

One home for Python, the command line and the console. Bounds are rounded outward.

    >>> import math
    >>> posterior(0.5, math.log(3))
    Bounds(0.25, 0.75)
    >>> round(power(0.05, 1, 1e-5), 7), round(guess_accuracy(1), 7)
    (0.1359241, 0.7310586)

Two slips of the literature are mended here: the upper bound of the belief is divided by 1 + (e^ε − 1)p, not
e^ε + (e^ε − 1)p; and ln 4 removes three fifths of the uncertainty, not two thirds (that is ln 5).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from shoal.errors import ShoalError
from shoal.exact import as_fraction
from shoal.frozen import dataclass
from shoal.params import LARGEST_EPSILON, PROTECTS_UP_TO, default_delta, one_in, percent, whole_number

if TYPE_CHECKING:
    from fractions import Fraction
    from pathlib import Path

PRIORS = (0.01, 0.1, 0.5, 0.9)
FALSE_POSITIVE_RATE = 0.05
SLACK = 0.1
_ULPS = 8 * 2.0**-52

DEFAULTS = (
    "Default: ε = 1 for a question, just below ln 3 ≈ 1.1, which would halve the uncertainty of somebody who has no idea.",
    "Default: ε = 3 for a ledger, three such questions. Most cases need no more talk than that.",
    "A total ε above 10 over a person's life in the data is warned about: odds may change by a factor of 22,000.",
    "Default: δ = min(1e-6, 1/(100 · people)), from the public order of magnitude of people, never from the data.",
)
"""The defaults of this program, each with its reason."""


class Bounds(tuple[float, float]):  # noqa: SLOT001 - the chance is kept beside the pair
    """(low, high) of a belief afterwards, and the chance `fails_with` that an answer breaks them."""

    fails_with: float

    def __new__(cls, low: float, high: float, fails_with: float = 0.0) -> Self:
        """Two ends; the chance is 0 where δ is."""
        bounds = super().__new__(cls, (low, high))
        bounds.fails_with = fails_with
        return bounds

    @property
    def low(self) -> float:
        """The smallest belief."""
        return self[0]

    @property
    def high(self) -> float:
        """The largest belief."""
        return self[1]

    def __repr__(self) -> str:
        fails = f", fails_with={self.fails_with:.6g}" if self.fails_with else ""
        return f"Bounds({self.low:.7g}, {self.high:.7g}{fails})"


def posterior(prior: float, epsilon: float, delta: float = 0.0, *, slack: float = SLACK) -> Bounds:
    """What somebody who thinks `prior` beforehand may think afterwards.

    With δ = 0, for every output: from p/(p + e^ε(1 − p)) to e^ε p/(1 + (e^ε − 1)p). With δ > 0 no bound holds for every
    output: these are the bounds at ε + slack, and `fails_with` = (1 + e^{−(ε+γ)})·δ/(1 − e^{−γ}) bounds the chance of an
    output that breaks one of them, γ being the slack. The chance is attained.

    >>> posterior(0.01, 1), posterior(0.1, 1, 1e-6).fails_with < 2e-5
    (Bounds(0.003702197, 0.02672363), True)
    """
    belief, loss, chance = _share(prior, "prior"), _epsilon(epsilon), _delta(delta)
    fails = 0.0
    if chance:
        room = float(slack)
        if not 0 < room <= 100:
            raise _refused("slack", "above 0 and at most 100")
        loss += room
        fails = min(1.0, (1 + math.exp(-loss)) * chance / -math.expm1(-room) * (1 + _ULPS))
    shrunk = math.exp(-loss)
    if belief in {0.0, 1.0}:
        return Bounds(belief, belief, fails)
    low = belief * shrunk / (belief * shrunk + 1 - belief)
    high = belief / (belief + shrunk * (1 - belief))
    return Bounds(low * (1 - _ULPS), min(1.0, high * (1 + _ULPS)), fails)


def power(false_positive_rate: float, epsilon: float, delta: float = 0.0) -> float:
    """How often a test finds a person who is in the data, if it is wrong about this share of those who are not.

    min(1, e^ε α + δ, 1 − e^{−ε}(1 − δ − α)), rounded up. That the two errors together are at least 2/(1 + e^ε) follows,
    but says less: no test of an ε-private answer has errors 0 and 2/(1 + e^ε).
    """
    rate, loss, chance = _share(false_positive_rate, "false_positive_rate"), _epsilon(epsilon), _delta(delta)
    rising = math.exp(min(loss, 700.0)) * rate + chance if rate else chance
    flat = 1 - math.exp(-loss) * max(0.0, 1 - chance - rate)
    return min(1.0, rising * (1 + _ULPS), flat * (1 + _ULPS))


def guess_accuracy(epsilon: float, delta: float = 0.0, prior: float = 0.5) -> float:
    """How often the best guesser is right, on average over answers, about who is there with chance `prior`.

    The largest of 1 − p + pδ, (e^ε + δ)/(1 + e^ε) and p + (1 − p)δ: the corners of what (ε, δ) allows a test.
    """
    belief, loss, chance = _share(prior, "prior"), _epsilon(epsilon), _delta(delta)
    shrunk = math.exp(-loss)
    middle = (1 + chance * shrunk) / (1 + shrunk)
    return min(1.0, max(1 - belief + belief * chance, middle, belief + (1 - belief) * chance) * (1 + _ULPS))


@dataclass(frozen=True)
class Meaning:
    """What (ε, δ) means, for a board: numbers, sentences, a table, a chart."""

    epsilon: float
    delta: float = 0.0
    people: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _epsilon(self.epsilon))
        object.__setattr__(self, "delta", _delta(self.delta))
        if self.people is not None:
            object.__setattr__(self, "people", whole_number(self.people, option="people", largest=10**12))

    @property
    def odds_factor(self) -> float:
        """e^ε: by how much the odds of anything about a person may change."""
        return math.exp(min(self.epsilon, 709.0))

    @property
    def uncertainty_removed(self) -> float:
        """tanh(ε/2): how much of the uncertainty of somebody who has no idea beforehand."""
        return math.tanh(self.epsilon / 2)

    @property
    def honest_coin(self) -> float:
        """e^ε/(1 + e^ε): randomised response with this share of true answers protects as much."""
        return 1 / (1 + math.exp(-self.epsilon))

    def posterior(self, prior: float) -> Bounds:
        """The beliefs that are possible afterwards; see the function `posterior`."""
        return posterior(prior, self.epsilon, self.delta)

    def best_guess(self, prior: float = 0.5) -> float:
        """How often the best guesser is right; see the function `guess_accuracy`."""
        return guess_accuracy(self.epsilon, self.delta, prior)

    def power(self, false_positive_rate: float = FALSE_POSITIVE_RATE) -> float:
        """How often a test finds a person; see the function `power`."""
        return power(false_positive_rate, self.epsilon, self.delta)

    @property
    def warning(self) -> str | None:
        """What to say about an ε or δ that promises next to nothing."""
        if self.epsilon > PROTECTS_UP_TO:
            return (
                f"ε = {self.epsilon:g} protects nobody: above {int(PROTECTS_UP_TO)} the promise says next to nothing."
            )
        if self.people is not None and self.delta > default_delta(self.people):
            usual = one_in(float(default_delta(self.people)))
            return f"δ = {self.delta:g} is large for {self.people:,} people: at most {usual} is usual."
        return None

    @property
    def suggested_delta(self) -> float | None:
        """min(10⁻⁶, 1/(100 · people)), where the number of people is known."""
        return None if self.people is None else float(default_delta(self.people))

    def sentence(self, prior: float, unit: str = "person") -> str:
        """One sentence for somebody who is so sure beforehand.

        >>> print(meaning(1).sentence(0.1))
        Somebody who is 10% sure that a person is in the data is between 3.9% and 23.2% sure after seeing the answer.
        >>> print(meaning(1).sentence(0.1, "one person's month"))
        Somebody who is 10% sure that a person's month is in the data is between 3.9% and 23.2% sure after seeing the answer.
        """
        bounds = self.posterior(prior)
        sure = f"between {_percent(bounds.low)} and {_percent(bounds.high)} sure after seeing the answer"
        but = f", except with a chance of at most {one_in(bounds.fails_with)}" if bounds.fails_with else ""
        return f"Somebody who is {percent(prior)} sure that {_a(unit)} is in the data is {sure}{but}."

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """What it means for a person, in sentences."""
        return self.sentences_about("person")

    def sentences_about(self, unit: str) -> tuple[str, ...]:
        """The same for whatever is protected: a person, a person's month, a household."""
        one = _a(unit)
        whose, those = (
            (f"{one}'s data", "the people who") if one == "a person" else (f"the data of {one}", "those that")
        )
        give_or_take = f", give or take a chance of {one_in(self.delta)}" if self.delta else ""
        factor, guess, found = _factor(self.odds_factor), _percent(self.best_guess()), _percent(self.power())
        honest, removed = _percent(self.honest_coin), _percent(self.uncertainty_removed)
        common = (
            f"No answer is more than {factor} times as likely with {whose} as without it{give_or_take}.",
            self.sentence(0.5, unit),
            self.sentence(0.1, unit),
            f"Somebody who guesses whether {one} is in the data, with no idea beforehand, is right at most {guess} of the time.",
            f"A test that accuses 5% of {those} are not in the data finds at most {found} of those who are.",
            f"It protects like a yes-or-no question that is answered truthfully {honest} of the time.",
            f"It removes at most {removed} of the uncertainty of somebody who has no idea beforehand.",
        )
        return (*common, *self._about_delta())

    def _about_delta(self) -> tuple[str, ...]:
        about = []
        if self.delta:
            about.append(
                f"δ is not the chance that the bounds at ε fail: no bound holds for every output. The bounds above are "
                f"those at ε + {SLACK:g}."
            )
        if self.people is not None:
            usual = one_in(float(default_delta(self.people)))
            about.append(f"For {self.people:,} people, δ is usually at most {usual}.")
        return tuple(about)

    @property
    def table(self) -> list[dict[str, float]]:
        """Beliefs before and after, and how often the best guess is right."""
        rows = []
        for prior in PRIORS:
            low, high = self.posterior(prior)
            rows.append({"prior": prior, "low": low, "high": high, "best_guess": self.best_guess(prior)})
        return rows

    def to_dict(self, prior: float = 0.5, unit: str = "person") -> dict[str, Any]:
        """For machines, with the beliefs of somebody who thinks `prior` beforehand, about whatever is protected."""
        bounds = self.posterior(prior)
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "people": self.people,
            "prior": prior,
            "posterior": [bounds.low, bounds.high],
            "fails_with": bounds.fails_with,
            "power": self.power(),
            "guess_accuracy": self.best_guess(prior),
            "odds_factor": self.odds_factor,
            "uncertainty_removed": self.uncertainty_removed,
            "honest_coin": self.honest_coin,
            "table": self.table,
            "sentences": list(self.sentences_about(unit)),
            "defaults": list(DEFAULTS),
            "suggested_delta": self.suggested_delta,
            "warning": self.warning,
        }

    def to_html(self, path: str | Path | None = None) -> str:
        """One page that needs no network; written to a file where one is named."""
        from shoal.accounting.claims.meaning_page import meaning_page
        from shoal.pages import write_page

        return write_page(meaning_page(self, DEFAULTS), path)

    def _repr_html_(self) -> str:
        from shoal.accounting.claims.meaning_page import chart

        return chart(self)

    def plot(self, path: str | Path | None = None) -> Any:
        """Beliefs after over beliefs before, as a matplotlib figure (extra `plot`)."""
        from shoal.accounting.claims.meaning_page import plot_beliefs

        return plot_beliefs(self, path)

    def __str__(self) -> str:
        head = f"ε = {self.epsilon:g}" + (f", δ = {self.delta:g}" if self.delta else "")
        rows = [f"  {'before':>7}  {'after, at least':>15}  {'at most':>8}  {'best guess right':>16}"]
        rows += [
            f"  {percent(row['prior']):>7}  {_percent(row['low']):>15}  {_percent(row['high']):>8}  "
            f"{_percent(row['best_guess']):>16}"
            for row in self.table
        ]
        warning = [] if self.warning is None else [f"Warning: {self.warning}"]
        return "\n".join([head, *warning, "", *self.sentences, "", *rows, "", *DEFAULTS])


def meaning(epsilon: float, delta: float = 0.0, people: int | None = None) -> Meaning:
    """What (ε, δ) means for a person, and, where the number of people is public, which δ suits it.

    >>> import math
    >>> round(meaning(math.log(4)).uncertainty_removed, 6), round(meaning(1, 1e-6).best_guess(0.5), 6)
    (0.6, 0.731059)
    """
    return Meaning(epsilon, delta, people)


def _number(value: object, what: str, allowed: str) -> Fraction:
    try:
        return as_fraction(value)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        raise _refused(what, allowed) from None


def _refused(what: str, allowed: str) -> ShoalError:
    return ShoalError("E_OPTION_INVALID", f"{what} must be {allowed}.", hint=f"Write {what} = …, {allowed}.")


def _share(value: object, what: str) -> float:
    share = _number(value, what, "from 0 to 1")
    if isinstance(value, str) or not 0 <= share <= 1:
        raise _refused(what, "from 0 to 1")
    return float(share)


def _epsilon(value: object) -> float:
    loss = _number(value, "epsilon", "a number from 0 to 1e6")
    if isinstance(value, str) or not 0 <= loss <= LARGEST_EPSILON:
        raise _refused("epsilon", "a number from 0 to 1e6")
    return float(loss)


def _delta(value: object) -> float:
    chance = _number(value, "delta", "at least 0 and less than 1")
    if isinstance(value, str) or not 0 <= chance < 1:
        raise _refused("delta", "at least 0 and less than 1")
    return float(chance)


def _percent(share: float) -> str:
    """One digit after the point, and never certainty that is none."""
    if 0 < share < 0.0005 or 0.9995 < share < 1:
        return f"{100 * share:.3g}%" if share < 0.5 else "over 99.9%"
    return f"{100 * share:.1f}%"


def _a(unit: str) -> str:
    """What is protected, with an article: 'one person' → 'a person'."""
    noun = unit.removeprefix("one ")
    return f"an {noun}" if noun[:1].lower() in tuple("aeio") else f"a {noun}"


def _factor(value: float) -> str:
    return f"{value:.3g}" if value < 1e6 else f"{value:.1e}"
