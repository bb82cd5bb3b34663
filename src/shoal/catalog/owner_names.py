"""Which column names sound like an owner: one vocabulary for first catalogs (`shoal init`) and for scans (`shoal risk`)."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PEOPLE = (
    "user", "customer", "client", "patient", "person", "member", "subscriber", "account", "household", "employee",
    "student", "visitor", "citizen", "resident", "passenger", "driver", "guest", "buyer", "player", "owner", "device",
    "people", "subject", "athlete", "donor", "voter", "tenant", "author", "pupil", "participant", "respondent", "applicant",
    "borrower",
    "kunde", "kunden", "nutzer", "benutzer", "patienten", "mitglied", "mitglieds", "mitarbeiter", "cliente", "usuario", "paciente",
    "persona", "utilisateur", "personne", "membre", "utente", "paziente", "klant", "gebruiker", "utilizador",
    "schueler", "schuler", "teilnehmer", "versicherten", "spender", "mieter", "eleve", "etudiant", "adherent", "abonne",
    "donateur", "locataire", "salarie", "employe", "alumno", "estudiante", "socio", "empleado", "aluno", "studente",
    "dipendente", "medewerker", "leerling",
)  # fmt: skip
"""Words that name a privacy unit, the likeliest first; without accents."""

STAFF = frozenset({"employee", "driver", "mitarbeiter", "salarie", "employe", "empleado", "dipendente", "medewerker"})
"""People who serve the others: a row that names both is about the one who is served."""

CONTACTS = frozenset({"email", "mail", "msisdn"})
_NAMES_OF_SOMEBODY = frozenset({*CONTACTS, "phone", "mobile", "login"})
"""What tells people apart where they have no number: user_email, member_login. Names do not, as people share them."""
_ENDINGS = frozenset(
    {
        "id",
        "key",
        "no",
        "number",
        "uuid",
        "uid",
        "hash",
        "nr",
        "num",
        "nummer",
        "numero",
        "ref",
        "reference",
        "code",
        "codigo",
        "codice",
        "kode",
    }
)
_NUMBER_SIGNS = re.compile("#|№|[nN][°º]")
_FREE_TEXT = frozenset(
    {
        "address",
        "street",
        "phone",
        "fax",
        "email",
        "mail",
        "mobile",
        "comment",
        "comments",
        "note",
        "notes",
        "description",
        "url",
    }
)
_CALLED = frozenset(
    {"name", "nom", "nombre", "nome", "vorname", "nachname", "surname", "firstname", "lastname", "prenom", "fullname"}
)
_WHOSE = frozenset(
    {*PEOPLE, "full", "first", "last", "family", "given", "contact", "company", "middle", "birth", "maiden", "legal"}
)
_ALONE = frozenset({*(word for word in PEOPLE if word != "subject"), "email", "username", "ssn", "msisdn", "nhs"})
_SOUNDS_PERSONAL = re.compile(rf"(^|_)({'|'.join(PEOPLE)})(_|$)|email|phone|msisdn|imei|passport|cookie")
_ANY_ID = re.compile(r"(^|_)(id|uuid|guid|key)$|id$")


def words_of(column: str) -> list[str]:
    """The words of a name, however they are joined, without accents.

    >>> words_of("Patienten-Nr."), words_of("N° élève"), words_of("Member #"), words_of("customerId")
    (['patienten', 'nr'], ['no', 'eleve'], ['member', 'no'], ['customer', 'id'])
    """
    signs = _NUMBER_SIGNS.sub("_no_", column)
    plain = "".join(c for c in unicodedata.normalize("NFKD", signs) if not unicodedata.combining(c))
    joined = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()
    return re.sub(r"[\W_]+", "_", joined).strip("_").split("_")


def is_staff(column: str) -> bool:
    """Whether a name is about those who serve the others."""
    return any(word in words_of(column) for word in STAFF)


def is_contact(column: str) -> bool:
    """Whether a name is a way to reach somebody, which a number of theirs is better than.

    >>> is_contact("Email"), is_contact("EmployeeId")
    (True, False)
    """
    return words_of(column)[-1] in CONTACTS


def tells_people_apart(column: str) -> bool:
    """Whether a name is about single people, or free text, so that hardly two share a value.

    >>> tells_people_apart("Full Name"), tells_people_apart("plan_name"), tells_people_apart("country")
    (True, False, False)
    """
    words = words_of(column)
    if words[-1] in _ENDINGS or words[-1] in _FREE_TEXT or owner_rank(column) is not None:
        return True
    return words[-1] in _CALLED and (len(words) == 1 or any(word in _WHOSE for word in words[:-1]))


def owner_rank(column: str) -> int | None:
    """How unlike an owner a name looks: 0 is the most likely, None is not a candidate."""
    words = words_of(column)
    if words in (["uid"], ["userid"], ["user", "uid"]):
        return 0
    *stem, last = words
    if last in _ENDINGS and stem and stem[-1] in PEOPLE:
        return 1 + PEOPLE.index(stem[-1])
    if len(words) == 2 and words[0] in _ENDINGS and last in PEOPLE:  # id_eleve, N° client
        return 1 + PEOPLE.index(last)
    joined = re.fullmatch(r"(\w+?)(?:id|nr|nummer)", "".join(words))
    if joined and joined.group(1) in PEOPLE:
        return 1 + PEOPLE.index(joined.group(1))
    if stem and stem[-1] in PEOPLE and last in _NAMES_OF_SOMEBODY:
        return len(PEOPLE) + 2
    if (len(words) == 1 and last in _ALONE) or words in (["e", "mail"], ["nhs", "no"], ["nhs", "number"]):
        return len(PEOPLE) + 1
    return None


def owner_candidates(columns: Iterable[str]) -> list[str]:
    """Columns whose names look like an owner, the likeliest first.

    >>> owner_candidates(["day", "customerId", "uid", "Kundennr", "user_email", "company_name", "Donor Ref"])
    ['uid', 'customerId', 'Donor Ref', 'Kundennr', 'user_email']
    """
    ranked = [(rank, name) for name in columns if (rank := owner_rank(name)) is not None]
    return [name for _, name in sorted(ranked, key=lambda pair: pair[0])]


def worth_a_look(columns: Iterable[str]) -> list[str]:
    """The candidates, then names that sound personal, then any key: for lists that people read, never for a guess.

    >>> worth_a_look(["day", "order_id", "home_phone", "uid"])
    ['uid', 'home_phone', 'order_id']
    """
    names = list(columns)
    likely = owner_candidates(names)
    plain = {name: "_".join(words_of(name)) for name in names}
    listed = [*likely, *(n for pattern in (_SOUNDS_PERSONAL, _ANY_ID) for n in names if pattern.search(plain[n]))]
    return list(dict.fromkeys(listed))
