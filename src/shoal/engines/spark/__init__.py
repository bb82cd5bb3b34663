"""Apache Spark: rows brought together by owner."""
