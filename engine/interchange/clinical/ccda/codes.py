"""Codes of FHIR as those of CDA: with OIDs, translations, the original text, and a null flavor where none fits."""

from collections.abc import Sequence
from typing import Final

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.element import TYPE, Element, add
from engine.interchange.clinical.ccda.systems import CdaSystem, derived_oid, system_by_uri

Fixed = dict[str, str]

LOINC_URI: Final = "http://loinc.org"
LOINC: Final = "2.16.840.1.113883.6.1"
SNOMED: Final = "2.16.840.1.113883.6.96"
RXNORM: Final = "2.16.840.1.113883.6.88"
CVX: Final = "2.16.840.1.113883.12.292"
ACT_CODE: Final = "2.16.840.1.113883.5.4"


def loinc(code: str, display: str) -> Fixed:
    """Return the attributes of a LOINC code; `display` may be ''."""
    fixed = {"code": code, "codeSystem": LOINC, "codeSystemName": "LOINC"}
    return {**fixed, "displayName": display} if display else fixed


def snomed(code: str, display: str) -> Fixed:
    """Return the attributes of a SNOMED CT code."""
    return {"code": code, "codeSystem": SNOMED, "codeSystemName": "SNOMED CT", "displayName": display}


ASSERTION: Final = {"code": "ASSERTION", "codeSystem": ACT_CODE, "codeSystemName": "HL7ActCode"}


def label(concept: JsonObject | None) -> str:
    """Return what people read of a CodeableConcept: its text, the name of a code, or a code; '' for nothing."""
    if not concept:
        return ""
    if concept.get("text"):
        return str(concept["text"])
    codings = concept.get("coding") or ()
    for coding in codings:
        if coding.get("display"):
            return str(coding["display"])
    return next((str(one["code"]) for one in codings if one.get("code")), "")


def labels(concepts: Sequence[JsonObject] | None) -> str:
    """Return what people read of several concepts."""
    return ", ".join(text for text in map(label, concepts or ()) if text)


def has_code(concept: JsonObject | None, *codes: str) -> bool:
    """Say whether one of a concept's codings is one of some codes."""
    return any(coding.get("code") in codes for coding in (concept or {}).get("coding") or ())


def add_code(
    parent: Element,
    tag: str,
    concept: JsonObject | None,
    *,
    prefer: Sequence[str] = (),
    demand: str = "",
    data_type: str = "",
    anchor: str = "",
) -> Element:
    """Append a CodeableConcept.

    The first code of the first system that the template prefers is the main code, the others are translations. A code
    whose system has no registered OID is never the main code: the null flavor OTH is, as where the template demands a
    system (`demand`) that no code has. `anchor` is the place of the text in the narrative.
    """
    concept = concept or {}
    known, others = _sorted(concept.get("coding") or (), (demand,) if demand else prefer)
    front = known[0] if known and (not demand or known[0][0].oid == demand) else None
    if front:
        made = add(parent, tag, **_attributes(*front))
    else:
        made = add(parent, tag, nullFlavor="OTH" if concept.get("text") or known or others else "UNK")
    if data_type:
        made.set(TYPE, data_type)
    text = concept.get("text") or ("" if front else label(concept))
    if text:
        original = add(made, "originalText", text)
        if anchor:
            add(original, "reference", value=f"#{anchor}")
    for system, coding in (*known[1 if front else 0 :], *others):
        add(made, "translation", **_attributes(system, coding))
    return made


def is_loinc(concept: JsonObject | None, *codes: str) -> bool:
    """Say whether one of a concept's codings is one of some codes of LOINC."""
    return any(
        coding.get("code") in codes and coding.get("system") == LOINC_URI
        for coding in (concept or {}).get("coding") or ()
    )


def coded(concept: JsonObject | None) -> bool:
    """Say whether a concept has a code of a system with a registered OID."""
    return any(
        coding.get("code") and system_by_uri(coding.get("system", "")) for coding in (concept or {}).get("coding") or ()
    )


def _sorted(
    codings: Sequence[JsonObject], prefer: Sequence[str]
) -> tuple[list[tuple[CdaSystem, JsonObject]], list[tuple[CdaSystem, JsonObject]]]:
    """Return the codings of systems with an OID, the preferred first, and those of others."""
    known, others = [], []
    for coding in codings:
        if not coding.get("code", "").strip():
            continue
        uri = coding.get("system", "")
        system = system_by_uri(uri)
        if system:
            known.append((system, coding))
        elif uri:
            others.append((CdaSystem(uri, derived_oid(uri), uri), coding))
    if len(known) > 1:
        rank = {oid: at for at, oid in enumerate(prefer)}
        known.sort(key=lambda one: rank.get(one[0].oid, len(rank)))
    return known, others


def _attributes(system: CdaSystem, coding: JsonObject) -> Fixed:
    made = {"code": "".join(coding["code"].split()), "codeSystem": system.oid, "codeSystemName": system.name}
    if coding.get("display"):
        made["displayName"] = coding["display"]
    return made
