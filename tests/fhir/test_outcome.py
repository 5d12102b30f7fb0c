"""Codes of an OperationOutcome, and nothing else of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.fhir.outcome import codes, is_fault, required


def outcome(**issue):
    """An OperationOutcome with one issue."""
    return {"resourceType": "OperationOutcome", "issue": [{"severity": "error"} | issue]}


def test_codes_come_with_their_details():
    """The issue's code and the codes of its details are told, texts are not."""
    body = outcome(code="duplicate", details={"coding": [{"code": "duplicate-mrn"}], "text": "Quintero"})
    assert codes(body) == ("duplicate", "duplicate-mrn")


def test_what_is_no_code_is_not_told():
    """A server that puts a name where a code belongs does not make us tell it."""
    assert codes(outcome(code="Quintero, Marisol", details={"coding": [{"code": "1984-02-29"}]})) == ()
    assert codes(outcome(code="quintero", details={"coding": [{"code": "Quintero"}]})) == ()
    assert codes(outcome(code="invalid", details={"coding": [{"code": "MSG_NO_MATCH"}]})) == ("invalid", "MSG_NO_MATCH")


def test_required_elements_are_told_by_their_paths():
    """Of the issues `required` the expressions, in STU3 the locations; what is no path of elements is not told."""
    assert required(outcome(code="required", expression=["Patient.birthDate", "Quintero 1984"])) == (
        "Patient.birthDate",
    )
    assert required(outcome(code="required", location=["Patient.name[0].family"])) == ("Patient.name[0].family",)
    assert required(outcome(code="invalid", expression=["Patient.birthDate"])) == ()
    assert required(outcome(code="required")) == ()


def test_the_outcome_among_the_results_of_an_operation_is_told():
    """HAPI answers a merge with Parameters, of which `outcome` says what was wrong."""
    wrong, well = outcome(code="required"), outcome(severity="information", code="informational")
    results = [{"name": "input", "resource": {"resourceType": "Parameters"}}, {"name": "outcome", "resource": wrong}]
    assert codes({"resourceType": "Parameters", "parameter": results}) == ("required",)
    assert is_fault({"resourceType": "Parameters", "parameter": results})
    assert not is_fault({"resourceType": "Parameters", "parameter": [{"name": "outcome", "resource": well}]})


@pytest.mark.parametrize("severity", ["information", "warning"])
def test_information_is_no_fault(severity):
    """An outcome without an error is none."""
    assert not is_fault(outcome(severity=severity, code="informational"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["issue", "code", "details", "coding", "severity"]), inner, max_size=4)
    ),
)


@given(JSON)
def test_any_json_is_taken(body):
    """Whatever a server sends, reading its codes does not fail."""
    assert isinstance(codes(body), tuple)
    assert isinstance(codes({"resourceType": "OperationOutcome", "issue": body}), tuple)
