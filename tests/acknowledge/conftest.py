"""Headers and channels to acknowledge with."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.config.channel import Channel
from engine.hl7.header import Header, read_header

MakeHeader = Callable[..., Header]


@pytest.fixture
def header() -> MakeHeader:
    """Make the header of a message from MSH fields by number."""

    def make(separator: str = "|", evn_1: str = "", **fields: str) -> Header:
        values = {
            2: "^~\\&",
            3: "EPIC",
            4: "RVB",
            5: "ENGINE",
            6: "HUB",
            9: "ADT^A01^ADT_A01",
            10: "MSG1",
            11: "P",
            12: "2.5.1",
        } | {int(name.removeprefix("msh_")): value for name, value in fields.items()}
        text = separator.join(["MSH", *(values.get(number, "") for number in range(2, 21))])
        made = read_header(text.encode("latin-1") + f"\rEVN|{evn_1}\r".encode())
        assert made is not None
        return made

    return make


@pytest.fixture
def channel() -> Callable[..., Channel]:
    """Make a channel that listens on loopback."""

    def make(**options: Any) -> Channel:
        return Channel(
            channel="test",
            listen={"mllp": {"port": 0}},  # type: ignore[arg-type]
            destinations=({"name": "fhir", "base_url": "http://127.0.0.1/fhir"},),  # type: ignore[arg-type]
            **options,
        )

    return make
