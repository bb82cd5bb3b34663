"""Questions that wait for a custodian."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header
from starlette.requests import Request
from starlette.responses import Response

from shoal.service.questions import Question
from shoal.web.bodies import ApprovalBody, DecisionBody
from shoal.web.calling import call, caller_of, service_of
from shoal.web.errors import json_reply
from shoal.web.jobs import only
from shoal.web.replies import job_data

routes = APIRouter(prefix="/v1", tags=["approvals"])


@routes.get("/approvals")
async def approvals(request: Request) -> Response:
    """What waits."""
    only(request, set())
    return json_reply({"approvals": await call(service_of(request).approvals, caller_of(request))})


@routes.post("/approvals")
async def ask(
    request: Request, body: ApprovalBody, idempotency_key: Annotated[str | None, Header()] = None
) -> Response:
    """Ask for an approval: 202 with the job that waits for it. A question that needs none is refused, and does not run."""
    only(request, set())
    question = Question(body.sql, body.fresh, body.composition, body.reason, body.epsilon, body.answer_time)
    service, caller = service_of(request), caller_of(request)
    job = await call(service.ask_for_approval, caller, body.dataset, question, idempotency_key)
    return json_reply(job_data(job, None), 202)


@routes.post("/approvals/{approval}")
async def decide(request: Request, approval: str, body: DecisionBody) -> Response:
    """Approve or refuse."""
    only(request, set())
    return json_reply(await call(service_of(request).decide, caller_of(request), approval, body.decision, body.note))
