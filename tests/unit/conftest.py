"""A small shop that many unit tests open, and a session factory that closes what it opened."""

from __future__ import annotations

import datetime as dt
from contextlib import ExitStack
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import shoal

SHOP_CATALOG = {
    "tables": {
        "customers": {"owner": "uid", "owner_kind": "customer"},
        "visits": {"owner": "uid", "owner_kind": "customer"},
        "regions": {"public": True},
    },
    "defaults": {"max_groups_per_owner": 4},
}
"""With a limit in the catalog nothing has to be found: a search plans dozens of alternatives and has tests of its own."""


@pytest.fixture(scope="session")
def shop_tables() -> dict[str, pa.Table]:
    """400 customers in four regions and none, five visits each; every type a key can have."""
    number = np.arange(400)
    regions = ["north", "south", "east", "west", None]
    visit = np.arange(2000)
    return {
        "customers": pa.table(
            {
                "uid": number,
                "region": [regions[i % 5] for i in number],
                "age": pa.array(18 + number % 60, pa.int32()),
                "vip": number % 4 == 0,
                "score": pa.array([Decimal(int(i) % 3) / 4 for i in number], pa.decimal128(10, 2)),
                "born": [dt.date(1990, 1, 1 + int(i) % 2) for i in number],
                "seen": [dt.datetime.fromisoformat(f"2026-01-01 0{int(i) % 2}:30") for i in number],
                "income": 1000.0 + number % 100,
            }
        ),
        "visits": pa.table(
            {"uid": visit % 400, "site": [f"s{i % 4}" for i in visit], "spend": (visit % 7) * 1.5, "items": visit % 5}
        ),
        "regions": pa.table({"region": ["north", "south", "nowhere"], "continent": ["EU", "EU", "XX"]}),
    }


@pytest.fixture
def open_shop(shop_tables):
    """Opens sessions over the shop: open_shop(budget=…), or with another catalog or other tables."""
    with ExitStack() as stack:

        def opened(catalog: object = None, tables: object = None, **options: object) -> shoal.Session:
            source = shop_tables if tables is None else tables
            return stack.enter_context(
                shoal.connect(source, catalog=SHOP_CATALOG if catalog is None else catalog, **options)
            )

        yield opened


@pytest.fixture(scope="session")
def quiet_shop(shop_tables):
    """One session for all refusals and explanations: nothing is ever spent on it."""
    with shoal.connect(shop_tables, catalog=SHOP_CATALOG) as session:
        yield session
        assert session.spent == (0.0, 0.0)


@pytest.fixture
def shop(open_shop) -> shoal.Session:
    """A session without a budget."""
    return open_shop()


@pytest.fixture
def refusal():
    """The error with which a call is refused, which must leave nothing spent."""

    def caught(session: shoal.Session, sql: str) -> shoal.ShoalError:
        with pytest.raises(shoal.ShoalError) as error:
            session.query(sql)
        assert session.spent == (0.0, 0.0)
        assert session.ledger.entries() == []
        return error.value

    return caught
