"""How much the planner gains over the even split ε/(N + 1): error of a sum and groups kept, from closed forms, no data.

    python -m benchmarks utility [--write]

`--write` puts the table into docs/theory/utility.md.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from pathlib import Path

from shoal.accounting.events import LaplaceNoise, OptimalSelection, Shift
from shoal.mechanisms.calibrate import laplace_scale, noise_quantile
from shoal.mechanisms.groups import half_point
from shoal.session import Session, connect

PAGE = Path(__file__).parent.parent / "docs" / "theory" / "utility.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
AGGREGATES, GROUPS = (1, 3, 10), (1, 5, 50)
UPPER = 100


def sample_session() -> Session:
    """A private table with ten numbers per row; nothing is ever read from it."""
    columns = {f"x{i}": {"bounds": [0, UPPER]} for i in range(max(AGGREGATES))}
    catalog = {"tables": {"t": {"owner": "uid", "columns": {**columns, "g": {"type": "varchar"}}}}}
    return connect({}, catalog=catalog)


def query(aggregates: int, groups: int) -> str:
    """SUM of that many columns by an unknown group."""
    sums = ", ".join(f"SUM(x{i}) AS s{i}" for i in range(aggregates))
    options = f"epsilon = {EPSILON}, delta = {float(DELTA)}, max_groups_contributed = {groups}"
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) g, {sums} FROM t GROUP BY g"


def even_split(aggregates: int, groups: int) -> tuple[float, int]:
    """Half-width of a sum and owners for an even chance, with Laplace noise and ε/(N + 1) for everything."""
    share = EPSILON / (aggregates + 1)
    shift = Shift(1000 * UPPER, groups)
    noise = LaplaceNoise(shift, laplace_scale(shift, share), Fraction(1, 1000))
    width = noise_quantile(noise, 0.95) * float(noise.grid)
    return width, half_point(OptimalSelection(share, DELTA, groups))


def planned(session: Session, aggregates: int, groups: int) -> tuple[float, int, str]:
    """The same of the plan that is really made."""
    select = session.explain(query(aggregates, groups)).to_dict()["selects"][0]
    noise = select["columns"][0]["releases"][0]["mechanism"].removeprefix("discrete ")
    rule = select["selection"]["rule"].replace("_", " ").lower()
    return select["columns"][0]["expected_error"], select["selection"]["owners_for_even_chance"], f"{noise}, {rule}"


def table() -> list[str]:
    """The rows of the page."""
    session = sample_session()
    lines = [
        (
            "| aggregates | groups per owner | chosen | ± of a sum: even split | planner | gain "
            "| owners for an even chance: even split | planner |"
        ),
        "|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    for aggregates in AGGREGATES:
        for groups in GROUPS:
            even_width, even_half = even_split(aggregates, groups)
            width, half, chosen = planned(session, aggregates, groups)
            lines.append(
                f"| {aggregates} | {groups} | {chosen} | {even_width:,.0f} | {width:,.0f} | {even_width / width:.2f}× "
                f"| {even_half:,} | {half:,} |"
            )
    return lines


def main(argv: list[str] | None = None) -> int:
    """Prints the table, or writes it into the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks utility", description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/theory/utility.md")
    arguments = parser.parse_args(argv)
    lines = table()
    print("\n".join(lines))
    if arguments.write:
        text = PAGE.read_text(encoding="utf-8")
        head, rest = text.split(BEGIN)
        PAGE.write_text(head + BEGIN + "\n" + "\n".join(lines) + "\n" + END + rest.split(END)[1], encoding="utf-8")
    return 0
