"""Systems: each address leads to its OID and back."""

import pytest

from engine.interchange.clinical.ccda.codes import OID, SYSTEMS, derived_oid, system_by_oid, system_by_uri


@pytest.mark.parametrize(
    ("uri", "oid"),
    [
        ("http://loinc.org", "2.16.840.1.113883.6.1"),
        ("http://snomed.info/sct", "2.16.840.1.113883.6.96"),
        ("http://www.nlm.nih.gov/research/umls/rxnorm", "2.16.840.1.113883.6.88"),
        ("http://hl7.org/fhir/sid/cvx", "2.16.840.1.113883.12.292"),
        ("http://hl7.org/fhir/sid/icd-10-cm", "2.16.840.1.113883.6.90"),
        ("http://hl7.org/fhir/sid/us-npi", "2.16.840.1.113883.4.6"),
        ("http://terminology.hl7.org/CodeSystem/v2-0078", "2.16.840.1.113883.12.78"),
        ("urn:oid:1.2.36.1", "1.2.36.1"),
    ],
)
def test_an_address_and_its_oid_lead_to_each_other(uri: str, oid: str) -> None:
    """The registered pairs, a table of version 2 by its number, and an address that is an OID."""
    known = system_by_uri(uri)
    assert known is not None
    assert known.oid == oid
    assert system_by_oid(oid).uri == uri


def test_every_row_is_found_and_well_formed() -> None:
    """No address stands twice, and each OID is one."""
    assert len({one.uri for one in SYSTEMS}) == len(SYSTEMS)
    for one in SYSTEMS:
        assert OID.fullmatch(one.oid), one
        assert system_by_uri(one.uri) == one
        assert system_by_oid(one.oid).oid == one.oid


def test_the_former_addresses_of_stu3_are_known() -> None:
    """Vocabularies of versions 2 and 3 had other addresses in STU3."""
    assert system_by_uri("http://hl7.org/fhir/v3/ActCode") == system_by_oid("2.16.840.1.113883.5.4")
    assert system_by_uri("http://hl7.org/fhir/v2/0131") == system_by_oid("2.16.840.1.113883.12.131")


@pytest.mark.parametrize("uri", ["", "http://lab.example/codes", "urn:oid:1.02", "urn:oid:x", "urn:uuid:1"])
def test_an_unregistered_address_has_no_oid(uri: str) -> None:
    """Nothing is made up for it: who wants an OID asks for a derived one."""
    assert system_by_uri(uri) is None


def test_a_derived_oid_is_read_back_only_beside_its_address() -> None:
    """The name proves it: another name beside it does not become an address."""
    uri = "http://lab.example/codes"
    assert OID.fullmatch(derived_oid(uri))
    assert system_by_oid(derived_oid(uri), uri).uri == uri
    assert system_by_oid(derived_oid(uri), "http://other.example").uri == f"urn:oid:{derived_oid(uri)}"
