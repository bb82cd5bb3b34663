"""Aggregates of pairs: correlation, covariance and the line through them, as averages and variances of the pairs without NULL.

Each is written out before anything is bound. What an owner adds, the bounds and the noise are those of AVG, VAR_POP and COUNT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

if TYPE_CHECKING:
    from collections.abc import Callable

_AGGREGATES = frozenset({"AVG", "VAR_POP", "STDDEV_POP", "COUNT"})


def _call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _whole(value: int) -> exp.Expr:
    return exp.Literal(this=str(value), is_string=False)


class _Pairs:
    """The moments of x and y over the rows that have both."""

    def __init__(self, x: exp.Expr, y: exp.Expr) -> None:
        self._x, self._y = x, y

    @staticmethod
    def _beside(value: exp.Expr, other: exp.Expr) -> exp.Expr:
        """A value where the other one is there as well; a constant beside itself is always there."""
        if value == other:
            return value.copy()
        present = exp.Not(this=exp.Is(this=other.copy(), expression=exp.Null()))
        return exp.Case(ifs=[exp.If(this=present, true=value.copy())])

    @property
    def x(self) -> exp.Expr:
        return self._beside(self._x, self._y)

    @property
    def y(self) -> exp.Expr:
        return self._beside(self._y, self._x)

    @property
    def product(self) -> exp.Expr:
        return exp.Mul(this=self._x.copy(), expression=self._y.copy())

    @property
    def count(self) -> exp.Expr:
        return _call("COUNT", self.product)

    @property
    def covariance(self) -> exp.Expr:
        means = exp.Mul(this=_call("AVG", self.x), expression=_call("AVG", self.y))
        return exp.Sub(this=_call("AVG", self.product), expression=means)

    @property
    def correlation(self) -> exp.Expr:
        """Kept between -1 and 1 as (|r + 1| - |r - 1|) / 2: GREATEST and LEAST would make a number of NULL."""
        spread = exp.Mul(this=_call("STDDEV_POP", self.x), expression=_call("STDDEV_POP", self.y))
        found = exp.Div(this=self.covariance, expression=spread)
        above = _call("ABS", exp.Add(this=found, expression=_whole(1)))
        below = _call("ABS", exp.Sub(this=found.copy(), expression=_whole(1)))
        return exp.Div(this=exp.Sub(this=above, expression=below), expression=_whole(2))

    @property
    def slope(self) -> exp.Expr:
        """Of y along x."""
        return exp.Div(this=self.covariance, expression=_call("VAR_POP", self.x))

    @property
    def intercept(self) -> exp.Expr:
        along = exp.Mul(this=self.slope, expression=_call("AVG", self.x))
        return exp.Sub(this=_call("AVG", self.y), expression=along)

    @property
    def sample_covariance(self) -> exp.Expr:
        less = exp.Sub(this=self.count, expression=_whole(1))
        return exp.Div(this=exp.Mul(this=self.covariance, expression=self.count), expression=less)


_FORMS: dict[str, Callable[[_Pairs], exp.Expr]] = {
    "CORR": lambda pairs: pairs.correlation,
    "COVAR_POP": lambda pairs: pairs.covariance,
    "COVAR_SAMP": lambda pairs: pairs.sample_covariance,
    "REGR_SLOPE": lambda pairs: pairs.slope,
    "REGR_INTERCEPT": lambda pairs: pairs.intercept,
    "REGR_R2": lambda pairs: _call("POWER", pairs.correlation, _whole(2)),
    "REGR_COUNT": lambda pairs: pairs.count,
    "REGR_AVGX": lambda pairs: _call("AVG", pairs.x),
    "REGR_AVGY": lambda pairs: _call("AVG", pairs.y),
}
NAMES = frozenset(_FORMS)


def of_pairs(name: str, arguments: list[exp.Expr]) -> exp.Expr | None:
    """CORR(y, x) and its relatives, in which y comes first, as they are written in all databases.

    >>> of_pairs("REGR_AVGX", [exp.column("y"), exp.column("x")]).sql()
    'AVG(CASE WHEN NOT y IS NULL THEN x END)'
    """
    if name not in _FORMS or len(arguments) != 2:
        return None
    y, x = arguments
    return _FORMS[name](_Pairs(x, y))


def with_filter(node: exp.Expr, where: exp.Expr) -> exp.Expr:
    """CORR(y, x) FILTER (WHERE p): every aggregate that it is made of has the filter."""
    return node.transform(
        lambda part: (
            exp.Filter(this=part, expression=where.copy())
            if isinstance(part, exp.Anonymous) and part.name in _AGGREGATES
            else part
        )
    )
