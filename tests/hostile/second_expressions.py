"""Expressions of the second generator, by type: one form a line, with the types of its parts in braces.

Written from the pages of the reference. `{int}` stands for any expression of that type; a name in capitals for a constant of
`WORDS`. `{any}` is some type, the same one wherever it stands in a line; `{num}` and `{when}` are one of several, drawn anew.
"""

from __future__ import annotations

TYPES = ("int", "double", "dec", "text", "bool", "date", "ts", "time")
ONE_OF = {"num": ("int", "double", "dec"), "when": ("date", "ts"), "moment": ("ts", "ts", "time")}

CONSTANTS = {
    "int": """
0
1
-1
7
12
100
9223372036854775807
-9223372036854775807
NULL""",
    "double": """
0.5
.5
1e-6
-0.0
1e308
-1e308
5e-324
2.5e0
CAST('nan' AS DOUBLE)
CAST('-inf' AS DOUBLE)""",
    "dec": """
0.1
-12.345
NUMERIC '0.5'
NUMERIC '99999999999999999999999999999999999999'
9223372036854775808
0.99999999999999999999999999999999999999""",
    "text": """
''
' '
'a'
'it''s'
'éa\u0301🦆'
'%'
'100'
'2026-02-30'
'infinity'
NULL""",
    "bool": """
TRUE
FALSE
NULL""",
    "date": """
DATE '2026-01-15'
DATE '0001-01-01'
DATE '9999-12-31'
DATE '2024-02-29'
CURRENT_DATE
CURRENT_DATE()
TODAY()""",
    "ts": """
TIMESTAMP '2026-01-15 23:59:59.999999'
TIMESTAMP '9999-12-31 23:59:59.999999'
DATETIME '0001-01-01 00:00:00'
CURRENT_TIMESTAMP
CURRENT_TIMESTAMP()
CURRENT_DATETIME()
NOW()
GET_CURRENT_TIMESTAMP()
LOCALTIMESTAMP
TRANSACTION_TIMESTAMP()""",
    "time": """
TIME '00:00:00'
TIME '23:59:59.999999'
CURRENT_TIME
CURRENT_TIME()
LOCALTIME
GET_CURRENT_TIME()""",
}

ALIKE = """
CASE WHEN {bool} THEN {any} ELSE {any} END
CASE WHEN {bool} THEN {any} WHEN {bool} THEN {any} END
CASE {int} WHEN {int} THEN {any} WHEN 3 THEN {any} ELSE {any} END
COALESCE({any}, {any}, {any})
GREATEST({any}, {any}, {any})
LEAST({any}, {any})
IF({bool}, {any}, {any})
IF({bool}, {any})
IIF({bool}, {any}, {any})
IFNULL({any}, {any})
NVL({any}, {any})
NULLIF({any}, {any})
({any})
(SELECT MAX(x.{column}) FROM places AS x)
(SELECT x.{column} FROM places AS x ORDER BY x.n NULLS LAST, x.r LIMIT 1)
CAST(NULL AS {NAMED})"""
"""Of every type: `{any}` is the type that is wanted, `{column}` a public column of it."""

WRITTEN = {
    "int": """
{int} + {int}
{int} - {int}
{int} * {int}
-{int}
+{int}
- -{int}
{int} // {int}
DIV({int}, {int})
{int} % {int}
MOD({int}, {int})
ABS({int})
SIGN({num})
{date} - {date}
ASCII({text})
UNICODE({text})
ORD({text})
LENGTH({text})
CHAR_LENGTH({text})
CHARACTER_LENGTH({text})
LEN({text})
OCTET_LENGTH({text})
BYTE_LENGTH({text})
STRLEN({text})
STRPOS({text}, {text})
INSTR({text}, {text})
POSITION({text} IN {text})
DATE_DIFF('{UNIT}', {when}, {when})
DATE_DIFF({date}, {date}, {DAYS})
DATEDIFF('{UNIT}', {when}, {when})
DATETIME_DIFF({ts}, {ts}, {UNIT})
TIMESTAMP_DIFF({ts}, {ts}, {SHORT})
DATE_PART('{PART}', {when})
DATEPART('{PART}', {when})
DATE_PART('hour', {moment})
EXTRACT({PART} FROM {when})
EXTRACT(DAYOFWEEK FROM {when})
EXTRACT(WEEK({WEEKDAY}) FROM {when})
EXTRACT(MINUTE FROM {moment})
DAY({when})
DAYOFMONTH({when})
DAYOFWEEK({when})
DOW({when})
WEEKDAY({when})
DAYOFYEAR({when})
DOY({when})
DAYS_BETWEEN({date}, {date})
HOUR({moment})
MINUTE({moment})
SECOND({moment})
ISODOW({when})
ISOYEAR({when})
MONTH({when})
QUARTER({when})
YEAR({when})
WEEK({when})
WEEKOFYEAR({when})
ISOWEEK({when})
UNIX_DATE({date})
UNIX_MICROS({ts})
EPOCH_US({ts})
UNIX_MILLIS({ts})
EPOCH_MS({ts})
UNIX_SECONDS({ts})
CAST({num} AS {INTEGER})
CAST({text} AS {INTEGER})
TRY_CAST({bool} AS {INTEGER})
SAFE_CAST({text} AS INT64)
CAST({num} AS HUGEINT)
CAST({dec} AS SMALLINT)
{num}::BIGINT
{text}::{INTEGER}""",
    "double": """
{num} + {double}
{double} - {num}
{num} * {double}
-{double}
{num} / {num}
SAFE_DIVIDE({num}, {num})
FDIV({int}, {int})
FMOD({double}, {double})
{double} % {num}
ABS({double})
ACOS({num})
ASIN({num})
ATAN({num})
ATAN2({num}, {num})
CBRT({num})
CEIL({num})
CEILING({double})
COS({num})
COSH({num})
DEGREES({num})
EXP({num})
FLOOR({num})
LN({num})
LOG({num})
LOG({num}, {num})
LOG10({num})
LOG2({num})
PI()
POW({num}, {num})
POWER({num}, {num})
RADIANS({num})
ROUND({num})
ROUND({num}, {DIGITS})
SIN({num})
SINH({num})
SQRT({num})
TAN({num})
TANH({num})
TRUNC({num})
TRUNC({double}, {DIGITS})
TRUNCATE({num})
EPOCH({ts})
CAST({num} AS {REAL})
CAST({text} AS {REAL})
CAST({num} AS FLOAT)
TRY_CAST({int} AS DOUBLE)
SAFE_CAST({dec} AS FLOAT64)
{text}::DOUBLE""",
    "dec": """
{dec} + {dec}
{dec} - {int}
{dec} * {dec}
{dec} % {dec}
-{dec}
ABS({dec})
CAST({num} AS {DECIMAL})
CAST({text} AS {DECIMAL})
TRY_CAST({text} AS DECIMAL(5, 2))
SAFE_CAST({num} AS NUMERIC)
{num}::{DECIMAL}""",
    "text": """
{text} || {text}
{text} || {int}
CONCAT({text}, {text}, {text})
CONCAT({text}, {num}, {when})
LEFT({text}, {int})
RIGHT({text}, {int})
LOWER({text})
LCASE({text})
UPPER({text})
UCASE({text})
LPAD({text}, {N})
LPAD({text}, {N}, {PAD})
RPAD({text}, {N})
RPAD({text}, {N}, {PAD})
TRIM({text})
TRIM({text}, 'a ')
TRIM(BOTH 'x' FROM {text})
TRIM(LEADING FROM {text})
TRIM(TRAILING 'é' FROM {text})
LTRIM({text})
LTRIM({text}, '0')
RTRIM({text})
RTRIM({text}, '0')
REGEXP_EXTRACT({text}, {REGEX})
REGEXP_EXTRACT({text}, '(.)(.?)', 2)
REGEXP_SUBSTR({text}, {REGEX})
REGEXP_REPLACE({text}, {REGEX}, '-')
REPEAT({text}, {N})
REPLACE({text}, {text}, {text})
REVERSE({text})
SPLIT_PART({text}, '-', {int})
STRIP_ACCENTS({text})
SUBSTRING({text}, {int})
SUBSTRING({text}, {int}, {int})
SUBSTRING({text} FROM {int} FOR {int})
SUBSTRING({text} FROM {int})
SUBSTR({text}, {int}, {int})
MID({text}, {int}, {int})
DAYNAME({when})
MONTHNAME({when})
STRFTIME({when}, {FORMAT})
FORMAT_DATE({FORMAT}, {date})
FORMAT_TIMESTAMP({FORMAT}, {ts})
FORMAT_DATETIME({FORMAT}, {ts})
CAST({num} AS {STRING})
CAST({when} AS VARCHAR)
CAST({bool} AS STRING)
CAST({time} AS TEXT)
{num}::VARCHAR(20)""",
    "bool": """
{any} = {any}
{any} <> {any}
{any} != {any}
{any} < {any}
{any} <= {any}
{any} > {any}
{any} >= {any}
{num} = {num}
{num} < {num}
{date} <= {ts}
{date} > '2026-01-01'
{any} IS DISTINCT FROM {any}
{any} IS NOT DISTINCT FROM {any}
{any} BETWEEN {any} AND {any}
{num} NOT BETWEEN {num} AND {num}
{any} IN ({any}, {any})
{num} NOT IN ({num}, {num}, NULL)
({int}, {text}) IN ((1, 'a'), (2, 'b'))
({int}, {text}) NOT IN ((1, 'a'), (2, 'b'))
{any} IN (SELECT x.{column} FROM places AS x)
{num} NOT IN (SELECT x.{numbers} FROM places AS x WHERE x.{numbers} IS NOT NULL)
{num} = ANY (SELECT x.{numbers} FROM places AS x)
{when} = SOME (SELECT x.{times} FROM places AS x)
{num} <> ALL (SELECT x.{numbers} FROM places AS x)
{any} IN (SELECT x.{column} FROM places AS x UNION SELECT y.{column} FROM places AS y)
EXISTS (SELECT 1 FROM places AS x WHERE x.{column} IS NOT NULL)
NOT EXISTS (SELECT * FROM places AS x WHERE x.{column} IS NULL)
{bool} AND {bool}
{bool} OR {bool}
NOT {bool}
NOT ({bool} OR {bool}) AND {bool}
{any} IS NULL
{any} IS NOT NULL
{bool} IS TRUE
{bool} IS FALSE
{bool} IS UNKNOWN
{bool} IS NOT UNKNOWN
{bool} IS NOT TRUE
{bool} IS NOT FALSE
{text} LIKE {LIKE}
{text} NOT LIKE {LIKE}
{text} LIKE '%!%%' ESCAPE '!'
{text} ILIKE {LIKE}
{text} NOT ILIKE {LIKE}
CONTAINS({text}, {text})
ENDS_WITH({text}, {text})
SUFFIX({text}, {text})
STARTS_WITH({text}, {text})
PREFIX({text}, {text})
REGEXP_FULL_MATCH({text}, {REGEX})
REGEXP_MATCHES({text}, {REGEX})
REGEXP_CONTAINS({text}, {REGEX})
REGEXP_LIKE({text}, {REGEX})
CAST({int} AS BOOL)
CAST({text} AS BOOLEAN)
{int}::BOOL""",
    "date": """
{date} + {int}
{date} - {int}
ADD_DAYS({date}, {int})
ADD_MONTHS({date}, {int})
DATE({ts})
DATE({int}, {int}, {int})
MAKE_DATE({int}, {int}, {int})
DATE_FROM_PARTS({int}, {int}, {int})
DATEFROMPARTS({int}, {int}, {int})
DATE_ADD({date}, INTERVAL {N} {DAYS})
DATE_ADD({date}, INTERVAL {int} DAY)
DATE_SUB({date}, INTERVAL {N} {DAYS})
DATE_TRUNC('{DAYS}', {date})
DATE_TRUNC({date}, {DAYS})
DATE_TRUNC({date}, WEEK({WEEKDAY}))
DATE_TRUNC({date}, ISOWEEK)
DATETRUNC('{DAYS}', {date})
LAST_DAY({when})
PARSE_DATE({FORMAT}, {text})
CAST({text} AS DATE)
TRY_CAST({ts} AS DATE)
{ts}::DATE""",
    "ts": """
{when} + INTERVAL {N} {UNIT}
{when} - INTERVAL '{N}' {UNIT}
{ts} + INTERVAL '30 days'
{ts} - INTERVAL {int} SECOND
ADD_DAYS({ts}, {int})
ADD_MICROSECONDS({ts}, {int})
ADD_MONTHS({ts}, {int})
DATE_ADD({ts}, INTERVAL {int} {UNIT})
TIMESTAMP_ADD({ts}, INTERVAL {N} {SHORT})
DATETIME_ADD({ts}, INTERVAL {N} {UNIT})
DATE_SUB({ts}, INTERVAL {int} {UNIT})
TIMESTAMP_SUB({ts}, INTERVAL {N} {SHORT})
DATETIME_SUB({ts}, INTERVAL {N} {UNIT})
DATE_TRUNC('{UNIT}', {ts})
DATETRUNC('{UNIT}', {ts})
TIMESTAMP_TRUNC({ts}, {UNIT})
DATETIME_TRUNC({ts}, {UNIT})
TIMESTAMP_TRUNC({ts}, WEEK({WEEKDAY}))
STRPTIME({text}, {FORMAT})
TRY_STRPTIME({text}, {FORMAT})
PARSE_TIMESTAMP({FORMAT}, {text})
PARSE_DATETIME({FORMAT}, {text})
TIMESTAMP({date})
TIMESTAMP({text})
DATETIME({date})
TIMESTAMP_MICROS({int})
MAKE_TIMESTAMP({int})
TIMESTAMP_MILLIS({int})
TIMESTAMP_SECONDS({int})
TO_TIMESTAMP({int})
CAST({text} AS TIMESTAMP)
CAST({date} AS DATETIME)
{date}::TIMESTAMP""",
    "time": """
CAST({ts} AS TIME)
CAST({text} AS TIME)
{ts}::TIME""",
}

WORDS = {
    "UNIT": ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"],
    "DAYS": ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY"],
    "SHORT": ["HOUR", "MINUTE", "SECOND"],
    "PART": ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFYEAR", "ISOYEAR", "ISOWEEK"],
    "WEEKDAY": ["SUNDAY", "MONDAY", "TUESDAY", "SATURDAY"],
    "N": ["0", "1", "3", "30", "1000"],
    "DIGITS": ["0", "2", "-2", "15"],
    "INTEGER": ["TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "INT64", "HUGEINT"],
    "REAL": ["FLOAT", "DOUBLE", "FLOAT64"],
    "DECIMAL": ["DECIMAL(4, 1)", "DECIMAL(38, 37)", "DECIMAL(38, 0)", "NUMERIC", "DECIMAL(18, 3)"],
    "STRING": ["VARCHAR", "VARCHAR(3)", "STRING", "TEXT"],
    "PAD": ["'*'", "'ab'", "'é'"],
    "REGEX": ["'a'", "'^.*$'", "'[0-9]+(.)'", "'é|🦆'", "''"],
    "LIKE": ["'%'", "'a%'", "'_'", "''", "'%é_'"],
    "FORMAT": ["'%Y-%m-%d'", "'%d.%m.%Y %H:%M:%S'", "'%j %a %b'", "'%Y'"],
}
NAMED = {
    "int": "BIGINT",
    "double": "DOUBLE",
    "dec": "DECIMAL(18, 3)",
    "text": "VARCHAR",
    "bool": "BOOLEAN",
    "date": "DATE",
    "ts": "TIMESTAMP",
    "time": "TIME",
}

REFUSED = """
RANDOM()
{time} + INTERVAL {N} {SHORT}
{time} - INTERVAL {int} MINUTE
TRY_CAST({text} AS UUID)
{ts} AT TIME ZONE 'UTC'
EXISTS (SELECT 1 FROM places AS x WHERE x.{column} = {any})
UUID()
GETENV('HOME')
NEXTVAL('s')
FIRST({any})
STRING_AGG({text}, ',')
{int} < {int} < {int}
[{int}, {int}]
{text}[1]
$1
E'a'
{num} > ALL (SELECT x.{numbers} FROM places AS x)
(SELECT MAX(e.amount) FROM events AS e)
{num} IN (SELECT e.amount FROM events AS e)"""
"""What the reference names and nobody answers."""


def lines(text: str) -> tuple[str, ...]:
    """The forms of a block."""
    return tuple(text.strip("\n").split("\n"))


FORMS = {kind: lines(WRITTEN[kind]) for kind in TYPES}
LITERALS = {kind: lines(CONSTANTS[kind]) for kind in TYPES}
DECK = tuple((kind, form) for kind in TYPES for form in (*FORMS[kind], *LITERALS[kind])) + tuple(
    (TYPES[place % len(TYPES)], form) for place, form in enumerate(lines(ALIKE) * 3)
)
"""Every form once, and those of every type with three types."""
FLAWS = tuple(("int", form) for form in lines(REFUSED))
