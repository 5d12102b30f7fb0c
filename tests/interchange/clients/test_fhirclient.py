"""SMART's own client for Python (fhirclient) works against the service unchanged, from the sign-in on."""

import contextlib
from collections.abc import Iterator

import httpx
import pytest
import requests
from fhirclient.client import FHIRClient
from fhirclient.models.bundle import Bundle
from fhirclient.models.observation import Observation
from fhirclient.models.patient import Patient
from fhirclient.server import FHIRNotFoundException, FHIRPermissionDeniedException

from engine.config.account import Auth, Client, Role, User
from tests.interchange.kit import Running, patient, running

PEOPLE = 25
BACK = "http://127.0.0.1:9000/callback"
APP = Client(
    tenant="riverbend",
    grants=("authorization_code", "refresh_token"),
    redirect_uris=(BACK,),
    scopes=("user/.", "offline_access"),
)
SETTINGS = {
    "clients": {"app": APP},
    "users": {"dr.osei": User(tenant="riverbend", role=Role.PHYSICIAN)},
    "auth": Auth(auto_login_user="dr.osei"),
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with a public app, a user who is signed in by itself, and 25 patients that the app registered."""
    with running(tmp_path_factory.mktemp("smart"), **SETTINGS) as found:
        with signed_in(found) as smart:
            for number in range(PEOPLE):
                register(smart, family="Smart", given=f"Given{number:02d}")
        yield found


@contextlib.contextmanager
def signed_in(service: Running, scope: str = "user/*.* offline_access") -> Iterator[FHIRClient]:
    """Go through the SMART launch: read the CapabilityStatement, sign in, exchange the code with its PKCE verifier."""
    smart = FHIRClient(
        settings={
            "app_id": "app",
            "api_base": f"{service.url}/fhir/R4",
            "redirect_uri": BACK,
            "scope": scope,
        }
    )
    smart.wants_patient = False  # there is no launch from a patient's chart
    smart.server.session.trust_env = False
    try:
        assert not smart.prepare()
        back = httpx.get(smart.authorize_url, trust_env=False)
        assert back.status_code == 302
        smart.handle_callback(back.headers["location"])
        yield smart
    finally:
        smart.server.session.close()


def register(smart: FHIRClient, *, family: str, given: str) -> str:
    """Create a patient through the client's model and return the id."""
    made = Patient(patient(name=[{"family": family, "given": [given]}])).create(smart.server)
    return str(made["id"])


def test_sign_in_and_refresh(service: Running) -> None:
    """C-044, C-045, C-020: the launch gives a token, and the refresh token a second one."""
    with signed_in(service) as smart:
        assert smart.ready
        first = smart.server.auth.access_token
        smart.reauthorize()
        assert smart.server.auth.access_token != first
        assert len(list(Patient.where({"family": "Smart"}).perform_resources_iter(smart.server))) == PEOPLE


def test_create_read_and_update(service: Running) -> None:
    """fhirclient's models are created, read and updated, and fit what the service returns."""
    with signed_in(service) as smart:
        one = Patient.read(register(smart, family="Read", given="Me"), smart.server)
        assert one.name[0].given == ["Me"]
        one.gender = "other"
        one.update(smart.server)
        again = Patient.read(one.id, smart.server)
        assert (again.gender, again.meta.versionId) == ("other", "2")


def test_search_and_page(service: Running) -> None:
    """fhirclient follows the next links to the last page, by offset and by cursor."""
    with signed_in(service) as smart:
        for paging in ({}, {"_paging": "cursor"}):
            wanted = Patient.where({"family": "Smart", "_count": "10", **paging})
            pages = list(wanted.perform_iter(smart.server))
            assert [page.total for page in pages] == [PEOPLE] * 3
            assert len({one.id for one in wanted.perform_resources_iter(smart.server)}) == PEOPLE


def test_conditional_create_and_stale_if_match(service: Running) -> None:
    """A second registration finds the first; an update of an older version is 412."""
    with signed_in(service) as smart:
        smart.server.session.headers["If-None-Exist"] = "family=Twice&given=Only"
        first = register(smart, family="Twice", given="Only")
        assert register(smart, family="Twice", given="Only") == first
        one = Patient.read(first, smart.server)
        smart.server.session.headers["If-Match"] = 'W/"1"'
        one.update(smart.server)
        with pytest.raises(requests.HTTPError, match="412"):
            one.update(smart.server)


def test_everything(service: Running) -> None:
    """$everything comes as a Bundle that the models read."""
    with signed_in(service) as smart:
        owner = register(smart, family="Chart", given="Of")
        measured = {"resourceType": "Observation", "status": "final", "code": {"text": "x"}}
        Observation({**measured, "subject": {"reference": f"Patient/{owner}"}}).create(smart.server)
        bundle = Bundle.read_from(f"Patient/{owner}/$everything", smart.server)
        assert [entry.resource.resource_type for entry in bundle.entry] == ["Patient", "Observation"]


def test_refusals(service: Running) -> None:
    """An unknown patient and a scope that is too narrow are the client's own errors."""
    with signed_in(service, scope="user/Patient.read") as smart:
        with pytest.raises(FHIRNotFoundException):
            Patient.read("nobody", smart.server)
        with pytest.raises(FHIRPermissionDeniedException):
            register(smart, family="Not", given="Allowed")
