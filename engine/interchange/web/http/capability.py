"""CapabilityStatements of both versions, with the canonical addresses of the search parameters."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from engine import __version__
from engine.config.service import Feature, ServiceConfiguration
from engine.fhir.json import JsonObject
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.core.audit import reading as audit
from engine.interchange.core.exchange import Interaction, InteractionLevel
from engine.interchange.core.negotiation import PATCH
from engine.interchange.events.messages import search as messages
from engine.interchange.events.messages.search import BUNDLE
from engine.interchange.kernel.exact import write_json
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.store.search.criterion import ParameterKind
from engine.interchange.web.http.route import INTERACTIONS

HL7: Final = "http://hl7.org/fhir/SearchParameter/"
US_CORE: Final = "http://hl7.org/fhir/us/core/SearchParameter/us-core-"
# Parameters that HL7 defines once for several types, by the prefix of the definition's name.
_INDIVIDUAL: Final = frozenset(
    {
        *("birthdate", "family", "given", "gender", "telecom", "phone", "email"),
        *("address", "address-city", "address-state", "address-postalcode", "address-country", "address-use"),
    }
)
_CLINICAL: Final = frozenset({"patient", "identifier", "date", "type", "code", "encounter"})
_CHARTED: Final = frozenset(
    {
        *("AllergyIntolerance", "CarePlan", "Condition", "DiagnosticReport", "DocumentReference", "Encounter"),
        *("FamilyMemberHistory", "Goal", "Immunization", "MedicationRequest", "MedicationStatement", "Observation"),
        *("Procedure", "ServiceRequest"),
    }
)
_OWN: Final = frozenset({("Condition", "encounter"), ("DocumentReference", "date"), ("Goal", "date")})
_MEDICATIONS: Final = {
    FhirVersion.R4: frozenset({("MedicationRequest", "status"), ("MedicationRequest", "encounter")}),
    FhirVersion.STU3: frozenset(
        {
            *(("MedicationRequest", name) for name in ("status", "patient", "identifier")),
            *(("MedicationStatement", name) for name in ("patient", "identifier")),
        }
    ),
}
_GUIDE: Final = frozenset({("Encounter", "discharge-disposition"), ("Goal", "description")})
# The service's own, and parameters that STU3 lacks or names differently.
_NONE: Final = frozenset(
    {
        ("ActivityDefinition", "code"),
        ("Binary", "patient"),
        ("Bundle", "message.event"),
        ("Bundle", "patient"),
        ("Group", "name"),
        ("MedicationStatement", "encounter"),
        ("Organization", "ordering-enabled"),
        ("RequestGroup", "performer"),
    }
)
_NONE_IN_STU3: Final = frozenset(
    {
        ("Coverage", "patient"),
        ("DocumentReference", "date"),
        ("MedicationRequest", "encounter"),
        ("RequestGroup", "code"),
        ("ServiceRequest", "category"),
        *_GUIDE,
    }
)


def definition_of(type_name: str, parameter: str, version: FhirVersion) -> str:
    """Return the canonical address of a type's SearchParameter; '' if HL7 does not define it.

    For R4 it is US Core's where the base standard has none.
    """
    pair = (type_name, parameter)
    if pair in _NONE or (version is FhirVersion.STU3 and pair in _NONE_IN_STU3):
        return ""
    if parameter.startswith("_"):
        return f"{HL7}Resource-{parameter.removeprefix('_')}"
    if pair in _GUIDE:
        return f"{US_CORE}{type_name.lower()}-{parameter}"
    return f"{HL7}{_group(type_name, parameter, version) or name_in(version, type_name)}-{parameter}"


def _group(type_name: str, parameter: str, version: FhirVersion) -> str:
    if (type_name, parameter) in _MEDICATIONS[version]:
        return "medications"
    if type_name in _CHARTED and parameter in _CLINICAL and (type_name, parameter) not in _OWN:
        return "clinical"
    individual = type_name == "Patient" or (type_name == "Practitioner" and parameter in {"family", "given"})
    return "individual" if individual and parameter in _INDIVIDUAL else ""


FHIR_VERSIONS: Final = {FhirVersion.R4: "4.0.1", FhirVersion.STU3: "3.0.1"}
SINCE: Final = "2025-06-01"
SEARCH_TYPES: Final = {
    ParameterKind.ID: "token",
    ParameterKind.STRING: "string",
    ParameterKind.TOKEN: "token",
    ParameterKind.CONTACT: "token",
    ParameterKind.IDENTIFIER: "token",
    ParameterKind.URI: "uri",
    ParameterKind.CANONICAL: "reference",
    ParameterKind.DATE: "date",
    ParameterKind.REFERENCE: "reference",
    ParameterKind.UPDATED: "date",
}
OPERATIONS: Final = {
    "merge": "http://hl7.org/fhir/OperationDefinition/Patient-merge",
    "process-message": "http://hl7.org/fhir/OperationDefinition/MessageHeader-process-message",
    "validate": "http://hl7.org/fhir/OperationDefinition/Resource-validate",
    "everything": "http://hl7.org/fhir/OperationDefinition/Patient-everything",
}
DOCUMENTATION: Final = (
    "Searches, by GET and by POST to _search, take beside the parameters of their type: _sort (with paging by "
    "_offset), _include and _revinclude (may be repeated; not :iterate), _elements, _summary, _total, _count, _format. "
    "Chains of one link (patient.birthdate) and _has go with all parameters. Reads and histories take _elements and "
    "_summary, histories _since and _count. What is asked for with 'Prefer: respond-async' is answered with 202 and "
    "the address of a handle, RequestResult/{id}, to be read and deleted. What is unknown is refused, but for "
    "'Prefer: handling=lenient' on a search."
)
# Types with tables of their own, and their search parameters.
APART: Final = {audit.NAME: audit.PARAMETERS, BUNDLE: messages.PARAMETERS}
# References are literal to stored resources (checked, 422) or logical by identifier.
REFERENCES: Final = ("literal", "logical", "enforced", "local")
COMPARTMENT: Final = "http://hl7.org/fhir/CompartmentDefinition/patient"
RESTFUL: Final = (
    "read",
    "vread",
    "update",
    "patch",
    "delete",
    "history-instance",
    "history-type",
    "create",
    "search-type",
)


def capability_statement(version: FhirVersion, configuration: ServiceConfiguration) -> bytes:
    """Return the CapabilityStatement of a version: all that is served, with features on trial."""
    own = f"{configuration.service_identifier_system}/fhir/StructureDefinition"
    return _statement(version, configuration.base_url, configuration.token_url, own, configuration.features)


@lru_cache(maxsize=8)
def _statement(version: FhirVersion, base_url: str, token_url: str, own: str, features: tuple[Feature, ...]) -> bytes:
    base = f"{base_url}/fhir/R4" if version is FhirVersion.R4 else f"{base_url}/fhir"
    # Interactions with rights of their own do not belong to FHIR.
    offered = (one for one in INTERACTIONS if version in one.versions and not one.own_rights)
    served = [one for one in offered if one.feature is None or one.feature in features]
    rest: JsonObject = {
        "mode": "server",
        "documentation": DOCUMENTATION,
        "security": _security(token_url, version),
        "interaction": [{"code": "transaction"}, {"code": "batch"}],
        "compartment": [COMPARTMENT],
        "resource": [_resource(name, served, version, own) for name in sorted({one.type for one in served})],
    }
    # STU3 lists all operations here, R4 only system-level ones.
    named = _operations(
        [one for one in served if version is FhirVersion.STU3 or one.level is InteractionLevel.SYSTEM], own
    )
    if version is FhirVersion.STU3:
        rest["operation"] = [{"name": name, "definition": {"reference": found}} for name, found in named]
    else:
        rest["operation"] = [{"name": name, "definition": found} for name, found in named]
    statement: JsonObject = {
        "resourceType": "CapabilityStatement",
        "status": "active",
        "date": SINCE,
        "kind": "instance",
        "software": {"name": "adt-engine interchange", "version": __version__},
        "implementation": {"description": "Clinical Data Interchange Service", "url": base},
        "fhirVersion": FHIR_VERSIONS[version],
        "format": ["application/fhir+json", "json"],
        "patchFormat": list(PATCH),
        "rest": [rest],
    }
    if version is FhirVersion.STU3:
        statement["acceptUnknown"] = "no"
    if features:
        statement["extension"] = [{"url": f"{own}/feature-flag", "valueCode": feature} for feature in features]
    return write_json(statement)


def _resource(name: str, served: list[Interaction], version: FhirVersion, own: str) -> JsonObject:
    mine = [one for one in served if one.type == name and one.level is not InteractionLevel.SYSTEM]
    codes = [one.code for one in mine]
    made: JsonObject = {
        "type": name_in(version, name),
        "interaction": [{"code": code} for code in RESTFUL if code in codes],
        "versioning": "versioned",
        "readHistory": "vread" in codes,
        "updateCreate": "update" in codes,
        "conditionalCreate": "create" in codes,
        "conditionalRead": "full-support",
        "conditionalUpdate": "update" in codes,
        "conditionalDelete": "single" if "delete" in codes else "not-supported",
        "searchParam": [
            _search_parameter(name, parameter, kind, version) for parameter, kind in _kinds(name, version).items()
        ],
    }
    if name == "Patient" and "delete" in codes:
        made["extension"] = [{"url": f"{own}/cascade-delete", "valueBoolean": True}]
    if name in APART:
        made |= {"versioning": "no-version", "conditionalRead": "not-supported"}
    if name in KEPT:
        made |= {"referencePolicy": list(REFERENCES)}
        made |= {key: names for key, names in _includes(name, version).items() if names}
    operations = [{"name": name, "definition": found} for name, found in _operations(mine, own)]
    if operations and version is FhirVersion.R4:
        made["operation"] = operations
    return made


def _operations(served: list[Interaction], own: str) -> tuple[tuple[str, str], ...]:
    """Return names and definitions of the operations, HL7's or the service's own."""
    ours = own.replace("StructureDefinition", "OperationDefinition")
    pairs = (
        (one.operation[1:], OPERATIONS.get(one.code) or f"{ours}/{one.type}-{one.operation[1:]}")
        for one in served
        if one.operation.startswith("$")
    )
    return tuple(dict.fromkeys(pairs))


def _includes(type_name: str, version: FhirVersion) -> dict[str, list[str]]:
    """Return the `_include` and `_revinclude` values of a type."""
    includes: dict[str, list[str]] = {"searchInclude": [], "searchRevInclude": []}
    for source, definition in KEPT.items():
        for name, parameter in definition.search_parameters(version).items():
            if parameter.kind is ParameterKind.REFERENCE:
                include = f"{name_in(version, source)}:{name}"
                includes["searchInclude"] += [include] if source == type_name else []
                # Provenance.target may be of any type.
                includes["searchRevInclude"] += [include] if {type_name, "target"} & {*parameter.targets, name} else []
    return includes


def _kinds(name: str, version: FhirVersion) -> Mapping[str, ParameterKind]:
    if name in APART:
        return APART[name]
    return {known: parameter.kind for known, parameter in KEPT[name].search_parameters(version).items()}


def _search_parameter(type_name: str, name: str, kind: ParameterKind, version: FhirVersion) -> JsonObject:
    found = definition_of(type_name, name, version)
    return {"name": name, **({"definition": found} if found else {}), "type": SEARCH_TYPES[kind]}


def _security(token_url: str, version: FhirVersion) -> JsonObject:
    system = "http://terminology.hl7.org/CodeSystem/restful-security-service"
    if version is FhirVersion.STU3:
        system = "http://hl7.org/fhir/restful-security-service"
    addresses = [{"url": "authorize", "valueUri": f"{token_url}/oauth/authorize"}]
    addresses.append({"url": "token", "valueUri": f"{token_url}/oauth/token"})
    addresses.append({"url": "revoke", "valueUri": f"{token_url}/oauth/cancel"})
    addresses.append({"url": "introspect", "valueUri": f"{token_url}/oauth/info"})
    extension = {"url": "http://fhir-registry.smarthealthit.org/StructureDefinition/oauth-uris", "extension": addresses}
    return {"extension": [extension], "service": [{"coding": [{"system": system, "code": "SMART-on-FHIR"}]}]}
