"""`shoal budget`: make a ledger, read what was spent, by whom and on what, and the acts of its custodian."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.output import console, write_json
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from fractions import Fraction

    from shoal.accounting.ledger import Ledger
    from shoal.accounting.promises import Promise
    from shoal.accounting.spending.reports import Entry
    from shoal.accounting.stores.check import Anchor
    from shoal.accounting.suspension import Suspension
    from shoal.params import Budget

VALUES_ONLY = (
    "The total bounds one owner's rows added or removed in the tables and their survey answers replaced;"
    " that they took part in a survey is not hidden."
)


class AccountantName(StrEnum):
    """What `--accountant` may be."""

    basic = "basic"
    zcdp = "zcdp"


LedgerOption = Annotated[
    str | None,
    typer.Option("--ledger", metavar="LEDGER", help="The ledger: a file, or postgresql://user@host/database#name."),
]
ServiceAddress = Annotated[
    str | None, typer.Option("--db", metavar="URL", help="Instead: a data set of a service, https://host/d/NAME.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", metavar="FILE", help="With --db: your token.", show_default="SHOAL_TOKEN"),
]
Create = Annotated[str | None, typer.Option("--create", metavar="EPS,DELTA", help="Create a ledger with this budget.")]
Accountant = Annotated[
    AccountantName | None,
    typer.Option(help="With --create: how losses add up; fixed from then on.", show_default="basic"),
]
Policy = Annotated[
    str | None,
    typer.Option("--policy", metavar="TABLE.POLICY", help="With --create: a budget about this policy of the catalog."),
]
Catalog = Annotated[
    Path | None,
    typer.Option("--catalog", metavar="FILE", help="With --policy: the catalog.", show_default="shoal.toml"),
]
Lift = Annotated[
    str | None,
    typer.Option("--lift", metavar="USER", help="Let a suspended user ask again; shows why they were suspended."),
]
RaiseTo = Annotated[
    str | None, typer.Option("--raise", metavar="EPS,DELTA", help="Raise the budget to this, permanently.")
]
Loss = Annotated[
    str | None, typer.Option("--loss", metavar="EPS,DELTA", help="Record a loss that a restored copy lacks.")
]
Because = Annotated[
    str | None, typer.Option(metavar="TEXT", help="With --lift, --raise and --loss: the reason, which is recorded.")
]
AnchorOption = Annotated[
    str | None, typer.Option(metavar="N:HASH", help="Refuse a ledger without this row; with --loss: accept it.")
]
Backup = Annotated[Path | None, typer.Option(metavar="FILE", help="Copy the ledger here, and print the copy's anchor.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the ledger as JSON.")]


def budget(
    ledger: LedgerOption = None,
    db: ServiceAddress = None,
    token_file: TokenFile = None,
    create: Create = None,
    accountant: Accountant = None,
    policy: Policy = None,
    catalog: Catalog = None,
    lift: Lift = None,
    raise_to: RaiseTo = None,
    loss: Loss = None,
    because: Because = None,
    anchor: AnchorOption = None,
    backup: Backup = None,
    *,
    json: AsJson = False,
) -> None:
    """Create a budget; show what was spent, by whom and on what; lift a suspension; copy, check or correct a ledger.

    [bold]Example[/bold]

        shoal budget --ledger ledger.db --create 3,1e-5

        shoal budget --ledger ledger.db

        shoal budget --ledger ledger.db --lift ada --because "the file server was down"
    """
    from shoal.accounting.ledger import Ledger

    if db is not None:
        others = (ledger, create, accountant, policy, catalog, lift, raise_to, loss, because, anchor, backup)
        return budget_of_service(db, token_file, others, json=json)
    if ledger is None or token_file is not None:
        raise ShoalError(
            "E_USAGE",
            "A budget is that of a --ledger, or of a service: --db https://host/d/NAME.",
            hint="See shoal budget --help.",
        )
    check_options(create, accountant, because, (lift, raise_to, loss))
    promise = chosen_promise(create, policy, catalog)
    if create is not None:
        chosen = (accountant or AccountantName.basic).value
        Ledger.create(ledger, parse_budget(create), accountant=chosen, promise=promise)
    noted = parse_anchor(anchor)
    book = Ledger.open(ledger, None if loss else noted)
    if lift is not None:
        lift_suspension(book, lift, because)
    if raise_to is not None:
        book.raise_budget(parse_budget(raise_to, "--raise"), because=because or "")
    if loss is not None:
        book.book_loss(parse_loss(loss), because=because or "", anchor=noted)
    copied = None if backup is None else book.backup(backup)
    if json:
        write_json(as_data(book) | ({} if copied is None else {"backup": written_anchor(copied)}))
    else:
        show(book)
        if copied is not None:
            console().print(f"copied     the copy's anchor is {written_anchor(copied)}", soft_wrap=True)
    return None


def budget_of_service(db: str, token_file: Path | None, others: tuple[object, ...], *, json: bool) -> None:
    """What a service says was spent; its custodian acts there."""
    from shoal.cli.query import read_token
    from shoal.remote import RemoteSession, is_remote

    if not is_remote(db) or any(other is not None for other in others):
        raise ShoalError(
            "E_USAGE", "--db https://host/d/NAME shows the budget of a service, and takes --token-file alone."
        )
    with RemoteSession(db, read_token(token_file)) as session:
        found = session.budget()
    if json:
        return write_json(found)
    spent, limit = found["spent"], found["budget"]
    typer.echo(
        f"spent      ε = {spent['epsilon']:g}, δ = {spent['delta']:g} of ε = {limit['epsilon']:g}, δ = {limit['delta']:g}"
    )
    for entry in found["entries"]:
        typer.echo(f"{entry['noted_at']}  {entry['user']}  ε = {entry['epsilon']:g}  {entry['state']}")
    return None


def chosen_promise(create: str | None, policy: str | None, catalog: Path | None) -> Promise | None:
    """The promise of a ledger to be made: owners, or a policy of the catalog."""
    if policy is None and catalog is None:
        return None
    if create is None or policy is None:
        raise ShoalError("E_USAGE", "--policy and --catalog only work with --create: a ledger's promise never changes.")
    from shoal.cli.tools.policy import find
    from shoal.policies.charging import promise_of

    table, _, name = policy.partition(".")
    found = find(catalog or Path("shoal.toml"), table, name)
    return promise_of(found.rule, found.max_rows_per_owner)


def check_options(
    create: str | None, accountant: AccountantName | None, because: str | None, acts: tuple[str | None, ...]
) -> None:
    """Refuse options that would do nothing."""
    if accountant is not None and create is None:
        raise ShoalError(
            "E_USAGE",
            "--accountant only works with --create: a ledger's accountant never changes.",
            hint="Leave it out to read the ledger.",
        )
    if because is not None and not any(act is not None for act in acts):
        raise ShoalError(
            "E_USAGE", "--because gives the reason for --lift, --raise or --loss.", hint="Add one of them."
        )


def lift_suspension(book: Ledger, user: str, because: str | None) -> None:
    """Whoever lifts a suspension sees the query that caused it, first."""
    show_why(book, user)
    book.lift(user, because=because or "")


def show_why(book: Ledger, user: str) -> None:
    """The query that suspended somebody."""
    for suspension in in_force(book):
        if suspension.user == user:
            typer.echo(f"Suspended on {suspension.noted_at} by entry {suspension.charge}:", err=True)
            typer.echo(" ".join(suspension.statement.split()), err=True)


def in_force(book: Ledger) -> list[Suspension]:
    """The suspensions that nobody has lifted."""
    return [suspension for suspension in book.suspensions() if not suspension.lifted_at]


def parse_budget(text: str, option: str = "--create") -> Budget:
    """`3,1e-5` as exact numbers.

    >>> parse_budget("3,1e-5")
    Budget(epsilon=Fraction(3, 1), delta=Fraction(1, 100000))
    """
    from shoal import params

    return params.budget(_pair(text, option), option=option)


def parse_loss(text: str) -> Any:
    """`0.5,1e-6` as a loss."""
    from shoal.accounting.accountants import Loss
    from shoal.exact import as_fraction

    try:
        epsilon, delta = (as_fraction(part) for part in _pair(text, "--loss"))
    except ValueError:
        raise _no_pair("--loss") from None
    if min(epsilon, delta) < 0:
        raise _no_pair("--loss")
    return Loss(epsilon, delta)


def _pair(text: str, option: str) -> tuple[Decimal, Decimal]:
    try:
        epsilon, delta = (Decimal(part.strip()) for part in text.split(","))
    except (ValueError, InvalidOperation):
        raise _no_pair(option) from None
    return epsilon, delta


def _no_pair(option: str) -> ShoalError:
    return ShoalError("E_USAGE", "A budget is two numbers, epsilon and delta.", hint=f"Write {option} 3,1e-5")


def parse_anchor(text: str | None) -> Anchor | None:
    """`12:5ec3…` as an anchor."""
    if text is None:
        return None
    number, _, digest = text.strip().partition(":")
    if not (number.isascii() and number.isdigit()) or len(digest) != 64:
        raise ShoalError("E_USAGE", "An anchor is a row's number, a colon and its hash.", hint="--json prints it.")
    return int(number), digest


def written_anchor(anchor: Anchor) -> str:
    """An anchor as `--anchor` takes it."""
    from shoal.accounting.stores.check import anchor_text

    return anchor_text(anchor)


# --- showing ----------------------------------------------------------------------------------------------------------


def show(book: Ledger) -> None:
    """The ledger for people: the totals, then each spend."""
    out = console()
    about = "" if book.promise.kind == "owner" else f", {book.promise.label}"
    if book.budget is not None and book.remaining is not None:
        out.print(f"budget     {pair(book.budget.epsilon, book.budget.delta)}   ({book.accountant} composition{about})")
    for each in book.raises():
        out.print(f"raised     to {pair(each.epsilon, each.delta)} on {each.noted_at}: {each.because}", markup=False)
    out.print(f"spent      {pair(*book.spent)}")
    if book.remaining is not None:
        out.print(f"remaining  {pair(*book.remaining)}")
    if book.covers:
        out.print(VALUES_ONLY)
    show_promises(book)
    show_suspensions(book)
    entries = book.entries()
    if not entries:
        out.print("\nNo queries yet.")
        return
    out.print()
    out.print(spends_table(entries))
    for user, amounts in book.spent_by_user().items():
        out.print(f"{user or 'no user given'}: {pair(*amounts)}", markup=False)
    for account, amounts in book.accounts().items():
        out.print(f"account {account}: {pair(*amounts)}", markup=False)


def show_promises(book: Ledger) -> None:
    """What was asked under each promise, where there are several: side by side, never added."""
    asked = book.asked_by_promise()
    if set(asked) <= {"owner"}:
        return
    for promise, amounts in asked.items():
        console().print(f"asked      {pair(*amounts)} under {promise}", markup=False)


def show_suspensions(book: Ledger) -> None:
    """Who may not ask, and what all failures together may have revealed."""
    from shoal.params import MIN_EPSILON_PER_QUERY

    out = console()
    for suspension in in_force(book):
        who = suspension.user or "no user given"
        out.print(f"suspended  {who}, since {suspension.noted_at} (entry {suspension.charge})", markup=False)
    told = book.told_by_failures(MIN_EPSILON_PER_QUERY)
    later = "" if told.bits_by_the_end is None else f", {told.bits_by_the_end:.1f} when all is spent at epsilon 0.01"
    out.print(f"failures   {told.failures}, lifted {told.lifts}; they can reveal at most {told.bits:.1f} bits{later}")


def spends_table(entries: list[Entry]) -> Any:
    """Each spend: when, who, what it cost, on what."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("when", "who", "epsilon", "delta", "state", "query"):
        table.add_column(name, justify="right" if name in {"epsilon", "delta"} else "left", overflow="fold")
    for entry in entries:
        cells = (entry.noted_at, Text(entry.user), number(entry.epsilon), number(entry.delta), entry.state)
        table.add_row(*cells, Text(" ".join(entry.description.split())))
    return table


def pair(epsilon: Fraction, delta: Fraction) -> str:
    """An amount in a line."""
    return f"epsilon {number(epsilon)}, delta {number(delta)}"


def number(amount: Fraction) -> str:
    """Six digits of an exact amount."""
    return f"{float(amount):.6g}"


def as_data(book: Ledger) -> dict[str, Any]:
    """Print the ledger as JSON."""
    from shoal.accounting.spending.report_data import ledger_data
    from shoal.params import MIN_EPSILON_PER_QUERY

    return ledger_data(book, MIN_EPSILON_PER_QUERY)
