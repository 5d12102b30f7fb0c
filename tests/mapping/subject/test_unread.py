"""Values that an unescaped subcomponent separator cuts are named on the entry."""

import pytest

from engine.config.settings import shipped
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import compile_mapping, read
from engine.mapping.subject.unread import MOST, unread

HEAD = "MSH|^~\\&|H&1.2&ISO|R|||20250701||ADT^A28|1|P|2.5.1\r"


def flags(*lines: str, head: str = HEAD) -> tuple[str, ...]:
    """Return what is said of a message with lines."""
    return unread(parse((head + "\r".join(lines)).encode()))


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("PID|1||7^^^RVB||Osei^Ama||||||1 High St^^Foo & Bar^NY||555 & 1", ["PID-11.3", "PID-13.1"]),
        ("PID|1||7^^^RVB||Osei^Ama & Efua~Osei^Ama&E", ["PID-5.2"]),
        ("PID|1||7^^^RVB&1.2&ISO||de Boer&de&Boer^Ama||||||1 High St & Co&High St&1^^Troy", []),
        ("PID|1||7^^^RVB||Osei^Ama&&||||||^^Troy& ", []),
        (r"PID|1||7^^^RVB||Osei^Ama||||||1 High St^^Foo \T\ Bar", []),
        ("PID|1||7^^^RVB||Osei^Ama||||||||||||||||||Accra & Kumasi", ["PID-23"]),
        ("NK1|1|Osei^Kofi||12 A & B St^^X & Y", ["NK1-4.3"]),
        ("OBX|1|ST|1^x||a & b||||||F", []),
        ("ZPI|1|a & b", []),
        ("PV1|1|I|W1^2^3^RVB&1.2&ISO", []),
        ("", []),
    ],
)
def test_each_value_that_is_cut_is_named_by_its_path(line: str, paths: list[str]) -> None:
    """Once each; not what has subcomponents in any version, nor where nothing stands behind the separator."""
    assert flags(line) == tuple(f"subcomponent-unread {path}" for path in paths)


def test_five_paths_are_named() -> None:
    """More say nothing new."""
    told = flags(*(f"NK1|{one}|Osei^A & B^C & D^E & F||^^X & Y^N & Y^1 & 2|5 & 5" for one in (1, 2)))
    assert len(told) == MOST


def test_a_separator_of_ones_own() -> None:
    """MSH-2 says which it is; without one there are no subcomponents."""
    own = "MSH|^~\\#|H|R|||20250701||ADT^A28|1|P|2.5.1\r"
    assert flags("PID|1||7||A^B||||||^^X # Y & Z", head=own) == ("subcomponent-unread PID-11.3",)
    assert flags("PID|1||7||A^B||||||^^X & Y", head=own) == ()
    assert flags("PID|1||7||A^B||||||^^X & Y", head=own.replace("\\#", "\\")) == ()


def test_the_subject_of_a_message_says_so() -> None:
    """It is told on the entry, with nothing of the value."""
    channel = channel_of({})
    mapping = compile_mapping(read([shipped("mappings")], "adt"), channel)
    message = parse(f"{HEAD}PID|1||7^^^RVB||Osei^Ama||||||^^Foo & Bar".encode())
    assert mapping.identify(message).flags[-1] == "subcomponent-unread PID-11.3"
