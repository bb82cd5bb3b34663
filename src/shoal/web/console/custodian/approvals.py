"""Approvals: what is waiting, with its explanation and reason; a custodian who is not the asker decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shoal.accounting.claims.meaning import meaning
from shoal.errors import ShoalError
from shoal.web.calling import call, service_of
from shoal.web.console.explaining import columns_of, sentences
from shoal.web.console.forms import form_of
from shoal.web.console.frame import framed
from shoal.web.console.rendering import session_of
from shoal.web.jobs import only

if TYPE_CHECKING:
    from shoal.service.people import Caller
    from shoal.service.service import Service

routes = APIRouter(include_in_schema=False)
FIRST_LOOK_SECONDS = 2.0


@routes.get("/approvals")
async def approvals(request: Request) -> Response:
    """What is waiting; analysts see their own."""
    only(request, {"decided"})
    service, caller = service_of(request), session_of(request).caller
    just_now = request.query_params.get("decided")
    decided = None if just_now is None else await call(_decided, service, caller, just_now)
    found = await call(service.approvals, caller)
    described = [await call(_view, request, each) for each in found]
    return await framed(request, "approvals.html", here="approvals", approvals=described, decided=decided)


def _decided(service: Service, caller: Caller, identifier: str) -> dict[str, Any]:
    """A decision, and the first that is known of what became of the question."""
    found = service.decision(caller, identifier)
    if found["state"] == "approved":
        found["job"] = service.wait(found["job"].id, FIRST_LOOK_SECONDS)
    return found


def _view(request: Request, approval: dict[str, Any]) -> dict[str, Any]:
    """An approval with the price, the ± and the budget it would leave."""
    explained = approval["explanation"]
    price = explained.get("price", explained)
    epsilon, delta = price["epsilon"], price["delta"]
    caller = session_of(request).caller
    service = service_of(request)
    left = service.remaining(caller, approval["dataset"])
    shares = _shares(service, caller, approval)
    limits = [each["left"] for each in shares if each["left"] is not None]
    if left is not None:
        limits.append({"epsilon": float(left[0]), "delta": float(left[1])})
    return approval | {
        "epsilon": epsilon,
        "delta": delta,
        "shares": shares,
        "fits": all(epsilon <= limit["epsilon"] and delta <= limit["delta"] for limit in limits),
        "columns": columns_of(explained),
        "left": None if left is None else float(left[0]),
        "sentences": sentences(meaning(max(epsilon, 1e-10), delta).to_dict(unit=approval["unit"])),
        "own": approval["asker"] == caller.name,
    }


def _shares(service: Service, caller: Caller, approval: dict[str, Any]) -> list[dict[str, Any]]:
    """The asker's allowances; none of whoever was retired meanwhile."""
    try:
        return service.allowances_of(caller, approval["dataset"], approval["asker"])
    except ShoalError:
        return []


@routes.post("/approvals/{approval}")
async def decide(request: Request, approval: str) -> Response:
    """Approve or refuse, with a note."""
    fields = await form_of(request, {"decision", "note"})
    caller = session_of(request).caller
    await call(service_of(request).decide, caller, approval, fields["decision"], fields["note"][:4096])
    return RedirectResponse(f"/approvals?decided={approval}", 303)
