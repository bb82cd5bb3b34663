"""One job, written for each peer: COUNT(*) and SUM(spend) by site. Scripts of their own: they never import shoal.

python SCRIPT visits.parquet  →  one line of JSON: seconds, and the released counts by site
"""
