"""From an address below /chart/v1/ to an interaction, by the table of categories; 404 and 405 for all else."""

from functools import partial
from typing import Final, NamedTuple

from engine.fhir.primitives import ID
from engine.fhir.schema import FhirVersion
from engine.interchange.chart.category import CATEGORIES, ChartCategory
from engine.interchange.chart.operation import list_items
from engine.interchange.everything.operation import SCOPES
from engine.interchange.exchange import Access, Interaction, Level
from engine.interchange.oauth.role import Action
from engine.interchange.outcome import Category, refuse

CHART: Final = "chart"
PATIENTS: Final = "patients"


class ChartRoute(NamedTuple):
    """An interaction of the Chart API, and the patient whom it is about, '' for none."""

    interaction: Interaction
    id: str = ""


def _listing(category: ChartCategory) -> Interaction:
    """Return the interaction of a category: who may read a whole chart may read this, and nobody else."""
    return Interaction(
        category.types[0],
        CHART,
        Level.INSTANCE,
        "GET",
        Access.READ,
        Action.CHART,
        partial(list_items, category),
        operation=category.path,
        versions=(FhirVersion.R4,),
        flags=SCOPES,
    )


# By what follows the patient's id in the address.
INTERACTIONS: Final = {one.path: _listing(one) for one in CATEGORIES}


def find_chart_route(path: str) -> ChartRoute:
    """Return what is found at a path below /chart/v1/; RefusedError 404."""
    head, _, rest = path.partition("/")
    patient_id, _, category = rest.partition("/")
    if head != PATIENTS or category not in INTERACTIONS:
        raise refuse(Category.UNKNOWN_ROUTE, "The Chart API has nothing at this address.", location="http.path")
    if ID.fullmatch(patient_id) is None or set(patient_id) == {"."}:
        raise refuse(Category.NOT_FOUND, "This is not a valid id of a patient.", location="http.id")
    return ChartRoute(INTERACTIONS[category], patient_id)
