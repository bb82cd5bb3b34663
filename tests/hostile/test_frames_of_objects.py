"""pandas columns of Python objects: with a type in the catalog, no row decides what an analyst sees; without one, no crash."""

from __future__ import annotations

from decimal import Decimal

import pytest

import shoal

pd = pytest.importorskip("pandas")

CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-3, max_groups_contributed = 1) "
ASKED = ("v, COUNT(*) AS c FROM t GROUP BY v", "SUM(v) AS s FROM t", "COUNT(*) AS c FROM t WHERE v > 1")


def opened(values, **column):
    frame = pd.DataFrame({"uid": range(len(values)), "v": pd.Series(values, dtype=object)})
    return shoal.connect({"t": frame}, catalog={"tables": {"t": {"owner": "uid", "columns": {"v": column}}}})


def faces(session):
    return [str(session.query(CLAUSE + sql).to_arrow().schema) for sql in ASKED]


@pytest.mark.parametrize(
    ("others", "victim"),
    [
        (Decimal("1.5"), Decimal("1e20")),
        (Decimal("1.5"), Decimal("1.123456789")),
        (1, 1.5),
        (1, Decimal("1.5")),
        (1, None),
    ],
    ids=repr,
)
def test_with_a_type_in_the_catalog_one_row_decides_nothing(others, victim):
    with (
        opened([others] * 40 + [victim], type="DECIMAL(18, 2)") as first,
        opened([others] * 40, type="DECIMAL(18, 2)") as second,
    ):
        assert first.tables() == second.tables()
        assert faces(first) == faces(second)


@pytest.mark.parametrize(
    "victim", [2**70, 10**60, "x", [1], {"a": 1}, object()], ids=lambda value: type(value).__name__
)
def test_a_mixture_without_a_type_is_not_opened(victim):
    with pytest.raises(shoal.ShoalError) as refused:
        opened([1] * 40 + [victim])
    assert refused.value.code == "E_SOURCE"
