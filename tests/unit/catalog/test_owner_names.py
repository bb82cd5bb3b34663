"""Names that sound like an owner."""

from __future__ import annotations

import pytest

from shoal.catalog.owner_names import is_staff, owner_candidates, worth_a_look

SURE = [
    "uid",
    "userid",
    "user_uid",
    "customerId",
    "patient-id",
    "Member No",
    "billing_account_id",
    "donor_id",
    "email",
    "ssn",
    "Patienten-Nr.",
    "Donor Ref",
    "Member #",
    "id_eleve",
    "Identifiant élève ID",
    "N° client",
    "Schüler-Nr",
    "customer_code",
    "Código cliente",
    "Athlete ID",
    "subject_id",
]
PERSONAL = ["home_phone", "passport_number", "user_agent", "owner_name"]
ANY_KEY = ["order_id", "visit_uuid"]
NOTHING = [
    "day",
    "amount",
    "valid_from",
    "region",
    "no_show",
    "Order Ref",
    "N° commande",
    "# of visits",
    "zip code",
]


@pytest.mark.parametrize("name", SURE)
def test_a_name_of_people_with_a_key_is_a_candidate(name):
    assert owner_candidates([*NOTHING, name]) == [name]


@pytest.mark.parametrize("name", [*PERSONAL, *ANY_KEY, *NOTHING, "Subject"])
def test_other_names_are_never_guessed(name):
    assert owner_candidates([name]) == []


def test_a_list_to_read_has_the_sure_ones_first_then_personal_names_then_any_key():
    assert worth_a_look([*NOTHING, *ANY_KEY, *PERSONAL, "uid"]) == ["uid", *PERSONAL, *ANY_KEY]


def test_those_who_serve_others_are_told_apart():
    assert is_staff("driver_id")
    assert not is_staff("passenger_id")
