"""The cards of a page. Names come from data and are escaped wherever they go."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from shoal.anonymity.reports.terminal import search_sentence
from shoal.anonymity.reports.words import counted, number, percent

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from shoal.anonymity.measuring.measurement import Measurement
    from shoal.anonymity.recoding.anonymized import Anonymized
    from shoal.anonymity.reports.limits import Limit

    Named = Sequence[tuple[str, Measurement]]

BUCKETS = (1, 2, 3, 5, 10, 20, 50, 100, 1000)
COLOURS = {"now": "values", "before": "owners", "after": "values"}
MOST_FAILING = 50
_HOW = {
    "local": "Local recoding: the table was cut in two again and again while both sides hold every demand. Nothing is suppressed.",
    "fixed": "The recoding was fixed beforehand; nothing was chosen from this table.",
}


def card(title: str, inside: str, meta: str = "") -> str:
    """A section with a heading."""
    said = f'<span class="meta">{escape(meta)}</span>' if meta else ""
    return f'<section class="card"><div class="head"><h2>{escape(title)}</h2>{said}</div>{inside}</section>'


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A plain table; the first column is text, cells are escaped."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table class="plain"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def warnings(said: Sequence[str]) -> str:
    """What the reader must know before anything else."""
    if not said:
        return ""
    listed = "".join(f"<li>{escape(warning)}</li>" for warning in said)
    return card("Before you read on", f'<ul class="notes">{listed}</ul>')


def limits(found: Sequence[Limit], unit: str) -> str:
    """What this does not protect from, each with a number of this table."""
    items = "".join(_limit(limit, unit) for limit in found)
    return card("What this does not protect from", f'<ul class="limits">{items}</ul>', "numbers of this very table")


def _limit(limit: Limit, unit: str) -> str:
    kind = "" if limit.number else ' class="none"'
    return (
        f"<li><b{kind}>{escape(_shown(limit, unit))}</b><div><h3>{escape(limit.title)}</h3>"
        f'<p>{_with_code(limit.sentence)}</p><p class="see">{escape(limit.see)}</p></div></li>'
    )


def _shown(limit: Limit, unit: str) -> str:
    if limit.number is None:
        return "not measured"
    match limit.name:
        case "homogeneity" | "background_knowledge" | "published_columns":
            return f"{counted(limit.number)} {unit}"
        case "similar_values":
            return f"× {number(1 + limit.number)}"
        case "presence":
            return percent(limit.number)
        case "composition" | "profiles":
            return f"k = {counted(limit.number)}"
        case "minimality":
            return f"{counted(limit.number)} rows"
        case "added_rows":
            return f"{counted(limit.number)} fakes"
        case _:
            return f"{counted(limit.number)} columns"


def _with_code(sentence: str) -> str:
    """Words between backticks as code."""
    parts = escape(sentence).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def class_sizes(found: Named, k: int) -> str:
    """Owners by the size of their class, as bars."""
    legend = (
        "".join(f'<span class="{COLOURS[name]}"><i></i>{name}</span>' for name, _ in found) if len(found) > 1 else ""
    )
    shares = {name: _by_bucket(measured) for name, measured in found}
    widest = max((share for parts in shares.values() for share, _ in parts), default=1.0) or 1.0
    rows = []
    for at, (low, label) in enumerate(zip(BUCKETS, _bucket_names(), strict=True)):
        bars = "".join(
            f'<i class="{COLOURS[name]}" style="width:{100 * shares[name][at][0] / widest:.2f}%"></i>'
            for name, _ in found
        )
        told = " → ".join(percent(shares[name][at][0]) for name, _ in found)
        small = ' class="small"' if low < k else ""
        rows.append(f'<span{small}>{label}</span><div class="track">{bars}</div><span class="told">{told}</span>')
    unit = found[-1][1].unit
    return card(
        "Class sizes",
        f'<div class="legend inset">{legend}</div><div class="bars">{"".join(rows)}</div>',
        f"share of the {unit} by the number of {unit} in their class",
    )


def _bucket_names() -> list[str]:
    ends = [*BUCKETS[1:], None]
    return [
        f"{low:,}+" if end is None else f"{low:,}" if end == low + 1 else f"{low:,}–{end - 1:,}"
        for low, end in zip(BUCKETS, ends, strict=True)
    ]


def _by_bucket(found: Measurement) -> list[tuple[float, int]]:
    """The share of owners and the number of classes of each bucket of sizes."""
    total = max(int(found.found.owners.sum()), 1)
    ends = [*BUCKETS[1:], float("inf")]
    parts = []
    for low, end in zip(BUCKETS, ends, strict=True):
        inside = {size: count for size, count in found.sizes.items() if low <= size < end}
        parts.append((sum(size * count for size, count in inside.items()) / total, sum(inside.values())))
    return parts


def sensitive(found: Named) -> str:
    """Each sensitive column, before and after."""
    rows = [
        (
            f"{name}{f', {when}' if when else ''}",
            counted(column.distinct),
            number(column.entropy),
            " · ".join(number(column.recursive(level)) for level in (2, 3, 4)),
            number(column.alpha),
            number(column.beta),
            f"{number(column.t)} ({column.distance})",
            f"{counted(column.homogeneous)} ({percent(column.homogeneous / max(int(measured.found.owners.sum()), 1))})",
        )
        for name in found[0][1].sensitive
        for when, measured in found
        for column in (measured.sensitive[name],)
    ]
    if not rows:
        return ""
    headings = ("Column", "distinct l", "entropy l", "c(2) · c(3) · c(4)", "α", "β", "t", "known for certain")
    return card("Sensitive columns", table(headings, rows), "the worst class speaks for all")


def risk(found: Named) -> str:
    """Risk by attacker, before and after."""
    rows = []
    for attacker in ("prosecutor", "journalist"):
        for when, measured in found:
            told = getattr(measured.risk, attacker)
            if told is not None:
                name = f"{attacker.capitalize()}{f', {when}' if when else ''}"
                rows.append((name, number(told.highest), number(told.average), percent(told.above)))
    for when, measured in found:
        name = f"Marketer{f', {when}' if when else ''}"
        rows.append((name, "–", number(measured.risk.marketer.average), "–"))
    threshold = found[-1][1].risk.threshold
    headings = ("Attacker", "highest risk", "average risk", f"owners above {threshold:g}")
    notes = _assumptions(found[-1][1])
    return card("Risk of re-identification", table(headings, rows) + notes)


def _assumptions(found: Measurement) -> str:
    if found.found.sampling is None:
        return ""
    return (
        '<p class="note">The journalist\'s risk is an estimate: it assumes that the table was drawn uniformly from the '
        f"population with the fraction {found.found.sampling:g}, and a prior ∝ 1/F on class sizes.</p>"
    )


def failing(found: Measurement, k: int, *, show_values: bool) -> str:
    """The smallest classes below k: sizes only, unless values were asked for."""
    chosen = found.failing(k=k, limit=MOST_FAILING)
    if not chosen.num_rows:
        return ""
    total = found.below(k).classes
    if not show_values:
        sizes = [(size, count) for size, count in found.sizes.items() if size < k]
        rows = [(f"{size:,} {found.unit}", f"{count:,}", f"{size * count:,}") for size, count in sizes[:MOST_FAILING]]
        inside = table(("Class size", "classes", found.unit), rows)
        inside += '<p class="note">Values are left out of this page. To see them: --show-values.</p>'
    else:
        names = chosen.column_names[:-1]
        values = [["NULL" if row[name] is None else str(row[name]) for name in names] for row in chosen.to_pylist()]
        inside = table(names, values)
        inside += '<p class="note">This page shows values of the data: protect it like the data.</p>'
    return card(f"Classes below {k}", inside, f"{counted(total)} classes of the table as it came")


def before_and_after(made: Anonymized) -> str:
    """What changed, number by number."""
    before, after = made.before, made.after
    rows = [
        ("rows", counted(before.rows), counted(after.rows)),
        *([("owners", counted(before.owners), counted(after.owners))] if after.unit == "owners" else []),
        ("classes", counted(before.classes), counted(after.classes)),
        ("k", counted(before.k), counted(after.k)),
        ("profile k", counted(before.profile_k), counted(after.profile_k)),
        ("unique", counted(before.unique), counted(after.unique)),
    ]
    if before.k_map is not None and after.k_map is not None:
        rows.append(("k-map", counted(before.k_map), counted(after.k_map)))
    if before.k_map_estimate is not None and after.k_map_estimate is not None:
        rows.append(("k-map, estimated", number(before.k_map_estimate), number(after.k_map_estimate)))
    if before.presence is not None and after.presence is not None:
        rows.append(("presence, highest", number(before.presence[1]), number(after.presence[1])))
    return card("Before and after", table(("", "before", "after"), rows))


def levels(made: Anonymized) -> str:
    """Levels per column, and what fails at one level less."""
    if not made.levels:
        return ""
    heights = {name: hierarchy.levels for name, hierarchy in made.transformation.hierarchies.items()}
    rows = []
    for name, level in made.levels.items():
        top = max(heights.get(name, level + 1) - 1, 1)
        meter = f'<span class="meter"><i style="width:{100 * level / top:.0f}%"></i></span>'
        finer = made.finer.get(name)
        told = (
            "untouched" if level == 0 else "–" if finer is None else f"{counted(finer)} rows fail at level {level - 1}"
        )
        origin = "made from the data" if name in made.automatic else "given"
        rows.append(
            f"<tr><td>{escape(name)}</td><td>{meter} {level} of {top}</td><td>{escape(told)}</td><td>{origin}</td></tr>"
        )
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("Column", "level", "one level less", "hierarchy"))
    inside = f'<table class="plain"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    return card("Levels", f'<div class="scroll">{inside}</div>', "0 is the value itself, the last level is *")


def search(made: Anonymized) -> str:
    """How the recoding was found, and all measures of its quality."""
    said = (
        _HOW.get(made.recoding)
        or f"The search found {search_sentence(made)}. It minimised {made.judged_by.replace('_', ' ')}."
    )
    names = {
        "loss": "loss", "discernibility": "discernibility", "class_size": "average class size, in multiples of k",
        "entropy": "entropy lost, as a share", "kl": "Kullback–Leibler divergence, nats",
    }  # fmt: skip
    rows = [
        (names[name], f"{value:,.0f}" if float(value).is_integer() else f"{value:,.6f}")
        for name, value in made.quality.items()
    ]
    return card("The search and its price", f'<p class="note">{escape(said)}</p>{table(("Measure", "value"), rows)}')


def columns(made: Anonymized) -> str:
    """Which columns are published, and which were left out."""
    published = ", ".join(f"<code>{escape(name)}</code>" for name in made.published)
    left_out = ", ".join(f"<code>{escape(name)}</code>" for name in made.left_out) or "none"
    automatic = ""
    if made.automatic:
        listed = ", ".join(f"<code>{escape(name)}</code>" for name in made.automatic)
        automatic = f'<p class="note">Hierarchies made from the data, and so dependent on it: {listed}.</p>'
    inside = f'<p class="note">Published: {published}.</p><p class="note">Left out: {left_out}.</p>{automatic}'
    return card("Columns", inside, "columns nobody named are left out")
