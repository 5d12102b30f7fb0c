"""Codes with a different name in each version, and the nearest code where one version has none."""

from dataclasses import dataclass, field
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.fhir.versions.direction import Direction


@dataclass(frozen=True, slots=True)
class CodeMap:
    """The codes of one element: equal pairs (STU3: R4), and the nearest code for each version's own codes."""

    equals: dict[str, str] = field(default_factory=dict)
    only_stu3: dict[str, str] = field(default_factory=dict)
    only_r4: dict[str, str] = field(default_factory=dict)

    def turns(self, direction: Direction) -> dict[str, str]:
        """Return the target's code for each source code that differs."""
        if direction is Direction.TO_R4:
            return {**self.equals, **self.only_stu3}
        return {**{r4: stu3 for stu3, r4 in self.equals.items()}, **self.only_r4}


@dataclass(frozen=True, slots=True)
class CodeTurn:
    """The conversion of one element's codes in one direction, and the extensions that preserve an original code.

    `known` are the target's codes and `known_before` the source's, None where any code will do.
    """

    turns: dict[str, str]
    back: dict[str, str]
    known: frozenset[str] | None
    known_before: frozenset[str] | None
    away: str
    home: str

    def shown(self, code: Json) -> Json:
        """Return the target's code; None where it has no such code."""
        return _known(self.turns, self.known, self.known_before, code)

    def shown_before(self, code: Json) -> Json:
        """Return the source's code for a code of the target; None where it has no such code."""
        return _known(self.back, self.known_before, self.known, code)

    def original(self, companion: Json) -> str | None:
        """Return the target's code that an extension on the source's code preserves; None where there is none."""
        extensions = companion.get("extension", []) if isinstance(companion, dict) else []
        found = [extension.get("valueCode") for extension in extensions if extension.get("url") == self.home]
        known = self.known is None or (found and found[0] in self.known)
        return found[0] if len(found) == 1 and known else None


def _known(turns: dict[str, str], known: frozenset[str] | None, own: frozenset[str] | None, code: Json) -> Json:
    """Return a code under its other name; a code that neither version has stays unchanged."""
    if not isinstance(code, str):
        return code
    turned = turns.get(code, code)
    return None if known is not None and turned not in known and (own is None or code in own) else turned


def with_original(companion: JsonObject | None, url: str, code: str) -> JsonObject:
    """Return the companion (`_status`) of a code with an extension for the original code."""
    rest = companion or {}
    return {**rest, "extension": [*rest.get("extension", []), {"url": url, "valueCode": code}]}


def without(companion: JsonObject, url: str) -> JsonObject:
    """Return the companion (`_status`) of a code without that extension; empty where nothing is left."""
    staying = [one for one in companion["extension"] if one.get("url") != url]
    rest = {name: value for name, value in companion.items() if name != "extension"}
    return {**rest, "extension": staying} if staying else rest


REQUEST: Final = {"suspended": "on-hold", "cancelled": "revoked"}
# By the path of the element in R4. A code neither listed here nor known to the other version is not shown there.
CODES: Final = {
    "ActivityDefinition.kind": CodeMap({"ProcedureRequest": "ServiceRequest"}),
    "CarePlan.status": CodeMap(REQUEST),
    "CarePlan.activity.detail.status": CodeMap(only_r4={"stopped": "cancelled", "entered-in-error": "unknown"}),
    "DocumentReference.docStatus": CodeMap(only_stu3={"appended": "amended"}),
    "MedicationRequest.intent": CodeMap(
        only_r4={
            "original-order": "order",
            "reflex-order": "order",
            "filler-order": "order",
            "option": "proposal",
        }
    ),
    "RequestGroup.status": CodeMap(REQUEST),
    "RequestGroup.intent": CodeMap(only_r4={"directive": "order"}),
    "ServiceRequest.status": CodeMap(REQUEST),
    "ServiceRequest.intent": CodeMap(only_r4={"directive": "order"}),
}
