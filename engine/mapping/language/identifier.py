"""Identifiers (CX): which identify the person, and the FHIR system of each (HD to URI).

The system: the channel's map of authorities by namespace (HD.1) or universal id (HD.2); else ISO, UUID and URI
universal ids as they are; else the channel's base URI and the namespace, which is an unknown authority. FHIR searches
by system and value alone, so a number of a type that is no identity (AN, DL ...) never shares the system of medical
record numbers: it gets a system of its own (`systems` in the mapping, `RVB^AN` in the channel's map, else `#AN` added).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from engine.config.text import URI
from engine.fhir.plan import Identity
from engine.hl7.leaf import Null
from engine.mapping.files.setting import Setting
from engine.mapping.language.bounded_cache import BoundedCache
from engine.mapping.language.number_form import AS_SENT, NumberForm
from engine.mapping.language.reading import Cells

OID: Final = re.compile(r"[0-2](?:\.(?:0|[1-9][0-9]{0,38})){1,40}")
UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
MAX_KEPT: Final = 1024
# The fields of MRG that correspond to those of PID on the merged side.
MERGED: Final = {"PID-3": "MRG-1", "PID-4": "MRG-2", "PID-2": "MRG-4"}
_SURVIVING: Final = {merged: name for name, merged in MERGED.items()}


class Preference(NamedTuple):
    """One line of the preferred order; an empty part matches anything."""

    authority: str
    type_: str


class NamedField(NamedTuple):
    """The type and the FHIR system that the mapping gives to the numbers of a field without an authority."""

    type_: str
    system: str


@dataclass(frozen=True, slots=True)
class IdentityRules:
    """The mapping's rules of identity.

    `fields` are the fields whose identifiers may identify the person; `untyped` is the type of those without one.
    `systems` are the FHIR systems of types that have one of their own (SS). `named`: further fields (PID-19, ZID-3),
    whose type and system the mapping names. `normalise`: the form of the numbers of an authority.
    """

    fields: tuple[str, ...] = ("PID-3",)
    not_identity: frozenset[str] = frozenset()
    prefer: tuple[Preference, ...] = ()
    untyped: str = ""
    placeholders: frozenset[str] = frozenset()
    systems: dict[str, str] = field(default_factory=dict)
    named: dict[str, NamedField] = field(default_factory=dict)
    normalise: dict[str, NumberForm] = field(default_factory=dict)


class IdentifierSystem(NamedTuple):
    """A FHIR system; `configured`: the channel names it; `known`: the channel or the message itself makes it unique."""

    uri: str
    configured: bool
    known: bool


class MessageIdentifier(NamedTuple):
    """An identifier of a message: its type, rank in the preferred order, system, field and repetition.

    `as_sent`: its value in the message, where `normalise` gives it another form; else empty.
    """

    identity: Identity
    type_: str
    rank: int
    system: IdentifierSystem
    place: str
    repetition: int
    as_sent: str = ""

    @property
    def location(self) -> str:
        """The path of the identifier, `PID-3(2)`."""
        return f"{self.place}({self.repetition})"

    @property
    def original(self) -> Identity | None:
        """The identity as the message spells it; None where that is its form."""
        return Identity(self.identity.system, self.as_sent) if self.as_sent else None

    def unformed(self) -> "MessageIdentifier":
        """Return the identifier as the message spells it."""
        return self._replace(identity=self.original or self.identity, as_sent="")


class Authority(NamedTuple):
    """An assigning authority (HD): namespace, universal id and its type; all empty if there is none."""

    namespace: str
    universal: str
    kind: str


class Identifiers:
    """Reads identifiers by the rules of one mapping on one channel."""

    def __init__(self, rules: IdentityRules, setting: Setting) -> None:
        self.rules = rules
        self._setting = setting
        self._fields = frozenset(rules.fields) | {MERGED[name] for name in rules.fields if name in MERGED}
        self._placeholders = frozenset(
            value.casefold() for value in (*rules.placeholders, *setting.placeholder_identifiers)
        )
        self._configured = frozenset(setting.authorities.values())
        self._own_systems = frozenset(rules.systems.values())
        self._systems: BoundedCache[tuple[str, str, str, str, str], tuple[IdentifierSystem, int]] = BoundedCache(
            MAX_KEPT
        )
        self._others: BoundedCache[tuple[str, ...], str] = BoundedCache(MAX_KEPT)
        self.forms = {system_named(name, setting): form for name, form in rules.normalise.items()}

    def placeholder(self, value: str) -> bool:
        """True if a whole value is a stand-in: all zeros, three or more nines, or a configured word."""
        bare = value.replace("-", "").replace(" ", "")
        if not bare.strip("0") or (len(bare) >= 3 and not bare.strip("9")):
            return True
        return value.casefold() in self._placeholders

    def is_nobody(self, one: MessageIdentifier) -> bool:
        """True if a number is a stand-in, as the message spells it or in its form."""
        return self.placeholder(one.identity.value) or bool(one.as_sent and self.placeholder(one.as_sent))

    def type_of(self, cells: Cells, place: str) -> str:
        """Return CX.5, or the type of untyped numbers in a field of identities."""
        first = cells.first
        if len(first) > 4 and (type_ := first[4]):
            return type_
        return self.rules.untyped if place in self._fields else ""

    def expired(self, cells: Cells, today: str) -> bool:
        """True if CX.8 is before the day of the message's own event (YYYYMMDD; empty: never)."""
        first = cells.first
        if len(first) < 8 or not today:
            return False
        until = first[7]
        if isinstance(until, Null) or not until[:8].isdigit():
            return False
        until = until[:8]
        return until < today[: len(until)]

    def identity(self, cells: Cells, place: str, today: str, repetition: int = 1) -> MessageIdentifier | None:
        """Return the identity of an identifier; None if it is empty, expired or of a type that identifies nobody.

        Callers test `is_nobody`, too.
        """
        value = cells.first[0] if cells.first else ""
        if (named := self.rules.named.get(place)) is not None:
            if not value or self.expired(cells, today):
                return None
            system = IdentifierSystem(named.system, configured=True, known=True)
            return self._formed(value, named.type_, self._rank("", named.type_), system, place, repetition)
        type_ = self.type_of(cells, place)
        if not value or type_ in self.rules.not_identity or self.expired(cells, today):
            return None
        system, rank = self._ranked(cells, type_, place)
        return self._formed(value, type_, rank, system, place, repetition)

    def _formed(
        self, value: str, type_: str, rank: int, system: IdentifierSystem, place: str, repetition: int
    ) -> MessageIdentifier:
        form = self.forms.get(system.uri) if self.forms else None
        number = value if form is None else form.of(value)
        as_sent = "" if number == value else value
        return MessageIdentifier(Identity(system.uri, number), type_, rank, system, place, repetition, as_sent)

    def written(self, item: Any) -> tuple[Any, ...]:
        """Return a FHIR Identifier as it is written: in the form of its system, and as sent where that is kept.

        None at all where its form is a placeholder.
        """
        form, value = self.forms.get(item.get("system", "")), item["value"]
        if form is None or (number := form.of(value)) == value:
            return (item,)
        if self.placeholder(number):
            return ()
        formed = {**item, "value": number}
        if not form.keep_original:
            return (formed,)
        original = {"use": "secondary", "system": item["system"] + AS_SENT, "value": value}
        return formed, original

    def system(self, cells: Cells, place: str) -> IdentifierSystem:
        """Return the FHIR system of an identifier at a place (`PID-3`)."""
        return self._ranked(cells, self.type_of(cells, place), place)[0]

    def _ranked(self, cells: Cells, type_: str, place: str) -> tuple[IdentifierSystem, int]:
        """Return the system of an identifier, and its rank in the preferred order."""
        first = cells.first
        namespace = (first[3] or "") if len(first) > 3 else ""
        universal = kind = ""
        if cells.repetition is not None:
            universal, kind = cells.leaf(4, 2) or "", cells.leaf(4, 3) or ""
        key = (namespace, universal, kind, type_, place)
        known = self._systems.get(key)
        return known or self._systems.keep(key, (self._resolve(*key), self._rank(namespace, type_)))

    def resource_system(self, authority: Authority, type_: str, facility: str, own: str = "") -> str:
        """Return the system of a number of a type (VN, PRN, bed) that does not identify a person.

        That of its authority for the type, as the channel names it (`RVB^VN`), or else `#VN` added to the authority's
        system; without an authority that of the sending `facility`: such numbers are rarely unique beyond it.
        `own`: a word, for numbers of one system in all of the engine.
        """
        key = (*authority, type_, facility, own)
        system = self._others.get(key)
        if system is None:
            system = self._setting.base_uri + own if own else self._resource_system(authority, type_, facility)
            self._others.keep(key, system)
        return system

    def _resource_system(self, authority: Authority, type_: str, facility: str) -> str:
        if type_ in self.rules.systems:
            return self.rules.systems[type_]
        authorities, base = self._setting.authorities, self._setting.base_uri
        names = [name for name in authority[:2] if name] or [facility or ""]
        for name in names:
            if f"{name}^{type_}" in authorities:
                return authorities[f"{name}^{type_}"]
        known = next((authorities[name] for name in names if name in authorities), "")
        uri = known or universal_uri(authority.universal, authority.kind)
        return f"{uri or base + quote(names[0] or 'default', safe='')}#{quote(type_, safe='')}"

    def _rank(self, namespace: str, type_: str) -> int:
        ranks = (
            number
            for number, wish in enumerate(self.rules.prefer)
            if wish.authority in {"", namespace} and wish.type_ in {"", type_}
        )
        return next(ranks, len(self.rules.prefer))

    def _resolve(self, namespace: str, universal: str, kind: str, type_: str, place: str) -> IdentifierSystem:
        system = self._authority(namespace, universal, kind, place)
        if type_ in self.rules.systems and type_ not in self.rules.not_identity and not system.configured:
            return IdentifierSystem(self.rules.systems[type_], configured=True, known=True)
        if type_ not in self.rules.not_identity or system.uri in self._own_systems:
            return system
        for name in (namespace, universal):
            own = self._setting.authorities.get(f"{name}^{type_}")
            if own:
                return IdentifierSystem(own, configured=True, known=True)
        named = namespace or universal
        if type_ in self.rules.systems and not (named and system.configured):
            return IdentifierSystem(self.rules.systems[type_], configured=True, known=True)
        return system._replace(uri=f"{system.uri}#{quote(type_, safe='')}")

    def _authority(self, namespace: str, universal: str, kind: str, place: str) -> IdentifierSystem:
        authorities = self._setting.authorities
        if not namespace and not universal and place not in self._fields:
            return IdentifierSystem(self._setting.base_uri + _SURVIVING.get(place, place), configured=False, known=True)
        for name in (namespace, universal):
            if (name or not (namespace or universal)) and name in authorities:
                return IdentifierSystem(authorities[name], configured=True, known=True)
        uri = universal_uri(universal, kind)
        if uri:
            return IdentifierSystem(uri, configured=uri in self._configured, known=True)
        name = namespace or universal or "default"
        return IdentifierSystem(self._setting.base_uri + quote(name, safe=""), configured=False, known=False)


def same_person(one: Sequence[MessageIdentifier], other: Sequence[MessageIdentifier]) -> bool:
    """True if two PIDs name one patient: the first number of one is among those of the other."""
    listed = [{found.identity for found in side} for side in (other, one)]
    return any(side and side[0].identity in among for side, among in zip((one, other), listed, strict=True))


def universal_uri(universal: str, kind: str) -> str:
    """Return the URI of a universal id (HD.2 with HD.3 ISO, UUID, GUID or URI); empty for any other."""
    kind = kind.upper()
    if kind == "ISO" and OID.fullmatch(universal):
        return f"urn:oid:{universal}"
    if kind in {"UUID", "GUID"} and UUID.fullmatch(universal):
        return f"urn:uuid:{universal.lower()}"
    return universal if kind == "URI" and URI.fullmatch(universal) else ""


def system_named(name: str, setting: Setting) -> str:
    """Return the FHIR system of an authority that a file names by its namespace, its universal id, or the system."""
    kind = "ISO" if OID.fullmatch(name) else "UUID" if UUID.fullmatch(name) else "URI"
    known = setting.authorities.get(name) or universal_uri(name, kind)
    return known or setting.base_uri + quote(name or "default", safe="")
