-- Without GROUP BY nothing is selected and delta is not needed
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) COUNT(*) FROM customers
--> selection: none

-- Unknown groups need delta
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) city, COUNT(*) FROM customers GROUP BY city
--> E_OPTION_INVALID at (1, 1): The option delta is missing.

-- Delta of 0 shows no unknown group
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 0) city, COUNT(*) FROM customers GROUP BY city
--> E_OPTION_INVALID at (1, 1): With delta = 0 no unknown group can be released.

-- A large delta shows single owners
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 0.2) city, COUNT(*) FROM customers GROUP BY city
--> E_OPTION_INVALID at (1, 1): delta is the chance that a single owner's group is shown; it can be at most 0.1 here.

-- A count of its own decides
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) city, SUM(age) FROM customers GROUP BY city
--> selection: by a count of its own

-- A released count of owners decides too
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) city, COUNT(DISTINCT uid), SUM(age) FROM customers GROUP BY city
--> selection: by the noisy owners of unit 0

-- COUNT(*) of at most one row is such a count
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) city, COUNT(*, contribution_bounds_per_group => (0, 1)) FROM customers GROUP BY city
--> selection: by the noisy owners of unit 0

-- The optimal rule has no count to share
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, group_selection_strategy = OPTIMAL) city, COUNT(DISTINCT uid) FROM customers GROUP BY city
--> selection: by a count of its own

-- An epsilon of its own is not shared
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, group_selection_epsilon = 0.5) city, COUNT(DISTINCT uid) FROM customers GROUP BY city
--> selection: by a count of its own

-- Groups that the catalog lists are public
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) region, COUNT(*) FROM customers GROUP BY region
--> selection: none
--> public groups, since the catalog lists the values of every key
-->   Values [('north',), ('south',), (None,)]: c8 region:text

-- Unless a rule for unknown groups is asked for
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, group_selection_strategy = LAPLACE_THRESHOLD) region, COUNT(*) FROM customers GROUP BY region
--> selection: by a count of its own

-- Or a minimum of owners
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, min_privacy_units_per_group = 5) region, COUNT(*) FROM customers GROUP BY region
--> selection: by a count of its own

-- Groups of an outer-joined list of values
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, group_selection_strategy = PUBLIC_GROUPS) p.city, COUNT(*)
FROM (VALUES ('Rome'), ('Oslo'), (NULL)) AS p(city) LEFT JOIN customers c ON c.city = p.city GROUP BY p.city
--> selection: none
--> public groups, since every group of the public side of the join appears
-->   Distinct
-->     Project: c10 city:text = c2
-->       Project: c2 city:text = c1
-->         Values [('Rome',), ('Oslo',), (None,)]: c1 col0:text

-- PUBLIC_GROUPS without any
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, group_selection_strategy = PUBLIC_GROUPS) city, COUNT(*) FROM customers GROUP BY city
--> E_OPTION_INVALID at (1, 1): PUBLIC_GROUPS needs keys that are columns of a public relation outer-joined to the private rows, or keys whose values the catalog lists.

-- Conditions on the public side alone shorten its list, and others do not
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, group_selection_strategy = PUBLIC_GROUPS) p.city, COUNT(*)
FROM (VALUES ('Rome'), ('Oslo')) AS p(city) LEFT JOIN customers c ON c.city = p.city
WHERE p.city <> 'Oslo' AND (p.city <> 'Rome' OR c.age > 30) AND c.age < 90 GROUP BY p.city
--> selection: none
--> public groups, since every group of the public side of the join appears
-->   Distinct
-->     Project: c10 city:text = c2
-->       Filter: not_equal(c2, 'Oslo')
-->         Project: c2 city:text = c1
-->           Values [('Rome',), ('Oslo',)]: c1 col0:text

-- So do conditions on keys that the catalog lists
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1) region, COUNT(*) FROM customers WHERE region <> 'north' AND age > 30 GROUP BY region
--> selection: none
--> public groups, since the catalog lists the values of every key
-->   Filter: not_equal(c8, 'north')
-->     Values [('north',), ('south',), (None,)]: c8 region:text
