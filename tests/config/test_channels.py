from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest

from engine.config.channel import AcknowledgementMode, Channel, Mode
from engine.config.channels import load_channels
from engine.config.settings import shipped
from engine.errors import ConfigurationError, Problem

GOOD = """\
channel: riverbend
listen:
  mllp: {host: 127.0.0.1, port: 2575}
allow: [127.0.0.0/8]
destinations:
  - name: interchange
    base_url: http://127.0.0.1:8080/fhir/R4
"""


def write(folder: Path, text: str, name: str = "riverbend.yaml") -> Path:
    """Write a channel file and return its path."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def load_channel(path: Path) -> Channel:
    """Return the one channel of the folder of a file."""
    (channel,) = load_channels(path.parent)
    return channel


def problems(folder: Path) -> tuple[Problem, ...]:
    """Return what is wrong with a folder of channels."""
    with pytest.raises(ConfigurationError) as raised:
        load_channels(folder)
    return raised.value.problems


def test_the_shipped_channel_is_read() -> None:
    """The channel file that ships is valid and says explicitly that it may merge."""
    (channel,) = load_channels(shipped("channels"))
    assert channel.channel == "riverbend-adt"
    assert channel.allow_merge
    assert channel.authorities == {
        "RVB": "https://mrn.riverbend.example",
        "": "https://mrn.riverbend.example",
        "LKS": "https://mrn.lakeside.example",
    }
    assert channel.allow == (ip_network("127.0.0.0/8"),)
    (destination,) = channel.destinations
    assert destination.if_none_exist == "demographics"
    assert destination.auth.client_secret is not None
    assert destination.auth.client_secret.env == "ENGINE_SECRET"


def test_defaults_are_safe(tmp_path: Path) -> None:
    """A channel that says little stores before it answers, takes production messages only, and merges nothing."""
    channel = load_channel(write(tmp_path, GOOD))
    assert channel.acknowledge.when == "stored"
    assert channel.processing_ids == ("P",)
    assert channel.acknowledgement_mode is AcknowledgementMode.AUTO
    assert channel.mode is Mode.LIVE
    assert not channel.allow_merge
    assert channel.undecodable == "refuse"


def test_the_long_and_the_short_form_of_acknowledge(tmp_path: Path) -> None:
    """`acknowledge: delivered` and the block with a bound mean the same key."""
    short = load_channel(write(tmp_path, GOOD + "acknowledge: delivered\n"))
    long = load_channel(write(tmp_path, GOOD + "acknowledge: {when: delivered, within_seconds: 5}\n"))
    assert (short.acknowledge.when, short.acknowledge.within_seconds) == ("delivered", 20)
    assert (long.acknowledge.when, long.acknowledge.within_seconds) == ("delivered", 5)


def test_scalars_stay_as_written(tmp_path: Path) -> None:
    """NO is an authority of that name, not a false, and 010 is no octal number."""
    channel = load_channel(write(tmp_path, GOOD + "authorities: {NO: urn:oid:1.2, 010: urn:oid:1.3}\n"))
    assert channel.authorities == {"NO": "urn:oid:1.2", "010": "urn:oid:1.3"}


@pytest.mark.parametrize("name", ["8859/1", "UNICODE UTF-8", "ISO IR87", "utf-8", "cp1252", "ASCII"])
def test_character_sets_of_the_table_and_of_python(tmp_path: Path, name: str) -> None:
    """A character set is named as in table 0211 or as Python does."""
    assert load_channel(write(tmp_path, GOOD + f"charset: {name}\n")).charset == name


def test_a_source_is_application_and_facility_or_application_alone(tmp_path: Path) -> None:
    """A sender is named by MSH-3 and MSH-4, or by MSH-3 for all its facilities."""
    channel = load_channel(write(tmp_path, GOOD + "sources: ['REG|RVB', 'LAB|', ADT]\n"))
    assert channel.sources == ("REG|RVB", "LAB|", "ADT")


@pytest.mark.parametrize(
    ("text", "line", "path", "found", "expected"),
    [
        pytest.param(
            GOOD + "acknowlege: stored\n", 8, "acknowlege", "unknown key", "did you mean acknowledge?", id="misspelt"
        ),
        pytest.param(
            GOOD.replace("port: 2575", "prot: 2575"),
            3,
            "listen.mllp.prot",
            "unknown key",
            "did you mean port?",
            id="misspelt-inside",
        ),
        pytest.param(
            GOOD + "    timeout_secs: 3\n",
            8,
            "destinations.0.timeout_secs",
            "unknown key",
            "did you mean timeout_seconds?",
            id="misspelt-in-a-list",
        ),
        pytest.param(
            GOOD.replace("  mllp: {host", "  xyz: {}\n  mllp: {host"),
            3,
            "listen.xyz",
            "unknown key",
            "valid here: fhir, http, mllp",
            id="nothing-near",
        ),
        pytest.param(GOOD.replace("channel: riverbend\n", ""), 1, "channel", "missing", "required", id="missing"),
        pytest.param(
            GOOD.replace("2575", "mllp"), 3, "listen.mllp.port", "found 'mllp'", "a whole number", id="wrong-type"
        ),
        pytest.param(
            GOOD.replace("2575", "70000"), 3, "listen.mllp.port", "found '70000'", "at most 65535", id="out-of-range"
        ),
        pytest.param(
            GOOD + "allow_merge: perhaps\n", 8, "allow_merge", "found 'perhaps'", "true or false", id="no-boolean"
        ),
        pytest.param(GOOD + "limits:\n  - 3\n", 8, "limits", "found a list", "a block of keys", id="list-for-block"),
        pytest.param(GOOD + "sources: REG\n", 8, "sources", "found 'REG'", "a list", id="word-for-list"),
        pytest.param(
            GOOD + "sources: ['|RVB']\n", 8, "sources.0", "found '|RVB'", "MSH-3|MSH-4", id="source-half-named"
        ),
        pytest.param(GOOD + "timezone:\n", 8, "timezone", "found nothing", "a word", id="nothing"),
        pytest.param(
            GOOD + "timezone: America/Riverbend\n", 8, "timezone", "America/Riverbend", "no time zone", id="zone"
        ),
        pytest.param(GOOD + "timezone: ../etc/passwd\n", 8, "timezone", "passwd", "no time zone", id="zone-as-path"),
        pytest.param(
            GOOD.replace("127.0.0.0/8", "10.0.0/8"), 4, "allow.0", "'10.0.0/8'", "is no network", id="bad-cidr"
        ),
        pytest.param(
            GOOD.replace("127.0.0.0/8", "10.1.2.3/8"), 4, "allow.0", "10.1.2.3/8", "beyond its mask", id="host-bits"
        ),
        pytest.param(
            GOOD + "mode: lvie\n", 8, "mode", "found 'lvie'", "did you mean live?", id="closed-set-with-nearest"
        ),
        pytest.param(GOOD + "version: 2.10\n", 8, "version", "2.10", "'2.5.1'", id="no-version"),
        pytest.param(GOOD + "charset: UTF-9\n", 8, "charset", "UTF-9", "no character set", id="charset"),
        pytest.param(GOOD + "charset: rot13\n", 8, "charset", "rot13", "no character set", id="codec-of-no-bytes"),
        pytest.param(GOOD + "processing_ids: []\n", 8, "processing_ids", "a list", "at least 1", id="empty-list"),
        pytest.param(GOOD + "processing_ids: [Production]\n", 8, "processing_ids.0", "Production", "'P'", id="msh-11"),
        pytest.param(
            GOOD.replace("channel: riverbend", "channel: river bend"), 1, "channel", "river bend", "letters", id="name"
        ),
        pytest.param(
            GOOD.replace("http://127.0.0.1", "127.0.0.1"), 7, "destinations.0.base_url", "8080", "whole URL", id="url"
        ),
        pytest.param(
            GOOD + "    retry: {first_seconds: 9, max_seconds: 3}\n",
            8,
            "destinations.0.retry.max_seconds",
            "less than first_seconds",
            "at least 9",
            id="retry-upside-down",
        ),
        pytest.param(
            GOOD + "    auth: {type: bearer}\n",
            8,
            "destinations.0.auth.token",
            "missing",
            "needs token",
            id="half-auth",
        ),
        pytest.param(
            GOOD + "  - name: interchange\n    base_url: http://127.0.0.1/b\n",
            8,
            "destinations.1.name",
            "the name interchange again",
            "rename one",
            id="destination-twice",
        ),
        pytest.param(GOOD + "channel: again\n", 8, "channel", "duplicate key", "already in line 1", id="duplicate-key"),
        pytest.param(GOOD + "limits:\n\tsegments: 3\n", 9, "", "cannot start", "indent with spaces", id="tab"),
        pytest.param(
            GOOD + "contact: &a x\nmapping: *a\n", 9, "mapping", "an alias", "write the value out", id="alias"
        ),
        pytest.param(GOOD + "contact: !!python/name:os.system x\n", 8, "contact", "the tag", "without a tag", id="tag"),
        pytest.param("[" * 300_000, 1, "", "nesting too deep", "at most 40", id="brackets-alone"),
        pytest.param("channel: \x00\n", 1, "", "not text", "UTF-8", id="no-text"),
        pytest.param(GOOD + "# M\x00ller\n", 8, "", "not text", "UTF-8", id="no-text-further-down"),
        pytest.param("", 1, "", "found nothing", "a block of keys", id="empty-file"),
    ],
)
def test_each_mistake_is_named_with_its_place(
    tmp_path: Path, text: str, line: int, path: str, found: str, expected: str
) -> None:
    """A mistake is reported with file, line, path, what was found and what would do."""
    file = write(tmp_path, text)
    first, *_ = problems(tmp_path)
    assert (first.file, first.line, first.path) == (str(file), line, path)
    assert found in first.found
    assert expected in first.expected


def test_an_alias_bomb_is_refused_at_its_first_alias(tmp_path: Path) -> None:
    """Nine levels of nine aliases cost no more than their text, and are told in one line."""
    levels = "".join(f"l{n}: &l{n} [{','.join([f'*l{n - 1}'] * 9)}]\n" for n in range(1, 10))
    write(tmp_path, "l0: &l0 [x]\n" + levels)
    found = [problem for problem in problems(tmp_path) if problem.found == "an alias"]
    assert [problem.line for problem in found] == [2]


def test_a_file_over_the_bound_is_not_read(tmp_path: Path) -> None:
    """A channel file of more than 1 MiB is refused by its size."""
    write(tmp_path, "#" * 1_048_577)
    assert problems(tmp_path)[0].found == "1048577 bytes"


@pytest.mark.parametrize("key", ["client_secret", "token", "refresh_token", "private_key"])
def test_a_literal_secret_is_refused_and_never_shown(tmp_path: Path, key: str) -> None:
    """A secret written in the file is refused; neither the problem nor the error's chain repeats it."""
    write(tmp_path, GOOD + f"    auth: {{type: none, {key}: swordfish}}\n")
    with pytest.raises(ConfigurationError) as raised:
        load_channels(tmp_path)
    (problem,) = [one for one in raised.value.problems if one.path != "destinations.0.auth.type"]
    assert problem.path == f"destinations.0.auth.{key}"
    assert problem.found == "a secret written in the file"
    assert problem.expected == "refer to it: {env: NAME} or {file: PATH}"
    assert "swordfish" not in str(raised.value)
    assert raised.value.__context__ is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(GOOD + "    auth: swordfish\n", id="in-place-of-auth"),
        pytest.param(GOOD + "    pasword: swordfish\n", id="under-an-unknown-key"),
        pytest.param(GOOD.replace("http://", "http://engine:swordfish@"), id="in-a-url"),
        pytest.param(GOOD + "    auth: {type: bearer, token: [swordfish]}\n", id="in-a-list"),
    ],
)
def test_a_secret_in_a_wrong_place_is_not_shown(tmp_path: Path, text: str) -> None:
    """Wherever somebody writes a secret, the problem says where it stands and not what it is."""
    write(tmp_path, text)
    assert "swordfish" not in "\n".join(map(str, problems(tmp_path)))


def test_a_secret_is_either_env_or_file(tmp_path: Path) -> None:
    """A reference that names both places, or none, is refused."""
    write(tmp_path, GOOD + "    auth: {type: bearer, token: {env: A, file: b}}\n")
    assert problems(tmp_path)[0].expected == "give either env or file"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.10", "interface.riverbend.example"])  # noqa: S104 - nothing listens
def test_beyond_loopback_needs_tls_and_allow(tmp_path: Path, host: str) -> None:
    """A listener that others can reach needs certificates and an allow list, or the word that it is meant."""
    opened = GOOD.replace("{host: 127.0.0.1, port: 2575}", f"{{host: '{host}', port: 2575}}")
    write(tmp_path, opened)
    assert "needs tls and an allow list" in problems(tmp_path)[0].expected
    write(tmp_path, opened + "insecure: accepted\n")
    assert load_channels(tmp_path)[0].insecure == "accepted"
    tls = "tls: {certificate: a.pem, key: a.key}"
    write(tmp_path, opened.replace("port: 2575", f"port: 2575, {tls}"))
    assert load_channels(tmp_path)[0].listen.mllp.tls is not None
    write(tmp_path, opened.replace("port: 2575", f"port: 2575, {tls}").replace("allow: [127.0.0.0/8]\n", ""))
    assert "allow list" in problems(tmp_path)[0].expected


def test_every_problem_of_every_file_comes_at_once(tmp_path: Path) -> None:
    """Three files with four mistakes give four problems, each with its file."""
    write(tmp_path, GOOD + "modee: live\nstale: never\n", "a.yaml")
    write(tmp_path, GOOD.replace("riverbend", "lakeside").replace("2575", "x"), "b.yaml")
    write(tmp_path, "a: [", "c.yaml")
    assert [Path(problem.file).name for problem in problems(tmp_path)] == ["a.yaml", "a.yaml", "b.yaml", "c.yaml"]


def test_two_channels_cannot_share_a_name_or_a_port(tmp_path: Path) -> None:
    """The second file of a name or a port is refused, naming the first."""
    write(tmp_path, GOOD, "a.yaml")
    write(tmp_path, GOOD, "b.yaml")
    name, port = problems(tmp_path)
    assert (name.path, name.found) == ("channel", "the name riverbend again")
    assert (port.path, port.found, port.line) == ("listen.mllp.port", "port 2575 again", 3)
    assert "a.yaml" in name.expected
    assert "a.yaml" in port.expected


def test_one_port_on_two_addresses_is_two_doors(tmp_path: Path) -> None:
    """The same port may be used on two addresses, and port 0 as often as wanted, but not beside a wildcard."""
    second = GOOD.replace("riverbend", "lakeside")
    write(tmp_path, GOOD, "a.yaml")
    write(tmp_path, second.replace("host: 127.0.0.1", "host: 127.0.0.2"), "b.yaml")
    assert len(load_channels(tmp_path)) == 2
    write(tmp_path, second.replace("host: 127.0.0.1", "host: 0.0.0.0") + "insecure: accepted\n", "b.yaml")
    assert problems(tmp_path)[0].found == "port 2575 again"
    write(tmp_path, GOOD.replace("2575", "0"), "a.yaml")
    write(tmp_path, second.replace("2575", "0"), "b.yaml")
    assert len(load_channels(tmp_path)) == 2


def test_a_folder_without_channels_says_what_to_do(tmp_path: Path) -> None:
    """An empty folder, an absent one and a file named .yml each give their next step."""
    assert problems(tmp_path)[0].found == "no channel file"
    assert problems(tmp_path / "nowhere")[0].found == "no such folder"
    write(tmp_path, GOOD, "a.yml")
    assert problems(tmp_path)[0].expected == "rename it to .yaml"


def test_what_cannot_be_read_is_a_problem_of_that_file(tmp_path: Path) -> None:
    """A folder that is named like a channel file is reported, not raised through."""
    (tmp_path / "a.yaml").mkdir()
    assert "cannot be read" in problems(tmp_path)[0].found


def test_a_problem_prints_as_file_line_column(tmp_path: Path) -> None:
    """A problem's text begins as compilers' do, so that editors can jump to it."""
    file = write(tmp_path, GOOD + "acknowlege: stored\n")
    text = str(problems(tmp_path)[0])
    assert text == f"{file}:8:1: acknowlege: unknown key; did you mean acknowledge?"


def test_a_channel_is_frozen(tmp_path: Path) -> None:
    """A channel cannot be changed after it was read."""
    channel = load_channel(write(tmp_path, GOOD))
    with pytest.raises(ValueError, match="frozen"):
        channel.mapping = "other"  # type: ignore[misc]
    assert channel.merge_window == timedelta(minutes=10)
    assert channel.zone.key == "UTC"


@pytest.mark.parametrize("mode", ["live", "shadow", "load"])
def test_every_mode_is_taken(tmp_path: Path, mode: str) -> None:
    """A channel may deliver, only say what it would do, or load."""
    assert load_channel(write(tmp_path, f"{GOOD}mode: {mode}\n")).mode == mode
