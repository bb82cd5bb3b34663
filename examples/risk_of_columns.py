"""Rank the columns of a table by how many owners share each value, without a promise: a measure of existing data."""

from shoal import datasets, risk

report = risk.scan({"customers": datasets.shop()["customers"]}, owner="uid", key=b"a secret of the custodian")
print(report)
