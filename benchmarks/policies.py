"""Policies beside owner-level privacy and OpenDP's tree: planning, exact sensitivities, a release over many rows, errors of ranges.

    python -m benchmarks policies [--share N] [--write] [--results FOLDER]

Times are processor seconds, the least of three runs, the first call of a process told apart; errors are mean squared errors over
all ranges. With --write the numbers go to benchmarks/results/policies-DATE.json and to the page of benchmarks.
"""

from __future__ import annotations

import argparse
import os
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import shoal
from benchmarks.records import FOLDER, write_record
from benchmarks.showing import shown
from shoal import policy
from shoal.policies import answers, planning

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

VALUES = 256
EPSILON = 1.0
RELEASES = 400


def seconds(run: Callable[[], object], runs: int = 3) -> float:
    """Processor time, the least of a few runs."""
    times = []
    for _ in range(runs):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def line(measured: float, goal: float) -> dict[str, float]:
    """A number beside what it should not exceed."""
    return {"measured": measured, "goal": goal}


def planning_and_sensitivity(share: int) -> dict[str, dict[str, float]]:
    """Plans and exact sensitivities of large domains; the first call and a later one."""
    ordered = policy.Policy(policy.Domain({"x": range(65_536 // share)}), policy.distance(x=5))
    wide = policy.Domain({"x": range(1000 // share), "y": range(1000)})
    near = policy.Policy(wide, policy.distance(x=5))

    def sensitivity() -> None:
        near.l1(policy.linear(lambda record: record["x"] * record["y"] % 97, name="mixed"))

    return {
        "planning the prefixes of 65,536 values, s": line(
            seconds(lambda: policy.explain(policy.cumulative("x"), ordered, epsilon=EPSILON)), 0.5
        ),
        "l1 of a linear query on 10⁶ values, first call, s": line(seconds(sensitivity, runs=1), 2),
        "l1 of a linear query on 10⁶ values, s": line(seconds(sensitivity), 2),
    }


def release_of_many_rows(share: int) -> dict[str, dict[str, float]]:
    """A histogram of 10⁷ rows under a policy, against the same histogram under owner-level privacy."""
    rows = 10**7 // share
    data = pa.table({"uid": np.arange(rows), "age": np.random.default_rng(0).integers(0, 101, rows)})
    rule = policy.Policy(policy.Domain({"age": range(101)}), policy.distance(age=5))
    groups = pa.table({"age": np.arange(101)})
    catalog = {"tables": {"people": {"owner": "uid"}, "ages": {"public": True}}}
    sql = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, max_groups_contributed = 1, "
        "group_selection_strategy = PUBLIC_GROUPS) age, COUNT(DISTINCT uid) AS n "
        "FROM people RIGHT JOIN ages USING (age) GROUP BY age"
    )
    with shoal.connect({"people": data, "ages": groups}, catalog) as session:
        owner_level = seconds(lambda: session.query(sql))
    ours = seconds(lambda: policy.release(data, policy.histogram("age"), rule, epsilon=1.0, owner="uid"))
    plain = seconds(lambda: policy.release(data, policy.histogram("age"), rule, epsilon=1.0))
    return {
        "histogram of 10⁷ rows with owners / owner-level query": line(ours / owner_level, 1.2),
        "histogram of 10⁷ rows without owners / owner-level query": line(plain / owner_level, 1.2),
    }


def range_error(noisy: NDArray[np.float64], truth: NDArray[np.float64]) -> float:
    """The mean squared error over all ranges, from prefix errors: (m + 1)·Σe² − (Σe)² over m(m + 1)/2 ranges."""
    gaps = np.append(0.0, noisy - truth)
    count = len(gaps)
    return float((count * (gaps**2).sum() - gaps.sum() ** 2) / (count * (count - 1) / 2))


def opendp_tree_errors(counts: NDArray[np.int64], epsilon: float, releases: int) -> float:
    """OpenDP's consistent b-ary tree with its own choice of branching, Laplace noise at this ε for one record more or less."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    branching = dp.t.choose_branching_factor(size_guess=int(counts.sum()))
    domain, metric = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    tree = dp.t.make_b_ary_tree(domain, metric, leaf_count=len(counts), branching_factor=branching)
    measured = dp.binary_search_chain(lambda s: tree >> dp.m.then_laplace(s), d_in=1, d_out=epsilon)
    consistent = dp.t.make_consistent_b_ary_tree(branching)
    truth = np.cumsum(counts).astype(float)
    release = measured >> consistent
    errors = [range_error(np.cumsum(release(counts.tolist())), truth) for _ in range(releases)]
    return float(np.mean(errors))


def our_errors(counts: NDArray[np.int64], theta: int, releases: int) -> float:
    """Ours under distance θ, before constrained inference."""
    domain = policy.Domain({"x": range(len(counts))})
    rule = policy.Policy(domain, policy.distance(x=theta))
    plan = planning.plan_release(policy.cumulative("x"), rule, Fraction(1))
    records = _Counts(counts)
    truth, n = np.cumsum(counts).astype(float), int(counts.sum())
    errors = [
        range_error(answers.prefix_estimates(plan, answers.draw(plan, records), n), truth) for _ in range(releases)
    ]
    return float(np.mean(errors))


class _Counts:
    """The histogram of one attribute, as a plan reads it."""

    def __init__(self, counts: NDArray[np.int64]) -> None:
        self.n, self._counts = int(counts.sum()), counts

    def counts(self, names: tuple[str, ...]) -> NDArray[np.int64]:
        """How many records have each value."""
        del names
        return self._counts


def errors_of_ranges(share: int) -> dict[str, dict[str, float]]:
    """Mean errors over all ranges of 256 values, as ratios to OpenDP's tree."""
    counts = np.random.default_rng(1).poisson(40, VALUES)
    releases = max(5, RELEASES // share)
    same_epsilon = opendp_tree_errors(counts, EPSILON, releases)
    same_promise = opendp_tree_errors(counts, EPSILON / 2, releases)
    found = {theta: our_errors(counts, theta, releases) for theta in (1, 4, VALUES - 1)}
    return {
        "range error at θ = 1 / OpenDP's tree, same ε": line(found[1] / same_epsilon, 0.1),
        "range error at θ = 4 / OpenDP's tree, same ε": line(found[4] / same_epsilon, 0.75),
        "range error at θ = 255 / OpenDP's tree, same promise (ε/2)": line(found[VALUES - 1] / same_promise, 1),
    }


def main(argv: list[str]) -> int:
    """Measure, show, and write when asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks policies", description=__doc__)
    parser.add_argument("--share", type=int, default=1, help="divide sizes by this")
    parser.add_argument("--write", action="store_true", help="put the table on the page of benchmarks")
    parser.add_argument("--results", type=Path, default=None, help="where the record goes")
    options = parser.parse_args(argv)
    load = os.getloadavg()
    found = {
        **planning_and_sensitivity(options.share),
        **release_of_many_rows(options.share),
        **errors_of_ranges(options.share),
    }
    lines = ["| what | measured | at most |", "|---|---|---|"]
    lines += [f"| {what} | {each['measured']:.3g} | {each['goal']:g} |" for what, each in found.items()]
    shown(lines, "policies", load, write=options.write)
    if options.write or options.results:
        write_record("policies", {"lines": found}, options.results or FOLDER)
    return 0
