"""pure-ldp: randomise and aggregate n reports, microseconds a report by oracle. Hashing gets a seventh of the reports."""

import json
import sys
import time
from typing import Any

import numpy as np
from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseClient, HadamardResponseServer
from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer
from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

reports, values, epsilon = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


def microseconds(client: Any, server: Any, count: int) -> float:
    """Their own loop: privatise, aggregate, then all estimates."""
    weights = 1 / np.arange(1, values + 1)
    answers = np.random.default_rng(1).choice(values, size=count, p=weights / weights.sum()) + 1
    start = time.perf_counter()
    for answer in answers:
        server.aggregate(client.privatise(int(answer)))
    server.estimate_all(range(1, values + 1), suppress_warnings=True)
    return (time.perf_counter() - start) / count * 1e6


def hadamard() -> tuple[Any, Any]:
    """Hadamard response, the oracle of theirs that projective stands against."""
    server = HadamardResponseServer(epsilon, values)
    return HadamardResponseClient(epsilon, values, server.get_hash_funcs()), server


found = {
    "k-ary": microseconds(DEClient(epsilon, values), DEServer(epsilon, values), reports),
    "unary": microseconds(UEClient(epsilon, values, use_oue=True), UEServer(epsilon, values, use_oue=True), reports),
    "hashing": microseconds(
        LHClient(epsilon, values, use_olh=True), LHServer(epsilon, values, use_olh=True), max(1, reports // 7)
    ),
}
try:
    found["projective"] = microseconds(*hadamard(), reports)
except Exception as problem:  # noqa: BLE001 - the other oracles are the comparison
    sys.stderr.write(f"{type(problem).__name__}: {problem}\n")
print(json.dumps(found))
