"""The sections of a document, in their order."""

from typing import Final

from engine.interchange.ccda.section import Section
from engine.interchange.ccda.sections.allergies import ALLERGIES
from engine.interchange.ccda.sections.encounters import ENCOUNTERS
from engine.interchange.ccda.sections.family import FAMILY_HISTORY
from engine.interchange.ccda.sections.goals import GOALS
from engine.interchange.ccda.sections.immunizations import IMMUNIZATIONS
from engine.interchange.ccda.sections.medications import MEDICATIONS
from engine.interchange.ccda.sections.payers import PAYERS
from engine.interchange.ccda.sections.plan import PLAN
from engine.interchange.ccda.sections.problems import PROBLEMS
from engine.interchange.ccda.sections.procedures import PROCEDURES
from engine.interchange.ccda.sections.results import RESULTS
from engine.interchange.ccda.sections.social import SOCIAL_HISTORY
from engine.interchange.ccda.sections.vitals import VITAL_SIGNS

SECTIONS: Final[tuple[Section, ...]] = (
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
