"""Templates to pages, errors to pages. Everything is escaped unless it is a chart."""

from __future__ import annotations

import hashlib
import json
import re
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import RedirectResponse, Response

from shoal.errors import ShoalError
from shoal.result import shown
from shoal.service.people import unknown_caller
from shoal.web.errors import RETRY_AFTER, bare_page, status_of

if TYPE_CHECKING:
    from starlette.requests import Request

    from shoal.service.browser.sessions import BrowserSession

WEB = Path(__file__).parent.parent
LONGEST_CELL = 200
_CLAUSE = re.compile(r"\bSELECT WITH \w+( OPTIONS ?\()?", re.IGNORECASE)
SIGNS = {"E_NOT_FOUND": "Not found", "E_FORBIDDEN": "Not yours to open", "E_AUTH": "Sign in again"}

HOME = ("/", "the data sets")
FORMS = {
    "people": ("/people", "People"),
    "allowances": ("/people", "People"),
    "tokens": ("/tokens", "Tokens"),
    "approvals": ("/approvals", "Approvals"),
}
FORMS_OF_DATA_SETS = {
    "raise": ("/budget", "the budget"),
    "lift": ("/budget", "the budget"),
    "refresh": ("", "the data set"),
    "ask": ("/ask", "the editor"),
    "tune": ("/tune", "Tune"),
}


@cache
def _templates() -> Environment:
    made = Environment(
        loader=FileSystemLoader(WEB / "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "audience": audience,
        "brief": brief,
        "exactly": exactly,
        "number": number,
        "small": small,
        "percent": percent,
        "cell": cell,
        "counted": "{:,}".format,
        "amount": amount,
        "detail": detail,
        "moment": moment,
        "statement": statement,
        "tenth": "{:,.1f}".format,
        "tenths": tenths,
        "written_out": written_out,
    }
    made.globals["asset"] = asset
    return made


@cache
def static_file(name: str) -> bytes:
    """One of our files."""
    return (WEB / "static" / name).read_bytes()


@cache
def asset(name: str) -> str:
    """The URL of one of our files; it changes when the file does."""
    return f"/static/{name}?v={hashlib.sha256(static_file(name)).hexdigest()[:12]}"


def session_of(request: Request) -> BrowserSession:
    """The person who is signed in; otherwise E_AUTH, which becomes the sign-in page."""
    found: BrowserSession | None = getattr(request.state, "session", None)
    if found is None:
        raise unknown_caller()
    return found


def page(request: Request, template: str, status: int = 200, **context: Any) -> Response:
    """A page in the common frame."""
    found: BrowserSession | None = getattr(request.state, "session", None)
    frame = {
        "me": None if found is None else found.caller,
        "form": "" if found is None else found.form,
        "here": "",
        "through_proxy": getattr(request.state, "proxy", None),
    }
    text = _templates().get_template(template).render(**{**frame, **context})
    return Response(text.encode(errors="replace"), status, media_type="text/html")


def error_page(request: Request, error: ShoalError, status: int | None = None) -> Response:
    """What went wrong and what to do next; people who are not signed in get the sign-in page instead."""
    if error.code == "E_AUTH" and getattr(request.state, "session", None) is None and request.url.path != "/login":
        place = request.url.path if request.method == "GET" else "/"
        where = "/login" if place == "/" else f"/login?to={quote(place, safe='/')}"
        return RedirectResponse(where, 303)
    found = status or status_of(error.code)
    sign = SIGNS.get(error.code, "That did not work")
    if request.method == "POST" and error.code == "E_FORBIDDEN":
        sign = "Not allowed"
    reply = page(request, "error.html", found, title=sign, error=error.to_dict(), back=_way_back(request))
    if error.code in RETRY_AFTER:
        reply.headers["Retry-After"] = RETRY_AFTER[error.code]
    return reply


def _way_back(request: Request) -> tuple[str, str]:
    """The page with the form that was refused, and its name."""
    noun, *rest = request.url.path.strip("/").split("/")
    if request.method == "POST" and noun == "d" and len(rest) == 2 and rest[1] in FORMS_OF_DATA_SETS:
        tab, name = FORMS_OF_DATA_SETS[rest[1]]
        return f"/d/{quote(rest[0], safe='')}{tab}", name
    return FORMS.get(noun, HOME) if request.method == "POST" else HOME


# ---- how things are written -------------------------------------------------------------------------------------------


def number(value: float | None) -> str:
    """A number for people: 2,169, 0.5, 1e-07."""
    if value is None:
        return "—"
    if value == 0:
        return "0"
    return (
        f"{value:,.4g}" if 1e-4 <= abs(value) < 1e4 else f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.3g}"
    )


def aligned(value: float, places: int) -> str:
    """A number of a column in which all have as many decimal places."""
    return f"{round(value, places) + 0.0:,.{places}f}"


def small(value: float | None) -> str:
    """A δ: 0, or a power of ten."""
    return "—" if value is None else _short_power(f"{value:.3g}")


def exactly(value: float) -> str:
    """A number to be changed in a form: no digit is lost."""
    return _short_power(repr(value))


def _short_power(text: str) -> str:
    return re.sub(r"e-0(\d)$", r"e-\1", text)


def percent(share: float | None) -> str:
    """A share for people."""
    if share is None:
        return "—"
    hundredfold = 100 * share
    text = f"{hundredfold:.1f}" if hundredfold < 99.95 or share == 1 else "over 99.9"
    return text.removesuffix(".0") + "%"


def tenths(share: float | None) -> str:
    """A share in a column of shares, each with one decimal."""
    return "—" if share is None else f"{100 * share:,.1f}%"


def audience(to: str) -> str:
    """Whom an allowance is for."""
    return f"the group {to.removeprefix('group:')}" if to.startswith("group:") else to


def brief(sql: str) -> str:
    """What a statement asks, in one line: of the clause that most have in common only a sign is left."""
    text = " ".join(sql.split())
    clause = _CLAUSE.search(text)
    if clause is None:
        return text
    depth, end = int(clause[1] is not None), clause.end()
    while depth and end < len(text):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    rest = text[end:].lstrip()
    return f"{text[: clause.start()]}SELECT … {rest}" if rest else text


def cell(value: Any) -> str:
    """A value of an answer: control and bidirectional characters are escaped, long strings cut."""
    return shown(value, LONGEST_CELL)


def written_out(text: str) -> str:
    """Somebody else's text with its line breaks: characters that would reverse or hide part of a line are escaped."""
    return "\n".join(shown(line.replace("\t", "  "), None) for line in text.split("\n"))


def statement(text: str) -> str:
    """A statement as the log and the ledger store it, with its original line breaks."""
    return text.replace("\\n", "\n").replace("\\t", "  ")


def amount(text: str | None) -> str:
    """An exact amount of the log, such as 9/10, as a decimal number."""
    return "—" if text is None else number(float(Fraction(text)))


def detail(line: dict[str, Any]) -> str:
    """The rest of a log line: settings are counted, the parts of an allowance named."""
    said = str(line["detail"])
    if line["action"] == "tune":
        return f"{said} settings" if said != "1" else "1 setting"
    if line["action"] != "allowance":
        return said
    told = {name: value for name, value in json.loads(said).items() if value is not None and name != "dataset"}
    limit = told.pop("budget", None)
    words = [
        f"{name.replace('_', ' ')}: {number(value) if isinstance(value, float) else value}"
        for name, value in told.items()
    ]
    return " · ".join([*words, f"budget: ε {number(limit['epsilon'])}, δ {small(limit['delta'])}"] if limit else words)


def moment(text: str) -> str:
    """2026-10-31T23:59:59Z as people write it."""
    return text.replace("T", " ").removesuffix("Z")[:16] + " UTC" if text else "—"


def internal_error_page() -> Response:
    """One of our bugs, reported without the templates, which may be the bug."""
    return bare_page(
        500, "Sorry", "Something went wrong in the service, which is a bug in shoal. Go back, and report it."
    )
