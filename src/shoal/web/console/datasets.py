"""Data sets: which there are, and what is in one."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.service.allowances import grants
from shoal.service.browser.listings import own_questions
from shoal.web.calling import call, service_of
from shoal.web.console import charts
from shoal.web.console.explaining import examples
from shoal.web.console.frame import framed
from shoal.web.console.rendering import session_of
from shoal.web.jobs import only

routes = APIRouter(include_in_schema=False)


@routes.get("/")
async def datasets(request: Request) -> Response:
    """What the caller may query."""
    only(request, set())
    found = await call(service_of(request).list_datasets, session_of(request).caller)
    return await framed(request, "datasets.html", here="datasets", datasets=[_with_totals(each) for each in found])


@routes.get("/d/{dataset}")
async def dataset(request: Request, dataset: str) -> Response:
    """Tables, unit, totals, allowances, and the caller's own questions."""
    only(request, set())
    service, caller = service_of(request), session_of(request).caller
    found = _with_totals(await call(service.describe, caller, dataset))
    return await framed(
        request,
        "dataset.html",
        here="datasets",
        tab="tables",
        dataset=found,
        examples=examples(found["tables"]),
        questions=await call(own_questions, service.store, caller, dataset),
        grants=[each.to_dict() for each in await call(grants, service.store, dataset)] if caller.is_custodian else [],
    )


def _with_totals(found: dict[str, Any]) -> dict[str, Any]:
    """A data set with its meter: the lifetime total against the limit."""
    limit, spent = found["ledger"]["budget"], found["ledger"]["spent"]
    share = spent["epsilon"] / limit["epsilon"] if limit and limit["epsilon"] else 0.0
    return found | {"meter": charts.meter(share, "Share of the budget that is spent"), "share": share}
