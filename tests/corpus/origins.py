"""What other projects' converters make of messages beside what this engine makes of them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.config.settings import shipped
from engine.hl7.message import parse
from engine.mapping.authoring.case import channel_of, sending
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import Mapping, compile_mapping, load
from tests.conftest import CorpusFile
from tests.corpus.facts import Fact, facts, located

EXPECTED = ".expected.json"
TYPES = (
    "Patient",
    "Encounter",
    "RelatedPerson",
    "Coverage",
    "AllergyIntolerance",
    "Condition",
    "Procedure",
    "Observation",
    "Account",
    "CareTeam",
    "EpisodeOfCare",
    "Flag",
)
# The zones in which the origins read timestamps without one, by the beginning of the file's name.
ZONES = {"GoogleCloudPlatform": "Etc/GMT-3", "microsoft": "Asia/Kolkata", "HL7": "UTC"}


def mapping_in(zone: str) -> Mapping:
    """Return the shipped mapping with everything that it can send, on a channel in a zone."""
    source = sending(load([shipped("mappings")], "adt"), TYPES)
    authorities = {"": "https://mrn.example", "BCBS": "https://bcbs.example"}
    return compile_mapping(source, channel_of({"authorities": authorities, "timezone": zone}))


@dataclass(frozen=True)
class Pair:
    """One message: its name, what was judged of it, and the facts of both sides (ours: none where it is refused)."""

    name: str
    judged: dict[str, Any]
    theirs: frozenset[Fact]
    ours: frozenset[Fact]

    def count(self, kind: str) -> tuple[int, int, int]:
        """Return how many facts of a kind both have, only they have, only we have."""
        theirs = {one for one in self.theirs if one.kind == kind}
        ours = {our for our in self.ours if our.kind == kind}
        return len(theirs & ours), len(theirs - ours), len(ours - theirs)


def pairs(corpus: tuple[CorpusFile, ...]) -> tuple[Pair, ...]:
    """Return every message whose origin ships what it expects."""
    mappings = {beginning: mapping_in(zone) for beginning, zone in ZONES.items()}
    found = []
    for file in corpus:
        expected = Path(str(file.path).removesuffix(".hl7") + EXPECTED)
        if file.path.suffix == ".hl7" and expected.is_file():
            mapping = next(one for beginning, one in mappings.items() if file.name.startswith(beginning))
            made = outcome(mapping, parse(file.raw, undecodable="replace"))
            entries = json.loads(expected.read_text("utf-8"))["entry"]
            bodies = [entry["resource"] for entry in entries]
            names = {f"Location/{body['id']}": body.get("name", "") for body in bodies if "id" in body}
            theirs = frozenset().union(*(facts(located(body, names)) for body in bodies))
            found.append(Pair(file.path.stem, made, theirs, _ours(made)))
    return tuple(found)


def _ours(made: dict[str, Any]) -> frozenset[Fact]:
    bodies = [one[key] for one in made.get("interactions", ()) for key in ("patient", "resource") if key in one]
    visits = (body for body in bodies if body["resourceType"] == "Encounter")
    places = (place["location"].get("reference", "") for visit in visits for place in visit.get("location", ()))
    names = {reference: reference.rpartition("|")[2].partition("/")[0] for reference in places}
    return frozenset().union(*(facts(located(body, names)) for body in bodies)) if bodies else frozenset()
