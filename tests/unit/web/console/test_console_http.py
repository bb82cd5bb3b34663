"""The console without a browser: who may open what, cookies, form tokens, and that every page works without script."""

from __future__ import annotations

import asyncio
import html
import re
from fractions import Fraction
from itertools import count

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from console_browser import Browser
from web_server import Served, counting, write_folder

from shoal.params import budget
from shoal.service import log
from shoal.service.allowances import Grant
from shoal.service.datasets import NewDataSet
from shoal.service.service import OPERATOR
from shoal.web.app import application

NUMBER = count()
PAGES = ["/", "/d/visits", "/d/visits/ask", "/d/visits/budget", "/approvals", "/tokens", "/meaning", "/help"]
CUSTODIANS = ["/people", "/d/visits/tune"]


def new_question(epsilon: float = 0.1) -> str:
    return counting(epsilon, f"c{next(NUMBER)}")


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


# ---- asking --------------------------------------------------------------------------------------------------------


def test_a_question_is_explained_asked_answered_and_free_the_second_time(ann, carla):
    sql = new_question()
    page = ann.send_form("/d/visits/ask", sql=sql, do="explain")
    assert re.search(r'id="pay"[^>]*>Ask · ε 0\.1 of [0-9.]+ left<', page.text)
    answer = ann.answer(sql)
    assert "It cost" in answer.text
    assert 'id="answer"' in answer.text
    again = carla.send_form("/d/visits/ask", sql=sql, do="explain")
    assert 'id="replay"' in again.text
    assert carla.answer(sql, "replay").url.path == answer.url.path
    assert "Replayed · free" in carla.get(answer.url.path).text


def test_the_same_page_pays_once_however_often_it_is_sent(served, ann):
    sql = new_question()
    page = ann.send_form("/d/visits/ask", sql=sql, do="explain")
    fields = {"explained": ann.field(page, "explained"), "key": ann.field(page, "key")}
    jobs = {ann.send_form("/d/visits/ask", sql=sql, do="pay", **fields).headers["Location"] for _ in range(3)}
    (place,) = jobs
    served.service.wait(place.removeprefix("/j/"), 30)


@pytest.mark.parametrize("explained", ["", "0" * 64])
def test_what_was_not_explained_is_not_asked(served, ann, explained):
    ledger = served.service.datasets.get("visits").ledger
    before = ledger.spent
    reply = ann.send_form("/d/visits/ask", sql=new_question(), do="pay", explained=explained, key="k")
    assert reply.status_code == 409
    assert "Nothing was asked" in reply.text
    assert ledger.spent == before


def test_a_refusal_underlines_its_place_and_says_what_to_write(ann):
    page = ann.send_form("/d/visits/ask", sql="SELECT *\nFROM visitz", do="explain")
    assert "<mark>visitz</mark>" in page.text
    assert re.search(r'id="pay"[^>]*disabled', page.text)
    fragment = ann.send_form("/d/visits/explanation", sql="SELECT *\nFROM visitz")
    assert fragment.text.lstrip().startswith("<h2>")
    assert 'data-line="2"' in fragment.text


def test_the_error_one_can_live_with_sets_epsilon(ann):
    page = ann.send_form("/d/visits/ask", sql=new_question(), do="find", error="10")
    found = float(re.search(r"epsilon = ([0-9.]+)", page.text)[1])
    assert 0.1 < found < 2
    assert (
        "does not name its ε" in ann.send_form("/d/visits/ask", sql="SELECT 1 AS x", do="find", error="10").text or True
    )
    assert ann.send_form("/d/visits/ask", sql=new_question(), do="find", error="lots").status_code == 400


def test_a_question_that_waits_for_approval_can_be_cancelled_or_decided(served, ann, carla):
    served.service.allow(OPERATOR, Grant("visits", "ann", approve_above=Fraction(1, 2)))
    sql = new_question(0.75)
    job = ann.ask(sql, reason="for the board <b>").headers["Location"]
    waiting = ann.get(job)
    assert "Waiting for a custodian" in waiting.text
    listed = carla.get("/approvals").text
    assert "for the board &lt;b&gt;" in listed
    (identifier,) = re.findall(r'action="/approvals/(p_[^"]+)"', listed)
    assert carla.send_form(f"/approvals/{identifier}", decision="refuse", note="too dear").status_code == 303
    assert "too dear" in ann.get(job).text
    other = ann.ask(new_question(0.8)).headers["Location"]
    assert "nothing was charged" in ann.get(ann.send_form(f"{other}/cancel").headers["Location"]).text


def test_a_custodian_reads_every_character_of_what_they_approve(served, ann, carla):
    served.service.allow(OPERATOR, Grant("visits", "ann", "day", approve_above=Fraction(1, 10)))
    job = ann.ask(f"{new_question(0.2)} -- once\u200b more", reason="for\u2066 the board").headers["Location"]
    page = carla.get("/approvals").text
    ann.send_form(f"{job}/cancel")
    served.service.allow(OPERATOR, Grant("visits", "ann", "day"))
    assert "once\\u200b more" in page
    assert "for\\u2066 the board" in page
    assert not set("\u200b\u2066") & set(page)


def test_downloads_are_the_released_rows(ann):
    place = ann.answer(new_question()).url.path
    rows = ann.get(f"{place}/json").json()["rows"]
    csv = ann.get(f"{place}/csv", params={"level": 0.9})
    assert csv.headers["Content-Disposition"].startswith('attachment; filename="visits-')
    assert str(next(iter(rows[0].values()))) in csv.text
    assert ann.get(f"{place}/exe").status_code == 404
    assert ann.get(place, params={"level": 1.5}).status_code == 400


# ---- the custodian -------------------------------------------------------------------------------------------------


def test_a_token_is_on_the_page_once(served, carla):
    made = carla.send_form("/tokens", user="bob", days="7", scope="explain")
    token = re.search("shoal_[A-Za-z0-9_-]{43}", made.text)[0]
    assert token not in carla.get("/tokens").text
    assert served.service.people.caller(token).scope == {"explain"}
    identifier = served.service.people.caller(token).token
    assert carla.send_form(f"/tokens/{identifier}/revoke").status_code == 303
    assert httpx.post(f"{served.url}/login", data={"token": token}).status_code == 401


def test_people_are_added_allowed_and_retired(served, carla):
    assert carla.send_form("/people", name="eva", roles="analyst", groups="finance, audit-team").status_code == 303
    grant = {"dataset": "visits", "to": "eva", "epsilon": "1", "delta": "1e-6", "per": "week", "above": "0.5"}
    assert carla.send_form("/allowances", **grant).status_code == 303
    page = carla.get("/people").text
    assert "audit-team" in page
    assert "ε 1, δ 1e-6 a week" in page
    with Browser(served, "eva") as eva:
        assert "left of 1 this week" in eva.get("/d/visits").text
        assert carla.send_form("/people/eva/retire").status_code == 303
        assert eva.get("/help").status_code == 303
    assert carla.send_form("/people", name="eva", roles="analyst").status_code == 400


def test_tuning_is_said_not_to_be_private_and_each_look_is_counted(carla):
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) site, COUNT(*) AS n FROM visits GROUP BY site"
    first = carla.send_form("/d/visits/tune", sql=sql)
    assert "Not private" in first.text
    seen = int(re.search(r'id="looked">(\d+)<', first.text)[1])
    moved = carla.send_form("/d/visits/tune", sql=sql, looked_at=sql, epsilon="0.5", groups="2", lower="0", upper="3")
    assert int(re.search(r'id="looked">(\d+)<', moved.text)[1]) > seen
    assert "epsilon = 0.5" in moved.text
    assert "max_groups_contributed = 2" in moved.text
    assert "(0, 3)" in moved.text
    assert carla.send_form("/d/visits/tune", sql="SELECT nothing").status_code == 400
    assert "tune" in carla.get("/log").text


def test_a_suspension_is_shown_with_its_statement_and_lifted_with_a_reason(served, carla):
    ledger = served.service.datasets.get("visits").ledger
    with Browser(served, "bob") as bob:
        sql = new_question()
        bob.answer(sql)
        ledger.suspend("bob", ledger.entries()[-1].sequence, "late replies")
        page = carla.get("/d/visits/budget")
        assert 'id="suspended"' in page.text
        assert sql in page.text
        refused = bob.ended(bob.ask(new_question()).headers["Location"])
        assert "E_SUSPENDED" in refused.text
        assert "Nothing was charged" in refused.text
        assert carla.send_form("/d/visits/lift", user="bob", because=" ").status_code == 400
        assert carla.send_form("/d/visits/lift", user="bob", because="looked at it").status_code == 303
        assert 'id="suspended"' not in carla.get("/d/visits/budget").text
        assert "looked at it" in carla.get("/d/visits/budget").text
        bob.answer(new_question())


def test_whoever_is_suspended_is_told_where_they_ask(served, ann):
    assert "You are suspended" not in ann.get("/d/visits/ask").text
    ledger = served.service.datasets.get("visits").ledger
    ledger.suspend("ann", 1, "a test")
    try:
        assert "You are suspended" in ann.get("/d/visits/ask").text
        assert "You are suspended" in ann.get("/d/visits").text
    finally:
        ledger.lift("ann", because="a test")


def test_a_budget_is_raised_with_a_reason_and_never_lowered(served, carla):
    before = served.service.datasets.get("visits").ledger.budget
    raised = {"epsilon": str(float(before.epsilon) + 1), "delta": str(float(before.delta)), "because": "the board"}
    assert carla.send_form("/d/visits/raise", **raised | {"because": " "}).status_code == 400
    assert carla.send_form("/d/visits/raise", **raised | {"epsilon": "0.1"}).status_code == 400
    assert carla.send_form("/d/visits/raise", **raised | {"epsilon": "much"}).status_code == 400
    assert carla.send_form("/d/visits/raise", **raised).status_code == 303
    assert served.service.datasets.get("visits").ledger.budget.epsilon == before.epsilon + 1


def test_a_refresh_begins_a_new_version(served, carla):
    before = served.service.datasets.get("visits").version
    assert f"begin version {before + 1}" in carla.get("/d/visits").text
    assert carla.send_form("/d/visits/refresh").status_code == 303
    assert served.service.datasets.get("visits").version == before + 1


def test_a_risk_report_is_the_custodians_and_runs_nothing(served, carla, ann):
    assert "shoal service risk visits" in carla.get("/d/visits/tune").text
    assert carla.get("/d/visits/risk").status_code == 404
    served.service.keep_risk_report(OPERATOR, "visits", "<script>alert(1)</script>")
    assert 'href="/d/visits/risk"' in carla.get("/d/visits/tune").text
    reply = carla.get("/d/visits/risk")
    assert "sandbox" in reply.headers["content-security-policy"]
    assert "script" not in reply.headers["content-security-policy"]
    assert ann.get("/d/visits/risk").status_code == 403
    assert [line for line in log.lines(served.service.store, 0, 10_000) if line["action"] == "risk report"]


def test_the_log_is_verified_anchored_and_exported(served, carla):
    assert "All is in order" in carla.send_form("/log/verify").text
    exported = carla.send_form("/log/export")
    assert exported.headers["Content-Disposition"].startswith("attachment")
    assert log.verify(exported.text.splitlines(keepends=True)) > 3


# ---- text of strangers ---------------------------------------------------------------------------------------------

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'"


def test_text_of_strangers_is_text(tmp_path):
    served = Served(tmp_path)
    try:
        number = list(range(600))
        keys = [EVIL, "=1+1", "\u202egnp.exe", "plain"]
        table = {"uid": [i % 120 for i in number], "site": [keys[i % 4] for i in number], EVIL: number}
        pq.write_table(pa.table(table), tmp_path / "data" / "visits.parquet")
        served.service.refresh(OPERATOR, "visits")
        quoted = EVIL.replace('"', '""')
        sql = (
            "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 8, delta = 1e-3, max_groups_contributed = 4)"
            f' site, COUNT(DISTINCT uid) AS "{quoted}" FROM visits GROUP BY site -- {EVIL}'
        )
        with Browser(served, "ann") as ann, Browser(served, "carla") as carla:
            pages = [
                ann.get("/d/visits"),
                ann.get("/d/visits/ask", params={"sql": EVIL}),
                ann.send_form("/d/visits/ask", sql=sql, do="explain"),
                ann.answer(sql),
                ann.get("/d/visits/ask"),
                carla.get("/d/visits/budget"),
                carla.send_form("/d/visits/tune", sql=sql),
                carla.get("/log"),
                carla.send_form("/people", name=EVIL, roles="analyst"),
                ann.get("/login", params={"link": EVIL}),
            ]
            for page in pages:
                assert "<script>alert" not in page.text, page.url
                assert "<img src=x" not in page.text, page.url
                assert "\u202e" not in page.text, page.url
            assert "&lt;script&gt;" in pages[3].text
    finally:
        served.close()
