"""What a destination can do, as its CapabilityStatement says."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Abilities:
    """What delivery may rely on; `stated` is False where the server gave no CapabilityStatement.

    `provable`: the server keeps versions and does not say whether it honours If-Match, which can be tried. `types`:
    the resource types that it lists.
    """

    stated: bool = False
    merge: bool = False
    if_match: bool = True
    provable: bool = False
    conditional_create: bool = True
    types: frozenset[str] = frozenset()

    def keeps(self, type_: str) -> bool:
        """Say whether the server keeps a type, as far as it says which it keeps."""
        return not self.types or type_ in self.types

    def missing(self) -> tuple[str, ...]:
        """Return codes for what cannot be relied on, for the operator."""
        lacks = {
            "no-capability-statement": not self.stated,
            "no-merge": self.stated and not self.merge,
            "no-if-match": not (self.if_match or self.provable),
            "no-conditional-create": not self.conditional_create,
        }
        return tuple(code for code, lacking in lacks.items() if lacking)


def abilities_of(statement: Any) -> Abilities:
    """Return what a CapabilityStatement says of Patient; nothing can be relied on where it is none.

    `versioning` absent is read as no promise; `conditionalCreate` absent as none, too.
    """
    if not isinstance(statement, dict) or statement.get("resourceType") != "CapabilityStatement":
        return Abilities(stated=False, if_match=False, conditional_create=False)
    rest = next(iter(_dicts(statement.get("rest"))), {})
    listed = _dicts(rest.get("resource"))
    patient = next((item for item in listed if item.get("type") == "Patient"), {})
    return Abilities(
        stated=True,
        merge=any(_merges(item, ("merge", "$merge")) for item in _dicts(patient.get("operation")))
        or any(_merges(item, ()) for item in _dicts(rest.get("operation"))),
        if_match=patient.get("versioning") == "versioned-update",
        provable=patient.get("versioning") == "versioned",
        conditional_create=patient.get("conditionalCreate") is True,
        types=frozenset(str(item["type"]) for item in listed if "type" in item),
    )


def _merges(operation: dict[str, Any], names: tuple[str, ...]) -> bool:
    definition = operation.get("definition")
    if isinstance(definition, dict):
        definition = definition.get("reference")
    canonical = definition.rsplit("/", 1)[-1].lower() if isinstance(definition, str) else ""
    return operation.get("name") in names or canonical in {"patient-merge", "patient-i-merge"}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
