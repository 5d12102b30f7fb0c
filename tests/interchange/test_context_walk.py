"""Every interaction of the service with a token for one patient: with that patient's record, and with another's.

The walk goes by the service's own table of interactions, alone and in Bundles. What each may do is written here by
hand, so that an interaction that nobody has thought about fails `test_every_interaction_is_walked`.
"""

import base64
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import orjson
import pytest

from engine.config.service import Feature
from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import Interaction, InteractionLevel
from engine.interchange.web.http.route import INTERACTIONS
from tests.interchange.browser import USERS
from tests.interchange.kit import BASES, Running, merge_body, patient, running
from tests.interchange.least import least, version_of
from tests.interchange.test_patient_context import DIRECTORY, App, charts, clients

KINDS = {
    "Patient": "patient",
    "AuditEvent": "log",
    "Bundle": "message",
    "Subscription": "criteria",
    "Group": "roster",
    **dict.fromkeys(DIRECTORY, "directory"),
}
PATCH = "application/json-patch+json"
FORM = "application/x-www-form-urlencoded"
# Handles of jobs have their own test (test_job_rights.py).
# An operation must have made a temporary Binary first, of which `test_temporary_binary.py` speaks.
WALKED = [one for one in INTERACTIONS if not one.own_rights and one.code != "read-temporary"]
# By kind of type, code and level: whether the patient's own is reached, and whether another's is.
OWN, NONE, ALL = (True, False), (False, False), (True, True)
REACH: dict[tuple[str, str, str], tuple[bool, bool]] = {
    **{
        (kind, code, "instance"): OWN
        for kind in ("patient", "chart", "criteria")
        for code in ("read", "vread", "history-instance", "update", "patch", "delete")
    },
    **{("directory", code, "instance"): ALL for code in ("read", "vread", "history-instance")},
    **{("directory", code, "instance"): NONE for code in ("update", "patch", "delete")},
    **{
        (kind, code, "type"): NONE
        for kind in ("patient", "chart", "directory", "criteria", "roster")
        for code in ("update", "delete", "history-type", "create", "validate")
    },
    # A roster is of many patients.
    **{
        ("roster", code, "instance"): NONE
        for code in ("read", "vread", "history-instance", "update", "patch", "delete")
    },
    ("roster", "search-type", "type"): NONE,
    ("patient", "search-type", "type"): OWN,
    ("chart", "search-type", "type"): OWN,
    ("directory", "search-type", "type"): ALL,
    ("chart", "create", "type"): OWN,
    # No parameter of theirs names a patient; what each names in its criteria is held by the other interactions.
    ("criteria", "search-type", "type"): NONE,
    ("criteria", "create", "type"): OWN,
    ("patient", "everything", "instance"): OWN,
    ("patient", "export-ccda", "instance"): OWN,
    ("chart", "submit", "instance"): OWN,
    ("patient", "merge", "type"): NONE,
    ("chart", "merge-document", "type"): NONE,
    **{(kind, "cq-search", level): OWN for kind in ("patient", "chart") for level in ("type", "instance")},
    ("chart", "p360-retrieve", "type"): NONE,
    ("message", "read", "instance"): NONE,
    ("message", "search-type", "type"): NONE,
    ("message", "process-message", "system"): NONE,
    ("log", "read", "instance"): NONE,
    ("log", "search-type", "type"): NONE,
}


class Kept(NamedTuple):
    """A base of a service with two charts, an app whose token is for the first, and ids by type and owner."""

    service: Running
    base: str
    app: App
    mine: str
    other: str
    ids: dict[str, dict[str, str]]


@pytest.fixture(scope="module", params=sorted(BASES))
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    """Two charts at each base, with all that is on trial."""
    folder, base = tmp_path_factory.mktemp("walk"), BASES[request.param]
    with running(folder, clients=clients(folder), users=USERS, feature_flags=tuple(Feature)) as service:
        mine, other, ids = charts(service, base)
        ids["Patient"] = {mine: mine, other: other}
        ids["AuditEvent"] = ids["Bundle"] = {mine: "1", other: "2"}
        yield Kept(service, base, App(service, mine), mine, other, ids)


def kind_of(one: Interaction) -> str:
    """Return to which kind the type of an interaction belongs."""
    return KINDS.get(one.type, "chart")


def request_of(kept: Kept, one: Interaction, owner: str) -> tuple[str, str, Any]:
    """Return method, address below the base, and body of an interaction with the record of one of the patients."""
    version, target = version_of(kept.base), kept.ids[one.type][owner]
    name = name_in(version, one.type)
    named = [] if one.level is InteractionLevel.SYSTEM else [name]
    steps = [
        *named,
        *([target] if one.level is InteractionLevel.INSTANCE else []),
        *([one.operation] if one.operation else []),
    ]
    path = "/".join(steps) + ("1" if one.operation.endswith("/") else "")
    if one.form or (one.code == "search-type" and one.level is InteractionLevel.TYPE):
        whose = "_id" if one.type == "Patient" else "patient"
        query = "" if one.type in DIRECTORY else f"{whose}={owner}"
        return one.method, path if one.form else f"{path}?{query}", query if one.form else None
    if one.level is InteractionLevel.TYPE and one.code in {"update", "delete"}:
        path += f"?_id={target}"
    if one.code == "merge":
        return one.method, path, merge_body(kept.other, owner)
    if one.code in {"everything", "export-ccda", "cq-search", "submit", "process-message"}:
        path += f"?patient={owner}" if one.level is InteractionLevel.TYPE else ""
        return one.method, path, {"resourceType": "Parameters"} if one.method == "POST" else None
    if one.code == "patch":
        return one.method, path, [{"op": "add", "path": "/language", "value": "en"}]
    if one.method not in {"POST", "PUT"}:
        return one.method, path, None
    made = patient() if one.type == "Patient" else least(one.type, owner, version)
    return one.method, path, {**made, **({"id": target} if one.code == "update" else {})}


def alone(kept: Kept, method: str, path: str, body: Any) -> httpx.Response:
    """Send a request with the app's token."""
    if isinstance(body, str):
        return kept.service.http.post(
            f"{kept.service.url}{kept.base}/{path}",
            content=body,
            headers={"authorization": f"Bearer {kept.app.tokens['access_token']}", "content-type": FORM},
        )
    kind = {"content-type": PATCH} if method == "PATCH" else {}
    kind |= {"prefer": "respond-async"} if path.endswith("$export-ccda") else {}
    return kept.app.ask(method, f"{kept.base}/{path}", body, **kind)


def bundled(kept: Kept, kind: str, requests: list[tuple[str, str, Any]]) -> list[int]:
    """Send requests as a Bundle, and return their statuses, or that of the whole."""
    steps = []
    for method, path, body in requests:
        if method == "PATCH":
            data = base64.b64encode(orjson.dumps(body)).decode()
            body = {"resourceType": "Binary", "contentType": PATCH, "data": data}  # noqa: PLW2901 - as it is sent
        steps.append({"request": {"method": method, "url": path}, **({} if body is None else {"resource": body})})
    answer = kept.app.ask("POST", kept.base, {"resourceType": "Bundle", "type": kind, "entry": steps})
    if answer.status_code != 200:
        return [answer.status_code]
    return [int(entry["response"]["status"][:3]) for entry in answer.json().get("entry", [])]


def may_be_bundled(kept: Kept, one: Interaction) -> bool:
    """Say whether a Bundle may hold an interaction."""
    return not (one.operation.startswith("$") or one.form or (one.method == "PATCH" and kept.base == "/fhir"))


def test_every_interaction_is_walked() -> None:
    """Each interaction of the service has its line in this file's table, and the table names none that is not."""
    assert {(kind_of(one), one.code, str(one.level)) for one in WALKED} == set(REACH)


@pytest.mark.parametrize("type_name", sorted({one.type for one in WALKED}))
def test_a_token_for_one_patient(kept: Kept, type_name: str) -> None:
    """N-168: alone and in Bundles it reaches what the table says of its patient, and nothing of another one."""
    version = version_of(kept.base)
    of_type = [one for one in WALKED if one.type == type_name and version in one.versions]
    denied = []
    # A delete of the patient's own comes last.
    for one in sorted(of_type, key=lambda found: found.code == "delete"):
        own, others = REACH[kind_of(one), one.code, one.level]
        for owner, reached in ((kept.other, others), (kept.mine, own)):
            method, path, body = request_of(kept, one, owner)
            status = alone(kept, method, path, body).status_code
            # Nobody deletes a patient while the chart is there.
            wanted = {409} if (type_name, one.code) == ("Patient", "delete") else {200, 201, 202, 204}
            # Nor does a laboratory get an order without a test.
            wanted = {422} if one.code == "submit" else wanted
            assert status in (wanted if reached else {403}), (method, path, status)
            if may_be_bundled(kept, one) and not reached:
                denied.append((method, path, body))
    assert set(bundled(kept, "batch", denied)) <= {403}
    for step in denied if type_name in {"Patient", "Observation", "Provenance", "Organization"} else ():
        assert bundled(kept, "transaction", [step]) == [403], step
    still = kept.service.ask("GET", f"{kept.base}/Patient/{kept.other}")
    assert still.json()["meta"]["versionId"] == "1"
