"""What a guarantee shows, in which order, and what is refused."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import knowledge
from shoal.errors import ShoalError
from shoal.knowledge import counts, thresholds
from shoal.knowledge.distributions import binomial

BAD = [
    lambda: knowledge.count(100, uncertainty=0.0),
    lambda: knowledge.count(100, uncertainty=0.51),
    lambda: knowledge.count(100, uncertainty=math.nan),
    lambda: knowledge.histogram(100, uncertainty=0.6),
    lambda: knowledge.count(100, uncertainty="0.1"),
    lambda: knowledge.count(100),
    lambda: knowledge.count(3, uncertainty=0.1, probabilities=[0.1] * 3),
    lambda: knowledge.count(3, probabilities=[0.1] * 4),
    lambda: knowledge.count(3, probabilities=[0.1] * 3, known=1),
    lambda: knowledge.count(3, probabilities=[0.1, 0.2, 1.1]),
    lambda: knowledge.count(3, probabilities=[0.1, 0.2, math.nan]),
    lambda: knowledge.count(3, probabilities=["yes", "no", "no"]),
    lambda: knowledge.count(100, uncertainty=0.1, known=100),
    lambda: knowledge.count(10**7 + 1, uncertainty=0.1),
    lambda: knowledge.count(0, uncertainty=0.1),
    lambda: knowledge.count(100, uncertainty=0.1, related=51),
    lambda: knowledge.count(5, uncertainty=0.1, related=6),
    lambda: knowledge.count(90, probabilities=np.linspace(0.1, 0.9, 90), related=4, noise_scale=1.0),
    lambda: knowledge.count(100, uncertainty=0.1, noise_scale=0),
    lambda: knowledge.threshold(100, -1, at_most=0.1),
    lambda: knowledge.threshold(100, 50, at_most=0.1, both_sides=True),
    lambda: knowledge.threshold(100, 5, at_most=1.1),
    lambda: knowledge.threshold(100, 5),
    lambda: knowledge.threshold(3, 1, probabilities=[0.1] * 2, known=1),
    lambda: knowledge.threshold(100, 5, at_most=0.1, attacker="curious"),
    lambda: knowledge.k_anonymity(100, 5, boundary=0.0),
    lambda: knowledge.k_anonymity(100, 5, boundary=0.1, fixed_generalization=False),
    lambda: knowledge.repeated(100, 2, uncertainty=0.1, answers="the same"),
    lambda: knowledge.repeated(100, 0, uncertainty=0.1, answers="independent"),
    lambda: knowledge.repeated(100, 2, probabilities=[0.1] * 100, answers="dependent"),
    lambda: knowledge.count(100, uncertainty=0.1).delta_at(-1),
    lambda: knowledge.count(100, uncertainty=0.1).delta_at(math.inf),
    lambda: knowledge.count(100, uncertainty=0.1).epsilon_at(0),
    lambda: knowledge.count(100, uncertainty=0.1).epsilon_at(1),
    lambda: knowledge.count(100, uncertainty=0.1).curve(1),
    lambda: knowledge.noise_for(100, 0, 1e-6, uncertainty=0.1),
]


@pytest.mark.parametrize("call", BAD)
def test_bad_input_is_refused_before_anything_is_computed(call):
    with pytest.raises(ShoalError) as refused:
        call()
    assert refused.value.code == "E_USAGE"


def test_overlapping_releases_are_told_what_to_say():
    with pytest.raises(ShoalError, match="do not compose") as refused:
        knowledge.repeated(100, 2, uncertainty=0.1, answers="")
    assert "'new people', 'independent' or 'dependent', or add noise and use a budget" in str(refused.value)


def test_ten_million_is_the_most_and_the_hint_says_why_that_is_enough():
    with pytest.raises(ShoalError, match="more people only lower δ"):
        knowledge.histogram(10**8, uncertainty=0.1)


RELEASES = [
    lambda: knowledge.count(80, uncertainty=0.2),
    lambda: knowledge.count(80, uncertainty=0.2, known=70, noise_scale=1.0),
    lambda: knowledge.histogram(80, uncertainty=0.2),
    lambda: knowledge.threshold(80, 5, at_most=0.01, known=3),
    lambda: knowledge.k_anonymity(80, 5, boundary=0.1),
    lambda: knowledge.repeated(80, 2, uncertainty=0.3, answers="independent"),
    lambda: knowledge.repeated(80, 2, uncertainty=0.3, answers="new people"),
]


@pytest.mark.parametrize("release", RELEASES)
def test_assumptions_come_before_the_numbers_everywhere(release, tmp_path):
    kept = release()
    assert next(iter(kept.to_dict())) == "assumptions"
    assert kept.to_dict()["assumptions"] == list(kept.assumptions)
    kept.to_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for text in (str(kept), kept._repr_html_(), page):
        number = (
            text.index("Then ε") if "Then ε" in text else text.index("ε (") if "ε (" in text else text.index("No ε")
        )
        last = text.rindex("independent") if kept.assumptions[-1] not in text else text.index(kept.assumptions[-1])
        assert last < number < text.index("Against somebody who knows all other answers")
    assert "private" not in str(kept).lower()


@pytest.mark.parametrize("release", RELEASES)
def test_delta_falls_and_epsilon_at_is_its_inverse(release):
    kept = release()
    deltas = [kept.delta_at(epsilon) for epsilon in np.linspace(0, 4, 30)]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(deltas))
    for delta in (0.3, 0.01):
        epsilon = kept.epsilon_at(delta)
        if math.isfinite(epsilon):
            assert kept.delta_at(epsilon) <= delta
            assert epsilon == 0.0 or kept.delta_at(epsilon * (1 - 1e-6)) > delta
        else:
            assert kept.smallest_delta > 0.5 * delta


def test_the_keys_for_machines_are_these():
    assert list(knowledge.count(80, uncertainty=0.2).to_dict(epsilon=1)) == [
        "assumptions",
        "warnings",
        "method",
        "epsilon",
        "delta",
        "smallest_delta",
        "against_everybody",
        "meaning",
    ]
    meaning = knowledge.count(80, uncertainty=0.2).to_dict(epsilon=math.log(9))["meaning"]
    assert [round(entry["posterior"], 6) for entry in meaning] == [0.083333, 0.5, 0.9]


def test_warnings_are_there_when_they_must_be():
    def warned(kept, word):
        return any(word in warning for warning in kept.warnings)

    assert warned(knowledge.count(10_000, uncertainty=0.005), "0.005")
    assert warned(knowledge.count(32, uncertainty=0.1), "gives the target away")
    assert warned(knowledge.count(500, uncertainty=0.1, known=480), "Only 19")
    assert warned(knowledge.threshold(1000, 20, at_most=0.05), "below the 50")
    assert warned(knowledge.histogram(1000, uncertainty=0.1), "total is known")
    assert warned(knowledge.k_anonymity(2000, 60, boundary=0.01), "homogeneity and linkage")
    assert knowledge.count(1000, uncertainty=0.1).warnings == ()


def test_a_curve_has_as_many_points_as_asked_for():
    curve = knowledge.count(300, uncertainty=0.2).curve(50)
    assert len(curve) == 50
    assert curve[0][0] == 0.0
    assert curve[-1][1] == pytest.approx(1e-12, rel=0.01)


def test_a_curve_is_drawn_under_its_assumptions(tmp_path):
    pytest.importorskip("matplotlib")
    figure = knowledge.count(80, uncertainty=0.2).plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000
    assert "independent" in figure.axes[0].get_title(loc="left")


def test_nobody_else_unknown_means_nothing_is_kept():
    alone = knowledge.count(1, uncertainty=0.5)
    assert alone.delta_at(10) == 1.0
    assert math.isinf(alone.epsilon_at(0.5))


def test_chances_of_zero_and_one_hide_nothing():
    kept = knowledge.count(4, probabilities=[0.0, 1.0, 0.0, 1.0])
    assert kept.delta_at(3) == 1.0


def test_a_threshold_that_nothing_reaches_hides_everything():
    assert knowledge.threshold(100, 5000, at_most=0.3, known=10).delta_at(0.1) < 1e-200
    assert knowledge.threshold(3, 7, probabilities=[0.1, 0.5, 0.9]).delta_at(0.1) < 1e-200


def test_the_smallest_delta_of_a_threshold_is_the_chance_that_it_is_just_passed():
    assert knowledge.threshold(1000, 20, at_most=0.005).smallest_delta == pytest.approx(0.005**20)
    assert knowledge.threshold(1000, 0, at_most=0.005).smallest_delta == 1.0


def test_millions_of_known_people_are_told_apart_in_groups():
    """Larger answers stand for smaller ones: never below the exact number, and close to it."""
    exact = knowledge.threshold(3000, 40, at_most=0.01, known=1500).delta_at(1)
    coarse = thresholds.Threshold(1499, 40, 0.01, 1500)
    groups = binomial(1500, 0.01).in_groups(20, 41)
    assert len(groups) <= 22
    assert sum(weight for _, weight in groups) == pytest.approx(1)
    assert exact <= sum(weight * coarse._alone(1, 40 - b) for b, weight in groups)
    large = knowledge.threshold(10**7, 50_500, at_most=0.01, known=5 * 10**6)
    assert 0 < large.smallest_delta <= large.delta_at(1) <= 1


def test_nobody_else_in_a_histogram_or_table_means_nothing_is_kept():
    assert knowledge.histogram(1, uncertainty=0.5).delta_at(3) == 1.0
    assert knowledge.k_anonymity(1, 0, boundary=0.5).delta_at(3) == 1.0
    assert knowledge.repeated(1, 2, uncertainty=0.5, answers="independent").delta_at(3) == 1.0


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 40),
    st.floats(0.01, 0.5),
    st.floats(0, 5),
    st.integers(0, 39),
)
def test_knowing_more_people_is_never_worse_for_the_attacker(people, uncertainty, epsilon, known):
    more = min(known, people - 1)
    some, all_known = (knowledge.count(people, uncertainty=uncertainty, known=n) for n in (more // 2, more))
    assert some.delta_at(epsilon) <= all_known.delta_at(epsilon) * (1 + 1e-8)


@pytest.mark.parametrize("seed", [1, 2])
def test_targets_that_are_passed_over_are_covered(monkeypatch, seed):
    """Very many different chances: only some are tried as the target's, and δ is raised by no more than what that may miss."""
    chances = np.random.default_rng(seed).beta(0.6, 0.9, 300)
    releases = [
        lambda: knowledge.count(300, probabilities=chances),
        lambda: knowledge.count(300, probabilities=chances, noise_scale=0.8),
        lambda: knowledge.threshold(300, int(chances.sum()) + 5, probabilities=chances),
    ]
    every = [[release().delta_at(epsilon) for epsilon in (0, 0.2, 0.6, 1.2)] for release in releases]
    monkeypatch.setattr(counts, "_MOST_STEPS", 0)
    for release, exact in zip(releases, every, strict=True):
        some = [release().delta_at(epsilon) for epsilon in (0, 0.2, 0.6, 1.2)]
        assert all(true * (1 - 1e-8) <= told <= 1.05 * true for told, true in zip(some, exact, strict=True))


def test_twenty_thousand_different_chances_are_computed_with():
    kept = knowledge.count(20_000, probabilities=np.linspace(0.05, 0.95, 20_000))
    constant = knowledge.count(20_000, probabilities=[0.5] * 20_000)
    assert constant.delta_at(0.05) < kept.delta_at(0.05) < 1e-2
    assert kept.method == "exact"
    assert "0.05" not in repr(kept)
