"""The tables of settings in the documents, generated: `python -m tests.settings` writes them from the models."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from engine.config.alerting import Alerting
from engine.config.channel import Channel
from engine.config.profile import NAMES, LackName, profile_of
from engine.config.reference import settings_table
from engine.config.relay import Relay
from engine.config.service import ServiceConfiguration
from engine.config.sites import Sites

ROOT: Final = Path(__file__).parent.parent
# The document, the mark around its table, and the model of the file that the table is about.
TABLES: Final[tuple[tuple[Path, str, type[BaseModel]], ...]] = (
    (ROOT / "channels/README.md", "settings", Channel),
    (ROOT / "engine/ops/docs/relay.md", "relay settings", Relay),
    (ROOT / "engine/interchange/docs/fhir-settings.md", "service settings", ServiceConfiguration),
    (ROOT / "engine/ops/docs/alerts.md", "alert settings", Alerting),
    (ROOT / "engine/ops/docs/sites.md", "site settings", Sites),
)


def with_table(text: str, mark: str, model: type[BaseModel]) -> str:
    """Return a document with the table of today between its marks."""
    before, begin, rest = text.partition(f"<!-- {mark} -->\n")
    _, end, after = rest.partition(f"<!-- /{mark} -->")
    return f"{before}{begin}{settings_table(model)}\n{end}{after}"


SERVERS: Final = ROOT / "engine/ops/docs/servers.md"


def profiles_table() -> str:
    """Return the table of profiles, of their files."""
    lines = ["| Profile | Server | Sets | Forbids | What to know |", "|---|---|---|---|---|"]
    for name in NAMES:
        profile = profile_of(name)
        sets = "<br>".join(f"`{line}`" for line in _lines(profile.defaults))
        forbids = "<br>".join(f"`{one.key}: {one.value}` ({one.why})" for one in profile.forbids)
        lines.append(f"| `{name}` | {profile.title} | {sets} | {forbids} | {' '.join(profile.habits)} |")
    return "\n".join(lines) + "\n"


def _lines(value: dict[str, Any], above: str = "") -> Iterator[str]:
    for key, part in value.items():
        if isinstance(part, dict):
            yield from _lines(part, f"{above}{key}.")
        else:
            shown = f"[{', '.join(part)}]" if isinstance(part, list) else part
            yield f"{above}{key}: {shown}"


class Lack(NamedTuple):
    """Something that a server may not do, and what the engine does in its place."""

    what: str
    instead: str


LACKS: Final[Mapping[LackName, Lack]] = {
    "merge": Lack(
        "merge two records",
        "links them: the old record is inactive and names its survivor; visits that the engine wrote move to that",
    ),
    "links": Lack("take a link to a survivor from a client (`replaced-by`)", "merges them (`$merge`)"),
    "demographics": Lack(
        "tell people apart by demographics as it creates them, by default",
        "creates by the number alone: a person without a birth date is created, and no second registration is noted",
    ),
    "client-ids": Lack("create a record under an id of the client", "creates on condition (`create: conditional`)"),
    "conditions": Lack(
        "create on a condition", "creates under an id made of the number, or with an idempotency key (`create`)"
    ),
}


def lacks_table() -> str:
    """Return the table of what servers cannot do, of the same files."""
    lines = ["| It cannot | What the engine does in its place | Profiles |", "|---|---|---|"]
    for name, lack in LACKS.items():
        servers = ", ".join(f"`{one}`" for one in NAMES if name in profile_of(one).lacks)
        lines.append(f"| {lack.what} | {lack.instead} | {servers} |")
    return "\n".join(lines) + "\n"


def with_profiles(text: str) -> str:
    """Return the page of servers with the tables of today between their marks."""
    for mark, table in (("profiles", profiles_table()), ("lacks", lacks_table())):
        before, begin, rest = text.partition(f"<!-- {mark} -->\n")
        _, end, after = rest.partition(f"<!-- /{mark} -->")
        text = f"{before}{begin}{table}{end}{after}"
    return text


if __name__ == "__main__":
    SERVERS.write_text(with_profiles(SERVERS.read_text("utf-8")), "utf-8")
    for document, mark, model in TABLES:
        document.write_text(with_table(document.read_text("utf-8"), mark, model), "utf-8")
