"""Orders as HL7 messages: what is told, where it stands, and that every text comes back as it was written."""

import re
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import hl7
import pytest
from hl7apy.consts import VALIDATION_LEVEL
from hl7apy.parser import parse_message
from hypothesis import example, given
from hypothesis import strategies as st

from engine.config.laboratory import LaboratoryConnector
from engine.hl7.message import Message, parse
from engine.interchange.orders.laboratory.message.build import Envelope, write_order
from engine.interchange.orders.laboratory.message.datatypes import UnwritableError, leaf, moment
from engine.interchange.orders.laboratory.order import LaboratoryOrder, QuestionAnswer, answers_in
from tests.interchange.kit import MRN
from tests.interchange.laboratory.orders import AT, TEXTS, Resource, kept, ordered, read

CONTROL = re.compile(r"[\x01-\x08\x0b\x0c\x0e-\x1f]")
ENVELOPE = Envelope("C0001", AT, "T")
LINE: dict[str, Any] = {"type": "hl7", "host": "127.0.0.1", "port": 1, "authorities": {MRN: "RVB"}}
DOCTOR = "1659999990^Osei^Ama^^^^^^NPI&2.16.840.1.113883.4.6&ISO^L^^^NPI"
WHEN = "20260102081500.500+0000"
WHY = "E78.5^Raised cholesterol^I10"
AT_HOME = "12 Mill Lane^^Riverbend^OR^97000^^H"
WHOLE = (
    "MSH|^~\\&|CDIS|riverbend|||20260102030405+0000||OML^O21^OML_O21|C0001|T|2.5.1||||||UNICODE UTF-8",
    "PID|1||MRN-7^^^RVB^MR~88^^^&1.2.3&ISO^MR||Quintero^Marisol^^^^^L||19840229|F|||{at}||+1 555 0100^PRN^PH",
    "IN1|1||K1|Keystone Mutual||||G1||||||||Quintero^Marisol^^^^^L|SEL|19840229|{at}|||||||||||||||||M-1",
    "GT1|1||Payer^^^^^^L||||||M",
    "ORC|NW|o1-LI^CDIS||o1^CDIS|||||20260102030000+0100|||{doctor}|||||||||Riverbend Clinic",
    "TQ1|1||||||||S",
    "OBR|1|o1-LI^CDIS||LI^Lipid panel^L^57698-3^^LN|S|20260103|{when}|||||||||{doctor}|||||||||||||||{why}",
    "NTE|1|P|Fragile veins",
    "DG1|1|I10|{why}|Raised cholesterol||W",
    "OBX|1|CE|F1^Fasting^L||Y^Yes^HL70136||||||O",
    "OBX|2|ST|since^Since when?^L||Since Tuesday||||||O",
    "OBX|3|NM|dose^^L||5|mg^mg^L|||||O",
    "OBX|4|DT|days^^L|1|20260101||||||O",
    "OBX|5|DT|days^^L|2|20260102||||||O",
    "SPM|1|S-1&CDIS||119364003^Serum^SCT|||||||||||||{when}",
    "ORC|NW|o1-GL^CDIS||o1^CDIS|||||20260102030000+0100|||{doctor}|||||||||Riverbend Clinic",
    "TQ1|1||||||||R",
    "OBR|2|o1-GL^CDIS||GL^Glucose^L|R|||||||||||{doctor}",
)
# Where each text of the tests' order stands: segment and its number among those of the name, field, component, and what
# cuts a component where the text is a part of one.
PLACES = {
    "family": ("PID", 0, 5, 1),
    "given": ("PID", 0, 5, 2),
    "line": ("PID", 0, 11, 1),
    "city": ("PID", 0, 11, 3),
    "phone": ("PID", 0, 13, 1),
    "mrn": ("PID", 0, 3, 1),
    "title": ("OBR", 0, 4, 2),
    "note": ("NTE", 0, 3, 1),
    "answer": ("OBX", 1, 5, 1),
    "reason": ("DG1", 0, 4, 1),
    "doctor": ("ORC", 0, 12, 2),
    "insurer": ("IN1", 0, 4, 1),
    "member": ("IN1", 0, 36, 1),
    "specimen": ("SPM", 0, 2, 1),
    "facility": ("ORC", 0, 21, 1),
}
# What FHIR lets a string be; surrogates are no characters, and what is in no message has been refused at the door.
TYPED = st.text(st.characters(codec="utf-8", exclude_characters="\x00\ufffe\uffff"), min_size=1, max_size=40)


def order_of(folder: Path, resources: list[Resource]) -> LaboratoryOrder:
    """Return an order as it is read out of a store."""
    with kept(folder, resources) as store:
        return read(store)


def written(order: LaboratoryOrder, **settings: Any) -> bytes:
    """Return its message."""
    return write_order(order, LaboratoryConnector(**{**LINE, **settings}), ENVELOPE)


def parsed(order: LaboratoryOrder, **settings: Any) -> Message:
    """Return its message as the engine reads it."""
    return parse(written(order, **settings))


def lines(message: Message, name: str) -> list[str]:
    """Return the segments of a name as they stand there."""
    return [one.text for one in message.named(name)]


@pytest.fixture
def order(tmp_path: Path) -> LaboratoryOrder:
    """The order of the tests."""
    return order_of(tmp_path, ordered())


def test_a_whole_message(order: LaboratoryOrder) -> None:
    """An OML^O21 of two tests: everything that a laboratory is told, each thing at its place."""
    told = written(order).decode().split("\r")
    assert told.pop() == ""
    assert told == [line.format(doctor=DOCTOR, at=AT_HOME, when=WHEN, why=WHY) for line in WHOLE]


@pytest.mark.parametrize("version", ["2.5", "2.5.1"])
@pytest.mark.parametrize("account", ["self", "patient", "guarantor", "thirdParty", ""])
def test_a_second_reader_finds_the_structure(tmp_path: Path, version: str, account: str) -> None:
    """hl7apy takes the message as one of its structure: groups in their order, nothing unknown, nothing missing."""
    order = order_of(tmp_path, ordered(account=account))
    text = written(order, version=version).decode()
    found = parse_message(text, validation_level=VALIDATION_LEVEL.TOLERANT, find_groups=True)
    assert found.name == "OML_O21"
    groups = [child.name for child in found.children]
    # A second ORC may also begin a prior result, for which it takes ours.
    assert groups[:3] == ["MSH", "OML_O21_PATIENT", "OML_O21_ORDER"]
    assert "OML_O21_INSURANCE" in [child.name for child in found.oml_o21_patient.children] or account == "self"
    assert next(child.name for child in found.oml_o21_order.oml_o21_observation_request.children) == "OBR"


def test_the_older_message(order: LaboratoryOrder) -> None:
    """ORM^O01 of 2.3: no structure, no TQ1 and no SPM; priority and specimen stand where that version has them."""
    message = parsed(order, message="ORM^O01", version="2.3")
    assert message.leaf("MSH", 9, 2) == "O01"
    assert message.leaf("MSH", 9, 3) is None
    assert message.leaf("MSH", 12) == "2.3"
    assert [segment.name for segment in message.segments].count("OBR") == 2
    assert not {"TQ1", "SPM"} & {segment.name for segment in message.segments}
    assert message.leaf("ORC", 7, 6) == message.leaf("OBR", 27, 6) == "S"
    assert message.leaf("OBR", 15, 1, 2) == "Serum"
    assert message.leaf("OBX", 11) == "F"


@pytest.mark.parametrize(
    ("account", "insurances", "guarantor", "relationship"),
    [
        ("self", 0, "Quintero", "SEL"),
        ("patient", 1, "Quintero", "SEL"),
        ("guarantor", 1, "Payer", None),
        ("thirdParty", 1, "Payer", None),
        ("", 1, "Payer", None),
    ],
)
def test_who_pays(tmp_path: Path, account: str, insurances: int, guarantor: str, relationship: str | None) -> None:
    """IN1 and GT1 by the type of the account."""
    message = parsed(order_of(tmp_path, ordered(account=account)))
    assert len(message.named("IN1")) == insurances
    assert message.leaf("GT1", 3) == guarantor
    assert message.leaf("GT1", 11) == relationship


def test_a_patient_without_a_record_number(tmp_path: Path) -> None:
    """PID-3 then is the service's own id, so that the laboratory has one."""
    resources = ordered()
    resources[0]["identifier"] = [{"system": "urn:other", "value": "not told"}]
    [pid] = lines(parsed(order_of(tmp_path, resources)), "PID")
    assert pid.split("|")[3] == "p1^^^CDIS^PI"
    assert "not told" not in pid


def test_an_authority_without_a_name(order: LaboratoryOrder) -> None:
    """The system of an identifier stands for its authority where none is configured."""
    [pid] = lines(parsed(order, authorities={}), "PID")
    assert pid.split("|")[3].split("~")[0] == f"MRN-7^^^&{MRN}&URI^MR"


def test_only_external_numbers_are_told(order: LaboratoryOrder) -> None:
    """C-417: those of type MR of table 0203, whatever else the patient is known by."""
    assert [record_number["value"] for record_number in order.record_numbers] == ["MRN-7", "88"]
    assert b"not told" not in written(order)


def test_both_acknowledgements_are_asked_for(order: LaboratoryOrder) -> None:
    """MSH-15 and MSH-16 say so where the laboratory is to answer twice."""
    message = parsed(order, acknowledgement="application")
    assert (message.leaf("MSH", 15), message.leaf("MSH", 16)) == ("AL", "AL")
    assert parsed(order).leaf("MSH", 15) is None


def test_what_the_character_set_lacks(tmp_path: Path) -> None:
    """Such an order is not written at all: another letter would be another name. The error holds none of it."""
    latin = order_of(tmp_path, ordered(texts={"family": "Müller"}))
    assert parsed(latin, charset="8859/1").leaf("PID", 5) == "Müller"
    with pytest.raises(UnwritableError, match="characters that ASCII has not") as raised:
        written(latin, charset="ASCII")
    assert "ller" not in str(raised.value)


def test_an_answer_that_no_message_can_say(tmp_path: Path) -> None:
    """Such an order is not written: the laboratory would take the question for unanswered."""
    resources = ordered()
    test = next(resource for resource in resources if resource["id"] == "o1-LI")
    test["contained"][0]["item"][0]["answer"] = [{"valueAttachment": {"url": "https://elsewhere.example/scan"}}]
    with pytest.raises(UnwritableError, match="no message can say an answer of type Attachment"):
        written(order_of(tmp_path, resources))


def test_answers_are_told_in_the_words_of_the_test(order: LaboratoryOrder) -> None:
    """A response that names no Questionnaire is one to that of its test: question and choice have its words."""
    choices = [{"valueCoding": {"code": "Y", "display": "Yes"}}, {"valueCoding": {"code": "N", "display": "No"}}]
    asked = {"item": [{"linkId": "fasting", "text": "Fasted?", "type": "choice", "answerOption": choices}]}

    def obx(**coding: str) -> list[str]:
        response = {"item": [{"linkId": "fasting", "answer": [{"valueCoding": coding}]}]}
        answers = tuple(answers_in(response, lambda _: None, lambda: asked))
        return lines(parsed(replace(order, tests=(replace(order.tests[1], answers=answers),))), "OBX")

    assert obx(code="N") == ["OBX|1|CE|fasting^Fasted?^L||N^No^L||||||O"]
    assert obx(code="N", display="Not at all") == ["OBX|1|CE|fasting^Fasted?^L||N^Not at all^L||||||O"]
    assert obx(code="Q") == ["OBX|1|CE|fasting^Fasted?^L||Q^^L||||||O"]


def test_an_order_without_tests(tmp_path: Path) -> None:
    """It is not written: there is nothing to do for a laboratory."""
    resources = ordered()
    resources[-1]["action"] = []
    with pytest.raises(UnwritableError, match="no test"):
        written(order_of(tmp_path, resources))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("2026", "2026"),
        ("2026-01", "202601"),
        ("2026-01-02", "20260102"),
        ("2026-01-02T03:04:05Z", "20260102030405+0000"),
        ("2026-01-02T03:04:05.123456-05:30", "20260102030405.1234-0530"),
        ("yesterday", ""),
        (None, ""),
    ],
)
def test_moments_keep_their_precision(value: str | None, text: str) -> None:
    """As precise as it was, at most four digits behind the point, never shifted."""
    assert moment(value) == text


@pytest.fixture(scope="module")
def marked(tmp_path_factory: pytest.TempPathFactory) -> LaboratoryOrder:
    """The order with a mark in place of each text."""
    return order_of(tmp_path_factory.mktemp("marked"), ordered(texts={name: f"<{name}>" for name in TEXTS}))


def filled(part: Any, texts: dict[str, str]) -> Any:
    """Return a value with texts in place of their marks."""
    if isinstance(part, str):
        return texts.get(part, part)
    if isinstance(part, dict):
        return {name: filled(value, texts) for name, value in part.items()}
    if isinstance(part, QuestionAnswer):
        return QuestionAnswer(*(filled(one, texts) for one in part))
    if isinstance(part, list | tuple):
        return type(part)(filled(one, texts) for one in part)
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{field.name: filled(getattr(part, field.name), texts) for field in fields(part)})
    return part


@example(texts=dict.fromkeys(TEXTS, "\r\n"))
@given(texts=st.fixed_dictionaries(dict.fromkeys(TEXTS, TYPED)))
def test_texts_come_back(marked: LaboratoryOrder, texts: dict[str, str]) -> None:
    """Whatever somebody typed, the engine's reader and python-hl7 find it whole, at its place, nothing beside it."""
    raw = written(filled(marked, {f"<{name}>": text for name, text in texts.items()}))
    assert not re.search(rb"[\x00-\x08\x0a-\x0c\x0e-\x1f\x7f]", raw)
    message, other = parse(raw), hl7.parse(raw.decode())
    assert [one.name for one in message.segments] == [one[:3] for one in WHOLE]
    for name, (segment, number, field, component) in PLACES.items():
        # CR, and CR with LF, is a line end; other controls stay as they were written: no FHIR text holds one.
        told = message.named(segment)[number].leaf(field, component)
        typed = texts[name].replace("\r\n", "\n").replace("\r", "\n")
        assert told == CONTROL.sub(lambda found: f"\\X{ord(found[0]):02X}\\", typed), name
        cell = other.segments(segment)[number][field][0]
        parts = [[cell]] if isinstance(cell, str) else cell
        assert other.unescape(parts[component - 1][0]) == texts[name], name


def test_a_text_that_would_delete() -> None:
    """Two quotes alone mean `delete` in HL7; a person who typed them gets them back."""
    assert leaf('""') == "\\X22\\\\X22\\"
