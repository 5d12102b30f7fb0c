"""What `if_none_exist` and `carry_over` may say is what delivery and FHIR know."""

import pytest

from engine.config.criteria import PLACEHOLDERS, check_criteria, unknown_parameters
from engine.config.destination import CARRIED
from engine.deliver.merge.merge import NEVER_CARRIED
from engine.deliver.patient.criteria import criteria
from engine.fhir.patient import Person
from engine.fhir.plan import Identity
from engine.fhir.schema import FhirVersion, definitions


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
    who = Person("Osei", "Ama", "female", "1980-02-29", frozenset(["osei"]), frozenset(["ama"]))
    assert "{" not in criteria(f"x={{{name}}}", Identity("urn:s", "1"), who, stand_in=False)


def test_what_may_be_carried_over_is_the_patients() -> None:
    """Every element of Patient in R4 and STU3, but those that a merge sees to."""
    names = {name for version in FhirVersion for name in definitions(version)["Patient"]}
    assert {name for name in names if not name.startswith("_")} - NEVER_CARRIED == CARRIED
