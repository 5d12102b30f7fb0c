"""Delimiters as senders declare them."""

import pytest

from engine.errors import UnreadableMessageError
from engine.hl7.delimiters import Delimiters, delimiters_of


@pytest.mark.parametrize(
    ("encoding", "expected"),
    [
        pytest.param("^~\\&", ("^", "~", "\\", "&", ""), id="usual"),
        pytest.param("^~\\&#", ("^", "~", "\\", "&", "#"), id="truncation of 2.7"),
        pytest.param("@#$%", ("@", "#", "$", "%", ""), id="other characters"),
        pytest.param("^~&", ("^", "~", "", "&", ""), id="no escape, read by meaning"),
        pytest.param("^\\&", ("^", "", "\\", "&", ""), id="no repetition, read by meaning"),
        pytest.param("^&", ("^", "", "", "&", ""), id="two, read by meaning"),
        pytest.param("^~\\", ("^", "~", "\\", "", ""), id="no subcomponent"),
        pytest.param("^", ("^", "", "", "", ""), id="component only"),
        pytest.param("@#", ("@", "#", "", "", ""), id="short and unusual, by position"),
        pytest.param("", ("^", "~", "\\", "&", ""), id="none declared, the usual ones"),
        pytest.param("&&&&", ("&", "", "", "", ""), id="a character keeps its first role"),
        pytest.param("^|\\&", ("^", "", "\\", "&", ""), id="the field separator is no repetition"),
        pytest.param("^~\\&#!?", ("^", "~", "\\", "&", "#"), id="more than five"),
    ],
)
def test_declarations(encoding, expected):
    """MSH-2 means what a reader would take it to mean."""
    assert delimiters_of("|", encoding) == Delimiters("|", *expected)


@pytest.mark.parametrize(
    ("field", "encoding"),
    [("A", "^~\\&"), ("0", "^~\\&"), (" ", "^~\\&"), ("\x01", "^~\\&"), ("|", "0000"), ("|", "^~y&"), ("|", "^ \\&")],
)
def test_unusable(field, encoding):
    """Letters, digits, blanks and control characters delimit nothing."""
    with pytest.raises(UnreadableMessageError):
        delimiters_of(field, encoding)


def test_cuts_are_never_empty():
    """A delimiter that was not declared cuts nothing, and is safe to split by."""
    for mark in delimiters_of("|", "^").cuts[1:]:
        assert mark
    assert len("a~b".split(delimiters_of("|", "^").cuts[0])) == 1
