"""Attacks on k-anonymous tables: homogeneity, linkage, composition.

A release is k-anonymous when every combination of quasi-identifiers (here zip code, birth day and sex) is shared by at
least k rows. That hides *which* row is mine, and nothing else:

- linkage (Sweeney, 1997): with names removed but quasi-identifiers kept, a voter roll gives the names back;
- homogeneity (Machanavajjhala et al., 2006): when all k rows have the same diagnosis, mine is known;
- composition (Ganta et al., 2008): two hospitals publish; my diagnosis is in both of my classes, and few are.

The attacker knows everybody's quasi-identifiers, guesses the diagnosis that fits best, and is compared with one who
knows only which diagnosis is most common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from shoal.anonymity.recoding.enforce import enforce
from shoal.audit.attacks.private_sql import private_histogram
from shoal.audit.attacks.results import AttackResult, Curve
from shoal.frozen import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]

_MANY = 1 / (np.arange(30) + 5.0)  # chances of many diagnoses, none of them dominant
_FEW = np.array([0.6, 0.2, 0.1, 0.1])
_DELTA = 1e-6


@dataclass(frozen=True, slots=True)
class Patients:
    """Quasi-identifiers (zip, birth day, sex), a row for each patient, and the secret: a diagnosis."""

    quasi: Integers
    diagnosis: Integers

    @classmethod
    def made_up(cls, count: int, chances: Floats, rng: np.random.Generator) -> Patients:
        """Patients whose diagnosis has nothing to do with who they are: whatever is found out was leaked."""
        zips, days, sexes = rng.integers(0, 50, count), rng.integers(0, 60 * 365, count), rng.integers(0, 2, count)
        diagnosis = rng.choice(len(chances), count, p=chances / chances.sum())
        return cls(np.column_stack((zips, days, sexes)), diagnosis)

    def __len__(self) -> int:
        return len(self.diagnosis)


def equivalence_classes(quasi: Integers, k: int) -> Integers:
    """The class of each row in a k-anonymous release: recoded locally, and found again by the ranges it publishes.

    >>> equivalence_classes(np.array([[1], [2], [8], [9]]), 2).tolist()
    [0, 0, 1, 1]
    """
    names = [f"q{number}" for number in range(quasi.shape[1])]
    table = pa.table(dict(zip(names, quasi.T, strict=True)))
    released = enforce(table, names, k=k, recoding="local").to_arrow().group_by(names, use_threads=False).aggregate([])
    inside = np.ones((len(quasi), released.num_rows), dtype=bool)
    for values, name in zip(quasi.T, names, strict=True):
        low, high = np.array([_range(label) for label in released.column(name).to_pylist()]).T
        inside &= (low <= values[:, None]) & (values[:, None] <= high)
    classes: Integers = inside.argmax(axis=1)
    return classes


def _range(label: str | int) -> tuple[int, int]:
    """What a published label means: `[18, 34]`, or one number."""
    ends = [int(end) for end in str(label).strip("[]").split(",")]
    return ends[0], ends[-1]


def counts_by_class(patients: Patients, classes: Integers) -> Floats:
    """What a k-anonymous release says about each patient: how often each diagnosis occurs in the patient's class."""
    table = np.zeros((int(classes.max()) + 1, len(_MANY)), dtype=np.float64)
    np.add.at(table, (classes, patients.diagnosis), 1)
    counts: Floats = table[classes]
    return counts


def linkage(*, patients: int = 4000, k: int = 5, epsilon: float = 1.0, seed: int = 0) -> AttackResult:
    """Find each patient's row by quasi-identifiers taken from a public roll.

    >>> linkage(patients=500).curve("names removed").final > 0.99
    True
    """
    everyone = Patients.made_up(patients, _MANY, np.random.default_rng(seed))
    _, same = np.unique(everyone.quasi, axis=0, return_inverse=True)
    raw = counts_by_class(everyone, same)
    grouped = counts_by_class(everyone, equivalence_classes(everyone.quasi, k))
    curves = (
        _release("names removed, nothing else", everyone, raw),
        _release(f"k-anonymous, k = {k}", everyone, grouped),
        _private_release(everyone, epsilon),
    )
    return _result("linkage", everyone, curves)


def homogeneity(*, patients: int = 4000, epsilon: float = 1.0, seed: int = 0) -> AttackResult:
    """Read the diagnosis off classes in which all rows agree; the note says how many are certain.

    >>> result = homogeneity(patients=500)
    >>> result.curve("k-anonymous, k = 2").final > result.guessing
    True
    """
    everyone = Patients.made_up(patients, _FEW, np.random.default_rng(seed))
    curves = tuple(
        _release(f"k-anonymous, k = {k}", everyone, counts_by_class(everyone, equivalence_classes(everyone.quasi, k)))
        for k in (2, 5, 20)
    )
    return _result("homogeneity", everyone, (*curves, _private_release(everyone, epsilon)))


def _result(attack: str, everyone: Patients, curves: tuple[Curve, ...]) -> AttackResult:
    """Guessing always names the most common diagnosis."""
    guessing = float(np.bincount(everyone.diagnosis).max()) / len(everyone)
    return AttackResult(attack, f"the diagnosis of each of {len(everyone)} patients", guessing, curves)


def _release(defence: str, everyone: Patients, counts: Floats) -> Curve:
    """One release, one guess for each patient."""
    certain = float(np.mean((counts > 0).sum(axis=1) == 1))
    right = float(np.mean(counts.argmax(axis=1) == everyone.diagnosis))
    return Curve(defence, (1,), (right,), f"{certain:.1%} known for certain")


def _private_release(everyone: Patients, epsilon: float) -> Curve:
    """One private histogram of small cells, and one guess for each patient."""
    counts = _private_counts(everyone, epsilon)
    right = float(np.mean(counts.argmax(axis=1) == everyone.diagnosis))
    return Curve(_private_name(epsilon), (1,), (right,), "0.0% known for certain")


def _private_name(epsilon: float) -> str:
    return f"shoal, ε = {epsilon:.3g}, δ = {_DELTA:.0e} a release"


def _private_counts(patients: Patients, epsilon: float) -> Floats:
    """What a private release of counts by zip code, decade, sex and diagnosis says about each patient.

    Cells that too few people share do not appear; where nothing appears, the diagnoses' overall order is the guess.
    """
    zips, days, sexes = patients.quasi.T
    cells = {"zip": zips, "decade": days // 3650, "sex": sexes, "diagnosis": patients.diagnosis}
    table: dict[tuple[int, ...], Floats] = {}
    for (*cell, diagnosis), people in private_histogram(cells, epsilon, _DELTA).items():
        table.setdefault(tuple(cell), np.zeros(len(_MANY)))[diagnosis] = people
    common = np.bincount(patients.diagnosis, minlength=len(_MANY)) / len(patients)
    who = zip(zips.tolist(), (days // 3650).tolist(), sexes.tolist(), strict=True)
    return np.array([table.get(cell, 0.0) + common for cell in who])


def composition(
    *, patients: int = 4000, hospitals: int = 4, k: int = 5, epsilon: float = 1.0, seed: int = 0
) -> AttackResult:
    """Intersect the classes of patients who are in the releases of several hospitals.

    >>> result = composition(patients=1000)
    >>> result.curve("k-anonymous").final > 2 * result.guessing
    True
    """
    rng = np.random.default_rng(seed)
    shared = Patients.made_up(patients, _MANY, rng)
    tables = [_joined(shared, Patients.made_up(patients, _MANY, rng)) for _ in range(hospitals)]
    anonymous = [counts_by_class(table, equivalence_classes(table.quasi, k))[:patients] for table in tables]
    private = [_private_counts(table, epsilon)[:patients] for table in tables]
    curves = (
        _intersect(f"k-anonymous, k = {k}", shared, anonymous),
        _intersect(_private_name(epsilon), shared, private),
    )
    return _result("composition", shared, curves)


def _joined(shared: Patients, own: Patients) -> Patients:
    """A hospital's table: patients that all hospitals have, then its own."""
    return Patients(np.vstack((shared.quasi, own.quasi)), np.concatenate((shared.diagnosis, own.diagnosis)))


def _intersect(defence: str, shared: Patients, releases: list[Floats]) -> Curve:
    """After each release, the diagnosis with the largest product of counts; a count of 0 rules it out."""
    evidence = np.cumprod(releases, axis=0)
    recovered = [float(np.mean(seen.argmax(axis=1) == shared.diagnosis)) for seen in evidence]
    certain = float(np.mean((evidence[-1] > 0).sum(axis=1) == 1))
    return Curve(defence, tuple(range(1, len(releases) + 1)), tuple(recovered), f"{certain:.1%} known for certain")
