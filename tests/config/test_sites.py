"""`sites.yaml`: what may stand there; a token is referred to, and goes over TLS alone."""

from pathlib import Path

import pytest

from engine.config.channels import channel_files
from engine.config.sites import FILE, MOST_SITES, Sites, look_at_sites
from engine.errors import Problem
from engine.pipeline.configuration import Files, examine

CHANNEL = """
channel: riverbend
listen: {mllp: {host: 127.0.0.1, port: 2575}}
destinations:
  - {name: cdis, base_url: "http://127.0.0.1:8080/fhir/R4", auth: {type: none}}
"""
SITE = "{name: North, url: 'https://adt.north.example:8081', token: {env: NORTH}}"


def problems(folder: Path, text: str) -> list[Problem]:
    """Write a sites.yaml and return what is wrong with it."""
    (folder / FILE).write_text(text)
    return list(look_at_sites(folder).problems)


def test_without_a_file_there_are_no_sites(tmp_path: Path) -> None:
    """Nothing has to be written."""
    assert look_at_sites(tmp_path).value == Sites()


def test_the_file_describes_no_channel(tmp_path: Path) -> None:
    """It is in the folder of channel files, and is none of them."""
    (tmp_path / "riverbend.yaml").write_text(CHANNEL)
    assert problems(tmp_path, f"sites: [{SITE}]") == []
    assert [file.name for file in channel_files(tmp_path)] == ["riverbend.yaml"]


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://adt.north.example:8081", "https://adt.north.example:8081"),
        ("https://adt.north.example/", "https://adt.north.example"),
        ("http://127.0.0.1:8081", "http://127.0.0.1:8081"),
        ("http://localhost:8081/", "http://localhost:8081"),
        ("https://10.20.0.7:8081", "https://10.20.0.7:8081"),
        ("https://[2001:db8::7]:8081", "https://[2001:db8::7]:8081"),
    ],
)
def test_an_address_of_pages_is_taken(tmp_path: Path, url: str, kept: str) -> None:
    """A slash at its end is left out."""
    assert problems(tmp_path, f"sites: [{{name: North, url: '{url}', token: {{env: NORTH}}}}]") == []
    looked = look_at_sites(tmp_path)
    assert looked.value is not None
    assert [site.url for site in looked.value.sites] == [kept]


@pytest.mark.parametrize(
    "url",
    [
        "http://adt.north.example:8081",
        "https://user:word@adt.north.example",
        "https://adt.north.example/overview",
        "https://adt.north.example?token=x",
        "https://169.254.169.254",
        "https://0.0.0.0:8081",
        "https://adt.north.example:99999",
        "adt.north.example:8081",
        "",
    ],
)
def test_a_token_goes_to_no_other_address(tmp_path: Path, url: str) -> None:
    """Plain http is for this machine; a path, a query, a user name and a reserved address are refused."""
    (problem,) = problems(tmp_path, f"sites: [{{name: North, url: '{url}', token: {{env: NORTH}}}}]")
    assert problem.path == "sites.0.url"


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("site: []", "site", "did you mean sites?"),
        ("sites: [{name: North, url: 'https://n.example'}]", "sites.0.token", "missing"),
        ("sites: [{url: 'https://n.example', token: {env: N}}]", "sites.0.name", "missing"),
        (f"sites: [{SITE}, {{name: North, url: 'https://n.example', token: {{env: N}}}}]", "sites.1.name", "again"),
        (f"sites: [{SITE}, {SITE.replace('North', 'Other')}]", "sites.1.url", "again"),
        ("refresh_seconds: 1", "refresh_seconds", "at least 5"),
        ("timeout_seconds: 0", "timeout_seconds", "above 0"),
        (f"sites: [{', '.join([SITE] * (MOST_SITES + 1))}]", "sites", f"at most {MOST_SITES}"),
    ],
)
def test_a_mistake_is_named_with_its_place(tmp_path: Path, text: str, path: str, said: str) -> None:
    """With what would do."""
    assert any(found.path == path and said in str(found) for found in problems(tmp_path, text))


def test_a_token_in_the_file_is_refused_and_not_shown(tmp_path: Path) -> None:
    """It is referred to."""
    (problem,) = problems(tmp_path, "sites: [{name: North, url: 'https://n.example', token: swordfish-77}]")
    assert problem.path == "sites.0.token"
    assert "swordfish" not in str(problem)


def test_a_check_a_start_and_a_reload_see_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mistake, a token that is not set, and an authority that cannot be read are problems of the configuration."""
    (tmp_path / "riverbend.yaml").write_text(CHANNEL)
    files = Files(tmp_path, None, tmp_path / "data")
    (tmp_path / FILE).write_text(f"sites: [{SITE}]\nevery: 5\n")
    assert [problem.path for problem in examine(files, machine=False).problems] == ["every"]
    site = SITE.replace("}}", "}, ca_file: authority.pem}")
    (tmp_path / FILE).write_text(f"sites: [{site}]\n")
    assert [problem.path for problem in examine(files).problems] == ["sites.0.token.env", "sites.0.ca_file"]
    monkeypatch.setenv("NORTH", "swordfish-77")
    (tmp_path / FILE).write_text(f"sites: [{SITE}]\n")
    assert [site.name for site in examine(files).usable().sites.sites] == ["North"]
