"""Demographics of a patient, with external medical record numbers and no other foreign identifier."""

from typing import Final

from engine.fhir.json import Json
from engine.interchange.rest.patient.index import is_record_number
from engine.interchange.web.chart.coded import CONCEPT, PROVIDER, person_name, provider
from engine.interchange.web.chart.field import (
    TEXT,
    YES_NO,
    ChartField,
    ChartReader,
    ObjectShape,
    Resource,
    element,
    listed,
    many,
    moment,
    one,
    several,
    text,
)

NUMBER: Final = ObjectShape("RecordNumber", (text("system"), text("value")))
NAME: Final = ObjectShape(
    "Name", (text("use"), text("family"), ChartField("given", many(TEXT), lambda name, _: listed(name.get("given"))))
)
CONTACT: Final = ObjectShape("Contact", (text("system"), text("value"), text("use")))
ADDRESS: Final = ObjectShape(
    "Address",
    (
        text("use"),
        ChartField("lines", many(TEXT), lambda address, _: listed(address.get("line"))),
        *(text(name) for name in ("city", "state", "postalCode", "country")),
    ),
)
LANGUAGE: Final = ObjectShape(
    "Language", (one("language", CONCEPT, "language"), ChartField("preferred", YES_NO, element("preferred")))
)


def _record_numbers(patient: Resource, reader: ChartReader) -> Json:
    numbers = (part for part in listed(patient.get("identifier")) if is_record_number(part) and part.get("value"))
    return [NUMBER.of(part, reader) for part in numbers]


def _deceased(patient: Resource, _reader: ChartReader) -> Json:
    return "deceasedDateTime" in patient or patient.get("deceasedBoolean")


def _practitioners(patient: Resource, reader: ChartReader) -> Json:
    named = (provider(part, reader, patient) for part in listed(patient.get("generalPractitioner")))
    return [part for part in named if part]


def _survivor(patient: Resource, _reader: ChartReader) -> Json:
    """Return the id of the record that this one was merged into."""
    links = (part for part in listed(patient.get("link")) if part.get("type") == "replaced-by")
    return next((part["other"].get("reference", "").removeprefix("Patient/") for part in links), None)


def _said(name: str) -> ChartField:
    """Return a field for the text of a US Core extension."""

    def read(patient: Resource, _reader: ChartReader) -> Json:
        own = (part for part in listed(patient.get("extension")) if part.get("url", "").endswith(f"/us-core-{name}"))
        parts = (inner for part in own for inner in listed(part.get("extension")))
        return next((inner.get("valueString") for inner in parts if inner.get("url") == "text"), None)

    return ChartField(name, TEXT, read)


BRIEF: Final = (
    ChartField("name", TEXT, lambda patient, _: person_name(patient)),
    several("names", NAME, "name"),
    moment("birthDate", "birthDate"),
    text("gender"),
    ChartField("externalMrns", many(NUMBER.link), _record_numbers),
    ChartField("active", YES_NO, element("active")),
    ChartField("deceased", YES_NO, _deceased),
)
FOUND: Final = ObjectShape("PatientFound", BRIEF)
PATIENT: Final = ObjectShape(
    "Patient",
    (
        *BRIEF,
        moment("deceasedAt", "deceased"),
        several("contacts", CONTACT, "telecom"),
        several("addresses", ADDRESS, "address"),
        one("maritalStatus", CONCEPT, "maritalStatus"),
        several("languages", LANGUAGE, "communication"),
        _said("race"),
        _said("ethnicity"),
        ChartField("generalPractitioners", many(PROVIDER.link), _practitioners),
        ChartField("mergedInto", TEXT, _survivor),
    ),
)
SHAPES: Final = (NUMBER, NAME, CONTACT, ADDRESS, LANGUAGE)
