"""A chart as a Continuity of Care Document (C-CDA R2.1, LOINC 34133-9), and the order of its sections."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from lxml import etree

from engine.fhir.json import JsonObject
from engine.interchange.clinical.ccda.element import NAMESPACES, V3, add
from engine.interchange.clinical.ccda.header import add_header
from engine.interchange.clinical.ccda.record import Custodian, DocumentRecord
from engine.interchange.clinical.ccda.section import SectionWriter, add_section
from engine.interchange.clinical.ccda.sections.allergies import ALLERGIES
from engine.interchange.clinical.ccda.sections.encounters import ENCOUNTERS
from engine.interchange.clinical.ccda.sections.family import FAMILY_HISTORY
from engine.interchange.clinical.ccda.sections.goals import GOALS
from engine.interchange.clinical.ccda.sections.immunizations import IMMUNIZATIONS
from engine.interchange.clinical.ccda.sections.medications import MEDICATIONS
from engine.interchange.clinical.ccda.sections.payers import PAYERS
from engine.interchange.clinical.ccda.sections.plan import PLAN
from engine.interchange.clinical.ccda.sections.problems import PROBLEMS
from engine.interchange.clinical.ccda.sections.procedures import PROCEDURES
from engine.interchange.clinical.ccda.sections.results import RESULTS
from engine.interchange.clinical.ccda.sections.social import SOCIAL_HISTORY
from engine.interchange.clinical.ccda.sections.vitals import VITAL_SIGNS

SECTIONS: Final[tuple[SectionWriter, ...]] = (
    ALLERGIES,
    MEDICATIONS,
    PROBLEMS,
    PROCEDURES,
    RESULTS,
    VITAL_SIGNS,
    IMMUNIZATIONS,
    ENCOUNTERS,
    PLAN,
    SOCIAL_HISTORY,
    FAMILY_HISTORY,
    GOALS,
    PAYERS,
)


# Characters that XML 1.0 forbids in every form.
FORBIDDEN: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class DocumentChart:
    """A patient and what is kept of it: resources of R4, with the directory entries that they name."""

    patient: JsonObject = field(repr=False)
    resources: Sequence[JsonObject] = field(repr=False)


def write_ccd(chart: DocumentChart, *, document_id: str, at: datetime, zone: ZoneInfo, custodian: Custodian) -> bytes:
    """Return a chart as a CCD, in UTF-8: the same bytes for the same chart, id, moment, zone and custodian.

    What was entered in error is not in it. A character that XML forbids becomes U+FFFD.
    """
    try:
        return _written(chart, document_id, at, zone, custodian)
    except ValueError:
        # lxml refuses such characters; to look for them first would cost every chart what hardly one has.
        clean = DocumentChart(_clean(chart.patient), _clean(chart.resources))
        return _written(clean, document_id, at, zone, custodian)


def _written(chart: DocumentChart, document_id: str, at: datetime, zone: ZoneInfo, custodian: Custodian) -> bytes:
    record = DocumentRecord.of(chart.patient, chart.resources, custodian, zone, at)
    document = etree.Element(f"{{{V3}}}ClinicalDocument", nsmap=NAMESPACES)
    add_header(document, record, document_id)
    body = add(add(document, "component"), "structuredBody")
    for section in SECTIONS:
        add_section(body, section, record)
    return etree.tostring(document, encoding="UTF-8", xml_declaration=True)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, dict):
        return {key: _clean(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(part) for part in value]
    return value
