"""The web pages, looked at in a real browser."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import shutil
import struct
import subprocess
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.image import imread

from shoal.datasets import shop
from shoal.risk import joinability, knowledge_from, scan

KEY = b"0123456789abcdef"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine: apt-get install chromium")


@pytest.fixture(scope="module")
def report():
    return scan(shop(2_000), owner="uid", combine=2, key=KEY)


@pytest.fixture(scope="module")
def comparison():
    people, cookies = [f"p{n}@x.org" for n in range(600)], [f"c-{n}" for n in range(900)]
    tables = {
        "crm": {"email": people, "age": [n % 60 for n in range(600)]},
        "newsletter": {"address": people[100:], "device": cookies[100:600]},
        "ads": {"cookie": cookies},
        "stock": {"count": list(range(700))},
        "orders": {"quantity": list(range(600))},
    }
    known = knowledge_from({"datasets": {"ads": {"space": "pseudonymous", "labels": {"cookie": "cookie"}}}})
    return joinability(scan(tables, key=KEY), knowledge=known)


def test_what_is_counted_as_critical_says_that_the_owner_is_not(report):
    assert any(
        column.is_owner and str(column.graded.grade) == "critical" for d in report.datasets for column in d.telling
    )
    assert "critical besides the owner: most owners are alone" in report.to_html()
    assert "critical: most owners are alone" in scan({"t": {"x": [1, 2, 3]}}, key=KEY).to_html()


def browse(tmp_path, page: str, *options: str, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    return subprocess.run(
        [
            BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000", *options, path.as_uri(),
        ],
        capture_output=True, text=True, timeout=seconds, check=True,
    )  # fmt: skip


def driven(page: str, script: str) -> str:
    """The same page with a visitor's script after its own, and a policy that lets both run."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = page.replace("script-src '", f"script-src 'sha256-{digest}' '", 1)
    return page.replace("</body>", f"<script>{script}</script></body>")


class Balanced(HTMLParser):
    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):  # noqa: ARG002 - the parser calls it so
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("which", ["report", "comparison"])
def test_a_page_asks_nothing_of_the_network(which, request):
    page = request.getfixturevalue(which).to_html()
    assert not re.search(r"https?:|//[a-z]|\bsrc=|\bhref=|@import|url\(|<link|<iframe|<img", page)
    assert "default-src 'none'" in page


@pytest.mark.parametrize("which", ["report", "comparison"])
def test_every_tag_is_closed(which, request):
    parser = Balanced()
    parser.feed(request.getfixturevalue(which).to_html())
    assert parser.open == []


def test_names_from_data_cannot_become_markup():
    evil = "<img src=x onerror=alert(1)>\"'&</script><script>alert(2)</script>@SCRIPT@"
    rows = [f"v{n}" for n in range(200)]
    tables = {evil: {evil: rows, "b": rows}, "other": {evil + "2": rows}}
    for page in (scan(tables, key=KEY).to_html(), joinability(scan(tables, key=KEY)).to_html()):
        assert "<img" not in page
        assert "<script>alert" not in page
        assert page.count("<script>") == 1


def test_no_value_of_the_data_is_on_the_page():
    values = [f"secret-value-{n}" for n in range(300)]
    report = scan({"t": {"v": values, "owner": values[::-1]}}, owner="owner", key=KEY)
    assert "secret-value" not in report.to_html()
    assert "secret-value" not in repr(report.to_dict())
    assert "secret-value" not in str(report)


def test_a_terminal_is_spared_control_characters():
    report = scan({"t\x1b[31m": {"v\x07\x1b]0;x\x07": [1, 2], "[bold]": [1, 2]}}, key=KEY)
    assert "\x1b" not in str(report)
    assert "\x07" not in str(report)
    assert "[bold]" in str(report)


def test_a_notebook_shows_the_page_apart_from_itself(report):
    shown = report._repr_html_()
    assert shown.startswith("<iframe sandbox=")
    assert "<script>" not in shown


def test_the_page_is_written_to_a_path(tmp_path, report):
    assert report.to_html(tmp_path / "r.html") == (tmp_path / "r.html").read_text(encoding="utf-8")


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("which", ["report", "comparison"])
def test_a_browser_runs_the_page_without_complaint(which, request, tmp_path):
    seen = browse(tmp_path, request.getfixturevalue(which).to_html(), "--dump-dom")
    assert "CONSOLE" not in seen.stderr
    assert 'data-theme="light"' in seen.stdout


@needs_browser
@pytest.mark.slow
def test_the_page_follows_the_dark_theme_and_the_button_changes_it(report, tmp_path):
    assert 'data-theme="dark"' in browse(tmp_path, report.to_html(), "--force-dark-mode", "--dump-dom").stdout
    clicked = browse(
        tmp_path, driven(report.to_html(), "document.querySelector('button.theme').click();"), "--dump-dom"
    )
    assert 'data-theme="dark"' in clicked.stdout


@needs_browser
@pytest.mark.slow
def test_columns_sort_and_details_open(report, tmp_path):
    script = """
    const table = document.querySelector("table.main");
    const names = () => [...table.tBodies].map((body) => body.querySelector(".name .name, .name").textContent.trim());
    const numbers = (place) => [...table.tBodies].map((body) => Number(body.rows[0].cells[place].dataset.sort));
    const press = (place) => table.tHead.rows[0].cells[place].querySelector("button").click();
    const told = {};
    press(3); told.falling = numbers(3);
    press(3); told.rising = numbers(3);
    press(1); told.names = [...table.tBodies].map((body) => body.querySelector("span.name").textContent);
    const closed = [...document.querySelectorAll("button.more[aria-expanded=false]")][0];
    closed.click();
    told.opened = !closed.closest("tbody").rows[1].hidden;
    told.width = document.documentElement.scrollWidth <= window.innerWidth;
    const drawings = [...document.querySelectorAll("tr.detail:not([hidden]) svg")];
    told.drawn = drawings.length > 1 && drawings.every((svg) => svg.getBoundingClientRect().width > 150);
    document.body.dataset.told = JSON.stringify(told);
    """
    seen = browse(tmp_path, driven(report.to_html(), script), "--window-size=1360,1000", "--dump-dom")
    assert "CONSOLE" not in seen.stderr
    told = json.loads(unescape(re.search(r'data-told="([^"]*)"', seen.stdout).group(1)))
    assert told["falling"] == sorted(told["falling"], reverse=True)
    assert told["rising"] == sorted(told["rising"])
    assert told["names"] == sorted(told["names"], key=str.lower)
    assert told["opened"]
    assert told["width"]
    assert told["drawn"]


@needs_browser
@pytest.mark.slow
def test_light_and_dark_are_drawn_and_differ(report, tmp_path):
    shots = {}
    for name, options in {"light": (), "dark": ("--force-dark-mode",)}.items():
        picture = tmp_path / f"{name}.png"
        browse(tmp_path, report.to_html(), *options, "--window-size=1280,900", f"--screenshot={picture}")
        shots[name] = picture.read_bytes()
        assert struct.unpack(">II", shots[name][16:24]) == (1280, 900)
        assert len(shots[name]) > 40_000
    pixels = {name: _pixels(data) for name, data in shots.items()}
    assert pixels["light"].mean() > 200
    assert pixels["dark"].mean() < 80
    assert len(np.unique(pixels["light"].reshape(-1, pixels["light"].shape[-1]), axis=0)) > 100


def _pixels(data: bytes) -> np.ndarray:
    return 255 * imread(io.BytesIO(data), format="png")[..., :3]


def test_combinations_with_a_column_that_identifies_by_itself_are_folded_away():
    rng = np.random.default_rng(7)
    people = {
        "uid": list(range(400)),
        "email": [f"{n}@example.org" for n in range(400)],
        "town": rng.integers(0, 40, 400).tolist(),
        "born": rng.integers(0, 40, 400).tolist(),
    }
    report = scan({"people": people}, owner="uid", key=KEY, combine=2)
    names = {column.name for column in report.datasets[0].columns}
    assert {"email+town", "born+town"} <= {"+".join(sorted(name.split("+"))) for name in names}
    shown = {column.name for column in report.datasets[0].telling}
    assert not any("email" in name and "+" in name for name in shown)
    assert any("town" in name and "+" in name for name in shown)
    assert "identifies by itself" in " ".join(str(report).split())
    assert "identifies by itself" in report.to_html()
    assert "email+" not in report.to_html()
    assert "email+" in json.dumps(report.to_dict())
