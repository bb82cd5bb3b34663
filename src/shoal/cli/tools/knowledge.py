"""`shoal knowledge …`: what exact counts give away to somebody who does not know everything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.output import check_writable, write_json
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.knowledge import CountTable, Guarantee

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


@app.command()
def count(
    people: Everybody = None,
    *,
    uncertainty: Uncertainty = None,
    probabilities: Probabilities = None,
    known: Known = 0,
    noise_scale: Annotated[float | None, typer.Option(help="Scale of two-sided geometric noise on top.")] = None,
    related: Annotated[int, typer.Option(help="How many people move together with the target.")] = 1,
    counts: Counts = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    require: Require = None,
    json: Json = False,
    plot: Plot = None,
    html: Html = None,
) -> None:
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

    _show_each(release, people, counts, (epsilon, delta, require), json=json, plot=plot, html=html)


@app.command()
def histogram(
    people: People,
    uncertainty: Annotated[
        float, typer.Option(help="Everybody unknown chooses each option with at least this chance.")
    ],
    *,
    known: Known = 0,
    epsilon: Epsilon = None,
    delta: Delta = None,
    require: Require = None,
    json: Json = False,
    plot: Plot = None,
    html: Html = None,
) -> None:
    """Exact counts of all options of a choice.

    Example: shoal knowledge histogram --people 1000 --uncertainty 0.05 --epsilon 1
    """
    from shoal import knowledge

    kept = knowledge.histogram(people, uncertainty=uncertainty, known=known)
    _show(kept, epsilon, delta, require, json=json, plot=plot, html=html)


@app.command()
def threshold(
    threshold: Limit,
    people: Everybody = None,
    *,
    at_most: Annotated[float | None, typer.Option(help="The largest chance of anybody unknown to say yes.")] = None,
    probabilities: Probabilities = None,
    known: Known = 0,
    attacker: Annotated[str, typer.Option(help="passive: knows answers. active: decides them.")] = "passive",
    both_sides: Annotated[
        bool, typer.Option("--both-sides", help="Also hide counts that include nearly everybody.")
    ] = False,
    counts: Counts = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    require: Require = None,
    json: Json = False,
    plot: Plot = None,
    html: Html = None,
) -> None:
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

    _show_each(release, people, counts, (epsilon, delta, require), json=json, plot=plot, html=html)


@app.command("k-anonymity")
def k_anonymity(
    people: People,
    threshold: Limit,
    boundary: Annotated[float, typer.Option(help="Values are rarer than this for everybody, or more common.")],
    *,
    known: Known = 0,
    depends_on_data: Annotated[
        bool, typer.Option("--depends-on-data", help="The generalization was chosen by looking at the data.")
    ] = False,
    epsilon: Epsilon = None,
    delta: Delta = None,
    require: Require = None,
    json: Json = False,
    plot: Plot = None,
    html: Html = None,
) -> None:
    """A k-anonymous table with a fixed generalization.

    Example: shoal knowledge k-anonymity --people 2000 --threshold 60 --boundary 0.01 --epsilon 4
    """
    from shoal import knowledge

    kept = knowledge.k_anonymity(
        people, threshold, boundary=boundary, known=known, fixed_generalization=not depends_on_data
    )
    _show(kept, epsilon, delta, require, json=json, plot=plot, html=html)


@app.command()
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
    epsilon: Epsilon = None,
    delta: Delta = None,
    require: Require = None,
    json: Json = False,
    plot: Plot = None,
    html: Html = None,
) -> None:
    """A count that is released repeatedly.

    Example: shoal knowledge repeated --people 1000 --times 2 --uncertainty 0.2 --answers dependent --epsilon 1
    """
    from shoal import knowledge

    kept = knowledge.repeated(
        people, times, uncertainty=uncertainty, probabilities=_chances(probabilities), known=known, answers=answers
    )
    _show(kept, epsilon, delta, require, json=json, plot=plot, html=html)


@app.command()
def people(
    epsilon: Annotated[float, typer.Option(help="The ε to keep.")],
    delta: Annotated[float, typer.Option(help="The δ to keep.")],
    uncertainty: Annotated[float, typer.Option(help="λ: everybody unknown says yes with a chance from λ to 1 − λ.")],
    *,
    require: Require = None,
    json: Json = False,
    plot: Plot = None,
    html: Html = None,
) -> None:
    """The fewest unknown people whose exact count keeps (ε, δ).

    Example: shoal knowledge people --epsilon 1 --delta 1e-6 --uncertainty 0.1
    """
    from shoal import knowledge

    found = knowledge.people_for(epsilon, delta, uncertainty=uncertainty)
    kept = knowledge.count(found, uncertainty=uncertainty)
    last = {"people": found, "words": f"The fewest people, the target included: {found:,}."}
    _show(kept, epsilon, None, require, json=json, plot=plot, html=html, last=last)


@app.command()
def noise(
    people: People,
    epsilon: Annotated[float, typer.Option(help="The ε to keep.")],
    delta: Annotated[float, typer.Option(help="The δ to keep.")],
    uncertainty: Annotated[float, typer.Option(help="λ: everybody unknown says yes with a chance from λ to 1 − λ.")],
    *,
    known: Known = 0,
    require: Require = None,
    json: Json = False,
    plot: Plot = None,
    html: Html = None,
) -> None:
    """The smallest scale of noise with which a count keeps (ε, δ).

    Example: shoal knowledge noise --people 500 --epsilon 0.5 --delta 1e-6 --uncertainty 0.1
    """
    from shoal import knowledge

    scale = knowledge.noise_for(people, epsilon, delta, uncertainty=uncertainty, known=known)
    kept = knowledge.count(people, uncertainty=uncertainty, known=known, noise_scale=scale or None)
    last = {"noise_scale": scale, "words": f"The smallest scale of noise: {scale:.4g}."}
    _show(kept, epsilon, None, require, json=json, plot=plot, html=html, last=last)


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


def _kept_by(require: str | None, every: list[Guarantee]) -> bool:
    return require is None or all(kept.keeps(*_required(require)) for kept in every)


def _show_each(
    release: Callable[[int], Guarantee],
    people: int | None,
    counts: Path | None,
    asked: tuple[float | None, float | None, str | None],
    *,
    json: bool,
    plot: Path | None,
    html: Path | None,
) -> None:
    """One count, or every row of a table."""
    from shoal import knowledge

    if (people is None) == (counts is None):
        raise ShoalError("E_USAGE", "Give either --people or --counts.", hint="--people 1000")
    if people is not None:
        return _show(release(people), *asked, json=json, plot=plot, html=html)
    if plot is not None or html is not None:
        raise ShoalError("E_USAGE", "--plot and --html show one count, not a table.", hint="--people 1000")
    table = knowledge.count_table(str(counts), release)
    return _leave(table, _asked(*asked), _kept_by(asked[2], [kept for _, kept in table.rows]), json=json)


def _show(
    kept: Guarantee,
    epsilon: float | None,
    delta: float | None,
    require: str | None,
    *,
    json: bool,
    plot: Path | None,
    html: Path | None,
    last: dict[str, Any] | None = None,
) -> None:
    """Assumptions, numbers, pictures; the exit status says whether what was required is kept."""
    check_writable(plot)
    check_writable(html)
    asked, passed = _asked(epsilon, delta, require), _kept_by(require, [kept])
    if plot is not None:
        kept.plot(plot)
    if html is not None:
        kept.to_html(html)
    _leave(kept, asked, passed, json=json, last=last)


def _leave(
    shown: Guarantee | CountTable,
    asked: dict[str, float | None],
    passed: bool,
    *,
    json: bool,
    last: dict[str, Any] | None = None,
) -> None:
    found = dict(last or {})
    words = found.pop("words", None)
    if json:
        write_json({**shown.to_dict(**asked), **found})
    else:
        typer.echo("\n".join(filter(None, (shown.to_text(**asked), words))))
    if not passed:
        typer.echo("The requirement is not met.", err=True)
        raise typer.Exit(1)
