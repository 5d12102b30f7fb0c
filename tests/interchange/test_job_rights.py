"""Who may read and cancel a job: whoever may carry out its operation with its patient, and nobody else.

The handle stands beside the matrix of all interactions (test_walk.py, test_context_walk.py), as its rights are another
interaction's: here that of `$everything`, which is for clinicians, and of `$merge`, which is a write.
"""

from collections.abc import Iterator

import pytest

from engine.config.service import Jobs
from engine.fhir.schema import FhirVersion
from engine.interchange.web.http.route import INTERACTIONS
from tests.interchange.browser import USERS
from tests.interchange.jobs import KIND, Bench, ask_for, handle_of
from tests.interchange.kit import BASES, Inside, issue, merge_body, running_inside
from tests.interchange.test_patient_context import App, clients
from tests.interchange.test_walk import CLINICIANS, scoped

ALL = ("physician", "nurse", "administrative", "system")
KINDS = (KIND, "merge", "export-ccda", "cq-search", "p360-retrieve")
MANY = Jobs(waiting_per_tenant=10_000)
CODES = {"GET": "read", "DELETE": "delete"}


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """A service whose jobs do not end by themselves."""
    bench = Bench()
    with running_inside(tmp_path_factory.mktemp("rights"), dict.fromkeys(KINDS, bench.work), jobs=MANY) as found:
        yield found


def asked(service: Inside, patient_id: str, base: str, kind: str = KIND) -> str:
    """Ask for a job, or for the one that is under way at this base."""
    version = next(one for one in FhirVersion if BASES[one] == base)
    return handle_of(ask_for(service, patient_id, kind=kind, version=version), service)


def test_these_are_all_interactions_with_rights_of_their_own() -> None:
    """Whatever else judges for itself who may needs a test like this one."""
    own = {(one.type, one.code, one.method) for one in INTERACTIONS if one.own_rights}
    assert own == {("RequestResult", code, method) for method, code in CODES.items()}


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_without_a_token(worked: Inside, base: str, method: str) -> None:
    """Nobody reads or cancels a job whose token is none."""
    handle = asked(worked, f"p1{base}", base)
    for token in ("", "garbage", worked.pair().refresh):
        headers = {"authorization": f"Bearer {token}"} if token else {}
        issue(worked.http.request(method, worked.url + handle, headers=headers), 401, "login")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_by_role(worked: Inside, base: str, method: str) -> None:
    """The roles that may carry out the operation may, others are refused with 403."""
    for role in ALL:
        answer = worked.ask(method, asked(worked, f"p1{base}", base), client=role)
        if role in CLINICIANS:
            assert answer.status_code == 202, role
        else:
            issue(answer, 403, "forbidden")


SCOPES = [
    (KIND, "patient.read", True),
    (KIND, "patient360", True),
    (KIND, "patient/*.read", True),
    (KIND, "user/Patient.read", False),
    (KIND, "patient/*.write", False),
    (KIND, "user/RequestResult.read", False),
    ("merge", "patient.write", True),
    ("merge", "user/Patient.write", True),
    ("merge", "patient.read", False),
    ("merge", "patient360", False),
    ("export-ccda", "patient.read", True),
    ("export-ccda", "user/Patient.read", False),
    ("cq-search", "user/DocumentReference.read", True),
    ("cq-search", "user/Observation.read", False),
    ("p360-retrieve", "patient.write", True),
    ("p360-retrieve", "patient360", False),
    ("p360-retrieve", "patient.read", False),
]


@pytest.mark.parametrize(("kind", "scope", "allowed"), SCOPES)
def test_by_scope(worked: Inside, base: str, kind: str, scope: str, *, allowed: bool) -> None:
    """The scopes of the operation are those of its handle, to read it and to cancel it; no others are."""
    for method in ("GET", "DELETE"):
        handle = asked(worked, f"p2{base}", base, kind)
        token = worked.token("patient360") if scope == "patient360" else scoped(worked, scope)
        headers = {"authorization": f"Bearer {token}"}
        answer = worked.http.request(method, worked.url + handle, headers=headers)
        if allowed:
            assert answer.status_code == 202, (method, answer.text)
        else:
            issue(answer, 403, "forbidden")
            assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
            assert worked.ask("GET", handle).status_code == 202


def test_by_tenant_and_base(worked: Inside, base: str) -> None:
    """C-342: to another tenant, and at the other base, a handle is as absent as one that there never was."""
    handle = asked(worked, f"p3{base}", base)
    elsewhere = handle.replace(base, next(one for one in BASES.values() if one != base))
    for method in ("GET", "DELETE"):
        issue(worked.ask(method, handle, client="other"), 404, "not-found")
        issue(worked.ask(method, elsewhere), 404, "not-found")
        issue(worked.ask(method, f"{base}/RequestResult/{'0' * 24}"), 404, "not-found")
    assert worked.ask("GET", handle).status_code == 202


def test_other_methods_and_parameters(worked: Inside, base: str) -> None:
    """A handle is read and cancelled; it takes no other method, no parameter, and is no part of a Bundle."""
    handle = asked(worked, f"p4{base}", base)
    assert worked.ask("PUT", handle, json={}).headers["allow"] == "DELETE, GET, HEAD"
    issue(worked.ask("GET", f"{handle}?x=y"), 400, "not-supported")
    issue(worked.ask("GET", f"{base}/RequestResult"), 404, "not-supported")
    for method in ("GET", "DELETE"):
        step = {"request": {"method": method, "url": handle.removeprefix(f"{base}/")}}
        bundle = {"resourceType": "Bundle", "type": "transaction", "entry": [step]}
        issue(worked.ask("POST", base, json=bundle), 400, "not-supported")
    assert worked.ask("GET", handle).status_code == 202


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """A service where people choose a patient."""
    folder, bench = tmp_path_factory.mktemp("context"), Bench()
    works = dict.fromkeys(KINDS, bench.work)
    with running_inside(folder, works, clients=clients(folder), users=USERS) as service:
        yield service


def test_by_patient(signed: Inside, base: str) -> None:
    """N-168: a token for one patient reads and cancels jobs of that patient, and of nobody else.

    Those of operations that such a token may not call are not its own either.
    """
    mine, other = signed.create()["id"], signed.create()["id"]
    app = App(signed, mine)
    for method in ("GET", "DELETE"):
        assert app.ask(method, asked(signed, mine, base)).status_code == 202
        for patient_id, kind in ((other, KIND), ("", KIND), (mine, "merge"), (mine, "p360-retrieve")):
            handle = asked(signed, patient_id, base, kind)
            issue(app.ask(method, handle), 403, "forbidden")
            assert signed.ask("GET", handle).status_code == 202
    wider = App(signed, mine, "wider", "launch/patient user/*.*")
    assert wider.ask("GET", asked(signed, other, base)).status_code == 202


def test_by_patient_after_a_merge(signed: Inside, base: str) -> None:
    """What was asked for the survivor is of the patient too whose record was merged into it."""
    gone, survivor, other = (signed.create()["id"] for _ in range(3))
    app = App(signed, gone)
    assert signed.ask("POST", f"{base}/Patient/$merge", json=merge_body(gone, survivor)).status_code == 200
    for patient_id in (gone, survivor):
        assert app.ask("GET", asked(signed, patient_id, base)).status_code == 202
    issue(app.ask("GET", asked(signed, other, base)), 403, "forbidden")
