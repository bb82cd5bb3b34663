"""Histograms and the events chosen from them."""

import numpy as np
import pytest

from shoal.audit.tester.event_search import Halves, last_bit, make_views, most_telling
from shoal.audit.tester.outcomes import Vocabulary, encode


def _views(first, second, *, floating_point=False):
    vocabulary = Vocabulary()
    halves = []
    for samples in (first, second):
        outcomes = encode(samples, len(samples), vocabulary)
        middle = len(outcomes) // 2
        halves.append(Halves(outcomes.rows(slice(middle)), outcomes.rows(slice(middle, None))))
    return make_views(*halves, vocabulary, floating_point=floating_point)


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def test_every_sample_falls_into_exactly_one_bin_of_every_view(rng):
    first = [(x, "a") if x > 0 else (None, "b") for x in rng.normal(size=4000)]
    second = [(x, y) for x, y in rng.normal(size=(3000, 2))]
    for view in _views(first, second, floating_point=True):
        assert [h.sum() for h in view.train] == [2000, 1500]
        assert [h.sum() for h in view.test] == [2000, 1500]


def test_the_event_for_shifted_noise_is_a_half_line(rng):
    (view,) = _views(rng.laplace(size=20_000) + 1, rng.laplace(size=20_000))
    refuting, certifying = most_telling(view, 0.5, 0.0, 5.0)
    assert view.bins.text(refuting).endswith("≤ output")
    counts = view.counts(certifying)
    assert counts.count > 2 * counts.neighbour_count


def test_a_repeated_value_has_a_bin_of_its_own(rng):
    first = np.where(rng.random(10_000) < 0.5, 0.5, rng.random(10_000))
    (view,) = _views(first, rng.random(10_000))
    refuting, _ = most_telling(view, 1.0, 0.0, 5.0)
    assert "output = 0.5" in view.bins.text(refuting)
    assert view.counts(refuting).count < 1.1 * 2500


def test_labels_are_events(rng):
    first = np.where(rng.random(10_000) < 0.9, "yes", "no")
    second = np.where(rng.random(10_000) < 0.1, "yes", "no")
    (view,) = _views(first, second)
    _, certifying = most_telling(view, 1.0, 0.0, 5.0)
    assert view.bins.text(certifying) == "'yes'"


def test_reversing_a_view_swaps_both_halves(rng):
    (view,) = _views(rng.random(1000), rng.random(1000) + 1)
    turned = view.reversed()
    assert turned.train[0] is view.train[1]
    assert turned.test[1] is view.test[0]


def test_shared_noise_shows_in_the_difference_of_two_columns(rng):
    noise = rng.laplace(size=10_000)
    names = [view.bins.feature for view in _views(np.column_stack((noise, noise)), np.column_stack((noise + 1, noise)))]
    assert names == ["column 1", "column 2", "column 1 − column 2", "column 1 + column 2", "log-ratio score", "tree"]


def test_the_score_of_two_columns_tells_more_than_either(rng):
    first, second = rng.laplace(size=(100_000, 2)) + 1, rng.laplace(size=(100_000, 2))
    certified = {}
    for view in _views(first, second):
        counts = view.counts(most_telling(view, 1.0, 0.0, 5.0)[1])
        certified[view.bins.feature] = counts.count / max(1, counts.neighbour_count)
    assert certified["log-ratio score"] > 1.5 * certified["column 1"]
    assert certified["tree"] > 1.5 * certified["column 1"]


def test_the_last_bit_of_a_double_is_found():
    assert last_bit(np.array([1.0, 3.0, 0.75, -6.0, 2.0**-1074])).tolist() == [0, 0, -2, 1, -1074]
    assert np.isnan(last_bit(np.array([0.0, np.inf, np.nan]))).all()
