"""The page of a measurement (first draft)."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from shoal.pages import page, top

if TYPE_CHECKING:
    from shoal.anonymity.measuring.measurement import Measurement
    from shoal.anonymity.recoding.anonymized import Anonymized


def measurement_page(found: Measurement, *, k: int = 5, show_values: bool = False) -> str:
    """The page of a measurement."""
    lead = f"classes below {k}" if show_values else ""
    return page("Anonymity", top("Anonymity", lead) + f"<main><pre>{escape(str(found))}</pre></main>")


def recoding_page(made: Anonymized, *, show_values: bool = False) -> str:
    """The page of a recoding."""
    lead = "values" if show_values else ""
    return page("Anonymity", top("Anonymity", lead) + f"<main><pre>{escape(str(made))}</pre></main>")
