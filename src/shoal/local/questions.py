"""Questions: what is asked, with which randomiser, and what the reports say.

A question is its canonical JSON: it holds weights and parameters, the client checks them, and everything here is read from
it. Its SHA-256 is its name; the first eight digits mark every report.

    >>> question = yes_no(epsilon=1.0)
    >>> estimate = question.estimate(question.randomize_many(["yes"] * 300 + ["no"] * 700))
    >>> estimate.n, estimate.values
    (1000, ('no', 'yes'))
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal import params
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.local import client, estimate, oracles
from shoal.local.base import Question, Target, Value, different_values, wrong_value
from shoal.local.estimate import Chances, Estimate
from shoal.local.geometric import Count
from shoal.local.numbers import Number, window_and_mix
from shoal.local.projective import Projective
from shoal.local.reports import ReportLines, Reports, columns_of, open_reports
from shoal.local.weights import Weights, checked_epsilon, floor_exp, fraction_text, places, ratio_above, weights_for
from shoal.mechanisms.entropy import SYSTEM

if TYPE_CHECKING:
    import os

    from shoal.local.reports import Columns, Tally, Totals
    from shoal.mechanisms.entropy import Entropy

MOST_VALUES = 1 << 20
LARGEST_COUNT = 1000
LONGEST_TITLE = 1000


# --- values out of a list ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Shares(Question):
    """What choice and text questions share: an oracle, and estimated shares."""

    @property
    def oracle(self) -> str:
        """The oracle's name."""
        return str(self.spec["oracle"])

    @property
    def p(self) -> Fraction:
        """P[a report supports its sender's value]."""
        chance: Fraction = self.design.chances[0]
        return chance

    @property
    def q(self) -> Fraction:
        """P[a report supports another value]."""
        chance: Fraction = self.design.chances[1]
        return chance

    @property
    def parameters(self) -> dict[str, Any]:
        """Of subset {"size"}, of projective {"field", "coordinates"}, of hashing {"buckets"}; longitudinal: {"keep"}."""
        return dict(self.design.parameters)

    def _words(self) -> str:
        return f"{self.oracle} oracle"

    def _totals(self, design: Any, columns: Columns | None) -> Totals:
        if columns is None:
            return np.zeros(len(design.texts) if self.oracle == "hashing" else design.values, dtype=np.int64)
        support: Totals = design.support(columns)
        return support

    def _are_totals(self, tally: Tally) -> bool:
        count = len(tally.values) if tally.values is not None else len(self.spec.get("values", ()))
        return len(tally.totals) == count > 0 and bool(((tally.totals >= 0) & (tally.totals <= tally.n)).all())

    def _estimated(
        self, tally: Tally, alpha: float, *, consistent: bool, target: Target, simultaneous: bool
    ) -> Estimate:
        chances, n, counts = Chances.of(self.design.chances), tally.n, tally.totals
        values = tally.values if tally.values is not None else tuple(self.spec["values"])
        raw = chances.raw(counts, n)
        share = alpha / len(values) if simultaneous else alpha
        population = target == "population"
        if population or (self.spec.get("values") is not None and len(values) == 2):
            low, high = estimate.exact_interval(counts, n, chances, share)
        else:
            low, high = estimate.score_interval(raw, n, chances, share)
        return Estimate(
            values=values,
            shares=self._consistent(raw) if consistent else raw,
            raw=raw,
            low=np.clip(low, 0, 1),
            high=np.clip(high, 0, 1),
            standard_error=np.sqrt(chances.variance(np.clip(raw, 0, 1), n, population=population)),
            n=n,
            rejected=tally.rejected,
            poison_per_report=1 / (n * chances.gap),
            epsilon=self.epsilon,
            level=1 - alpha,
        )

    @abstractmethod
    def _consistent(self, raw: Any) -> Any:
        """The nearest shares that can be."""

    def _variance(self, share: float | None) -> float:
        chances = Chances.of(self.design.chances)
        count = len(self.spec.get("values", ()))
        return float(
            chances.variance(
                np.asarray(share if share is not None else 1 / count if count else 0.0), 1, population=False
            )
        )


@dataclass(frozen=True, repr=False)
class Choice(Shares):
    """One value of a list."""

    @property
    def values(self) -> tuple[Value, ...]:
        """The list."""
        return tuple(self.spec["values"])

    @property
    def longitudinal(self) -> tuple[float, float] | None:
        """(first, total) of a longitudinal question."""
        return (float(Fraction(self.spec["first"])), self.epsilon) if "keep" in self.spec else None

    @cached_property
    def design(self) -> oracles.Oracle:
        """The oracle."""
        weights, count = Weights(*self.spec["weights"]), len(self.spec["values"])
        match self.spec["oracle"]:
            case "subset":
                return oracles.Subset(count, weights, self.spec["size"])
            case "projective":
                return Projective(count, weights, self.spec["field"], self.spec["coordinates"])
            case "unary":
                return oracles.Unary(count, weights, Fraction(*self.spec["keep"]) if "keep" in self.spec else None)
            case _:
                return oracles.Hashing(self.values, weights, self.spec["buckets"])

    def _encoded(self, values: Any) -> Any:
        different, which = different_values(values)
        position = {value: number for number, value in enumerate(self.values)}
        found = [position.get(value) if type(value) in {str, int} else None for value in different]
        if None in found:
            raise wrong_value("some values are not in the list of the question: offer an 'other'")
        return np.array(found, dtype=np.int64)[which]

    def _consistent(self, raw: Any) -> Any:
        return estimate.project(raw)


@dataclass(frozen=True, repr=False)
class Text(Shares):
    """Any string; which ones to look for is decided when the reports are in."""

    @cached_property
    def design(self) -> oracles.Hashing:
        """The oracle, without a list."""
        return self._hashing(())

    def _hashing(self, texts: tuple[Value, ...]) -> oracles.Hashing:
        return oracles.Hashing(texts, Weights(*self.spec["weights"]), self.spec["buckets"])

    def randomize_many(self, values: Any, entropy: Entropy = SYSTEM) -> Reports:
        """One report for each text."""
        different, which = different_values(values)
        if not all(isinstance(value, str) for value in different):
            raise wrong_value("the answers to this question are strings")
        columns = self._hashing(tuple(different)).draw(which, entropy)
        return Reports(self.document, self.fingerprint, self.design, columns)

    def _encoded(self, values: Any) -> Any:
        raise NotImplementedError

    def _counting(self, candidates: Sequence[Value] | None) -> tuple[Any, tuple[Value, ...] | None]:
        if candidates is None or isinstance(candidates, str) or not 1 <= len(candidates) <= MOST_VALUES:
            raise ShoalError(
                "E_USAGE",
                "A text question is estimated for a list of candidates, at most 2^20 of them.",
                hint='Write candidates=["never", "once", "often"].',
            )
        texts = tuple(candidates)
        if len(set(texts)) < len(texts) or not all(isinstance(text, str) for text in texts):
            raise ShoalError("E_USAGE", "Candidates must be distinct strings.", hint="List each one once.")
        return self._hashing(texts), texts

    def _consistent(self, raw: Any) -> Any:
        return estimate.project_part(raw)


# --- making questions -------------------------------------------------------------------------------------------------


def choice(
    values: Sequence[Value],
    epsilon: object = None,
    oracle: str = "auto",
    longitudinal: tuple[object, object] | None = None,
    title: str = "",
) -> Choice:
    """One value of a list; `oracle` is "auto", "subset", "projective", "unary" or "hashing".

    `longitudinal=(first, total)` in place of epsilon: one report costs `first`, all reports of one respondent together
    `total`, and the client repeats its first value for ever.

    >>> question = choice(["never", "once", "often"], epsilon=1.0)
    >>> question.oracle, question.parameters
    ('subset', {'size': 1})
    """
    texts = _checked_values(values)
    if longitudinal is not None:
        return _longitudinal(texts, epsilon, oracle, longitudinal, title)
    exact = checked_epsilon(_required(epsilon))
    chosen = _oracle(texts, exact, oracle)
    return Choice(
        _document(
            "choice", title, exact, oracle=chosen.name, values=list(texts), **_weights(exact), **chosen.parameters
        )
    )


def yes_no(epsilon: object = None, longitudinal: tuple[object, object] | None = None, title: str = "") -> Choice:
    """A question with the values "no" and "yes"."""
    return choice(["no", "yes"], epsilon, longitudinal=longitudinal, title=title)


def text(epsilon: object = None, title: str = "") -> Text:
    """Any string; which ones to look for is decided when the reports are in."""
    exact = checked_epsilon(_required(epsilon))
    buckets = oracles.hashing((), weights_for(exact)).buckets
    return Text(_document("text", title, exact, oracle="hashing", buckets=buckets, **_weights(exact)))


def number(lower: object, upper: object, epsilon: object = None, title: str = "") -> Number:
    """A number between two bounds, of which the mean is wanted; what lies outside is clamped."""
    exact = checked_epsilon(_required(epsilon))
    try:
        ends = params.bounds(lower, upper)
    except ShoalError as error:
        raise ShoalError("E_USAGE", error.message, hint="Write number(0, 120).") from None
    if ends.lower == ends.upper:
        raise ShoalError("E_USAGE", "The lower bound must be below the upper bound.", hint="Write number(0, 120).")
    reach, mix = window_and_mix(exact)
    bounds = {"lower": fraction_text(ends.lower), "upper": fraction_text(ends.upper)}
    return Number(_document("number", title, exact, reach=reach, mix=list(mix), **bounds, **_weights(exact)))


def count(upper: object, epsilon: object = None, title: str = "") -> Count:
    """A whole number from 0 to `upper` ≤ 1000; what lies outside is clamped. Nearby values are hidden better."""
    exact = checked_epsilon(_required(epsilon))
    if isinstance(upper, bool) or not isinstance(upper, int | np.integer) or not 1 <= upper <= LARGEST_COUNT:
        raise ShoalError("E_USAGE", "The largest count is a whole number from 1 to 1000.", hint="Write count(10).")
    return Count(_document("count", title, exact, upper=int(upper), ratio=list(ratio_above(exact / int(upper)))))


def question(source: str | os.PathLike[str] | Mapping[str, Any]) -> Question:
    """A question from its JSON, or from a file with it."""
    kinds: dict[str, type[Choice | Text | Number | Count]] = {
        "choice": Choice,
        "text": Text,
        "number": Number,
        "count": Count,
    }
    try:
        spec = dict(source) if isinstance(source, Mapping) else json.loads(_json_text(source))
        kind = kinds[spec["kind"]]
        document = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ShoalError("E_USAGE", "This is not the JSON of a question.", hint="Write it with to_json().") from None
    return kind(document)


def _json_text(source: str | os.PathLike[str]) -> str:
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return source
    try:
        return Path(source).read_text(encoding="utf-8")
    except OSError:
        raise ShoalError("E_SOURCE", "The question file cannot be read.", hint="Check its name.") from None


def read_reports(path: str | os.PathLike[str]) -> Reports | ReportLines:
    """Reports from a file of JSON lines, or of `Reports.to_bytes`; lines are looked at when they are estimated."""
    found = open_reports(Path(path))
    if isinstance(found, ReportLines):
        return found
    asked = question(found.document)
    columns = columns_of(found.body, found.count, asked.design.schema)
    return Reports(asked.document, asked.fingerprint, asked.design, columns, found.rejected)


def read_answers(path: str | os.PathLike[str], column: str, asked: Question) -> Any:
    """The true answers in a column of a CSV, JSON lines or parquet file, in the type the question asks for."""
    import pyarrow as pa
    from pyarrow import csv, json, parquet

    place, kind = Path(path), asked.spec["kind"]
    wanted = {"number": pa.float64(), "count": pa.int64()}.get(kind, pa.string())
    if kind == "choice" and all(type(value) is int for value in asked.spec["values"]):
        wanted = pa.int64()
    try:
        if place.suffix.lower() in {".parquet", ".pq"}:
            table = parquet.read_table(place, columns=[column])
        elif place.suffix.lower() in {".jsonl", ".ndjson", ".json"}:
            table = json.read_json(place)
        else:
            table = csv.read_csv(place, convert_options=csv.ConvertOptions(column_types={column: wanted}))
        return table.column(column).cast(wanted)
    except (OSError, KeyError, pa.ArrowException):
        raise ShoalError(
            "E_SOURCE",
            "The answers cannot be read: no such file or column, or values of another type.",
            hint="Give a CSV, JSON lines or parquet file, and --column with a name in it.",
        ) from None


def read_candidates(path: str | os.PathLike[str]) -> list[str]:
    """Strings to look for, one per line."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ShoalError(
            "E_SOURCE", "The candidates file cannot be read.", hint="Write one string per line, in UTF-8."
        ) from None
    return [line for line in lines if line]


def client_source(asked: Question | None = None) -> str:
    """The text of `client.py` for devices; made for one question, it answers no other."""
    text = Path(client.__file__).read_text(encoding="utf-8")
    if asked is None:
        return text
    head, mark, rest = text.partition(f'QUESTION_SHA256 = "{client.VERSION}", "')
    return head + mark + asked.sha256 + rest


def _document(kind: str, title: str, epsilon: Fraction, **facts: Any) -> str:
    if not isinstance(title, str) or len(title) > LONGEST_TITLE:
        raise ShoalError("E_USAGE", "A title is a string of at most 1000 characters.", hint='title="How often?"')
    known = {"kind": kind, "shoal": 1, "epsilon": fraction_text(epsilon), **facts}
    if title:
        known["title"] = title
    return json.dumps(known, sort_keys=True, separators=(",", ":"))


def _weights(epsilon: Fraction) -> dict[str, Any]:
    weights = weights_for(epsilon)
    return {"weights": [weights.inside, weights.outside]}


def _required(epsilon: object) -> object:
    if epsilon is None:
        raise ShoalError("E_USAGE", "A question needs an epsilon.", hint="Write epsilon=1.0.")
    return epsilon


def _checked_values(values: Sequence[Value]) -> tuple[Value, ...]:
    texts = tuple(values) if not isinstance(values, str) and isinstance(values, Iterable) else ()
    if not 2 <= len(texts) <= MOST_VALUES:
        raise ShoalError(
            "E_USAGE", "A list has from 2 to 2^20 values.", hint='Write choice(["never", "once", "often"], epsilon=1).'
        )
    if not all(type(value) in {str, int} for value in texts):
        raise ShoalError("E_USAGE", "Values in a list must be strings or whole numbers.", hint="Write them as strings.")
    if len(set(map(str, texts))) < len(texts):
        raise ShoalError("E_USAGE", "The list has a duplicate value.", hint="List each value once.")
    return texts


def _oracle(texts: tuple[Value, ...], epsilon: Fraction, name: str) -> oracles.Oracle:
    if name == "auto":
        return oracles.best_oracle(texts, epsilon)
    known = oracles.candidates(texts, epsilon)
    if name not in known:
        exists = name in {"subset", "projective"}
        raise ShoalError(
            "E_USAGE",
            "This oracle cannot handle that many values." if exists else "There is no such oracle.",
            hint=f"Choose one of auto, {', '.join(known)}.",
        )
    return known[name]


def _longitudinal(
    texts: tuple[Value, ...], epsilon: object, oracle: str, losses: tuple[object, object], title: str
) -> Choice:
    """Permanent bits at `total`, flipped in each report so that it keeps `first`: p₂ solves q′ = 1/(e^first + 1), down."""
    if epsilon is not None or oracle not in {"auto", "unary"} or not _is_pair(losses):
        raise ShoalError(
            "E_USAGE",
            "A longitudinal question has a pair (first, total) in place of epsilon, and the unary oracle.",
            hint="Write longitudinal=(1.0, 4.0), and leave epsilon and oracle out.",
        )
    first, total = (checked_epsilon(loss, name) for loss, name in zip(losses, ("first", "total"), strict=True))
    if first >= total:
        raise ShoalError("E_USAGE", "first must be below total.", hint="Write longitudinal=(1.0, 4.0).")
    permanent, one = weights_for(total), 1 << places(first)
    rare = 1 / (permanent.ratio + 1)
    wanted = 1 / (Fraction(floor_exp(first, one), one) + 1)
    keep = math.floor((1 - rare - wanted) / (1 - 2 * rare) * one)
    facts = {"first": fraction_text(first), "keep": [keep, one], **_weights(total)}
    return Choice(_document("choice", title, total, oracle="unary", values=list(texts), **facts))


def _is_pair(losses: object) -> bool:
    return isinstance(losses, tuple | list) and len(losses) == 2
