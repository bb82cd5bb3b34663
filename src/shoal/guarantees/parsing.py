"""Claims as the command line writes them: `laplace(10)*50 + gaussian(20)*5 + dp(0.1, 1e-9)`.

>>> parse("laplace(10)*50 + subsampled(gaussian(2, s=3), 0.01)")
Claims('laplace(10)*50 + subsampled(gaussian(2, s=3), 0.01)')
>>> parse("laplace(10")
Traceback (most recent call last):
shoal.errors.ShoalError: E_USAGE: A ')' is missing.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from shoal.errors import ShoalError
from shoal.guarantees.claims import Claim, Claims
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

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = (
    "dp(ε[, δ]) laplace(b) geometric(b) gaussian(σ) rr(ε) zcdp(ρ[, ξ]) renyi(α, ε) gdp(μ) subsampled(claim, rate) "
    "tv(δ) kl(ε) mi(ε) probabilistic(ε, δ) tcdp(ρ, ω) mcdp(μ, τ)"
)
LONGEST = 10_000
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)|(?P<name>[A-Za-z]\w*)|(?P<sign>[()*+,=]))"
)

_BUILDERS: dict[str, tuple[Callable[..., Claim], tuple[int, ...]]] = {
    "dp": (lambda epsilon, delta=None: Pure(epsilon) if delta is None else Approximate(epsilon, delta), (1, 2)),
    "zcdp": (ZeroConcentrated, (1, 2)),
    "renyi": (Renyi, (2,)),
    "gdp": (Gaussian, (1,)),
    "tv": (TotalVariation, (1,)),
    "kl": (KullbackLeibler, (1,)),
    "mi": (MutualInformation, (1,)),
    "probabilistic": (Probabilistic, (2,)),
    "tcdp": (TruncatedConcentrated, (2,)),
    "mcdp": (MeanConcentrated, (2,)),
    "laplace": (LaplaceNoise, (1,)),
    "geometric": (GeometricNoise, (1,)),
    "gaussian": (GaussianNoise, (1,)),
    "rr": (RandomizedResponse, (1,)),
    "subsampled": (Subsampled, (2,)),
}
_WITH_SENSITIVITY = frozenset({"laplace", "geometric", "gaussian"})


def parse(text: str) -> Claims:
    """The claims that a string lists; a mistake is refused with its position."""
    if len(text) > LONGEST:
        raise ShoalError("E_USAGE", f"A list of claims has at most {LONGEST:,} characters.", hint="Write claim*count.")
    return _Reader(text).claims()


class _Reader:
    """Reads a string from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.offset = 0
        self.kind, self.word, self.start = "", "", 0
        self.advance()

    def advance(self) -> str:
        """The current word; the next one takes its place."""
        word = self.word
        found = _TOKEN.match(self.text, self.offset)
        if found is None:
            self.start = len(self.text) - len(self.text[self.offset :].lstrip())
            self.kind, self.word = ("end", "") if self.start == len(self.text) else ("unknown", self.text[self.start])
            return word
        self.kind = found.lastgroup or ""
        self.word, self.start, self.offset = found[self.kind], found.start(self.kind), found.end()
        return word

    def claims(self) -> Claims:
        """Claim [* count] {+ claim [* count]}."""
        runs = [self.run()]
        while self.kind != "end":
            if self.word.startswith("+") and self.kind == "number":
                raise self.wrong("Expected a claim.")
            self.expect("+", "Claims are joined by '+'.")
            runs.append(self.run())
        return Claims(run for one in runs for run in one.runs)

    def run(self) -> Claims:
        claim = self.claim()
        if self.word != "*":
            return Claims([(claim, 1)])
        self.advance()
        if self.kind != "number" or not self.word.isdecimal():
            raise self.wrong("Expected a whole number after '*'.")
        return claim * int(self.advance()[:20])

    def claim(self, *, inside: bool = False) -> Claim:
        if self.kind != "name" or self.word not in _BUILDERS:
            raise self.wrong("Expected a claim." if self.kind != "name" else "There is no claim of this name.")
        if inside and self.word == "subsampled":
            raise self.wrong("A sample of a sample is a sample: multiply the rates.")
        name = self.advance()
        self.expect("(", f"The parameters of {name} follow in parentheses.")
        arguments: list[object] = [self.claim(inside=True) if name == "subsampled" else self.number()]
        options: dict[str, object] = {}
        while self.word == ",":
            self.advance()
            if self.kind == "name" and self.word == "s" and name in _WITH_SENSITIVITY:
                self.advance()
                self.expect("=", "A sensitivity is written s=….")
                options["sensitivity"] = self.number()
                break
            arguments.append(self.number())
        if len(arguments) not in _BUILDERS[name][1]:
            wanted = " or ".join(str(count) for count in _BUILDERS[name][1])
            raise self.wrong(f"{name} takes {wanted} parameter{'s' if wanted != '1' else ''}.")
        self.expect(")", "A ')' is missing.")
        return _BUILDERS[name][0](*arguments, **options)

    def number(self) -> int | Decimal:
        if self.kind != "number":
            raise self.wrong("Expected a number.")
        word = self.advance()
        return int(word) if word.isdecimal() and len(word) <= 20 else Decimal(word)

    def expect(self, sign: str, otherwise: str) -> None:
        if self.word != sign:
            raise self.wrong(otherwise)
        self.advance()

    def wrong(self, message: str) -> ShoalError:
        """A refusal with a caret under the position."""
        return ShoalError("E_USAGE", message, hint=f"Claims: {NAMES}.", position=(1, self.start + 1), sql=self.text)
