"""Dates and numbers of other countries: what `shoal init` writes about a CSV file, and what queries then read."""

from __future__ import annotations

from collections import Counter

import pytest

from shoal.cli.first_catalog.looking import judged
from shoal.cli.first_catalog.sentences import worth_a_look
from shoal.cli.first_catalog.spelling import dates_written, numbers_written, spelled
from shoal.plan.types import Kind
from shoal.session import connect

pytestmark = pytest.mark.usefixtures("in_shop")


def looked(name: str, *values: str):
    return judged(name, Counter(values), Kind.TEXT)


@pytest.mark.parametrize(
    ("values", "written"),
    [
        (["31.12.2025", "01.02.2025 "], None),
        (["31.12.25", "01.02.25"], "%d.%m.%y"),
        (["1-Feb-2025 10:30", "31-Dec-2024 9:05"], "%d-%b-%Y %H:%M"),
        (["1-Foo-2025"], None),
        (["12/31/2010", "13/31/2010"], None),
        ([], None),
    ],
)
def test_dates_are_read_only_where_there_is_one_way_to(values, written):
    assert dates_written(values) == written


@pytest.mark.parametrize("values", [["1,5", "1.5,2.5"], ["1,23,456"], ["1.23,5"], ["12"], ["a"], [",5"], ["1,5 €"], []])
def test_what_is_no_number_with_commas_stays_text(values):
    assert numbers_written(values) == ()


def test_a_german_file_is_read_as_it_is_written(shoal, in_shop):
    lines = ["Kunde;Datum;Betrag", *(f"{n};{n % 28 + 1:02d}.11.2025;1.{n % 10}00,50" for n in range(60))]
    (in_shop / "umsatz.csv").write_text("\n".join(lines), encoding="utf-8-sig")
    assert (
        "umsatz.Betrag: text that holds numbers written with commas" in shoal("init", "umsatz.csv", "-o", "u.toml").out
    )
    text = (in_shop / "u.toml").read_text()
    assert 'csv = { date_format = "%d.%m.%Y", decimal = ",", thousands = "." }' in text
    session = connect(in_shop / "umsatz.csv", catalog=str(in_shop / "u.toml"))
    types = {name: facts["type"] for name, facts in session.tables()["umsatz"]["columns"].items()}
    assert types == {"Kunde": "integer", "Datum": "date", "Betrag": "double"}
    # At ε = 500 noise moves an average of 60 numbers below 2,048 by a unit with a chance below 1e-6.
    asked = "SELECT AVG(Betrag) AS mean FROM umsatz WHERE YEAR(Datum) = 2025"
    assert abs(session.query(asked, epsilon=500).to_dicts()[0]["mean"] - 1450.5) < 5


def test_commas_between_thousands_are_read_in_a_file_of_commas(shoal, in_shop):
    lines = ["uid,income", *(f'{n},"{40 + n % 3},000"' for n in range(60)), "60,12"]
    (in_shop / "people.csv").write_text("\n".join(lines))
    assert "read as BIGINT (a guess)" in shoal("init", "people.csv", "-o", "p.toml").out
    session = connect(in_shop / "people.csv", catalog=str(in_shop / "p.toml"))
    count = session.query("SELECT COUNT(*) AS n FROM people WHERE income = 40000", epsilon=500).to_dicts()[0]["n"]
    assert count == 20


def test_a_few_numbers_with_commas_are_read_as_well(shoal, in_shop):
    lines = ["user_email,cost", *(f"u{n}@x.com,{n}.5" for n in range(60)), 'z@x.com,"1,234.5"']
    (in_shop / "costs.csv").write_text("\n".join(lines))
    done = shoal("init", "costs.csv", "-o", "c.toml")
    assert "owner 'user_email' (a guess), one row each" in done.out
    assert "do not fit" not in done.out
    session = connect(in_shop / "costs.csv", catalog=str(in_shop / "c.toml"))
    assert session.query("SELECT COUNT(*) AS n FROM costs WHERE cost = 1234.5", epsilon=500).to_dicts()[0]["n"] == 1


def test_a_comma_that_can_be_read_in_two_ways_is_left_to_the_custodian():
    found = {"weight": looked("weight", "1,234", "2,500")}
    assert spelled(found, ";").types == {}
    assert spelled(found, ",").types == {"weight": "BIGINT"}
    (line,) = worth_a_look({"things": found})
    assert "nobody can tell 1,234 from 1.234" in line


def test_columns_written_in_another_way_than_most_stay_text_with_a_word():
    found = {
        "from": looked("from", "31.12.2025"),
        "to": looked("to", "30.11.2025"),
        "born": looked("born", "12/31/1980"),
        "net": looked("net", "1,5"),
        "gross": looked("gross", "1,234.5"),
        "at": looked("at", "31.12.2025 10:00"),
    }
    chosen = spelled(found, ";")
    assert chosen.types == {"from": "DATE", "to": "DATE", "at": "TIMESTAMP", "net": "DOUBLE"}
    assert chosen.options == {
        "date_format": "%d.%m.%Y",
        "timestamp_format": "%d.%m.%Y %H:%M",
        "decimal": ",",
        "thousands": ".",
    }
    (line,) = worth_a_look({"sales": {"gross": found["gross"]}})
    assert "CAST(REPLACE(gross, ',', '') AS DOUBLE)" in line


def test_digits_that_are_names_are_no_numbers():
    assert looked("phone", "1,234").numbers == ()
