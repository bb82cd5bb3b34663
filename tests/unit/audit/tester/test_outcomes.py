"""Outputs of every shape become numbers and labels."""

from decimal import Decimal

import numpy as np
import pytest

from shoal.audit.tester.outcomes import Vocabulary, encode, run_mechanism
from shoal.errors import ShoalError


def _texts(samples):
    vocabulary = Vocabulary()
    outcomes = encode(samples, len(samples), vocabulary)
    return outcomes.numbers, [vocabulary.text(int(code)) for code in outcomes.labels]


def test_numbers_of_all_kinds_become_one_column_of_floats():
    for samples in ([1, 2], np.array([1, 2]), (1.0, 2.0), np.array([False, True]) + 1, [Decimal(1), 2.0]):
        numbers, texts = _texts(samples)
        assert numbers.tolist() == [[1.0], [2.0]]
        assert texts == ["a number", "a number"]


def test_none_nan_and_strings_are_told_apart():
    numbers, texts = _texts([None, float("nan"), "None", "nan", 3])
    assert texts == ["None", "nan", "'None'", "'nan'", "a number"]
    assert np.isnan(numbers[:4]).all()
    assert numbers[4, 0] == 3.0


def test_arrays_of_strings_are_labels():
    _, texts = _texts(np.array(["a", "b", "a"]))
    assert texts == ["'a'", "'b'", "'a'"]


def test_rows_keep_their_columns():
    numbers, texts = _texts([(1, "x", 2.5), (None, "x", 3.5)])
    assert texts == ["(·, 'x', ·)", "(None, 'x', ·)"]
    assert numbers[0, [0, 2]].tolist() == [1.0, 2.5]


def test_rows_of_different_length_have_different_labels():
    _, texts = _texts([(1.0, 2.0), (1.0,)])
    assert texts == ["2 numbers", "(·, no cell)"]


def test_the_place_of_a_missing_cell_is_part_of_the_label():
    vocabulary = Vocabulary()
    left = encode(np.array([[np.nan, 1.0]]), 1, vocabulary)
    right = encode(np.array([[1.0, np.nan]]), 1, vocabulary)
    assert left.labels[0] != right.labels[0]


def test_structured_arrays_are_rows():
    numbers, _ = _texts(np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]))
    assert numbers.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("returned", [3.0, None, "abc", [1.0, 2.0], np.zeros((3, 4))])
def test_a_mechanism_that_returns_the_wrong_number_of_samples_is_refused(returned):
    with pytest.raises(ShoalError, match="asked for 5 samples"):
        run_mechanism(lambda _data, _n: returned, [], 5, Vocabulary())


def test_raising_is_an_output_with_its_text():
    def mechanism(dataset, n):
        raise ValueError("no records")

    vocabulary = Vocabulary()
    outcomes = run_mechanism(mechanism, [], 5000, vocabulary)
    assert len(outcomes) == 1000
    assert set(outcomes.labels.tolist()) == {0}
    assert vocabulary.text(0) == "raised ValueError: no records"


def test_a_mechanism_that_fails_at_random_is_sampled_call_by_call():
    rng = np.random.default_rng(1)

    def mechanism(dataset, n):
        if (rng.random(n) < 0.25).any():
            raise ArithmeticError
        return np.ones(n)

    vocabulary = Vocabulary()
    outcomes = run_mechanism(mechanism, [], 100_000, vocabulary)
    raised = np.isnan(outcomes.numbers[:, 0]).mean()
    # 1000 calls: a share outside [0.15, 0.35] has chance below 1e-11
    assert 0.15 < raised < 0.35


def test_a_mechanism_may_sort_its_data_in_place():
    dataset = [3.0, 1.0]

    def mechanism(data, n):
        data.sort()
        return np.zeros(n)

    run_mechanism(mechanism, dataset, 10, Vocabulary())
    assert dataset == [3.0, 1.0]


def test_a_million_mixed_objects_are_encoded_in_seconds():
    mixed = np.where(np.arange(1_000_000) % 3 == 0, None, np.arange(1_000_000))
    outcomes = encode(mixed, 1_000_000, Vocabulary())
    assert np.isnan(outcomes.numbers).sum() == 333_334
