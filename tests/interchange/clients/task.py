"""What every client is told to do, verb by verb, on patients that the service has for it alone."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from tests.interchange.kit import BASES, MRN, SECRET, Running, merge_body, patient, record_number

FRESH: Final = count(1)
PEOPLE: Final = 23
PAGE: Final = 10
# An app that its user opens in a browser, and where the sign-in sends them back to.
APP: Final = "app"
BACK: Final = "http://127.0.0.1:9000/callback"
SCOPE: Final = "user/*.* offline_access"
PATCH: Final = [
    {"op": "test", "path": "/gender", "value": "female"},
    {"op": "replace", "path": "/gender", "value": "other"},
]

Json = Any
# Has a person open a URL and sign in; returns the address that they are sent back to.
Browse = Callable[[str], str]
# What a client calls for each verb, given what the task says of it.
Steps = dict[str, Callable[[Json], Json]]


@dataclass(frozen=True, slots=True)
class Task:
    """What one client does at one base: where, as whom, and by verb what it is given."""

    service: Running
    version: str
    given: dict[str, Json]

    @property
    def path(self) -> str:
        """Path of the base."""
        return BASES[self.version]

    @property
    def base(self) -> str:
        """Address of the base."""
        return self.service.url + self.path

    def ask(self, method: str, path: str) -> Json:
        """Ask the service itself, without the client; the answer must be 200."""
        answer = self.service.ask(method, f"{self.path}/{path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def as_json(self) -> Json:
        """Return it as a client in another language reads it."""
        return {
            "service": self.service.url,
            "base": self.base,
            "version": self.version,
            "client": "physician",
            "secret": SECRET,
            "token": self.service.token("physician"),
            "given": self.given,
        }


def task(service: Running, version: str) -> Task:
    """Return the task for a client; whom it reads, changes and merges are made here, by the service alone."""
    base = BASES[version]
    # Of one length: a search finds what begins with the name.
    family = f"Family{next(FRESH):03}"

    def named(given: str, **more: Any) -> Json:
        return patient(name=[{"family": family, "given": [given]}], **more)

    def made(given: str, **more: Any) -> Json:
        return service.create(base, **named(given, **more))

    def changed(before: Json) -> Json:
        return {name: value for name, value in before.items() if name != "meta"} | {"gender": "male"}

    twice, chart = made("Twice"), made("Chart")
    service.ask("PUT", f"{base}/Patient/{twice['id']}", json=changed(twice))
    seen = service.ask("POST", f"{base}/Observation", json=_observation(f"Patient/{chart['id']}"))
    people = [patient(name=[{"family": f"{family}page", "given": [f"Given{number}"]}]) for number in range(PEOPLE)]
    assert service.ask("POST", base, json=_transaction(*((person, "") for person in people))).status_code == 200
    source, target = (made(given, identifier=[record_number(family + given)]) for given in ("Source", "Target"))
    updated = changed(made("Updated"))
    number = record_number(f"{family}number")
    given = {
        "create": {"resource": named("Created", birthDate="1985-03-01")},
        "read": {"id": made("Read")["id"]},
        "update": {"id": updated["id"], "resource": updated},
        "vread": {"id": twice["id"], "version": "1"},
        "history": {"id": twice["id"]},
        "search": {"query": {"family": family, "given": "Twice"}},
        "page": {"query": {"family": f"{family}page", "_count": str(PAGE)}},
        "_include": {"patient": chart["id"], "include": "Observation:subject"},
        "conditional create": {"resource": named("Once"), "query": {"family": family, "given": "Once"}},
        "conditional update": {
            "first": named("Number", identifier=[number]),
            "second": named("Number", identifier=[number], gender="male"),
            "query": {"identifier": f"{MRN}|{number['value']}"},
        },
        "patch": {"id": made("Patched")["id"], "patch": PATCH},
        "delete": {"id": made("Deleted")["id"]},
        "transaction": {"bundle": _admission(named("Transaction"))},
        "$everything": {"id": chart["id"]},
        "$merge": {
            "source": source["id"],
            "number": f"{family}Source",
            "target": target["id"],
            "parameters": merge_body(source["id"], target["id"]),
        },
        "discovery": {},
        "client credentials": {"client": "physician", "secret": SECRET},
        "authorization code": {"client": APP, "redirect": BACK, "scope": SCOPE},
    }
    given["_include"]["observation"] = given["$everything"]["observation"] = seen.json()["id"]
    return Task(service, version, given)


def _observation(subject: str) -> Json:
    return {
        "resourceType": "Observation",
        "status": "final",
        "code": {"text": "glucose"},
        "subject": {"reference": subject},
        "effectiveDateTime": "2025-07-01",
    }


def _admission(person: Json) -> Json:
    """Return a transaction of a patient, and of what was observed of them, which refers to the entry before it."""
    urn = f"urn:uuid:00000000-0000-4000-8000-{next(FRESH):012}"
    return _transaction((person, urn), (_observation(urn), ""))


def _transaction(*resources: tuple[Json, str]) -> Json:
    """Return a transaction that creates resources, each with its `fullUrl`, or '' for none."""
    entries = [
        {
            "resource": one,
            "request": {"method": "POST", "url": one["resourceType"]},
            **({"fullUrl": url} if url else {}),
        }
        for one, url in resources
    ]
    return {"resourceType": "Bundle", "type": "transaction", "entry": entries}
