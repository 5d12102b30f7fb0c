"""Routes addresses below /chart/v1/ to interactions by the table of categories; 404 for all others."""

from functools import partial
from typing import Final, NamedTuple

from engine.fhir.primitives import ID
from engine.fhir.schema import FhirVersion
from engine.interchange.core.exchange import Interaction, InteractionLevel, RequiredAccess
from engine.interchange.kernel.outcome import Category, refuse
from engine.interchange.rest.everything.operation import SCOPES
from engine.interchange.tokens.oauth.role import RoleRule
from engine.interchange.tokens.oauth.scope import PATIENT360
from engine.interchange.web.chart.category import CATEGORIES, ChartCategory
from engine.interchange.web.chart.operation import find_patients, list_items, read_patient

CHART: Final = "chart"
PATIENTS: Final = "patients"
ONE: Final = (RequiredAccess.READ, RoleRule.CHART)
R4: Final = (FhirVersion.R4,)

# Needs the same rights as FHIR's search of Patient.
SEARCH: Final = Interaction(
    "Patient",
    "search-type",
    InteractionLevel.TYPE,
    "GET",
    RequiredAccess.READ,
    RoleRule.PATIENT,
    find_patients,
    versions=R4,
)
READ: Final = Interaction(
    "Patient", "read", InteractionLevel.INSTANCE, "GET", *ONE, read_patient, versions=R4, also=frozenset({PATIENT360})
)


class ChartRoute(NamedTuple):
    """An interaction of the Chart API, and its patient, '' for none."""

    interaction: Interaction
    id: str = ""


def _listing(category: ChartCategory) -> Interaction:
    """Return the interaction of a category: it needs the right to read the whole chart."""
    run = partial(list_items, category)
    return Interaction(
        category.type, CHART, InteractionLevel.INSTANCE, "GET", *ONE, run, category.path, R4, flags=SCOPES
    )


# By the segments after the patient's id.
LISTINGS: Final = {one.path: _listing(one) for one in CATEGORIES}


def find_chart_route(path: str) -> ChartRoute:
    """Return the route of a path below /chart/v1/; RefusedError 404."""
    if path == PATIENTS:
        return ChartRoute(SEARCH)
    head, _, rest = path.partition("/")
    patient_id, within, category = rest.partition("/")
    if head != PATIENTS or (within and category not in LISTINGS) or not patient_id:
        raise refuse(Category.UNKNOWN_ROUTE, "The Chart API has nothing at this address.", location="http.path")
    if ID.fullmatch(patient_id) is None or set(patient_id) == {"."}:
        raise refuse(Category.NOT_FOUND, "This is not a valid id of a patient.", location="http.id")
    return ChartRoute(LISTINGS[category] if within else READ, patient_id)
