"""Data sets: look, explain, ask, what was spent."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header
from starlette.requests import Request
from starlette.responses import Response

from shoal import params
from shoal.cli.output import plain
from shoal.service.jobs import Job
from shoal.service.questions import Question
from shoal.tuning import tune_in
from shoal.web.bodies import EpsilonBody, ExplainBody, LiftBody, QueryBody, TuneBody
from shoal.web.calling import answered, call, caller_of, service_of
from shoal.web.errors import json_reply
from shoal.web.jobs import job_reply, only, prompt_reply, released_reply
from shoal.web.replies import wanted_format

routes = APIRouter(prefix="/v1", tags=["data sets"])


@routes.get("/me")
async def me(request: Request) -> Response:
    """Who am I, and what may I do."""
    only(request, set())
    return json_reply(await call(service_of(request).me, caller_of(request)))


@routes.get("/datasets")
async def datasets(request: Request) -> Response:
    """Data sets that I may see."""
    only(request, set())
    return json_reply({"datasets": await call(service_of(request).list_datasets, caller_of(request))})


@routes.get("/datasets/{dataset}")
async def describe(request: Request, dataset: str) -> Response:
    """Tables, unit, totals, my allowances with what is left of them."""
    only(request, set())
    return json_reply(await call(service_of(request).describe, caller_of(request), dataset))


@routes.get("/datasets/{dataset}/budget")
async def budget(request: Request, dataset: str) -> Response:
    """What was spent: all entries for custodian and auditor, own ones for analysts."""
    only(request, set())
    return json_reply(await call(service_of(request).budget, caller_of(request), dataset))


@routes.post("/datasets/{dataset}/explain")
async def explain(request: Request, dataset: str, body: ExplainBody) -> Response:
    """What a question would do and cost; free."""
    only(request, set())
    explained: dict[str, Any] = await call(
        service_of(request).explain, caller_of(request), dataset, body.sql, body.epsilon, body.composition
    )
    return json_reply(explained)


@routes.post("/datasets/{dataset}/epsilon_for")
async def epsilon_for(request: Request, dataset: str, body: EpsilonBody) -> Response:
    """The ε for the ± one can live with; free."""
    only(request, set())
    found = await call(
        service_of(request).epsilon_for, caller_of(request), dataset, body.sql, body.error, body.level, body.owners
    )
    return json_reply({"epsilon": found})


@routes.post("/datasets/{dataset}/query")
async def query(
    request: Request, dataset: str, body: QueryBody, idempotency_key: Annotated[str | None, Header()] = None
) -> Response:
    """Ask: 200 with the answer, or 202 with a job after `wait` seconds."""
    only(request, set())
    service, caller = service_of(request), caller_of(request)
    if body.level is not None:
        params.confidence_level(body.level)
    question = Question(body.sql, body.fresh, body.composition, body.reason, body.epsilon, body.answer_time)
    kind = wanted_format(request)

    def ask(identifier: str) -> Job:
        return service.ask(caller, dataset, question, idempotency_key, at_once=False, identifier=identifier)

    def reply(job: Job) -> Response | None:
        """A small answer is written in the thread that finds it."""
        return released_reply(service, caller, kind, job, body.level)

    job, found = await answered(
        service, caller, ask, body.wait, reply, lambda job: prompt_reply(service, caller, kind, job)
    )
    return found or await job_reply(request, job, body.level)


@routes.post("/datasets/{dataset}/tune")
async def tune(request: Request, dataset: str, body: TuneBody) -> Response:
    """Custodian: exact figures about raw data. Not private; each look is a line of the log."""
    only(request, set())
    service, caller = service_of(request), caller_of(request)
    opened = await call(service.looking, caller, dataset)
    bounds = {name: [(low, high) for low, high in pairs] for name, pairs in body.bounds.items()}
    found = await call(tune_in, opened.session, body.sql, epsilon=body.epsilon, groups=body.groups, bounds=bounds)
    looked = await call(service.note_look, caller, dataset, body.sql, len(found.settings))
    return json_reply(plain(found.to_dict()) | {"looked": looked})


@routes.post("/datasets/{dataset}/lift")
async def lift(request: Request, dataset: str, body: LiftBody) -> Response:
    """End a suspension, with a reason."""
    only(request, set())
    await call(service_of(request).lift, caller_of(request), dataset, body.user, body.because)
    return json_reply({"lifted": body.user})
