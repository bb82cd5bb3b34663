"""Planted bugs in sketches that are released: flips, empty sketches, merges."""

import warnings

import numpy as np
from planted import INVARIANT, REFUSAL, TESTER, is_caught_sampling, planted

from shoal import risk
from shoal.errors import ShoalError
from shoal.mechanisms.entropy import seeded_entropy
from shoal.risk.private import distinct_sketch, private_sketch
from shoal.risk.private.private_sketch import PrivateSketch

KEY = b"a secret of the operator"
ONE, NONE = "x", ""


def raw_of(owners):
    raw = risk.DistinctSketch(16, 2, key=KEY)
    raw.update(list(owners))
    return raw


def releasing():
    """The bit of one owner in releases of a sketch with and without that owner; many releases are one wide sketch."""
    place = int(np.flatnonzero(raw_of(ONE).bits.reshape(-1))[0])

    def mechanism(data, n):
        wide = risk.DistinctSketch(16, 1, key=KEY)
        wide.bits = np.tile(raw_of(data).bits.reshape(1, -1), (n, 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", risk.SeededReleaseWarning)
            return wide.release(1, seed=n + len(data)).bits[:, place].astype(np.int64)

    return mechanism


@planted(
    "noise scale too small",
    "bits of a sketch are flipped half as often as ε asks for",
    TESTER,
    is_caught_sampling(releasing, samples=20_000, inputs=[(ONE, NONE)]),
)
def flips_that_are_too_rare(patch):
    honest = distinct_sketch.flip_numerator
    patch.setattr(distinct_sketch, "flip_numerator", lambda epsilon: honest(epsilon) // 2)


@planted(
    "an empty sketch is NULL",
    "a sketch without owners is released as it is",
    TESTER,
    is_caught_sampling(releasing, samples=20_000, inputs=[(ONE, NONE)]),
)
def an_empty_sketch_without_flips(patch):
    honest = distinct_sketch.flipped
    patch.setattr(
        distinct_sketch,
        "flipped",
        lambda bits, numerator, entropy: honest(bits, numerator, entropy) if bits.any() else bits.copy(),
    )


def _merges_with_itself():
    one = raw_of("abc").release(1)
    try:
        one.merge(one)
    except ShoalError:
        return False
    return True


@planted("a release merged with itself", "the ids of releases are not compared", REFUSAL, _merges_with_itself)
def ids_that_nobody_compares(patch):
    patch.setattr(PrivateSketch, "_check_fits", lambda _one, _other: None)
    patch.setattr(PrivateSketch, "__post_init__", lambda _one: None)


def _merged_bits_are_biased():
    """A million bits of two empty sketches: the merged share of ones is the q that the merge tells, to 6 standard errors."""
    zeros = np.zeros((256, 4096), dtype=np.bool_)
    parts = [
        PrivateSketch(zeros ^ (seeded_entropy(i).uint64(zeros.size).reshape(zeros.shape) < np.uint64(2**62)), None, 0.75, 0.25,
                      (1.0986,), frozenset({bytes([i] * 16)}))
        for i in (1, 2)
    ]  # fmt: skip
    merged = parts[0].merged_with(parts[1], seeded_entropy(3))
    return abs(merged.bits.mean() - merged.noise) > 0.003


@planted("a merge that is biased upward", "released bits are merged by OR", INVARIANT, _merged_bits_are_biased)
def a_merge_by_or(patch):
    patch.setattr(private_sketch, "merge_bits", lambda first, _flips, second, _other, _entropy: first | second)
