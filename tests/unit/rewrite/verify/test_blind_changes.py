"""Every field of every part of a plan, changed blindly: what `verify` lets pass is listed here, with the reason why it is harmless.

The changes of `plan_mutations` are chosen because they do harm. These are not chosen: numbers grow, shrink, vanish and change sign,
strings get letters, tuples are turned around, cut and repeated. A change that passes and is not on the list fails the test, and so
does one on the list that is refused now. Where several parts of a plan repeat a fact, it is changed in all of them, and what is
charged is computed anew (`everywhere`).
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from finished_plans import COLLECTION, SQL, finished_plans
from plan_mutations import EVERYWHERE, HARMLESS, changed
from plan_parts import everything, fields_of, name_of

from shoal.errors import InternalError, ShoalError
from shoal.rewrite.verify.statement import verify

TINY = Fraction(1, 10**12)
PLANS_FOR_A_WAY = 4
FEWEST_CHANGES = 2_000


def ways(old):
    """Blind changes of a value, by name."""
    if isinstance(old, bool):
        return {"not": not old}
    if isinstance(old, int):
        return {"+1": old + 1, "x2": old * 2, "-1": old - 1, "0": 0, "huge": 10**9, "negative": -old - 1}
    if isinstance(old, Fraction):
        numbers = {"x2": old * 2, "half": old / 2, "0": Fraction(0), "negative": -old - 1}
        return {**numbers, "+tiny": old + TINY, "-tiny": old - TINY}
    if isinstance(old, str):
        return {"none": "", "longer": f"x{old}"}
    if isinstance(old, tuple) and old:
        several = {
            "reversed": old[::-1],
            "turned": old[1:] + old[:1],
            "first": old[:1] * len(old),
            "cut": old[:1] + old[2:],
        }
        return {**(several if len(old) > 1 else {}), "empty": (), "longer": old + old[:1]}
    return {}


def passing(plans, catalog):
    """(part, field, way) of all changes that were made, and of those that `verify` did not refuse."""
    made, passed, tried = Counter(), set(), set()
    for name, plan in plans.items():
        for holder in list(everything(plan)):
            kind = name_of(holder)
            for field in fields_of(holder):
                if (kind, field) in HARMLESS:
                    continue
                for way, new in ways(getattr(holder, field)).items():
                    for everywhere in (False, True) if kind in EVERYWHERE else (False,):
                        key = (kind, field, way, everywhere)
                        if (key, name) in tried or made[key] >= PLANS_FOR_A_WAY:
                            continue
                        mutant = attempt(plan, holder, field, new, everywhere)
                        if mutant is None:
                            continue
                        tried.add((key, name))
                        made[key] += 1
                        if not is_refused(mutant, catalog):
                            passed.add((kind, field, way))
    return made, passed


def attempt(plan, holder, field, new, everywhere):
    try:
        return changed(plan, holder, field, lambda *_: new, everywhere)
    except Exception:  # noqa: BLE001 - no plan can be built with it, in whatever way that ends
        return None


def is_refused(mutant, catalog):
    try:
        verify(mutant, catalog)
    except (InternalError, ShoalError):
        return True
    except Exception:  # noqa: BLE001 - a plan that holds nonsense ends `verify` in another way: it is not run either
        return True
    return False


PASSING = {
    "more noise, or a looser claim about how far it must reach: what is charged follows from it": {
        ("GaussianNoise", "grid"): "+tiny x2",
        ("GaussianNoise", "sigma"): "+tiny x2",
        ("LaplaceNoise", "grid"): "+tiny x2",
        ("LaplaceNoise", "scale"): "+tiny x2",
        ("QuantileChoice", "around"): "+tiny -tiny x2",
        ("QuantileChoice", "scale"): "+tiny x2",
        ("RankTarget", "lean"): "+tiny half",
        ("RankTarget", "margin"): "+1 -1 huge x2",
        ("Shift", "entries"): "+1 huge x2",
    },
    "less within what was rounded up: the loss is derived again, and still covered": {
        ("GaussianNoise", "sigma"): "-tiny",
        ("JointGaussian", "epsilon"): "-tiny",
        ("QuantileChoice", "scale"): "-tiny",
        ("SelectedGaussian", "epsilon"): "-tiny",
        ("ThresholdSelection", "delta"): "-tiny",
        ("WholeSelection", "delta"): "-tiny",
    },
    "fewer groups appear: a higher threshold, a smaller δ, a smaller weight": {
        ("OptimalSelection", "delta"): "-tiny half",
        ("OptimalSelection", "epsilon"): "-tiny 0 half",
        ("ThresholdSelection", "threshold"): "+1 huge x2",
        ("WeightedSelection", "threshold"): "+1 huge x2",
        ("WeightedSelection", "weights"): "cut",
        ("WholeSelection", "threshold"): "+1 huge x2",
    },
    "the order of what is a set, or one of its members twice": {
        ("Aggregate", "aggregates"): "reversed turned",
        ("Aggregate", "keys"): "reversed turned",
        ("JointGaussian", "parts"): "reversed turned",
        ("QuantileChoice", "targets"): "reversed turned",
        ("Search", "choices"): "longer reversed turned",
        ("Search", "histograms"): "first reversed turned",
        ("Search", "sought"): "first reversed turned",
        ("SelectPlan", "events"): "reversed turned",
        ("SelectedGaussian", "parts"): "reversed turned",
        ("StoredRows", "fields"): "reversed turned",
    },
    "another question about rows of the same owners, or about released ones; one that cannot be run is refused before the charge": {
        ("Aggregate", "keys"): "cut",
        ("Call", "arguments"): "cut empty first longer reversed turned",
        ("Case", "branches"): "cut empty first longer reversed turned",
        ("Project", "items"): "cut empty reversed turned",
        ("PythonRows", "arguments"): "cut empty reversed turned",
        ("RowAggregate", "arguments"): "empty longer",
        ("Scan", "columns"): "first",
        ("Sort", "order"): "empty longer",
        ("WindowCall", "arguments"): "empty longer",
        ("WindowCall", "order"): "cut longer reversed turned",  # the second is the owner, who is one in each partition
        ("WindowCall", "partition"): "longer",
    },
    "words of the question that a finished plan has put into practice, or that mean nothing without groups": {
        ("Options", "inferred_bounds"): "longer none",
        ("Options", "min_owners"): "+1 -1 0 huge negative x2",
        ("Options", "noise"): "longer none",
        ("Options", "strategy"): "longer none",
    },
}
"""By the reason why it is harmless: (part, field) and the ways in which it may change."""


def test_what_passes_is_known_to_be_harmless(shop_tables):
    plans, catalog = finished_plans(shop_tables, [*(name for name in SQL if name != "numerical"), COLLECTION])
    made, passed = passing(plans, catalog)
    assert sum(made.values()) >= FEWEST_CHANGES
    known = {
        (part, field, way)
        for kind in PASSING.values()
        for (part, field), listed in kind.items()
        for way in listed.split()
    }
    assert passed - known == set()
    assert known - passed == set()
