"""What random queries are made of: tables with typed columns, and forms with holes for expressions of a type."""

from __future__ import annotations

from shoal.sql import functions

NUMBER, TEXT, FLAG, DAY, OWNER = "number", "text", "flag", "day", "owner"
Columns = tuple[tuple[str, str], ...]

CUSTOMERS: Columns = (("uid", OWNER), ("region", TEXT), ("age", NUMBER), ("income", NUMBER))
VISITS: Columns = (("uid", OWNER), ("site", TEXT), ("day", DAY), ("spend", NUMBER))
REGIONS: Columns = (("region", TEXT), ("continent", TEXT))
ORDERS: Columns = (("uid", OWNER), ("order_id", NUMBER), ("place", TEXT), ("total", NUMBER))
PAYMENTS: Columns = (("uid", OWNER), ("order_id", NUMBER), ("paid", NUMBER))
LINES: Columns = (("order_id", NUMBER), ("line_id", NUMBER), ("units", NUMBER), ("label", TEXT))
RETURNS: Columns = (("line", NUMBER), ("why", TEXT), ("back", DAY))
ANSWERS: Columns = (("score", NUMBER), ("choice", TEXT), ("weight", NUMBER))
OWNED = (("customers", CUSTOMERS), ("visits", VISITS))
REFERRING = (("orders", ORDERS), ("payments", PAYMENTS), ("lines", LINES), ("returns", RETURNS), ("answers", ANSWERS))
"""The last three name no owner: theirs stands in another table, or is the row."""
ALONG_REFERENCES = (
    ("orders", ORDERS, "lines", LINES, "order_id", "order_id"),
    ("lines", LINES, "returns", RETURNS, "line_id", "line"),
    ("payments", PAYMENTS, "lines", LINES, "order_id", "order_id"),
    ("orders", ORDERS, "payments", PAYMENTS, "order_id", "order_id"),
    ("returns", RETURNS, "lines", LINES, "line", "line_id"),
)


def forms(text: str) -> tuple[str, ...]:
    """Forms between semicolons; {n}, {t}, {f}, {d}, {o} are holes for expressions of a type, {c} for a constant text."""
    return tuple(part.strip() for part in text.split(";"))


CALLABLE = tuple(sorted(name for name in functions.FUNCTIONS if name not in functions.OPERATORS))
"""Every function of the allow-list."""

NUMBERS = ("0", "1", "-1", "7", "2.5", "1e300", "-1e-300", "9223372036854775807", "0.1", "NULL", "100", "3")
TEXTS = ("'north'", "'s1'", "''", "' '", "'é'", "NULL", "'2026-01-15'", "'7'", "'%'", "'a%_'")
DAYS = ("DATE '2026-01-15'", "DATE '0001-01-01'", "DATE '9999-12-31'", "CAST(NULL AS DATE)", "CURRENT_DATE")

EXPRESSIONS: dict[str, tuple[str, ...]] = {
    NUMBER: forms(
        """
        {n} + {n} ; {n} - {n} ; {n} * {n} ; {n} / {n} ; {n} % {n} ; -({n}) ; abs({n}) ; sqrt({n}) ; ln({n}) ;
        exp({n}) ; floor({n}) ; ceil({n}) ; round({n}, 2) ; pow({n}, {n}) ; sign({n}) ; greatest({n}, {n}) ;
        least({n}, {n}) ; CAST({n} AS INTEGER) ; CAST({n} AS DECIMAL(9, 2)) ; CAST({t} AS BIGINT) ;
        CAST({t} AS DOUBLE) ; length({t}) ; COALESCE({n}, {n}) ; NULLIF({n}, {n}) ;
        CASE WHEN {f} THEN {n} ELSE {n} END ; CASE WHEN {f} THEN {n} END ; CASE {n} WHEN {n} THEN {n} ELSE {n} END ;
        EXTRACT(YEAR FROM {d}) ; EXTRACT(DOW FROM {d}) ; date_diff('day', {d}, {d}) ; mod({n}, {n}) ;
        CAST({f} AS INTEGER) ; position({t} IN {t}) ; log({n}) ; trunc({n}) ; ({n}) ; strpos({t}, {t}) ; log({n}, {n}) ;
        CAST({n} AS INTEGER) // CAST({n} AS INTEGER) ; EXTRACT(WEEK FROM {d}) ; EXTRACT(DAYOFWEEK FROM {d}) ;
        SECONDS_BETWEEN({d}, CAST({t} AS TIMESTAMP)) ; {d} - CAST({t} AS TIMESTAMP) ; {d} - {d} ;
        EXTRACT(EPOCH FROM {d} - CAST({t} AS TIMESTAMP)) ; EXTRACT(WEEK(TUESDAY) FROM {d}) ;
        DATE_DIFF({d}, {d}, WEEK(FRIDAY)) ; DATE_DIFF({d}, {d}, ISOWEEK) ;
        (SELECT MAX(LENGTH(continent)) FROM regions) ; (SELECT COUNT(*) FROM regions WHERE region < {c}) ;
        (SELECT AVG(age) FROM customers) ; (SELECT COUNT(DISTINCT uid) FROM visits WHERE spend > 1)
        """
    ),
    TEXT: forms(
        """
        upper({t}) ; lower({t}) ; trim({t}) ; {t} || {t} ; substring({t}, 1, 2) ; substring({t}, {n}, {n}) ;
        left({t}, 2) ; CAST({n} AS VARCHAR) ; CAST({d} AS VARCHAR) ; COALESCE({t}, {t}) ;
        CASE WHEN {f} THEN {t} ELSE {t} END ; replace({t}, 'a', {t}) ; concat({t}, {t}) ; reverse({t}) ;
        (SELECT MIN(region) FROM regions) ; (SELECT MAX(continent) FROM regions WHERE region <> {c}) ;
        NULLIF({t}, {t}) ; lpad({t}, 5, 'x') ; split_part({t}, 'o', 1) ; CAST({any} AS VARCHAR) ; CAST({any} AS VARCHAR)
        """
    ),
    FLAG: forms(
        """
        {n} > {n} ; {n} <= {n} ; {n} = {n} ; {n} <> {n} ; {t} = {t} ; {t} LIKE {c} ; {t} IN ({c}, {c}) ;
        {n} > '30' ; ({f}) = 'Yes' ; {n} IN ('1', {n}) ; {t} <> 'a\\b' ; {d} - CAST({t} AS TIMESTAMP) > INTERVAL '3 days' ;
        {n} IN (1, 2, {n}) ; {n} BETWEEN {n} AND {n} ; {d} > {d} ; {n} IS NULL ; {t} IS NOT NULL ; NOT ({f}) ;
        ({f} AND {f}) ; ({f} OR {f}) ; {f} AND {f} ; {f} OR {f} ; {o} = 7 ; {o} % 3 = 1 ; {o} IN (1, 7, 9) ;
        {t} IS DISTINCT FROM {t} ; TRUE ; FALSE ; {n} NOT BETWEEN {n} AND {n} ; starts_with({t}, {t}) ;
        regexp_matches({t}, '^[a-n]') ; {t} NOT LIKE {c} ; ({f}) IS TRUE ; {t} < {t} ; {any} IS NULL ; {any} = {any} ;
        {t} = ANY (SELECT region FROM regions) ; {t} <> ALL (SELECT continent FROM regions) ;
        ({n}, {t}) IN ((1, {c}), ({n}, 's1')) ; ({t}, {d}) NOT IN (({c}, {d}))
        """
    ),
    DAY: forms(
        """
        {d} + INTERVAL 1 DAY ; {d} - INTERVAL 2 MONTH ; date_trunc('month', {d}) ; CAST({t} AS DATE) ;
        TIME_BUCKET(INTERVAL '36 hours', {d}) ; TIME_BUCKET(INTERVAL '1 month', {d}) ; BUCKET_START({d}, {n}) ;
        COALESCE({d}, {d}) ; {d} + 3 ; DATE_TRUNC({d}, WEEK) ; DATE_TRUNC({d}, WEEK(SATURDAY)) ; DATE_TRUNC('week', {d})
        """
    ),
}

WINDOWS = forms(
    """
    ROW_NUMBER() ; RANK() ; DENSE_RANK() ; CUME_DIST() ; LAST_VALUE({n}) ; LEAD({n}, 2) ; NTH_VALUE({n}, 2) ; LAG({n}) ;
    SUM({n}) ; AVG({n}) ; COUNT(*) ; FIRST_VALUE({n}) ; MAX({n}) ; NTILE(3) ; STDDEV({n}) ; MEDIAN({n})
    """
)
ROW_AGGREGATES = forms(
    """
    COUNT(*) ; SUM({n}) ; AVG({n}) ; MIN({n}) ; MAX({n}) ; COUNT({t}) ; COUNT(DISTINCT {t}) ; STDDEV({n}) ;
    MEDIAN({n})
    """
)
PRIVATE_AGGREGATES = forms(
    """
    COUNT(*{group}) ; COUNT({n}{group}) ; COUNT(DISTINCT {o}) ; SUM({n}{group}) ; AVG({n}{group}) ;
    COUNT(DISTINCT {t}{most}) ; AVG_ROWS({n}{row}{most}) ; VAR_POP({n}{row}{most}) ; STDDEV({n}{row}) ; VARIANCE({n}{row}) ;
    MEDIAN({n}{row}{most}) ; MIN({n}{row}) ; MAX({n}{row}) ; PERCENTILE_CONT({n}, 0.9{row}) ;
    APPROX_QUANTILES({n}, 4{row}) ; APPROX_COUNT_DISTINCT({n}) ; COUNTIF({f}) ;
    SUM({n}{group}) FILTER (WHERE {f}) ; COUNT(*) FILTER (WHERE {f}) ;
    SUM(CASE WHEN {f} THEN {n} ELSE 0 END{group}) ; APPROX_BOUNDS({n}) ; SUM({n}, epsilon => 0.1{group}) ;
    AVG({n}{group}, report_format => 'JSON') ; COUNT(*) * 100 / SUM({n}{group}) ;
    ROW_NUMBER() OVER (ORDER BY COUNT(*)) ; LAG(SUM({n}{group})) OVER (ORDER BY COUNT(*) DESC) ;
    SUM(COUNT(*)) OVER (ORDER BY MAX({n}{row}) ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) ; RANK() OVER (ORDER BY COUNT(*))
    """
)
LISTS = forms(
    """
    QUANTILE_CONT({n}, [0.25, 0.5, 0.75]{row}{most}) ; PERCENTILE_DISC({n}, [0, 0.1, 1]{row}) ; APPROX_QUANTILE({n}, [0.5]) ;
    QUANTILE_DISC({n}, [0.9, 0.1]{row})
    """
)
FOREIGN = forms(
    """
    COUNT(ISNULL(SPLIT({t}, 'o')[1], TO_CHAR(DATEADD(day, 3, {d}), 'YYYY-MM'))) ; SUM(ISNULL(CONVERT(INT, {t}), 0)) ;
    COUNT(DATEADD(day, 3, {d})) ; COUNT(DECODE({t}, 'a', {n}, CHARINDEX('o', SPLIT({t}, ' ')[1]))) ; COUNTIF({t} ~ 'a+')
    """
)
"""Functions of other databases, which the reference names with what to write instead."""
OLD_AGGREGATES = forms(
    """
    ANON_COUNT(*) ; ANON_SUM({n}, 0, 100) ; ANON_AVG({n} CLAMPED BETWEEN -5 AND 90) ; ANON_VAR({n}, 0, 10) ;
    ANON_NTILE({n}, 0.25, 0, 9) ; ANON_COUNT(DISTINCT uid) ; ANON_MEDIAN({n} CLAMPED BETWEEN 0 AND 50) ;
    ANON_STDDEV({n}) ; ANON_MAX({n}, 0, 10) ; ANON_COUNT(* CLAMPED BETWEEN 0 AND 3) ; ANON_COUNT(DISTINCT uid, 2)
    """
)
BOUNDS = (
    "(0, 1)",
    "(0, 100)",
    "(-5, 50)",
    "(10, 20)",
    "(-20, -10)",
    "(0, 0)",
    "(3, 3)",
    "(0, 1e6)",
    "(-0.5, 0.25)",
    "(0, 1e-9)",
    "(9, 1)",
)
NASTY = (
    "NULL",
    "''",
    "0",
    "-1",
    "1e400",
    "9" * 30,
    "'\\'",
    ";",
    "--",
    "/*",
    "*/",
    "(",
    ")",
    ",",
    "uid",
    "OVER ()",
    "LIMIT 1",
    "rowid",
    "::INT",
)

POLICY_AGGREGATES = ("COUNT(*)", "SUM({n})", "AVG({n})", "COUNT({n})", "SUM({n}) FILTER (WHERE {f})", "MEDIAN(age)")
