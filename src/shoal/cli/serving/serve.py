"""`shoal serve`: the budget service over HTTP."""

from __future__ import annotations

import sys
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.budget import parse_budget
from shoal.errors import ShoalError, missing_extra

if TYPE_CHECKING:
    from shoal.params import Budget

HOME = Path("shoal-service")


def serve(
    source: Annotated[
        str | None, typer.Argument(metavar="SOURCE", help="Data to serve as one data set, named after its folder.")
    ] = None,
    catalog: Annotated[Path, typer.Option(metavar="FILE", help="With SOURCE: what its tables mean.")] = Path(
        "shoal.toml"
    ),
    budget: Annotated[str | None, typer.Option(metavar="EPS,DELTA", help="With SOURCE: its lifetime budget.")] = None,
    home: Annotated[Path, typer.Option(metavar="DIR", help="Where the service keeps its state.")] = HOME,
    store: Annotated[
        str | None, typer.Option("--store", metavar="URL", help="A PostgreSQL database instead of a folder.")
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 picks a free one.")] = 8642,
    workers: Annotated[int, typer.Option(help="How many processes.")] = 1,
    flight_port: Annotated[
        int | None, typer.Option(metavar="PORT", help="Also answer Flight SQL (ADBC, JDBC) here; 0 picks a free port.")
    ] = None,
    slots: Annotated[int, typer.Option(help="Queries to run at once in each process.", show_default="2 × cores")] = 0,
    public_url: Annotated[str | None, typer.Option(metavar="URL", help="The address that people see.")] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Accept requests for this host name too.")
    ] = None,
    tls_cert: Annotated[str | None, typer.Option(metavar="FILE", help="The TLS certificate.")] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="The key of the certificate.")] = None,
    behind_proxy: Annotated[
        str | None, typer.Option(metavar="CIDR", help="Accept requests only from a proxy at these addresses.")
    ] = None,
    user_header: Annotated[
        str, typer.Option(metavar="NAME", help="Where the proxy names the user.")
    ] = "X-Forwarded-User",
    proxy_secret: Annotated[
        str | None, typer.Option(metavar="FILE", help="What the proxy sends in X-Shoal-Proxy-Secret.")
    ] = None,
    sign_out: Annotated[
        str | None, typer.Option(metavar="PATH", help="Where the proxy signs people out, such as /oauth2/sign_out.")
    ] = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Listen without TLS on addresses other than this machine's.")
    ] = False,
    answer_time: Annotated[
        str, typer.Option(metavar="SECONDS", help="How long replies that read data take, such as 1s; or off.")
    ] = "1s",
    time_limit: Annotated[
        float, typer.Option(metavar="SECONDS", help="Processor time of one query; a catalog may give less.")
    ] = 300.0,
    rates: Annotated[str, typer.Option(metavar="on|off", help="Rate limits; off works on loopback only.")] = "on",
    keep_answers: Annotated[
        str | None, typer.Option(metavar="DAYS", help="Forget the rows of answers after this time, such as 400d.")
    ] = None,
    *,
    sample: Annotated[bool, typer.Option("--sample", help="Serve a made-up shop, written next to the state.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one line of JSON when requests are accepted.")] = False,
) -> None:
    """Let people who may not see the data ask private questions of it.

    [bold]Example[/bold]

        shoal serve data/ --catalog shoal.toml --budget 3,1e-5
    """
    try:
        from shoal.web.operation.proxy import Proxy
        from shoal.web.server import Place
        from shoal.web.server import serve as serve_over_http
    except ImportError:
        raise missing_extra("serve", "shoal serve") from None
    from shoal.service.service import Limits

    if rates not in {"on", "off"} or (rates == "off" and host not in {"127.0.0.1", "::1", "localhost"}):
        raise ShoalError("E_USAGE", "--rates is on, or off on the loopback address.")
    if behind_proxy is None and (proxy_secret is not None or sign_out is not None):
        raise ShoalError("E_USAGE", "--proxy-secret and --sign-out belong to --behind-proxy.")
    proxy = None if behind_proxy is None else Proxy.of(behind_proxy, user_header, proxy_secret, sign_out or "")
    listening = (host, port, tuple(allow_host or ()), public_url, tls_cert, tls_key, plain_http, workers, flight_port)
    place = Place(*listening, proxy)
    if host in {"0.0.0.0", "::"} and public_url is None and not allow_host and not json:  # noqa: S104 - asked for
        typer.echo(
            "Requests are answered under the name localhost alone: add --public-url URL or --allow-host NAME.", err=True
        )
    if not 0 < time_limit <= 86_400:
        raise ShoalError("E_USAGE", "--time-limit is a number of seconds, 86400 at most.")
    limits = Limits(slots, seconds(answer_time), rates == "on", time_limit)
    days = None if keep_answers is None else whole_days(keep_answers)
    if sample:
        source, catalog, budget = sample_shop(home)
    kept = where(home, store)
    login = prepare(kept, source, catalog, budget, days, quiet=json)

    def ready(url: str, pid: int, flight: str | None) -> None:
        link = f"{url}/login?link={login}" if login else None
        if json:
            said = {"url": url, "login": link, "pid": pid} | ({"flight": flight} if flight else {})
            typer.echo(dumps(said))
        else:
            typer.echo(f"shoal serves at {url}" + (f" and {flight}" if flight else ""))
            if link:
                typer.echo(f"Open the console as the first custodian, once, within five minutes: {link}")
        sys.stdout.flush()

    raise typer.Exit(serve_over_http(kept, limits, place, ready))


def where(home: Path, store: str | None) -> Path | str:
    """Where the service is: a database where one is named, else a folder."""
    from shoal.service.stores.opening import is_database

    if store is not None and not is_database(store):
        raise ShoalError(
            "E_USAGE", "A store is named as postgresql://user@host/database.", hint="A folder is --home DIR."
        )
    return home if store is None else store


def prepare(
    kept: Path | str, source: str | None, catalog: Path, budget: str | None, days: int | None, *, quiet: bool
) -> str | None:
    """The data set that was named on the line, once; a link for the first custodian, while there is none."""
    from shoal.service.datasets import NewDataSet
    from shoal.service.service import OPERATOR, Service

    service = Service.open(kept, catch_up=False)
    try:
        if source is not None:
            name = dataset_name(source)
            if name not in service.datasets.names():
                if budget is None:
                    raise ShoalError("E_USAGE", "A new data set needs a budget.", hint="Write --budget 3,1e-5.")
                service.add_dataset(OPERATOR, NewDataSet(name, source, str(catalog), parse_budget(budget, "--budget")))
            elif budget is not None and not quiet:
                ledger = service.datasets.ledger(service.datasets.ledger_of(name))  # its source need not be there yet
                note_other_budget(name, parse_budget(budget, "--budget"), ledger.budget)
        if not service.datasets.names():
            raise ShoalError(
                "E_USAGE", "There is nothing to serve.", hint="Name a folder, or use: shoal service dataset add"
            )
        if days is not None:
            service.forget_answers(OPERATOR, days)
        return service.first_link()
    finally:
        service.close(0.0)


def note_other_budget(name: str, said: Budget, known: Budget | None) -> None:
    """A budget is a lifetime budget: what the line says about a data set that is there already changes nothing."""
    if known is not None and (said.epsilon, said.delta) != (known.epsilon, known.delta):
        has = f"epsilon {float(known.epsilon):g}, delta {float(known.delta):g}"
        typer.echo(
            f"The data set {name} is there already and keeps its budget ({has}); to raise it: shoal service dataset raise",
            err=True,
        )


def sample_shop(home: Path) -> tuple[str, Path, str]:
    """The shop of `shoal demo`: made-up people, their visits, and a catalog."""
    from shoal.datasets import write_shop

    folder = home / "sample"
    if not (folder / "shoal.toml").exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_shop(folder)
    return str(folder / "data"), folder / "shoal.toml", "3,1e-5"


def dataset_name(source: str) -> str:
    """A name from the last part of a path: data/ → data, My-Visits.duckdb → my-visits."""
    stem = Path(source.rstrip("/")).absolute().stem.lower()
    name = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in stem).strip("-_")
    return name if name[:1].isalpha() else f"d-{name}"[:63]


def seconds(text: str) -> float:
    """1s, 0.5s or off."""
    if text == "off":
        return 0.0
    try:
        found = float(text.removesuffix("s"))
    except ValueError:
        found = -1.0
    if not 0 < found <= 3600:
        raise ShoalError("E_USAGE", "--answer-time is a time such as 1s, or off.")
    return found


def whole_days(text: str) -> int:
    """400d."""
    if not text.removesuffix("d").isdecimal() or not 0 < int(text.removesuffix("d")) <= 36_500:
        raise ShoalError("E_USAGE", "A number of days is written as 400d.")
    return int(text.removesuffix("d"))
