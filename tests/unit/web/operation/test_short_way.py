"""The short way to explanations and answers: the same replies as through the framework."""

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


OF_QUERIES = [
    b'{"sql": "x", "wait": -1}',
    b'{"sql": "x", "wait": 61}',
    b'{"sql": "x", "fresh": 1}',
    b'{"sql": "x", "level": 2}',
    b'{"sql": "x", "reason": 1, "answer_time": "soon"}',
    json.dumps({"sql": SQL, "level": 0.5}).encode(),
    json.dumps({"sql": SQL, "level": 1.5}).encode(),
    json.dumps({"sql": f"EXPLAIN PRIVACY {SQL}"}).encode(),
]
KEYS = [[], [b"a key"], [b"x" * 257], [b""], [b"one", b"two"], [b"\xe4"]]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    one = Served(tmp_path_factory.mktemp("served"), rates=False)
    list(replies(one, "query"))  # questions are answered once, so that every later answer is a replay
    yield one
    one.close()


def replies(served, verb):
    bodies = BODIES if verb == "explain" else [*BODIES, *OF_QUERIES]
    keys = KEYS if verb == "query" else KEYS[:1]
    with served.client("ann") as client:
        for method, path, query, body, key in [
            *(("POST", "visits", "", body, []) for body in bodies),
            *(("POST", path, "", BODIES[0], []) for path in PATHS),
            *((method, "visits", "", BODIES[0], []) for method in ("GET", "PUT", "DELETE", "OPTIONS", "PATCH")),
            *(("POST", "visits", "", BODIES[0], key) for key in keys),
            ("POST", "visits", "?a=1", BODIES[0], []),
        ]:
            headers = [(b"Content-Type", b"application/json"), *((b"Idempotency-Key", each) for each in key)]
            said = client.request(method, f"/v1/datasets/{path}/{verb}{query}", content=body, headers=headers)
            shown = {name: value for name, value in said.headers.items() if name != "date"}
            yield method, path, query, body[:40], key, said.status_code, shown, said.content


@pytest.mark.parametrize("verb", ["explain", "query"])
def test_every_reply_is_the_same_either_way(served, monkeypatch, verb):
    short = list(replies(served, verb))
    monkeypatch.setattr(short_way, "_found", lambda _: None)
    for one, other in zip(short, replies(served, verb), strict=True):
        assert one == other
    assert {status for *_, status, _, _ in short} >= {200, 400, 404, 405}
