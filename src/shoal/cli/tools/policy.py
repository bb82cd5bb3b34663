"""`shoal policy …`: what a policy of the catalog promises, and what it gains."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.output import write_json
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.catalog import TablePolicy

app = typer.Typer(
    name="policy", no_args_is_help=True, help="Policies: a stated, weaker promise for less noise. Reads no data."
)

CatalogFile = Annotated[Path, typer.Option("--catalog", metavar="FILE", help="The catalog that has the policy.")]
TableName = Annotated[str, typer.Option("--table", help="The table of the policy.")]
PolicyName = Annotated[str, typer.Option("--policy", help="The policy's name in the catalog.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def show(
    table: TableName, policy: PolicyName, catalog: CatalogFile = Path("shoal.toml"), *, json: Json = False
) -> None:
    """Show what a policy promises, how sensitive common questions are, and its stretch to hiding the whole value.

    Example: shoal policy show --catalog shoal.toml --table people --policy nearby_age
    """
    from shoal.policy.description import Description

    chosen = find(catalog, table, policy)
    described = Description(chosen.rule, chosen.max_rows_per_owner)
    if json:
        return write_json(described.to_dict())
    return typer.echo(str(described))


@app.command()
def compare(
    table: TableName,
    policy: PolicyName,
    catalog: CatalogFile = Path("shoal.toml"),
    epsilon: Annotated[float, typer.Option(help="The ε of one answer.")] = 1.0,
    *,
    json: Json = False,
) -> None:
    """Compare expected errors of histograms, ranges and sums with those of owner-level privacy at the same ε.

    Example: shoal policy compare --catalog shoal.toml --table people --policy nearby_age --epsilon 1
    """
    from shoal.policy import description

    chosen = find(catalog, table, policy)
    rows = description.compare(chosen.rule, epsilon=epsilon, max_rows_per_owner=chosen.max_rows_per_owner)
    if json:
        return write_json({"epsilon": epsilon, "questions": [row.to_dict() for row in rows]})
    typer.echo(chosen.rule.promise)
    return typer.echo(description.comparison_text(rows))


def find(catalog: Path, table: str, policy: str) -> TablePolicy:
    """The policy of that name, or what there is instead."""
    from shoal.catalog import Catalog, fold

    known = Catalog.load(catalog)
    found = known.table(table)
    if found is None:
        listed = ", ".join(sorted(t.name for t in known.tables.values()))
        raise ShoalError("E_USAGE", f"The catalog has no table {table!r}.", hint=f"Tables: {listed}.")
    chosen = found.policies.get(fold(policy))
    if chosen is None:
        listed = ", ".join(sorted(p.rule.name for p in found.policies.values())) or "none"
        raise ShoalError("E_USAGE", f"The table {table!r} has no policy {policy!r}.", hint=f"Policies: {listed}.")
    return chosen
