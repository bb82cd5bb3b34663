"""What a custodian does with a data set: say that it changed, raise its budget, look at its risk report."""

from __future__ import annotations

import re

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shoal import params
from shoal.errors import ShoalError
from shoal.web.calling import call, service_of
from shoal.web.console.forms import form_of
from shoal.web.console.rendering import session_of
from shoal.web.jobs import only

routes = APIRouter(include_in_schema=False)
SANDBOX = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
"""A report shows untrusted values: nothing in it runs, and nothing leaves it."""

_SCRIPT = re.compile(r"<script>.*?</script>", re.DOTALL)
_WITHOUT_BUTTONS = "<style>button.theme, button.more { visibility: hidden } th button { pointer-events: none }</style>"


@routes.post("/d/{dataset}/refresh")
async def refresh(request: Request, dataset: str) -> Response:
    """The data changed: answers are new from now on."""
    await form_of(request, set())
    await call(service_of(request).refresh, session_of(request).caller, dataset)
    return RedirectResponse(f"/d/{dataset}", 303)


@routes.post("/d/{dataset}/raise")
async def raise_budget(request: Request, dataset: str) -> Response:
    """A larger lifetime budget, with a reason."""
    fields = await form_of(request, {"epsilon", "delta", "because"})
    if not fields["because"].strip():
        raise ShoalError("E_USAGE", "Raising a budget needs a reason.", hint="Go back and say who decided it, and why.")
    try:
        limit = params.budget((float(fields["epsilon"]), float(fields["delta"])))
    except ValueError:
        raise ShoalError("E_USAGE", "ε and δ are numbers.", hint="Go back and write 4 and 1e-5.") from None
    service, caller = service_of(request), session_of(request).caller
    await call(service.raise_budget, caller, dataset, limit, fields["because"][:4096])
    return RedirectResponse(f"/d/{dataset}/budget", 303)


@routes.get("/d/{dataset}/risk")
async def risk(request: Request, dataset: str) -> Response:
    """The report of `shoal service risk`, in a sandbox."""
    only(request, set())
    found = await call(service_of(request).risk_report, session_of(request).caller, dataset)
    return Response(_still(found).encode(), media_type="text/html", headers={"Content-Security-Policy": SANDBOX})


def _still(page: str) -> str:
    """The report without its script, and without buttons that would do nothing; all its details are in sight."""
    return _SCRIPT.sub("", page).replace("</head>", f"{_WITHOUT_BUTTONS}</head>", 1)
