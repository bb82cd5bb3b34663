"""What a custodian does with a data set: say that it changed, raise its budget, look at its risk report."""

from __future__ import annotations

import re

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shoal import params
from shoal.errors import ShoalError
from shoal.web.calling import call, service_of
from shoal.web.console.budget import budget_page
from shoal.web.console.forms import Refused, about, form_of
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
    service, caller = service_of(request), session_of(request).caller
    try:
        limit = _limit(fields)
        with about("epsilon"):
            await call(service.raise_budget, caller, dataset, limit, fields["because"][:4096])
    except ShoalError as error:
        return await budget_page(request, dataset, Refused("raise", fields, error))
    return RedirectResponse(f"/d/{dataset}/budget", 303)


def _limit(fields: dict[str, str]) -> params.Budget:
    with about("because"):
        if not fields["because"].strip():
            raise ShoalError("E_USAGE", "Raising a budget needs a reason.", hint="Say who decided it, and why.")
    found = []
    for name, sign, example in (("epsilon", "ε", "4"), ("delta", "δ", "1e-5")):
        with about(name):
            try:
                found.append(float(fields[name]))
            except ValueError:
                raise ShoalError("E_USAGE", f"{sign} is a number.", hint=f"Write {example}.") from None
    with about("epsilon"):
        return params.budget((found[0], found[1]))


@routes.get("/d/{dataset}/raise")
@routes.get("/d/{dataset}/lift")
async def again(request: Request, dataset: str) -> Response:
    """The address of a refused form, opened again."""
    only(request, set())
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
