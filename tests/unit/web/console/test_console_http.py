"""The console without a browser: asking, the work of custodians, and text of strangers. Every page works without script."""

from __future__ import annotations

import re
from fractions import Fraction

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from console_browser import Browser, new_question
from web_server import Served

from shoal.params import budget
from shoal.service import log
from shoal.service.allowances import Grant, grants
from shoal.service.service import OPERATOR

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
    assert "It costs" not in again.text
    assert "Fresh noise would cost ε 0.1, of ε" in again.text
    assert carla.answer(sql, "replay").url.path == answer.url.path
    assert "Replayed · free" in carla.get(answer.url.path).text
    mine, theirs = (browser.get("/d/visits/ask").text for browser in (ann, carla))
    listed = re.escape(sql.partition("COUNT")[2])
    assert re.search(
        rf'{listed}</code></a>\s*<span class="meta"><span class="state answered">answered</span> for ε 0.1 ·', mine
    )
    assert re.search(
        rf'{listed}</code></a>\s*<span class="meta"><span class="state answered">answered free</span> at ε 0.1', theirs
    )


def test_what_is_left_is_the_least_of_the_ledger_and_the_askers_allowances(served, ann, carla):
    served.service.allow(OPERATOR, Grant("visits", "ann", "month", budget((0.45, 1e-4))))
    try:
        asked = served.service.explain(served.service.people.trusted("ann", "a test"), "visits", new_question())
        page = ann.send_form("/d/visits/ask", sql=new_question(), do="explain").text
    finally:
        served.service.withdraw(OPERATOR, "visits", "ann", "month")
    assert asked["remaining"] == [0.45, 1e-4]
    assert "budget left   ε = 0.45, δ = 0.0001" in page
    assert "of 0.45 left" in page
    whole = carla.send_form("/d/visits/ask", sql=new_question(), do="explain").text
    assert "budget left   ε = 0.45" not in whole


def test_a_question_that_is_too_dear_for_one_says_so_before_it_is_asked(served, ann):
    served.service.allow(OPERATOR, Grant("visits", "ann", "month", None, Fraction(1, 20), Fraction(1, 100)))
    try:
        page = ann.send_form("/d/visits/ask", sql=new_question(), do="explain").text
    finally:
        served.service.withdraw(OPERATOR, "visits", "ann", "month")
    assert "One question may cost you at most ε 0.05." in page
    assert re.search(r'id="pay"[^>]*disabled>Ask · ε 0.1</button>', page)
    assert 'id="reason"' not in page


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
    found = re.search(r"epsilon = ([0-9.]+)", page.text)[1]
    assert 0.1 < float(found) < 2
    assert len(found) <= len("0.123")
    assert "± 10</b> at 95%" in page.text
    unnamed = "SELECT WITH DIFFERENTIAL_PRIVACY COUNT(DISTINCT uid) AS n FROM visits"
    assert "does not name its ε" in ann.send_form("/d/visits/ask", sql=unnamed, do="find", error="10").text
    assert ann.send_form("/d/visits/ask", sql=new_question(), do="find", error="lots").status_code == 400


def test_a_question_that_waits_for_approval_can_be_cancelled_or_decided(served, ann, carla):
    served.service.allow(OPERATOR, Grant("visits", "ann", approve_above=Fraction(1, 2)))
    sql = new_question(0.75)
    job = ann.ask(sql, reason="for the board <b>").headers["Location"]
    waiting = ann.get(job)
    assert "Waiting for a custodian" in waiting.text
    listed = carla.get("/approvals").text
    assert "for the board &lt;b&gt;" in listed
    explanation, decision = listed.index("The whole plan"), listed.index("Note to the asker")
    assert "budget left" not in listed
    assert explanation < decision
    (identifier,) = re.findall(r'action="/approvals/(p_[^"]+)"', listed)
    assert carla.send_form(f"/approvals/{identifier}", decision="refuse", note="too dear").status_code == 303
    assert "too dear" in ann.get(job).text
    assert "You refused ann's question" in carla.get(f"/approvals?decided={identifier}").text
    other = ann.ask(new_question(0.8)).headers["Location"]
    assert "nothing was charged" in ann.get(ann.send_form(f"{other}/cancel").headers["Location"]).text
    (line,) = [
        x for x in log.lines(served.service.store, 0, 10_000) if x["action"] == "cancel" and x["outcome"] == "waiting"
    ]
    assert "epsilon = 0.8" in line["sql"]


def test_a_custodian_sees_what_the_asker_may_spend_and_what_became_of_a_decision(served, carla):
    carla.send_form("/people", name="gina", roles="analyst")
    grant = Grant("visits", "gina", "week", budget((1, 1e-5)), None, Fraction(1, 10))
    served.service.allow(OPERATOR, grant)
    with Browser(served, "gina") as gina:
        first, second = [gina.ask(new_question(0.75)).headers["Location"] for _ in range(2)]
        listed = carla.get("/approvals").text
        assert len(re.findall("What gina may still spend", listed)) == 2
        assert "<b>ε 1</b> left of 1 this week" in listed
        assert "It costs more than is left" not in listed
        identifiers = re.findall(r'action="/approvals/(p_[^"]+)"', listed)
        sent = carla.send_form(f"/approvals/{identifiers[0]}", decision="approve", note="for the <b>board</b>")
        said = carla.get(sent.headers["Location"]).text
        assert re.search("You approved gina's question.</b> It (is answered|runs now)", said)
        answer = gina.ended(first)
        assert "Approved by carla: for the &lt;b&gt;board&lt;/b&gt;" in answer.text
        assert "Approved by carla" not in carla.get(answer.url.path).text
        listed = carla.get("/approvals").text
        assert "<b>ε 0.25</b> left of 1 this week" in listed
        assert "It costs more than is left" in listed
        sent = carla.send_form(f"/approvals/{identifiers[1]}", decision="approve", note="this too")
        said = carla.get(sent.headers["Location"]).text
        assert "but it was not asked" in said
        assert "E_BUDGET" in said
        refused = gina.get(second).text
        assert "E_BUDGET" in refused
        assert "Approved by carla: this too" in refused
        assert gina.get(sent.headers["Location"]).status_code == 403
        assert carla.get("/approvals?decided=p_none").status_code == 404


def test_a_custodian_reads_every_character_of_what_they_approve(served, ann, carla):
    served.service.allow(OPERATOR, Grant("visits", "ann", "day", approve_above=Fraction(1, 10)))
    job = ann.ask(f"{new_question(0.2)} -- once\u200b more", reason="for\u2066 the board").headers["Location"]
    page = carla.get("/approvals").text
    ann.send_form(f"{job}/cancel")
    served.service.allow(OPERATOR, Grant("visits", "ann", "day"))
    assert "once\\u200b more" in page
    assert "for\\u2066 the board" in page
    assert not set("\u200b\u2066") & set(page)


@pytest.mark.parametrize("path", ["/d/visits", "/d/visits/ask", "/d/visits/budget", "/d/visits/tune"])
def test_every_page_of_a_data_set_has_its_life_total_beside_the_limit(carla, path):
    spent = carla.get("/d/visits/budget").text
    total = re.search(
        r'id="life">ε ([0-9.]+) spent of a lifetime budget of ([0-9.]+) · protects one person<', carla.get(path).text
    )
    assert total is not None
    assert f"<b>ε {total[1]}</b>" in spent
    assert f"<b>ε {total[2]}</b>" in spent


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


@pytest.mark.parametrize(
    ("path", "fields", "title", "back"),
    [
        ("/allowances/withdraw", {"dataset": "visits", "to": "eve"}, "Not found", "/people"),
        ("/tokens/t_none/revoke", {}, "Not found", "/tokens"),
        ("/d/visits/lift", {"user": "eve", "because": "x"}, "That did not work", "/d/visits/budget"),
        ("/d/visits/refresh", {"more": "1"}, "That did not work", "/d/visits"),
        ("/logout", {"more": "1"}, "That did not work", "/"),
    ],
)
def test_a_form_that_is_refused_leads_back_to_its_page(served, carla, path, fields, title, back):
    page = carla.send_form(path, **fields).text
    assert f"<h1>{title}</h1>" in page
    assert f'<a class="button" href="{back}">Back to ' in page


def test_analysts_see_their_own_share_beside_the_budget(served, ann):
    served.service.allow(OPERATOR, Grant("visits", "ann", "month", budget((0.45, 1e-4))))
    try:
        page = ann.get("/d/visits/budget").text
    finally:
        served.service.withdraw(OPERATOR, "visits", "ann", "month")
    assert "Your share" in page
    assert "left of 0.45 this month" in page


def test_an_allowance_without_a_delta_has_the_ledgers(served, carla):
    carla.send_form("/people", name="hugo", roles="analyst")
    grant = {"dataset": "visits", "to": "hugo", "per": "day"}
    assert carla.send_form("/allowances", **grant, epsilon="1", delta="").status_code == 303
    assert carla.send_form("/allowances", **grant | {"per": "week"}, epsilon="1", delta="0").status_code == 303
    found = {each.per: each.budget for each in grants(served.service.store, "visits") if each.to == "hugo"}
    assert found["day"].delta == served.service.datasets.get("visits").ledger.budget.delta
    assert found["week"].delta == 0
    refused = carla.send_form("/allowances", **grant, epsilon="", delta="1e-6")
    assert (refused.status_code, "has an ε, too" in refused.text) == (400, True)
    assert carla.send_form("/allowances", **grant | {"dataset": "nothing"}, epsilon="1").status_code == 404


def test_an_allowance_is_withdrawn_and_its_question_no_longer_waits(served, carla):
    carla.send_form("/people", name="fred", roles="analyst")
    for per in ("day", "week"):
        carla.send_form("/allowances", dataset="visits", to="fred", epsilon="2", delta="1e-5", per=per, above="0.1")
    fields = {"dataset": "visits", "to": "fred"}
    with Browser(served, "fred") as fred:
        assert fred.send_form("/allowances/withdraw", **fields, per="day").status_code == 403
        assert carla.send_form("/allowances/withdraw", **fields, per="day").status_code == 303
        assert carla.send_form("/allowances/withdraw", **fields, per="day").status_code == 404
        assert fred.get("/d/visits").status_code == 200
        assert carla.send_form("/allowances/withdraw", **fields, per="week").headers["Location"] == "/people#allowances"
        assert fred.get("/d/visits").status_code == 404


@pytest.mark.parametrize(
    ("page", "action", "word"),
    [
        ("/people", "/people/ann/retire", "Retire"),
        ("/people", "/allowances/withdraw", "Withdraw"),
        ("/tokens", "/tokens/[^/]+/revoke", "Revoke"),
        ("/d/visits", "/d/visits/refresh", r"Begin version \d+"),
    ],
)
def test_what_cannot_be_taken_back_is_asked_twice_without_script(carla, page, action, word):
    found = carla.get(page).text
    summary = rf'<details class="confirm">\s*<summary[^>]*>{word}<[^>]*>[^<]*</span></summary>'
    opened = rf'{summary}\s*<form method="post" action="{action}"'
    assert re.search(opened, found) is not None
    assert len(re.findall(f'action="{action}"', found)) == len(re.findall(opened, found))


def test_tuning_is_said_not_to_be_private_and_each_look_is_counted(carla):
    sql = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) site, COUNT(*) AS n FROM visits GROUP BY site"
    first = carla.send_form("/d/visits/tune", sql=sql)
    assert "Not private" in first.text
    seen = int(re.search(r'id="looked">(\d+)<', first.text)[1])
    moved = carla.send_form("/d/visits/tune", sql=sql, looked_at=sql, epsilon="0.5", groups="2", lower="0", upper="3")
    twice = int(re.search(r'id="looked">(\d+)<', moved.text)[1])
    assert twice > seen
    again = carla.send_form("/d/visits/tune", sql=sql)
    assert int(re.search(r'id="looked">(\d+)<', again.text)[1]) == twice + seen
    assert "is counted again when it is looked at again" in again.text
    assert "epsilon = 0.5" in moved.text
    assert "max_groups_contributed = 2" in moved.text
    assert "(0, 3)" in moved.text
    counted = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) {} FROM visits"
    assert (
        "this number takes no bounds"
        in carla.send_form("/d/visits/tune", sql=counted.format("COUNT(DISTINCT uid)")).text
    )
    median = "MEDIAN(LENGTH(site), contribution_bounds_per_row => (0, 9)) AS m, COUNT(*) AS n"
    untold = carla.send_form("/d/visits/tune", sql=counted.format(median)).text
    assert "only which groups appear" in untold
    assert "ε and groups per person are the same for n." in untold
    assert 'id="no-figure"' not in first.text
    average = "AVG(LENGTH(site), contribution_bounds_per_group => (0, 9)) AS a"
    assert "<code>a</code> is an average" in carla.send_form("/d/visits/tune", sql=counted.format(average)).text
    public = carla.send_form("/d/visits/tune", sql="SELECT town FROM sites")
    assert "there is nothing to tune" in public.text
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


def test_charges_are_numbered_as_in_the_log_or_from_one(served, ann, carla):
    ann.answer(new_question())
    ann.answer(new_question())
    listed = re.findall(r'data-label="Yours, no." class="number">(\d+)<', ann.get("/d/visits/budget").text)
    assert listed == [str(number) for number in range(len(listed), 0, -1)]
    page = carla.get("/d/visits/budget").text
    rows = re.findall(r'data-label="Ledger row" class="number">(\d+)<', page)
    logged = [line["charge"] for line in log.lines(served.service.store, 0, 10_000) if line["charge"]]
    assert {int(row) for row in rows} == {int(str(charge).partition(":")[0]) for charge in logged}
    assert "named by the ledger row that reserved it" in page
    assert f'<span class="meta">ledger row {rows[0]}</span>' in carla.get("/log").text


def test_a_budget_is_raised_with_a_reason_and_never_lowered(served, carla):
    before = served.service.datasets.get("visits").ledger.budget
    raised = {"epsilon": str(float(before.epsilon) + 1), "delta": str(float(before.delta)), "because": "the board"}
    assert carla.send_form("/d/visits/raise", **raised | {"because": " "}).status_code == 400
    assert carla.send_form("/d/visits/raise", **raised | {"epsilon": "0.1"}).status_code == 400
    assert carla.send_form("/d/visits/raise", **raised | {"epsilon": "much"}).status_code == 400
    assert carla.send_form("/d/visits/raise", **raised).status_code == 303
    assert ": the board</span>" in carla.get("/d/visits/budget").text
    assert served.service.datasets.get("visits").ledger.budget.epsilon == before.epsilon + 1


def test_a_refresh_begins_a_new_version(served, carla):
    before = served.service.datasets.get("visits").version
    assert f"Begin version {before + 1}<" in carla.get("/d/visits").text
    assert carla.send_form("/d/visits/refresh").status_code == 303
    assert served.service.datasets.get("visits").version == before + 1


def test_a_risk_report_is_the_custodians_and_runs_nothing(served, carla, ann):
    assert "shoal service risk visits" in carla.get("/d/visits/tune").text
    assert carla.get("/d/visits/risk").status_code == 404
    served.service.keep_risk_report(OPERATOR, "visits", "<script>alert(1)</script>")
    assert 'href="/d/visits/risk"' in carla.get("/d/visits/tune").text
    reply = carla.get("/d/visits/risk")
    assert "script" not in reply.text
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
