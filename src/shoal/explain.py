"""A plan in words and numbers: ownership, bounds, sampling, noise, selection, expected error, cost. Reads no data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from shoal import params
from shoal.accounting.events import GaussianNoise, LaplaceNoise, QuantileChoice, WeightedSelection
from shoal.frozen import dataclass
from shoal.mechanisms import group_selection
from shoal.mechanisms.calibrate import noise_quantile, noise_standard_deviation
from shoal.mechanisms.quantile_choice import rank_error
from shoal.mechanisms.ranks.bands import rows_to_pass
from shoal.params import many
from shoal.plan import nodes
from shoal.plan.aggregates.complements import expected_width, is_complement
from shoal.plan.releases import Inferred
from shoal.release.found_limits import THINGS
from shoal.release.output_names import output_names
from shoal.sql.grammar.source_text import CallsAsWritten

if TYPE_CHECKING:
    from shoal.accounting.events import AdditiveNoise, RankTarget, Selection
    from shoal.accounting.ledger import Ledger
    from shoal.params import Bounds
    from shoal.plan.releases import HistogramRelease, Release, SelectPlan, StatementPlan
    from shoal.release.output_names import OutputNames

RANK_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a query will do and cost; `to_dict` for programs, `str` for people."""

    data: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain Python values."""
        return self.data

    def __str__(self) -> str:
        return "\n".join(_lines(self.data))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(str(self))}</pre>"


def explain_plan(
    plan: StatementPlan,
    ledger: Ledger | None = None,
    warnings: tuple[str, ...] = (),
    single_owner_groups: int | None = None,
) -> Explanation:
    """The explanation of a verified plan; `warnings` are about the source, `single_owner_groups` is what the catalog says."""
    left = ledger.remaining if ledger is not None else None
    written = CallsAsWritten(plan.sql)
    return Explanation(
        {
            "epsilon": float(plan.epsilon),
            "delta": float(plan.delta) if plan.loss.delta else 0.0,
            "delta_is": _delta_in_words(plan, single_owner_groups),
            "rho": float(plan.loss.zcdp[0]) if plan.selects else 0.0,
            "remaining": [float(left[0]), float(left[1])] if left is not None else None,
            "selects": [_select(*pair, written) for pair in zip(plan.selects, output_names(plan), strict=True)],
            "output": [f.name for f in plan.root.fields],
            "notes": [*_warnings(plan), *warnings],
        }
    )


def _delta_in_words(plan: StatementPlan, single_owner_groups: int | None) -> list[str]:
    """What δ allows for; nothing where nothing uses it."""
    if not plan.loss.delta:
        return []
    found = []
    if any(select.selection is not None for select in plan.selects):
        several = " together" if sum(select.selection is not None for select in plan.selects) > 1 else ""
        found.append(f"the chance that a group of one owner appears is at most δ{several}")
        if single_owner_groups is not None:
            shown = float(single_owner_groups * plan.delta)
            of_them = f"of {single_owner_groups:,} such groups, which the catalog allows for"
            found[0] += f"; {of_them}, at most {shown:.2g} are ever expected to show"
    if any(isinstance(release.noise, GaussianNoise) for select in plan.selects for release in select.releases):
        found.append("the tail of the Gaussian noise is within δ")
    return found


def _warnings(plan: StatementPlan) -> list[str]:
    if not plan.selects:
        return ["No private table is read: the query runs as it is and costs nothing."]
    warning = params.warning_about(plan.epsilon)
    return [*plan.notes, *([warning] if warning is not None else [])]


def _select(select: SelectPlan, names: list[OutputNames], written: CallsAsWritten) -> dict[str, Any]:
    owned = [n for n in nodes.walk(select.select.input) if isinstance(n, nodes.Scan) and n.owner is not None]
    public = [n for n in nodes.walk(select.select.input) if isinstance(n, nodes.Scan) and n.owner is None]
    options = select.select.options
    return {
        "ownership": {
            "private_tables": sorted({n.table for n in owned}),
            "public_tables": sorted({n.table for n in public}),
            "owner": sorted({nodes.field_of(n, n.owner or "").name for n in owned}),
            "owner_kind": sorted({n.owner_kind or "" for n in owned}),
        },
        "limits": _limits(select),
        "contribution": _contribution(select),
        "columns": [_column(select, i, names[i], written) for i in range(len(select.columns))],
        "inferred_bounds": [_histogram(select, i, names, written) for i in range(len(select.histograms))],
        "selection": _selection(select),
        "epsilon": float(options.epsilon),
        "delta": float(options.delta) if options.delta is not None else None,
        "notes": list(select.notes),
    }


def _limits(select: SelectPlan) -> dict[str, Any] | None:
    """Both steps of a query that finds its limits; what is beside it is then an example of step two."""
    search = select.search
    if search is None:
        return None
    of = select.total_of
    return {
        "those_of_select": None if of is None else of.select + 1,
        "sought": [
            {
                "limit": THINGS[sought.kind],
                "candidates": [] if sought.measures else [float(edge) for edge in sought.edges],
                "epsilon": float(histogram.select.options.epsilon),
            }
            for sought, histogram in zip(search.sought, search.histograms, strict=True)
        ],
        "epsilon_of_step_two": float(search.epsilon),
        "example_groups_per_owner": select.contribution.groups,
    }


def _limit_lines(limits: dict[str, Any]) -> list[str]:
    lines = [
        f"limits        step one: {found['limit']}{_candidates(found)}, by a noisy histogram with one "
        f"bin for each owner, ε = {_number(found['epsilon'])}"
        for found in limits["sought"]
    ]
    if limits["those_of_select"] is not None:
        groups = f"the groups of private SELECT {limits['those_of_select']}"
        return [f"limits        those that are found for {groups}; below, an example"]
    example = "; below, an example of it" if any(map(_candidates, limits["sought"])) else ""
    return [*lines, f"limits        step two: ε = {_number(limits['epsilon_of_step_two'])}{example}"]


def _candidates(found: dict[str, Any]) -> str:
    return f", from {len(found['candidates'])} candidates" if found["candidates"] else ""


def _contribution(select: SelectPlan) -> dict[str, Any]:
    contribution = select.contribution
    if not contribution.grouped:
        kept = "everything: there is one group"
    else:
        kept = f"at most {many(contribution.max_groups, 'group')}, chosen at random from the owner's own"
    if contribution.max_rows is not None:
        kept = f"at most {many(contribution.max_rows, 'row')}, chosen at random from the owner's own"
    return {
        "max_groups_per_owner": contribution.groups,
        "max_rows_per_owner": contribution.max_rows,
        "kept_of_each_owner": kept,
    }


def _noise(noise: AdditiveNoise, *, relative: bool) -> dict[str, Any]:
    """The mechanism of one release; with bounds not found yet, everything is relative to them."""
    if noise.shift.l1 == 0:
        return {"mechanism": "none", "why": "no owner can change this number"}
    grid = float(noise.grid)
    laplace = isinstance(noise, LaplaceNoise)
    scale = float(noise.scale if isinstance(noise, LaplaceNoise) else noise.sigma) * grid
    return {
        "mechanism": "discrete Laplace" if laplace else "discrete Gaussian",
        "scale": scale,
        "grid": grid,
        "sensitivity_per_group": noise.shift.per_coordinate * grid,
        "coordinates": noise.shift.coordinates,
        "standard_deviation": noise_standard_deviation(noise) * grid,
        "relative_to_bounds": relative,
    }


def _choice(choice: QuantileChoice, leaves: int) -> dict[str, Any]:
    """Quantiles that are chosen: how far from the rank, in rows, what is chosen may be."""
    return {
        "mechanism": "exponential",
        "scale": float(choice.scale),
        "grid": 1.0,
        "sensitivity_per_group": choice.shift.per_coordinate,
        "coordinates": choice.shift.coordinates,
        "nested": choice.nested,
        "ranks": [float(target.fraction) for target in choice.targets],
        "rows_from_the_end": max(target.margin for target in choice.targets),
        "rank_error": {
            str(float(target.fraction)): rank_error(choice, target, RANK_LEVEL, leaves) for target in choice.targets
        },
        "interval_in_rows": {
            str(float(target.fraction)): _in_rows(choice, target, leaves) for target in choice.targets
        },
    }


def _in_rows(choice: QuantileChoice, target: RankTarget, leaves: int) -> float | None:
    """How many rows to either side the counts around a quantile need to tell where it lies."""
    if choice.counts is None:
        return None
    return rows_to_pass(choice.counts, target.fraction, RANK_LEVEL, leaves, len(choice.targets))


def _column(select: SelectPlan, index: int, names: OutputNames, written: CallsAsWritten) -> dict[str, Any]:
    column = select.columns[index]
    level = float(select.select.options.confidence_level)
    releases = [select.releases[i] for i in column.releases]
    is_found = select.search is not None and select.search.limits(index)
    bounds, source = _bounds(select, index)
    return {
        "name": names.first,
        "outputs": list(names.copies),
        "part_of": list(names.computed),
        "written": written.at(column.call.position) or column.call.aggregate.name,
        "aggregate": column.call.aggregate.name,
        "bounds": [float(bounds.lower), float(bounds.upper)] if bounds is not None else None,
        "bounds_source": source,
        "releases": [_release(r) for r in releases],
        "expected_error": None if is_found else _expected_error(releases, level),
        "confidence_level": level,
    }


def _bounds(select: SelectPlan, index: int) -> tuple[Bounds | None, str]:
    """Bounds that are public, and where they come from; a limit that is still to be found is a stand-in, and is not shown."""
    call = select.columns[index].call
    if call.bounds_source != "found":
        return call.bounds, call.bounds_source
    if select.search is None:
        return call.bounds, "guessed"
    asked = select.select.aggregates[index]
    return (asked.bounds, asked.bounds_source) if asked.bounds is not None else (None, "found")


def _release(release: Release) -> dict[str, Any]:
    relative = isinstance(release.bounds, Inferred)
    measure = release.measure
    if isinstance(release.noise, QuantileChoice):
        chosen = _choice(release.noise, measure.leaf_count)
        return {"measure": type(measure).__name__, "what": "ranks of leaves"} | chosen
    return {"measure": type(measure).__name__, "what": measure.words} | _noise(release.noise, relative=relative)


def _expected_error(releases: list[Release], level: float) -> float | None:
    """Half-width of the interval for counts and sums; quotients and quantiles depend on the answer."""
    if is_complement(releases):
        return expected_width(releases, level)
    if len(releases) != 1 or releases[0].measure.is_tree or isinstance(releases[0].bounds, Inferred):
        return None
    noise = releases[0].noise
    if isinstance(noise, QuantileChoice):
        return None
    return noise_quantile(noise, level) * float(noise.grid) if noise.shift.l1 else 0.0


def _histogram(select: SelectPlan, index: int, names: list[OutputNames], written: CallsAsWritten) -> dict[str, Any]:
    release: HistogramRelease = select.histograms[index]
    served = [i for i, column in enumerate(select.columns) if column.histogram == index]
    labels = [
        names[i].label(written.at(call.position) or call.aggregate.name)
        for i, call in ((i, select.columns[i].call) for i in served)
    ]
    price = {
        "epsilon": float(release.price) if release.price is not None else None,
        "share_of_joint_release": select.share_of_joint_release(release.noise),
    }
    bins = {"of": labels, "bins": len(release.histogram.bins), "per_group": release.histogram.per_group}
    return bins | price | _noise(release.noise, relative=False)


def _selection(select: SelectPlan) -> dict[str, Any]:
    chosen = select.selection
    if chosen is None:
        reason = select.select.groups_note or "without GROUP BY there is one group, and it always appears"
        return {"rule": "PUBLIC_GROUPS" if select.select.public_groups is not None else "NONE", "why": reason}
    half = int(group_selection.half_point(chosen))
    return {
        "rule": group_selection.rule_of(chosen).name,
        "why": f"{_why_this_rule(select)}; a group of {many(half, 'owner')}{_of_which_owners(chosen)} has an even chance",
        "threshold": group_selection.threshold(chosen),
        "owners_for_even_chance": half,
        "typical_owners_for_even_chance": group_selection.typical_owners(chosen),
        "min_owners": chosen.min_owners,
        "uses_released_count": select.shared_count is not None,
        "keep_probability": {
            str(n): group_selection.keep_probability(chosen, n) for n in (1, max(1, half // 2), half, 2 * half)
        },
    }


def _of_which_owners(chosen: Selection) -> str:
    """Weights make a difference between owners in few groups and in many."""
    if not isinstance(chosen, WeightedSelection):
        return ""
    fewer = math.ceil(group_selection.typical_owners(chosen))
    return f" in {chosen.max_groups_per_owner} groups each (about {fewer:,} where they are in 1 to that many)"


def _why_this_rule(select: SelectPlan) -> str:
    asked = select.select.options.strategy != "AUTO"
    return "as asked" if asked else "the most accurate here, together with the noise"


def _number(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def _lines(data: dict[str, Any]) -> list[str]:
    lines = [f"cost          ε = {_number(data['epsilon'])}, δ = {data['delta']:g}"]
    lines.extend(f"delta         {what}" for what in data["delta_is"])
    if data["remaining"] is not None:
        lines.append(f"budget left   ε = {_number(data['remaining'][0])}, δ = {data['remaining'][1]:g}")
    for number, select in enumerate(data["selects"]):
        if len(data["selects"]) > 1:
            lines.append(f"private SELECT {number + 1} of {len(data['selects'])}")
        lines.extend(_select_lines(select))
    lines.extend(f"note          {note}" for note in data["notes"])
    return lines


def _select_lines(select: dict[str, Any]) -> list[str]:
    owner = select["ownership"]
    lines = [
        f"owner         {', '.join(owner['owner'])} of {', '.join(owner['private_tables'])}"
        + (f"; public: {', '.join(owner['public_tables'])}" if owner["public_tables"] else ""),
        f"contribution  each owner keeps {select['contribution']['kept_of_each_owner']}",
    ]
    if select["limits"] is not None:
        lines.extend(_limit_lines(select["limits"]))
    for column in select["columns"]:
        lines.extend(_column_lines(column))
    lines.extend(map(_histogram_line, select["inferred_bounds"]))
    chosen = select["selection"]
    text = f"groups        {chosen['rule']}: {chosen['why']}"
    if chosen.get("threshold") is not None:
        text += f"; threshold {chosen['threshold']}"
    lines.append(text)
    lines.extend(f"note          {note}" for note in select["notes"])
    return lines


def _histogram_line(histogram: dict[str, Any]) -> str:
    for_whom = " for each group" if histogram["per_group"] else ""
    price = f", ε = {histogram['epsilon']:.3g}" if histogram["epsilon"] is not None else ""
    if histogram["share_of_joint_release"] is not None:
        price = f", {histogram['share_of_joint_release']:.0%} of the joint release"
    bins = f"found from a noisy histogram of {histogram['bins']} bins{for_whom}"
    return f"bounds        of {', '.join(histogram['of'])}: {bins}, {_noise_text(histogram)}{price}"


def _column_lines(column: dict[str, Any]) -> list[str]:
    where = {
        "query": "given",
        "catalog": "from the catalog",
        "listed": "from the list of values in the catalog",
        "expression": "by the expression itself",
        "inferred": "to be found privately",
        "none": "not needed",
        "one row": "of one row, from the catalog or the expression itself; of an owner's sum, found first",
        "found": "found first",
        "guessed": "guessed",
    }
    bounds = f"[{_number(column['bounds'][0])}, {_number(column['bounds'][1])}] " if column["bounds"] else ""
    error = column["expected_error"]
    shown = f", ± {_number(error)} at {params.percent(column['confidence_level'])}" if error is not None else ""
    lines = [f"{_called(column)}: bounds {bounds}{where[column['bounds_source']]}{shown}"]
    lines.extend(f"              {r['what']}: {_noise_text(r)}" for r in column["releases"])
    return lines


def _called(column: dict[str, Any]) -> str:
    """`visits = COUNT(*)`, or the aggregate and the output that it is a part of."""
    if column["outputs"]:
        return f"{', '.join(column['outputs'])} = {column['written']}"
    return f"{column['written']}, in {', '.join(column['part_of'])}" if column["part_of"] else str(column["written"])


def _noise_text(noise: dict[str, Any]) -> str:
    if noise["mechanism"] == "none":
        return "no noise needed"
    if noise["mechanism"] == "exponential":
        return _choice_text(noise)
    unit = " × the bound found" if noise.get("relative_to_bounds") else ""
    return f"{noise['mechanism']} noise, scale {_number(noise['scale'])}{unit}, in steps of {noise['grid']:g}"


def _choice_text(choice: dict[str, Any]) -> str:
    error = max(choice["rank_error"].values())
    ends = f", at least {choice['rows_from_the_end']:,} rows from the end" if choice["rows_from_the_end"] else ""
    level = params.percent(RANK_LEVEL)
    rows = [each for each in choice["interval_in_rows"].values() if each is not None]
    interval = f", an interval takes about {_number(max(rows))} rows to either side" if rows else ""
    nested = ", each among the rows between its neighbours" if choice["nested"] else ""
    return f"exponential mechanism{nested}{ends}; the rank is off by at most {_number(error)} rows at {level}{interval}"
