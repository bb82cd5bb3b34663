"""From one definition to another: every conversion is a row with its formula, and runs.

>>> from shoal.guarantees.promises import Approximate, KullbackLeibler, Pure, Renyi
>>> round(convert(Pure(1), KullbackLeibler).epsilon, 7)
0.4621172
>>> round(convert(Renyi(8, 0.5), Approximate, delta=1e-6).epsilon, 6)
2.04305
"""

from __future__ import annotations

from collections import deque
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from shoal.accounting.claims.composition import renyi_delta, renyi_epsilon
from shoal.accounting.claims.profiles import above, decimal_of, is_bounded
from shoal.accounting.zcdp import zcdp_delta, zcdp_epsilon
from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.guarantees.claims import Claim, exact, kept_number, number_above, refused_parameter
from shoal.guarantees.derived import group
from shoal.guarantees.noises import GaussianNoise, GeometricNoise, LaplaceNoise, RandomizedResponse, Subsampled
from shoal.guarantees.promises import (
    Approximate,
    Gaussian,
    KullbackLeibler,
    MeanConcentrated,
    MutualInformation,
    Probabilistic,
    Pure,
    Renyi,
    TotalVariation,
    TruncatedConcentrated,
    ZeroConcentrated,
)
from shoal.mechanisms.certified import arithmetic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Parameters = dict[str, Fraction]
_TINY = Fraction(1, 10**20)


@dataclass(frozen=True)
class Conversion:
    """One step: `needs` names what must be said besides; of `delta` and `epsilon` one is enough."""

    source: type[Claim]
    target: type[Claim]
    formula: str
    needs: tuple[str, ...]
    run: Callable[[Any, Parameters], Claim]

    def __str__(self) -> str:
        return f"{self.source.__name__} → {self.target.__name__}: {self.formula}"


def conversions() -> list[Conversion]:
    """Every conversion there is.

    >>> print(conversions()[2])
    Pure → KullbackLeibler: ε·tanh(ε/2)
    """
    return list(_CONVERSIONS)


def convert(claim: Claim | Sequence[Renyi], to: type[Claim] | str, **parameters: object) -> Claim:
    """What a claim implies under another definition, rounded up; several Rényi orders of one mechanism give the smallest.

    `to` is a class or a name of the command line; "replace-one" turns an add/remove claim into one about a person whose
    data is replaced. Parameters: `delta` or `epsilon` for (ε, δ), `alpha` for Rényi, `gamma` for probabilistic privacy.
    """
    given = {name: _parameter(name, value) for name, value in parameters.items()}
    if isinstance(claim, list | tuple) and claim and all(isinstance(one, Renyi) for one in claim):
        results = [convert(one, to, **parameters) for one in claim]
        return min(results, key=lambda one: one.approximate() or (Fraction(0), Fraction(0)))
    if not isinstance(claim, Claim):
        raise ShoalError("E_USAGE", "Only a claim can be converted.", hint="Write convert(Pure(1), Renyi, alpha=8).")
    if to == "replace-one":
        return group(claim, 2)
    target = _target(claim, to, given)
    conversion = next((one for one in _CONVERSIONS if type(claim) is one.source and one.target is target), None)
    if conversion is None:
        raise _no_conversion(type(claim), target)
    _check_parameters(conversion, given)
    result: Claim = conversion.run(claim, given)
    return result


def epsilon_of(claim: Claim, delta: Fraction) -> Fraction | None:
    """The smallest ε known for a single claim at δ, rounded up."""
    worst = claim.loss()
    if worst is not None:
        loss, chance = worst
        if delta < chance or (delta == chance and not is_bounded(loss)):
            return None
        return loss.epsilon_at((delta - chance) / (1 - chance))
    dense = claim.concentrated()
    if dense is not None:
        return dense.xi + zcdp_epsilon(dense.rho, delta) if delta > 0 else None
    if isinstance(claim, TruncatedConcentrated):
        return _truncated_epsilon(exact(claim.rho), exact(claim.omega), delta) if delta > 0 else None
    if isinstance(claim, Renyi) and delta > 0:
        with arithmetic():
            epsilon = renyi_epsilon(decimal_of(exact(claim.epsilon)), decimal_of(exact(claim.alpha)), delta)
            return above(max(epsilon, Decimal(0)))
    return None


def delta_of(claim: Claim, epsilon: Fraction) -> Fraction | None:
    """The smallest δ known for a single claim at ε, rounded up."""
    worst = claim.loss()
    if worst is not None:
        loss, chance = worst
        return chance + (1 - chance) * loss.delta_at(epsilon)
    dense = claim.concentrated()
    if dense is not None:
        return zcdp_delta(dense.rho, epsilon - dense.xi) if epsilon >= dense.xi else Fraction(1)
    if isinstance(claim, TruncatedConcentrated):
        return _truncated_delta(exact(claim.rho), exact(claim.omega), epsilon)
    if isinstance(claim, Renyi):
        with arithmetic():
            delta = renyi_delta(decimal_of(exact(claim.epsilon)), decimal_of(exact(claim.alpha)), epsilon)
            return min(above(delta), Fraction(1))
    return None


def _truncated_epsilon(rho: Fraction, omega: Fraction, delta: Fraction) -> Fraction:
    """ρ + 2√(ρ ln(1/δ)) where ln(1/δ) ≤ (ω−1)²ρ, else ρω + ln(1/δ)/(ω−1)."""
    with arithmetic():
        slope, reach, logs = decimal_of(rho), decimal_of(omega) - 1, -decimal_of(delta).ln()
        near = slope + 2 * (slope * logs).sqrt()
        return above(near if logs <= reach * reach * slope else slope * (reach + 1) + logs / reach)


def _truncated_delta(rho: Fraction, omega: Fraction, epsilon: Fraction) -> Fraction:
    """The same formula, solved for δ."""
    with arithmetic():
        slope, reach, total = decimal_of(rho), decimal_of(omega) - 1, decimal_of(epsilon)
        if total <= slope:
            return Fraction(1)
        near = (total - slope) ** 2 / (4 * slope)
        logs = near if near <= reach * reach * slope else (total - slope * (reach + 1)) * reach
        return min(Fraction(1), above((-logs).exp()))


# --- the rows ---------------------------------------------------------------------------------------------------------


def _to_approximate(claim: Claim, given: Parameters) -> Claim:
    if "delta" not in given and "epsilon" not in given:
        pair = claim.approximate()
        if pair is None:
            raise ShoalError(
                "E_USAGE", f"{claim} has a δ for every ε.", hint="Give one of them: delta=1e-6, or epsilon=1."
            )
        return Approximate(number_above(pair[0]), number_above(pair[1]))
    if "delta" in given:
        epsilon, delta = epsilon_of(claim, given["delta"]), given["delta"]
    else:
        epsilon, delta = given["epsilon"], delta_of(claim, given["epsilon"]) or Fraction(0)
    if epsilon is None or delta >= 1:
        raise ShoalError("E_UNSUPPORTED", f"{claim} says nothing there.", hint="Ask for a larger δ, or a larger ε.")
    return Approximate(number_above(epsilon), number_above(delta))


def _to_renyi(claim: Claim, given: Parameters) -> Claim:
    curve, alpha = claim.renyi_curve(), given["alpha"]
    if curve is None or curve.chance:
        raise ShoalError("E_UNSUPPORTED", f"{claim} has no Rényi divergence: outputs may have chance 0.")
    if alpha <= 1 or (curve.largest_order is not None and alpha > curve.largest_order):
        raise refused_parameter(
            "alpha", "is an order that this claim says nothing about", "above 1, up to its own order"
        )
    with arithmetic():
        return Renyi(kept_number(alpha, "alpha", "above 1"), number_above(above(curve.at(decimal_of(alpha)))))


def _to_concentrated(claim: Claim, _: Parameters) -> Claim:
    dense = claim.concentrated()
    if dense is None:
        raise ShoalError("E_UNSUPPORTED", f"{claim} is not concentrated.")
    return ZeroConcentrated(number_above(dense.rho), number_above(dense.xi))


def _to_pure(claim: Claim, _: Parameters) -> Claim:
    pair = claim.approximate() or (Fraction(0), Fraction(0))
    return Pure(number_above(pair[0]))


def _pure_to_divergence(claim: Pure, _: Parameters) -> Claim:
    with arithmetic():
        epsilon = decimal_of(exact(claim.epsilon))
        falling = (-epsilon).exp()
        divergence = epsilon * (1 - falling) / (1 + falling)
        return KullbackLeibler(number_above(above(divergence + Decimal("1e-70"))))


def _to_variation(claim: Claim, _: Parameters) -> Claim:
    delta = delta_of(claim, Fraction(0))
    if delta is None or delta >= 1:
        raise ShoalError("E_UNSUPPORTED", f"{claim} bounds no total variation below 1.")
    return TotalVariation(number_above(delta))


def _to_probabilistic(claim: Approximate, given: Parameters) -> Claim:
    gamma = given["gamma"]
    if gamma <= 0:
        raise refused_parameter("gamma", "must be above 0", "any number above 0")
    with arithmetic():
        slack = decimal_of(gamma)
        shrunk = 1 - (-slack).exp() if gamma > _TINY else slack * (1 - slack)  # the difference would cancel
        delta = above(decimal_of(exact(claim.delta)) / shrunk)
    if delta >= 1:
        raise ShoalError("E_UNSUPPORTED", "Nothing is left at so small a gamma.", hint="Ask for a larger gamma.")
    return Probabilistic(number_above(exact(claim.epsilon) + gamma), number_above(delta))


def _row(
    source: type[Claim], target: type[Claim], formula: str, run: Callable[[Any, Parameters], Claim], *needs: str
) -> Conversion:
    return Conversion(source, target, formula, needs, run)


_CONVERSIONS = (
    _row(Pure, Renyi, "ln((sinh αε − sinh (α−1)ε)/sinh ε)/(α−1)", _to_renyi, "alpha"),
    _row(Pure, ZeroConcentrated, "ρ = ε²/2", _to_concentrated),
    _row(Pure, KullbackLeibler, "ε·tanh(ε/2)", _pure_to_divergence),
    _row(Pure, TotalVariation, "(e^ε − 1)/(e^ε + 1)", _to_variation),
    _row(Pure, Approximate, "(ε, 0), or along δ′ = (e^ε − e^ε′)/(1 + e^ε)", _to_approximate),
    _row(Approximate, TotalVariation, "(e^ε − 1 + 2δ)/(e^ε + 1)", _to_variation),
    _row(Approximate, Probabilistic, "(ε + γ, δ/(1 − e^{−γ})) for any γ > 0", _to_probabilistic, "gamma"),
    _row(Approximate, Approximate, "δ′ = δ + (1 − δ)(e^ε − e^ε′)/(1 + e^ε)", _to_approximate),
    _row(Probabilistic, Approximate, "the same numbers", _to_approximate),
    _row(KullbackLeibler, TotalVariation, "√(ε/2)", _to_variation),
    _row(KullbackLeibler, MutualInformation, "the same ε", lambda claim, _: MutualInformation(claim.epsilon)),
    _row(MutualInformation, TotalVariation, "√(2ε)", _to_variation),
    _row(TotalVariation, Approximate, "(0, δ)", _to_approximate),
    _row(Renyi, Approximate, "ε + ln((α−1)/α) − (ln δ + ln α)/(α−1), at least 0", _to_approximate, "delta"),
    _row(Renyi, Renyi, "the same ε at any smaller order", _to_renyi, "alpha"),
    _row(Renyi, KullbackLeibler, "the same ε", lambda claim, _: KullbackLeibler(claim.epsilon)),
    _row(ZeroConcentrated, Approximate, "ξ + min over α of αρ + ln((α−1)/α) − (ln δ + ln α)/(α−1)", _to_approximate, "delta"),
    _row(ZeroConcentrated, Renyi, "ξ + ρα", _to_renyi, "alpha"),
    _row(
        ZeroConcentrated,
        KullbackLeibler,
        "ξ + ρ",
        lambda claim, _: KullbackLeibler(number_above(exact(claim.xi) + exact(claim.rho))),
    ),
    _row(
        TruncatedConcentrated,
        Approximate,
        "ρ + 2√(ρ ln(1/δ)) where ln(1/δ) ≤ (ω−1)²ρ, else ρω + ln(1/δ)/(ω−1)",
        _to_approximate,
        "delta",
    ),
    _row(TruncatedConcentrated, Renyi, "ρα, for α below ω", _to_renyi, "alpha"),
    _row(MeanConcentrated, ZeroConcentrated, "ξ = μ − τ²/2, ρ = τ²/2", _to_concentrated),
    _row(Gaussian, Approximate, "δ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2)", _to_approximate, "delta"),
    _row(Gaussian, ZeroConcentrated, "ρ = μ²/2", _to_concentrated),
    _row(Gaussian, Renyi, "αμ²/2", _to_renyi, "alpha"),
    _row(Gaussian, TotalVariation, "2Φ(μ/2) − 1", _to_variation),
    _row(LaplaceNoise, Pure, "ε = Δ/b", _to_pure),
    _row(LaplaceNoise, Approximate, "δ(ε) = 1 − e^{(ε − Δ/b)/2}", _to_approximate),
    _row(LaplaceNoise, Renyi, "ln(α/(2α−1)·e^{(α−1)Δ/b} + (α−1)/(2α−1)·e^{−αΔ/b})/(α−1)", _to_renyi, "alpha"),
    _row(GeometricNoise, Pure, "ε = Δ/b", _to_pure),
    _row(GeometricNoise, Approximate, "δ(ε) = F(x) − e^ε F(x − Δ), x the last point with a loss above ε", _to_approximate),
    _row(GeometricNoise, Renyi, "three geometric series", _to_renyi, "alpha"),
    _row(GaussianNoise, Gaussian, "μ = Δ/σ", lambda claim, _: Gaussian(number_above(claim.gaussian_mu()))),
    _row(GaussianNoise, ZeroConcentrated, "ρ = Δ²/2σ²", _to_concentrated),
    _row(GaussianNoise, Approximate, "as Gaussian(Δ/σ)", _to_approximate, "delta"),
    _row(RandomizedResponse, Pure, "the same ε", _to_pure),
    _row(Subsampled, Approximate, "(ln(1 + q(e^ε − 1)), qδ)", _to_approximate),
)  # fmt: skip


# --- finding the row --------------------------------------------------------------------------------------------------

TARGETS: dict[str, type[Claim]] = {
    "pure": Pure,
    "approximate": Approximate,
    "zcdp": ZeroConcentrated,
    "renyi": Renyi,
    "gdp": Gaussian,
    "tv": TotalVariation,
    "kl": KullbackLeibler,
    "mi": MutualInformation,
    "probabilistic": Probabilistic,
    "tcdp": TruncatedConcentrated,
    "mcdp": MeanConcentrated,
}


def _target(claim: Claim, to: type[Claim] | str, given: Parameters) -> type[Claim]:
    """The class that is meant; "dp" is Pure where that is implied and nothing else is asked."""
    if isinstance(to, type) and issubclass(to, Claim):
        return to
    if to == "dp":
        pure = any(one.target is Pure and one.source is type(claim) for one in _CONVERSIONS)
        return Pure if pure and not given else Approximate
    if not isinstance(to, str) or to not in TARGETS:
        raise ShoalError(
            "E_USAGE",
            "There is no such definition to convert to.",
            hint=f"Names: dp, {', '.join(TARGETS)}, replace-one.",
        )
    return TARGETS[to]


def _parameter(name: str, value: object) -> Fraction:
    if name not in {"delta", "epsilon", "alpha", "gamma"}:
        raise ShoalError("E_USAGE", "There is no such parameter.", hint="Parameters: delta, epsilon, alpha, gamma.")
    number = exact(kept_number(value, name, "a number"))
    if name == "delta" and not 0 <= number < 1:
        raise refused_parameter("delta", "must be at least 0 and less than 1", "0 ≤ delta < 1")
    if name == "epsilon" and not 0 <= number <= 10**6:
        raise refused_parameter("epsilon", "must be from 0 to 1e6", "0 ≤ epsilon ≤ 1e6")
    return number


def _check_parameters(conversion: Conversion, given: Parameters) -> None:
    """Exactly what is needed."""
    needs = {"delta", "epsilon"} if "delta" in conversion.needs else set(conversion.needs)
    allowed = needs or ({"delta", "epsilon"} if conversion.target is Approximate else set())
    wrong = set(given) - allowed
    if wrong or (needs and not needs & set(given)) or len(given) > 1:
        wanted = " or ".join(sorted(allowed)) or "no parameter"
        raise ShoalError(
            "E_USAGE",
            f"The conversion from {conversion.source.__name__} to {conversion.target.__name__} takes {wanted}.",
            hint=f"Its formula: {conversion.formula}.",
        )


def _no_conversion(source: type[Claim], target: type[Claim]) -> ShoalError:
    steps = _chain(source, target)
    hint = (
        f"Convert in steps: {' → '.join(one.__name__ for one in steps)}."
        if steps
        else f"No chain of conversions leads from {source.__name__} to {target.__name__}."
    )
    return ShoalError(
        "E_UNSUPPORTED", f"There is no direct conversion from {source.__name__} to {target.__name__}.", hint=hint
    )


def _chain(source: type[Claim], target: type[Claim]) -> list[type[Claim]]:
    """The shortest chain of classes, each converted to the next."""
    queue, came_from = deque([source]), {source: source}
    while queue:
        here = queue.popleft()
        if here is target:
            steps = [here]
            while steps[-1] is not source:
                steps.append(came_from[steps[-1]])
            return steps[::-1]
        for one in _CONVERSIONS:
            if one.source is here and one.target not in came_from:
                came_from[one.target] = here
                queue.append(one.target)
    return []
