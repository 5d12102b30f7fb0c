"""Text as people write it: created, found, merged and read back, character for character."""

from itertools import count
from typing import Any
from unicodedata import normalize
from urllib.parse import quote

import pytest

from tests.interchange.kit import MRN, Running, issue, merge_body, patient, record_number
from tests.interchange.least import least

FRESH = count(1)
NAMES = [
    pytest.param("O'Neil", ["o'neil", "O'N"], id="apostrophe"),
    pytest.param('He said "hi" \\ `x`; DROP TABLE resource;--', ['he said "hi"'], id="quotes"),
    pytest.param("100% _ under*", ["100% _", "100%"], id="wildcards"),
    pytest.param("<b>&amp;</b>", ["<B>&amp;"], id="markup"),
    pytest.param("Zoë Ångström", ["zoe angstrom", "ZOË", normalize("NFD", "Zoë")], id="NFC"),
    pytest.param(normalize("NFD", "Zoë Ångström"), ["zoe angstrom", "Zoë"], id="NFD"),
    pytest.param("Straße", ["strasse", "STRASSE"], id="sharp s"),
    pytest.param("Ｆｕｌｌ", ["full"], id="full width"),
    pytest.param("مريم عبد الله", ["مريم"], id="right to left"),
    pytest.param("\u202eolleH\u202c", ["\u202eolle"], id="override"),
    pytest.param("李小龍 王", ["李小"], id="Chinese"),
    pytest.param("👩‍👩‍👧‍👦 family", ["👩‍👩‍👧‍👦", "👩"], id="emoji"),
    pytest.param("Ş\u0327\u0301\u0301\u0301\u0301 stacked", ["s stacked"], id="many accents"),
    pytest.param("van der  Berg-Ng", ["van der  berg"], id="two blanks"),
    pytest.param("line\nbreak\ttab", ["line\nbreak"], id="line break"),
    pytest.param("y" * 1000, ["y" * 1000, "Y" * 500], id="1000 characters"),
    pytest.param("\U0001f600" * 500, ["\U0001f600" * 499], id="500 emoji"),
]


def ids(bundle: dict[str, Any]) -> list[str]:
    """Return the ids in a searchset."""
    return [entry["resource"]["id"] for entry in bundle["entry"]]


def escaped(text: str) -> str:
    """Return a value as it stands in an address, with FHIR's escapes."""
    for character in "\\,|$":
        text = text.replace(character, f"\\{character}")
    return quote(text, safe="")


@pytest.mark.parametrize(("family", "queries"), NAMES)
def test_names(service: Running, base: str, family: str, queries: list[str]) -> None:
    """C-110, C-180 to C-182: a name comes back as it was sent, is found folded and exactly, and survives a merge."""
    given = f"T{next(FRESH)}x"
    name = [{"family": family, "given": [given]}]
    made = service.create(base, name=name, identifier=[record_number(f"{family} {given}")])
    read = service.ask("GET", f"{base}/Patient/{made['id']}").json()
    assert read["name"] == name
    exactly = (f"family:exact={escaped(family)}", f"family:contains={escaped(family[1:-1])}")
    number = f"identifier={MRN}|{escaped(f'{family} {given}')}"
    for query in (*(f"family={escaped(one)}" for one in queries), *exactly, number):
        found = service.ask("GET", f"{base}/Patient?{query}&given={given}").json()
        assert ids(found) == [made["id"]], query
        assert found["entry"][0]["resource"]["name"] == name
    target = service.create(base)
    asked = merge_body((MRN, f"{family} {given}"), target["id"], preview=True)
    told = {
        one["name"]: one["part"][-1].get("valueString")
        for one in service.ask("POST", f"{base}/Patient/$merge", json=asked).json()["parameter"]
    }
    assert told["Patient.name[0].family"] == family
    merged = service.ask("POST", f"{base}/Patient/$merge", json=merge_body(made["id"], target["id"]))
    assert merged.status_code == 200
    assert ids(service.ask("GET", f"{base}/Patient?{number}").json()) == [target["id"]]
    assert service.ask("GET", f"{base}/Patient/{made['id']}").json()["name"] == name


def test_a_condition_in_any_writing(service: Running, base: str) -> None:
    """C-141: a name that is written with other code points, or in other letters, is the same name for a condition."""
    given = f"Zoë{next(FRESH)}x"
    for at, form in enumerate((normalize("NFC", given), normalize("NFD", given), given.upper())):
        body = patient(name=[{"family": "Ångström", "given": [form]}])
        condition = f"given={quote(form)}&family={quote('ångström')}"
        made = service.ask("POST", f"{base}/Patient", json=body, headers={"if-none-exist": condition})
        assert made.status_code == (200 if at else 201)


def test_duplicates_in_any_writing(service: Running, base: str) -> None:
    """C-128, C-131: composed and decomposed letters are the same name for the duplicate limit."""
    given = f"Zoë{next(FRESH)}x"
    for at in range(10):
        body = patient(name=[{"family": "Ångström", "given": [normalize("NFD" if at % 2 else "NFC", given)]}])
        assert service.ask("POST", f"{base}/Patient", json=body).status_code == 201
    for form in ("NFC", "NFD"):
        body = patient(name=[{"family": "Ångström", "given": [normalize(form, given)]}])
        issue(service.ask("POST", f"{base}/Patient", json=body), 409, "duplicate")


# An address holds no more than some 2,000 of such characters; a body does.
@pytest.mark.parametrize("length", [1, 255, 2000, 100_000])
def test_long_identifiers(service: Running, base: str, length: int) -> None:
    """C-120, C-121, C-272: an identifier of any length is unique, is found, and names a side of a merge."""
    value = f"{next(FRESH):06}" + "ä7" * (length // 2)
    number = record_number(value)
    made = service.create(base, identifier=[number])
    again = patient(identifier=[number], birthDate="1930-01-01")
    issue(service.ask("POST", f"{base}/Patient", json=again), 409, "duplicate")
    if length <= 2000:
        found = service.ask("GET", f"{base}/Patient?identifier={MRN}|{quote(value)}").json()
        assert ids(found) == [made["id"]]
    target = service.create(base)
    merged = service.ask("POST", f"{base}/Patient/$merge", json=merge_body((MRN, value), target["id"]))
    assert merged.status_code == 200


def test_text_of_other_types(service: Running) -> None:
    """Section 18: long and strange text in a chart comes back, character for character."""
    text = 'He said "hi" \\ \u202e\U0001f600 <b>é</b> ' * 500
    patient_id = service.create()["id"]
    body = least("Observation", patient_id, code={"text": text}, note=[{"text": text}], valueString=text)
    made = service.ask("POST", "/fhir/R4/Observation", json=body).json()
    target = service.create()["id"]
    service.ask("POST", "/fhir/R4/Patient/$merge", json=merge_body(patient_id, target))
    kept = service.ask("GET", f"/fhir/R4/Observation/{made['id']}").json()
    assert (kept["code"]["text"], kept["note"][0]["text"], kept["valueString"]) == (text, text, text)
