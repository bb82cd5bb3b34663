"""multi-freq-ldpy: randomise and aggregate n reports, microseconds a report by oracle. Hashing gets a seventh of the reports."""

import json
import sys
import time
from typing import Any

import numpy as np
from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client

reports, values, epsilon = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])


def microseconds(client: Any, aggregate: Any, count: int) -> float:
    """Their own loop: one client call a report, one aggregation."""
    weights = 1 / np.arange(1, values + 1)
    answers = np.random.default_rng(1).choice(values, size=count, p=weights / weights.sum())
    aggregate([client(int(answer)) for answer in answers[:50]])  # compiles what it compiles
    start = time.perf_counter()
    aggregate([client(int(answer)) for answer in answers])
    return (time.perf_counter() - start) / count * 1e6


found = {
    "k-ary": microseconds(
        lambda x: GRR_Client(x, values, epsilon), lambda r: GRR_Aggregator_MI(r, values, epsilon), reports
    ),
    "unary": microseconds(
        lambda x: UE_Client(x, values, epsilon, True), lambda r: UE_Aggregator_MI(r, epsilon, True), reports
    ),
    "hashing": microseconds(
        lambda x: LH_Client(x, values, epsilon, True),
        lambda r: LH_Aggregator_MI(r, values, epsilon, True),
        max(1, reports // 7),
    ),
}
print(json.dumps(found))
