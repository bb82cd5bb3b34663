"""Published attacks, small enough to read: what exact, rounded, slightly noisy and private answers give away.

Each attack is a function that returns an `AttackResult`: the share of secrets recovered over the number of queries, a
curve for each defence. They are teaching tools and tests at once.
"""

from shoal.audit.attacks.averaging import averaging
from shoal.audit.attacks.differencing import differencing
from shoal.audit.attacks.floating_point import floating_point
from shoal.audit.attacks.k_anonymity import composition, homogeneity, linkage
from shoal.audit.attacks.membership import membership
from shoal.audit.attacks.reconstruction import exhaustive_reconstruction, reconstruction
from shoal.audit.attacks.results import AttackResult, Curve
from shoal.audit.attacks.sketches import SketchAttack, sketches

__all__ = [
    "AttackResult",
    "Curve",
    "SketchAttack",
    "averaging",
    "composition",
    "differencing",
    "exhaustive_reconstruction",
    "floating_point",
    "homogeneity",
    "linkage",
    "membership",
    "reconstruction",
    "sketches",
]
