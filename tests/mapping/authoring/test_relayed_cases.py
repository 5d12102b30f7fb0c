"""Cases of what leaves for a relay: parts as they are sent, edited under the test key, and what differs."""

from pathlib import Path
from typing import Final

import pytest

from engine.config.channel import Channel
from engine.config.source import look, parse
from engine.mapping.authoring.case import read_cases, run_cases
from engine.mapping.compile import MappingSource

CHANNEL: Final = """\
channel: feed
listen: {mllp: {port: 0}}
keys: {study: {env: NO_SUCH_KEY}}
destinations:
  - {name: fhir, base_url: http://127.0.0.1:1}
  - name: copy
    type: mllp
    host: 127.0.0.1
    port: 2575
    send: edited
    edit:
      - set: {PID-5.1: PID-5.1 | mask, PID-3.1: PID-3.1 | hash(study)}
        remove: [NK1, PID-11]
      - set: {PID-8.1: Ω}
        when: PID-8 = O
"""
CASE: Final = """\
tests:
  - case: a copy
    channel: feed
    event: A08
    message: |
      PID|1||7^^^RVB^MR~8^^^LKS^PI||Roe^Jo|""|19840229|{sex}|||1 Elm
      NK1|1|Roe^Ann
    expect: {{relays: {{{expected}}}}}
"""


@pytest.mark.parametrize(
    ("expected", "differences"),
    [
        ("copy: {PID-5: XXX^Jo, PID-5.1: XXX, PID-3(2).1: '8', NK1: '', PID-11: '', PV1-3: '', PID-6.1: '\"\"'}", ()),
        ("copy: {PID-3.4: RVB, 'PID-3[CX.5=MR].1': 7a42ac7f0c4ce5a2d3da0ee0b1f2b7f1}", ("PID-3[CX.5=MR].1",)),
        ("copy: {NK1: 'NK1|1|Roe^Ann'}", ("NK1",)),
        ("fhir: {PID-5: x}", ("fhir",)),
    ],
)
def test_what_leaves(source: MappingSource, tmp_path: Path, expected: str, differences: tuple[str, ...]) -> None:
    """Of a relay that is edited; of any other nothing. No secret is needed."""
    found = _differences(source, tmp_path, CASE.format(sex="F", expected=expected))
    assert [one.split(": expected")[0].removeprefix("relays.copy.").removeprefix("relays.") for one in found] == [
        *differences
    ]


def test_a_message_that_is_held(source: MappingSource, tmp_path: Path) -> None:
    """The reason is what comes out."""
    header = "MSH|^~\\&|R|RVB|||20260301||ADT^A08|1|P|2.5.1||||||ASCII"
    text = CASE.format(sex="O", expected="copy: {error: edit-value}").replace("PID|1", f"{header}\n      PID|1", 1)
    assert _differences(source, tmp_path, text) == ()


def _differences(source: MappingSource, folder: Path, text: str) -> tuple[str, ...]:
    file = folder / "a.yaml"
    file.write_text(text, "utf-8")
    channel = look(parse(CHANNEL, "feed.yaml"), Channel).value
    assert channel is not None
    (result,) = run_cases(read_cases([file]), source, {"feed": channel})
    return result.differences
