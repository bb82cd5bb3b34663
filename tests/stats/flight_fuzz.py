"""Random messages at the Flight SQL door of a service; run as a program.

    python tests/stats/flight_fuzz.py --times 100000 --folder DIR [--keep FILE]

Prints one line of JSON for each part: messages, how the memory grew after the first tenth, what was charged, and log lines that
verify. A reply that is no error of ours ends it.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
from pathlib import Path

import pyarrow.flight as fl

sys.path.insert(0, str(Path(__file__).parent.parent / "unit" / "web" / "flight_sql"))
sys.path.insert(0, str(Path(__file__).parent.parent / "unit" / "web"))
from service_fuzz import memory
from test_flight import headers, spent, throw
from web_server import Served

from shoal.web.server import Doorway, Place, bound_socket


def run(folder: Path, times: int, seed: int) -> dict[str, object]:
    """All messages of a part, on a new service."""
    served = Served(folder)
    door = Doorway(served.service, Place(flight_port=0), bound_socket("127.0.0.1", 0))
    client = fl.connect(door.address)
    chance, before = random.Random(seed), memory()
    for number in range(times):
        throw(client, headers(served), chance)
        if number == times // 10:
            before = memory()
    lines, charges = served.service.check()
    found = {"messages": times, "grew": round(memory() - before, 1), "spent": float(spent(served)), "log lines": lines}
    client.close()
    door.close()
    served.close()
    return found | {"charges": charges}


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--times", type=int, default=100_000)
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--keep", type=Path)
    options.add_argument("--part", type=int, default=5000)
    said = options.parse_args()
    said.folder.mkdir(parents=True, exist_ok=True)
    kept = said.keep or said.folder / "flight.jsonl"
    before = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done, number = sum(line["messages"] for line in before), len(before)
    while done < said.times:
        number += 1
        part = said.folder / f"part{number}"
        part.mkdir(exist_ok=True)
        found = run(part, min(said.part, said.times - done), number)
        print(json.dumps(found), flush=True)
        with kept.open("a") as file:
            file.write(json.dumps(found) + "\n")
        shutil.rmtree(part)
        done += found["messages"]
    return 0


if __name__ == "__main__":
    sys.exit(main())
