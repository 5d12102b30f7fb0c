"""Tokens: how they are asked for, told of, refreshed and revoked (points B)."""

import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.interchange.tokens.scope import allows, covers, granted, right
from engine.interchange.tokens.vault import Bearer
from tests.interchange.kit import SECRET, Inside, Outside, Running, issue, running

CREDENTIALS = {"client_id": "physician", "client_secret": SECRET}


def ask(service: Running, auth: tuple[str, str] | None = None, **fields: str) -> httpx.Response:
    """Ask for a token with form fields."""
    return service.http.post(f"{service.url}/oauth/token", data=fields, auth=auth)


def error(answer: httpx.Response, status: int, code: str) -> None:
    """Hold an answer of a token endpoint to a status and an error code."""
    assert (answer.status_code, answer.json()["error"]) == (status, code)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"


def pair(service: Running, scope: str = "user/.", client: str = "physician") -> Any:
    """Return an access token and a refresh token of a client."""
    return service.pair(client, scope)


def refresh(service: Running, token: str, **more: str) -> httpx.Response:
    """Exchange a refresh token."""
    return ask(service, **{"grant_type": "refresh_token", **CREDENTIALS, "refresh_token": token, **more})


def told(service: Running, token: str) -> httpx.Response:
    """Ask what is known of an access token."""
    return service.http.get(f"{service.url}/oauth/info", params={"access_token": token})


def reads(service: Running, token: str) -> int:
    """Return the status of a FHIR call with a token."""
    headers = {"authorization": f"Bearer {token}"}
    return service.http.get(f"{service.url}/fhir/R4/Patient?_count=0", headers=headers).status_code


def test_client_credentials(service: Running) -> None:
    """C-043, C-023, C-049: a token for an hour, no refresh token, never cached."""
    answer = ask(service, grant_type="client_credentials", **CREDENTIALS, scope="user/.")
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) == {"access_token", "token_type", "expires_in", "scope", "rest_api_version"}
    assert (body["token_type"], body["expires_in"], body["scope"]) == ("Bearer", 3600, "user/.")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["content-type"] == "application/json"
    assert reads(service, body["access_token"]) == 200


def test_basic_and_json(service: Running) -> None:
    """HTTP Basic and a JSON body are taken for client_credentials; JSON for nothing else."""
    by_basic = ask(service, ("physician", SECRET), grant_type="client_credentials", scope="user/.")
    assert by_basic.status_code == 200
    url = f"{service.url}/oauth/token"
    fields = {"grant_type": "client_credentials", **CREDENTIALS, "scope": "user/."}
    assert service.http.post(url, json=fields).status_code == 200
    error(service.http.post(url, json={**fields, "grant_type": "refresh_token"}), 400, "invalid_request")
    error(service.http.post(url, content=b"<a/>", headers={"content-type": "text/xml"}), 400, "invalid_request")
    error(service.http.post(url, json=[1]), 400, "invalid_request")


def test_refresh_rotates(service: Running) -> None:
    """C-020, C-021, C-022, C-036: a refresh gives new tokens that work; the used one is dead."""
    old = pair(service)
    answer = refresh(service, old.refresh)
    body = answer.json()
    assert answer.status_code == 200
    assert {"access_token", "refresh_token", "expires_in", "scope", "token_type"} <= set(body)
    assert body["refresh_token"] != old.refresh
    assert reads(service, body["access_token"]) == 200
    assert reads(service, old.access) == 200
    error(refresh(service, old.refresh), 400, "invalid_grant")


def test_info(service: Running) -> None:
    """C-024, C-026: info tells four things of an active token, and invalid_request of anything else."""
    answer = told(service, service.token("physician"))
    assert set(answer.json()) == {"client_name", "client_id", "expires_in", "scope"}
    assert (answer.json()["client_id"], answer.json()["client_name"]) == ("physician", "The physician")
    error(told(service, "garbage"), 400, "invalid_request")
    error(told(service, pair(service).refresh), 400, "invalid_request")
    error(service.http.get(f"{service.url}/oauth/info"), 400, "invalid_request")


def test_lifetimes(own_service: Running) -> None:
    """C-025, C-027, C-033, C-034, C-035: tokens live as long as the clock says, and a refresh slides."""
    first = pair(own_service)
    own_service.advance(60)
    assert 3535 <= told(own_service, first.access).json()["expires_in"] <= 3540
    own_service.advance(3541)
    error(told(own_service, first.access), 400, "invalid_request")
    headers = {"authorization": f"Bearer {first.access}"}
    issue(own_service.http.get(f"{own_service.url}/fhir/Patient", headers=headers), 401, "expired")
    second = refresh(own_service, first.refresh).json()
    assert reads(own_service, second["access_token"]) == 200
    own_service.advance(2_592_001)
    error(refresh(own_service, second["refresh_token"]), 400, "invalid_grant")


def test_cancel_of_an_access_token(service: Running) -> None:
    """C-028, C-029: a cancelled access token is refused at once, and its refresh token with it."""
    tokens = pair(service)
    assert reads(service, tokens.access) == 200
    answer = service.http.get(f"{service.url}/oauth/cancel", params={"token": tokens.access})
    assert answer.status_code == 200
    assert reads(service, tokens.access) == 401
    error(refresh(service, tokens.refresh), 400, "invalid_grant")


def test_cancel_of_a_refresh_token(service: Running) -> None:
    """C-030, C-031, C-032: the sibling access token goes on; an unknown token is no fault, none is one."""
    tokens = pair(service)
    cancel = f"{service.url}/oauth/cancel"
    assert service.http.get(cancel, params={"token": tokens.refresh}).status_code == 200
    error(refresh(service, tokens.refresh), 400, "invalid_grant")
    assert reads(service, tokens.access) == 200
    assert service.http.get(cancel, params={"token": "unknown"}).status_code == 200
    error(service.http.get(cancel), 400, "invalid_request")


def test_refresh_only_narrows(service: Running) -> None:
    """C-037: a larger scope is refused and the token stays usable; a smaller one is given."""
    tokens = pair(service, "patient/*.read patient.write")
    error(refresh(service, tokens.refresh, scope="user/."), 400, "invalid_scope")
    narrowed = refresh(service, tokens.refresh, scope="patient.read")
    assert narrowed.json()["scope"] == "patient.read"


def test_refresh_of_another_client(service: Running) -> None:
    """C-040: a refresh token serves its own client only, and survives the attempt."""
    tokens = pair(service, client="nurse")
    error(refresh(service, tokens.refresh), 400, "invalid_grant")
    assert refresh(service, tokens.refresh, client_id="nurse").status_code == 200


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        pytest.param({**CREDENTIALS}, "invalid_request", id="C-038 no grant_type"),
        pytest.param({**CREDENTIALS, "grant_type": "password"}, "unsupported_grant_type", id="C-038 password"),
        pytest.param({"grant_type": "client_credentials"}, "invalid_client", id="no credentials"),
        pytest.param(
            {"grant_type": "client_credentials", "client_id": "physician", "client_secret": "wrong"},
            "invalid_client",
            id="C-039 wrong secret",
        ),
        pytest.param(
            {"grant_type": "client_credentials", "client_id": "nobody", "client_secret": SECRET},
            "invalid_client",
            id="unknown client",
        ),
        pytest.param({**CREDENTIALS, "grant_type": "refresh_token"}, "invalid_request", id="no refresh_token"),
        pytest.param(
            {**CREDENTIALS, "grant_type": "client_credentials", "scope": "nonsense"}, "invalid_scope", id="no scope"
        ),
        pytest.param(
            {"grant_type": "client_credentials", "client_id": "read", "client_secret": SECRET, "scope": "user/."},
            "invalid_scope",
            id="C-048 not registered",
        ),
        pytest.param(
            {**CREDENTIALS, "grant_type": "client_credentials", "rest_api_version": "1999-01-01"},
            "unsupported_api_version",
            id="C-555",
        ),
    ],
)
def test_token_errors(service: Running, fields: dict[str, str], code: str) -> None:
    """Section 4.4: each fault has its code, with 400."""
    error(ask(service, **fields), 400, code)


def test_wrong_basic_credentials(service: Running) -> None:
    """C-039: failed HTTP Basic is 401 with a challenge; two ways at once are refused."""
    answer = ask(service, ("physician", "wrong"), grant_type="client_credentials")
    error(answer, 401, "invalid_client")
    assert answer.headers["www-authenticate"].startswith("Basic")
    both = ask(service, ("physician", SECRET), grant_type="client_credentials", client_secret=SECRET)
    error(both, 400, "invalid_request")


def test_refused_tokens_are_logged(own_service: Outside) -> None:
    """A refusal is a line with the client, its code and its text; a name that is not registered is left out."""
    for name, said in (("physician", "physician"), ("stranger of the street", "")):
        for auth, fields in (((name, "wrong"), {}), (None, {"client_id": name, "client_secret": "wrong"})):
            assert ask(own_service, auth, grant_type="client_credentials", **fields).status_code in {400, 401}
            told = own_service.process.events[-1]
            assert (told["event"], told["client"], told["reason"]) == ("token refused", said, "invalid_client")
            assert told["error"] == "Client id or secret is wrong."
    assert "stranger" not in own_service.process.log.read_text()


def test_a_field_given_twice(service: Running) -> None:
    """RFC 6749: parameters must not be included more than once."""
    body = "grant_type=client_credentials&grant_type=client_credentials"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    error(service.http.post(f"{service.url}/oauth/token", content=body, headers=headers), 400, "invalid_request")
    twice = '{"grant_type": "client_credentials", "client_id": "read", "client_id": "physician"}'
    as_json = {"content-type": "application/json"}
    error(service.http.post(f"{service.url}/oauth/token", content=twice, headers=as_json), 400, "invalid_request")
    half = '{"grant_type": "client_credentials", "client_id": "read", "client_secret": "\\ud800"}'
    error(service.http.post(f"{service.url}/oauth/token", content=half, headers=as_json), 400, "invalid_request")
    deep = b"[" * 60_000
    error(service.http.post(f"{service.url}/oauth/token", content=deep, headers=as_json), 400, "invalid_request")
    error(service.http.post(f"{service.url}/oauth/token", content=b"a=%ff", headers=headers), 400, "invalid_request")
    error(
        service.http.post(f"{service.url}/oauth/token", content=b"x" * 70_000, headers=headers), 400, "invalid_request"
    )


def test_no_scope_asked_for(service: Running) -> None:
    """C-084: a client of any role that asks for no scope gets what it is registered for."""
    fields = {"grant_type": "client_credentials", "client_id": "system", "client_secret": SECRET}
    assert ask(service, **fields).json()["scope"] == "system/*.*"
    assert ask(service, **fields, scope="").json()["scope"] == "system/*.*"


def test_no_proof_of_the_client(service: Running) -> None:
    """A POST that proves no client is invalid_client, at every endpoint, and the token lives on."""
    tokens = pair(service)
    for path, status in (("token", 400), ("info", 401), ("cancel", 400)):
        fields = {"grant_type": "refresh_token", "refresh_token": tokens.refresh, "token": tokens.access}
        error(service.http.post(f"{service.url}/oauth/{path}", data=fields), status, "invalid_client")
    assert reads(service, tokens.access) == 200


def test_a_parameter_given_twice(service: Running) -> None:
    """A cancel or an info that names two tokens is 400 and does nothing: nobody knows which one is meant."""
    tokens = pair(service)
    for order in ((tokens.access, "x"), ("x", tokens.access)):
        query = "&".join(f"token={one}" for one in order)
        error(service.http.get(f"{service.url}/oauth/cancel?{query}"), 400, "invalid_request")
        error(
            service.http.get(f"{service.url}/oauth/info?{query.replace('token', 'access_token')}"),
            400,
            "invalid_request",
        )
    assert reads(service, tokens.access) == 200


@pytest.mark.parametrize("cancelled", ["refresh", "access"])
def test_a_cancelled_token_still_tells_of_a_theft(service: Running, cancelled: str) -> None:
    """A used refresh token that comes again ends its family, also after it, or a token beside it, was cancelled."""
    first = pair(service)
    second = refresh(service, first.refresh).json()
    service.http.get(f"{service.url}/oauth/cancel", params={"token": getattr(first, cancelled)})
    assert reads(service, second["access_token"]) == 200
    error(refresh(service, first.refresh), 400, "invalid_grant")
    assert reads(service, second["access_token"]) == 401
    error(refresh(service, second["refresh_token"]), 400, "invalid_grant")


def changed(inside: Inside, name: str, **changes: Any) -> None:
    """Change a client of the running service's configuration."""
    app = inside.app.service
    client = app.configuration.clients[name].model_copy(update=changes)
    app.configuration = app.configuration.model_copy(update={"clients": {**app.configuration.clients, name: client}})


def test_a_scope_taken_away(inside: Inside) -> None:
    """Scopes that are taken from a client end at once: for the tokens that it has, and at a refresh; so does a part."""
    tokens, other = pair(inside, "user/."), pair(inside, "user/.")
    assert reads(inside, tokens.access) == 200
    changed(inside, "physician", scopes=("user/Observation.read", "user/."))
    assert reads(inside, tokens.access) == 200
    changed(inside, "physician", scopes=("user/Observation.read",))
    assert reads(inside, tokens.access) == 403
    assert told(inside, tokens.access).json()["scope"] == "offline_access"
    assert refresh(inside, tokens.refresh).json()["scope"] == "offline_access"
    error(refresh(inside, other.refresh, scope="user/."), 400, "invalid_scope")
    changed(inside, "physician", scopes=("user/Patient.read", "user/Patient.write"))
    wide = inside.pair("physician", "user/Patient.read user/Patient.write")
    assert reads(inside, wide.access) == 200
    changed(inside, "physician", scopes=("user/Patient.write",))
    assert reads(inside, wide.access) == 403
    assert refresh(inside, wide.refresh).json()["scope"] == "user/Patient.write offline_access"


def test_a_grant_taken_away(inside: Inside) -> None:
    """Grants hold for refresh_token, and those taken away end the tokens that they gave, at once."""
    tokens = pair(inside)
    given = ask(inside, grant_type="client_credentials", **CREDENTIALS).json()["access_token"]
    assert reads(inside, given) == 200
    changed(inside, "physician", grants=("client_credentials",))
    error(refresh(inside, tokens.refresh), 400, "unauthorized_client")
    assert reads(inside, given) == 200
    changed(inside, "physician", grants=("refresh_token",))
    assert reads(inside, given) == 401
    error(told(inside, given), 400, "invalid_request")
    # What a command gave came by no grant.
    assert reads(inside, tokens.access) == 200
    assert refresh(inside, tokens.refresh).status_code == 200


def test_a_disabled_client(inside: Inside) -> None:
    """A client that is disabled gets no token, and those that it has open nothing; enabled again, they do."""
    tokens = pair(inside)
    changed(inside, "physician", disabled=True)
    assert reads(inside, tokens.access) == 401
    error(told(inside, tokens.access), 400, "invalid_request")
    error(refresh(inside, tokens.refresh), 400, "invalid_client")
    error(ask(inside, grant_type="client_credentials", **CREDENTIALS), 400, "invalid_client")
    changed(inside, "physician", disabled=False)
    assert reads(inside, tokens.access) == 200


def test_only_covered_scopes_are_granted(service: Running) -> None:
    """C-048: what a registered scope covers is granted, the rest is left out."""
    fields = {"grant_type": "client_credentials", "client_id": "read", "client_secret": SECRET}
    answer = ask(service, **fields, scope="patient.read patient.write user/Observation.read")
    assert answer.json()["scope"] == "patient.read user/Observation.read"


@pytest.mark.parametrize(
    ("asked", "bound"), [("2025-06-01", "2025-06-01"), ("06-01-2025", "2025-06-01"), ("2023-01-01", "2023-01-01")]
)
def test_api_version_is_echoed(service: Running, asked: str, bound: str) -> None:
    """C-554, C-556: a token is bound to the version asked for, else to the tenant's."""
    fields = {"grant_type": "client_credentials", **CREDENTIALS}
    assert ask(service, **fields, rest_api_version=asked).json()["rest_api_version"] == bound
    assert ask(service, **fields).json()["rest_api_version"] == "2025-06-01"


def test_refresh_keeps_the_version(inside: Inside) -> None:
    """C-557: the REST API version goes over to the new tokens."""
    old = inside.run(inside.app.service.vault.issue(Bearer("physician", "", "user/.", "2023-01-01"), refresh=True))
    assert refresh(inside, old.refresh).json()["rest_api_version"] == "2023-01-01"


def test_tokens_survive_a_restart_as_digests(tmp_path: Path) -> None:
    """C-562: an issued token works after a restart; the file never holds its text."""
    with running(tmp_path) as first:
        tokens = pair(first)
    with running(tmp_path) as second:
        assert reads(second, tokens.access) == 200
        assert refresh(second, tokens.refresh).status_code == 200
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("interchange.db*"))
    assert tokens.access[3:].encode() not in kept
    assert tokens.refresh[3:].encode() not in kept
    assert (tmp_path / "interchange.db").stat().st_mode & 0o077 == 0
    assert sqlite3.connect(tmp_path / "interchange.db").execute("SELECT count(*) FROM token").fetchone()[0] >= 4


@pytest.mark.parametrize("wildcard", ["user/.", "user/.*", "user/*.*", "system/*.*"])
def test_wildcards(wildcard: str) -> None:
    """C-071, C-072: each spelling of the wildcard allows every type to be read and written, and covers such scopes."""
    for type_name in ("Patient", "Observation", "MedicationRequest"):
        assert allows((wildcard,), type_name, "read")
        assert allows((wildcard,), type_name, "write")
    assert covers(wildcard, "patient/*.write")
    assert covers(wildcard, "user/.")
    assert not covers(wildcard, "patient360")


@pytest.mark.parametrize(
    ("scope", "type_name", "access", "allowed"),
    [
        ("patient/*.read", "Patient", "read", True),
        ("patient/*.read", "Patient", "write", False),
        ("patient.read", "Patient", "read", True),
        ("patient.read", "Observation", "read", False),
        ("documentreference.read", "DocumentReference", "read", True),
        ("user/Observation.read", "Patient", "read", False),
        ("system/Patient.*", "Patient", "write", True),
        ("user/MedicationRequest.write", "MedicationRequest", "write", True),
        ("patient360", "Patient", "read", False),
        ("offline_access", "Patient", "read", False),
        ("nonsense", "Patient", "read", False),
    ],
)
def test_scope_table(scope: str, type_name: str, access: str, allowed: bool) -> None:
    """Section 4.3: what each spelling allows."""
    assert allows((scope,), type_name, access) is allowed


@pytest.mark.parametrize(
    "scope", ["", "user/", "User/Patient.read", "patient/patient.read", "Patient.read", "a.b.read"]
)
def test_what_is_no_scope(scope: str) -> None:
    """Section 4.3: the grammar is strict."""
    assert right(scope) is None
    assert granted(("user/.",), (scope,)) == ()
