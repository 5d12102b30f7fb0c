"""What of a Patient is searched, must be unique, or refers elsewhere; and the search parameters of Patient."""

from collections.abc import Iterator
from typing import Any, Final

import orjson

from engine.interchange.search.criterion import Kind, Parameter, Rank
from engine.interchange.search.date import span
from engine.interchange.search.text import fold
from engine.interchange.store.index import (
    DateRow,
    IdentifierRow,
    Index,
    StringRow,
    TokenRow,
    references_in,
)

Json = Any

FAMILY: Final = "Patient.family"
GIVEN: Final = "Patient.given"
POSTAL_CODE: Final = "Patient.address-postalcode"
GENDER: Final = "Patient.gender"
BIRTH_DATE: Final = "Patient.birthdate"
IDENTIFIER: Final = "Patient.identifier"
TAG: Final = "Patient._tag"
SECURITY: Final = "Patient._security"
DEMOGRAPHICS: Final = "Patient.demographics"

RECORD_NUMBER_SYSTEMS: Final = frozenset(
    {"http://terminology.hl7.org/CodeSystem/v2-0203", "http://hl7.org/fhir/v2/0203"}
)
GENDERS: Final = tuple(
    (code, code if len(code) > 1 else {"f": "female", "m": "male"}[code])
    for code in ("f", "m", "male", "female", "other", "unknown")
)

PARAMETERS: Final = {
    parameter.name: parameter
    for parameter in (
        Parameter("_id", Kind.ID, "", Rank.ONE),
        Parameter("identifier", Kind.IDENTIFIER, IDENTIFIER, Rank.ONE),
        Parameter("birthdate", Kind.DATE, BIRTH_DATE, Rank.FEW),
        Parameter("family", Kind.STRING, FAMILY, Rank.SOME),
        Parameter("given", Kind.STRING, GIVEN, Rank.SOME),
        Parameter("address-postalcode", Kind.STRING, POSTAL_CODE, Rank.SOME),
        Parameter("gender", Kind.TOKEN, GENDER, Rank.MOST, GENDERS),
        Parameter("_lastUpdated", Kind.UPDATED, "", Rank.MOST),
        Parameter("_tag", Kind.TOKEN, TAG, Rank.MANY),
        Parameter("_security", Kind.TOKEN, SECURITY, Rank.MANY),
    )
}
CONDITIONAL: Final = {name: PARAMETERS[name] for name in ("given", "family", "gender", "birthdate")}


def index_patient(patient: dict[str, Json]) -> Index:
    """Return the index rows of a valid Patient (R4)."""
    return Index(
        strings=frozenset(_strings(patient)),
        tokens=frozenset(_tokens(patient)),
        dates=frozenset(_dates(patient)),
        identifiers=frozenset(_identifiers(patient)),
        references=frozenset(references_in(patient)),
    )


def demographics(patient: dict[str, Json]) -> str:
    """Return the key under which the duplicate limit counts; the suffix does not distinguish people."""
    name = patient["name"][0]
    parts = [fold_key(name.get("family", "")), fold_key((name.get("given") or [""])[0] or "")]
    return orjson.dumps([*parts, patient.get("gender"), patient.get("birthDate")]).decode()


def fold_key(text: str) -> str:
    """Return a name as the duplicate limit compares it: trimmed, without case."""
    return text.strip().casefold()


def is_record_number(identifier: dict[str, Json]) -> bool:
    """Say whether an identifier is an external medical record number (type MR of table 0203)."""
    codings = identifier.get("type", {}).get("coding", [])
    return any(coding.get("code") == "MR" and coding.get("system") in RECORD_NUMBER_SYSTEMS for coding in codings)


def _strings(patient: dict[str, Json]) -> Iterator[StringRow]:
    for name in patient.get("name", []):
        family = name.get("family")
        if family:
            yield StringRow(FAMILY, fold(family), family)
        for given in name.get("given", []):
            if given:
                yield StringRow(GIVEN, fold(given), given)
    for address in patient.get("address", []):
        code = address.get("postalCode")
        if code:
            yield StringRow(POSTAL_CODE, fold(code), code)


def _tokens(patient: dict[str, Json]) -> Iterator[TokenRow]:
    if "gender" in patient:
        yield TokenRow(GENDER, patient["gender"], "http://hl7.org/fhir/administrative-gender")
    yield TokenRow(DEMOGRAPHICS, demographics(patient), "")
    meta = patient.get("meta", {})
    for rows, codings in ((TAG, meta.get("tag", [])), (SECURITY, meta.get("security", []))):
        for coding in codings:
            yield TokenRow(rows, coding.get("code", ""), coding.get("system", ""))


def _dates(patient: dict[str, Json]) -> Iterator[DateRow]:
    covered = span(patient.get("birthDate", ""))
    if covered:
        yield DateRow(BIRTH_DATE, *covered)


def _identifiers(patient: dict[str, Json]) -> Iterator[IdentifierRow]:
    for identifier in patient.get("identifier", []):
        value = identifier.get("value")
        if value:
            yield IdentifierRow(IDENTIFIER, value, identifier.get("system", ""), int(is_record_number(identifier)))
