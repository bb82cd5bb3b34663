"""Planted bugs of what is drawn and shown: noise, found bounds, HAVING and order."""

import math
from fractions import Fraction

import numpy as np
from planted import (
    INVARIANT,
    OWNERS,
    TABLES,
    TESTER,
    TOTAL,
    UNIT,
    WHOLE,
    is_caught_sampling,
    measured,
    planted,
    private,
    session,
)
from planted_noise import NONE, ONE, counting

from shoal.accounting.events import (
    LaplaceNoise,
    Shift,
)
from shoal.mechanisms import (
    noise,
    quantiles,
)
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.sampling import samplers
from shoal.release import execute, noisy

# ---- draws -------------------------------------------------------------------------------------------------------


def _two_groups():
    def mechanism(data, n):
        exact, entropy = [data.count("x"), data.count("y")], seeded_entropy(len(data))
        return np.array([noise.add_noise(UNIT, exact, entropy).astype(np.int64) for _ in range(n)])

    return mechanism


@planted(
    "one draw reused for all groups",
    "every group of a release gets the same noise",
    TESTER,
    is_caught_sampling(_two_groups, samples=1000, inputs=[(ONE, NONE)]),
)
def one_draw_for_all_groups(patch):
    honest = noise.draw_noise
    patch.setattr(noise, "draw_noise", lambda event, size, entropy: np.full(size, honest(event, 1, entropy)[0]))


@planted(
    "no noise on zeros",
    "a count of 0 is released as it is",
    TESTER,
    is_caught_sampling(counting(), samples=5000, inputs=[(ONE, NONE)]),
)
def zeros_without_noise(patch):
    honest = noise.add_noise
    patch.setattr(
        noise,
        "add_noise",
        lambda event, exact, entropy: np.where(np.asarray(exact) == 0, 0, honest(event, exact, entropy)),
    )


def _leaves_the_grid():
    with session() as asked:
        plan = asked.plan(private(TOTAL, **WHOLE))
        answers = [asked.query(private(TOTAL, **WHOLE)).to_arrow().column(0)[0].as_py() for _ in range(3)]
    grid = plan.selects[0].releases[0].noise.grid
    return any(Fraction(answer) % grid for answer in answers)


@planted(
    "naive floating-point Laplace",
    "textbook noise −b·sgn(u)·ln(1 − 2|u|) on doubles is added to the sum",
    INVARIANT,
    _leaves_the_grid,
)
def textbook_laplace(patch):
    def textbook(event, exact, entropy):
        u = entropy.uint64(len(exact)) / 2.0**64 - 0.5
        return np.asarray(exact, dtype=np.float64) - float(event.scale) * np.sign(u) * np.log1p(-2 * abs(u))

    patch.setattr(noisy, "add_noise", textbook)


def _wraps_around():
    return noise.add_noise(
        LaplaceNoise(Shift(1), Fraction(1, 100)), [2**63 - 1, 2**70], seeded_entropy(0)
    ).tolist() != [
        2**63 - 1,
        2**70,
    ]


@planted("integer wrap-around", "noise is added in 64 bits", INVARIANT, _wraps_around)
def noise_in_64_bits(patch):
    honest = noise.add_noise

    def narrow(event, exact, entropy):
        wide = honest(event, exact, entropy)
        return np.array([(int(v) + 2**63) % 2**64 - 2**63 for v in wide], dtype=object)

    patch.setattr(noise, "add_noise", narrow)


def _quantiles_are_drawn_again():
    forest = quantiles.NoisyTree(np.arange(4096), np.full(4096, 1), UNIT, branching=16, height=3)
    return len({forest.quantile(0.3) for _ in range(5)}) > 1


@planted(
    "fresh noise for every quantile",
    "a node of the tree gets new noise whenever it is visited",
    INVARIANT,
    _quantiles_are_drawn_again,
)
def nodes_drawn_again(patch):
    patch.setattr(
        quantiles.NoisyForest,
        "_children_of",
        lambda self, level, node, rows: self._count_children(level, node),  # noqa: ARG005 - the shape of what it replaces
    )


def _coins_are_biased():
    """10⁶ coins of chance 1/1000; 1000 ± 5.5 standard deviations: false alarm below 1e-7."""
    heads = samplers.bernoulli([Fraction(1, 1000)], np.zeros(10**6, dtype=np.int64), seeded_entropy(5)).sum()
    return not 826 <= heads <= 1174


@planted(
    "keep probabilities rounded to floats of few digits",
    "coins are thrown with 8 binary digits",
    INVARIANT,
    _coins_are_biased,
)
def coarse_coins(patch):
    honest = samplers.bernoulli

    def coarse(chances, which, entropy):
        return honest([Fraction(math.ceil(p * 256), 256) for p in chances], which, entropy)

    patch.setattr(samplers, "bernoulli", coarse)


# ---- bounds that are found ---------------------------------------------------------------------------------------

GUESSED = private("AVG(steps) AS average", **WHOLE)


def _finding_bounds():
    release = measured(GUESSED)[0].histograms[0]
    # One owner with a value between 512 and 1,024; what lies next to zero is never taken for bounds.
    exact = {
        present: np.array([[int(present and b == 40) for b in release.histogram.bins]]) for present in (True, False)
    }

    def mechanism(present, n):
        return [str(noisy.read_bounds(release, exact[present], seeded_entropy(i))[0]) for i in range(n)]

    return mechanism


@planted(
    "bounds from the data",
    "bounds are read off the exact histogram",
    TESTER,
    is_caught_sampling(_finding_bounds, samples=200, inputs=[(True, False)]),
)
def bounds_from_exact_counts(patch):
    patch.setattr(noisy, "add_noise", lambda _event, exact, _entropy: np.array([100 * n for n in exact], dtype=object))


# ---- what is shown of a release ----------------------------------------------------------------------------------

LISTED = "epsilon=0.1, max_groups_contributed=1, group_selection_strategy=PUBLIC_GROUPS"
BY_REGION = private(
    "COUNT(DISTINCT uid) AS n",
    options=LISTED,
    source="customers RIGHT JOIN (SELECT DISTINCT region FROM regions) AS r ON customers.region = r.region",
    group="r.region",
)


def _releasing():
    """Which groups are shown, in which order; on two databases, one of them without the only owner of a group."""
    kept = {
        present: measured(
            BY_REGION,
            {
                **TABLES,
                "customers": TABLES["customers"].slice(0, 0) if not present else TABLES["customers"].slice(0, 1),
            },
        )
        for present in (True, False)
    }

    def mechanism(present, n):
        plan, exact = kept[present]
        tables = [execute.release(plan, exact, seeded_entropy(i)).table for i in range(n)]
        return ["".join(table.column(0).to_pylist()) for table in tables]

    return mechanism


_SHOWN = is_caught_sampling(_releasing, epsilon=0.1, samples=300, inputs=[(True, False)])


@planted("HAVING on raw values", "groups without an owner are dropped by their exact count", TESTER, _SHOWN)
def having_on_raw_values(patch):
    honest = execute.selected

    def dropped(plan, owners, *given):
        kept, noisy = honest(plan, owners, *given)
        return kept[owners[kept] > 0], noisy

    patch.setattr(execute, "selected", dropped)


@planted("ORDER BY on raw values", "rows come in the order of their exact counts", TESTER, _SHOWN)
def order_by_raw_values(patch):
    honest = execute.release

    def ordered(plan, exact, entropy):
        place = np.argsort(-exact.measurement.owners, kind="stable")
        patch.setattr(type(entropy), "permutation", lambda _self, count: place[:count])
        return honest(plan, exact, entropy)

    patch.setattr(execute, "release", ordered)


def _orders_repeat():
    """Ten groups three times: the same order by chance once in 1.3·10¹³ runs."""
    with session() as asked:
        sql = private(OWNERS, options="epsilon=10000, delta=0.01, max_groups_contributed=9")
        return len({tuple(asked.query(sql).to_arrow().column(0).to_pylist()) for _ in range(3)}) == 1


@planted("database-order output", "rows come as the database gave them", INVARIANT, _orders_repeat)
def rows_in_database_order(patch):
    patch.setattr("shoal.mechanisms.entropy.Entropy.permutation", lambda _self, count: np.arange(count, dtype=np.int64))
