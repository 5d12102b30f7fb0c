"""Events of a FHIR server: a webhook's resource, a Bundle or a page of history, cut into one event each, and read."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import orjson

from engine.errors import EventError
from engine.fhir.json import JsonObject

NOT_JSON: Final = "not-json"
NO_RESOURCE: Final = "no-resource"
NO_ID: Final = "no-id"
NO_EVENT: Final = "no-event"

# The types whose events become messages.
TYPES: Final = ("Patient", "Encounter")
DELETE: Final = "DELETE"
_ID: Final = re.compile(r"[A-Za-z0-9.-]{1,64}", re.ASCII)
_ETAG: Final = re.compile(r'(?:W/)?"([A-Za-z0-9.-]{1,64})"', re.ASCII)
_REFERENCE: Final = re.compile(r"(?:.*/)?([A-Z][A-Za-z]{1,63})/([A-Za-z0-9.-]{1,64})(?:/_history/[A-Za-z0-9.-]{1,64})?")
_SPACE: Final = re.compile(r"[ \t\r\n]*")
# How far what an event refers to is taken along from its Bundle: a practitioner's role, and its organization.
DEPTH: Final = 3


@dataclass(frozen=True, slots=True, repr=False)
class FhirEvent:
    """One version of a resource, or its deletion; `version` is '' and `at` None where it does not say.

    `resource` is None for a deletion. `related`: resources that came with it, by `Type/id`.
    """

    type_: str
    logical_id: str
    version: str
    at: datetime | None
    resource: JsonObject | None
    related: Mapping[str, JsonObject]

    @property
    def deleted(self) -> bool:
        """Whether the resource is gone."""
        return self.resource is None

    @property
    def reference(self) -> str:
        """The resource, as `Patient/1`."""
        return f"{self.type_}/{self.logical_id}"

    @property
    def name(self) -> str:
        """What tells it from every other event of its server, as `Patient/1/3`; without a version the resource."""
        return f"{self.reference}/{self.version}" if self.version else self.reference


def read_event(raw: bytes) -> FhirEvent:
    """Return the event that one piece of `split` is; EventError where it is none."""
    whole = _object(raw)
    if whole.get("resourceType") != "Bundle":
        return _event({"resource": whole}, {})
    entries = [one for one in whole.get("entry") or () if isinstance(one, dict)]
    if not entries:
        raise EventError(NO_EVENT)
    related = {}
    for one in entries[1:]:
        resource = one.get("resource")
        if isinstance(resource, dict) and isinstance(resource.get("id"), str):
            for name in _names(one):
                related[name] = resource
    return _event(entries[0], related)


def deletion(type_: str, logical_id: str) -> bytes:
    """Return a deletion as one piece, of which a server says nothing but the resource."""
    return _piece(orjson.dumps({"request": {"method": DELETE, "url": f"{type_}/{logical_id}"}}).decode())


def split(raw: bytes) -> tuple[bytes, ...]:
    """Cut what a server sent into one piece an event, the oldest first; each holds the very text of what it is made of.

    A resource is one event, and its own piece. Of a Bundle each Patient and Encounter is one, and each deletion of
    one: of a message those that its MessageHeader has as focus, of a history all, whose newest comes first. What an
    event refers to and the Bundle holds is in its piece. EventError for what is neither.
    """
    whole = _object(raw)
    if not isinstance(whole.get("resourceType"), str):
        raise EventError(NO_RESOURCE)
    if whole["resourceType"] != "Bundle":
        return (raw,)
    texts = _entry_texts(raw.decode())
    entries = [_Item(text, orjson.loads(text)) for text in texts]
    entries = [one for one in entries if isinstance(one.value, dict)]
    focus = _focus(entries)
    events = [one for one in entries if _type_of(one.value) in TYPES and (focus is None or focus & _names(one.value))]
    if whole.get("type") == "history":
        return tuple(_piece(one.text) for one in reversed(events))
    by_name = {name: one for one in entries for name in _names(one.value)}
    return tuple(_piece(one.text, *(each.text for each in _reached(one, by_name))) for one in events)


class _Item(NamedTuple):
    """One entry of a Bundle: its text as it came, and what it says."""

    text: str
    value: Any


def _object(raw: bytes) -> JsonObject:
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise EventError(NOT_JSON) from error
    if not isinstance(value, dict):
        raise EventError(NO_RESOURCE)
    return value


def _piece(*texts: str) -> bytes:
    return f'{{"resourceType":"Bundle","type":"collection","entry":[{",".join(texts)}]}}'.encode()


def _entry_texts(text: str) -> list[str]:
    """Return the text of each entry of a Bundle, which is known to be JSON; of a key that is there twice, the last."""
    found: list[str] = []
    for key, begin in _members(text):
        if key == "entry":
            found = [text[start:end] for start, end in _items(text, begin)] if text[begin] == "[" else []
    return found


_DECODER: Final = json.JSONDecoder()


def _members(text: str) -> Iterator[tuple[str, int]]:
    """Yield each key of the object that a text is, and where its value begins."""
    at = _skip(text, _skip(text, 0) + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        begin = _skip(text, _skip(text, at) + 1)
        yield key, begin
        at = _next(text, _DECODER.raw_decode(text, begin)[1])


def _items(text: str, begin: int) -> Iterator[tuple[int, int]]:
    """Yield where each item of a list begins and ends."""
    at = _skip(text, begin + 1)
    while text[at] != "]":
        end = _DECODER.raw_decode(text, at)[1]
        yield at, end
        at = _next(text, end)


def _next(text: str, at: int) -> int:
    """Return where the next member or item begins, or the bracket that ends them all."""
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _focus(entries: list[_Item]) -> set[str] | None:
    """Return what a message is about, by reference; None for a Bundle that is no message."""
    headers = [one.value["resource"] for one in entries if _type_of(one.value) == "MessageHeader"]
    focus = [each.get("reference") for one in headers for each in one.get("focus") or () if isinstance(each, dict)]
    return {each for each in focus if isinstance(each, str)} if focus else None


def _reached(entry: _Item, by_name: Mapping[str, _Item]) -> list[_Item]:
    """Return the entries that one refers to, directly or through others."""
    found: dict[int, _Item] = {}
    heads = [entry]
    for _ in range(DEPTH):
        named = [by_name[name] for head in heads for name in _references(head.value) if name in by_name]
        heads = [one for one in named if one is not entry and id(one.value) not in found]
        found |= {id(one.value): one for one in heads}
    return list(found.values())


def references(value: Any) -> tuple[str, ...]:
    """Return what a resource refers to, each once and as it is written."""
    return tuple(dict.fromkeys(_references(value)))


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        reference = value.get("reference")
        if isinstance(reference, str):
            yield reference
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def relative(reference: str) -> str:
    """Return a reference as `Type/id`, without the base it may have and without a version; '' for any other."""
    found = _REFERENCE.fullmatch(reference)
    return f"{found[1]}/{found[2]}" if found else ""


def local(reference: str, base: str) -> str:
    """Return a reference to a resource of the server of a base URL as `Type/id`; '' for any other."""
    elsewhere = "://" in reference and not reference.startswith(f"{base.rstrip('/')}/")
    return "" if elsewhere else relative(reference)


def _names(entry: Any) -> set[str]:
    """Return what an entry may be referred to by."""
    resource, url = entry.get("resource"), entry.get("fullUrl")
    names = {url} if isinstance(url, str) else set()
    if isinstance(resource, dict) and isinstance(resource.get("id"), str):
        names.add(f"{resource.get('resourceType')}/{resource['id']}")
    return names


def _type_of(entry: Any) -> str:
    resource = entry.get("resource")
    if isinstance(resource, dict):
        return str(resource.get("resourceType"))
    return _deleted(entry)[0]


def _deleted(entry: Any) -> tuple[str, str]:
    """Return type and id of what an entry says was deleted; empty where it says no such thing."""
    request = entry.get("request")
    if not isinstance(request, dict) or request.get("method") != DELETE:
        return "", ""
    found = relative(str(request.get("url") or "")) or relative(str(entry.get("fullUrl") or ""))
    type_, _, logical_id = found.partition("/")
    return type_, logical_id


def _event(entry: JsonObject, related: Mapping[str, JsonObject]) -> FhirEvent:
    response = entry.get("response")
    answer: JsonObject = response if isinstance(response, dict) else {}
    tag, at = _ETAG.fullmatch(str(answer.get("etag") or "")), moment_of(answer.get("lastModified"))
    version = tag[1] if tag else ""
    resource = entry.get("resource")
    type_, deleted_id = _deleted(entry)
    if type_:
        return FhirEvent(type_, deleted_id, version, at, None, related)
    if not isinstance(resource, dict) or not isinstance(resource.get("resourceType"), str):
        raise EventError(NO_RESOURCE)
    logical_id = resource.get("id")
    if not isinstance(logical_id, str) or not _ID.fullmatch(logical_id):
        raise EventError(NO_ID)
    meta = resource.get("meta")
    stated: JsonObject = meta if isinstance(meta, dict) else {}
    own = stated.get("versionId")
    if isinstance(own, str) and _ID.fullmatch(own):
        version = own
    at = moment_of(stated.get("lastUpdated")) or at
    return FhirEvent(resource["resourceType"], logical_id, version, at, resource, related)


def moment_of(text: Any) -> datetime | None:
    """Return an instant; None for what is none, and for one without an offset."""
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None
