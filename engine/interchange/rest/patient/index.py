"""What of a Patient is searched, must be unique, or refers elsewhere; and the search parameters of Patient."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final
from unicodedata import normalize

import orjson

from engine.fhir.json import JsonObject
from engine.interchange.rest.resource.definition import DIRECTORY_PAGES, Definition, every_type
from engine.interchange.rest.resource.rows import indexer
from engine.interchange.store.index import IdentifierRow, Index, TokenIndexRow
from engine.interchange.store.search.criterion import Parameter, ParameterKind, Rank
from engine.interchange.store.search.text import short
from engine.interchange.tokens.role import RoleRule

GENDER_SYSTEM: Final = "http://hl7.org/fhir/administrative-gender"
IDENTIFIER: Final = "Patient.identifier"
TELECOM: Final = "Patient.telecom"
DECEASED: Final = "Patient.deceased"
DEMOGRAPHICS: Final = "Patient.demographics"

RECORD_NUMBER_SYSTEMS: Final = frozenset(
    {"http://terminology.hl7.org/CodeSystem/v2-0203", "http://hl7.org/fhir/v2/0203"}
)
GENDERS: Final = tuple(
    (code, code if len(code) > 1 else {"f": "female", "m": "male"}[code])
    for code in ("f", "m", "male", "female", "other", "unknown")
)

# Parameters of texts: name, the elements of their own rows, and others whose rows they read.
PARTS: Final = ("city", "state", "postalcode", "country")
TEXTS: Final = (
    ("family", ("name.family",), ()),
    ("given", ("name.given",), ()),
    ("name", ("name.text", "name.prefix", "name.suffix"), ("family", "given")),
    *((f"address-{part}", (f"address.{'postalCode' if part == 'postalcode' else part}",), ()) for part in PARTS),
    ("address", ("address.line", "address.district", "address.text"), tuple(f"address-{part}" for part in PARTS)),
)
REFERENCES: Final = (
    ("organization", Rank.MANY, "managingOrganization", ("Organization",)),
    (
        "general-practitioner",
        Rank.SOME,
        "generalPractitioner",
        ("Practitioner", "Organization", "PractitionerRole"),
    ),
    ("link", Rank.ONE, "link.other", ("Patient", "RelatedPerson")),
)

PATIENT: Final = Definition(
    "Patient",
    (
        Parameter("identifier", ParameterKind.IDENTIFIER, IDENTIFIER, Rank.ONE),
        Parameter("birthdate", ParameterKind.DATE, "Patient.birthdate", Rank.FEW, ("birthDate",)),
        *(
            Parameter(
                name,
                ParameterKind.STRING,
                f"Patient.{name}",
                Rank.SOME,
                elements,
                tuple(f"Patient.{one}" for one in also),
            )
            for name, elements, also in TEXTS
        ),
        Parameter(
            "address-use",
            ParameterKind.TOKEN,
            "Patient.address-use",
            Rank.MOST,
            ("address.use",),
            implied="http://hl7.org/fhir/",
        ),
        Parameter("telecom", ParameterKind.CONTACT, TELECOM, Rank.FEW, ("telecom",)),
        *(Parameter(name, ParameterKind.CONTACT, TELECOM, Rank.FEW, system=name) for name in ("phone", "email")),
        *(
            Parameter(name, ParameterKind.TOKEN, f"Patient.{name}", Rank.MOST, elements, codes=("true", "false"))
            for name, elements in (("active", ("active",)), ("deceased", ()))
        ),
        Parameter("death-date", ParameterKind.DATE, "Patient.death-date", Rank.FEW, ("deceasedDateTime",)),
        Parameter("language", ParameterKind.TOKEN, "Patient.language", Rank.MANY, ("communication.language",)),
        *(
            Parameter(
                name,
                ParameterKind.REFERENCE,
                f"Patient.{name}",
                rank,
                (element,),
                targets=targets,
                merged=name == "link",
            )
            for name, rank, element, targets in REFERENCES
        ),
        Parameter("gender", ParameterKind.TOKEN, "Patient.gender", Rank.MOST, ("gender",), (), GENDERS, GENDER_SYSTEM),
        *every_type("Patient"),
    ),
    reading=RoleRule.PATIENT,
    writing=RoleRule.PATIENT,
    creating=RoleRule.PATIENT,
    paging=DIRECTORY_PAGES,
)
BY_PARAMETERS: Final = indexer(PATIENT)
CONDITIONAL: Final = {
    one.name: one for one in PATIENT.parameters if one.name in {"given", "family", "gender", "birthdate"}
}


def index_patient(patient: JsonObject) -> Index:
    """Return the index rows of a valid Patient (R4)."""
    made = BY_PARAMETERS(patient)
    demographic = TokenIndexRow(DEMOGRAPHICS, short(demographics(patient)), "")
    dead = "deceasedDateTime" in patient or patient.get("deceasedBoolean") is True
    deceased = TokenIndexRow(DECEASED, "true" if dead else "false", "")
    return replace(made, tokens=made.tokens | {demographic, deceased}, identifiers=frozenset(_identifiers(patient)))


def demographics(patient: JsonObject) -> str:
    """Return the key under which the duplicate limit counts; the suffix does not distinguish people."""
    name = patient["name"][0]
    parts = [fold_key(name.get("family", "")), fold_key((name.get("given") or [""])[0] or "")]
    return orjson.dumps([*parts, patient.get("gender"), patient.get("birthDate")]).decode()


def fold_key(text: str) -> str:
    """Return a name as the duplicate limit compares it: trimmed, without case, its letters composed."""
    return normalize("NFC", normalize("NFC", text.strip()).casefold())


def is_record_number(identifier: JsonObject) -> bool:
    """Say whether an identifier is an external medical record number (type MR of table 0203)."""
    codings = identifier.get("type", {}).get("coding", [])
    return any(coding.get("code") == "MR" and coding.get("system") in RECORD_NUMBER_SYSTEMS for coding in codings)


def _identifiers(patient: JsonObject) -> Iterator[IdentifierRow]:
    for identifier in patient.get("identifier", []):
        value = identifier.get("value")
        if value:
            system = short(identifier.get("system", ""))
            yield IdentifierRow(IDENTIFIER, short(value), system, int(is_record_number(identifier)))
