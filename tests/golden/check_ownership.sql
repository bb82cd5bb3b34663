-- Rows without a mention of the owner carry it silently
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT city FROM customers WHERE age > 30)
--> private SELECT 0
-->   Project owner h1: c6 city:text = c3, h1 (hidden):integer = c1
-->     Filter owner c1: greater(c4, 30)
-->       Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double

-- Through several projections
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT a + 1 AS b FROM (SELECT age AS a FROM customers))
--> private SELECT 0
-->   Project owner h2: c7 b:integer = add(c6, 1), h2 (hidden):integer = h1
-->     Project owner h1: c6 a:integer = c4, h1 (hidden):integer = c1
-->       Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double

-- Private tables joined on the owner
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c JOIN visits v ON v.uid = c.uid AND v.spend > 3
--> private SELECT 0
-->   Join inner owner c1: and(equal(c6, c1), greater(c9, 3.0))
-->     Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->     Scan visits owner c6 (customer): c6 uid:integer, c7 site:text, c8 day:date, c9 spend:double

-- A comma join with the owners in WHERE
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c, visits v WHERE c.uid = v.uid AND age > 3
--> private SELECT 0
-->   Filter owner c1: and(equal(c1, c6), greater(c4, 3))
-->     Join inner owner c1: True
-->       Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->       Scan visits owner c6 (customer): c6 uid:integer, c7 site:text, c8 day:date, c9 spend:double

-- Joined on something else
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c JOIN visits v ON c.city = v.site
--> E_JOIN_NOT_ON_UID at (1, 95): Private tables must be joined on their owner columns.

-- Joined by OR
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c JOIN visits v ON c.uid = v.uid OR c.city = v.site
--> E_JOIN_NOT_ON_UID at (1, 95): Private tables must be joined on their owner columns.

-- Joined on computed owners
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c JOIN visits v ON c.uid + 0 = v.uid
--> E_JOIN_NOT_ON_UID at (1, 95): Private tables must be joined on their owner columns.

-- Owners of different kinds
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c JOIN devices d ON c.city = d.device
--> E_JOIN_NOT_ON_UID at (1, 95): Private tables must be joined on their owner columns.

-- A left join keeps the owner of the left
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c LEFT JOIN visits v ON v.uid = c.uid
--> private SELECT 0
-->   Join left owner c1: equal(c6, c1)
-->     Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->     Scan visits owner c6 (customer): c6 uid:integer, c7 site:text, c8 day:date, c9 spend:double

-- A right join keeps the owner of the right
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c RIGHT JOIN visits v ON v.uid = c.uid
--> private SELECT 0
-->   Join right owner c6: equal(c6, c1)
-->     Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->     Scan visits owner c6 (customer): c6 uid:integer, c7 site:text, c8 day:date, c9 spend:double

-- A full join has the owner of either side
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c FULL JOIN visits v ON v.uid = c.uid
--> private SELECT 0
-->   Project owner h1: c1 uid:integer = c1, c2 region:text = c2, c3 city:text = c3, c4 age:integer = c4, c5 income:double = c5, c6 uid:integer = c6, c7 site:text = c7, c8 day:date = c8, c9 spend:double = c9, h1 (hidden):integer = coalesce(c1, c6)
-->     Join full: equal(c6, c1)
-->       Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->       Scan visits owner c6 (customer): c6 uid:integer, c7 site:text, c8 day:date, c9 spend:double

-- USING over a full join is the owner, also below a filter and as a key
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT uid, COUNT(*) AS n FROM customers FULL JOIN visits USING (uid) WHERE age > 3 OR spend > 3 GROUP BY uid)
--> private SELECT 0
-->   Project owner c12: c12 uid:integer = c10, c13 n:integer = c11
-->     Aggregate owner c10 by c10 (hidden):integer = coalesce(c1, c6): c11 (hidden):integer = count(*)
-->       Filter owner h1: or(greater(c4, 3), greater(c9, 3.0))
-->         Project owner h1: c1 uid:integer = c1, c2 region:text = c2, c3 city:text = c3, c4 age:integer = c4, c5 income:double = c5, c6 uid:integer = c6, c7 site:text = c7, c8 day:date = c8, c9 spend:double = c9, h1 (hidden):integer = coalesce(c1, c6)
-->           Join full: equal(c1, c6)
-->             Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->             Scan visits owner c6 (customer): c6 uid:integer, c7 site:text, c8 day:date, c9 spend:double

-- The owner of a side that may be missing
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT v.uid, age FROM customers c LEFT JOIN visits v ON v.uid = c.uid)
--> E_UID_LOST at (1, 91): The column 'uid' comes from the optional side of an outer join.

-- A window by the owner of a side that may be missing
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT c.uid, COUNT(*) OVER (PARTITION BY v.uid) AS n FROM customers c LEFT JOIN visits v ON v.uid = c.uid)
--> E_CROSS_USER at (1, 98): This window uses an owner from the optional side of an outer join.

-- A further join on the owner of a side that may be missing
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c LEFT JOIN visits v ON v.uid = c.uid JOIN visits w ON w.uid = v.uid
--> E_JOIN_NOT_ON_UID at (1, 131): Private tables must be joined on their owner columns.

-- A public table joined on anything
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c JOIN regions r ON c.region < r.region
--> private SELECT 0
-->   Join inner owner c1: less(c2, c6)
-->     Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->     Scan regions: c6 region:text, c7 continent:text

-- A public side that is preserved makes rows of nobody
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c RIGHT JOIN regions r ON c.region = r.region
--> E_UID_LOST at (1, 95): This outer join creates rows that belong to nobody.

-- Semi and anti joins tied to the owner
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c WHERE EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid) AND NOT EXISTS (SELECT 1 FROM visits v WHERE v.uid = c.uid AND spend > 5)
--> private SELECT 0
-->   Join anti owner c1: equal(c10, c1)
-->     Join semi owner c1: equal(c6, c1)
-->       Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->       Scan visits owner c6 (customer): c6 uid:integer, c7 site:text, c8 day:date, c9 spend:double
-->     Filter owner c10: greater(c13, 5.0)
-->       Scan visits owner c10 (customer): c10 uid:integer, c11 site:text, c12 day:date, c13 spend:double

-- EXISTS that is not tied to the owner
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c WHERE EXISTS (SELECT 1 FROM visits v WHERE v.site = c.city)
--> E_EXPR_SUBQUERY at (1, 101): A subquery over a private table must be tied to the owner, or one owner would decide about the others.

-- IN by something else than the owner
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c WHERE city IN (SELECT site FROM visits)
--> E_EXPR_SUBQUERY at (1, 101): A subquery over a private table must be tied to the owner, or one owner would decide about the others.

-- A scalar subquery over private rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers c WHERE age > (SELECT MAX(spend) FROM visits)
--> E_EXPR_SUBQUERY at (1, 107): A subquery over a private table inside an expression would let one owner decide about the others.

-- An aggregate by the owner
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT uid, site, SUM(spend) AS s FROM visits GROUP BY uid, site)
--> private SELECT 0
-->   Project owner c8: c8 uid:integer = c5, c9 site:text = c6, c10 s:double = c7
-->     Aggregate owner c5 by c5 uid:integer = c1, c6 site:text = c2: c7 (hidden):double = sum(c4)
-->       Scan visits owner c1 (customer): c1 uid:integer, c2 site:text, c3 day:date, c4 spend:double

-- An aggregate over several owners
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT site, SUM(spend) AS s FROM visits GROUP BY site)
--> E_UID_LOST at (1, 84): This subquery aggregates over several owners.

-- DISTINCT with the owner
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT DISTINCT uid, site FROM visits)
--> private SELECT 0
-->   Distinct owner c5
-->     Project owner c5: c5 uid:integer = c1, c6 site:text = c2
-->       Scan visits owner c1 (customer): c1 uid:integer, c2 site:text, c3 day:date, c4 spend:double

-- DISTINCT without the owner
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT DISTINCT site FROM visits)
--> E_UID_LOST at (1, 84): DISTINCT merges the rows of several owners.

-- UNION ALL with the owner in place
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT uid, city FROM customers UNION ALL SELECT uid, site FROM visits)
--> private SELECT 0
-->   union_all owner c14: c14 uid:integer, c15 city:text
-->     Project owner c6: c6 uid:integer = c1, c7 city:text = c3
-->       Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->     Project owner c12: c12 uid:integer = c8, c13 site:text = c9
-->       Scan visits owner c8 (customer): c8 uid:integer, c9 site:text, c10 day:date, c11 spend:double

-- UNION ALL with the owner out of place
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT uid, age FROM customers UNION ALL SELECT age, uid FROM customers)
--> E_SETOP_UID at (1, 84): Both sides of a set operation need the owner column, at the same position and of the same kind.

-- UNION ALL with public rows
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT uid, city FROM customers UNION ALL SELECT 7, region FROM regions)
--> E_SETOP_UID at (1, 84): Both sides of a set operation need the owner column, at the same position and of the same kind.

-- A window by the owner
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT uid, LAG(spend) OVER (PARTITION BY uid ORDER BY day) AS s FROM visits)
--> private SELECT 0
-->   Project owner c5: c5 uid:integer = c1, c6 s:double = lag(c4) over (partition c1 order c3, c1, c2, c3, c4)
-->     Scan visits owner c1 (customer): c1 uid:integer, c2 site:text, c3 day:date, c4 spend:double

-- A window over everybody
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT uid, LAG(spend) OVER (ORDER BY day) AS s FROM visits)
--> E_CROSS_USER at (1, 96): This window looks at the rows of several owners.

-- LIMIT inside FROM
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT uid FROM visits ORDER BY spend LIMIT 10)
--> E_CROSS_USER at (1, 84): ORDER BY … LIMIT inside FROM chooses rows by looking at all owners.

-- A forged owner
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM (SELECT age AS uid, city FROM customers)
--> E_UID_FORGED at (1, 91): The column 'uid' has the owner's name but does not hold the owner.

-- The owner as a key
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) uid, COUNT(*) FROM customers GROUP BY uid
--> E_UID_EXPOSED at (1, 107): The owner column cannot be shown or grouped by: every group would be one person.

-- The owner as a key, cast
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) CAST(uid AS VARCHAR) AS u, COUNT(*) FROM customers GROUP BY u
--> E_UID_EXPOSED at (1, 69): The owner column cannot be shown or grouped by: every group would be one person.

-- The owner of a full join as a key
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers FULL JOIN visits USING (uid) GROUP BY uid
--> E_UID_EXPOSED at (1, 131): The owner column cannot be shown or grouped by: every group would be one person.

-- A part of the owner may be a key
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) uid % 10 AS digit, COUNT(*) FROM customers GROUP BY digit
--> private SELECT 0
-->   Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double

-- Five private tables in one FROM
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(*) FROM customers a JOIN customers b USING (uid) JOIN customers c USING (uid) JOIN customers d USING (uid) JOIN customers e USING (uid)
--> E_LIMITS at (1, 1): At most 4 private tables can be joined in one FROM.

-- A window over everybody as a key
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) RANK() OVER (ORDER BY spend) AS r, COUNT(*) FROM visits GROUP BY r
--> E_CROSS_USER at (1, 69): This window looks at the rows of several owners.

-- A window over everybody inside an aggregate
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) SUM(RANK() OVER (ORDER BY spend)) FROM visits
--> E_CROSS_USER at (1, 73): This window looks at the rows of several owners.

-- COUNT(DISTINCT) of an owner that is there in every row counts everybody
SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6) COUNT(DISTINCT uid) FROM (SELECT uid FROM customers UNION SELECT uid FROM visits)
--> private SELECT 0
-->   union owner c12: c12 uid:integer
-->     Project owner c6: c6 uid:integer = c1
-->       Scan customers owner c1 (customer): c1 uid:integer, c2 region:text, c3 city:text, c4 age:integer, c5 income:double
-->     Project owner c11: c11 uid:integer = c7
-->       Scan visits owner c7 (customer): c7 uid:integer, c8 site:text, c9 day:date, c10 spend:double
