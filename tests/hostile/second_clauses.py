"""Tables, options, aggregates, joins and whole statements of the second generator; forms as in `second_expressions`."""

from __future__ import annotations

from second_expressions import FLAWS, TYPES, lines

PEOPLE = {
    "flag": "bool", "n": "int", "small": "int", "huge": "dec", "r": "double", "f": "double", "d": "dec", "w": "dec",
    "t": "text", "e": "text", "day": "date", "at": "ts", "z": "ts", "clock": "time",
}  # fmt: skip
EVENTS = {
    "kind": "text", "n": "int", "year": "int", "amount": "double", "price": "dec", "hour": "ts", "month": "date",
    "ok": "bool", "clock": "time",
}  # fmt: skip
PLACES = {
    "kind": "text", "n": "int", "r": "double", "d": "dec", "day": "date", "at": "ts", "flag": "bool", "clock": "time",
}  # fmt: skip
PRIVATE = {"people": PEOPLE, "events": EVENTS, "recent": {"kind": "text", "amount": "double", "hour": "ts"}}
PUBLIC_BY_TYPE = {kind: [c for c, k in PLACES.items() if k == kind] for kind in TYPES}

OPTIONS = lines("""
delta = 1e-6
delta = 0.001, max_groups_contributed = 2
delta = 1e-5, kappa = 3
delta = 1e-6, max_rows_contributed = 4
delta = 1e-3, group_selection_strategy = AUTO
delta = 1e-3, group_selection_strategy = OPTIMAL
delta = 1e-3, group_selection_strategy = LAPLACE_THRESHOLD
delta = 1e-3, group_selection_strategy = 'GAUSSIAN_THRESHOLD'
delta = 1e-3, group_selection_strategy = WEIGHTED, kappa = 4
delta = 1e-3, kappa = 2, measure_cut = 0.25
delta = 1e-3, min_privacy_units_per_group = 2
delta = 1e-3, group_selection_epsilon = 0.125
delta = 1e-3, confidence_level = 0.9
delta = 1e-3, noise = LAPLACE
delta = 1e-3, noise = GAUSSIAN
delta = 1e-3, noise = AUTO
delta = 1e-3, inferred_bounds = GLOBAL
delta = 1e-3, inferred_bounds = PER_GROUP
delta = 1e-3, privacy_unit_column = uid
""")
OLD_OPTIONS = ("delta = 1e-3", "delta = 1e-3, kappa = 2", "delta = 1e-3, k_threshold = 2, noise = LAPLACE")
BOUNDS = "contribution_bounds_per_group => (0, 100)"
ROW_BOUNDS = "contribution_bounds_per_row => (-10, 1e6)"

AGGREGATES = lines(f"""
int COUNT(*)
int COUNT(*, contribution_bounds_per_group => (0, 5))
int COUNT({{any}})
int COUNTIF({{bool}})
int COUNT_IF({{bool}})
int COUNT(DISTINCT {{owner}})
int COUNT(DISTINCT {{any}})
int COUNT(DISTINCT {{any}}, max_contributions_per_group => 3, contribution_bounding_strategy => SAMPLING)
int COUNT(DISTINCT {{any}}, contribution_bounding_strategy => AUTO)
int APPROX_COUNT_DISTINCT({{any}}, max_contributions_per_group => 2)
int SUM({{int}})
double SUM({{num}}, {BOUNDS})
double SUM({{double}}, {BOUNDS}) FILTER (WHERE {{bool}})
int COUNT(*) FILTER (WHERE {{bool}})
double AVG({{num}})
double AVG({{num}}, {BOUNDS}, epsilon => 0.125)
double MEAN({{num}}, {BOUNDS})
double AVG_ROWS({{num}}, {ROW_BOUNDS}, max_contributions_per_group => 2)
double VAR_POP({{num}})
double VAR_SAMP({{num}}, {ROW_BOUNDS})
double VARIANCE({{num}}, {ROW_BOUNDS}, max_contributions_per_group => 3)
double STDDEV({{num}}, {ROW_BOUNDS})
double STDDEV_POP({{num}}, {ROW_BOUNDS})
double STDDEV_SAMP({{num}})
double CORR({{num}}, {{num}})
double REGR_SLOPE({{num}}, {{num}}) FILTER (WHERE {{bool}})
double MEDIAN({{num}}, {ROW_BOUNDS})
double PERCENTILE_CONT({{num}}, 0.9)
double PERCENTILE_DISC({{num}}, 0.01, {ROW_BOUNDS}, max_contributions_per_group => 2)
double PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY {{num}})
double QUANTILE_CONT({{num}}, 1, {ROW_BOUNDS})
double QUANTILE_DISC({{num}}, 0, {ROW_BOUNDS})
double APPROX_QUANTILE({{num}}, 0.25, {ROW_BOUNDS})
list APPROX_QUANTILES({{num}}, 4)
double MIN({{num}}, {ROW_BOUNDS})
double MAX({{num}})
list APPROX_BOUNDS({{num}})
text SUM({{num}}, report_format => 'JSON')
text AVG({{double}}, {BOUNDS}, report_format => 'JSON')
""")
OLD_AGGREGATES = lines("""
int ANON_COUNT(*)
int ANON_COUNT(*, 10)
int ANON_COUNT(* CLAMPED BETWEEN 0 AND 5)
int ANON_COUNT(DISTINCT {owner})
int ANON_COUNT({any})
double ANON_SUM({num}, 0, 300)
double ANON_SUM({num} CLAMPED BETWEEN 0 AND 100)
double ANON_AVG({num} CLAMPED BETWEEN -1 AND 100)
double ANON_AVG({num}, 0, 100)
double ANON_VAR({num}, 0, 10)
double ANON_STDDEV({num}, 0, 10)
double ANON_MEDIAN({num}, 0, 10)
double ANON_PERCENTILE_CONT({num}, 0.5, 0, 10)
double ANON_NTILE({num}, 0.5, 0, 10)
list ANON_QUANTILES({num}, 4, 0, 10)
double ANON_MIN({num}, 0, 10)
double ANON_MAX({num}, 0, 10)
""")
OF_ONE_OWNER = lines("""
int COUNT(*)
int COUNT({any})
int COUNT(DISTINCT {any})
int COUNT_IF({bool})
int SUM({int})
double SUM({double})
dec SUM({dec})
double AVG({num})
any MIN({any})
any MAX({any})
int MIN(DISTINCT {int}) FILTER (WHERE {bool})
double MEDIAN({num})
bool BOOL_AND({bool})
bool BOOL_OR({bool})
int BIT_AND({int})
int BIT_OR({int})
int BIT_XOR({int})
double VAR_POP({num})
double VAR_SAMP({num})
double VARIANCE({num})
double STDDEV_POP({num})
double STDDEV_SAMP({num})
double STDDEV({num}) FILTER (WHERE {bool})
""")
RANKED = lines("""
int ROW_NUMBER()
int RANK()
int DENSE_RANK()
double PERCENT_RANK()
double CUME_DIST()
int NTILE({TILES})
any LAG({any})
any LAG({any}, 2)
any LAG({any}, 1, {any})
any LEAD({any}, 2, {any})
any LEAD({any})
any FIRST_VALUE({any})
any LAST_VALUE({any})
any NTH_VALUE({any}, 2)
""")
FRAMES = lines("""

ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING
ROWS UNBOUNDED PRECEDING
RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
RANGE UNBOUNDED PRECEDING
GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING
""")
JOINS = ("JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN", "RIGHT JOIN", "RIGHT OUTER JOIN", "FULL JOIN",
         "FULL OUTER JOIN", "SEMI JOIN", "ANTI JOIN")  # fmt: skip
SET_OPERATIONS = ("UNION", "UNION ALL", "UNION DISTINCT", "INTERSECT", "INTERSECT DISTINCT", "EXCEPT",
                  "EXCEPT DISTINCT")  # fmt: skip
ODD_SOURCES = lines("""
people AS p ASOF JOIN places AS x ON p.day >= x.day
people AS p POSITIONAL JOIN places AS x
people AS p, LATERAL (SELECT x.n FROM places AS x WHERE x.n = p.n) AS l
UNNEST([1, 2]) AS p(n)
people AS p JOIN (SELECT n AS k, UNNEST(STRING_SPLIT(kind, 'a')) AS part FROM places) AS x ON x.k = p.n
(SELECT uid, n, UNNEST(STRING_SPLIT(t, 'a')) AS part FROM people) AS p
generate_series(1, 10) AS p(n)
read_csv('people.csv') AS p
(VALUES (1, 2), (3, 4)) AS p(uid, n)
(SELECT uid, n FROM people UNION ALL SELECT n, n FROM places) AS p
(SELECT uid, n FROM people ORDER BY n DESC NULLS LAST LIMIT 3 OFFSET 1) AS p
(SELECT n, COUNT(*) AS c FROM people GROUP BY n) AS p
(SELECT DISTINCT ON (n) uid, n FROM people) AS p
(SELECT uid, RANK() OVER (ORDER BY n) AS n FROM people) AS p
(SELECT n AS uid, n FROM people) AS p
(SELECT uid, n, COUNT(*) OVER (PARTITION BY uid ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS c FROM people) AS p
people AS p JOIN events AS v ON p.uid = v.uid OR p.n = v.n
places AS x LEFT JOIN people AS p ON x.n = p.n
people AS p JOIN (SELECT n, UNNEST(STRING_SPLIT(kind, 'a')) AS part FROM places) AS x ON x.n = p.n
""")
GROUPINGS = ("GROUP BY ALL", "GROUP BY ROLLUP (1)", "GROUP BY CUBE (1)", "GROUP BY GROUPING SETS ((1), ())")
SHAPES = ("private",) * 8 + (
    "old", "plain", "plain", "around", "around", "around", "table", "table", "united", "united", "steered", "listed",
    "listed", "values", "public", "public", "old", "policy", "distinct",
)  # fmt: skip
TIED = lines("""
EXISTS (SELECT 1 FROM {t} WHERE {o} = {u} AND {c})
NOT EXISTS (SELECT 1 FROM {t} WHERE {o} = {u} AND {c})
{u} IN (SELECT {o} FROM {t} WHERE {c})
{u} NOT IN (SELECT {o} FROM {t} WHERE {c})
{u} = ANY (SELECT {o} FROM {t} WHERE {c})
{u} <> ALL (SELECT {o} FROM {t} WHERE {c})
EXISTS (SELECT 1 FROM places AS pub WHERE pub.n = {i})
{i} IN (SELECT pub.n FROM places AS pub WHERE pub.r < {i})
""")
WITH_PUBLIC = lines("""
{l} JOIN places AS {a} ON {c}
{l} LEFT JOIN places AS {a} ON {c}
{l} CROSS JOIN places AS {a}
{l}, places AS {a}
places AS {a} RIGHT JOIN {l} ON {c}
places AS {a} CROSS JOIN {l}
({l} JOIN places AS {a} ON {c})
{l} SEMI JOIN places AS {a} ON {c}
{l} ANTI JOIN places AS {a} ON {c}
{l} JOIN (SELECT * FROM places WHERE n > 0) AS {a} ON {c}
{l} JOIN (TABLE places) AS {a} ON {c}
""")
POLICY_SELECTS = lines("""
COUNT(*), SUM({int}) FROM people{w}
{int} AS k, COUNT({int}) AS c FROM people{w} GROUP BY 1 HAVING c > 1 ORDER BY 2
AVG({int}) FILTER (WHERE {bool}) FROM people{w}
MEDIAN(small), PERCENTILE_CONT(small, 0.9), PERCENTILE_DISC(small, 0.1) FROM people
APPROX_QUANTILES(small, 4) FROM people WHERE small > 2
e, SUM(r) FROM people GROUP BY e
""")
SOURCES = ("table",) * 3 + (
    "narrowed", "narrowed", "aggregated", "aggregated", "windowed", "windowed", "qualified", "different", "set_operation",
    "set_operation", "joined", "joined", "joined", "with_public", "with_public", "named", "named", "written_table",
    "nested", "self_joined",
)  # fmt: skip
STATEMENTS = lines("""
DELETE FROM people
SELECT 1; SELECT 2
SELECT n INTO t FROM people
SELECT
SELECT 'a\\b'
PRAGMA version
WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT n FROM t
SELECT /*+ hint */ 1
SELECT COUNT(*) FROM nothing
""")
"""What is no query, or is two."""
BAD_OPTIONS = lines("""
delta = 0.05, group_selection_strategy = PUBLIC_GROUPS
delta = 0
delta = 1e-6, max_group_contributed = 3
policy = 'near'
""")
BAD_AGGREGATES = lines("""
int COUNT(DISTINCT {any}, contribution_bounding_strategy => GREEDY)
double SUM(DISTINCT {num})
double CORR(DISTINCT {num}, {num})
""")
BAD_RANKED = lines("""
any FIRST_VALUE({any} IGNORE NULLS)
any LAST_VALUE({any} RESPECT NULLS)
any FIRST_VALUE({any} RESPECT NULLS)
""")
SPOILED = (
    *(("expression", card) for card in FLAWS),
    *(("options", card) for card in BAD_OPTIONS),
    *(("private", card) for card in BAD_AGGREGATES),
    *(("ranked", card) for card in BAD_RANKED),
    *(("odd", card) for card in ODD_SOURCES),
    *(("grouping", card) for card in GROUPINGS),
    *(("set_operation", card) for card in ("INTERSECT ALL", "EXCEPT ALL")),
    *(("statement", card) for card in STATEMENTS),
    *(("raw", "") for _ in range(3)),
    *(("mixed", "") for _ in range(4)),
)
"""What one statement in four has: something that the reference names and refuses, or types that do not meet."""
