"""What `if_none_exist` and `carry_over` may say is what delivery and FHIR know."""

from typing import Any

import pytest

from engine.config.destination import CARRIED, PLACEHOLDERS, Destination, check_criteria, unknown_parameters
from engine.config.sign_in import Auth
from engine.deliver.merge.merge import NEVER_CARRIED
from engine.deliver.patient.question import criteria
from engine.fhir.patient import PersonName
from engine.fhir.plan import Identity
from engine.fhir.schema import FhirVersion, definitions
from engine.interchange.rest.patient.index import CONDITIONAL


@pytest.mark.parametrize(
    "template",
    [
        "identifier",
        "demographics",
        "identifier={system}|{value}",
        "identifier:of-type=http://terminology.hl7.org/CodeSystem/v2-0203|MR|{value}",
        "family:exact={family}&given={given}&birthdate={birthdate}&gender={gender}",
        "active=true&identifier={value}",
        "_id={value}",
    ],
)
def test_templates_that_are_taken(template: str) -> None:
    """The two words, and queries that name one person."""
    assert check_criteria(template) == template
    assert unknown_parameters(template) == ()


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("demographic", "did you mean demographics?"),
        ("identifiers", "did you mean identifier?"),
        ("", "identifier, demographics, or a query"),
        ("identifier={systems}|{value}", r"\{systems\} is no placeholder; did you mean system\?"),
        ("identifier={Value}", r"\{Value\} is no placeholder; did you mean value\?"),
        ("identifier={system}|{value", "is no part of a query"),
        ("identifier={{value}}", "is no part of a query"),
        ("identifiers={system}|{value}", "no search parameter 'identifiers'; did you mean identifier"),
        ("birth-date={birthdate}&family={family}", "did you mean birthdate"),
        ("?identifier={value}", "a query alone"),
        ("Patient?identifier={value}", "a query alone"),
        ("identifier={value}&", "is no part of a query"),
        ("identifier={value} ", "is no part of a query"),
        ("identifier={value}#x", "is no part of a query"),
        ("identifier=", "is no part of a query"),
        ("active=true", "it must name one person"),
        ("gender={gender}", "it must name one person"),
        ("family={family}&given={given}", "it must name one person"),
    ],
)
def test_templates_that_are_refused(template: str, said: str) -> None:
    """What a server would search for literally, would not understand, or would find other people by."""
    with pytest.raises(ValueError, match=said):
        check_criteria(template)


def test_a_parameter_that_a_server_may_have_of_its_own_is_named() -> None:
    """It may be a site's own; a server without it ignores it."""
    assert check_criteria("mrn={value}") == "mrn={value}"
    assert unknown_parameters("mrn={value}") == ("mrn",)


@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_every_placeholder_is_filled_in(name: str) -> None:
    """What is taken here is what delivery knows."""
    who = PersonName("Osei", "Ama", "female", "1980-02-29", frozenset(["osei"]), frozenset(["ama"]))
    assert "{" not in criteria(f"x={{{name}}}", Identity("urn:s", "1"), who, stand_in=False)


def test_what_may_be_carried_over_is_the_patients() -> None:
    """Every element of Patient in R4 and STU3, but those that a merge sees to."""
    names = {name for version in FhirVersion for name in definitions(version)["Patient"]}
    assert {name for name in names if not name.startswith("_")} - NEVER_CARRIED == CARRIED


@pytest.mark.parametrize(
    ("template", "base", "token_url", "warned"),
    [
        pytest.param("identifier", "/fhir/R4", "/oauth/token", True, id="the shipped service"),
        pytest.param("identifier", "/fhir", "/oauth/token", True, id="the shipped service, in STU3"),
        pytest.param("demographics", "/fhir/R4", "/oauth/token", False, id="as the service finds a newcomer"),
        pytest.param("identifier", "/fhir/R4", "/auth/oauth2/token", False, id="another server"),
        pytest.param("identifier", "/api/FHIR/R4", "/oauth/token", False, id="another server's base"),
    ],
)
def test_the_shipped_service_is_asked_by_demographics(template: str, base: str, token_url: str, warned: bool) -> None:
    """It refuses a conditional create by identifier, so that the first message of each newcomer would be held."""
    assert "identifier" not in CONDITIONAL
    host = "https://fhir.riverbend.example"
    auth = Auth(type="client_credentials", token_url=host + token_url)
    destination = Destination(name="service", base_url=host + base, auth=auth, if_none_exist=template)
    found = [path for path, _, _ in destination.warnings() if path == ("if_none_exist",)]
    assert bool(found) is warned


@pytest.mark.parametrize(
    ("keys", "place"),
    [
        ({"create": "client-id", "if_none_exist": "demographics"}, "if_none_exist"),
        ({"create": "client-id", "if_none_exist": "identifier={system}|{value}"}, "if_none_exist"),
        ({"profile": "healthlake", "if_none_exist": "demographics"}, "if_none_exist"),
        ({"create": "client-id", "on_demographic_match": "attach"}, "on_demographic_match"),
        ({"writes": "create-only", "carry_over": ("telecom",)}, "carry_over"),
        ({"writes": "create-only", "collapse": {"seconds": 5}}, "collapse"),
        ({"writes": "create-only", "merge_strategy": "merge"}, "merge_strategy"),
        ({"writes": "create-only", "merge_strategy": "link"}, "merge_strategy"),
        ({"writes": "create-only", "merge_operation": "hapi.fhir.merge"}, "merge_operation"),
        ({"create": "client-id"}, ""),
        ({"profile": "healthlake", "writes": "create-only", "merge_strategy": "notify-only"}, ""),
        ({"if_none_exist": "demographics", "on_demographic_match": "hold"}, ""),
    ],
)
def test_what_a_way_of_writing_leaves_no_use_for_is_refused(keys: dict[str, Any], place: str) -> None:
    """Criteria of a condition that is never asked, and ways to merge where nothing is merged, are named."""
    destination = Destination(name="service", base_url="https://fhir.example/R4", **keys)
    found = list(destination.conflicts())
    assert [path for path, _, _ in found] == ([(place,)] if place else [])
    assert all("leave" in remedy and place in remedy for _, _, remedy in found)


def test_a_key_needs_the_header_that_carries_it() -> None:
    """The server's own name of it comes from its profile, or is written."""
    create: dict[str, Any] = {"name": "fhir", "base_url": "https://fhir.example", "create": "idempotency-key"}
    ((place, found, remedy),) = Destination(**create).conflicts()
    assert (place, "needs it" in found) == (("behaviour", "idempotency_header"), True)
    assert "profile: healthlake" in remedy
    assert not list(Destination(**create, behaviour={"idempotency_header": "Idempotency-Key"}).conflicts())


def test_the_shipped_service_takes_client_ids() -> None:
    """There the criteria of a conditional create say nothing, so that none are missed."""
    host = "https://fhir.riverbend.example"
    auth = Auth(type="client_credentials", token_url=f"{host}/oauth/token")
    destination = Destination(name="service", base_url=f"{host}/fhir/R4", auth=auth, create="client-id")
    assert [path for path, _, _ in destination.warnings()] == []
