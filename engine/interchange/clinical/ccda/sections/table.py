"""The sections of a document, in their order."""

from typing import Final

from engine.interchange.clinical.ccda.section import SectionWriter
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
