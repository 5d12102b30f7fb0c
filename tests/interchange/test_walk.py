"""Every route of the service, walked: without a token, by every role, by scopes, by another tenant (points C).

The walk goes by the service's own table of interactions. What each one allows is written here a second time, so that
an interaction that nobody has thought about fails `test_every_interaction_is_walked`.
"""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from engine.config.service import Feature
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import Interaction, InteractionLevel
from engine.interchange.web.http.route import INTERACTIONS
from tests.interchange.kit import BASES, SECRET, Inside, Running, issue, merge_body, running
from tests.interchange.test_resource import least

ALL = {"physician", "nurse", "administrative", "system"}
CLINICIANS = ALL - {"administrative"}
PRESCRIBERS = CLINICIANS - {"nurse"}
DELETERS = {"physician", "system"}
READING = ("read", "vread", "history-instance", "history-type", "search-type")
WRITING = ("create", "update", "patch")
CLINICAL = [
    "AllergyIntolerance",
    "Binary",
    "CarePlan",
    "Condition",
    "DiagnosticReport",
    "DocumentReference",
    "Encounter",
    "FamilyMemberHistory",
    "Goal",
    "Group",
    "Immunization",
    "MedicationRequest",
    "MedicationStatement",
    "Observation",
    "Procedure",
    "QuestionnaireResponse",
    "RequestGroup",
    "ServiceRequest",
    "Specimen",
    "Provenance",
]
BILLING = ["Account", "Coverage", "RelatedPerson"]
DIRECTORY = ["ActivityDefinition", "Location", "Organization", "Practitioner", "PractitionerRole", "Questionnaire"]

# Who may do what: a client of the kit for each role.
ALLOWED: dict[tuple[str, str], set[str]] = {
    **{(name, code): CLINICIANS for name in CLINICAL for code in READING + WRITING},
    **{(name, code): ALL for name in BILLING for code in READING + WRITING},
    **{(name, code): ALL for name in DIRECTORY for code in READING},
    **{(name, code): CLINICIANS for name in DIRECTORY for code in WRITING},
    **{("Patient", code): ALL for code in READING + WRITING},
    **{("Subscription", code): DELETERS for code in READING + WRITING},
    **{(name, "delete"): DELETERS for name in ("Patient", "Subscription", *CLINICAL, *BILLING, *DIRECTORY)},
    ("MedicationRequest", "create"): PRESCRIBERS,
    ("Patient", "merge"): CLINICIANS,
    ("Patient", "everything"): CLINICIANS,
    ("Patient", "export-ccda"): CLINICIANS,
    ("Binary", "read-temporary"): CLINICIANS,
    ("DocumentReference", "merge-document"): CLINICIANS,
    ("DocumentReference", "cq-search"): CLINICIANS,
    ("Patient", "cq-search"): CLINICIANS,
    ("DocumentReference", "p360-retrieve"): CLINICIANS,
    ("RequestGroup", "submit"): CLINICIANS,
}
ALLOWED |= {(name, "validate"): ALLOWED[name, "create"] for name, code in ALLOWED if code == "create"}
# What reaches beyond its type: a scope of the type is not enough in these spellings.
BEYOND = {
    **{(name, code): {f"user/{name}.read", f"{name.lower()}.read"} for name, code in ALLOWED if code == "history-type"},
    ("Patient", "everything"): {"user/Patient.read"},
    ("Patient", "cq-search"): {"user/Patient.read"},
    ("Patient", "export-ccda"): {"user/Patient.read"},
    ("Binary", "read-temporary"): {"user/Binary.read", "binary.read"},
    ("DocumentReference", "p360-retrieve"): {"user/DocumentReference.write", "documentreference.write"},
}
# Searches of types that no parameter limits to a patient.
BY_NOBODY = {"Group": "type=person", "Subscription": "status=off"}
OPEN_PAGES = {
    "/livez",
    "/readyz",
    "/metrics",
    "/oauth/token",
    "/oauth/info",
    "/oauth/cancel",
    "/oauth/authorize",
    "/oauth/userinfo",
    "/.well-known/smart-configuration",
    "/.well-known/openid-configuration",
    "/oauth/jwks",
    "/fhir/.well-known/smart-configuration",
    "/fhir/R4/.well-known/smart-configuration",
    "/",
    "/chart/viewer.css",
    "/chart/icon.svg",
    "/chart/sign-in",
    "/chart/signed-in",
    "/_test/lab",
    "/_test/outbound",
    "/_test/document",
    "/_test/network-query",
    "/_test/{name}",
}
# What is for who is signed in: tests/interchange/viewer holds that nobody else sees anything there.
CHART = "/chart/patients/{id}"
OF_A_SESSION = {
    "/chart",
    "/chart/sign-out",
    CHART,
    *(f"{CHART}/{path}" for path in ("results", "visits", "documents", "documents/{document}")),
    *(f"{CHART}/{path}" for path in ("orders", "orders/new", "orders/new/{laboratory}")),
    f"{CHART}/documents/{{document}}/content/{{number:int}}",
}
# The access log, messages and handles have their own tests of who reads them: test_access_log.py (no wildcard, one
# role), webhooks/test_messages.py (all types), and test_job_rights.py (who may carry out the operation).
WALKED = [one for one in INTERACTIONS if one.type not in {"AuditEvent", "Bundle"} and not one.own_rights]
TYPES = sorted({one.type for one in WALKED})
FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/fhir+json", "prefer": "create-always"}
PATCH = {"content-type": "application/json-patch+json"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with all that is on trial, so that it is walked too."""
    with running(tmp_path_factory.mktemp("walk"), feature_flags=tuple(Feature)) as found:
        yield found


def of(type_name: str, version: str) -> Iterator[tuple[Interaction, str]]:
    """Return the interactions of a type in a version, each with its address; an instance has the id `x`."""
    for one in WALKED:
        if one.type == type_name and FhirVersion(version) in one.versions:
            parts = [BASES[version], name_in(FhirVersion(version), type_name)]
            parts += ["x"] * (one.level is InteractionLevel.INSTANCE) + [one.operation] * bool(one.operation)
            parts[-1] += "1" * one.operation.endswith("/")
            if one.operation == "tmp-":
                parts[-2:] = ["tmp-x"]
            yield one, "/".join(parts)


def call(service: Running, one: Interaction, path: str, token: str, body: Any = None) -> httpx.Response:
    """Send what an interaction takes, with an empty object for a body where none is given."""
    kind = FORM if one.form else PATCH if one.code == "patch" else JSON
    later = {"prefer": "respond-async"} if one.code == "export-ccda" else {}
    headers = {**kind, **later, **({"authorization": f"Bearer {token}"} if token else {})}
    if one.form:
        path, _, query = path.partition("?")
        return service.http.request(one.method, service.url + path, headers=headers, content=query)
    more = {"json": {} if body is None else body} if one.method in {"POST", "PUT", "PATCH"} else {}
    return service.http.request(one.method, service.url + path, headers=headers, **more)


def scoped(service: Running, scope: str) -> str:
    """Return a physician's token of one scope."""
    if scope not in service.tokens:
        fields = {"grant_type": "client_credentials", "client_id": "physician", "client_secret": SECRET, "scope": scope}
        service.tokens[scope] = service.http.post(f"{service.url}/oauth/token", data=fields).json()["access_token"]
    return service.tokens[scope]


def test_every_interaction_is_walked() -> None:
    """Each interaction of the service has its line in this file's table, and the table names none that is not."""
    assert {(one.type, one.code) for one in WALKED} == set(ALLOWED)


def test_every_page_is_known(inside: Inside) -> None:
    """Beyond FHIR only these addresses are served, none of which tells anything of a patient."""
    assert {route.path for route in inside.app._pages._router.routes} <= OPEN_PAGES | OF_A_SESSION


@pytest.mark.parametrize("version", BASES)
@pytest.mark.parametrize("type_name", TYPES)
def test_nobody_without_a_token(service: Running, type_name: str, version: str) -> None:
    """C-060, C-061: without a token, and with one that is unknown or no access token, every interaction is 401."""
    for one, path in of(type_name, version):
        for token in ("", "garbage", service.pair().refresh):
            answer = call(service, one, path, token)
            issue(answer, 401, "login")
            assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("version", BASES)
@pytest.mark.parametrize("type_name", TYPES)
def test_every_role(service: Running, type_name: str, version: str) -> None:
    """C-077 to C-080: each role is let in to what the table gives it, and is refused with 403 everywhere else."""
    for one, path in of(type_name, version):
        for role in sorted(ALL):
            answer = call(service, one, path, service.token(role))
            if role in ALLOWED[type_name, one.code]:
                assert answer.status_code not in {401, 403}, (role, one.code)
            else:
                issue(answer, 403, "forbidden")
                assert "www-authenticate" not in answer.headers


@pytest.mark.parametrize("version", BASES)
@pytest.mark.parametrize("type_name", TYPES)
def test_every_scope(service: Running, type_name: str, version: str) -> None:
    """C-065 to C-071: a scope opens its type for its access, in each spelling, and nothing else."""
    for one, path in of(type_name, version):
        access, other = str(one.access), {"read": "write", "write": "read"}[one.access]
        beyond = BEYOND.get((type_name, one.code), set())
        granted = {f"user/{type_name}.{access}", f"{type_name.lower()}.{access}", f"patient/*.{access}"} - beyond
        for scope in granted:
            assert call(service, one, path, scoped(service, scope)).status_code not in {401, 403}, (scope, one.code)
        denied = {f"user/{type_name}.{other}", f"user/Media.{access}", f"patient/*.{other}", *beyond}
        for scope in denied:
            answer = call(service, one, path, scoped(service, scope))
            issue(answer, 403, "forbidden")
            assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


def entries(type_name: str, version: str) -> list[tuple[Interaction, dict[str, Any]]]:
    """Return the interactions of a type that a Bundle may hold, each as its entry."""
    found = []
    for one, path in of(type_name, version):
        if one.operation.startswith("$") or one.form or (one.method == "PATCH" and version == "STU3"):
            continue
        binary = {"resourceType": "Binary", "contentType": PATCH["content-type"], "data": "e30="}
        body = binary if one.method == "PATCH" else {}
        resource = {"resource": body} if one.method in {"POST", "PUT", "PATCH"} else {}
        found.append((one, {"request": {"method": one.method, "url": path[len(BASES[version]) + 1 :]}, **resource}))
    return found


def in_bundles(service: Running, version: str, steps: list[dict[str, Any]], token: str) -> tuple[list[int], int]:
    """Return the statuses of the entries of a batch, and that of a transaction of the same."""
    answers = [
        service.http.post(
            service.url + BASES[version],
            json={"resourceType": "Bundle", "type": kind, "entry": steps},
            headers={**JSON, "authorization": f"Bearer {token}"},
        )
        for kind in ("batch", "transaction")
    ]
    told = [int(entry["response"]["status"][:3]) for entry in answers[0].json()["entry"]]
    return told, answers[1].status_code


@pytest.mark.parametrize("version", BASES)
@pytest.mark.parametrize("type_name", TYPES)
def test_every_role_and_scope_in_a_bundle(service: Running, type_name: str, version: str) -> None:
    """N-154: in a batch and in a transaction each interaction needs the role and the scope that it needs alone."""
    codes = [one for one, _ in entries(type_name, version)]
    steps = [step for _, step in entries(type_name, version)]
    for role in sorted(ALL):
        told, whole = in_bundles(service, version, steps, service.token(role))
        denied = [role not in ALLOWED[type_name, one.code] for one in codes]
        assert [status == 403 for status in told] == denied, (role, told)
        # The first that is refused refuses all; without one it is the empty bodies that do.
        assert whole == 403 if any(denied) else whole in {400, 404}, (role, whole)
    for scope, access in ((f"user/{type_name}.read", "read"), (f"{type_name.lower()}.write", "write")):
        told, whole = in_bundles(service, version, steps, scoped(service, scope))
        beyond = BEYOND.get((type_name, "history-type"), set())
        wide = {"history-type", "read-temporary"}
        denied = [one.access != access or (one.code in wide and scope in beyond) for one in codes]
        assert [status == 403 for status in told] == denied, (scope, told)
        assert whole == 403


class Foreign:
    """A resource of one tenant, and what another tenant gets when it reaches for it; one method for each code."""

    def __init__(self, service: Running, type_name: str) -> None:
        self.service = service
        self.type = type_name
        self.number = {"system": "urn:foreign", "value": uuid4().hex}
        self.patient = service.create(identifier=[self.number])
        if type_name == "Patient":
            self.mine = self.patient
        else:
            self.mine = self.ask("POST", f"/fhir/R4/{type_name}", "physician", least(type_name, self.patient["id"]))
        self.theirs = service.create(client="other")

    def ask(self, method: str, path: str, client: str, body: Any) -> Any:
        """Return what a request answers that must succeed."""
        answer = self.service.ask(method, path, client=client, json=body)
        assert answer.status_code in {200, 201}, answer.text
        return answer.json()

    def body(self, patient_id: str) -> Any:
        """Return a resource of the type for a patient's chart."""
        made = {**self.patient, "id": "x"} if self.type == "Patient" else least(self.type, patient_id)
        return {**made, "resourceType": self.type}

    def reach(self, one: Interaction, path: str) -> None:
        """Let the other tenant try an interaction, and see that it neither sees nor changes anything."""
        reaching: Callable[[Interaction, str], None] = getattr(self, one.code.replace("-", "_"))
        reaching(one, path.replace("/x", f"/{self.mine['id']}"))
        still = self.service.ask("GET", f"/fhir/R4/{self.type}/{self.mine['id']}")
        assert still.json() == self.mine

    def read_temporary(self, one: Interaction, path: str) -> None:
        """A temporary Binary that is not there is told so; `test_temporary_binary.py` tries one that is."""
        issue(call(self.service, one, path, self.service.token("other")), 404, "not-found")

    def read(self, one: Interaction, path: str) -> None:
        """A read finds nothing."""
        issue(call(self.service, one, path, self.service.token("other")), 404, "not-found")

    def vread(self, one: Interaction, path: str) -> None:
        """No version of it is found."""
        issue(call(self.service, one, path, self.service.token("other")), 404, "not-found")

    def history_instance(self, one: Interaction, path: str) -> None:
        """It has no history."""
        issue(call(self.service, one, path, self.service.token("other")), 404, "not-found")

    def history_type(self, one: Interaction, path: str) -> None:
        """It is in no history."""
        answer = call(self.service, one, f"{path}?_count=100", self.service.token("other"))
        assert self.mine["id"] not in {entry["fullUrl"].rpartition("/")[2] for entry in answer.json().get("entry", [])}

    def delete(self, one: Interaction, path: str) -> None:
        """Nothing of another tenant is deleted: there is nothing of this id."""
        path += f"?_id={self.mine['id']}" * (one.level is InteractionLevel.TYPE)
        answer = call(self.service, one, path, self.service.token("other"))
        assert (answer.status_code, "etag" in answer.headers) in {(204, False), (400, False)}

    def search_type(self, one: Interaction, path: str) -> None:
        """No search finds it: neither by id, nor by its patient, nor among all."""
        of_patient = f"patient={self.patient['id']}" if self.type not in BY_NOBODY else BY_NOBODY[self.type]
        for query in (f"_id={self.mine['id']}", of_patient, "_count=100"):
            answer = call(self.service, one, f"{path}?{query}", self.service.token("other"))
            ids = [entry["resource"]["id"] for entry in answer.json().get("entry", [])]
            assert self.mine["id"] not in ids

    def create(self, one: Interaction, path: str) -> None:
        """What is created refers to nothing of this tenant, and stands in the other one."""
        answer = call(self.service, one, path, self.service.token("other"), self.body(self.patient["id"]))
        if answer.status_code == 201:
            assert self.type in {*DIRECTORY, *BY_NOBODY, "Patient"}
            seen = self.service.ask("GET", f"/fhir/R4/{self.type}/{answer.json()['id']}")
            issue(seen, 404, "not-found")
        else:
            assert answer.status_code in {400, 422}

    def update(self, one: Interaction, path: str) -> None:
        """An update to its id makes the other tenant's own, or is refused."""
        body = {**self.body(self.theirs["id"]), "id": self.mine["id"]}
        answer = call(self.service, one, path, self.service.token("other"), body)
        assert answer.status_code in {200, 201, 400, 422}
        if answer.status_code == 200:
            assert answer.json()["meta"]["versionId"] != "1"

    def patch(self, one: Interaction, path: str) -> None:
        """There is nothing to patch."""
        issue(call(self.service, one, path, self.service.token("other")), 404, "not-found")

    def validate(self, one: Interaction, path: str) -> None:
        """What is said of a body is said by this tenant's records alone."""
        told = call(self.service, one, path, self.service.token("other"), self.body(self.patient["id"])).json()
        free = self.type in {*DIRECTORY, *BY_NOBODY, "Patient"}
        assert {entry["severity"] for entry in told["issue"]} == {"information" if free else "error"}

    def submit(self, one: Interaction, path: str) -> None:
        """There is no order to submit."""
        asked = {"resourceType": "Parameters"}
        issue(call(self.service, one, path, self.service.token("other"), asked), 404, "not-found")

    def everything(self, one: Interaction, path: str) -> None:
        """There is no chart of it."""
        asked = {"resourceType": "Parameters"}
        issue(call(self.service, one, path, self.service.token("other"), asked), 404, "not-found")

    def cq_search(self, one: Interaction, path: str) -> None:
        """Nobody is found who could have documents."""
        asked = {"resourceType": "Parameters", "parameter": [{"name": "patient", "valueString": self.patient["id"]}]}
        query = f"?patient={self.patient['id']}" if one.method == "GET" and one.level is InteractionLevel.TYPE else ""
        body = asked if one.level is InteractionLevel.TYPE else {"resourceType": "Parameters"}
        issue(call(self.service, one, path + query, self.service.token("other"), body), 404, "not-found")

    def export_ccda(self, one: Interaction, path: str) -> None:
        """There is no document of it."""
        asked = {"resourceType": "Parameters"}
        issue(call(self.service, one, path, self.service.token("other"), asked), 404, "not-found")

    def merge_document(self, one: Interaction, path: str) -> None:
        """A number of one tenant names no patient of another."""
        document = {**least("DocumentReference", "", FhirVersion.STU3), "subject": {"identifier": self.number}}
        issue(call(self.service, one, path, self.service.token("other"), document), 422, "not-found")

    def p360_retrieve(self, one: Interaction, path: str) -> None:
        """Nothing is retrieved for a patient of another tenant."""
        headers = {"authorization": f"Bearer {self.service.token('other')}", "prefer": "respond-async"}
        asked = f"{self.service.url}{path}?patient={self.patient['id']}"
        issue(self.service.http.request(one.method, asked, headers=headers), 404, "not-found")

    def merge(self, one: Interaction, path: str) -> None:
        """Neither as source nor as target."""
        for pair in ((self.mine["id"], self.theirs["id"]), (self.theirs["id"], self.mine["id"])):
            answer = call(self.service, one, path, self.service.token("other"), merge_body(*pair))
            assert answer.status_code in {404, 422}


@pytest.mark.parametrize("type_name", TYPES)
def test_another_tenant(service: Running, type_name: str) -> None:
    """C-014: what one tenant keeps is absent for another one, by every interaction in both versions."""
    for version in BASES:
        foreign = Foreign(service, type_name)
        # An update comes last: it makes the other tenant a resource of its own with this id.
        for one, path in sorted(of(type_name, version), key=lambda found: found[0].code == "update"):
            foreign.reach(one, path)
