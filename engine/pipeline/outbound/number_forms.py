"""Numbers that destinations know in another form than that in which they are searched (`normalise`)."""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from engine.config.channel import Channel
from engine.database.connection import Connection
from engine.deliver.verdict import OUT_OF_USE
from engine.fhir.plan import Identity
from engine.journal.entry import KnownIdentity
from engine.journal.file.sealing import NAMED
from engine.journal.journal import Journal
from engine.journal.state import number_forms
from engine.mapping.compile import Mapping as CompiledMapping
from engine.mapping.language.number_form import AS_IT_CAME, NumberForm
from engine.pipeline.feed import Feeds

PAGE: Final = 5000
Forms = Mapping[str, NumberForm]


@dataclass(slots=True)
class FormSurvey:
    """What forms make of the numbers known at a destination.

    Of those in use: `same`: how many are in their form; `other`: those that are not, by their form; `records`: the
    records of each form. `sealed`: how many are sealed, so that nothing is known of them.
    """

    same: int = 0
    sealed: int = 0
    other: dict[Identity, tuple[Identity, ...]] = field(default_factory=dict)
    records: dict[Identity, frozenset[str]] = field(default_factory=dict)

    @property
    def clashes(self) -> tuple[Identity, ...]:
        """The forms that numbers of several records have: charts that a person has to look at."""
        return tuple(formed for formed, ids in self.records.items() if len(ids) > 1)

    @property
    def changing(self) -> dict[Identity, tuple[Identity, ...]]:
        """The numbers in use that would be changed, by their form: those of one record each."""
        return {formed: sent for formed, sent in self.other.items() if len(self.records[formed]) == 1}

    def add(self, form: NumberForm, known: KnownIdentity) -> None:
        """Count a number."""
        if known.value.startswith(NAMED):
            self.sealed += 1
            return
        if known.status in OUT_OF_USE:
            return
        sent, formed = Identity(known.system, known.value), Identity(known.system, form.of(known.value))
        self.records[formed] = self.records.get(formed, frozenset()) | {known.logical_id}
        if sent == formed:
            self.same += 1
        else:
            self.other[formed] = (*self.other.get(formed, ()), sent)


@dataclass(frozen=True, slots=True)
class FormReport:
    """How the numbers of one system are searched, in force and by the files, and what that is to a destination.

    `in_force` and `by_files` are texts, empty for `as sent`.
    """

    destination: str
    system: str
    in_force: str
    by_files: str
    survey: FormSurvey

    @property
    def tells(self) -> bool:
        """Whether there is anything to say: known numbers, and another form, or charts that are not in theirs."""
        known = self.survey.same + self.survey.sealed + len(self.survey.records)
        return bool(known) and (self.in_force != self.by_files or bool(self.survey.other))

    def text(self) -> str:
        """Return what it means, in a line, without any number."""
        found = self.survey
        parts = [f"{self.system} at {self.destination}: {searched(self.in_force, self.by_files)}"]
        if found.sealed:
            parts.append(f"{found.sealed} known numbers are sealed and cannot be looked at")
        if found.same or found.records:
            others = sum(map(len, found.other.values()))
            parts.append(f"{found.same} known are in this form, {others} are not")
        if found.clashes:
            parts.append(f"{len(found.clashes)} numbers have several charts")
        if self.in_force and not self.by_files:
            parts.append("charts made under the rule are not found by other spellings")
        return "; ".join(parts)


def searched(before: str, after: str) -> str:
    """Return how numbers are searched, and were before, in words; empty forms are `as sent`."""
    was, will = before or "as sent", after or "as sent"
    return f"numbers are searched {will}" if was == will else f"numbers were searched {was}, will be searched {will}"


def survey(connection: Connection, destination: str, forms: Forms) -> FormSurvey:
    """Return what forms make of the numbers that a journal knows at a destination."""
    found = FormSurvey()
    for system, form in forms.items():
        for known in _numbers(connection, destination, system):
            found.add(form, known)
    return found


def reports(
    connection: Connection, channels: Mapping[str, Channel], mappings: Mapping[str, CompiledMapping]
) -> list[FormReport]:
    """Return a report for each destination and system that has a form, or had one, and of which there is anything."""
    before = number_forms.forms(connection)
    found: list[FormReport] = []
    for destination, forms in forms_at(channels, mappings).items():
        for system in dict.fromkeys((*before, *forms)):
            form = forms.get(system, AS_IT_CAME)
            looked = survey(connection, destination, {system: form})
            found.append(FormReport(destination, system, before.get(system, ""), form.text(), looked))
    return [one for one in found if one.tells]


def forms_at(
    channels: Mapping[str, Channel], mappings: Mapping[str, CompiledMapping]
) -> dict[str, dict[str, NumberForm]]:
    """Return the forms of all channels that write to each FHIR server; they are the same for one system."""
    found: dict[str, dict[str, NumberForm]] = {}
    for name, channel in channels.items():
        for server in channel.servers:
            found.setdefault(server.name, {}).update(mappings[name].number_forms)
    return found


def _numbers(connection: Connection, destination: str, system: str) -> Iterator[KnownIdentity]:
    after = ""
    while rows := _page(destination, system, after, connection):
        yield from rows
        after = rows[-1].value


class NumberForms:
    """The other forms of numbers that are known at each destination, read when feeds are put in force.

    Those in their form, which are most, are not kept.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: dict[tuple[str, Identity], tuple[Identity, ...]] = {}

    async def look(self, feeds: Feeds) -> None:
        """Read what is known in other forms at the destinations of these feeds."""
        used: dict[tuple[str, Identity], tuple[Identity, ...]] = {}
        unused: dict[tuple[str, Identity], tuple[Identity, ...]] = {}
        for destination, forms in forms_at(*_parts(feeds)).items():
            for system, form in forms.items():
                async for known in self._numbers(destination, system):
                    if known.value.startswith(NAMED) or (number := form.of(known.value)) == known.value:
                        continue
                    found, key = unused if known.status in OUT_OF_USE else used, (destination, Identity(system, number))
                    found[key] = (*found.get(key, ()), Identity(system, known.value))
        self._known = {key: (*used.get(key, ()), *unused.get(key, ())) for key in used.keys() | unused.keys()}

    async def _numbers(self, destination: str, system: str) -> AsyncIterator[KnownIdentity]:
        """Yield the numbers of a system, in pages: the journal writes between two of them."""
        after = ""
        while rows := await self._journal.read(partial(_page, destination, system, after)):
            for known in rows:
                yield known
            after = rows[-1].value

    async def keep(self, feeds: Feeds, now: datetime) -> None:
        """Note in the journal which forms are in force."""
        _, mappings = _parts(feeds)
        forms = {system: form.text() for one in mappings.values() for system, form in one.number_forms.items()}
        await self._journal.write(partial(number_forms.put_forms, now_in_force=forms, now=now))

    def of(self, destination: str, identity: Identity) -> tuple[Identity, ...]:
        """Return the other forms of a number at a destination; empty where none is known."""
        return self._known.get((destination, identity), ())


def _page(destination: str, system: str, after: str, connection: Connection) -> list[KnownIdentity]:
    return number_forms.numbers_of(connection, destination, system, after, PAGE)


def _parts(feeds: Feeds) -> tuple[dict[str, Channel], dict[str, CompiledMapping]]:
    return {name: feed.channel for name, feed in feeds.items()}, {name: feed.mapping for name, feed in feeds.items()}
