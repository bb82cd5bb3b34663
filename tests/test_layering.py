"""Imports point down the layers only, and each dependency has one door (docs: src/shoal/README.md)."""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.xdist_group("layering")  # one process reads all files, and forgets them afterwards

SOURCE = Path(__file__).parent.parent / "src" / "shoal"

LAYERS = (
    ("frozen", "errors", "params", "exact", "remembered", "stack", "pages"),
    ("mechanisms", "accounting", "policies"),
    ("catalog", "plan"),
    ("sql",),
    ("rewrite",),
    ("engines",),
    ("schema", "release", "explain", "accuracy"),
    ("result", "plot", "session", "remote", "collections"),
    ("service",),
    ("cli", "web", "__main__"),
)
SUBLAYERS = {
    # Inside a room, in order: what stands later may use what stands earlier, never the other way round.
    "sql": (("grammar",), ("parse",), ("functions",), ("binding",), ("policy_clause",)),
    "mechanisms": (("entropy",), ("sampling",)),
    "accounting": (
        ("accountants", "events", "zcdp", "pld"),
        ("stores",),
        ("promises", "allowances", "suspension"),
        ("spending",),
        ("ledger",),
    ),
    "engines": (
        ("statements",),
        ("memory",),
        ("python_rows",),
        ("duckdb",),
        ("decoded",),
        ("buckets", "reading"),
        ("postgresql", "spark"),
        ("sources",),
    ),
    "risk": (
        ("hashing",),
        ("sketch",),
        ("membership", "private"),
        ("reports",),
        ("scanning", "joining"),
        ("checking",),
    ),
    "anonymity": (("hierarchies",), ("reports",), ("measuring",), ("searching",), ("recoding",), ("policy", "writing")),
    "audit": (("tester",), ("suite", "attacks")),
}
SIDE_TOOLS = (
    "tuning",
    "risk",
    "anonymity",
    "audit",
    "local",
    "policy",
    "knowledge",
    "guarantees",
    "definitions",
    "datasets",
)
SIDE_TOOLS_MAY_USE = {*LAYERS[0], *LAYERS[1], "catalog", "engines"}
THE_ROAD = {name for layer in LAYERS[:-1] for name in layer}
SIDE_TOOLS_MAY_ALSO_USE = {
    # The instruments that are turned on our own queries walk the road itself.
    **{f"tuning.{name}": THE_ROAD for name in ("tune", "pairs", "figures", "advice", "page")},
    "audit.suite": THE_ROAD | {"datasets", "local", "policy"},
    # Attacks also turn on the releases of two side tools.
    "audit.attacks": THE_ROAD | {"anonymity", "datasets", "risk"},
    # A path between two definitions names the conversions that can be executed.
    "definitions.relations": {"guarantees"},
    "definitions.page": {"guarantees"},
}
KNOWN_TO_THE_ROAD = {
    # Figures for the custodian have one home, and groups of a collection offer them.
    ("collections.utility", "tuning.tune"),
    ("collections.groups", "tuning.tune"),
}
UNLIMITED_ROOMS = {
    "sql/functions",  # one family of functions a file, with its forms
}
MOST_MODULES = 13

DOORS = {
    "sqlglot": ("sql", "plan.nodes", "engines"),
    "duckdb": ("engines", "release.postprocess", "risk.scanning.sources"),
    "opendp": ("mechanisms.sampling.opendp_samplers",),
    "dp_accounting": ("accounting",),
    "sqlite3": ("accounting.stores", "service.stores", "engines.decoded.sqlite_files"),
    "adbc_driver_postgresql": ("engines.postgresql.server",),
    "pyspark": ("engines.spark.engine",),
    "cloudpickle": ("collections.pickled",),
    "psycopg": ("accounting.stores.postgresql_server", "accounting.stores.postgresql", "service.stores.postgresql"),
    "random": (),
    "secrets": ("mechanisms.entropy", "accounting.stores", "accounting.spending.opening"),
    "scipy": (),
    "typer": ("cli",),
    "fastapi": ("web",),
    "starlette": ("web",),
    "pydantic": ("web.bodies",),
    "uvicorn": ("web.server", "web.operation.arrivals"),
    "jinja2": ("web",),
    "markupsafe": ("web.console.charts",),
    "httpx": ("remote",),
    "pandas": ("engines", "result"),
    "polars": ("engines", "result"),
}


@cache
def modules() -> dict[str, Path]:
    """`engines.duckdb` → its file, for every module below the package itself."""
    names = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        if name:
            names[name] = path
    return names


@cache
def parsed(path: Path) -> ast.Module:
    """A file as a tree; most tests here read all of them."""
    return ast.parse(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module", autouse=True)
def forgotten_trees() -> Iterator[None]:
    """A million nodes would be looked through at every search for garbage."""
    yield
    parsed.cache_clear()


@cache
def imported_by(path: Path, *, types: bool = True) -> set[str]:
    """Every absolute name that a file imports, wherever it does so; on request, leaving out what only types need."""
    found = set()
    tree = parsed(path)
    for node in ast.walk(tree) if types else running_nodes(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the layer"
            assert node.module is not None
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def running_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements but those under `if TYPE_CHECKING`: an import is one, so expressions are not looked into."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            waiting += (child for child in ast.iter_child_nodes(node) if isinstance(child, STATEMENTS))


STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)


def inside(name: str, known: dict[str, Path]) -> str | None:
    """`shoal.engines.base.Engine` → `engines.base`; None for names from elsewhere."""
    if not name.startswith("shoal."):
        return None
    parts = name.split(".")[1:]
    while parts and ".".join(parts) not in known:
        parts.pop()
    return ".".join(parts) or None


def edges(*, types: bool = True) -> list[tuple[str, str]]:
    known = modules()
    return [
        (importer, target)
        for importer, path in known.items()
        for name in imported_by(path, types=types)
        if (target := inside(name, known)) is not None and target != importer
    ]


def layer_of(module: str) -> int | None:
    head = module.split(".", maxsplit=1)[0]
    return next((number for number, names in enumerate(LAYERS) if head in names), None)


def test_every_module_has_a_place_in_the_house():
    homeless = [name for name in modules() if layer_of(name) is None and name.split(".")[0] not in SIDE_TOOLS]
    assert homeless == []


def test_imports_point_down_the_layers_only():
    upward = []
    for importer, target in edges():
        from_layer, to_layer = layer_of(importer), layer_of(target)
        if from_layer is None:
            continue
        if to_layer is None:
            # Shells stand above everything; nothing below them knows the side tools.
            if from_layer < len(LAYERS) - 1 and (importer, target) not in KNOWN_TO_THE_ROAD:
                upward.append((importer, target))
        elif to_layer > from_layer:
            upward.append((importer, target))
    assert upward == []


def sublayer_of(module: str) -> int | None:
    """Where a module stands inside its room; None for rooms without an order and for modules outside it."""
    room, _, rest = module.partition(".")
    name = rest.split(".")[0]
    return next((number for number, names in enumerate(SUBLAYERS.get(room, ())) if name in names), None)


def test_inside_a_room_imports_point_down_its_own_layers():
    upward = []
    for importer, target in edges(types=False):
        if importer.split(".")[0] != target.split(".")[0]:
            continue
        here, there = sublayer_of(importer), sublayer_of(target)
        if here is not None and there is not None and there > here:
            upward.append((importer, target))
    assert upward == []


def rooms() -> list[Path]:
    """Every folder of the package that holds modules, the package itself aside."""
    return sorted(path.parent for path in SOURCE.rglob("__init__.py") if path.parent != SOURCE)


@pytest.mark.parametrize("room", rooms(), ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_room_is_small_and_its_readme_names_every_module(room: Path):
    names = {path.stem for path in room.glob("*.py")} - {"__init__"}
    if room.relative_to(SOURCE).as_posix() not in UNLIMITED_ROOMS:
        assert len(names) <= MOST_MODULES
    readme = (room / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 8
    told = set(re.findall(r"`([a-z_0-9]+)(?:/|\.py)?`", readme))
    inner = {path.parent.name for path in room.glob("*/__init__.py")}
    assert (names | inner) - told == set()


def test_the_ground_floor_is_small_and_the_readme_names_every_module():
    names = {path.stem for path in SOURCE.glob("*.py")} - {"__init__", "__main__"}
    assert len(names) <= MOST_MODULES
    named = set(re.findall(r"`([a-z_0-9]+)\.py`", (SOURCE / "README.md").read_text(encoding="utf-8")))
    assert names - named == set()


def test_side_tools_stand_on_the_ground_and_never_on_each_other():
    wrong = []
    for importer, target in edges():
        head, target_head = importer.split(".")[0], target.split(".")[0]
        if head not in SIDE_TOOLS or target_head == head:
            continue
        allowed = SIDE_TOOLS_MAY_USE | SIDE_TOOLS_MAY_ALSO_USE.get(".".join(importer.split(".")[:2]), set())
        if target_head not in allowed:
            wrong.append((importer, target))
    assert wrong == []


def test_no_module_imports_in_a_circle():
    graph: dict[str, set[str]] = {}
    for importer, target in edges(types=False):
        graph.setdefault(importer, set()).add(target)
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"import circle: {' → '.join(reversed(error.args[1]))}")


def test_nobody_inside_imports_the_package_face():
    known = modules()
    offenders = [
        (module, name)
        for module, path in known.items()
        for name in imported_by(path)
        if name == "shoal"
        or (name.startswith("shoal.") and inside(name, known) is None and name != "shoal.__version__")
    ]
    assert offenders == []


@pytest.mark.parametrize("dependency", sorted(DOORS))
def test_each_dependency_has_one_door(dependency: str):
    doors = DOORS[dependency]
    offenders = [
        module
        for module, path in modules().items()
        if any(name == dependency or name.startswith(f"{dependency}.") for name in imported_by(path))
        and not any(module == door or module.startswith(f"{door}.") for door in doors)
    ]
    assert offenders == []


def test_random_bits_come_from_one_module():
    """`os.urandom` and NumPy's generators appear where they may: entropy, seeded sample data, seeded attackers.

    `local.client` is the second door, on purpose: it is copied to devices and imports nothing of ours. `release.computed.draws`
    is seeded by released numbers, and makes error bars of them: what it draws protects nobody.
    """
    allowed = ("mechanisms.entropy", "datasets", "audit", "local.client", "release.computed.draws")
    offenders = [
        module
        for module, path in modules().items()
        if not any(module == place or module.startswith(f"{place}.") for place in allowed)
        and re.search(r"\b(os|np|numpy)\.(urandom|random)\b", path.read_text(encoding="utf-8"))
        and any(
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and (node.value.id, node.attr) in {("os", "urandom"), ("np", "random"), ("numpy", "random")}
            for node in ast.walk(parsed(path))
        )
    ]
    assert offenders == []


def test_nobody_looks_at_the_class_of_a_measure_or_an_aggregate():
    """What they are is asked of them (plan/measures.py, plan/aggregates/). Assertions that narrow a type ask nothing.

    `verify` does look, on purpose: it shares no code with the passes.
    """
    known = modules()
    rooms = [name for name in known if name == "plan.measures" or name.startswith("plan.aggregates.")]
    defined = {node.name for name in rooms for node in parsed(known[name]).body if isinstance(node, ast.ClassDef)} - {
        "Steps",
        "Histogram",
        "Aggregate",
        "Clamped",
    }
    found = {
        name: number
        for name, path in known.items()
        if name.split(".")[0] not in {"plan", "policies", "policy"} and not name.startswith("rewrite.verify")
        if (number := classes_asked(path, defined)) > 0
    }
    assert found == {}


def classes_asked(path: Path, classes: set[str]) -> int:
    if "isinstance" not in path.read_text(encoding="utf-8"):
        return 0
    tree = parsed(path)
    asserted = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Assert) for part in ast.walk(node)}
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance" and id(node) not in asserted
    ]
    return sum(bool(classes & set(re.findall(r"\w+", ast.unparse(call.args[1])))) for call in calls)
