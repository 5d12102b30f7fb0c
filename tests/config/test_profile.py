"""Profiles of servers: their files, defaults that give way, values that a server cannot do, and guesses."""

import re
from pathlib import Path
from typing import Any

import pytest

from engine.config.channel import Channel
from engine.config.destination import Destination
from engine.config.profile import FOLDER, NAMES, guessed, profile_of
from engine.config.source import look, parse
from tests.settings import SERVERS, with_profiles

CHANNEL = """channel: adt
listen: {mllp: {port: 2575}}
destinations:
  - name: fhir
    base_url: https://fhir.example/R4
"""


def test_each_profile_is_a_file_of_its_name() -> None:
    """No file without a name that may be written, and no name without a file."""
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(NAMES)
    for name in NAMES:
        assert profile_of(name).profile == name


@pytest.mark.parametrize("name", NAMES)
def test_its_defaults_hold_by_themselves(name: str) -> None:
    """A destination that only names the profile has no conflict, and is what the profile says."""
    settings = Destination(name="fhir", base_url="https://fhir.example/R4", profile=name)  # type: ignore[arg-type]
    assert list(settings.conflicts()) == []
    assert profile_of(name).changes(settings) == ()


@pytest.mark.parametrize("name", NAMES)
def test_what_it_forbids_is_refused_and_what_it_says_instead_is_not(name: str) -> None:
    """Each forbidden value is one that the key takes, and what is to be written in its place is no conflict."""
    for forbidden in profile_of(name).forbids:
        given: dict[str, Any] = {"name": "fhir", "base_url": "https://fhir.example/R4", "profile": name}
        (fault,) = Destination(**given, **{forbidden.key: forbidden.value}).conflicts()
        assert fault[0] == (forbidden.key,)
        assert forbidden.why in fault[1]
        assert fault[2] == f"write {forbidden.key}: {forbidden.write}"
        assert list(Destination(**given, **{forbidden.key: forbidden.write}).conflicts()) == []


def _looked(more: str) -> Any:
    return look(parse(CHANNEL + more, "adt.yaml"), Channel)


def test_what_a_file_writes_wins() -> None:
    """The profile of the shipped service finds patients by demographics, unless the file has a template of its own."""
    (shipped,) = _looked("    profile: shipped\n").value.destinations
    assert shipped.if_none_exist == "demographics"
    written = "    profile: shipped\n    if_none_exist: family={family}&birthdate={birthdate}\n"
    (own,) = _looked(written).value.destinations
    assert own.if_none_exist == "family={family}&birthdate={birthdate}"


def test_a_conflict_has_its_place_and_the_next_step() -> None:
    """Where the file has the key: Google's v1 takes conditions by identifier only."""
    (problem,) = _looked("    profile: google\n    if_none_exist: demographics\n").problems
    assert (problem.line, problem.path) == (7, "destinations.0.if_none_exist")
    assert "the profile google forbids" in problem.found
    assert problem.expected == "write if_none_exist: identifier"


def test_a_profile_that_is_none_is_named_with_the_nearest() -> None:
    """A slip of the pen."""
    (problem,) = _looked("    profile: azur\n").problems
    assert problem.path == "destinations.0.profile"
    assert "azure" in problem.expected


@pytest.mark.parametrize(
    ("software", "base_url", "name"),
    [
        ("HAPI FHIR Server 8.2.0", "https://fhir.example/fhir", "hapi"),
        ("Smile CDR 2025.08", "https://fhir.example/fhir", "hapi"),
        ("adt-engine interchange 1.0.0", "https://fhir.example/fhir/R4", "shipped"),
        ("Microsoft FHIR Server 4.0", "https://fhir.example", "azure"),
        ("", "https://ws-fhir.fhir.azurehealthcareapis.com", "azure"),
        ("", "https://healthcare.googleapis.com/v1/projects/p/locations/l/datasets/d/fhirStores/f/fhir", "google"),
        ("", "https://healthlake.us-east-1.amazonaws.com/datastore/d/r4", "healthlake"),
        ("medplum 4.0", "https://fhir.example/fhir/R4", "medplum"),
        ("Aidbox 2505", "https://fhir.example/fhir", "aidbox"),
        ("Firely Server 6.0", "https://fhir.example", "firely"),
        ("Blaze 1.0", "https://fhir.example/fhir", "blaze"),
        ("", "https://healthlake.us-east-1.amazonaws.com.example/r4", ""),
        ("Some server", "https://fhir.example", ""),
    ],
)
def test_a_server_is_guessed_by_what_it_calls_itself_or_where_it_is(software: str, base_url: str, name: str) -> None:
    """By the name in its CapabilityStatement or by its host; an address that only looks alike is nobody's."""
    assert guessed(software, base_url) == name


def test_the_page_of_servers_has_the_profiles_of_today() -> None:
    """`python -m tests.settings` writes it."""
    text = Path(SERVERS).read_text("utf-8")
    assert with_profiles(text) == text


HOLDS = r"all ten hold(?:\.| where .+| for one engine; .+ breaks (\d+) .+| but (\d+), as .+)"


def test_each_server_says_which_promises_hold() -> None:
    """One line a profile, in its own section; where a promise of the README does not hold it says which, and why."""
    first = (Path(SERVERS).parents[3] / "README.md").read_text("utf-8")
    promised = re.findall(r"^\| (\d+) \|", first.partition("## Promises")[2], re.MULTILINE)
    assert promised == [str(number) for number in range(1, 11)]
    found: dict[str, tuple[str, str]] = {}
    for section in re.split(r"^##+ ", Path(SERVERS).read_text("utf-8"), flags=re.MULTILINE):
        heading, _, body = section.partition("\n")
        for name, line in re.findall(r"^\*\*Promises\*\*, `(\w+)`: ((?:.+\n)+)", body, re.MULTILINE):
            assert name not in found
            found[name] = heading, line
    assert sorted(found) == sorted(NAMES)
    for name, (heading, line) in found.items():
        expected = {"generic": "From nothing", "shipped": "shipped service"}.get(
            name, profile_of(name).title.split()[0]
        )
        assert expected in heading
        holds = re.fullmatch(HOLDS, line.strip(), re.DOTALL)
        assert holds is not None, line
        assert {number for number in holds.groups() if number} <= set(promised)
