"""What a value looks like from afar, in 16 bits: its kind, and its length and alphabet or number of digits.

A sketch keeps the shape of each sampled value. Two columns that hold the same things have the same mix of shapes; and
from the shapes follows how many values of that look can exist at all, hence how much containment is mere chance
(`joinability`).

Layout: kind in the top 4 bits. Whole numbers: digits in the low 6 bits, bit 6 when negative. Text: length (63 at
most) in the low 6 bits, above them one bit each for digits, letters, `@`, space, other ASCII, beyond ASCII. Times: 1
when it is a midnight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from shoal.risk.hashing.siphash import Bytes, Hashes, Positions

Shapes = npt.NDArray[np.uint16]

KINDS = {
    "0": 0, "i": 1, "f": 2, "n": 2, "b": 3, "t": 4, "c": 5, "d": 6, "v": 6, "s": 7, "x": 8,
    "l": 9, "r": 10, "m": 11, "T": 12,
}  # fmt: skip
NAMES = (
    "NULL", "whole number", "number", "boolean", "time", "time of day", "duration", "text", "bytes", "list", "record",
    "map", "combination",
)  # fmt: skip
NULL = 0
COMBINATION = KINDS["T"] << 12
WHOLE_NUMBER, TIME, TEXT = 1, 4, 7

DIGITS, LETTERS, AT, SPACE, PUNCTUATION, BEYOND_ASCII = (1 << bit for bit in range(6))


def _alphabet() -> npt.NDArray[np.uint8]:
    table = np.full(256, PUNCTUATION, dtype=np.uint8)
    table[ord("0") : ord("9") + 1] = DIGITS
    table[ord("a") : ord("z") + 1] = table[ord("A") : ord("Z") + 1] = LETTERS
    table[ord("@")], table[ord(" ")], table[128:] = AT, SPACE, BEYOND_ASCII
    return table


_ALPHABET = _alphabet()


def of_words(kind: str, blocks: list[Hashes], last: Hashes) -> Shapes:
    """Shapes of values of fixed size."""
    base = np.full(len(last), KINDS[kind] << 12, dtype=np.uint16)
    if kind == "i":
        return base | _digits(blocks[0].view(np.int64))
    if kind == "t":
        midnight = (blocks[0].view(np.int64) % 86_400 == 0) & (last & np.uint64(0xFFFFFFFF) == 0)
        return np.asarray(base | midnight.astype(np.uint16), dtype=np.uint16)
    return base


def _digits(numbers: npt.NDArray[np.int64]) -> Shapes:
    magnitude = np.where(numbers < 0, ~numbers.view(np.uint64) + np.uint64(1), numbers.view(np.uint64))
    powers = np.array([10**power for power in range(1, 20)], dtype=np.uint64)
    digits = np.searchsorted(powers, magnitude, side="right") + 1
    return (digits + np.where(numbers < 0, 64, 0)).astype(np.uint16)


def of_texts(kind: str, data: Bytes, starts: Positions, lengths: Positions) -> Shapes:
    """Shapes of values of many lengths."""
    base = np.full(len(starts), KINDS[kind] << 12, dtype=np.uint16)
    if kind != "s":
        return base
    seen = np.minimum(lengths, 63)
    letters = np.zeros(len(starts), dtype=np.uint16)
    filled = np.flatnonzero(seen)
    if len(filled):
        counts = seen[filled]
        firsts = np.cumsum(counts) - counts
        positions = np.repeat(starts[filled] - firsts, counts) + np.arange(int(counts.sum()))
        letters[filled] = np.bitwise_or.reduceat(_ALPHABET[data[positions]], firsts)
    return np.asarray(base | (letters << np.uint16(6)) | seen.astype(np.uint16), dtype=np.uint16)


def similarity(first: Shapes, second: Shapes) -> float:
    """How much two mixes of shapes overlap: Σ min(share in one, share in the other), 1 when they are the same mix."""
    if not len(first) or not len(second):
        return 0.0
    shapes, firsts = np.unique(first, return_counts=True)
    others, seconds = np.unique(second, return_counts=True)
    _, here, there = np.intersect1d(shapes, others, assume_unique=True, return_indices=True)
    return float(np.minimum(firsts[here] / len(first), seconds[there] / len(second)).sum())


def possible_values(shape: int) -> float:
    """How many values of a shape can exist, where that is few; infinity where it is not.

    Whole numbers and strings of d digits: at most 10^d; booleans 2; midnights: the days of a century.
    """
    kind, detail = shape >> 12, shape & 0xFFF
    if kind == KINDS["b"]:
        return 2.0
    if kind == WHOLE_NUMBER:
        return 9.0 * 10.0 ** ((detail & 63) - 1) if detail & 63 > 1 else 10.0
    if kind == TEXT and detail >> 6 == DIGITS:
        return 10.0 ** (detail & 63)
    if kind == TIME and detail == 1:
        return 36_525.0
    return float("inf") if kind else 1.0


def described(shapes: Shapes) -> str:
    """The commonest shape in words: `text of 36`, `whole number of 7 digits`."""
    if not len(shapes):
        return "nothing"
    found, counts = np.unique(shapes, return_counts=True)
    shape = int(found[np.argmax(counts)])
    kind, detail = shape >> 12, shape & 0xFFF
    if kind == WHOLE_NUMBER:
        return f"whole number of {detail & 63} digit{'s' if detail & 63 > 1 else ''}"
    if kind == TEXT:
        return f"{_alphabet_in_words(detail >> 6)} of {detail & 63}{'+' if detail & 63 == 63 else ''}"
    return ("date" if kind == TIME and detail else NAMES[kind]) if kind < len(NAMES) else "unknown"


def _alphabet_in_words(letters: int) -> str:
    if letters & AT:
        return "address"
    return "digits" if letters == DIGITS else "text"
