"""Flight SQL: the same answer as over HTTP, charged once, and never a traceback."""

from __future__ import annotations

import random
from contextlib import suppress

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from web_server import Served, counting

import shoal
from shoal.plan.types import Kind
from shoal.service.allowances import Grant
from shoal.service.service import OPERATOR
from shoal.web.flight_sql import streams
from shoal.web.flight_sql.messages import MESSAGES, read_command, written
from shoal.web.server import Doorway, Place, bound_socket

MESSAGES_IN_CI = 1500


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    served = Served(tmp_path_factory.mktemp("flight"))
    opened = Doorway(served.service, Place(flight_port=0), bound_socket("127.0.0.1", 0))
    yield served, opened.address
    opened.close()
    served.close()


@pytest.fixture
def client(door):
    with fl.connect(door[1]) as connected:
        yield connected


def headers(served, name="ann", database="visits"):
    sent = [(b"authorization", f"Bearer {served.token(name)}".encode()), (b"database", database.encode())]
    return fl.FlightCallOptions(headers=sent, timeout=300)


def command(name, *fields):
    return fl.FlightDescriptor.for_command(written(name, list(fields)))


def statement(sql):
    return command("CommandStatementQuery", (1, sql.encode()))


def spent(served):
    return served.service.datasets.get("visits").ledger.spent[0]


# ---- answers -------------------------------------------------------------------------------------------------------


def test_a_statement_is_charged_once_and_its_answer_is_the_one_of_http(door, client):
    served, _ = door
    sql, before = counting(0.1, "flown"), spent(served)
    info = client.get_flight_info(statement(sql), headers(served))
    tables = [client.do_get(info.endpoints[0].ticket, headers(served)).read_all() for _ in range(2)]
    with served.client("ann") as http:
        reply = http.post("/v1/datasets/visits/query", json={"sql": sql}).json()
    assert tables[0].to_pylist() == tables[1].to_pylist() == reply["rows"]
    assert info.schema == tables[0].schema
    assert float(spent(served) - before) == 0.1
    assert reply["replayed"]


def test_a_large_answer_is_the_same_and_is_refused_without_a_place(door, client, monkeypatch):
    served, _ = door
    info = client.get_flight_info(statement("SELECT town, site FROM sites"), headers(served))
    small = client.do_get(info.endpoints[0].ticket, headers(served)).read_all()
    monkeypatch.setattr(served.service, "is_large", lambda _: True)
    for _ in range(3):
        again = client.get_flight_info(statement("SELECT town, site FROM sites"), headers(served))
        assert client.do_get(again.endpoints[0].ticket, headers(served)).read_all().equals(small)
    monkeypatch.setattr(streams, "MOST_WAITING", 0)
    with pytest.raises(fl.FlightUnavailableError, match="E_RATE"):
        client.do_get(info.endpoints[0].ticket, headers(served)).read_all()


def test_a_ticket_is_worth_nothing_to_somebody_else(door, client):
    served, _ = door
    info = client.get_flight_info(statement(counting(0.1, "mine")), headers(served))
    with pytest.raises(fl.FlightUnauthorizedError, match="E_NOT_FOUND"):
        client.do_get(info.endpoints[0].ticket, headers(served, "bob")).read_all()


def prepare(sql):
    return fl.Action("CreatePreparedStatement", written("ActionCreatePreparedStatementRequest", [(1, sql.encode())]))


BY_SITE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.1, delta = 1e-6) site, COUNT(*) AS n FROM visits GROUP BY site"


@pytest.mark.parametrize("sql", [counting(0.1, "later"), BY_SITE, "SELECT town, site FROM sites ORDER BY town"])
def test_a_prepared_statement_tells_the_columns_of_its_answer_and_costs_nothing_until_it_runs(door, client, sql):
    served, _ = door
    before = spent(served)
    (made,) = client.do_action(prepare(sql), headers(served))
    told = made.body.to_pybytes()
    assert sql.encode() in told
    schema = pa.ipc.read_schema(pa.BufferReader(told[told.index(sql.encode()) + len(sql.encode()) :][3:]))
    assert spent(served) == before
    info = client.get_flight_info(command("CommandPreparedStatementQuery", (1, sql.encode())), headers(served))
    assert info.schema.equals(schema, check_metadata=True)
    assert float(spent(served) - before) == (0.1 if "visits" in sql else 0)


@pytest.mark.parametrize(
    "sql", ["SELECT ,", "SELECT uid FROM visits", "SELECT nothing FROM visits", "EXPLAIN PRIVACY " + BY_SITE]
)
def test_preparing_is_refused_as_running_would_be(door, client, sql):
    served, _ = door
    refused = refusal(lambda: list(client.do_action(prepare(sql), headers(served))))
    assert refused == refusal(lambda: client.get_flight_info(statement(sql), headers(served)))
    with served.client("ann") as http:
        error = http.post("/v1/datasets/visits/explain", json={"sql": sql}).json().get("error")
    assert error is None or refused[1] == error["code"]


def test_tables_and_the_server_are_described(door, client):
    served, _ = door

    def rows(name, *fields):
        info = client.get_flight_info(command(name, *fields), headers(served))
        table = client.do_get(info.endpoints[0].ticket, headers(served)).read_all()
        assert table.schema == info.schema
        return table.to_pylist()

    assert rows("CommandGetCatalogs") == [{"catalog_name": "visits"}]
    assert rows("CommandGetDbSchemas") == [{"catalog_name": "visits", "db_schema_name": "main"}]
    assert [row["table_name"] for row in rows("CommandGetTables")] == ["visits", "sites"]
    assert [row["table_name"] for row in rows("CommandGetTables", (3, b"si%"))] == ["sites"]
    assert rows("CommandGetTables", (4, b"VIEW")) == []
    assert rows("CommandGetTableTypes") == [{"table_type": "TABLE"}]
    assert {row["value"] for row in rows("CommandGetSqlInfo")} >= {"shoal", True}


def test_waiting_for_approval_is_unavailable(door, client):
    served, _ = door
    served.service.add_user(OPERATOR, "dora", ["analyst"])
    served.service.allow(OPERATOR, Grant("visits", "dora", approve_above=0.01))
    with pytest.raises(fl.FlightUnavailableError, match="approval"):
        client.get_flight_info(statement(counting(0.2, "dear")), headers(served, "dora"))


# ---- refusals ------------------------------------------------------------------------------------------------------


def refusal(act):
    with pytest.raises(fl.FlightError) as error:
        act()
    text = str(error.value)
    assert text.startswith("E_")
    assert not any(word in text for word in ("Traceback", "File ", ".py"))
    return type(error.value), text.partition(":")[0]


def put_nothing(client, descriptor, options):
    writer, _ = client.do_put(descriptor, pa.schema([]), options)
    writer.close()


def exchange_nothing(client, descriptor, options):
    writer, reader = client.do_exchange(descriptor, options)
    writer.begin(pa.schema([]))
    writer.done_writing()
    reader.read_all()


def test_every_refusal_is_one_error_of_ours(door, client):
    served, _ = door
    good, nobody = headers(served), fl.FlightCallOptions(timeout=300)
    wrong = fl.FlightCallOptions(headers=[(b"authorization", b"Bearer shoal_x")], timeout=300)
    run = statement(counting(0.1, "r"))
    assert refusal(lambda: client.get_flight_info(run, nobody)) == (fl.FlightUnauthenticatedError, "E_AUTH")
    assert refusal(lambda: client.get_flight_info(run, wrong)) == (fl.FlightUnauthenticatedError, "E_AUTH")
    elsewhere = headers(served, database="nothing")
    assert refusal(lambda: client.get_flight_info(run, elsewhere)) == (fl.FlightUnauthorizedError, "E_NOT_FOUND")
    with pytest.raises(fl.FlightServerError, match="No data set is named"):
        client.get_flight_info(run, headers(served, database=""))
    for act in (
        lambda: client.get_flight_info(statement("SELECT ,"), good),
        lambda: client.get_flight_info(statement("SELECT uid FROM visits WHERE nothing(uid)"), good),
        lambda: client.do_get(fl.Ticket(b"\xff"), good),
    ):
        assert refusal(act)[0] is fl.FlightServerError
    assert len(list(client.list_actions(good))) == 2


NOT_OFFERED_COMMANDS = [
    "CommandStatementUpdate",
    "CommandStatementSubstraitPlan",
    "CommandStatementIngest",
    "CommandPreparedStatementUpdate",
    "CommandGetPrimaryKeys",
    "CommandGetExportedKeys",
    "CommandGetImportedKeys",
    "CommandGetCrossReference",
    "CommandGetXdbcTypeInfo",
]
NOT_OFFERED_ACTIONS = [
    "BeginTransaction",
    "EndTransaction",
    "BeginSavepoint",
    "EndSavepoint",
    "CreatePreparedSubstraitPlan",
    "CancelQuery",
    "CancelFlightInfo",
    "RenewFlightEndpoint",
    "SetSessionOptions",
    "GetSessionOptions",
    "CloseSession",
    "healthcheck",
]


def not_offered(client, run, options):
    """Whatever Flight and Flight SQL have besides what we offer."""
    in_transaction = command("CommandStatementQuery", (1, counting().encode()), (2, b"t"))
    yield "GetSchema", lambda: client.get_schema(run, options)
    yield "ListFlights", lambda: list(client.list_flights(options=options))
    yield "DoPut", lambda: put_nothing(client, run, options)
    yield "DoExchange", lambda: exchange_nothing(client, run, options)
    yield "a path", lambda: client.get_flight_info(fl.FlightDescriptor.for_path("x"), options)
    yield "a transaction", lambda: client.get_flight_info(in_transaction, options)
    yield "a statement as a ticket", lambda: client.do_get(fl.Ticket(run.command), options)
    for name in NOT_OFFERED_COMMANDS:
        yield name, lambda name=name: client.get_flight_info(command(name), options)
        yield name, lambda name=name: client.do_get(fl.Ticket(written(name, [])), options).read_all()
    for name in NOT_OFFERED_ACTIONS:
        yield name, lambda name=name: list(client.do_action(fl.Action(name, b"anything"), options))


def test_every_verb_that_is_not_offered_is_unimplemented_with_a_sentence(door, client):
    served, _ = door
    before = spent(served)
    for name, act in not_offered(client, statement(counting()), headers(served)):
        with pytest.raises(pa.ArrowNotImplementedError) as error:
            act()
        text = str(error.value)
        assert text.startswith("E_UNSUPPORTED: This service does not offer that part of Flight SQL."), name
        assert not any(word in text for word in ("Traceback", "File ", ".py")), name
    assert spent(served) == before


@given(st.binary(max_size=60))
def test_any_other_bytes_are_not_a_message(data):
    with suppress(shoal.ShoalError):
        assert read_command(data).name in MESSAGES


@pytest.mark.parametrize("name", MESSAGES)
def test_unknown_doubled_and_cut_fields_are_refused(name):
    whole = written(name, [(1, b"x")])
    for wrong in (written(name, [(15, b"x")]), whole[:-1], whole + whole, written(name + "x", [])):
        with pytest.raises(shoal.ShoalError):
            read_command(wrong)
    assert read_command(written(name, [])).said == {}


def random_message(chance):
    kind = chance.choice([*MESSAGES, "CommandStatementUpdate", ""])
    data = bytearray(written(kind, [(chance.randrange(1, 7), chance.randbytes(chance.randrange(20)))]))
    for _ in range(chance.randrange(4)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data) if chance.random() < 0.8 else chance.randbytes(chance.randrange(80))


def throw(client, options, chance):
    """One random message at a random handler; only errors of ours come back."""
    data = random_message(chance)
    acts = (
        lambda: client.get_flight_info(fl.FlightDescriptor.for_command(data), options),
        lambda: client.get_schema(fl.FlightDescriptor.for_command(data), options),
        lambda: client.do_get(fl.Ticket(data), options).read_all(),
        lambda: list(client.do_action(fl.Action(chance.choice(["CreatePreparedStatement", "x"]), data), options)),
    )
    text = said_by(chance.choice(acts))
    assert text == "" or (text.startswith("E_") and not text.startswith("E_INTERNAL")), data
    assert "Traceback" not in text, data


def said_by(act):
    try:
        act()
    except Exception as error:  # noqa: BLE001 - whatever reaches a client
        return str(error)
    return ""


def test_random_messages_get_errors_of_ours_and_charge_nothing(door, client):
    served, _ = door
    before = spent(served)
    chance = random.Random(15)
    for _ in range(MESSAGES_IN_CI):
        throw(client, headers(served), chance)
    assert spent(served) == before
    served.service.check()


# ---- a driver that other people wrote ------------------------------------------------------------------------------


def test_adbc_gets_the_answer_of_http_twice_for_one_charge(door):
    dbapi = pytest.importorskip(
        "adbc_driver_flightsql.dbapi", reason="adbc-driver-flightsql is installed by ./run test --all"
    )
    served, url = door
    options = {
        "adbc.flight.sql.authorization_header": f"Bearer {served.token('ann')}",
        "adbc.flight.sql.rpc.call_header.database": "visits",
    }
    sql, before = counting(0.1, "by_adbc"), spent(served)
    with dbapi.connect(url.replace("grpc://", "grpc+tcp://"), db_kwargs=options, autocommit=True) as connection:
        with connection.cursor() as cursor:
            found = []
            for _ in range(2):
                cursor.execute(sql)
                found.append(cursor.fetch_arrow_table().to_pylist())
            with pytest.raises(Exception, match="E_") as error:
                cursor.execute("SELECT ,")
            assert "Traceback" not in str(error.value)
        listed = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        columns = connection.adbc_get_table_schema("visits")
    with served.client("ann") as http:
        reply = http.post("/v1/datasets/visits/query", json={"sql": sql}).json()
    assert found == [reply["rows"]] * 2
    assert float(spent(served) - before) == 0.1
    assert [each["catalog_name"] for each in listed] == ["visits"]
    assert {f.name: f.type for f in columns} == {"uid": pa.int64(), "site": pa.string()}


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("boolean", pa.bool_()),
        ("integer", pa.int64()),
        ("double", pa.float64()),
        ("decimal(18, 3)", pa.decimal128(18, 3)),
        ("text", pa.string()),
        ("date", pa.date32()),
        ("unsupported", pa.string()),
    ],
)
def test_a_column_has_the_type_that_it_has_in_answers(name, type_):
    from shoal.web.flight_sql.tables import _columns

    assert pa.ipc.read_schema(pa.py_buffer(_columns({"c": {"type": name}}))).field("c").type == type_


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_of_column_can_be_described(kind):
    from shoal.web.flight_sql.tables import _columns

    named = "decimal(9, 2)" if kind is Kind.DECIMAL else kind.value
    assert _columns({"c": {"type": named}})


@pytest.mark.parametrize(
    ("name", "pattern", "fits"),
    [
        ("visits", "%" * 199 + "x", False),  # an expression that goes back takes hours for it
        ("visits", "%_" * 90, False),
        ("visits", "%_" * 6, True),
        ("visits", "v%s", True),
        ("visits", "v_sits", True),
        ("visits", "v.sits", False),
        ("visits", "%" * 201, False),
    ],
)
def test_a_pattern_of_names_takes_no_time(name, pattern, fits):
    from shoal.web.flight_sql.tables import _fits

    assert _fits(name, pattern) is fits
