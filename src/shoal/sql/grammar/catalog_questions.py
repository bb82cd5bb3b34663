"""SHOW TABLES and DESCRIBE name: questions the catalog answers, without reading data and free of charge.

>>> asked_of_catalog("show tables;")
('SHOW', None)
>>> asked_of_catalog('DESCRIBE "my visits"')
('DESCRIBE', 'my visits')
>>> asked_of_catalog("SELECT 1")
"""

from __future__ import annotations

from shoal.sql.grammar.tokens import Kind, check_size, first_word, tokenize

Question = tuple[str, str | None]
_SHOWN = frozenset({"TABLES"})


def asked_of_catalog(sql: object) -> Question | None:
    """The catalog question in a statement; None for anything else, which is parsed as a query."""
    if not isinstance(sql, str):
        return None
    check_size(sql)
    word = first_word(sql)
    if word is None or word[0] not in {"SHOW", "DESCRIBE", "DESC"}:
        return None
    tokens = [token for token in tokenize(sql).tokens if token.kind is not Kind.END]
    while tokens and tokens[-1].key == ";":
        tokens.pop()
    if word[0] == "SHOW":
        return ("SHOW", None) if len(tokens) == 2 and tokens[1].key in _SHOWN else None
    rest = tokens[2:] if len(tokens) > 2 and tokens[1].key == "TABLE" else tokens[1:]
    return ("DESCRIBE", rest[0].text) if len(rest) == 1 and rest[0].kind in {Kind.WORD, Kind.NAME} else None
