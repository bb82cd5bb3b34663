"""The console in a real browser: the roads people take, by mouse, by keyboard and without script; nothing leaves the host."""

from __future__ import annotations

import re
import shutil
from contextlib import contextmanager
from fractions import Fraction
from itertools import count

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from web_server import Served, counting

from shoal.service.allowances import Grant
from shoal.service.service import OPERATOR

REASON = "playwright is not installed (./run test --all installs it)"
playwright = pytest.importorskip("playwright.sync_api", reason=REASON)
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=REASON)
pytestmark = pytest.mark.slow

NUMBER = count()
BY_SITE = (
    "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {}, delta = 1e-5, max_groups_contributed = 1)\n"
    "  site, COUNT(DISTINCT uid) AS visits{}\nFROM visits\nGROUP BY site"
)
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'"


def by_site(epsilon: float = 1.5) -> str:
    return BY_SITE.format(epsilon, next(NUMBER))


@pytest.fixture(scope="module")
def chromium():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


class Window:
    """A window of a browser, and everything that it asked for or complained about."""

    def __init__(self, served: Served, page) -> None:
        self.served, self.page = served, page
        self.asked, self.complaints = [], []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog {dialog.message}"), dialog.dismiss()))

    def open(self, path: str) -> None:
        self.page.goto(f"{self.served.url}{path}")

    def sign_in(self, name: str) -> None:
        self.open("/login")
        self.page.fill("#token", self.served.token(name))
        self.page.click("#sign-in")
        self.page.wait_for_selector("#datasets, .empty")

    def explain(self, sql: str) -> None:
        self.open("/d/visits/ask")
        self.page.fill("#sql", sql)
        self.page.wait_for_selector("#replay, #pay:not([disabled])")

    def ask(self, sql: str) -> str:
        self.explain(sql)
        self.page.click("#replay, #pay")
        self.page.wait_for_selector("#answer, #job[data-state=approval], #job[data-state=failed]")
        return self.page.url.removeprefix(self.served.url)

    def left(self) -> float:
        """What the budget page says is left of the ledger."""
        self.open("/d/visits/budget")
        return float(self.page.locator(".tile b").nth(2).inner_text().removeprefix("ε "))


@contextmanager
def a_window(chromium, served, *, excused=(), **options):
    context = chromium.new_context(**options)
    window = Window(served, context.new_page())
    try:
        yield window
    finally:
        context.close()
    assert {url for url in window.asked if not url.startswith((served.url, "data:"))} == set()
    assert [text for text in window.complaints if not any(word in text for word in excused)] == []


# ---- the roads people take -----------------------------------------------------------------------------------------


def test_a_link_opens_the_console_once(chromium, served):
    with served.service.store.writing() as rows:
        link = served.service.people.create_link(rows, "carla")
    with a_window(chromium, served, excused=["401"]) as window:
        window.open(f"/login?link={link}")
        window.page.click("#sign-in")
        window.page.wait_for_selector("#datasets")
        assert "carla" in window.page.locator(".who").inner_text()
        window.page.get_by_role("button", name="Sign out").click()
        window.page.wait_for_selector("#token")
        window.open(f"/login?link={link}")
        window.page.click("#sign-in")
        assert "used up" in window.page.locator("[role=alert]").inner_text()


def test_ask_then_answer_then_the_budget_falls_and_the_second_time_is_free(chromium, served):
    sql = by_site()
    with a_window(chromium, served) as window:
        window.sign_in("ann")
        before = window.left()
        window.explain(sql)
        assert re.fullmatch(r"Ask · ε 1\.5 of [0-9.]+ left", window.page.locator("#pay").inner_text())
        place = window.ask(sql)
        assert window.page.locator("#answer tbody tr").count() == 4
        assert window.page.locator("#chart svg:visible").count() == 1
        assert "ε 1.5" in window.page.locator("#cost").inner_text()
        after = window.left()
        assert before - after == pytest.approx(1.5, abs=0.02)
        assert window.ask(f"{sql} -- once more") == place
        assert "Replayed" in window.page.locator("#cost").inner_text()
        assert window.left() == after
        window.open(place)
        width = window.page.locator("#answer tbody td").nth(2).inner_text()
        window.page.get_by_role("link", name="99%").click()
        assert window.page.locator("#answer tbody td").nth(2).inner_text() != width
        with window.page.expect_download() as download:
            window.page.get_by_role("link", name="CSV").click()
        assert download.value.suggested_filename.endswith(".csv")


def test_the_price_is_off_until_the_text_on_the_screen_is_explained(chromium, served):
    with a_window(chromium, served) as window:
        window.sign_in("ann")
        window.explain(by_site(0.5))
        window.page.focus("#sql")
        window.page.keyboard.type(" -- more")
        assert window.page.locator("#pay").is_disabled()
        window.page.wait_for_selector("#pay:not([disabled])")
        window.page.fill("#sql", "SELECT *\nFROM visitz")
        window.page.wait_for_selector("#refusal")
        assert window.page.locator(".mirror mark").inner_text() == "visitz"
        assert window.page.locator("#pay").is_disabled()
        window.page.fill("#sql", counting(0.1, "m"))
        window.page.fill("#error", "10")
        window.page.click("#find")
        window.page.wait_for_selector("#pay:not([disabled])")
        assert "epsilon = 0.1)" not in window.page.input_value("#sql")


def test_back_from_an_answer_leads_to_the_question(chromium, served):
    with a_window(chromium, served) as window:
        window.sign_in("ann")
        sql = by_site(0.25)
        window.ask(sql)
        window.page.go_back()
        window.page.wait_for_selector("#replay:not([disabled])")
        assert window.page.input_value("#sql") == sql
        window.page.get_by_role("link", name="Ask", exact=True).click()
        window.page.wait_for_selector("#pay[disabled]")
        assert window.page.input_value("#sql") == ""
        window.page.fill("#sql", counting(0.1, "back"))
        window.page.fill("#error", "10")
        window.page.click("#find")
        window.page.wait_for_selector("#pay:not([disabled])")
        found = window.page.input_value("#sql")
        window.page.click("#pay")
        window.page.wait_for_selector("#answer")
        window.page.go_back()
        window.page.wait_for_selector("#replay:not([disabled])")
        assert window.page.input_value("#sql") == found


def test_a_second_person_approves(chromium, served):
    served.service.allow(OPERATOR, Grant("visits", "bob", approve_above=Fraction(1, 2)))
    with a_window(chromium, served) as bob, a_window(chromium, served) as carla:
        bob.sign_in("bob")
        bob.explain(by_site(0.75))
        bob.page.fill("#reason", "for the board")
        bob.page.click("#pay")
        bob.page.wait_for_selector("#job[data-state=approval]")
        carla.sign_in("carla")
        carla.open("/approvals")
        card = carla.page.locator(".approval").filter(has_text="for the board")
        assert "±" in card.inner_text()
        card.locator("textarea").fill("go ahead")
        card.get_by_role("button", name="Approve").click()
        bob.page.wait_for_selector("#answer")


def test_a_suspension_shows_its_statement_and_is_lifted_with_a_reason(chromium, served):
    ledger = served.service.datasets.get("visits").ledger
    with a_window(chromium, served) as window:
        window.sign_in("ann")
        sql = by_site()
        window.ask(sql)
        ledger.suspend("ann", ledger.entries()[-1].sequence, "late replies")
        window.ask(by_site())
        assert "E_SUSPENDED" in window.page.locator("#job").inner_text()
        window.sign_in("carla")
        window.open("/d/visits/budget")
        shown = window.page.locator("#suspended")
        assert sql.splitlines()[1].strip() in shown.inner_text()
        shown.locator("input[name=because]").fill("looked at it together")
        shown.get_by_role("button", name="Lift the suspension").click()
        window.page.wait_for_selector("#suspended", state="detached")
        window.sign_in("ann")
        window.ask(by_site())
        window.page.wait_for_selector("#answer")


def test_sliders_of_tuning_move_its_figures_and_every_look_is_counted(chromium, served):
    with a_window(chromium, served) as window:
        window.sign_in("carla")
        window.open("/d/visits/tune")
        assert "Not private" in window.page.locator("#not-private").inner_text()
        window.page.fill("#sql", by_site(1))
        window.page.click("#look")
        window.page.wait_for_selector("#noise")
        noise, looked = (window.page.locator(name).inner_text() for name in ("#noise", "#looked"))
        window.page.focus("#epsilon")
        for _ in range(4):
            window.page.keyboard.press("ArrowLeft")
        playwright.expect(window.page.locator("#noise")).not_to_have_text(noise)
        assert int(window.page.locator("#looked").inner_text()) > int(looked)
        assert "epsilon = 0.8" in window.page.locator("#options").inner_text()
        assert window.page.locator("#settings tbody tr").count() >= 4
        window.page.evaluate("const s = document.getElementById('epsilon'); s.max = 5000; s.value = 2050")
        window.page.dispatch_event("#epsilon", "input")
        assert window.page.locator("output[for=epsilon]").inner_text() == "2,050"


def test_a_token_is_made_shown_once_and_revoked(chromium, served):
    with a_window(chromium, served) as window:
        window.sign_in("carla")
        window.open("/tokens")
        window.page.select_option("#user", "bob")
        window.page.click("#make")
        token = window.page.locator("#secret").inner_text()
        identifier = served.service.people.caller(token).token
        window.open("/tokens")
        assert token not in window.page.content()
        window.page.locator("summary", has_text=f"Revoke {identifier}").click()
        window.page.get_by_role("button", name=f"Yes, revoke {identifier}").click()
        window.page.wait_for_load_state()
        assert identifier not in window.page.locator("#tokens").inner_text()


@pytest.mark.parametrize("script", [True, False])
def test_a_refused_form_has_the_focus_on_its_error(chromium, served, script):
    with a_window(chromium, served, excused=["400"], java_script_enabled=script) as window:
        window.sign_in("carla")
        window.open("/tokens")
        window.page.select_option("#user", "otto")
        assert window.page.locator("#scopes input:visible").count() == (1 if script else 6)
        window.open("/people")
        window.page.fill("#allow-epsilon", "1,5")
        window.page.locator("#allow button").click()
        assert window.page.locator("#refused:focus").inner_text().startswith("ε is a number.")
        assert window.page.input_value("#allow-epsilon[aria-invalid]") == "1,5"
        assert not script or serious(window.page) == []


def test_the_log_is_verified_in_the_page(chromium, served):
    with a_window(chromium, served) as window:
        window.sign_in("otto")
        window.open("/log")
        window.page.click("#verify")
        assert "All is in order" in window.page.locator("#verified").inner_text()


# ---- by keyboard, and without script -------------------------------------------------------------------------------


def test_everything_from_sign_in_to_the_answer_by_keyboard(chromium, served):
    with a_window(chromium, served) as window:
        page = window.page
        window.open("/login")
        page.wait_for_function("document.activeElement.id === 'token'")  # a busy machine gives the focus later
        page.keyboard.type(served.token("ann"))
        page.keyboard.press("Enter")
        page.wait_for_selector("#datasets")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == "Ask":
                break
        page.keyboard.press("Enter")
        page.wait_for_selector("#sql")
        page.keyboard.press("?")
        assert page.locator("#keys").is_visible()
        page.keyboard.press("Escape")
        assert not page.locator("#keys").is_visible()
        page.focus("#sql")
        page.keyboard.insert_text(by_site())
        page.keyboard.press("Control+Enter")
        page.wait_for_selector("#pay:not([disabled])")
        page.keyboard.press("Control+Shift+Enter")
        page.wait_for_selector("#answer")


def test_without_script_a_question_is_explained_asked_and_answered(chromium, served):
    with a_window(chromium, served, excused=["409"], java_script_enabled=False) as window:
        window.sign_in("ann")
        window.open("/d/visits/ask")
        sql = by_site()
        window.page.fill("#sql", sql)
        window.page.click("#explain")
        window.page.fill("#sql", sql.replace("1.5", "1.75"))
        window.page.click("#pay")
        assert "Nothing was asked" in window.page.locator("#explanation").inner_text()
        window.page.click("#pay")
        window.page.wait_for_selector("#answer")
        assert window.page.locator("#answer tbody tr").count() == 4


def test_whoever_is_signed_out_while_writing_reads_so(chromium, served):
    with a_window(chromium, served) as window:
        window.sign_in("ann")
        window.explain(by_site())
        window.page.context.clear_cookies()
        window.page.fill("#sql", by_site())
        playwright.expect(window.page.locator("#explanation")).to_contain_text("You are signed out.")


@pytest.mark.parametrize("script", [True, False])
def test_enter_after_the_error_one_can_live_with_sets_epsilon(chromium, served, script):
    with a_window(chromium, served, java_script_enabled=script) as window:
        window.sign_in("ann")
        window.open("/d/visits/ask")
        window.page.fill("#sql", by_site())
        window.page.fill("#error", "10")
        window.page.press("#error", "Enter")
        window.page.wait_for_selector("#explanation .price")
        assert "epsilon = 1.5," not in window.page.input_value("#sql")


def test_an_answer_on_paper_is_dark_on_white_and_whole(chromium, served):
    with a_window(chromium, served, color_scheme="dark") as window:
        window.sign_in("ann")
        window.ask(by_site() + "\n" * 30 + "-- the end")
        window.page.emulate_media(media="print")
        paper = "getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color"
        assert window.page.evaluate(paper) == "rgb(255, 255, 255)rgb(19, 32, 58)"
        assert not window.page.locator("#downloads").is_visible()
        assert window.page.evaluate("document.querySelector('pre.sql').clientHeight") > 600


# ---- text of strangers ---------------------------------------------------------------------------------------------


def test_nothing_of_strangers_runs(chromium, tmp_path):
    served = Served(tmp_path)
    try:
        number = list(range(600))
        table = {"uid": [i % 120 for i in number], "site": [[EVIL, "plain"][i % 2] for i in number], EVIL: number}
        pq.write_table(pa.table(table), tmp_path / "data" / "visits.parquet")
        served.service.refresh(OPERATOR, "visits")
        served.service.allow(OPERATOR, Grant("visits", "ann", approve_above=Fraction(9)))
        name = EVIL.replace('"', '""')
        clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = {}, delta = 1e-5, max_groups_contributed = 2)"
        sql = f'{clause} site, COUNT(DISTINCT uid) AS "{name}" FROM visits GROUP BY site -- {EVIL}'
        with a_window(chromium, served) as window:
            window.sign_in("ann")
            window.open("/d/visits")
            window.ask(sql.format(8))
            assert EVIL in window.page.locator("#answer").inner_text()
            window.explain(sql.format(10))
            window.page.fill("#reason", EVIL)
            window.page.click("#pay")
            window.page.wait_for_selector("#job[data-state=approval]")
            window.page.goto(f"{served.url}/d/visits/ask")
            window.page.fill("#sql", EVIL)
            window.page.wait_for_selector("#refusal")
            window.sign_in("carla")
            for path in ("/approvals", "/d/visits/budget", "/log", "/people"):
                window.open(path)
            window.open("/d/visits/tune")
            window.page.fill("#sql", sql.format(1))
            window.page.click("#look")
            window.page.wait_for_selector("#kept")
            assert window.page.locator("img[src=x]").count() == 0
    finally:
        served.close()


# ---- everybody can use it ------------------------------------------------------------------------------------------


def refused(window: Window) -> None:
    window.open("/d/visits/ask")
    window.page.fill("#sql", "SELECT nothing")
    window.page.wait_for_selector("#refusal")


def tuned(window: Window) -> None:
    window.open("/d/visits/tune")
    window.page.fill("#sql", BY_SITE.format(1, ""))
    window.page.click("#look")
    window.page.wait_for_selector("#kept")


ANALYSTS = ["/", "/d/visits", "/d/visits/ask", "/d/visits/budget", "/approvals", "/tokens", "/meaning", "/help"]
CUSTODIANS = [
    "/",
    "/d/visits",
    "/d/visits/budget",
    "/d/visits/tune",
    "/approvals",
    "/people",
    "/tokens",
    "/log",
    "/d/no",
]


def serious(page) -> list[tuple[str, list[str]]]:
    found = axe.Axe().run(page).response["violations"]
    return [
        (each["id"], [node["html"][:200] for node in each["nodes"]][:3])
        for each in found
        if each["impact"] in {"serious", "critical"}
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_every_page_can_be_used_by_everybody(chromium, served, scheme, width):
    served.service.allow(OPERATOR, Grant("visits", "everyone", approve_above=Fraction(2)))
    look = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
    found = {}
    with a_window(chromium, served, excused=["404"], **look) as window:

        def check(name: str) -> None:
            if problems := serious(window.page):
                found[name] = problems
            if window.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
                found[f"{name}, width"] = window.page.evaluate("document.documentElement.scrollWidth")

        window.open("/login")
        check("/login")
        window.sign_in("ann")
        window.ask(BY_SITE.format(1.5, "shown"))
        check("answer")
        window.ask(by_site(2.5))
        check("waiting")
        window.explain(BY_SITE.format(1.5, "shown"))
        check("explained, released")
        window.explain(by_site(2.5))
        check("explained, needs approval")
        refused(window)
        check("refused")
        for path in ANALYSTS:
            window.open(path)
            check(path)
        window.sign_in("carla")
        tuned(window)
        check("tuned")
        for path in CUSTODIANS:
            window.open(path)
            check(path)
    assert found == {}


BESIDE = """[...document.querySelectorAll(".scroll table:not(#answer)")]
            .filter(t => t.scrollWidth > t.closest(".scroll").clientWidth)
            .map(t => t.closest("section").innerText.slice(0, 80))"""
"""Tables that one would have to move sideways to read, or to find their buttons; how wide an answer is, its question decides."""


def test_at_320_pixels_nothing_is_cut_off(chromium, served):
    with a_window(chromium, served, viewport={"width": 320, "height": 700}) as window:
        window.sign_in("carla")
        wide = {}

        def check(name: str) -> None:
            width = window.page.evaluate("document.documentElement.scrollWidth")
            if width > 320:
                wide[name] = width
            if beside := window.page.evaluate(BESIDE):
                wide[f"{name}, tables"] = beside

        for path in [*ANALYSTS, "/people", "/log", "/d/visits/tune"]:
            window.open(path)
            check(path)
        tuned(window)
        check("tuned")
        assert wide == {}
