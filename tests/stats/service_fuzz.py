"""Malformed requests at the application of a service; run as a program.

    python tests/stats/service_fuzz.py --times 1000000 --folder DIR

Prints one line of JSON: requests, statuses, replies with 500, whether the log's chain verifies, and how the memory grew after the
first tenth, in MB.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "unit" / "service"))
from service_shop import counting, new_service, write_folder

from shoal.errors import ShoalError
from shoal.params import budget
from shoal.service.service import OPERATOR
from shoal.web.app import application

PATHS = (
    *(
        "me",
        "datasets",
        "datasets/visits",
        "datasets/visits/explain",
        "datasets/visits/epsilon_for",
        "jobs/j_x",
        "answers/a_x",
    ),
    *("datasets/visits/query", "datasets/visits/budget", "datasets/visits/tune", "datasets/visits/lift", "approvals"),
    *(
        "approvals/p_x",
        "tokens",
        "tokens/t_x",
        "users",
        "allowances",
        "log",
        "log/export",
        "log/anchor",
        "meaning",
        "health",
    ),
    *("ready", "metrics", "nothing", "datasets/%00", "datasets/..%2f", "jobs/" + "x" * 300),
)
PAGES = (
    "/",
    "/login",
    "/d/visits",
    "/d/visits/ask",
    "/a/a_x",
    "/log",
    "/people",
    "/static/shoal.css",
    "/%ff",
    "/openapi.json",
)
FIELDS = (
    "sql",
    "epsilon",
    "error",
    "level",
    "wait",
    "fresh",
    "reason",
    "composition",
    "name",
    "roles",
    "user",
    "to",
    "dataset",
)
TEXTS = (
    counting(0.01, "f"),
    "SELECT ,",
    "",
    "\x00",
    "\ud800",
    "ann",
    "visits",
    "'" * 50,
    "(" * 40,
    "🐟",
    "a" * 5000,
    "1e999",
)


def text(chance: random.Random) -> str:
    if chance.random() < 0.5:
        return chance.choice(TEXTS)
    return "".join(chr(chance.randrange(1, 0x2FFF)) for _ in range(chance.randrange(12)))


def value(chance: random.Random, depth: int = 0) -> object:
    """Any JSON."""
    kind = chance.randrange(9 if depth < 4 else 7)
    if kind == 7:
        return [value(chance, depth + 1) for _ in range(chance.randrange(3))]
    if kind == 8:
        return {text(chance): value(chance, depth + 1) for _ in range(chance.randrange(3))}
    numbers = (chance.randrange(-3, 100), chance.uniform(-2, 2), 10**400)
    return (text(chance), *numbers, None, True, "visits")[kind]


def body(chance: random.Random) -> bytes:
    if chance.random() < 0.1:
        return chance.randbytes(chance.randrange(60))
    said = {chance.choice(FIELDS): value(chance) for _ in range(chance.randrange(5))}
    if said.get("wait"):
        said["wait"] = 0
    data = bytearray(json.dumps(said).encode())
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def request(chance: random.Random, tokens: dict[str, str]) -> tuple[dict[str, object], bytes]:
    """One request as a server would hand it over."""
    path = f"/v1/{chance.choice(PATHS)}" if chance.random() < 0.85 else chance.choice(PAGES)
    bearer = chance.choice((*tokens.values(), *tokens.values(), "shoal_x", ""))
    headers = [(b"host", chance.choice((*[b"127.0.0.1"] * 20, b"evil.example", b"[")))]
    headers += [(b"authorization", f"Bearer {bearer}".encode()), (b"content-type", b"application/json")]
    if chance.random() < 0.2:
        name = chance.choice((b"idempotency-key", b"accept", b"cookie", b"origin", b"host", b"content-type", b"x"))
        headers.append((name, chance.randbytes(chance.randrange(30))))
    query = chance.choice((b"", b"", b"wait=0", b"level=2", b"after=-1&limit=x", b"wait=0&wait=0", b"\xff=%"))
    method = chance.choice(("GET", "POST", "POST", "POST", "DELETE", "PUT", "HEAD", "PATCH", "X"))
    scope = {
        "type": "http",
        "http_version": "1.1",
        "asgi": {"version": "3.0"},
        "scheme": "http",
        "root_path": "",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
        "state": {},
    }
    return scope, body(chance) if chance.random() < 0.8 else b""


async def status_of(app: object, scope: dict[str, object], data: bytes) -> int:
    """The status of the reply; 599 where there is none."""
    found = [599]
    sent = [False]

    async def receive() -> dict[str, object]:
        if sent[0]:
            return {"type": "http.disconnect"}
        sent[0] = True
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            found[0] = message["status"]

    await app(scope, receive, send)
    return found[0]


def memory() -> float:
    """What this process holds, in MB."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


async def throw(app: object, tokens: dict[str, str], times: int, seed: int, until: float) -> dict[str, object]:
    chance, statuses, bad = random.Random(seed), Counter(), []
    before = memory()
    for number in range(times):
        scope, data = request(chance, tokens)
        status = await status_of(app, scope, data)
        statuses[status] += 1
        if status in {500, 599}:
            bad.append((scope["method"], scope["path"], repr(scope["query_string"]), repr(data[:200])))
        if number == times // 10:
            before = memory()
        if time.monotonic() > until:
            break
    grew = round(memory() - before, 1)
    counted = dict(sorted(statuses.items()))
    return {
        "requests": sum(statuses.values()),
        "statuses": counted,
        "bad": bad[:5],
        "number of bad": len(bad),
        "grew": grew,
    }


def run(folder: Path, times: int, seed: int = 15, minutes: float = 1e6) -> dict[str, object]:
    """All of it on a new service."""
    service = new_service(folder / "home", write_folder(folder / "data"), budget((10**6, 1e-3)))
    service.start()
    tokens = {name: service.create_token(OPERATOR, name)["token"] for name in ("ann", "carla", "otto")}
    app = application(service)
    found = asyncio.run(throw(app, tokens, times, seed, time.monotonic() + 60 * minutes))
    try:
        found["log lines"], found["charges"] = service.check()
    except ShoalError as error:
        found["chain"] = str(error)
    service.close(30)
    return found


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--times", type=int, default=10_000)
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--seed", type=int, default=15)
    options.add_argument("--minutes", type=float, default=1e6)
    said = options.parse_args()
    said.folder.mkdir(parents=True, exist_ok=True)
    found = run(said.folder, said.times, said.seed, said.minutes)
    print(json.dumps(found), flush=True)
    return int(bool(found["number of bad"]) or "chain" in found)


if __name__ == "__main__":
    sys.exit(main())
