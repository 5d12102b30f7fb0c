"""Operations that put edited mapping files in force, and take that back: where the installation allows it."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field

from engine.config.model import folded
from engine.errors import ConfigurationError, UsageError
from engine.ops.access.actor import Actor, Permission
from engine.ops.audit.trail import Audited
from engine.ops.operations.fields import Digests, EditedFiles, Reason, Switch, number
from engine.ops.operations.operation import Confirm, Operation
from engine.ops.operations.playground import CheckMapping, RunCases
from engine.ops.playground.site import checked_names, digest
from engine.ops.views.answer import moment_text
from engine.ops.views.playground import ProblemView, PublicationView
from engine.pipeline.engine import Engine
from engine.pipeline.inbound.event_entries import is_event
from engine.pipeline.publication import Publication, PublicationState, Texts, publications, text_of

MOST_SHOWN: Final = 20
PublicationNumber = Annotated[
    int,
    number(1),
    Field(json_schema_extra={"minimum": 1}, description="As `mappings.publications` numbers it."),
    Audited.VALUE,
]


class ListPublications(Operation[list[PublicationView]]):
    """List the mapping files that were put in force from here, the newest first."""

    name = "mappings.publications"
    permission = Permission.MAPPINGS

    async def run(self, engine: Engine, _actor: Actor) -> list[PublicationView]:
        """Return the newest twenty."""
        found = await asyncio.to_thread(publications, engine.files.data)
        return _views(found)[:MOST_SHOWN]


class PublishMappings(Operation[PublicationView]):
    """Put edited mapping files in force: checked, their cases run, written together, and reloaded."""

    name = "mappings.publish"
    permission = Permission.PUBLISH
    confirm = Confirm.STEP_UP

    edited: EditedFiles = Field(default_factory=dict)
    base: Digests = Field(default_factory=dict)
    accept_lost: Switch = Field(
        default=False,
        description="Put them in force although elements are made no longer (`lost` of `mappings.run-cases`).",
    )
    reason: Reason = ""

    async def run(self, engine: Engine, actor: Actor) -> PublicationView:
        """Return the publication; UsageError, with nothing changed, for what is wrong with files or cases."""
        folder = _folder(engine)
        checked_names(self.edited)
        if not self.edited:
            raise UsageError("nothing is edited: open a file and change it first")
        if not self.reason.strip():
            raise UsageError("say why: the reason is recorded with the files")
        before = await asyncio.to_thread(_texts, folder, self.edited)
        stale = [name for name, text in before.items() if _mark(text) != self.base.get(name)]
        if stale:
            raise UsageError(
                f"{', '.join(stale)} changed since you opened it: open it again and put your edit into that"
            )
        lost = await _tested(engine, actor, self.edited)
        if lost and not self.accept_lost:
            raise UsageError(
                f"nothing was changed: {len(lost)} elements would be made no longer ({folded(lost)}): run the test "
                "cases to see them all; where that is meant, say so (accept_lost) and put the files in force again"
            )
        after = {name: text.replace("\r\n", "\n") for name, text in self.edited.items()}
        return await _published(engine, folder, actor, self.reason, before, after)


class TakeBack(Operation[PublicationView]):
    """Take back the newest mapping files that were put in force: the ones before are written and reloaded."""

    name = "mappings.take-back"
    permission = Permission.PUBLISH

    publication: PublicationNumber

    async def run(self, engine: Engine, actor: Actor) -> PublicationView:
        """Return the publication of the files before; UsageError where something newer is in force."""
        folder = _folder(engine)
        newest = _newest(await asyncio.to_thread(publications, engine.files.data))
        if newest is None or newest.number != self.publication or newest.folder != str(folder):
            raise UsageError("only the newest publication can be taken back; `mappings.publications` lists them")
        reason = f"takes back {newest.number}"
        return await _published(engine, folder, actor, reason, newest.after, newest.before, newest.number)


def _folder(engine: Engine) -> Path:
    """Return the folder that may be written; UsageError where the installation does not allow it."""
    if not engine.files.publish or engine.files.mappings is None:
        raise UsageError(
            "this installation takes mapping files from its folder alone (`run --publish-mappings` allows more): "
            "download the files, put them there and reload"
        )
    if engine.journal.is_shared:
        raise UsageError(
            "several nodes share this journal, and each reads mapping files of its own: download the files, put them "
            "on every node and reload each"
        )
    return engine.files.mappings.resolve()


def _texts(folder: Path, names: Mapping[str, str]) -> Texts:
    return {name: text_of(folder, name) for name in names}


def _mark(text: str | None) -> str:
    return "" if text is None else digest(text.encode())


async def _tested(engine: Engine, actor: Actor, edited: Mapping[str, str]) -> list[str]:
    """Return the elements that are made no longer, by any of the mappings in use.

    UsageError where the files do not compile on a channel, or a case of one of its mappings differs. The cases are run
    once a mapping, the newest messages are those of each channel.
    """
    seen: set[str] = set()
    lost: dict[str, None] = {}
    for name, feed in sorted(engine.feeds.items()):
        if is_event(feed.channel):
            continue
        for destination in ("", *feed.channel.own_mappings):
            mapping = feed.channel.mapping_at(destination)
            asked: dict[str, Any] = {"channel": name, "destination": destination, "edited": edited}
            _refuse(tuple((await CheckMapping(**asked).run(engine, actor)).problems))
            made = await RunCases(**asked).tested(engine, cases=mapping not in seen)
            _refuse(made.problems)
            lost |= dict.fromkeys(one.element for one in made.lost)
            if made.failed:
                named = [f"{one.file}:{one.line} {one.case}" for one in made.failed]
                raise UsageError(
                    f"nothing was changed: {len(made.failed)} cases differ ({folded(named)}); run the test cases to "
                    "see how"
                )
            seen.add(mapping)
    return list(lost)


def _refuse(problems: tuple[ProblemView, ...]) -> None:
    """UsageError with the first of the problems of files, where there is one."""
    if problems:
        first = problems[0]
        raise UsageError(
            f"nothing was changed: {first.file}:{first.line}:{first.column} {first.path}: {first.found}; "
            f"{first.expected} ({len(problems)} in all)"
        )


async def _published(
    engine: Engine, folder: Path, actor: Actor, reason: str, before: Texts, after: Texts, undoes: int = 0
) -> PublicationView:
    there = await asyncio.to_thread(publications, engine.files.data)
    newest = there[0].number if there else 0
    at = moment_text(engine.now())
    made = Publication(newest + 1, at, actor.name, reason, str(folder), before, after, undoes=undoes)
    try:
        await engine.publish(made)
    except ConfigurationError as error:
        raise UsageError(f"nothing was changed:\n{error}") from error
    found = _views(await asyncio.to_thread(publications, engine.files.data))
    return next(one for one in found if one.number == made.number)


def _newest(found: list[Publication]) -> Publication | None:
    """Return the one that can be taken back: what is in force since."""
    return next((one for one in found if one.state is PublicationState.IN_FORCE), None)


def _views(found: list[Publication]) -> list[PublicationView]:
    newest = _newest(found)
    return [PublicationView.of(one, files=tuple(one.after), can_be_taken_back=one is newest) for one in found]


PUBLISHING: Final = (ListPublications, PublishMappings, TakeBack)
