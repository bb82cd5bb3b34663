"""`shoal service …`: acts of whoever runs the machine: data sets, users, tokens, allowances, the log."""

from __future__ import annotations

from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli.budget import parse_budget, show_why
from shoal.cli.output import check_writable, write_json, write_text
from shoal.cli.serving.serve import HOME, where, whole_days
from shoal.cli.shared_options import framed
from shoal.errors import ShoalError
from shoal.params import many

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from shoal.service.people import Caller
    from shoal.service.service import Service

    Done = tuple[dict[str, Any], str]
    """What was done, for machines and in words."""

app = typer.Typer(name="service", no_args_is_help=True, help="Administer a budget service on its own machine.")
dataset_app = typer.Typer(name="dataset", no_args_is_help=True, help="Manage data sets.")
user_app = typer.Typer(name="user", no_args_is_help=True, help="Manage users.")
token_app = typer.Typer(name="token", no_args_is_help=True, help="Manage tokens.")
log_app = typer.Typer(name="log", no_args_is_help=True, help="Read, export and verify the log.")
for verbs in (dataset_app, user_app, token_app, log_app):
    app.add_typer(verbs)

Home = Annotated[Path, typer.Option("--home", metavar="DIR", help="Where the service keeps its state.")]
StoreUrl = Annotated[
    str | None, typer.Option("--store", metavar="URL", help="A PostgreSQL database instead of a folder.")
]
Name = Annotated[str, typer.Argument(metavar="NAME")]
Because = Annotated[str, typer.Option("--because", metavar="TEXT", help="The reason, which is kept.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

WHAT_THERE_IS = "shoal service dataset list, user list and token list say what there is."


def opened(kept: Path | str, *, new: bool = False, anchor: str | None = None) -> AbstractContextManager[Service]:
    """The service at a place, for one act."""
    from contextlib import contextmanager

    from shoal.service.service import Service
    from shoal.service.stores.opening import exists, shown

    if not new and not exists(kept):
        maker = "init --home DIR" if isinstance(kept, Path) else "migrate --store URL"
        raise ShoalError(
            "E_USAGE", f"There is no service in {shown(kept)!r}.", hint=f"shoal service {maker} makes one."
        )

    @contextmanager
    def inside() -> Iterator[Service]:
        service = Service.open(kept, anchor=anchor)
        try:
            yield service
        finally:
            service.close(0.0)

    return inside()


def in_service(
    act: Callable[[Service, Caller], Done],
    *,
    home: Home = HOME,
    store: StoreUrl = None,
    json: Json = False,
) -> None:
    """One act of the operator, and what was done, for machines and in words."""
    from shoal.service.service import OPERATOR

    with opened(where(home, store)) as service:
        try:
            data, text = act(service, OPERATOR)
        except ShoalError as error:
            if error.code != "E_NOT_FOUND" or error.hint:
                raise
            raise ShoalError(error.code, error.message, hint=WHAT_THERE_IS) from None
    said(data, text, json=json)


acting = framed(in_service, given=("service", "operator"))


def said(data: dict[str, Any], text: str, *, json: bool) -> None:
    """What was done, for machines or for people."""
    if json:
        return write_json(data)
    return typer.echo(text)


@app.command()
def init(home: Home = HOME, store: StoreUrl = None, *, json: Json = False) -> None:
    """Create an empty service.

    [bold]Example[/bold]

        shoal service init --home /srv/shoal
    """
    from shoal.service.stores.opening import shown

    kept = where(home, store)
    with opened(kept, new=True):
        said({"home": shown(kept)}, f"A service is in {shown(kept)}.", json=json)


@app.command()
@acting
def status(service: Service, operator: Caller) -> Done:
    """Show data sets, totals and people.

    [bold]Example[/bold]

        shoal service status --json
    """
    data: dict[str, Any] = {
        "datasets": service.list_datasets(operator),
        "users": service.people.all(),
        "jobs": service.metrics(operator),
    }
    lines = []
    for one in data["datasets"]:
        spent, limit = one["ledger"]["spent"]["epsilon"], one["ledger"]["budget"]["epsilon"]
        lines.append(f"{one['name']}: version {one['version']}, ε {spent:g} of {limit:g} for {one['unit']}")
    return data, "\n".join([*lines, many(len(data["users"]), "user")])


@app.command()
@acting
def allow(
    service: Service,
    operator: Caller,
    dataset: Annotated[str, typer.Argument(metavar="DATASET")],
    to: Annotated[str, typer.Option(metavar="WHOM", help="A user, group:NAME or everyone.")],
    budget: Annotated[
        str | None, typer.Option(metavar="EPS,DELTA", help="What they may spend in each period; a group shares it.")
    ] = None,
    per: Annotated[str, typer.Option(metavar="PERIOD", help="day, week, month or ever.")] = "ever",
    max_epsilon_per_query: Annotated[float | None, typer.Option(metavar="X", help="More is refused.")] = None,
    approve_above: Annotated[float | None, typer.Option(metavar="X", help="More waits for a custodian.")] = None,
    *,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="End the allowance of this period instead.")] = False,
) -> Done:
    """Let somebody query a data set, within limits; given again for the same people and period, it replaces the previous one.

    [bold]Example[/bold]

        shoal service allow visits --to group:research --budget 1,1e-6 --per week
    """
    from shoal import params
    from shoal.service.allowances import Grant

    if withdraw:
        if (budget, max_epsilon_per_query, approve_above) != (None, None, None):
            raise ShoalError("E_USAGE", "--withdraw ends an allowance: it takes --to and --per alone.")
        service.withdraw(operator, dataset, to, per)
        return {
            "withdrawn": {"dataset": dataset, "to": to, "per": per}
        }, f"{to} has no allowance for {dataset} per {per}."
    limits = [None if x is None else params.epsilon(x) for x in (max_epsilon_per_query, approve_above)]
    limit = None if budget is None else parse_budget(budget, "--budget")
    service.allow(operator, Grant(dataset, to, per, limit, *limits))
    return {"dataset": dataset, "to": to}, f"{to} may ask {dataset}."


@app.command()
@acting
def lift(
    service: Service,
    operator: Caller,
    dataset: Annotated[str, typer.Argument(metavar="DATASET")],
    user: Annotated[str, typer.Argument(metavar="USER")],
    because: Because,
) -> Done:
    """Let a suspended user ask again. Shows the statement that suspended them, first.

    [bold]Example[/bold]

        shoal service lift visits ann --because "the disk was full"
    """
    show_why(service.datasets.get(dataset).ledger, user)
    service.lift(operator, dataset, user, because)
    return {"lifted": user}, f"{user} may ask {dataset} again."


# ---- data sets -------------------------------------------------------------------------------------------------------


@dataset_app.command("add")
@acting
def dataset_add(
    service: Service,
    operator: Caller,
    name: Name,
    source: Annotated[str, typer.Argument(metavar="SOURCE")],
    catalog: Annotated[Path, typer.Option(metavar="FILE")] = Path("shoal.toml"),
    budget: Annotated[str | None, typer.Option(metavar="EPS,DELTA", help="For a new ledger.")] = None,
    accountant: Annotated[str, typer.Option(metavar="NAME", help="basic or zcdp.")] = "basic",
    ledger: Annotated[str | None, typer.Option(metavar="NAME", help="Share the ledger of another data set.")] = None,
    unit: Annotated[str, typer.Option(metavar="TEXT", help="What an ε is about.")] = "one person",
    new_people: Annotated[bool, typer.Option("--new-people", help="These people are in no other data set.")] = False,
) -> Done:
    """Add a data set, and a ledger for its people where they have none.

    [bold]Example[/bold]

        shoal service dataset add visits data/ --catalog shoal.toml --budget 3,1e-5
    """
    from shoal.service.datasets import NewDataSet

    limit = None if budget is None else parse_budget(budget, "--budget")
    new = NewDataSet(name, source, str(catalog), limit, accountant, ledger, unit, new_people)
    service.add_dataset(operator, new)
    return {"dataset": name}, f"{name} was added; nobody may ask it yet: shoal service allow {name} --to USER"


@dataset_app.command("list")
@acting
def dataset_list(service: Service, operator: Caller) -> Done:  # noqa: ARG001 - every act has one
    """List data sets."""
    names = service.datasets.names()
    return {"datasets": names}, "\n".join(names)


@dataset_app.command("refresh")
@acting
def dataset_refresh(service: Service, operator: Caller, name: Name) -> Done:
    """Record that data or catalog changed: questions are answered afresh from now on."""
    service.refresh(operator, name)
    return {"refreshed": name}, f"{name} has a new version."


@dataset_app.command("retire")
@acting
def dataset_retire(service: Service, operator: Caller, name: Name) -> Done:
    """Close a data set for good; its ledger and name stay."""
    service.retire_dataset(operator, name)
    return {"retired": name}, f"{name} is closed."


@dataset_app.command("raise")
@acting
def dataset_raise(
    service: Service,
    operator: Caller,
    name: Name,
    budget: Annotated[str, typer.Option(metavar="EPS,DELTA", help="The new lifetime budget.")],
    because: Because,
) -> Done:
    """Raise the budget of a data set's ledger."""
    service.raise_budget(operator, name, parse_budget(budget, "--budget"), because)
    return {"raised": name}, f"The budget of {name} was raised."


# ---- users and tokens ------------------------------------------------------------------------------------------------


@user_app.command("add")
@acting
def user_add(
    service: Service,
    operator: Caller,
    name: Name,
    role: Annotated[list[str], typer.Option(metavar="ROLE", help="analyst, custodian or auditor; may be repeated.")],
    group: Annotated[list[str] | None, typer.Option(metavar="GROUP", help="May be repeated.")] = None,
) -> Done:
    """Add a user.

    [bold]Example[/bold]

        shoal service user add ann --role analyst --group research
    """
    service.add_user(operator, name, role, group or [])
    return {"user": name}, f"{name} was added."


@user_app.command("list")
@acting
def user_list(service: Service, operator: Caller) -> Done:  # noqa: ARG001 - every act has one
    """List users with their roles and groups."""
    found: list[dict[str, Any]] = service.people.all()
    lines = [
        "  ".join(
            [
                one["name"],
                ", ".join(one["roles"]),
                *(f"group:{group}" for group in one["groups"]),
                *(["retired"] if one["retired"] else []),
            ]
        )
        for one in found
    ]
    return {"users": found}, "\n".join(lines) or "There is no user."


@user_app.command("retire")
@acting
def user_retire(service: Service, operator: Caller, name: Name) -> Done:
    """End all tokens of a user; the name is never reused."""
    service.retire_user(operator, name)
    return {"retired": name}, f"{name} may do nothing any more."


@token_app.command("create")
@acting
def token_create(
    service: Service,
    operator: Caller,
    user: Annotated[str, typer.Argument(metavar="USER")],
    scope: Annotated[list[str] | None, typer.Option(metavar="SCOPE", help="Less than the roles allow.")] = None,
    dataset: Annotated[list[str] | None, typer.Option(metavar="NAME", help="These data sets only.")] = None,
    expires: Annotated[str, typer.Option(metavar="DAYS", help="Such as 90d, at most 366d.")] = "90d",
) -> Done:
    """Create a token; it is shown only once.

    [bold]Example[/bold]

        shoal service token create ann
    """
    made = service.create_token(operator, user, scope, dataset, whole_days(expires))
    return made, made["token"]


@token_app.command("list")
@acting
def token_list(service: Service, operator: Caller) -> Done:  # noqa: ARG001 - every act has one
    """List tokens by their ids."""
    found: list[dict[str, Any]] = service.people.tokens()
    return {"tokens": found}, "\n".join(f"{t['id']}  {t['user']}  until {t['expires']}" for t in found)


@token_app.command("revoke")
@acting
def token_revoke(service: Service, operator: Caller, identifier: Annotated[str, typer.Argument(metavar="ID")]) -> Done:
    """Revoke a token at once."""
    service.revoke_token(operator, identifier)
    return {"revoked": identifier}, f"{identifier} is worth nothing any more."


# ---- the log ---------------------------------------------------------------------------------------------------------


@log_app.command("export")
def log_export(
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write here.")] = None,
    home: Home = HOME,
    store: StoreUrl = None,
    *,
    json: Json = False,
) -> None:
    """Write the whole log as JSON lines."""
    from shoal.service.service import OPERATOR

    check_writable(output)
    with opened(where(home, store)) as service:
        lines = service.export_log(OPERATOR)
    if json:
        return write_json({"log": [loads(line) for line in lines]}, output)
    return write_text("".join(lines), output)


@log_app.command("anchor")
@acting
def log_anchor(service: Service, operator: Caller) -> Done:
    """Print the number and hash of the last line. Kept elsewhere, they expose a log that was rolled back."""
    anchor = service.log_anchor(operator)
    return {"anchor": anchor}, anchor


@log_app.command("verify")
def log_verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An export.")],
    anchor: Annotated[str | None, typer.Option(metavar="N:HASH", help="What was noted elsewhere.")] = None,
    *,
    json: Json = False,
) -> None:
    """Check an export line by line.

    [bold]Example[/bold]

        shoal service log verify log.jsonl --anchor 12:9f…
    """
    from shoal.service.log import verify

    try:
        with file.open(encoding="utf-8") as lines:
            number = verify(lines, anchor)
    except (OSError, UnicodeDecodeError):
        raise ShoalError("E_USAGE", f"The file {str(file)!r} cannot be read.") from None
    said({"lines": number}, f"{number} lines are right.", json=json)
