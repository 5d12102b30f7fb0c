"""The chart pages over HTTP: who gets in, what they show, and that no form of another site is obeyed."""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from engine.interchange.web.viewer.session import RETURN
from tests.interchange.chart import put, to
from tests.interchange.chart_api.charts import lipids
from tests.interchange.kit import SYSTEM, Inside, merge_body, record_number
from tests.interchange.least import least
from tests.interchange.viewer.people import Person, hidden, pages, register, viewer

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inside]:
    """A service whose chart pages are open."""
    with pages(tmp_path_factory.mktemp("viewer")) as found:
        yield found


def somebody(site: Inside, family: str = "Quintero", number: str = "") -> str:
    """Keep a patient with a few records; return the id."""
    numbers = [record_number(number)] if number else []
    ssn = {"system": "http://hl7.org/fhir/sid/us-ssn", "value": "999-12-3456"}
    patient: str = site.create(name=[{"family": family, "given": ["Marisol"]}], identifier=[*numbers, ssn])["id"]
    put(site, "AllergyIntolerance", patient, code={"text": "Penicillin"}, criticality="high")
    put(site, "Condition", patient, code={"text": "Asthma"}, onsetDateTime="2019-03")
    put(site, "MedicationRequest", patient, medicationCodeableConcept={"text": "Salbutamol"})
    put(site, "Encounter", patient, participant=[{"individual": {"display": "Ama Osei"}}])
    return patient


def test_the_front_names_the_addresses(site: Inside) -> None:
    """`/` leads to the chart and names what programs call."""
    text = httpx.get(f"{site.url}/").text
    for part in ('href="/chart"', f"{site.url}/fhir/R4", f"{site.url}/chart/v1", "openapi.json"):
        assert part in text


def test_signing_in_searching_and_reading(site: Inside) -> None:
    """From the first page to a chart and out again; the token has ended then."""
    patient = somebody(site, "Okafor", "view-1")
    person = Person(site, signed_in=False)
    assert "Sign in" in person.open("/chart").text
    page = person.sign_in()
    assert (page.url.path, "Ama Osei" in page.text) == ("/chart", True)
    found = person.send("/chart", page, name="okafor")
    assert str(found.url) == f"{site.url}/chart"
    assert "view-1" in found.text
    assert f'href="/chart/patients/{patient}"' in found.text
    chart = person.open(f"/chart/patients/{patient}")
    for part in ("Marisol Okafor", "view-1", "Penicillin", "high risk", "Asthma", "Salbutamol", "2019-03"):
        assert part in chart.text, part
    assert "999-12-3456" not in chart.text
    token = person.http.cookies["chart"]
    assert "Sign in" in person.send("/chart/sign-out", chart).text
    answer = httpx.get(f"{site.url}/chart/v1/patients/{patient}", headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 401


def test_headers_and_cookies(site: Inside) -> None:
    """No script runs, no other site frames a page, nothing is cached, and no script reads the cookie."""
    person = Person(site, signed_in=False)
    person.http.follow_redirects = False
    answer = person.open("/chart")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "script" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-frame-options"] == "DENY"
    begun = person.open("/chart/sign-in")
    assert "code_challenge_method=S256" in begun.headers["location"]
    assert "HttpOnly" in begun.headers["set-cookie"]
    assert "SameSite=lax" in begun.headers["set-cookie"]


@pytest.mark.parametrize("path", ["/chart/patients/x", "/chart"])
def test_without_a_session(site: Inside, path: str) -> None:
    """Who is not signed in sees the way in, and a token of another client opens no page."""
    patient = somebody(site, "Closed")
    path = path.replace("x", patient)
    for cookies in ({}, {"chart": "garbage"}, {"chart": site.token("physician")}):
        page = httpx.get(f"{site.url}{path}", cookies=cookies)
        assert "Closed" not in page.text
        assert 'href="/chart/sign-in' in page.text


def test_forms_of_other_sites(site: Inside) -> None:
    """A form without this session's proof, or with another's, does nothing."""
    somebody(site, "Forged")
    person, other = Person(site), Person(site, "nurse.lind")
    page = person.open("/chart")
    for form in ("", "garbage", hidden(other.open("/chart"))["form"]):
        refused = person.send("/chart", page, form=form, name="Forged")
        assert (refused.status_code, "Forged" in refused.text) == (403, False)
        assert person.send("/chart/sign-out", page, form=form).status_code == 403
    assert person.open("/chart").status_code == 200
    assert "Find a patient" in person.open("/chart").text


def test_a_sign_in_of_somebody_else(site: Inside) -> None:
    """A code that another browser asked for begins no session here."""
    mine, theirs = Person(site, signed_in=False), Person(site, signed_in=False)
    page = theirs.open("/chart/sign-in")
    theirs.http.follow_redirects = False
    sent = theirs.http.post(
        "/oauth/authorize",
        data={**hidden(page), "username": "dr.osei", "password": "correct horse battery", "decision": "allow"},
    )
    mine.open("/chart/sign-in")
    refused = mine.open(sent.headers["location"])
    assert (refused.status_code, "another browser" in refused.text) == (400, True)
    assert "chart" not in mine.http.cookies


def test_cancelled(site: Inside) -> None:
    """Who cancels is told, and not signed in."""
    person = Person(site, signed_in=False)
    page = person.open("/chart/sign-in")
    answer = person.http.post("/oauth/authorize", data={**hidden(page), "decision": "cancel"})
    assert (answer.status_code, "You were not signed in" in answer.text) == (403, True)


def test_what_is_not_there(site: Inside) -> None:
    """Nobody, what was deleted, nonsense and an empty form are said in words."""
    person = Person(site)
    nobody = person.open("/chart/patients/nobody")
    assert (nobody.status_code, "There is no such patient" in nobody.text) == (404, True)
    gone = site.create()["id"]
    site.ask("DELETE", f"/fhir/R4/Patient/{gone}")
    assert "deleted" in person.open(f"/chart/patients/{gone}").text
    assert "Dates are written" in person.send("/chart", birthdate="yesterday").text
    assert "Enter a name" in person.send("/chart").text


def test_merged(site: Inside) -> None:
    """A merged-away record leads to the survivor's chart."""
    source, target = somebody(site, "Before"), somebody(site, "After")
    site.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(source, target))
    page = Person(site).open(f"/chart/patients/{source}")
    assert f'href="/chart/patients/{target}"' in page.text


def test_hostile_texts(site: Inside) -> None:
    """Markup in names and records is shown as text."""
    patient = somebody(site, HOSTILE)
    put(site, "Condition", patient, code={"text": HOSTILE})
    page = Person(site).open(f"/chart/patients/{patient}")
    assert HOSTILE not in page.text
    assert page.text.count("&lt;script&gt;") >= 2


def test_several_tenants_and_none(site: Inside) -> None:
    """Each tenant has its own way in; without any the page says what an administrator does."""
    before = site.app.service.configuration
    register(site, lake=viewer(site, "lakeside"))
    text = httpx.get(f"{site.url}/chart").text
    assert text.count("Sign in for") == 2
    clients = {name: one for name, one in before.clients.items() if name != "chart"}
    site.app.service.configuration = before.model_copy(update={"clients": clients})
    assert "/chart/signed-in" in httpx.get(f"{site.url}/chart").text
    site.app.service.configuration = before


def test_each_view_is_in_the_access_log(site: Inside) -> None:
    """What a page shows is recorded with the person who saw it, as any call is."""
    patient = somebody(site, "Recorded")
    Person(site).open(f"/chart/patients/{patient}")
    rows = site.app.service.store.reader().execute(
        "SELECT DISTINCT login, client, base FROM access WHERE patients = ? AND base = 'chart'", (patient,)
    )
    assert rows.fetchall() == [("dr.osei", "chart", "chart")]


def test_a_reference_is_no_name(site: Inside) -> None:
    """A patient with a general practitioner has a care team on the page."""
    doctor = put(site, "Practitioner", name=[{"text": "Gene Practice"}])
    patient = site.create(generalPractitioner=[to(doctor)])["id"]
    assert "Gene Practice" in Person(site).open(f"/chart/patients/{patient}").text


def test_results_with_a_trend(site: Inside) -> None:
    """Each test has its values, newest first, what they mean, and a line through its numbers."""
    patient = somebody(site, "Trend")
    for day, value in (("2025-01-01", 180), ("2025-03-01", 182.50), ("2025-02-01", 190)):
        lipids(site, patient, day, value)
    text = Person(site).open(f"/chart/patients/{patient}/results").text
    sheet = text[text.index("<tbody>") : text.index("</tbody>")]
    assert sheet.index(">182.5<") < sheet.index(">190<") < sheet.index(">180<")
    assert text.count('<svg class="trend"') == 2
    assert 'aria-label="Trend of 3 values"' in text
    assert "Ama Osei, MD" in text
    assert "NPI 1659999990" in text
    assert "mg/dL, usual ≥ 40<" in text


def test_visits(site: Inside) -> None:
    """Visits say when, why, where and with whom."""
    patient = somebody(site, "Visits")
    period = {"start": "2025-07-01T10:00:00Z", "end": "2025-07-02T10:00:00+02:00"}
    place = [{"location": {"display": "4 East"}}]
    put(site, "Encounter", patient, period=period, location=place, reasonCode=[{"text": "Cough"}])
    text = Person(site).open(f"/chart/patients/{patient}/visits").text
    for part in ("2025-07-01 10:00 UTC", "2025-07-02 10:00 +02:00", "4 East", "Cough", "Ama Osei"):
        assert part in text, part


def test_documents_are_opened_in_place(site: Inside) -> None:
    """Text, pictures and frames are shown on the page, all else is saved as a file; narrative is text only."""
    patient, other = somebody(site, "Papers"), somebody(site, "Others")
    person = Person(site)
    note = {"contentType": "text/plain; charset=utf-8", "data": b64encode(HOSTILE.encode()).decode(), "title": "Note"}
    picture = {"contentType": "image/png", "data": b64encode(b"a picture").decode()}
    page = {"contentType": "text/html", "data": b64encode(HOSTILE.encode()).decode()}
    binary = put(
        site, "Binary", securityContext=to(f"Patient/{patient}"), contentType="application/pdf", data="JVBERg=="
    )
    div = '<div xmlns="http://www.w3.org/1999/xhtml"><h2>Plan</h2><p>Rest &amp; tea</p></div>'
    made = put(
        site,
        "DocumentReference",
        patient,
        text={"status": "additional", "div": div},
        content=[
            {"attachment": one} for one in (note, picture, page, {"contentType": "application/pdf", "url": binary})
        ],
    ).partition("/")[2]
    address = f"/chart/patients/{patient}/documents"
    assert f'href="{address}/{made}"' in person.open(address).text
    text = person.open(f"{address}/{made}").text
    assert HOSTILE not in text
    for part in ("&lt;script&gt;", "<img src", "<iframe src", "Save the file", "Rest &amp; tea", "<h3><bdi>Plan"):
        assert part in text, part
    for number, kind, body in (
        (1, "image/png", b"a picture"),
        (2, "application/octet-stream", HOSTILE.encode()),
        (3, "application/pdf", b"%PDF"),
    ):
        answer = person.open(f"{address}/{made}/content/{number}")
        assert (answer.headers["content-type"], answer.content) == (kind, body)
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert ("attachment" in answer.headers.get("content-disposition", "")) == (number == 2)
    for path in (f"{address}/{made}/content/4", f"/chart/patients/{other}/documents/{made}"):
        assert person.open(path).status_code == 404
    assert person.open(f"/chart/patients/{other}/documents/{made}/content/1").status_code == 404
    assert person.open(f"{address}/nothing").status_code == 404


def test_orders_with_their_state(site: Inside) -> None:
    """An order says what it orders, of whom, and where it stands."""
    patient = somebody(site, "Orders")
    url = f"{SYSTEM}/fhir/StructureDefinition"
    orderable = {"url": f"{url}/organization-orderingEnabled", "valueBoolean": True}
    laboratory = put(site, "Organization", name="Cedar Valley", extension=[orderable])
    test = {
        **least("ServiceRequest", patient),
        "id": "t1",
        "code": {
            "coding": [{"system": f"urn:uuid:f:{laboratory.partition('/')[2]}", "code": "LI", "display": "Lipids"}]
        },
    }
    order = put(
        site,
        "RequestGroup",
        patient,
        contained=[test],
        author={"display": "Ama Osei"},
        action=[{"resource": to("#t1")}],
        extension=[{"url": f"{url}/requestgroup-performer", "valueReference": to(laboratory)}],
        authoredOn="2025-07-01",
    )
    assert order
    text = Person(site).open(f"/chart/patients/{patient}/orders").text
    for part in ("Lipids", "Cedar Valley", "draft", "Ama Osei", "2025-07-01"):
        assert part in text, part


def test_below_a_path_and_for_one_patient(tmp_path: Path) -> None:
    """Links and redirects stay below the service's path; who chose a patient at the sign-in sees that one alone."""
    with pages(tmp_path, base_url="http://127.0.0.1:9/cdis") as site:
        address, site.url = site.url, f"http://127.0.0.1:{site.port}/cdis"
        mine, other = somebody(site, "Mine"), somebody(site, "Other")
        scopes = ("launch/patient", "patient/*.read")
        register(site, chart=viewer(site, "riverbend", scopes=scopes, redirect_uris=(f"{address}{RETURN}",)))
        person = Person(site, signed_in=False)
        chooser = person.sign_in()
        page = person.http.post("/oauth/authorize", data={**hidden(chooser), "patient": mine})
        assert (page.url.path, 'action="/cdis/chart"' in page.text) == ("/cdis/chart", True)
        found = person.send("/chart", page, name="o")
        assert f'href="/cdis/chart/patients/{other}"' not in found.text
        assert f'href="/cdis/chart/patients/{mine}"' in person.send("/chart", page, name="mine").text
        assert "Penicillin" in person.open(f"/chart/patients/{mine}").text
        assert person.open(f"/chart/patients/{other}").status_code == 403
        assert 'href="/cdis/chart/viewer.css"' in page.text
        assert person.open("/chart/viewer.css").headers["content-type"].startswith("text/css")
