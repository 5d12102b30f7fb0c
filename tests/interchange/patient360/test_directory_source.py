"""A folder as a source: what lies in the patient's folder, and what names the patient; nothing else is read."""

import os
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from engine.fhir.schema import FhirVersion
from engine.interchange.network.patient360.connectors import directory
from engine.interchange.network.patient360.connectors.connector import RetrievedDocument, SourceError
from engine.interchange.network.patient360.connectors.directory import DirectorySource
from tests.interchange.kit import MRN
from tests.interchange.patient360.sources import bundle, retrieved, settings, subject

WHO = subject("RB/1", name=[{"family": "Quintero", "given": ["Marisol"]}])
FOLDER = "RB%2F1"
CCDA = """<ClinicalDocument xmlns="urn:hl7-org:v3"><recordTarget><patientRole><patient>
<name><given>{given}</given><family>Quintero</family></name><administrativeGenderCode code="F"/>
<birthTime value="19840229"/></patient></patientRole></recordTarget></ClinicalDocument>"""


def lay(path: Path, body: bytes | str, *, seconds: float = 60) -> Path:
    """Lay a document that was changed so many seconds ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body.encode() if isinstance(body, str) else body)
    at = time.time() - seconds
    os.utime(path, (at, at))
    return path


def found(folder: Path, **keys: Any) -> list[RetrievedDocument]:
    """Return what is found in a folder for the patient."""
    return retrieved(DirectorySource("drop", settings(type="directory", folder=str(folder), **keys)), WHO)


def test_documents_in_the_patients_folder(tmp_path: Path) -> None:
    """C-358: each comes with its kind, version and instant; the same content has the same id."""
    lay(tmp_path / FOLDER / "a.xml", "<a/>", seconds=3600)
    lay(tmp_path / FOLDER / "b.JSON", b"{}")
    lay(tmp_path / FOLDER / "c.stu3.json", b"{}")
    lay(tmp_path / "RB-2" / "a.xml", "<other/>")
    documents = found(tmp_path)
    kinds = ("text/xml", "application/fhir+json", "application/fhir+json")
    assert tuple(document.media_type for document in documents) == kinds
    assert [document.version for document in documents] == [FhirVersion.R4, FhirVersion.R4, FhirVersion.STU3]
    assert [document.body for document in documents] == [b"<a/>", b"{}", b"{}"]
    assert documents[1].id == documents[2].id != documents[0].id
    assert documents[0].at < documents[1].at
    assert {document.organization for document in documents} == {"drop"}
    assert found(tmp_path, organization="Pine", identifier_system=MRN)[0].organization == "Pine"
    assert found(tmp_path, identifier_system="urn:other") == []


def test_documents_that_name_the_patient(tmp_path: Path) -> None:
    """What lies in the folder itself is the patient's whom it names, by the rule that holds for all documents."""
    lay(tmp_path / "mine.xml", CCDA.format(given="Marisol"))
    lay(tmp_path / "other.xml", CCDA.format(given="Ana"))
    lay(tmp_path / "mine.json", orjson.dumps(bundle({**WHO.patient, "id": "x"})))
    lay(tmp_path / "other.json", orjson.dumps(bundle({**WHO.patient, "birthDate": "1990-01-01"})))
    lay(tmp_path / "both.json", orjson.dumps(bundle(WHO.patient, WHO.patient)))
    for name, body in (
        ("bad.xml", "<a"),
        ("bad.json", "{"),
        ("list.json", "[]"),
        ("number.json", '{"entry":[{"resource":1}]}'),
    ):
        lay(tmp_path / name, body)
    assert [one.body[:1] for one in found(tmp_path)] == [b"{", b"<"]
    # A file that changes is looked at again.
    lay(tmp_path / "other.xml", CCDA.format(given="Marisol"), seconds=30)
    assert len(found(tmp_path)) == 3


def test_what_is_not_read(tmp_path: Path) -> None:
    """Files that somebody is writing, links, other kinds and folders are let lie."""
    own = tmp_path / "drop" / FOLDER
    secret = lay(tmp_path / "secret.xml", "<secret/>")
    for name in (".hidden.xml", "a.xml.part", "a.xml.tmp", "letter.pdf", "noname"):
        lay(own / name, "<a/>")
    lay(own / "fresh.xml", "<a/>", seconds=0)
    (own / "link.xml").symlink_to(secret)
    (own / "folder.xml").mkdir()
    os.mkfifo(own / "pipe.xml")
    assert found(tmp_path / "drop") == []
    lay(own / "fresh.xml", "<a/>", seconds=10)
    assert [one.body for one in found(tmp_path / "drop")] == [b"<a/>"]


@pytest.mark.parametrize("number", ["..", ".", "../outside", "/etc", "a\0b", "x" * 300])
def test_no_number_leads_out_of_the_folder(tmp_path: Path, number: str) -> None:
    """Whatever a patient's identifier is, nothing outside of the folder is read."""
    lay(tmp_path / "outside" / "a.xml", "<a/>")
    lay(tmp_path / "a.xml", "<a/>")
    (tmp_path / "drop").mkdir()
    source = DirectorySource("drop", settings(type="directory", folder=str(tmp_path / "drop")))
    assert retrieved(source, subject(number)) == []


def test_a_folder_that_is_a_link(tmp_path: Path) -> None:
    """A patient's folder that leads elsewhere is not followed."""
    lay(tmp_path / "outside" / "a.xml", "<a/>")
    (tmp_path / "drop").mkdir()
    (tmp_path / "drop" / FOLDER).symlink_to(tmp_path / "outside")
    assert found(tmp_path / "drop") == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    """The source has failed, and says what to mend."""
    with pytest.raises(SourceError, match=r"^The source drop cannot read its folder \(No such"):
        found(tmp_path / "nowhere")


def test_a_folder_that_takes_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share that does not answer ends the source after its timeout_s."""
    lay(tmp_path / FOLDER / "a.xml", "<a/>")
    monkeypatch.setattr(directory, "_read", lambda _path: time.sleep(0.3))
    with pytest.raises(SourceError, match=r"^The source drop took longer than timeout_s \(0.1 s\)"):
        found(tmp_path, timeout_s=0.1)
