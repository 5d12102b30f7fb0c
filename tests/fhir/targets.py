"""What fhir.resources knows and HL7's schemas do not say; `python -m tests.fhir.targets` writes the tables.

Which types a reference may name (of R4 all types, of STU3 those kept), and of R4 what is required and which codes bind.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from fhir.resources.R4B import get_fhir_model_class as r4_model
from fhir.resources.STU3 import get_fhir_model_class as stu3_model

import engine.fhir
from engine.fhir.extra_constraints import R4_CHOICES, R4_CODES, R4_PRIMITIVES
from engine.fhir.schema import FhirVersion, definitions, resource_types
from engine.fhir.versions.names import name_in
from engine.interchange.rest.resource.catalogue import KEPT

TABLE = Path(engine.fhir.__file__).parent / "schemas" / "references.csv"
RULES = TABLE.with_name("rules.csv")
MODELS: dict[FhirVersion, Callable[[str], Any]] = {FhirVersion.R4: r4_model, FhirVersion.STU3: stu3_model}
ANY = "Resource"
# What R4 (4.0.1) says where R4B (4.3) allows more: of the kept types these two elements, and no others. Of the other
# types what R4B allows more is allowed, too.
NARROWER = {
    ("Observation", "subject"): ("Device", "Group", "Location", "Patient"),
    ("DiagnosticReport", "subject"): ("Device", "Group", "Location", "Patient"),
}
OBSERVATION_STATUS = "amended cancelled corrected entered-in-error final preliminary registered unknown"
# Codes that R4B's short texts abridge, as R4 lists them; of mime types there is no end.
ABRIDGED = {
    ("DetectedIssue", "status"): OBSERVATION_STATUS,
    ("RiskAssessment", "status"): OBSERVATION_STATUS,
    ("CapabilityStatement", "format"): "",
}


def table() -> str:
    """Return the table as it is to be committed."""
    lines = [f"{version},{','.join(row)}" for version in FhirVersion for row in sorted(_rows(version))]
    return "\n".join(["version,type,element,targets", *lines, ""])


def rules() -> str:
    """Return the table of what R4 requires and binds beyond its schema, as it is to be committed."""
    return "\n".join(["type,element,rule,codes", *sorted(",".join(row) for row in set(_rules())), ""])


def _rows(version: FhirVersion) -> Iterator[tuple[str, str, str]]:
    """Yield type, element and targets of each reference that may not name any resource."""
    for type_name, name, type_, field in fields(version):
        if type_ == "Reference":
            targets = (field.json_schema_extra or {}).get("enum_reference_types") or [ANY]
            if version is FhirVersion.R4:
                targets = NARROWER.get((type_name, name), targets)
            if ANY not in targets:
                yield type_name, name, " ".join(sorted(targets))


def _rules() -> Iterator[tuple[str, str, str, str]]:
    """Yield type, element, rule and codes, but for what stands in `required` and `bindings` already."""
    known = definitions(FhirVersion.R4)
    for type_name, name, type_, field in fields(FhirVersion.R4):
        extra = field.json_schema_extra or {}
        stated = known[type_name][name].required or name in R4_PRIMITIVES.get(type_name, ())
        if not stated and (extra.get("element_required") or field.is_required()):
            yield type_name, name, "required", ""
        choice = extra.get("one_of_many")
        if choice and extra.get("one_of_many_required") and choice not in R4_CHOICES.get(type_name, ()):
            yield type_name, choice, "choice", ""
        bound = known[type_name][name].codes or R4_CODES.get(type_name, {}).get(name)
        if type_ == "code" and extra.get("enum_values") and not bound:
            codes = ABRIDGED.get((type_name, name), " ".join(sorted(extra["enum_values"])))
            yield from [(type_name, name, "codes", codes)] if codes else []


def fields(version: FhirVersion) -> Iterator[tuple[str, str, str, Any]]:
    """Yield type, element, the element's type and its field in the model, along both definitions."""
    types = definitions(version)
    roots = resource_types(version) if version is FhirVersion.R4 else (name_in(version, kept) for kept in KEPT)
    waiting = {name: name for name in roots}
    done: set[str] = set()
    while waiting:
        type_name, model = waiting.popitem()
        done.add(type_name)
        try:
            fields = {field.alias or name: field for name, field in MODELS[version](model).model_fields.items()}
        except ValueError:
            continue  # of types that R4B has no more (MedicinalProduct...) nothing is known beside the schema
        for name, element in types[type_name].items():
            if name not in fields:
                continue
            yield type_name, name, element.type, fields[name]
            if element.type != "Reference" and types.get(element.type) and element.type not in done:
                waiting[element.type] = _model(fields[name].annotation)


def _model(annotation: Any) -> str:
    """Return the name of the model that a field holds, one or a list of it."""
    inner = [one for one in get_args(annotation) if one is not type(None)]
    return _model(inner[0]) if inner else str(annotation.__name__).removesuffix("Type")


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
    RULES.write_text(rules(), encoding="utf-8")
