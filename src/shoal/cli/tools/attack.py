"""`shoal attack …`: run a published attack against exact, rounded, slightly noisy and private answers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.output import check_writable, console, write_json, write_result
from shoal.cli.shared_options import framed
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Callable

    from shoal.audit.attacks import AttackResult

app = typer.Typer(
    name="attack",
    no_args_is_help=True,
    help="Show what an attacker learns from exact, rounded, slightly noisy and private answers.",
)

People = Annotated[int, typer.Option(min=1, max=5000, help="How many people have a secret.")]
Epsilon = Annotated[float, typer.Option(min=1e-9, max=100, help="The total budget of the private answers.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the data and of the careless noise.")]
Sql = Annotated[
    bool, typer.Option("--sql", help="Query a real session in SQL instead of simulating its noise. Slower.")
]
Plot = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the curves (needs the extra 'plot').")]
Json = Annotated[bool, typer.Option("--json", help="Print the curves as JSON.")]


def shown(attack: Callable[[], AttackResult], *, plot: Plot = None, json: Json = False) -> None:
    """The curves as a table or as JSON, and as a picture where one was asked for."""
    check_writable(plot)
    result = attack()
    if plot is not None:
        result.plot(plot)
    if json:
        return write_json(result.to_dict())
    out = console()
    out.print(f"{result.attack}: {result.secret}", markup=False)
    out.print(f"guessing gets {result.guessing:.1%}; the attacker gets, by number of queries:", markup=False)
    out.print(_table(result))
    for curve in result.curves:
        if curve.note:
            out.print(f"{curve.defence}: {curve.note}", markup=False)
    return None


def attack_on_answers(function: str, of_people: str, people: int, epsilon: float, words: str) -> None:
    """Mount an attack that knows only how many people have a secret (its parameter `of_people`) and the budget."""
    name = function.replace("_", "-")

    def verb(
        people: People = people,
        epsilon: Epsilon = epsilon,
        seed: Seed = 0,
        *,
        sql: Sql = False,
    ) -> AttackResult:
        from shoal.audit import attacks

        run = getattr(attacks, function)
        result: AttackResult = run(**{of_people: people}, epsilon=epsilon, seed=seed, through_sql=sql)
        return result

    app.command(name, help=words)(framed(shown)(verb))


attack_on_answers(
    "differencing",
    "people",
    people=100,
    epsilon=1.0,
    words="""Ask about everyone, ask about everyone but one, subtract.

    [bold]Example[/bold]

        shoal attack differencing --people 200
    """,
)
attack_on_answers(
    "averaging",
    "targets",
    people=400,
    epsilon=1.0,
    words="""Ask the same question again and again, and average the noise away.

    [bold]Example[/bold]

        shoal attack averaging --epsilon 0.5
    """,
)


@app.command()
@framed(shown)
def reconstruction(
    people: Annotated[
        int | None, typer.Option(min=1, max=2000, help="Secret bits: 1000, or 10 with --exhaustive.")
    ] = None,
    epsilon: Epsilon = 1.0,
    runs: Annotated[
        int | None, typer.Option(min=1, max=50, help="Average over this many tables: 1, or 30 with --exhaustive.")
    ] = None,
    seed: Seed = 0,
    *,
    exhaustive: Annotated[bool, typer.Option("--exhaustive", help="Try all 2ⁿ tables instead.")] = False,
    sql: Sql = False,
) -> AttackResult:
    """Recover a whole secret column from counts over random subsets (Dinur and Nissim).

    [bold]Example[/bold]

        shoal attack reconstruction --people 500 --plot reconstruction.png
    """
    from shoal.audit import attacks

    if exhaustive and sql:
        raise ShoalError(
            "E_USAGE", "--exhaustive asks every subset, too many for --sql.", hint="Leave one of them out."
        )
    if exhaustive:
        return attacks.exhaustive_reconstruction(people=people or 10, epsilon=epsilon, runs=runs or 30, seed=seed)
    return attacks.reconstruction(people=people or 1000, epsilon=epsilon, runs=runs or 1, seed=seed, through_sql=sql)


@app.command()
@framed(shown)
def membership(
    people: Annotated[
        int, typer.Option(min=2, max=2000, help="How many people are in the data, and how many are not.")
    ] = 100,
    attributes: Annotated[int, typer.Option(min=64, max=20_000, help="Published averages.")] = 2000,
    epsilon: Epsilon = 1.0,
    seed: Seed = 0,
    *,
    sql: Sql = False,
) -> AttackResult:
    """Find out from published averages who is in the data (Homer et al.).

    [bold]Example[/bold]

        shoal attack membership --attributes 4000
    """
    from shoal.audit import attacks

    return attacks.membership(members=people, attributes=attributes, epsilon=epsilon, seed=seed, through_sql=sql)


attack_on_answers(
    "floating_point",
    "targets",
    people=2000,
    epsilon=0.01,
    words="""Read the answer off the last bits of textbook noise (Mironov).

    [bold]Example[/bold]

        shoal attack floating-point --epsilon 0.01
    """,
)


@app.command()
@framed(shown)
def linkage(
    people: People = 4000,
    k: Annotated[int, typer.Option(min=1, help="The k of k-anonymity.")] = 5,
    epsilon: Epsilon = 1.0,
    seed: Seed = 0,
) -> AttackResult:
    """Put names back on a table with a public register (Sweeney).

    [bold]Example[/bold]

        shoal attack linkage --k 10
    """
    from shoal.audit import attacks

    return attacks.linkage(patients=people, k=k, epsilon=epsilon, seed=seed)


@app.command()
@framed(shown)
def homogeneity(
    people: People = 4000,
    epsilon: Epsilon = 1.0,
    seed: Seed = 0,
) -> AttackResult:
    """Read secrets off k-anonymous classes in which all rows agree.

    [bold]Example[/bold]

        shoal attack homogeneity
    """
    from shoal.audit import attacks

    return attacks.homogeneity(patients=people, epsilon=epsilon, seed=seed)


@app.command()
@framed(shown)
def composition(
    people: People = 4000,
    hospitals: Annotated[int, typer.Option(min=1, max=10, help="Releases to intersect.")] = 2,
    k: Annotated[int, typer.Option(min=1, help="The k of k-anonymity.")] = 5,
    epsilon: Epsilon = 1.0,
    seed: Seed = 0,
) -> AttackResult:
    """Intersect the k-anonymous releases of several hospitals (Ganta et al.).

    [bold]Example[/bold]

        shoal attack composition --hospitals 4
    """
    from shoal.audit import attacks

    return attacks.composition(patients=people, hospitals=hospitals, k=k, epsilon=epsilon, seed=seed)


@app.command()
def sketches(
    owners: Annotated[int, typer.Option(min=2, max=1_000_000, help="Owners in each sketch.")] = 1000,
    registers: Annotated[int, typer.Option(min=16, max=65536, help="Registers of a sketch, a power of two.")] = 4096,
    known_sketches: Annotated[
        int,
        typer.Option(
            min=1, max=100, help="For an attacker without the key: how many sketches are known to hold the target."
        ),
    ] = 10,
    epsilon: Annotated[float, typer.Option(min=1e-9, max=30, help="The ε of the private sketch.")] = 1.0,
    seed: Seed = 0,
    *,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Find out who is in a shared distinct-count sketch (Desfontaines et al.).

    [bold]Example[/bold]

        shoal attack sketches --known-sketches 3
    """
    from shoal.audit import attacks

    check_writable(plot)
    result = attacks.sketches(
        owners=owners, registers=registers, known_sketches=known_sketches, epsilon=epsilon, seed=seed
    )
    write_result(result, plot, json=json)


def _table(result: AttackResult) -> object:
    """A row for each defence, a column for each step; defences may need different numbers of queries."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("answers")
    for _ in result.curves[0].queries:
        table.add_column("", justify="right")
    for curve in result.curves:
        steps = zip(curve.queries, curve.recovered, strict=True)
        table.add_row(curve.defence, *(f"{share:.1%} @ {count}" for count, share in steps))
    return table
