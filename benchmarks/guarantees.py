"""Composition of claims, exact and numerical, and the page of definitions: one table of medians, in one run."""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING, Any

from dp_accounting.pld import common, privacy_loss_distribution

from shoal import definitions, guarantees
from shoal.guarantees import composing

if TYPE_CHECKING:
    from collections.abc import Callable

DELTA = 1e-6
INTERVAL = 1e-4


def main(argv: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks guarantees", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--parts", type=int, default=1000)
    options = parser.parse_args(argv)
    print("| claims | ours | dp-accounting | ratio | ε, ours | ε, theirs |\n|---|---|---|---|---|---|")
    for epsilon in (0.01, 0.1, 1.0):
        row(epsilon, options.parts, options.rounds)
    seconds, page = timed(definitions.to_html)
    print(f"\npage of definitions: {seconds:.3f} s, {len(page.encode()):,} bytes")
    return 0


def row(epsilon: float, parts: int, rounds: int) -> None:
    """One line: both ask for the ε of k equal claims at the same δ, one after the other."""
    ours, theirs, answers = [], [], (0.0, 0.0)
    for _ in range(rounds):
        composing._optimal_of.cache_clear()  # noqa: SLF001 - every round starts anew
        seconds, first = timed(lambda: exact(epsilon, parts))
        ours.append(seconds)
        seconds, second = timed(lambda: numerical(epsilon, parts))
        theirs.append(seconds)
        answers = first, second
    fast, slow = statistics.median(ours), statistics.median(theirs)
    print(
        f"| dp({epsilon:g})*{parts} | {1e3 * fast:.2f} ms | {1e3 * slow:.1f} ms | 1/{slow / fast:.0f} "
        f"| {answers[0]:.9f} | {answers[1]:.9f} |"
    )


def exact(epsilon: float, parts: int) -> float:
    """By the optimal rule."""
    return guarantees.compose(guarantees.Pure(epsilon) * parts, delta=DELTA, rule="optimal").epsilon


def numerical(epsilon: float, parts: int) -> float:
    """By the library's loss distribution of randomised response, at its usual interval."""
    parameters = common.DifferentialPrivacyParameters(epsilon, 0.0)
    one = privacy_loss_distribution.from_privacy_parameters(parameters, value_discretization_interval=INTERVAL)
    return float(one.self_compose(parts).get_epsilon_for_delta(DELTA))


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came out."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result
