"""What expressions over counts can be at all."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from shoal.plan.expressions import Call, Cast, Column, Literal, WindowCall
from shoal.plan.types import DOUBLE, INTEGER
from shoal.release.computed.possible import ANYTHING, NEVER_NEGATIVE, possible_values

N, M = Column("n", INTEGER), Column("m", INTEGER)
KNOWN = {"n": NEVER_NEGATIVE, "share": (0.0, 1.0)}
SHARE = Column("share", DOUBLE)


def total(value):
    return WindowCall("sum", (value,), (), (), None, INTEGER)


def call(function, *arguments):
    return Call(function, tuple(Cast(each, DOUBLE) for each in arguments), DOUBLE)


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        (N, NEVER_NEGATIVE),
        (M, ANYTHING),
        (call("divide", N, total(N)), (0, 1)),
        (call("divide", call("multiply", Literal(Fraction(100), DOUBLE), N), total(N)), (0, 100)),
        (call("round", call("multiply", call("divide", N, total(N)), Literal(100, INTEGER))), (0, 100)),
        (call("divide", N, call("multiply", Literal(2, INTEGER), total(N))), (0, Fraction(1, 2))),
        (call("divide", M, total(M)), ANYTHING),
        (call("divide", N, N), NEVER_NEGATIVE),
        (call("divide", N, call("subtract", total(N), N)), ANYTHING),
        (call("subtract", N, total(N)), ANYTHING),
        (call("multiply", Literal(-1, INTEGER), N), ANYTHING),
        (call("multiply", SHARE, Literal(100, INTEGER)), (0, 100)),
        (call("round", call("multiply", SHARE, Literal(Fraction(1, 3), DOUBLE))), (0, 1)),
        (WindowCall("avg", (SHARE,), (), (), None, DOUBLE), (0, 1)),
        (total(SHARE), (0, math.inf)),
        (Literal(None, DOUBLE), ANYTHING),
        (call("nullif", N, Literal(0, INTEGER)), NEVER_NEGATIVE),
    ],
)
def test_what_an_expression_can_be(expression, values):
    assert possible_values(expression, KNOWN) == values
