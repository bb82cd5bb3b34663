"""`shoal budget`: make a ledger, or read what was spent, by whom and on what."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.output import console, write_json
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from fractions import Fraction

    from shoal.accounting.ledger import Entry, Ledger
    from shoal.accounting.suspension import Suspension
    from shoal.params import Budget


class AccountantName(StrEnum):
    """What `--accountant` may be."""

    basic = "basic"
    zcdp = "zcdp"


def budget(
    ledger: Annotated[Path, typer.Option("--ledger", metavar="FILE", help="The ledger's file.")],
    create: Annotated[
        str | None, typer.Option("--create", metavar="EPS,DELTA", help="Make a ledger with this budget.")
    ] = None,
    accountant: Annotated[
        AccountantName | None,
        typer.Option(help="With --create: how losses add up; fixed from then on.", show_default="basic"),
    ] = None,
    lift: Annotated[
        str | None,
        typer.Option("--lift", metavar="USER", help="Let a suspended user ask again; shows why it happened."),
    ] = None,
    because: Annotated[str | None, typer.Option(metavar="TEXT", help="With --lift: the reason, which is kept.")] = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="The ledger for machines.")] = False,
) -> None:
    """Make a budget; show what was spent, by whom and on what; or end a suspension.

    [bold]Example[/bold]

        shoal budget --ledger ledger.db --create 3,1e-5

        shoal budget --ledger ledger.db

        shoal budget --ledger ledger.db --lift ada --because "the file server was down"
    """
    from shoal.accounting.ledger import Ledger

    if create is not None:
        Ledger.create(ledger, parse_budget(create), accountant=(accountant or AccountantName.basic).value)
    elif accountant is not None:
        raise ShoalError(
            "E_USAGE",
            "--accountant belongs to --create: a ledger keeps the accountant it was made with.",
            hint="Leave it out to read the ledger.",
        )
    book = Ledger.open(ledger)
    if lift is not None:
        lift_suspension(book, lift, because)
    elif because is not None:
        raise ShoalError("E_USAGE", "--because gives the reason of --lift.", hint="Add --lift USER.")
    if json:
        write_json(as_data(book))
    else:
        show(book)


def lift_suspension(book: Ledger, user: str, because: str | None) -> None:
    """Whoever lifts a suspension sees the query that caused it, first."""
    for suspension in in_force(book):
        if suspension.user == user:
            typer.echo(f"Suspended on {suspension.noted_at} by entry {suspension.charge}:", err=True)
            typer.echo(" ".join(suspension.statement.split()), err=True)
    book.lift(user, because=because or "")


def in_force(book: Ledger) -> list[Suspension]:
    """The suspensions that nobody has lifted."""
    return [suspension for suspension in book.suspensions() if not suspension.lifted_at]


def parse_budget(text: str) -> Budget:
    """`3,1e-5` as exact numbers.

    >>> parse_budget("3,1e-5")
    Budget(epsilon=Fraction(3, 1), delta=Fraction(1, 100000))
    """
    from shoal import params

    try:
        epsilon, delta = (Decimal(part.strip()) for part in text.split(","))
    except (ValueError, InvalidOperation):
        raise ShoalError(
            "E_USAGE", "A budget is two numbers, epsilon and delta.", hint="Write --create 3,1e-5"
        ) from None
    return params.budget((epsilon, delta), option="--create")


def show(book: Ledger) -> None:
    """The ledger for people: the totals, then each spend."""
    out = console()
    if book.budget is not None and book.remaining is not None:
        out.print(f"budget     {pair(book.budget.epsilon, book.budget.delta)}   ({book.accountant} composition)")
    out.print(f"spent      {pair(*book.spent)}")
    if book.remaining is not None:
        out.print(f"remaining  {pair(*book.remaining)}")
    show_suspensions(book)
    entries = book.entries()
    if not entries:
        out.print("\nNothing was asked yet.")
        return
    out.print()
    out.print(spends_table(entries))
    for user, amounts in book.spent_by_user().items():
        out.print(f"{user or 'nobody in particular'}: {pair(*amounts)}", markup=False)


def show_suspensions(book: Ledger) -> None:
    """Who may not ask, and what all failures together can have told."""
    from shoal.catalog import MIN_EPSILON_PER_QUERY

    out = console()
    for suspension in in_force(book):
        who = suspension.user or "nobody in particular"
        out.print(f"suspended  {who}, since {suspension.noted_at} (entry {suspension.charge})", markup=False)
    told = book.told_by_failures(MIN_EPSILON_PER_QUERY)
    later = "" if told.bits_by_the_end is None else f", {told.bits_by_the_end:.1f} when all is spent at epsilon 0.01"
    out.print(f"failures   {told.failures}, lifted {told.lifts}; they can tell at most {told.bits:.1f} bits{later}")


def spends_table(entries: list[Entry]) -> Any:
    """Each spend: when, who, what it cost, on what."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("when", "who", "epsilon", "delta", "state", "query"):
        table.add_column(name, justify="right" if name in {"epsilon", "delta"} else "left", overflow="fold")
    for entry in entries:
        cells = (entry.noted_at, entry.user, number(entry.epsilon), number(entry.delta), entry.state)
        table.add_row(*cells, Text(" ".join(entry.description.split())))
    return table


def pair(epsilon: Fraction, delta: Fraction) -> str:
    """An amount in a line."""
    return f"epsilon {number(epsilon)}, delta {number(delta)}"


def number(amount: Fraction) -> str:
    """Six digits of an exact amount."""
    return f"{float(amount):.6g}"


def as_data(book: Ledger) -> dict[str, Any]:
    """The ledger for machines; exact amounts stand beside the rounded ones."""
    from shoal.catalog import MIN_EPSILON_PER_QUERY

    limit = (book.budget.epsilon, book.budget.delta) if book.budget is not None else None
    return {
        "accountant": book.accountant,
        "budget": amounts(limit),
        "spent": amounts(book.spent),
        "remaining": amounts(book.remaining),
        "suspensions": [asdict(suspension) for suspension in book.suspensions()],
        "failing": asdict(book.told_by_failures(MIN_EPSILON_PER_QUERY)),
        "by_user": {user: amounts(spent) for user, spent in book.spent_by_user().items()},
        "entries": [
            {
                "sequence": entry.sequence,
                "noted_at": entry.noted_at,
                "user": entry.user,
                "query": entry.description,
                "state": entry.state,
                **(amounts((entry.epsilon, entry.delta)) or {}),
            }
            for entry in book.entries()
        ],
    }


def amounts(both: tuple[Fraction, Fraction] | None) -> dict[str, Any] | None:
    """(ε, δ) as numbers, and exactly as texts such as 1/3."""
    if both is None:
        return None
    epsilon, delta = both
    return {
        "epsilon": float(epsilon),
        "delta": float(delta),
        "exact": {"epsilon": str(epsilon), "delta": str(delta)},
    }
