"""Loading a laboratory's file: what it makes, twice the same, and never half of it."""

import itertools
import json
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.config.settings import shipped
from engine.interchange.orders.compendium import lookup
from engine.interchange.orders.compendium.answers import unanswered
from engine.interchange.rest.resource.catalogue import INDEXERS
from engine.interchange.store.store import Store
from engine.interchange.store.verify import verify
from tests.interchange.kit import SYSTEM, Outside, configuration, running, secret_file
from tests.interchange.nursery import ran
from tests.interchange.places import DATABASE, address_of, url_of
from tests.interchange.process import write_configuration

SAMPLE = shipped("samples") / "compendium/cedar-valley.yaml"
LAB = "cedar-valley"
CODES = f"urn:uuid:f:{LAB}"
KEYS = "SELECT count(*) FROM version"
LOG = "SELECT tenant, client, interaction, type, id, outcome FROM access WHERE client='adt-engine'"
KILLED = -9


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """A service beside which the sample was loaded while it ran."""
    with running(tmp_path_factory.mktemp("compendium")) as service:
        assert load(service.database.parent, SAMPLE) == {
            "laboratory_id": LAB,
            "laboratory": counts(created=1),
            "tests": counts(created=29),
            "questionnaires": counts(created=14),
        }
        yield service
    assert verify(service.database, INDEXERS).faults == {}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a service that has run once, and runs no more."""
    with running(tmp_path):
        return tmp_path


def counts(**more: int) -> dict[str, int]:
    """Return the counts of one type in a summary."""
    return {**dict.fromkeys(("created", "updated", "unchanged", "retired"), 0), **more}


def load(folder: Path, file: Path, tenant: str = "riverbend", fault: str = "", code: int = 0) -> Any:
    """Run the command over a folder's database; return its summary, or what it says of an error."""
    options = ("--config", str(folder / "interchange.yaml"), "--database", url_of(folder))
    done = ran(
        *("interchange", "compendium", "load", str(file), "--tenant", tenant, "--json", *options),
        environment={"ENGINE_FAULT": fault} if fault else {},
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if not code else done.stderr


def show(folder: Path, *arguments: str) -> Any:
    """Return what the command shows of a folder's database, as JSON."""
    database = url_of(folder)
    done = ran(
        "interchange", "compendium", "show", "--tenant", "riverbend", "--database", database, "--json", *arguments
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def found(service: Outside, path: str, **more: str) -> list[dict[str, Any]]:
    """Return what a search finds."""
    answer = service.ask("GET", path, **more)
    assert answer.status_code == 200, answer.text
    return [entry["resource"] for entry in answer.json().get("entry", [])]


def items(questionnaire: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the items of a Questionnaire at every depth."""
    for item in questionnaire.get("item", ()):
        yield item
        yield from items(item)


def written(folder: Path, *tests: str, **more: str) -> Path:
    """Write a laboratory's file of tests in YAML, each a line."""
    lines = ["laboratory:", "  id: lab-1", "  name: River Lab", *(f"  {name}: {value}" for name, value in more.items())]
    file = folder / "lab.yaml"
    file.write_text("\n".join([*lines, "tests:", *(f"- {test}" for test in tests)]) + "\n")
    return file


def test_a_laboratory_is_there(loaded: Outside) -> None:
    """C-442: the Organization bears the laboratory's id, names, numbers and address, and takes orders."""
    (laboratory,) = found(loaded, "/fhir/R4/Organization?ordering-enabled=true")
    assert laboratory["id"] == LAB
    assert (laboratory["name"], laboratory["alias"]) == ("Cedar Valley Reference Laboratory", ["CVRL"])
    assert laboratory["identifier"] == [{"system": "urn:oid:2.16.840.1.113883.4.7", "value": "99D0000000"}]
    assert laboratory["address"][0]["postalCode"] == "84013"
    assert found(loaded, "/fhir/R4/Organization?ordering-enabled=true", client="other") == []


def test_a_test_is_found_by_code_and_by_any_of_its_names(loaded: Outside, base: str) -> None:
    """On both bases a test has the laboratory's code, its LOINC code, a specimen and synonyms, which are searched."""
    (test,) = found(loaded, f"{base}/ActivityDefinition?code={CODES}|LIPID")
    assert (test["id"], test["status"], test["title"]) == (f"{LAB}-LIPID", "active", "Lipid panel")
    assert test["code"]["coding"] == [
        {"system": CODES, "code": "LIPID", "display": "Lipid panel"},
        {"system": "http://loinc.org", "code": "24331-1"},
    ]
    assert [one["id"] for one in found(loaded, f"{base}/ActivityDefinition?code=http://loinc.org|24331-1")] == [
        test["id"]
    ]
    for name in ("Lipid", "choles"):
        assert [one["id"] for one in found(loaded, f"{base}/ActivityDefinition?title={name}")] == [test["id"]]
    specimen = [one for one in test["extension"] if one["url"].endswith("activitydefinition-specimen")]
    assert specimen[0]["valueCodeableConcept"] == {"text": "Serum"}
    assert len(found(loaded, f"{base}/ActivityDefinition?_tag={SYSTEM}/compendium|{LAB}&_count=50")) == 29


def test_questions_are_questionnaires(loaded: Outside, base: str) -> None:
    """C-425: the Questionnaire of a test is found by its code; every item at every depth has its id as linkId."""
    every = found(loaded, f"{base}/Questionnaire?status=active&_count=50")
    assert len(every) == 14
    for questionnaire in every:
        assert questionnaire["subjectType"] == ["Patient"]
        assert [item["linkId"] for item in items(questionnaire)] == [item["id"] for item in items(questionnaire)]
    (screen,) = found(loaded, f"{base}/Questionnaire?code={CODES}|MAT4")
    assert len(list(items(screen))) == 9
    assert found(loaded, f"{base}/Questionnaire?code={CODES}|TSH") == []


def test_what_an_item_says(loaded: Outside) -> None:
    """Options, conditions, units, lengths, help, and what is required when a specimen is collected."""
    (fasting,) = found(loaded, f"/fhir/R4/Questionnaire?code={CODES}|LIPID")
    asked, hours = fasting["item"]
    assert asked["required"] is True
    assert asked["answerOption"][0] == {"valueCoding": {"code": "Y", "display": "Yes"}}
    coding = {"code": "Y", "display": "Yes"}
    assert hours["enableWhen"] == [{"question": "fasting", "operator": "=", "answerCoding": coding}]
    assert hours["extension"][0]["valueCoding"]["code"] == "h"
    (urine,) = found(loaded, f"/fhir/R4/Questionnaire?code={CODES}|UCRE24")
    when_collected = {
        "url": f"{SYSTEM}/fhir/StructureDefinition/questionnaire-requiredwhenspecimen",
        "valueBoolean": True,
    }
    assert [when_collected in item.get("extension", ()) for item in items(urine)] == [True, True, False]
    assert urine["item"][1]["item"][0]["text"] == "24 unless your order says otherwise."
    (culture,) = found(loaded, f"/fhir/R4/Questionnaire?code={CODES}|UCUL")
    assert culture["item"][0]["answerOption"][0] == {"valueCoding": {"code": "Abscess", "display": "Abscess"}}
    assert culture["item"][2]["maxLength"] == 80
    (screen,) = found(loaded, f"/fhir/R4/Questionnaire?code={CODES}|MAT4")
    (chorionicity,) = (item for item in items(screen) if item["id"] == "chorionicity")
    assert chorionicity["enableWhen"] == [{"question": "fetuses", "operator": ">=", "answerInteger": 2}]


def test_questions_of_stu3(loaded: Outside) -> None:
    """STU3 says `option` for R4's `answerOption`, and no operator."""
    (fasting,) = found(loaded, f"/fhir/Questionnaire?code={CODES}|LIPID")
    asked, hours = fasting["item"]
    assert asked["option"][0] == {"valueCoding": {"code": "Y", "display": "Yes"}}
    assert hours["enableWhen"] == [{"question": "fasting", "answerCoding": {"code": "Y", "display": "Yes"}}]


def test_orders_find_what_was_loaded(loaded: Outside) -> None:
    """The look-ups of order validation know the tests and their questions, by tenant."""
    store = Store(loaded.database, ["riverbend", "lakeside"], lambda: None, {}, alone=False)  # type: ignore[arg-type, return-value]
    try:
        assert store.read("riverbend", lambda inner: lookup.configured(inner, LAB))
        assert not store.read("lakeside", lambda inner: lookup.configured(inner, LAB))
        test = store.read("riverbend", lambda inner: lookup.find_test(inner, LAB, "MAT4"))
        assert test == ("MAT4", "Maternal serum screen, four markers", f"{LAB}-MAT4")
        stored = store.read("riverbend", lambda inner: inner.get("Questionnaire", test.questionnaire))
        assert stored is not None
        assert unanswered(stored.resource(), None, collected=False) == ("dated-by", "weight", "fetuses", "diabetes")
    finally:
        store.close()


def test_the_command_shows_what_is_kept(loaded: Outside) -> None:
    """Laboratories with their counts, tests, and one test's questions as a person reads them."""
    folder = loaded.database.parent
    counted = {"tests": 29, "orderable": 29}
    named = {"id": LAB, "name": "Cedar Valley Reference Laboratory", "ordering_enabled": True}
    assert show(folder) == [{**named, **counted}]
    assert [one["code"] for one in show(folder, LAB, "--find", "thyr")] == ["FT4", "TSH"]
    lead = show(folder, LAB, "--code", "LEAD")
    assert lead["questionnaire"] == f"{LAB}-LEAD"
    assert lead["questions"][0]["options"][0] == "I (Initial screening)"
    database = ("--tenant", "riverbend", "--database", address_of(loaded.database))
    told = ran("interchange", "compendium", "show", LAB, "--code", "MAT4", *database).stdout
    assert "  gestation: Gestation [group]\n    dated-by: Dated by [LMP (Last menstrual period), US" in told
    assert "[date; required; asked when dated-by = LMP]" in told
    assert "UCRE24" in ran("interchange", "compendium", "show", LAB, *database).stdout
    for wrong, advice in (
        ((LAB, "--code", "LIPIDS"), "did you mean LIPID?"),
        (("cedar-valey",), "did you mean cedar-valley?"),
        (("--code", "LIPID"), "name the laboratory, too"),
    ):
        done = ran("interchange", "compendium", "show", *wrong, *database)
        assert done.returncode == 2
        assert advice in done.stderr


def test_loading_is_recorded(loaded: Outside) -> None:
    """Each commit of a load has a row in the access log, which names its tenant and the laboratory."""
    connection = sqlite3.connect(f"file:{loaded.database}?mode=ro", uri=True)
    try:
        rows = connection.execute(LOG).fetchall()
    finally:
        connection.close()
    assert set(rows) == {("riverbend", "adt-engine", "batch", "Organization", LAB, "done")}
    assert ran("interchange", "audit", "verify", "--database", address_of(loaded.database)).returncode == 0


def test_loading_again_changes_what_changed(folder: Path) -> None:
    """What is as the file says gets no version; a test that the file no longer has is retired, and returns active."""
    question = "questions: [{id: f, text: F, type: boolean}]"
    tests = (f"{{code: A, title: A, {question}}}", f"{{code: B, title: B, {question}}}", "{code: C, title: C}")
    first = written(folder, *tests)
    assert load(folder, first)["tests"] == counts(created=3)
    again = load(folder, first)
    assert again["tests"] == counts(unchanged=3)
    assert again["laboratory"] == counts(unchanged=1)
    assert versions(folder) == 0
    second = written(folder, "{code: A, title: A}", "{code: C, title: See}", ordering_enabled="no")
    changed = load(folder, second)
    assert changed["tests"] == counts(unchanged=1, updated=1, retired=1)
    assert changed["questionnaires"] == counts(retired=2)
    assert changed["laboratory"] == counts(updated=1)
    assert {one["code"]: one["status"] for one in show(folder, "lab-1")} == {
        "A": "active",
        "B": "retired",
        "C": "active",
    }
    assert load(folder, second)["tests"] == counts(unchanged=2)
    assert load(folder, written(folder, *tests))["tests"] == counts(updated=2, unchanged=1)
    assert {one["status"] for one in show(folder, "lab-1")} == {"active"}


def versions(folder: Path) -> int:
    """Count the former versions in a folder's database."""
    connection = sqlite3.connect(f"file:{folder / DATABASE}?mode=ro", uri=True)
    try:
        return int(connection.execute(KEYS).fetchone()[0])
    finally:
        connection.close()


def test_nothing_else_is_touched(tmp_path: Path) -> None:
    """Of what the API wrote, only the Organization and the tests of the file's codes become what the file says."""
    coding = [{"system": "urn:uuid:f:lab-1", "code": "X"}]
    own = {"resourceType": "ActivityDefinition", "status": "active", "code": {"coding": coding}, "title": "Own"}
    taken = {**own, "id": "lab-1-B", "title": "Taken", "code": {"coding": [{"system": "urn:other", "code": "B"}]}}
    adopted = {**own, "id": "mine", "code": {"coding": [{**coding[0], "code": "A"}]}}
    organization = {
        "resourceType": "Organization",
        "id": "lab-1",
        "name": "Old name",
        "type": [{"text": "laboratory"}],
        "identifier": [{"system": "urn:x", "value": "7"}, {"system": "urn:y", "value": "8"}],
        "telecom": [{"system": "fax", "value": "1"}, {"system": "phone", "value": "2"}],
    }
    with running(tmp_path) as service:
        for resource in (taken, adopted, organization):
            path = f"/fhir/R4/{resource['resourceType']}/{resource['id']}"
            assert service.ask("PUT", path, json=resource).status_code == 201
        kept = service.ask("POST", "/fhir/R4/ActivityDefinition", json=own).json()
        file = written(
            tmp_path,
            *("{code: A, title: A}", "{code: B, title: B}", "{code: odd code/1, title: O}"),
            identifiers="[{system: urn:x, value: 9}]",
            telephone="3",
        )
        assert load(tmp_path, file)["tests"] == counts(created=2, updated=1)
        assert service.ask("GET", f"/fhir/R4/ActivityDefinition/{kept['id']}").json() == kept
        assert service.ask("GET", "/fhir/R4/ActivityDefinition/lab-1-B").json()["title"] == "Taken"
        assert service.ask("GET", "/fhir/R4/ActivityDefinition/mine").json()["title"] == "A"
        (new,) = found(service, "/fhir/R4/ActivityDefinition?code=urn:uuid:f:lab-1|B")
        assert new["id"].startswith("lab-1-")
        assert len(found(service, "/fhir/R4/ActivityDefinition?code=urn:uuid:f:lab-1|odd%20code/1")) == 1
        laboratory = service.ask("GET", "/fhir/R4/Organization/lab-1").json()
        assert (laboratory["name"], laboratory["type"]) == ("River Lab", [{"text": "laboratory"}])
        assert laboratory["identifier"] == [{"system": "urn:x", "value": "9"}, {"system": "urn:y", "value": "8"}]
        assert laboratory["telecom"] == [{"system": "phone", "value": "3"}, {"system": "fax", "value": "1"}]
        assert service.ask("DELETE", "/fhir/R4/ActivityDefinition/mine").status_code == 204
        again = load(tmp_path, file)
        assert again["tests"] == counts(created=1, unchanged=2)
        assert load(tmp_path, file)["tests"] == counts(unchanged=3)
        late = {**kept, "code": {"coding": [{**coding[0], "code": "B"}]}}
        assert service.ask("PUT", f"/fhir/R4/ActivityDefinition/{kept['id']}", json=late).status_code == 200
        assert load(tmp_path, file)["tests"] == counts(unchanged=3)


def test_a_service_writes_while_a_laboratory_is_loaded(tmp_path: Path) -> None:
    """A load is many short commits, between which the service's own writes find their place."""
    question = "questions: [{id: f, text: F, type: boolean}]"
    file = written(tmp_path, *(f"{{code: T{number}, title: Test {number}, {question}}}" for number in range(300)))
    with running(tmp_path) as service:
        loading = threading.Thread(target=load, args=(tmp_path, file))
        loading.start()
        while loading.is_alive():
            service.create()
        connection = sqlite3.connect(f"file:{service.database}?mode=ro", uri=True)
        try:
            who = [client for (client,) in connection.execute("SELECT client FROM access ORDER BY seq")]
        finally:
            connection.close()
        turns = [client for client, _ in itertools.groupby(who)]
        assert turns.count("adt-engine") >= 3
        # 600 resources, at most 200 at a time, and the Organization; more where a commit takes longer than its time.
        assert who.count("adt-engine") >= 4
        assert len(show(tmp_path, "lab-1")) == 300


@pytest.mark.process
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param("F27:kill:1", marks=pytest.mark.smoke),
        *("F27:kill:2", "F28:kill:1", "F28:kill:2", "F29:kill:1", "F29:kill:2"),
    ],
)
def test_a_killed_load_is_finished_by_loading_again(folder: Path, fault: str) -> None:
    """kill -9 leaves whole tests; loading again ends as if nothing had been, and a third time changes nothing."""
    question = "questions: [{id: f, text: F, type: boolean}]"
    tests = [f"{{code: T{number}, title: Test {number}, {question}}}" for number in range(60)]
    file = written(folder, *tests)
    load(folder, file, fault=fault, code=KILLED)
    assert verify(folder / DATABASE, INDEXERS).faults == {}
    assert [one for one in show(folder) if one["ordering_enabled"]] == [] or fault == "F29:kill:2"
    finished = load(folder, file)
    assert finished["tests"]["created"] + finished["tests"]["unchanged"] == 60
    assert len(show(folder, "lab-1")) == 60
    third = load(folder, file)
    assert (third["tests"], third["questionnaires"]) == (counts(unchanged=60), counts(unchanged=60))
    assert versions(folder) == 0


def test_a_load_that_cannot_be_says_so(folder: Path, tmp_path: Path) -> None:
    """A file with a problem, a tenant or a database that is not there: nothing is written."""
    wrong = written(folder, "{code: A, titlee: A}")
    assert "did you mean title?" in load(folder, wrong, code=2)
    assert "no tenant 'riverbent'; did you mean riverbend?" in load(folder, SAMPLE, "riverbent", code=2)
    empty = tmp_path / "empty"
    empty.mkdir()
    write_configuration(empty, configuration(secret_file(empty)))
    assert "there is no database" in load(empty, SAMPLE, code=1)
    assert show(folder) == []
