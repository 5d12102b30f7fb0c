"""What is read is kept by all that it depends on: a message that came later gets the answer that it gets alone."""

import pytest

from engine.config.settings import shipped
from engine.fhir.plan import Keep
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import Mapping, compile_mapping, load
from tests.mapping.conftest import AUTHORITIES, Author

PID = f"PID|1||RB-1^^^RVB^MR||QUINTERO^MARISOL||19840229|F{'|' * 21}20250702"  # PID-29
VISIT = f"PV1|1|I|3W^301^A^RVB||||1187^Osei^Ada{'|' * 12}V1^^^RVB^VN{'|' * 25}20250702"  # PV1-19, PV1-44
ALLERGY = "AL1|1|DA|70618^Penicillin^RXNORM"
EXTENSION = "  extension:\n    - {url: https://x.example/note, "
PATIENT = "resource: Patient\nextends: shipped/patient\nadd:\n"
ENCOUNTER = "resource: Encounter\nextends: shipped/encounter\n"
SITE = "mapping: adt\nextends: shipped/adt\nresources: [Patient, Encounter, AllergyIntolerance]\n"
PRACTITIONER = "resource: Practitioner\nextends: shipped/practitioner\nelements:\n  gender: "
CASES = (
    pytest.param(
        {"resources__patient": f"{PATIENT}{EXTENSION}valueCode: PID-29 | if-past(gone)}}\n"},
        {"day": "20250704"},
        id="an element, on the day of the event",
    ),
    pytest.param(
        {
            "resources__patient": f"{PATIENT}{EXTENSION}each: PID-29, as: TS}}\n",
            "datatypes__ts": "datatype: TS\nto: Extension\nelements:\n  url: https://x.example/y\n"
            "  valueCode: TS.1 | if-past(gone)\n",
        },
        {"day": "20250704"},
        id="a data type, on the day of the event",
    ),
    pytest.param(
        {"resources__patient": f"{PATIENT}{EXTENSION}valueUri: PID-8 | sender-system(sex)}}\n"},
        {"sender": "LAB"},
        id="an element, on the sender",
    ),
    pytest.param(
        {
            "resources__encounter": f"{ENCOUNTER}add:\n{EXTENSION}valueReference: PV1-3 | Location}}\n",
            "resources__location": "resource: Location\nextends: shipped/location\nelements:\n"
            "  description: \"'left' | when event = A03\"\n",
        },
        {"event": "A03"},
        id="a resource that is referred to, on the event",
    ),
    pytest.param(
        {"resources__practitioner": f"{PRACTITIONER}PID-8 | code(administrative-sex)\n"},
        {"sex": "M"},
        id="a resource that is referred to, on a field of the message",
    ),
    pytest.param(
        {"datatypes__xpn": "datatype: XPN\nextends: shipped/xpn\nelements:\n  text: PID-8\n"},
        {"sex": "M"},
        id="a data type, on a field of the message",
    ),
    pytest.param(
        {
            "resources__allergyintolerance": "resource: AllergyIntolerance\nextends: shipped/allergyintolerance\n"
            "segments:\n  AL1:\n    when: PV1-2 = I\n"
        },
        {"patient_class": "E"},
        id="a listed segment, on a field of another",
    ),
    pytest.param(
        {"resources__encounter": f"{ENCOUNTER}new:\n  class: PV1-2 | coding(encounter-class)\n"},
        {"patient_class": "E"},
        id="a new resource, on a field of the message",
    ),
    pytest.param(
        {"resources__encounter": f"{ENCOUNTER}new:\n  language: PV1-44 | if-past(gone)\n"},
        {"day": "20250704"},
        id="a new resource, on the day of the event",
    ),
)


def _message(
    *, event: str = "A08", day: str = "20250701", sender: str = "HIS", sex: str = "F", patient_class: str = "I"
) -> Message:
    header = f"MSH|^~\\&|{sender}|RVB|||20250701093000||ADT^{event}|M1|P|2.5.1"
    visit = VISIT.replace("|I|", f"|{patient_class}|", 1)
    return parse("\r".join((header, f"EVN||{day}092900", PID.replace("|F|", f"|{sex}|"), visit, ALLERGY)).encode())


def _compiled_twice(author: Author, files: dict[str, str]) -> list[Mapping]:
    """Return a site's mapping, and the same for which no message ever came."""
    source = load([author(adt=SITE, **files), shipped("mappings")], "adt")
    return [compile_mapping(source, channel_of({"authorities": AUTHORITIES})) for _ in range(2)]


@pytest.mark.parametrize(("files", "other"), CASES)
def test_what_was_read_before_answers_for_nothing_else(
    author: Author, files: dict[str, str], other: dict[str, str]
) -> None:
    """A message that differs in nothing but what the file asks for has a plan of its own, not the earlier one."""
    mapping, fresh = _compiled_twice(author, files)
    alone = fresh.plan(_message(**other))
    plans = [mapping.plan(_message()) for _ in range(3)]
    assert plans[0].interactions == plans[1].interactions == plans[2].interactions
    assert mapping.plan(_message(**other)).interactions == alone.interactions
    assert plans[0].interactions != alone.interactions


def test_what_a_new_resource_refers_to_is_in_every_plan(author: Author) -> None:
    """A resource to which only `new` refers comes with each message, not with the first one alone."""
    new = "new:\n  serviceProvider: PV1-3.4 | Organization\nelements:\n  serviceProvider:\n"
    mapping, _ = _compiled_twice(author, {"resources__encounter": ENCOUNTER + new})
    first, second = (mapping.plan(_message()) for _ in range(2))
    assert first.interactions == second.interactions
    assert any(isinstance(one, Keep) and one.record.type == "Organization" for one in second.interactions)
