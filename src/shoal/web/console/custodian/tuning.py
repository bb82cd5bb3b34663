"""Tune: what each parameter of a question does, on raw data, before anything is spent. Not private; for custodians only."""

from __future__ import annotations

import math
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.errors import ShoalError
from shoal.frozen import dataclass
from shoal.tuning import NOT_PRIVATE, OpenTuning
from shoal.web.calling import call, service_of
from shoal.web.console import charts
from shoal.web.console.explaining import error_view, examples, for_people
from shoal.web.console.forms import form_of
from shoal.web.console.frame import framed
from shoal.web.console.rendering import cell, session_of
from shoal.web.errors import status_of
from shoal.web.jobs import only

if TYPE_CHECKING:
    from shoal.service.datasets import DataSet
    from shoal.tuning import Setting, Tuning

routes = APIRouter(include_in_schema=False)
KEPT = 2
MOST_GROUPS = 12
_FIELDS = {"sql", "looked_at", "epsilon", "groups", "lower", "upper"}


class _Opened:
    """The last few questions inspected: moving a slider reads no data."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, int, str], OpenTuning] = OrderedDict()
        self._lock = Lock()

    def get(self, dataset: DataSet, sql: str) -> OpenTuning:
        """Of this version of the data."""
        key = (dataset.name, dataset.version, sql)
        with self._lock:
            known = self._kept.get(key)
        if known is not None:
            return known
        opened = OpenTuning(dataset.session, sql)
        with self._lock:
            self._kept[key] = opened
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return opened


def _opened(request: Request) -> _Opened:
    """Of this application: another one may have a data set of the same name."""
    state = request.app.state
    if not hasattr(state, "tunings"):
        state.tunings = _Opened()
    found: _Opened = state.tunings
    return found


@dataclass(frozen=True, slots=True)
class Choice:
    """The slider positions; None if the question itself sets the value."""

    epsilon: float | None = None
    groups: int | None = None
    bounds: tuple[float, float] | None = None


@routes.get("/d/{dataset}/tune")
async def tune(request: Request, dataset: str) -> Response:
    """An empty page: nothing is inspected until somebody asks."""
    only(request, {"sql"})
    caller = session_of(request).caller
    caller.require("tune")
    return await _page(request, dataset, request.query_params.get("sql", "")[:200_000], None, None)


@routes.post("/d/{dataset}/tune")
async def look(request: Request, dataset: str) -> Response:
    """One look, which is a line of the log."""
    fields = await form_of(request, _FIELDS)
    service, caller, sql = service_of(request), session_of(request).caller, fields["sql"]
    opened = await call(service.looking, caller, dataset)
    try:
        # Slider positions from another question do not apply to this one.
        choice = choice_of(fields) if fields["looked_at"] == sql else Choice()
        view = await call(tuning_view, await call(_opened(request).get, opened, sql), choice)
    except ShoalError as error:
        return await _page(request, dataset, sql, None, error_view(error, sql), status_of(error.code))
    view["looked"] = await call(service.note_look, caller, dataset, sql, view["settings_looked_at"])
    return await _page(request, dataset, sql, view, None)


async def _page(
    request: Request,
    dataset: str,
    sql: str,
    view: dict[str, Any] | None,
    error: dict[str, Any] | None,
    status: int = 200,
) -> Response:
    service, caller = service_of(request), session_of(request).caller
    described = await call(service.describe, caller, dataset)
    return await framed(
        request,
        "tune.html",
        status,
        here="datasets",
        tab="tune",
        dataset=described,
        sql=sql,
        view=view,
        error=error,
        advice=for_people(view["one"].advice, described["unit"]) if view else [],
        warning=NOT_PRIVATE,
        has_report=await call(service.has_risk_report, caller, dataset),
        examples=examples(described["tables"]),
    )


def choice_of(fields: dict[str, str]) -> Choice:
    """The sliders of a form."""
    try:
        lower, upper = (float(fields[name]) if fields[name] else None for name in ("lower", "upper"))
        return Choice(
            float(fields["epsilon"]) if fields["epsilon"] else None,
            int(fields["groups"]) if fields["groups"] else None,
            None if lower is None or upper is None else (min(lower, upper), max(lower, upper)),
        )
    except ValueError:
        raise ShoalError("E_USAGE", "A slider's value is a number.") from None


def tuning_view(opened: OpenTuning, choice: Choice) -> dict[str, Any]:
    """The chosen setting, and what changing one thing would do."""
    column = opened.columns[0] if opened.columns else ""
    found = _at(opened, column, choice)
    one = found.settings[0]
    bounds = one.bounds.get(column)
    others = [(words, _at(opened, column, other).settings[0]) for words, other in _neighbours(one, bounds)]
    groups = found.groups(0)
    histogram, is_steep = _histogram(found, column)
    return {
        "column": column,
        "is_average": column in opened.averages,
        "others_untold": opened.columns[1:],
        "one": one,
        "clamped": None if one.clamped_low is None else one.clamped_low + (one.clamped_high or 0.0),
        "rmse": _median([group["rmse"] for group in groups if "rmse" in group]),
        "rows": [("as chosen", one), *others],
        "settings_looked_at": 1 + len(others),
        "bounds": bounds,
        "range": _range(found, bounds),
        "histogram": histogram,
        "histogram_is_steep": is_steep,
        "groups": _groups(groups),
        "groups_left_out": max(0, len(groups) - MOST_GROUPS),
        "options": _options(found),
        "most_groups": max(20, 2 * one.max_groups),
        "most_epsilon": max(4.0, math.ceil(2 * one.epsilon)),
    }


def _at(opened: OpenTuning, column: str, choice: Choice) -> Tuning:
    return opened.settings(
        None if choice.epsilon is None else [choice.epsilon],
        None if choice.groups is None else [choice.groups],
        None if choice.bounds is None else {column: [choice.bounds]},
    )


def _neighbours(one: Setting, bounds: tuple[float, float] | None) -> list[tuple[str, Choice]]:
    """The same with one thing changed."""
    epsilon, groups = one.epsilon, one.max_groups
    found = [
        ("half of ε", Choice(epsilon / 2, groups, bounds)),
        ("twice ε", Choice(epsilon * 2, groups, bounds)),
        ("twice the groups", Choice(epsilon, groups * 2, bounds)),
    ]
    if groups > 1:
        found.insert(2, ("half of the groups", Choice(epsilon, groups // 2, bounds)))
    if bounds is not None and bounds[1] > bounds[0]:
        low, high = bounds
        found.append(("half of the upper bound", Choice(epsilon, groups, (low, low + (high - low) / 2))))
        found.append(("twice the upper bound", Choice(epsilon, groups, (low, low + (high - low) * 2))))
    return found


def _median(values: list[float]) -> float | None:
    ordered = sorted(values)
    return ordered[len(ordered) // 2] if ordered else None


def _range(found: Tuning, bounds: tuple[float, float] | None) -> dict[str, float] | None:
    """The range of the sliders for bounds: the data, and twice what is allowed."""
    if bounds is None:
        return None
    try:
        edges = found.histogram(0)["edges"]
    except ShoalError:
        edges = list(bounds)
    low, high = min(edges[0], bounds[0], 0.0), max(edges[-1], 2 * bounds[1], bounds[1] + 1)
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)) - 2)
    return {"low": math.floor(low / step) * step, "high": math.ceil(high / step) * step, "step": step}


def _histogram(found: Tuning, column: str) -> tuple[Any, bool]:
    """The picture, if there is one, and whether its columns are drawn by powers of ten."""
    try:
        drawn = found.histogram(0)
    except ShoalError:
        return None, False
    if drawn["edges"][0] == drawn["edges"][-1] or sum(map(bool, drawn["raw"])) < 2:
        return None, False
    title = f"What each person adds to {column}: raw and clamped"
    steep = charts.is_steep([*drawn["raw"], *drawn["clamped"]])
    return charts.histogram(drawn["edges"], drawn["raw"], drawn["clamped"], title), steep


def _groups(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those most likely to be lost."""
    found = sorted(groups, key=lambda group: group["keep"])[:MOST_GROUPS]
    return [
        {
            "name": ", ".join(cell(key) for key in group["group"]) or "all rows",
            "keep": group["keep"],
            "exact": group.get("exact"),
            "rmse": group.get("rmse"),
        }
        for group in found
    ]


def _options(found: Tuning) -> str:
    written = found.options(0)
    clamps = f"\n-- {written['bounds']}" if written["bounds"] else ""
    return f"{written['sql']}{clamps}\n\n# or in the catalog:\n{written['catalog']}"
