"""Ten thousand malformed requests: no 500, no line of the log out of its chain, and no memory that is kept.

The program beside it throws any number: docs/results/service.md has the figures.
"""

from __future__ import annotations

import pytest
from service_fuzz import run

pytestmark = pytest.mark.slow


def test_ten_thousand_malformed_requests_get_errors_of_ours(tmp_path):
    found = run(tmp_path, 10_000)
    assert found["requests"] >= 10_000
    assert found["bad"] == []
    assert min(found["kinds"].values()) >= 100
    assert "chain" not in found
    assert found["grew"] < 50
    assert {200, 400, 401, 404, 405, 415, 421} <= set(found["statuses"])
