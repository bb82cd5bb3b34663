"""What every question can do: name itself, randomise, tally, estimate, and be charged for.

A question is its canonical JSON: it holds weights and parameters, the client checks them, and everything is read from it.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from shoal import params
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.local import charges, client, estimate
from shoal.local.reports import (
    LINES_AT_ONCE,
    Parsed,
    ReportLines,
    Reports,
    StoredReports,
    Tally,
    columns_of,
    damaged,
    foreign,
    open_reports,
    parse_batches,
)
from shoal.local.weights import Weights, warnings_about
from shoal.mechanisms.entropy import SYSTEM

if TYPE_CHECKING:
    import os

    from shoal.accounting.ledger import Ledger
    from shoal.local.reports import Columns, Totals
    from shoal.mechanisms.entropy import Entropy

Target = Literal["respondents", "population"]
Value = str | int
MOST_MATRIX_REPORTS = 1 << 16
MOST_REJECTED = 0.01


@dataclass(frozen=True, repr=False)
class Question(ABC):
    """A question of the local model; made by `choice`, `yes_no`, `text`, `number`, `count`, or read by `question`."""

    document: str

    def __post_init__(self) -> None:
        try:
            client.check(self.spec)
        except ValueError as error:
            raise ShoalError("E_USAGE", f"This is not a sound question: {error}.", hint="Make it anew.") from None

    # --- facts ---

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The JSON as data."""
        found: dict[str, Any] = json.loads(self.document)
        return found

    @cached_property
    def sha256(self) -> str:
        """The full name of the question."""
        return client.sha256_of(self.spec)

    @property
    def fingerprint(self) -> str:
        """The first eight digits of the name, for reading; every report carries them."""
        return self.sha256[:8]

    @property
    def title(self) -> str:
        """The question."""
        return str(self.spec.get("title", ""))

    @cached_property
    def exact_epsilon(self) -> Fraction:
        """ε as it was asked for; of a longitudinal question, the total."""
        return Fraction(self.spec["epsilon"])

    @property
    def epsilon(self) -> float:
        """ε as it was asked for; of a longitudinal question, the total."""
        return float(self.exact_epsilon)

    @cached_property
    def realised_epsilon(self) -> float:
        """The loss of what is really drawn: never above `epsilon`."""
        return min(self.epsilon, self._realised())

    @property
    def warning(self) -> str | None:
        """What to say about a large ε."""
        return warnings_about(self.exact_epsilon)

    @property
    @abstractmethod
    def design(self) -> Any:
        """The randomiser in columns."""

    @property
    def message_bits(self) -> int:
        """Bits that a report takes at least; its JSON is longer."""
        return int(self.design.message_bits)

    @property
    def parameters(self) -> dict[str, Any]:
        """The randomiser's own numbers."""
        return {}

    def _realised(self) -> float:
        return Weights(*self.spec["weights"]).realised_epsilon

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The question for clients; with a path, written there too."""
        if path is not None:
            Path(path).write_text(self.document + "\n", encoding="utf-8")
        return self.document

    def __repr__(self) -> str:
        asked = f" {self.title!r}" if self.title else ""
        return f"<{self.spec['kind']} question{asked}, {self._words()}, ε = {self.epsilon:g}, {self.fingerprint}>"

    @abstractmethod
    def _words(self) -> str:
        """The randomiser in a few words."""

    # --- reports ---

    @cached_property
    def _client(self) -> client.Client:
        return client.Client(self.spec, bits=SYSTEM.bits)

    def randomize(self, value: Any) -> dict[str, Any]:
        """The report of one respondent, by the code that runs on devices; nothing is kept."""
        plain = value.item() if isinstance(value, np.generic) else value
        try:
            answer = self._client.draw(plain)
        except ValueError as error:
            raise wrong_value(str(error)) from None
        if "keep" in self.spec:
            answer = client.blur(self.spec, answer, SYSTEM.bits)
        return {"q": self.fingerprint, "r": answer}

    def randomize_many(self, values: Any, entropy: Entropy = SYSTEM) -> Reports:
        """One report for each value of a list, an Arrow or NumPy array: for pilots, simulations and moving old data."""
        columns = self.design.draw(self._encoded(values), entropy)
        return Reports(self.document, self.fingerprint, self.design, columns)

    @abstractmethod
    def _encoded(self, values: Any) -> Any:
        """Values as `design.draw` takes them."""

    def matrix(self) -> list[list[Fraction]]:
        """rows[i][j] = P[report j | value i], exactly; for at most 2¹⁶ different reports."""
        if not hasattr(self.design, "matrix") or self.design.reports() > MOST_MATRIX_REPORTS:
            raise ShoalError(
                "E_USAGE",
                "The matrix of this question has too many reports: at most 65,536 can be listed.",
                hint="Look at p and q instead, or ask with fewer values.",
            )
        rows: list[list[Fraction]] = self.design.matrix()
        return rows

    # --- tallies ---

    def tally(self, reports: Any, candidates: Sequence[Value] | None = None) -> Tally:
        """Totals of reports: of one batch, of a file, or of any iterable of batches, reports or JSON lines."""
        if isinstance(reports, Tally):
            return self._checked(reports, candidates)
        if isinstance(reports, list | tuple) and reports and all(isinstance(each, Tally) for each in reports):
            return self._checked(reduce(add, reports), candidates)
        design, values = self._counting(candidates)
        totals, n, rejected, strangers = self._totals(design, None), 0, 0, 0
        for batch in self._batches(reports):
            valid = design.is_valid(batch.columns)
            kept = batch.columns if valid.all() else {name: column[valid] for name, column in batch.columns.items()}
            totals = totals + self._totals(design, kept)
            n += int(valid.sum())
            rejected += batch.rejected + int((~valid).sum())
            strangers += batch.foreign
        return Tally(self.sha256, n, rejected, totals, values, strangers)

    def _counting(self, candidates: Sequence[Value] | None) -> tuple[Any, tuple[Value, ...] | None]:
        """The design that counts, and the candidates it counts where the question itself has no list."""
        if candidates is not None:
            raise ShoalError("E_USAGE", "Only text questions take candidates.", hint="This question has its own list.")
        return self.design, None

    @abstractmethod
    def _totals(self, design: Any, columns: Columns | None) -> Totals:
        """Totals of one batch; without one, zeros."""

    def _batches(self, reports: Any) -> Iterator[Parsed]:
        match reports:
            case Reports():
                yield self._mine(reports)
            case str() | Path():
                yield from self._batches(open_reports(Path(reports)))
            case StoredReports():
                yield self._stored(reports)
            case ReportLines():
                yield from parse_batches(reports, self.fingerprint, self.design)
            case Mapping():
                yield from parse_batches([reports], self.fingerprint, self.design)
            case Iterable():
                yield from self._mixed(reports)
            case _:
                raise wrong_value("reports are Reports, a file of them, or a list of what clients sent")

    def _mixed(self, items: Iterable[Any]) -> Iterator[Parsed]:
        waiting: list[Any] = []
        for item in items:
            if isinstance(item, Reports | ReportLines | list | Path):
                yield from self._batches(item)
            else:
                waiting.append(item)
            if len(waiting) == LINES_AT_ONCE:
                yield from parse_batches(waiting, self.fingerprint, self.design)
                waiting = []
        yield from parse_batches(waiting, self.fingerprint, self.design)

    def _mine(self, reports: Reports) -> Parsed:
        if reports.document == self.document:
            return Parsed(reports.columns, reports.rejected, 0)
        (nothing,) = parse_batches([], self.fingerprint, self.design)
        return Parsed(nothing.columns, len(reports) + reports.rejected, len(reports))

    def _stored(self, stored: StoredReports) -> Parsed:
        if stored.document == self.document:
            return Parsed(columns_of(stored.body, stored.count, self.design.schema), stored.rejected, 0)
        (nothing,) = parse_batches([], self.fingerprint, self.design)
        return Parsed(nothing.columns, stored.count + stored.rejected, stored.count)

    def _checked(self, tally: Tally, candidates: Sequence[Value] | None) -> Tally:
        if tally.sha256 != self.sha256:
            raise foreign("This tally belongs to another question.")
        if candidates is not None and tally.values != tuple(candidates):
            raise ShoalError("E_USAGE", "The tally counts other candidates.", hint="Leave candidates out.")
        if not self._are_totals(tally):
            raise damaged()
        return tally

    @abstractmethod
    def _are_totals(self, tally: Tally) -> bool:
        """Whether a tally that came in bytes could be one of this question."""

    # --- estimates ---

    def estimate(
        self,
        reports: Any,
        level: float = 0.95,
        consistent: bool = True,
        target: Target = "respondents",
        candidates: Sequence[Value] | None = None,
        simultaneous: bool = False,
        max_rejected: float = MOST_REJECTED,
    ) -> Any:
        """Shares (numbers: the mean) with intervals, from reports or a tally. Free: it is post-processing.

        Args:
            reports: whatever `tally` takes, or a tally.
            level: how often an interval covers.
            consistent: project shares onto the probability simplex, means into their bounds; `.raw` stays unbiased.
            target: "respondents", those who answered, or the "population" they were drawn from.
            candidates: of text questions, the strings to look for.
            simultaneous: widen the intervals so that all of them cover together (Bonferroni).
            max_rejected: the largest share of rejected reports that is put up with.
        """
        if target not in {"respondents", "population"}:
            raise ShoalError("E_USAGE", "The target is 'respondents' or 'population'.", hint='target="population"')
        alpha = float(1 - params.confidence_level(level))
        tally = self.tally(reports, candidates)
        _require_enough(tally, max_rejected)
        return self._estimated(tally, alpha, consistent=consistent, target=target, simultaneous=simultaneous)

    @abstractmethod
    def _estimated(self, tally: Tally, alpha: float, *, consistent: bool, target: Target, simultaneous: bool) -> Any:
        """The estimate of a checked tally."""

    @abstractmethod
    def _variance(self, share: float | None) -> float:
        """n·Var of what `expected_error` speaks of."""

    def expected_error(self, n: int, share: float | None = None) -> float:
        """The standard error of a share (default: 1/k) with n respondents; numbers and counts: of the mean, at worst."""
        count = params.whole_number(n, option="n", largest=charges.MOST_REPORTS)
        if share is not None and not 0 <= share <= 1:
            raise ShoalError("E_USAGE", "A share lies between 0 and 1.", hint="Leave it out for 1/k.")
        return math.sqrt(self._variance(share) / count)

    def respondents_for(self, error: float) -> int:
        """How many respondents bring the expected error down to this."""
        if isinstance(error, bool) or not isinstance(error, int | float) or not 0 < error < math.inf:
            raise ShoalError("E_USAGE", "The error must be a positive number.", hint="Write respondents_for(0.01).")
        return estimate.respondents_needed(self._variance(None), error)

    # --- accounting ---

    def open(
        self,
        ledger: str | os.PathLike[str] | Ledger,
        user: str | None = None,
        round: str = "",  # noqa: A002 - the collector's word
        shuffled: bool = False,
        n: int | None = None,
        delta: float | None = None,
    ) -> charges.Opening:
        """Charge ε (longitudinal: total) to a ledger before the first report is asked for; then estimates are free.

        The same question and round again is free, a new round is charged again. With `shuffled=True`, n honest reports
        and δ, the charge is the (ε, δ) that a trusted shuffler leaves.
        """
        # The tighter bound is that of binary randomized response, which two values have under one oracle alone.
        binary = self.spec.get("oracle") == "subset" and len(self.spec["values"]) == 2
        promise, loss = charges.loss_of(self.exact_epsilon, shuffled=shuffled, n=n, delta=delta, binary=binary)
        return charges.open_question(ledger, promise, loss, self.sha256, self.title, user, round)


def _require_enough(tally: Tally, max_rejected: float) -> None:
    if tally.n == 0:
        strangers = tally.foreign == tally.rejected > 0
        raise foreign(
            "All of these reports belong to another question." if strangers else "There are no usable reports."
        )
    if tally.rejected > max_rejected * (tally.n + tally.rejected):
        raise ShoalError(
            "E_SOURCE",
            f"{tally.rejected} of {tally.n + tally.rejected} reports were rejected, {tally.foreign} of them from other questions.",
            hint="Find out where they come from, or raise max_rejected.",
        )


def wrong_value(sentence: str) -> ShoalError:
    """The error for a value that this question cannot take; the value itself stays out of it."""
    return ShoalError(
        "E_USAGE",
        sentence[:1].upper() + sentence[1:] + ".",
        hint="Check values before they are randomised: what fails must not depend on who answers.",
    )


def different_values(values: Any) -> tuple[list[Any], Any]:
    """The different values, as Python objects, and which of them is where."""
    import pyarrow as pa

    try:
        array = pa.chunked_array(values) if isinstance(values, pa.ChunkedArray) else pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        raise wrong_value("values are a list, an Arrow or a NumPy array of one type") from None
    if array.null_count:
        raise wrong_value("some values are missing: offer a value for no answer")
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_nested(array.type):
        raise wrong_value("values must be strings or numbers, not lists of them")
    encoded = array if isinstance(array, pa.DictionaryArray) else array.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
