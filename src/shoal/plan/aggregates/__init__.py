"""One class per aggregate: which measures it needs, how its budget is shared between them, how noisy sums become an answer.

`finish` and `interval` see only released numbers and public parameters. Intervals are marginal: they cover the noise, not
clamping, dropped groups, or the fact that the group was kept. `spellings` lists how analysts write each aggregate.
"""

from shoal.plan.aggregates.counts import CountDistinct, CountOwners, CountRows
from shoal.plan.aggregates.defaults import Aggregate
from shoal.plan.aggregates.noisy_measure import NoisyMeasure
from shoal.plan.aggregates.quantiles import ApproxBounds, Extreme, Quantile, Quantiles
from shoal.plan.aggregates.sums import Average, RowAverage, Sum
from shoal.plan.aggregates.variances import Variance

__all__ = [
    "Aggregate",
    "ApproxBounds",
    "Average",
    "CountDistinct",
    "CountOwners",
    "CountRows",
    "Extreme",
    "NoisyMeasure",
    "Quantile",
    "Quantiles",
    "RowAverage",
    "Sum",
    "Variance",
]
