"""One ledger in every store: what is tested with it holds for all of them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shoal.accounting.ledger import Ledger
from shoal.params import Budget

STORES = ["file", "memory", "postgresql"]


@pytest.fixture(params=STORES)
def ledger(request, tmp_path):
    """A new ledger with ε = 1 and δ = 10⁻⁶."""
    budget = Budget(Fraction(1), Fraction(1, 10**6))
    if request.param == "memory":
        return Ledger.in_memory(budget)
    path = tmp_path / "ledger.db" if request.param == "file" else request.getfixturevalue("postgres_ledger")
    return Ledger.create(path, budget)


@pytest.fixture(params=["file", "postgresql"])
def path(request, tmp_path):
    """Where a ledger can be made that several processes share."""
    return tmp_path / "ledger.db" if request.param == "file" else request.getfixturevalue("postgres_ledger")
