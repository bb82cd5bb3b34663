"""Audit: catch broken mechanisms, and show what attacks get.

>>> import numpy as np
>>> from shoal import audit
>>> rng = np.random.default_rng(7)
>>> verdict = audit.check(lambda data, n: len(data) + rng.laplace(size=n), epsilon=1.0, samples=20_000)
>>> verdict.passed
True
"""

from shoal.audit.tester.check import check
from shoal.audit.tester.verdicts import Verdict, Witness

__all__ = ["Verdict", "Witness", "check"]
