"""Whatever is sent ends in a plan or in a named error: odd escapes, lengths, nulls and numbers in any field."""

import json
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.config.settings import shipped
from engine.errors import MessageError
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import Mapping, compile_mapping, load
from engine.mapping.files.document import Document, Problems
from engine.mapping.files.reference import ReferenceElement, elements
from engine.mapping.files.setting import Setting
from engine.mapping.files.table import make_table
from engine.mapping.language.function_context import FunctionContext
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.language.identifier import Identifiers, IdentityRules
from engine.mapping.language.moment import Stamps
from engine.mapping.language.scope import Scope
from engine.mapping.language.template import RESERVED, Compiler
from tests.mapping.language.test_registry import CONDITIONS, KEYS, SHOWN
from tests.tiers import trials

ROOT = shipped("mappings")


def _planned(mapping: Mapping, raw: bytes) -> None:
    """Check that a message ends in a plan or in a named error, in words that JSON has."""
    try:
        message = parse(raw)
    except MessageError:
        return
    found = outcome(mapping, message)
    assert json.dumps(found)
    assert "error" not in found or found["error"]


@pytest.fixture(scope="module")
def all_sent() -> Mapping:
    """The shipped mapping with all that it can send, and with all functions and conditions."""
    source = load([SHOWN, ROOT], "adt")
    types = [type_ for type_, one in source.documents.resources.items() if "from" not in one.value]
    return compile_mapping(sending(source, types), channel_of({"authorities": {"RVB": "urn:rvb"}}))


PARTS = st.sampled_from(
    (
        "",
        '""',
        "1",
        "A^B",
        "A&B",
        "~",
        "~~~",
        "^^^",
        "&&&",
        "\\",
        "\\X41\\",
        "\\XZZ\\",
        "\\H\\",
        "\\F\\",
        "19840229",
        "2026",
        "99999999",
        "20261332250000",
        "1^^^RVB^MR",
        "2^^^&1.2&ISO^PI",
        "x" * 300,
        "\u0000",
        "é",
        "Y",
        "N",
        "F",
        "=",
        "-1",
        "1e9",
        "NaN",
        "1234567890123456789",
        "SN",
        "NM",
        "TX",
        "RE",
        "D",
        "A",
    )
)
FIELDS = st.lists(st.lists(PARTS, max_size=4).map("~".join), max_size=30).map("|".join)
SEGMENTS = st.tuples(
    st.sampled_from(
        (
            "PID",
            "PD1",
            "PV1",
            "PV2",
            "NK1",
            "AL1",
            "IAM",
            "DG1",
            "PR1",
            "OBX",
            "IN1",
            "IN2",
            "GT1",
            "ROL",
            "PRT",
            "MRG",
            "EVN",
            "ZPI",
            "NTE",
            "OBR",
            "MSH",
            "X",
            "pid",
        )
    ),
    FIELDS,
).map("|".join)


@pytest.mark.property
@settings(max_examples=trials(120), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    segments=st.lists(SEGMENTS, max_size=8),
    event=st.sampled_from(
        ["A01", "A03", "A08", "A17", "A24", "A29", "A31", "A40", "A43", "A47", "A60", "Z99", "A99", ""]
    ),
)
def test_any_message(all_sent: Mapping, segments: list[str], event: str) -> None:
    """Odd escapes, lengths, nulls and numbers in any field of any segment."""
    head = f"MSH|^~\\&|R|V|||20260302080000||ADT^{event}|M1|P|2.5.1"
    text = "\r".join((head, "EVN||20260302", "PID|1||1^^^RVB^MR", *segments))
    _planned(all_sent, text.encode("utf-8", "replace"))


WORDS = st.sampled_from(
    (
        *KEYS,
        *FUNCTIONS,
        *CONDITIONS,
        "PID-3",
        "PID-3.1",
        "PID-3(2).4.1",
        "PID-3[CX.5=MR].1",
        "PID-99",
        "NK1",
        "ZZZ-1",
        "CX",
        "CX.1",
        "XPN.1.1",
        "XPN",
        "Practitioner",
        "administrative-sex",
        "yes-no",
        "'x'",
        "''",
        "'#patient'",
        "#",
        "|",
        "else",
        "(",
        ")",
        "'",
        "[",
        "-1",
        "0",
        "99999999999999999999",
        "\x00",
        "\u2028",
        "é",
        "a" * 1100,
        "",
        " ",
        "value[x]",
    )
)
NAMES = st.sampled_from(
    (*sorted(RESERVED), "first", "extension", "url", "valueString", "reference", "period.start", "type", "")
)
LINES = st.one_of(
    WORDS,
    st.lists(WORDS, min_size=1, max_size=7).map(" ".join),
    st.tuples(WORDS, st.sampled_from([*FUNCTIONS]), WORDS).map(lambda one: f"{one[0]} | {one[1]}({one[2]})"),
    st.tuples(WORDS, WORDS, st.sampled_from(CONDITIONS), WORDS).map(lambda one: f"{one[0]} | when {' '.join(one[1:])}"),
)
VALUES = st.recursive(
    LINES | st.none() | st.integers() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
WANTED = [
    one
    for type_ in ("Patient", "Encounter", "Appointment", "Extension", "Timing")
    for one in elements()[type_].values()
]


@pytest.mark.property
@settings(max_examples=trials(1000), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(value=VALUES, want=st.sampled_from(WANTED), type_=st.sampled_from(["", "CX", "XPN"]))
def test_any_authored_value(value: object, want: ReferenceElement, type_: str) -> None:
    """What stands for an element ends in something to make, or in problems that each have a place."""
    context, document = _compiling()
    problems = Problems()
    compiler = Compiler(context, {}, problems)
    scope = Scope(document, ("elements", "x"), type_=type_)
    (compiler.many if want.many else compiler.value)(value, scope, want)
    assert all(one.file and one.line >= 1 and "object at 0x" not in str(one) for one in problems.found)


@cache
def _compiling() -> tuple[FunctionContext, Document]:
    """What templates are compiled with, and a file in which they stand."""
    documents = load([ROOT], "adt").documents
    tables = {name: make_table(name, one.value) for name, one in documents.tables.items()}
    setting = Setting()
    context = FunctionContext(
        setting, tables, Identifiers(IdentityRules(), setting), Stamps(setting.zone), documents.tables
    )
    return context, documents.resources["Patient"]
