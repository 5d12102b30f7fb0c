"""An answer that is what was sent, but for its `meta`, is read without parsing it; any other is not."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.deliver.wire.response_log import EchoResponse

TEXTS = st.text(st.characters(codec="utf-8"), max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda part: st.lists(part, max_size=3) | st.dictionaries(TEXTS | st.just("meta"), part, max_size=3),
    max_leaves=8,
)
BODIES = st.dictionaries(TEXTS | st.just("meta"), JSON, max_size=5)
SENT = {"resourceType": "Patient", "id": "a", "meta": {"versionId": "1"}, "contained": [{"meta": {"versionId": "1"}}]}


@given(BODIES)
def test_content_is_the_resource(body):
    """What is sent is the resource as JSON, in the order of its elements."""
    assert EchoResponse(body).content == orjson.dumps(body)


@given(BODIES, BODIES, JSON)
def test_answer_is_read_as_it_would_be_parsed(body, other, meta):
    """Whatever is answered, it is not read, or read as parsing it would; of what was sent, another `meta` is read."""
    echo = EchoResponse(body)
    for answered in (body, other, body | {"meta": meta}, other | body, body | other):
        content = orjson.dumps(answered)
        found = echo.read(content)
        assert found is None or orjson.dumps(found) == content
        if "meta" in body and content == orjson.dumps(body | {"meta": meta}):
            assert found == answered


def test_values_are_those_that_were_sent():
    """Lists and values of the answer are the very ones that were sent, so that what is known of them still holds."""
    answered = orjson.dumps(SENT | {"meta": {"versionId": "2", "lastUpdated": "2026-03-02T06:00:00Z"}})
    found = EchoResponse(SENT).read(answered)
    assert found["contained"] is SENT["contained"]
    assert found["meta"] == {"versionId": "2", "lastUpdated": "2026-03-02T06:00:00Z"}
    assert list(found) == list(SENT)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(orjson.dumps(SENT | {"contained": [{"meta": {"versionId": "2"}}]}), id="another meta changed"),
        pytest.param(orjson.dumps(SENT | {"text": {}}), id="an element more"),
        pytest.param(orjson.dumps({"resourceType": "OperationOutcome"}), id="something else"),
        pytest.param(orjson.dumps(SENT, option=orjson.OPT_INDENT_2), id="written otherwise"),
        pytest.param(orjson.dumps(SENT).replace(b'{"versionId":"1"}', b"{", 1), id="no JSON"),
        pytest.param(orjson.dumps(SENT).replace(b'{"versionId":"1"}', b"", 1), id="nothing there"),
        pytest.param(orjson.dumps(SENT).replace(b'{"versionId":"1"}', b'1,"x":2', 1), id="two elements there"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_any_other_answer_is_left_to_be_parsed(answer):
    """What differs in anything but the resource's own `meta` is not read here."""
    assert EchoResponse(SENT).read(answer) is None


def test_resource_without_meta_has_no_echo():
    """A resource that never had a version is not recognised in the answer."""
    assert EchoResponse({"resourceType": "Patient"}).read(b'{"resourceType":"Patient"}') is None
