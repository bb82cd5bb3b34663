from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.cli.first_catalog.looking import judged
from shoal.cli.first_catalog.sentences import worth_a_look
from shoal.plan.types import Kind
from shoal.session import connect

pytestmark = pytest.mark.usefixtures("in_shop")


def said(column: str, values: dict[str, int]) -> str:
    return " ".join(worth_a_look({"sales": {column: judged(column, Counter(values), Kind.TEXT)}}))


def test_values_that_are_no_numbers_are_counted_with_their_beginning():
    words = said("InvoiceNo", {**{str(536000 + n): 1 for n in range(90)}, "C536379": 4, "C536383": 6})
    assert "10 of 100 values are not numbers, such as 'C5…'" in words


def test_words_that_mean_missing_are_named():
    assert "12 values '(blank)' may mean missing: NULLIF(Country, '(blank)')" in said(
        "Country", {"UK": 9, "(blank)": 12}
    )


def test_numbers_and_dates_kept_as_text_get_a_type():
    assert judged("total", Counter({"29.85": 1, "18": 2, " ": 3}), Kind.TEXT).read_as == "DOUBLE"
    assert judged("visits", Counter({"29": 1, "18": 2}), Kind.TEXT).read_as == "BIGINT"
    assert judged("day", Counter({"2024-02-29": 1}), Kind.TEXT).read_as == "DATE"
    assert judged("at", Counter({"2024-02-29 10:00:00": 1}), Kind.TEXT).read_as == "TIMESTAMP"


@pytest.mark.parametrize(
    ("name", "values"), [("zip", {"10115": 9}), ("order_id", {"7": 9}), ("code", {"007": 9}), ("x", {"007": 9})]
)
def test_digits_that_are_names_stay_text(name, values):
    assert judged(name, Counter(values), Kind.TEXT).read_as is None


@pytest.fixture
def shop(in_shop):
    place = in_shop / "small"
    place.mkdir()
    people = pa.table({
        "customer_id": list(range(60)),
        "country": [("Austria", "Belgium", "Chile")[n % 3] for n in range(60)],
        "total": [f"{n}.5" for n in range(60)],
        "kind": [n % 4 for n in range(60)],
    })  # fmt: skip
    pq.write_table(people, place / "people.parquet")
    pq.write_table(pa.table({"kind": [0, 1, 2, 3], "label": ["a", "b", "c", "d"]}), place / "kinds.parquet")
    return place


def test_init_says_what_is_odd_and_writes_what_was_declared_public(shoal, shop):
    words = ["--public", "Kinds", "--public-values", "people.country", "--population", "60"]
    done = shoal("init", str(shop), "-o", "small.toml", *words)
    assert "kinds: public, as you say" in done.out
    assert "people: owner 'customer_id' (a guess), one row each" in done.out
    assert "people.total: text that holds numbers; read as DOUBLE (a guess)." in done.out
    assert "few values: kind. " in done.out
    assert f"shoal query 'SELECT COUNT(*) FROM people' --db {shop} --catalog small.toml" in done.out
    session = connect(shop, catalog="small.toml")
    answer = session.query("SELECT country, COUNT(*) AS n FROM people GROUP BY country")
    assert sorted(answer.to_arrow().column("country").to_pylist()) == ["Austria", "Belgium", "Chile"]
    assert any("at most 1 row of each owner" in note for note in answer.notes)
    assert session.tables()["people"]["columns"]["total"]["type"] == "double"


@pytest.mark.parametrize(
    "words", [["--public", "kind"], ["--public-values", "people.land"], ["--public-values", "country"]]
)
def test_a_name_that_is_not_there_is_refused(shoal, shop, words):
    done = shoal("init", str(shop), "-o", "small.toml", *words)
    assert done.status == 2
    assert "There is no" in done.err


def test_numbers_with_a_point_cannot_be_listed(shoal, in_shop):
    pq.write_table(pa.table({"uid": [1], "x": [0.5]}), in_shop / "one.parquet")
    assert "Only strings" in shoal("init", "one.parquet", "-o", "o.toml", "--public-values", "one.x").err


def test_values_of_a_csv_file_that_its_guessed_type_leaves_out_are_told(shoal, in_shop):
    lines = ["uid,InvoiceNo", *(f"{n},{536000 + n}" for n in range(99)), "1,C536379", "2,C536383"]
    (in_shop / "sales.csv").write_text("\n".join(lines))
    done = shoal("init", "sales.csv", "-o", "sales.toml")
    assert "sales.InvoiceNo: 2 values do not fit the guessed type, such as 'C5…'; queries see NULL there." in done.out


def test_dates_of_other_countries_are_pointed_out_with_what_reads_them():
    looked = judged("Datum", Counter({"06.10.2025": 2, "25.10.2025": 1}), Kind.TEXT)
    line, dates = worth_a_look({"kasse 1": {"Datum": looked}})
    assert "--public-values 'kasse 1.Datum' " in dates
    assert "STRPTIME(Datum, '%d.%m.%Y')" in line
    assert 'csv = { date_format = "%d.%m.%Y" }' in line


def test_names_are_quoted_for_the_shell():
    looked = judged("Artikel", Counter({"Tee": 9, "Brot": 9}), Kind.TEXT)
    (line,) = worth_a_look({"kasse 1": {"Artikel": looked}})
    assert "--public-values 'kasse 1.Artikel' " in line


def test_words_that_mean_missing_elsewhere_leave_a_number_a_number():
    looked = judged("Größe (cm)", Counter({"172": 9, "180": 4, "k.A.": 2}), Kind.TEXT)
    assert looked.read_as == "BIGINT"
    assert looked.missing == {"k.A.": 2}


@pytest.mark.parametrize(
    ("values", "cast"),
    [
        (["$29.99", "$5"], "CAST(REPLACE(fee, '$', '') AS DOUBLE)"),
        (["$1,200.50", "$5"], "CAST(REPLACE(REPLACE(fee, '$', ''), ',', '') AS DOUBLE)"),
        (["1.200,50 €", "5 €"], "CAST(REPLACE(REPLACE(REPLACE(fee, '€', ''), '.', ''), ',', '.') AS DOUBLE)"),
    ],
)
def test_numbers_with_a_sign_are_told_how_to_read(values, cast):
    words = said("fee", dict.fromkeys(values, 1))
    assert cast in words
    people = pa.table({"uid": range(400), "fee": [values[n % 2] for n in range(400)]})
    catalog = {"tables": {"people": {"owner": "uid"}}, "defaults": {"epsilon": 10**6, "delta": 1e-3}}
    (row,) = connect({"people": people}, catalog=catalog).query(f"SELECT AVG({cast}) AS mean FROM people").to_dicts()
    assert row["mean"] == pytest.approx({"$2": 17.495, "$1": 602.75, "1.": 602.75}[values[0][:2]], rel=0.01)
