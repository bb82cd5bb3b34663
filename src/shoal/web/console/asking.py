"""Ask: first the explanation, then the price on the button, then the job until it has an answer."""

from __future__ import annotations

import hashlib
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shoal.errors import ShoalError
from shoal.service.browser.listings import approval_of, own_questions
from shoal.service.people import random_id
from shoal.service.questions import Question
from shoal.web.calling import call, ended, service_of
from shoal.web.console.explaining import digest_of, error_view, examples, explanation_view, with_epsilon
from shoal.web.console.forms import form_of
from shoal.web.console.frame import framed
from shoal.web.console.rendering import page, session_of
from shoal.web.errors import json_reply, status_of
from shoal.web.jobs import LONGEST_WAIT, number, only

routes = APIRouter(include_in_schema=False)
LONGEST_SQL = 200_000
FIRST_LOOK_SECONDS = 2.0
_FIELDS = {"sql", "do", "explained", "key", "reason", "error"}


@routes.get("/d/{dataset}/ask")
async def ask(request: Request, dataset: str) -> Response:
    """An editor; a question in the address is explained at once."""
    only(request, {"sql"})
    session_of(request).caller.require("explain")
    sql = request.query_params.get("sql", "")[:LONGEST_SQL]
    return await _editor(request, dataset, sql, await _explained(request, dataset, sql))


@routes.post("/d/{dataset}/explanation")
async def explanation(request: Request, dataset: str) -> Response:
    """The explanation alone, for the script that follows typing."""
    fields = await form_of(request, {"sql"})
    view = await _explained(request, dataset, fields["sql"])
    return page(request, "_explanation.html", dataset={"name": dataset}, **view)


@routes.post("/d/{dataset}/ask")
async def send(request: Request, dataset: str) -> Response:
    """Explain, find an ε, or ask; what is asked is what was explained, at that price."""
    fields = await form_of(request, _FIELDS)
    session_of(request).caller.require("explain")
    sql = fields["sql"]
    if fields["do"] in {"pay", "fresh", "replay"}:
        return await _asked(request, dataset, fields)
    error = ""
    if fields["do"] == "find" and fields["error"].strip():
        try:
            sql = await _found(request, dataset, fields)
        except ShoalError as refused:
            view = {"explanation": None, "error": error_view(refused, sql)}
            return await _editor(request, dataset, sql, view, fields, status_of(refused.code))
    return await _editor(request, dataset, sql, await _explained(request, dataset, sql), fields | {"error": error})


async def _found(request: Request, dataset: str, fields: dict[str, str]) -> str:
    """The question at the ε for the acceptable ±."""
    try:
        wanted = float(fields["error"].replace(",", ""))
    except ValueError:
        raise ShoalError("E_USAGE", "The ± you can live with is a number.", hint="Write 50 for ± 50.") from None
    service, caller = service_of(request), session_of(request).caller
    return with_epsilon(fields["sql"], await call(service.epsilon_for, caller, dataset, fields["sql"], wanted))


async def _asked(request: Request, dataset: str, fields: dict[str, str]) -> Response:
    """A job; the key was made with the page, so double clicks and reloads pay once."""
    service, caller, sql = service_of(request), session_of(request).caller, fields["sql"]
    view = await _explained(request, dataset, sql)
    found = view["explanation"]
    if found is None:
        return await _editor(request, dataset, sql, view, fields, 400)
    if fields["do"] != "replay" and fields["explained"] != digest_of(sql, found["epsilon"], found["delta"]):
        return await _editor(request, dataset, sql, view | {"changed": True}, fields, 409)
    about = hashlib.sha256(f"{fields['do']}\x1f{fields['reason']}\x1f{sql}".encode(errors="replace")).hexdigest()
    question = Question(sql, fields["do"] == "fresh", reason=fields["reason"])
    try:
        job = await call(service.ask, caller, dataset, question, f"{fields['key'][:64]}-{about[:32]}")
    except ShoalError as error:
        view = {"explanation": None, "error": error_view(error, sql)}
        return await _editor(request, dataset, sql, view, fields, status_of(error.code))
    return RedirectResponse(f"/j/{job.id}", 303)


async def _explained(request: Request, dataset: str, sql: str) -> dict[str, Any]:
    """`explanation` or `error`; neither for an empty string."""
    if not sql.strip():
        return {"explanation": None, "error": None}
    try:
        explained = await call(service_of(request).explain, session_of(request).caller, dataset, sql)
        return {"explanation": await call(explanation_view, explained, sql), "error": None}
    except ShoalError as error:
        if error.code in {"E_NOT_FOUND", "E_FORBIDDEN", "E_AUTH"}:
            raise
        return {"explanation": None, "error": error_view(error, sql)}


async def _editor(
    request: Request,
    dataset: str,
    sql: str,
    view: dict[str, Any],
    fields: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    service, caller = service_of(request), session_of(request).caller
    described = await call(service.describe, caller, dataset)
    return await framed(
        request,
        "ask.html",
        status,
        here="datasets",
        tab="ask",
        dataset=described,
        sql=sql,
        key=random_id("page-"),
        wanted_error=fields["error"] if fields else "",
        reason=fields["reason"] if fields else "",
        examples=examples(described["tables"]),
        questions=await call(own_questions, service.store, caller, dataset),
        changed=view.pop("changed", False),
        **view,
    )


# ---- jobs ---------------------------------------------------------------------------------------------------------


@routes.get("/j/{job}")
async def job_page(request: Request, job: str) -> Response:
    """The state of a question; its answer once it has one."""
    only(request, set())
    service, caller = service_of(request), session_of(request).caller
    found = await ended(service, caller, job, FIRST_LOOK_SECONDS)
    if found.state == "answered":
        return RedirectResponse(f"/a/{found.answer}", 303)
    position = await call(service.position, found)
    described = await call(service.describe, caller, found.dataset)
    approved = await call(approval_of, service.store, caller, found.fingerprint)
    about: dict[str, Any] = {"dataset": described, "job": found, "position": position, "approved": approved}
    return await framed(request, "job.html", here="datasets", tab="ask", **about)


@routes.get("/j/{job}/state")
async def job_state(request: Request, job: str) -> Response:
    """For the script: the state, once it changes or this many seconds have passed."""
    only(request, {"wait"})
    service, caller = service_of(request), session_of(request).caller
    found = await ended(service, caller, job, number(request, "wait", 0.0, 0.0, LONGEST_WAIT))
    return json_reply({"state": found.state, "position": await call(service.position, found)})


@routes.post("/j/{job}/cancel")
async def cancel(request: Request, job: str) -> Response:
    """Free while it waits, charged once it runs."""
    await form_of(request, set())
    await call(service_of(request).cancel, session_of(request).caller, job)
    return RedirectResponse(f"/j/{job}", 303)
