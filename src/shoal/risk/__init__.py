"""Risk: how identifying is data that already exists, and how easily can it be joined.

Measures and heuristics for data that was made without a privacy promise: they find, rank and watch risk; they guarantee
nothing. Sketches are as sensitive as the identifiers in them: keep them where the data is.

    >>> sketch = Sketch(key=b"a secret of the operator")
    >>> sketch.update(["Oslo", "Oslo", "Riga"], ["ann", "bob", "ann"])
    >>> sketch.share_below(2)
    Estimate(value=0.5, low=0.5, high=0.5)
"""

from shoal.risk.baseline import compare_with_baseline
from shoal.risk.checking import Finding, Verdict, check
from shoal.risk.containment import by_inclusion_exclusion, containment
from shoal.risk.estimate import Estimate
from shoal.risk.files import SketchedDataset, read_datasets, write_datasets
from shoal.risk.grading import Grade
from shoal.risk.hashing import UnkeyedSketchWarning, make_key, read_key
from shoal.risk.joinability import Joinability, joinability
from shoal.risk.khll import Sketch
from shoal.risk.leakage import Leakage, average_privacy_loss, leakage
from shoal.risk.measures import Measures
from shoal.risk.pairs import Pair
from shoal.risk.policy import Policy, policy_from, read_policy
from shoal.risk.report import Report
from shoal.risk.scan import Progress, scan
from shoal.risk.spaces import Knowledge, knowledge_from, read_knowledge

__all__ = [
    "Estimate",
    "Finding",
    "Grade",
    "Joinability",
    "Knowledge",
    "Leakage",
    "Measures",
    "Pair",
    "Policy",
    "Progress",
    "Report",
    "Sketch",
    "SketchedDataset",
    "UnkeyedSketchWarning",
    "Verdict",
    "average_privacy_loss",
    "by_inclusion_exclusion",
    "check",
    "compare_with_baseline",
    "containment",
    "joinability",
    "knowledge_from",
    "leakage",
    "make_key",
    "policy_from",
    "read_datasets",
    "read_key",
    "read_knowledge",
    "read_policy",
    "scan",
    "write_datasets",
]
