"""What a plan draws and what it is charged for: the same noises, each once, at a loss recomputed from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from shoal.accounting.accountants import Loss, plan_loss
from shoal.accounting.events import (
    GaussianNoise,
    JointGaussian,
    LaplaceNoise,
    QuantileChoice,
    SelectedGaussian,
    ThresholdSelection,
    WeightedSelection,
    WholeSelection,
)
from shoal.mechanisms.gaussian_certificate import SHRINKS_FROM
from shoal.plan.measures import Leaves, OwnerCount, OwnerMean, OwnerSum, RowCount
from shoal.plan.releases import Inferred
from shoal.rewrite.verify.moves import (
    check_whole,
    groups_of,
    moves_of,
    moves_of_count,
    moves_of_histogram,
    moves_of_weights,
    moves_under,
    wholes_of,
)
from shoal.rewrite.verify.requirement import require

if TYPE_CHECKING:
    from shoal.accounting.events import AdditiveNoise, RankTarget
    from shoal.plan.releases import Contribution, Release, SelectPlan


def check_noises(plan: SelectPlan) -> None:
    """Every noise covers how far one owner can move the numbers it is drawn for."""
    for release in plan.releases:
        moves = moves_of(release, plan.contribution)
        require(moves.covered_by(release.noise.shift), "a release moves further than its noise covers")
    for found in plan.histograms:
        moves = moves_of_histogram(found.histogram, plan.contribution)
        require(found.noise.grid == 1, "values are counted in whole numbers")
        require(moves.covered_by(found.noise.shift), "a histogram moves further than its noise covers")
    selection = plan.selection
    if selection is not None:
        require(
            selection.max_groups_per_owner == groups_of(plan.contribution),
            "groups are selected as if an owner were in another number of them",
        )
    if isinstance(selection, ThresholdSelection):
        moves = moves_of_count(plan.contribution)
        require(moves.covered_by(selection.noise.shift), "the count that selects groups moves further than its noise")
    if isinstance(selection, WeightedSelection):
        heavier = moves_of_weights(selection.weights)
        require(
            heavier.covered_by(selection.noise.shift), "the weights that select groups move further than their noise"
        )


def check_events(plan: SelectPlan) -> None:
    """What is charged is what is drawn: no noise twice, none left out, none that is never drawn."""
    _check_shared_count(plan)
    selection = plan.selection
    wholes = wholes_of(plan)
    for parts in wholes:
        check_whole(plan, parts)
    together = {index for _, *others in wholes for index in others}
    own = [release.noise for index, release in enumerate(plan.releases) if index not in together]
    noises = [*own, *(h.noise for h in plan.histograms)]
    if isinstance(selection, WeightedSelection) or (
        isinstance(selection, ThresholdSelection) and not selection.released
    ):
        noises.append(selection.noise)
    for release in plan.releases:
        _check_loss_of_choice(release, plan.contribution)
    known = all(isinstance(noise, (LaplaceNoise, GaussianNoise, QuantileChoice)) for noise in noises)
    require(known, "noise that keeps another promise than that to owners")
    drawn: Counter[object] = Counter(noise for noise in noises if noise.shift.l1)
    if selection is not None:
        drawn[selection] += 1
    charged: Counter[object] = Counter()
    for event in plan.events:
        if isinstance(event, SelectedGaussian):
            _check_one_delta(plan, event)
            charged.update((*event.parts, event.selection))
        else:
            charged.update(event.parts if isinstance(event, JointGaussian) else (event,))
    require(drawn == charged, "what is drawn is not what is charged")
    _check_found_bounds(plan)


def _check_one_delta(plan: SelectPlan, event: SelectedGaussian) -> None:
    """Noise and threshold share a δ where an owner moves nothing but numbers of its groups, and no group more than its part.

    With h of d groups new, what else moves must be at most 1 − h/d of the squared norm that is charged: d is κ for a threshold on
    owners, and for weights every degree that has one, as the threshold is set for each of them.
    """
    require(event.selection == plan.selection, "a δ is shared with a threshold that selects nothing")
    histograms = Counter(found.noise for found in plan.histograms)
    require(not histograms.keys() & set(event.parts), "a histogram of all groups has no part in a δ of groups")
    selection, groups = event.selection, groups_of(plan.contribution)
    weighed = isinstance(selection, WeightedSelection)
    degrees = {degree for degree, _ in selection.weights} if isinstance(selection, WeightedSelection) else {groups}
    parts = [(degree, new) for degree in degrees for new in {1, degree // 2, degree - 1} - {0, degree}]
    for release in plan.releases if not weighed else [r for r in plan.releases if r.noise in event.parts]:
        moves = moves_under(release, [_without_groups(plan.contribution, degree, new) for degree, new in parts])
        for (degree, new), fewer in zip(parts, moves, strict=True):
            enough = degree * fewer.l2_squared <= (degree - new) * release.noise.shift.l2_squared
            require(enough, "a group moves more than its part of the norm")


def _without_groups(contribution: Contribution, groups: int, new: int) -> Contribution:
    """An owner of this many groups without the new ones; where rows are limited, each of those took one at least."""
    if contribution.max_rows is not None:
        return replace(contribution, max_rows=contribution.max_rows - new)
    return replace(contribution, max_groups=groups - new)


def _check_loss_of_choice(release: Release, contribution: Contribution) -> None:
    """Every row moves each weight and their sum once in every draw, and one count around the drawn leaves.

    Of the rows that a leaf is off the rank, those above count 1 + lean and those below 1 − lean, in units of reach·scale. With a
    row the rank moves by t: between 0 and 1 with a margin, by the fraction without one. Distances shrink by (1 + lean)·t or
    (1 − lean)·(1 − t) at most and grow by (1 − lean)·t or (1 + lean)·(1 − t): what is lost is the sum of the two.
    """
    choice = release.noise
    if not isinstance(choice, QuantileChoice):
        return
    rows = moves_of(release, contribution).l1
    draws = _levels(len(choice.targets)) if choice.nested else len(choice.targets)
    of_counts = 0 if choice.around is None else rows / choice.around
    each = max(_loss_of_draw(target) for target in choice.targets)
    require(choice.epsilon >= draws * each * rows / choice.scale + of_counts, "a choice is charged too little")


def _loss_of_draw(target: RankTarget) -> Fraction:
    """What one row changes of a draw, in 1/scale. The sum is convex in t, so that its ends are enough."""
    above, below = 1 + target.lean, 1 - target.lean
    require(min(above, below) > 0, "rows on one side of a rank do not count")
    share = target.fraction
    moves, unit = ((0, 1), 1) if target.margin else ((share, 1 - share), max(share, 1 - share))
    lost = [max(above * t, below * (1 - t)) + max(below * t, above * (1 - t)) for t in moves]
    return max(lost) / Fraction(unit)


def _levels(quantiles: int) -> int:
    """Of all quantiles the middle one is drawn first, then those of either side among its own rows: the larger side is m // 2."""
    return 1 + _levels(quantiles // 2) if quantiles else 0


def _check_shared_count(plan: SelectPlan) -> None:
    """A noisy count that is both shown and compared with a threshold is one and the same."""
    selection, shared = plan.selection, plan.shared_count
    released = isinstance(selection, WholeSelection) or (
        isinstance(selection, ThresholdSelection) and selection.released
    )
    require(released == (shared is not None), "a count that selects groups is shown exactly when the selection says so")
    if shared is None or not isinstance(selection, ThresholdSelection | WholeSelection):
        return
    require(0 <= shared < len(plan.releases), "the count that selects groups is not there")
    release = plan.releases[shared]
    if isinstance(selection, WholeSelection):
        _check_selecting_whole(plan, selection, shared)
        return
    same = release.noise == selection.noise and release.measure == OwnerCount() and release.bounds is None
    require(same, "the count that selects groups is not the one that is shown")


def _check_selecting_whole(plan: SelectPlan, selection: WholeSelection, shared: int) -> None:
    """Groups are selected by two parts that an owner of a group adds one whole to, or nothing, with the noise that is released.

    An owner without a value adds nothing to the parts of an average: such a group is shown less often, never more.
    """
    pairs = [pair for pair in wholes_of(plan) if pair[0] == shared]
    require(len(pairs) == 1, "what selects groups is not a whole")
    release = plan.releases[shared]
    require(isinstance(release.measure, OwnerSum | RowCount | OwnerMean), "a whole that does not count owners")
    per_group = any(found.histogram.per_group for found in plan.histograms)
    require(not per_group, "groups with bounds of their own are selected before their numbers are known")
    require(release.noise == selection.noise, "the whole that selects groups is not the one that is released")
    # An owner must not add more to the sum of both parts than the threshold was made for.
    require(moves_of(release, plan.contribution).furthest == selection.whole, "a whole of another size than selects")


def _check_found_bounds(plan: SelectPlan) -> None:
    """Noise that shrinks with bounds of the same plan: proven for Laplace noise, and for Gaussian noise on a fine grid."""
    for release in plan.releases:
        if not isinstance(release.bounds, Inferred) or isinstance(release.measure, Leaves):
            continue
        require(plan.composition == "basic", "noise for bounds to be found has no loss distribution yet")
        if isinstance(release.noise, GaussianNoise):
            _check_shrinking(plan, release.noise, plan.histograms[release.bounds.histogram].noise)


def _check_shrinking(plan: SelectPlan, noise: GaussianNoise, finder: AdditiveNoise) -> None:
    """The proof is for noise on a fine grid, charged together with the histogram: never by the criterion for a single part."""
    require(noise.sigma >= SHRINKS_FROM, "Gaussian noise for bounds to be found needs a fine grid")
    together = any(isinstance(e, JointGaussian) and noise in e.parts and finder in e.parts for e in plan.events)
    require(together, "Gaussian noise for bounds to be found is charged apart from what finds them")


def loss_of(plan: SelectPlan) -> Loss:
    """What one SELECT costs; more than it requests is refused."""
    options = plan.select.options
    asked = Loss(options.epsilon, options.delta or Fraction(0))
    loss = plan_loss(plan.events)
    if plan.composition == "pld":
        require(_composes(plan, asked), "a plan would cost more than was asked, composed numerically")
        return asked
    require(plan.composition == "basic", "losses are added up in a way that nobody knows")
    require(loss.epsilon <= asked.epsilon and loss.delta <= asked.delta, "a plan would cost more than was asked")
    return loss


def _composes(plan: SelectPlan, asked: Loss) -> bool:
    from shoal.accounting import pld

    return pld.plan_delta(plan.events, asked.epsilon) <= asked.delta


def total_of(costs: list[tuple[SelectPlan, Loss]]) -> tuple[Fraction, Fraction, Loss]:
    """What a statement is charged: the ε and δ that its SELECTs request, and the loss in both currencies."""
    plans, losses = [plan for plan, _ in costs], [loss for _, loss in costs]
    epsilon = sum((plan.select.options.epsilon for plan in plans), Fraction(0))
    delta = sum((plan.select.options.delta or Fraction(0) for plan in plans), Fraction(0))
    if any(plan.composition == "pld" for plan in plans):
        # Nothing better is known of a numerically composed plan than the (ε, δ) that it keeps.
        return epsilon, delta, Loss(epsilon, delta)
    rho = sum((loss.zcdp[0] for loss in losses), Fraction(0))
    rho_delta = sum((loss.zcdp[1] for loss in losses), Fraction(0))
    spent = sum((loss.epsilon for loss in losses), Fraction(0)), sum((loss.delta for loss in losses), Fraction(0))
    return epsilon, delta, Loss(*spent, rho, rho_delta)
