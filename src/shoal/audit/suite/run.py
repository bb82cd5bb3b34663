"""The audit of shoal by itself: every sampler, aggregate, selection rule and kind of query, at several ε.

Three methods. *Sampled*: the stochastic tester on neighbouring databases. *Exact*: what sampling cannot see, a realistic δ, is
summed from the law of the noise that is drawn, by formulas that the calibration does not use. *Replayed*: what one owner moves,
against what each mechanism declared, and nothing else may differ. False alarms of a whole run: at most 10⁻⁶.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import TYPE_CHECKING

from shoal.audit.suite import exact_checks, pipelines, policies, queries, surveys
from shoal.audit.suite.replay import replay
from shoal.audit.suite.rows import FALSE_ALARMS, Report, Row
from shoal.audit.suite.sampled_query import SampledQuery
from shoal.audit.suite.samplers import SAMPLERS
from shoal.audit.tester.check import check
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from shoal.audit.suite.kept import KeptRows
    from shoal.audit.suite.pipelines import Pipeline
    from shoal.audit.suite.policies import PolicyRelease
    from shoal.audit.suite.queries import PrivateQuery
    from shoal.audit.suite.rows import Key
    from shoal.audit.suite.samplers import Sampler
    from shoal.audit.suite.surveys import Randomiser
    from shoal.audit.tester.verdicts import Verdict
    from shoal.plan.releases import StatementPlan
    from shoal.session import Session

EPSILONS = (0.1, math.log(3), 4.0)
DEFAULT_SAMPLES = 100_000
DEEP_SAMPLES = 1_000_000
FEWEST_SAMPLES = 100


@dataclass(frozen=True, slots=True)
class _Found:
    """What a check found, before it becomes a row."""

    passed: bool
    delta: float
    note: str
    epsilon_lower: float | None = None
    power: float | None = None
    samples: int = 0


@dataclass(frozen=True, slots=True)
class Check:
    """One line to be: `run(ε, samples, confidence)`."""

    family: str
    name: str
    method: str
    epsilon: float
    run: Callable[[float, int, float], _Found]

    @property
    def key(self) -> Key:
        """What distinguishes it from all others."""
        return self.family, self.name, self.method, self.epsilon


def checks(families: Sequence[str] = ()) -> list[Check]:
    """All checks, or those of some families, in the order of the table."""
    known = list(_all_checks())
    order = list(dict.fromkeys(each.family for each in known))
    wanted = [each for each in known if not families or each.family in families]
    return sorted(wanted, key=lambda each: order.index(each.family))


def families() -> list[str]:
    """The families of checks, in order."""
    return list(dict.fromkeys(each.family for each in _all_checks()))


def _all_checks() -> Iterator[Check]:
    for sampler in SAMPLERS:
        yield from (Check("samplers", sampler.name, "sampled", e, _sampled(sampler)) for e in EPSILONS)
    for query in queries.QUERIES:
        yield from (Check(query.family, query.name, "sampled", e, _asked(query)) for e in EPSILONS)
    for query in queries.QUERIES:
        yield Check(query.family, query.name, "replayed", EPSILONS[1], _replayed(query))
    for pipeline in pipelines.PIPELINES:
        yield Check("collections", pipeline.name, "replayed", EPSILONS[1], _rebuilt(pipeline))
    for randomiser in surveys.RANDOMISERS:
        yield from (Check("local", randomiser.name, "sampled", e, _answered(randomiser)) for e in EPSILONS)
    for name, law in surveys.EXACT:
        yield from (Check("local", name, "exact", e, _computed(law)) for e in EPSILONS)
    for release in policies.RELEASES:
        yield from (Check("policies", release.name, "sampled", e, _under_policy(release)) for e in EPSILONS)
    for name, law in policies.EXACT:
        yield from (Check("policies", name, "exact", e, _computed(law)) for e in EPSILONS)
    for name, family, law in exact_checks.LAWS:
        yield from (Check(family, name, "exact", e, _computed(law)) for e in EPSILONS)


def run(
    samples: int = DEFAULT_SAMPLES,
    families: Sequence[str] = (),
    processes: int = 1,
    progress: Callable[[int, int, Row], None] | None = None,
    kept: KeptRows | None = None,
) -> Report:
    """Run the checks, several at once where `processes` allows; rows come in the order of the table.

    `progress` gets how many of how many are done, and the newest row. What is `kept` is not run again, and what is run is kept.
    """
    started = time.monotonic()
    wanted = checks(families)
    rows = (
        {} if kept is None else {i: row for i, each in enumerate(wanted) if (row := kept.row_of(each.key)) is not None}
    )
    missing = [number for number in range(len(wanted)) if number not in rows]
    for number, row in _rows(missing, samples, tuple(families), processes):
        rows[number] = row
        if kept is not None:
            kept.add(row)
        if progress is not None:
            progress(len(rows), len(wanted), row)
    return Report(tuple(rows[number] for number in sorted(rows)), samples, time.monotonic() - started)


def _rows(numbers: Sequence[int], samples: int, families: tuple[str, ...], processes: int) -> Iterator[tuple[int, Row]]:
    if processes == 1:
        yield from ((number, run_one(number, samples, families)) for number in numbers)
        return
    # Started afresh: a fork would copy engines with threads in them.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        waiting = {pool.submit(run_one, number, samples, families): number for number in numbers}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


def run_one(number: int, samples: int, families: tuple[str, ...] = ()) -> Row:
    """The row of one check."""
    wanted = checks(families)
    each = wanted[number]
    started, worked = time.monotonic(), time.process_time()
    found = each.run(each.epsilon, samples, 1 - FALSE_ALARMS / len(wanted))
    return Row(
        family=each.family,
        name=each.name,
        method=each.method,
        epsilon=each.epsilon,
        delta=found.delta,
        passed=found.passed,
        epsilon_lower=found.epsilon_lower,
        power=found.power,
        samples=found.samples,
        note=found.note,
        seconds=round(time.monotonic() - started, 2),
        processor_seconds=round(time.process_time() - worked, 2),
    )


# ---- the three methods -------------------------------------------------------------------------------------------


def _sampled(sampler: Sampler) -> Callable[[float, int, float], _Found]:
    def run_sampler(epsilon: float, samples: int, confidence: float) -> _Found:
        drawn = samples // sampler.slower
        mechanism = sampler.mechanism(epsilon)
        inputs = [("xxx", "xx"), ("x", "")]
        verdict = check(mechanism, epsilon, sampler.delta, inputs=inputs, samples=drawn, confidence=confidence)
        return _of_verdict(verdict)

    return run_sampler


def _answered(randomiser: Randomiser) -> Callable[[float, int, float], _Found]:
    def run_randomiser(epsilon: float, samples: int, confidence: float) -> _Found:
        drawn = max(samples // randomiser.slower, FEWEST_SAMPLES)
        mechanism = randomiser.mechanism(epsilon)
        verdict = check(
            mechanism, epsilon, inputs=[randomiser.pair], search=False, samples=drawn, confidence=confidence
        )
        return _of_verdict(verdict)

    return run_randomiser


def _asked(query: PrivateQuery) -> Callable[[float, int, float], _Found]:
    def run_query(epsilon: float, samples: int, confidence: float) -> _Found:
        drawn = max(samples // query.slower, FEWEST_SAMPLES)
        with SampledQuery(query.sql(epsilon), queries.CATALOG, queries.DATABASES) as mechanism:
            # What is asked is what is claimed; ε as the query writes it may be a little below.
            verdict = check(
                mechanism,
                mechanism.epsilon,
                mechanism.delta,
                inputs=queries.NEIGHBOURS,
                samples=drawn,
                confidence=confidence,
            )
        return _of_verdict(verdict)

    return run_query


def _under_policy(release: PolicyRelease) -> Callable[[float, int, float], _Found]:
    def run_release(epsilon: float, samples: int, confidence: float) -> _Found:
        verdict = check(
            release.mechanism(epsilon),
            epsilon,
            inputs=release.inputs(),
            search=False,
            samples=max(samples // 4, FEWEST_SAMPLES),
            confidence=confidence,
        )
        return _of_verdict(verdict)

    return run_release


def _of_verdict(verdict: Verdict) -> _Found:
    note = ""
    if not verdict.passed and verdict.witness is not None:
        seen = verdict.witness
        note = f"{seen.event}: {seen.count} of {seen.samples} on {seen.dataset!r}, "
        note += f"{seen.neighbour_count} of {seen.neighbour_samples} on {seen.neighbour!r}"
    power = verdict.power if math.isfinite(verdict.power) else None
    return _Found(verdict.passed, verdict.delta, note, verdict.epsilon_lower, power, verdict.samples)


def _replayed(query: PrivateQuery) -> Callable[[float, int, float], _Found]:
    return lambda epsilon, _samples, _confidence: _on_neighbours(query.sql(epsilon), query.delta)


def _rebuilt(pipeline: Pipeline) -> Callable[[float, int, float], _Found]:
    return lambda epsilon, _samples, _confidence: _on_neighbours(
        partial(pipeline.plan, epsilon=epsilon), pipeline.delta
    )


def _on_neighbours(asked: str | Callable[[Session], StatementPlan], delta: float) -> _Found:
    problems: list[str] = []
    entries = 0
    for larger, smaller in queries.NEIGHBOURS:
        found = replay(asked, queries.DATABASES[larger], queries.DATABASES[smaller], queries.CATALOG)
        problems.extend(found.problems)
        entries += len(found.entries)
    note = problems[0] if problems else f"{entries} entries, each within what was declared"
    return _Found(not problems, delta, note)


def _computed(law: Callable[[float], exact_checks.Computed]) -> Callable[[float, int, float], _Found]:
    def run_law(epsilon: float, _samples: int, _confidence: float) -> _Found:
        computed = law(epsilon)
        return _Found(computed.holds, computed.claimed, computed.note)

    return run_law
