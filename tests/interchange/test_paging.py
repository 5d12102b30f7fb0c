"""Paging by cursor and by offset, on Patient and Organization and on the other types (points I)."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import pytest

from engine.interchange.rest.resource.catalogue import KEPT
from engine.interchange.store import query
from tests.interchange.kit import MRN, Inside, Running, issue, merge_body, patient, record_number, running

NAME = r"Vance\, Jr"
CRITERION = "Vance%5C%2C%20Jr"
TOLD = "_offset parameter not supported with cursored request"


class Crowd(NamedTuple):
    """Forty-five resources of one name: their service, the address that searches them, and their ids in order."""

    service: Running
    path: str
    ids: list[str]

    @property
    def type(self) -> str:
        """Their type."""
        return self.path.partition("?")[0].rpartition("/")[2]


@pytest.fixture(scope="module")
def crowds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, dict[str, list[str]]]]:
    """A service with 45 patients and 45 organizations, the patients of another name between them."""
    with running(tmp_path_factory.mktemp("crowds")) as service:
        ids: dict[str, list[str]] = {"Patient": [], "Organization": []}
        for number in range(45):
            ids["Patient"].append(service.create(name=[{"family": "Vance, Jr", "given": [f"N{number}"]}])["id"])
            service.create(name=[{"family": "Quintero", "given": [f"N{number}"]}])
            body = {"resourceType": "Organization", "name": "Vance, Jr", "alias": [f"N{number}"]}
            ids["Organization"].append(service.ask("POST", "/fhir/R4/Organization", json=body).json()["id"])
        yield service, ids


@pytest.fixture(params=["Patient", "Organization"])
def crowd(crowds: Any, base: str, request: pytest.FixtureRequest) -> Crowd:
    """Each type that is paged by cursor, on each base."""
    service, ids = crowds
    parameter = "family" if request.param == "Patient" else "name"
    return Crowd(service, f"{base}/{request.param}?{parameter}={CRITERION}", ids[request.param])


def links(bundle: dict[str, Any]) -> dict[str, str]:
    """Return the links of a Bundle by relation."""
    return {link["relation"]: link["url"] for link in bundle["link"]}


def page(crowd: Crowd, url: str, **more: Any) -> dict[str, Any]:
    """Return the Bundle at an address or a link, which must be there."""
    answer = crowd.service.ask("GET", url.removeprefix(crowd.service.url), **more)
    assert answer.status_code == 200, answer.text
    bundle: dict[str, Any] = answer.json()
    return bundle


def following(crowd: Crowd, more: str = "&_paging=cursor") -> str:
    """Return the next link of a first page."""
    return links(page(crowd, crowd.path + more))["next"]


@pytest.mark.parametrize("paging", ["", "&_paging=cursor"], ids=["offset", "cursor"])
@pytest.mark.parametrize("size", [1, 7, 20, 45, 100])
def test_walks(crowd: Crowd, paging: str, size: int) -> None:
    """C-203…C-207, C-224, C-443: next as given visits everybody once, in order of creation; total is always right."""
    url, seen, pages = f"{crowd.path}{paging}&_count={size}", [], 0
    while url:
        bundle = page(crowd, url)
        seen += [entry["resource"]["id"] for entry in bundle["entry"]]
        pages += 1
        assert bundle["total"] == 45
        assert len(bundle["entry"]) <= size
        assert ("_offset=" in links(bundle)["self"]) == (not paging and pages > 1)
        url = links(bundle).get("next", "")
        assert ("_cursor=" in url) == bool(url and paging)
    assert seen == crowd.ids
    assert pages == -(-45 // size)


@pytest.mark.parametrize("form", [False, True], ids=["address", "form"])
def test_previous_leads_back(crowd: Crowd, form: bool) -> None:
    """A page by offset has a link to the page before it, down to the first; a search by POST a sealed one."""
    pages, url = [page(crowd, f"{crowd.path}&_count=10")], ""
    if form:
        path, _, query = crowd.path.partition("?")
        told = {"content": f"{query}&_count=10", "headers": {"content-type": "application/x-www-form-urlencoded"}}
        pages = [crowd.service.ask("POST", f"{path}/_search", **told).json()]
    while url := links(pages[-1]).get("next", ""):
        pages.append(page(crowd, url))
    assert "previous" not in links(pages[0])
    for place in range(len(pages) - 1, 0, -1):
        back = links(pages[place])["previous"]
        assert not form or NAME not in back
        assert page(crowd, back)["entry"] == pages[place - 1]["entry"]
    if not form:
        assert links(page(crowd, f"{crowd.path}&_count=10&_offset=4"))["previous"].endswith("_count=10")
        assert "previous" not in links(page(crowd, following(crowd)))


@pytest.mark.parametrize("paging", ["", "&_paging=cursor"], ids=["offset", "cursor"])
def test_pages_have_twenty(crowd: Crowd, paging: str) -> None:
    """C-200, C-203, C-443: without _count a page has twenty entries, and a next link where there are more."""
    first = page(crowd, crowd.path + paging)
    assert [len(first["entry"]), first["total"], list(links(first))] == [20, 45, ["self", "next"]]


def test_links_say_what_was_asked(crowd: Crowd) -> None:
    """C-204: self and next hold the criteria as they were meant, the page, and _format."""
    asked = f"{crowd.path}&_format=json&_pretty=false&_paging=cursor&_offset=0"
    for bundle in (page(crowd, asked), page(crowd, following(crowd, "&_format=json&_pretty=false&_paging=cursor"))):
        for url in links(bundle).values():
            assert url.startswith(f"{crowd.service.url}{crowd.path.partition('?')[0]}?")
            given = dict(parse_qsl(urlsplit(url).query))
            assert NAME in given.values()
            assert (given["_format"], given["_pretty"], given["_paging"]) == ("json", "false", "cursor")
            assert given["_count"] == "20"
        assert "_offset" not in links(bundle)["self"]
    own = links(page(crowd, following(crowd)))["self"]
    assert page(crowd, own)["entry"] == page(crowd, following(crowd))["entry"]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param("_count=101", "invalid", id="C-201 C-443"),
        pytest.param("_count=101&_paging=cursor", "invalid", id="C-202 C-203"),
        pytest.param("_paging=cursor&_offset=20", "invalid", id="C-210"),
        pytest.param("_paging=cursor&_offset=9990", "invalid", id="C-210 before the depth"),
        pytest.param("_offset=9980&_count=20", "too-costly", id="C-212 C-443"),
        pytest.param("_offset=9980", "too-costly", id="C-214"),
        pytest.param("_paging=foo", "invalid", id="C-219 _paging"),
        pytest.param("_paging=", "invalid", id="C-219 no _paging"),
        pytest.param("_paging=cursor&_paging=cursor", "invalid", id="_paging twice"),
        pytest.param("_count=abc", "invalid", id="C-219 _count"),
        pytest.param("_count=-1", "invalid", id="C-219 negative"),
        pytest.param("_count=", "invalid", id="C-219 no _count"),
        pytest.param("_count=%D9%A3", "invalid", id="a digit of another script"),
        pytest.param("_paging=cursor&_cursor=", "invalid", id="C-218 empty"),
        pytest.param("_paging=cursor&_cursor=abc", "invalid", id="C-218 made up"),
        pytest.param("_cursor=abc", "invalid", id="C-218 alone"),
    ],
)
def test_refused_pages(crowd: Crowd, query: str, code: str) -> None:
    """What a page cannot be is 400; the two texts of the specification are told as they stand there."""
    told = issue(crowd.service.ask("GET", f"{crowd.path}&{query}"), 400, code)
    if code == "too-costly":
        assert told["diagnostics"] == "Maximum search depth exceeded"
    if "_offset" in query and "cursor" in query:
        assert told["diagnostics"] == TOLD


@pytest.mark.parametrize(
    ("query", "entries"),
    [
        pytest.param("_paging=cursor&_offset=0", 20, id="C-211"),
        pytest.param("_offset=9979&_count=20", 0, id="C-213"),
        pytest.param("_count=100", 45, id="C-201"),
        pytest.param("_count=100&_paging=cursor", 45, id="C-203"),
        pytest.param("_count=0", 0, id="C-225"),
        pytest.param("_count=0&_paging=cursor", 0, id="C-225 cursor"),
    ],
)
def test_pages_at_the_limits(crowd: Crowd, query: str, entries: int) -> None:
    """What the limits just allow is answered, and its total is right."""
    bundle = page(crowd, f"{crowd.path}&{query}")
    assert [bundle["total"], len(bundle["entry"])] == [45, entries]
    assert ("next" in links(bundle)) == (entries == 20)


def test_a_changed_cursor_is_refused(crowd: Crowd) -> None:
    """C-218: a cursor with any part changed, or with other criteria or another page size, is 400."""
    url = following(crowd)
    cursor = dict(parse_qsl(urlsplit(url).query))["_cursor"]
    flipped = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    changes = [(cursor, flipped), (cursor, cursor[1:]), (cursor, cursor + "A"), ("_count=20", "_count=21"), ("Jr", "J")]
    for old, new in changes:
        assert old in url
        told = issue(crowd.service.ask("GET", url.replace(old, new).removeprefix(crowd.service.url)), 400, "invalid")
        assert told["location"] == ["http._cursor"]


def test_a_cursor_opens_nothing_else(crowd: Crowd) -> None:
    """C-218: a cursor of another tenant, type, version or search is 400."""
    url = following(crowd).removeprefix(crowd.service.url)
    other = {"Patient": "Organization", "Organization": "Patient"}[crowd.type]
    names = {"Patient": "family", "Organization": "name"}
    version = url.replace("/fhir/R4/", "/fhir/") if "/R4/" in url else url.replace("/fhir/", "/fhir/R4/")
    for changed in (url.replace(crowd.type, other).replace(names[crowd.type], names[other]), version):
        issue(crowd.service.ask("GET", changed), 400, "invalid")
    issue(crowd.service.ask("GET", f"{url}&_tag=x"), 400, "invalid")
    issue(crowd.service.ask("GET", url, client="other"), 400, "invalid")


def test_a_cursor_may_be_followed_again(crowd: Crowd) -> None:
    """Section 6.4: the same cursor gives the same page while it is valid, whatever order its parameters come in."""
    url = following(crowd)
    first, again = page(crowd, url), page(crowd, url)
    assert first["entry"] == again["entry"]
    address, _, query = url.partition("?")
    assert page(crowd, f"{address}?{'&'.join(reversed(query.split('&')))}")["entry"] == first["entry"]


def test_a_cursor_names_no_one(crowd: Crowd) -> None:
    """A cursor carries a place and a moment, and nothing of what was asked or found."""
    cursor = dict(parse_qsl(urlsplit(following(crowd)).query))["_cursor"]
    content = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[16:].decode()
    assert all(part.isdigit() for part in content.strip("[]").split(","))


def test_cursors_live_while_they_are_used(own_service: Running) -> None:
    """C-216, C-217: each page starts the five minutes again; after them the walk is 410 and must begin anew."""
    ids = [own_service.create(name=[{"family": f"N{number}", "given": ["A"]}])["id"] for number in range(4)]
    crowd = Crowd(own_service, "/fhir/R4/Patient?_count=1", ids)
    url = following(crowd)
    for seconds in (240, 240, 299):
        own_service.advance(seconds)
        last, url = url, links(page(crowd, url)).get("next", "")
    assert url == ""
    own_service.advance(2)
    told = issue(own_service.ask("GET", last.removeprefix(own_service.url)), 410, "not-found")
    assert "the search must be restarted" in told["diagnostics"]
    assert page(crowd, crowd.path)["entry"][0]["resource"]["id"] == ids[0]


def test_expired_cursors_on_stu3(own_service: Running) -> None:
    """C-217: an expired cursor is 410 on the other base too; a changed one is 400 even then."""
    for number in range(3):
        own_service.create(name=[{"family": f"N{number}", "given": ["A"]}])
    url = following(Crowd(own_service, "/fhir/Patient?_count=1", [])).removeprefix(own_service.url)
    own_service.advance(301)
    issue(own_service.ask("GET", url), 410, "not-found")
    issue(own_service.ask("GET", f"{url}A"), 400, "invalid")


def test_validity_is_configured(tmp_path: Path) -> None:
    """C-220: how long a cursor holds is a setting of each environment, which a reload changes for new ones."""
    with running(tmp_path, cursor_validity_s=10) as service:
        for number in range(3):
            service.create(name=[{"family": f"N{number}", "given": ["A"]}])
        crowd = Crowd(service, "/fhir/R4/Patient?_count=1", [])
        url = following(crowd)
        service.advance(11)
        issue(service.ask("GET", url.removeprefix(service.url)), 410, "not-found")
        service.reload(cursor_validity_s=20)
        url = following(crowd)
        service.advance(11)
        page(crowd, url)


def test_a_cursor_survives_a_restart(tmp_path: Path) -> None:
    """Section 6.4: a walk goes on after the service was started anew, at the page where it was."""
    with running(tmp_path) as service:
        ids = [service.create(name=[{"family": f"N{number}", "given": ["A"]}])["id"] for number in range(3)]
        link = following(Crowd(service, "/fhir/R4/Patient?_count=2", ids)).removeprefix(service.url)
    with running(tmp_path) as service:
        rest = page(Crowd(service, "", []), link)
        assert [entry["resource"]["id"] for entry in rest["entry"]] == ids[2:]


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str]]:
    """A service with a patient who has 105 observations."""
    with running(tmp_path_factory.mktemp("chart")) as service:
        patient_id = service.create()["id"]
        body = {"resourceType": "Observation", "status": "final", "code": {"text": "x"}}
        body["subject"] = {"reference": f"Patient/{patient_id}"}
        for _ in range(105):
            assert service.ask("POST", "/fhir/R4/Observation", json=body).status_code == 201
        yield service, patient_id


def test_other_types_are_paged_by_offset(chart: Any, base: str) -> None:
    """C-222, C-223: twenty by default, next uses _offset, a _count above a hundred is one of a hundred, any depth."""
    service, patient_id = chart
    crowd = Crowd(service, f"{base}/Observation?patient={patient_id}", [])
    first = page(crowd, crowd.path)
    assert [len(first["entry"]), first["total"]] == [20, 105]
    assert "_offset=20" in links(first)["next"]
    second = page(crowd, links(first)["next"])
    assert not {one["fullUrl"] for one in first["entry"]} & {one["fullUrl"] for one in second["entry"]}
    most = page(crowd, f"{crowd.path}&_count=500")
    assert [len(most["entry"]), links(most)["next"].count("_count=100&_offset=100")] == [100, 1]
    deep = page(crowd, f"{crowd.path}&_offset=999999&_count=100")
    assert [deep["total"], deep["entry"], list(links(deep))] == [105, [], ["self", "previous"]]


@pytest.mark.parametrize("query", ["_paging=cursor", "_paging=cursor&_cursor=abc", "_cursor=abc"])
def test_other_types_have_no_cursor(chart: Any, base: str, query: str) -> None:
    """C-221: paging by cursor on any other type is 400."""
    service, patient_id = chart
    issue(service.ask("GET", f"{base}/Observation?patient={patient_id}&{query}"), 400, "not-supported")
    issue(service.ask("GET", f"{base}/Practitioner?{query}"), 400, "not-supported")
    issue(service.ask("GET", f"{base}/Practitioner?_paging=foo"), 400, "invalid")


@pytest.mark.parametrize("query", [f"identifier={MRN}|", "family=quintero", "gender=F", "_lastUpdated=gt2020", ""])
def test_merged_records_are_in_no_total(own_service: Running, query: str) -> None:
    """Section 6.4, C-277: a total counts each match once and none that was merged away, whatever drives the search."""
    ids = [own_service.create(identifier=[record_number(f"RB-{number}")])["id"] for number in range(4)]
    for source, target in ((0, 1), (2, 1)):
        answer = own_service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(ids[source], ids[target]))
        assert answer.status_code == 200, answer.text
    crowd = Crowd(own_service, f"/fhir/R4/Patient?{query}&_count=1", [])
    for paging in ("", "&_paging=cursor"):
        first = page(crowd, crowd.path + paging)
        last = page(crowd, links(first)["next"])
        assert [one["entry"][0]["resource"]["id"] for one in (first, last)] == [ids[1], ids[3]]
        assert [first["total"], last["total"], "next" in links(last)] == [2, 2, False]


def test_links_are_no_longer_than_they_must(own_service: Running) -> None:
    """A next link has the slashes and colons of systems as the client wrote them, so that it can be followed."""
    numbers = [f"{MRN}|RB-{number:04}" for number in range(3)]
    for number in numbers:
        own_service.create(identifier=[record_number(number.rpartition("|")[2])])
    asked = ",".join(numbers * 60)
    crowd = Crowd(own_service, f"/fhir/R4/Patient?identifier={asked}&_count=2&_paging=cursor", [])
    first = page(crowd, crowd.path)
    assert len(links(first)["next"]) < len(own_service.url + crowd.path) + 2 * 180 + 100
    assert [first["total"], len(page(crowd, links(first)["next"])["entry"])] == [3, 1]


@pytest.mark.parametrize("form", ["_count=100", "_count=2", "_count=100&_paging=cursor"])
def test_large_resources(inside: Inside, base: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-206: a page of large resources holds fewer of them, and its next link leads to all the others, each once."""
    monkeypatch.setattr(query, "MOST_BYTES", 50_000)
    sizes = (20_000, 20_000, 20_000, 120_000, 100, 100)
    photos = [[{"data": "AAAA" * (size // 4)}] for size in sizes]
    made = [inside.create(name=[{"family": "Large", "given": ["A"]}], photo=photo)["id"] for photo in photos]
    walk, url = [], f"{inside.url}{base}/Patient?family=Large&{form}"
    while url:
        bundle = inside.ask("GET", url.removeprefix(inside.url)).json()
        assert bundle["total"] == len(made)
        walk.append([entry["resource"]["id"] for entry in bundle["entry"]])
        url = links(bundle).get("next", "")
    assert [one for ids in walk for one in ids] == made
    assert [len(ids) for ids in walk] == ([2, 1, 1, 2])


def test_two_large_matches_are_several(inside: Inside, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """C-142: two matches are several, however large they are."""
    monkeypatch.setattr(query, "MOST_BYTES", 1_000)
    large = {"name": [{"family": "Large", "given": ["A"]}], "photo": [{"data": "AAAA" * 1_000}]}
    for _ in range(2):
        inside.create(base, **large)
    headers = {"if-none-exist": "family=Large"}
    answer = inside.ask("POST", f"{base}/Patient", json=patient(**large), headers=headers)
    assert answer.status_code == 412
    assert inside.ask("GET", f"{base}/Patient?family=Large&_count=0").json()["total"] == 2


def test_the_last_page_by_offset(inside: Inside, base: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the next link leads beyond the depth of offsets, the page before it says so; an earlier one does not."""
    patients = KEPT["Patient"]
    monkeypatch.setitem(KEPT, "Patient", replace(patients, paging=replace(patients.paging, depth=6)))
    for _ in range(7):
        inside.create(base)
    told = []
    url = f"{base}/Patient?_count=2"
    while True:
        answer = inside.ask("GET", url)
        if answer.status_code != 200:
            break
        bundle = answer.json()
        told.append([one["resource"]["issue"][0] for one in bundle["entry"] if one["search"]["mode"] == "outcome"])
        url = links(bundle)["next"].removeprefix(inside.url)
    assert issue(answer, 400, "too-costly")["diagnostics"] == "Maximum search depth exceeded"
    first, [warning] = told
    assert first == []
    assert (warning["severity"], "_paging=cursor" in warning["diagnostics"]) == ("warning", True)
    cursored = inside.ask("GET", f"{base}/Patient?_count=6&_paging=cursor").json()
    assert {one["search"]["mode"] for one in cursored["entry"]} == {"match"}
