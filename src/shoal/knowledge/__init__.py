"""What exact counts reveal to an attacker who does not know everything.

Conditional promises: they hold only under the stated assumptions, and are not differential privacy. Every result
carries its assumptions.

    >>> kept = count(1000, uncertainty=0.05)
    >>> round(kept.epsilon_at(1e-6), 3)
    0.753
    >>> kept.assumptions[0]
    "The attacker knows nobody's answer."
"""

from shoal.knowledge.guarantee import Guarantee
from shoal.knowledge.releases import count, histogram, k_anonymity, repeated, threshold
from shoal.knowledge.sizes import noise_for, people_for
from shoal.knowledge.tables import CountTable, count_table

__all__ = [
    "CountTable",
    "Guarantee",
    "count",
    "count_table",
    "histogram",
    "k_anonymity",
    "noise_for",
    "people_for",
    "repeated",
    "threshold",
]
