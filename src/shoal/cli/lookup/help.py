"""`shoal help E_UID_EXPOSED`, `shoal help risk-check`: what a code means, or a page of the documentation."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

import typer

from shoal.cli.lookup import pages, refusals
from shoal.cli.output import console, write_json
from shoal.errors import ShoalError


def _topics(incomplete: str) -> list[str]:
    """What the shell offers after `shoal help`."""
    short = [name.rsplit("/", 1)[1] for name in pages.names()]
    known = [*refusals.codes(), *dict.fromkeys(short), *pages.names()]
    return [one for one in known if one.lower().startswith(incomplete.lower())]


def help_(
    topic: Annotated[
        str,
        typer.Argument(
            help="An error code, or the name of a page. Without one, all codes and pages are listed.",
            autocompletion=_topics,
        ),
    ] = "",
    *,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain an error code, or show a page of the documentation.

    [bold]Example[/bold]

        shoal help E_JOIN_NOT_ON_UID
        shoal help first-queries
    """
    if not topic:
        return _list(json=json)
    code = topic.upper() if topic.upper().startswith("E_") else f"E_{topic.upper()}"
    found = refusals.explained(code)
    if found is not None:
        return write_json({"code": code, "meaning": found}) if json else typer.echo(found)
    named = pages.called(topic)
    if not named:
        raise _unknown(topic, code)
    if json:
        return write_json({"page": named[0], "markdown": pages.markdown(named[0])})
    return _show(named)


def _list(*, json: bool) -> None:
    if json:
        return write_json({"codes": refusals.codes(), "pages": pages.names()})
    typer.echo("Error codes (shoal help CODE):\n")
    typer.echo("\n".join(f"  {code}" for code in refusals.codes()))
    typer.echo("\nPages (shoal help NAME):\n")
    width = max(map(len, pages.names())) + 2
    return typer.echo("\n".join(f"  {name:<{width}}{pages.title(name)}" for name in pages.names()))


def _show(named: list[str]) -> None:
    """The page, laid out on a terminal and as Markdown elsewhere."""
    shown, text = console(), pages.text(named[0])
    if shown.is_terminal:
        from rich.markdown import Markdown

        shown.print(Markdown(text))
    else:
        typer.echo(text)
    if named[1:]:
        typer.echo(f"\nSee also: {', '.join(f'shoal help {name}' for name in named[1:])}")


def _unknown(topic: str, code: str) -> ShoalError:
    if topic.upper().startswith("E_"):
        near, what = get_close_matches(code, refusals.codes()), f"There is no error code {code}."
    else:
        short = {name.rsplit("/", 1)[1]: name for name in reversed(pages.names())}
        near, what = get_close_matches(topic.lower(), short), f"There is no page called {topic!r}."
        near += get_close_matches(code, refusals.codes(), cutoff=0.8)
    hint = f"Did you mean {' or '.join(near)}?" if near else "For a list of all codes and pages: shoal help."
    return ShoalError("E_USAGE", what, hint=hint)
