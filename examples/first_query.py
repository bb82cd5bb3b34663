"""A private answer over tables in memory: counts and sums by group, with error bars, within a budget."""

from shoal import connect, datasets

session = connect(
    datasets.shop(),
    catalog={
        "tables": {
            "visits": {"owner": "uid", "max_rows_per_owner_and_group": 10, "columns": {"spend": {"bounds": [0, 200]}}},
            "customers": {"owner": "uid"},
            "regions": {"public": True},
        }
    },
    budget=(2.0, 1e-5),
)

turnover = session.query("""
    SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, max_groups_contributed=3)
      site, COUNT(DISTINCT uid) AS customers, SUM(spend) AS turnover
    FROM visits
    GROUP BY site
    ORDER BY customers DESC
    LIMIT 5
""")
print(turnover)
print(f"spent: {session.spent}, left: {session.remaining}")
