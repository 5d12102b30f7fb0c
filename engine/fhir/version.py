"""The edge between R4, which the engine speaks, and STU3: what differs in a Patient.

STU3 names the HL7 tables by other URLs, has no `billing` address, no `old` identifier (the use stands in the extension
that FHIR provides for elements of another version), no `type` in a Reference, and other URLs for some extensions
(http://hl7.org/fhir/R4/patient.html and http://hl7.org/fhir/STU3/patient.html, "differences").
"""

import re
from collections.abc import Callable
from typing import Any, Final

Body = dict[str, Any]

_V2_R4: Final = re.compile(r"http://terminology\.hl7\.org/CodeSystem/v2-(\d{4})")
_V2_STU3: Final = re.compile(r"http://hl7\.org/fhir/v2/(\d{4})")
_V3_R4: Final = re.compile(r"http://terminology\.hl7\.org/CodeSystem/v3-(\w+)")
_V3_STU3: Final = re.compile(r"http://hl7\.org/fhir/v3/(\w+)")
_PAIRS: Final = {
    "http://terminology.hl7.org/CodeSystem/data-absent-reason": "http://hl7.org/fhir/data-absent-reason",
    "http://hl7.org/fhir/StructureDefinition/patient-birthPlace": "http://hl7.org/fhir/StructureDefinition/birthPlace",
}
_BACK: Final = {stu3: r4 for r4, stu3 in _PAIRS.items()}
_URI_KEYS: Final = frozenset({"system", "url"})
_OLD: Final = {"url": "http://hl7.org/fhir/4.0/StructureDefinition/extension-Identifier.use", "valueCode": "old"}
_R4_ONLY_IN_REFERENCE: Final = "type"


def to_stu3(patient: Body) -> Body:
    """Return an R4 Patient as STU3 has it; the given one is not altered."""
    body = _mapped(patient, _uri_to_stu3)
    for address in body.get("address", ()):
        if isinstance(address, dict) and address.get("use") == "billing":
            del address["use"]
    for identifier in body.get("identifier", ()):
        if isinstance(identifier, dict) and identifier.get("use") == "old":
            del identifier["use"]
            identifier["extension"] = [*identifier.get("extension", ()), _OLD]
    return _without_reference_types(body)


def from_stu3(patient: Body) -> Body:
    """Return an STU3 Patient as R4 has it, `animal` kept aside as it is; the given one is not altered."""
    body = _mapped(patient, _uri_from_stu3)
    for identifier in body.get("identifier") or ():
        if isinstance(identifier, dict) and _OLD in (identifier.get("extension") or ()):
            identifier["use"] = "old"
            identifier["extension"] = [item for item in identifier["extension"] if item != _OLD]
            if not identifier["extension"]:
                del identifier["extension"]
    return body


def _uri_to_stu3(uri: str) -> str:
    if uri in _PAIRS:
        return _PAIRS[uri]
    found = _V2_R4.fullmatch(uri)
    if found:
        return f"http://hl7.org/fhir/v2/{found[1]}"
    found = _V3_R4.fullmatch(uri)
    return f"http://hl7.org/fhir/v3/{found[1]}" if found else uri


def _uri_from_stu3(uri: str) -> str:
    if uri in _BACK:
        return _BACK[uri]
    found = _V2_STU3.fullmatch(uri)
    if found:
        return f"http://terminology.hl7.org/CodeSystem/v2-{found[1]}"
    found = _V3_STU3.fullmatch(uri)
    return f"http://terminology.hl7.org/CodeSystem/v3-{found[1]}" if found else uri


def _mapped(body: Body, uri: Callable[[str], str]) -> Body:
    return {key: _value(key, value, uri) for key, value in body.items()}


def _value(key: str, value: Any, uri: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return _mapped(value, uri)
    if isinstance(value, list):
        return [_value(key, item, uri) for item in value]
    return uri(value) if key in _URI_KEYS and isinstance(value, str) else value


def _without_reference_types(body: Body) -> Body:
    references = [body.get("managingOrganization"), *body.get("generalPractitioner", ())]
    references += [link.get("other") for link in body.get("link", ()) if isinstance(link, dict)]
    references += [item.get("organization") for item in body.get("contact", ()) if isinstance(item, dict)]
    references += [item.get("assigner") for item in body.get("identifier", ()) if isinstance(item, dict)]
    for reference in references:
        if isinstance(reference, dict):
            reference.pop(_R4_ONLY_IN_REFERENCE, None)
    return body
