"""The catalog says how a CSV file is written: delimiter, texts that mean missing, formats of dates, the decimal comma."""

from __future__ import annotations

import pytest

from shoal.catalog import Catalog
from shoal.errors import ShoalError
from shoal.session import connect

DAYS = [f"{n % 28 + 1:02d}" for n in range(60)]
LINES = ["uid~day~at~price~label", *(f"{n}~{d}/02/2024~{d}.02.2024 10:30~1,5~NA" for n, d in enumerate(DAYS))]
OPTIONS = {
    "delimiter": "~",
    "null": ["NA", "(blank)"],
    "date_format": "%d/%m/%Y",
    "timestamp_format": "%d.%m.%Y %H:%M",
    "decimal": ",",
}


def session(tmp_path, lines, options, **columns):
    (tmp_path / "sales.csv").write_text("\n".join(lines))
    table = {"owner": "uid", "csv": options, "columns": columns}
    defaults = {"epsilon": 50.0, "delta": 1e-6}
    return connect(tmp_path / "sales.csv", catalog={"tables": {"sales": table}, "defaults": defaults})


def test_options_of_the_catalog_are_read(tmp_path):
    opened = session(tmp_path, LINES, OPTIONS)
    types = {name: facts["type"] for name, facts in opened.tables()["sales"]["columns"].items()}
    assert types == {"uid": "integer", "day": "date", "at": "timestamp", "price": "double", "label": "text"}
    counts = "COUNT(day) AS days, COUNT(at) AS ats, COUNT(label) AS labels, AVG(price) AS price"
    row = opened.query(f"SELECT {counts} FROM sales WHERE day >= DATE '2024-02-01'").to_dicts()[0]
    assert abs(row["days"] - 60) < 10  # ε = 50 for a handful of releases: the chance of 10 is below 1e-20
    assert abs(row["ats"] - 60) < 10
    assert abs(row["labels"]) < 10
    assert abs(row["price"] - 1.5) < 0.5


@pytest.mark.parametrize(("mark", "decimal"), [(",", "."), (".", ","), (" ", ","), ("'", ".")])
def test_marks_between_thousands_are_read_where_groups_are_of_three(tmp_path, mark, decimal):
    big, broken = f"1{mark}234{mark}567{decimal}5", f"1{mark}23{decimal}5"
    lines = ["uid~x~n", *(f"{i}~{big if i < 40 else broken}~2{mark}000" for i in range(60))]
    opened = session(tmp_path, lines, {"delimiter": "~", "thousands": mark, "decimal": decimal}, x={"type": "DOUBLE"})
    assert opened.tables()["sales"]["columns"]["n"]["type"] == "integer"
    counts = "COUNTIF(x = 1234567.5) AS big, COUNT(x) AS numbers, COUNTIF(n = 2000) AS whole"
    answer = opened.query(f"SELECT {counts} FROM sales", epsilon=500).to_dicts()[0]
    assert answer == {"big": 40, "numbers": 40, "whole": 60}


def test_a_declared_type_leaves_nothing_to_guess(tmp_path):
    lines = ["uid,n", *(f"{i},{i}" for i in range(60))]
    assert session(tmp_path, lines, {}, n={"type": "VARCHAR"}).tables()["sales"]["columns"]["n"]["type"] == "text"


def test_values_that_a_guess_would_lose_are_kept_by_a_declared_type(tmp_path):
    lines = ["uid,invoice", *(f"{i},{536000 + i}" for i in range(99)), *(f"{i},C5363" for i in range(99, 103))]
    opened = session(tmp_path, lines, {}, invoice={"type": "VARCHAR"})
    answer = opened.query("SELECT COUNT(*) AS n FROM sales WHERE invoice LIKE 'C%'", epsilon=500)
    assert answer.to_dicts()[0]["n"] == 4  # at ε = 500 noise other than 0 has a chance below 1e-100


@pytest.mark.parametrize(
    "options",
    [
        {"delimiter": "::"},
        {"null": 3},
        {"date_format": "%Z"},
        {"date_format": "day"},
        {"decimal": ";"},
        {"thousands": ";"},
        {"thousands": "."},
        {"quote": "'"},
        "x",
    ],
    ids=str,
)
def test_other_options_are_refused(options):
    with pytest.raises(ShoalError) as refused:
        Catalog.from_dict({"tables": {"sales": {"owner": "uid", "csv": options}}})
    assert refused.value.code == "E_CATALOG"
