"""What broken files extend here: the shipped mapping in small, so that some hundreds of them are read in seconds."""

from pathlib import Path
from typing import Final

FILES: Final = {
    "adt.yaml": """mapping: adt
identity: {from: [PID-3], untyped: MR, not_identity: [SS, DL]}
resources: [Patient, Encounter]
events:
  A01: {rule: admit, do: [upsert patient, upsert encounter]}
  A12: {rule: cancel-transfer, do: [update patient, cancel encounter], if_absent: ignore, clears: [location(PV1-6)]}
  A40: {rule: merge, do: merge patient}
others: unknown-event
""",
    "resources/patient.yaml": """resource: Patient
elements:
  birthDate: PID-7 | date
  gender: PID-8 | code(administrative-sex)
  name: {each: PID-5, as: XPN}
  maritalStatus: PID-16 | coded(marital-status)
  deceased[x]: [deceasedBoolean: PID-30 | boolean(yes-no)]
  multipleBirth[x]: [multipleBirthInteger: PID-25 | integer]
merged:
  identifier: {each: MRG-1, as: CX}
""",
    "resources/encounter.yaml": """resource: Encounter
patient: subject
identity: {type: VN, keys: [PV1-19]}
status:
  moves: [{when: event = A03, to: "'finished'"}, {new: "'unknown'"}]
elements:
  class: PV1-2 | coding(encounter-class)
  period.start: PV1-44 | datetime
  location: [{each: PV1-3, location: PL | Location}, {each: PV1-6, location: PL | Location}]
  participant: {each: PV1-7, individual: XCN | Practitioner}
new:
  class: {code: "'AMB'"}
""",
    "resources/allergyintolerance.yaml": """resource: AllergyIntolerance
patient: patient
list: snapshot
retired: {note: }
segments:
  AL1: {key: [AL1-3.1], elements: {code: AL1-3 | coded}}
""",
    "resources/condition.yaml": """resource: Condition
patient: subject
retired: {note: }
segments:
  DG1: {list: snapshot, key: [DG1-3.1], elements: {code: DG1-3 | coded}}
""",
    "resources/observation.yaml": """resource: Observation
within: patient
patient: subject
list: additive
retired: {status: "'entered-in-error'"}
segments:
  OBX: {key: [OBX-3.1], elements: {code: OBX-3 | coded, status: "'final'"}}
""",
    "resources/practitioner.yaml": """resource: Practitioner
from: XCN
identity: {value: XCN.1, authority: XCN.9, display: XCN | person-name}
elements: {name: {family: XCN.2}}
kinds:
  Interpreter: {from: NDL, identity: {value: NDL.1.1, authority: [[NDL.1.9, NDL.1.10, NDL.1.11]]}}
""",
    "resources/location.yaml": """resource: Location
from: PL
part: partOf
levels: [{identity: {value: [PL.1, PL.2], authority: PL.4}}, {identity: {value: PL.1, authority: PL.4}}]
""",
    "resources/provenance.yaml": """resource: Provenance
target: target
key: [MSH-10]
elements: {recorded: MSH-7 | instant, agent: {who: {display: MSH-4}}}
""",
    "datatypes/cx.yaml": "datatype: CX\nto: Identifier\nelements: {value: CX.1, system: CX | identifier-system}\n",
    "datatypes/xpn.yaml": "datatype: XPN\nto: HumanName\nelements: {family: XPN.1, given: [XPN.2, XPN.3]}\n",
    "datatypes/xad.yaml": "datatype: XAD\nto: Address\nelements: {city: XAD.3}\n",
    "datatypes/xtn.yaml": "datatype: XTN\nto: ContactPoint\nneeds: [value]\nelements: {value: XTN | phone-number}\n",
}
TABLES: Final = {
    "administrative-sex": "{F: female, M: male}",
    "coding-system": "{I10C: http://hl7.org/fhir/sid/icd-10-cm, I10: http://hl7.org/fhir/sid/icd-10}",
    "encounter-class": "{I: {code: IMP, system: 'urn:x'}}",
    "encounter-status": "{I: in-progress}",
    "identifier-type": "{VN: {code: VN, display: Visit number}}",
    "marital-status": "{M: {code: M, system: 'urn:x'}}",
    "religion": "{A: '1001'}",
    "yes-no": "{Y: 'true', N: 'false'}",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write files by their paths into a folder, and return it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8", "surrogateescape")
    return folder


def write_shipped(folder: Path) -> Path:
    """Write the small mapping into a folder, and return it."""
    tables = {f"tables/{name}.yaml": _table(name, codes) for name, codes in TABLES.items()}
    return write(folder, {**FILES, **tables})


def _table(name: str, codes: str) -> str:
    return f"table: {name}\nsource: HL7\nlicence: CC0\ncodes: {codes}\n"
