"""Anonymity: k-anonymity and its relatives, measured and enforced, for a custodian who must hand over rows.

>>> table = {"zip": [4217, 4217, 4217, 1742, 1742], "age": [34, 34, 34, 77, 77]}
>>> measure({"patients": table}, quasi=["zip", "age"]).k
2
"""

from shoal.anonymity.hierarchies.hierarchy import Hierarchy
from shoal.anonymity.measuring.measure_table import measure
from shoal.anonymity.measuring.measurement import Measurement, Share
from shoal.anonymity.measuring.verdicts import Finding, Verdict
from shoal.anonymity.policy import Policy, check, read_policy
from shoal.anonymity.recoding.anonymized import Anonymized
from shoal.anonymity.recoding.enforce import enforce
from shoal.anonymity.recoding.reuse import apply, compose
from shoal.anonymity.recoding.transformation import Transformation

__all__ = [
    "Anonymized",
    "Finding",
    "Hierarchy",
    "Measurement",
    "Policy",
    "Share",
    "Transformation",
    "Verdict",
    "apply",
    "check",
    "compose",
    "enforce",
    "measure",
    "read_policy",
]
