"""Canonical forms of numbers that are not integers: floats and decimals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shoal.risk.hashing.messages import Part, fixed, texts

if TYPE_CHECKING:
    from shoal.risk.hashing.siphash import Positions


def floats(numbers: npt.NDArray[np.float64]) -> list[Part]:
    """Whole numbers as integers, others by their bits; NaN has no form and is hashed as NULL."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is no more than a NaN
        whole = (np.trunc(numbers) == numbers) & (numbers >= -(2.0**63)) & (numbers < 2.0**63)
    if whole.all():
        return [(None, fixed(numbers.astype(np.int64).view(np.uint64), "i"))]
    wholes, others = np.flatnonzero(whole), np.flatnonzero(~whole & ~np.isnan(numbers))
    return [
        (wholes, fixed(numbers[wholes].astype(np.int64).view(np.uint64), "i")),
        (others, fixed(numbers[others].view(np.uint64), "f")),
    ]


def decimals(array: pa.Array) -> list[Part]:
    """Decimals whose unscaled number has 64 bits by arithmetic, wider ones by their digits."""
    scale = array.type.scale
    if array.type.bit_width < 128:
        array = array.cast(pa.decimal128(array.type.precision, scale))
    if array.type.bit_width > 128 or not 0 <= scale <= 18:
        return _wide_decimals(array, np.arange(len(array)))
    halves = np.frombuffer(array.buffers()[1], np.int64)[2 * array.offset : 2 * (array.offset + len(array))]
    unscaled, high = halves[0::2], halves[1::2]
    narrow = high == unscaled >> 63
    whole = narrow & (unscaled % 10**scale == 0)
    short = narrow & ~whole & (np.abs(unscaled) < 10**15)
    wholes, shorts, rest = (np.flatnonzero(chosen) for chosen in (whole, short, ~(whole | short)))
    # both operands are exact doubles, so the quotient is the nearest one
    nearest = unscaled[shorts].astype(np.float64) / float(10**scale)
    return [
        (wholes, fixed((unscaled[wholes] // 10**scale).view(np.uint64), "i")),
        (shorts, fixed(nearest.view(np.uint64), "f")),
        *(_wide_decimals(array, rest) if len(rest) else []),
    ]


def _wide_decimals(array: pa.Array, positions: Positions) -> list[Part]:
    """Decimals by text: `digits e exponent`, where the digits end in no zero."""
    chosen = array.take(pa.array(positions))
    integers = pa.decimal128(38, 0) if chosen.type.bit_width == 128 else pa.decimal256(76, 0)
    unscaled = pa.Array.from_buffers(integers, len(chosen), chosen.buffers(), offset=chosen.offset).cast(pa.string())
    digits = pc.utf8_rtrim(unscaled, characters="0")
    stripped = pc.subtract(pc.binary_length(unscaled), pc.binary_length(digits)).to_numpy()
    exponents = stripped.astype(np.int64) - chosen.type.scale
    text = pc.binary_join_element_wise(digits, pa.array(exponents).cast(pa.string()), "e")
    significant = pc.binary_length(pc.utf8_ltrim(digits, characters="-")).to_numpy()
    return _numbers_by_text(text, digits, exponents, significant, positions)


def _numbers_by_text(
    text: pa.Array, digits: pa.Array, exponents: Positions, significant: npt.NDArray[np.int32], positions: Positions
) -> list[Part]:
    zero = np.asarray(significant == 0)
    whole = zero | ((exponents >= 0) & (significant + exponents <= 18))
    short = ~whole & (significant <= 15)
    wide = ~(whole | short)
    factors = 10 ** np.where(whole & ~zero, exponents, 0)
    leading = pc.if_else(pa.array(whole & ~zero), digits, pa.scalar("0")).cast(pa.int64()).to_numpy()
    return [
        (positions[whole], fixed((leading[whole] * factors[whole]).view(np.uint64), "i")),
        (positions[short], fixed(text.filter(pa.array(short)).cast(pa.float64()).to_numpy().view(np.uint64), "f")),
        (positions[wide], texts(text.filter(pa.array(wide)), "n")),
    ]
