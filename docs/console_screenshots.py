"""Pictures of the console on the made-up shop: `./run screenshots` writes those of the docs, `--all DIR` every page.

Needs Chromium and what `./run test --all` installs. With --all: light and dark, wide and narrow.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from shoal.datasets import write_shop
from shoal.params import budget
from shoal.service.allowances import Grant
from shoal.service.datasets import NewDataSet
from shoal.service.service import OPERATOR, Limits, Service
from shoal.web.server import Place, Server, bound_socket, configuration

if TYPE_CHECKING:
    from collections.abc import Iterator

FIGURES = Path(__file__).parent / "figures"
PEOPLE = {
    "carla": ["custodian"],
    "dora": ["custodian"],
    "ann": ["analyst"],
    "bob": ["analyst"],
    "nora": ["analyst"],
    "otto": ["auditor"],
}
CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY\n  OPTIONS(epsilon = {}, delta = 1e-7, max_groups_contributed = 3)\n"
BY_SITE = CLAUSE.format(0.5) + "  site, COUNT(DISTINCT uid) AS people\nFROM visits\nGROUP BY site\nORDER BY people DESC"
BY_MONTH = (
    CLAUSE.format(0.4)
    + "  DATE_TRUNC('month', day) AS month,\n  COUNT(DISTINCT uid) AS people\nFROM visits\nGROUP BY month\nORDER BY month"
)
IN_ALL = CLAUSE.format(0.1) + "  COUNT(*) AS visits, AVG(spend) AS spend\nFROM visits"
BY_REGION = CLAUSE.format(0.3) + "  region, AVG(age) AS age\nFROM customers\nGROUP BY region"
DEAR = CLAUSE.format(0.9) + "  site, SUM(spend) AS spend\nFROM visits\nGROUP BY site"
SPENDING = CLAUSE.format(1) + "  site, SUM(spend) AS spend\nFROM visits\nGROUP BY site"


@contextmanager
def shop() -> Iterator[tuple[Service, str]]:
    """A service on the made-up shop, with people and an allowance."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_shop(folder)
        service = Service.open(folder / "home", Limits(slots=2, answer_time=0.0, rates=False))
        new = NewDataSet("shop", str(folder / "data"), str(folder / "shoal.toml"), budget((3, 1e-5)))
        service.add_dataset(OPERATOR, new)
        for person, roles in PEOPLE.items():
            service.add_user(OPERATOR, person, roles, ["research"] if person in {"ann", "bob"} else [])
        service.allow(OPERATOR, Grant("shop", "group:research", "week", budget((2.5, 1e-5)), None, Fraction(4, 5)))
        service.start()
        listening = bound_socket("127.0.0.1", 0)
        server = Server(configuration(service, Place(port=0)))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield service, f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(10)
        service.close(5)


class Visitor:
    """A browser window, signed in as somebody."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url

    def sign_in(self, token: str) -> None:
        """As whoever the token is for."""
        self.page.goto(f"{self.url}/login")
        self.page.fill("#token", token)
        self.page.click("#sign-in")

    def explain(self, sql: str) -> None:
        """The question in the editor, its explanation beside it."""
        self.page.goto(f"{self.url}/d/shop/ask")
        self.page.fill("#sql", sql)
        self.page.wait_for_selector("#pay:not([disabled]), #replay")

    def ask(self, sql: str) -> str:
        """Where the answer is, or the page that waits for it."""
        self.explain(sql)
        self.page.click("#replay, #pay")
        self.page.wait_for_selector("#answer, #job[data-state=approval], #job[data-state=failed]")
        return str(self.page.url)

    def tune(self, sql: str) -> None:
        """One look at raw data."""
        self.page.goto(f"{self.url}/d/shop/tune")
        self.page.fill("#sql", sql)
        self.page.click("#look")
        self.page.wait_for_selector("#kept")


def prepare(service: Service, url: str, browser: Any) -> dict[str, str]:
    """Questions, a suspension, an approval that waits; the tokens of everybody, and where the answers are."""
    known = {person: service.create_token(OPERATOR, person)["token"] for person in PEOPLE}
    context = browser.new_context()
    ann = Visitor(context.new_page(), url)
    ann.sign_in(known["ann"])
    places = {"by_site": ann.ask(BY_SITE), "by_month": ann.ask(BY_MONTH), "in_all": ann.ask(IN_ALL)}
    ann.sign_in(known["bob"])
    ann.ask(BY_REGION)
    ledger = service.datasets.get("shop").ledger
    ledger.suspend("bob", ledger.entries()[-1].sequence, "late replies")
    ann.sign_in(known["ann"])
    places["approval"] = ann.ask(DEAR)
    places["cancelled"] = ann.ask(DEAR.replace("0.9", "0.95"))
    ann.page.click("#cancel")
    ann.page.wait_for_selector("#job[data-state=cancelled]")
    context.close()
    return known | places


class Album(Visitor):
    """A visitor who takes pictures of whole pages."""

    def __init__(self, page: Any, url: str, folder: Path) -> None:
        super().__init__(page, url)
        self.folder = folder

    def taken(self, name: str) -> None:
        """The page that is open."""
        self.page.screenshot(path=self.folder / f"{name}.png", full_page=True)

    def opened(self, name: str, path: str) -> None:
        """A page of the console, or at an address."""
        self.page.goto(path if path.startswith("http") else self.url + path)
        self.taken(name)

    def written(self, name: str, sql: str, shown: str) -> None:
        """A question in the editor, once this is shown beside it."""
        self.page.goto(f"{self.url}/d/shop/ask")
        self.page.fill("#sql", sql)
        self.page.wait_for_selector(shown)
        self.taken(name)

    def pressed(self, name: str, path: str, button: str, shown: str) -> None:
        """A page after a button."""
        self.page.goto(self.url + path)
        self.page.click(button)
        self.page.wait_for_selector(shown)
        self.taken(name)


def pictures(url: str, browser: Any, known: dict[str, str], folder: Path, **options: Any) -> None:
    """Every page, with real answers in it."""
    context = browser.new_context(**options)
    album = Album(context.new_page(), url, folder)
    album.opened("login", "/login")
    album.sign_in(known["ann"])
    of_an_analyst(album, known)
    album.sign_in(known["nora"])
    album.opened("datasets-empty", "/")
    album.opened("approvals-empty", "/approvals")
    album.sign_in(known["bob"])
    album.opened("ask-suspended", "/d/shop/ask")
    album.sign_in(known["carla"])
    of_a_custodian(album)
    context.close()


def of_an_analyst(album: Album, known: dict[str, str]) -> None:
    """What somebody sees who asks."""
    pages = {"datasets": "/", "dataset": "/d/shop", "ask-empty": "/d/shop/ask"}
    pages |= {f"answer-{name}": known[name] for name in ("by_site", "by_month", "in_all")}
    pages |= {"approval-waiting": known["approval"], "cancelled": known["cancelled"], "approvals-own": "/approvals"}
    pages |= {"budget-own": "/d/shop/budget", "tokens-own": "/tokens", "meaning": "/meaning?epsilon=1&prior=10"}
    pages |= {"help": "/help", "forbidden": "/people", "not-found": "/d/nothing"}
    for name, path in pages.items():
        album.opened(name, path)
    album.written("ask", BY_SITE.replace("0.5", "0.6"), "#pay:not([disabled])")
    album.written("ask-replay", BY_SITE, "#replay")
    album.written("ask-refused", BY_SITE.replace("FROM visits", "FROM visitors"), "#refusal")
    album.written("ask-approval", DEAR.replace("0.9", "0.85"), "#reason")
    album.written("ask-too-dear", DEAR.replace("0.9", "2"), "#explanation .notice.danger")


def of_a_custodian(album: Album) -> None:
    """What only a custodian sees."""
    pages = {"datasets-custodian": "/", "dataset-custodian": "/d/shop", "budget": "/d/shop/budget"}
    pages |= {"tune-empty": "/d/shop/tune", "approvals": "/approvals", "people": "/people"}
    for name, path in pages.items():
        album.opened(name, path)
    album.pressed("dataset-refreshing", "/d/shop", "#refresh summary", "#refresh details[open]")
    album.pressed("people-retiring", "/people", "#people summary", "#people details[open]")
    album.pressed("people-withdrawing", "/people", "#allowances summary", "#allowances details[open]")
    album.tune(SPENDING)
    album.taken("tune")
    album.pressed("tokens-made", "/tokens", "#make", "#made")
    album.pressed("log", "/log", "#verify", "#verified")


def for_the_docs(service: Service, url: str, browser: Any, known: dict[str, str]) -> None:
    """Ask, answer, budget and tune, the first screen of each."""
    context = browser.new_context(viewport={"width": 1180, "height": 820}, color_scheme="light")
    window = context.new_page()
    visitor = Visitor(window, url)
    visitor.sign_in(known["ann"])
    visitor.explain(BY_SITE.replace("0.5", "0.6"))
    window.screenshot(path=FIGURES / "console-ask.png")
    window.goto(known["by_site"])
    window.screenshot(path=FIGURES / "console-answer.png")
    visitor.sign_in(known["carla"])
    service.lift(OPERATOR, "shop", "bob", "looked at together")
    window.goto(f"{url}/d/shop/budget")
    window.screenshot(path=FIGURES / "console-budget.png")
    visitor.tune(SPENDING)
    window.screenshot(
        path=FIGURES / "console-tune.png", clip={"x": 0, "y": 0, "width": 1180, "height": 1210}, full_page=True
    )
    context.close()


def main() -> None:
    """Parse the command line and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="DIR", help="every page, light and dark, 1280 and 400 px wide")
    asked = parser.parse_args()
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with shop() as (service, url), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        known = prepare(service, url, browser)
        if asked.all is None:
            for_the_docs(service, url, browser, known)
        else:
            for scheme in ("light", "dark"):
                for width in (1280, 400):
                    folder = asked.all / f"{scheme}-{width}"
                    folder.mkdir(parents=True, exist_ok=True)
                    pictures(
                        *(url, browser, known, folder),
                        viewport={"width": width, "height": 900},
                        color_scheme=scheme,
                    )
        browser.close()


if __name__ == "__main__":
    main()
