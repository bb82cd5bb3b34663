"""A link that is good once: it hands the first custodian a token."""

from __future__ import annotations

import html
from urllib.parse import parse_qs

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from shoal.errors import ShoalError
from shoal.service.people import unknown_caller
from shoal.web.calling import call, service_of

routes = APIRouter(include_in_schema=False)
_PAGE = '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>shoal</title></head><body><main>{}</main></body></html>'


@routes.get("/")
async def home() -> Response:
    """Where to go from here."""
    said = "<h1>shoal</h1><p>A budget service. Its description is at <a href='/openapi.json'>/openapi.json</a>.</p>"
    return HTMLResponse(_PAGE.format(said))


@routes.get("/login")
async def form(request: Request) -> Response:
    """A button, so that a program that only looks at the link does not use it up."""
    link = html.escape(request.query_params.get("link", "")[:200], quote=True)
    said = (
        "<h1>Sign in</h1><form method='post' action='/login'>"
        f"<input type='hidden' name='link' value='{link}'><button>Show my token</button></form>"
    )
    return HTMLResponse(_PAGE.format(said))


@routes.post("/login")
async def use(request: Request) -> Response:
    """The token of the person that the link was made for, shown once."""
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise ShoalError("E_FORBIDDEN", "This form is sent from this page only.")
    links = parse_qs((await request.body()).decode("latin-1")).get("link", [])
    if len(links) != 1:
        raise unknown_caller()
    made = await call(service_of(request).use_link, links[0])
    said = (
        f"<h1>Your token</h1><p><code>{html.escape(made['token'])}</code></p>"
        f"<p>It is shown once, and good until {html.escape(made['expires'])}. Keep it in a file of your own, and name it"
        " with SHOAL_TOKEN or --token-file.</p>"
    )
    return HTMLResponse(_PAGE.format(said))
