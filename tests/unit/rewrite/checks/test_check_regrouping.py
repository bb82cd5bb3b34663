"""An average over the numbers of events, each of one owner, is refused with what to write instead."""

from __future__ import annotations

import pyarrow as pa
import pytest

import shoal
from shoal.errors import ShoalError

TABLES = {
    "orders": pa.table({"order_id": [1, 2, 3], "customer_id": [1, 1, 2], "freight": [1.0, 2.0, 3.0]}),
    "lines": pa.table({"order_id": [1, 1, 2], "price": [5.0, 6.0, 7.0]}),
}
CATALOG = {
    "tables": {"orders": {"owner": "customer_id"}, "lines": {"owner": {"through": "order_id", "to": "orders"}}},
    "defaults": {"epsilon": 1, "delta": 1e-6},
}


@pytest.mark.parametrize(
    ("inner", "hint", "followed"),
    [
        ("order_id, SUM(freight) AS s FROM orders", "Add customer_id to", "customer_id, order_id, SUM(freight) AS s FROM orders"),
        (
            "order_id, SUM(price) AS s FROM lines",
            "Join orders, and add customer_id to",
            "order_id, customer_id, SUM(price) AS s FROM lines JOIN orders USING (order_id)",
        ),
    ],
)  # fmt: skip
def test_the_hint_names_the_owner_and_can_be_followed(inner, hint, followed):
    session = shoal.connect(TABLES, catalog=CATALOG)
    with pytest.raises(ShoalError) as refused:
        session.plan(f"SELECT AVG(s) FROM (SELECT {inner} GROUP BY order_id) AS t")
    assert refused.value.code == "E_UID_LOST"
    assert refused.value.hint.startswith(hint)
    assert session.plan(f"SELECT AVG(s) FROM (SELECT {followed} GROUP BY order_id, customer_id) AS t").selects
