"""The one entry point: `python -m benchmarks NAME [OPTIONS]`. A benchmark is a module with `main(argv)`, imported when named."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec

BENCHMARKS = {
    "jobs": "four queries over ten million rows: plain SQL, hand-written bounding and shoal side by side",
    "scale": "the same queries over 1, 10 and 50 million rows",
    "engines": "one query on DuckDB, PostgreSQL and Spark, beside the plain GROUP BY of each",
    "noise": "draws per second of the samplers, ours and OpenDP's",
    "latency": "planning a query, and the program from its start to the first answer",
    "utility": "what the planner gains over an even split, from closed forms",
    "auto": "limits that find themselves: errors beside the best fixed limit, and intervals that hold the exact value",
    "quantiles": "quantiles by the exponential mechanism and off a noisy tree",
    "tpch": "published errors on TPC-H data, reproduced",
    "figures": "published figures, drawn again",
    "risk": "risk analysis of large tables",
    "anonymity": "anonymity on the UCI Adult data: every published number, and speed beside pycanon and anjana",
    "knowledge": "the calculators of partial knowledge, and private sketches",
    "local": "the local model against other libraries: microseconds a report",
    "policies": "policies beside owner-level privacy and OpenDP's tree",
    "guarantees": "composition of claims, exact and numerical, and the page of definitions",
    "ledgers": "charges and answers in a file and in PostgreSQL, sixteen at once, opening a long ledger, a service with it",
    "service": "a budget service over HTTP beside a session in the same process",
    "peers": "other libraries on the same jobs, in an environment of their own",
    "comparison": "groups released and errors beside other libraries, also on files of your own",
}


def usage() -> str:
    """What can be run."""
    known = [f"  {name:<11}{what}" for name, what in BENCHMARKS.items() if find_spec(f"benchmarks.{name}")]
    return "\n".join(["usage: python -m benchmarks NAME [OPTIONS]", "", *known])


def main(argv: list[str]) -> int:
    """Runs the benchmark that is named first."""
    name, *rest = argv or ["--help"]
    if name not in BENCHMARKS or not find_spec(f"benchmarks.{name}"):
        print(usage())
        return 0 if name in {"-h", "--help"} else 2
    return import_module(f"benchmarks.{name}").main(rest) or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
