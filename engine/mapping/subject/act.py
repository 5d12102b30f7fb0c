"""An event's act on a resource other than the Patient: a verb and the resource's name, `update encounter`."""

from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final, NamedTuple

from engine.mapping.files.document import Document, Problems
from engine.mapping.files.reference import GUIDE, nearest, type_names

PATIENT: Final = "Patient"
PATIENTS: Final = frozenset({"patient", "patients", "identifiers"})
# The similarity at which a word is a misspelt type: with this many types, every word is a little like one.
LIKE: Final = 0.75


class Verb(StrEnum):
    """The verb of an act.

    `upsert`: created if unknown, else updated. `update`: the same, and flagged if it has to be created, because the
    event is about a known one. `cancel`: an unknown one is left alone. `renumber`: found by the number in MRG, too,
    which becomes an old one. `merge`: MRG's is entered in error, and part of the other from then on. `move`: it
    belonged to the patient in MRG until now.
    """

    UPSERT = "upsert"
    UPDATE = "update"
    CANCEL = "cancel"
    RENUMBER = "renumber"
    MERGE = "merge"
    MOVE = "move"


# Verbs that change only the number or the patient of a resource.
OF_IDENTITY: Final = frozenset({Verb.RENUMBER, Verb.MERGE, Verb.MOVE})


class Act(NamedTuple):
    """One verb and the FHIR type that it is done with."""

    verb: Verb
    type_: str


def parted(given: Any) -> tuple[list[Any], list[str]]:
    """Split `do` into the actions on the patient and the acts on other resources."""
    texts = given if isinstance(given, list) else [given]
    patient = [one for one in texts if str(one).rpartition(" ")[2] in PATIENTS]
    return patient, [str(one) for one in texts if one not in patient]


def identity_acts(texts: list[str]) -> list[str]:
    """Return the types of the resources that an event merges, moves or renumbers."""
    types = type_names()
    named = (text.partition(" ") for text in texts)
    return [types[name] for verb, _, name in named if verb in OF_IDENTITY and name in types]


def read_acts(
    texts: list[str], sent: frozenset[str], document: Document, path: tuple[str | int, ...], problems: Problems
) -> tuple[Act, ...]:
    """Return the acts of an event's `do`, without those on types that are not sent (empty: all are)."""
    types = type_names()
    acts: list[Act] = []
    for text in texts:
        verb, _, name = text.partition(" ")
        if verb not in set(Verb):
            problems.add(document, path, f"found {text!r}", nearest(verb, {one.value for one in Verb}, GUIDE))
        elif name not in types:
            expected = "expected the type of a resource file, such as encounter"
            near = get_close_matches(name, types, n=1, cutoff=LIKE)
            problems.add(document, path, f"found {text!r}", nearest(name, near) if near else expected)
        elif sum(one.rpartition(" ")[2] == name for one in texts) > 1:
            expected = f"say once what is done with the {name}"
            problems.add(document, path, f"{name} twice", expected)
        elif not sent or types[name] in sent:
            acts.append(Act(Verb(verb), types[name]))
    return tuple(acts)
