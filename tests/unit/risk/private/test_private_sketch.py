"""A distinct-count sketch that merges and is differentially private."""

from __future__ import annotations

import math
import stat
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import risk
from shoal.errors import ShoalError
from shoal.mechanisms.entropy import seeded_entropy
from shoal.risk.private.flips import WORDS, flip_numerator, flipped
from shoal.risk.private.likelihood import relative_error
from shoal.risk.private.merging import Flips, merge_bits

KEY = b"a secret of the operator"
seeded = pytest.mark.filterwarnings("ignore::shoal.risk.SeededReleaseWarning")


def raw_of(owners, key=KEY, **sizes):
    raw = risk.DistinctSketch(key=key, **sizes)
    raw.update(owners)
    return raw


@pytest.mark.parametrize(
    "epsilon", [Fraction(1, 10**10), Fraction(1, 100), Fraction(1), Fraction(10), Fraction(30), Fraction(44)]
)
def test_a_flip_is_never_too_rare(epsilon):
    """(1 − q)/q ≤ e^ε, and one step of the grid less would break it."""
    numerator = flip_numerator(epsilon)
    bound = math.exp(float(epsilon))
    assert (WORDS - numerator) / numerator <= bound * (1 + 1e-12)
    terms = sum((epsilon**k / Fraction(math.factorial(k)) for k in range(160)), Fraction(0))  # e^ε from below
    assert Fraction(WORDS - numerator, numerator) <= terms
    assert Fraction(WORDS - (numerator - 1), numerator - 1) > terms * (1 - Fraction(1, 10**30))


@seeded
def test_an_enormous_epsilon_still_flips_at_random():
    assert flip_numerator(Fraction(10**6)) == 1
    released = raw_of(range(1000)).release(1000, seed=1)
    assert released.estimate().value == pytest.approx(1000, rel=0.1)
    assert risk.PrivateSketch.from_bytes(released.to_bytes()).epsilon == 1000


def test_one_owner_moves_one_bit():
    everyone, without = raw_of(range(1000)), raw_of(range(1, 1000))
    assert (everyone.bits != without.bits).sum() <= 1
    one = raw_of([1])
    assert one.bits.sum() == 1


def test_repeats_and_missing_owners_change_nothing():
    assert (raw_of([1, 1, 2, None]).bits == raw_of([2, 1]).bits).all()


def test_raw_sketches_merge_exactly():
    merged = raw_of(range(1000)).merge(raw_of(range(500, 2000)))
    assert (merged.bits == raw_of(range(2000)).bits).all()


def test_levels_have_the_chances_of_ranks_and_the_last_one_twice_its_own():
    bits = raw_of(range(200_000), buckets=65536, levels=4).bits.sum(axis=1)
    expected = [65536 * -math.expm1(-200_000 * w) for w in np.array([1 / 2, 1 / 4, 1 / 8, 1 / 8]) / 65536]
    assert np.allclose(bits, expected, rtol=0.02)


def test_every_bit_is_flipped_with_its_chance():
    """1.6 million flips at q = 0.2689: 5.5 standard errors are 0.0019; a false alarm is rarer than 10⁻⁷."""
    zeros = np.zeros((400, 4096), dtype=np.bool_)
    share = flipped(zeros, flip_numerator(Fraction(1)), seeded_entropy(4)).mean()
    assert share == pytest.approx(1 / (1 + math.e), abs=0.002)
    assert flipped(~zeros, flip_numerator(Fraction(1)), seeded_entropy(5)).mean() == pytest.approx(1 - share, abs=0.004)


def test_two_merged_releases_have_the_independent_chances():
    first, second = raw_of(range(100)).release(1), raw_of(range(100)).release(1)
    merged = first.merge(second)
    assert merged.keep == pytest.approx(0.731059, abs=1e-6)
    assert merged.noise == pytest.approx(0.438945, abs=1e-6)
    assert (merged.merged, merged.epsilon, merged.epsilon_in_all) == (2, 1.0, 2.0)


@pytest.mark.parametrize("truth", [(False, False), (False, True), (True, True)])
def test_a_merge_is_unbiased_for_either_bit(truth):
    """p′ and q′ are what really comes out: exact over the four outcomes of two released bits."""
    flips, other = Flips(0.9, 0.3), Flips(0.75, 0.25)
    high, low = flips.ends(other)
    chance = 0.0
    for first in (False, True):
        for second in (False, True):
            weight = (
                (flips.keep if truth[0] else flips.noise) if first else 1 - (flips.keep if truth[0] else flips.noise)
            )
            weight *= (
                (other.keep if truth[1] else other.noise) if second else 1 - (other.keep if truth[1] else other.noise)
            )
            product = (-flips.one if first else flips.zero) * (-other.one if second else other.zero)
            chance += weight * (high - product) / (high - low)
    merged = flips.then(other)
    assert chance == pytest.approx(merged.keep if any(truth) else merged.noise)


def test_merged_bits_are_drawn_with_these_chances():
    """1.6 million bits; 0.0025 is more than 5.5 standard errors."""
    shape, flips = (400, 4096), Flips(0.75, 0.25)
    zeros, ones = np.zeros(shape, dtype=np.bool_), np.ones(shape, dtype=np.bool_)
    released = flipped(zeros, WORDS // 4, seeded_entropy(1)), flipped(ones, WORDS // 4, seeded_entropy(2))
    merged = merge_bits(released[0], flips, released[1], flips, seeded_entropy(3))
    assert merged.mean() == pytest.approx(flips.then(flips).keep, abs=0.0025)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.2, 6), min_size=2, max_size=5), st.randoms())
def test_the_order_of_merges_does_not_matter(epsilons, shuffler):
    def merged(order):
        total = None
        for epsilon in order:
            q = 1 / (1 + math.exp(epsilon))
            total = Flips(1 - q, q) if total is None else total.then(Flips(1 - q, q))
        return total

    shuffled = list(epsilons)
    shuffler.shuffle(shuffled)
    one, other = merged(epsilons), merged(shuffled)
    assert one.keep == pytest.approx(other.keep)
    assert one.noise == pytest.approx(other.noise)
    assert one.keep == pytest.approx(min(1 - 1 / (1 + math.exp(epsilon)) for epsilon in epsilons))


@pytest.mark.parametrize(
    ("epsilon", "merged", "expected"), [(1, 1, 0.0274), (1, 2, 0.0431), (1, 4, 0.1038), (2, 8, 0.0393)]
)
def test_errors_are_known_before_anything_is_spent(epsilon, merged, expected):
    assert risk.sketch_error(epsilon, 100_000, merged=merged) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(("epsilon", "merged", "published"), [(2, 8, 0.070), (1, 4, 0.150), (3, 32, 0.120)])
def test_keeping_flips_asymmetric_beats_the_published_merge(epsilon, merged, published):
    """The published merge makes p′ = 1 − q′ again: a merged bit of mean s is flipped until both errors are equal."""
    q = 1 / (1 + math.exp(epsilon))
    zero = ((1 - q) / (1 - 2 * q)) ** merged
    symmetric_noise = (zero - 1) / (2 * zero - 1)
    flips = Flips(1 - symmetric_noise, symmetric_noise)
    assert relative_error(100_000, 24, 4096, flips) == pytest.approx(published, rel=0.01)
    assert risk.sketch_error(epsilon, 100_000, merged=merged) < 0.75 * published


@seeded
def test_an_empty_sketch_is_released_like_any_other():
    empty = raw_of([]).release(1, seed=1)
    assert empty.bits.shape == (24, 4096)
    assert 0.25 < empty.bits.mean() < 0.29
    found = empty.estimate()
    assert found.low == 0.0
    assert found.high < 1000


@seeded
def test_estimates_follow_the_number_of_owners():
    for owners in (0, 300, 5000, 1_000_000):
        found = raw_of(range(owners)).release(3, seed=owners).estimate(level=0.999999)
        assert found.low <= owners <= found.high


@seeded
@pytest.mark.slow
def test_merged_estimates_are_unbiased_spread_as_told_and_covered():
    """150 runs of two overlapping parts of 100,000 owners; keys, flips and coins are seeded, so the run repeats."""
    owners = np.arange(100_000)
    values, covered = [], 0
    for run in range(150):
        key = b"run %d of the operator" % run
        first = raw_of(owners[:60_000], key).release(1, seed=2 * run)
        second = raw_of(owners[40_000:], key).release(1, seed=2 * run + 1)
        found = first.merged_with(second, seeded_entropy(1000 + run)).estimate()
        values.append(found.value)
        covered += found.low <= 100_000 <= found.high
    assert np.mean(values) == pytest.approx(100_000, rel=0.01)
    assert np.std(values) / 100_000 == pytest.approx(0.043, rel=0.15)
    assert covered >= 135


def test_a_second_release_is_charged_and_says_so():
    raw = raw_of(range(10))
    raw.release(1)
    with pytest.warns(risk.RepeatedReleaseWarning, match="pay for every release"):
        raw.release(1)


def test_a_seed_voids_the_promise_and_says_so():
    with pytest.warns(risk.SeededReleaseWarning):
        released = raw_of(range(10)).release(1, seed=7)
    assert not released.safe
    assert not released.merge(raw_of(range(10)).release(1)).safe
    assert raw_of(range(10)).release(1).safe


def test_two_releases_of_the_same_bits_differ():
    assert (raw_of(range(10)).release(1).bits != raw_of(range(10)).release(1).bits).any()


def test_a_release_is_never_merged_with_itself():
    one, two = raw_of(range(10)).release(1), raw_of(range(10)).release(1)
    for again in (one, one.merge(two)):
        with pytest.raises(ShoalError, match="cannot be merged with itself") as refused:
            one.merge(again)
        assert refused.value.code == "E_SKETCH"
    with pytest.raises(ShoalError):
        risk.merge_private([one, two, risk.PrivateSketch.from_bytes(two.to_bytes())])


def test_merging_ends_where_nothing_is_left_to_count():
    assert risk.sketch_error(1, 100_000, merged=10_000) == math.inf
    many = [raw_of([1], buckets=16, levels=1).release(0.01) for _ in range(60)]
    with pytest.raises(ShoalError, match="nothing can be counted") as refused:
        risk.merge_private(many)
    assert refused.value.code == "E_SKETCH"


@pytest.mark.parametrize(
    "other",
    [
        lambda: raw_of([1], buckets=1024).release(1),
        lambda: raw_of([1], levels=20).release(1),
        lambda: raw_of([1], key=b"another key of somebody").release(1),
    ],
)
def test_only_sketches_that_fit_are_merged(other):
    with pytest.raises(ShoalError) as refused:
        raw_of([1]).release(1).merge(other())
    assert refused.value.code == "E_SKETCH"


@pytest.mark.parametrize(
    "call",
    [
        lambda: risk.DistinctSketch(buckets=1000, key=KEY),
        lambda: risk.DistinctSketch(levels=0, key=KEY),
        lambda: raw_of([1]).release(0),
        lambda: raw_of([1]).release(10**7),
        lambda: raw_of([1]).release(math.nan),
        lambda: raw_of([1]).merge("sketch"),
        lambda: raw_of([1]).merge(raw_of([1], key=b"another key of somebody")),
        lambda: raw_of([1]).release(1).merge(raw_of([1])),
        lambda: raw_of([1]).release(1).estimate(level=1.5),
        lambda: risk.merge_private([]),
        lambda: risk.sketch_error(1, 0),
        lambda: risk.DistinctSketch.from_bytes(raw_of([1]).to_bytes(), key=b"another key of somebody"),
        lambda: risk.DistinctSketch.from_bytes(raw_of([1]).to_bytes()).update([2]),
    ],
)
def test_what_cannot_be_is_refused(call):
    with pytest.raises(ShoalError) as refused:
        call()
    assert refused.value.code in {"E_USAGE", "E_SKETCH", "E_OPTION_INVALID"}


def test_sketches_travel_as_bytes(tmp_path):
    raw = raw_of(range(1000))
    again = risk.DistinctSketch.from_bytes(raw.to_bytes(), key=KEY)
    again.update([5000])
    assert again.bits.sum() >= raw.bits.sum()
    merged = raw.release(1).merge(raw_of(range(500)).release(2))
    read = risk.PrivateSketch.from_bytes(merged.to_bytes())
    assert (read.bits == merged.bits).all()
    assert (read.keep, read.noise, read.ids, read.merged) == (merged.keep, merged.noise, merged.ids, 2)
    assert read.to_bytes() == merged.to_bytes()
    raw.write(tmp_path / "raw.sketch")
    assert stat.S_IMODE((tmp_path / "raw.sketch").stat().st_mode) == 0o600


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 12_500), st.integers(0, 255), st.booleans())
def test_damaged_bytes_end_in_a_refusal(place, value, released):
    data = bytearray(RELEASED if released else RAW)
    place %= len(data)
    reads = risk.PrivateSketch.from_bytes if released else risk.DistinctSketch.from_bytes
    if data[place] == value:
        return
    data[place] = value
    with pytest.raises(ShoalError) as refused:
        reads(bytes(data))
    assert refused.value.code == "E_SKETCH"
    with pytest.raises(ShoalError):
        reads(bytes(data[:place]))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_sealed_nonsense_ends_in_a_refusal(body, released):
    """A right seal around wrong bytes: only the reader's own checks are left."""
    from shoal.risk.private import packed
    from shoal.risk.sketch.binary_format import sealed

    magic = packed.RELEASED_MAGIC if released else packed.RAW_MAGIC
    reads = risk.PrivateSketch.from_bytes if released else risk.DistinctSketch.from_bytes
    with pytest.raises(ShoalError):
        reads(sealed(magic + b"\x01\x00" + body))


RAW = raw_of(range(50)).to_bytes()
RELEASED = raw_of(range(50)).release(1).to_bytes()
