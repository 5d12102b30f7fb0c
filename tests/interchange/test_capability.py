"""What the CapabilityStatements state is there, and nothing else: each interaction, parameter and include is tried."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine.fhir.schema import resource_types
from engine.fhir.versions.names import r4_name
from engine.interchange.rest.resource.catalogue import KEPT
from tests.interchange.kit import Outside, issue, patient, running
from tests.interchange.least import least, version_of
from tests.interchange.webhooks.test_messages import message, send

HL7 = "http://hl7.org/fhir/SearchParameter/"
US_CORE = {
    "Encounter": {"discharge-disposition": "us-core-encounter-discharge-disposition"},
    "Goal": {"description": "us-core-goal-description"},
}
# Parameters of ours, or that only the other version has of its own.
OURS = {
    "R4": {
        "ActivityDefinition": {"code"},
        "Binary": {"patient"},
        "Bundle": {"message.event", "patient"},
        "Group": {"name"},
        "MedicationStatement": {"encounter"},
        "Organization": {"ordering-enabled"},
        "RequestGroup": {"performer"},
    },
    "STU3": {
        "ActivityDefinition": {"code"},
        "Binary": {"patient"},
        "Bundle": {"message.event", "patient"},
        "Coverage": {"patient"},
        "DocumentReference": {"date"},
        "Encounter": {"discharge-disposition"},
        "Group": {"name"},
        "Goal": {"description"},
        "MedicationRequest": {"encounter"},
        "MedicationStatement": {"encounter"},
        "Organization": {"ordering-enabled"},
        "ProcedureRequest": {"category"},
        "RequestGroup": {"code", "performer"},
    },
}
EVERY = {"_id": "Resource-id", "_lastUpdated": "Resource-lastUpdated"}
EVERY |= {"_tag": "Resource-tag", "_security": "Resource-security"}
# Method and address of each interaction that FHIR knows; {} is the resource's id.
INTERACTIONS = {
    "read": ("GET", "/{}"),
    "vread": ("GET", "/{}/_history/1"),
    "history-instance": ("GET", "/{}/_history"),
    "history-type": ("GET", "/_history"),
    "search-type": ("GET", "?_id={}"),
    "create": ("POST", ""),
    "update": ("PUT", "/{}"),
    "patch": ("PATCH", "/{}"),
    "delete": ("DELETE", "/{}"),
}
# By the type of a parameter, and by the name where that is not any value.
VALUES = {"date": "2025", "token": "x", "string": "x", "reference": "none", "uri": "urn:x"}
NAMED = {"active": "true", "deceased": "true", "ordering-enabled": "true", "gender": "female", "date": "ge2025"}
LIMITED = ("A search of ", " needs the parameter patient.")


class Stated(NamedTuple):
    """A service, a base of it, and what its CapabilityStatement says of each type."""

    service: Outside
    base: str
    version: str
    rest: dict[str, Any]

    @property
    def types(self) -> dict[str, dict[str, Any]]:
        """Each type's statement by its name."""
        return {one["type"]: one for one in self.rest["resource"]}

    def client(self, name: str) -> dict[str, str]:
        """Return who may ask for a type."""
        return {"client": "auditor", "scope": "system/AuditEvent.read"} if name == "AuditEvent" else {}


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """A service of these tests, whose AuditEvents a client may read."""
    with running(tmp_path_factory.mktemp("stated")) as found:
        known = found.settings.clients
        auditor = known["system"].model_copy(update={"scopes": ("system/AuditEvent.read",)})
        found.reload(clients={**known, "auditor": auditor})
        yield found


@pytest.fixture
def stated(tried: Outside, base: str) -> Stated:
    """What a base states."""
    rest = tried.http.get(f"{tried.url}{base}/metadata").json()["rest"][0]
    return Stated(tried, base, version_of(base), rest)


def hl7(version: str) -> dict[str, dict[str, str]]:
    """Return HL7's search parameters of a version: by type and name, the address of the definition."""
    text = (Path(__file__).parent / "search_parameters.txt").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = {}
    for kind, rest in re.findall(rf"^{version} (\w+):((?: .*\n|\n(?= ))+)", text, re.MULTILINE):
        pairs = (item.partition("=") for item in rest.split())
        found[kind] = {name: f"{HL7}{end or f'{kind}-{name}'}" for name, _, end in pairs}
    return found


def bodies(stated: Stated, who: str) -> dict[str, dict[str, Any]]:
    """Return a body of each type that is kept."""
    kept = (name for name in stated.types if r4_name(name) in KEPT)
    return {
        name: patient() if name == "Patient" else least(r4_name(name), who, version_of(stated.base)) for name in kept
    }


def test_each_definition_is_hl7s(stated: Stated) -> None:
    """N-207: a parameter's definition is the one that HL7 has of it in that version; what it has none of has none."""
    known = hl7(stated.version)
    for name, one in stated.types.items():
        guide = US_CORE.get(name, {}) if stated.version == "R4" else {}
        wanted = {key: f"{HL7}{end}" for key, end in EVERY.items()} | known.get(name, {})
        wanted |= {key: f"http://hl7.org/fhir/us/core/SearchParameter/{end}" for key, end in guide.items()}
        said = {each["name"]: each.get("definition") for each in one["searchParam"]}
        ours = OURS[stated.version].get(name, set())
        assert {key for key, definition in said.items() if definition is None} == ours
        assert {key: said[key] for key in said.keys() - ours} == {key: wanted[key] for key in said.keys() - ours}


def test_each_interaction_is_as_stated(stated: Stated) -> None:
    """N-235: what is stated of a type can be done, and what is not is 404 or 405."""
    service, base = stated.service, stated.base
    made = bodies(stated, service.create()["id"])
    for name, one in stated.types.items():
        said = {each["code"] for each in one["interaction"]}
        who, key, body = stated.client(name), "1", None
        if name in made:
            headers = {"prefer": "create-always"}
            body = service.ask("POST", f"{base}/{name}", json=made[name], headers=headers, **who).json()
            key = body["id"]
        elif name == "Bundle":
            assert send(service, message(service, stated.version, service.create()["id"])).status_code == 200
            key = service.ask("GET", f"{base}/Bundle").json()["entry"][0]["resource"]["id"]
        for code, (method, path) in INTERACTIONS.items():
            more: dict[str, Any] = {**who}
            if method == "PATCH":
                more |= {"json": [], "headers": {"content-type": "application/json-patch+json"}}
            elif method in {"POST", "PUT"}:
                more |= {"json": made.get(name, {"resourceType": name}) if method == "POST" else body or {}}
                more |= {"headers": {"prefer": "create-always"}}
            answer = service.ask(method, f"{base}/{name}{path.format(key)}", **more)
            told = (name, code, answer.status_code, answer.text[:300])
            if code in said:
                assert answer.status_code in {200, 201, 204}, told
            else:
                assert (answer.status_code in {404, 405}, answer.json()["issue"][0]["code"]) == (
                    True,
                    "not-supported",
                ), told


def test_each_parameter_is_as_stated(stated: Stated) -> None:
    """N-235: each stated parameter is answered, beside a patient where that is asked for; HL7's others are refused."""
    service, base = stated.service, stated.base
    known, who = hl7(stated.version), service.create()["id"]
    for name, one in stated.types.items():
        client = stated.client(name)
        for parameter in one["searchParam"]:
            key = parameter["name"]
            query = f"{key}={NAMED.get(key, VALUES[parameter['type']])}"
            answer = service.ask("GET", f"{base}/{name}?{query}", **client)
            if answer.status_code == 400:
                assert answer.json()["issue"][0]["diagnostics"].startswith(LIMITED[0]), answer.text
                assert answer.json()["issue"][0]["diagnostics"].endswith(LIMITED[1]), answer.text
                answer = service.ask("GET", f"{base}/{name}?{query}&patient={who}", **client)
            assert answer.status_code == 200, (name, query, answer.text)
        said = {each["name"] for each in one["searchParam"]}
        limit = f"patient={who}&" if "patient" in said else ""
        for key in sorted(known.get(name, {}).keys() - said):
            issue(service.ask("GET", f"{base}/{name}?{limit}{key}=x", **client), 400, "not-supported")


def test_each_include_is_as_stated(stated: Stated) -> None:
    """N-233, N-235: each stated include is taken, and of the parameters that are references no other one is."""
    service, base = stated.service, stated.base
    references = {
        f"{name}:{each['name']}"
        for name, one in stated.types.items()
        for each in one["searchParam"]
        if each["type"] == "reference" and name not in {"AuditEvent", "Bundle"}
    }
    for name, one in stated.types.items():
        client = stated.client(name)
        for key, field in (("_include", "searchInclude"), ("_revinclude", "searchRevInclude")):
            said = set(one.get(field, ()))
            assert said <= references
            if said:
                query = "&".join(f"{key}={include}" for include in sorted(said))
                answer = service.ask("GET", f"{base}/{name}?_id=none&{query}", **client)
                assert answer.status_code == 200, (name, query, answer.text)
        # Some of them: there are a thousand.
        for include in sorted(references - set(one.get("searchInclude", ())))[::15]:
            answer = service.ask("GET", f"{base}/{name}?_id=none&_include={include}", **client)
            assert answer.status_code == 400, (name, include)


def test_what_is_stated_of_writes(stated: Stated) -> None:
    """N-235: versions, conditional writes and reads, creation by PUT and the policy of references are as stated."""
    for name, one in stated.types.items():
        said = {key: one.get(key) for key in WRITES}
        assert said == (READ_ONLY if name in {"AuditEvent", "Bundle"} else WRITES), name
    service, base = stated.service, stated.base
    made = service.create(base)
    path = f"{base}/Patient/{made['id']}"
    assert service.ask("GET", path, headers={"if-none-match": 'W/"1"'}).status_code == 304
    late = {"if-modified-since": "Fri, 31 Dec 2100 00:00:00 GMT"}
    assert service.ask("GET", path, headers=late).status_code == 304
    place = {**least("Location", "", version_of(base)), "id": f"stated-{stated.version.lower()}"}
    assert service.ask("PUT", f"{base}/Location/{place['id']}", json=place).status_code == 201
    number = {"system": "urn:stated", "value": stated.version}
    place = {"resourceType": "Location", "name": "x", "identifier": [number]}
    query = f"identifier=urn:stated|{stated.version}"
    for wanted in (201, 200):
        answer = service.ask("POST", f"{base}/Location", json=place, headers={"if-none-exist": query})
        assert answer.status_code == wanted
    assert service.ask("PUT", f"{base}/Location?{query}", json=place).status_code == 200
    elsewhere = {**place, "managingOrganization": {"reference": "https://elsewhere.example/fhir/Organization/1"}}
    issue(service.ask("POST", f"{base}/Location", json=elsewhere), 422, "not-found")
    nobody = {**place, "managingOrganization": {"reference": "Organization/nobody"}}
    issue(service.ask("POST", f"{base}/Location", json=nobody), 422, "not-found")
    logical = {"resourceType": "Location", "name": "y", "managingOrganization": {"identifier": number}}
    if stated.version == "R4":
        assert service.ask("POST", f"{base}/Location", json=logical).status_code == 201
    assert service.ask("DELETE", f"{base}/Location?{query}").status_code == 204


# By version, the end of the address of each operation's definition: the type, and the operation.
BOTH = (
    "MessageHeader-process-message",
    "Patient-merge",
    "RequestGroup-submit",
    "Patient-everything",
    "Patient-export-ccda",
    "Patient-cq-search",
    "DocumentReference-cq-search",
)
OPERATIONS = {"R4": BOTH, "STU3": (*BOTH, "DocumentReference-merge", "DocumentReference-p360-retrieve")}
WRITES = {
    "versioning": "versioned",
    "readHistory": True,
    "updateCreate": True,
    "conditionalCreate": True,
    "conditionalRead": "full-support",
    "conditionalUpdate": True,
    "conditionalDelete": "single",
    "referencePolicy": ["literal", "logical", "enforced", "local"],
}
READ_ONLY = {
    "versioning": "no-version",
    "readHistory": False,
    "updateCreate": False,
    "conditionalCreate": False,
    "conditionalRead": "not-supported",
    "conditionalUpdate": False,
    "conditionalDelete": "not-supported",
    "referencePolicy": None,
}


def test_the_whole_system_and_operations(stated: Stated) -> None:
    """N-235: batch and transaction at the base, the operations that are named, and neither others nor other types."""
    service, base, rest = stated.service, stated.base, stated.rest
    assert {one["code"] for one in rest["interaction"]} == {"batch", "transaction"}
    for kind in ("batch", "transaction"):
        bundle = {"resourceType": "Bundle", "type": kind}
        assert service.ask("POST", base, json=bundle).json()["type"] == f"{kind}-response"
    for path in ("/_history", "?_id=x", "/$meta", "/_search"):
        assert service.ask("GET", f"{base}{path}").status_code in {404, 405}
    holders = [rest] if stated.version == "STU3" else stated.types.values()
    listed = [operation for holder in holders for operation in holder.get("operation", ())]
    listed += rest["operation"] if stated.version == "R4" else []
    definitions = [one["definition"] for one in listed]
    texts = [definition["reference"] if isinstance(definition, dict) else definition for definition in definitions]
    assert sorted(text.rpartition("/")[2] for text in texts) == sorted(OPERATIONS[stated.version])
    assert all(text.endswith(f"-{one['name']}") for one, text in zip(listed, texts, strict=True))
    assert ("$process-message" in {f"${one['name']}" for one in rest["operation"]}) is True
    who = service.create()["id"]
    assert service.ask("GET", f"{base}/Patient/{who}/$everything").status_code == 200
    parameters = {"resourceType": "Parameters"}
    assert service.ask("POST", f"{base}/Patient/$merge", json=parameters).status_code == 400
    for path in ("Patient/$match", "Observation/$lastn", "Patient/$validate", f"Patient/{who}/$merge"):
        issue(service.ask("POST", f"{base}/{path}", json=parameters), 404, "not-supported")
    for name in sorted(resource_types(version_of(base)) - stated.types.keys()):
        issue(service.ask("GET", f"{base}/{name}?_id=x"), 404, "not-supported")
