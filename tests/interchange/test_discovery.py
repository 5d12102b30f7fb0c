"""What clients ask of tokens beside the specification: SMART discovery under each base, RFC 7662 and 7009 by POST."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.config.account import Client, Role
from engine.config.secret import Secret
from engine.interchange.tokens.scope import allows, covers, narrowed, right
from engine.interchange.tokens.scope import granted as granted_of
from engine.interchange.web.http.pages import works
from engine.interchange.web.http.tokens import MOST
from tests.interchange.kit import SECRET, Running, issue, patient, running, secret_file
from tests.interchange.least import least, version_of

WELL_KNOWN = "/.well-known/smart-configuration"
MACHINE = {"client_id": "physician", "client_secret": SECRET}


def post(service: Running, path: str, auth: tuple[str, str] | None = None, **fields: str) -> httpx.Response:
    """Send a form to a token endpoint."""
    return service.http.post(f"{service.url}/oauth/{path}", data=fields, auth=auth)


def refuses(answer: httpx.Response, status: int, code: str) -> None:
    """Hold an answer to a status and an error code."""
    assert (answer.status_code, answer.json()["error"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/json"


def granted(service: Running, client: str, scope: str) -> str:
    """Return what a client is granted of what it asks for."""
    fields = {"grant_type": "client_credentials", "client_id": client, "client_secret": SECRET, "scope": scope}
    answer = post(service, "token", **fields)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["scope"])


def test_discovery_stands_under_each_base(service: Running, base: str) -> None:
    """SMART App Launch 2.2: the document is at the FHIR base, without a token, as plain JSON; the root one stays.

    N-300.
    """
    answer = service.http.get(service.url + base + WELL_KNOWN)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == service.http.get(service.url + WELL_KNOWN).json()
    assert service.http.head(service.url + base + WELL_KNOWN).status_code == 200
    assert service.http.post(service.url + base + WELL_KNOWN).status_code == 405
    issue(service.ask("GET", f"{base}/Patient{WELL_KNOWN}"), 404, "not-supported")


def test_discovery_under_an_alias(tmp_path: Path) -> None:
    """N-300: where STU3 has further names, the document is under each of them."""
    with running(tmp_path, stu3_path_aliases=("STU3",)) as service:
        assert service.http.get(f"{service.url}/fhir/STU3{WELL_KNOWN}").json()["token_endpoint"]


def test_only_scopes_that_work_are_told(tmp_path: Path) -> None:
    """N-300: `scopes_supported` leaves out what a client is registered for although nothing obeys it."""
    scopes = ("user/Patient.read", "observation.write", "place_orders", "user/Media.read", "nonsense")
    held = Secret(file=str(secret_file(tmp_path)))
    client = Client(tenant="riverbend", secret=held, scopes=(*scopes, "patient/Condition.rs"), role=Role.PHYSICIAN)
    with running(tmp_path, clients={"one": client}) as service:
        told = service.http.get(service.url + WELL_KNOWN).json()
    assert set(told["scopes_supported"]) == {
        "user/Patient.read",
        "observation.write",
        "place_orders",
        "patient/Condition.rs",
    }
    assert "permission-v2" in told["capabilities"]


@pytest.mark.parametrize("way", ["basic", "body"])
def test_introspection(service: Running, way: str) -> None:
    """RFC 7662: an active token is told of with its scope, client and end; any other is only said to be inactive.

    N-301.
    """
    token = service.pair().access
    fields = {} if way == "basic" else MACHINE
    auth = ("physician", SECRET) if way == "basic" else None
    answer = post(service, "info", auth, token=token, token_type_hint="access_token", **fields)
    told = answer.json()
    assert (answer.status_code, told["active"], told["token_type"]) == (200, True, "Bearer")
    assert (told["client_id"], told["sub"], told["scope"]) == ("physician", "physician", "user/. offline_access")
    assert told["exp"] > 1_700_000_000
    assert answer.headers["cache-control"] == "no-store"
    for text in ("garbage", token[:-1]):
        assert post(service, "info", auth, token=text, **fields).json() == {"active": False}


def test_introspection_of_what_is_over(own_service: Running) -> None:
    """A token that was revoked, has expired, or is of another tenant is inactive; a refresh token is told of, too.

    N-301.
    """
    service = own_service
    revoked, live = service.pair(), service.pair()
    assert post(service, "info", **MACHINE, token=live.refresh).json()["active"] is True
    other = {"client_id": "other", "client_secret": SECRET}
    assert post(service, "info", **other, token=live.access).json() == {"active": False}
    assert post(service, "cancel", **MACHINE, token=revoked.access).status_code == 200
    for text in (revoked.access, revoked.refresh):
        assert post(service, "info", **MACHINE, token=text).json() == {"active": False}
    service.advance(3601)
    assert post(service, "info", **MACHINE, token=live.access).json() == {"active": False}


def test_who_may_introspect(service: Running) -> None:
    """RFC 7662 section 2.1: nobody without proof; wrong credentials are 401 with a challenge, in the body too.

    N-301.
    """
    token = service.pair().access
    for fields in ({}, {"client_id": "physician"}, {"client_id": "physician", "client_secret": "wrong"}):
        answer = post(service, "info", token=token, **fields)
        refuses(answer, 401, "invalid_client")
        assert answer.headers["www-authenticate"].startswith("Basic")
    refuses(post(service, "info", **MACHINE), 400, "invalid_request")


def test_a_public_client_introspects_nothing(tmp_path: Path) -> None:
    """A client that holds no secret cannot prove itself; its own tokens it may revoke by naming itself.

    N-301, N-302.
    """
    grants = ("authorization_code", "refresh_token")
    app = Client(tenant="riverbend", grants=grants, redirect_uris=("org.example.app:/x",), scopes=("user/.",))
    with running(tmp_path, clients={"app": app}) as service:
        token = service.pair("app").access
        refuses(post(service, "info", client_id="app", token=token), 401, "invalid_client")
        assert post(service, "cancel", client_id="app", token=token).status_code == 200
        told = service.http.get(f"{service.url}/oauth/info", params={"access_token": token})
        refuses(told, 400, "invalid_request")


def test_revocation(service: Running) -> None:
    """RFC 7009: the client's own tokens end, an access token with its refresh token; an unknown one is no fault.

    N-302.
    """
    first, second = service.pair(), service.pair()
    answer = post(service, "cancel", **MACHINE, token=first.access, token_type_hint="refresh_token")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert post(service, "cancel", ("physician", SECRET), token=second.refresh).status_code == 200
    states = [post(service, "info", **MACHINE, token=one).json()["active"] for one in (*first[:2], *second[:2])]
    assert states == [False, False, True, False]
    assert post(service, "cancel", **MACHINE, token="garbage").status_code == 200
    refuses(post(service, "cancel", **MACHINE), 400, "invalid_request")


def test_nobody_revokes_what_is_anothers(service: Running) -> None:
    """N-302: RFC 7009 section 2.1: a token of another client is refused and stays; so is a client without proof."""
    token = service.pair("nurse").access
    refuses(post(service, "cancel", **MACHINE, token=token), 400, "unauthorized_client")
    refuses(post(service, "cancel", client_id="nurse", token=token), 400, "invalid_client")
    refuses(post(service, "cancel", token=token), 400, "invalid_client")
    assert post(service, "info", **MACHINE, token=token).json()["active"] is True


@pytest.mark.parametrize("path", ["info", "cancel"])
def test_wrong_secrets_are_throttled_everywhere(own_service: Running, path: str) -> None:
    """N-310, C-050: guesses at introspection and revocation count with those at the token endpoint."""
    wrong = {"client_id": "physician", "client_secret": "wrong"}
    for number in range(MOST):
        assert post(own_service, (path, "token")[number % 2], token="x", grant_type="client_credentials", **wrong)
    answer = post(own_service, path, token="x", **MACHINE)
    refuses(answer, 429, "temporarily_unavailable")
    assert 1 <= int(answer.headers["retry-after"]) <= 60


def test_what_is_unknown_is_left_out(service: Running) -> None:
    """N-303: RFC 6749 section 3.3: of several scopes those are granted that there are, and that the client may have."""
    assert granted(service, "physician", "user/. nonsense launch/unknown") == "user/."
    assert granted(service, "read", "patient/*.read patient/*.write what/ever.x") == "patient/*.read"


@pytest.mark.parametrize(
    ("spelling", "kin"),
    [
        ("patient/Observation.rs", "patient/Observation.read"),
        ("user/Observation.cud", "user/Observation.write"),
        ("system/Observation.cruds", "system/Observation.*"),
        ("patient/*.rs", "patient/*.read"),
        ("system/*.cruds", "system/*.*"),
    ],
)
def test_spellings_of_smart_v2(spelling: str, kin: str) -> None:
    """N-305: SMART 2: `rs` is read, `cud` write, `cruds` both; each covers the other, and allows the same."""
    assert covers(spelling, kin)
    assert covers(kin, spelling)
    for type_name in ("Observation", "Patient"):
        for access in ("read", "write", "r", "s", "c", "u", "d"):
            assert allows((spelling,), type_name, access) is allows((kin,), type_name, access)
    assert works(spelling)


@pytest.mark.parametrize(
    "scope", ["user/Patient.sr", "user/Patient.", "user/Patient.rr", "user/Patient.x", "patient.r"]
)
def test_what_is_no_spelling(scope: str) -> None:
    """N-305: the letters stand in their order, once each, and only behind a prefix."""
    assert right(scope) is None


def test_finer_than_v1_is_no_wider() -> None:
    """One letter allows no more than it says; several scopes add up; a narrower registration covers nothing wider.

    N-305.
    """
    assert allows(("user/Observation.r",), "Observation", "r")
    assert not allows(("user/Observation.r",), "Observation", "read")
    assert not allows(("user/Observation.c",), "Observation", "d")
    assert allows(("user/Observation.r", "user/Observation.s"), "Observation", "read")
    assert not covers("patient/Observation.r", "patient/Observation.rs")
    assert not covers("patient/Observation.rs?category=x", "patient/Observation.rs")
    assert right("patient/Observation.rs?category=laboratory") is None


def test_letters_at_work(service: Running, base: str) -> None:
    """N-305: over HTTP a letter opens its own interaction: `r` reads, `s` searches, `c` creates, `cu` updates."""
    who = service.create()["id"]
    made = service.ask("POST", f"{base}/Observation", json=_observation(base, who)).json()
    asks: dict[str, Any] = {
        "r": ("GET", f"{base}/Observation/{made['id']}", None),
        "s": ("GET", f"{base}/Observation?patient={who}", None),
        "c": ("POST", f"{base}/Observation", _observation(base, who)),
        "cu": ("PUT", f"{base}/Observation/{made['id']}", made),
    }
    for letters, (method, path, body) in asks.items():
        more = {"json": body} if body else {}
        for scope in asks:
            answer = service.ask(method, path, scope=f"user/Observation.{scope}", **more)
            assert (answer.status_code in {200, 201}) is (set(letters) <= set(scope)), (letters, scope)
    issue(service.ask("POST", f"{base}/Patient", scope="user/Observation.cruds", json=patient()), 403, "forbidden")


@pytest.mark.parametrize(
    ("registered", "asked", "told"),
    [
        ("patient/Observation.rs", "patient/Observation.cruds", "patient/Observation.rs"),
        ("patient/Observation.rs", "user/Observation.rud", "user/Observation.r"),
        ("patient/*.read", "patient/Observation.*", "patient/Observation.read"),
        ("patient/*.read", "user/*.cruds", "user/*.rs"),
        ("patient/*.read", "user/.", ""),
        (
            "user/Observation.write user/Observation.r",
            "user/Observation.*",
            "user/Observation.write user/Observation.r",
        ),
        ("observation.read", "patient/Observation.crus", "patient/Observation.rs"),
        ("user/ServiceRequest.read", "user/ProcedureRequest.cruds", "user/ProcedureRequest.rs"),
        ("patient/Observation.rs", "patient/*.rs", ""),
        ("patient/Observation.rs", "patient/Condition.cruds", ""),
        ("system/*.*", "system/AuditEvent.rs", ""),
        ("patient/Observation.read", "patient/Observation.write offline_access", ""),
    ],
)
def test_what_is_covered_in_part_is_narrowed(registered: str, asked: str, told: str) -> None:
    """N-304: a scope is granted as far as it is registered, fewer interactions of the same; a client never has more."""
    held = tuple(registered.split())
    found = narrowed(held, tuple(asked.split()))
    assert " ".join(found) == told
    assert granted_of(held, found) == found


def test_a_part_of_a_patients_record_is_no_wider() -> None:
    """N-304: for one patient, what is registered for that patient's record is not cut out of a user/ scope."""
    asked = ("user/Observation.cruds", "patient/Observation.cruds")
    assert narrowed(("patient/Observation.rs",), asked, confined=True) == ("patient/Observation.rs",)
    assert narrowed(("user/Observation.rs",), asked, confined=True) == ("user/Observation.rs", "patient/Observation.rs")


def test_narrowed_over_http(tmp_path: Path, base: str) -> None:
    """N-304: the token answer names what was granted, and no more than that can be done."""
    held = Secret(file=str(secret_file(tmp_path)))
    reader = Client(tenant="riverbend", secret=held, scopes=("user/Observation.rs", "user/Patient.*"))
    with running(tmp_path, clients={"physician": reader}) as service:
        asked = "user/Observation.cruds user/Patient.*"
        assert granted(service, "physician", asked) == "user/Observation.rs user/Patient.*"
        who = service.ask("POST", f"{base}/Patient", json=patient(), scope=asked).json()["id"]
        body = _observation(base, who)
        issue(service.ask("POST", f"{base}/Observation", json=body, scope=asked), 403, "forbidden")
        assert service.ask("GET", f"{base}/Observation?_id=x", scope=asked).status_code == 200


def _observation(base: str, who: str) -> dict[str, Any]:
    return least("Observation", who, version_of(base))
