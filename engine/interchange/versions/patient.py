"""Patient in STU3 and in R4: STU3 bodies are turned to R4 to be kept, and back to be shown."""

from typing import Any, Final

Json = Any

ANIMAL: Final = "http://hl7.org/fhir/StructureDefinition/patient-animal"
ANIMAL_PARTS: Final = ("species", "breed", "genderStatus")
STU3_TABLE: Final = "http://hl7.org/fhir/v2/"
R4_TABLE: Final = "http://terminology.hl7.org/CodeSystem/v2-"
# Codes of `use` that STU3 does not have; there they stand in HL7's extension for elements of another version.
LATER_CODES: Final = (
    ("identifier", "old", "http://hl7.org/fhir/4.0/StructureDefinition/extension-Identifier.use"),
    ("address", "billing", "http://hl7.org/fhir/4.0/StructureDefinition/extension-Address.use"),
)
# The specification gives the terminology.hl7.org form of this table for STU3 too.
IDENTIFIER_TYPES: Final = "0203"


def to_r4(patient: dict[str, Json]) -> dict[str, Json]:
    """Return an STU3 Patient as an R4 one: table addresses, later codes, `animal` as R4's extension for it."""
    made: dict[str, Json] = _tables_to_r4(patient)
    for element, code, url in LATER_CODES:
        if element in made:
            made[element] = [_put_back(item, code, url) for item in made[element]]
    animal = made.pop("animal", None)
    if isinstance(animal, dict):
        parts = [{"url": name, "valueCodeableConcept": animal[name]} for name in ANIMAL_PARTS if name in animal]
        made["extension"] = [*made.get("extension", []), {"url": ANIMAL, "extension": parts}]
    return made


def to_stu3(patient: dict[str, Json]) -> dict[str, Json]:
    """Return an R4 Patient as an STU3 one; `meta.source` and a reference's `type` do not exist there."""
    made: dict[str, Json] = set_aside(_tables_to_stu3(patient))
    if "meta" in made:
        made["meta"] = {name: value for name, value in made["meta"].items() if name != "source"}
    animals = [item for item in made.get("extension", []) if item.get("url") == ANIMAL]
    if animals:
        rest = [item for item in made["extension"] if item.get("url") != ANIMAL]
        made["extension"] = rest
        if not rest:
            del made["extension"]
        made["animal"] = {part["url"]: part["valueCodeableConcept"] for part in animals[0].get("extension", [])}
    return made


def set_aside(patient: dict[str, Json]) -> dict[str, Json]:
    """Return a Patient whose codes are STU3's: clients of STU3 send later ones too, which are kept all the same."""
    made = dict(patient)
    for element, code, url in LATER_CODES:
        if isinstance(made.get(element), list):
            made[element] = [_set_aside(item, code, url) for item in made[element]]
    return made


def _set_aside(item: Json, code: str, url: str) -> Json:
    if not isinstance(item, dict) or item.get("use") != code:
        return item
    rest = {name: value for name, value in item.items() if name not in {"use", "_use"}}
    return {**rest, "_use": {"extension": [{"url": url, "valueCode": code}]}}


def _put_back(item: dict[str, Json], code: str, url: str) -> dict[str, Json]:
    if item.get("_use") != {"extension": [{"url": url, "valueCode": code}]}:
        return item
    return {"use": code, **{name: value for name, value in item.items() if name != "_use"}}


def _tables_to_r4(part: Json) -> Json:
    if isinstance(part, dict):
        return {key: _address_to_r4(value) if key == "system" else _tables_to_r4(value) for key, value in part.items()}
    if isinstance(part, list):
        return [_tables_to_r4(item) for item in part]
    return part


def _address_to_r4(system: Json) -> Json:
    if isinstance(system, str) and system.startswith(STU3_TABLE):
        return R4_TABLE + system.removeprefix(STU3_TABLE)
    return system


def _tables_to_stu3(part: Json) -> Json:
    if isinstance(part, dict):
        typed_reference = "reference" in part and "type" in part and isinstance(part["type"], str)
        return {
            key: _address_to_stu3(value) if key == "system" else _tables_to_stu3(value)
            for key, value in part.items()
            if not (typed_reference and key == "type")
        }
    if isinstance(part, list):
        return [_tables_to_stu3(item) for item in part]
    return part


def _address_to_stu3(system: Json) -> Json:
    if isinstance(system, str) and system.startswith(R4_TABLE) and system != R4_TABLE + IDENTIFIER_TYPES:
        return STU3_TABLE + system.removeprefix(R4_TABLE)
    return system
