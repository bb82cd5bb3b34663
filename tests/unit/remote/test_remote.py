"""The client: the same face, types and errors as a local session."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "service"))
from service_shop import counting

import shoal
from shoal.remote import RemoteSession
from shoal.remote.connections import Lost, Reply


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://example.com/d/visits", {}),
        ("https://example.com/d/a/b", {}),
        ("https://example.com/d/", {}),
        ("https://u@example.com/d/x", {}),
        ("https://example.com/d/x", {"catalog": {}}),
        ("https://example.com/d/x", {"budget": (1, 0)}),
        ("https://example.com/d/x", {"user": "ann"}),
        ({"t": {"uid": [1]}}, {}),
        ({"t": {"uid": [1]}}, {"catalog": {"tables": {"t": {"owner": "uid"}}}, "token": "x"}),
    ],
)
def test_wrong_addresses_and_options_are_refused(url, options):
    with pytest.raises(shoal.ShoalError, match="E_USAGE"):
        shoal.connect(url, **options)


def test_a_service_is_named_with_its_data_set():
    with pytest.raises(shoal.ShoalError, match="https://host/d/NAME"):
        shoal.connect("https://example.com/")
    assert repr(RemoteSession("https://example.com/d/visits", "t", Flaky([]))) == (
        "<shoal: the data set visits of https://example.com>"
    )


def test_whoever_is_not_signed_in_reads_where_a_token_goes():
    error = {"error": {"code": "E_AUTH", "message": "wrong", "hint": "Authorization: Bearer", "position": None}}
    with pytest.raises(shoal.ShoalError, match="SHOAL_TOKEN"):
        RemoteSession("https://example.com/d/visits", "t", Flaky([replied(401, error)])).tables()


def test_a_job_that_is_not_answered_in_time_says_what_it_waits_for(no_sleep):
    client = Flaky([replied(200, {"state": "approval", "answer": None, "error": None})])
    with pytest.raises(shoal.ShoalError, match="it waits for a custodian's approval"):
        RemoteSession("https://example.com/d/visits", "t", client).job("j_1").result(timeout=0)


class Flaky:
    """A transport that fails a few times, then answers."""

    def __init__(self, replies):
        self.replies = list(replies)
        self.keys = []

    def request(self, *_, headers, **__):
        self.keys.append(headers.get("Idempotency-Key"))
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


def replied(status: int, data: object = None) -> Reply:
    return Reply(status, b"<html>" if data is None else json.dumps(data).encode())


@pytest.fixture
def no_sleep(monkeypatch):
    monkeypatch.setattr("shoal.remote.session.time.sleep", lambda _: None)


def test_what_passes_is_sent_again_under_the_same_key(no_sleep):
    busy = {"error": {"code": "E_BUSY", "message": "later", "hint": None, "position": None}}
    client = Flaky([Lost(), replied(503, busy), replied(502), replied(429, busy), replied(200, {"epsilon": 1})])
    session = RemoteSession("https://example.com/d/visits", "t", client)
    assert session.send("POST", "/x", headers={"Idempotency-Key": "k"}).json() == {"epsilon": 1}
    assert client.keys == ["k"] * 5


def test_an_error_of_the_query_is_not_sent_again(no_sleep):
    error = {"error": {"code": "E_EXECUTION", "message": "charged", "hint": "h", "position": None}}
    client = Flaky([replied(502, error)])
    with pytest.raises(shoal.ShoalError, match="E_EXECUTION"):
        RemoteSession("https://example.com/d/visits", "t", client).query("SELECT 1")
    assert len(client.keys) == 1


def test_a_service_that_cannot_be_reached_is_an_error_of_ours(no_sleep):
    client = Flaky([Lost()] * 5)
    with pytest.raises(shoal.ShoalError, match="E_SOURCE"):
        RemoteSession("https://example.com/d/visits", "t", client).tables()


def test_the_face_is_that_of_a_local_session(tmp_path, monkeypatch):
    sys.path.insert(0, str(Path(__file__).parent.parent / "web"))
    from web_server import Served

    served = Served(tmp_path)
    monkeypatch.setenv("SHOAL_TOKEN", served.token("ann"))
    sql = counting(0.5)
    with shoal.connect(f"{served.url}/d/visits") as session:
        explanation = session.explain(sql)
        assert "ε = 0.5" in str(explanation)
        result = session.query(sql)
        assert isinstance(result, shoal.Result)
        assert result.intervals(0.9).columns == ["n", "n_low", "n_high"]
        assert session.query(sql).to_bytes() == result.to_bytes()
        assert session.spent == (0.5, 0.0)
        assert session.remaining[0] == 49.5
        assert session.query(sql, fresh=True, key="a").to_bytes() == session.query(sql, fresh=True, key="a").to_bytes()
        assert session.spent == (1.0, 0.0)
        job = session.submit(counting(0.1, "m"))
        assert job.result(300).columns == ["m"]
        assert session.job(job.id).state == "answered" if job.id else job.state == "answered"
        assert 0 < session.epsilon_for(sql, 3) < 10
        assert session.tables()["visits"]["owner"] == "uid"
        with shoal.connect(tmp_path / "data", catalog=tmp_path / "shoal.toml") as here:
            for asked in ("SHOW TABLES", "DESCRIBE Visits", f"EXPLAIN PRIVACY {counting(0.5, 'told')}"):
                told = [
                    row for row in session.query(asked) if not str(row.get("explanation")).startswith("budget left")
                ]
                assert told == list(here.query(asked))
        assert session.spent == (1.1, 0.0)
        with pytest.raises(shoal.ShoalError) as local:
            session.query("SELECT uid FROM visits")
        assert (local.value.code, bool(local.value.hint)) == ("E_NO_DP_CLAUSE", True)
    served.close()
