"""SMART `launch/patient`: a person chooses a patient at the sign-in, and the tokens reach that patient alone."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.config.account import Auth, Client
from engine.config.secret import Secret
from engine.interchange.rest.resource.catalogue import KEPT
from tests.interchange.browser import BACK, USERS, Browser, Page, portal, sent_back
from tests.interchange.kit import MRN, SECRET, Running, issue, merge_body, patient, record_number, running, secret_file
from tests.interchange.least import least, version_of

DIRECTORY = {
    *("ActivityDefinition", "Organization", "Location", "Practitioner", "PractitionerRole", "Questionnaire"),
}
# No search of these is limited to a patient; and a Group is of many.
OF_NOBODY = {"Group", "Subscription"}
SCOPE = "launch/patient patient/*.read patient/*.write offline_access"
WIDE = f"{SCOPE} user/*.*"
JSON = {"content-type": "application/fhir+json", "prefer": "create-always"}


def clients(folder: Path) -> dict[str, Client]:
    """Return an app that lets a patient be chosen, one that must, one that may more, and a program."""
    secret = Secret(file=str(secret_file(folder)))
    grants = ("authorization_code", "refresh_token", "client_credentials")
    usual: dict[str, Any] = {"grants": grants, "redirect_uris": (BACK,)}
    return {
        "portal": portal(secret, scopes=tuple(SCOPE.split()), **usual),
        "strict": portal(secret, scopes=tuple(SCOPE.split()), patient_context="required", **usual),
        "wider": portal(secret, scopes=tuple(WIDE.split()), **usual),
        "physician": portal(secret, scopes=("user/.",), **usual),
    }


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with users and the apps above."""
    folder = tmp_path_factory.mktemp("context")
    with running(folder, clients=clients(folder), users=USERS) as found:
        yield found


class App:
    """An app whose tokens are for one patient, whom its user chose."""

    def __init__(self, service: Running, patient_id: str, client: str = "portal", scope: str = SCOPE) -> None:
        self.service = service
        browser = Browser(service)
        page = browser.send(browser.open(client_id=client, scope=scope))
        self.answer = exchange(service, sent_back(chosen(browser, page, patient_id).answer)["code"], client)
        self.tokens = self.answer.json()

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Send a request with the app's token."""
        headers = {"authorization": f"Bearer {self.tokens['access_token']}", **JSON, **headers}
        more = {"json": body} if body is not None else {}
        return self.service.http.request(method, self.service.url + path, headers=headers, **more)


def chosen(browser: Browser, page: Page, patient_id: str) -> Page:
    """Send the page of patients with one of them chosen."""
    fields = {**page.hidden, "patient": patient_id}
    return browser._ask("POST", f"{browser.service.url}{page.action}", data=fields)


def found(browser: Browser, page: Page, **entered: str) -> Page:
    """Search on the page of patients."""
    return browser._ask(
        "POST", f"{browser.service.url}{page.action}", data={**page.hidden, **entered, "decision": "find"}
    )


def exchange(service: Running, code: str, client: str = "portal", **more: str) -> httpx.Response:
    """Exchange a code."""
    fields = {"grant_type": "authorization_code", "client_id": client, "client_secret": SECRET, "redirect_uri": BACK}
    return service.http.post(f"{service.url}/oauth/token", data={**fields, "code": code, **more})


def charts(service: Running, base: str) -> tuple[str, str, dict[str, dict[str, str]]]:
    """Return two patients, and by type the ids of a resource of each."""
    mine, other = service.create()["id"], service.create()["id"]
    kept: dict[str, dict[str, str]] = {}
    for name in sorted(set(KEPT) - {"Patient"}):
        for who in (mine, other):
            made = service.ask("POST", f"{base}/{_name(name, base)}", json=least(name, who, version_of(base)))
            assert made.status_code == 201, made.text
            kept.setdefault(name, {})[who] = made.json()["id"]
    return mine, other, kept


def _name(type_name: str, base: str) -> str:
    return "ProcedureRequest" if (type_name, base) == ("ServiceRequest", "/fhir") else type_name


def test_a_patient_is_chosen(service: Running) -> None:
    """After the password comes a page that finds patients of the tenant; the token answer names the one chosen.

    N-306.
    """
    number = f"RB-{service.create()['id'][:8]}"
    made = service.create(identifier=[record_number(number)], name=[{"family": "Chosen", "given": ["One"]}])
    browser = Browser(service)
    page = browser.send(browser.open(scope=SCOPE))
    assert page.answer.status_code == 200
    assert "Choose a patient" in page.answer.text
    for entered in ({"family": "chosen"}, {"identifier": number}, {"family": "Chosen", "birthdate": "1984-02-29"}):
        shown = found(browser, page, **entered)
        assert f'value="{made["id"]}">Chosen, One · 1984-02-29 · female · {number}</button>' in shown.answer.text
    log = sqlite3.connect(service.database)
    asked = log.execute("SELECT client, login, interaction, patients FROM access ORDER BY seq DESC LIMIT 1").fetchone()
    log.close()
    assert asked == ("portal", "dr.osei", "search-type", made["id"])
    told = exchange(service, sent_back(chosen(browser, shown, made["id"]).answer)["code"]).json()
    assert (told["patient"], told["scope"]) == (made["id"], SCOPE)
    fields = {"client_id": "portal", "client_secret": SECRET, "token": told["access_token"]}
    assert service.http.post(f"{service.url}/oauth/info", data=fields).json()["patient"] == made["id"]
    again = {"grant_type": "refresh_token", **fields, "refresh_token": told["refresh_token"]}
    assert service.http.post(f"{service.url}/oauth/token", data=again).json()["patient"] == made["id"]


def test_what_the_page_says(service: Running) -> None:
    """N-306: nothing entered, nobody found and a date that is none are told; nobody of another tenant is shown."""
    browser = Browser(service)
    page = browser.send(browser.open(scope=SCOPE))
    texts = {
        "Enter a name": {},
        "No patient fits": {"family": "Nobodyatall"},
        "cannot be searched for": {"birthdate": "29/02/1984"},
    }
    for text, entered in texts.items():
        answer = found(browser, page, **entered).answer
        assert (answer.status_code, text in answer.text) == (200, True)
        assert re.search(r'role="alert"', answer.text)
    unknown = chosen(browser, page, "nobody")
    assert (unknown.answer.status_code, "Choose a patient" in unknown.answer.text) == (200, True)
    cancelled = browser._ask("POST", f"{service.url}{page.action}", data={**page.hidden, "decision": "cancel"})
    assert sent_back(cancelled.answer)["error"] == "access_denied"


def test_the_page_needs_a_sign_in(service: Running) -> None:
    """N-306: no patient is shown or chosen to who has not signed in: the seal names person and browser."""
    browser = Browser(service)
    form = browser.open(scope=SCOPE)
    for fields in ({"decision": "find", "family": "Quintero"}, {"patient": service.create()["id"]}, {"chooses": "1"}):
        for login in ("dr.osei", ""):
            data = {**form.hidden, "username": login, **fields}
            answer = browser._ask("POST", f"{service.url}{form.action}", data=data).answer
            assert answer.status_code in {400, 403}
            assert "Quintero" not in answer.text
    page = browser.send(form)
    as_another = {**page.hidden, "username": "nurse.lind", "decision": "find", "family": "Quintero"}
    assert browser._ask("POST", f"{service.url}{page.action}", data=as_another).answer.status_code == 400
    assert found(Browser(service), page, family="Quintero").answer.status_code == 400


def test_reads_and_searches(service: Running, base: str) -> None:
    """N-307: the patient, and every type of the chart, is read and searched; what is another's is 403, named or not."""
    mine, other, kept = charts(service, base)
    app = App(service, mine)
    assert app.ask("GET", f"{base}/Patient/{mine}").status_code == 200
    issue(app.ask("GET", f"{base}/Patient/{other}"), 403, "forbidden")
    alone = app.ask("GET", f"{base}/Patient?family=Quintero").json()
    assert [one["resource"]["id"] for one in alone["entry"]] == [mine]
    issue(app.ask("GET", f"{base}/Patient?_id={other}"), 403, "forbidden")
    for name, ids in kept.items():
        path = f"{base}/{_name(name, base)}"
        directory = name in DIRECTORY
        own = app.ask("GET", f"{path}/{ids[mine]}")
        assert own.status_code == (403 if name == "Group" else 200), name
        theirs = app.ask("GET", f"{path}/{ids[other]}")
        assert theirs.status_code == (200 if directory else 403), name
        if name in OF_NOBODY:
            issue(app.ask("GET", path), 403, "forbidden")
        if directory or name in OF_NOBODY:
            continue
        for query in ("", f"?patient={mine}", f"?patient=Patient/{mine}"):
            bundle = app.ask("GET", path + query).json()
            assert [one["resource"]["id"] for one in bundle["entry"]] == [ids[mine]], (name, query)
        for query in (f"patient={other}", f"patient={mine},{other}", f"patient=Patient/{other}", "_include=x"):
            issue(app.ask("GET", f"{path}?{query}"), 403, "forbidden")
        issue(app.ask("GET", f"{path}?patient={mine}&subject.name=x"), 403, "forbidden")


def test_writes(service: Running, base: str) -> None:
    """N-307: what is the patient's is written; nothing is made for another, moved to another, or taken from one."""
    mine, other, kept = charts(service, base)
    app = App(service, mine)
    for name, ids in kept.items():
        path, version = f"{base}/{_name(name, base)}", version_of(base)
        directory = name in {*DIRECTORY, "Group"}
        made = app.ask("POST", path, least(name, mine, version))
        assert made.status_code == (403 if directory else 201), (name, made.text)
        issue(app.ask("PUT", f"{path}/{ids[other]}", least(name, mine, version, id=ids[other])), 403, "forbidden")
        if directory:
            issue(app.ask("PUT", f"{path}/{ids[mine]}", least(name, mine, version, id=ids[mine])), 403, "forbidden")
            continue
        issue(app.ask("POST", path, least(name, other, version)), 403, "forbidden")
        issue(app.ask("POST", path, least(name, mine, version), **{"if-none-exist": "identifier=x"}), 403, "forbidden")
        kept_one = least(name, mine, version, id=ids[mine])
        assert app.ask("PUT", f"{path}/{ids[mine]}", kept_one).status_code == 200, name
        issue(app.ask("PUT", f"{path}/{ids[mine]}", least(name, other, version, id=ids[mine])), 403, "forbidden")
        new = f"ctx-{name.lower()}-{mine}"
        issue(app.ask("PUT", f"{path}/{new}", least(name, other, version, id=new)), 403, "forbidden")
        assert app.ask("PUT", f"{path}/{new}", least(name, mine, version, id=new)).status_code == 201
    assert app.ask("PUT", f"{base}/Patient/{mine}", patient(id=mine)).status_code == 200
    issue(app.ask("PUT", f"{base}/Patient/{other}", patient(id=other)), 403, "forbidden")
    issue(app.ask("PUT", f"{base}/Patient/fresh-{mine}", patient(id=f"fresh-{mine}")), 403, "forbidden")
    issue(app.ask("POST", f"{base}/Patient", patient()), 403, "forbidden")


@pytest.mark.parametrize("way", ["", "element", "reference", "moved"])
def test_no_patch_moves_it_to_another_patient(service: Running, base: str, way: str) -> None:
    """N-307: a patch at the root, at the element that names the patient, or out of it, is refused and changes nothing.

    Another patch of the same resource is carried out.
    """
    mine, other, kept = charts(service, base)
    app = App(service, mine)
    for name, ids in kept.items():
        definition, version = KEPT[name], version_of(base)
        if not definition.patient:
            continue
        path = f"{base}/{_name(name, base)}/{ids[mine]}"
        place = {"": "", "element": f"/{definition.patient}", "reference": f"/{definition.patient}/reference"}
        whole = least(name, other, version, id=ids[mine])
        value: Any = {"": whole, "element": whole[definition.patient], "reference": f"Patient/{other}"}.get(way)
        step = {"op": "replace", "path": place.get(way), "value": value}
        if way == "moved":
            step = {"op": "move", "from": f"/{definition.patient}", "path": "/focus"}
        patch = {"content-type": "application/json-patch+json"}
        before = service.ask("GET", path).json()
        issue(app.ask("PATCH", path, [step], **patch), 403, "forbidden")
        assert service.ask("GET", path).json() == before, name
        tagged = [{"op": "add", "path": "/language", "value": "en"}]
        answer = app.ask("PATCH", path, tagged, **patch)
        assert (answer.status_code, answer.json()["language"]) == (200, "en"), name


def test_a_wider_write_shows_no_other_patient(service: Running, base: str) -> None:
    """What a `user/` scope writes is not shown where only a `patient/` scope reads: it may be another patient's."""
    mine, other = service.create()["id"], service.create()["id"]
    app = App(service, mine, "wider", "launch/patient patient/*.read user/Observation.write")
    number = [{"system": "urn:x", "value": other}]
    measured = least("Observation", other, version_of(base), identifier=number)
    made = service.ask("POST", f"{base}/Observation", json=measured).json()["id"]
    matched = app.ask("POST", f"{base}/Observation", measured, **{"if-none-exist": f"identifier=urn:x|{other}"})
    assert (matched.status_code, matched.content) == (200, b"")
    step = [{"op": "add", "path": "/language", "value": "en"}]
    patched = app.ask("PATCH", f"{base}/Observation/{made}", step, **{"content-type": "application/json-patch+json"})
    assert (patched.status_code, patched.content) == (200, b"")


def test_operations(service: Running, base: str) -> None:
    """N-307: $everything of the patient is read, of another it is not; a merge is none of this token's business."""
    mine, other, _ = charts(service, base)
    app = App(service, mine)
    whole = app.ask("GET", f"{base}/Patient/{mine}/$everything?_count=500")
    assert whole.json()["total"] > 10
    issue(app.ask("GET", f"{base}/Patient/{other}/$everything"), 403, "forbidden")
    issue(app.ask("POST", f"{base}/Patient/$merge", merge_body(other, mine)), 403, "forbidden")


def test_pages(service: Running, base: str) -> None:
    """N-307: the next links of a search lead on, by offset and by cursor, within the patient."""
    mine = service.create()["id"]
    for _ in range(3):
        service.ask("POST", f"{base}/Observation", json=least("Observation", mine, version_of(base)))
    app = App(service, mine)
    first = app.ask("GET", f"{base}/Observation?_count=2").json()
    following = next(link["url"] for link in first["link"] if link["relation"] == "next")
    assert len(app.ask("GET", following.removeprefix(service.url)).json()["entry"]) == 1


def test_history(service: Running, base: str) -> None:
    """Former versions are the patient's, too; those of another, and all changes of a type, are nobody's business.

    N-307.
    """
    mine, other, kept = charts(service, base)
    app = App(service, mine)
    for path, status in (
        (f"Patient/{mine}/_history", 200),
        (f"Patient/{mine}/_history/1", 200),
        (f"Observation/{kept['Observation'][mine]}/_history", 200),
        (f"Patient/{other}/_history", 403),
        (f"Patient/{other}/_history/1", 403),
        (f"Observation/{kept['Observation'][other]}/_history", 403),
        (f"Observation/{kept['Observation'][other]}/_history/1", 403),
        ("Patient/_history", 403),
        ("Observation/_history", 403),
    ):
        assert app.ask("GET", f"{base}/{path}").status_code == status, path


def test_versions_of_somebody_else(service: Running, base: str) -> None:
    """N-307: a version that named another patient is not shown; those of the patient are, of merged records too."""
    version, path = version_of(base), f"{base}/Observation"
    mine, other, merged = (service.create()["id"] for _ in range(3))
    made = service.ask("POST", path, json=least("Observation", other, version)).json()["id"]
    for who in (merged, mine):
        body = least("Observation", who, version, id=made)
        assert service.ask("PUT", f"{path}/{made}", json=body).status_code == 200
    assert service.ask("POST", f"{base}/Patient/$merge", json=merge_body(merged, mine)).status_code == 200
    app = App(service, mine)
    assert [app.ask("GET", f"{path}/{made}/_history/{one}").status_code for one in "123"] == [403, 200, 200]
    issue(app.ask("GET", f"{path}/{made}/_history/1", **{"if-none-match": 'W/"1"'}), 403, "forbidden")
    told = app.ask("GET", f"{path}/{made}/_history").json()
    assert ([one["resource"]["meta"]["versionId"] for one in told["entry"]], "total" in told) == (["3", "2"], False)
    entries, following = [], f"{path}/{made}/_history?_count=1"
    while following:
        page = app.ask("GET", following.removeprefix(service.url)).json()
        entries += page.get("entry", [])
        following = next((one["url"] for one in page["link"] if one["relation"] == "next"), "")
    assert [entry["resource"]["meta"]["versionId"] for entry in entries] == ["3", "2"]
    step = {"request": {"method": "GET", "url": f"Observation/{made}/_history/1"}}
    batch = app.ask("POST", base, {"resourceType": "Bundle", "type": "batch", "entry": [step]})
    assert batch.json()["entry"][0]["response"]["status"] == "403 Forbidden"
    assert len(service.ask("GET", f"{path}/{made}/_history").json()["entry"]) == 3


def test_searches_by_form_and_compartment(service: Running, base: str) -> None:
    """N-307: `_search` and a compartment stay with the patient; a link that another token was given leads nowhere."""
    mine, other = service.create()["id"], service.create()["id"]
    for who in (mine, other) * 3:
        service.ask("POST", f"{base}/Observation", json=least("Observation", who, version_of(base)))
    app = App(service, mine)
    form = {"content-type": "application/x-www-form-urlencoded"}
    url = f"{service.url}{base}/Observation/_search"

    def search(token: str, query: str) -> httpx.Response:
        return service.http.post(url, content=query, headers={**form, "authorization": f"Bearer {token}"})

    mine_only = search(app.tokens["access_token"], "_count=2").json()
    assert (mine_only["total"], len(mine_only["entry"])) == (3, 2)
    issue(search(app.tokens["access_token"], f"patient={other}"), 403, "forbidden")
    for owner, token, status in (
        (mine, app.tokens["access_token"], 200),
        (other, service.token("physician"), 403),
    ):
        links = search(token, f"patient={owner}&_count=2").json()["link"]
        following = next(link["url"] for link in links if link["relation"] == "next")
        assert app.ask("GET", following.removeprefix(service.url)).status_code == status
    assert app.ask("GET", f"{base}/Patient/{mine}/Observation").json()["total"] == 3
    issue(app.ask("GET", f"{base}/Patient/{other}/Observation"), 403, "forbidden")


def test_after_a_merge(service: Running, base: str) -> None:
    """N-307: where the patient was merged, the survivor is the same person: the chart stays in reach."""
    mine, survivor = service.create()["id"], service.create()["id"]
    made = service.ask("POST", f"{base}/Observation", json=least("Observation", mine, version_of(base))).json()
    app = App(service, mine)
    assert service.ask("POST", f"{base}/Patient/$merge", json=merge_body(mine, survivor)).status_code == 200
    for path in (f"Patient/{mine}", f"Patient/{survivor}", f"Observation/{made['id']}"):
        assert app.ask("GET", f"{base}/{path}").status_code == 200, path
    assert app.ask("GET", f"{base}/Observation").json()["total"] == 1


def test_wider_scopes_reach_further(service: Running, base: str) -> None:
    """`user/` scopes that a client holds for itself are not limited; `patient/` ones never cover them."""
    mine, other = service.create()["id"], service.create()["id"]
    wider = App(service, mine, "wider", "launch/patient patient/*.read user/Patient.read")
    assert wider.ask("GET", f"{base}/Patient/{other}").status_code == 200
    issue(wider.ask("GET", f"{base}/Observation?patient={other}"), 403, "forbidden")
    narrow = App(service, mine, "portal", f"{SCOPE} user/*.read system/Patient.read")
    assert narrow.tokens["scope"] == SCOPE
    again = {"grant_type": "refresh_token", "client_id": "portal", "client_secret": SECRET}
    again |= {"refresh_token": narrow.tokens["refresh_token"], "scope": "user/Patient.read"}
    assert service.http.post(f"{service.url}/oauth/token", data=again).json()["error"] == "invalid_scope"


def test_a_required_context(service: Running, base: str) -> None:
    """`patient_context: required`: without a choice nothing of a patient is granted, and nothing is let through."""
    fields = {"grant_type": "client_credentials", "client_id": "strict", "client_secret": SECRET}
    token = service.http.post(f"{service.url}/oauth/token", data={**fields, "scope": SCOPE})
    assert token.json()["scope"] == "offline_access"
    refused = service.http.post(f"{service.url}/oauth/token", data={**fields, "scope": "patient/*.read user/*.read"})
    assert refused.json()["error"] == "invalid_scope"
    mine = service.create()["id"]
    assert App(service, mine, "strict").ask("GET", f"{base}/Patient/{mine}").status_code == 200
    old = service.pair("strict", "patient/*.read").access
    headers = {"authorization": f"Bearer {old}"}
    issue(service.http.get(f"{service.url}{base}/Patient/{mine}", headers=headers), 403, "forbidden")


def test_without_a_choice(service: Running, base: str) -> None:
    """N-308: without `launch/patient`, `patient/*` means what the specification says: the tenant's patients."""
    fields = {"grant_type": "client_credentials", "client_id": "portal", "client_secret": SECRET}
    answer = service.http.post(f"{service.url}/oauth/token", data={**fields, "scope": SCOPE}).json()
    assert ("patient" in answer, answer["scope"]) == (False, "patient/*.read patient/*.write offline_access")
    headers = {"authorization": f"Bearer {answer['access_token']}"}
    made = service.create()["id"]
    assert service.http.get(f"{service.url}{base}/Patient/{made}", headers=headers).status_code == 200


def test_a_sandbox_that_signs_in_by_itself(tmp_path: Path) -> None:
    """`auto_login_user` asks for no password, and lets the patient be chosen."""
    auto = Auth(auto_login_user="dr.osei")
    with running(tmp_path, clients=clients(tmp_path), users=USERS, auth=auto) as service:
        made = service.create(identifier=[{"system": MRN, "value": "1"}])["id"]
        browser = Browser(service)
        page = browser.open(scope=SCOPE)
        assert "Choose a patient" in page.answer.text
        code = sent_back(chosen(browser, page, made).answer)["code"]
        assert exchange(service, code).json()["patient"] == made


def test_what_comes_along_is_nobody_elses(service: Running, base: str) -> None:
    """N-234: a user/ scope for one type brings of other types only what user/ scopes open, whatever is linked."""
    mine, other, kept = charts(service, base)
    app = App(service, mine, "wider", "launch/patient patient/*.read user/Observation.rs user/Organization.rs")
    path = f"{base}/Observation?patient={mine},{other}"
    assert app.ask("GET", path).json()["total"] == 2
    entries = app.ask("GET", f"{path}&_include=Observation:patient&_revinclude=Provenance:target").json()["entry"]
    assert {entry["search"]["mode"] for entry in entries} == {"match"}
    for link in ("patient.name=q", "encounter.status=finished", "_has:Provenance:target:_id=x"):
        issue(app.ask("GET", f"{path}&{link}"), 403, "forbidden")
    assert {entry["resource"]["id"] for entry in entries} == set(kept["Observation"].values())


def test_a_page_of_somebody_elses_search(service: Running, base: str) -> None:
    """N-234: the sealed link to a page brings nothing along that the token's own search might not."""
    mine, _, _ = charts(service, base)
    for number in range(2):
        made = service.ask("POST", f"{base}/Organization", json=least("Organization", "", name=f"O{number}"))
        assert made.status_code == 201
    form = {"content-type": "application/x-www-form-urlencoded"}
    for path, text in (
        ("Organization", "_count=1&_revinclude=Patient:organization"),
        ("Observation", f"patient={mine}&_count=0"),
        ("Patient", f"_id={mine}&_revinclude=Observation:patient&_count=1"),
    ):
        bundle = service.ask("POST", f"{base}/{path}/_search", content=text, headers=form).json()
        following = [one["url"] for one in bundle["link"] if one["relation"] == "next"]
        for url in following:
            issue(App(service, mine).ask("GET", url.removeprefix(service.url)), 403, "forbidden")
    assert App(service, mine).ask("GET", f"{base}/Organization?_count=1").status_code == 200


@pytest.mark.parametrize("kind", ["batch", "transaction"])
def test_a_bundle_stays_with_the_patient(service: Running, kind: str) -> None:
    """N-307, N-154: each entry of a Bundle is held to the token's patient, by id, condition and reference."""
    mine, other = service.create(), service.create(identifier=[record_number(f"RB-bundled-{kind}")])
    app = App(service, mine["id"])
    number = f"identifier={MRN}%7CRB-bundled-{kind}"
    own = least("Condition", mine["id"])
    foreign: list[dict[str, Any]] = [
        {"request": {"method": "GET", "url": f"Patient/{other['id']}"}},
        {"request": {"method": "GET", "url": f"Patient/{other['id']}/_history"}},
        {"request": {"method": "GET", "url": "Patient/_history"}},
        {"request": {"method": "GET", "url": f"Condition?patient={other['id']}"}},
        {"request": {"method": "POST", "url": "Condition"}, "resource": least("Condition", other["id"])},
        {"request": {"method": "POST", "url": "Condition"}, "resource": least("Condition", "x?y")},
        {"request": {"method": "PUT", "url": f"Patient?{number}"}, "resource": patient()},
        {"request": {"method": "DELETE", "url": f"Patient?{number}"}},
        {"request": {"method": "DELETE", "url": f"Patient/{other['id']}"}},
        {"request": {"method": "POST", "url": "Patient", "ifNoneExist": "family=Quintero"}, "resource": patient()},
    ]
    about = {**own, "subject": {"reference": f"Patient?{number}"}}
    foreign.append({"request": {"method": "POST", "url": "Condition"}, "resource": about})
    for one in foreign:
        body = {"resourceType": "Bundle", "type": kind, "entry": [one]}
        answer = app.ask("POST", "/fhir/R4", body)
        # A read that is refused takes no transaction along: its entry says so.
        whole = answer.status_code != 200
        status = str(answer.status_code) if whole else answer.json()["entry"][0]["response"]["status"][:3]
        assert status in {"403", "422"}, (one, answer.text)
        assert other["id"] not in answer.text or other["id"] in str(one)
    entry = {"request": {"method": "POST", "url": "Condition"}, "resource": own}
    answer = app.ask("POST", "/fhir/R4", {"resourceType": "Bundle", "type": kind, "entry": [entry]})
    assert answer.json()["entry"][0]["response"]["status"] == "201 Created", answer.text
    assert service.ask("GET", f"/fhir/R4/Patient/{other['id']}").headers["etag"] == 'W/"1"'
