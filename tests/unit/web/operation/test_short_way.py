"""The short way to an explanation: the same replies as through the framework."""

from __future__ import annotations

import json

import pytest
from test_operation import Served

from shoal.web.operation import short_way

SQL = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1) COUNT(DISTINCT uid) AS n FROM visits"
BODIES = [
    json.dumps({"sql": SQL}).encode(),
    json.dumps({"sql": SQL, "epsilon": 0.5, "composition": "pld"}).encode(),
    json.dumps({"sql": SQL}).encode("utf-16"),
    json.dumps({"sql": "SELECT uid FROM visits"}).encode(),
    b"",
    b"null",
    b"[]",
    b"1",
    b"{}",
    b'{"sql": 1}',
    b'{"sql": null}',
    b'{"sql": "x", "sql": "y"}',
    b'{"sql": "x", "more": 1, "\\u202e": 2}',
    b'{"sql": "\\ud800"}',
    b'{"sql": "x", "epsilon": "1"}',
    b'{"sql": "x", "epsilon": true}',
    b'{"sql": "x", "composition": "other"}',
    b'{"sql": "' + b"x" * 200_001 + b'"}',
    b"\xff",
]
PATHS = ["visits", "nothing", "visits%2Fexplain", "VISITS", "%00", "visits/", ""]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    one = Served(tmp_path_factory.mktemp("served"))
    yield one
    one.close()


def replies(served):
    with served.client("ann") as client:
        for method, path, query, body in [
            *(("POST", "visits", "", body) for body in BODIES),
            *(("POST", path, "", BODIES[0]) for path in PATHS),
            *((method, "visits", "", BODIES[0]) for method in ("GET", "PUT", "DELETE", "OPTIONS", "PATCH")),
            ("POST", "visits", "?a=1", BODIES[0]),
        ]:
            kind = {"Content-Type": "application/json"}
            said = client.request(method, f"/v1/datasets/{path}/explain{query}", content=body, headers=kind)
            shown = {name: value for name, value in said.headers.items() if name != "date"}
            yield method, path, query, body[:40], said.status_code, shown, said.content


def test_every_reply_is_the_same_either_way(served, monkeypatch):
    short = list(replies(served))
    monkeypatch.setattr(short_way, "_explained", lambda _: None)
    assert short == list(replies(served))
    assert {status for *_, status, _, _ in short} >= {200, 400, 404, 405}
