"""The rows of the published table: the query of each, what was published, and other ways to ask the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

from benchmarks.tpch.tables import EPSILON

AS_PUBLISHED = ", noise = LAPLACE, group_selection_strategy = LAPLACE_THRESHOLD"
EVEN_SPLIT = f"{AS_PUBLISHED}, group_selection_epsilon = {EPSILON / 2:g}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `body` reads alike for the private query and for plain SQL over the catalog's views."""

    name: str
    way: str
    owners: str
    aggregate: str
    truth: str
    body: str
    keys: str = ""
    bound: int | None = None
    groups_per_owner: int = 1
    options: str = ""
    error: float | None = None
    withheld: float | None = None
    inner: str | None = None
    """What the private query reads where it is not what plain SQL reads."""
    samples: int = 1
    """How often the engine is asked: more than once where it samples rows, so that the luck of one sample does not show."""

    def private(self, delta: float) -> str:
        """The query as the analyst writes it."""
        options = f"epsilon = {EPSILON:g}, delta = {delta:.6g}, max_groups_contributed = {self.groups_per_owner}{self.options}"
        body = self.inner or self.body
        return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) {self._selected(self.aggregate, body)}"

    def plain(self) -> str:
        """The same without privacy."""
        return f"SELECT {self._selected(self.truth, self.body)}"

    def _selected(self, aggregate: str, body: str) -> str:
        keys, grouped = (f"{self.keys}, ", f" GROUP BY {self.keys}") if self.keys else ("", "")
        return f"{keys}{aggregate} AS answer FROM {body}{grouped}"


def per_group(upper: int) -> str:
    """COUNT(*) with that many rows per owner and group."""
    return f"COUNT(*, contribution_bounds_per_group => (0, {upper}))"


def median(rows: int) -> str:
    """The median over that many rows per owner."""
    bounds = "contribution_bounds_per_row => (0, 100000)"
    return f"MEDIAN(l_extendedprice, {bounds}, max_contributions_per_group => {rows})"


Q1_BODY = (
    "lineitem WHERE l_shipdate <= DATE '1998-12-01' - INTERVAL 90 DAY AND l_returnflag = 'A' AND l_linestatus = 'F'"
)
Q1_COUNT = Row(
    "Q1 COUNT(*)", "the planner's", "customer", per_group(373), "COUNT(*)", Q1_BODY, bound=373, error=0.00175
)
Q1_AVG = Row(
    "Q1 AVG",
    "the planner's",
    "supplier",
    "AVG(l_extendedprice, contribution_bounds_per_group => (0, 100000))",
    "AVG(l_extendedprice)",
    Q1_BODY,
    error=0.00181,
)
Q1_MEDIAN = Row(
    "Q1 MEDIAN",
    "5 rows per customer",
    "customer",
    median(5),
    "MEDIAN(l_extendedprice)",
    Q1_BODY,
    error=0.00189,
    samples=10,
)
MEDIAN_PER_CUSTOMER = (
    f"(SELECT l_custkey, MEDIAN(l_extendedprice) AS median_price FROM {Q1_BODY} GROUP BY l_custkey) AS per_owner"
)
Q1_MEDIAN_OF_MEDIANS = replace(
    Q1_MEDIAN,
    way="median of customers' medians",
    aggregate="MEDIAN(median_price, contribution_bounds_per_row => (0, 100000))",
    inner=MEDIAN_PER_CUSTOMER,
    samples=1,
)
Q4 = Row(
    "Q4",
    "the planner's",
    "customer",
    per_group(5),
    "COUNT(*)",
    """orders
    WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01' AND EXISTS (
      SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey AND l_custkey = o_custkey AND l_commitdate < l_receiptdate)""",
    keys="o_orderpriority",
    bound=5,
    groups_per_owner=5,
    error=0.0339,
    withheld=5.4e-5,
)
Q13 = Row(
    "Q13",
    "the planner's: the released count selects",
    "customer",
    per_group(1),
    "COUNT(*)",
    """(
      SELECT c_custkey, COUNT(o_orderkey) AS c_count
      FROM customer LEFT JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
      GROUP BY c_custkey) AS c_orders""",
    keys="c_count",
    bound=1,
    error=0.00677,
    withheld=0.309,
)
Q16 = Row(
    "Q16",
    "the planner's: the released count selects",
    "supplier",
    "COUNT(DISTINCT ps_suppkey)",
    "COUNT(DISTINCT ps_suppkey)",
    """partsupp JOIN part ON p_partkey = ps_partkey
    WHERE p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%' AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9)
      AND NOT EXISTS (SELECT 1 FROM supplier WHERE s_suppkey = ps_suppkey AND s_comment LIKE '%Customer%Complaints%')""",
    keys="p_brand, p_type, p_size",
    bound=1,
    groups_per_owner=5,
    withheld=0.99996,
)
Q21 = Row(
    "Q21",
    "the planner's: the released count selects",
    "supplier",
    per_group(1),
    "COUNT(*)",
    """supplier
    JOIN lineitem ON l_suppkey = s_suppkey
    JOIN orders ON o_suppkey = l_suppkey AND o_orderkey = l_orderkey
    JOIN nation ON n_nationkey = s_nationkey
    WHERE o_orderstatus = 'F' AND l_receiptdate > l_commitdate AND n_name = 'SAUDI ARABIA'""",
    keys="s_name",
    bound=1,
    withheld=0.9998,
)

ROWS: tuple[Row, ...] = (
    Q1_COUNT,
    Q1_AVG,
    Q1_MEDIAN_OF_MEDIANS,
    replace(
        Q1_MEDIAN_OF_MEDIANS,
        way="median of suppliers' medians",
        owners="supplier",
        inner=MEDIAN_PER_CUSTOMER.replace("l_custkey", "l_suppkey"),
    ),
    Q1_MEDIAN,
    replace(Q1_MEDIAN, way="15 rows per customer", aggregate=median(15)),
    replace(Q1_MEDIAN, way="1 row per customer", aggregate=median(1)),
    replace(Q1_MEDIAN, way="1 row per supplier", owners="supplier", aggregate=median(1)),
    Q4,
    replace(Q4, way="as published: Laplace, half of ε for the groups", options=EVEN_SPLIT),
    Q13,
    replace(Q13, way="as published: Laplace, half of ε for the groups", options=EVEN_SPLIT),
    replace(Q13, way="optimal selection with half of ε", options=", group_selection_strategy = OPTIMAL"),
    replace(Q16, way="as published: Laplace threshold on the released count", options=AS_PUBLISHED),
    replace(Q16, way="optimal selection with half of ε", options=", group_selection_strategy = OPTIMAL"),
    Q16,
    Q21,
)
