"""What has been read of one document: its resources, each with an id and valid, and the narrative they refer to."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from engine.fhir.json import Json, JsonObject
from engine.fhir.schema import FhirVersion, defects
from engine.interchange.clinical.ccda.reading.datatypes import LONGEST, codings, plain, text_of, timed
from engine.interchange.clinical.ccda.reading.element import Element, every, first, said
from engine.interchange.clinical.facts import MOST_FACTS, PATIENT, UnreadableDocumentError, UnreadableReason, fact_id
from engine.interchange.kernel.exact import write_json
from engine.interchange.rest.resource.catalogue import KEPT

Resource = JsonObject

# Parts of the narrative that entries may refer to: as many elements and characters as the document has, some times.
REFERRED: Final = 4
# The element that names a resource's subject matter, and the words that state its absence.
SUBJECTS: Final = ("code", "medicationCodeableConcept", "vaccineCode")
NOTHING: Final = re.compile(
    r"(no|none|not) ([\w,/ -]{0,60} )?"
    r"(known|data|recorded|applicable|available|information|reported|documented|found)\b"
    r"|(none|unknown|n/a|nil)\.?$",
    re.IGNORECASE,
)
PARTIES: Final = frozenset({"Practitioner", "Organization", "Location"})


class ReadChart:
    """The resources of a document in the order in which they were read; `facts` counts those that are no parties.

    `offset` is the one of the document itself, for times that are written without.
    """

    def __init__(self, root: Element, size: int, seed: bytes, offset: str) -> None:
        self.resources: list[Resource] = []
        self.facts = 0
        self.offset = offset
        self._seed = seed
        self._places: dict[str, Element] = {}
        for place in root.iterfind(".//*[@ID]"):
            self._places.setdefault(place.get("ID", ""), place)
        self._budget = REFERRED * size
        self._known: dict[bytes, str] = {}

    def add(self, name: str, elements: Mapping[str, Json]) -> str:
        """Keep a resource without its empty elements; return the reference to it.

        '' for one that is not valid, or that in words alone says that there is nothing ("No known problems").

        What the document says twice, of one identifier or of one party, is kept once. UnreadableDocumentError
        (`too-large`) for more than 50,000.
        """
        resource: Resource = {"resourceType": name, **_filled(elements)}
        repeatable = name in PARTIES or "identifier" in resource
        mark = hashlib.sha256(write_json(resource)).digest() if repeatable else b""
        reference = self._known.get(mark, "")
        if not reference:
            if _says_nothing(resource) or not _is_valid(resource):
                return ""
            if len(self.resources) == MOST_FACTS:
                raise UnreadableDocumentError(UnreadableReason.TOO_LARGE)
            resource["id"] = fact_id(self._seed, len(self.resources))
            reference = f"urn:uuid:{resource['id']}"
            self.resources.append(resource)
            if repeatable:
                self._known[mark] = reference
        self.facts += name not in PARTIES
        return reference

    def text(self, element: Element | None) -> str:
        """Return the text of an element (ED), else that of the narrative it refers to, on one line; '' for none."""
        if element is None:
            return ""
        own, named = text_of(element), said(element, "value", "reference")
        return own or (self._narrated(named[1:]) if named.startswith("#") else "")

    def concept(self, element: Element | None) -> JsonObject:
        """Return the CodeableConcept of a coded element; {} for one that says nothing."""
        if element is None:
            return {}
        found = codings(element)
        text = self.text(first(element, "originalText"))
        text = text or ("" if found else plain(said(element, "displayName")))
        return {"coding": found, "text": text} if found or text else {}

    def concepts(self, element: Element | None, path: str) -> list[JsonObject]:
        """Return the CodeableConcepts of all coded elements at a path, without those that say nothing."""
        return [found for one in every(element, path) if (found := self.concept(one))]

    def timed(self, name: str, element: Element | None) -> JsonObject:
        """Return the element of a choice of dateTime and Period, named by its begin (`effective`); {} for none."""
        return timed(name, element, self.offset)

    def distinct_resources(self) -> tuple[Resource, ...]:
        """Return the resources read, without the identifiers that several facts of one type share.

        Documents are made from examples whose ids stay in them: such an id names none of them.
        """
        shared: dict[tuple[str, bytes], int] = Counter(
            (one["resourceType"], write_json(name)) for one in self.resources for name in one.get("identifier", ())
        )
        for resource in self.resources:
            kind = resource["resourceType"]
            if kind not in PARTIES and "identifier" in resource:
                own = [name for name in resource.pop("identifier") if shared[kind, write_json(name)] == 1]
                resource.update({"identifier": own} if own else {})
        return tuple(self.resources)

    def _narrated(self, name: str) -> str:
        """Return the text at a place of the narrative; '' once the limit of narrative text is reached."""
        place = self._places.get(name)
        if place is None:
            return ""
        found: list[str] = []
        length = 0
        for part in place.iter():
            texts = [part.text or "", (part.tail or "") if part is not place else ""]
            found += filter(None, texts)
            length += sum(map(len, texts))
            self._budget -= sum(map(len, texts)) + 1
            if length > LONGEST or self._budget < 0:
                break
        return plain(" ".join(found)) if self._budget >= 0 else ""


def _filled(value: Mapping[str, Json]) -> JsonObject:
    """Return an object without those of its elements that say nothing, at any depth."""
    found = ((name, _part(part)) for name, part in value.items())
    return {name: part for name, part in found if part not in ("", None, [], {})}


def _part(value: Json) -> Json:
    if isinstance(value, dict):
        return _filled(value)
    if isinstance(value, list | tuple):
        return [part for part in map(_part, value) if part not in ("", None, [], {})]
    return value


def _says_nothing(resource: Resource) -> bool:
    concept: JsonObject = next((resource[name] for name in SUBJECTS if name in resource), {})
    return "coding" not in concept and NOTHING.match(concept.get("text", "")) is not None


def _is_valid(resource: Resource) -> bool:
    holder = KEPT[resource["resourceType"]].patient
    owned = {**resource, holder: {"reference": PATIENT}} if holder else resource
    return not defects(owned, FhirVersion.R4)
