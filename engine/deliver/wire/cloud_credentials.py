"""Credentials that a cloud gives its own machines: identities of Azure and Google, and access keys of AWS.

The metadata services are asked at the addresses of their clouds, or where the clouds' own variables say.
"""

import configparser
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from engine.config.network import is_loopback
from engine.config.secret import Secret
from engine.config.settings import environment
from engine.config.sign_in import Auth
from engine.deliver.wire.client import FhirClient
from engine.deliver.wire.oauth import ask_for_token, read_token, secret_text, unusable
from engine.errors import DestinationError
from engine.security.oauth import UNSAID_SECONDS, lifetime
from engine.security.sigv4 import AwsCredentials

# Answers of a metadata service that has not come up yet, as well as of one without an identity.
_ABSENT: Final = frozenset({404, 410})
AZURE_HOST: Final = "http://169.254.169.254"
GOOGLE_HOST: Final = "metadata.google.internal"
EC2_HOST: Final = "http://169.254.169.254"
# The addresses that AWS gives containers: of ECS, and of EKS.
CONTAINER_HOST: Final = "169.254.170.2"
CONTAINER_HOSTS: Final = frozenset({CONTAINER_HOST, "169.254.170.23", "fd00:ec2::23"})
EC2_TOKEN_SECONDS: Final = 21_600

Clock = Callable[[], datetime]


class ManagedIdentity:
    """The identity of an Azure machine (IMDS), or of an App Service, whose variables say where it is asked."""

    def __init__(self, auth: Auth, client: FhirClient, clock: Clock) -> None:
        self._auth = auth
        self._client = client
        self._clock = clock

    async def ask(self) -> tuple[str, float]:
        """Return a new access token and the seconds that it lasts; DestinationError."""
        endpoint, proof = environment("IDENTITY_ENDPOINT"), environment("IDENTITY_HEADER")
        if endpoint and proof:
            url, version, headers = endpoint, "2019-08-01", [("X-IDENTITY-HEADER", proof)]
        else:
            host = environment("AZURE_POD_IDENTITY_AUTHORITY_HOST").rstrip("/") or AZURE_HOST
            url, version, headers = f"{host}/metadata/identity/oauth2/token", "2018-02-01", [("Metadata", "true")]
        query = {"api-version": version, "resource": self._auth.audience}
        if self._auth.client_id:
            query["client_id"] = self._auth.client_id
        return await _token(self._client, f"{url}?{urlencode(query)}", headers, self._clock)


class GoogleMetadata:
    """The service account of a Google machine, or of a pod by workload identity."""

    def __init__(self, auth: Auth, client: FhirClient, clock: Clock) -> None:
        self._auth = auth
        self._client = client
        self._clock = clock

    async def ask(self) -> tuple[str, float]:
        """Return a new access token and the seconds that it lasts; DestinationError."""
        host = environment("GCE_METADATA_HOST") or GOOGLE_HOST
        url = f"http://{host}/computeMetadata/v1/instance/service-accounts/default/token"
        if self._auth.scope:
            url += f"?scopes={quote(','.join(self._auth.scope.split()), safe='')}"
        return await _token(self._client, url, [("Metadata-Flavor", "Google")], self._clock)


async def _token(client: FhirClient, url: str, headers: list[tuple[str, str]], clock: Clock) -> tuple[str, float]:
    answer = await ask_for_token(client, "GET", url, headers, b"", clock())
    if answer.status in _ABSENT:
        raise _absent(answer.status)
    issued = read_token(answer, clock())
    return issued.text, issued.seconds


def _absent(status: int) -> DestinationError:
    return DestinationError("token-unavailable", status=status, codes=("token-unavailable", f"http-{status}"))


class AwsKeys:
    """Access keys of AWS: those of `auth`, of its profile, of the environment, of the container, or of the machine."""

    def __init__(self, auth: Auth, client: FhirClient, clock: Clock) -> None:
        self._auth = auth
        self._client = client
        self._clock = clock

    async def ask(self) -> tuple[AwsCredentials, float]:
        """Return an access key and the seconds that it lasts; DestinationError.

        One that lasts until it is taken back is read again after UNSAID_SECONDS.
        """
        auth = self._auth
        if auth.access_key_id is not None:
            references = (auth.access_key_id, auth.secret_access_key, auth.session_token)
            return _checked(*map(secret_text, references)), UNSAID_SECONDS
        if auth.aws_profile:
            return _of_profile(auth.aws_profile), UNSAID_SECONDS
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        if environment(names[0]) and environment(names[1]):
            return _checked(*map(environment, names)), UNSAID_SECONDS
        if url := _container():
            return await self._given(url, _container_proof())
        if environment("AWS_EC2_METADATA_DISABLED").lower() == "true":
            raise unusable("no-credentials")
        return await self._of_machine()

    async def _of_machine(self) -> tuple[AwsCredentials, float]:
        """Ask the machine's metadata service, version 2: first for a token, with which it is asked for the rest."""
        host = environment("AWS_EC2_METADATA_SERVICE_ENDPOINT").rstrip("/") or EC2_HOST
        asked = [("X-aws-ec2-metadata-token-ttl-seconds", str(EC2_TOKEN_SECONDS))]
        proof = [("X-aws-ec2-metadata-token", await self._text("PUT", f"{host}/latest/api/token", asked))]
        roles = f"{host}/latest/meta-data/iam/security-credentials/"
        role = (await self._text("GET", roles, proof)).partition("\n")[0]
        return await self._given(roles + quote(role, safe=""), proof)

    async def _text(self, method: str, url: str, headers: list[tuple[str, str]]) -> str:
        answer = await ask_for_token(self._client, method, url, headers, b"", self._clock())
        text = answer.body.decode("ascii", "replace").strip()
        if answer.status in _ABSENT or not text:
            raise unusable("no-credentials")
        if answer.status != 200:
            raise DestinationError("token-refused", status=answer.status, codes=("token-refused",))
        return text

    async def _given(self, url: str, headers: list[tuple[str, str]]) -> tuple[AwsCredentials, float]:
        answer = await ask_for_token(self._client, "GET", url, headers, b"", self._clock())
        body: Any = answer.json if answer.status == 200 and isinstance(answer.json, dict) else {}
        keys = [str(body.get(name) or "") for name in ("AccessKeyId", "SecretAccessKey", "Token")]
        if not all(keys):
            raise DestinationError("token-refused", status=answer.status, codes=("token-refused",))
        return _checked(*keys), lifetime(_until(body.get("Expiration"), self._clock()))


def _container() -> str:
    """Return where the container's access key is asked for, '' where there is none.

    DestinationError for an address that is neither of AWS, nor of this machine, nor by TLS.
    """
    if path := environment("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        return f"http://{CONTAINER_HOST}{path}"
    url = environment("AWS_CONTAINER_CREDENTIALS_FULL_URI")
    parts = urlsplit(url)
    host = parts.hostname or ""
    if url and parts.scheme != "https" and not is_loopback(host) and host not in CONTAINER_HOSTS:
        raise unusable("no-credentials")
    return url


def _container_proof() -> list[tuple[str, str]]:
    text = environment("AWS_CONTAINER_AUTHORIZATION_TOKEN")
    if file := environment("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"):
        try:
            text = Path(file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise unusable("secret-unreadable") from None
    return [("Authorization", text)] if text else []


def _of_profile(name: str) -> AwsCredentials:
    file = environment("AWS_SHARED_CREDENTIALS_FILE") or str(Path.home() / ".aws" / "credentials")
    profiles = configparser.RawConfigParser(strict=False)
    try:
        profiles.read_string(secret_text(Secret(file=file)))
        section = profiles[name]
    except (configparser.Error, KeyError):
        # Not chained: its text has lines of the file.
        raise unusable("no-credentials") from None
    names = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
    return _checked(*(section.get(key, "") for key in names))


def _checked(access_key_id: str, secret_access_key: str, session_token: str) -> AwsCredentials:
    """Return an access key; DestinationError where a half is missing or does not fit into a header."""
    shown = f"{access_key_id}{session_token}"
    if not (access_key_id and secret_access_key and shown.isascii() and shown.isprintable()):
        raise unusable("no-credentials")
    return AwsCredentials(access_key_id, secret_access_key, session_token)


def _until(text: object, now: datetime) -> float:
    """Return the seconds to a moment, NaN where it is none."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return float("nan")
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now.timestamp()
