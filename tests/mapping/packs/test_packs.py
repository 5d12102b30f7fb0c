"""Mapping packs: a site's event file extends one, and its files lie between the site's and the shipped ones."""

from collections.abc import Callable

import pytest

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.hl7.message import Message
from engine.mapping.authoring.case import Case, cases_for, cases_of, channel_of, run_cases
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import MappingSource, compile_mapping, load
from engine.mapping.files.document import PACKS, pack_names
from tests.mapping.conftest import Author

SHIPPED = shipped("mappings")
NAMES = pack_names(SHIPPED)
PID = "PID|1||1^^^RVB^MR||ROE^ANN|"
US_CORE_PATIENT = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-patient"


@pytest.fixture(scope="module")
def packs() -> dict[str, MappingSource]:
    """Each pack, read and checked as a site's folder."""
    return {name: load([SHIPPED / PACKS / name, SHIPPED], "adt") for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_every_case_of_a_pack_holds(name: str, packs: dict[str, MappingSource]) -> None:
    """A pack has cases, and what they expect comes out."""
    cases: tuple[Case, ...] = cases_of(SHIPPED / PACKS / name)
    assert cases
    results = run_cases(cases_for(cases, packs[name]), packs[name])
    assert [(one.case.name, one.differences) for one in results if one.differences] == []


@pytest.mark.parametrize("name", NAMES)
def test_a_site_that_extends_a_pack_has_its_mapping(name: str, author: Author, packs: dict[str, MappingSource]) -> None:
    """Two lines are the whole of a site's folder, and make what the pack makes."""
    site = load([author(adt=f"mapping: adt\nextends: packs/{name}\n"), SHIPPED], "adt")
    assert {key: one.value for key, one in site.documents.resources.items()} == {
        key: one.value for key, one in packs[name].documents.resources.items()
    }
    assert all(one.ships for one in site.documents.resources.values())


def test_a_sites_file_lies_on_the_packs(author: Author, message: Callable[..., Message]) -> None:
    """`extends: shipped/patient` is what the pack made of it; each line is shown in the file that it is written in."""
    folder = author(
        adt="mapping: adt\nextends: packs/us-core\n",
        resources__patient="resource: Patient\nextends: shipped/patient\nelements:\n  maritalStatus:\n",
    )
    source = load([folder, SHIPPED], "adt")
    found = outcome(compile_mapping(source, channel_of({})), message("A28", f"{PID}|19840317|F|||||||||M"))
    patient = found["interactions"][0]["patient"]
    assert patient["meta"] == {"profile": [US_CORE_PATIENT]}
    assert "maritalStatus" not in patient
    document = source.documents.resources["Patient"]
    own, pack = str(folder / "resources/patient.yaml"), str(SHIPPED / PACKS / "us-core/resources/patient.yaml")
    assert document.place(("elements", "maritalStatus")) == (own, 4)
    assert document.place(("elements", "meta.profile"))[0] == pack
    assert document.place(("new", "gender"))[0] == pack
    assert document.place(("elements", "birthDate"))[0] == str(SHIPPED / "resources/patient.yaml")
    assert "of the pack us-core's patient.yaml" in document.shown(("elements", "meta.profile"))
    assert document.is_shipped(("elements", "birthDate"))
    assert not document.is_shipped(("elements", "maritalStatus"))


def test_a_site_replaces_a_table_of_a_pack(author: Author) -> None:
    """A file that only the pack has is extended or replaced as one that ships."""
    text = "table: us-core-sex\nreplaces: shipped/us-core-sex\nsource: own\nlicence: own\ncodes: {F: {code: female}}\n"
    folder = author(adt="mapping: adt\nextends: packs/us-core\n", **{"tables__us-core-sex": text})
    documents = load([folder, SHIPPED], "adt").documents
    assert list(documents.tables["us-core-sex"].value["codes"]) == ["F"]
    assert not documents.tables["us-core-sex"].ships
    assert documents.tables["us-core-birth-sex"].ships


def test_results_take_the_packs_files_too(author: Author) -> None:
    """A pack without an event table of a name has the shipped one's events."""
    source = load([author(oru="mapping: oru\nextends: packs/us-core\n"), SHIPPED], "oru")
    assert "R01" in "".join(source.documents.events.value["events"])
    assert "meta.profile" in source.documents.resources["Patient"].value["elements"]


def test_a_second_mapping_extends_a_pack_under_its_own_name(author: Author) -> None:
    """One destination may have a pack, and another none."""
    folder = author(record="mapping: record\nextends: packs/us-core\n", index="mapping: index\nextends: shipped/adt\n")
    documents = {name: load([folder, SHIPPED], name).documents for name in ("record", "index")}
    assert documents["record"].events.value["mapping"] == "record"
    assert "meta.profile" in documents["record"].resources["Patient"].value["elements"]
    assert "meta.profile" not in documents["index"].resources["Patient"].value["elements"]


@pytest.mark.parametrize(
    ("extends", "expected"),
    [
        ("packs/uscore", "adt.yaml:2:1: extends: found 'packs/uscore', no pack; did you mean 'packs/us-core'?"),
        ("packs/", "adt.yaml:2:1: extends: found 'packs/', no pack; did you mean"),
        ("packs/../tests", "adt.yaml:2:1: extends: found 'packs/../tests', no pack; "),
    ],
)
def test_an_unknown_pack_is_named_with_the_nearest(extends: str, expected: str, author: Author) -> None:
    """No folder but those that ship is a pack."""
    with pytest.raises(ConfigurationError) as raised:
        load([author(adt=f"mapping: adt\nextends: {extends}\n"), SHIPPED], "adt")
    assert expected in str(raised.value)
