"""The respondent's side of a survey in the local model: one file, standard library only, made to be copied to devices.

    report = Client(question_json, memory="memory.json").randomize("often")     # {"q": "1f0c9a2b", "r": ...}

The collector is not trusted: `check` proves from the integer weights in the question that every report keeps the ε it claims.
Draws are exact: uniform integers below a total weight, by rejection. The same question and round give the same report again,
whatever the value; after a restart too, if `memory` is a file (of one process at a time).
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

VERSION, QUESTION_SHA256 = "1", ""  # the one question this copy answers; empty: any question
HALF_RANGE, PRIME = 1 << 20, (1 << 61) - 1  # numbers are rounded to −N … N; texts are hashed modulo the prime


def bits(count: int) -> int:
    """A uniform integer in [0, 2^count), from the operating system: the only source of randomness in this file."""
    return int.from_bytes(os.urandom((count + 7) // 8), "little") >> (-count % 8)


class Client:
    """Answers one question for one respondent."""

    def __init__(self, question: Any, memory: str | os.PathLike[str] | None = None, bits: Any = bits) -> None:
        self.question: dict[str, Any] = question if isinstance(question, dict) else json.loads(question)
        self._randomiser = RANDOMISERS[check(self.question)]
        self.sha256, self._bits, self._memory = sha256_of(self.question), bits, memory
        if QUESTION_SHA256 not in {"", self.sha256}:
            raise ValueError("this client was made for another question")
        self._positions = {value: position for position, value in enumerate(self.question.get("values", []))}
        self._kept: dict[str, Any] = {}
        if memory is not None and os.path.exists(memory):  # noqa: PTH110 - pathlib takes longer to load than all of this
            with open(memory, encoding="utf-8") as file:  # noqa: PTH123 - same
                self._kept = json.load(file)

    def randomize(self, value: Any, round: str = "") -> dict[str, Any]:  # noqa: A002 - the collector's word
        """The report for this value, or the one that was given in this round before."""
        mine, key = self._kept.setdefault(self.sha256, {}), f"round {round}"
        if key not in mine:
            drawn = mine.get("permanent") or self.draw(value)
            if "keep" in self.question:
                mine["permanent"], drawn = drawn, blur(self.question, drawn, self._bits)
            mine[key] = {"q": self.sha256[:8], "r": drawn}
        if self._memory is not None:  # on the disk before the report is handed out, and never half of it
            new = f"{os.fspath(self._memory)}.new"
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(json.dumps(self._kept))
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._memory)  # noqa: PTH105 - same
        return dict(mine[key])

    def draw(self, value: Any) -> Any:
        """A fresh answer (of a longitudinal question: its permanent bits), kept nowhere."""
        return self._randomiser(self.question, self.encode(value), self._bits)

    def encode(self, value: Any) -> Any:
        """The value as the randomiser takes it: a position in the list, a string, a number in [0, 1], a whole number."""
        kind = self.question["kind"]
        if kind == "choice":
            if type(value) not in {str, int} or value not in self._positions:
                raise ValueError("the value is not in the list of the question: offer an 'other'")
            return self._positions[value]
        if kind == "text" and isinstance(value, str):
            return value
        if kind == "text" or type(value) not in {int, float, Decimal, Fraction} or value != value:  # noqa: PLR0124 - NaN
            raise ValueError("the answer to this question is a string" if kind == "text" else "the answer is a number")
        lower, upper = Fraction(self.question["lower"] if kind == "number" else 0), Fraction(self.question["upper"])
        number = lower if value <= lower else upper if value >= upper else Fraction(str(value))
        if kind == "count" and number.denominator != 1:
            raise ValueError("the answer to this question is a whole number")
        return int(number) if kind == "count" else (number - lower) / (upper - lower)


def below(bound: int, bits: Any) -> int:
    """A uniform integer in [0, bound), exactly."""
    candidate = int(bits((bound - 1).bit_length()))
    return candidate if candidate < bound else below(bound, bits)


def some_of(count: int, size: int, bits: Any) -> set[int]:
    """A uniform subset of {0 … count − 1} (Floyd's algorithm)."""
    chosen: set[int] = set()
    for last in range(count - size, count):
        pick = below(last + 1, bits)
        chosen.add(last if pick in chosen else pick)
    return chosen


def biased_bits(width: int, numerator: int, denominator: int, bits: Any) -> int:
    """`width` coins of one chance: digits of as many uniform reals are compared with those of the chance, all at once."""
    ones, undecided = 0, (1 << width) - 1
    while undecided and numerator:
        digit, numerator = divmod(2 * numerator, denominator)
        drawn = bits(width)
        ones |= undecided & ~drawn if digit else 0
        undecided &= drawn if digit else ~drawn
    return ones


def _subset(question: Any, own: int, bits: Any) -> list[int]:
    (inside, outside), size, count = question["weights"], question["size"], len(question["values"])
    held = below(size * inside + (count - size) * outside, bits) < size * inside
    return sorted([i + (i >= own) for i in some_of(count - 1, size - held, bits)] + [own] * held)


def _projective(question: Any, own: int, bits: Any) -> int:
    (inside, outside), field, length = question["weights"], question["field"], question["coordinates"]
    half, points = (field ** (length - 1) - 1) // (field - 1), (field**length - 1) // (field - 1)
    value = point(own, field, length)
    supported = below(half * inside + (points - half) * outside, bits) < half * inside
    while True:
        drawn = [below(field, bits) for _ in range(length)]
        product = sum(a * b for a, b in zip(drawn, value, strict=True)) % field
        if supported:
            drawn[value.index(1)] = (drawn[value.index(1)] - product) % field
        if any(drawn) if supported else product:
            return number_of(drawn, field)


def point(number: int, field: int, length: int) -> list[int]:
    """The number-th point: zeros, a leading 1, then any digits; ordered by the place of the 1, then by the digits."""
    rest = length - 1
    while number >= field**rest:
        number, rest = number - field**rest, rest - 1
    return [0] * (length - 1 - rest) + [1] + [number // field**position % field for position in reversed(range(rest))]


def number_of(vector: list[int], field: int) -> int:
    """The number of the point that a vector lies on."""
    lead = next(i for i, digit in enumerate(vector) if digit)
    last, scale = len(vector) - 1, int(pow(vector[lead], -1, field))
    scaled = [scale * digit % field * field ** (last - i) for i, digit in enumerate(vector) if i > lead]
    return int(sum(field ** (last - i) for i in range(lead)) + sum(scaled))


def _unary(question: Any, own: int, bits: Any) -> str:
    (inside, outside), width = question["weights"], len(question["values"])
    others = biased_bits(width, outside, inside + outside, bits) & ~(1 << own)
    return format(others | bits(1) << own, f"0{(width + 3) // 4}x")


def blur(question: Any, permanent: str, bits: Any) -> str:
    """Permanent bits, each flipped with the chance 1 − keep: one report of a longitudinal question."""
    (keep, one), width = question["keep"], len(question["values"])
    return format(int(permanent, 16) ^ biased_bits(width, one - keep, one, bits), f"0{(width + 3) // 4}x")


def _hashing(question: Any, own: Any, bits: Any) -> list[int]:
    (inside, outside), buckets, seed = question["weights"], question["buckets"], bits(64)
    home = bucket_of(question["values"][own] if isinstance(own, int) else own, seed, buckets)
    told = below(inside + (buckets - 1) * outside, bits) >= inside and 1 + below(buckets - 1, bits)
    return [seed, (home + told) % buckets]


def bucket_of(value: Any, seed: int, buckets: int) -> int:
    """((a·X + b) mod 2⁶¹ − 1) mod buckets: X from 61 bits of BLAKE2b of the value's text, a ≥ 1 and b from the seed."""
    texts = str(value).encode("utf-8", "surrogatepass"), seed.to_bytes(8, "little")
    digests = b"".join(hashlib.blake2b(text, digest_size=8 * i).digest() for i, text in enumerate(texts, 1))
    x, a, b = (int.from_bytes(digests[i : i + 8], "little") >> 3 for i in (0, 8, 16))
    return ((a % (PRIME - 1) + 1) * x + b) % PRIME % buckets


def _number(question: Any, position: Fraction, bits: Any) -> list[int]:
    (inside, outside), (mixed, total), reach = question["weights"], question["mix"], question["reach"]
    if below(total, bits) >= mixed:
        true_side = below(position.denominator, bits) < position.numerator
        return [0, HALF_RANGE if (below(inside + outside, bits) < inside) == true_side else -HALF_RANGE]
    whole, rest = divmod(position * 2 * HALF_RANGE, 1)
    start = whole - HALF_RANGE - reach + (below(rest.denominator, bits) < rest.numerator)
    window = (2 * reach + 1) * inside
    if below(window + 2 * HALF_RANGE * outside, bits) < window:
        return [1, start + below(2 * reach + 1, bits)]
    other = below(2 * HALF_RANGE, bits) - HALF_RANGE - reach
    return [1, other + (2 * reach + 1 if other >= start else 0)]


def _count(question: Any, own: int, bits: Any) -> int:
    (ratio, one), upper, sign = question["ratio"], question["upper"], 2 * bits(1) - 1
    size = int(below(one + ratio, bits) >= one - ratio)
    while 0 < size <= upper and below(one, bits) < ratio:
        size += 1
    return int(min(max(own + sign * size, 0), upper))


ORACLES: Any = {"subset": _subset, "projective": _projective, "unary": _unary, "hashing": _hashing}
RANDOMISERS: Any = {**ORACLES, "number": _number, "count": _count}


def sha256_of(question: Any) -> str:
    """The full fingerprint of a question: SHA-256 of its canonical JSON."""
    return hashlib.sha256(json.dumps(question, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def check(question: Any) -> str:
    """The randomiser of a question; one that is damaged, or whose weights do not keep the ε it claims, is refused."""
    with suppress(ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        kind = question["kind"]
        name = (
            question["oracle"] if kind == "choice" else {"text": "hashing", "number": "number", "count": "count"}[kind]
        )
        if (name in ORACLES or kind != "choice") and _is_sound(question, name):
            return str(name)
    raise ValueError("the question is damaged, or its weights do not keep the epsilon it claims")


def _is_sound(q: Any, name: str) -> bool:
    values = q["values"] if q["kind"] == "choice" else ["no", "list"]
    texts = "".join(str(q.get(part, "")) for part in ("epsilon", "first", "lower", "upper"))
    if len(texts) > 9999 or set(texts) - set("0123456789./-"):  # 1e999999999 would never end
        return False
    epsilon = Fraction(q["epsilon"])
    numbers = [x for part in ("weights", "ratio", "keep", "mix") for x in q.get(part, [])]
    numbers += [q[part] for part in ("size", "field", "coordinates", "buckets", "reach") if part in q]
    sound = 2 <= len(set(map(str, values))) == len(values) <= 1 << 20 and {type(v) for v in values} <= {str, int}
    if not sound or not 0 < epsilon <= 40 or any(type(x) is not int or not 0 <= x < 1 << 128 for x in numbers):
        return False
    if name == "count" and "keep" not in q:
        upper, ratio = q["upper"], Fraction(*q["ratio"])
        return type(upper) is int and 0 < upper <= 1000 and ratio < 1 and keeps(ratio**-upper, epsilon)
    inside, outside = q["weights"]
    if "keep" in q:
        kept, rare = Fraction(*q["keep"]), Fraction(outside, inside + outside)
        seen = rare * kept + (1 - rare) * (1 - kept)
        sound = name == "unary" and 1 <= 2 * kept <= 2 and keeps((1 - seen) / seen, Fraction(q["first"]))
    elif name == "projective":
        r, t, k = q["field"], q["coordinates"], len(values)
        sound = 1 < r < 4097 and 1 < t < 25 and k * (r - 1) < r**t <= 1 << 24 and all(r % d for d in range(2, r))
    elif name == "number":
        (mixed, total), width = q["mix"], Fraction(q["upper"]) - Fraction(q["lower"])
        sound = mixed <= total > 0 and q["reach"] <= HALF_RANGE and width > 0
    elif name != "unary":
        sound = 0 < q["size"] < len(values) if name == "subset" else 1 < q["buckets"] <= 1 << 20
    return sound and 0 < outside <= inside and keeps(Fraction(inside, outside), epsilon)


def keeps(ratio: Fraction, epsilon: Fraction) -> bool:
    """Whether ratio ≤ e^ε, by decimals that round e^ε down."""
    context = Context(prec=60, rounding=ROUND_FLOOR)
    exponent = context.divide(Decimal(epsilon.numerator), Decimal(epsilon.denominator))
    return ratio <= Fraction(context.next_minus(context.exp(exponent)))
