"""The event table: the actions of each trigger event on the Patient and on other resources, and its rule's name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from typing import Any, Final, NamedTuple

from engine.config.text import URI
from engine.hl7.events import AcceptedMessages, types_of
from engine.mapping.files.document import Document, Problems
from engine.mapping.files.overlay import FIELD
from engine.mapping.files.reference import GUIDE, kind_of, listed, nearest, type_names
from engine.mapping.files.table import MappingTable, TargetCode
from engine.mapping.language.identifier import IdentityRules, Preference
from engine.mapping.language.number_form import NORMALISE, number_forms
from engine.mapping.subject.identity_fields import FROM, identity_fields

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
    patient = [text for text in texts if str(text).rpartition(" ")[2] in PATIENTS]
    return patient, [str(text) for text in texts if text not in patient]


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


# The key with the types of resources that are sent.
SENT: Final = "resources"
TOP_KEYS: Final = frozenset(
    {
        "mapping",
        "extends",
        "assume",
        "identity",
        "placeholder_people",
        "historic",
        SENT,
        "filters",
        "events",
        "others",
    },
)
RULE_KEYS: Final = frozenset({"rule", "do", "if_absent", "reactivate", "clears", "each", "skip", "unhandled"})
IDENTITY_KEYS: Final = frozenset({FROM, "untyped", "not_identity", "prefer", "placeholders", "systems", NORMALISE})
HISTORIC_KEYS: Final = frozenset({"field", "value", "rule"})
# The table of names of coding systems (HL7 table 0396).
SYSTEMS: Final = "coding-system"
PEOPLE_KEYS: Final = frozenset({"names", "beginnings", "birth_dates"})


class EventAction(StrEnum):
    """The action of an event."""

    UPSERT = "upsert patient"
    UPDATE = "update patient"
    IDENTIFY = "identify patient"
    DELETE = "delete patient"
    MERGE = "merge patient"
    RENAME = "rename patient"
    LINK = "link patients"
    UNLINK = "unlink patients"
    MOVE = "move identifiers"
    SKIP = "skip"
    UNHANDLED = "unhandled"
    REFUSE = "refuse"


# An event of ADT, or any other with the type of its message.
EVENT: Final = re.compile(r"[AZ]\d\d|(?!ADT\^|ACK\^|MCF\^)[A-Z][A-Z0-9]{2}\^[A-Z][A-Z0-9]\d")
# Actions that exclude every other one.
ALONE: Final = frozenset(
    {EventAction.MERGE, EventAction.RENAME, EventAction.LINK, EventAction.UNLINK, EventAction.MOVE}
)
# Actions that an event's `do` cannot name.
ELSEWHERE: Final = frozenset({EventAction.SKIP, EventAction.UNHANDLED, EventAction.REFUSE})
DATE: Final = re.compile(r"\d{4}(-\d{2}(-\d{2})?)?")
# Actions without lists and resources with `along`: the event has no demographics.
BARE: Final = frozenset({EventAction.IDENTIFY, EventAction.DELETE})


@dataclass(frozen=True, slots=True)
class EventRule:
    """One row of the event table; `create`: an unknown patient is created; `reactivate`: an inactive one activated.

    `ignore`: for an unknown patient nothing is done at all. `acts`: the acts on other resources; `clears`: the
    elements of these that the event removes. `merges`: a resource of one patient is merged into another of its kind,
    `moves`: it is moved to another patient. `each`: all of it once for each PID. `thin`: the PID only identifies the
    patient (`identify patient`, merges, moves and changes of number); `unsent`: the types of such an event that are
    not sent. `finds`: the patient must be known, and does not get a number from the message.
    """

    name: str
    action: EventAction
    create: bool = True
    reactivate: bool = False
    ignore: bool = False
    acts: tuple[Act, ...] = ()
    merges: bool = False
    moves: bool = False
    clears: tuple[str, ...] = ()
    each: bool = False
    thin: bool = False
    unsent: tuple[str, ...] = ()
    finds: bool = False

    @property
    def of_identity(self) -> bool:
        """True for an event about identity: of a person, of a deleted number, or of a visit's patient."""
        return (
            self.action in ALONE
            or self.action is EventAction.DELETE
            or (self.thin and self.action is not EventAction.IDENTIFY)
        )


@dataclass(frozen=True, slots=True)
class Historic:
    """The mark of a past movement: a field's first component has this value; `rule` then applies to movements."""

    segment: str
    number: int
    value: str
    rule: EventRule


@dataclass(frozen=True, slots=True)
class People:
    """Stand-in names and birth dates; names in capitals."""

    names: frozenset[str] = frozenset()
    beginnings: tuple[str, ...] = ()
    birth_dates: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class EventTable:
    """The content of the event file; `sent`: the types of resources that are sent, empty: all that the events name.

    `rules` have the event's name, `A01`, or the message type as well: `ORU^R01`. `assume`: names of coding systems,
    and their meaning in this feed.
    """

    rules: dict[str, EventRule]
    others: EventRule
    identity: IdentityRules
    people: People
    historic: Historic | None = None
    sent: frozenset[str] = frozenset()
    assume: Mapping[str, str] = field(default_factory=dict)

    @property
    def taken(self) -> AcceptedMessages:
        """The accepted messages: ADT for an event without a type, and the named types."""
        return AcceptedMessages(types_of(self.rules), frozenset(self.rules))


def make_event_table(document: Document, problems: Problems) -> EventTable:
    """Read the event file; faults go to `problems`."""
    return _EventFile(document, problems).table()


def assumed(
    tables: dict[str, MappingTable], events: EventTable, document: Document, problems: Problems
) -> dict[str, MappingTable]:
    """Return the tables with the event file's assumed coding systems, `assume: {I10: icd-10-cm}`.

    The meaning is a name of that table, the last part of a URI in it, or a URI; faults go to `problems`.
    """
    table = tables.get(SYSTEMS)
    if not events.assume or table is None:
        return tables
    known = {code.code.rpartition("/")[2].casefold(): code.code for code in table.codes.values() if code}
    known |= {name.casefold(): one.code for name, one in table.codes.items() if one}
    found: dict[str, TargetCode] = {}
    for name, meant in events.assume.items():
        uri = known.get(str(meant).casefold()) or (str(meant) if URI.fullmatch(str(meant)) else "")
        if uri:
            found[table.key(name) or name] = TargetCode(uri, "", "")
        else:
            problems.add(
                document,
                ("assume", name),
                f"found {meant!r}",
                nearest(str(meant).casefold(), known, "tables/coding-system.yaml"),
            )
    return {**tables, SYSTEMS: _with(table, found)}


def _with(table: MappingTable, rows: Mapping[str, TargetCode]) -> MappingTable:
    folded = {name.casefold(): name for name in rows}
    displays = {**dict.fromkeys(rows, ""), **table.displays}
    return replace(table, codes={**table.codes, **rows}, displays=displays, folded={**folded, **table.folded})


def _undone(given: list[Any], others: list[str], actions: set[EventAction]) -> tuple[str, str]:
    """Return the fault of a `do` without exactly one action on the patient, and what is expected."""
    if len(given) == 1:
        return f"found {given[0]!r}", nearest(str(given[0]), actions, GUIDE)
    if given:
        return "found " + " and ".join(map(repr, given)), "say once what is done with the patient"
    near = next((other for other in others if other.lower() in actions), "")
    if near or not others:
        return f"found {near!r}", nearest(near.lower(), actions, GUIDE)
    doubtful = next((other for other in others if get_close_matches(other, actions, n=1, cutoff=0.8)), "")
    if doubtful:
        return f"found {doubtful!r}", nearest(doubtful, actions, GUIDE)
    return f"found {others[0]!r} alone", "say what is done with the patient as well: [update patient, ...]"


def _covers(earlier: Preference, later: Preference) -> bool:
    return earlier.authority in {"", later.authority} and earlier.type_ in {"", later.type_}


class _EventFile:
    """Reads the event file; faults go to `problems`."""

    def __init__(self, document: Document, problems: Problems) -> None:
        self._document = document
        self._value = document.value
        self._problems = problems
        self._add = partial(problems.add, document)
        self._keys = partial(problems.keys, document)

    def table(self) -> EventTable:
        """Return the table."""
        value = self._value
        self._keys((), TOP_KEYS, value)
        events = self._map(value, "events")
        rules = {event: rule for event in events if (rule := self._rule(event, events[event]))}
        if not rules and value:
            self._add(("events",), "no events", "map at least one event")
        others = EventRule(str(value.get("others") or "unknown-event"), EventAction.UNHANDLED)
        identity, people = self._identity(), self._people()
        sent = frozenset(listed(value.get(SENT)))
        return EventTable(rules, others, identity, people, self._historic(), sent, self._map(value, "assume"))

    def _rule(self, event: str, value: Any) -> EventRule | None:
        path = ("events", event)
        if not EVENT.fullmatch(event):
            self._add(path, f"unknown event {event!r}", "expected a trigger event such as A01, or ORU^R01")
        if not isinstance(value, dict):
            self._add(path, "no rule", "write {do: upsert patient}, {skip: RULE} or {unhandled: RULE}")
            return None
        self._keys(path, RULE_KEYS, value)
        given = [key for key in ("do", "skip", "unhandled") if value.get(key)]
        if len(given) != 1:
            self._add(path, "found " + (" and ".join(given) or "nothing to do"), "give one of do, skip, unhandled")
            return None
        if given[0] != "do":
            return EventRule(str(value[given[0]]), EventAction(given[0]))
        return self._doing(event, value)

    def _doing(self, event: str, value: dict[str, Any]) -> EventRule | None:
        path = ("events", event)
        actions = set(EventAction) - ELSEWHERE
        given, others = parted(value["do"])
        do = given[0] if len(given) == 1 else None
        if do not in actions:
            self._add((*path, "do"), *_undone(given, others, actions))
            return None
        if others and do in ALONE:
            self._add((*path, "do"), f"{others[0]!r} beside {do!r}", "such an event can do nothing else: take it out")
        if value.get("clears") and not others:
            expected = "name the resource to clear it from, as in do: [update patient, update encounter]"
            self._add((*path, "clears"), "nothing to clear", expected)
        absent, reactivate = value.get("if_absent") or "create", value.get("reactivate") or "no"
        if absent not in {"create", "hold", "ignore"}:
            self._add((*path, "if_absent"), f"found {absent!r}", "expected create, hold or ignore")
        each = value.get("each")
        if each not in {None, "PID"}:
            self._add((*path, "each"), f"found {each!r}", "expected PID")
        if reactivate not in {"yes", "no"}:
            self._add((*path, "reactivate"), f"found {reactivate!r}", "expected yes or no")
        sent = frozenset(listed(self._value.get(SENT)))
        acts = read_acts(others, sent, self._document, (*path, "do"), self._problems)
        verbs = {act.verb for act in acts}
        return EventRule(
            str(value.get("rule") or event),
            EventAction(do),
            absent == "create",
            reactivate == "yes",
            absent == "ignore",
            acts,
            Verb.MERGE in verbs,
            Verb.MOVE in verbs,
            tuple(listed(value.get("clears"))),
            each == "PID",
            thin=do == EventAction.IDENTIFY or bool(identity_acts(others)),
            unsent=tuple(name for name in identity_acts(others) if sent and name not in sent),
            finds=do == EventAction.IDENTIFY and absent == "hold",
        )

    def _historic(self) -> Historic | None:
        value = self._map(self._value, "historic")
        if not value:
            return None
        self._keys(("historic",), HISTORIC_KEYS, value)
        field = FIELD.fullmatch(str(value.get("field") or ""))
        if field is None or not value.get("value") or not value.get("rule"):
            self._add(("historic",), "incomplete", "write {field: ZBE-5, value: Y, rule: historic-movement}")
            return None
        return Historic(field[1], int(field[2]), str(value["value"]), EventRule(str(value["rule"]), EventAction.UPDATE))

    def _identity(self) -> IdentityRules:
        value = self._map(self._value, "identity")
        self._keys(("identity",), IDENTITY_KEYS, value)
        systems, not_identity = self._systems(value), frozenset(listed(value.get("not_identity")))
        fields, named = identity_fields(value.get(FROM) or "PID-3", not_identity, systems, self._add)
        prefer: list[Preference] = []
        wishes = value.get("prefer") or []
        for number, wish in enumerate(wishes if isinstance(wishes, list) else [wishes]):
            path = ("identity", "prefer", number)
            if not isinstance(wish, dict):
                self._add(path, f"found {kind_of(wish)}", "expected {authority: NAME, type: CODE}")
                continue
            self._keys(path, {"authority", "type"}, wish)
            line = Preference(wish.get("authority") or "", wish.get("type") or "")
            if any(_covers(earlier, line) for earlier in prefer):
                self._add(path, "an unreachable line", "an earlier one always matches first; reorder them")
            prefer.append(line)
        return IdentityRules(
            fields=fields,
            not_identity=not_identity,
            prefer=tuple(prefer),
            untyped=str(value.get("untyped") or ""),
            placeholders=frozenset(listed(value.get("placeholders"))),
            systems=systems,
            named=named,
            normalise=number_forms(self._map(value, NORMALISE, ("identity",)), self._add),
        )

    def _systems(self, value: dict[str, Any]) -> dict[str, str]:
        found = self._map(value, "systems", ("identity",))
        for type_, uri in found.items():
            if not URI.fullmatch(str(uri)):
                self._add(("identity", "systems", type_), f"found {uri!r}", "expected an absolute URI")
        return dict(found)

    def _people(self) -> People:
        value = self._map(self._value, "placeholder_people")
        self._keys(("placeholder_people",), PEOPLE_KEYS, value)
        for date in listed(value.get("birth_dates")):
            if not DATE.fullmatch(date):
                self._add(("placeholder_people", "birth_dates"), f"found {date!r}", "expected 1900-01-01")
        return People(
            frozenset(name.upper() for name in listed(value.get("names"))),
            tuple(name.upper() for name in listed(value.get("beginnings"))),
            frozenset(listed(value.get("birth_dates"))),
        )

    def _map(self, value: dict[str, Any], key: str, within: tuple[str, ...] = ()) -> dict[str, Any]:
        found = value.get(key)
        if found is None or isinstance(found, dict):
            return found or {}
        self._add((*within, key), f"found {kind_of(found)}", "expected a map")
        return {}
