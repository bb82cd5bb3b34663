"""Risk: how identifying is data that already exists, and how easily can it be joined.

Measures and heuristics for data that was made without a privacy promise: they find, rank and watch risk; they guarantee
nothing. Sketches are as sensitive as the identifiers in them: keep them where the data is.

    >>> sketch = Sketch(key=b"a secret of the operator")
    >>> sketch.update(["Oslo", "Oslo", "Riga"], ["ann", "bob", "ann"])
    >>> sketch.share_below(2)
    Estimate(value=0.5, low=0.5, high=0.5)
"""

from shoal.risk.estimate import Estimate
from shoal.risk.files import SketchedDataset, read_datasets, write_datasets
from shoal.risk.hashing import UnkeyedSketchWarning, make_key, read_key
from shoal.risk.khll import Sketch
from shoal.risk.report import Report
from shoal.risk.scan import Progress, scan

__all__ = [
    "Estimate",
    "Progress",
    "Report",
    "Sketch",
    "SketchedDataset",
    "UnkeyedSketchWarning",
    "make_key",
    "read_datasets",
    "read_key",
    "scan",
    "write_datasets",
]
