"""The service over HTTP: answers, formats, statuses, and that hostile requests get one face."""

from __future__ import annotations

import io
import json
import random
import re
import socket
import threading
from fractions import Fraction
from itertools import count
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from web_server import Served, counting

import shoal
from shoal.service.allowances import Grant
from shoal.service.running import Slots
from shoal.service.service import OPERATOR
from shoal.web import gate, health

if TYPE_CHECKING:
    import httpx

NUMBER = count()


def new_question(epsilon: float = 0.1) -> str:
    return counting(epsilon, f"n{next(NUMBER)}")


def asked(client: httpx.Client, sql: str, **more):
    headers = more.pop("headers", {})
    return client.post("/v1/datasets/visits/query", json={"sql": sql} | more, headers=headers)


def code_of(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


# ---- answers -------------------------------------------------------------------------------------------------------


def test_an_answer_has_rows_intervals_cost_and_what_is_left(ann):
    sql = new_question()
    first, again = asked(ann, sql).json(), asked(ann, sql).json()
    (row,) = first["rows"]
    (interval,) = first["intervals"]
    (name,) = row
    assert interval[f"{name}_low"] <= row[name] <= interval[f"{name}_high"]
    assert first["charged"] == {"epsilon": 0.1, "delta": 0.0}
    assert (first["replayed"], again["replayed"]) == (False, True)
    assert again["charged"] == {"epsilon": 0.0, "delta": 0.0}
    assert (again["rows"], again["answer"]) == (first["rows"], first["answer"])
    assert again["remaining"] == first["remaining"]


def test_the_stored_answer_comes_at_any_level_and_in_any_format(ann):
    first = asked(ann, new_question()).json()
    path = f"/v1/answers/{first['answer']}"
    wide = ann.get(path, params={"level": 0.999}).json()
    assert wide["level"] == 0.999
    assert list(wide["intervals"][0].values())[1] < list(first["intervals"][0].values())[1]
    rows = first["rows"]
    arrow = ann.get(path, headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert pa.ipc.open_stream(arrow.content).read_all().to_pylist() == rows
    parquet = ann.get(path, headers={"Accept": "application/vnd.apache.parquet"})
    assert pq.read_table(io.BytesIO(parquet.content)).to_pylist() == rows
    csv = ann.get(path, headers={"Accept": "text/csv"})
    assert csv.text.splitlines()[1] == str(next(iter(rows[0].values())))
    whole = ann.get(path, headers={"Accept": "application/vnd.shoal.answer"})
    assert shoal.Result.from_bytes(whole.content).to_dicts() == rows
    assert (whole.headers["Shoal-Replayed"], whole.headers["Shoal-Epsilon"]) == ("true", "0.0")


def test_explain_says_what_it_would_cost_and_whether_it_is_there(ann):
    sql = new_question()
    explained = ann.post("/v1/datasets/visits/explain", json={"sql": sql}).json()
    assert (explained["epsilon"], explained["affordable"], explained["replay"]) == (0.1, True, None)
    answer = asked(ann, sql).json()["answer"]
    again = ann.post("/v1/datasets/visits/explain", json={"sql": sql}).json()
    assert (again["replay"], again["needs_approval"]) == (answer, False)
    assert again["meaning"]["odds_factor"] > 1


def test_epsilon_comes_from_the_error_one_can_live_with(ann):
    body = {"sql": new_question(), "error": 5}
    assert 0.1 < ann.post("/v1/datasets/visits/epsilon_for", json=body).json()["epsilon"] < 2


def test_a_job_that_somebody_is_told_of_is_on_the_disk(served, ann, monkeypatch):
    monkeypatch.setattr(Slots, "_taken", lambda *_, **__: None)  # a slot that takes it writes too
    reply = ann.post("/v1/datasets/visits/query", json={"sql": counting(0.1, "told"), "wait": 0, "fresh": True})
    assert (reply.status_code, served.service.store.is_behind) == (202, False)
    monkeypatch.undo()
    ann.get(f"/v1/jobs/{reply.json()['job']}", params={"wait": 60})


def test_a_job_can_be_polled_and_cancelled(ann):
    reply = asked(ann, new_question(), wait=0)
    assert reply.status_code in {200, 202}
    if reply.status_code == 202:
        job = ann.get(f"/v1/jobs/{reply.json()['job']}", params={"wait": 60}).json()
        assert (job["state"], job["position"], job["error"]) == ("answered", None, None)
        assert ann.delete(f"/v1/jobs/{job['job']}").json()["state"] == "answered"


@pytest.mark.parametrize("key", ["", "k" * 257, "\x7f"])
def test_a_key_that_is_none_is_refused_and_never_taken_for_no_key(ann, key):
    headers = {"Idempotency-Key": key}
    assert code_of(asked(ann, new_question(), headers=headers)) == (400, "E_USAGE")


def test_the_same_key_is_the_same_answer_and_another_body_is_refused(ann):
    sql, headers = new_question(), {"Idempotency-Key": "k1"}
    replies = [asked(ann, sql, fresh=True, headers=headers).json() for _ in range(3)]
    assert len({reply["answer"] for reply in replies}) == 1
    assert code_of(asked(ann, new_question(), headers=headers)) == (422, "E_IDEMPOTENCY")


@pytest.fixture
def connected(monkeypatch):
    """Every address that this process connects to."""
    found, real = [], socket.socket.connect

    def noted(one, address):
        found.append(address)
        return real(one, address)

    monkeypatch.setattr(socket.socket, "connect", noted)
    return found


def test_every_noun_is_there_and_no_request_makes_the_service_call_anybody(served, connected):
    with served.client("ann") as ann, served.client("carla") as carla:
        ask_for_every_noun(ann, carla)
        sql = {"sql": counting(0.1, "nobody_called"), "fresh": True}
        for what in ("explain", "query", "tune"):
            carla.post(f"/v1/datasets/visits/{what}", json=sql if what == "query" else {"sql": sql["sql"]})
    assert {address[1] for address in connected} == {int(served.url.rpartition(":")[2])}  # the clients, to us


def ask_for_every_noun(ann, carla):
    assert ann.get("/v1/me").json()["datasets"] == ["visits"]
    assert [d["name"] for d in ann.get("/v1/datasets").json()["datasets"]] == ["visits"]
    assert ann.get("/v1/datasets/visits").json()["tables"]["visits"]["owner"] == "uid"
    assert "series" in ann.get("/v1/datasets/visits/budget").json()
    made = carla.post("/v1/users", json={"name": "dora", "roles": ["analyst"]})
    assert made.status_code == 201
    made = carla.post("/v1/tokens", json={"user": "dora"}).json()
    assert made["token"].startswith("shoal_")
    assert carla.request("DELETE", "/v1/tokens", json={"id": made["id"]}).json() == {"revoked": made["id"]}
    assert made["id"] not in {token["id"] for token in carla.get("/v1/tokens").json()["tokens"]}
    assert carla.post("/v1/allowances", json={"dataset": "visits", "to": "dora"}).status_code == 201
    assert "dora" in {user["name"] for user in carla.get("/v1/users").json()["users"]}
    assert carla.get("/v1/log").json()["log"][0]["n"] == 1
    exported = carla.get("/v1/log/export").text.splitlines()
    assert json.loads(exported[0])["log"] == 1
    assert carla.get("/v1/log/anchor").json()["anchor"].startswith(f"{len(exported) - 1}:")
    assert ann.get("/v1/meaning", params={"epsilon": 1.0986122886681098}).json()["posterior"] == pytest.approx(
        [0.25, 0.75]
    )
    assert "shoal_jobs_answered" in carla.get("/v1/metrics").text


def test_a_custodian_looks_at_raw_figures_and_the_looks_are_counted(ann, carla):
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6)"
    body = {"sql": f"{clause} site, COUNT(*) AS n FROM visits GROUP BY site"}
    path = "/v1/datasets/visits/tune"
    assert code_of(ann.post(path, json=body)) == (403, "E_FORBIDDEN")
    first = carla.post(path, json=body | {"epsilon": [0.5, 1], "groups": [1, 2], "bounds": {"n": [[0, 2]]}}).json()
    assert (len(first["settings"]), first["looked"], first["warning"][:11]) == (4, 4, "not private")
    assert carla.post(path, json=body).json()["looked"] == 5
    assert carla.get("/v1/log", params={"after": 1, "limit": 1000}).json()["log"][-1]["action"] == "tune"


def test_an_allowance_is_withdrawn(served, carla):
    eve = served.client("bob")
    served.service.allow(OPERATOR, Grant("visits", "bob", "week", max_epsilon=Fraction(1, 10)))
    assert code_of(asked(eve, new_question(0.2))) == (403, "E_POLICY")
    body = {"dataset": "visits", "to": "bob", "per": "week"}
    assert code_of(eve.request("DELETE", "/v1/allowances", json=body)) == (403, "E_FORBIDDEN")
    assert carla.request("DELETE", "/v1/allowances", json=body).json() == {"withdrawn": body}
    assert asked(eve, new_question(0.2)).status_code == 200
    assert code_of(carla.request("DELETE", "/v1/allowances", json=body)) == (404, "E_NOT_FOUND")
    eve.close()


def test_an_approval_goes_round(served, carla):
    served.service.allow(OPERATOR, Grant("visits", "bob", approve_above=Fraction(4)))
    bob = served.client("bob")
    reply = asked(bob, new_question(5), reason="for the board")
    assert (reply.status_code, reply.json()["state"]) == (202, "approval")
    (waiting,) = carla.get("/v1/approvals").json()["approvals"]
    assert (waiting["asker"], waiting["reason"], waiting["job"]) == ("bob", "for the board", reply.json()["job"])
    assert code_of(bob.post(f"/v1/approvals/{waiting['id']}", json={"decision": "approve"})) == (403, "E_FORBIDDEN")
    assert carla.post(f"/v1/approvals/{waiting['id']}", json={"decision": "approve"}).status_code == 200
    assert bob.get(f"/v1/jobs/{reply.json()['job']}", params={"wait": 60}).json()["state"] == "answered"
    asked_for = bob.post("/v1/approvals", json={"dataset": "visits", "sql": new_question(5), "reason": "once more"})
    assert (asked_for.status_code, asked_for.json()["state"]) == (202, "approval")
    assert bob.delete(f"/v1/jobs/{asked_for.json()['job']}").json()["state"] == "cancelled"
    needs_none = bob.post("/v1/approvals", json={"dataset": "visits", "sql": new_question()})
    assert code_of(needs_none) == (400, "E_USAGE")
    bob.close()


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"sql": "SELECT uid FROM visits"}, (400, "E_NO_DP_CLAUSE")),
        ({"sql": counting(1000)}, (402, "E_BUDGET")),
        ({"sql": counting(0.001)}, (403, "E_POLICY")),
        ({"sql": "SELECT 1", "what": 1}, (400, "E_USAGE")),
        ({"sql": 7}, (400, "E_USAGE")),
        ({}, (400, "E_USAGE")),
        ({"sql": counting(), "wait": 61}, (400, "E_USAGE")),
        ({"sql": counting(), "wait": True}, (400, "E_USAGE")),
        ({"sql": counting(), "level": 2}, (400, "E_OPTION_INVALID")),
        ({"sql": counting(), "composition": "other"}, (400, "E_USAGE")),
        ({"sql": "SELECT '" + "x" * 10**6 + "'"}, (400, "E_USAGE")),
    ],
)
def test_a_refusal_has_the_librarys_code_and_one_status(ann, served, body, expected):
    before = served.service.datasets.get("visits").ledger.spent
    assert code_of(ann.post("/v1/datasets/visits/query", json=body)) == expected
    assert served.service.datasets.get("visits").ledger.spent == before


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{}", "text/plain", 415),
        (b"{", "application/json", 400),
        (b'{"sql": "a", "sql": "b"}', "application/json", 400),
        (b'{"sql": NaN}', "application/json", 400),
        (b"[" * 30 + b"]" * 30, "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b" " * (1024 * 1024 + 1), "application/json", 413),
        (b"[]", "application/json", 400),
    ],
)
def test_bodies_that_are_not_questions_are_refused(ann, content, kind, status):
    reply = ann.post("/v1/datasets/visits/query", content=content, headers={"Content-Type": kind})
    assert reply.status_code == status
    assert reply.json()["error"]["code"] in {"E_USAGE", "E_LIMITS"}


NESTED = st.recursive(
    st.integers(0, 9), lambda inner: st.lists(inner) | st.dictionaries(st.just("k"), inner), max_leaves=40
)


def depth_of(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(NESTED)
def test_what_nests_too_deep_is_found_without_a_step_for_each_byte(value):
    """A body of a mebibyte full of brackets kept all others waiting for a third of a second."""
    text = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        for most in (0, 1, 2, 3, 20):
            patch.setattr(gate, "DEEPEST", most)
            assert gate._is_deep(text) is (depth_of(value) > most)


@pytest.mark.parametrize("deep", [20, 21, 10**5])
def test_a_body_nests_so_deep_and_no_deeper(deep):
    for between in (b"", b"x", b"[]", b"{}[]" * 1000):
        assert gate._is_deep(b"[" * deep + between + b"]" * deep) is (deep + (b"[" in between) > 20)


def waiting(thing, name, holds, monkeypatch):
    """Calls of a function for which `holds` wait until they are let go; returns what tells that one waits, and what lets go."""
    function, waits, go_on = getattr(thing, name), threading.Event(), threading.Event()

    def slow(*about):
        if holds(*about):
            waits.set()
            assert go_on.wait(60)
        return function(*about)

    monkeypatch.setattr(thing, name, slow)
    return waits, go_on.set


@pytest.mark.parametrize("what", ["a database that hangs", "a long body"])
def test_nobody_else_waits_for(served, ann, monkeypatch, what):
    """With a database that did not answer, the process did not say that it lives, and whoever watched it would have ended it."""
    if what == "a long body":
        waits, let_go = waiting(gate, "check_json", lambda _, body: len(body) > 40_000, monkeypatch)
    else:
        monkeypatch.setattr(served.service.store, "is_near", False)
        waits, let_go = waiting(
            served.service.people, "caller", lambda token: token == served.token("ann"), monkeypatch
        )
    found = []
    body = {"sql": new_question() + " " * 50_000}
    asking = threading.Thread(target=lambda: found.append(asked(ann, **body).status_code))
    asking.start()
    try:
        assert waits.wait(60)
        with served.client(None) as other:
            assert other.get("/v1/health", timeout=30).json() == {"health": "ok"}
        assert found == []
    finally:
        let_go()
        asking.join(60)
    assert found == [200]


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer shoal_" + "A" * 43},
        {"Authorization": "Basic x"},
        {"Authorization": "bearer shoal_x"},
        {"Cookie": "token=x"},
    ],
)
def test_without_a_good_token_nothing_is_told(served, headers):
    with served.client(None) as client:
        replies = [
            client.get(path, headers=headers) for path in ("/v1/me", "/v1/datasets/visits", "/v1/nothing", "/v1")
        ]
    assert {reply.status_code for reply in replies} == {401}
    assert len({reply.content for reply in replies}) == 1
    assert replies[0].headers["WWW-Authenticate"] == "Bearer"


def test_what_is_not_yours_looks_like_what_is_not_there(served):
    served.service.add_user(OPERATOR, "eve", ["analyst"])
    with served.client("ann") as ann:
        mine = asked(ann, new_question()).json()["answer"]
    with served.client("eve") as eve:
        pairs = [
            (f"/v1/answers/{mine}", "/v1/answers/a_x"),
            ("/v1/datasets/visits", "/v1/datasets/nothing"),
            ("/v1/datasets/visits/budget", "/v1/datasets/nothing/budget"),
        ]
        for there, nowhere in pairs:
            one, other = eve.get(there), eve.get(nowhere)
            assert (one.status_code, one.content) == (404, other.content)


def test_a_name_that_is_not_ours_is_refused(served):
    with served.client("ann") as client:
        refused = client.get("/v1/me", headers={"Host": "evil.example"})
        assert (refused.status_code, "--allow-host" in refused.json()["error"]["hint"]) == (421, True)
        assert client.get("/v1/me", headers={"Host": "localhost:99"}).status_code == 200


def test_every_reply_has_the_headers_that_browsers_obey(served, ann):
    with served.client(None) as nobody:
        refused = nobody.get("/v1/me")
    for reply in (ann.get("/v1/me"), ann.get("/v1/nothing"), refused, ann.get("/")):
        assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
        assert reply.headers["Cache-Control"] == "no-store"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert "server" not in reply.headers


def test_methods_and_parameters_that_are_unknown_are_refused(ann):
    assert code_of(ann.put("/v1/me")) == (405, "E_USAGE")
    assert ann.put("/v1/tokens").headers["Allow"] == "DELETE, GET, POST"
    assert code_of(ann.get("/v1/me", params={"x": 1})) == (400, "E_USAGE")
    for wrong in ({"limit": "nan"}, {"after": "1.5"}, {"after": str(2**53 + 1)}):
        assert code_of(ann.get("/v1/log", params=wrong)) == (400, "E_USAGE")
    assert ann.get("/v1/meaning", params={"delta": "2.2e-309"}).status_code == 200


def test_whether_the_store_works_is_looked_at_once_in_five_seconds(served, ann, monkeypatch):
    looked, ready = [], served.service.ready
    monkeypatch.setattr(served.service, "ready", lambda: looked.append(1) or ready())
    monkeypatch.setattr(health, "READY_SECONDS", -1.0)
    assert ann.get("/v1/ready").json() == {"ready": True}
    monkeypatch.setattr(health, "READY_SECONDS", 3600.0)
    assert [ann.get("/v1/ready").status_code for _ in range(3)] == [200] * 3
    assert len(looked) == 1


def test_metrics_are_counts_as_prometheus_reads_them(ann, carla):
    found = carla.get("/v1/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert all(re.fullmatch(r"shoal_[a-z_]+ [0-9]+", line) for line in found.text.splitlines())
    assert code_of(ann.get("/v1/metrics")) == (403, "E_FORBIDDEN")


def test_too_many_headers_are_refused(ann):
    assert ann.get("/v1/me", headers={f"x-{i}": "1" for i in range(120)}).status_code == 431


def test_the_description_is_complete_and_loads_nothing(ann):
    description = ann.get("/openapi.json").json()
    assert description["openapi"].startswith("3.1")
    assert "/v1/datasets/{dataset}/query" in description["paths"]
    assert description["paths"]["/v1/tokens"]["post"]["responses"].keys() == {"201", "4XX", "5XX"}
    assert description["paths"]["/v1/metrics"]["get"]["responses"]["200"]["content"].keys() == {"text/plain"}
    schemas = description["components"]["schemas"]
    assert schemas["UserBody"]["properties"]["roles"]["items"]["enum"] == ["analyst", "auditor", "custodian"]
    assert schemas["Pair"]["properties"]["delta"]["exclusiveMaximum"] == 1
    assert ann.get("/docs").status_code == 404


def test_csv_cells_that_a_spreadsheet_would_run_begin_with_an_apostrophe(ann):
    reply = ann.post(
        "/v1/datasets/visits/query",
        json={"sql": "SELECT '=1+1' AS x FROM sites WHERE site = 's0'"},
        headers={"Accept": "text/csv"},
    )
    assert reply.text.splitlines()[1] == '"\'=1+1"'


# ---- same face on neighbours ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_refusals_and_job_states_are_the_same_bytes_with_and_without_one_person(tmp_path):
    faces = []
    for number, drop in enumerate((None, 7)):
        place = tmp_path / str(number)
        place.mkdir()
        one = Served(place, (1.0, 1e-5))
        if drop is not None:
            table = pq.read_table(place / "data" / "visits.parquet")
            pq.write_table(table.filter(pa.compute.not_equal(table["uid"], drop)), place / "data" / "visits.parquet")
            one.service.refresh(OPERATOR, "visits")
        else:
            one.service.refresh(OPERATOR, "visits")
        with one.client("ann") as client:
            bodies = [
                {"sql": text}
                for text in (
                    counting(),
                    counting(5),
                    "SELECT * FROM visits",
                    "x",
                    counting() + " GROUP BY site",
                    "SELECT 1/0",
                )
            ]
            replies = [client.post("/v1/datasets/visits/query", json=body) for body in bodies]
            replies += [client.post("/v1/datasets/visits/explain", json=body) for body in bodies]
        one.close()
        kept = ("content-type", "retry-after", "cache-control", "content-security-policy")
        faces.append(
            [
                (r.status_code, [r.headers.get(name) for name in kept], None if r.status_code == 200 else r.content)
                for r in replies
            ]
        )
    assert faces[0] == faces[1]


# ---- fuzz ----------------------------------------------------------------------------------------------------------


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
PATHS = st.sampled_from(
    [
        "datasets/visits/query",
        "datasets/visits/explain",
        "datasets/visits/epsilon_for",
        "tokens",
        "users",
        "allowances",
        "approvals/x",
        "datasets/visits/lift",
        "jobs/x",
        "answers/x",
        "log",
        "me",
    ]
)
FIELDS = st.sampled_from(["sql", "fresh", "level", "wait", "error", "name", "roles", "to", "budget", "decision", "x"])


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    method=st.sampled_from(["GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS"]),
    path=PATHS,
    body=st.dictionaries(FIELDS, JSON_VALUES, max_size=4),
    tail=st.text(max_size=10),
)
def test_no_request_gets_a_500(served, method, path, body, tail):
    with served.client("carla") as client:
        reply = client.request(method, f"/v1/{path}?{quote(tail)}", json=body)
    assert reply.status_code not in {500, 502}


@pytest.mark.parametrize("seed", range(30))
def test_raw_bytes_on_the_socket_do_no_harm(served, seed):
    generator = random.Random(seed)
    port = int(served.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=300) as raw:
        start = generator.choice([b"", b"GET / HTTP/1.1\r\n", b"POST /v1/users HTTP/1.1\r\nHost: localhost\r\n"])
        raw.sendall(start + generator.randbytes(generator.randrange(1, 2000)) + b"\r\n\r\n")
        raw.shutdown(socket.SHUT_WR)
        reply = b"".join(iter(lambda: raw.recv(65_536), b""))
    assert not reply or reply.split()[1] != b"500"
    with served.client(None) as client:
        assert client.get("/v1/health").status_code == 200


def test_an_epsilon_beside_the_statement_takes_its_place(ann):
    name = f"n{next(NUMBER)}"
    plain = asked(ann, counting(0.1, name), epsilon=0.2).json()
    assert plain["charged"] == {"epsilon": 0.2, "delta": 0.0}
    assert asked(ann, counting(0.2, name)).json()["answer"] == plain["answer"]
    explained = ann.post("/v1/datasets/visits/explain", json={"sql": counting(0.1, name), "epsilon": 0.2}).json()
    assert (explained["epsilon"], explained["replay"]) == (0.2, plain["answer"])
    assert code_of(asked(ann, counting(0.1, name), epsilon=0.001))[0] == 403
    assert code_of(asked(ann, counting(0.1, name), epsilon=-1))[0] == 400


def test_a_query_string_of_other_bytes_is_refused_like_any_other(served):
    with socket.create_connection(served.url.removeprefix("http://").split(":")) as raw:
        raw.sendall(b"GET /v1/health?\xff=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert raw.recv(100).startswith(b"HTTP/1.1 400")


def test_an_answer_of_too_many_cells_comes_as_arrow_alone(ann, monkeypatch):
    from shoal.web import replies

    answer = ann.post("/v1/datasets/visits/query", json={"sql": "SELECT town, site FROM sites"}).json()["answer"]
    monkeypatch.setattr(replies, "MOST_CELLS", 3)
    for kind in ("application/json", "text/csv"):
        refused = ann.get(f"/v1/answers/{answer}", headers={"Accept": kind})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "E_LIMITS")
    assert ann.get(f"/v1/answers/{answer}", headers={"Accept": replies.ARROW}).status_code == 200


def test_a_bug_of_ours_is_counted_and_tells_nothing(served, ann, carla, monkeypatch):
    def broken(_):
        raise ValueError("a row of ours")

    monkeypatch.setattr(served.service, "me", broken)
    reply = ann.get("/v1/me")
    assert code_of(reply) == (500, "E_INTERNAL")
    assert "row" not in reply.text
    assert "shoal_internal_errors 1\n" in carla.get("/v1/metrics").text
