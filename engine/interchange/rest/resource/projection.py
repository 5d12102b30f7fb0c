"""A part of a resource where a client asks for no more: `_elements`, and `_summary` by HL7's marks.

What is required, whose record it is, and what changes the meaning of the rest (a status, `doNotPerform`) is never left
out. The part says that it is one (`SUBSETTED`), so that nobody takes it for the whole.

Source: `isSummary` in the StructureDefinitions of FHIR R4 (4.0.1) and STU3 (3.0.1), for the elements at the top of the
types that are kept here. What is required, or changes the meaning of the rest, is in every summary too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from engine.fhir.schema import REQUIRED_CHOICES, FhirVersion, definitions
from engine.fhir.versions.direction import stem
from engine.fhir.versions.names import name_in
from engine.interchange.kernel.exact import read_resource, write_json
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.kernel.view import to_version
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.store.search.page import Pairs

SUMMARY: Final[Mapping[str, str]] = {
    "Account": "identifier status type name subject servicePeriod coverage owner description period active",
    "ActivityDefinition": (
        "url identifier version name title status experimental date publisher contact description useContext "
        "jurisdiction observationRequirement observationResultRequirement"
    ),
    "AllergyIntolerance": (
        "identifier clinicalStatus verificationStatus type category criticality code patient asserter"
    ),
    "Binary": "contentType securityContext",
    "CarePlan": (
        "identifier instantiatesCanonical instantiatesUri basedOn replaces partOf status intent category "
        "title description subject encounter period created author addresses definition context"
    ),
    "Condition": (
        "identifier clinicalStatus verificationStatus code bodySite subject encounter onset recordedDate "
        "recorder asserter context assertedDate"
    ),
    "Coverage": (
        "identifier status type policyHolder subscriber subscriberId beneficiary dependent period payor order "
        "network sequence"
    ),
    "DiagnosticReport": (
        "identifier status category code subject encounter effective issued performer resultsInterpreter "
        "media context image"
    ),
    "DocumentReference": (
        "masterIdentifier identifier status docStatus type category subject date author relatesTo description "
        "securityLabel content context class created indexed authenticator custodian"
    ),
    "Encounter": (
        "identifier status class type serviceType subject episodeOfCare participant appointment reasonCode "
        "reasonReference diagnosis reason"
    ),
    "FamilyMemberHistory": (
        "identifier instantiatesCanonical instantiatesUri status dataAbsentReason patient date name "
        "relationship sex age estimatedAge deceased reasonCode reasonReference definition notDone "
        "notDoneReason gender"
    ),
    "Goal": (
        "lifecycleStatus achievementStatus category priority description subject start statusDate expressedBy status"
    ),
    "Group": "identifier active type actual code name quantity managingEntity",
    "Immunization": (
        "status vaccineCode patient occurrence primarySource performer note isSubpotent notGiven practitioner"
    ),
    "Location": "identifier status operationalStatus name description mode type physicalType managingOrganization",
    "MedicationRequest": (
        "status intent priority doNotPerform reported medication subject authoredOn requester performerType "
        "instantiatesCanonical instantiatesUri basedOn groupIdentifier definition"
    ),
    "MedicationStatement": (
        "identifier basedOn partOf status category medication subject context effective dateAsserted taken"
    ),
    "Observation": (
        "identifier basedOn partOf status code subject focus encounter effective issued performer value "
        "hasMember derivedFrom component related"
    ),
    "Organization": "identifier active type name partOf",
    "Patient": "identifier active name telecom gender birthDate deceased address managingOrganization link animal",
    "Practitioner": "identifier active name telecom address gender birthDate",
    "PractitionerRole": "identifier active period practitioner organization code specialty location telecom",
    "Procedure": (
        "identifier instantiatesCanonical instantiatesUri basedOn partOf status statusReason category code "
        "subject encounter performed recorder asserter performer location reasonCode reasonReference bodySite "
        "outcome definition notDone notDoneReason context"
    ),
    "Provenance": "target recorded",
    "Questionnaire": (
        "url identifier version name title status experimental subjectType date publisher contact description "
        "useContext jurisdiction effectivePeriod code"
    ),
    "QuestionnaireResponse": (
        "identifier basedOn partOf questionnaire status subject encounter authored author source parent context"
    ),
    "RelatedPerson": "identifier active patient relationship name telecom gender birthDate address",
    "RequestGroup": (
        "identifier instantiatesCanonical instantiatesUri basedOn replaces groupIdentifier status intent priority code "
        "definition"
    ),
    "ServiceRequest": (
        "identifier instantiatesCanonical instantiatesUri basedOn replaces requisition status intent category "
        "priority doNotPerform code orderDetail quantity subject encounter occurrence asNeeded authoredOn "
        "requester performerType performer locationCode locationReference reasonCode reasonReference specimen "
        "bodySite patientInstruction definition context"
    ),
    "Specimen": "identifier accessionIdentifier status type subject receivedTime",
    "Subscription": "status contact end reason criteria error channel tag",
}


Keeps = Callable[[str], bool]

ALWAYS: Final = frozenset({"resourceType", "id", "meta", "implicitRules", "modifierExtension"})
# Elements that HL7 marks as modifiers, of whatever type.
MODIFIERS: Final = frozenset(
    {
        *("active", "clinicalStatus", "deceased", "doNotPerform", "intent", "isSubpotent", "lifecycleStatus", "link"),
        *("notDone", "notGiven", "status", "taken", "verificationStatus"),
    }
)
SUMMARIES: Final = ("true", "text", "data", "count", "false")
SUBSETTED: Final = "SUBSETTED"
TAG_SYSTEMS: Final = {
    FhirVersion.R4: "http://terminology.hl7.org/CodeSystem/v3-ObservationValue",
    FhirVersion.STU3: "http://hl7.org/fhir/v3/ObservationValue",
}


@dataclass(frozen=True, slots=True)
class Projection:
    """The part of resources that is asked for: a `summary`, or `elements` (names of `type`, by R4's name, only)."""

    summary: str = ""
    elements: frozenset[str] = frozenset()
    type: str = ""

    def shown(self, body: bytes, type_name: str, version: FhirVersion) -> bytes:
        """Return the bytes of a part of a kept resource in a version; of other types, elements leave all as it is."""
        whole = to_version(body, type_name, version)
        if self.elements and type_name != self.type:
            return whole
        resource = read_resource(whole)
        keeps = self._keeps(type_name, version)
        part = {name: value for name, value in resource.items() if keeps(name)}
        meta = part.get("meta", {})
        tag = {"system": TAG_SYSTEMS[version], "code": SUBSETTED}
        part["meta"] = {**meta, "tag": [*(one for one in meta.get("tag", []) if one != tag), tag]}
        return write_json(part)

    def _keeps(self, type_name: str, version: FhirVersion) -> Keeps:
        if self.summary == "data":
            return lambda name: name != "text"
        wanted = MODIFIERS | _required(type_name, version) | self.elements
        if self.summary == "text":
            wanted |= {"text"}
        elif self.summary == "true":
            wanted |= frozenset(SUMMARY[type_name].split())
        return lambda name: name in ALWAYS or base_of(name, type_name, version) in wanted


def read_projection(pairs: Pairs, type_name: str, version: FhirVersion) -> Projection | None:
    """Return the part that parameters ask for, None for the whole; RefusedError for what names no part."""
    given = dict(pairs)
    summary, elements = given.get("_summary"), given.get("_elements")
    if summary is not None and summary not in SUMMARIES:
        raise _bad("_summary", f"_summary is one of {', '.join(SUMMARIES)}.")
    if summary not in {None, "false"} and elements is not None:
        raise _bad("_elements", "Ask for _elements or for a _summary, not for both.")
    if elements is not None:
        return Projection(elements=_named(elements, type_name, version), type=type_name)
    return Projection(summary) if summary in {"true", "text", "data"} else None


def _named(text: str, type_name: str, version: FhirVersion) -> frozenset[str]:
    own = name_in(version, type_name)
    # fhirpy asks for `resourceType` by name, which is no element and always there.
    known = ALWAYS | {base_of(name, type_name, version) for name in definitions(version)[own]}
    names = frozenset(name.removeprefix(f"{own}.") for name in text.split(","))
    if not names <= known:
        raise _bad("_elements", f"_elements is a list of names of elements of {own}.")
    return names


@lru_cache(maxsize=4096)
def base_of(name: str, type_name: str, version: FhirVersion) -> str:
    """Return the name of an element without that of its type (`deceasedBoolean`: deceased), and without `_`."""
    name = name.removeprefix("_")
    known = definitions(version)[name_in(version, type_name)]
    return stem(known, name) if name in known else name


@lru_cache(maxsize=64)
def _required(type_name: str, version: FhirVersion) -> frozenset[str]:
    own = name_in(version, type_name)
    required = {name for name, element in definitions(version)[own].items() if element.required}
    # Whose record it is, is never left out either: neither for people, nor for the access log.
    return frozenset(required | set(REQUIRED_CHOICES[version].get(own, ())) | {KEPT[type_name].patient})


def _bad(name: str, text: str) -> RefusedError:
    return refuse(Category.BAD_VALUE, text, location=f"http.{name}")
