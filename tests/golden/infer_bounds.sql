-- Given bounds need no histogram
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) SUM(spend), SUM(income, contribution_bounds_per_group => (0, 9)) FROM customers JOIN visits USING (uid)
--> each owner: one group, everything
--> part 0: OwnerSum(argument=c9, is_integer=False, origin=middle) in [0, 500], coordinates 1
--> part 1: OwnerSum(argument=c5, is_integer=False, origin=middle) in [0, 9], coordinates 1
--> unit 0: shares 0: 1
--> unit 1: shares 1: 1
--> aggregates read units 0, 1

-- A histogram of sums, of means and of counts
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) SUM(income), AVG(income), COUNT(*), COUNT(income) FROM customers
--> each owner: one group, everything
--> part 0: OwnerSum(argument=c5, is_integer=False, origin=middle) in the bounds of histogram 0, coordinates 1
--> part 1: OwnerMean(argument=c5, origin=middle) in the bounds of histogram 1, coordinates 1
--> part 2: OwnerCount(argument=c5) in no bounds, coordinates 1
--> part 3: RowCount(origin=middle) in the bounds of histogram 2, coordinates 1
--> part 4: RowCount(argument=c5, origin=middle) in the bounds of histogram 3, coordinates 1
--> unit 0: shares 0: 1, histogram 0
--> unit 1: shares 1: 7/10, 2: 3/10, histogram 1
--> unit 2: shares 3: 1, histogram 2
--> unit 3: shares 4: 1, histogram 3
--> aggregates read units 0, 1, 2, 3
--> histogram 0: OwnerSum(argument=c5, is_integer=False, origin=middle), 181 bins in steps of 1/1073741824
--> histogram 1: OwnerMean(argument=c5, origin=middle), 181 bins in steps of 1/1073741824
--> histogram 2: RowCount(origin=middle), 63 bins in steps of 1
--> histogram 3: RowCount(argument=c5, origin=middle), 63 bins in steps of 1

-- Whole numbers have fewer bins
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) SUM(age + 1) FROM customers
--> each owner: one group, everything
--> part 0: OwnerSum(argument=add(c4, 1), is_integer=True, origin=middle) in [19, 101], coordinates 1
--> unit 0: shares 0: 1
--> aggregates read units 0

-- All moments and quantiles of a column read one histogram each
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) VAR_POP(income), STDDEV(income), MEDIAN(income), PERCENTILE_DISC(income, 0.1), MIN(income), MAX(income) FROM customers
--> each owner: one group, everything
--> part 0: RowMoment(argument=c5, power=1, rows=1, centred=True, is_integer=False, origin=middle) in the bounds of histogram 0, coordinates 1
--> part 1: RowMoment(argument=c5, power=2, rows=1, centred=True, is_integer=False, origin=middle) in the bounds of histogram 0, coordinates 1
--> part 2: RowMoment(argument=c5, power=0, rows=1, centred=True, is_integer=False, origin=middle) in no bounds, coordinates 1
--> part 3: Leaves(argument=c5, rows=1, branching=16, height=4) in the bounds of histogram 1, coordinates 4
--> part 4: Leaves(argument=c5, rows=1, extreme=min, branching=16, height=4) in the bounds of histogram 2, coordinates 4
--> part 5: Leaves(argument=c5, rows=1, extreme=max, branching=16, height=4) in the bounds of histogram 3, coordinates 4
--> unit 0: shares 0: 1/4, 1: 1/2, 2: 1/4, histogram 0
--> unit 1: shares 3: 1, histogram 1
--> unit 2: shares 4: 1, histogram 2
--> unit 3: shares 5: 1, histogram 3
--> aggregates read units 0, 0, 1, 1, 2, 3
--> histogram 0: RowMoment(argument=c5, power=1, rows=1, centred=True, is_integer=False, origin=middle), 181 bins in steps of 1/1073741824
--> histogram 1: Leaves(argument=c5, rows=1, branching=16, height=4), 181 bins in steps of 1/1073741824
--> histogram 2: Leaves(argument=c5, rows=1, extreme=min, branching=16, height=4), 181 bins in steps of 1/1073741824
--> histogram 3: Leaves(argument=c5, rows=1, extreme=max, branching=16, height=4), 181 bins in steps of 1/1073741824

-- Counts of owners and values need no bounds
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(DISTINCT uid), COUNT(DISTINCT income) FROM customers
--> each owner: one group, everything
--> part 0: OwnerCount() in no bounds, coordinates 1
--> part 1: DistinctValues(argument=c5, values=1) in no bounds, coordinates 1
--> unit 0: shares 0: 1
--> unit 1: shares 1: 1
--> aggregates read units 0, 1

-- Rows instead of groups
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_rows_contributed = 10) SUM(income), AVG(income), COUNT(*) FROM customers
--> each owner: 10 rows
--> part 0: RowMoment(argument=c5, power=1, rows=10, centred=False, is_integer=False, origin=middle) in the bounds of histogram 0, coordinates 1 over 10
--> part 1: RowMoment(argument=c5, power=1, rows=10, centred=True, is_integer=False, origin=middle) in the bounds of histogram 0, coordinates 1 over 10
--> part 2: RowMoment(argument=c5, power=0, rows=10, centred=True, is_integer=False, origin=middle) in no bounds, coordinates 1 over 10
--> part 3: RowMoment(power=0, rows=10, centred=True, is_integer=False, origin=middle) in no bounds, coordinates 1 over 10
--> unit 0: shares 0: 1, histogram 0
--> unit 1: shares 1: 7/10, 2: 3/10, histogram 0
--> unit 2: shares 3: 1
--> aggregates read units 0, 1, 2
--> histogram 0: RowMoment(argument=c5, power=1, rows=10, centred=True, is_integer=False, origin=middle), 181 bins in steps of 1/1073741824

-- Bounds for their own sake
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) APPROX_BOUNDS(income) FROM customers
--> each owner: one group, everything
--> unit 0: shares -, histogram 0
--> aggregates read units 0
--> histogram 0: RowMoment(argument=c5, power=1, rows=1, centred=True, is_integer=False, origin=middle), 181 bins in steps of 1/1073741824

-- Bounds of each group, on request
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 3, inferred_bounds = PER_GROUP) region, SUM(income), MEDIAN(income) FROM customers GROUP BY region
--> each owner: 3 groups
--> part 0: OwnerSum(argument=c5, is_integer=False, origin=middle) in the bounds of histogram 0, coordinates 3
--> part 1: Leaves(argument=c5, rows=1, branching=16, height=4) in the bounds of histogram 1, coordinates 12
--> unit 0: shares 0: 1, histogram 0
--> unit 1: shares 1: 1, histogram 1
--> aggregates read units 0, 1
--> histogram 0: OwnerSum(argument=c5, is_integer=False, origin=middle), 181 bins in steps of 1/1073741824 for each group
--> histogram 1: Leaves(argument=c5, rows=1, branching=16, height=4), 181 bins in steps of 1/1073741824 for each group
--> note: Groups are the values that the catalog lists for region; rows with another value, or with NULL, are in none of them.
