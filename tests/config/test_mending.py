"""One mistake hides no other, and is told once: what follows from it alone is not told beside it."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from engine.config.alerting import Alerting
from engine.config.channel import Channel
from engine.config.service import ServiceConfiguration
from engine.config.source import look, parse, scan
from tests.config.test_every_value import CHANNEL, SERVICE

GOOD = """\
channel: riverbend
listen: {mllp: {host: 127.0.0.1, port: 2575}}
destinations:
- {name: one, base_url: "http://127.0.0.1/a"}
- {name: two, base_url: "http://127.0.0.1/b"}
"""
OPEN = GOOD.replace("127.0.0.1, port", "0.0.0.0, port")
TLS = OPEN.replace("port: 2575", "port: 2575, tls: {certificate: a, key: b}")


def told(folder: Path, text: str) -> list[str]:
    """Return the paths of the problems of a channel file."""
    (folder / "a.yaml").write_text(text)
    return [problem.path for problem in look(scan(folder / "a.yaml"), Channel).problems]


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        pytest.param(OPEN.replace("port", "prot"), ["listen.mllp.host", "listen.mllp.prot"], id="key and open door"),
        pytest.param(
            OPEN.replace("channel: r", "channell: r"), ["channell", "listen.mllp.host"], id="name and open door"
        ),
        pytest.param(OPEN + "stale: never\n", ["listen.mllp.host", "stale"], id="value and open door"),
        pytest.param(TLS + "allows: [10.0.0.0/8]\n", ["allows"], id="a misspelt list is the list"),
        pytest.param(TLS + "allows: [10.0.0/8]\n", ["allows", "allow.0"], id="and its value is looked at"),
        pytest.param(TLS + "allow: [10.0.0/8]\n", ["allow.0"], id="a wrong item empties nothing"),
        pytest.param(TLS + "allow: 10.0.0.0/8\n", ["allow"], id="a word for a list"),
        pytest.param(OPEN + "insecure: acceptd\n", ["insecure"], id="a wrong word that was meant"),
        pytest.param(OPEN + "stale: a\nstale: apply\n", ["listen.mllp.host", "stale", "stale"], id="a key twice"),
        pytest.param(GOOD + "processing_ids: [X, Y]\n", ["processing_ids.0", "processing_ids.1"], id="two items"),
        pytest.param(
            GOOD.replace("two,", "one,") + "- three\n", ["destinations.2"], id="a word for a destination: its list goes"
        ),
        pytest.param(
            GOOD.replace("two,", "one, retry: {first_seconds: 90, max_seconds: x},"),
            ["destinations.1.name", "destinations.1.retry.max_seconds"],
            id="no echo of a default",
        ),
        pytest.param(
            GOOD.replace("two,", "two, auth: {typ: bearer, token: {env: A}},"), ["destinations.1.auth.typ"], id="auth"
        ),
        pytest.param(
            GOOD.replace("two,", "two, auth: {type: bearr, token: {env: A}},"), ["destinations.1.auth.type"], id="type"
        ),
        pytest.param(
            GOOD.replace("two,", "two, auth: {type: bearer, tokn: {env: A}},"), ["destinations.1.auth.tokn"], id="token"
        ),
        pytest.param(
            GOOD.replace("two,", "two, auth: {type: bearer, token: letmein},"),
            ["destinations.1.auth.token"],
            id="secret",
        ),
        pytest.param(
            GOOD.replace("two,", "two, auth: {type: client_credentials, token_url: x, client_id: a},"),
            ["destinations.1.auth.client_secret", "destinations.1.auth.token_url"],
            id="what is wrong and what is missing",
        ),
        pytest.param(
            GOOD.replace("two,", "two, auth: {token: {env: A}},"), ["destinations.1.auth.type"], id="a type forgotten"
        ),
    ],
)
def test_each_mistake_is_told_once(tmp_path: Path, text: str, paths: list[str]) -> None:
    """Every mistake of a file is told, and nothing that only follows from another."""
    assert sorted(told(tmp_path, text)) == sorted(paths)


def places(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the path of every value in a plain one."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for step, part in parts for path in places(part, (*at, step)))]


SCALARS = st.sampled_from([None, "", "x", "0", "-1", "1e999", "true", "a b", "http://h", "{env: A}"])
PLAIN = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS.map(str), inner))
WHOLE: list[tuple[type[BaseModel], dict[str, Any]]] = [
    (Channel, CHANNEL),
    (ServiceConfiguration, SERVICE),
    (Alerting, {"webhook": {"url": "https://a.example"}, "channels": {"a": {"no_traffic_minutes": "5"}}}),
]


@given(st.sampled_from(WHOLE), st.data())
def test_whatever_stands_in_a_file_is_told(whole: tuple[type[BaseModel], dict[str, Any]], data: st.DataObject) -> None:
    """Any values anywhere: problems are told if and only if the file is wrong, and nothing else is raised."""
    model, base = whole
    written = copy.deepcopy(base)
    for _ in range(data.draw(st.integers(1, 4))):
        *above, last = data.draw(st.sampled_from(places(written)[1:]))
        inner = written
        for step in above:
            inner = inner[step]  # type: ignore[index]
        value = data.draw(PLAIN)
        if isinstance(inner, dict) and data.draw(st.booleans()):
            del inner[last]  # type: ignore[arg-type]
            inner[data.draw(st.sampled_from([f"{last}s", str(last)[1:], "zzz"]))] = value
        else:
            inner[last] = value  # type: ignore[index]
        if not places(written)[1:]:
            break
    source = parse(json.dumps(written), "a.yaml")
    looked = look(source, model)
    try:
        made: BaseModel | None = model.model_validate(source.value)
    except ValidationError:
        made = None
    assert bool(looked.problems) or made == looked.value
    assert made is not None or looked.problems
