"""The table of routes."""

from typing import Any

import pytest
from starlette.responses import Response

from engine.errors import StartError
from engine.ops.access.actor import Permission
from engine.ops.operations.addresses import TABLE
from engine.ops.operations.table import ALL
from engine.ops.web.api.openapi import described, endpoints
from engine.ops.web.route import Authentication, Free, Route, checked
from engine.ops.web.server import ROUTES

# All that answers somebody who has not said who it is.
UNKNOWN_CALLERS = {
    *("GET /log-in", "POST /log-in", "GET /set-up", "POST /set-up", "GET /second-factor", "POST /second-factor"),
    *("POST /log-out", "GET /assets/{name}", "GET /livez", "GET /readyz"),
}


async def _view(_call: Any) -> Response:
    return Response()


def test_a_route_that_declares_nothing_does_not_start() -> None:
    """A route without a permission, and one that stands there twice, are failures at the start."""
    with pytest.raises(StartError, match="GET /x declares no permission"):
        checked([Route("GET", "/x", None, _view)])  # type: ignore[arg-type]
    twice = Route("GET", "/x", Permission.PHI, _view)
    with pytest.raises(StartError, match="GET /x is twice"):
        checked([twice, twice])


def test_little_answers_a_stranger() -> None:
    """The routes that need nobody are these and no others."""
    assert {route.key for route in checked(ROUTES) if route.needs is Free.ANYBODY} <= UNKNOWN_CALLERS


def test_pages_and_programs_come_through_their_own_gates() -> None:
    """Sessions open no address of the API, and tokens no page."""
    programs = ("/api/", "/hl7/", "/fhir/", "/metrics", "/livez", "/readyz")
    assert all((route.gate is Authentication.TOKEN) == route.path.startswith(programs) for route in ROUTES)


def test_no_get_asks_for_an_act_that_changes_something() -> None:
    """Whatever operates, or is about accounts, channels or care, is a POST, on pages and in the API."""
    changing = {Permission.CHANNELS, Permission.CARE}
    assert not [route.key for route in ROUTES if route.method == "GET" and route.needs in changing]


def test_every_operation_is_offered_to_programs_once() -> None:
    """Each operation that a token may do has one address, needs what it needs, and is described."""
    offered = list(endpoints(ALL))
    of_people = {Permission.USERS, Permission.CARE}
    assert {one.operation.name for one in offered} == {one.name for one in ALL if one.permission not in of_people}
    assert len({(one.method, one.path) for one in offered}) == len(offered)
    described_paths = described(offered)["paths"]
    for one in offered:
        (route,) = [other for other in ROUTES if other.key == f"{one.method} /api/v1{one.path}"]
        assert route.needs is one.operation.permission
        told = described_paths[f"/api/v1{one.path}"][one.method.lower()]
        assert (told["operationId"], told["x-permission"]) == (one.operation.name, str(one.operation.permission))


def test_the_table_of_the_api_names_operations_that_are_there() -> None:
    """No address waits for an operation that was renamed."""
    assert set(TABLE) <= {one.name for one in ALL}


def test_nothing_of_a_patient_can_be_asked_for_in_an_address() -> None:
    """No GET of the API takes a patient, a visit or text."""
    private = {"patient", "visit", "text", "value", "message"}
    assert not [one.path for one in endpoints(ALL) if one.method == "GET" and set(one.operation.names()) & private]
