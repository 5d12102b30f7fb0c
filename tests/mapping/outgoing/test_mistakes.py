"""Mistakes in outgoing files: each with file, line, column, what was found and what is near."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.mapping.outgoing.case import read_outgoing_cases
from engine.mapping.outgoing.compile import compile_outgoing, read_outgoing

PID = "segment: PID\nextends: shipped/pid\nfields:\n  "
CASE = "tests: [{change: patient-created, patient: {}"
CX = "datatype: CX\nextends: shipped/cx\ncomponents:\n  "
ADT = "mapping: adt\nextends: shipped/adt\nevents:\n  "


def problems_of(folder: Path) -> str:
    """Return the problems of a site's folder."""
    try:
        compile_outgoing(read_outgoing([folder, shipped("mappings")]))
    except ConfigurationError as error:
        return "\n".join(map(str, error.problems))
    return ""


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        (
            "out/segments/pid",
            f"{PID}PID-7: birthdate | date",
            "pid.yaml:4:3: fields.PID-7: Patient has no element 'birthdate'; did you mean 'birthDate'?",
        ),
        ("out/segments/pid", f"{PID}PID-7: birthDate | dat", "unknown function 'dat'; did you mean 'date'?"),
        ("out/segments/pid", f"{PID}PID-7: birthDate", "a date as it is; say it as HL7 does: | date"),
        ("out/segments/pid", f"{PID}PID-30: deceasedBoolean", "a boolean as it is; say it as HL7 does: | yes-no"),
        (
            "out/segments/pid",
            f"{PID}PID-8: gender | code(administrative-sx)",
            "unknown table 'administrative-sx'; did you mean 'administrative-sex'?",
        ),
        ("out/segments/pid", f"{PID}PID-8: gender | code", "code with 0 words; expected 1 to 9 words"),
        ("out/segments/pid", f"{PID}PID-8: gender | date", "date of a code; use"),
        ("out/segments/pid", f"{PID}PID-5: name", "a whole HumanName; use XPN"),
        ("out/segments/pid", f"{PID}PID-5: {{each: name, as: XPX}}", "unknown data type 'XPX'; did you mean 'XPN'?"),
        ("out/segments/pid", f"{PID}PID-5: {{each: address, as: XPN}}", "XPN of Address; give a HumanName"),
        ("out/segments/pid", f"{PID}PID-3: {{each: name, as: XPN}}", "a XPN for a field of type CX; expected CX"),
        (
            "out/segments/pid",
            f"{PID}PID-23: name.family",
            "several values for a field that does not repeat; say which: first(), or [0]",
        ),
        ("out/segments/pid", f"{PID}PID-99: id", "unknown field PID-99; PID has the fields 1 to"),
        ("out/segments/pid", f"{PID}PV1-2: id", "found 'PV1-2'; expected a field such as PID-3"),
        (
            "out/segments/pid",
            f"{PID}PID-5: {{each: name, when: usee = old, as: XPN}}",
            "fields.PID-5.when: HumanName has no element 'usee'; did you mean 'use'?",
        ),
        (
            "out/segments/pid",
            f"{PID}PID-5: {{each: name, as: XPN, XPN.99: family}}",
            "unknown component XPN.99; name one of the 15 components of XPN",
        ),
        ("out/segments/pid", f"{PID}PID-5: {{each: name}}", "nothing to make of each item; add as: TYPE"),
        (
            "out/segments/pid",
            f"{PID}PID-6: {{XPN.2: name.given}}",
            "several values for one component; say which, as given[0]",
        ),
        (
            "out/segments/pid",
            f"{PID}PID-29: deceased.ofType(date) | date",
            "Patient has no element 'deceased'; did you mean 'deceased",
        ),
        (
            "out/segments/pid",
            f"{PID}PID-23: extension(birthPlace).valueString.first()",
            "found extension(birthPlace); write extension('URL')",
        ),
        ("out/segments/pid", f"{PID}PID-23: id.where(x", "expected a parenthesis at its end"),
        (
            "out/segments/pid",
            f"{PID}PID-23: managingOrganization.resolve().name | else Pateint.id",
            "found 'Pateint'; did you mean 'Patient'?",
        ),
        (
            "out/segments/pid",
            f"{PID}PID-23: generalPractitioner.first().resolve().name",
            "found 'name' below a Resource; leave it out, or say which with ofType(Type)",
        ),
        (
            "out/segments/pid",
            f"{PID}PID-23: generalPractitioner.first().resolve().ofType(Practitioneer).id",
            "unknown resource 'Practitioneer'; did you mean 'Practitioner'?",
        ),
        ("out/segments/pid", f"{PID}PID-23: id.frist()", "unknown function 'frist' of a path; did you mean 'first'?"),
        (
            "out/segments/pid",
            "segment: PID\nextends: shipped/pid\nfield: {}",
            "unknown key 'field'; did you mean 'fields'?",
        ),
        (
            "out/segments/zpi",
            "segment: ZPI\nof: pateint\nfields: {ZPI-1: id}",
            "found 'pateint'; did you mean 'patient'?",
        ),
        ("out/segments/pix", "segment: PIX\nof: patient\nfields: {PIX-1: id}", "unknown segment 'PIX'; did you mean"),
        (
            "out/datatypes/cx",
            f"{CX}CX.1: valu",
            "cx.yaml:4:3: components.CX.1: Identifier has no element 'valu'; did you mean 'value'?",
        ),
        ("out/datatypes/cx", f"{CX}CX.5: $this | authority", "a HD for CX.5; it has no parts: give a text"),
        ("out/datatypes/cx", f"{CX}CX.1: $this | authority", "a HD for CX.1; it has no parts: give a text"),
        (
            "out/adt",
            f"{ADT}patient-create: {{event: A28, segments: [EVN]}}",
            "unknown change 'patient-create'; did you mean 'patient-created'?",
        ),
        (
            "out/adt",
            f"{ADT}patient-created: {{event: A99, segments: [EVN]}}",
            "unknown event 'A99'; expected a trigger event of ADT",
        ),
        (
            "out/adt",
            f"{ADT}patient-created: {{event: A28, segments: [EVN, PID, MRG, PV1]}}",
            "MRG in ADT_A05, which has no such segment; leave it out",
        ),
        (
            "out/adt",
            f"{ADT}patient-created: {{event: A28, segments: [EVN, PID]}}",
            "no PV1, which A28 requires; add PV1",
        ),
        (
            "out/adt",
            f"{ADT}patient-created: {{event: A28, segments: [PID, EVN, PV1]}}",
            "in the wrong place; write the segments in HL7's order",
        ),
        (
            "out/adt",
            f"{ADT}patient-created: {{event: A28, segments: [EVN, PDI, PV1]}}",
            "no file of 'PDI'; did you mean 'PID'?",
        ),
        (
            "out/adt",
            f"{ADT}patient-created: {{nothing: x, event: A28}}",
            "nothing beside an event; leave one of the two out",
        ),
        (
            "out/adt",
            f"{ADT}patient-created: {{when: Patient.actve = true, nothing: x}}",
            "Patient has no element 'actve'; did you mean 'active'?",
        ),
        ("out/segments/pid", f"{PID}PID-7: else birthDate", "nothing before 'else'; write PATH | else PATH"),
        ("out/segments/pid", f"{PID}PID-23: {'a' * 1001}", "a text of 1001 characters; shorten it to at most 1000"),
        ("out/segments/pid", f"{PID}PID-23: id | when Up(", "expected a parenthesis at its end"),
        ("out/segments/pid", f"{PID}PID-23: id | Upper", "expected a function such as date or code(table)"),
        ("out/segments/pid", f"{PID}PID-23: id | when id ~ x", "found '~ x'; expected = value, != value, in (a, b)"),
        ("out/segments/pid", f"{PID}PID-23: id | when id = a b", "expected PATH = value, 'several words' in quotes"),
        ("out/segments/pid", f"{PID}PID-23: '[0]'", "expected a path such as name[0].family, or 'quoted text'"),
        ("out/segments/pid", f"{PID}PID-23: id!x", "found '!x' in 'id!x'; expected a dot, or the end of the path"),
        ("out/segments/pid", f"{PID}PID-23: id.extension('u').id.extension('u').x", "Extension has no element 'x'"),
        ("out/segments/pid", f"{PID}PID-23: id.where(id = a).id", "found 'id' below a id; leave it out"),
        ("out/segments/pid", f"{PID}PID-23: $event.extension('u').id", "an extension of string; name the element"),
        ("out/segments/pid", f"{PID}PID-23: name.skip(x).text", "found skip(x); expected a number, such as skip(1)"),
        ("out/segments/pid", f"{PID}PID-23: name.resolve()", "resolve() of HumanName; leave it out: a Reference alone"),
        ("out/segments/pid", f"{PID}PID-23: name.ofType(Patient)", "ofType(Patient) of HumanName; leave it out"),
        ("out/segments/pid", f"{PID}PID-23: contact", "a whole Patient.contact; name an element of it"),
        ("out/segments/pid", f"{PID}PID-23: contact | date", "date of a Patient.contact; name an element of it"),
        ("out/segments/pid", f"{PID}PID-23: id | upper(x)", "upper with 1 words; expected no words"),
        ("out/segments/pid", f"{PID}PID-23: address | XPN", "XPN of a Address; give a HumanName"),
        ("out/segments/pid", f"{PID}PID-23: {{each: x}}", "Patient has no element 'x'; expected one of"),
        ("out/segments/pid", f"{PID}PID-6: {{XPN.2: [id]}}", "found a list; expected an expression"),
        ("out/segments/pid", f"{PID}PID-6: {{XAD.2: id}}", "found 'XAD.2'; expected a component such as XPN.1"),
        ("out/segments/pid", f"{PID}PID-6: {{XPN.2.3: id}}", "unknown subcomponent XPN.2.3; leave it out: XPN.2 has"),
        (
            "out/segments/pid",
            f"{PID}PID-23: {{each: name, ST.1: text}}",
            "several items for a field that does not repeat",
        ),
        ("out/segments/pid", f"{PID}PID-7: maritalStatus | coded", "a CWE for a field of type DTM; expected DTM"),
        ("out/segments/pid", f"{PID}PID-5: id\nneeds: [PID-55]", "needs: found 'PID-55'; did you mean"),
        ("out/segments/pid", "segment: PID\nextends: shipped/pid\nwhen: name.x = y", "HumanName has no element 'x'"),
        ("out/segments/zpi", "segment: ZPI\nof: patient", "no fields; write them as ZPI-7: birthDate | date"),
        ("out/segments/zpi", "segment: ZPI\nof: patient\neach: nam\nfields: {ZPI-1: id}", "did you mean 'name'?"),
        ("out/datatypes/ei", "datatype: EI\nof: Identifer\ncomponents: {EI.1: value}", "did you mean 'Identifier'?"),
        ("out/datatypes/ei", "datatype: EI\nof: Identifier", "no components; write them as EI.1: value"),
        ("out/datatypes/ei", "datatype: EI\nof: Identifier\ncomponents: {EI.1: $this | EI}", "refers to itself"),
        ("out/datatypes/ei", "datatype: EI\nof: Identifier\nelements: {}", "unknown key 'elements'"),
        ("out/adt", "mapping: adt\nextends: shipped/adt\nsystem: {}", "unknown key 'system'; did you mean 'systems'?"),
        ("out/adt", "mapping: adt\nextends: shipped/adt\nsystems: [a]", "found a list; expected lines such as SS: URI"),
        ("out/adt", "mapping: adt\nreplaces: shipped/adt", "no events; write them as patient-created:"),
        (
            "out/adt",
            f"{ADT}patient-created: {{when: active = true, nothing: x}}",
            "found 'active' with nothing before",
        ),
        (
            "out/segments/pid",
            f"{PID}PID-29: deceasedDateTime",
            "a dateTime as it is; say it as HL7 does: | timestamp",
        ),
        ("out/datatypes/ei", "datatype: EI\nof: qqqq\ncomponents: {EI.1: value}", "(all: a FHIR type)"),
        ("out/adt", f"{ADT}patient-created: A28", "found 'A28'; expected {event: A28, segments: [EVN, PID]}"),
        ("out/adt", f"{ADT}patient-created: {{evnt: A28}}", "unknown key 'evnt'; did you mean 'event'?"),
        ("tables/degree", "table: degree\nextends: shipped/degree\nback: [a]", "found a list; expected lines such as"),
        (
            "tables/degree",
            "table: degree\nextends: shipped/degree\ncodes: {ABCD: {code: X1Y}, ABCE: {code: X1Y}}",
            "ABCD and ABCE are all 'X1Y', so that the table cannot be read backwards; say which is written: back:",
        ),
        (
            "tables/degree",
            "table: degree\nextends: shipped/degree\nback: {X: Y, MD: ZZ}",
            "found X: Y; give a FHIR code of this table",
        ),
    ],
)
def test_a_mistake_is_told_with_what_is_near(file: str, text: str, expected: str, author: Callable[..., Path]) -> None:
    """A name that does not exist names the nearest one; a value of the wrong kind names the function for it."""
    found = problems_of(author(**{file.replace("/", "__"): text}))
    assert expected in found


def test_a_problem_of_a_table_is_in_the_sites_own_file(author: Callable[..., Path]) -> None:
    """A row that a site adds makes the shipped table ambiguous: the line to add is named in its file."""
    codes = "codes: {K: {code: kvinna}, W: {code: kvinna}}\n"
    text = f"table: administrative-sex\nextends: shipped/administrative-sex\n{codes}"
    found = problems_of(author(**{"tables__administrative-sex": text}))
    assert "administrative-sex.yaml:3:" in found
    assert "say which is written: back: {kvinna: K}" in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tests: [{case: a}]", "no patient; give case, change, patient and expect"),
        ("tests: [{change: x, patient: {}, expect: {event: A28}}]", "tests.0.change: found 'x'; expected one of"),
        ("tests: [{change: patient-created, patient: {}}]", "no expect; say what comes out"),
        (f"{CASE}, expect: {{evnt: A28}}}}]", "unknown key 'evnt'; did you mean 'event'?"),
        (f"{CASE}, at: now, expect: {{event: A28}}}}]", "found 'now'; expected a time"),
        (f"{CASE}, destination: {{version: '2.2'}}, expect: {{event: A28}}}}]", "found '2.2'"),
        (f"{CASE}, destination: {{character_set: X}}, expect: {{event: A28}}}}]", "a name of HL7 table 0211"),
        (f"{CASE}, destination: {{timezone: X}}, expect: {{event: A28}}}}]", "a zone such as Europe/Berlin"),
        (f"{CASE}, expect: {{qqqq: A28}}}}]", "(all: and any field, as PID-5.1)"),
        ("a: b", "no list 'tests'; write 'tests:' and a list of cases"),
        (f"{CASE}, encounter: x, expect: {{event: A28}}}}]", "tests.0.encounter: found 'x'; give a map"),
        (f"{CASE}, expected: {{event: A28}}}}]", "unknown key 'expected'; did you mean 'expect'?"),
    ],
)
def test_a_mistake_of_a_case(text: str, expected: str, tmp_path: Path) -> None:
    """A case that cannot run is a problem with its place."""
    file = tmp_path / "a.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_outgoing_cases([file])
    assert expected in str(caught.value)


def test_a_case_that_differs_says_how(tmp_path: Path) -> None:
    """Each difference names the field, what was expected and what was found."""
    from engine.mapping.outgoing.case import run_outgoing_cases  # noqa: PLC0415 - beside the mistakes

    file = tmp_path / "a.yaml"
    patient = "{identifier: [{value: '1'}], gender: male}"
    expect = "{event: A31, PID-8: F, absent: [PV1]}"
    file.write_text(f"tests: [{{change: patient-created, patient: {patient}, expect: {expect}}}]")
    (result,) = run_outgoing_cases(read_outgoing_cases([file]), read_outgoing([shipped("mappings")]))
    assert result.differences == (
        "event: expected 'A31', found 'A28'",
        "PID-8: expected 'F', found 'M'",
        "PV1: expected nothing, found something",
    )
