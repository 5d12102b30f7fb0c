"""Which types the references of the kept types may name; `python -m tests.fhir.targets` writes the table."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from fhir.resources.R4B import get_fhir_model_class as r4_model
from fhir.resources.STU3 import get_fhir_model_class as stu3_model

import engine.fhir
from engine.fhir.schema import FhirVersion, definitions
from engine.fhir.versions.names import name_in
from engine.interchange.resource.catalogue import KEPT

TABLE = Path(engine.fhir.__file__).parent / "schemas" / "references.csv"
MODELS: dict[FhirVersion, Callable[[str], Any]] = {FhirVersion.R4: r4_model, FhirVersion.STU3: stu3_model}
ANY = "Resource"
# What R4 (4.0.1) says where R4B (4.3) allows more: of the kept types these two elements, and no others.
NARROWER = {
    ("Observation", "subject"): ("Device", "Group", "Location", "Patient"),
    ("DiagnosticReport", "subject"): ("Device", "Group", "Location", "Patient"),
}


def table() -> str:
    """Return the table as it is to be committed."""
    lines = [f"{version},{','.join(row)}" for version in FhirVersion for row in sorted(_rows(version))]
    return "\n".join(["version,type,element,targets", *lines, ""])


def _rows(version: FhirVersion) -> Iterator[tuple[str, str, str]]:
    """Yield type, element and targets of each reference that may not name any resource, along both definitions."""
    types = definitions(version)
    waiting = {name: name for name in (name_in(version, kept) for kept in KEPT)}
    done: set[str] = set()
    while waiting:
        type_name, model = waiting.popitem()
        done.add(type_name)
        fields = {field.alias or name: field for name, field in MODELS[version](model).model_fields.items()}
        for name, element in types[type_name].items():
            if element.type == "Reference":
                targets = (fields[name].json_schema_extra or {}).get("enum_reference_types") or [ANY]
                if version is FhirVersion.R4:
                    targets = NARROWER.get((type_name, name), targets)
                if ANY not in targets:
                    yield type_name, name, " ".join(sorted(targets))
            elif types.get(element.type) and element.type not in done and name in fields:
                waiting[element.type] = _model(fields[name].annotation)


def _model(annotation: Any) -> str:
    """Return the name of the model that a field holds, one or a list of it."""
    inner = [one for one in get_args(annotation) if one is not type(None)]
    return _model(inner[0]) if inner else str(annotation.__name__).removesuffix("Type")


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
