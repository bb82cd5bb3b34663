"""The tables of ledgers in PostgreSQL: all ledgers of a database in the schema `shoal`, made by numbered migrations.

Rows, details, headers and answers can be added and not changed: triggers refuse it to everybody, and roles of services need no
more than `grants` gives.
"""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE shoal.header (
        ledger TEXT PRIMARY KEY, identity TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
        accountant TEXT NOT NULL, promise TEXT NOT NULL, written INTEGER NOT NULL)""",
        """CREATE TABLE shoal.head (
        ledger TEXT PRIMARY KEY REFERENCES shoal.header, sequence BIGINT NOT NULL, hash TEXT NOT NULL,
        epsilon TEXT NOT NULL, delta TEXT NOT NULL, rho TEXT NOT NULL, rho_delta TEXT NOT NULL, seal TEXT NOT NULL,
        budget_epsilon TEXT NOT NULL, budget_delta TEXT NOT NULL, latest TEXT NOT NULL, covers TEXT NOT NULL,
        accounts TEXT NOT NULL, suspensions TEXT NOT NULL, kept_since TEXT NOT NULL, timeline BIGINT NOT NULL)""",
        """CREATE TABLE shoal.entries (
        ledger TEXT NOT NULL REFERENCES shoal.header, sequence BIGINT NOT NULL, reservation BIGINT NOT NULL,
        kind TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, rho TEXT NOT NULL, rho_delta TEXT NOT NULL,
        "user" TEXT NOT NULL, description TEXT NOT NULL, key TEXT NOT NULL, noted_at TEXT NOT NULL,
        answer_sha256 TEXT NOT NULL, about BIGINT NOT NULL, request TEXT NOT NULL, details TEXT NOT NULL,
        hash TEXT NOT NULL, PRIMARY KEY (ledger, sequence))""",
        "CREATE INDEX entries_by_key ON shoal.entries (ledger, key) WHERE key <> ''",
        "CREATE INDEX entries_by_request ON shoal.entries (ledger, request) WHERE request <> ''",
        "CREATE INDEX entries_by_about ON shoal.entries (ledger, about) WHERE about > 0",
        """CREATE UNIQUE INDEX a_reservation_is_settled_once ON shoal.entries (ledger, reservation)
        WHERE reservation > 0""",
        """CREATE TABLE shoal.accounts (
        ledger TEXT NOT NULL, name TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, rho TEXT NOT NULL,
        rho_delta TEXT NOT NULL, PRIMARY KEY (ledger, name))""",
        """CREATE TABLE shoal.suspensions (
        ledger TEXT NOT NULL, "user" TEXT NOT NULL, sequence BIGINT NOT NULL,
        PRIMARY KEY (ledger, "user"))""",
        """CREATE TABLE shoal.running (
        ledger TEXT NOT NULL, sequence BIGINT NOT NULL, "user" TEXT NOT NULL, process TEXT NOT NULL,
        PRIMARY KEY (ledger, sequence))""",
        'CREATE INDEX running_by_user ON shoal.running (ledger, "user")',
        """CREATE TABLE shoal.pieces (
        ledger TEXT NOT NULL, reservation BIGINT NOT NULL, number BIGINT NOT NULL, body BYTEA NOT NULL,
        PRIMARY KEY (ledger, reservation, number))""",
        """CREATE FUNCTION shoal.append_only() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'append only'; END $$""",
        """CREATE FUNCTION shoal.dropped_on_request() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF current_setting('shoal.dropping', true) IS DISTINCT FROM 'on' THEN
                RAISE EXCEPTION 'append only';
            END IF;
            RETURN OLD;
        END $$""",
        *(
            f"""CREATE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON shoal.{table}
            FOR EACH STATEMENT EXECUTE FUNCTION shoal.append_only()"""
            for table in ("header", "entries")
        ),
        """CREATE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON shoal.pieces
        FOR EACH STATEMENT EXECUTE FUNCTION shoal.append_only()""",
        """CREATE TRIGGER dropped_on_request BEFORE DELETE ON shoal.pieces
        FOR EACH ROW EXECUTE FUNCTION shoal.dropped_on_request()""",
        """CREATE TRIGGER append_only BEFORE DELETE OR TRUNCATE ON shoal.head
        FOR EACH STATEMENT EXECUTE FUNCTION shoal.append_only()""",
    ),
)
"""Each is applied once, in order, and never changed again."""


def grants(role: str) -> tuple[str, ...]:
    """What a service's role needs, and no more; `role` is a quoted name."""
    return (
        f"GRANT USAGE ON SCHEMA shoal TO {role}",
        f"GRANT SELECT, INSERT ON shoal.header, shoal.head, shoal.entries, shoal.pieces, shoal.migrations TO {role}",
        f"GRANT UPDATE ON shoal.head TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON shoal.accounts, shoal.suspensions, shoal.running TO {role}",
    )
