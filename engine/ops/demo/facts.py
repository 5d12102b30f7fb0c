"""A Patient resource in a few plain words, for comparison with what a sample expects."""

from collections.abc import Callable, Mapping
from typing import Any, Final

Resource = Mapping[str, Any]

_RACE: Final = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race"
_ETHNICITY: Final = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity"


def facts_of(patient: Resource) -> dict[str, str]:
    """Return the facts of a Patient: word to value, empty where the record says nothing.

    Several values are sorted and joined by a space; telephones are their last seven digits.
    """
    return {word: read(patient) for word, read in _FACTS.items()}


def _official(patient: Resource) -> Resource:
    names: list[Resource] = patient.get("name", [])
    return next((name for name in names if name.get("use") in {"official", None}), names[0] if names else {})


def _joined(values: list[str]) -> str:
    return " ".join(sorted(set(filter(None, values))))


def _phones(patient: Resource, uses: set[str | None]) -> str:
    points = [
        point for point in patient.get("telecom", []) if point.get("use") in uses and point.get("system") != "email"
    ]
    digits = ["".join(mark for mark in str(point.get("value", "")) if mark.isdigit()) for point in points]
    return _joined([number[-7:] for number in digits])


def _codes(concept: Resource | None) -> list[str]:
    return [str(coding.get("code", "")) for coding in (concept or {}).get("coding", [])]


def _languages(patient: Resource) -> str:
    return _joined([code for entry in patient.get("communication", []) for code in _codes(entry.get("language"))[:1]])


def _marital(patient: Resource) -> str:
    return next(iter(_codes(patient.get("maritalStatus"))), "")


def _us_core(patient: Resource, url: str) -> str:
    parts = [part for one in patient.get("extension", []) if one.get("url") == url for part in one.get("extension", [])]
    return _joined([str(part.get("valueCoding", {}).get("code", "")) for part in parts])


def _line(patient: Resource) -> str:
    return next((str(address["line"][0]) for address in patient.get("address", []) if address.get("line")), "")


def _contacts(patient: Resource) -> str:
    return _joined([str(contact.get("name", {}).get("family", "")) for contact in patient.get("contact", [])])


_FACTS: Final[Mapping[str, Callable[[Resource], str]]] = {
    "family": lambda patient: str(_official(patient).get("family", "")),
    "given": lambda patient: next(iter(_official(patient).get("given", [])), ""),
    "names": lambda patient: str(len(patient.get("name", []))),
    "gender": lambda patient: str(patient.get("gender", "")),
    "birthDate": lambda patient: str(patient.get("birthDate", "")),
    "active": lambda patient: str(patient.get("active", "true")).lower(),
    "phone": lambda patient: _phones(patient, {"home", "mobile", None}),
    "workPhone": lambda patient: _phones(patient, {"work"}),
    "line": _line,
    "addresses": lambda patient: str(len(patient.get("address", []))),
    "language": _languages,
    "maritalStatus": _marital,
    "race": lambda patient: _us_core(patient, _RACE),
    "ethnicity": lambda patient: _us_core(patient, _ETHNICITY),
    "contacts": _contacts,
}
