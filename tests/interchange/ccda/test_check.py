"""Documents against HL7's schema of CDA and its Schematron of C-CDA R2.1, where copies of these are named."""

from pathlib import Path

import pytest
from lxml import etree

from tests.interchange.ccda.charts import CHARTS, PATIENT, written
from tests.interchange.ccda.check import Rules


@pytest.fixture(scope="session")
def rules(pytestconfig: pytest.Config) -> Rules:
    """HL7's rules; without both folders the test is skipped."""
    folders = [pytestconfig.getoption(f"--{name}") for name in ("schemas", "schematron")]
    if not all(folders):
        pytest.skip("needs --schemas DIR --schematron DIR, copies of HL7/CDA-core-2.0 and HL7/CDA-ccda-2.1")
    return Rules.read(*folders)


# All of them, and the large one, which takes some minutes, are what the script asks about.
SOME = [name for name in CHARTS if name != "large"][:12]


@pytest.mark.parametrize("name", SOME)
def test_a_document_keeps_the_rules(rules: Rules, name: str) -> None:
    """No error of the schema, none of the Schematron."""
    assert list(rules.faults(written(CHARTS[name]()))) == []


def test_a_fault_is_found(rules: Rules) -> None:
    """A document that lacks its type breaks both; one without a section breaks the Schematron."""
    document = etree.fromstring(written([PATIENT]))
    document.remove(document.find("{*}typeId"))
    found = list(rules.faults(etree.tostring(document)))
    assert {one.partition(":")[0].partition(",")[0] for one in found} == {"schema", "schematron"}
    document = etree.fromstring(written([PATIENT]))
    body = document.find("{*}component/{*}structuredBody")
    body.remove(body[0])
    assert [fault.partition(":")[0] for fault in rules.faults(etree.tostring(document))] == ["schematron"]


@pytest.mark.parametrize("missing", ["schemas", "schematron"])
def test_a_folder_without_the_rules_is_told(tmp_path: Path, missing: str) -> None:
    """Which file is missing, and in which folder."""
    pattern = {"schemas": "CDA_SDTC.xsd", "schematron": r"\*\.sch"}[missing]
    if missing == "schemas":
        (tmp_path / "x.sch").write_text("<x/>")
        (tmp_path / "voc.xml").write_text("<x/>")
    with pytest.raises(ValueError, match=f"has no {pattern}"):
        Rules.read(tmp_path, tmp_path)
