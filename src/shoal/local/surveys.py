"""Planning: which oracle for how many people, and how to split a survey of several questions.

Several questions to the same person add up (Σε), so each respondent is asked only some of them, chosen at random, at full ε:
for one of d questions the variance is d/n·V(ε), far below V(ε/d)/n.

    >>> smokes, age = yes_no(epsilon=1.0), number(0, 120, epsilon=0.5)
    >>> survey({"smokes": smokes, "age": age}, ask=1).epsilon
    1.0
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal import params
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.local import charges, oracles
from shoal.local.base import Question, wrong_value
from shoal.local.client import some_of
from shoal.local.questions import MOST_VALUES, number, yes_no
from shoal.local.weights import checked_epsilon
from shoal.mechanisms.entropy import SYSTEM
from shoal.mechanisms.sampling.samplers import below

if TYPE_CHECKING:
    import os

    import numpy.typing as npt

    from shoal.accounting.ledger import Ledger
    from shoal.local.reports import Reports
    from shoal.mechanisms.entropy import Entropy

__all__ = ["Comparison", "Survey", "compare", "number", "survey", "yes_no"]


# --- comparing --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    """One oracle: the standard error of a share 1/k, and the bits of a report."""

    oracle: str
    standard_error: float
    bits: int
    chosen: bool


@dataclass(frozen=True, repr=False)
class Comparison:
    """All oracles for one list and ε, and what the same ε would do in the central model."""

    values: int
    epsilon: float
    n: int
    rows: tuple[Row, ...]
    central_standard_error: float

    def to_dict(self) -> dict[str, Any]:
        """Print the table as JSON."""
        rows = [{"oracle": row.oracle, "standard_error": row.standard_error, "bits": row.bits} for row in self.rows]
        return {"rows": rows, "central_standard_error": self.central_standard_error}

    def __repr__(self) -> str:
        lines = [f"{'oracle':<12}{'standard error':>16}{'bits':>8}"]
        lines += [
            f"{row.oracle:<12}{row.standard_error:>16.3g}{row.bits:>8,}" + ("   auto" if row.chosen else "")
            for row in self.rows
        ]
        best = min(row.standard_error for row in self.rows)
        lines += [
            f"{'central':<12}{self.central_standard_error:>16.3g}{'–':>8}",
            f"A share of 1/{self.values} among {self.n:,} respondents at ε = {self.epsilon:g}.",
            f"A trusted party that counts and adds noise once errs {best / self.central_standard_error:,.0f} times less:",
            "go local where there is none.",
        ]
        return "\n".join(lines)


def compare(values: int = 128, epsilon: float = 1.0, n: int = 100_000) -> Comparison:
    """The error of each oracle with n respondents, and the central error for contrast.

    >>> compare(values=2, epsilon=1.0, n=10_000).central_standard_error < 2e-4
    True
    """
    count = params.whole_number(values, option="values", smallest=2, largest=MOST_VALUES)
    respondents = params.whole_number(n, option="n", largest=charges.MOST_REPORTS)
    exact = checked_epsilon(epsilon)
    texts = tuple(range(count))
    chosen = oracles.best_oracle(texts, exact).name
    rows = tuple(
        Row(name, math.sqrt(oracles.variance(oracle, 1 / count) / respondents), oracle.message_bits, name == chosen)
        for name, oracle in oracles.candidates(texts, exact).items()
    )
    return Comparison(count, float(exact), respondents, rows, central_error(float(exact), respondents))


def central_error(epsilon: float, n: int) -> float:
    """The standard error of a share when a count gets two-sided geometric noise once: √(2a)/(1 − a)/n, a = e^{−ε}."""
    ratio = math.exp(-epsilon)
    return math.sqrt(2 * ratio) / -math.expm1(-epsilon) / n


# --- surveys ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Survey:
    """Several questions, of which each respondent answers `ask`, chosen at random whatever the answers are."""

    questions: Mapping[str, Question]
    ask: int = 1

    def __post_init__(self) -> None:
        known = self.questions
        if not isinstance(known, Mapping) or not known or not all(isinstance(one, Question) for one in known.values()):
            raise ShoalError(
                "E_USAGE", "A survey is a dict of questions.", hint='survey({"smokes": yes_no(epsilon=1)})'
            )
        if len({one.sha256 for one in known.values()}) < len(known):
            raise ShoalError("E_USAGE", "Two questions of the survey are the same.", hint="Give them different titles.")
        if isinstance(self.ask, bool) or not isinstance(self.ask, int) or not 1 <= self.ask <= len(known):
            raise ShoalError("E_USAGE", "ask is a number of questions, at least 1 and at most all.", hint="ask=1")

    @cached_property
    def exact_epsilon(self) -> Fraction:
        """The `ask` largest ε together: what the worst choice costs a respondent."""
        return sum(
            sorted((one.exact_epsilon for one in self.questions.values()), reverse=True)[: self.ask], Fraction(0)
        )

    @property
    def epsilon(self) -> float:
        """What a respondent spends at most."""
        return float(self.exact_epsilon)

    @cached_property
    def sha256(self) -> str:
        """The survey's name: of all its questions and of how many are asked."""
        parts = [f"{name!r}:{one.sha256}" for name, one in sorted(self.questions.items())]
        return hashlib.sha256("\n".join([str(self.ask), *parts]).encode()).hexdigest()

    def __repr__(self) -> str:
        return f"<survey of {len(self.questions)} questions, {self.ask} asked, ε = {self.epsilon:g}>"

    def assign(self, entropy: Entropy = SYSTEM) -> list[str]:
        """The questions one respondent is asked: drawn once, and to be kept for that respondent."""
        names = list(self.questions)
        return [names[position] for position in sorted(some_of(len(names), self.ask, entropy.bits))]

    def randomize(self, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The reports of one respondent, who answers `ask` of the questions; every value is checked first."""
        self._require_all(values)
        reports = {name: self.questions[name].randomize(values[name]) for name in self.questions}
        return [reports[name] for name in self.assign()]

    def randomize_many(self, columns: Mapping[str, Any], entropy: Entropy = SYSTEM) -> dict[str, Reports]:
        """Reports to each question, from columns of values with a row for each respondent."""
        self._require_all(columns)
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            raise wrong_value("the columns of a survey have one row for each respondent")
        asked = self._assigned(lengths.pop(), entropy)
        return {
            name: one.randomize_many(_picked(columns[name], asked[:, position]), entropy)
            for position, (name, one) in enumerate(self.questions.items())
        }

    def _assigned(self, respondents: int, entropy: Entropy) -> npt.NDArray[np.bool_]:
        """Floyd's subsets for everybody at once: rows are respondents, columns questions."""
        count, rows = len(self.questions), np.arange(respondents)
        asked = np.zeros((respondents, count), dtype=bool)
        for last in range(count - self.ask, count):
            pick = below(last + 1, respondents, entropy)
            asked[rows, np.where(asked[rows, pick], last, pick)] = True
        return asked

    def _require_all(self, values: object) -> None:
        if not isinstance(values, Mapping) or set(values) != set(self.questions):
            raise wrong_value("give values for every question of the survey: which are asked is drawn afterwards")

    def expected_errors(self, n: int) -> dict[str, float]:
        """The standard error of each question when n people take part."""
        each = max(1, n * self.ask // len(self.questions))
        return {name: one.expected_error(each) for name, one in self.questions.items()}

    def estimate(self, reports: Mapping[str, Any] | Any, target: str = "population", **options: Any) -> dict[str, Any]:
        """An estimate for each question; those who were asked represent everybody, so the target is the population.

        `reports` is {name: reports}, or one list of what respondents sent: each report names its question.
        """
        if not isinstance(reports, Mapping):
            reports = self._sorted(reports)
        return {
            name: one.estimate(reports[name], target=target, **options)  # type: ignore[arg-type]
            for name, one in self.questions.items()
        }

    def _sorted(self, reports: Any) -> dict[str, list[Any]]:
        names = {one.fingerprint: name for name, one in self.questions.items()}
        found: dict[str, list[Any]] = {name: [] for name in self.questions}
        for item in reports:
            for report in item if isinstance(item, list) else [item]:
                marked = report.get("q") if isinstance(report, dict) else None
                name = names.get(marked) if isinstance(marked, str) else None
                if name is not None:
                    found[name].append(report)
        return found

    def open(
        self,
        ledger: str | os.PathLike[str] | Ledger,
        user: str | None = None,
        round: str = "",  # noqa: A002 - the collector's word
    ) -> charges.Opening:
        """Charge the `ask` largest ε to a ledger, once for a round."""
        promise, loss = charges.loss_of(self.exact_epsilon, shuffled=False, n=None, delta=None, binary=False)
        return charges.open_question(ledger, promise, loss, self.sha256, "survey", user, round)


def _picked(column: Any, chosen: npt.NDArray[np.bool_]) -> Any:
    import pyarrow as pa

    array = column if isinstance(column, pa.Array | pa.ChunkedArray) else pa.array(column)
    return array.filter(pa.array(chosen))


def survey(questions: Mapping[str, Question], ask: int = 1) -> Survey:
    """Several questions, of which each respondent answers `ask` at full ε."""
    return Survey(dict(questions) if isinstance(questions, Mapping) else questions, ask)
