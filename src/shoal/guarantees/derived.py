"""What a claim means for a group of people, on a sample, and for parts of the data that are treated apart.

>>> from shoal.guarantees.promises import Approximate, Pure
>>> print(group(Approximate(0.5, 1e-8), 4))
dp(2, 9.848692169e-08)
>>> print(subsample(Approximate(1, 1e-6), 0.01))
dp(0.01703686324, 1e-08)
>>> parallel([Pure(1), Pure(0.5)]), parallel([Pure(1), Pure(0.5)], neighbours="replace-one")
(Pure(epsilon=1), Pure(epsilon=1.5))
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from shoal.accounting.claims.profiles import above, amplified, decimal_of
from shoal.errors import ShoalError
from shoal.guarantees.claims import WHAT_CLAIMS, Claim, Claims, count_of, exact, kept_number, number_above, rate_of
from shoal.guarantees.noises import GaussianNoise, GeometricNoise, LaplaceNoise, RandomizedResponse, Subsampled
from shoal.guarantees.promises import Approximate, Gaussian, Pure, Renyi, TotalVariation, ZeroConcentrated
from shoal.mechanisms.certified import arithmetic
from shoal.params import LARGEST_EPSILON

if TYPE_CHECKING:
    from collections.abc import Iterable

_TINY = Fraction(1, 10**20)
Neighbours = Literal["add/remove", "replace-one"]


def group(claim: Claim, size: int) -> Claim:
    """What the claim says about a group of owners who come or go together, rounded up.

    Pure kε. Approximate (kε, δ(e^{kε} − 1)/(e^ε − 1)), which is kδ at ε = 0. ZeroConcentrated (ξ·k·Σ_{i≤k} 1/i, k²ρ).
    Gaussian kμ. Renyi, for k = 2^c and α ≥ 2k: (α/k, 3^c·ε). Noise: k times the sensitivity.
    """
    owners = count_of(size)
    if owners == 1:
        return claim
    match claim:
        case Pure() | RandomizedResponse():
            return Pure(_epsilon_of_group(exact(claim.epsilon), owners))
        case Approximate():
            return _approximate_of_group(claim, owners)
        case TotalVariation():
            return TotalVariation(_below_one(exact(claim.delta) * owners))
        case ZeroConcentrated():
            harmonic = sum((Fraction(1, i) for i in range(1, min(owners, 10_000) + 1)), Fraction(0))
            if owners > 10_000 and exact(claim.xi):
                raise _promises_nothing(owners)
            return ZeroConcentrated(
                number_above(exact(claim.rho) * owners**2), number_above(exact(claim.xi) * owners * harmonic)
            )
        case Gaussian():
            return Gaussian(number_above(exact(claim.mu) * owners))
        case Renyi():
            return _renyi_of_group(claim, owners)
        case LaplaceNoise():
            return LaplaceNoise(claim.scale, number_above(exact(claim.sensitivity) * owners))
        case GeometricNoise():
            return GeometricNoise(claim.scale, claim.sensitivity * owners)
        case GaussianNoise():
            return GaussianNoise(claim.sigma, number_above(exact(claim.sensitivity) * owners))
    raise ShoalError(
        "E_UNSUPPORTED",
        f"What {claim} says about groups is not known here.",
        hint="Convert it first, for example: convert(claim, Approximate, delta=1e-6).",
    )


def _epsilon_of_group(epsilon: Fraction, owners: int) -> float | int:
    total = epsilon * owners
    if total > LARGEST_EPSILON:
        raise _promises_nothing(owners)
    return number_above(total)


def _approximate_of_group(claim: Approximate, owners: int) -> Claim:
    epsilon, delta = exact(claim.epsilon), exact(claim.delta)
    total = _epsilon_of_group(epsilon, owners)
    with arithmetic():
        one = decimal_of(epsilon)
        if epsilon > _TINY:
            factor = above(((one * owners).exp() - 1) / (one.exp() - 1))
        else:  # the quotient would cancel; it is at most this
            factor = above(owners * (one * (owners - 1)).exp())
    return Approximate(total, _below_one(delta * factor))


def _renyi_of_group(claim: Renyi, owners: int) -> Claim:
    doublings = owners.bit_length() - 1
    if owners != 2**doublings or exact(claim.alpha) < 2 * owners:
        raise ShoalError(
            "E_UNSUPPORTED",
            f"An order of {claim.alpha} says nothing about a group of {owners}.",
            hint="A Rényi claim covers groups of 2, 4, 8 … owners, with an order of at least twice that.",
        )
    order = kept_number(exact(claim.alpha) / owners, "alpha", "above 1")
    return Renyi(order, number_above(exact(claim.epsilon) * 3**doublings))


def _below_one(delta: Fraction) -> float:
    if delta >= 1:
        raise ShoalError(
            "E_OPTION_INVALID",
            "The δ of this group is 1 or more: nothing is promised.",
            hint="Start from a smaller δ or ε, or protect a smaller group.",
        )
    return number_above(delta)


def _promises_nothing(owners: int) -> ShoalError:
    return ShoalError(
        "E_OPTION_INVALID",
        f"The ε of a group of {owners} is above 1e6: nothing is promised.",
        hint="Take a smaller group.",
    )


def subsample(claim: Claim, rate: float | Fraction, neighbours: Neighbours = "add/remove") -> Claim:
    """The claim on a sample of the people, at a rate q: (ln(1 + q(e^ε − 1)), qδ).

    With add/remove neighbours the sample is Poisson: each person is in it with chance q. With replace-one neighbours it is
    m of n people without replacement, q = m/n. Laplace and Gaussian noise stay what they are, sampled (Poisson only), and
    compose numerically.
    """
    share = rate_of(rate)
    _check_neighbours(neighbours)
    match claim:
        case Pure():
            return Pure(number_above(amplified(exact(claim.epsilon), share)))
        case Approximate():
            return Approximate(
                number_above(amplified(exact(claim.epsilon), share)), number_above(exact(claim.delta) * share)
            )
        case LaplaceNoise() | GaussianNoise() if neighbours == "add/remove":
            return Subsampled(claim, rate)
    raise ShoalError(
        "E_UNSUPPORTED",
        f"What sampling does to {claim} is not known here"
        + (" for replace-one neighbours." if neighbours == "replace-one" else "."),
        hint="Convert it to dp first; Laplace and Gaussian noise are known for add/remove neighbours.",
    )


def parallel(claims: Iterable[Claim], neighbours: Neighbours = "add/remove") -> Claim:
    """What holds in all when each claim is made about another part of the people.

    The claims are add/remove claims of each part, and the split looks at nobody's data but each person's own. With
    add/remove neighbours the worst claim counts. With replace-one a person may leave one part and enter another: the two
    worst add/remove claims, composed. (Replace-one claims of parts cannot be used: the sizes of the parts change.)
    """
    _check_neighbours(neighbours)
    listed = [claim for claim, times in Claims.of(claims).runs for _ in range(min(times, 2))]
    if not listed:
        raise ShoalError("E_USAGE", "There are no claims.", hint=WHAT_CLAIMS)
    together = _together(listed, 1 if neighbours == "add/remove" else 2)
    if together is None:
        raise ShoalError(
            "E_UNSUPPORTED",
            "These claims have no definition in common.",
            hint="Convert them to one definition first, for example to Approximate.",
        )
    return together


def _together(claims: list[Claim], worst: int) -> Claim | None:
    """The one or two worst claims, in the first definition that all of them imply."""
    mus = [mu for claim in claims if (mu := claim.gaussian_mu()) is not None]
    if len(mus) == len(claims):
        return Gaussian(_root_of_squares(_largest(mus, worst)))
    pairs = [pair for claim in claims if (pair := claim.approximate()) is not None]
    if len(pairs) == len(claims):
        epsilon, delta = (sum(_largest(part, worst), Fraction(0)) for part in zip(*pairs, strict=True))
        return Approximate(number_above(epsilon), _below_one(delta)) if delta else Pure(number_above(epsilon))
    dense = [one for claim in claims if (one := claim.concentrated()) is not None and not one.chance]
    if len(dense) == len(claims):
        rho, xi, _ = (sum(_largest(part, worst), Fraction(0)) for part in zip(*dense, strict=True))
        return ZeroConcentrated(number_above(rho), number_above(xi))
    orders = [claim for claim in claims if isinstance(claim, Renyi)]
    if len(orders) == len(claims):
        losses = _largest([exact(claim.epsilon) for claim in orders], worst)
        return Renyi(min((claim.alpha for claim in orders), key=exact), number_above(sum(losses, Fraction(0))))
    return None


def _largest(values: Iterable[Fraction], count: int) -> list[Fraction]:
    return sorted(values, reverse=True)[:count]


def _root_of_squares(values: list[Fraction]) -> float:
    """√Σμ², rounded up; exact for a single one."""
    if len(values) == 1:
        return number_above(values[0])
    with arithmetic():
        return number_above(above(decimal_of(sum((mu * mu for mu in values), Fraction(0))).sqrt()))


def _check_neighbours(neighbours: str) -> None:
    if neighbours not in {"add/remove", "replace-one"}:
        raise ShoalError("E_USAGE", "There are no such neighbours.", hint='Write "add/remove" or "replace-one".')
