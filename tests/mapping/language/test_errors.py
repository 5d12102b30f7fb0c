"""What an author reads when a mapping file is wrong: all problems at once, each with its place and what would do."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config.settings import shipped
from engine.errors import ConfigurationError
from engine.hl7.message import Message
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import compile_mapping, load
from engine.mapping.subject.subject import Disposition

Author = Callable[..., Path]
Make = Callable[..., Message]
PATIENT = "resource: Patient\nextends: shipped/patient\n"
HEAD = f"{PATIENT}elements:\n"
FAULT = "birthDate: PID-99 | date"


def _problems(folder: Path) -> list[str]:
    with pytest.raises(ConfigurationError) as caught:
        load([folder, shipped("mappings")], "adt")
    return [str(problem).removeprefix(str(folder) + "/") for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        pytest.param("birthDate: PID-99 | date", "unknown field PID-99; PID has the fields 1 to 40", id="field"),
        pytest.param("birthDate: PIX-7 | date", "unknown segment 'PIX'; did you mean", id="segment"),
        pytest.param("maritalStatus: PID-3.99 | concept(marital-status)", "unknown component 99", id="component"),
        pytest.param("birthDate: PID-5.2.2 | date", "PID-5.2 has no subcomponents", id="subcomponent"),
        pytest.param("birthDate: PID-5.1.9 | date", "unknown subcomponent 9; PID-5.1 has 5 subcomponents", id="small"),
        pytest.param("birthDate: PID-30.2 | date", "PID-30 is of type ID, which has no components", id="primitive"),
        pytest.param("birthDate: PID-3[XPN.5=MR].1 | date", "a choice by XPN.5; PID-3 is of type CX", id="choice type"),
        pytest.param("birthDate: PID-3[CX.55=MR].1 | date", "CX has 12 components", id="choice component"),
        pytest.param("birthDate: PID-7 | date | when event = A99", "unknown event 'A99'; did you mean 'A", id="event"),
        pytest.param("birthDate: PID-7 | date | unless PID-7", "it never has a value", id="never"),
        pytest.param("birthDate: PID-7 | date | when not PID-7", "it never has a value", id="never when"),
        pytest.param("name: PID-5", "use {each: PID-5, as: XPN} or PID-5 | XPN", id="type by data type"),
        pytest.param("extension: [{valueString: PID-3}]", "an extension without a url", id="url"),
        pytest.param("birthdate: PID-7 | date", "no element 'birthdate'; did you mean 'birthDate'?", id="element"),
        pytest.param("birthDate: PID-7 | dat", "unknown function 'dat'; did you mean 'date'?", id="function"),
        pytest.param("gender: PID-8 | code(sex)", "unknown table 'sex'", id="table"),
        pytest.param("gender: PID-8 | code(yes-no)", "table yes-no gives 'false'", id="binding"),
        pytest.param("gender: femal", "the code 'femal'; did you mean 'female'?", id="constant code"),
        pytest.param("birthDate: PID-7", "a string for an element of type date; use date", id="type"),
        pytest.param("gender: PID-8 | code", "code with 0 argument(s)", id="arguments"),
        pytest.param("gender: male | else PID-8 | code(administrative-sex)", "it is unreachable", id="unreachable"),
        pytest.param("birthDate: PID-7 | date | else PID-7 | date", "the same alternative twice", id="twice"),
        pytest.param("birthDate: PID7 | date", "expected a path such as PID-3.1", id="path"),
        pytest.param("birthDate: {first: PID-7}", "expected a list of expressions", id="first"),
        pytest.param("name: {each: PID-5, as: XAD}", "XAD makes Address; expected HumanName here", id="data type"),
        pytest.param("name: {each: PID-5, as: XPM}", "unknown data type 'XPM'; did you mean 'XPN'?", id="unknown type"),
        pytest.param("name: {each: PID-5.1, as: XPN}", "expected a field such as PID-5", id="each"),
        pytest.param("name: [{each: PID-5, as: XPN}, {each: PID-5, as: XPN}]", "PID-5 defined twice", id="slice"),
        pytest.param("birthDate: PID-7 | date | when PID-30 is Y", "expected PATH, PATH = value", id="condition"),
        pytest.param("name: {each: PID-5, as: XPN, when: XAD.1}", "here a XPN is at hand", id="foreign part"),
        pytest.param("birthDate: CX.1 | date", "CX has no repetition at hand", id="no repetition"),
        pytest.param("contact: {each: NK1, needs: [nam], name: NK1-2 | XPN}", "unknown element 'nam'", id="needs"),
        pytest.param("birthDate: PID-7 | date\n  birthDate: PID-7 | date", "duplicate key", id="duplicate"),
        pytest.param("deceased[x]: [PID-30]", "no single element", id="choice"),
    ],
)
def test_a_fault_is_told_with_its_place(author: Author, line: str, told: str) -> None:
    """Each fault names file, line, column and path, what was found and what would do."""
    problems = _problems(author(resources__patient=f"{HEAD}  {line}\n"))
    assert any(told in problem for problem in problems), problems
    assert all(problem.startswith(("resources/patient.yaml:4:", "resources/patient.yaml:5:")) for problem in problems)


def test_each_line_of_a_list_of_alternatives_has_its_own_place(author: Author) -> None:
    """A fault in a `first` list is told at its own line, and so are all others."""
    lines = "  birthDate:\n    first:\n      - PID-7 | date\n      - PID-99 | date\n      - PID7\n"
    problems = _problems(author(resources__patient=HEAD + lines))
    assert [problem.split(": ")[0] for problem in problems] == [
        "resources/patient.yaml:7:9",
        "resources/patient.yaml:8:9",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("events: {A01: {do: upsert pateint}}", "did you mean 'upsert patient'?", id="doing"),
        pytest.param("events: {A1: {do: upsert patient}}", "unknown event 'A1'", id="event"),
        pytest.param("events: {A01: {do: upsert patient, skip: x}}", "do and skip", id="two"),
        pytest.param("events: {A01: }", "no rule", id="nothing"),
        pytest.param("event: {}", "unknown key 'event'; did you mean 'events'?", id="key"),
        pytest.param("identity: {from: PID-5}", "expected PID-3, PID-2 or PID-4", id="identity"),
        pytest.param("identity: {prefer: [{type: MR}, {authority: RVB, type: MR}]}", "unreachable", id="prefer"),
        pytest.param("events: {A12: {do: [update patient, updat encounter]}}", "did you mean 'update'?", id="verb"),
        pytest.param("events: {A12: {do: [update patient, update visit]}}", "such as encounter", id="resource"),
        pytest.param(
            "events: {A12: {do: [update patient, update encounter], clears: [location(PV1-60)]}}",
            "events.A12.clears: found 'location(PV1-60)'; did you mean 'location(PV1-6)'?",
            id="clears",
        ),
        pytest.param("events: {A17: {do: update patient, each: PV1}}", "found 'PV1'; expected PID", id="each"),
        pytest.param("resources: [Encountr]", "did you mean 'Encounter'?", id="sent"),
        pytest.param(
            "events: {A01: {do: update patient, if_absent: maybe}}", "expected create, hold or ignore", id="policy"
        ),
    ],
)
def test_a_fault_in_the_event_table(author: Author, text: str, told: str) -> None:
    """The event table is checked like the rest."""
    name = "extends: shipped/adt\n" if "A01: }" not in text else ""
    problems = _problems(author(adt=f"mapping: adt\n{name}{text}\n"))
    assert any(told in problem and "adt.yaml:" in problem for problem in problems), problems


ENCOUNTER = """resource: Encounter
patient: subject
identity: {type: VN, keys: [PV1-19]}
elements:
  class: PV1-2 | coding(encounter-class)
"""


def _admitted(text: str) -> str:
    """Return the file of a visit that is known by a time."""
    known = ENCOUNTER.replace("keys: [PV1-19]", f"keys: [PV1-19], admitted: {text}")
    return known + "  period.start: PV1-44 | datetime\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(_admitted("PV1-44"), "expected a field to the minute: PV1-44 | utc-minute", id="admitted"),
        pytest.param(_admitted("PV1-19 | utc-minute"), "map it from PV1-19 as well", id="another-beginning"),
        pytest.param(_admitted("PV1-99 | utc-minute"), "PV1", id="unknown-field"),
        pytest.param(ENCOUNTER + "statuss: {}\n", "unknown key 'statuss'; did you mean 'status'?", id="key"),
        pytest.param(ENCOUNTER.replace("subject", "sujet"), "Encounter has no element 'sujet'", id="patient"),
        pytest.param(ENCOUNTER.replace("keys", "key"), "did you mean 'keys'?", id="identity"),
        pytest.param(ENCOUNTER.replace("PV1-19", "PV1"), "expected a field such as PV1-19", id="number"),
        pytest.param(ENCOUNTER + "status: {moves: [{to: \"'done'\"}]}\n", "the code 'done'", id="target"),
        pytest.param(ENCOUNTER + "status: {moves: [{only: [begun]}]}\n", "the code 'begun'", id="stored"),
        pytest.param(ENCOUNTER + "status: {moves: [{whn: PV1-2}]}\n", "did you mean 'when'?", id="line"),
        pytest.param(ENCOUNTER + "status: {}\n", "no list 'moves'", id="no-moves"),
        pytest.param(ENCOUNTER + "merge: {too: x}\n", "unknown key 'too'; did you mean 'to'?", id="merge"),
        pytest.param(ENCOUNTER + "missing: {flg: x}\n", "unknown key 'flg'; did you mean 'flag'?", id="missing"),
        pytest.param(ENCOUNTER + "new: {clas: {}}\n", "Encounter has no element 'clas'", id="new"),
        pytest.param(ENCOUNTER + "  period.stat: PV1-44 | datetime\n", "no element 'period.stat'", id="part"),
        pytest.param(ENCOUNTER + "  participant.type: PV1-7\n", "no element 'participant.type'", id="part-of-a-list"),
        pytest.param(ENCOUNTER + "  serviceProvider: PV1-39 | Organisation\n", "Organisation", id="resource"),
    ],
)
def test_a_fault_in_a_resource_file(author: Author, text: str, told: str) -> None:
    """The keys and the status table of a resource file are checked like its elements."""
    problems = _problems(author(resources__encounter=text))
    assert any(told in problem and "encounter.yaml:" in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        pytest.param(
            "resources__patient",
            HEAD + "  birthDate: PID-399 | date\n",
            "resources/patient.yaml:4:3: elements.birthDate: unknown field PID-399; PID has the fields 1 to 40",
            id="a misspelt field",
        ),
        pytest.param(
            "resources__patient",
            HEAD + "  birthDate: PID-7 | datetime\n",
            "resources/patient.yaml:4:3: elements.birthDate: a dateTime for an element of type date; use date",
            id="a wrong type",
        ),
        pytest.param(
            "resources__patient",
            HEAD + "\tbirthDate: PID-7 | date\n",
            "resources/patient.yaml:4:1: a tab, which cannot start anything; write valid YAML (indent with spaces)",
            id="a tab",
        ),
        pytest.param(
            "resources__patient",
            HEAD + "  gender:\n  gender:\n",
            "resources/patient.yaml:5:3: elements.gender: duplicate key; it stands already in line 4: keep one of them",
            id="a duplicate key",
        ),
        pytest.param(
            "tables__own",
            "table: own\nsource: x\nlicence: x\ncodes:\n  A: &a b\n  B: *a\n  C: *a\n",
            "tables/own.yaml:6:6: codes.B: an alias; write the value out; anchors and aliases are not allowed",
            id="aliases",
        ),
        pytest.param(
            "tables__administrative-sex",
            "table: administrative-sex\nextends: shipped/administrative-sex\ncodes: {NO: mael}\n",
            "tables/administrative-sex.yaml:3:9: codes.NO: the code 'mael'; did you mean 'male'?",
            id="a code for NO",
        ),
        pytest.param(
            "tables__administrative-sex",
            "table: administrative-sex\nextends: shipped/administrative-sex\nunmapped: {default: unknownn}\n",
            "tables/administrative-sex.yaml:3:12: unmapped.default: the code 'unknownn'; did you mean 'unknown'?",
            id="a default",
        ),
        pytest.param(
            "tables__administrative-sex",
            "table: administrative-sex\nextends: shipped/administrative-sex\nunmapped: keep-orginal\n",
            "tables/administrative-sex.yaml:3:1: unmapped: found 'keep-orginal'; "
            "expected ignore, keep-original, refuse or {default: CODE}",
            id="a policy",
        ),
        pytest.param(
            "resources__patient",
            HEAD + "  gender: PID-8 | code(administrativ-sex)\n",
            "resources/patient.yaml:4:3: elements.gender: unknown table 'administrativ-sex'; "
            "did you mean 'administrative-sex'?",
            id="an unknown table",
        ),
        pytest.param(
            "adt",
            "mapping: adt\nextends: adt\nevents: {A01: {do: upsert patient}}\n",
            "adt.yaml:2:1: extends: found 'adt', which is this file itself; expected 'shipped/adt', a file that ships",
            id="a circular extends",
        ),
        pytest.param(
            "datatypes__xpn",
            "datatype: XPN\nreplaces: shipped/xpn\nto: HumanName\nelements: {period.start: XPN | XPN}\n",
            "datatypes/xpn.yaml:4:12: elements.period.start: XPN refers to itself (XPN -> XPN); break the cycle",
            id="a circle of data types",
        ),
        pytest.param(
            "resources__patient",
            "resource: Pateint\nextends: shipped/patient\n",
            "resources/patient.yaml:1:1: resource: found 'Pateint'; expected 'Patient', as in shipped/patient",
            id="a misspelt resource",
        ),
        pytest.param(
            "resources__patient",
            "resource: Patient\nextends: shipped/patient\nelement: {}\n",
            "resources/patient.yaml:3:1: element: unknown key 'element'; did you mean 'elements'?",
            id="a misspelt section",
        ),
        pytest.param(
            "resources__patient",
            "resource: Patient\nextends: shipped/patient\nelements: [birthDate]\n",
            "resources/patient.yaml:3:1: elements: not a map; expected lines such as birthDate: PID-7 | date",
            id="a list for a map",
        ),
        pytest.param(
            "datatypes__xtn",
            "datatype: XTN\nextends: shipped/xtn\nneeds: value\n",
            "datatypes/xtn.yaml:3:1: needs: found 'value'; expected a list: needs: [...]",
            id="no list",
        ),
        pytest.param(
            "datatypes__xpn",
            "datatype: XPN\nextends: shipped/xpn\nto: HumanNam\n",
            "datatypes/xpn.yaml:3:1: to: unknown FHIR type 'HumanNam'; did you mean 'HumanName'?",
            id="an unknown type",
        ),
        pytest.param(
            "resource__patient",
            HEAD,
            "resource/patient.yaml:1:1: the folder 'resource'; did you mean 'resources'?",
            id="a misspelt folder",
        ),
    ],
)
def test_a_mistake_is_one_line(author: Author, name: str, text: str, told: str) -> None:
    """Each mistake is told once: where it stands, what was found, and the nearest right thing."""
    assert _problems(author(**{name: text})) == [told]


def test_a_file_that_ends_in_yml_is_told(author: Author) -> None:
    """A file that nobody would read is no silent one."""
    folder = author(resources__patient=HEAD + "  gender:\n")
    (folder / "resources" / "patient.yaml").rename(folder / "resources" / "patient.yml")
    assert _problems(folder) == ["resources/patient.yml:1:1: the extension '.yml'; name it .yaml"]


def test_codes_are_texts(author: Author, message: Make) -> None:
    """`NO`, `1` and `true` are the codes that they look like, never booleans or numbers."""
    text = "table: yes-no\nextends: shipped/yes-no\ncodes: {NO: 'false', 1: 'true', true: 'true'}\n"
    source = load([author(**{"tables__yes-no": text}), shipped("mappings")], "adt")
    codes = source.documents.tables["yes-no"].value["codes"]
    assert {"NO", "1", "true"} <= set(codes)


ENCOUNTER = "resource: Encounter\nextends: shipped/encounter\nstatus:\n  moves:\n"


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        pytest.param("    - {new: unknown}\n    - {when: event = A03, to: finished}\n", "6:7", id="after all"),
        pytest.param(
            "    - {when: event = A03, to: finished}\n    - {when: event = A03, to: cancelled}\n", "6:7", id="same"
        ),
    ],
)
def test_a_status_line_that_is_never_reached(author: Author, lines: str, place: str) -> None:
    """A line behind one that always matches first is reported with that line."""
    (told,) = _problems(author(resources__encounter=ENCOUNTER + lines))
    assert told.startswith(f"resources/encounter.yaml:{place}: status.moves.1: an unreachable line; line 5")


def test_a_status_line_that_may_pass_on_is_reached(author: Author) -> None:
    """A code that a table may lack passes on to the next line."""
    lines = "    - {when: event = A01, to: PV1-2 | code(encounter-status)}\n    - {when: event = A01, to: planned}\n"
    load([author(resources__encounter=ENCOUNTER + lines), shipped("mappings")], "adt")


def test_all_problems_are_told_at_once(author: Author) -> None:
    """Faults in several files come in one list, in order."""
    folder = author(
        resources__patient=f"{HEAD}  birthDate: PID-99 | date\n  gender: PID-8 | cod\n",
        tables__own="table: own\ncodes: {A: {cod: b}}\n",
    )
    problems = _problems(folder)
    assert len(problems) == 5
    assert problems == sorted(problems)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        pytest.param(
            "resources__patient",
            f"elements: {{{FAULT}}}\n",
            "1:1: no line 'resource: NAME'; write what it is, such as resource: Patient",
            id="no line that says what it is",
        ),
        pytest.param(
            "resources__patient",
            f"resource: Pateint\nelements: {{{FAULT}}}\n",
            "1:1: resource: unknown resource 'Pateint'; did you mean 'Patient'?",
            id="an unknown resource",
        ),
        pytest.param(
            "resources__patient",
            f"resource: Patient\nelements: {{{FAULT}}}\nelements: {{}}\n",
            "3:1: elements: duplicate key; it stands already in line 2: keep one of them",
            id="a key twice",
        ),
        pytest.param(
            "resources__patient",
            f"{PATIENT}elements: {{{FAULT}, language: &a en, gender: *a}}\n",
            "3:63: elements.gender: an alias; write the value out; anchors and aliases are not allowed",
            id="an alias",
        ),
    ],
)
def test_a_mistake_of_a_whole_file_hides_no_other(author: Author, name: str, text: str, told: str) -> None:
    """What is wrong further down in the file, and in other files, is told with it."""
    visit = "resource: Encounter\nextends: shipped/encounter\nelements: {lengthh: PV1-2}\n"
    problems = _problems(author(**{name: text}, resources__encounter=visit))
    assert any(f"resources/patient.yaml:{told}" == problem for problem in problems)
    assert any("PID-99" in problem for problem in problems)
    assert any("has no element 'lengthh'; did you mean 'length'?" in problem for problem in problems)
    assert len([problem for problem in problems if "neither extends nor replaces" not in problem]) == 3


def test_an_event_table_that_is_no_yaml_hides_no_other_file(author: Author) -> None:
    """The event table stops nothing: the resource files are checked without it."""
    problems = _problems(author(adt="mapping: adt\n\tevents:\n", resources__patient=f"{HEAD}  {FAULT}\n"))
    assert [problem.split(":")[0] for problem in problems] == ["adt.yaml", "resources/patient.yaml"]


def test_a_broken_event_table_of_its_own_hides_no_other_file(author: Author) -> None:
    """Neither does one that nothing ships for."""
    folder = author(own="mapping: own\n\tevents:\n", resources__patient=f"{HEAD}  {FAULT}\n")
    with pytest.raises(ConfigurationError) as caught:
        load([folder, shipped("mappings")], "own")
    assert [Path(problem.file).name for problem in caught.value.problems] == ["own.yaml", "patient.yaml"]


def test_an_unknown_mapping_names_the_nearest(author: Author) -> None:
    """A mapping that is not there says where it was looked for."""
    with pytest.raises(ConfigurationError, match="did you mean 'adt'"):
        load([author(), shipped("mappings")], "adts")


def test_a_site_extends_what_ships(author: Author, message: Make) -> None:
    """A site's file overrides single events, elements and codes; the rest goes on coming from the shipped one."""
    folder = author(
        adt="mapping: adt\nextends: shipped/adt\nevents:\n  A08: {skip: not-here}\n",
        resources__patient=f"{HEAD}  maritalStatus:\n",
        tables__religion="table: religion\nextends: shipped/religion\ncodes: {X: '1007'}\n",
    )
    source = load([folder, shipped("mappings")], "adt")
    assert source.hash != load([shipped("mappings")], "adt").hash
    patient = source.documents.resources["Patient"].value["elements"]
    assert patient["maritalStatus"] is None
    assert patient["birthDate"] == "PID-7 | date"
    assert source.documents.tables["religion"].value["codes"]["X"] == "1007"
    made = message("A08", "PID|1||1^^^RVB||A^B||19840229|F||||||||M|X")  # PID-16, PID-17
    mapping = compile_mapping(source, channel_of({}))
    assert (mapping.identify(made).rule, mapping.identify(made).action) == ("not-here", Disposition.FILTER)
    interaction = mapping.plan(message("A31", *(segment.text for segment in made.segments[2:]))).interactions[0]
    elements = {change.element for change in interaction.patient.changes}
    assert "extension" in elements
    assert "maritalStatus" not in elements


def test_a_site_overrides_one_line_of_what_a_segment_makes(author: Author) -> None:
    """Within `segments`, too, a file replaces single keys and elements; the others come from the shipped one."""
    text = (
        "resource: Condition\nextends: shipped/condition\nsegments: {DG1: {list: additive, elements: {asserter: }}}\n"
    )
    source = load([author(resources__condition=text), shipped("mappings")], "adt")
    below = load([shipped("mappings")], "adt").documents.resources["Condition"].value["segments"]["DG1"]
    made = source.documents.resources["Condition"].value["segments"]["DG1"]
    assert made == {**below, "list": "additive", "elements": {**below["elements"], "asserter": None}}


def test_constants_are_values_of_their_type(author: Author, message: Make) -> None:
    """`true` and `2` are no texts where FHIR has a boolean or a number."""
    text = f"{HEAD}  active: 'true'\n  multipleBirth[x]: [multipleBirthInteger: '2']\n"
    source = load([author(resources__patient=text), shipped("mappings")], "adt")
    made = outcome(compile_mapping(source, channel_of({})), message("A31", "PID|1||1^^^RVB||A^B"))
    patient = made["interactions"][0]["patient"]
    assert (patient["active"], patient["multipleBirthInteger"]) == (True, 2)


INTERPRETER = "http://hl7.org/fhir/StructureDefinition/patient-interpreterRequired"


def test_a_site_adds_to_lists(author: Author, message: Make) -> None:
    """An entry of `add` joins the list of its element; one of the same url or source takes the shipped one's place."""
    text = f"{PATIENT}add:\n  name:\n    - {{each: ZPI-4, as: XPN}}\n  extension:\n    - url: {INTERPRETER}\n"
    source = load(
        [author(resources__patient=f"{text}      valueBoolean: ZPI-2 | boolean(yes-no)\n"), shipped("mappings")], "adt"
    )
    below = load([shipped("mappings")], "adt").documents.resources["Patient"].value["elements"]
    elements = source.documents.resources["Patient"].value["elements"]
    assert len(elements["extension"]) == len(below["extension"])
    assert len(elements["name"]) == len(below["name"]) + 1
    made = outcome(compile_mapping(source, channel_of({})), message("A31", "PID|1||1^^^RVB||A^B", "ZPI|1|Y||ROE^ANN"))
    patient = made["interactions"][0]["patient"]
    assert patient["extension"] == [{"url": INTERPRETER, "valueBoolean": True}]
    assert [name["family"] for name in patient["name"]] == ["A", "ROE"]


def test_a_fault_in_what_is_added_is_told_where_it_stands(author: Author) -> None:
    """Lines of `add` have their own places; without a file to extend there is nothing to add to."""
    text = f"{PATIENT}add:\n  name:\n    - {{each: PID-55, as: XPN}}\n"
    told = "resources/patient.yaml:5:8: add.name.0.each: unknown field PID-55; PID has the fields 1 to 40"
    assert _problems(author(resources__patient=text)) == [told]
    alone = "resource: Organization\nfrom: XON\nidentity: {value: XON.10}\nelements: {name: XON.1}\nadd: {}\n"
    problems = _problems(author(resources__organization=alone))
    assert any("organization.yaml:5:1: add: unknown key 'add'" in problem for problem in problems)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        pytest.param(
            {"resources__patient": "resource: Patient\nelements: {birthDate: PID-7 | date}\n"},
            "resources/patient.yaml:1:1: resource: neither extends nor replaces: the shipped file of this name would "
            "be lost; write extends: shipped/patient to keep its entries, or replaces: shipped/patient to drop them",
            id="neither",
        ),
        pytest.param(
            {"adt": "mapping: adt\nevents: {A01: {do: upsert patient}}\n"},
            "adt.yaml:1:1: mapping: neither extends nor replaces: the shipped file of this name would be lost; write "
            "extends: shipped/adt to keep its entries, or replaces: shipped/adt to drop them",
            id="the event table",
        ),
        pytest.param(
            {"tables__religion": "table: religion\nreplaces: shipped/race\nsource: x\nlicence: x\ncodes: {A: b}\n"},
            "tables/religion.yaml:2:1: replaces: found 'shipped/race'; expected 'shipped/religion'",
            id="another file",
        ),
        pytest.param(
            {"resources__patient": "resource: Patient\nextends: shipped/patient\nreplaces: shipped/patient\n"},
            "resources/patient.yaml:3:1: replaces: replaces beside extends; leave one of the two out",
            id="both",
        ),
        pytest.param(
            {"tables__own": "table: own\nreplaces: shipped/own\nsource: x\nlicence: x\ncodes: {A: b}\n"},
            "tables/own.yaml:2:1: replaces: found 'shipped/own'; leave it out: no file ships under this name",
            id="nothing to replace",
        ),
    ],
)
def test_a_file_of_a_shipped_name_says_how_it_stands_to_that(author: Author, files: dict[str, str], told: str) -> None:
    """Without a word all that it does not say would be lost; `replaces` says that it is meant."""
    assert told in _problems(author(**files))


def test_a_file_that_replaces_the_shipped_one_is_all_there_is(author: Author) -> None:
    """Nothing of the shipped file holds."""
    text = "resource: Patient\nreplaces: shipped/patient\nelements: {birthDate: PID-7 | date}\n"
    found = load([author(resources__patient=text), shipped("mappings")], "adt")
    assert set(found.documents.resources["Patient"].value["elements"]) == {"birthDate"}


def test_a_table_that_stands_in_for_a_shipped_one_has_its_name(author: Author) -> None:
    """What uses it ships, and is sound: the mistake is told in the site's own file."""
    folder = author(tables__religion="table: faith\nreplaces: shipped/religion\nsource: x\nlicence: x\ncodes: {A: b}\n")
    told = "tables/religion.yaml:1:1: table: found 'faith'; expected 'religion', as the file that ships under this name"
    assert _problems(folder) == [told]


@pytest.mark.parametrize(
    ("files", "told"),
    [
        pytest.param(
            {"resources__practitioner": "resource: Practitioner\nextends: shipped/practitioner\nfrom: XON\n"},
            "resources/practitioner.yaml:2:1: identity.value: a path into XCN (line ",
            id="a line of the file that it extends",
        ),
        pytest.param(
            {"datatypes__xpn": "datatype: XPN\nto: Address\nelements: {city: XPN.1}\n"},
            "datatypes/xpn.yaml:1:1: XPN makes Address (line ",
            id="a line of another file",
        ),
        pytest.param(
            {"resources__encounter": "resource: Encounter\nextends: shipped/encounter\nelements: {location: }\n"},
            "resources/encounter.yaml:3:1: elements: no 'location(PV1-6)', which A12 clears (line ",
            id="what an event clears",
        ),
        pytest.param(
            {"tables__administrative-sex": "table: administrative-sex\nsource: x\nlicence: x\ncodes: {F: w}\n"},
            "tables/administrative-sex.yaml:4:9: codes.F: the code 'w'; expected one of",
            id="the codes of a table",
        ),
    ],
)
def test_what_ships_is_sound(author: Author, files: dict[str, str], told: str) -> None:
    """Where a site's file makes a line of a shipped one wrong, its own file is named, and that line beside it."""
    problems = _problems(author(**files))
    assert any(problem.startswith(told) for problem in problems), problems
    assert all(problem.startswith(told.partition(":")[0]) for problem in problems), problems


def test_nothing_to_go_through_is_told(author: Author) -> None:
    """An empty list of fields is a mistake like others."""
    problems = _problems(author(resources__patient=f"{HEAD}  telecom: {{each: [], as: XTN}}\n"))
    assert any("telecom.each: nothing to go through; name a field" in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        pytest.param(
            "resources__encounter",
            "resource: Encounter\nextends: shipped/encounter\n"
            "status:\n  trail: {list: location, here: PV1-3, prior: PV1-6, arrives: PID5}\n  moves: [{new: planned}]\n",
            "resources/encounter.yaml:4:54: status.trail.arrives: found 'PID5'; "
            "expected a path such as PID-30, or event",
            id="a moment of a trail",
        ),
        pytest.param(
            "adt",
            "mapping: adt\nextends: shipped/adt\nresources: [Basic]\n"
            "events: {A01: {do: [upsert patient, upsert basic]}}\n",
            "adt.yaml:4:16: events.A01.do: upsert basic; write resources/basic.yaml, or take it out",
            id="a type without a file",
        ),
    ],
)
def test_a_mistake_ends_in_no_other_error(author: Author, file: str, text: str, told: str) -> None:
    """What is made of the files is not tried with what is missing in them."""
    assert told in _problems(author(**{file: text}))


def test_the_hash_knows_the_channel() -> None:
    """Authorities and zone are part of what a message was mapped by."""
    mapping = load([shipped("mappings")], "adt")
    marks = {
        compile_mapping(mapping, channel_of(channel)).hash
        for channel in ({}, {"timezone": "Europe/Berlin"}, {"authorities": {"A": "urn:a"}}, {})
    }
    assert len(marks) == 3
