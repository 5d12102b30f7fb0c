"""The schemas for editors: made of the models, shipped as they are made, held by every file and every example."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import jsonschema_rs
import pytest
import yaml

from engine.config.schema import CHANNEL_FILES, SERVICE_FILES, editor_line, schema_text, schemas
from engine.config.settings import shipped
from engine.config.source import look, parse
from tests.config.metaschema import faults, unreadable
from tests.interchange.nursery import ran

ROOT: Final = Path(__file__).parents[2]
MODELS: Final = {**CHANNEL_FILES, **SERVICE_FILES}
SCHEMAS: Final = schemas(MODELS)
VALIDATORS: Final = {kind: jsonschema_rs.Draft7Validator(schema) for kind, schema in SCHEMAS.items()}
OF_CHANNELS: Final = dict.fromkeys(CHANNEL_FILES, shipped("channels") / "schema")
SHIPPED: Final = {**OF_CHANNELS, **dict.fromkeys(SERVICE_FILES, ROOT / "engine/interchange/schema")}
BLOCK: Final = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES: Final = [ROOT / "README.md", *ROOT.glob("channels/*.md"), *ROOT.glob("engine/**/*.md")]


class Editor(yaml.CSafeLoader):
    """YAML as editors read it (1.2): `no` is a word, and a date is one, too."""


Editor.yaml_implicit_resolvers = {
    mark: [one for one in found if one[0].rsplit(":")[-1] in {"int", "float", "null"}]
    for mark, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Editor.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(true|false)$"), list("tf"))


def examples() -> Iterator[tuple[str, str, str]]:
    """Yield the kind, the place and the text of each example in a page; of a part of a file as well."""
    for page in PAGES:
        for number, block in enumerate(BLOCK.findall(page.read_text("utf-8"))):
            keys = set(yaml.load(block, Editor))  # noqa: S506 - of a safe one
            kinds = [kind for kind, schema in SCHEMAS.items() if keys <= set(schema["properties"])]
            # What belongs to a mapping is held by the schemas of mappings.
            if kinds:
                yield kinds[0], f"{page.relative_to(ROOT)} {number}", block


EXAMPLES: Final = list(examples())


def both(text: str) -> tuple[Any, Any]:
    """Return what the engine and what an editor make of the scalars of a file."""
    return parse(text, "x").value, yaml.load(text, Editor)  # noqa: S506 - of a safe one


def wrong(kind: str, value: Any, *, whole: bool = True) -> list[str]:
    """Return what a schema says is wrong with a value; of a part of a file not what is missing in it."""
    found = VALIDATORS[kind].iter_errors(value)
    told = [f"{one.instance_path}: {one.message}" for one in found]
    return told if whole else [one for one in told if not re.fullmatch(r"\[\]: .* is a required property", one)]


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_the_shipped_schemas_are_those_of_the_models(kind: str) -> None:
    """After a change: `channels schema --out channels/schema`, `interchange schema --out engine/interchange/schema`."""
    assert (SHIPPED[kind] / f"{kind}.json").read_text("utf-8") == schema_text(SCHEMAS[kind])


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_every_key_is_explained(kind: str) -> None:
    """What an editor shows beside a key is what the table of settings says."""
    named = {"": SCHEMAS[kind], **SCHEMAS[kind]["definitions"]}
    keys = [(name, key, one) for name, node in named.items() for key, one in node.get("properties", {}).items()]
    assert len(keys) > 8
    assert [(name, key) for name, key, one in keys if not one.get("description")] == []
    for key, field in MODELS[kind].model_fields.items():
        if field.description:
            assert SCHEMAS[kind]["properties"][field.alias or key]["description"] == field.description


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_no_editor_shows_a_pattern(kind: str) -> None:
    """Who writes what does not match reads what was expected, with an example, and no regular expression."""
    assert unreadable(SCHEMAS[kind]) == []


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_every_schema_is_one_by_the_metaschema(kind: str) -> None:
    """An editor refuses a schema that is none, and completes nothing."""
    assert faults(SCHEMAS[kind]) == []


def test_the_shipped_channel_holds_to_its_schema() -> None:
    """And names it in its first line."""
    file = shipped("channels") / "riverbend-adt.yaml"
    text = file.read_text("utf-8")
    assert text.splitlines()[0] == editor_line("channel")
    assert file.parent.joinpath(editor_line("channel").partition("$schema=")[2]).is_file()
    assert [wrong("channel", value) for value in both(text)] == [[], []]


@pytest.mark.parametrize(("kind", "place", "text"), EXAMPLES, ids=[place for _, place, _ in EXAMPLES])
def test_every_example_holds_to_its_schema(kind: str, place: str, text: str) -> None:
    """As the engine reads it and as an editor does."""
    whole = not SCHEMAS[kind].get("required") or SCHEMAS[kind]["required"][0] in text.partition(":")[0]
    assert [wrong(kind, value, whole=whole) for value in both(text)] == [[], []]


def test_all_kinds_have_examples() -> None:
    """Or the tests above would hold nothing."""
    assert {kind for kind, _, _ in EXAMPLES} >= {"channel", "interchange"}
    assert len(EXAMPLES) > 8


BASE: Final = "channel: a\nlisten: {mllp: {port: 2575}}\ndestinations: [{name: a, base_url: 'https://fhir.example'}]\n"
AUTH: Final = BASE.replace("name: a,", "name: a, auth: {type: bearer, token: %s},")
SERVICE: Final = (
    "environment: sandbox\nbase_url: http://127.0.0.1\nservice_identifier_system: https://a.example\ntenants: {a: {}}\n"
)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param("channel", BASE + "timezon: UTC\n", id="key"),
        pytest.param("channel", BASE.replace("2575", "70000"), id="number"),
        pytest.param("channel", BASE.replace("2575", "many"), id="no number"),
        pytest.param("channel", BASE + "allow_merge: perhaps\n", id="switch"),
        pytest.param("channel", BASE + "mode: lve\n", id="word"),
        pytest.param("channel", BASE + "version: 3.1\n", id="version"),
        pytest.param("channel", BASE + "acknowledge: later\n", id="short form"),
        pytest.param("channel", BASE + "acknowledge: {when: delivered, within: 20}\n", id="long form"),
        pytest.param("channel", BASE + "allow: 10.0.0.0/8\n", id="list"),
        pytest.param("channel", BASE.replace("channel: a\n", ""), id="missing"),
        pytest.param("channel", AUTH % "swordfish", id="secret in place"),
        pytest.param("channel", AUTH % "{env: A, file: B}", id="secret twice"),
        pytest.param("alerts", "queue_dept: 5\n", id="alert"),
        pytest.param("alerts", "channels: {a: {no_traffic_minutes: never}}\n", id="alert of a channel"),
        pytest.param("sites", "sites: [{name: a, url: https://a.example}]\n", id="a site without a token"),
        pytest.param("sites", "sites: [{name: a, url: https://a.example, token: swordfish}]\n", id="token in place"),
        pytest.param("interchange", SERVICE + "test_hook: true\n", id="service key"),
        pytest.param("interchange", SERVICE.replace("{a: {}}", "{a: {history: {keep: 0}}}"), id="history"),
    ],
)
def test_what_is_wrong_is_underlined(kind: str, text: str) -> None:
    """By an editor as by the check, of the same text."""
    assert look(parse(text, "x"), MODELS[kind]).problems
    assert wrong(kind, both(text)[1])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        pytest.param("channel", BASE, id="least"),
        pytest.param("channel", BASE + "version: 2.4\nmapping: 7\n", id="numbers"),
        pytest.param("channel", BASE.replace("2575", "'2575'"), id="a number in quotes"),
        pytest.param("channel", BASE + "allow_merge: yes\nretention: {delivered: {bodies_days: 1e2}}\n", id="yes"),
        pytest.param("channel", BASE + "acknowledge: delivered\ncharset: 8859/1\ninsecure:\n", id="short form"),
        pytest.param("channel", BASE + "acknowledge: {when: delivered, within_seconds: 2.5}\n", id="long form"),
        pytest.param("channel", AUTH % "{env: A}", id="secret"),
        pytest.param("alerts", "no_traffic_minutes:\nqueue_depth: 5\n", id="alerts"),
        pytest.param("sites", "sites: [{name: a, url: https://a.example, token: {env: A}}]\n", id="sites"),
        pytest.param("interchange", SERVICE.replace("{a: {}}", "{a: {history: {keep: all}}}"), id="all"),
        pytest.param("interchange", SERVICE.replace("{a: {}}", "{a: {history: {keep: 30}}}"), id="days"),
    ],
)
def test_what_is_right_is_not(kind: str, text: str) -> None:
    """However it may be written."""
    assert look(parse(text, "x"), MODELS[kind]).problems == ()
    assert [wrong(kind, value) for value in both(text)] == [[], []]


def test_a_command_prints_lists_and_writes_them(tmp_path: Path) -> None:
    """By name, or all into a folder that is made; a name that is none is told with the nearest."""
    assert ran("channels", "schema", "alerts").stdout == schema_text(SCHEMAS["alerts"])
    assert ran("interchange", "schema").stdout == schema_text(SCHEMAS["interchange"])
    assert "channel\tOne configured feed" in ran("channels", "schema").stdout
    assert ran("channels", "schema", "--out", str(tmp_path / "new")).returncode == 0
    assert {one.name for one in (tmp_path / "new").iterdir()} == {"channel.json", "alerts.json", "sites.json"}
    done = ran("channels", "schema", "channell")
    assert (done.returncode, "did you mean channel?" in done.stderr) == (2, True)
