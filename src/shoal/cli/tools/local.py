"""`shoal local`: surveys whose answers are private before they leave the respondent."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.output import check_writable, write_json, write_text
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.local import Question

app = typer.Typer(
    name="local",
    help="Surveys whose answers are private before they leave the respondent.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
QuestionFile = Annotated[Path, typer.Argument(metavar="QUESTION", help="The question's file.")]


@app.command()
def question(
    title: Annotated[str, typer.Argument(help="The question.")],
    *,
    epsilon: Annotated[str | None, typer.Option(metavar="EPS", help="What one respondent's report costs.")] = None,
    values: Annotated[str | None, typer.Option(help="The values to choose from, comma-separated.")] = None,
    number: Annotated[str | None, typer.Option(metavar="LOWER,UPPER", help="Ask for a number between these.")] = None,
    count: Annotated[int | None, typer.Option(metavar="UPPER", help="Ask for a whole number from 0 to this.")] = None,
    yes_no: Annotated[bool, typer.Option("--yes-no", help="Ask for yes or no.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Ask for any text.")] = False,
    oracle: Annotated[str, typer.Option(help="With --values: auto, subset, projective, unary or hashing.")] = "auto",
    longitudinal: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST,TOTAL", help="Instead of --epsilon, for repeated rounds: the ε of one report, and of all."
        ),
    ] = None,
    ledger: Annotated[Path | None, typer.Option(metavar="FILE", help="Charge this ledger for asking.")] = None,
    user: Annotated[str | None, typer.Option(metavar="NAME", help="The user to record in the ledger.")] = None,
    round: Annotated[str, typer.Option(metavar="TEXT", help="The round to record in the ledger.")] = "",  # noqa: A002 - the option
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the question here.")
    ] = None,
    json: Json = False,
) -> None:
    """Write a question; with --ledger, charge for asking it.

    Example: shoal local question "How often?" --values never,once,often --epsilon 1 -o q.json
    """
    kinds = [values is not None, number is not None, count is not None, yes_no, text]
    if sum(kinds) != 1:
        raise ShoalError(
            "E_USAGE",
            "Choose the kind of answer.",
            hint="Give one of --values, --number, --count, --yes-no, --text.",
        )
    if ledger is None and (user is not None or round):
        raise ShoalError(
            "E_USAGE", "--user and --round only work with --ledger.", hint="Leave them out, or name a ledger."
        )
    asked = _asked(title, epsilon, values, number, count, oracle, longitudinal, yes_no=yes_no)
    check_writable(output)
    if ledger is not None:
        asked.open(ledger, user=user, round=round)
    if output is not None or not json:
        write_text(asked.to_json() + "\n", output)
    if json:
        write_json(facts(asked))
    for line in (repr(asked), asked.warning):
        if line:
            typer.echo(line, err=True)


def _asked(
    title: str,
    epsilon: str | None,
    values: str | None,
    number: str | None,
    count: int | None,
    oracle: str,
    longitudinal: str | None,
    *,
    yes_no: bool,
) -> Question:
    from shoal import local

    pair: Any = None if longitudinal is None else _numbers(longitudinal, "--longitudinal", 2)
    price: Any = None if epsilon is None else _numbers(epsilon, "--epsilon", 1)[0]
    if values is not None:
        return local.choice(values.split(","), price, oracle=oracle, longitudinal=pair, title=title)
    if oracle != "auto" or (pair is not None and not yes_no):
        raise ShoalError("E_USAGE", "--oracle and --longitudinal only work with --values.", hint="Leave them out.")
    if yes_no:
        return local.yes_no(price, longitudinal=pair, title=title)
    if number is not None:
        lower, upper = _numbers(number, "--number", 2)
        return local.number(lower, upper, price, title=title)
    return local.text(price, title=title) if count is None else local.count(count, price, title=title)


def _numbers(text: str, option: str, wanted: int) -> tuple[Decimal, ...]:
    try:
        found = tuple(Decimal(part.strip()) for part in text.split(","))
    except InvalidOperation:
        found = ()
    if len(found) != wanted:
        example = {"--number": "0,120", "--longitudinal": "1,4"}.get(option, "1")
        raise ShoalError(
            "E_USAGE", f"{option} takes {wanted} exact number{'s' * (wanted > 1)}.", hint=f"{option} {example}"
        )
    return found


def facts(asked: Question) -> dict[str, Any]:
    """What a question is, for machines."""
    return {
        "kind": asked.spec["kind"],
        "title": asked.title,
        "oracle": asked.spec.get("oracle"),
        "parameters": {name: float(value) for name, value in asked.parameters.items()},
        "epsilon": asked.epsilon,
        "realised_epsilon": asked.realised_epsilon,
        "message_bits": asked.message_bits,
        "fingerprint": asked.fingerprint,
        "sha256": asked.sha256,
    }


@app.command()
def randomize(
    question: QuestionFile,
    answers: Annotated[Path, typer.Argument(help="A CSV, JSON lines or parquet file with true answers.")],
    *,
    column: Annotated[str, typer.Option(help="The column with the answers.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Write the reports here.")],
    json: Json = False,
) -> None:
    """Turn true answers into reports: for pilots, simulations and old data.

    Example: shoal local randomize q.json answers.csv --column a -o reports.jsonl
    """
    from shoal import local

    asked = local.question(question)
    check_writable(output)
    reports = asked.randomize_many(local.read_answers(answers, column, asked))
    reports.to_jsonl(output)
    said = f"Wrote {len(reports)} reports for {asked.fingerprint} to {output}."
    if json:
        return write_json({"reports": len(reports), "fingerprint": asked.fingerprint})
    return typer.echo(said, err=True)


@app.command()
def client(
    question: Annotated[
        Path | None, typer.Argument(metavar="QUESTION", help="The one question that this copy will answer.")
    ] = None,
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the client here.")
    ] = None,
    json: Json = False,
) -> None:
    """Write the client for devices: one Python file that needs nothing else.

    Example: shoal local client q.json -o client.py
    """
    from shoal import local

    asked = None if question is None else local.question(question)
    check_writable(output)
    if output is not None or not json:
        write_text(local.client_source(asked), output)
    if json:
        write_json({"version": local.client.VERSION, "question": None if asked is None else asked.sha256})


@app.command()
def estimate(
    question: QuestionFile,
    reports: Annotated[list[Path], typer.Argument(help="Files of reports: JSON lines, or as Python writes them.")],
    *,
    level: Annotated[float, typer.Option(help="The confidence level of the intervals.")] = 0.95,
    raw: Annotated[bool, typer.Option("--raw", help="Unbiased shares, not made consistent.")] = False,
    population: Annotated[
        bool, typer.Option("--population", help="Intervals for the population that respondents were drawn from.")
    ] = False,
    candidates: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For a text question: the strings to look for, one per line.")
    ] = None,
    simultaneous: Annotated[bool, typer.Option("--simultaneous", help="Make all intervals hold at once.")] = False,
    max_rejected: Annotated[float, typer.Option(min=0, max=1, help="The largest share of rejected reports.")] = 0.01,
    json: Json = False,
) -> None:
    """Estimate shares or a mean from reports, with intervals. Costs nothing.

    Example: shoal local estimate q.json reports.jsonl --level 0.9
    """
    from shoal import local

    asked = local.question(question)
    found = asked.estimate(
        [local.read_reports(path) for path in reports],
        level=level,
        consistent=not raw,
        target="population" if population else "respondents",
        candidates=None if candidates is None else local.read_candidates(candidates),
        simultaneous=simultaneous,
        max_rejected=max_rejected,
    )
    if json:
        write_json(found.to_dict())
    else:
        typer.echo(repr(found))


@app.command()
def compare(
    *,
    values: Annotated[int, typer.Option(help="How many values there are to choose from.")] = 128,
    epsilon: Annotated[float, typer.Option(help="What one report costs.")] = 1.0,
    n: Annotated[int, typer.Option("-n", help="How many people answer.")] = 100_000,
    json: Json = False,
) -> None:
    """Compare the errors of the oracles, and that of a trusted party with the same ε.

    Example: shoal local compare --values 128 --epsilon 1 -n 100000
    """
    from shoal import local

    found = local.compare(values, epsilon, n)
    if json:
        write_json(found.to_dict())
    else:
        typer.echo(repr(found))


@app.command()
def shuffled(
    *,
    epsilon: Annotated[float, typer.Option(help="What one report costs.")],
    n: Annotated[int, typer.Option("-n", help="How many reports are shuffled.")],
    delta: Annotated[float, typer.Option(help="The δ of the promise.")],
    yes_no: Annotated[bool, typer.Option("--yes-no", help="The tighter bound of yes/no questions.")] = False,
    honest: Annotated[float, typer.Option(help="The share of reports that are honest.")] = 1.0,
    json: Json = False,
) -> None:
    """Compute the ε of reports after a trusted shuffler removes who sent them.

    Example: shoal local shuffled --epsilon 1 -n 100000 --delta 1e-6
    """
    from shoal import local

    found = local.shuffled(epsilon, n, delta, oracle="yes_no" if yes_no else None, honest=honest)
    if json:
        return write_json({"epsilon": found, "local_epsilon": epsilon, "n": n, "delta": delta})
    return typer.echo(
        f"{n:,} reports of ε = {epsilon:g}, shuffled by a trusted party: ε = {found:.4g} at δ = {delta:g}.\n"
        "Reports that are known or made up do not count: --honest 0.8."
    )
