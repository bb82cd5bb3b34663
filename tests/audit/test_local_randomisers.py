"""Every randomiser of the local model before the tester, by the server's code and by the client's; false alarms 1e-7 each."""

import pytest

from shoal.audit import check
from shoal.audit.suite import surveys

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("randomiser", surveys.RANDOMISERS, ids=lambda one: one.name)
@pytest.mark.parametrize("epsilon", [0.5, 2])
def test_a_randomiser_keeps_its_epsilon_and_is_caught_claiming_half_of_it(randomiser, epsilon):
    samples = 20_000 // randomiser.slower
    mechanism = randomiser.mechanism(epsilon)
    options = {"inputs": [randomiser.pair], "search": False, "samples": samples, "confidence": 1 - 1e-7}
    assert check(mechanism, epsilon, **options).passed
    if samples >= 4000 and epsilon == 2:
        assert not check(mechanism, epsilon / 2, **options).passed


@pytest.mark.parametrize(("name", "law"), surveys.EXACT, ids=[name for name, _ in surveys.EXACT])
def test_the_exact_check_holds_and_fails_for_a_larger_claim(name, law):
    assert law(1.0).holds
    assert law(1.0).note.startswith("largest ratio")
