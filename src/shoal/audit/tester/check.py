"""The stochastic tester: is this mechanism (ε, δ)-private, as far as sampling can tell?

It runs the mechanism many times on neighbouring data sets and looks for an event S with P[M(D) ∈ S] > e^ε·P[M(D′) ∈
S] + δ. What it finds is certain up to the stated chance of a false alarm (10⁻⁶ for a whole run, unless asked
otherwise); what it does not find may still be there. The mechanism must draw its n samples independently.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> noisy_count = lambda data, n: len(data) + rng.laplace(scale=1 / 0.5, size=n)
    >>> check(noisy_count, epsilon=0.5, samples=20_000).passed
    True
    >>> check(noisy_count, epsilon=0.3, samples=20_000).passed
    False
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from shoal.audit.tester import statistics
from shoal.audit.tester.event_search import Booleans, Halves, View, make_views, most_telling
from shoal.audit.tester.neighbours import Pair, plan_pairs
from shoal.audit.tester.outcomes import Vocabulary, run_mechanism
from shoal.audit.tester.verdicts import Verdict, Witness
from shoal.errors import ShoalError
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from shoal.audit.tester.statistics import Counts

Mechanism = Callable[[Any, int], Any]

DEFAULT_SAMPLES = 100_000
DEFAULT_CONFIDENCE = 1 - 1e-6
_CACHE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class _Claim:
    """What is tested, and the chance of a false alarm one pair may use up."""

    epsilon: float
    delta: float
    alpha: float


@dataclass(frozen=True, slots=True)
class _Finding:
    """The best certificate of one view in one direction."""

    epsilon_lower: float
    counts: Counts
    view: View
    chosen: Booleans


def check(
    mechanism: Mechanism,
    epsilon: float,
    delta: float = 0.0,
    *,
    inputs: Iterable[tuple[Any, Any]] | None = None,
    samples: int = DEFAULT_SAMPLES,
    confidence: float = DEFAULT_CONFIDENCE,
    seed: int = 0,
    domain: tuple[float, float] | None = None,
    floating_point: bool = False,
    search: bool = True,
) -> Verdict:
    """Search for a violation of (ε, δ)-differential privacy under adding or removing one record.

    Args:
        mechanism: `mechanism(dataset, n)` returns n independent outputs for a list of floats: an array of numbers, of
            rows, of strings, of None, or a mixture. Raising is an output too.
        epsilon: the claimed ε.
        delta: the claimed δ.
        inputs: pairs of neighbouring data sets to try first. If they are not lists of numbers, only they are tried.
        samples: outputs drawn for each data set; half choose the event, half test it.
        confidence: a run on a private mechanism passes, and `epsilon_lower` holds, with at least this chance.
        seed: fixes the data sets and the halving of samples (the mechanism's own noise aside).
        domain: the range of records the mechanism is promised. Without one, records lie in [0, 1], with a few outliers
            far outside: a mechanism that does not clamp is not private.
        floating_point: look at the last bits of the outputs as well. Textbook noise on doubles fails this.

        search: False tries the given pairs alone. For promises about other neighbours, such as those of a policy, pairs
            that differ by a record would prove nothing.

    The search stops at the first pair that proves a violation.
    """
    _require_sensible(epsilon, delta, samples, confidence)
    pairs = plan_pairs(inputs, seed=seed, bases=2, records=4, domain=domain, search=search)
    claim = _Claim(epsilon, delta, (1 - confidence) / max(1, len(pairs)))
    sampler = _Sampler(mechanism, samples, seed)
    best: tuple[_Finding, Any, Any] | None = None
    power = math.inf
    tried = 0
    for pair in pairs:
        tried += 1
        first, second = sampler.draw(pair)
        views = make_views(first, second, sampler.vocabulary, floating_point=floating_point)
        for direction, dataset, neighbour in _directions(views, pair):
            finding, caught = _examine(direction, claim, best[0].epsilon_lower if best else 0.0)
            power = min(power, caught)
            if finding is not None:
                best = (finding, dataset, neighbour)
        if best and best[0].epsilon_lower > epsilon:
            break
    return _verdict(claim, best, power, confidence, samples, tried)


def _require_sensible(epsilon: float, delta: float, samples: int, confidence: float) -> None:
    wrong = (
        ("epsilon must be a number of at least 0.", not (0 <= epsilon < math.inf)),
        ("delta must lie in [0, 1).", not (0 <= delta < 1)),
        ("samples must be at least 100.", samples < 100),
        ("confidence must lie strictly between 0 and 1.", not (0 < confidence < 1)),
    )
    for sentence, is_wrong in wrong:
        if is_wrong:
            raise ShoalError("E_USAGE", sentence)


def _directions(views: list[View], pair: Pair) -> list[tuple[list[View], Any, Any]]:
    backward = [view.reversed() for view in views]
    return [(views, pair.larger, pair.smaller), (backward, pair.smaller, pair.larger)]


class _Sampler:
    """Draws outputs, halves them in a seeded random order, and remembers them by data set."""

    def __init__(self, mechanism: Mechanism, samples: int, seed: int) -> None:
        self.vocabulary = Vocabulary()
        self._mechanism = mechanism
        self._samples = samples
        self._shuffle = np.random.default_rng([seed, 1])
        self._remembered: OrderedDict[object, Halves] = OrderedDict()
        self._bytes = 0

    def draw(self, pair: Pair) -> tuple[Halves, Halves]:
        """The samples of both data sets of a pair."""
        return self._of(pair.larger_key, pair.larger), self._of(pair.smaller_key, pair.smaller)

    def _of(self, key: object, dataset: Any) -> Halves:
        if key in self._remembered:
            self._remembered.move_to_end(key)
            return self._remembered[key]
        outcomes = run_mechanism(self._mechanism, dataset, self._samples, self.vocabulary)
        order = self._shuffle.permutation(len(outcomes))
        middle = len(order) // 2
        halves = Halves(outcomes.rows(order[:middle]), outcomes.rows(order[middle:]))
        self._remembered[key] = halves
        self._bytes += _size(halves)
        while self._bytes > _CACHE_BYTES and len(self._remembered) > 2:
            self._bytes -= _size(self._remembered.popitem(last=False)[1])
        return halves


def _size(halves: Halves) -> int:
    return sum(part.numbers.nbytes + part.labels.nbytes for part in (halves.train, halves.test))


def _examine(views: list[View], claim: _Claim, known: float) -> tuple[_Finding | None, float]:
    """The best certificate above what is known, in one direction of one pair, and the smallest ε that would have shown.

    The chance of a false alarm is shared: between views evenly; in a view half to the certificate, an eighth to the
    joint test of each chosen event, a quarter to the bins of the histogram. Joint tests are asked only where
    certificates are mute.
    """
    alpha = claim.alpha / 2 / len(views)
    events = [most_telling(view, claim.epsilon, claim.delta, statistics.quantile(alpha / 2)) for view in views]
    best: _Finding | None = None
    for view, (_, certifying) in zip(views, events, strict=True):
        finding = _certify(view, certifying, claim, alpha / 2, known)
        if finding is not None and finding.epsilon_lower > known:
            best, known = finding, finding.epsilon_lower
    if known <= claim.epsilon:
        best = _refute_any(views, events, claim, alpha) or best
    pairs = zip(views, events, strict=True)
    seen = (view.counts(event) for view, chosen in pairs for event in chosen)
    return best, min(statistics.detectable_epsilon(c, claim.epsilon, claim.delta, alpha / 8) for c in seen)


def _refute_any(
    views: list[View], events: list[tuple[Booleans, Booleans]], claim: _Claim, alpha: float
) -> _Finding | None:
    """The first event or bin on which the joint test refutes the claim."""
    for view, chosen in zip(views, events, strict=True):
        for event in chosen:
            finding = _refute(view, event, claim, alpha / 8)
            if finding is not None:
                return finding
        finding = _refute_bins(view, claim, alpha / 4)
        if finding is not None:
            return finding
    return None


def _certify(view: View, chosen: Booleans, claim: _Claim, alpha: float, known: float) -> _Finding | None:
    """Clopper–Pearson on one event; skipped where it would not beat what is known."""
    counts = view.counts(chosen)
    if statistics.promised_epsilon(counts, claim.delta, alpha) <= known:
        return None
    return _Finding(statistics.certified_epsilon(counts, claim.delta, alpha), counts, view, chosen)


def _refute(view: View, chosen: Booleans, claim: _Claim, alpha: float) -> _Finding | None:
    """The joint test on one event; skipped where a rejection is out of reach."""
    counts = view.counts(chosen)
    score = statistics.z_scores(
        counts.count, counts.samples, counts.neighbour_count, counts.neighbour_samples, claim.epsilon, claim.delta
    )
    if score < 0.7 * statistics.quantile(alpha):
        return None
    refuted = statistics.joint_lower_bound(counts, claim.epsilon, claim.delta, alpha)
    return _Finding(refuted, counts, view, chosen) if refuted else None


def _refute_bins(view: View, claim: _Claim, alpha: float) -> _Finding | None:
    """The joint test on the bin of the histogram that lies highest above the bound; all bins share α."""
    occupied = view.occupied
    if not len(occupied):
        return None
    larger, smaller = view.test
    scores = statistics.z_scores(
        larger[occupied], larger.sum(), smaller[occupied], smaller.sum(), claim.epsilon, claim.delta
    )
    chosen = np.zeros(len(view.train[0]), dtype=bool)
    chosen[occupied[int(np.argmax(scores))]] = True
    return _refute(view, chosen, claim, alpha / len(occupied))


def _verdict(
    claim: _Claim,
    best: tuple[_Finding, Any, Any] | None,
    power: float,
    confidence: float,
    samples: int,
    pairs: int,
) -> Verdict:
    lower = best[0].epsilon_lower if best else 0.0
    return Verdict(
        passed=lower <= claim.epsilon,
        epsilon=claim.epsilon,
        delta=claim.delta,
        epsilon_lower=lower,
        witness=_witness(*best) if best else None,
        power=power if lower <= claim.epsilon else min(power, lower),
        confidence=confidence,
        samples=samples,
        pairs=pairs,
    )


def _witness(finding: _Finding, dataset: Any, neighbour: Any) -> Witness:
    counts = finding.counts
    return Witness(
        dataset=dataset,
        neighbour=neighbour,
        event=finding.view.bins.text(finding.chosen),
        count=counts.count,
        samples=counts.samples,
        neighbour_count=counts.neighbour_count,
        neighbour_samples=counts.neighbour_samples,
        view=finding.view,
        chosen=finding.chosen,
    )
