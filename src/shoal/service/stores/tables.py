"""The tables of a service, created by numbered migrations that both stores share; each is applied once and never changed again.

`SERIAL`, `BYTES` and `FLAG` become the database's types for an auto-incrementing number, bytes, and a boolean.
"""

from __future__ import annotations

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE identity (value TEXT NOT NULL, clock TEXT NOT NULL)",
        """CREATE TABLE people (name TEXT PRIMARY KEY, roles TEXT NOT NULL, groups TEXT NOT NULL, created TEXT NOT NULL,
        retired TEXT NOT NULL DEFAULT '')""",
        """CREATE TABLE tokens (id TEXT PRIMARY KEY, person TEXT NOT NULL, sha256 TEXT NOT NULL UNIQUE, scope TEXT NOT NULL,
        datasets TEXT NOT NULL, created TEXT NOT NULL, expires TEXT NOT NULL, revoked TEXT NOT NULL DEFAULT '')""",
        """CREATE TABLE links (sha256 TEXT PRIMARY KEY, person TEXT NOT NULL, expires TEXT NOT NULL,
        used TEXT NOT NULL DEFAULT '')""",
        "CREATE TABLE ledgers (name TEXT PRIMARY KEY, place TEXT NOT NULL, kinds TEXT NOT NULL)",
        """CREATE TABLE datasets (name TEXT PRIMARY KEY, source TEXT NOT NULL, catalog TEXT NOT NULL,
        catalog_path TEXT NOT NULL, ledger TEXT NOT NULL, unit TEXT NOT NULL, version INTEGER NOT NULL,
        created TEXT NOT NULL, retired TEXT NOT NULL DEFAULT '')""",
        """CREATE TABLE allowances (dataset TEXT NOT NULL, whom TEXT NOT NULL, per TEXT NOT NULL, epsilon TEXT NOT NULL,
        delta TEXT NOT NULL, max_epsilon TEXT NOT NULL, approve_above TEXT NOT NULL, created TEXT NOT NULL,
        PRIMARY KEY (dataset, whom, per))""",
        """CREATE TABLE jobs (number SERIAL, id TEXT NOT NULL UNIQUE, person TEXT NOT NULL,
        dataset TEXT NOT NULL, request TEXT NOT NULL UNIQUE, body TEXT NOT NULL, question TEXT NOT NULL,
        fingerprint TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, state TEXT NOT NULL,
        leader TEXT NOT NULL DEFAULT '', runs INTEGER NOT NULL DEFAULT 0, process TEXT NOT NULL DEFAULT '',
        lease TEXT NOT NULL DEFAULT '', answer TEXT NOT NULL DEFAULT '', charged FLAG,
        error TEXT NOT NULL DEFAULT '', created TEXT NOT NULL, via TEXT NOT NULL)""",
        "CREATE INDEX jobs_by_state ON jobs (state, number)",
        "CREATE INDEX jobs_by_fingerprint ON jobs (fingerprint, state)",
        """CREATE TABLE answers (id TEXT PRIMARY KEY, dataset TEXT NOT NULL, person TEXT NOT NULL, fingerprint TEXT NOT NULL,
        ledger TEXT NOT NULL, charge INTEGER NOT NULL, free BYTES, created TEXT NOT NULL)""",
        "CREATE INDEX answers_by_fingerprint ON answers (fingerprint, created)",
        "CREATE UNIQUE INDEX answers_by_charge ON answers (ledger, charge) WHERE charge > 0",
        """CREATE TABLE approvals (id TEXT PRIMARY KEY, job TEXT NOT NULL UNIQUE, dataset TEXT NOT NULL, asker TEXT NOT NULL,
        fingerprint TEXT NOT NULL, sql TEXT NOT NULL, reason TEXT NOT NULL, explanation TEXT NOT NULL,
        state TEXT NOT NULL, decided_by TEXT NOT NULL DEFAULT '', note TEXT NOT NULL DEFAULT '',
        created TEXT NOT NULL, expires TEXT NOT NULL)""",
        "CREATE TABLE late (person TEXT NOT NULL, at TEXT NOT NULL)",
        "CREATE TABLE log (n INTEGER PRIMARY KEY, line TEXT NOT NULL, hash TEXT NOT NULL)",
        """CREATE TABLE logged_charges (ledger TEXT NOT NULL, charge INTEGER NOT NULL, anchor TEXT NOT NULL,
        PRIMARY KEY (ledger, charge))""",
        """CREATE TABLE counts (person TEXT NOT NULL, hour TEXT NOT NULL, what TEXT NOT NULL, number INTEGER NOT NULL,
        PRIMARY KEY (person, hour, what))""",
    ),
    (
        "ALTER TABLE identity ADD COLUMN kept_since TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE identity ADD COLUMN timeline INTEGER NOT NULL DEFAULT 0",
        """CREATE TABLE IF NOT EXISTS sessions (sha256 TEXT PRIMARY KEY, person TEXT NOT NULL, token TEXT NOT NULL,
        created TEXT NOT NULL, seen TEXT NOT NULL)""",
    ),
    (
        "ALTER TABLE identity ADD COLUMN changes INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE jobs ADD COLUMN came_to TEXT NOT NULL DEFAULT ''",
    ),
)
FORMAT = len(MIGRATIONS)
APPEND_ONLY = ("answers", "log", "logged_charges")
"""What is in these tables stays: a custodian cannot change it through the service, nor can the service."""
REMEMBERED = ("people", "tokens", "datasets", "allowances")
"""What processes remember of these tables counts until one of them changes: then triggers put another random number into
`identity.changes`. One that adds up would come again where a database goes back in time."""
CHANGED = (
    *(
        "identity",
        "people",
        "tokens",
        "links",
        "ledgers",
        "datasets",
        "allowances",
        "jobs",
        "approvals",
        "late",
        "counts",
    ),
    "sessions",
)


def grants(role: str) -> tuple[str, ...]:
    """What a service's role needs in PostgreSQL, and no more; `role` is a quoted name."""

    def of(tables: tuple[str, ...]) -> str:
        return ", ".join(f"shoal.{table}" for table in tables)

    return (
        f"GRANT USAGE ON SCHEMA shoal TO {role}",
        f"GRANT SELECT, INSERT ON {of((*APPEND_ONLY, *CHANGED))}, shoal.service_migrations TO {role}",
        f"GRANT UPDATE ON {of(CHANGED)} TO {role}",
        f"GRANT DELETE ON shoal.sessions, shoal.late, shoal.allowances TO {role}",
    )
