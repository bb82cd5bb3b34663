"""The numbers that must come out of the Adult data: most of them confirmed with ARX 3.9.2, built from its source."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from shoal import anonymity
from shoal.engines.sources import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Q9 = ("sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation", "salary-class")
Q7 = Q9[:7]
ON_OCCUPATION = {"k": 5, "sensitive": "occupation"}


@dataclass(frozen=True)
class Line:
    """A number as it should be, and as it is."""

    what: str
    expected: str
    found: str
    seconds: float
    right: bool

    def to_dict(self) -> dict[str, object]:
        """For the record."""
        return asdict(self)


@dataclass(frozen=True)
class Case:
    """A recoding: its demands, what should come out, and how many evaluations it may take."""

    expected: str
    options: dict[str, Any]
    suppressed: int | None = None
    quasi: tuple[str, ...] = Q7
    source: str = "adult.csv"
    population: bool = False
    tree: bool = False
    at_most: bool = False
    levels: tuple[int, ...] | None = None
    most_checked: int | None = None
    measure: str = "loss"
    extra: dict[str, Any] = field(default_factory=dict)


def _nine(k: int, suppress: float, loss: str, rows: int, levels: tuple[int, ...] | None = None) -> Case:
    return Case(loss, {"k": k, "suppress": suppress}, rows, Q9, levels=levels, most_checked=1000)


def _seven(loss: str, rows: int | None, suppress: float, *, tree: bool = False, **demands: Any) -> Case:
    return Case(loss, {**ON_OCCUPATION, **demands, "suppress": suppress}, rows, tree=tree)


def _inside(loss: str, **options: Any) -> Case:
    return Case(loss, options, source="adult_subset.csv", population=True)


CASES = (
    _nine(5, 0.0, "0.635544", 0, (0, 4, 1, 1, 3, 2, 2, 1, 0)),
    _nine(5, 0.01, "0.402001", 294),
    _nine(5, 0.02, "0.357482", 506),
    _nine(5, 0.05, "0.269635", 1346, (0, 3, 0, 0, 2, 1, 1, 2, 0)),
    _nine(5, 1.0, "0.227700", 2553),
    _nine(10, 0.0, "0.635544", 0),
    _nine(10, 0.01, "0.448440", 262),
    _nine(10, 0.05, "0.317842", 1437),
    _nine(10, 1.0, "0.267741", 3983),
    _seven("0.176520", 1458, 0.05),
    _seven("0.189767", 1071, 0.05, l=3),
    _seven("0.246462", 957, 0.05, l=5),
    _seven("0.238593", 1187, 0.05, entropy_l=3),
    _seven("0.195883", 1291, 0.05, recursive=(4, 3)),
    _seven("0.334391", 986, 0.05, t=0.5),
    _seven("0.816794", 235, 0.05, t=0.2),
    Case("0.724592", {**ON_OCCUPATION, "t": 0.2, "suppress": 0.05}, 1088, tree=True, levels=(1, 4, 0, 0, 3, 2, 2)),
    _seven("0.633309", 0, 0.0),
    _seven("0.633309", 0, 0.0, l=3),
    _seven("0.633309", 0, 0.0, l=5),
    _seven("0.633309", 0, 0.0, entropy_l=3),
    _seven("0.919023", 0, 0.0, t=0.2),
    _seven("0.776166", 0, 0.0, tree=True, t=0.2),
    Case("55170356", {"k": 5, "quality": "discernibility"}, 0, measure="discernibility"),
    Case("9800845", {"k": 5, "quality": "discernibility", "suppress": 0.05}, 85, measure="discernibility"),
    Case("188.512500", {"k": 5, "quality": "class_size"}, 0, measure="class_size"),
    Case("7.294317", {"k": 5, "quality": "class_size", "suppress": 0.05}, 1213, measure="class_size"),
    _inside("0.651186", k_map=20),
    _inside("0.310560", k_map=20, suppress=0.05),
    _inside("0.612238", presence=0.2),
    _inside("0.531084", presence=0.3),
    _inside("0.177202", presence=0.3, suppress=0.05),
    _inside("0.633131", presence=(0.05, 0.15)),
    Case("0.0400", {"k": 5, "recoding": "local"}, 0, Q9, at_most=True),
    Case("0.0212", {"k": 5, "recoding": "local"}, 0, at_most=True),
    Case("0.0720", {"k": 10, "recoding": "local"}, 0, Q9, at_most=True),
    Case("0.0410", {"k": 10, "recoding": "local"}, 0, at_most=True),
)


def checked(folder: Path) -> list[Line]:
    """Every number, printed as soon as it is known."""
    lines = []
    for line in (*_measured(folder), *(_recoded(folder, case) for case in CASES), *_owners(folder)):
        lines.append(line)
        mark = "ok   " if line.right else "WRONG"
        print(f"{mark} {line.what:<78} {line.found:>28} ({line.expected}) {line.seconds:6.2f} s", flush=True)
    return lines


def _recoded(folder: Path, case: Case) -> Line:
    options = dict(case.options)
    if case.population:
        options["population"] = str(folder / "adult.csv")
    if case.tree:
        options["distance"] = {"occupation": str(folder / "adult_hierarchy_occupation.csv")}
    began = time.perf_counter()
    made = anonymity.enforce(str(folder / case.source), quasi=list(case.quasi), hierarchies=str(folder), **options)
    seconds = time.perf_counter() - began
    value = made.quality[case.measure]
    right = value <= float(case.expected) if case.at_most else _same(value, case.expected)
    right &= case.suppressed is None or made.suppressed == case.suppressed
    right &= case.levels is None or tuple(made.levels.values()) == case.levels
    right &= case.most_checked is None or made.checked <= case.most_checked
    right &= case.at_most or bool(made.optimal)
    what = f"Q{len(case.quasi)} " + ", ".join(f"{key}={value}" for key, value in case.options.items())
    expected = f"{'≤ ' if case.at_most else ''}{case.expected}" + (
        "" if case.suppressed is None else f" [{case.suppressed}]"
    )
    found = f"{value:.6f} [{made.suppressed}] {made.checked} checked"
    return Line(what + (" hierarchical" if case.tree else ""), expected, found, seconds, right)


def _same(value: float, expected: str) -> bool:
    """Equal in all digits shown."""
    places = len(expected.partition(".")[2])
    return f"{value:.{places}f}" == expected


def _measured(folder: Path) -> Iterator[Line]:
    """What `measure` must find."""
    adult, subset = str(folder / "adult.csv"), str(folder / "adult_subset.csv")
    found = anonymity.measure(adult, ["sex", "race", "marital-status"], "occupation")
    yield _line("classes, k, unique, below 5", "63 1 2 21", found.classes, found.k, found.unique, found.below(5).owners)
    yield _line("Σ f²", "173628690", sum(size**2 * count for size, count in found.sizes.items()))
    yield _line("t, equal", "0.876633", found.sensitive["occupation"].t)
    found = anonymity.measure(adult, list(Q7))
    yield _line("Q7: classes, unique", "11089 7653", found.classes, found.unique)
    found = anonymity.measure(adult, ["sex", "workclass"], "occupation")
    column = found.sensitive["occupation"]
    yield _line("k, distinct l", "5 3", found.k, column.distinct)
    yield _line("entropy l, α", "2.871746 0.458738", column.entropy, column.alpha)
    yield _line("β, t equal", "46.574132 0.778662", column.beta, column.t)
    yield _line("c(2), c(3)", "0.847534 2.000000", column.recursive(2), column.recursive(3))
    ordered = anonymity.measure(adult, ["sex", "workclass"], "occupation", distance={"occupation": "ordered"})
    yield _line("t ordered", "0.243065", ordered.sensitive["occupation"].t)
    found = anonymity.measure(subset, list(Q7), population=adult)
    yield _line("subset: k, k-map, classes", "1 1 1976", found.k, found.k_map, found.classes)
    yield _line("unique, in the population too", "1559 747", found.unique, found.population_unique)
    journalist = found.risk.journalist
    yield _line(
        "journalist, prosecutor", "0.362381 0.655172", journalist and journalist.average, found.risk.prosecutor.average
    )


def _line(what: str, expected: str, *values: Any) -> Line:
    found = " ".join(f"{value:.6f}" if isinstance(value, float) else str(value) for value in values)
    return Line(what, expected, found, 0.0, found == expected)


def _owners(folder: Path) -> Iterator[Line]:
    """The data three times over, with one owner for the three copies of a row."""
    engine = open_source(str(folder / "adult.csv"))
    rows = pa.Table.from_batches(list(engine.combinations("adult", list(Q9)))).rename_columns([*Q9, "n"])
    engine.close()
    once = rows.take(pa.array([row for row, n in enumerate(rows.column("n").to_pylist()) for _ in range(n)])).drop(
        ["n"]
    )
    owned = once.append_column("owner", pa.array(range(once.num_rows)))
    thrice = pa.concat_tables([owned] * 3)
    yield _line("three copies without owners: k", "3", anonymity.measure(thrice, list(Q7)).k)
    found = anonymity.measure(thrice, list(Q7), owner="owner")
    yield _line("with owners: k, classes, unique", "1 11089 7653", found.k, found.classes, found.unique)
    made = anonymity.enforce(thrice, list(Q9), k=5, suppress=0.05, owner="owner", hierarchies=str(folder))
    yield _line("with owners, k=5, 5%", "0.269635 4038", made.loss, made.suppressed)
