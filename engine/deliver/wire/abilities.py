"""What a destination can do, as its CapabilityStatement says."""

import re
from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any, Final

NO_IF_MATCH: Final = "no-if-match"
NO_CLIENT_IDS: Final = "no-client-ids"
NAMES: Final = frozenset({"merge", "$merge"})
# As HAPI lists its own: `hapi.fhir.merge`, to be called as `Patient/$hapi.fhir.merge`.
ENDING: Final = ".merge"
CANONICALS: Final = frozenset({"patient-merge", "patient-i-merge"})
VERSIONED: Final = frozenset({"versioned", "versioned-update"})
CASCADE: Final = "cascade-delete"
LOOKUPS: Final = frozenset({"p360-retrieve", "$p360-retrieve"})
NOTICES: Final = frozenset({"process-message", "$process-message"})
_OPERATION: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Abilities:
    """What delivery may rely on; `stated` is False where the server gave no CapabilityStatement.

    `server`: its name and version, empty where it does not say. `operation`: how its merge is called, without the `$`,
    empty where it has none. `versioned`: the server keeps versions; whether it honours If-Match is tried once, as none
    tells that for certain: `provable` until then, `if_match` where the trial has shown it. `types`: the resource types
    that it lists. `transaction`: it takes Bundles of requests, all or nothing; `unfit` names what it was found to do
    wrong with them, after which they are sent to it no more. `cascade`: a patient that is deleted goes with the chart.
    `update_create`: it creates what is put under an id that is not there; None where it does not say. `lookup`: it
    looks patients up on the networks (`$p360-retrieve`). `notices`: it takes `$process-message`.
    """

    stated: bool = False
    server: str = ""
    operation: str = ""
    if_match: bool = True
    versioned: bool = True
    provable: bool = False
    conditional_create: bool = True
    update_create: bool | None = None
    types: frozenset[str] = frozenset()
    transaction: bool = False
    unfit: str = ""
    cascade: bool = False
    lookup: bool = False
    notices: bool = False

    @property
    def merge(self) -> bool:
        """Whether the server can merge."""
        return bool(self.operation)

    def keeps(self, type_: str) -> bool:
        """Say whether the server keeps a type, as far as it says which it keeps."""
        return not self.types or type_ in self.types

    def proven(self, if_match: bool | None) -> "Abilities":
        """Return the abilities once it is known whether If-Match is honoured; the same where that is not known."""
        return self if if_match is None else replace(self, provable=False, if_match=if_match)

    def missing(self) -> tuple[str, ...]:
        """Return codes for what cannot be relied on, for the operator."""
        lacks = {
            "no-capability-statement": not self.stated,
            "no-merge": self.stated and not self.merge,
            NO_IF_MATCH: not (self.if_match or self.provable),
            "no-conditional-create": not self.conditional_create,
            self.unfit: bool(self.unfit),
        }
        return tuple(code for code, lacking in lacks.items() if lacking)


class IfMatchProofs:
    """Whether If-Match is honoured, by name and version of the server, as trials have shown."""

    def __init__(self) -> None:
        self.known: dict[str, bool] = {}
        self._new: list[tuple[str, bool]] = []

    def add(self, server: str, if_match: bool) -> None:
        """Note what a trial has shown; of a server that does not say what it is, nothing is to be kept."""
        if server:
            self.known[server] = if_match
            self._new.append((server, if_match))

    def take_new(self) -> list[tuple[str, bool]]:
        """Return what was shown since this was asked last, to be kept: server, and whether it honours."""
        new, self._new = self._new, []
        return new


def abilities_of(statement: Any) -> Abilities:
    """Return what a CapabilityStatement says of Patient; nothing can be relied on where it is none.

    `versioning` absent is read as no promise; `conditionalCreate` absent as none, too.
    """
    if not isinstance(statement, dict) or statement.get("resourceType") != "CapabilityStatement":
        return Abilities(if_match=False, versioned=False, conditional_create=False)
    rest = next(iter(_dicts(statement.get("rest"))), {})
    listed = _dicts(rest.get("resource"))
    patient = next((item for item in listed if item.get("type") == "Patient"), {})
    versioned = patient.get("versioning") in VERSIONED
    return Abilities(
        stated=True,
        server=_server(statement.get("software")),
        operation=_operation(_dicts(patient.get("operation")), _dicts(rest.get("operation"))),
        if_match=False,
        versioned=versioned,
        provable=versioned,
        conditional_create=patient.get("conditionalCreate") is True,
        update_create=said if isinstance(said := patient.get("updateCreate"), bool) else None,
        types=frozenset(str(item["type"]) for item in listed if "type" in item),
        transaction=any(item.get("code") == "transaction" for item in _dicts(rest.get("interaction"))),
        cascade=any(_says_cascade(item) for item in _dicts(patient.get("extension"))),
        lookup=any(_offers(item, LOOKUPS) for item in (rest, *listed)),
        notices=_offers(rest, NOTICES),
    )


def _server(software: Any) -> str:
    named = software if isinstance(software, dict) else {}
    return " ".join(str(named[name])[:100] for name in ("name", "version") if named.get(name))


def _operation(of_patient: list[dict[str, Any]], of_server: list[dict[str, Any]]) -> str:
    """Return by which name the merge of Patients is called; the standard's own where several are listed."""
    found = [_name(item) for item in of_patient if _is_named_so(item) or _is_defined_so(item)]
    found += [_name(item) for item in of_server if _is_defined_so(item)]
    known = [name for name in found if _OPERATION.fullmatch(name)]
    return "merge" if "merge" in known else next(iter(known), "")


def _name(operation: dict[str, Any]) -> str:
    return str(operation.get("name") or "merge").removeprefix("$")


def _is_named_so(operation: dict[str, Any]) -> bool:
    name = operation.get("name")
    return isinstance(name, str) and (name in NAMES or name.endswith(ENDING))


def _is_defined_so(operation: dict[str, Any]) -> bool:
    definition = operation.get("definition")
    if isinstance(definition, dict):
        definition = definition.get("reference")
    return isinstance(definition, str) and definition.rsplit("/", 1)[-1].lower() in CANONICALS


def _offers(holder: dict[str, Any], names: Set[str]) -> bool:
    return any(operation.get("name") in names for operation in _dicts(holder.get("operation")))


def _says_cascade(extension: dict[str, Any]) -> bool:
    """Say whether an extension of Patient promises `?_cascade=delete`: FHIR has no element for it."""
    return str(extension.get("url", "")).rsplit("/", 1)[-1] == CASCADE and extension.get("valueBoolean") is True


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
