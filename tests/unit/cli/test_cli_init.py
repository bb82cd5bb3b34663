from __future__ import annotations

import datetime as dt
import json
import tomllib
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.catalog import Catalog
from shoal.catalog.owner_names import owner_candidates
from shoal.cli.init import Guess, catalog_text, guess_all, guess_owners, with_lookups
from shoal.session import connect

pytestmark = pytest.mark.usefixtures("in_shop")


@pytest.mark.parametrize(
    "name",
    ["uid", "UID", "user_id", "userId", "UserID", "customer_id", "CustomerKey", "patient_no", "household_id",
     "device_uuid", "src_account_id", "memberid", "email", "owner", "Kunde", "KundenNr", "cliente_id", "Patientennummer"],
)  # fmt: skip
def test_names_that_look_like_owners_are_candidates(name):
    assert owner_candidates({"day": "DATE", name: "BIGINT"}) == [name]


@pytest.mark.parametrize("name", ["id", "visit_id", "order_id", "day", "region", "idea", "users_online", "paid", "aid"])
def test_other_names_are_not(name):
    assert owner_candidates({name: "BIGINT"}) == []


def test_a_name_that_several_tables_share_wins():
    schemas = {
        "orders": {"order_id": "BIGINT", "user_id": "BIGINT", "customer_id": "BIGINT"},
        "customers": {"customer_id": "BIGINT", "region": "VARCHAR"},
    }
    assert guess_owners(schemas) == {"orders": "customer_id", "customers": "customer_id"}


def nothing_repeats(_table, _column):
    return True


def test_customers_come_before_those_who_serve_them():
    schemas = {
        "orders": {"customer_id": "VARCHAR", "employee_id": "BIGINT"},
        "customers": {"customer_id": "VARCHAR"},
        "employees": {"employee_id": "BIGINT"},
        "territories": {"employee_id": "BIGINT"},
    }
    assert guess_owners(schemas)["orders"] == "customer_id"
    assert guess_owners(schemas)["territories"] == "employee_id"


def test_a_table_without_a_likely_owner_is_private_row_by_row_and_never_public():
    schemas = {"visits": {"uid": "BIGINT"}, "regions": {"region": "VARCHAR"}}
    tables = tomllib.loads(catalog_text(schemas, guess_all(schemas, nothing_repeats)))["tables"]
    assert tables["regions"]["owner"] == "each row"
    assert not any("public" in table for table in tables.values())


def test_columns_refer_to_public_lists_that_they_are_named_after():
    schemas = {
        "lines": {"customer_id": "BIGINT", "product_id": "BIGINT", "postal_code": "VARCHAR", "category_id": "VARCHAR"},
        "products": {"product_id": "BIGINT", "postal_code": "VARCHAR"},
        "categories": {"category_id": "BIGINT"},
    }
    keys = {("products", "product_id"), ("products", "postal_code"), ("categories", "category_id")}

    def is_key(table, column):
        return (table, column) in keys

    lists = {"products", "categories"}
    private = {"lines": schemas["lines"]}
    found = with_lookups(guess_all(private, is_key), schemas, lists, is_key)
    # Not the postal code, which is a key of a list of other things, nor a category of another type.
    assert found["lines"].references == (("product_id", "products"),)
    guesses = found | {table: Guess(public=True) for table in lists}
    tables = tomllib.loads(catalog_text(schemas, guesses))["tables"]
    assert tables["lines"]["references"] == {"product_id": "products"}
    assert [r.to for r in Catalog.from_dict({"tables": tables}).tables["lines"].lookups] == ["products"]


def test_lines_belong_to_who_ordered_and_a_chain_is_followed():
    schemas = {
        "orders": {"order_id": "BIGINT", "customer_id": "VARCHAR"},
        "lines": {"line_id": "BIGINT", "order_id": "BIGINT"},
        "returns": {"line_id": "BIGINT", "why": "VARCHAR"},
        "other_orders": {"order_id": "VARCHAR"},
    }
    keys = {("orders", "order_id"), ("lines", "line_id")}
    found = guess_all(schemas, lambda table, column: (table, column) in keys)
    assert found["lines"].for_machines["owner"] == {"through": "order_id", "to": "orders"}
    assert found["returns"].for_machines["owner"] == {"through": "line_id", "to": "lines"}
    assert found["other_orders"].for_machines["owner"] == "each row"
    tables = tomllib.loads(catalog_text(schemas, found))["tables"]
    assert tables["lines"]["owner"] == {"through": "order_id", "to": "orders"}
    Catalog.from_dict({"tables": tables})


def test_owners_that_are_whole_numbers_stored_as_reals_get_a_type():
    schemas = {"sales": {"CustomerID": "DOUBLE"}}
    tables = tomllib.loads(catalog_text(schemas, guess_all(schemas, nothing_repeats)))["tables"]
    assert tables["sales"]["columns"]["CustomerID"]["type"] == "BIGINT"


def test_any_name_of_a_table_or_column_makes_valid_toml():
    nasty = {'my "table"\n[x]': {"user_id": "BIGINT", "a b": "DOUBLE", "é\x7f\\": "VARCHAR", "x\n_user_id": "BIGINT"}}
    (table,) = tomllib.loads(catalog_text(nasty, guess_all(nasty, nothing_repeats)))["tables"].items()
    assert table[0] == 'my "table"\n[x]'
    assert set(table[1]["columns"]) == {"user_id", "a b", "é\x7f\\", "x\n_user_id"}


def test_plain_sql_is_answered_with_a_first_catalog(shoal):
    assert shoal("init", "data/", "-o", "first.toml", "--population", "1000").status == 0
    done = shoal("query", "SELECT COUNT(*) FROM visits", "--db", "data/", "--catalog", "first.toml")
    assert done.status == 0, done.err


def test_init_writes_a_catalog_that_loads_and_marks_its_guesses(shoal, in_shop):
    done = shoal("init", "data/", "-o", "first.toml")
    assert done.status == 0, done.err
    assert "visits: owner 'uid' (a guess)" in done.out
    catalog = Catalog.from_toml(in_shop / "first.toml")
    assert catalog.table("visits").owner == "uid"
    assert catalog.table("regions").each_row
    assert catalog.defaults.answers_plain_sql
    assert "GUESS" in (in_shop / "first.toml").read_text(encoding="utf-8")


def test_init_leaves_a_catalog_that_is_there_alone_unless_forced(shoal, in_shop):
    (in_shop / "mine.toml").write_text("# mine\n", encoding="utf-8")
    done = shoal("init", "data/", "-o", "mine.toml")
    assert done.status == 2
    assert "exists" in done.err
    assert (in_shop / "mine.toml").read_text(encoding="utf-8") == "# mine\n"
    assert shoal("init", "data/", "-o", "mine.toml", "--force").status == 0


def test_a_catalog_over_every_type_of_column_opens(shoal, in_shop):
    folder = in_shop / "odd"
    folder.mkdir()
    odd = pa.table(
        {
            "user_id": pa.array([1, 2]),
            "list": pa.array([[1], [2]]),
            "struct": pa.array([{"a": 1}, {"a": 2}]),
            "bytes": pa.array([b"a", b"b"]),
            "amount": pa.array([Decimal("1.50"), None]),
            "when": pa.array([0, 1], pa.timestamp("us")),
            "zoned": pa.array([0, 1], pa.timestamp("us", tz="UTC")),
            "flag": pa.array([True, None]),
            "small": pa.array([1, 2], pa.uint8()),
            "label": pa.array(["x", "y"]).dictionary_encode(),
        }
    )
    pq.write_table(odd, folder / "odd.parquet")
    assert shoal("init", "odd/", "-o", "odd.toml").status == 0
    with connect("odd/", catalog="odd.toml") as session:
        assert set(session.tables()["odd"]["columns"]) == set(odd.column_names)


def test_init_tells_machines_what_it_found(shoal):
    done = shoal("init", "data/", "-o", "first.toml", "--json")
    assert json.loads(done.out)["tables"] == {
        "customers": {"owner": "uid"},
        "visits": {"owner": "uid"},
        "regions": {"owner": "each row"},
    }


def test_init_of_a_place_that_is_not_there_is_refused_in_a_sentence(shoal):
    done = shoal("init", "no-such-folder/", "-o", "first.toml")
    assert done.status == 2
    assert done.err.startswith("E_SOURCE")
    assert "Traceback" not in done.err


def test_rows_without_an_owner_and_lists_of_nobody_are_pointed_out(shoal, tmp_path):
    pq.write_table(pa.table({"customer_id": [1, None, None], "sold": [1, 2, 3]}), tmp_path / "orders.parquet")
    pq.write_table(pa.table({"sold": [1, 2], "title": ["a", "b"]}), tmp_path / "things.parquet")
    said = shoal("init", str(tmp_path), "-o", str(tmp_path / "c.toml")).out
    assert "orders.customer_id: 2 rows have no owner (NULL), and are in no answer." in said
    assert "Then: --public things --force" in said


def dated_orders(path, written="%Y-%m-%d"):
    days = [dt.date(2023, 3, 9) + dt.timedelta(days=5 * n) for n in range(60)]
    lines = [f"{uid},{day.strftime(written)},{uid % 3}\n" for uid, day in enumerate(days)]
    path.write_text("customer_id,day,kind\n" + "".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("written", ["%Y-%m-%d", "%d.%m.%Y"])
def test_a_period_that_is_declared_public_is_written_in_whole_months(shoal, in_shop, written):
    orders, catalog = dated_orders(in_shop / "orders.csv", written), in_shop / "first.toml"
    asked = ("--population", "60", "--public-values", "orders.day")
    assert shoal("init", "orders.csv", "-o", "first.toml", *asked).status == 0
    line = 'day = { type = "DATE", bounds = ["2023-03-01", "2023-12-31"] }    # declared public'
    assert line in catalog.read_text(encoding="utf-8")
    by_month = "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) FROM orders GROUP BY m"
    assert connect(orders, catalog=catalog).query(by_month).to_arrow().num_rows == 10


def test_dates_are_pointed_out_without_their_values(shoal, in_shop):
    dated_orders(in_shop / "orders.csv")
    done = shoal("init", "orders.csv", "-o", "first.toml")
    assert "--public-values orders.day writes down its first and last month" in done.out
    assert "2023" not in done.out + (in_shop / "first.toml").read_text(encoding="utf-8")


def test_what_is_declared_is_not_proposed_again_and_birth_dates_never_are(shoal, in_shop):
    lines = [f"{n},2023-0{1 + n % 9}-05,19{50 + n % 40}-01-01,land{n % 30}" for n in range(90)]
    text = "customer_id,order_date,birth_date,country\n" + "\n".join(lines)
    (in_shop / "orders.csv").write_text(text, encoding="utf-8")
    done = shoal("init", "orders.csv", "-o", "first.toml")
    assert "few values: country. " in done.out  # 30 values, but a list that everybody knows
    assert "dates: order_date. " in done.out
    asked = ("--public-values", "orders.order_date,orders.country", "--force")
    again = shoal("init", "orders.csv", "-o", "first.toml", *asked)
    assert again.status == 0, again.err
    assert "dates:" not in again.out
    assert "few values:" not in again.out


def test_numbers_that_are_0_and_1_are_told_and_written_down_only_when_asked(shoal, in_shop):
    lines = [f"{n},{n % 2},{n % 3},{n % 2}.5" for n in range(90)]
    (in_shop / "people.csv").write_text("customer_id,survived,class,fare\n" + "\n".join(lines), encoding="utf-8")
    done = shoal("init", "people.csv", "-o", "first.toml")
    assert "0 and 1: survived. " in done.out
    assert "--public-values people.survived writes it down" in done.out
    catalog = tomllib.loads((in_shop / "first.toml").read_text(encoding="utf-8"))
    assert "values" not in catalog["tables"]["people"].get("columns", {}).get("survived", {})
    again = shoal("init", "people.csv", "-o", "first.toml", "--force", "--public-values", "people.survived")
    assert again.status == 0, again.err
    assert "0 and 1:" not in again.out
    catalog = tomllib.loads((in_shop / "first.toml").read_text(encoding="utf-8"))
    assert catalog["tables"]["people"]["columns"]["survived"]["values"] == [0, 1]
