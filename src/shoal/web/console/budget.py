"""Budget: the lifetime total against its limit, who spent it and on what, and the tripwire: who is suspended, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from shoal.accounting.claims.meaning import meaning
from shoal.errors import ShoalError
from shoal.web.calling import call, service_of
from shoal.web.console import charts
from shoal.web.console.explaining import sentences
from shoal.web.console.forms import Refused, about, form_of
from shoal.web.console.frame import framed
from shoal.web.console.rendering import number, session_of
from shoal.web.jobs import only

if TYPE_CHECKING:
    from shoal.service.people import Caller

routes = APIRouter(include_in_schema=False)
MOST_ENTRIES = 100
MOST_STEPS = 200


@routes.get("/d/{dataset}/budget")
async def budget(request: Request, dataset: str) -> Response:
    """What was spent, by whom, on what; analysts see their own entries."""
    only(request, set())
    return await budget_page(request, dataset)


def _reason(fields: dict[str, str]) -> str:
    with about("because"):
        if not fields["because"].strip():
            raise ShoalError("E_USAGE", "A lift needs a reason.", hint="Say why the statement is harmless.")
    return fields["because"][:4096]


async def budget_page(request: Request, dataset: str, refused: Refused | None = None) -> Response:
    """The same, after a form on it was refused, too."""
    service, caller = service_of(request), session_of(request).caller
    described = await call(service.describe, caller, dataset)
    data = await call(service.budget, caller, dataset)
    if refused is not None and refused.error is not None and refused.form not in _forms(caller, data):
        raise refused.error
    return await framed(
        request,
        "budget.html",
        refused=refused,
        here="datasets",
        tab="budget",
        dataset=described,
        **await call(budget_view, data),
    )


@routes.post("/d/{dataset}/lift")
async def lift(request: Request, dataset: str) -> Response:
    """The end of a suspension, with a reason."""
    fields = await form_of(request, {"user", "because"})
    service, caller = service_of(request), session_of(request).caller
    try:
        reason = _reason(fields)
        await call(service.lift, caller, dataset, fields["user"], reason)
    except ShoalError as error:
        return await budget_page(request, dataset, Refused(f"lift {fields['user']}", fields, error))
    return RedirectResponse(f"/d/{dataset}/budget", 303)


def _forms(caller: Caller, data: dict[str, Any]) -> set[str]:
    """The forms that are on the page: there, and nowhere else, a refusal can be shown."""
    if not caller.is_custodian:
        return set()
    lifts = {f"lift {each['user']}" for each in data.get("suspensions", []) if not each["lifted_at"]}
    return lifts | ({"raise"} if data["budget"] else set())


def budget_view(data: dict[str, Any]) -> dict[str, Any]:
    """Everything that `budget.html` shows about a ledger."""
    limit, spent = data["budget"], data["spent"]["epsilon"]
    by_user = sorted(data.get("by_user", {}).items(), key=lambda each: -each[1]["epsilon"])
    suspensions = data.get("suspensions", [])
    means = meaning(max(spent, 1e-10), data["spent"]["delta"]).to_dict(unit=data["unit"])
    all_of_it = (
        None if limit is None else meaning(max(limit["epsilon"], 1e-10), limit["delta"]).to_dict(unit=data["unit"])
    )
    return {
        "budget": data,
        "series": _series(data),
        "meter": charts.meter(spent / limit["epsilon"] if limit and limit["epsilon"] else 0.0, "Share that is spent"),
        "by_user": [
            (user, amounts, _share_of(user, amounts["epsilon"] / spent if spent else 0.0)) for user, amounts in by_user
        ],
        "entries": list(reversed(data["entries"]))[:MOST_ENTRIES],
        "more_entries": max(0, len(data["entries"]) - MOST_ENTRIES),
        "suspended": [each for each in suspensions if not each["lifted_at"]],
        "lifted": [each for each in suspensions if each["lifted_at"]],
        "means": sentences(means) if spent else [],
        "all_of_it": sentences(all_of_it) if all_of_it else [],
        "picture": _picture(means, "spent so far") if spent else None,
        "all_picture": _picture(all_of_it, "all of it") if all_of_it else None,
    }


def _share_of(user: str, share: float) -> Any:
    return charts.meter(share, f"Share of {user or 'nobody'}", warns=False)


def _picture(means: dict[str, Any], what: str) -> Any:
    row = next(row for row in means["table"] if row["prior"] == 0.1)
    return charts.belief(0.1, row["low"], row["high"], f"How far a belief of 10% may move, for {what}")


def _series(data: dict[str, Any]) -> Any:
    """The last steps; earlier spending is the height at which they begin."""
    last = data["series"][-MOST_STEPS:]
    if not last:
        return None
    one_day = last[0]["at"][:10] == last[-1]["at"][:10]
    found = [(f"{each['at'][11:16]} UTC" if one_day else each["at"][:10], each["epsilon"]) for each in last]
    limit = None if data["budget"] is None else data["budget"]["epsilon"]
    title = f"Spent so far: ε {number(found[-1][1])}" + (f" of {number(limit)}" if limit is not None else "")
    return charts.steps(found, limit, title)
