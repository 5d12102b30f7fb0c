"""Shared by the tests of mapping: the shipped mapping, channels, and messages made of a few segments."""

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.config.settings import shipped
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import Mapping, MappingSource, compile_mapping, load

AUTHORITIES = {"RVB": "https://mrn.riverbend.example", "ENT": "https://empi.riverbend.example"}
Author = Callable[..., Path]


@pytest.fixture(scope="session")
def source() -> MappingSource:
    """The shipped mapping, read and checked once."""
    return load([shipped("mappings")], "adt")


@pytest.fixture(scope="session")
def mapping(source: MappingSource) -> Mapping:
    """The shipped mapping on a channel with two authorities."""
    return compile_mapping(source, channel_of({"authorities": AUTHORITIES, "timezone": "America/New_York"}))


@pytest.fixture
def message() -> Callable[..., Message]:
    """Make a message of an event and segments."""

    def make(event: str, *segments: str) -> Message:
        head = (f"MSH|^~\\&|HIS|RVB|||20250701093000||ADT^{event}|M1|P|2.5.1", "EVN||20250701092900")
        return parse("\r".join((*head, *segments)).encode())

    return make


@pytest.fixture
def author(tmp_path: Path) -> Author:
    """Write files of a site's own mapping folder, by name and text; return the folder."""

    def write(**files: str) -> Path:
        for name, text in files.items():
            path = tmp_path / (name.replace("__", "/") + ".yaml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        return tmp_path

    return write
