"""Risk: how identifying existing data is, and how easily it can be joined.

Measures and heuristics for data that was made without a privacy promise: they find, rank and watch risk; they guarantee
nothing. Sketches are as sensitive as the identifiers in them: keep them where the data is.

    >>> sketch = Sketch(key=b"a secret of the operator")
    >>> sketch.update(["Oslo", "Oslo", "Riga"], ["ann", "bob", "ann"])
    >>> sketch.share_below(2)
    Estimate(value=0.5, low=0.5, high=0.5)
"""

from shoal.risk.checking.baseline import compare_with_baseline
from shoal.risk.checking.check import Finding, Verdict, check
from shoal.risk.checking.policy import Policy, policy_from, read_policy
from shoal.risk.hashing.keys import UnkeyedSketchWarning, make_key, read_key
from shoal.risk.joining.containment import by_inclusion_exclusion, containment
from shoal.risk.joining.joinability import Joinability, joinability
from shoal.risk.joining.knowledge import Knowledge, knowledge_from, read_knowledge
from shoal.risk.joining.pairs import Pair
from shoal.risk.membership.impossibility import smallest_error
from shoal.risk.membership.lookup import Found, look_up
from shoal.risk.membership.loss import SketchLoss, sketch_loss
from shoal.risk.membership.posterior import Posterior, membership
from shoal.risk.membership.without_key import membership_without_key
from shoal.risk.private.distinct_sketch import DistinctSketch, RepeatedReleaseWarning, SeededReleaseWarning
from shoal.risk.private.private_sketch import PrivateSketch, merge_private, sketch_error
from shoal.risk.reports.report import Report
from shoal.risk.scanning.scan import Progress, scan
from shoal.risk.sketch.estimate import Estimate
from shoal.risk.sketch.files import SketchedDataset, read_datasets, write_datasets
from shoal.risk.sketch.grading import Grade
from shoal.risk.sketch.khll import Sketch
from shoal.risk.sketch.leakage import Leakage, average_privacy_loss, leakage
from shoal.risk.sketch.measures import Measures

__all__ = [
    "DistinctSketch",
    "Estimate",
    "Finding",
    "Found",
    "Grade",
    "Joinability",
    "Knowledge",
    "Leakage",
    "Measures",
    "Pair",
    "Policy",
    "Posterior",
    "PrivateSketch",
    "Progress",
    "RepeatedReleaseWarning",
    "Report",
    "SeededReleaseWarning",
    "Sketch",
    "SketchLoss",
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
    "look_up",
    "make_key",
    "membership",
    "membership_without_key",
    "merge_private",
    "policy_from",
    "read_datasets",
    "read_key",
    "read_knowledge",
    "read_policy",
    "scan",
    "sketch_error",
    "sketch_loss",
    "smallest_error",
    "write_datasets",
]
