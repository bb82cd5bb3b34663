r"""Regular expressions with backslashes, as everybody writes them, in the form without: \d is [0-9], \( is [(].

Strings with backslashes mean different things in different databases, so the language accepts none in patterns. The forms
handled here mean the same in all of them; anything else is left unchanged, and is refused.
"""

from __future__ import annotations

_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": " \t\n\r\f\v"}
_LITERAL = frozenset(".()+*?|${}/-,:'\"# ")


def without_backslashes(pattern: str) -> str | None:
    r"""The same pattern; None if it has an unknown backslash escape.

    >>> without_backslashes(r"\((\d{4})\)$"), without_backslashes(r"[\w.]+@"), without_backslashes(r"a\b")
    ('[(]([0-9]{4})[)]$', '[0-9A-Za-z_.]+@', None)
    """
    written, inside, characters = "", False, iter(pattern)
    for character in characters:
        if character == "\\":
            found = _meant(next(characters, ""), inside=inside)
            if found is None:
                return None
            written += found
            continue
        inside = character == "[" if not inside else character != "]"
        written += character
    return written


def _meant(escaped: str, *, inside: bool) -> str | None:
    range_ = _CLASSES.get(escaped)
    if range_ is not None:
        return range_ if inside else f"[{range_}]"
    if escaped not in _LITERAL or (inside and escaped == "-"):
        return None
    return escaped if inside else f"[{escaped}]"
