"""The randomisers of the local model before the tester: a data set is one value, and any two values are neighbours."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.audit.suite.exact_checks import Computed
from shoal.exact import as_fraction
from shoal.frozen import dataclass
from shoal.local.client import Client, bucket_of, keeps
from shoal.local.questions import choice, count, number, text

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from shoal.local.base import Question

FIVE = ["a", "b", "c", "d", "e"]


@dataclass(frozen=True, slots=True)
class Randomiser:
    """A kind of question at any ε, two values to tell apart, and how its reports are seen."""

    name: str
    asked: Callable[[Any], Question]
    pair: tuple[Any, Any]
    seen: Callable[[Question, tuple[Any, Any], dict[str, NDArray[Any]]], NDArray[Any]]
    slower: int = 1

    def mechanism(self, epsilon: float) -> Callable[[Any, int], NDArray[Any]]:
        """Reports of a value, as columns of numbers."""
        question = self.asked(as_fraction(epsilon))

        def mechanism(value: Any, samples: int) -> NDArray[Any]:
            reports = question.randomize_many([value] * samples)
            return self.seen(question, self.pair, reports.columns)

        return mechanism


def _columns(_: Question, __: tuple[Any, Any], columns: dict[str, NDArray[Any]]) -> NDArray[Any]:
    return np.column_stack(list(columns.values()))


def _bits(question: Question, _: tuple[Any, Any], columns: dict[str, NDArray[Any]]) -> NDArray[Any]:
    return np.unpackbits(columns["bits"], axis=1, count=len(question.spec["values"]), bitorder="little")


def _support(question: Question, pair: tuple[Any, Any], columns: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Which of the two values a hashed report supports: the likelihood ratio depends on nothing else."""
    buckets = question.spec["buckets"]
    rows = zip(columns["seed"].tolist(), columns["bucket"].tolist(), strict=True)
    return np.array([[bucket_of(value, seed, buckets) == bucket for value in pair] for seed, bucket in rows], dtype=int)


@dataclass(frozen=True, slots=True)
class Device(Randomiser):
    """The same by the code that runs on devices, one report after the other."""

    def mechanism(self, epsilon: float) -> Callable[[Any, int], NDArray[Any]]:
        """Reports of a value; those of a longitudinal question are two rounds of one device."""
        question = self.asked(as_fraction(epsilon))
        rounds = ("1", "2") if "keep" in question.spec else ("1",)

        def mechanism(value: Any, samples: int) -> NDArray[Any]:
            answers = []
            for _ in range(samples):
                device = Client(question.spec)
                answers.append([device.randomize(value, round=turn)["r"] for turn in rounds])
            return np.array(
                [[int(one, 16) if isinstance(one, str) else one for one in row] for row in answers]
            ).reshape(samples, -1)

        return mechanism


def _half(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    return epsilon / 2, epsilon


RANDOMISERS: tuple[Randomiser, ...] = (
    Randomiser("subset", lambda e: choice(FIVE, e, oracle="subset"), ("a", "b"), _columns),
    Randomiser("projective", lambda e: choice(FIVE, e, oracle="projective"), ("a", "b"), _columns),
    Randomiser("unary", lambda e: choice(FIVE, e, oracle="unary"), ("a", "b"), _bits),
    Randomiser("hashing", text, ("tea", "coffee"), _support, slower=5),
    Randomiser("number", lambda e: number(0, 1, e), (0, 1), _columns),
    Randomiser("count", lambda e: count(5, e), (0, 5), _columns),
    Device("client, subset", lambda e: choice(FIVE, e, oracle="subset"), ("a", "b"), _columns, slower=10),
    Device(
        "client, longitudinal, two rounds",
        lambda e: choice(FIVE[:2], longitudinal=_half(e)),
        ("a", "b"),
        _bits,
        slower=10,
    ),
)


def largest_ratio(question: Question) -> Fraction:
    """The largest ratio of two chances of one report, in rationals."""
    rows = question.matrix()
    if any(sum(row) != 1 for row in rows):
        return Fraction(10**9)
    ratios = [max(column) / min(column) for column in zip(*rows, strict=True)]
    return Fraction(max(ratios))


def exact_promise(asked: Callable[[Any], Question]) -> Callable[[float], Computed]:
    """Whether rows of the matrix sum to 1 and no column has entries further apart than e^ε."""

    def law(epsilon: float) -> Computed:
        exact = as_fraction(epsilon)
        ratio = largest_ratio(asked(exact))
        return Computed(keeps(ratio, exact), 0.0, f"largest ratio {float(ratio):.9g}, exactly at most e^ε")

    return law


EXACT: tuple[tuple[str, Callable[[float], Computed]], ...] = (
    ("subset", exact_promise(lambda e: choice(FIVE, e, oracle="subset"))),
    ("projective", exact_promise(lambda e: choice(FIVE, e, oracle="projective"))),
    ("unary", exact_promise(lambda e: choice(FIVE, e, oracle="unary"))),
    ("count", exact_promise(lambda e: count(5, e))),
)

__all__ = ["EXACT", "RANDOMISERS", "Randomiser", "exact_promise", "largest_ratio"]
