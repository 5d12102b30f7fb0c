"""Broken files of a mapping, one for each error that no other test provokes: elements, events, lists, tables, cases."""

from typing import Final

Files = dict[str, str]
PATIENT: Final = "resource: Patient\nextends: shipped/patient\nelements:\n"
ADT: Final = "mapping: adt\nextends: shipped/adt\n"


def file_of(name: str, text: str) -> Files:
    """Return one file by its path, `resources__patient` for short."""
    return {f"{name.replace('__', '/')}.yaml": text}


PATIENT_FILE: Final = "resource: Patient\nextends: shipped/patient\n"
VISIT: Final = "resource: Encounter\nextends: shipped/encounter\n"
LISTED: Final = "resource: Condition\nextends: shipped/condition\n"
NAMED: Final = "resource: Practitioner\nextends: shipped/practitioner\n"


def _extensions(*expressions: str) -> str:
    """Return a Patient's file with an extension for each expression, one a line."""
    lines = [f"    - {{url: 'urn:{number}', valueString: \"{one}\"}}\n" for number, one in enumerate(expressions)]
    return f"{PATIENT_FILE}add:\n  extension:\n{''.join(lines)}"


OWN: Final[dict[str, Files]] = {
    "expressions": file_of(
        "resources__patient",
        _extensions(
            "PID-5." + "1" * 1000,
            "PID-5.1 | when " + "PID-5.1 " * 200,
            "PID-5.1 | !",
            "PID-5.1 | when pid-5 = x",
            "PID-3.1 | upper | person-name",
            "PID-5.1 | when event = Q99",
            "PID-3.1 | age(1)",
            "PID-3.1 | replace(a)",
            "PID-3.1 | texts(a b c d)",
            "PID-3.1 | strip",
            "XYZ.1",
            "PID-5.1 | minutes-after(5)",
            "PID-5.1 | qqqq",
            "PID-5.1 | code(qqqqqqqq)",
        ),
    ),
    "templates": file_of(
        "resources__patient",
        PATIENT
        + "  name: {each: PID-5, when: PID5, family: XPN.99, given: XPN.1.9}\n"
        + "  birthDate: {first: [PID-7 | date, PID7]}\n"
        + "  gender: {code: male}\n"
        + "  telecom: {each: [], as: XTN}\n"
        + "  contact: [{each: NK1, qqqqqqq: x, needs: [qqqqqqq], name: {zzzz: x}}]\n"
        + "  link: [{other: {reference: \"'#'\"}}, {other: {reference: \"'#~Encounter'\"}, type: refer}]\n"
        + "  managingOrganization: {reference: PID-3.1}\n"
        + "  address: [{city: leipzig}]\n"
        + "  communication: {language: PID-15 | coded(qqqqqqq)}\n"
        + "  active: PID-1 | date\n"
        + "  photo: [PID-9]\n",
    ),
    "data types": {
        "datatypes/xyz.yaml": "datatype: XYZ\nto: Qqqqqqqqq\nelements: {value: XYZ.1}\n",
        "datatypes/xad.yaml": "datatype: XAD\nextends: shipped/xad\nelements: [city]\nqqqqqqq: 1\n",
        "datatypes/xtn.yaml": "datatype: XTN\nextends: shipped/xtn\nalso: {a: b}\nneeds: [qqqqqqqq]\n",
    },
    "a type of numbers that is none": file_of("resources__patient", PATIENT + "  name: {each: PID-5, as: QQQ}\n"),
    "tables": {
        "tables/own.yaml": "table: own\nsource: x\nlicence: x\ncodes: {A: {cod: b, system: a b}}\n",
        "tables/administrative-sex.yaml": (
            "table: administrative-sex\nextends: shipped/administrative-sex\ncodes: {F: qqqqqqq, X: male}\n"
        ),
    },
    "a table of other codes alone": file_of("resources__encounter", VISIT + "  \nelements: {language: PV1-2}\n")
    | file_of("resources__patient", PATIENT + "  contact: {each: NK1, gender: NK1-15 | code(encounter-status)}\n"),
    "the event file": file_of(
        "adt",
        "mapping: adt\n"
        "qqqqqqq: 1\n"
        "assume: {I10: qqqqqqq}\n"
        "historic: {field: ZBE-5, qqqqqqq: 1}\n"
        "placeholder_people: {qqqqqqq: 1}\n"
        "identity:\n"
        "  from: [PID-3, PID-3]\n"
        "  qqqqqqq: 1\n"
        "  prefer: [MR, {kind: MR}]\n"
        "resources: [Patient, Qqqqqqqq]\n"
        "filters:\n"
        "  - {rule: a, when: PID-8, do: filter, qqqqqqq: 1}\n"
        "  - {rule: b, when: PID-8 = M, do: filter, send_to: [wards]}\n"
        "  - {rule: c, when: PID-8 = F and PID-8 = M, do: filter}\n"
        f"  - {{rule: d, when: '{'PID-8 and ' * 120}PID-7', do: filter}}\n"
        "events:\n"
        "  A01: {do: [upsert patient, upsert account], reactivate: maybe, if_absent: qqqqqqq, qqqqqqq: 1}\n"
        "  A02: {do: [qqqqqqqq patient]}\n"
        "  A03: {do: [upsert patient, upsert encounter], clears: [qqqqqqqqq]}\n"
        "  A04: {do: [upsert Patient, upsert encounter]}\n"
        "  A05: {do: [upsrt patientt, upsert encounter]}\n"
        "  A06: {do: [upsert patient, qqqqqqqq encounter]}\n"
        "  A07: {do: []}\n",
    ),
    "an event of what has no file": file_of(
        "adt", f"{ADT}resources: [Account]\nevents: {{A01: {{do: [upsert patient, upsert account]}}}}\n"
    ),
    "no events": file_of("adt", "mapping: adt\nevents: {}\n"),
    "too many filters": file_of("adt", f"{ADT}filters: [{', '.join(['PID-5'] * 51)}]\n"),
    "a visit": file_of(
        "resources__encounter",
        VISIT
        + "along: maybe\n"
        + "visit: qqqqqqq\n"
        + "merge: {part: qqqqqqq, to: x}\n"
        + "missing: {flag: no-visit, unless: PID5}\n"
        + "status:\n"
        + "  qqqqqqq: 1\n"
        + "  ended: [qqqqqqq]\n"
        + "  trail: {list: location}\n"
        + "  moves: [x, {to: \"'finished'\", when: event = A03}, {when: event = A03, qqqqqqq: 1}]\n"
        + "elements:\n"
        + "  qqqqqqq: PV1-2\n"
        + "  classHistory: [{class: {code: \"'AMB'\"}}]\n"
        + "  diagnosis: {condition: {reference: \"'#~Qqqqqq'\"}}\n",
    ),
    "the trail of a visit": file_of(
        "resources__encounter",
        VISIT
        + "identity: {keys: [PV1-19, 3], number: {qqqqqqq: x}}\n"
        + "status:\n"
        + "  trail: {list: class, here: PV1-3, prior: PV1-6, qqqqqqq: 1, arrives: PID5}\n"
        + "  moves: []\n",
    ),
    "a status of no element": file_of("resources__encounter", VISIT + "status: {element: qqqqqqq, moves: []}\n"),
    "a visit without a number": file_of("resources__encounter", VISIT + "identity: \nelements: \n"),
    "an account": file_of(
        "resources__account",
        "resource: Account\nidentity: {type: AN, keys: [PID-18], admitted: PV1-44 | utc-minute}\n"
        "patient: qqqqqqq\nelements: {status: active, 'qqqqqqq[x]': [{a: b}]}\n",
    ),
    "whose an appointment is": {
        "resources/appointment.yaml": (
            "resource: Appointment\npatient: qqqqqqq.actor\nidentity: {type: VN, keys: [PV1-19]}\nelements: {}\n"
        ),
        "resources/encounter.yaml": VISIT + "patient: participant.qqqqqqq\n",
    },
    "types that are none": {
        "resources/qqqqqqq.yaml": "resource: Qqqqqqq\npatient: subject\nidentity: {keys: [PV1-19]}\nelements: {}\n",
        "resources/wwwwwww.yaml": "resource: Wwwwwww\ntarget: target\nkey: [MSH-10]\n",
        "resources/flag.yaml": "resource: Flag\nsegments: none\n",
    },
    "lists": file_of(
        "resources__condition",
        LISTED
        + "grows: [qqqqqqq]\nneeds: [qqqqqqq]\nqqqqqqq: 1\nretired: {qqqqqqq: x}\n"
        + "segments:\n"
        + "  QQQ: {key: [DG1-3]}\n"
        + "  PV1: [x]\n"
        + "  DG1:\n"
        + "    visit: qqqqqqq\n"
        + "    qqqqqqq: 1\n",
    ),
    "lists of a sender": file_of(
        "resources__observation",
        "resource: Observation\nextends: shipped/observation\nwithin: sender\nlist: snapshot\n"
        "grows: [qqqqqqq]\nstays: [qqqqqqq]\n"
        "segments:\n"
        "  OBX: {key: [OBX-3.1], visit: diagnosis, elements: {code: OBX-3 | coded, status: \"'final'\"}}\n"
        "  OBR: {like: QQQ}\n",
    ),
    "a list of a patient that grows": file_of(
        "resources__allergyintolerance",
        "resource: AllergyIntolerance\nextends: shipped/allergyintolerance\ngrows: [category]\n",
    ),
    "a list of nothing": file_of("resources__condition", "resource: Condition\npatient: subject\nsegments: \n"),
    "what a repetition stands for": file_of(
        "resources__practitioner",
        NAMED
        + "from: QQQ\npart: qqqqqqq\nqqqqqqq: 1\n"
        + "identity: {authority: [[XCN.9, XCN.10]], qqqqqqq: 1}\n"
        + "also: [{qqqqqqq: x}]\n"
        + "kinds: {payor: {from: XCN}, Organization: {from: XCN}, Nurse: {from: XCN, qqqqqqq: 1}}\n",
    ),
    "what is only found": file_of(
        "resources__servicerequest",
        "resource: ServiceRequest\nfrom: EI\nfind: no-order\nidentity: {value: EI.1}\nelements: {status: active}\n",
    ),
    "what every message leaves": file_of(
        "resources__provenance",
        "resource: Provenance\nextends: shipped/provenance\ntarget: qqqqqqq\nkey: []\nneeds: [qqqqqqq]\nqqqqqqq: 1\n",
    ),
    "parts of lists": file_of(
        "resources__patient",
        PATIENT + "  contact: [{relationship: {text: friend}}]\n  qqqqqqq[x]: [x]\n  deceased[x]: [qqqqqqq: PID-30]\n"
        "  telecom: [{each: PID-13, as: XTN}, {each: PID-13, as: XTN}]\n",
    ),
    "a table by another name": file_of("tables__religion", "table: faith\nsource: x\nlicence: x\ncodes: {A: b}\n"),
    "what ships is wrong by it": {
        "resources/practitioner.yaml": NAMED + "from: XON\n",
        "resources/location.yaml": "resource: Location\nidentity: {keys: [PV1-3]}\nelements: {status: active}\n",
        "datatypes/xpn.yaml": "datatype: XPN\nto: Address\nelements: {city: XPN.1}\n",
        "tables/administrative-sex.yaml": "table: administrative-sex\nsource: x\nlicence: x\ncodes: {F: w, M: m}\n",
    },
    "constants that are none": file_of(
        "resources__patient",
        PATIENT + "  birthDate: tomorrow\n  telecom: [{rank: first, period.start: today, value: PID-13.1}]\n"
        "  communication: {each: PID-15}\n",
    ),
    "numbers of a field": file_of("adt", f"{ADT}identity: {{from: [PID-3, {{field: PID-19, type: 1}}]}}\n"),
    "forms of numbers": file_of(
        "adt",
        f"{ADT}identity:\n  normalise:\n    RVB^MR: {{pad: 8}}\n    A: strip\n"
        "    B: {zeros: strip, remove: 'x', case: y}\n    C: {leading_zeros: y, pad: 99, keep_original: perhaps}\n",
    ),
    "numbers of a system": file_of(
        "adt", f"{ADT}identity: {{from: [PID-3, {{field: ZID-3, type: PI, system: a b}}]}}\n"
    ),
    "of no patient": file_of(
        "resources__organization",
        "resource: Organization\npatient: partOf\nidentity: {type: XX, keys: [PV1-19]}\nelements: {name: PV1-3.4}\n",
    ),
    "a part of a text": file_of("resources__patient", PATIENT + "  contact: [{each: NK1, gender.code: NK1-15}]\n"),
    "a number that is searched otherwise": file_of(
        "datatypes__cx", "datatype: CX\nextends: shipped/cx\nelements: {value: CX.1 | upper}\n"
    ),
    "in place of what ships": file_of("resources__patient", PATIENT_FILE + "replaces: shipped/patient\nelements: {}\n")
    | file_of("tables__own", "table: own\nreplaces: shipped/own\nsource: x\nlicence: x\ncodes: {A: {code: '...'}}\n"),
    "another file's name": {
        "adt.yml": "mapping: adt\n",
        "tablse/own.yaml": "table: own\n",
        "datatypes/qqqqqqq.yaml": "datatype: QQQQQQQ\nextends: shipped/qqqqqqq\n",
    },
    "no such pack": file_of("adt", "mapping: adt\nextends: packs/qqqqqqq\n"),
    "a Patient's keys": file_of("resources__patient", PATIENT_FILE + "qqqqqqq: 1\nelements: text\nmerged: [a]\n"),
    "no YAML": file_of("resources__patient", "resource: Patient\nelements: [\n")
    | file_of("tables__own", "table: own\ncodes: !!set {A: b}\n? [a]\n: b\n"),
}


PATIENTS_NAME: Final = "ZWIEBELFISCH"
CASE: Final = f"{{message: 'PID|1||1||{PATIENTS_NAME}', expect: {{rule: admit}}"
CASES: Final = {
    "cases": f"""tests:
  - {CASE}, qqqqqqq: 1}}
  - {{message: 'PID 1 {PATIENTS_NAME}', expect: {{rule: admit}}, event: q}}
  - {CASE}, channel: {{qqqqqqq: 1}}}}
  - {CASE}, channel: {{unknown_authority: qqqqqqq, timezone: [x], allow_merge: maybe, authorities: {{RVB: x}}}}}}
  - {CASE}, channel: {{base_uri: {{a: b}}}}, assume: [x]}}
  - {{file: qqqqqqq.hl7, expect: {{qqqqqqq: 1}}}}
""",
    "a case of no type": f"tests:\n  - {CASE}, resources: [Qqqqqqqq]}}\n",
    "a case of no channel": f"tests:\n  - {CASE}, channel: qqqqqqq}}\n",
}
COSTLY: Final = {
    "a line within a line": PATIENT_FILE
    + "add:\n  contact:\n    - {each: NK1, name: {each: PID-5, as: XPN}, telecom: {each: AL1, value: AL1-3}}\n",
    "a file of many lines": PATIENT_FILE
    + "add:\n  contact:\n    - each: NK1\n      name: {each: NK1-2, as: XPN}\n      telecom:\n"
    + "        - {each: NK1-5, value: XTN.1}\n" * 250,
}
MANY: Final = ("A08", "A18", "A28", "A29", "A31", "A47")
OPEN: Final = file_of(
    "resources__patient",
    f"{PATIENT_FILE}# decide: which fields\nadd:\n  extension:\n    - url: urn:decide:extension:ZPI-2\n"
    "      valueString: ZPI-2\n",
)
NEGATIVE: Final = {
    "a filter of many events": file_of(
        "adt",
        f"{ADT}events: {{{', '.join(f'{one}: {{do: update patient}}' for one in MANY)}}}\n"
        "filters: [{rule: a, when: PV1-2 != I, do: filter}]\n",
    ),
    "filters that may be misread": file_of(
        "adt",
        f"{ADT}filters:\n  - {{rule: a, when: PV1-2 != I, do: filter}}\n"
        "  - {rule: b, when: event = A12 and not PV1-3 = I, do: filter}\n",
    ),
    "an element that may be misread": file_of(
        "resources__patient", PATIENT + "  gender: PID-8 | code(administrative-sex) | when PID-7 != M\n"
    ),
}
EMPTY: Final = {"adt.yaml": "mapping: adt\nevents: {A01: {do: upsert patient}}\n"}
