-- One count over one table
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) AS n
FROM customers
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   aggregate c6 (hidden):integer = CountRows() in no bounds (inferred)
-->   over
-->     Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
--> answer
-->   Project: c7 n:integer = c6
-->     Released 0: c6 (hidden):integer

-- Keys by name, ordinal, alias and expression; the same key twice is one
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) region, EXTRACT(YEAR FROM day) AS y, COUNT(*)
FROM customers JOIN visits USING (uid)
GROUP BY region, 2, customers.region, y
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   key c10 region:text = c2
-->   key c11 (hidden):integer = date_part('year', c8)
-->   aggregate c12 (hidden):integer = CountRows() in no bounds (inferred)
-->   over
-->     Join inner: equal(c1, c6)
-->       Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->       Scan visits owner c6 (customer): c6 uid:integer, c7 site:text, c8 day:date, c9 spend:double
--> answer
-->   Project: c13 region:text = c10, c14 y:integer = c11, c15 count:integer = c12
-->     Released 0: c10 region:text, c11 (hidden):integer, c12 (hidden):integer

-- Bounds from the query, the catalog, or to be found
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) SUM(spend, contribution_bounds_per_group => (0, 10)), SUM(spend), AVG(spend + 1), COUNT(*)
FROM visits
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   aggregate c5 (hidden):double = Sum(argument=c4) in [0, 10] (query)
-->   aggregate c6 (hidden):double = Sum(argument=c4) in [0, 10000] (catalog)
-->   aggregate c7 (hidden):double = Average(argument=add(c4, 1.0)) in [1, 501] (catalog)
-->   aggregate c8 (hidden):integer = CountRows() in [0, 20] (catalog)
-->   over
-->     Scan visits owner c1 (customer): c1 uid:integer, c2 site:text, c3 day:date, c4 spend:double
--> answer
-->   Project: c9 sum:double = c5, c10 sum:double = c6, c11 avg:double = c7, c12 count:integer = c8
-->     Released 0: c5 (hidden):double, c6 (hidden):double, c7 (hidden):double, c8 (hidden):integer

-- The same aggregate twice is one; HAVING and ORDER BY add their own
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) site, COUNT(*) AS n, COUNT(*) + 1 AS m
FROM visits GROUP BY site
HAVING SUM(spend) > 10 ORDER BY n DESC, AVG(spend) LIMIT 5
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   key c5 site:text = c2
-->   aggregate c6 (hidden):integer = CountRows() in [0, 20] (catalog)
-->   aggregate c7 (hidden):double = Sum(argument=c4) in [0, 10000] (catalog)
-->   aggregate c8 (hidden):double = Average(argument=c4) in [0, 500] (catalog)
-->   over
-->     Scan visits owner c1 (customer): c1 uid:integer, c2 site:text, c3 day:date, c4 spend:double
--> answer
-->   Project: c16 site:text = c12, c17 n:integer = c13, c18 m:integer = c14
-->     Sort c13 desc, c15 limit 5
-->       Project: c12 site:text = c5, c13 n:integer = c6, c14 m:integer = add(c6, 1), c15 (hidden):double = c8
-->         Filter: greater(c7, 10.0)
-->           Released 0: c5 site:text, c6 (hidden):integer, c7 (hidden):double, c8 (hidden):double

-- The older clause says the same
SELECT WITH ANONYMIZATION OPTIONS(epsilon = 1, delta = 1e-6, kappa = 3, k_threshold = 5)
  site, ANON_SUM(spend, 0, 10), ANON_COUNT(*, 4), ANON_AVG(spend CLAMPED BETWEEN 0 AND 20), ANON_COUNT(DISTINCT uid)
FROM visits GROUP BY site
--> private SELECT 0
-->   options clause=ANONYMIZATION epsilon=1 delta=1/1000000 max_groups_per_owner=3 min_owners=5
-->   key c5 site:text = c2
-->   aggregate c6 (hidden):double = Sum(argument=c4) in [0, 10] (query)
-->   aggregate c7 (hidden):integer = CountRows() in [0, 4] (query)
-->   aggregate c8 (hidden):double = Average(argument=c4) in [0, 20] (query)
-->   aggregate c9 (hidden):integer = CountOwners(argument=c1) in no bounds (none)
-->   over
-->     Scan visits owner c1 (customer): c1 uid:integer, c2 site:text, c3 day:date, c4 spend:double
--> answer
-->   Project: c10 site:text = c5, c11 anon_sum:double = c6, c12 anon_count:integer = c7, c13 anon_avg:double = c8, c14 anon_count:integer = c9
-->     Released 0: c5 site:text, c6 (hidden):double, c7 (hidden):integer, c8 (hidden):double, c9 (hidden):integer

-- Every aggregate
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 2) city, COUNT(DISTINCT uid), COUNT(DISTINCT age, max_contributions_per_group => 3), VAR_POP(age), STDDEV(age, max_contributions_per_group => 2),
  MEDIAN(age), PERCENTILE_CONT(age, 0.9), APPROX_QUANTILES(age, 4), MIN(age), MAX(income, contribution_bounds_per_row => (0, 1e6)), COUNTIF(age > 30)
FROM customers GROUP BY city
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 max_groups_per_owner=2
-->   key c6 city:text = c3
-->   aggregate c7 (hidden):integer = CountOwners(argument=c1) in no bounds (none)
-->   aggregate c8 (hidden):integer = CountDistinct(argument=c4, rows=3) in no bounds (none)
-->   aggregate c9 (hidden):double = Variance(argument=c4, rows=1, sample=False, root=False) in [18, 100] (catalog)
-->   aggregate c10 (hidden):double = Variance(argument=c4, rows=2, sample=True, root=True) in [18, 100] (catalog)
-->   aggregate c11 (hidden):double = Quantile(argument=c4, fraction=1/2, rows=1) in [18, 100] (catalog)
-->   aggregate c12 (hidden):double = Quantile(argument=c4, fraction=9/10, rows=1) in [18, 100] (catalog)
-->   aggregate c13 (hidden):unsupported = Quantiles(argument=c4, parts=4, rows=1) in [18, 100] (catalog)
-->   aggregate c14 (hidden):double = Extreme(argument=c4, side=min) in [18, 100] (catalog)
-->   aggregate c15 (hidden):double = Extreme(argument=c5, side=max) in [0, 1000000] (query)
-->   aggregate c16 (hidden):integer = CountRows(argument=case when greater(c4, 30) then 1 else None end) in no bounds (inferred)
-->   over
-->     Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
--> answer
-->   Project: c17 city:text = c6, c18 count:integer = c7, c19 count:integer = c8, c20 var_pop:double = c9, c21 stddev:double = c10, c22 median:double = c11, c23 percentile_cont:double = c12, c24 approx_quantiles:unsupported = c13, c25 min:double = c14, c26 max:double = c15, c27 countif:integer = c16
-->     Released 0: c6 city:text, c7 (hidden):integer, c8 (hidden):integer, c9 (hidden):double, c10 (hidden):double, c11 (hidden):double, c12 (hidden):double, c13 (hidden):unsupported, c14 (hidden):double, c15 (hidden):double, c16 (hidden):integer

-- Named arguments of aggregates
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) SUM(income, contribution_bounds_per_group => (-1.5, 2), epsilon => 0.25, report_format => 'JSON')
FROM customers
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   aggregate c6 (hidden):text = Sum(argument=c5) in [-3/2, 2] (query) epsilon=1/4 report=JSON
-->   over
-->     Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
--> answer
-->   Project: c7 sum:text = c6
-->     Released 0: c6 (hidden):text

-- FILTER leaves out what it does not take
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FILTER (WHERE age > 30), SUM(age) FILTER (WHERE region = 'north')
FROM customers
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   aggregate c6 (hidden):integer = CountRows(argument=case when greater(c4, 30) then 1 else None end) in no bounds (inferred)
-->   aggregate c7 (hidden):integer = Sum(argument=case when equal(c2, 'north') then c4 else None end) in [18, 100] (one row)
-->   over
-->     Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
--> answer
-->   Project: c8 count:integer = c6, c9 sum:integer = c7
-->     Released 0: c6 (hidden):integer, c7 (hidden):integer

-- All options
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 2, delta = 1e-7, max_groups_contributed = 4, group_selection_strategy = LAPLACE_THRESHOLD,
  min_privacy_units_per_group = 3, group_selection_epsilon = 0.5, confidence_level = 0.9, noise = LAPLACE, privacy_unit_column = uid)
  site, COUNT(*) FROM visits GROUP BY site
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=2 delta=1/10000000 max_groups_per_owner=4 strategy=LAPLACE_THRESHOLD min_owners=3 selection_epsilon=1/2 confidence_level=9/10 noise=LAPLACE
-->   key c5 site:text = c2
-->   aggregate c6 (hidden):integer = CountRows() in [0, 20] (catalog)
-->   over
-->     Scan visits owner c1 (customer): c1 uid:integer, c2 site:text, c3 day:date, c4 spend:double
--> answer
-->   Project: c7 site:text = c5, c8 count:integer = c6
-->     Released 0: c5 site:text, c6 (hidden):integer

-- Joins with USING, NATURAL and ON
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*)
FROM customers c JOIN visits v USING (uid) NATURAL LEFT JOIN regions r JOIN visits w ON w.uid = c.uid AND w.day = v.day
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   aggregate c16 (hidden):integer = CountRows() in no bounds (inferred)
-->   over
-->     Join inner: and(equal(c12, c1), equal(c14, c8))
-->       Join left: equal(c2, c10)
-->         Join inner: equal(c1, c6)
-->           Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->           Scan visits owner c6 (customer): c6 uid:integer, c7 site:text, c8 day:date, c9 spend:double
-->         Scan regions: c10 region:text, c11 continent:text
-->       Scan visits owner c12 (customer): c12 uid:integer, c13 site:text, c14 day:date, c15 spend:double
--> answer
-->   Project: c17 count:integer = c16
-->     Released 0: c16 (hidden):integer

-- A full join with USING takes the owner from either side
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*)
FROM (SELECT uid, spend FROM customers FULL JOIN visits USING (uid) WHERE spend > 1)
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   aggregate c12 (hidden):integer = CountRows() in no bounds (inferred)
-->   over
-->     Project: c10 uid:integer = coalesce(c1, c6), c11 spend:double = c9
-->       Filter: greater(c9, 1.0)
-->         Join full: equal(c1, c6)
-->           Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->           Scan visits owner c6 (customer): c6 uid:integer, c7 site:text, c8 day:date, c9 spend:double
--> answer
-->   Project: c13 count:integer = c12
-->     Released 0: c12 (hidden):integer

-- EXISTS and IN become semi and anti joins
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*)
FROM customers c WHERE EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid AND v.spend > c.age) AND uid NOT IN (SELECT uid FROM visits WHERE site = 's')
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   aggregate c14 (hidden):integer = CountRows() in no bounds (inferred)
-->   over
-->     Join anti: equal(c1, c10)
-->       Join semi: and(equal(c6, c1), greater(c9, cast(c4 as double)))
-->         Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->         Scan visits owner c6 (customer): c6 uid:integer, c7 site:text, c8 day:date, c9 spend:double
-->       Filter: equal(c11, 's')
-->         Scan visits owner c10 (customer): c10 uid:integer, c11 site:text, c12 day:date, c13 spend:double
--> answer
-->   Project: c15 count:integer = c14
-->     Released 0: c14 (hidden):integer

-- A subquery over public rows is a condition
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*)
FROM customers WHERE region IN (SELECT region FROM regions WHERE continent = 'EU') AND age > (SELECT COUNT(*) FROM regions)
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   aggregate c13 (hidden):integer = CountRows() in no bounds (inferred)
-->   over
-->     Filter: greater(c4, the value of [Project: c12 count:integer = c11;   Aggregate by -: c11 (hidden):integer = count(*);     Scan regions: c9 region:text, c10 continent:text])
-->       Filter: c2 in [Project: c8 (hidden):text = c6;   Filter: equal(c7, 'EU');     Scan regions: c6 region:text, c7 continent:text]
-->         Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
--> answer
-->   Project: c14 count:integer = c13
-->     Released 0: c13 (hidden):integer

-- Aggregates of one owner's rows, with HAVING
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*)
FROM (SELECT uid, SUM(spend) AS total, COUNT(DISTINCT site) AS sites FROM visits GROUP BY uid HAVING COUNT(*) > 3) WHERE total > 10
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 max_groups_per_owner=1 find_limits=True
-->   aggregate c12 (hidden):integer = CountRows() in [0, 1] (catalog)
-->   over
-->     Filter: greater(c10, 10.0)
-->       Project: c9 uid:integer = c5, c10 total:double = c6, c11 sites:integer = c7
-->         Filter: greater(c8, 3)
-->           Aggregate by c5 uid:integer = c1: c6 (hidden):double = sum(c4), c7 (hidden):integer = count(distinct c2), c8 (hidden):integer = count(*)
-->             Scan visits owner c1 (customer): c1 uid:integer, c2 site:text, c3 day:date, c4 spend:double
--> answer
-->   Project: c13 count:integer = c12
-->     Released 0: c12 (hidden):integer

-- Windows get an order without ties, ranks keep their ties
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*)
FROM (SELECT uid, ROW_NUMBER() OVER (PARTITION BY uid ORDER BY day) AS n, RANK() OVER (PARTITION BY uid ORDER BY day) AS r,
  SUM(spend) OVER (PARTITION BY uid ORDER BY day ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM visits)
WHERE n = 1 AND r = 1 AND s > 2
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   aggregate c9 (hidden):integer = CountRows() in [0, 20] (catalog)
-->   over
-->     Filter: and(equal(c6, 1), equal(c7, 1), greater(c8, 2.0))
-->       Project: c5 uid:integer = c1, c6 n:integer = row_number() over (partition c1 order c3, c1, c2, c3, c4), c7 r:integer = rank() over (partition c1 order c3), c8 s:double = sum(c4) over (partition c1 order c3, c1, c2, c3, c4 ROWS (1, 'PRECEDING') to (None, 'CURRENT ROW'))
-->         Scan visits owner c1 (customer): c1 uid:integer, c2 site:text, c3 day:date, c4 spend:double
--> answer
-->   Project: c10 count:integer = c9
-->     Released 0: c9 (hidden):integer

-- Set operations go by position
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*)
FROM (SELECT uid, region AS place FROM customers UNION ALL SELECT uid, site FROM visits EXCEPT SELECT uid, city FROM customers)
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   aggregate c25 (hidden):integer = CountRows() in no bounds (inferred)
-->   over
-->     except: c23 uid:integer, c24 place:text
-->       union_all: c14 uid:integer, c15 place:text
-->         Project: c6 uid:integer = c1, c7 place:text = c2
-->           Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->         Project: c12 uid:integer = c8, c13 site:text = c9
-->           Scan visits owner c8 (customer): c8 uid:integer, c9 site:text, c10 day:date, c11 spend:double
-->       Project: c21 uid:integer = c16, c22 city:text = c18
-->         Scan customers owner c16 (customer): c16 uid:integer, c17 region:text, c18 city:text, c19 age:integer, c20 income:double
--> answer
-->   Project: c26 count:integer = c25
-->     Released 0: c25 (hidden):integer

-- DISTINCT, CASE, CAST and dates
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) k, COUNT(*)
FROM (SELECT DISTINCT uid, CASE WHEN age >= 65 THEN 'old' ELSE 'young' END AS k, CAST(income AS BIGINT) AS i FROM customers)
GROUP BY k
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   key c9 k:text = c7
-->   aggregate c10 (hidden):integer = CountRows() in no bounds (inferred)
-->   over
-->     Distinct
-->       Project: c6 uid:integer = c1, c7 k:text = case when greater_equal(c4, 65) then 'old' else 'young' end, c8 i:integer = cast(c5 as integer)
-->         Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
--> answer
-->   Project: c11 k:text = c9, c12 count:integer = c10
-->     Released 0: c9 k:text, c10 (hidden):integer

-- A WITH table with a private SELECT is drawn once however often it is used
WITH n AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) site, COUNT(*) AS n FROM visits GROUP BY site)
SELECT a.site, a.n, b.n AS other FROM n AS a JOIN n AS b ON a.site < b.site ORDER BY 1 LIMIT 2
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   key c5 site:text = c2
-->   aggregate c6 (hidden):integer = CountRows() in [0, 20] (catalog)
-->   over
-->     Scan visits owner c1 (customer): c1 uid:integer, c2 site:text, c3 day:date, c4 spend:double
--> answer
-->   Sort c13 limit 2
-->     Project: c13 site:text = c9, c14 n:integer = c10, c15 other:integer = c12
-->       Join inner: less(c9, c11)
-->         Project: c9 site:text = c7, c10 n:integer = c8
-->           Project: c7 site:text = c5, c8 n:integer = c6
-->             Released 0: c5 site:text, c6 (hidden):integer
-->         Project: c11 site:text = c7, c12 n:integer = c8
-->           Project: c7 site:text = c5, c8 n:integer = c6
-->             Released 0: c5 site:text, c6 (hidden):integer

-- Private rows joined with released ones
WITH top AS (SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) site, COUNT(*) AS n FROM visits GROUP BY site)
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM visits JOIN top ON visits.site = top.site WHERE top.n > 100
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   key c5 site:text = c2
-->   aggregate c6 (hidden):integer = CountRows() in [0, 20] (catalog)
-->   over
-->     Scan visits owner c1 (customer): c1 uid:integer, c2 site:text, c3 day:date, c4 spend:double
--> private SELECT 1
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   aggregate c15 (hidden):integer = CountRows() in no bounds (inferred)
-->   over
-->     Filter: greater(c14, 100)
-->       Join inner: equal(c10, c13)
-->         Scan visits owner c9 (customer): c9 uid:integer, c10 site:text, c11 day:date, c12 spend:double
-->         Project: c13 site:text = c7, c14 n:integer = c8
-->           Project: c7 site:text = c5, c8 n:integer = c6
-->             Released 0: c5 site:text, c6 (hidden):integer
--> answer
-->   Project: c16 count:integer = c15
-->     Released 1: c15 (hidden):integer

-- Public groups from the catalog, with NULL among them
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) region, COUNT(*)
FROM customers GROUP BY region
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=1/1000000 find_limits=True
-->   key c6 region:text = c2
-->   aggregate c7 (hidden):integer = CountRows() in no bounds (inferred)
-->   public groups, since the catalog lists the values of every key
-->     Values [('north',), ('south',), (None,)]: c8 region:text
-->   over
-->     Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
--> answer
-->   Project: c9 region:text = c6, c10 count:integer = c7
-->     Released 0: c6 region:text, c7 (hidden):integer

-- Public groups from a preserved public side
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, group_selection_strategy = PUBLIC_GROUPS) r.region, COUNT(*)
FROM customers c RIGHT JOIN (SELECT DISTINCT region FROM regions) r ON c.region = r.region WHERE age > 3 GROUP BY r.region
--> private SELECT 0
-->   options clause=DIFFERENTIAL_PRIVACY epsilon=1 delta=None strategy=PUBLIC_GROUPS find_limits=True
-->   key c9 region:text = c8
-->   aggregate c10 (hidden):integer = CountRows() in no bounds (inferred)
-->   public groups, since every group of the public side of the join appears
-->     Distinct
-->       Project: c11 region:text = c8
-->         Distinct
-->           Project: c8 region:text = c6
-->             Scan regions: c6 region:text, c7 continent:text
-->   over
-->     Filter: greater(c4, 3)
-->       Join inner: equal(c2, c8)
-->         Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->         Distinct
-->           Project: c8 region:text = c6
-->             Scan regions: c6 region:text, c7 continent:text
--> answer
-->   Project: c12 region:text = c9, c13 count:integer = c10
-->     Released 0: c9 region:text, c10 (hidden):integer

-- A query over public tables
SELECT continent, COUNT(*) AS n FROM regions GROUP BY continent HAVING COUNT(*) > 1 ORDER BY n DESC
--> answer
-->   Sort c6 desc
-->     Project: c5 continent:text = c3, c6 n:integer = c4
-->       Filter: greater(c4, 1)
-->         Aggregate by c3 continent:text = c2: c4 (hidden):integer = count(*)
-->           Scan regions: c1 region:text, c2 continent:text

-- Plain SQL over private rows needs defaults
SELECT COUNT(*) FROM customers
--> E_NO_DP_CLAUSE at (1, 1): This query reads a private table without a privacy clause.

-- An unknown column is named with those in sight
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) SUM(incme) FROM customers
--> E_UNKNOWN_COLUMN at (1, 73): There is no column 'incme' here.

-- An alias that means two things
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) UPPER(region) AS region, COUNT(*) FROM customers GROUP BY region
--> E_GROUPING at (1, 127): 'region' is both a column and another expression of the SELECT list.
