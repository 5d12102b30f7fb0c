"""Documents that are no documents, or mean harm: each is refused with its reason, and shows nothing of itself."""

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.interchange.clinical.ccda.reading import chart
from engine.interchange.clinical.ccda.reading.document import read_ccda
from engine.interchange.clinical.facts import UnreadableDocumentError, UnreadableReason
from engine.interchange.clinical.synthetic.chart import synthetic_chart
from tests.interchange.ccda.charts import written
from tests.interchange.ccda.written import MARISOL, document, section, valid
from tests.tiers import trials

GOOD = document(section("48765-2", text="<paragraph>None known</paragraph>"))
SECRET = "Zanzibar"
# An entry of every kind, for what is changed at random.
EVERYTHING = written(synthetic_chart("everything", facts=60))


def declared(subset: str, root: str = "ClinicalDocument") -> bytes:
    """Return the good document with a DOCTYPE before its root."""
    head, _, rest = GOOD.partition(b"?>")
    return head + f"?><!DOCTYPE {root} {subset}>".encode() + rest


def laughing(body: bytes) -> bytes:
    """Return a document with entities in an attribute, which a parser puts in their place at once."""
    return body.replace(b"<recordTarget>", b'<recordTarget typeCode="&l9;">')


LAUGHS = "[" + "".join(f'<!ENTITY l{n + 1} "{f"&l{n};" * 10}">' for n in range(9)) + "]"
OTHER = MARISOL.replace("Marisol", "Marta")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(b"", UnreadableReason.NOT_XML, id="empty"),
        pytest.param(b"Zanzibar", UnreadableReason.NOT_XML, id="text"),
        pytest.param(b'{"resourceType": "Bundle"}', UnreadableReason.NOT_XML, id="json"),
        pytest.param(b"%PDF-1.7 Zanzibar", UnreadableReason.NOT_XML, id="pdf"),
        pytest.param(bytes(range(128)), UnreadableReason.NOT_XML, id="control-characters"),
        pytest.param(b"<html><body>Zanzibar</body></html>", UnreadableReason.NOT_A_DOCUMENT, id="html"),
        pytest.param(b"<ClinicalDocument/>", UnreadableReason.NOT_A_DOCUMENT, id="without-namespace"),
        pytest.param(b'<Bundle xmlns="http://hl7.org/fhir"/>', UnreadableReason.NOT_A_DOCUMENT, id="fhir-xml"),
        pytest.param(GOOD[:-30], UnreadableReason.NOT_XML, id="truncated"),
        pytest.param(GOOD + b"Zanzibar", UnreadableReason.NOT_XML, id="text-after-the-end"),
        pytest.param(GOOD.replace(b"Marisol", b"&Zanzibar;"), UnreadableReason.NOT_XML, id="undeclared-entity"),
        pytest.param(GOOD.replace(b"Marisol", b"&#0;"), UnreadableReason.NOT_XML, id="nul"),
        pytest.param(GOOD.replace(b"Marisol", b"&#xFFFE;"), UnreadableReason.NOT_XML, id="noncharacter"),
        pytest.param(declared(""), UnreadableReason.ENTITY_DECLARED, id="doctype"),
        pytest.param(
            declared('SYSTEM "http://127.0.0.1:9/Zanzibar.dtd"'), UnreadableReason.ENTITY_DECLARED, id="external-dtd"
        ),
        pytest.param(declared('[<!ENTITY x SYSTEM "file:///etc/passwd">]'), UnreadableReason.ENTITY_DECLARED, id="xxe"),
        pytest.param(declared(LAUGHS), UnreadableReason.ENTITY_DECLARED, id="billion-laughs"),
        pytest.param(laughing(declared(LAUGHS)), UnreadableReason.ENTITY_DECLARED, id="laughs-in-an-attribute"),
        pytest.param(
            laughing(declared(LAUGHS).replace(b"<!DOCTYPE", b"<!-- a --> <?b c?> <!DOCTYPE")),
            UnreadableReason.ENTITY_DECLARED,
            id="laughs-behind-comments",
        ),
        pytest.param(
            declared(LAUGHS).decode().encode("utf-16"), UnreadableReason.ENTITY_DECLARED, id="laughs-in-utf-16"
        ),
        pytest.param(b"<!--" + GOOD, UnreadableReason.NOT_XML, id="open-comment"),
        pytest.param(GOOD.replace(b"Marisol", b"Marisol\xff"), UnreadableReason.BAD_ENCODING, id="not-utf-8"),
        pytest.param(GOOD.replace(b'"UTF-8"', b'"EBCDIC-US"'), UnreadableReason.BAD_ENCODING, id="another-encoding"),
        pytest.param(GOOD.replace(b'"UTF-8"', b'"UTF-7"'), UnreadableReason.BAD_ENCODING, id="utf-7"),
        pytest.param(codecs.BOM_UTF16_LE + b"<", UnreadableReason.BAD_ENCODING, id="half-a-character"),
        pytest.param(GOOD.replace(b"<text>", b"<text>" + b"<b>" * 300), UnreadableReason.TOO_DEEP, id="deep"),
        pytest.param(b"<a>" * 100_000, UnreadableReason.TOO_DEEP, id="deep-and-open"),
        pytest.param(b"<a>" + b" " * 50_000_000, UnreadableReason.TOO_LARGE, id="50-mb"),
        pytest.param(b"<a>" + b"<b/>" * 1_000_001, UnreadableReason.TOO_LARGE, id="many-elements"),
        pytest.param(b"<a " + b"b='' " * 1_000_001, UnreadableReason.TOO_LARGE, id="many-attributes"),
        pytest.param(b"<a>" + b"x" * 10_000_001 + b"</a>", UnreadableReason.TOO_LARGE, id="one-long-text"),
        pytest.param(document(people=""), UnreadableReason.NO_PATIENT, id="nobody"),
        pytest.param(
            document(people="<recordTarget><patientRole><patient/></patientRole></recordTarget>"),
            UnreadableReason.NO_PATIENT,
            id="nameless",
        ),
        pytest.param(document(people=MARISOL + OTHER), UnreadableReason.TWO_PATIENTS, id="two-patients"),
    ],
)
def test_a_hostile_document_is_refused_with_its_reason(body: bytes, reason: UnreadableReason) -> None:
    """Each has its reason; the text of the error is always the same, and holds nothing that the parser said."""
    with pytest.raises(UnreadableDocumentError) as refused:
        read_ccda(body)
    assert refused.value.reason is reason
    assert str(refused.value) == str(UnreadableDocumentError(reason))
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_a_bound_of_the_caller_holds() -> None:
    """A document of just as many bytes is read, one byte more is too large."""
    assert read_ccda(GOOD, most_bytes=len(GOOD))
    with pytest.raises(UnreadableDocumentError) as refused:
        read_ccda(GOOD + b"\n", most_bytes=len(GOOD))
    assert refused.value.reason is UnreadableReason.TOO_LARGE


@pytest.mark.parametrize(
    ("encoding", "declaration"),
    [
        pytest.param("utf-8", "UTF-8", id="utf-8"),
        pytest.param("utf-8-sig", "UTF-8", id="utf-8-with-mark"),
        pytest.param("utf-16", "UTF-16", id="utf-16"),
        pytest.param("iso-8859-1", "ISO-8859-1", id="latin-1"),
        pytest.param("cp1252", "windows-1252", id="windows"),
    ],
)
def test_a_document_is_read_in_its_encoding(encoding: str, declaration: str) -> None:
    """A name with an umlaut comes out as it is, whichever encoding the document declares and has."""
    text = GOOD.decode().replace("UTF-8", declaration).replace("Marisol", "Jürgen")
    body = codecs.BOM_UTF16_BE + text.encode("utf-16-be") if encoding == "utf-16" else text.encode(encoding)
    assert read_ccda(body).identity.given[0] == "Jürgen"


def test_a_document_of_too_many_facts_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many facts as may be are read; one more makes the whole document unreadable."""
    monkeypatch.setattr(chart, "MOST_FACTS", 20)
    entries = [f'<observation><code code="{number}"/></observation>' for number in range(21)]
    assert len(read_ccda(document(section("30954-2", *entries[:20]))).resources) == 20
    with pytest.raises(UnreadableDocumentError) as refused:
        read_ccda(document(section("30954-2", *entries)))
    assert refused.value.reason is UnreadableReason.TOO_LARGE


def test_references_to_the_narrative_are_resolved_within_a_budget() -> None:
    """Of entries that each refer to a whole narrative of empty elements only the first are resolved."""
    entry = (
        '<observation classCode="OBS" moodCode="EVN"><code><originalText><reference value="#all"/></originalText>'
        '</code><value xsi:type="ST">x</value></observation>'
    )
    text = f'<content ID="all">{"<content/>" * 20_000}Zanzibar</content>'
    facts = read_ccda(document(section("30954-2", *[entry] * 300, text=text)))
    assert 0 < len(facts.resources) < 100
    assert facts.unread == 300 - len(facts.resources)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    """Nothing but UnreadableDocumentError comes out of bytes that nobody chose."""
    with pytest.raises(UnreadableDocumentError):
        read_ccda(body)


PIECES = st.sampled_from(
    [
        b"<",
        b">",
        b"&amp;",
        b'"',
        b"<!DOCTYPE a>",
        b"<![CDATA[",
        b"]]>",
        b"<!--",
        b"\x00",
        b"\xff",
        b"\xe2\x80\xae",
        b'value="',
        b'code="',
        b"2.16.840.1.113883.4.1",
        b"<value/>",
        b"99999999999999999999",
        b"-",
        b"",
    ]
)


@pytest.mark.property
@settings(max_examples=trials(150))
@given(st.data())
def test_a_mutated_document_is_read_into_valid_facts_or_refused(data: st.DataObject) -> None:
    """Whatever is cut out of a document, doubled, or put into it: what is read is valid, the rest is refused."""
    body = bytearray(EVERYTHING)
    for _ in range(data.draw(st.integers(1, 4))):
        begin = data.draw(st.integers(0, len(body)))
        end = min(len(body), begin + data.draw(st.integers(0, 200)))
        body[begin:end] = data.draw(st.one_of(PIECES, st.just(bytes(body[begin:end]) * 2)))
    try:
        facts = read_ccda(bytes(body))
    except UnreadableDocumentError:
        return
    valid(facts)
