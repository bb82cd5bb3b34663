"""Malformed requests at a service; run as a program.

    python tests/stats/service_fuzz.py --times 1000000 --folder DIR [--keep FILE]

Four kinds: random requests and such that follow the description of the API, both handed to the application itself; bytes on the
socket of a real server, eight requests on a connection without waiting; and, one in a hundred, what Hypothesis thinks of. Prints
one line of JSON for each part: requests by kind, statuses, replies with 500, whether the log's chain verifies, and how the memory
grew after the first tenth, in MB. With `--keep`, lines are appended to a file and counted at the next start.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import shutil
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent / "unit" / "service"))
from service_shop import counting, new_service, write_folder

from shoal.errors import ShoalError
from shoal.params import budget
from shoal.service.service import OPERATOR
from shoal.web import server
from shoal.web.app import application

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shoal.service.service import Service

AT_ONCE = 8
STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
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


def described(
    chance: random.Random, tokens: dict[str, str], schema: dict[str, object]
) -> tuple[dict[str, object], bytes]:
    """A request that follows the description, but for a part of it in half of the cases."""
    scope, _ = request(chance, tokens)
    path = chance.choice(list(schema["paths"]))
    method = chance.choice(list(schema["paths"][path]))
    operation = schema["paths"][path][method]
    for name in re.findall(r"{(\w+)}", path):
        path = path.replace(f"{{{name}}}", chance.choice(("visits", "j_x", "a_x", "x" * 70, "%00")))
    asked = operation.get("parameters", ())
    query = "&".join(f"{p['name']}={fitting(chance, p['schema'], schema)}" for p in asked if p["in"] == "query")
    query = query if chance.random() < 0.8 else query + "&x=1"
    scope |= {"method": method.upper(), "path": path, "raw_path": path.encode()}
    scope["query_string"] = quote(query, safe="=&").encode()
    scope["headers"] = [*scope["headers"][1:], (b"host", b"127.0.0.1")]
    if "requestBody" not in operation:
        return scope, b""
    said = fitting(chance, operation["requestBody"]["content"]["application/json"]["schema"], schema)
    if isinstance(said, dict):
        said |= {"wait": 0} if "wait" in said else {}
        if chance.random() < 0.3:
            said[chance.choice([*said, "x"])] = value(chance)
        said |= {"wait": 0} if said.get("wait") else {}
    return scope, json.dumps(said).encode()


def fitting(chance: random.Random, about: dict[str, object], schema: dict[str, object]) -> object:
    """A value that a schema allows, at its edges as often as inside."""
    if "$ref" in about:
        about = schema["components"]["schemas"][about["$ref"].rpartition("/")[2]]
    if "anyOf" in about:
        return fitting(chance, chance.choice(about["anyOf"]), schema)
    if "enum" in about:
        return chance.choice(about["enum"])
    kind = about.get("type")
    if kind == "object":
        wanted = about.get("properties", {})
        kept = [name for name in wanted if name in about.get("required", ()) or chance.random() < 0.5]
        return {name: fitting(chance, wanted[name], schema) for name in kept}
    if kind == "array":
        number = about.get("minItems", chance.randrange(3))
        return [fitting(chance, about.get("items", {}), schema) for _ in range(number)]
    if kind in {"number", "integer"}:
        low, high = about.get("minimum", about.get("exclusiveMinimum", -10)), about.get("maximum", 1000)
        found = chance.choice((low, high, chance.uniform(low, high), 0, 1, 0.01))
        return int(found) if kind == "integer" else found
    if kind == "string":
        return text(chance)[: about.get("maxLength", 100)]
    return {"boolean": chance.random() < 0.5, "null": None}.get(str(kind), value(chance))


def throw_thoughts(app: object, tokens: dict[str, str], times: int) -> dict[str, object]:
    """What Hypothesis thinks of: methods, paths, query strings, headers and bodies of any bytes, and JSON of any shape."""
    leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
    anything = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=8), inner))
    bodies = st.binary(max_size=60) | st.dictionaries(st.sampled_from(FIELDS), anything).map(_unhurried)
    paths = st.sampled_from([f"/v1/{path}" for path in PATHS]) | st.text(max_size=20).map(lambda found: f"/{found}")
    statuses, bad = Counter(), []

    @settings(max_examples=times, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(
        st.sampled_from(("GET", "POST", "DELETE", "PUT")), paths, st.binary(max_size=20), bodies, st.integers(0, 2**32)
    )
    def one(method: str, path: str, query: bytes, data: bytes, seed: int) -> None:
        scope, _ = request(random.Random(seed), tokens)
        scope |= {"method": method, "path": path, "query_string": query}
        scope["raw_path"] = path.encode(errors="surrogatepass")
        status = asyncio.run(status_of(app, scope, data))
        statuses[status] += 1
        if status in {500, 599}:
            bad.append((method, path, repr(query), repr(data[:200])))

    one()
    return {"requests": statuses.total(), "statuses": statuses, "bad": bad[:5], "number of bad": len(bad), "grew": 0.0}


def _unhurried(said: dict[str, object]) -> bytes:
    return json.dumps(said | ({"wait": 0} if "wait" in said else {})).encode()


async def description_of(app: object) -> dict[str, object]:
    """What the service says of itself."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        return (await client.get("/openapi.json")).raise_for_status().json()


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


def as_bytes(chance: random.Random, scope: dict[str, object], data: bytes, *, broken: bool) -> bytes:
    """The same request on the wire; a broken one has wrong bytes in it."""
    target = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
    lines = [f"{scope['method']} ".encode() + target + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in scope["headers"]]
    lines.append(b"content-length: %d" % (len(data) - (broken and chance.random() < 0.2)))
    whole = bytearray(b"\r\n".join(lines) + b"\r\n\r\n" + data)
    for _ in range(chance.choice((1, 4, 16)) if broken else 0):
        whole[chance.randrange(len(whole))] = chance.randrange(256)
    return bytes(whole) if not broken or chance.random() < 0.8 else chance.randbytes(chance.randrange(200))


def replies_to(port: int, whole: bytes) -> Counter[int]:
    """Statuses of what comes back on one connection before it is closed."""
    said = b""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(whole)
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(65_536):
            said += piece
    return Counter(int(found) for found in STATUS.findall(said))


def throw_bytes(port: int, tokens: dict[str, str], times: int, seed: int) -> dict[str, object]:
    """Requests on the wire, the last of each connection broken; counted are those that were replied to."""
    chance, statuses, bad, before, sent = random.Random(seed), Counter(), [], memory(), 0
    while sent < times:
        parts = [as_bytes(chance, *request(chance, tokens), broken=n == AT_ONCE - 1) for n in range(AT_ONCE)]
        found = replies_to(port, b"".join(parts))
        if found[500]:
            bad.append([repr(part[:300]) for part in parts])
        statuses += found
        sent += found.total()
        if sent <= times // 10:
            before = memory()
    counted = dict(sorted(statuses.items()))
    return {
        "requests": sent,
        "statuses": counted,
        "bad": bad[:5],
        "number of bad": len(bad),
        "grew": round(memory() - before, 1),
    }


@contextmanager
def serving(service: Service) -> Iterator[int]:
    """A real server in a thread; its port."""
    place = server.Place(port=0)
    listening = server.bound_socket(place.host, place.port)
    running = server.Server(server.configuration(service, place))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        running.should_exit = True
        thread.join(10)


def memory() -> float:
    """What this process holds, in MB."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) / 1024


async def throw(
    app: object,
    make: Callable[[random.Random], tuple[dict[str, object], bytes]],
    times: int,
    seed: int,
    until: float,
) -> dict[str, object]:
    chance, statuses, bad = random.Random(seed), Counter(), []
    before = memory()
    for number in range(times):
        scope, data = make(chance)
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
    """All kinds, on a new service."""
    service = new_service(folder / "home", write_folder(folder / "data"), budget((10**6, 1e-3)))
    service.start()
    tokens = {name: service.create_token(OPERATOR, name)["token"] for name in ("ann", "carla", "otto")}
    app = application(service)
    schema = asyncio.run(description_of(app))
    until, thoughts, third = time.monotonic() + 60 * minutes, times // 100, times // 3
    kinds = {
        "random": asyncio.run(throw(app, lambda chance: request(chance, tokens), third, seed, until)),
        "described": asyncio.run(throw(app, lambda chance: described(chance, tokens, schema), third, seed, until)),
        "hypothesis": throw_thoughts(app, tokens, thoughts),
    }
    with serving(service) as port:
        left = times - sum(found["requests"] for found in kinds.values())
        kinds["on the wire"] = throw_bytes(port, tokens, left, seed + 1)
    found = {name: sum(kind[name] for kind in kinds.values()) for name in ("requests", "number of bad")}
    found["grew"] = round(sum(kind["grew"] for kind in kinds.values()), 1)
    found["bad"] = [each for kind in kinds.values() for each in kind["bad"]]
    found["kinds"] = {name: kind["requests"] for name, kind in kinds.items()}
    statuses = sum((Counter(kind["statuses"]) for kind in kinds.values()), start=Counter())
    found["statuses"] = dict(sorted(statuses.items()))
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
    options.add_argument("--keep", type=Path)
    options.add_argument("--part", type=int, default=20_000)
    said = options.parse_args()
    kept = said.keep or said.folder / "fuzz.jsonl"
    said.folder.mkdir(parents=True, exist_ok=True)
    before = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    done, bad, number = sum(line["requests"] for line in before), 0, len(before)
    while done < said.times:
        number += 1
        part = said.folder / f"part{number}"
        part.mkdir(exist_ok=True)
        found = run(part, min(said.part, said.times - done), said.seed + 2 * number)
        print(json.dumps(found), flush=True)
        with kept.open("a") as file:
            file.write(json.dumps(found) + "\n")
        shutil.rmtree(part)
        done += found["requests"]
        bad += bool(found["number of bad"]) or "chain" in found
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
