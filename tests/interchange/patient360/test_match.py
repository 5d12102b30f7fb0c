from dataclasses import replace
from typing import Any

import pytest

from engine.interchange.clinical.facts import DocumentIdentity
from engine.interchange.network.patient360.match import matches

MRN = ("https://mrn.riverbend.example", "RB-40017")
HERE = {
    "resourceType": "Patient",
    "identifier": [{"system": MRN[0], "value": MRN[1]}],
    "name": [
        {"use": "official", "family": "Quintero-López", "given": ["Marisol", "Inés"]},
        {"use": "maiden", "family": "O'Brien", "given": ["Marisol"]},
        {"text": "Mari"},
    ],
    "gender": "female",
    "birthDate": "1984-02-29",
}
THERE = DocumentIdentity(("Marisol", "Ines"), "Quintero Lopez", "1984-02-29", "female")


@pytest.mark.parametrize(
    "same",
    [
        pytest.param({}, id="case and accents"),
        pytest.param({"family": "LOPEZ QUINTERO"}, id="words of the family in another order"),
        pytest.param({"family": "Quintero Lopez, Jr."}, id="a suffix"),
        pytest.param({"family": "OBrien", "given": ("MARISOL",)}, id="a former name"),
        pytest.param({"given": ("Marisol",)}, id="no further given names"),
        pytest.param({"given": ("Marisol", "I.")}, id="an initial"),
        pytest.param({"given": ("Marisol Ines",)}, id="given names in one"),
        pytest.param({"given": ("Marisol", "Ines", "Ana")}, id="a further given name"),
        pytest.param({"given": ("Marisol", "Ana", "I")}, id="a further given name and an initial"),
        pytest.param({"gender": "unknown", "identifiers": (MRN,)}, id="a number for an unknown sex"),
    ],
)
def test_the_patient(same: dict[str, Any]) -> None:
    """What does not tell people apart does not keep a document out."""
    assert matches(replace(THERE, **same), HERE)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"family": "Quintero"}, id="a part of the family"),
        pytest.param({"family": ""}, id="no family"),
        pytest.param({"given": ()}, id="no given name"),
        pytest.param({"given": ("Marisa", "Ines")}, id="another given name"),
        pytest.param({"given": ("M", "Ines")}, id="an initial for the first"),
        pytest.param({"given": ("Ines", "Marisol")}, id="another order"),
        pytest.param({"given": ("Marisol", "Ana")}, id="a twin"),
        pytest.param({"given": ("Marisol", "A")}, id="a twin's initial"),
        pytest.param({"given": ("Marisol", "Ines", "I"), "family": "OBrien-Quintero"}, id="mixed names"),
        pytest.param({"birth_date": "1984-02-28"}, id="another day"),
        pytest.param({"birth_date": "1984-02"}, id="a month"),
        pytest.param({"birth_date": ""}, id="no birth date"),
        pytest.param({"gender": "male"}, id="another sex"),
        pytest.param({"gender": "male", "identifiers": (MRN,)}, id="another sex, the same number"),
        pytest.param({"gender": ""}, id="no sex"),
        pytest.param({"gender": "", "identifiers": (("", MRN[1]),)}, id="no sex, a number of nobody knows whom"),
    ],
)
def test_somebody_else(other: dict[str, Any]) -> None:
    """What may tell people apart keeps a document out."""
    assert not matches(replace(THERE, **other), HERE)


def test_two_dates_that_are_none_do_not_match() -> None:
    """A record without a birth date, which a search by name would find, is nobody's match."""
    assert not matches(replace(THERE, birth_date=""), {**HERE, "birthDate": ""})
