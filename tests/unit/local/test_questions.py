from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

from shoal import local
from shoal.errors import ShoalError


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: local.choice(["a"], epsilon=1), "E_USAGE"),
        (lambda: local.choice([], epsilon=1), "E_USAGE"),
        (lambda: local.choice("ab", epsilon=1), "E_USAGE"),
        (lambda: local.choice(["a", "a"], epsilon=1), "E_USAGE"),
        (lambda: local.choice([1, "1"], epsilon=1), "E_USAGE"),
        (lambda: local.choice(["a", None], epsilon=1), "E_USAGE"),
        (lambda: local.choice(["a", 1.5], epsilon=1), "E_USAGE"),
        (lambda: local.choice([True, False], epsilon=1), "E_USAGE"),
        (lambda: local.choice(range(2**20 + 1), epsilon=1), "E_USAGE"),
        (lambda: local.choice(["a", "b"]), "E_USAGE"),
        (lambda: local.choice(["a", "b"], epsilon=1, oracle="hadamard"), "E_USAGE"),
        (lambda: local.choice(range(5000), epsilon=1, oracle="subset"), "E_USAGE"),
        (lambda: local.choice(["a", "b"], epsilon=0), "E_OPTION_INVALID"),
        (lambda: local.choice(["a", "b"], epsilon=41), "E_OPTION_INVALID"),
        (lambda: local.choice(["a", "b"], epsilon=math.nan), "E_OPTION_INVALID"),
        (lambda: local.choice(["a", "b"], epsilon=1, longitudinal=(1, 4)), "E_USAGE"),
        (lambda: local.choice(["a", "b"], longitudinal=(4, 4)), "E_USAGE"),
        (lambda: local.choice(["a", "b"], longitudinal=(5, 4)), "E_USAGE"),
        (lambda: local.choice(["a", "b"], longitudinal=4), "E_USAGE"),
        (lambda: local.choice(["a", "b"], longitudinal=(1, 4), oracle="subset"), "E_USAGE"),
        (lambda: local.choice(["a", "b"], longitudinal=(1, 50)), "E_OPTION_INVALID"),
        (lambda: local.choice(["a", "b"], epsilon=1, title="x" * 2000), "E_USAGE"),
        (lambda: local.number(1, 1, epsilon=1), "E_USAGE"),
        (lambda: local.number(2, 1, epsilon=1), "E_USAGE"),
        (lambda: local.number("a", 1, epsilon=1), "E_USAGE"),
        (lambda: local.number(0, math.inf, epsilon=1), "E_USAGE"),
        (lambda: local.number(0, 1), "E_USAGE"),
        (lambda: local.count(0, epsilon=1), "E_USAGE"),
        (lambda: local.count(1001, epsilon=1), "E_USAGE"),
        (lambda: local.count(2.5, epsilon=1), "E_USAGE"),
        (local.text, "E_USAGE"),
        (lambda: local.question("{"), "E_USAGE"),
        (lambda: local.question("{}"), "E_USAGE"),
        (lambda: local.question('{"kind": []}'), "E_USAGE"),
        (lambda: local.question("[" * 100_000), "E_SOURCE"),
        (lambda: local.question("nowhere.json"), "E_SOURCE"),
    ],
)
def test_a_wrong_question_is_refused_with_its_code_and_a_hint(make, code):
    with pytest.raises(ShoalError) as error:
        make()
    assert error.value.code == code
    assert error.value.hint


@pytest.mark.parametrize("wrong", ["sometimes", 1, None, ["never"]])
def test_a_value_that_is_not_in_the_list_is_refused_without_naming_it(questions, wrong):
    for act in (questions["unary"].randomize, lambda value: questions["unary"].randomize_many([value])):
        with pytest.raises(ShoalError) as error:
            act(wrong)
        assert error.value.code == "E_USAGE"
        assert "sometimes" not in str(error.value)


def test_missing_and_mixed_values_are_refused(questions):
    for values in (["never", None], ["never", 1], 7, [float("nan")]):
        with pytest.raises(ShoalError, match="E_USAGE"):
            questions["unary"].randomize_many(values)
    with pytest.raises(ShoalError, match="E_USAGE"):
        questions["number"].randomize_many([0.5, float("nan")])
    with pytest.raises(ShoalError, match="E_USAGE"):
        questions["text"].randomize_many([1, 2])


def test_facts_of_a_question(questions):
    question = questions["subset"]
    assert question.oracle == "subset"
    assert isinstance(question.p, Fraction)
    assert question.q < question.p
    assert question.epsilon == 0.5
    assert question.realised_epsilon <= 0.5
    assert question.realised_epsilon == pytest.approx(0.5, abs=1e-11)
    assert question.parameters == {"size": 2}
    assert questions["projective"].parameters == {"field": 3, "coordinates": 3}
    assert questions["unary"].parameters == {}
    assert questions["hashing"].parameters == {"buckets": 4}
    assert set(questions["longitudinal"].parameters) == {"keep"}
    assert questions["longitudinal"].longitudinal == (1.0, 4.0)
    assert len(question.fingerprint) == 8
    assert question.sha256.startswith(question.fingerprint)
    assert [questions[name].message_bits for name in ("subset", "projective", "unary", "hashing")] == [4, 4, 3, 66]


def test_a_question_is_its_json(tmp_path, questions):
    for question in questions.values():
        question.to_json(tmp_path / "q.json")
        loose = json.dumps(json.loads(question.to_json()), indent=3)
        for again in (local.question(question.to_json()), local.question(tmp_path / "q.json"), local.question(loose)):
            assert again == question
            assert again.sha256 == question.sha256
            assert type(again) is type(question)


def test_epsilons_are_exact_and_in_the_name():
    assert local.yes_no(epsilon=0.1).exact_epsilon == Fraction(1, 10)
    assert local.yes_no(epsilon=Fraction(1, 3)).spec["epsilon"] == "1/3"
    assert local.yes_no(epsilon=1).sha256 == local.yes_no(epsilon=1.0).sha256
    assert local.yes_no(epsilon=1).sha256 != local.yes_no(epsilon=1, title="x").sha256


@pytest.mark.parametrize("epsilon", [1e-10, 1e-9, 40])
def test_the_ends_of_the_range_of_epsilon_work(epsilon):
    for question, value in (
        (local.choice(range(20), epsilon=epsilon), 3),
        (local.choice(range(20), epsilon=epsilon, oracle="projective"), 3),
        (local.choice(range(20), epsilon=epsilon, oracle="unary"), 3),
        (local.text(epsilon=epsilon), "x"),
        (local.number(0, 1, epsilon=epsilon), 0.3),
        (local.count(1000, epsilon=epsilon), 30),
    ):
        candidates = ["x"] if question.spec["kind"] == "text" else None
        assert 0 < question.realised_epsilon <= epsilon
        assert question.estimate([question.randomize(value)] * 3, candidates=candidates).n == 3
        assert question.estimate(question.randomize_many([value] * 3), candidates=candidates).n == 3


def test_errors_before_and_respondents_needed(questions):
    for name in ("subset", "projective", "unary", "hashing", "text", "number", "count"):
        question = questions[name]
        n = question.respondents_for(0.05)
        assert question.expected_error(n) <= 0.05 < question.expected_error(n - 1)
    assert questions["unary"].expected_error(100, share=0) < questions["unary"].expected_error(100, share=1)
    for act in (lambda q: q.respondents_for(0), lambda q: q.expected_error(0), lambda q: q.expected_error(5, share=2)):
        with pytest.raises(ShoalError):
            act(questions["unary"])
    for name in ("number", "count"):
        with pytest.raises(ShoalError, match="E_USAGE"):
            questions[name].expected_error(100, share=0.5)


def test_text_questions_are_estimated_for_candidates(questions):
    reports = questions["text"].randomize_many(["a"] * 10)
    for wrong in (None, [], "abc", ["a", "a"], [1]):
        with pytest.raises(ShoalError, match="E_USAGE"):
            questions["text"].estimate(reports, candidates=wrong)
    with pytest.raises(ShoalError, match="E_USAGE"):
        questions["unary"].estimate(questions["unary"].randomize_many(["once"]), candidates=["once"])


def test_remap_takes_priors_and_losses(questions):
    count = questions["count"]
    assert count.remap([1] * 11, lambda guess, truth: (guess - truth) ** 2) == count.remap([1] * 11, "squared")
    assert count.remap([1] + [0] * 10, "absolute") == [0] * 11
    for prior, loss in (([1], "absolute"), ([1] * 11, "cubic"), ([-1] * 11, "absolute"), ([math.nan] * 11, "squared")):
        with pytest.raises(ShoalError, match="E_USAGE"):
            count.remap(prior, loss)


def test_large_epsilons_are_warned_about():
    assert local.yes_no(epsilon=4).warning is None
    assert "suspicion" in local.yes_no(epsilon=6).warning
    assert "protects nobody" in local.yes_no(epsilon=10).warning


def test_numpy_values_are_taken_one_by_one(questions):
    assert questions["projective"].randomize(np.int64(3))
    assert questions["number"].randomize(np.float32(0.5))
