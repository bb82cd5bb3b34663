"""The service without HTTP: tokens and names."""

from __future__ import annotations

import pytest
from service_calls import caller, refused

from shoal.service import log
from shoal.service.service import OPERATOR
from shoal.service.stores import sqlite


def test_a_token_is_shown_once_and_good_until_it_is_revoked_in_whichever_process(opened):
    service, other = opened(), opened(start=False)
    with refused("E_USAGE"):
        service.create_token(OPERATOR, "ann", days=367)
    made = service.create_token(OPERATOR, "ann", datasets=["visits"], days=1)
    found = service.people.caller(made["token"])
    assert (found.name, found.scope) == ("ann", {"explain", "query", "read"})
    assert len(made["token"]) == len("shoal_") + 43
    assert made["token"] not in str(service.tokens(caller(service, "carla"))) + "".join(log.export(service.store))
    assert other.people.caller(made["token"]).name == "ann"
    service.revoke_token(caller(service, "carla"), made["id"])
    for each in (service, other):
        with refused("E_AUTH"):
            each.people.caller(made["token"])


@pytest.mark.parametrize("place", ["file"], indirect=True)
def test_a_token_expires_where_nobody_writes_anything(service, monkeypatch):
    made = service.create_token(OPERATOR, "ann", days=1)
    assert service.people.caller(made["token"]).name == "ann"
    monkeypatch.setattr(sqlite, "moment", lambda: made["expires"])
    with refused("E_AUTH"):
        service.people.caller(made["token"])


def test_somebody_who_was_retired_elsewhere_is_unknown_at_once(opened):
    service, other = opened(), opened(start=False)
    token = service.create_token(OPERATOR, "bob")["token"]
    assert (service.people.trusted("bob", "x").name, service.people.caller(token).name) == ("bob", "bob")
    other.retire_user(OPERATOR, "bob")
    for look in (lambda: service.people.trusted("bob", "x"), lambda: service.people.caller(token)):
        with refused("E_AUTH"):
            look()


def test_any_other_text_is_not_a_token(service):
    for token in ("", "shoal_", "shoal_" + "A" * 43, "\udcff", "x" * 10**6):
        with refused("E_AUTH"):
            service.people.caller(token)


def test_a_token_cannot_make_one_that_can_do_more(service):
    narrow = service.people.caller(service.create_token(OPERATOR, "carla", ["explain"], ["visits"])["token"])
    assert service.people.caller(service.create_token(narrow)["token"]).scope == {"explain"}
    for act in (lambda: service.create_token(narrow, scope=["admin"]), lambda: service.create_token(narrow, "ann")):
        with refused("E_FORBIDDEN"):
            act()


def test_names_are_never_used_twice(service):
    token = service.create_token(OPERATOR, "bob")["token"]
    service.retire_user(OPERATOR, "bob")
    with refused("E_AUTH"):
        service.people.caller(token)
    with refused("E_USAGE"):
        service.add_user(OPERATOR, "bob", ["analyst"])


def test_odd_names_are_refused(service):
    for name in ("", "Ann", "a b", "../x", "everyone", "a" * 64, "é"):
        with refused("E_USAGE"):
            service.add_user(OPERATOR, name, ["analyst"])


def test_new_tokens_and_sessions_come_so_fast_and_no_faster(opened):
    """Each is a row and a line of the log, which stay: an analyst could fill the disk with them, five hundred a second."""
    service = opened(start=False, rates=True)
    ann = caller(service, "ann")
    for _ in range(40):
        token = service.create_token(ann)["token"]
        service.sessions.begin_with_token(token)
    before = len(log.lines(service.store))
    with refused("E_RATE"):
        for _ in range(40):
            service.create_token(ann)
    with refused("E_RATE"):
        for _ in range(40):
            service.sessions.begin_with_token(token)
    with refused("E_RATE"):
        for _ in range(40):
            service.sessions.begin_with_proxy("ann")
    assert len(log.lines(service.store)) < before + 100
    service.sessions.begin_with_proxy("bob")
    for _ in range(50):
        service.create_token(OPERATOR, "bob")


@pytest.mark.parametrize("name", ["everyone", "operator", "service"])
def test_nobody_has_a_name_under_which_others_act(opened, name):
    with refused("E_USAGE"):
        opened(start=False).add_user(OPERATOR, name, ["analyst"])
