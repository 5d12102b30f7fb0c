"""Who has signed in: the id_token of OpenID Connect, its key, and `fhirUser`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.errors import BadSignatureError
from joserfc.jwk import KeySet, RSAKey

from engine.config.account import Client, User
from engine.config.secret import Secret
from tests.interchange.browser import BACK, USERS, Browser, portal
from tests.interchange.kit import SECRET, Running, running, secret_file
from tests.interchange.test_patient_context import exchange

SCOPE = "openid fhirUser profile user/*.read offline_access"
PEOPLE = {**USERS, "dr.osei": USERS["dr.osei"].model_copy(update={"fhir_user": "Practitioner/osei"})}


def clients(folder: Path) -> dict[str, Client]:
    """Return an app that asks who its user is."""
    return {
        "portal": portal(
            Secret(file=str(secret_file(folder))),
            scopes=tuple(SCOPE.split()),
            redirect_uris=(BACK,),
            grants=("authorization_code", "refresh_token", "client_credentials"),
        )
    }


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service whose users have resources."""
    folder = tmp_path_factory.mktemp("identity")
    with running(folder, clients=clients(folder), users=PEOPLE) as found:
        yield found


def discovered(service: Running) -> dict[str, Any]:
    """Return what OpenID Connect discovery tells."""
    return service.http.get(f"{service.url}/.well-known/openid-configuration").json()


def claims(service: Running, token: str) -> dict[str, Any]:
    """Return what an id_token says, checked as an app does: by the key that discovery names."""
    keys = KeySet.import_key_set(service.http.get(discovered(service)["jwks_uri"]).json())
    read = jwt.decode(token, keys, algorithms=["RS256"])
    return dict(read.claims)


def test_an_id_token(service: Running) -> None:
    """`openid fhirUser profile`: issuer, subject, audience, nonce, name and the person's resource, signed RS256.

    N-309.
    """
    answer = exchange(service, Browser(service).code(scope=SCOPE, nonce="n-0S6")).json()
    told = claims(service, answer["id_token"])
    assert told["iss"] == discovered(service)["issuer"] == service.url
    assert (told["sub"], told["aud"], told["nonce"], told["name"]) == ("dr.osei", "portal", "n-0S6", "Ama Osei")
    assert told["fhirUser"] == f"{service.url}/fhir/R4/Practitioner/osei"
    assert 0 < told["exp"] - told["iat"] <= 3600
    headers = {"authorization": f"Bearer {answer['access_token']}"}
    known = service.http.get(f"{service.url}/oauth/userinfo", headers=headers).json()
    assert (known["sub"], known["fhirUser"]) == (told["sub"], told["fhirUser"])


def test_a_forged_id_token(service: Running) -> None:
    """N-309: a token that another key signed does not pass for one of ours."""
    forged = jwt.encode({"alg": "RS256"}, {"sub": "dr.osei"}, RSAKey.generate_key(2048))
    with pytest.raises(BadSignatureError):
        claims(service, forged)


def test_only_what_was_asked_for(service: Running) -> None:
    """Without `openid` there is no id_token; without `profile` and `fhirUser` it tells neither; programs get none.

    N-309.
    """
    assert "id_token" not in exchange(service, Browser(service).code(scope="fhirUser user/*.read")).json()
    bare = exchange(service, Browser(service).code(scope="openid user/*.read")).json()
    assert not {"name", "fhirUser", "nonce"} & claims(service, bare["id_token"]).keys()
    fields = {"grant_type": "client_credentials", "client_id": "portal", "client_secret": SECRET, "scope": SCOPE}
    assert "id_token" not in service.http.post(f"{service.url}/oauth/token", data=fields).json()


def test_a_user_without_a_resource(service: Running) -> None:
    """N-309: nobody's address is made up."""
    answer = exchange(service, Browser(service, "nurse.lind").code(scope=SCOPE)).json()
    assert "fhirUser" not in claims(service, answer["id_token"])


def test_a_refresh(service: Running) -> None:
    """N-309: a refresh gives an id_token of the same person, without a nonce (OpenID Connect Core section 12.2)."""
    first = exchange(service, Browser(service).code(scope=SCOPE, nonce="once")).json()
    fields = {"grant_type": "refresh_token", "client_id": "portal", "client_secret": SECRET}
    again = service.http.post(f"{service.url}/oauth/token", data={**fields, "refresh_token": first["refresh_token"]})
    told = claims(service, again.json()["id_token"])
    assert (told["sub"], "nonce" in told) == ("dr.osei", False)


def test_the_key_stays(tmp_path: Path) -> None:
    """N-309: after a restart the same key is told of, and the private part of it nowhere."""
    with running(tmp_path, clients=clients(tmp_path), users=PEOPLE) as first:
        before = first.http.get(f"{first.url}/oauth/jwks").json()
    with running(tmp_path, clients=clients(tmp_path), users=PEOPLE) as second:
        assert second.http.get(f"{second.url}/oauth/jwks").json() == before
    assert set(before["keys"][0]) == {"kty", "n", "e", "kid", "use", "alg"}


def test_a_user_is_written_as_a_reference() -> None:
    """Only a person's resource will do."""
    for wrong in ("osei", "Observation/1", "https://x.example/Practitioner/1"):
        with pytest.raises(ValueError, match="fhir_user"):
            User(tenant="riverbend", role=USERS["dr.osei"].role, fhir_user=wrong)
