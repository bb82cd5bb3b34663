"""The local model: answers that are private before they leave the respondent.

    >>> from shoal import local
    >>> question = local.choice(["never", "once", "often"], epsilon=1.0)
    >>> report = question.randomize("often")
    >>> sorted(report)
    ['q', 'r']

Names are imported when first used, so that `shoal.local.client` alone stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal.local import client
    from shoal.local.base import Question
    from shoal.local.estimate import Estimate, Interval, NumberEstimate
    from shoal.local.geometric import Count
    from shoal.local.numbers import Number
    from shoal.local.questions import (
        Choice,
        Text,
        choice,
        client_source,
        count,
        number,
        question,
        read_answers,
        read_candidates,
        read_reports,
        text,
        yes_no,
    )
    from shoal.local.reports import Reports, Tally
    from shoal.local.shuffle import local_for, shuffled
    from shoal.local.surveys import Comparison, Survey, compare, survey
    from shoal.local.weights import from_keep_probability

_HOMES = {
    "Choice": "questions",
    "Comparison": "surveys",
    "Count": "geometric",
    "Estimate": "estimate",
    "Interval": "estimate",
    "Number": "numbers",
    "NumberEstimate": "estimate",
    "Question": "base",
    "Reports": "reports",
    "Survey": "surveys",
    "Tally": "reports",
    "Text": "questions",
    "choice": "questions",
    "client_source": "questions",
    "compare": "surveys",
    "count": "questions",
    "from_keep_probability": "weights",
    "local_for": "shuffle",
    "number": "questions",
    "question": "questions",
    "read_answers": "questions",
    "read_candidates": "questions",
    "read_reports": "questions",
    "shuffled": "shuffle",
    "survey": "surveys",
    "text": "questions",
    "yes_no": "questions",
}

__all__ = [
    "Choice",
    "Comparison",
    "Count",
    "Estimate",
    "Interval",
    "Number",
    "NumberEstimate",
    "Question",
    "Reports",
    "Survey",
    "Tally",
    "Text",
    "choice",
    "client",
    "client_source",
    "compare",
    "count",
    "from_keep_probability",
    "local_for",
    "number",
    "question",
    "read_answers",
    "read_candidates",
    "read_reports",
    "shuffled",
    "survey",
    "text",
    "yes_no",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"shoal.local.{_HOMES[name]}"), name)
    if name == "client":
        return import_module("shoal.local.client")
    raise AttributeError(f"module 'shoal.local' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
