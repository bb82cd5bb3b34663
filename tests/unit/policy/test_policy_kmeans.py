"""k-means under a policy: sound noise, exact sizes under parts, and the published noise caught by the tester."""

from fractions import Fraction

import numpy as np
import pytest

from shoal import audit, policy
from shoal.errors import ShoalError
from shoal.mechanisms.entropy import seeded_entropy
from shoal.mechanisms.sampling.samplers import discrete_laplace
from shoal.policy.kmeans import noisy_round, plan_kmeans

LINE = policy.Domain({"x": range(256)})
BOX = policy.Domain({"x": range(256), "y": range(256)})


CUBE = policy.Domain({"r": range(256), "g": range(256), "b": range(256)})


def sides(side, names=("x", "y")):
    return {name: list(range(0, 256, side)) for name in names}


def blobs(rows=1200, seed=0, spread=14):
    rng = np.random.default_rng(seed)
    middles = np.array([[60, 60], [190, 60], [60, 190], [200, 200]])
    points = middles[rng.integers(0, 4, rows)] + rng.normal(0, spread, (rows, 2))
    return np.clip(points, 0, 255).astype(int)


def colours(rows=2449, seed=0):
    rng = np.random.default_rng(seed)
    middles = np.array([[60, 60, 70], [190, 60, 100], [60, 190, 150], [200, 200, 200]])
    return np.clip(middles[rng.integers(0, 4, rows)] + rng.normal(0, 35, (rows, 3)), 0, 255).astype(int)


def squared_error(points, centers):
    return ((points[:, None, :] - np.asarray(centers)[None]) ** 2).sum(axis=2).min(axis=1).sum()


START = [(40, 80), (160, 40), (90, 160), (220, 220)]


def test_parts_make_sizes_exact_and_free():
    points = blobs()
    rule = policy.Policy(BOX, policy.partition(**sides(32)), name="parts")
    found = policy.kmeans({"x": points[:, 0], "y": points[:, 1]}, 4, rule, epsilon=0.5, start=START)
    assert found.sizes_exact
    assert sum(found.sizes) == len(points)
    assert found.epsilon <= Fraction(1, 2)
    assert plan_kmeans(rule, 10, Fraction(1, 2)).sums.shift.l1 == 2 * (31 + 31)


def test_other_policies_get_the_noise_of_replacement_and_say_so():
    rule = policy.Policy(BOX, policy.distance(x=2, y=2))
    points = blobs(200)
    found = policy.kmeans({"x": points[:, 0], "y": points[:, 1]}, 2, rule, iterations=3)
    assert not found.sizes_exact
    assert "replacement" in found.promise
    plan = plan_kmeans(rule, 3, Fraction(1))
    assert (plan.sums.shift.l1, plan.sizes.shift.l1) == (2 * 510, 2)
    assert found.epsilon <= 1


@pytest.mark.parametrize(("side", "epsilon", "most"), [(32, 0.5, 1.1), (64, 0.5, 1.25), (16, 0.1, 1.4)])
def test_clusters_under_parts_are_nearly_as_good_as_without_privacy(side, epsilon, most):
    """2,449 points in a cube of 256 values a side, 4 clusters, 10 rounds, 8 runs: the mean ratio of squared errors."""
    points = colours()
    data = dict(zip("rgb", points.T, strict=True))
    start = [(40, 80, 60), (160, 40, 90), (90, 160, 160), (220, 220, 190)]

    def error(side, epsilon):
        rule = policy.Policy(CUBE, policy.partition(**sides(side, "rgb")))
        return squared_error(points, policy.kmeans(data, 4, rule, epsilon=epsilon, start=start).centers)

    assert np.mean([error(side, epsilon) for _ in range(8)]) / error(2, 10**6) < most


def sums_of_two_clusters(points):
    """Records of a line about 64 and 192, and how they are assigned."""
    points = np.asarray(points, dtype=np.int64)
    return points, (points >= 128).astype(np.int64)


ENTROPY = seeded_entropy(1)
RULE = policy.Policy(LINE, policy.distance(x=2), name="near")
ACROSS = [([127], [129])]


def test_the_published_noise_on_sums_of_clusters_is_caught():
    def published(data, samples):
        points, nearest = sums_of_two_clusters(data)
        sums = np.array([points[nearest == 0].sum(), points[nearest == 1].sum()])
        return sums + discrete_laplace(Fraction(2), 2 * samples).reshape(samples, 2)  # θ/ε, as if no record crossed

    assert not audit.check(published, epsilon=1, inputs=ACROSS, search=False, samples=20_000).passed


def test_our_noise_on_sums_of_clusters_passes():
    plan = plan_kmeans(RULE, 1, Fraction(1))

    def ours(data, samples):
        points, nearest = sums_of_two_clusters(data)
        drawn = [noisy_round(plan, points.reshape(-1, 1), nearest, 2, ENTROPY) for _ in range(samples)]
        return np.array([[*sizes, *sums.ravel()] for sizes, sums in drawn])

    assert audit.check(ours, epsilon=1, inputs=ACROSS, search=False, samples=4_000).passed


def test_a_cluster_keeps_its_place_where_nobody_is():
    found = policy.kmeans(
        {"x": np.zeros(0, dtype=int)}, 1, policy.Policy(LINE, policy.partition(x=[0, 128])), start=[(9,)]
    )
    assert found.centers == [(9.0,)]


def test_wrong_use_is_refused():
    lists = policy.Policy(policy.Domain({"w": ["A", "B"]}), policy.full())
    for call in (
        lambda: policy.kmeans({"w": ["A"]}, 2, lists),
        lambda: policy.kmeans({"x": [1]}, 0, RULE),
        lambda: policy.kmeans({"x": [1]}, 2, RULE, start=[(1,)]),
        lambda: policy.kmeans({"x": [1]}, 2, RULE, iterations=0),
        lambda: policy.kmeans({"x": [1]}, 2, RULE, epsilon=-1),
    ):
        with pytest.raises(ShoalError):
            call()
