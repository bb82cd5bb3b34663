"""How much the planner gains over the even split ε/(N + 1): errors of a sum and groups kept, from closed forms, no data.

    python -m benchmarks utility [--write]

Prints the table and writes benchmarks/results/utility-DATE.json; `--write` puts the table into docs/results/utility.md.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.records import FOLDER, replace_between, write_record
from shoal.accounting.events import LaplaceNoise, OptimalSelection, Shift
from shoal.mechanisms.calibrate import laplace_scale, noise_quantile
from shoal.mechanisms.group_selection import half_point
from shoal.session import Session, connect

if TYPE_CHECKING:
    from shoal.accounting.events import AdditiveNoise

PAGE = Path(__file__).parent.parent / "docs" / "results" / "utility.md"
EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
AGGREGATES, GROUPS = (1, 3, 10), (1, 5, 50)
UPPER, LEVEL = 100, 0.95
HEADER = [
    (
        "| aggregates | groups per owner | chosen | ± of a sum at 95%: even split | planner | gain "
        "| median error of a sum: even split | planner | gain | owners for an even chance: even split | planner |"
    ),
    "|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|",
]


@dataclass(frozen=True)
class Outcome:
    """What one way to spend (ε, δ) is worth: the half-width at 95%, the median error, owners for an even chance."""

    width: float
    median: float
    owners: int


@dataclass(frozen=True)
class Comparison:
    """The even split and the plan that is really made, for one shape of query."""

    aggregates: int
    groups: int
    chosen: str
    even: Outcome
    planned: Outcome

    def line(self) -> str:
        """One row of the page; a gain above 1 is the planner's."""
        even, planned = self.even, self.planned
        return (
            f"| {self.aggregates} | {self.groups} | {self.chosen} "
            f"| {even.width:,.0f} | {planned.width:,.0f} | {even.width / planned.width:.2f}× "
            f"| {even.median:,.0f} | {planned.median:,.0f} | {even.median / planned.median:.2f}× "
            f"| {even.owners:,} | {planned.owners:,} |"
        )


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


def outcome(noise: AdditiveNoise, owners: int) -> Outcome:
    """Errors from the exact tails of the discrete noise."""
    width, median = (noise_quantile(noise, level) * float(noise.grid) for level in (LEVEL, 0.5))
    return Outcome(width, median, owners)


def even_split(aggregates: int, groups: int) -> Outcome:
    """Laplace noise and the optimal selection, with ε/(N + 1) for each."""
    share = EPSILON / (aggregates + 1)
    shift = Shift(1000 * UPPER, groups)
    noise = LaplaceNoise(shift, laplace_scale(shift, share), Fraction(1, 1000))
    return outcome(noise, half_point(OptimalSelection(share, DELTA, groups)))


def compared(session: Session, aggregates: int, groups: int) -> Comparison:
    """The plan that is really made, beside the even split."""
    sql = query(aggregates, groups)
    select = session.explain(sql).to_dict()["selects"][0]
    noise = select["columns"][0]["releases"][0]["mechanism"].removeprefix("discrete ")
    rule = select["selection"]["rule"].replace("_", " ").lower()
    (plan,) = session.plan(sql).selects
    # The last sum: the first may have a larger share of ε, where groups are selected by it.
    last = plan.releases[plan.columns[-1].releases[0]].noise
    planned = outcome(last, select["selection"]["owners_for_even_chance"])
    return Comparison(aggregates, groups, f"{noise}, {rule}", even_split(aggregates, groups), planned)


def comparisons() -> list[Comparison]:
    """The rows of the page."""
    session = sample_session()
    return [compared(session, aggregates, groups) for aggregates in AGGREGATES for groups in GROUPS]


def table(found: list[Comparison]) -> list[str]:
    """The table of the page."""
    return [*HEADER, *(one.line() for one in found)]


def main(argv: list[str]) -> int:
    """Prints the table, writes the record and, when asked, the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks utility", description=__doc__)
    parser.add_argument("--results", type=Path, default=FOLDER, help="where the JSON file goes")
    parser.add_argument("--write", action="store_true", help="put the table into docs/results/utility.md")
    asked = parser.parse_args(argv)
    found = comparisons()
    print("\n".join(table(found)))
    if asked.write:
        replace_between(PAGE, "table", table(found))
    numbers = {"epsilon": float(EPSILON), "delta": float(DELTA), "level": LEVEL, "rows": [asdict(one) for one in found]}
    print(f"\n{write_record('utility', numbers, asked.results)}")
    return 0
