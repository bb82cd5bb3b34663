"""Microseconds a report of shoal's oracles and of the peers', and what shoal promises on its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.peers import PATIENCE, SCRIPTS, install, python, reason
from shoal import local
from shoal.local.client import Client
from shoal.local.oracles import Subset
from shoal.local.questions import _document
from shoal.local.weights import weights_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RUNS = 5
GOALS = {"unary": 10, "hashing": 10, "k-ary": 3}
"""How many times faster than the faster peer."""
ORACLES = ("k-ary", "unary", "hashing", "subset", "projective")
PEERS = {
    "pure-ldp": (("pure-ldp", "xxhash<4", "scikit-learn", "statsmodels"), "local_pure_ldp.py"),
    "multi-freq-ldpy": (("multi-freq-ldpy", "xxhash<4"), "local_multi_freq_ldpy.py"),
}


@dataclass(frozen=True, slots=True)
class Peer:
    """Microseconds a report by oracle, or why there are none."""

    microseconds: Mapping[str, float] = field(default_factory=dict)
    failure: str | None = None


def quickest(action: Callable[[], object], runs: int = RUNS) -> float:
    """Seconds of the quickest of some runs: a neighbour on the machine can only add to it."""
    taken = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return min(taken)


def question(oracle: str, values: int, epsilon: float) -> local.Choice:
    """A question with this oracle; k-ary randomized response is the subset oracle with one value."""
    texts = list(range(values))
    if oracle != "k-ary":
        return local.choice(texts, epsilon=epsilon, oracle=oracle)
    exact = local.choice(texts, epsilon=epsilon, oracle="subset").exact_epsilon
    weights = weights_for(exact)
    kary = Subset(values, weights, 1)
    pair = [weights.inside, weights.outside]
    return local.Choice(_document("choice", "", exact, oracle="subset", values=texts, weights=pair, **kary.parameters))


def zipf(count: int, values: int) -> np.ndarray:
    """Answers with Zipf's law."""
    weights = 1 / np.arange(1, values + 1)
    return np.random.default_rng(1).choice(values, size=count, p=weights / weights.sum())


def ours(reports: int, values: int, epsilon: float) -> dict[str, float]:
    """Randomise and aggregate, with the operating system's bits."""
    answers = zipf(reports, values)
    found = {}
    for oracle in ORACLES:
        asked = question(oracle, values, epsilon)
        found[oracle] = quickest(lambda asked=asked: asked.estimate(asked.randomize_many(answers))) / reports * 1e6
    return found


def peers(reports: int, values: int, epsilon: float) -> dict[str, Peer]:
    """Each library in the peers' environment."""
    return {name: run_peer(*PEERS[name], reports, values, epsilon) for name in PEERS}


def run_peer(packages: tuple[str, ...], script: str, reports: int, values: int, epsilon: float) -> Peer:
    """Installs and runs one library."""
    try:
        install(packages)
        command = [str(python()), str(SCRIPTS / script), str(reports), str(values), str(epsilon)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=PATIENCE)
    except (subprocess.SubprocessError, OSError) as problem:
        return Peer(failure=reason(problem))
    return Peer(json.loads(done.stdout.splitlines()[-1]))


def alone(reports: int = 10_000_000) -> dict[str, float]:
    """What has no peer: an estimate of very many reports, the client, and its import."""
    asked = local.choice(list(range(1024)), epsilon=1.0)
    rng = np.random.default_rng(1)
    points = rng.integers(0, asked.design.reports(), reports).astype("<i4")
    batch = local.Reports(asked.document, asked.fingerprint, asked.design, {"point": points})
    device, turns = Client(asked.to_json()), iter(range(10_000))
    client = quickest(lambda: [device.randomize(7, round=str(next(turns))) for _ in range(500)]) / 500
    return {
        f"seconds to estimate {reports:,} projective reports of 1024 values": quickest(
            lambda: asked.estimate(batch), 3
        ),
        "microseconds of the client, 1024 values": client * 1e6,
        "milliseconds to import the client": import_milliseconds(),
    }


def import_milliseconds() -> float:
    """Processor time of `import shoal.local.client` in a fresh interpreter, the best of ten."""
    code = "import time; start = time.process_time(); import shoal.local.client; print(time.process_time() - start)"
    runs = [subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True) for _ in range(10)]
    return min(float(run.stdout) for run in runs) * 1000


def table(ours: Mapping[str, float], peers: Mapping[str, Peer], alone: Mapping[str, float]) -> list[str]:
    """The comparison as lines of a page."""
    head = " | ".join(["oracle", "shoal, µs a report", *peers, "faster than the faster peer", "goal"])
    lines = [f"| {head} |", "|---|" + "---:|" * (len(peers) + 3)]
    for oracle, mine in ours.items():
        theirs = [peer.microseconds.get(oracle) for peer in peers.values()]
        known = [each for each in theirs if each is not None]
        ratio = f"{min(known) / mine:.0f} ×" if known else "–"
        goal = f"{GOALS[oracle]} ×" if oracle in GOALS else "–"
        cells = [oracle, f"{mine:.2f}", *("–" if each is None else f"{each:.1f}" for each in theirs), ratio, goal]
        lines.append(f"| {' | '.join(cells)} |")
    failures = [f"{name} could not be run: {peer.failure}" for name, peer in peers.items() if peer.failure]
    return [*lines, "", *(f"- {what}: {value:.3g}" for what, value in alone.items()), *failures]
