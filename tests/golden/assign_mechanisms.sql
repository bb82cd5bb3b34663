-- One count
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*, contribution_bounds_per_group => (0, 3)) FROM customers
--> release 0: RowCount(origin=middle) in [0, 3] + Laplace(scale 3, shift 3 × 1, grid 1)
--> groups: all
--> charge: epsilon 1 for Laplace(scale 3, shift 3 × 1, grid 1)
--> note: Laplace noise: Gaussian noise would need delta > 0.

-- A sum of reals has a grid
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) SUM(income, contribution_bounds_per_group => (-3, 1000)) FROM customers
--> release 0: OwnerSum(argument=c5, is_integer=False, origin=middle) in [-3, 1000] + Laplace(scale 8388608000, shift 8388608000 × 1, grid 1/2^23)
--> groups: all
--> charge: epsilon 1 for Laplace(scale 8388608000, shift 8388608000 × 1, grid 1/2^23)
--> note: Laplace noise: Gaussian noise would need delta > 0.

-- A constant needs no noise
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) SUM(income, contribution_bounds_per_group => (0, 0)), COUNT(DISTINCT uid) FROM customers
--> release 0: OwnerSum(argument=c5, is_integer=False, origin=middle) in [0, 0] + Laplace(scale 0, shift 0 × 1, grid 1)
--> release 1: OwnerCount() in no bounds + Laplace(scale 1, shift 1 × 1, grid 1)
--> groups: all
--> charge: epsilon 1 for Laplace(scale 1, shift 1 × 1, grid 1)
--> note: Laplace noise: Gaussian noise would need delta > 0.

-- AVG gives its sum more than its count
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) AVG(age) FROM customers
--> release 0: OwnerMean(argument=c4, origin=lower) in [18, 100] + Laplace(scale 704374636545/2^7, shift 5502926848 × 1 over 2, grid 1/2^26)
--> release 1: OwnerMean(argument=c4, origin=upper) in [18, 100] + Laplace(scale 704374636545/2^7, shift 5502926848 × 1 over 2, grid 1/2^26)
--> groups: all
--> charge: epsilon 704374636544/704374636545 for Laplace(scale 704374636545/2^7, shift 5502926848 × 1 over 2, grid 1/2^26)
--> note: Laplace noise: Gaussian noise would need delta > 0.

-- Few groups: Laplace noise
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) site, COUNT(*) FROM visits GROUP BY site
--> release 0: RowCount(origin=lower) in [0, 20] + Laplace(scale 20, shift 20 × 1 over 2, grid 1)
--> release 1: RowCount(origin=upper) in [0, 20] + Laplace(scale 20, shift 20 × 1 over 2, grid 1)
--> groups: threshold 327 on both parts of a whole, Laplace(scale 20, shift 20 × 1 over 2, grid 1), delta ≈ 1e-06, groups 1, owners from 1
--> release 0 decides which groups appear
--> charge: epsilon 1 for Laplace(scale 20, shift 20 × 1 over 2, grid 1)
--> charge: threshold 327 on both parts of a whole, Laplace(scale 20, shift 20 × 1 over 2, grid 1), delta ≈ 1e-06, groups 1, owners from 1
--> note: Each owner counts in one group only (max_groups_contributed was not given).
--> note: Laplace noise is more accurate here than Gaussian noise.
--> note: COUNT and what it lacks to its bound are released at the price of one: groups are selected by the number of owners that follows from the two.

-- Many groups: Gaussian noise
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 50) site, COUNT(*), SUM(spend) FROM visits GROUP BY site
--> release 0: RowCount(origin=middle) in [0, 20] + Gaussian(sigma ≈ 1034.83, shift 20 × 50, grid 1)
--> release 1: OwnerSum(argument=c4, is_integer=False, origin=middle) in [0, 10000] + Gaussian(sigma ≈ 8.47733e+09, shift 163840000 × 50, grid 1/2^14)
--> groups: threshold 42278539 on weights, 1048576 steps in one group to 148291 in 50, Gaussian(sigma ≈ 7.67281e+06, shift 1048576 × 50, grid 1), delta ≈ 1e-06, groups 50, owners from 1
--> charge: epsilon 1, delta ≈ 1e-06 for 3 Gaussian parts and the threshold on one of them: threshold 42278539 on weights, 1048576 steps in one group to 148291 in 50, Gaussian(sigma ≈ 7.67281e+06, shift 1048576 × 50, grid 1), delta ≈ 1e-06, groups 50, owners from 1
--> note: Jointly calibrated Gaussian noise is more accurate here than Laplace noise.

-- The count of owners that is shown decides
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) site, COUNT(DISTINCT uid) FROM visits GROUP BY site
--> release 0: OwnerCount() in no bounds + Laplace(scale 1, shift 1 × 1, grid 1)
--> groups: threshold 15 on Laplace(scale 1, shift 1 × 1, grid 1), delta ≈ 1e-06, groups 1, owners from 1, the noisy count is shown
--> release 0 decides which groups appear
--> charge: epsilon 1 for Laplace(scale 1, shift 1 × 1, grid 1)
--> charge: threshold 15 on Laplace(scale 1, shift 1 × 1, grid 1), delta ≈ 1e-06, groups 1, owners from 1, the noisy count is shown
--> note: Each owner counts in one group only (max_groups_contributed was not given).
--> note: Laplace noise is more accurate here than Gaussian noise.

-- Each rule on request: OPTIMAL
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, group_selection_strategy = OPTIMAL) site, COUNT(*) FROM visits GROUP BY site
--> release 0: RowCount(origin=middle) in [0, 20] + Laplace(scale 40, shift 20 × 1, grid 1)
--> groups: optimal selection, epsilon 1/2, delta ≈ 1e-06, groups 1, owners from 1
--> charge: epsilon 1/2 for Laplace(scale 40, shift 20 × 1, grid 1)
--> charge: optimal selection, epsilon 1/2, delta ≈ 1e-06, groups 1, owners from 1
--> note: Each owner counts in one group only (max_groups_contributed was not given).
--> note: Laplace noise is more accurate here than Gaussian noise.

-- Each rule on request: LAPLACE_THRESHOLD
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, group_selection_strategy = LAPLACE_THRESHOLD, noise = LAPLACE) site, COUNT(*) FROM visits GROUP BY site
--> release 0: RowCount(origin=lower) in [0, 20] + Laplace(scale 20, shift 20 × 1 over 2, grid 1)
--> release 1: RowCount(origin=upper) in [0, 20] + Laplace(scale 20, shift 20 × 1 over 2, grid 1)
--> groups: threshold 327 on both parts of a whole, Laplace(scale 20, shift 20 × 1 over 2, grid 1), delta ≈ 1e-06, groups 1, owners from 1
--> release 0 decides which groups appear
--> charge: epsilon 1 for Laplace(scale 20, shift 20 × 1 over 2, grid 1)
--> charge: threshold 327 on both parts of a whole, Laplace(scale 20, shift 20 × 1 over 2, grid 1), delta ≈ 1e-06, groups 1, owners from 1
--> note: Each owner counts in one group only (max_groups_contributed was not given).
--> note: Laplace noise, as asked.
--> note: COUNT and what it lacks to its bound are released at the price of one: groups are selected by the number of owners that follows from the two.

-- Each rule on request: GAUSSIAN_THRESHOLD
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, group_selection_strategy = GAUSSIAN_THRESHOLD, noise = GAUSSIAN) site, COUNT(*) FROM visits GROUP BY site
--> release 0: RowCount(origin=lower) in [0, 20] + Gaussian(sigma ≈ 84.4965, shift 20 × 1 over 2, grid 1)
--> release 1: RowCount(origin=upper) in [0, 20] + Gaussian(sigma ≈ 84.4965, shift 20 × 1 over 2, grid 1)
--> groups: threshold 589 on both parts of a whole, Gaussian(sigma ≈ 84.4965, shift 20 × 1 over 2, grid 1), delta ≈ 1e-06, groups 1, owners from 1
--> release 0 decides which groups appear
--> charge: epsilon 1, delta ≈ 1e-06 for 1 Gaussian parts and the threshold on one of them: threshold 589 on both parts of a whole, Gaussian(sigma ≈ 84.4965, shift 20 × 1 over 2, grid 1), delta ≈ 1e-06, groups 1, owners from 1
--> note: Each owner counts in one group only (max_groups_contributed was not given).
--> note: Jointly calibrated Gaussian noise, as asked.
--> note: COUNT and what it lacks to its bound are released at the price of one: groups are selected by the number of owners that follows from the two.

-- A minimum of owners
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, min_privacy_units_per_group = 10) site, COUNT(*) FROM visits GROUP BY site
--> release 0: RowCount(origin=lower) in [0, 20] + Laplace(scale 20, shift 20 × 1 over 2, grid 1)
--> release 1: RowCount(origin=upper) in [0, 20] + Laplace(scale 20, shift 20 × 1 over 2, grid 1)
--> groups: threshold 327 on both parts of a whole, Laplace(scale 20, shift 20 × 1 over 2, grid 1), delta ≈ 1e-06, groups 1, owners from 10
--> release 0 decides which groups appear
--> charge: epsilon 1 for Laplace(scale 20, shift 20 × 1 over 2, grid 1)
--> charge: threshold 327 on both parts of a whole, Laplace(scale 20, shift 20 × 1 over 2, grid 1), delta ≈ 1e-06, groups 1, owners from 10
--> note: Each owner counts in one group only (max_groups_contributed was not given).
--> note: Laplace noise is more accurate here than Gaussian noise.
--> note: COUNT and what it lacks to its bound are released at the price of one: groups are selected by the number of owners that follows from the two.

-- Bounds to be found take half
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, noise = LAPLACE) SUM(income) FROM customers
--> release 0: OwnerSum(argument=c5, is_integer=False, origin=middle) in the bounds of histogram 0 + Laplace(scale 4294967296, shift 2147483648 × 1, grid 1/2^31)
--> histogram 0: OwnerSum(argument=c5, is_integer=False, origin=middle) + Laplace(scale 2, shift 1 × 1, grid 1)
--> groups: all
--> charge: epsilon 1/2 for Laplace(scale 2, shift 1 × 1, grid 1)
--> charge: epsilon 1/2 for Laplace(scale 4294967296, shift 2147483648 × 1, grid 1/2^31)
--> note: Laplace noise, as asked.

-- An epsilon of one's own
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, noise = LAPLACE) SUM(age, epsilon => 0.75), COUNT(DISTINCT uid) FROM customers
--> release 0: OwnerSum(argument=c4, is_integer=True, origin=middle) in [18, 100] + Laplace(scale 1145324612267/2^33, shift 100 × 1, grid 1)
--> release 1: OwnerCount() in no bounds + Laplace(scale 4, shift 1 × 1, grid 1)
--> groups: all
--> charge: epsilon 858993459200/1145324612267 for Laplace(scale 1145324612267/2^33, shift 100 × 1, grid 1)
--> charge: epsilon 1/4 for Laplace(scale 4, shift 1 × 1, grid 1)
--> note: Laplace noise, as asked.

-- Own epsilons that leave nothing
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, noise = LAPLACE) SUM(age, epsilon => 1), COUNT(DISTINCT uid) FROM customers
--> E_OPTION_INVALID at (1, 1): The aggregates' own epsilons leave nothing of the query's epsilon for the rest.

-- A quantile tree
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) MEDIAN(age), MIN(age) FROM customers
--> release 0: Leaves(argument=c4, rows=1, branching=16, height=4) in [18, 100] + choice of 1/2 (scale 733007751851/2^37, rows around at scale 8, shift 1 × 1, grid 1)
--> release 1: Leaves(argument=c4, rows=1, extreme=min, branching=16, height=4) in [18, 100] + choice of 0 (37 rows inside, leaning -1/2) (scale 5, rows around at scale 10, shift 1 × 1, grid 1)
--> groups: all
--> charge: epsilon 2932031007403/5864062014808 for choice of 1/2 (scale 733007751851/2^37, rows around at scale 8, shift 1 × 1, grid 1)
--> charge: epsilon 1/2 for choice of 0 (37 rows inside, leaning -1/2) (scale 5, rows around at scale 10, shift 1 × 1, grid 1)
--> note: Quantiles are chosen among leaves, which is more accurate here than a noisy tree.

-- Rows instead of groups
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_rows_contributed = 10, noise = LAPLACE) site, COUNT(*), SUM(spend) FROM visits GROUP BY site
--> release 0: RowMoment(power=0, rows=10, centred=True, is_integer=False, origin=middle) in no bounds + Laplace(scale 30, shift 10 × 1 over 10, grid 1)
--> release 1: RowMoment(argument=c4, power=1, rows=10, centred=False, is_integer=False, origin=middle) in [0, 500] + Laplace(scale 7864320000, shift 2621440000 × 1 over 10, grid 1/2^19)
--> groups: threshold 64514181 on weights, 1048576 steps in one group to 331588 in 10, Gaussian(sigma ≈ 1.23444e+07, shift 1048576 × 10, grid 1), delta ≈ 1e-06, groups 10, owners from 1
--> charge: epsilon 1/3 for Laplace(scale 30, shift 10 × 1 over 10, grid 1)
--> charge: epsilon 1/3 for Laplace(scale 7864320000, shift 2621440000 × 1 over 10, grid 1/2^19)
--> charge: epsilon 1/3, delta ≈ 1e-06 for 1 Gaussian parts and the threshold on one of them: threshold 64514181 on weights, 1048576 steps in one group to 331588 in 10, Gaussian(sigma ≈ 1.23444e+07, shift 1048576 × 10, grid 1), delta ≈ 1e-06, groups 10, owners from 1
--> note: Laplace noise, as asked.

-- Gaussian noise without delta
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, noise = GAUSSIAN) COUNT(*) FROM customers
--> E_OPTION_INVALID at (1, 1): Gaussian noise needs delta > 0.

-- Bounds of each group, on request
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 3, inferred_bounds = PER_GROUP) region, SUM(income), MEDIAN(income) FROM customers GROUP BY region
--> release 0: OwnerSum(argument=c5, is_integer=False, origin=middle) in the bounds of histogram 0 + Laplace(scale 6442450944, shift 536870912 × 3, grid 1/2^29)
--> release 1: Leaves(argument=c5, rows=1, branching=16, height=4) in the bounds of histogram 1 + choice of 1/2 (scale 32, rows around at scale 48, shift 1 × 3, grid 1)
--> histogram 0 for each group: OwnerSum(argument=c5, is_integer=False, origin=middle) + Laplace(scale 12, shift 1 × 3, grid 1)
--> histogram 1 for each group: Leaves(argument=c5, rows=1, branching=16, height=4) + Laplace(scale 12, shift 1 × 3, grid 1)
--> groups: all
--> charge: epsilon 1/4 for Laplace(scale 12, shift 1 × 3, grid 1)
--> charge: epsilon 1/4 for Laplace(scale 12, shift 1 × 3, grid 1)
--> charge: epsilon 1/4 for Laplace(scale 6442450944, shift 536870912 × 3, grid 1/2^29)
--> charge: epsilon 1/4 for choice of 1/2 (scale 32, rows around at scale 48, shift 1 × 3, grid 1)
--> note: Groups are the values that the catalog lists for region; rows with another value, or with NULL, are in none of them.
--> note: Quantiles are chosen among leaves, which is more accurate here than a noisy tree; Laplace noise for the rest.
