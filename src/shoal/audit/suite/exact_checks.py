"""What sampling cannot see: a realistic δ, summed from the law of the noise that is drawn.

The calibration uses certified tails and analytic formulas; the sums here are plain ones over the probabilities themselves, so that
a slip in one is not repeated in the other. Floats with 15 digits, a relative tolerance of 10⁻⁹.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from shoal.accounting.events import (
    GaussianNoise,
    LaplaceNoise,
    OptimalSelection,
    Shift,
    ThresholdSelection,
    WeightedSelection,
)
from shoal.exact import as_fraction
from shoal.frozen import dataclass
from shoal.mechanisms import calibrate
from shoal.mechanisms.selection import keep_tables
from shoal.mechanisms.selection.thresholds import GaussianThreshold
from shoal.mechanisms.selection.weighted import WeightedRule
from shoal.mechanisms.selection.whole import on_released_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

DELTA = 1e-6
GROUPS_PER_OWNER = 3
STEPS_OF_A_WHOLE = 7
FINE_STEPS = 2**30
NOTHING = 1e-25
_TOLERANCE = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Computed:
    """The δ that a mechanism really has, beside the one it claims."""

    holds: bool
    claimed: float
    note: str


def gaussian_probabilities(sigma: float) -> NDArray[np.float64]:
    """P[X = k] ∝ exp(−k²/2σ²) for |k| ≤ 12σ + 10; what lies beyond has less than 10⁻³¹."""
    reach = math.ceil(12 * sigma) + 10
    weights = np.exp(-(np.arange(-reach, reach + 1, dtype=np.float64) ** 2) / (2 * sigma**2))
    return np.asarray(weights / weights.sum())


def gaussian_delta(sigma: float, coordinates: int, epsilon: float) -> float:
    """Σ max(0, P[S = s] − e^ε·P′[S = s]) over the sum S of `coordinates` counts that are moved by one each.

    The likelihood ratio of the whole vector depends on the sum of its noise alone: exp((2S + c)/2σ²).
    """
    one = gaussian_probabilities(sigma)
    total = one
    for _ in range(coordinates - 1):
        total = np.convolve(total, one)
    sums = np.arange(len(total)) - (len(total) - 1) // 2
    loss = (2 * sums + coordinates) / (2 * sigma**2)
    return float(np.sum(total * np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 0.0)))))


def laplace_tail(scale: float, least: int) -> float:
    """P[X ≥ least] for P[X = k] ∝ exp(−|k|/scale), least ≥ 1, term by term."""
    ratio = math.exp(-1 / scale)
    terms = math.ceil(60 * scale) + 1
    return float(math.fsum((1 - ratio) / (1 + ratio) * ratio ** (least + k) for k in range(terms)))


def _compared(computed: float, claimed: float) -> Computed:
    return Computed(
        computed <= claimed * _TOLERANCE, claimed, f"δ = {computed:.6g} computed, at most {claimed:g} claimed"
    )


def gaussian_count(epsilon: float, coordinates: int = 1) -> Computed:
    """The noise of a Gaussian count in several groups."""
    shift = Shift(1, coordinates)
    sigma = calibrate.joint_gaussian_sigmas([shift], [1], as_fraction(epsilon), as_fraction(DELTA))[0]
    return _compared(gaussian_delta(float(sigma), coordinates, epsilon), DELTA)


def gaussian_count_and_sum(epsilon: float, coordinates: int = 2) -> Computed:
    """A Gaussian count beside a Gaussian sum on a fine grid, in several groups, calibrated together.

    The sums of the count's noise are gone through one by one; what each leaves of ε is what continuous noise may lose.
    """
    shifts, budget = (Shift(1, coordinates), Shift(FINE_STEPS, coordinates)), (as_fraction(epsilon), as_fraction(DELTA))
    of_count, of_sum = map(float, calibrate.joint_gaussian_sigmas(shifts, [1, 1], *budget))
    one = total = gaussian_probabilities(of_count)
    for _ in range(coordinates - 1):
        total = np.convolve(total, one)
    middle, move = (len(total) - 1) // 2, math.sqrt(coordinates) * FINE_STEPS / of_sum
    found = math.fsum(
        chance * _of_continuous(move, epsilon - (2 * (position - middle) + coordinates) / (2 * of_count**2))
        for position, chance in enumerate(total)
        if chance > NOTHING
    )
    return _compared(found, DELTA)


def _of_continuous(move: float, loss: float) -> float:
    """The δ of continuous noise that one owner moves by this many deviations."""
    return _normal_tail(loss / move - move / 2) - math.exp(loss) * _normal_tail(loss / move + move / 2)


def laplace_threshold(epsilon: float) -> Computed:
    """The chance that any of κ groups of a single owner is shown."""
    shift = Shift(1, GROUPS_PER_OWNER)
    noise = LaplaceNoise(shift, calibrate.laplace_scale(shift, as_fraction(epsilon)))
    threshold = calibrate.threshold_for(noise, GROUPS_PER_OWNER, as_fraction(DELTA))
    return _compared(_any_group(laplace_tail(float(noise.scale), threshold - 1)), DELTA)


def whole_threshold(epsilon: float) -> Computed:
    """The chance that any of κ groups of a single owner is shown, by two noises of either kind added term by term."""
    shift = Shift(STEPS_OF_A_WHOLE, GROUPS_PER_OWNER, 2 * GROUPS_PER_OWNER)
    budget = as_fraction(epsilon), as_fraction(DELTA)
    laplace = LaplaceNoise(shift, calibrate.laplace_scale(shift, budget[0]))
    scales = calibrate.joint_scales([shift], [1], GROUPS_PER_OWNER, *budget)
    gaussian = GaussianNoise(shift, scales.sigmas[0])
    reach = math.ceil(60 * float(laplace.scale))
    one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / float(laplace.scale))
    chances = [
        _chance_of_two(one / one.sum(), on_released_whole(laplace, GROUPS_PER_OWNER, 1, budget[1]).threshold),
        _chance_of_two(
            gaussian_probabilities(float(gaussian.sigma)),
            on_released_whole(gaussian, GROUPS_PER_OWNER, 1, scales.delta_threshold).threshold,
        ),
    ]
    return _compared(_any_group(max(chances)), DELTA)


def _chance_of_two(one: NDArray[np.float64], threshold: int) -> float:
    """P[K + X + Y ≥ τ] = Σ P[X = x]·P[Y ≥ τ − K − x]; beyond what is summed up, nothing is left that matters."""
    reach = (len(one) - 1) // 2
    tail = np.concatenate((np.cumsum(one[::-1])[::-1], [0.0]))
    positions = np.clip(threshold - STEPS_OF_A_WHOLE - np.arange(-reach, reach + 1) + reach, 0, 2 * reach + 1)
    return float(np.dot(one, tail[positions]))


def gaussian_threshold(epsilon: float) -> Computed:
    """The δ of a noisy count and of the threshold on it, however many of an owner's groups are new."""
    made = GaussianThreshold().apart(GROUPS_PER_OWNER, 1, as_fraction(epsilon), as_fraction(DELTA)).selection
    assert isinstance(made, ThresholdSelection)  # noqa: S101 - by the rule
    assert isinstance(made.noise, GaussianNoise)  # noqa: S101 - by the rule
    sigma = float(made.noise.sigma)
    probabilities = gaussian_probabilities(sigma)
    above = float(probabilities[(len(probabilities) - 1) // 2 + made.threshold - 1 :].sum())

    def of_noise(moved: int, loss: float) -> float:
        return gaussian_delta(sigma, moved, loss) if moved else max(0.0, -math.expm1(loss))

    return _compared(max(_both_ways(above, GROUPS_PER_OWNER, epsilon, of_noise)), DELTA)


def weighted_selection(epsilon: float) -> Computed:
    """The δ of noisy weights and of the threshold on them, for owners of every degree, however many of their groups are new.

    A step is a part in 2²⁰ of a weight: continuous noise agrees to twelve digits.
    """
    made = WeightedRule().apart(GROUPS_PER_OWNER, 1, as_fraction(epsilon), as_fraction(DELTA)).selection
    assert isinstance(made, WeightedSelection)  # noqa: S101 - by the rule
    sigma = float(made.noise.sigma)
    found = []
    for degree, weight in made.weights:

        def of_noise(moved: int, loss: float, weight: int = weight) -> float:
            move = math.sqrt(moved) * weight / sigma
            if not moved:
                return max(0.0, -math.expm1(loss))
            return _of_continuous(move, loss)

        shown = _normal_tail((made.threshold - 0.5 - weight) / sigma)
        found += _both_ways(shown, degree, epsilon, of_noise)
    return _compared(max(found), DELTA)


def _both_ways(shown: float, groups: int, epsilon: float, of_noise: Callable[[int, float], float]) -> list[float]:
    """The δ between a database and one with an owner more, in both directions, for every number h of groups that are new.

    None of the new groups appears with chance q = (1 − shown)^h. One way, what both can show is q times as likely, and new groups
    tell everything; the other way only the first counts.
    """
    found = []
    for new in range(groups + 1):
        none = math.exp(new * math.log1p(-shown))
        lost = math.log(none)
        found.append(-math.expm1(lost) + none * of_noise(groups - new, epsilon - lost))
        found.append(of_noise(groups - new, epsilon + lost))
    return found


def _normal_tail(point: float) -> float:
    return math.erfc(point / math.sqrt(2)) / 2


def _any_group(chance: float, groups: int = GROUPS_PER_OWNER) -> float:
    """1 − (1 − chance)^κ."""
    return -math.expm1(groups * math.log1p(-chance))


def optimal_selection(epsilon: float) -> Computed:
    """The largest π(n) − e^{ε/κ}·π(n − 1), and of the mirrored chances of not being shown, over all n."""
    selection = OptimalSelection(as_fraction(epsilon), as_fraction(DELTA), GROUPS_PER_OWNER)
    table = keep_tables.keep_probabilities(selection)
    growth = Fraction(math.exp(float(selection.epsilon) / GROUPS_PER_OWNER))
    largest = Fraction(0)
    before = 0
    whole = 1 << table.bits
    for owners in range(1, min(table.sure_from, 5000) + 1):
        after = table.numerator(owners)
        largest = max(largest, after - growth * before, (whole - before) - growth * (whole - after))
        before = after
    return _compared(_any_group(float(largest / whole)), DELTA)


def quantile_choice(epsilon: float) -> Computed:
    """The largest P[leaf] − e^ε·P′[leaf], both ways, between all small groups that differ by one row."""
    return _any_choice(epsilon, [(0.5, 0.0), (0.9, 0.0)])


def leaning_choice(epsilon: float) -> Computed:
    """The same for ranks half a row inside the ends that lean outwards."""
    return _any_choice(epsilon, [(1.0, 0.5), (0.05, -0.15)])


def _any_choice(epsilon: float, targets: Sequence[tuple[float, float]]) -> Computed:
    worst = 0.0
    for fraction, lean in targets:
        for counts in itertools.product(range(4), repeat=4):
            for leaf in range(4):
                more = [count + (position == leaf) for position, count in enumerate(counts)]
                laws = choice_law(counts, fraction, epsilon, lean), choice_law(more, fraction, epsilon, lean)
                worst = max(worst, *(float(np.max(a - math.exp(epsilon) * b)) for a, b in (laws, laws[::-1])))
    return _compared(max(worst, 0.0), DELTA)


def choice_law(counts: Sequence[int], fraction: float, epsilon: float, lean: float = 0.0) -> NDArray[np.float64]:
    """The chance of every leaf: exp(−ε·d/2r), d rows between the leaf's own and the rank, r = max(p, 1 − p).

    A rank that leans lies half a row inside the ends, r = 1, and rows count 1 + lean above it and 1 − lean below.
    """
    rows = sum(counts)
    rank, reach = fraction * rows, max(fraction, 1 - fraction)
    if lean:
        rank, reach = (min(max(rank, 0.5), rows - 0.5) if rows else 0.0), 1.0
    upto = np.cumsum(counts)
    far = np.maximum(0.0, np.maximum((1 - lean) * (rank - upto), (1 + lean) * (upto - counts - rank)))
    weights = np.exp(-epsilon * (far - far.min()) / (2 * reach))
    return np.asarray(weights / weights.sum())


LAWS: tuple[tuple[str, str, Callable[[float], Computed]], ...] = (
    ("Gaussian count", "calibration at δ = 10⁻⁶", gaussian_count),
    ("Gaussian count in 3 groups", "calibration at δ = 10⁻⁶", lambda epsilon: gaussian_count(epsilon, 3)),
    ("Gaussian count and sum in 2 groups", "calibration at δ = 10⁻⁶", gaussian_count_and_sum),
    ("Laplace threshold, 3 groups", "calibration at δ = 10⁻⁶", laplace_threshold),
    ("threshold on a whole, 3 groups", "calibration at δ = 10⁻⁶", whole_threshold),
    ("Gaussian threshold, 3 groups", "calibration at δ = 10⁻⁶", gaussian_threshold),
    ("weights, 3 groups", "calibration at δ = 10⁻⁶", weighted_selection),
    ("chosen quantiles", "all groups of up to 12 rows in 4 leaves", quantile_choice),
    ("chosen quantiles that lean outwards", "all groups of up to 12 rows in 4 leaves", leaning_choice),
    ("optimal selection, 3 groups", "calibration at δ = 10⁻⁶", optimal_selection),
)
