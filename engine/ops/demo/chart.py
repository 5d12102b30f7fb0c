"""Patients read from the interchange service, as a client of it, and what they say in a few plain words."""

from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

import orjson

from engine.deliver.wire.client import FhirClient
from engine.errors import AdtEngineError

Resource = Mapping[str, Any]

FORM: Final = ("Content-Type", "application/x-www-form-urlencoded")
_RACE: Final = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-race"
_ETHNICITY: Final = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-ethnicity"


class DemoCharts:
    """Patients of one service by identifier, read with a token of one client."""

    def __init__(self, base: str, client_id: str, secret: str) -> None:
        self._base = base
        self._client_id = client_id
        self._secret = secret
        self._client = FhirClient(request_seconds=10.0, journaled=False)
        self._token = ""

    async def by_identifier(self, system: str, value: str) -> Resource | None:
        """Return the Patient that the service finds under an identifier; None where there is not exactly one.

        AdtEngineError: the service refuses the search, or the token.
        """
        url = f"{self._base}/fhir/R4/Patient?identifier={quote(f'{system}|{value}', safe='')}"
        answer = await self._client.send("GET", url, [await self.authorization()])
        if answer.status != 200:
            raise AdtEngineError(f"the service answers {answer.status} to a search")
        entries = answer.json.get("entry", [])
        return dict(entries[0]["resource"]) if len(entries) == 1 else None

    async def subscribe(self, subscription: bytes) -> None:
        """Make a Subscription; AdtEngineError where the service refuses it."""
        headers = [await self.authorization(), ("Content-Type", "application/fhir+json")]
        answer = await self._client.send("POST", f"{self._base}/fhir/R4/Subscription", headers, subscription)
        if answer.status != 201:
            raise AdtEngineError(f"the service answers {answer.status} to a subscription")

    async def set_telephone(self, patient: Resource, number: str) -> None:
        """Write another telephone into a chart, as people at a desk do; AdtEngineError where it is refused."""
        telephone = {"system": "phone", "use": "home", "value": number}
        patch = orjson.dumps([{"op": "add", "path": "/telecom", "value": [telephone]}])
        headers = [await self.authorization(), ("Content-Type", "application/json-patch+json")]
        answer = await self._client.send("PATCH", f"{self._base}/fhir/R4/Patient/{patient['id']}", headers, patch)
        if answer.status != 200:
            raise AdtEngineError(f"the service answers {answer.status} to a change of a chart")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def authorization(self) -> tuple[str, str]:
        """Return the header by which the service knows the client."""
        if not self._token:
            self._token = await self._sign_in()
        return "Authorization", f"Bearer {self._token}"

    async def _sign_in(self) -> str:
        form = f"grant_type=client_credentials&client_id={quote(self._client_id)}&client_secret={quote(self._secret)}"
        answer = await self._client.send("POST", f"{self._base}/oauth/token", [FORM], form.encode())
        if answer.status != 200:
            raise AdtEngineError(f"the service answers {answer.status} to a request for a token")
        return str(answer.json["access_token"])


def pretty(resource: Resource) -> str:
    """Return a resource as JSON for people."""
    return orjson.dumps(resource, option=orjson.OPT_INDENT_2).decode()


def facts_of(patient: Resource) -> dict[str, str]:
    """Return the facts of a Patient: word to value, empty where the record says nothing.

    Several values are sorted and joined by a space; telephones are their last seven digits.
    """
    return {word: read(patient) for word, read in _FACTS.items()}


def _official(patient: Resource) -> Resource:
    names: list[Resource] = patient.get("name", [])
    return next((name for name in names if name.get("use") in {"official", None}), names[0] if names else {})


def _joined(values: list[str]) -> str:
    return " ".join(sorted(set(filter(None, values))))


def _phones(patient: Resource, uses: set[str | None]) -> str:
    points = [
        point for point in patient.get("telecom", []) if point.get("use") in uses and point.get("system") != "email"
    ]
    digits = ["".join(mark for mark in str(point.get("value", "")) if mark.isdigit()) for point in points]
    return _joined([number[-7:] for number in digits])


def _codes(concept: Resource | None) -> list[str]:
    return [str(coding.get("code", "")) for coding in (concept or {}).get("coding", [])]


def _languages(patient: Resource) -> str:
    return _joined([code for entry in patient.get("communication", []) for code in _codes(entry.get("language"))[:1]])


def _marital(patient: Resource) -> str:
    return next(iter(_codes(patient.get("maritalStatus"))), "")


def _us_core(patient: Resource, url: str) -> str:
    parts = [part for one in patient.get("extension", []) if one.get("url") == url for part in one.get("extension", [])]
    return _joined([str(part.get("valueCoding", {}).get("code", "")) for part in parts])


def _line(patient: Resource) -> str:
    return next((str(address["line"][0]) for address in patient.get("address", []) if address.get("line")), "")


def _contacts(patient: Resource) -> str:
    return _joined([str(contact.get("name", {}).get("family", "")) for contact in patient.get("contact", [])])


_FACTS: Final[Mapping[str, Callable[[Resource], str]]] = {
    "family": lambda patient: str(_official(patient).get("family", "")),
    "given": lambda patient: next(iter(_official(patient).get("given", [])), ""),
    "names": lambda patient: str(len(patient.get("name", []))),
    "gender": lambda patient: str(patient.get("gender", "")),
    "birthDate": lambda patient: str(patient.get("birthDate", "")),
    "active": lambda patient: str(patient.get("active", "true")).lower(),
    "phone": lambda patient: _phones(patient, {"home", "mobile", None}),
    "workPhone": lambda patient: _phones(patient, {"work"}),
    "line": _line,
    "addresses": lambda patient: str(len(patient.get("address", []))),
    "language": _languages,
    "maritalStatus": _marital,
    "race": lambda patient: _us_core(patient, _RACE),
    "ethnicity": lambda patient: _us_core(patient, _ETHNICITY),
    "contacts": _contacts,
}
