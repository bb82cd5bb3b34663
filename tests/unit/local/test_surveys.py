from __future__ import annotations

import numpy as np
import pytest

from shoal import local
from shoal.accounting.ledger import Ledger
from shoal.errors import ShoalError
from shoal.mechanisms.entropy import seeded_entropy
from shoal.params import Budget


@pytest.fixture
def survey():
    return local.survey(
        {
            "smokes": local.yes_no(epsilon=1),
            "age": local.number(0, 120, epsilon=0.5),
            "visits": local.count(10, epsilon=2),
        }
    )


def test_one_question_is_answered_at_full_epsilon(survey):
    values = {"smokes": "yes", "age": 40, "visits": 3}
    asked = [survey.randomize(values) for _ in range(300)]
    prints = {one.fingerprint: name for name, one in survey.questions.items()}
    assert {len(reports) for reports in asked} == {1}
    # 300 respondents, three questions: one of them is never asked with chance below 1e-50.
    assert {prints[report["q"]] for reports in asked for report in reports} == set(prints.values())
    found = survey.estimate([*asked], level=0.999)
    assert sum(one.n for one in found.values()) == 300


def test_many_are_split_evenly_and_estimated_for_everybody(survey):
    n = 30_000
    columns = {"smokes": ["yes", "no"] * (n // 2), "age": [40.0, 60.0] * (n // 2), "visits": np.arange(n) % 5}
    reports = survey.randomize_many(columns, seeded_entropy(1))
    assert sum(map(len, reports.values())) == n
    # Each is asked with 1/3: eight standard deviations.
    assert all(abs(len(part) - n / 3) < 8 * (n * 2 / 9) ** 0.5 for part in reports.values())
    found = survey.estimate(reports, level=1 - 1e-9)
    assert found["smokes"]["yes"].low <= 0.5 <= found["smokes"]["yes"].high
    assert found["age"].low <= 50 <= found["age"].high
    errors = survey.expected_errors(n)
    assert errors["age"] == survey.questions["age"].expected_error(n // 3)


def test_splitting_the_sample_beats_splitting_epsilon(survey):
    whole = local.survey({name: one for name, one in survey.questions.items() if name != "age"})
    split = local.yes_no(epsilon=0.5)
    assert whole.expected_errors(10_000)["smokes"] < split.expected_error(10_000)


def test_the_ledger_is_charged_the_largest_epsilons(survey):
    ledger = Ledger.in_memory(Budget(10, 0))
    assert survey.epsilon == 2
    assert survey.open(ledger).charged
    assert not survey.open(ledger).charged
    assert ledger.spent == (2, 0)
    two = local.survey(survey.questions, ask=2)
    two.open(ledger, round="second")
    assert ledger.spent == (5, 0)


@pytest.mark.parametrize(
    ("questions", "ask"),
    [({}, 1), ({"a": 1}, 1), (None, 1), ({"a": local.yes_no(epsilon=1)}, 0), ({"a": local.yes_no(epsilon=1)}, 2),
     ({"a": local.yes_no(epsilon=1)}, True), ({"a": local.yes_no(epsilon=1), "b": local.yes_no(epsilon=1)}, 1)],
)  # fmt: skip
def test_a_wrong_survey_is_refused(questions, ask):
    with pytest.raises(ShoalError, match="E_USAGE"):
        local.survey(questions, ask)


def test_every_value_is_checked_whichever_is_asked(survey):
    for values in (
        {"smokes": "yes"},
        {"smokes": "maybe", "age": 1, "visits": 1},
        {"smokes": "no", "age": "x", "visits": 1},
    ):
        for _ in range(5):
            with pytest.raises(ShoalError, match="E_USAGE"):
                survey.randomize(values)
    with pytest.raises(ShoalError, match="E_USAGE"):
        survey.randomize_many({"smokes": ["yes"], "age": [1, 2], "visits": [1]})


def test_the_comparison_is_a_table():
    found = local.compare(values=128, epsilon=1, n=100_000)
    assert [row.oracle for row in found.rows] == ["subset", "projective", "unary", "hashing"]
    assert sum(row.chosen for row in found.rows) == 1
    assert "auto" in repr(found)
    assert "trusted party" in repr(found)
    assert "subset" not in {row.oracle for row in local.compare(values=10_000).rows}
