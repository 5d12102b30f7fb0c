"""Routes an address to an interaction: version, type, id and operation; 404 and 405 for what is not served."""

from functools import lru_cache
from typing import Final, NamedTuple

from engine.config.service import Feature
from engine.fhir.primitives import ID
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.clinical.ccda import export as ccda_export
from engine.interchange.core.audit import reading as audit
from engine.interchange.core.exchange import Interaction, InteractionLevel
from engine.interchange.events.messages import operation as message
from engine.interchange.events.messages import search as messages
from engine.interchange.jobs import handle
from engine.interchange.kernel.outcome import Category, Issue, RefusedError, refuse
from engine.interchange.network.document import merge as document_merge
from engine.interchange.network.document import search as document_search
from engine.interchange.network.patient360 import operation as patient360
from engine.interchange.orders import submit
from engine.interchange.rest import everything, merge
from engine.interchange.rest.binary import temporary
from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.web.interactions import interactions

# Every interaction of the service.
OFFERED: Final[tuple[Interaction, ...]] = (
    *interactions(),
    merge.INTERACTION,
    *everything.INTERACTIONS,
    *ccda_export.INTERACTIONS,
    *audit.INTERACTIONS,
    temporary.INTERACTION,
    document_merge.INTERACTION,
    *document_search.INTERACTIONS,
    *patient360.INTERACTIONS,
    submit.INTERACTION,
    message.INTERACTION,
    *messages.INTERACTIONS,
)
INTERACTIONS: Final[tuple[Interaction, ...]] = (*OFFERED, *handle.interactions(OFFERED))

# Segments that clients and proxies resolve as relative steps.
DOTS: Final = frozenset({".", ".."})

# The paths of the history and of one version.
HISTORY: Final = "_history"
VERSION: Final = "_history/"

Place = tuple[FhirVersion, str, InteractionLevel, str]

TYPES: Final = frozenset((version, name_in(version, one.type)) for one in INTERACTIONS for version in one.versions)


# The operation of a search by POST, and the types with a search in the patient compartment.
SEARCH: Final = "_search"
COMPARTMENT: Final = {
    (version, name_in(version, one.type)): one
    for one in INTERACTIONS
    if one.code == "search-type"
    and not one.form
    and one.type in KEPT
    and "patient" in KEPT[one.type].search_parameters(FhirVersion.R4)
    for version in one.versions
}


class RequestTarget(NamedTuple):
    """The target of a request below the service's base; `segments` follow the version."""

    version: FhirVersion
    segments: tuple[str, ...]


class FhirRoute(NamedTuple):
    """An interaction with its id and version, '' for none, and the patients in the address."""

    interaction: Interaction
    id: str
    vid: str = ""
    named: tuple[str, ...] = ()


def read_address(path: str, aliases: tuple[str, ...]) -> RequestTarget:
    """Return version and segments of a path below /fhir/; the R4 segment is tested before any STU3 type."""
    segments = tuple(path.split("/"))
    if segments[0] == "R4":
        return RequestTarget(FhirVersion.R4, segments[1:] or ("",))
    return RequestTarget(FhirVersion.STU3, (segments[1:] or ("",)) if segments[0] in aliases else segments)


def find_route(address: RequestTarget, method: str, features: tuple[Feature, ...] = ()) -> FhirRoute:
    """Return the interaction of a method at an address, with the features in force; RefusedError 404 or 405."""
    segments = address.segments
    type_name = segments[0]
    if type_name.startswith("$") and len(segments) == 1:
        return _of_system(address, method, features)
    if segments == ("",):
        # POST to a base takes a Bundle only.
        raise wrong_method({"POST"})
    if (address.version, type_name) not in TYPES:
        raise refuse(
            Category.UNKNOWN_ROUTE, f"The service has no such resource type in {address.version}.", location="http.path"
        )
    if len(segments) == 3 and type_name == "Patient" and (address.version, segments[2]) in COMPARTMENT:
        return _compartment(address, method)
    rest, operation_name, vid = _steps(segments[1:])
    if len(rest) > 1 or rest == ("",) or (operation_name == VERSION and not vid):
        raise refuse(Category.UNKNOWN_ROUTE, "There is nothing at this address.", location="http.path")
    if type_name == "Binary" and rest and rest[0].startswith(temporary.PREFIX) and not operation_name:
        operation_name = temporary.PREFIX
    level = InteractionLevel.INSTANCE if rest else InteractionLevel.TYPE
    methods = _places(features).get((address.version, type_name, level, operation_name))
    if methods is None:
        raise refuse(Category.UNKNOWN_ROUTE, "The service has no such operation here.", location="http.path")
    if method not in methods:
        raise wrong_method(set(methods))
    resource_id = rest[0] if rest else ""
    if rest and (resource_id in DOTS or (method != "PUT" and ID.fullmatch(resource_id) is None)):
        raise refuse(Category.NOT_FOUND, "This is not a valid resource id.", location="http.id")
    return FhirRoute(methods[method], resource_id, vid)


def _of_system(address: RequestTarget, method: str, features: tuple[Feature, ...]) -> FhirRoute:
    methods = _places(features).get((address.version, "", InteractionLevel.SYSTEM, address.segments[0]))
    if methods is None:
        raise refuse(Category.UNKNOWN_ROUTE, "The service has no such operation here.", location="http.path")
    if method not in methods:
        raise wrong_method(set(methods))
    return FhirRoute(methods[method], "")


def _steps(steps: tuple[str, ...]) -> tuple[tuple[str, ...], str, str]:
    """Return the segments after a type: id, operation (or history, or search), version; '' for none."""
    if len(steps) > 2 and steps[-2] == HISTORY:
        return steps[:-2], VERSION, steps[-1]
    if steps and (steps[-1].startswith("$") or steps[-1] in {HISTORY, SEARCH}):
        return steps[:-1], steps[-1], ""
    return steps, "", ""


def _compartment(address: RequestTarget, method: str) -> FhirRoute:
    """Return the compartment search of a type; the route has the patient's id."""
    _, patient_id, type_name = address.segments
    if method != "GET":
        raise wrong_method({"GET"})
    if patient_id in DOTS or ID.fullmatch(patient_id) is None:
        raise refuse(Category.NOT_FOUND, "This is not a valid resource id.", location="http.id")
    return FhirRoute(COMPARTMENT[address.version, type_name], patient_id)


@lru_cache(maxsize=2)
def _places(features: tuple[Feature, ...]) -> dict[Place, dict[str, Interaction]]:
    """Return the interactions in force with the given features, by address pattern, then by method."""
    places: dict[Place, dict[str, Interaction]] = {}
    for one in INTERACTIONS:
        for version in one.versions if one.feature is None or one.feature in features else ():
            name = "" if one.level is InteractionLevel.SYSTEM else name_in(version, one.type)
            places.setdefault((version, name, one.level, one.operation), {})[one.method] = one
    return places


def wrong_method(methods: set[str]) -> RefusedError:
    """Return the refusal (405) of a method; Allow has HEAD with each GET."""
    allow = ", ".join(sorted(methods | {"HEAD"} if "GET" in methods else methods))
    return RefusedError(Category.METHOD, (Issue(f"Use {allow} here.", "http.method"),), (("allow", allow),))
