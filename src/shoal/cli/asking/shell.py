"""`shoal shell`: one query after another, with what each costs before it is asked and what is left after it."""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.output import table_text, write_json
from shoal.cli.query import CatalogFile, Database, LedgerFile, TokenFile, User, everything, left_in_words, open_session
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from shoal.session import Session

WORDS = (
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP BY",
    "ORDER BY",
    "HAVING",
    "LIMIT",
    "JOIN",
    "COUNT(",
    "SUM(",
    "AVG(",
    "MEDIAN(",
)
LINES_KEPT = 1_000
LEAVE = frozenset({"exit", "quit", "\\q", ".quit", ".exit", ".q"})
HELP_WORDS = frozenset({"help", "?", ".help", "\\?", "\\h"})
TABLE_WORDS = frozenset({".tables", ".schema", "\\d", "\\dt"})
"""What other shells call SHOW TABLES and, with a name, DESCRIBE."""
HELP = """\
A query ends with a semicolon. SHOW TABLES; and DESCRIBE name; show what there is, as .tables and .schema name do; EXPLAIN PRIVACY
SELECT …; what a query would do. help shows this, exit leaves; Ctrl+C stops a query, and what it was charged stays charged."""


def shell(
    db: Database,
    catalog: CatalogFile = Path("shoal.toml"),
    ledger: LedgerFile = None,
    user: User = None,
    token_file: TokenFile = None,
    *,
    json: Annotated[bool, typer.Option("--json", help="Print each answer as a JSON object, and nothing else.")] = False,
) -> None:
    """Ask one query after another.

    [bold]Example[/bold]

        shoal shell --db data/ --ledger ledger.db
    """
    with open_session(db, catalog, ledger, user, token_file) as session:
        interactive = sys.stdin.isatty()
        if interactive:
            _remember(session)
            typer.echo(f"{session!r}\n{HELP}")
        for sql in _statements(interactive=interactive):
            _answer(session, sql, json=json)


def _answer(session: Session, sql: str, *, json: bool) -> None:
    """One query: its price, its answer, what is left. A refusal is said, and the shell goes on."""
    try:
        price = "" if json else _price(session, sql)
        if price:
            typer.echo(price)
        result = session.query(sql)
        if json:
            write_json(everything(result, None))
        else:
            typer.echo(table_text(result, None))
        if price:
            typer.echo(left_in_words(session))
    except ShoalError as error:
        typer.echo(str(error), err=True)
    except KeyboardInterrupt:
        typer.echo("\nStopped. What was charged stays charged.", err=True)


def _price(session: Session, sql: str) -> str:
    """What a query will cost; nothing where it costs nothing, or where only the answer can tell."""
    from shoal.remote import RemoteSession

    if sql.lstrip().upper().startswith("EXPLAIN"):
        return ""
    with suppress(ShoalError, KeyError, TypeError):  # a service may send anything
        if isinstance(session, RemoteSession):
            told = session.explain(sql).to_dict()
            if told["replay"]:
                return "costs nothing: it is released already"
            price = told["price"]["epsilon"], told["price"]["delta"]
        else:
            plan = session.plan(sql)
            price = (float(plan.epsilon), float(plan.delta)) if plan.selects else (0.0, 0.0)
        if price[0]:
            return f"costs ε = {price[0]:g}, δ = {price[1]:g}"
    return ""


def _statements(*, interactive: bool) -> Iterator[str]:
    """Statements that end with a semicolon; a line may contain several, and a statement may span lines."""
    waiting = ""
    while True:
        try:
            line = input(("shoal> " if not waiting else "  ...> ") if interactive else "")
        except EOFError:
            break
        except KeyboardInterrupt:
            waiting = ""
            typer.echo()
            continue
        if not waiting:
            word, _, rest = line.strip().rstrip(";").partition(" ")
            if word.lower() in LEAVE and not rest:
                return
            if word.lower() in HELP_WORDS and not rest:
                typer.echo(HELP)
                continue
            if word.lower() in TABLE_WORDS:
                yield f"DESCRIBE {rest}" if rest.strip() else "SHOW TABLES"
                continue
        waiting = f"{waiting}\n{line}" if waiting else line
        parts = _split(waiting)
        yield from (part for part in parts[:-1] if part.strip())
        waiting = parts[-1] if parts[-1].strip() else ""
    if waiting.strip():
        yield waiting


def _split(text: str) -> list[str]:
    """Cut at semicolons outside of quotes.

    >>> _split("SELECT ';'; SELECT 1;")
    ["SELECT ';'", ' SELECT 1', '']
    """
    parts, quote = [""], ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        elif character == ";":
            parts.append("")
            continue
        parts[-1] += character
    return parts


def _remember(session: Session) -> None:
    """Lines of earlier shells, and completion of tables, columns and words, where the system has readline."""
    try:
        import readline
    except ImportError:
        return
    tables = session.tables()
    names = sorted({*WORDS, *tables, *(column for table in tables.values() for column in table["columns"])})

    def complete(text: str, state: int) -> str | None:
        found = [name for name in names if name.lower().startswith(text.lower())]
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.parse_and_bind("tab: complete")
    with suppress(OSError):
        readline.read_history_file(history_file())
    atexit.register(_keep_history)


def history_file() -> Path:
    """Where the lines of earlier shells are kept."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "shoal" / "history"


def _keep_history() -> None:
    """The last lines, readable by their owner alone: strings of queries may name people."""
    import readline

    with suppress(OSError):
        history_file().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        readline.set_history_length(LINES_KEPT)
        readline.write_history_file(history_file())
        history_file().chmod(0o600)
