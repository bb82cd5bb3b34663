"""Claims check themselves, count themselves, and read and write themselves as text."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal import guarantees as g
from shoal.errors import ShoalError


@pytest.mark.parametrize(
    "make",
    [
        lambda: g.Pure(-0.1),
        lambda: g.Pure(1_000_001),
        lambda: g.Pure("1"),
        lambda: g.Pure(True),
        lambda: g.Pure(None),
        lambda: g.Pure(float("nan")),
        lambda: g.Pure(float("inf")),
        lambda: g.Approximate(1, 1),
        lambda: g.Approximate(1, -1e-9),
        lambda: g.Approximate(1, Fraction(1, 10**400)),
        lambda: g.Pure(Fraction(1, 3**5000)),
        lambda: g.ZeroConcentrated(0),
        lambda: g.ZeroConcentrated(1, -1),
        lambda: g.Renyi(1, 1),
        lambda: g.Gaussian(0),
        lambda: g.TruncatedConcentrated(1, 1),
        lambda: g.LaplaceNoise(0),
        lambda: g.LaplaceNoise(1, 0),
        lambda: g.GaussianNoise(-1),
        lambda: g.GeometricNoise(1, 0.5),
        lambda: g.Subsampled(g.Pure(1), 0),
        lambda: g.Subsampled(g.Pure(1), 1.1),
        lambda: g.Subsampled(g.Subsampled(g.Pure(1), 0.5), 0.5),
        lambda: g.Subsampled("dp(1)", 0.5),
        lambda: g.Pure(1) * 0,
        lambda: g.Pure(1) * 10_000_001,
        lambda: g.Pure(1) * 2.5,
    ],
)
def test_parameters_out_of_range_are_refused(make):
    with pytest.raises(ShoalError, match="E_OPTION_INVALID"):
        make()


def test_sampling_what_has_no_known_rule_is_refused():
    with pytest.raises(ShoalError, match="E_UNSUPPORTED"):
        g.Subsampled(g.ZeroConcentrated(1), 0.1)


def test_numbers_mean_what_is_written():
    assert g.Pure(0.1) == g.Pure(Decimal("0.1")) == g.Pure(Fraction(1, 10))
    assert g.Pure(1) == g.Pure(1.0)
    assert g.Pure(Fraction(1, 3)).epsilon == Fraction(1, 3)
    assert len({g.Pure(0.1), g.Pure(Fraction(1, 10))}) == 1


def test_a_claim_times_k_is_k_of_them_and_lists_add_up():
    claims = g.LaplaceNoise(10) * 50 + g.GaussianNoise(20) * 5 + [g.Approximate(0.1, 1e-9)]
    assert len(claims) == 56
    assert claims == g.parse("laplace(10)*50 + gaussian(20)*5 + dp(0.1, 1e-9)")
    assert claims[55] == g.Approximate(0.1, 1e-9)
    assert [g.Pure(1)] + g.Pure(1) * 2 == g.Pure(1) * 3
    assert len(g.Pure(1) * 10_000_000) == 10_000_000


@pytest.mark.parametrize(
    "text",
    [
        "dp(1)",
        "dp(1, 1e-06)",
        "laplace(10)*50 + gaussian(20, s=3)*5",
        "geometric(2, s=4)",
        "rr(0.5)",
        "zcdp(0.1)",
        "zcdp(0.1, 0.02)",
        "renyi(8, 0.5)",
        "gdp(1)",
        "subsampled(gaussian(2), 0.01)*1000",
        "tv(0.1) + kl(0.1) + mi(0.1)",
        "probabilistic(1, 1e-06) + tcdp(0.1, 20) + mcdp(0.1, 0.2)",
    ],
)
def test_text_is_read_and_written_alike(text):
    assert str(g.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("", 1),
        ("laplace", 8),
        ("laplace(10", 11),
        ("laplace(10)*", 13),
        ("laplace(10)*2.5", 13),
        ("laplace(10) laplace(10)", 13),
        ("laplace(10) ++ dp(1)", 14),
        ("foo(1)", 1),
        ("dp()", 4),
        ("dp(1, 2, 3)", 11),
        ("dp(1, s=2)", 7),
        ("renyi(8)", 8),
        ("dp(1); import os", 6),
        ("subsampled(subsampled(dp(1), 0.1), 0.1)", 12),
        ("dp(ε)", 4),
    ],
)
def test_a_mistake_is_told_with_its_place(text, column):
    with pytest.raises(ShoalError) as caught:
        g.parse(text)
    assert (caught.value.code, caught.value.position) == ("E_USAGE", (1, column))


def test_a_long_text_and_a_huge_number_are_refused():
    with pytest.raises(ShoalError, match="E_USAGE"):
        g.parse("dp(1) + " * 5_000)
    with pytest.raises(ShoalError, match="E_OPTION_INVALID"):
        g.parse("dp(1e999999999)")
    with pytest.raises(ShoalError, match="E_OPTION_INVALID"):
        g.parse("dp(1)*" + "9" * 5_000)


@given(st.text(alphabet="dplace()*+,=.1e-9 sgμ\n", max_size=40))
def test_no_text_breaks_the_reader(text):
    try:
        g.parse(text)
    except ShoalError as error:
        assert error.code in {"E_USAGE", "E_OPTION_INVALID", "E_UNSUPPORTED"}  # noqa: PT017 - most texts are refused


def test_importing_loads_nothing_heavy():
    heavy = "numpy", "scipy", "dp_accounting", "duckdb", "pyarrow", "sqlglot", "opendp", "matplotlib"
    code = f"import sys, shoal.guarantees; print([name for name in {heavy!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize("epsilon", [1e-7, 1e-20, 1e-45, 1e-90])
def test_tiny_losses_are_converted_and_never_rounded_down(epsilon):
    assert g.convert(g.Pure(epsilon), g.TotalVariation).delta >= epsilon * 0.499
    assert g.convert(g.Pure(epsilon), g.KullbackLeibler).epsilon >= epsilon * epsilon * 0.499
    assert g.subsample(g.Pure(epsilon), 1e-12).epsilon >= epsilon * 0.999e-12
    assert g.group(g.Approximate(epsilon, 1e-9), 5).delta >= 5e-9
    assert g.convert(g.Approximate(1, 1e-200), g.Probabilistic, gamma=epsilon).delta >= 0.999e-200 / epsilon
    assert g.compose(g.Pure(epsilon) * 10, delta=0).epsilon >= epsilon * 9.999
    if epsilon > 1e-49:
        assert g.convert(g.Pure(epsilon), g.ZeroConcentrated).rho >= epsilon * epsilon * 0.499
