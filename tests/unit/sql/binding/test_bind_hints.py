"""Hints for what people write who come from elsewhere."""

from __future__ import annotations

import pyarrow as pa
import pytest

from shoal.errors import ShoalError
from shoal.session import connect


@pytest.fixture(scope="module")
def session():
    visits = pa.table({"uid": [1], "day": pa.array([1], pa.date32()), "site": ["a"], "open": [True]})
    return connect({"visits": visits}, catalog={"tables": {"visits": {"owner": "uid"}}})


@pytest.mark.parametrize(
    ("rest", "code", "words"),
    [
        ('COUNT(*) FROM visits WHERE site = "a"', "E_UNKNOWN_COLUMN", "single quotes"),
        ("SUM(day) FROM visits", "E_UNSUPPORTED", "DATE_DIFF('day', "),
        ("BOOL_OR(open) FROM visits", "E_AGG_NOT_DP", "COUNTIF(open)"),
        ("COUNT(*) FROM UNNEST([1, 2])", "E_TABLE_FUNCTION", "VALUES"),
        ("SUM(RANDOM()) FROM visits", "E_FUNCTION_NOT_ALLOWED", "shoal functions"),
        ("COUNT(LOWWER(site)) FROM visits", "E_FUNCTION_NOT_ALLOWED", "LOWER"),
    ],
)
def test_the_hint_says_what_to_write_instead(session, rest, code, words):
    with pytest.raises(ShoalError) as refusal:
        session.query(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) {rest}")
    assert refusal.value.code == code
    assert words in (refusal.value.hint or "")
    assert "RPAD" not in (refusal.value.hint or "")
