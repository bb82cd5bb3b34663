"""Ctrl+C at odd moments: whoever stops a query is charged at most, and never taken for somebody whose query failed."""

from __future__ import annotations

import signal

import duckdb
import pyarrow as pa
import pytest

import shoal
from shoal.accounting.ledger import Ledger
from shoal.engines.base import EngineFailure
from shoal.engines.duckdb.connection import failure_of

CATALOG = {
    "tables": {
        "people": {
            "owner": "uid",
            "policies": {
                "near": {"domain": {"age": [0, 9]}, "secret": {"distance": {"age": 2}}, "max_rows_per_owner": 1}
            },
        }
    }
}
PEOPLE = pa.table({"uid": list(range(50)), "age": [n % 10 for n in range(50)]})
ASKED = {
    "owners": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1) COUNT(DISTINCT uid) FROM people",
    "limits that are found": "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1) COUNT(*) FROM people",
    "a policy": "SELECT WITH POLICY OPTIONS(policy = 'near', epsilon = 0.1) COUNT(*) FROM people WHERE age < 4",
}


@pytest.fixture
def session(tmp_path):
    options = {"budget": (3, 1e-6), "ledger": tmp_path / "l.ledger", "user": "ann"}
    with shoal.connect({"people": PEOPLE}, catalog=CATALOG, **options) as opened:
        yield opened


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_right_after_the_charge_is_written_leaves_no_charge_that_nobody_settles(
    session, name, stop, monkeypatch
):
    """Such a charge would look like a dead process as soon as this one ends, and suspend its user."""
    reserve = Ledger.reserve

    def reserved_then_stopped(*arguments, **options):
        reservation = reserve(*arguments, **options)
        signal.raise_signal(stop)
        return reservation

    usual = signal.signal(stop, signal.default_int_handler)  # a run in the background starts with Ctrl+C ignored
    try:
        with monkeypatch.context() as patched:
            patched.setattr(Ledger, "reserve", reserved_then_stopped)
            with pytest.raises(KeyboardInterrupt):
                session.query(ASKED[name])
    finally:
        signal.signal(stop, usual)
    assert [entry.state for entry in session.ledger.entries()] == ["cancelled"]
    assert session.ledger.suspensions() == []
    session.query(ASKED[name])


def test_ctrl_c_while_the_engine_asks_for_a_frame_is_ctrl_c():
    asking = "Invalid Input Error: counting the rows of the object registered as 'people' failed: KeyboardInterrupt: "
    assert isinstance(failure_of(duckdb.InvalidInputException(asking)), KeyboardInterrupt)


@pytest.mark.parametrize(
    "error",
    [
        duckdb.InvalidInputException("Invalid Input Error: cannot read 'KeyboardInterrupt: '"),
        duckdb.InvalidInputException(
            "Invalid Input Error: counting the rows of the object registered as 'people' failed: KeyboardInterrupt: 7"
        ),
        duckdb.ConversionException("Conversion Error: failed: KeyboardInterrupt: "),
        duckdb.InterruptException("INTERRUPT Error: Interrupted!"),
        ValueError("Query interrupted"),
    ],
)
def test_a_failure_that_speaks_of_ctrl_c_is_a_failure(error):
    """Otherwise a text in somebody's row would turn a failure, which suspends, into a cancelled run, which does not."""
    assert isinstance(failure_of(error), EngineFailure)
