"""Reading patients from the interchange service, as a client of it: for the demo and for people."""

from typing import Final
from urllib.parse import quote

import orjson

from engine.deliver.wire.client import Client
from engine.errors import AdtEngineError
from engine.ops.demo.facts import Resource

FORM: Final = ("Content-Type", "application/x-www-form-urlencoded")


class Charts:
    """Patients of one service by identifier, read with a token of one client."""

    def __init__(self, base: str, client_id: str, secret: str) -> None:
        self._base = base
        self._client_id = client_id
        self._secret = secret
        self._client = Client(request_seconds=10.0, journaled=False)
        self._token = ""

    async def by_identifier(self, system: str, value: str) -> Resource | None:
        """Return the Patient that the service finds under an identifier; None where there is not exactly one.

        AdtEngineError: the service refuses the search, or the token.
        """
        if not self._token:
            self._token = await self._sign_in()
        url = f"{self._base}/fhir/R4/Patient?identifier={quote(f'{system}|{value}', safe='')}"
        answer = await self._client.send("GET", url, [("Authorization", f"Bearer {self._token}")])
        if answer.status != 200:
            raise AdtEngineError(f"the service answers {answer.status} to a search")
        entries = answer.json.get("entry", [])
        return dict(entries[0]["resource"]) if len(entries) == 1 else None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _sign_in(self) -> str:
        form = (
            f"grant_type=client_credentials&client_id={quote(self._client_id)}"
            f"&client_secret={quote(self._secret)}&scope={quote('system/*.*')}"
        )
        answer = await self._client.send("POST", f"{self._base}/oauth/token", [FORM], form.encode())
        if answer.status != 200:
            raise AdtEngineError(f"the service answers {answer.status} to a request for a token")
        return str(answer.json["access_token"])


def pretty(resource: Resource) -> str:
    """Return a resource as JSON for people."""
    return orjson.dumps(resource, option=orjson.OPT_INDENT_2).decode()
