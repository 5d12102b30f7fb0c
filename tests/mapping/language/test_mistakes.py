"""Mistakes that authors make, each one line: where it stands, what was found, and the nearest right thing."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.mapping.compile import load

ELEMENTS = "resource: Patient\nextends: shipped/patient\nelements:\n"
VISIT = "resource: Encounter\nextends: shipped/encounter\n"
LISTED = "resource: Condition\nextends: shipped/condition\n"
EVENTS = "mapping: adt\nextends: shipped/adt\n"


@pytest.mark.parametrize(
    ("name", "text", "place", "told"),
    [
        pytest.param(
            "resources__patient",
            ELEMENTS + "  birthDate: pid-7 | date\n",
            "4:3",
            "found 'pid-7'; did you mean 'PID-7'?",
            id="a path in small letters",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  multipleBirth[x]: {multipleBirthInteger: PID-25 | intexer}\n",
            "4:3",
            "unknown function 'intexer'; did you mean 'integer'?",
            id="a choice without the list that the shipped file has",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  multipleBirth[x]: PID-25\n",
            "4:3",
            "no single element; give one line such as deceasedBoolean: PID-30",
            id="a choice of a single path",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  maritalStatus: PID-16 | coded(marital-statis)\n",
            "4:3",
            "did you mean 'marital-status'?",
            id="a line in place of what the shipped file has",
        ),
        pytest.param(
            "resources__condition",
            LISTED + "segments:\n  DG1:\n    code: DG1-3 | codet\n",
            "5:5",
            "unknown",
            id="a line of a segment in place of the shipped one",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  birthDate: PID.7 | date\n",
            "4:3",
            "unknown data type 'PID'; did you mean PID-7?",
            id="a dot for a dash",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  birthDate: PID-7(0) | date\n",
            "4:3",
            "found 'PID-7(0)'",
            id="a repetition that is none",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  gender: PID-8 | code(administrative-sex\n",
            "4:3",
            "found 'code(administrative-sex'; expected a parenthesis at its end",
            id="an open parenthesis",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  birthDate: else PID-7 | date\n",
            "4:3",
            "nothing before 'else'; write PATH | else PATH",
            id="nothing before else",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  birthDate: PID-7 | Date\n",
            "4:3",
            "unknown data type 'Date'; did you mean 'date'?",
            id="a function in capitals",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  name: {each: PID-5}\n",
            "4:3",
            "nothing to make of each repetition; add as: XPN",
            id="an each of nothing",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  active: yes\n",
            "4:3",
            "found 'yes'; expected true or false for an element of type boolean",
            id="yes for true",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  name.family: PID-5.1\n",
            "4:3",
            "no element 'name.family'; name is a list; write name: {family: ...}",
            id="a part of a list",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  extension:\n    - {url: 'http://x', valueString: PID-3.1, valueCode: PID-8}\n",
            "5:47",
            "an extension has one value; give each its own url",
            id="two values",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  birthDate PID-7 | date\n",
            "3:1",
            "expected lines such as birthDate: PID-7 | date",
            id="no colon",
        ),
        pytest.param(
            "resources__patient",
            "resource: Patient\nextends: shipped/patientt\n",
            "2:1",
            "found 'shipped/patientt'; expected 'shipped/patient', a file that ships",
            id="a misspelt extends",
        ),
        pytest.param(
            "resources__patient",
            "resource: Patient\nextends: [shipped/patient]\n",
            "2:1",
            "found no name; expected 'shipped/patient', a file that ships",
            id="a list to extend",
        ),
        pytest.param(
            "resources__pat",
            "resource: Patient\nextends: shipped/patient\n",
            "2:1",
            "name the file patient.yaml, as the one that it extends",
            id="a file of another name",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  birthDate: PID-7 | date | when PID-30 == Y\n",
            "4:3",
            "expected PATH = value, 'several words' in quotes, and, or",
            id="two signs of equality",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  birthDate: PID-7 | date | when PID-16.1 = Married Man\n",
            "4:3",
            "expected PATH = value, 'several words' in quotes, and, or",
            id="several words without quotes",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  birthDate: PID-7 | date | when PID-30 = Y AND PID-29\n",
            "4:3",
            "expected PATH = value, 'several words' in quotes, and, or",
            id="and in capitals",
        ),
        pytest.param(
            "adt",
            EVENTS + "events: {A01: {do: [upsert Patient, upsert Encounter]}}\n",
            "3:16",
            "found 'upsert Patient'; did you mean 'upsert patient'?",
            id="a capital in do",
        ),
        pytest.param(
            "adt",
            EVENTS + "events: {A01: {do: [upsert patient, update patient]}}\n",
            "3:16",
            "say once what is done with the patient",
            id="two acts with the patient",
        ),
        pytest.param(
            "adt",
            EVENTS + "events: {A01: {do: [upsert encounter]}}\n",
            "3:16",
            "say what is done with the patient as well: [update patient, ...]",
            id="no act with the patient",
        ),
        pytest.param(
            "adt",
            EVENTS + "events: {A01: {do: [upsert patient, upsert encounter, cancel encounter]}}\n",
            "3:16",
            "encounter twice; say once what is done with the encounter",
            id="two acts with a resource",
        ),
        pytest.param(
            "adt",
            EVENTS + "events: {A40: {do: [merge patient, merge encounter]}}\n",
            "3:16",
            "such an event can do nothing else",
            id="an act beside a merge",
        ),
        pytest.param(
            "adt",
            EVENTS + "identity: {systems: [SS]}\n",
            "3:12",
            "found a list; expected a map",
            id="a list of systems",
        ),
        pytest.param(
            "adt",
            EVENTS + "identity: {systems: {SS: ssn}}\n",
            "3:22",
            "found 'ssn'; expected an absolute URI",
            id="a system that is no URI",
        ),
        pytest.param(
            "adt",
            EVENTS + "placeholder_people: {birth_dates: [01/01/1900]}\n",
            "3:22",
            "found '01/01/1900'; expected 1900-01-01",
            id="a date in another order",
        ),
        pytest.param(
            "adt",
            EVENTS + "events: {A13: {do: [update patient], clears: [period.end]}}\n",
            "3:38",
            "name the resource to clear it from, as in do: [update patient, update encounter]",
            id="nothing to clear",
        ),
        pytest.param(
            "resources__encounter",
            VISIT + "identity: {keys: [PV1-99]}\n",
            "3:19",
            "unknown field PV1-99; PV1 has the fields 1 to 54",
            id="a number from an unknown field",
        ),
        pytest.param(
            "tables__own",
            "table: own\nsource: x\nlicence: x\nsystem: local codes\ncodes: {A: b}\n",
            "4:1",
            "found 'local codes'; expected the code system's URI, such as urn:x",
            id="a code system that is no URI",
        ),
        pytest.param(
            "tables__yes-no",
            "table: yes-no\nextends: shipped/yes-no\ncodes: {J: 'true', J: 'false'}\n",
            "3:20",
            "duplicate key; it stands already in line 3",
            id="a duplicate code",
        ),
        pytest.param(
            "resources__condition",
            LISTED + "segments:\n  DG1:\n    list: snapshoot\n",
            "5:5",
            "found 'snapshoot'; expected snapshot or additive",
            id="a misspelt list",
        ),
        pytest.param(
            "resources__condition",
            LISTED + "segments:\n  DG1:\n    action: DG1\n",
            "5:5",
            "found 'DG1'",
            id="an action that is no path",
        ),
        pytest.param(
            "resources__patient",
            "resource: Patient\nextends: shipped/patient\nadd:\n  nam: [{each: PID-9, as: XPN}]\n",
            "4:3",
            "Patient has no element 'nam'; did you mean 'name'?",
            id="an addition to an unknown element",
        ),
        pytest.param(
            "resources__patient",
            "resource: Patient\nextends: shipped/patient\nadd:\n  birthDate: PID-7 | date\n",
            "4:3",
            "found a list; expected an expression such as PID-7 | date",
            id="an addition to a single value",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  birthDate: ZPI.3 | date\n",
            "4:3",
            "unknown data type 'ZPI'; did you mean ZPI-3?",
            id="a dot for a dash in a Z segment",
        ),
        pytest.param(
            "resources__patient",
            ELEMENTS + "  deceasedBoolean: PID-30 | boolean(yes-no)\n",
            "4:3",
            "deceasedBoolean beside deceased[x]; write it as a line of deceased[x]",
            id="an element beside its choice",
        ),
    ],
)
def test_each_is_told_once_where_it_stands(
    author: Callable[..., Path], name: str, text: str, place: str, told: str
) -> None:
    """One problem, at line and column of the author's own file, and nothing of the shipped ones."""
    with pytest.raises(ConfigurationError) as caught:
        load([author(**{name: text}), shipped("mappings")], "adt")
    (problem,) = map(str, caught.value.problems)
    assert f"{name.replace('__', '/')}.yaml:{place}: " in problem
    assert told in problem


def test_what_a_feed_assumes_is_checked(author: Callable[..., Path]) -> None:
    """`assume` names a coding system of the table, the last part of a URI, or a URI; anything else is told."""
    good = author(adt=EVENTS + "assume: {I10: icd-10-cm, i9: I9C, DX: 'urn:oid:1.2.3'}\n")
    load([good, shipped("mappings")], "adt")
    wrong = author(adt=EVENTS + "assume:\n  I10: icd-10-cmm\n")
    with pytest.raises(ConfigurationError) as caught:
        load([wrong, shipped("mappings")], "adt")
    assert "adt.yaml:4:" in str(caught.value)
    assert "found 'icd-10-cmm'; did you mean 'icd-10-cm'?" in str(caught.value)
