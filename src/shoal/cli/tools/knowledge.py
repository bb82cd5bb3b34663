"""`shoal knowledge …`: what exact counts give away to somebody who does not know everything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.output import check_writable, write_json
from shoal.cli.shared_options import framed
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.knowledge import CountTable, Guarantee

    Found = tuple[Guarantee, float, dict[str, Any], str]
    """A promise, the ε that was asked for, and what was found, for machines and in words."""

app = typer.Typer(
    name="knowledge",
    no_args_is_help=True,
    help="What exact counts reveal to an attacker who does not know everything: a conditional promise.",
)

People = Annotated[int, typer.Option(help="Everybody who is counted.")]
Everybody = Annotated[int | None, typer.Option(help="Everybody who is counted.")]
Counts = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Instead of --people: a CSV with name, count, people.")
]
Known = Annotated[int, typer.Option(help="How many of them the attacker knows; never the target.")]
Uncertainty = Annotated[float | None, typer.Option(help="λ: everybody unknown says yes with a chance from λ to 1 − λ.")]
Probabilities = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Instead: a file with the probability of each person, one per line.")
]
Epsilon = Annotated[float | None, typer.Option(help="Give δ at this ε.")]
Delta = Annotated[float | None, typer.Option(help="Give ε at this δ (1e-6 if neither is given).")]
Require = Annotated[str | None, typer.Option(metavar="EPS,DELTA", help="Exit with status 1 if this is not met.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the curve (needs the extra 'plot').")]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a self-contained web page.")]
Limit = Annotated[int, typer.Option("--threshold", help="Counts up to this one are not shown.")]


def shown(
    release: Callable[[], Guarantee],
    *,
    epsilon: Epsilon = None,
    delta: Delta = None,
    require: Require = None,
    json: Json = False,
    plot: Plot = None,
    html: Html = None,
) -> None:
    """One promise: assumptions, numbers, pictures."""
    _leave(release(), _asked(epsilon, delta, require), require, json=json, plot=plot, html=html)


def each_shown(
    releases: Callable[[], Callable[[int], Guarantee]],
    *,
    people: Everybody = None,
    counts: Counts = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    require: Require = None,
    json: Json = False,
    plot: Plot = None,
    html: Html = None,
) -> None:
    """The promise of one count, or of every row of a table."""
    from shoal import knowledge

    if (people is None) == (counts is None):
        raise ShoalError("E_USAGE", "Give either --people or --counts.", hint="--people 1000")
    release, asked = releases(), _asked(epsilon, delta, require)
    if people is not None:
        return _leave(release(people), asked, require, json=json, plot=plot, html=html)
    if plot is not None or html is not None:
        raise ShoalError("E_USAGE", "--plot and --html show one count, not a table.", hint="--people 1000")
    table = knowledge.count_table(str(counts), release)
    return _say(table, asked, require, [kept for _, kept in table.rows], json=json)


def found(
    search: Callable[[], Found],
    *,
    require: Require = None,
    json: Json = False,
    plot: Plot = None,
    html: Html = None,
) -> None:
    """What a search found, and the promise that goes with it."""
    kept, epsilon, data, words = search()
    _leave(kept, _asked(epsilon, None, require), require, json=json, plot=plot, html=html, last=(data, words))


@app.command()
@framed(each_shown)
def count(
    *,
    uncertainty: Uncertainty = None,
    probabilities: Probabilities = None,
    known: Known = 0,
    noise_scale: Annotated[float | None, typer.Option(help="Scale of two-sided geometric noise on top.")] = None,
    related: Annotated[int, typer.Option(help="How many people move together with the target.")] = 1,
) -> Callable[[int], Guarantee]:
    """One exact count, or each count of a table.

    Example: shoal knowledge count --people 1000 --uncertainty 0.05 --delta 1e-6
    """
    from shoal import knowledge

    chances = _chances(probabilities)

    def release(people: int) -> Guarantee:
        return knowledge.count(
            people,
            uncertainty=uncertainty,
            probabilities=chances,
            known=known,
            noise_scale=noise_scale,
            related=related,
        )

    return release


@app.command()
@framed(shown)
def histogram(
    people: People,
    uncertainty: Annotated[
        float, typer.Option(help="Everybody unknown chooses each option with at least this chance.")
    ],
    *,
    known: Known = 0,
) -> Guarantee:
    """Exact counts of all options of a choice.

    Example: shoal knowledge histogram --people 1000 --uncertainty 0.05 --epsilon 1
    """
    from shoal import knowledge

    return knowledge.histogram(people, uncertainty=uncertainty, known=known)


@app.command()
@framed(each_shown)
def threshold(
    threshold: Limit,
    *,
    at_most: Annotated[float | None, typer.Option(help="The largest chance of anybody unknown to say yes.")] = None,
    probabilities: Probabilities = None,
    known: Known = 0,
    attacker: Annotated[str, typer.Option(help="passive: knows answers. active: decides them.")] = "passive",
    both_sides: Annotated[
        bool, typer.Option("--both-sides", help="Also hide counts that include nearly everybody.")
    ] = False,
) -> Callable[[int], Guarantee]:
    """A count that is shown only above a threshold, or each count of a table.

    Example: shoal knowledge threshold --people 1000 --threshold 20 --at-most 0.005 --epsilon 1
    """
    from shoal import knowledge

    chances = _chances(probabilities)

    def release(people: int) -> Guarantee:
        return knowledge.threshold(
            people,
            threshold,
            at_most=at_most,
            probabilities=chances,
            known=known,
            attacker=attacker,
            both_sides=both_sides,
        )

    return release


@app.command("k-anonymity")
@framed(shown)
def k_anonymity(
    people: People,
    threshold: Limit,
    boundary: Annotated[float, typer.Option(help="Values are rarer than this for everybody, or more common.")],
    *,
    known: Known = 0,
    depends_on_data: Annotated[
        bool, typer.Option("--depends-on-data", help="The generalization was chosen by looking at the data.")
    ] = False,
) -> Guarantee:
    """A k-anonymous table with a fixed generalization.

    Example: shoal knowledge k-anonymity --people 2000 --threshold 60 --boundary 0.01 --epsilon 4
    """
    from shoal import knowledge

    return knowledge.k_anonymity(
        people, threshold, boundary=boundary, known=known, fixed_generalization=not depends_on_data
    )


@app.command()
@framed(shown)
def repeated(
    people: People,
    times: Annotated[int, typer.Option(help="How often the count is released.")],
    answers: Annotated[
        str, typer.Option(help="'new people', 'independent' or 'dependent': how a person's answers are related.")
    ] = "",
    *,
    uncertainty: Uncertainty = None,
    probabilities: Probabilities = None,
    known: Known = 0,
) -> Guarantee:
    """A count that is released repeatedly.

    Example: shoal knowledge repeated --people 1000 --times 2 --uncertainty 0.2 --answers dependent --epsilon 1
    """
    from shoal import knowledge

    return knowledge.repeated(
        people, times, uncertainty=uncertainty, probabilities=_chances(probabilities), known=known, answers=answers
    )


@app.command()
@framed(found)
def people(
    epsilon: Annotated[float, typer.Option(help="The ε to keep.")],
    delta: Annotated[float, typer.Option(help="The δ to keep.")],
    uncertainty: Annotated[float, typer.Option(help="λ: everybody unknown says yes with a chance from λ to 1 − λ.")],
) -> Found:
    """The fewest unknown people whose exact count keeps (ε, δ).

    Example: shoal knowledge people --epsilon 1 --delta 1e-6 --uncertainty 0.1
    """
    from shoal import knowledge

    fewest = knowledge.people_for(epsilon, delta, uncertainty=uncertainty)
    kept = knowledge.count(fewest, uncertainty=uncertainty)
    return kept, epsilon, {"people": fewest}, f"The fewest people, the target included: {fewest:,}."


@app.command()
@framed(found)
def noise(
    people: People,
    epsilon: Annotated[float, typer.Option(help="The ε to keep.")],
    delta: Annotated[float, typer.Option(help="The δ to keep.")],
    uncertainty: Annotated[float, typer.Option(help="λ: everybody unknown says yes with a chance from λ to 1 − λ.")],
    *,
    known: Known = 0,
) -> Found:
    """The smallest scale of noise with which a count keeps (ε, δ).

    Example: shoal knowledge noise --people 500 --epsilon 0.5 --delta 1e-6 --uncertainty 0.1
    """
    from shoal import knowledge

    scale = knowledge.noise_for(people, epsilon, delta, uncertainty=uncertainty, known=known)
    kept = knowledge.count(people, uncertainty=uncertainty, known=known, noise_scale=scale or None)
    return kept, epsilon, {"noise_scale": scale}, f"The smallest scale of noise: {scale:.4g}."


def _chances(path: Path | None) -> list[float] | None:
    """Numbers with white space or commas between them."""
    if path is None:
        return None
    try:
        return [float(word) for word in path.read_text(encoding="utf-8").replace(",", " ").split()]
    except (OSError, ValueError):
        raise ShoalError(
            "E_USAGE", f"The file {str(path)!r} is not a list of numbers.", hint="Write one probability per line."
        ) from None


def _asked(epsilon: float | None, delta: float | None, require: str | None) -> dict[str, float | None]:
    if epsilon is not None and delta is not None:
        raise ShoalError("E_USAGE", "Give either --epsilon or --delta.", hint="--delta 1e-6")
    if epsilon is None and delta is None and require is not None:
        return {"epsilon": None, "delta": _required(require)[1]}
    return {"epsilon": epsilon, "delta": delta}


def _required(text: str) -> tuple[float, float]:
    try:
        epsilon, delta = (float(part) for part in text.split(","))
    except ValueError:
        raise ShoalError("E_USAGE", "--require takes two numbers.", hint="--require 1,1e-6") from None
    return epsilon, delta


def _leave(
    kept: Guarantee,
    asked: dict[str, float | None],
    require: str | None,
    *,
    json: bool,
    plot: Path | None,
    html: Path | None,
    last: tuple[dict[str, Any], str] | None = None,
) -> None:
    """Assumptions, numbers, pictures; the exit status says whether what was required is kept."""
    check_writable(plot)
    check_writable(html)
    if plot is not None:
        kept.plot(plot)
    if html is not None:
        kept.to_html(html)
    _say(kept, asked, require, [kept], json=json, last=last)


def _say(
    shown: Guarantee | CountTable,
    asked: dict[str, float | None],
    require: str | None,
    every: list[Guarantee],
    *,
    json: bool,
    last: tuple[dict[str, Any], str] | None = None,
) -> None:
    data, words = last or ({}, "")
    if json:
        write_json({**shown.to_dict(**asked), **data})
    else:
        typer.echo("\n".join(filter(None, (shown.to_text(**asked), words))))
    if require is not None and not all(kept.keeps(*_required(require)) for kept in every):
        typer.echo("The requirement is not met.", err=True)
        raise typer.Exit(1)
