"""Patient search and paging by offset (points H, I)."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from engine.interchange.store.search.date import span
from engine.interchange.store.search.text import fold, split, unescape
from tests.interchange.kit import MRN, SYSTEM, issue, patient, record_number, running

PEOPLE: dict[str, dict[str, Any]] = {
    "quintero": {
        "name": [{"family": "Quintero", "given": ["Marisol", "Ines"]}],
        "identifier": [
            record_number("RB-40017"),
            {"system": "https://cards.example", "value": "77"},
            {"system": "http://hl7.org/fhir/sid/us-ssn", "value": "987-65-4321"},
        ],
        "address": [{"postalCode": "97301-1234"}],
        "meta": {"tag": [{"system": "urn:t", "code": "vip"}], "security": [{"system": "urn:s", "code": "R"}]},
    },
    "vance": {"name": [{"family": "Vance", "given": ["Elisabeth"]}], "gender": "female", "birthDate": "1998-10-05"},
    "junior": {"name": [{"family": "Vance, Jr", "given": ["Bo"]}], "gender": "male", "birthDate": "1998-11-01"},
    "smith": {"name": [{"family": "Smith Johnson", "given": ["Al"]}], "gender": "male", "birthDate": "1999"},
    "ng": {
        "name": [{"family": "Ångström", "given": ["Zoë"]}, {"use": "maiden", "family": "Müller", "given": ["Zoë"]}],
        "gender": "other",
        "birthDate": "2001-02",
    },
}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A service with five patients, and their names by logical id."""
    with running(tmp_path_factory.mktemp("people")) as service:
        names = {service.create(**elements)["id"]: name for name, elements in PEOPLE.items()}
        service.create(client="other")
        yield service, names


def found(people: Any, query: str, base: str = "/fhir/R4") -> set[str]:
    """Return the names that a search finds."""
    service, names = people
    answer = service.ask("GET", f"{base}/Patient?{query}")
    assert answer.status_code == 200, answer.text
    bundle = answer.json()
    assert bundle["total"] == len(bundle["entry"])
    return {names[entry["resource"]["id"]] for entry in bundle["entry"]}


EVERYONE = set(PEOPLE)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("family=Quintero", {"quintero"}, id="C-170"),
        pytest.param("family=Nobody", set(), id="C-172"),
        pytest.param(f"identifier={quote(MRN)}|RB-40017", {"quintero"}, id="C-173"),
        pytest.param("identifier=https://cards.example|77", {"quintero"}, id="C-175"),
        pytest.param("identifier=http://hl7.org/fhir/sid/us-ssn|987-65-4321", {"quintero"}, id="C-176"),
        pytest.param("identifier=77", {"quintero"}, id="C-177 any system"),
        pytest.param("identifier=|77", set(), id="C-177 no system"),
        pytest.param("identifier=https://cards.example|", {"quintero"}, id="system with any value"),
        pytest.param("identifier=https://cards.example|77,RB-1", {"quintero"}, id="identifiers in OR"),
        pytest.param("identifier=https://cards.example|78", set(), id="other value"),
        pytest.param("family=Vance%5C%2C%20Jr", {"junior"}, id="C-178"),
        pytest.param("family=Quintero,Vance", {"quintero", "vance", "junior"}, id="C-179"),
        pytest.param("given:contains=lis", {"vance"}, id="C-180"),
        pytest.param("family:exact=Smith%20Johnson", {"smith"}, id="C-181 exact"),
        pytest.param("family:exact=smith%20johnson", set(), id="C-181 case"),
        pytest.param("family:exact=Smith", set(), id="exact is whole"),
        pytest.param("family=quint", {"quintero"}, id="C-182 start"),
        pytest.param("family=tero", set(), id="C-182 middle"),
        pytest.param("family=angstrom", {"ng"}, id="without accents"),
        pytest.param("family=%C3%85NGSTR%C3%96M", {"ng"}, id="with accents"),
        pytest.param("family=muller", {"ng"}, id="any name"),
        pytest.param("given=ines", {"quintero"}, id="any given name"),
        pytest.param("birthdate=1984-02-29", {"quintero"}, id="C-183 eq"),
        pytest.param("birthdate=eq1984-02-29", {"quintero"}, id="C-183 eq prefix"),
        pytest.param("birthdate=gt1998-10", {"junior", "smith", "ng"}, id="C-183 gt"),
        pytest.param("birthdate=ge1998-10", {"vance", "junior", "smith", "ng"}, id="C-183 ge"),
        pytest.param("birthdate=lt1998-10-05", {"quintero"}, id="C-183 lt"),
        pytest.param("birthdate=le1998-10-05", {"quintero", "vance"}, id="C-183 le"),
        pytest.param("birthdate=1984-02", {"quintero"}, id="C-194"),
        pytest.param("birthdate=1999-05-05", set(), id="a partial date is no day"),
        pytest.param("birthdate=1999", {"smith"}, id="year"),
        pytest.param("birthdate=1984-02-29,2001-02", {"quintero", "ng"}, id="dates in OR"),
        pytest.param("gender=F", {"quintero", "vance"}, id="C-184 F"),
        pytest.param("gender=m", {"junior", "smith"}, id="C-184 M"),
        pytest.param("gender=male", {"junior", "smith"}, id="C-184 male"),
        pytest.param("gender=female,other", {"quintero", "vance", "ng"}, id="gender OR"),
        pytest.param("gender=nonsense", set(), id="unknown gender"),
        pytest.param("address-postalcode=97301", {"quintero"}, id="C-185"),
        pytest.param("_lastUpdated=gt2019-03", EVERYONE, id="C-186 past"),
        pytest.param("_lastUpdated=gt2999", set(), id="C-186 future"),
        pytest.param("family=Vance&gender=male", {"junior"}, id="C-187"),
        pytest.param("family=Vance&gender=male&birthdate=1998-11-01&given=bo", {"junior"}, id="four criteria"),
        pytest.param("family=Vance&_lastUpdated=gt2999", set(), id="AND with _lastUpdated"),
        pytest.param("family=Vance&identifier=77", set(), id="AND with identifier"),
        pytest.param("_tag=vip&_tag=urn:t|vip", {"quintero"}, id="C-193 _tag"),
        pytest.param("_tag=vip&_tag=other", set(), id="C-193 AND"),
        pytest.param("_security=R&_security=urn:s|R", {"quintero"}, id="C-193 _security"),
        pytest.param("_id=none", set(), id="unknown id"),
        pytest.param("address-postalcode:missing=false", {"quintero"}, id="string there"),
        pytest.param("address-postalcode:missing=true", EVERYONE - {"quintero"}, id="string missing"),
        pytest.param("birthdate:missing=true", set(), id="date missing"),
        pytest.param("gender:missing=false", EVERYONE, id="code there"),
        pytest.param("identifier:missing=true", set(), id="identifier missing"),
        pytest.param("_tag:missing=false", {"quintero"}, id="tag there"),
        pytest.param("_tag:missing=true&gender=M", {"junior", "smith"}, id="tag missing beside a code"),
        pytest.param("_id:missing=true", set(), id="_id missing"),
        pytest.param("_lastUpdated:missing=false", EVERYONE, id="_lastUpdated there"),
        pytest.param("", EVERYONE, id="no criterion"),
        pytest.param("_format=json&_pretty=true", EVERYONE, id="form only"),
    ],
)
def test_search(people: Any, query: str, expected: set[str]) -> None:
    """Each search finds exactly the patients it names, on both bases, and nobody of another tenant."""
    assert found(people, query) == expected
    assert found(people, query, "/fhir") == expected


def test_search_by_global_id(people: Any) -> None:
    """C-174: the service's own identifier finds its patient, and so does _id."""
    _, names = people
    for patient_id, name in names.items():
        assert found(people, f"identifier={SYSTEM}|{patient_id}") == {name}
        assert found(people, f"_id={patient_id}") == {name}
    assert found(people, f"_id={','.join(names)}&gender=F") == {"quintero", "vance"}


@pytest.mark.parametrize(
    ("query", "code"),
    [
        pytest.param("family=a&family=b", "invalid", id="C-188"),
        pytest.param("family=a&family:exact=b", "invalid", id="repeat with modifier"),
        pytest.param("family:not=X", "not-supported", id="C-189"),
        pytest.param("gender:exact=male", "not-supported", id="exact on a code"),
        pytest.param("gender:not=male", "not-supported", id="C-244"),
        pytest.param("foo=1", "not-supported", id="C-190"),
        pytest.param("_include:iterate=Patient:organization", "not-supported", id="_include:iterate"),
        pytest.param("_sort=foo", "not-supported", id="_sort"),
        pytest.param("birthdate=ap1984", "not-supported", id="C-191 ap"),
        pytest.param("birthdate=ne1984", "not-supported", id="C-191 ne"),
        pytest.param("birthdate=sa1984", "not-supported", id="C-191 sa"),
        pytest.param("_lastUpdated=eb1984", "not-supported", id="C-191 eb"),
        pytest.param("birthdate=29/02/1984", "invalid", id="C-192"),
        pytest.param("birthdate=1985-02-29", "invalid", id="no such day"),
        pytest.param("birthdate=xx1985", "invalid", id="unknown prefix"),
        pytest.param("family=", "invalid", id="empty"),
        pytest.param("family=a,", "invalid", id="empty alternative"),
        pytest.param("identifier=a|b|c", "invalid", id="two bars"),
        pytest.param("identifier=|", "invalid", id="nothing but a bar"),
        pytest.param("family=%20", "invalid", id="a blank"),
        pytest.param("given:contains=%CC%81", "invalid", id="an accent alone"),
        pytest.param("_elements=foo", "invalid", id="_elements"),
        pytest.param("_summary=yes", "invalid", id="_summary"),
        pytest.param("_revinclude=Provenance:agent", "invalid", id="_revinclude"),
        pytest.param("_format=json&_format=json", "invalid", id="_format twice"),
        pytest.param("family:missing=yes", "invalid", id="missing yes"),
        pytest.param("family:missing=true&family=a", "invalid", id="missing and a value"),
        pytest.param("_count=101", "invalid", id="C-201"),
        pytest.param("_count=abc", "invalid", id="C-219 abc"),
        pytest.param("_count=-1", "invalid", id="C-219 -1"),
        pytest.param("_offset=1.5", "invalid", id="_offset"),
        pytest.param("_count=1&_count=2", "invalid", id="_count twice"),
        pytest.param("_offset=9980&_count=20", "too-costly", id="C-212"),
        pytest.param("_offset=9980", "too-costly", id="C-214"),
        pytest.param("family=%ff", "invalid", id="no UTF-8"),
    ],
)
def test_refused_searches(people: Any, base: str, query: str, code: str) -> None:
    """What a search cannot mean is 400 and never silently ignored."""
    service, _ = people
    told = issue(service.ask("GET", f"{base}/Patient?{query}"), 400, code)
    if code == "too-costly":
        assert told["diagnostics"] == "Maximum search depth exceeded"


def test_bundle(people: Any, base: str) -> None:
    """C-171, C-172: the Bundle has its parts; an empty one has an explicit empty entry."""
    service, _ = people
    bundle = service.ask("GET", f"{base}/Patient?family=Quintero").json()
    assert (bundle["resourceType"], bundle["type"], bundle["total"]) == ("Bundle", "searchset", 1)
    assert bundle["id"]
    assert [link["relation"] for link in bundle["link"]] == ["self"]
    entry = bundle["entry"][0]
    assert entry["fullUrl"] == f"{service.url}{base}/Patient/{entry['resource']['id']}"
    assert entry["search"] == {"mode": "match"}
    empty = service.ask("GET", f"{base}/Patient?family=Nobody").json()
    assert (empty["total"], empty["entry"]) == (0, [])


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A service with 45 patients of one family name."""
    with running(tmp_path_factory.mktemp("crowd")) as service:
        ids = [service.create(name=[{"family": "Crowd & Co", "given": [f"N{number}"]}])["id"] for number in range(45)]
        yield service, ids


def test_pages(crowd: Any, base: str) -> None:
    """C-200, C-204, C-205, C-206, C-224: following next as given visits every patient once, in order of creation."""
    service, ids = crowd
    seen: list[str] = []
    path = f"{base}/Patient?family=Crowd%20%26%20Co"
    sizes = []
    while path:
        bundle = service.ask("GET", path).json()
        links = {link["relation"]: link["url"] for link in bundle["link"]}
        seen += [entry["resource"]["id"] for entry in bundle["entry"]]
        sizes.append(len(bundle["entry"]))
        assert bundle["total"] == 45
        assert ("_offset=20" in links["self"]) == (len(sizes) == 2)
        path = links.get("next", "").removeprefix(service.url)
    assert sizes == [20, 20, 5]
    assert seen == ids


def test_page_sizes(crowd: Any, base: str) -> None:
    """C-201, C-213, C-225: a hundred at most; the depth limit is exclusive; _count=0 tells the total only."""
    service, _ = crowd
    assert len(service.ask("GET", f"{base}/Patient?_count=100").json()["entry"]) == 45
    deep = service.ask("GET", f"{base}/Patient?_offset=9979&_count=20")
    assert (deep.status_code, deep.json()["total"], deep.json()["entry"]) == (200, 45, [])
    none = service.ask("GET", f"{base}/Patient?_count=0").json()
    assert (none["total"], none["entry"], len(none["link"])) == (45, [], 1)
    last = service.ask("GET", f"{base}/Patient?_count=45").json()
    assert [link["relation"] for link in last["link"]] == ["self"]


def test_updates_do_not_move_records(crowd: Any) -> None:
    """Section 6.4: the order is that of creation, whatever is updated."""
    service, ids = crowd
    body = patient(id=ids[0], name=[{"family": "Crowd & Co", "given": ["N0"]}])
    assert service.ask("PUT", f"/fhir/R4/Patient/{ids[0]}", json=body).status_code == 200
    first = service.ask("GET", "/fhir/R4/Patient?_count=1").json()
    assert first["entry"][0]["resource"]["id"] == ids[0]


def test_a_large_answer_is_whole(tmp_path: Path) -> None:
    """A page of a hundred is one readable Bundle."""
    with running(tmp_path) as service:
        for number in range(100):
            service.create(name=[{"family": "Full", "given": [f"N{number}"]}])
        assert len(service.ask("GET", "/fhir/Patient?family=full&_count=100").json()["entry"]) == 100


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("1970", 0, 365 * 86_400_000 - 1),
        ("1970-01", 0, 31 * 86_400_000 - 1),
        ("1969-12-31", -86_400_000, -1),
        ("1970-01-01T00:00Z", 0, 59_999),
        ("1970-01-01T01:00:00+01:00", 0, 999),
        ("1970-01-01T00:00:00.25Z", 250, 250),
        ("1970-12", 334 * 86_400_000, 365 * 86_400_000 - 1),
        ("1972", 730 * 86_400_000, 1096 * 86_400_000 - 1),
        ("9999-12-31", 253_402_214_400_000, 253_402_300_799_999),
        ("9999", 253_370_764_800_000, 253_402_300_799_999),
    ],
)
def test_spans(text: str, first: int, last: int) -> None:
    """A partial date covers all of its milliseconds."""
    assert span(text) == (first, last)


@pytest.mark.parametrize("text", ["", "70", "1970-1", "1970-13", "1970-02-30", "1970-01-01T25:00Z", "0000"])
def test_what_is_no_span(text: str) -> None:
    """What is not in the calendar, or ends beyond it, covers nothing."""
    assert span(text) is None


def test_escapes() -> None:
    r"""Section 6.1: `\,` `\|` `\$` `\\` stand for themselves; another backslash stays."""
    assert split(r"a\,b,c", ",") == [r"a\,b", "c"]
    assert unescape(r"a\,b\|c\$d\\e\f") == r"a,b|c$d\e\f"
    assert fold("  ÉMILE ") == "emile"
    assert fold("Straße") == fold("STRASSE")
