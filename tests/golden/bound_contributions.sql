-- Without GROUP BY there is one group
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 7) COUNT(*), SUM(spend) FROM visits
--> each owner: one group, everything
--> part 0: RowCount(origin=middle) in [0, 20], coordinates 1
--> part 1: OwnerSum(argument=c4, is_integer=False, origin=middle) in [0, 10000], coordinates 1
--> unit 0: shares 0: 1
--> unit 1: shares 1: 1
--> aggregates read units 0, 1
--> note: Without GROUP BY there is one group, which always appears: max_groups_contributed changes nothing.

-- One group of each owner unless more are asked for
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) site, COUNT(*) FROM visits GROUP BY site
--> each owner: 1 groups
--> part 0: RowCount(origin=middle) in [0, 20], coordinates 1
--> unit 0: shares 0: 1
--> aggregates read units 0
--> note: Each owner counts in one group only (max_groups_contributed was not given).

-- Three groups of each owner
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 3) site, COUNT(*), COUNT(DISTINCT uid), SUM(spend), AVG(spend) FROM visits GROUP BY site
--> each owner: 3 groups
--> part 0: RowCount(origin=middle) in [0, 20], coordinates 3
--> part 1: OwnerCount() in no bounds, coordinates 3
--> part 2: OwnerSum(argument=c4, is_integer=False, origin=middle) in [0, 10000], coordinates 3
--> part 3: OwnerMean(argument=c4, origin=middle) in [0, 500], coordinates 3
--> part 4: OwnerCount(argument=c4) in no bounds, coordinates 3
--> unit 0: shares 0: 1
--> unit 1: shares 1: 1
--> unit 2: shares 2: 1
--> unit 3: shares 3: 7/10, 4: 3/10
--> aggregates read units 0, 1, 2, 3

-- Equal measures become one release
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) AVG(income, contribution_bounds_per_group => (0, 9)), AVG(income, contribution_bounds_per_group => (0, 9)) + 1, VAR_POP(income, contribution_bounds_per_row => (0, 9)), STDDEV_SAMP(income, contribution_bounds_per_row => (0, 9)) FROM customers
--> each owner: one group, everything
--> part 0: OwnerMean(argument=c5, origin=middle) in [0, 9], coordinates 1
--> part 1: OwnerCount(argument=c5) in no bounds, coordinates 1
--> part 2: RowMoment(argument=c5, power=1, rows=1, centred=True, is_integer=False, origin=middle) in [0, 9], coordinates 1
--> part 3: RowMoment(argument=c5, power=2, rows=1, centred=True, is_integer=False, origin=middle) in [0, 9], coordinates 1
--> part 4: RowMoment(argument=c5, power=0, rows=1, centred=True, is_integer=False, origin=middle) in no bounds, coordinates 1
--> unit 0: shares 0: 7/10, 1: 3/10
--> unit 1: shares 2: 1/4, 3: 1/2, 4: 1/4
--> aggregates read units 0, 1, 1

-- All quantiles of a column share one tree
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2) city, MEDIAN(age), PERCENTILE_CONT(age, 0.9), APPROX_QUANTILES(age, 3) FROM customers GROUP BY city
--> each owner: 2 groups
--> part 0: Leaves(argument=c4, rows=1, branching=16, height=4) in [18, 100], coordinates 8
--> unit 0: shares 0: 1
--> aggregates read units 0, 0, 0

-- Several rows of an owner spread over leaves
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2) site, MEDIAN(spend, max_contributions_per_group => 5), VAR_POP(spend, max_contributions_per_group => 5), COUNT(DISTINCT day, max_contributions_per_group => 5) FROM visits GROUP BY site
--> each owner: 2 groups
--> part 0: Leaves(argument=c4, rows=5, branching=16, height=4) in [0, 500], coordinates 8 over 40
--> part 1: RowMoment(argument=c4, power=1, rows=5, centred=True, is_integer=False, origin=middle) in [0, 500], coordinates 2
--> part 2: RowMoment(argument=c4, power=2, rows=5, centred=True, is_integer=False, origin=middle) in [0, 500], coordinates 2
--> part 3: RowMoment(argument=c4, power=0, rows=5, centred=True, is_integer=False, origin=middle) in no bounds, coordinates 2
--> part 4: DistinctValues(argument=c3, values=5) in no bounds, coordinates 2
--> unit 0: shares 0: 1
--> unit 1: shares 1: 1/4, 2: 1/2, 3: 1/4
--> unit 2: shares 4: 1
--> aggregates read units 0, 1, 2

-- COUNT(*) of at most one row is the number of owners
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) site, COUNT(*, contribution_bounds_per_group => (0, 1)), COUNT(DISTINCT uid) FROM visits GROUP BY site
--> each owner: 1 groups
--> part 0: OwnerCount() in no bounds, coordinates 1
--> unit 0: shares 0: 1
--> aggregates read units 0, 0
--> note: Each owner counts in one group only (max_groups_contributed was not given).

-- Rows instead of groups
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_rows_contributed = 10) site, COUNT(*), SUM(spend), AVG(spend), MEDIAN(spend), MIN(spend), COUNT(DISTINCT day), COUNT(DISTINCT uid) FROM visits GROUP BY site
--> each owner: 10 rows
--> part 0: RowMoment(power=0, rows=10, centred=True, is_integer=False, origin=middle) in no bounds, coordinates 1 over 10
--> part 1: RowMoment(argument=c4, power=1, rows=10, centred=False, is_integer=False, origin=middle) in [0, 500], coordinates 1 over 10
--> part 2: RowMoment(argument=c4, power=1, rows=10, centred=True, is_integer=False, origin=middle) in [0, 500], coordinates 1 over 10
--> part 3: RowMoment(argument=c4, power=0, rows=10, centred=True, is_integer=False, origin=middle) in no bounds, coordinates 1 over 10
--> part 4: Leaves(argument=c4, rows=10, branching=16, height=4) in [0, 500], coordinates 4 over 40
--> part 5: Leaves(argument=c4, rows=1, extreme=min, branching=16, height=4) in [0, 500], coordinates 40 over 40
--> part 6: DistinctValues(argument=c3, values=10) in no bounds, coordinates 1 over 10
--> part 7: OwnerCount() in no bounds, coordinates 10
--> unit 0: shares 0: 1
--> unit 1: shares 1: 1
--> unit 2: shares 2: 7/10, 3: 3/10
--> unit 3: shares 4: 1
--> unit 4: shares 5: 1
--> unit 5: shares 6: 1
--> unit 6: shares 7: 1
--> aggregates read units 0, 1, 2, 3, 4, 5, 6

-- An epsilon of one's own
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) SUM(age, epsilon => 0.25), COUNT(*) FROM customers
--> each owner: one group, everything
--> part 0: OwnerSum(argument=c4, is_integer=True, origin=middle) in [18, 100], coordinates 1
--> part 1: RowCount(origin=middle) in no bounds, coordinates 1
--> unit 0: shares 0: 1, epsilon 1/4
--> unit 1: shares 1: 1
--> aggregates read units 0, 1
