"""Tables and authorities read backwards: from FHIR codes to those of HL7, from systems to assigning authorities."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from engine.mapping.files.document import Document, Problems
from engine.mapping.files.reference import nearest
from engine.mapping.files.table import V2_SYSTEM, MappingTable
from engine.mapping.language.check_table import BACK
from engine.mapping.language.coding import LOCAL_CODES
from engine.mapping.language.identifier import OID
from engine.mapping.outgoing.change import OutgoingSetting

OID_URN: Final = "urn:oid:"
UUID_URN: Final = "urn:uuid:"
PLACE: Final = re.compile(r"[A-Z][A-Z0-9]{2}-\d{1,3}")
V2_TABLE: Final = re.compile(re.escape(V2_SYSTEM) + r"(\d{4})")
MOST_NAMED: Final = 3


class BackwardTable:
    """One table read backwards.

    Where several HL7 codes have one FHIR code, the file's `back` says which is written, or that none is; else the one
    that is the FHIR code itself.
    """

    def __init__(self, table: MappingTable, back: Mapping[str, str | None]) -> None:
        self.name = table.name
        self.hl7 = table.hl7
        self._table = table
        self._of: dict[tuple[str, str], str] = {}
        self._by_code: dict[str, str] = {}
        for key, names in _inverse(table).items():
            written, _ = _chosen(key, names, back)
            if written is not None:
                self._of[key] = written
                self._by_code.setdefault(key[1], written)

    def of_code(self, code: str) -> str | None:
        """Return the HL7 code of a FHIR code, whatever its system; None if the table has none."""
        return self._by_code.get(code)

    def of_coding(self, coding: Mapping[str, Any]) -> str | None:
        """Return the HL7 code of a coding: by its system, or a code of the HL7 table itself; None for any other."""
        system, code = str(coding.get("system") or ""), str(coding.get("code") or "")
        if found := self._of.get((system, code)):
            return found
        return code if code and system and system == self._table.original_system else None

    def has(self, code: str) -> bool:
        """True if the table has an HL7 code, in any spelling."""
        return self._table.key(code) is not None


def check_backward(table: MappingTable, document: Document, problems: Problems) -> BackwardTable:
    """Return a table read backwards; a FHIR code of several HL7 codes that no line of `back` decides is a problem."""
    back = document.value.get(BACK) or {}
    inverse = _inverse(table)
    undecided = {key: names for key, names in inverse.items() if not _chosen(key, names, back)[1]}
    for (_, code), names in list(undecided.items())[:MOST_NAMED]:
        found = f"{' and '.join(names[:MOST_NAMED])} are all {code!r}, so that the table cannot be read backwards"
        problems.add(document, ("codes", names[1]), found, f"say which is written: {BACK}: {{{code}: {names[0]}}}")
    known = {text: names for (system, code), names in inverse.items() for text in (code, f"{system}|{code}")}
    for code, written in back.items():
        if code not in known or (written and written not in known[code]):
            expected = nearest(written or "", set(known[code])) if code in known else "give a FHIR code of this table"
            problems.add(document, (BACK, code), f"found {code}: {written}", expected)
    return BackwardTable(table, back)


def _inverse(table: MappingTable) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for name, target in table.codes.items():
        if target:
            found.setdefault((target.system, target.code), []).append(name)
    return found


def _chosen(key: tuple[str, str], names: list[str], back: Mapping[str, str | None]) -> tuple[str | None, bool]:
    """Return the HL7 code that is written, and whether that is decided; None where the table says that none is."""
    for said in (f"{key[0]}|{key[1]}", key[1]):
        if said in back:
            return back[said] or None, True
    if len(names) == 1 or key[1] in names:
        return (names[0] if len(names) == 1 else key[1]), True
    return None, False


class SystemName:
    """The name of a coding system in CWE.3, by the table coding-system read backwards."""

    def __init__(self, table: BackwardTable | None) -> None:
        self._table = table

    def of(self, system: str) -> str:
        """Return the name; HL7nnnn for tables of HL7 v2, and the URI itself where there is no name."""
        if match := V2_TABLE.fullmatch(system):
            return f"HL7{match[1]}"
        if system.startswith(LOCAL_CODES):
            return unquote(system.removeprefix(LOCAL_CODES))
        if self._table is not None and (name := self._table.of_code(system)):
            return name
        return system.removeprefix(OID_URN) if system.startswith(OID_URN) else system


class NumberAuthority(NamedTuple):
    """What a FHIR system says in an HD and beside it: namespace, universal id with its type, type of number, field.

    `configured`: the setting names it. `place`: the field whose numbers without an authority have this system, or
    the word before the colon of a system of this engine (`DL` of `DL:NY`).
    """

    namespace: str = ""
    universal: str = ""
    kind: str = ""
    type_: str = ""
    place: str = ""
    configured: bool = False


class BackwardAuthorities:
    """The systems of identifiers read backwards by one destination's setting."""

    def __init__(self, setting: OutgoingSetting, systems: Mapping[str, str]) -> None:
        self._base = setting.base_uri
        self._own = {uri: type_ for type_, uri in systems.items()}
        self._named: dict[str, list[str]] = {}
        for name, uri in setting.authorities.items():
            self._named.setdefault(uri, []).append(name)
        self.of = lru_cache(maxsize=1024)(self._of)

    def _of(self, system: str) -> NumberAuthority:
        if system in self._named:
            return self._configured(self._named[system])
        if system in self._own:
            return NumberAuthority(type_=self._own[system], configured=True)
        whole, mark, type_ = system.rpartition("#")
        if mark:
            return self._of(whole)._replace(type_=unquote(type_))
        if system.startswith(self._base):
            name = unquote(system.removeprefix(self._base))
            of_place = PLACE.fullmatch(name) or ":" in name
            namespace = "" if of_place or name == "default" else name
            return NumberAuthority(namespace, place=name.partition(":")[0] if of_place else "")
        return _universal(system)

    def _configured(self, names: list[str]) -> NumberAuthority:
        """Return the first name that is a namespace, the first that is a universal id, and the type that one says."""
        bare = [name.partition("^")[0] for name in names]
        type_ = next((name.partition("^")[2] for name in names if "^" in name), "")
        universal = next((name for name in bare if OID.fullmatch(name)), "")
        namespace = next((name for name in bare if name and name != universal), "")
        untyped = any("^" not in name for name in names)
        kind = "ISO" if universal else ""
        return NumberAuthority(namespace, universal, kind, "" if untyped else type_, configured=True)


def _universal(system: str) -> NumberAuthority:
    """Return the universal id that a system is: an OID, a UUID, or the URI itself."""
    if system.startswith(OID_URN) and OID.fullmatch(system.removeprefix(OID_URN)):
        return NumberAuthority(universal=system.removeprefix(OID_URN), kind="ISO")
    if system.startswith(UUID_URN):
        return NumberAuthority(universal=system.removeprefix(UUID_URN), kind="UUID")
    return NumberAuthority(universal=system, kind="URI" if system else "")
