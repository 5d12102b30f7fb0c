"""A retrieval whose sources hand over what is no document of the patient: each fails alone, and says why."""

import gzip
from pathlib import Path

import orjson
import pytest

from engine.interchange.network.patient360.connectors.connector import CCDA, FHIR, RetrievedDocument
from engine.interchange.network.patient360.reading_bundle import read_document
from engine.interchange.network.patient360.retrieve import KIND, retrieval
from tests.interchange.ccda.written import MARISOL, coded, document, section
from tests.interchange.jobs import ended
from tests.interchange.kit import running_inside
from tests.interchange.patient360.papers import ADDRESS, Shelf

PROCEDURE = f"<procedure>{coded('code', '80146002', 'snomed')}<effectiveTime value='20191103'/></procedure>"
GOOD = document(section("47519-4", PROCEDURE), people=MARISOL.replace("<given>Ana</given>", ""))
HEAD, REST = GOOD.split(b"?>", 1)
LAUGHS = b"".join(b'<!ENTITY l%d "%s">' % (n + 1, b"&l%d;" % n * 10) for n in range(9))
BODIES = {
    "not-xml": [b"", b"Zanzibar", GOOD[:-1]],
    "bad-encoding": [gzip.compress(GOOD)],
    "entity-declared": [
        HEAD + b'?><!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>' + REST.replace(b"Marisol", b"&x;"),
        HEAD + b"?><!DOCTYPE a [<!ENTITY l0 'Zanzibar'>" + LAUGHS + b"]>" + REST.replace(b"Marisol", b"&l9;"),
    ],
    "too-large": [b"<a>" + b" " * 50_000_000],
    "too-deep": [b"<Zanzibar>" * 1_000],
    "not-a-document": [b"<Zanzibar/>"],
    "patient-mismatch": [GOOD.replace(b"Quintero", b"Zanzibar")],
    "two-patients": [document(people=MARISOL + MARISOL.replace("Marisol", "Zanzibar"))],
}


def test_bad_documents_fail_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """C-354: the job completes with the good document; each bad one has its reason, and none shows in the log."""
    xml = [
        RetrievedDocument("pine", f"{name} {at}", "", CCDA, body)
        for name in BODIES
        for at, body in enumerate(BODIES[name])
    ]
    json = [
        RetrievedDocument("pine", "json 0", "", FHIR, b"{"),
        RetrievedDocument("pine", "json 1", "", FHIR, orjson.dumps({"resourceType": "Zanzibar"})),
    ]
    shelf = Shelf("pine", [*xml, *json, RetrievedDocument("pine", "good", "", CCDA, GOOD)])
    with running_inside(tmp_path, {KIND: retrieval(lambda _service, _tenant: [shelf], read_document)}) as service:
        who = service.create(name=[{"family": "Quintero", "given": ["Marisol"]}], address=ADDRESS)["id"]
        path = f"/fhir/DocumentReference/$p360-retrieve?patient={who}"
        handle = service.ask("POST", path, headers={"prefer": "respond-async"}).headers["location"]
        done = ended(service, handle.removeprefix(service.url))
    assert done.status_code == 200, done.text
    found = done.json()["parameter"]
    told = {one["name"]: one.get("valueInteger", one.get("valueCode")) for one in found}
    bad = len(xml) + len(json)
    assert (told["status"], told["documentsImported"], told["documentsFailed"]) == ("completed", 1, bad)
    (organization,) = (one["part"] for one in found if one["name"] == "organization")
    reasons = [{part["name"]: part for part in one["part"]} for one in organization if one["name"] == "reason"]
    counted = {reason["code"]["valueCode"]: reason["documents"]["valueInteger"] for reason in reasons}
    expected = {name: len(bodies) for name, bodies in BODIES.items()}
    assert counted == {**expected, "not-json": 1, "not-a-document": expected["not-a-document"] + 1}
    assert "Zanzibar" not in done.text + "".join(capsys.readouterr())
