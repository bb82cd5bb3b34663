"""The console without a browser: signing in, cookies, who may open what, and form tokens."""

from __future__ import annotations

import asyncio
import html
import re
from fractions import Fraction

import httpx
import pytest
from console_browser import Browser, new_question
from web_server import Served, counting, write_folder

from shoal.params import budget
from shoal.service.allowances import Grant
from shoal.service.datasets import NewDataSet
from shoal.service.service import OPERATOR
from shoal.web.app import application

PAGES = ["/", "/d/visits", "/d/visits/ask", "/d/visits/budget", "/approvals", "/tokens", "/meaning", "/help"]
CUSTODIANS = ["/people", "/d/visits/tune"]


# ---- signing in ----------------------------------------------------------------------------------------------------


def test_what_is_protected_stands_wherever_an_epsilon_is_explained(tmp_path):
    """Where one person's month is protected, no page may say that a person is."""
    served = Served(tmp_path)
    try:
        folder = write_folder(tmp_path / "more")
        unit = "one person's month"
        new = NewDataSet(
            "months", str(folder), str(tmp_path / "shoal.toml"), budget((3, 1e-5)), unit=unit, new_people=True
        )
        served.service.add_dataset(OPERATOR, new)
        served.service.allow(OPERATOR, Grant("months", "ann", approve_above=Fraction(1, 2)))
        asked = {"sql": counting(0.25, "month")}
        with served.client("ann") as ann, Browser(served, "ann") as browser:
            explained = ann.post("/v1/datasets/months/explain", json=asked).json()
            answer = ann.post("/v1/datasets/months/query", json=asked).json()["answer"]
            ann.post("/v1/datasets/months/query", json={"sql": counting(0.75, "dear"), "wait": 0})
            (waiting,) = ann.get("/v1/approvals").json()["approvals"]
            pages = [browser.get(path).text for path in (f"/a/{answer}", "/d/months/budget", "/approvals")]
        assert waiting["unit"] == unit
        for text in (" ".join(explained["meaning"]["sentences"]), *(html.unescape(page) for page in pages)):
            assert "a person's month" in text
            assert "that a person is in" not in text
            assert "with a person's data" not in text
    finally:
        served.close()


def test_a_cookie_is_for_our_pages_alone_and_a_new_one_at_every_sign_in(served):
    with Browser(served, None) as browser:
        first = browser.post("/login", data={"token": served.token("ann")})
        again = browser.post("/login", data={"token": served.token("ann")})
    for reply in (first, again):
        words = {word.strip().lower() for word in reply.headers["Set-Cookie"].split(";")}
        assert {"httponly", "samesite=strict", "path=/"} <= words
        assert not any(word.startswith("domain") for word in words)
    assert first.cookies["shoal_session"] != again.cookies["shoal_session"]


def test_a_cookie_under_tls_is_bound_to_the_host(served):
    app = application(served.service, ["console.example"], secure=True)

    async def signed_in() -> tuple[str, int]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="https://console.example") as client:
            reply = await client.post("/login", data={"token": served.token("ann")})
            return reply.headers["Set-Cookie"], (await client.get("/")).status_code

    cookie, status = asyncio.run(signed_in())
    assert cookie.startswith("__Host-shoal_session=")
    assert "Secure" in cookie
    assert status == 200


def test_the_secret_of_a_cookie_is_no_token_and_a_token_is_no_cookie(served, ann):
    secret = ann.cookies["shoal_session"]
    assert httpx.get(f"{served.url}/v1/me", headers={"Authorization": f"Bearer {secret}"}).status_code == 401
    assert httpx.get(f"{served.url}/v1/me", cookies={"shoal_session": secret}).status_code == 401
    token = httpx.get(f"{served.url}/", cookies={"shoal_session": served.token("ann")})
    assert token.headers["Location"] == "/login"
    bearer = httpx.get(f"{served.url}/", headers={"Authorization": f"Bearer {served.token('ann')}"})
    assert bearer.headers["Location"] == "/login"


def test_signing_out_ends_the_session_and_not_only_the_cookie(served):
    with Browser(served, "bob") as browser:
        secret = browser.cookies["shoal_session"]
        assert browser.send_form("/logout").headers["Location"] == "/login"
    assert httpx.get(f"{served.url}/help", cookies={"shoal_session": secret}).status_code == 303


def test_a_session_ends_with_its_token(served):
    made = served.service.create_token(OPERATOR, "bob")
    with Browser(served, None) as browser:
        browser.post("/login", data={"token": made["token"]})
        assert browser.get("/help").status_code == 200
        with served.service.store.writing() as rows:
            served.service.people.revoke(rows, made["id"])
        assert browser.get("/help").status_code == 303


@pytest.mark.parametrize(("column", "hours"), [("seen", 1), ("created", 12)])
def test_a_session_ends_after_an_idle_hour_and_after_twelve(served, column, hours):
    with Browser(served, "otto") as browser:
        assert browser.get("/help").status_code == 200
        with served.service.store.writing() as rows:
            rows.run(
                f"UPDATE sessions SET {column} = strftime('%Y-%m-%dT%H:%M:%SZ', 'now', ?) WHERE person = 'otto'",
                f"-{60 * hours + 1} minutes",
            )
        assert browser.get("/help").status_code == 303


def test_a_wrong_token_says_what_to_do_and_is_not_repeated(served):
    with Browser(served, None) as browser:
        reply = browser.post("/login", data={"token": "shoal_" + "x" * 43})
    assert reply.status_code == 401
    assert "This token is not good" in reply.text
    assert "x" * 43 not in reply.text


@pytest.mark.parametrize(
    "place", ["//elsewhere.example", "https://elsewhere.example", "/\\elsewhere.example", "javascript:x"]
)
def test_signing_in_never_leads_elsewhere(served, place):
    with Browser(served, None) as browser:
        assert "elsewhere" not in browser.get("/login", params={"to": place}).text
        assert browser.post("/login", data={"token": served.token("ann"), "to": place}).headers["Location"] == "/"


@pytest.mark.parametrize("path", [*PAGES, *CUSTODIANS, "/a/a_x", "/j/j_x", "/log", "/d/nothing"])
def test_whoever_is_not_signed_in_is_asked_to(served, path):
    reply = httpx.get(f"{served.url}{path}")
    assert reply.status_code == 303
    assert reply.headers["Location"].startswith("/login")


# ---- who may open what ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
def test_an_analyst_opens_the_pages_of_analysts(ann, path):
    assert ann.get(path).status_code == 200


@pytest.mark.parametrize("path", [*CUSTODIANS, "/log"])
def test_an_analyst_cannot_open_what_is_the_custodians(ann, path):
    reply = ann.get(path)
    assert reply.status_code == 403
    assert "E_FORBIDDEN" in reply.text
    assert f'href="{path}"' not in ann.get("/").text


@pytest.mark.parametrize("path", [*PAGES, *CUSTODIANS, "/log"])
def test_a_custodian_opens_everything(carla, path):
    page = carla.get(path)
    assert (page.status_code, len(page.content) <= 100_000) == (200, True)


def test_an_auditor_reads_totals_and_the_log_and_no_rows(served, ann):
    answer = ann.answer(new_question())
    with Browser(served, "otto") as otto:
        assert otto.get("/log").status_code == otto.get("/d/visits/budget").status_code == 200
        assert otto.get(answer.url.path).status_code == 403
        assert otto.get("/d/visits/ask").status_code == 403


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/people", {"name": "eve", "roles": "custodian"}),
        ("/people/bob/retire", {}),
        ("/allowances", {"dataset": "visits", "to": "ann"}),
        ("/approvals/p_x", {"decision": "approve"}),
        ("/d/visits/lift", {"user": "ann", "because": "please"}),
        ("/d/visits/tune", {"sql": counting()}),
        ("/d/visits/raise", {"epsilon": "100", "delta": "0.5", "because": "please"}),
        ("/d/visits/refresh", {}),
        ("/tokens", {"user": "carla"}),
        ("/log/verify", {}),
        ("/log/export", {}),
    ],
)
def test_an_analyst_cannot_do_what_is_the_custodians(ann, path, fields):
    assert ann.send_form(path, **fields).status_code == 403


def test_what_is_not_yours_looks_like_what_does_not_exist(served, ann, tmp_path):

    (tmp_path / "other").mkdir()
    folder = write_folder(tmp_path / "other" / "data")
    new = NewDataSet("secret", str(folder), str(tmp_path / "other" / "shoal.toml"), budget((1, 0)), new_people=True)
    served.service.add_dataset(OPERATOR, new)
    try:
        for rest in ("", "/ask", "/budget"):
            there, nowhere = ann.get(f"/d/secret{rest}"), ann.get(f"/d/nowhere{rest}")
            assert there.status_code == 404
            assert there.content == nowhere.content
            assert dict(there.headers) | {"date": ""} == dict(nowhere.headers) | {"date": ""}
        with Browser(served, "carla") as carla:
            job = carla.send_form("/d/secret/ask", sql=new_question(), do="explain")
            assert job.status_code == 200
    finally:
        served.service.retire_dataset(OPERATOR, "secret")


def test_a_job_of_somebody_else_looks_like_none(served, ann):
    job = ann.ask(new_question()).headers["Location"]
    with Browser(served, "bob") as bob:
        assert bob.get(job).content == bob.get("/j/j_nothing").content
        assert bob.send_form(f"{job}/cancel").status_code == 404


# ---- forms ---------------------------------------------------------------------------------------------------------


def test_a_form_without_its_token_or_with_another_changes_nothing(served, ann, carla):
    before = len(served.service.people.tokens("ann"))
    for fields in ({"days": "3"}, {"form": ""}, {"form": "0" * 64}, {"form": carla.form}):
        assert ann.post("/tokens", data=fields).status_code == 403
    assert len(served.service.people.tokens("ann")) == before


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
def test_a_form_of_another_site_is_refused(served, ann, headers):
    assert ann.post("/tokens", data={"form": ann.form}, headers=headers).status_code == 403
    token = {"token": served.token("ann")}
    assert httpx.post(f"{served.url}/login", data=token, headers=headers).status_code == 403


def test_a_form_that_names_no_origin_is_refused(served):
    with Browser(served, "ann") as browser:
        del browser.headers["Origin"]
        assert browser.post("/tokens", data={"form": browser.form}).status_code == 403


def test_a_form_of_our_own_page_is_taken(served, ann):
    for headers in ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, {"Origin": served.url}):
        assert ann.post("/tokens", data={"form": ann.form}, headers=headers).status_code == 201


@pytest.mark.parametrize("body", [b"\xff=1", b"a=%FF", b"form=%zz", b"&" * 300, b"unknown=1", b'{"a": 1}'])
def test_a_form_that_cannot_be_read_is_refused(ann, body):
    reply = ann.post("/tokens", content=body, headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert reply.status_code in {400, 403}
    assert ann.post("/tokens", content=body, headers={"Content-Type": "application/json"}).status_code == 400


@pytest.mark.parametrize("path", [*PAGES, "/nothing", "/login"])
def test_every_page_forbids_what_is_inline_or_from_elsewhere(ann, path):
    reply = ann.get(path)
    policy = reply.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert reply.headers["Cache-Control"] == "no-store"
    assert not re.search(
        r"<script(?! src=\"/static/)|\son[a-z]+=|\sstyle=|<style|(?:src|href|action)=.?(?:https?:|//)", reply.text
    )
    assert len(reply.content) < 100_000


def test_the_script_is_small_and_static_files_are_ours_alone(served):
    for name, kind in (("shoal.js", "text/javascript"), ("shoal.css", "text/css"), ("icon.svg", "image/svg+xml")):
        reply = httpx.get(f"{served.url}/static/{name}")
        assert reply.headers["Content-Type"].startswith(kind)
        assert len(reply.content) < 40_000
    for name in ("../app.py", "..%2Fapp.py", "shoal.py", ""):
        assert httpx.get(f"{served.url}/static/{name}").status_code in {303, 404}


def test_a_role_is_named_where_no_token_would_help(served, carla):
    with Browser(served, "otto") as otto:
        refused = otto.get("/d/visits/ask")
        assert refused.status_code == 403
        assert "The role auditor may not do that" in refused.text
        assert "It is for analysts and custodians." in refused.text
        assert "Ask the data custodian for a token" not in refused.text
    narrow = served.service.create_token(OPERATOR, "ann", ["read"])["token"]
    with httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {narrow}"}) as client:
        asked = client.post("/v1/datasets/visits/explain", json={"sql": counting()})
    assert asked.json()["error"]["hint"] == "Ask the data custodian for a token with it."
    assert "<b>carla</b> <span>custodian</span>" in carla.get("/help").text
    served.service.add_user(OPERATOR, "custodian", ["custodian"])
    with Browser(served, "custodian") as named:
        assert "<b>custodian</b></span>" in named.get("/help").text
