"""Profiles of FHIR servers: what is known of each, one file a server in `profiles/`.

A profile sets defaults of a destination's keys and says what its server cannot do. Each key that a channel file writes
wins over it, and so does what a server states or shows.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict

from engine.config.source import read

FOLDER: Final = Path(__file__).with_name("profiles")
GENERIC: Final = "generic"
ProfileName = Literal[
    "generic", "shipped", "hapi", "azure", "google", "healthlake", "medplum", "aidbox", "firely", "blaze"
]
NAMES: Final[tuple[str, ...]] = get_args(ProfileName)
LackName = Literal["merge", "links", "demographics", "client-ids", "conditions"]


class ForbiddenValue(BaseModel):
    """A value of a key that a server cannot do, why, and what to write in its place."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    value: str
    why: str
    write: str


class Profile(BaseModel):
    """What is known of a server.

    `software`: beginnings of the names that its CapabilityStatement may give, `hosts`: patterns of its host names; both
    for guesses. `sources`: where the facts were published. `defaults`: keys of a destination, as its file writes them;
    how the server behaves is the key `behaviour`. `sign_in`: the kinds of credentials that it usually takes, the
    usual one first; empty where any may be. `token_path`: where its token endpoint is. `lacks`: what it cannot do.
    `habits`: what people should know, a sentence each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: ProfileName
    title: str
    software: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    defaults: dict[str, Any] = {}
    sign_in: tuple[str, ...] = ()
    token_path: str = ""
    lacks: tuple[LackName, ...] = ()
    habits: tuple[str, ...] = ()
    forbids: tuple[ForbiddenValue, ...] = ()

    def with_defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keys of a destination as a file writes them, with this profile's defaults where it writes none."""
        return _completed(given, self.defaults)

    def faults(self, settings: Any) -> Iterator[tuple[tuple[str, ...], str, str]]:
        """Yield what a destination asks for and the server cannot do: key, what was found, what would do."""
        for forbidden in self.forbids:
            if str(getattr(settings, forbidden.key)) == forbidden.value:
                found = f"{forbidden.value}, which the profile {self.profile} forbids: {forbidden.why}"
                yield (forbidden.key,), found, f"write {forbidden.key}: {forbidden.write}"

    def changes(self, settings: Any) -> tuple[str, ...]:
        """Return which keys of a destination this profile would set otherwise than they are."""
        shown = settings.model_dump(mode="json")
        return tuple(sorted(key for key, value in self.defaults.items() if not _holds(shown.get(key), value)))


def _completed(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(given)
    for key, value in defaults.items():
        if key not in made:
            made[key] = value
        elif isinstance(value, dict) and isinstance(made[key], dict):
            made[key] = _completed(made[key], value)
    return made


def _holds(shown: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict) and isinstance(shown, dict):
        return all(_holds(shown.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(shown, list):
        return len(shown) == len(wanted) and all(map(_holds, shown, wanted))
    return str(shown).lower() == str(wanted).lower()


@cache
def profile_of(name: str) -> Profile:
    """Return a profile by its name; KeyError where none has it."""
    if name not in NAMES:
        raise KeyError(name)
    return Profile.model_validate(read(FOLDER / f"{name}.yaml").value)


def guessed(software: str, base_url: str) -> str:
    """Return the name of the profile that fits a server by what it calls itself or where it is, '' for none."""
    host = urlsplit(base_url).hostname or ""
    for name in NAMES:
        known = profile_of(name)
        if any(software.lower().startswith(begin.lower()) for begin in known.software):
            return name
        if any(fnmatchcase(host, pattern) for pattern in known.hosts):
            return name
    return ""
