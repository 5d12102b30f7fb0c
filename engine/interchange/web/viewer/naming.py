"""Names of concepts as clinicians say them, and their codes on demand."""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

from engine.fhir.json import Json
from engine.interchange.clinical.ccda.codes import system_by_uri
from engine.interchange.clinical.terms import LOINC, SNOMED

Concept = Mapping[str, Json]

# What a full name adds that the short one leaves out. Other specimens and methods stay: urine is not blood.
PROPERTY: Final = re.compile(r" \[[^\]]*\]")
USUAL_SPECIMEN: Final = re.compile(
    r" in (Serum or Plasma|Serum, Plasma or Blood|Blood)( by (Automated count|calculation))?$"
)
# The kind of a SNOMED CT concept in its fully specified name.
SEMANTIC_TAG: Final = re.compile(r" \((disorder|finding|procedure|situation|substance|event|product|regime/therapy)\)$")


def short_name(concept: Concept | None) -> str:
    """Return the name that the author wrote, else the code's display without what people leave out; '' for none."""
    held = concept or {}
    display = str(held.get("display") or held.get("code") or "")
    written = held.get("text")
    if written:
        return str(written)
    if held.get("codeSystem") == LOINC:
        return USUAL_SPECIMEN.sub("", PROPERTY.sub("", display)) or display
    return SEMANTIC_TAG.sub("", display) if held.get("codeSystem") == SNOMED else display


def short_names(concepts: Iterable[Concept] | None) -> str:
    """Return the names of several concepts, each once; '' for none."""
    return ", ".join(dict.fromkeys(filter(None, map(short_name, concepts or ()))))


def coded(concept: Concept | None) -> str:
    """Return the full name where it is not the short one, and the code with its system; '' for a text alone."""
    held = concept or {}
    display, code = str(held.get("display", "")), str(held.get("code", ""))
    full = display if display not in {short_name(held), code} else ""
    return " · ".join(filter(None, (full, _code(held) if code else "")))


def all_coded(concepts: Iterable[Concept] | None) -> str:
    """Return the full names and codes of several concepts; '' where all are texts."""
    return "; ".join(dict.fromkeys(filter(None, map(coded, concepts or ()))))


def key_of(concept: Concept | None) -> str:
    """Return a concept as a value of a filter; a text goes into no address, and is a digest of itself."""
    held = concept or {}
    named = short_name(held)
    return str(held.get("code") or (sha256(named.encode()).hexdigest()[:16] if named else ""))


def listed_name(patient: Mapping[str, Json]) -> str:
    """Return the name of a patient with the family name first, and no part left out; '' for none."""
    name, family = str(patient.get("name", "")), _family(patient)
    rest = " ".join(name.replace(family, " ", 1).split())
    return f"{family}, {rest}" if family and rest else name


def by_name(patient: Mapping[str, Json]) -> tuple[str, str, str]:
    """Return the key of a patient in a list: name, then birth date."""
    return _family(patient).casefold(), listed_name(patient).casefold(), str(patient.get("birthDate", ""))


def _family(patient: Mapping[str, Json]) -> str:
    """Return the family name that is part of the name as it is shown."""
    names = patient.get("names", ())
    families = (str(one.get("family", "")) for one in names) if isinstance(names, list) else ()
    return next((family for family in families if family and family in str(patient.get("name", ""))), "")


def _code(concept: Concept) -> str:
    uri = str(concept.get("codeSystem", ""))
    system = system_by_uri(uri)
    return f"{system.name if system else uri} {concept.get('code', '')}".strip()
