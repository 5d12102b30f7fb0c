"""Wrong secrets and signatures at the token endpoint: throttled for their client and address, and for nobody else."""

import json
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from engine.config.account import Client, Role
from engine.config.secret import Secret
from engine.interchange.web.http.tokens import CAPACITY, MOST, WrongProofs
from tests.interchange.kit import SECRET, Running, running, secret_file

START = datetime(2026, 1, 1, tzinfo=UTC)


class Wall:
    """A clock that is put forward by hand."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime:
        """Return the moment."""
        return self.at


@pytest.fixture
def wall() -> Wall:
    """A clock."""
    return Wall()


def test_a_minute(wall: Wall) -> None:
    """After twenty wrong ones a minute from the first; another client, and another address, go on."""
    proofs = WrongProofs(wall)
    for _ in range(MOST):
        assert proofs.wait("a", "1") == 0
        proofs.fail("a", "1")
    wall.at += timedelta(seconds=0.5)
    assert (proofs.wait("a", "1"), proofs.wait("b", "1"), proofs.wait("a", "2"), proofs.wait("", "1")) == (60, 0, 0, 0)
    wall.at += timedelta(seconds=59.5)
    assert proofs.wait("a", "1") == 0
    wall.at = datetime(2020, 1, 1, tzinfo=UTC)
    assert proofs.wait("a", "1") >= 0


def test_the_memory_is_bounded(wall: Wall) -> None:
    """The latest counts stay."""
    proofs = WrongProofs(wall)
    for number in range(CAPACITY + MOST):
        proofs.fail("a", str(number))
    for _ in range(MOST):
        proofs.fail("a", "last")
    assert proofs.wait("a", "last") == 60


def ask(service: Running, secret: str, client: str = "physician", *, basic: bool = False) -> httpx.Response:
    """Ask for a token."""
    fields = {"grant_type": "client_credentials", "scope": "user/."}
    if basic:
        return service.http.post(f"{service.url}/oauth/token", data=fields, auth=(client, secret))
    fields |= {"client_id": client, "client_secret": secret}
    return service.http.post(f"{service.url}/oauth/token", data=fields)


@pytest.mark.parametrize("basic", [False, True], ids=["in the body", "basic"])
def test_wrong_secrets(tmp_path: Path, basic: bool) -> None:
    """C-050: after twenty wrong secrets the right one waits too, with 429 and Retry-After; other clients do not."""
    with running(tmp_path) as service:
        token = service.token("physician")
        for number in range(MOST):
            assert ask(service, f"wrong {number}", basic=basic).json()["error"] == "invalid_client"
        for secret in ("wrong", SECRET):
            refused = ask(service, secret, basic=basic)
            assert (refused.status_code, refused.json()["error"]) == (429, "temporarily_unavailable")
            assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert ask(service, SECRET, "nurse").status_code == 200
        assert ask(service, "wrong", "nobody").status_code in {400, 401}
        at_work = {"authorization": f"Bearer {token}"}
        assert service.http.get(f"{service.url}/fhir/R4/Patient", headers=at_work).status_code == 200
        service.advance(60)
        assert ask(service, SECRET, basic=basic).status_code == 200


def test_right_secrets_are_never_too_many(tmp_path: Path) -> None:
    """C-050: what is right does not count, whatever else of the request is wrong."""
    with running(tmp_path) as service:
        for _ in range(2 * MOST):
            assert ask(service, SECRET).status_code == 200
            fields = {"grant_type": "client_credentials", "client_id": "physician", "client_secret": SECRET}
            answer = service.http.post(f"{service.url}/oauth/token", data={**fields, "scope": "nonsense"})
            assert answer.json()["error"] == "invalid_scope"


def test_unknown_clients(tmp_path: Path) -> None:
    """C-050: names that there are not are one client of their address."""
    with running(tmp_path) as service:
        for number in range(MOST):
            assert ask(service, "wrong", f"nobody {number}").status_code == 400
        assert ask(service, "wrong", "nobody else").status_code == 429
        assert ask(service, SECRET).status_code == 200


@pytest.mark.parametrize("grant", ["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"])
def test_wrong_signatures(tmp_path: Path, grant: str) -> None:
    """C-050: assertions that the client did not sign count as wrong secrets do."""
    parts = ({"alg": "HS256"}, {"sub": "physician", "iss": "physician", "jti": "1"})
    text = ".".join(urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + ".AAAA"
    kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    client = Client(
        tenant="riverbend",
        secret=Secret(file=str(secret_file(tmp_path))),
        scopes=("user/.",),
        role=Role.PHYSICIAN,
        uri="https://x.example",
        grants=("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
    )
    with running(tmp_path, clients={"physician": client}) as service:
        fields = {"grant_type": grant, "client_id": "physician", "scope": "user/."}
        fields |= {"assertion": text} if "jwt" in grant else {"client_assertion": text, "client_assertion_type": kind}
        for status in [*[400] * MOST, 429]:
            answer = service.http.post(f"{service.url}/oauth/token", data=fields)
            assert answer.status_code == status, answer.text
        assert ask(service, SECRET).status_code == 429
