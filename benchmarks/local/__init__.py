"""The local model against other libraries, in one run: randomise and aggregate, microseconds a report.

    python -m benchmarks local [--reports 20000] [--values 128] [--epsilon 1] [--pictures] [--write]

The peers (pure-ldp, multi-freq-ldpy) run in an environment of their own under benchmarks/data/, with xxhash 3: their hashing raises
TypeError with xxhash 4. A library that cannot be installed or run is named as such. `--pictures` draws docs/figures/local-*.png.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path

from benchmarks.local import pictures, speed
from benchmarks.records import FOLDER, write_record
from benchmarks.showing import shown

__all__ = ["main"]


def main(argv: list[str] | None = None) -> int:
    """Measures, compares, and draws when asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks local", description=__doc__)
    parser.add_argument("--reports", type=int, default=20_000)
    parser.add_argument("--values", type=int, default=128)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--no-peers", action="store_true", help="measure shoal alone")
    parser.add_argument("--pictures", action="store_true", help="draw the figures of the tutorial")
    parser.add_argument("--folder", type=Path, default=pictures.FOLDER, help="where the pictures go")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/results/benchmarks.md")
    parser.add_argument("--results", type=Path, default=FOLDER, help="where the JSON record goes")
    asked = parser.parse_args(argv)
    load = os.getloadavg()
    if asked.pictures:
        pictures.draw_all(asked.folder)
    ours = speed.ours(asked.reports, asked.values, asked.epsilon)
    peers = {} if asked.no_peers else speed.peers(asked.reports, asked.values, asked.epsilon)
    alone = speed.alone(500 * asked.reports)
    shown(speed.table(ours, peers, alone), "local", load, write=asked.write)
    record = {
        "reports": asked.reports,
        "values": asked.values,
        "epsilon": asked.epsilon,
        "load_average": load[0],
        "ours": ours,
        "peers": {name: asdict(peer) for name, peer in peers.items()},
        "alone": alone,
    }
    print(f"\nwritten: {write_record('local', record, asked.results)}")
    return 0
