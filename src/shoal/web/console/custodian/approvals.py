"""Approvals: what is waiting, with its explanation and reason; a custodian who is not the asker decides."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shoal.accounting.claims.meaning import meaning
from shoal.web.calling import call, service_of
from shoal.web.console.explaining import columns_of, sentences
from shoal.web.console.forms import form_of
from shoal.web.console.frame import framed
from shoal.web.console.rendering import session_of
from shoal.web.jobs import only

routes = APIRouter(include_in_schema=False)


@routes.get("/approvals")
async def approvals(request: Request) -> Response:
    """What is waiting; analysts see their own."""
    only(request, set())
    caller = session_of(request).caller
    found = await call(service_of(request).approvals, caller)
    described = [await call(_view, request, each) for each in found]
    return await framed(request, "approvals.html", here="approvals", approvals=described)


def _view(request: Request, approval: dict[str, Any]) -> dict[str, Any]:
    """An approval with the price, the ± and the budget it would leave."""
    explained = approval["explanation"]
    price = explained.get("price", explained)
    epsilon, delta = price["epsilon"], price["delta"]
    caller = session_of(request).caller
    left = service_of(request).remaining(caller, approval["dataset"])
    return approval | {
        "epsilon": epsilon,
        "delta": delta,
        "columns": columns_of(explained),
        "left": None if left is None else float(left[0]),
        "sentences": sentences(meaning(max(epsilon, 1e-10), delta).to_dict(unit=approval["unit"])),
        "own": approval["asker"] == caller.name,
    }


@routes.post("/approvals/{approval}")
async def decide(request: Request, approval: str) -> Response:
    """Approve or refuse, with a note."""
    fields = await form_of(request, {"decision", "note"})
    caller = session_of(request).caller
    await call(service_of(request).decide, caller, approval, fields["decision"], fields["note"][:4096])
    return RedirectResponse("/approvals", 303)
