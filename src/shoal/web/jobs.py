"""Jobs and answers."""

from __future__ import annotations

from typing import IO

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal import params
from shoal.errors import ShoalError
from shoal.release.answer_bytes import MEDIA_TYPE
from shoal.service.jobs import Job
from shoal.service.people import Caller
from shoal.service.service import Service
from shoal.web.calling import call, caller_of, ended, service_of
from shoal.web.errors import json_reply
from shoal.web.operation.large import LargeReply, Places
from shoal.web.replies import (
    JSON,
    answer_reply,
    bytes_reply,
    ended_reply,
    has_many_cells,
    job_data,
    wanted_format,
)

routes = APIRouter(prefix="/v1", tags=["jobs"])
LONGEST_WAIT = 60.0


def only(request: Request, known: set[str]) -> None:
    """E_USAGE for a parameter that is unknown, or given twice."""
    names = [name for name, _ in request.query_params.multi_items()]
    if not set(names) <= known or len(names) != len(set(names)):
        allowed = f"{', '.join(sorted(known))}, each once" if known else "no parameters"
        raise ShoalError("E_USAGE", f"This address takes {allowed}.")


def number(request: Request, name: str, default: float, low: float, high: float) -> float:
    """A parameter of the address that is a number."""
    text = request.query_params.get(name)
    if text is None:
        return default
    try:
        found = float(text) if len(text) < 40 else float("nan")
    except ValueError:
        found = float("nan")
    if not low <= found <= high:
        raise ShoalError("E_USAGE", f"{name} is a number from {low:g} to {high:g}.")
    return found


def whole(request: Request, name: str, default: int, low: int, high: int) -> int:
    """A parameter of the address that is a whole number."""
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high):
        raise ShoalError("E_USAGE", f"{name} is a whole number from {low} to {high}.")
    return int(text)


def level_of(request: Request) -> float | None:
    """The level of the error bars, None for the answer's own."""
    if "level" not in request.query_params:
        return None
    level = number(request, "level", 0.95, 0.0, 1.0)
    params.confidence_level(level)
    return level


def places_of(request: Request) -> Places:
    """The places of the application."""
    return request.app.state.places  # type: ignore[no-any-return]


async def job_reply(request: Request, job: Job, level: float | None) -> Response:
    """The answer of a job that has one, its error, or its state."""
    service, caller = service_of(request), caller_of(request)
    if job.state in {"failed", "cancelled"}:
        return ended_reply(job)
    if job.state != "answered":
        await call(service.keep)
        return json_reply(job_data(job, await call(service.position, job)), 202)
    reply = await call(released_reply, service, caller, wanted_format(request), job, level)
    return reply or large_reply(request, job, level)


def large_reply(request: Request, job: Job, level: float | None) -> Response:
    """The large answer of a job, when there is a place for it."""
    service, caller, kind = service_of(request), caller_of(request), wanted_format(request)
    return LargeReply(places_of(request), caller.name, lambda into: _released(service, caller, kind, job, level, into))


def released_reply(service: Service, caller: Caller, kind: str, job: Job, level: float | None) -> Response | None:
    """The answer of a job that has one; None if it is large."""
    if service.is_large(job.answer):
        return None
    charged = (float(job.epsilon), float(job.delta)) if job.charged else None
    if kind == MEDIA_TYPE and charged is not None:
        return bytes_reply(job.answer, service.answer_of(caller, job).data, charged)
    if has_many_cells(kind, service.answer_of(caller, job).result):
        return None
    return _released(service, caller, kind, job, level)


def prompt_reply(service: Service, caller: Caller, kind: str, job: Job) -> Response | None:
    """The same for an answer that was just paid for, if it can be had without a thread."""
    kept = service.at_hand(caller, job) if kind == MEDIA_TYPE and job.charged else None
    return None if kept is None else bytes_reply(job.answer, kept, (float(job.epsilon), float(job.delta)))


def _released(
    service: Service, caller: Caller, kind: str, job: Job, level: float | None, into: IO[bytes] | None = None
) -> Response:
    kept = service.answer_of(caller, job)
    charged = (float(job.epsilon), float(job.delta)) if job.charged else None
    return answer_reply(
        kind,
        job.answer,
        job.dataset,
        kept.result,
        kept.data,
        charged=charged,
        replayed=charged is None and bool(kept.result.epsilon),
        remaining=service.remaining(caller, job.dataset) if kind == JSON else None,  # the others do not show it
        level=level,
        into=into,
    )


@routes.get("/jobs/{job}")
async def job_state(request: Request, job: str) -> Response:
    """Where a job stands; with `wait`, when it has ended or this many seconds have passed."""
    only(request, {"wait"})
    service, caller = service_of(request), caller_of(request)
    found = await ended(service, caller, job, number(request, "wait", 0.0, 0.0, LONGEST_WAIT))
    return json_reply(job_data(found, await call(service.position, found)))


@routes.delete("/jobs/{job}")
async def cancel(request: Request, job: str) -> Response:
    """End a job: free while it waits, charged once it runs."""
    only(request, set())
    service, caller = service_of(request), caller_of(request)
    found = await call(service.cancel, caller, job)
    return json_reply(job_data(found, None))


@routes.get("/answers/{answer}")
async def answer(request: Request, answer: str) -> Response:
    """A released answer at any level, free."""
    only(request, {"level"})
    caller = caller_of(request)
    level = level_of(request)
    return await stored_reply(request, caller, answer, wanted_format(request), level)


async def stored_reply(request: Request, caller: Caller, answer: str, kind: str, level: float | None) -> Response:
    """A released answer as a program or a person reads it."""
    service = service_of(request)

    def made(into: IO[bytes] | None) -> Response | None:
        found, data, result = service.answer(caller, answer)
        if into is None and has_many_cells(kind, result):
            return None
        return answer_reply(
            *(kind, answer, found["dataset"], result, data),
            charged=None,
            replayed=True,
            remaining=service.remaining(caller, found["dataset"]) if kind == JSON else None,
            level=level,
            into=into,
        )

    def small() -> Response | None:
        service.found_answer(caller, answer)
        return None if service.is_large(answer) else made(None)

    def large(into: IO[bytes]) -> Response:
        reply = made(into)
        assert reply is not None  # noqa: S101 - only without a file
        return reply

    return await call(small) or LargeReply(places_of(request), caller.name, large)
