"""The mapping playground: a message and edits of mapping files, and what comes of them; nothing typed here is kept.

All that was typed comes with each form and goes back with its answer, so that it works without scripts; with them, the
parts of the page are exchanged by themselves.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Final, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import orjson
from starlette.responses import HTMLResponse, Response

from engine.errors import UsageError, WorkerError
from engine.mapping.authoring.schema import FOLDERS
from engine.mapping.files.document import KEYS, NAMED, SHIPPED
from engine.ops.access.actor import Permission
from engine.ops.operations.fields import digits_of
from engine.ops.operations.messages import ShowMessage
from engine.ops.operations.playground import (
    CheckMapping,
    CompareMapping,
    CompleteMapping,
    ExplainWord,
    ListMappingFiles,
    RunCases,
    ShowMappingFile,
    TryMapping,
)
from engine.ops.operations.publishing import ListPublications, PublishMappings, TakeBack
from engine.ops.operations.sharing import DeleteShared, ListShared
from engine.ops.playground.site import NAME
from engine.ops.views.playground import Planned, Tried
from engine.ops.web.call import WebCall, form, go, numbered
from engine.ops.web.refusal import RefusedRequestError, status_of
from engine.ops.web.route import Route
from engine.pipeline.inbound.event_entries import is_event

EDIT: Final = "edit:"
# The digest of a file as it was when it was opened, so that nobody's later version is overwritten.
BASE: Final = "base:"
MOST_LINES: Final = 6_000
COMPARED: Final = (50, 200, 1_000)
# The day that files of an archive bear: it says nothing, and two downloads of the same are the same.
THEN: Final = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Draft:
    """What was typed: a message, as on a channel; the file that is open with its text; other files that were edited."""

    message: str = ""
    channel: str = ""
    path: str = ""
    text: str = ""
    edits: Mapping[str, str] = field(default_factory=dict)
    bases: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    destination: str = ""

    @property
    def is_shipped(self) -> bool:
        """Whether the open file ships with the engine: it is read, and not edited."""
        return self.path.startswith(SHIPPED)


class JsonLine(NamedTuple):
    """A line of a resource as JSON: the text before a value, the value with the place of its origin, what follows.

    `path`: of a value its path, `name[0].family`.
    """

    before: str
    value: str = ""
    after: str = ""
    path: str = ""
    origin: int | None = None


async def _show(call: WebCall) -> Response:
    """Show an empty page, or one with the message of an entry, for actors who may see it."""
    draft = Draft()
    if number := call.asked("entry"):
        entry = await call.perform(ShowMessage, entry=numbered("entry", number, 404))
        draft = replace(draft, message=entry.message.replace("\r", "\n"), channel=entry.channel)
    if number := call.asked("shared"):
        wanted = numbered("shared", number, 404)
        copy = next((one for one in await call.perform(ListShared) if one.number == wanted), None)
        if copy is None:
            raise RefusedRequestError(404, "this message is shared no longer")
        draft = replace(draft, message=copy.text, channel=copy.channel)
    if call.asked("path"):
        draft = await _opened(call, draft, call.asked("path"))
    return await _page(call, draft)


def _working(view: Callable[[WebCall, Draft], Awaitable[Response]]) -> Callable[[WebCall], Awaitable[Response]]:
    """Return a view of what was typed, which is still there where it cannot be done; the reason is above it."""

    async def answer(call: WebCall) -> Response:
        draft = await _draft(call)
        try:
            return await view(call, draft)
        except (UsageError, WorkerError) as error:
            if call.is_part:  # a script puts into its page only what it asked for and got
                return HTMLResponse(await call.part("parts/alarm.html", alarm=str(error)))
            return await _page(call, draft, alarm=str(error), status=status_of(error))

    return answer


async def _try(call: WebCall, draft: Draft) -> Response:
    made = await call.perform(TryMapping, **_given(draft), message=draft.message)
    resources = [(one.interaction, one.resource.get("resourceType", ""), _lines(one)) for one in made.plan]
    return await _result(call, draft, "tried", made=made, resources=resources, read_by=_read_by(made))


async def _test(call: WebCall, draft: Draft) -> Response:
    return await _result(call, draft, "tested", made=await call.perform(RunCases, **_given(draft)))


async def _check(call: WebCall) -> Response:
    """Answer with the problems of the files, for the editor."""
    draft = await _draft(call)
    made = await call.perform(CheckMapping, **_given(draft))
    return Response(orjson.dumps([problem.model_dump() for problem in made.problems]), media_type="application/json")


async def _compare(call: WebCall, draft: Draft) -> Response:
    limit = call.form.get("limit", "")
    count = int(limit) if limit in {str(one) for one in COMPARED} else COMPARED[0]
    return await _result(call, draft, "compared", made=await call.perform(CompareMapping, **_given(draft), limit=count))


async def _open(call: WebCall) -> Response:
    """Open another file; what was edited of the one that was open is kept on the page."""
    draft = await _draft(call)
    wanted = call.form.get("new", "").strip() or call.form.get("wanted", "")
    return await _editor(call, await _opened(call, draft, wanted))


async def _own(call: WebCall) -> Response:
    """Begin a file of the site's own that extends the shipped one which is open."""
    draft = await _draft(call)
    inner = draft.path.removeprefix(SHIPPED)
    if not draft.is_shipped or not NAME.fullmatch(inner):
        raise RefusedRequestError(422, "open a file that ships with the engine first")
    opened = await _opened(call, draft, inner)
    return await _editor(call, opened if opened.text else replace(opened, text=_beginning(inner)))


async def _forget(call: WebCall) -> Response:
    """Open the file as it is on the disk, without what was edited of it."""
    draft = await _draft(call)
    edits = {path: text for path, text in draft.edits.items() if path != draft.path}
    return await _editor(call, await _opened(call, replace(draft, edits=edits), draft.path))


async def _download(_call: WebCall, draft: Draft) -> Response:
    """Answer with the edited files: one as it is, several as an archive with their folders."""
    if not draft.edits:
        raise UsageError("nothing is edited: open a file and change it first")
    if len(draft.edits) == 1:
        ((path, text),) = draft.edits.items()
        return _file(path.rpartition("/")[2], text.encode(), "application/yaml")
    archive = BytesIO()
    with ZipFile(archive, "w", ZIP_DEFLATED) as made:
        for path, text in sorted(draft.edits.items()):
            made.writestr(ZipInfo(path, THEN), text)
    return _file("mappings.zip", archive.getvalue(), "application/zip")


async def _publish(call: WebCall, draft: Draft) -> Response:
    """Put the edited files in force, and show the page without edits."""
    bases = {path: draft.bases.get(path, "") for path in draft.edits}
    given = {"edited": dict(draft.edits), "base": bases, "reason": call.form.get("reason", "")}
    await call.perform(PublishMappings, **given, accept_lost="accept_lost" in call.form)
    return go("/playground", "published")


async def _take_back(call: WebCall, _draft: Draft) -> Response:
    await call.perform(TakeBack, publication=digits_of(call.form.get("publication", "")) or 0)
    return go("/playground", "taken-back")


async def _complete(call: WebCall) -> Response:
    """Answer with what may be written at the cursor, for the editor."""
    draft = await _draft(call)
    made = await call.perform(CompleteMapping, **_given(draft), **_cursor(call, draft))
    return Response(made.model_dump_json(), media_type="application/json")


async def _word(call: WebCall) -> Response:
    """Answer with what is said of the word at the cursor, for the editor."""
    draft = await _draft(call)
    made = await call.perform(ExplainWord, **_given(draft), **_cursor(call, draft), message=draft.message)
    return Response(made.model_dump_json(), media_type="application/json")


def _cursor(call: WebCall, draft: Draft) -> dict[str, object]:
    """Return the open file, its text, and where the cursor is in it."""
    at = {name: digits_of(call.form.get(name, "")) or 1 for name in ("line", "column")}
    return {"path": draft.path, "text": draft.text, **at}


async def _draft(call: WebCall) -> Draft:
    """Return what a form holds; the open file is edited where its text is another than on the disk."""
    form = call.form
    edits = {name[len(EDIT) :]: _lf(text) for name, text in form.items() if name.startswith(EDIT)}
    bases = {name[len(BASE) :]: mark for name, mark in form.items() if name.startswith(BASE)}
    message, channel, path, text = (_lf(form.get(name, "")) for name in ("message", "channel", "path", "text"))
    draft = Draft(message, channel, path, text, edits, bases, destination=form.get("destination", ""))
    if not draft.path or draft.is_shipped:
        return draft
    there, _ = await _on_disk(call, draft.path)
    edits = {path: text for path, text in edits.items() if path != draft.path}
    return replace(draft, edits=edits if draft.text == there else {**edits, draft.path: draft.text})


async def _opened(call: WebCall, draft: Draft, path: str) -> Draft:
    """Return a draft in which a file is open, as it was edited or else as it is."""
    if not NAME.fullmatch(path.removeprefix(SHIPPED)):
        raise RefusedRequestError(422, "name a file such as resources/patient.yaml, or tables/ours.yaml for a new one")
    at = digits_of(call.form.get("line", "") or call.asked("line")) or 0
    if path in draft.edits:
        return replace(draft, path=path, text=draft.edits[path], line=at)
    text, mark = await _on_disk(call, path)
    return replace(draft, path=path, text=text, bases={**draft.bases, path: mark}, line=at)


async def _on_disk(call: WebCall, path: str) -> tuple[str, str]:
    """Return the text of a file and its mark, both empty for one that is not there yet."""
    try:
        found = await call.perform(ShowMappingFile, path=path)
    except UsageError:
        return "", ""
    return _lf(found.text), found.digest


async def _page(
    call: WebCall, draft: Draft, result: str = "", alarm: str = "", status: int = 200, **values: object
) -> Response:
    shown = {**await _values(call, draft), **values, "result": result, "alarm": alarm}
    return await call.page("playground.html", status, **shown)


async def _editor(call: WebCall, draft: Draft) -> Response:
    if call.is_part:
        return HTMLResponse(await call.part("parts/editor.html", **await _values(call, draft)))
    return await _page(call, draft)


async def _result(call: WebCall, draft: Draft, result: str, **values: Any) -> Response:
    """Answer with what came of it: for a script as a part, else below what was typed."""
    problems = orjson.dumps([problem.model_dump() for problem in values["made"].problems]).decode()
    if call.is_part:
        return HTMLResponse(await call.part(f"parts/{result}.html", problems=problems, **values))
    return await _page(call, draft, result, problems=problems, **values)


async def _values(call: WebCall, draft: Draft) -> dict[str, object]:
    files = [one.path for one in await call.perform(ListMappingFiles)]
    numbers = list(enumerate(draft.text.splitlines(), 1)) if draft.is_shipped else []
    kind = FOLDERS.get(Path(draft.path).parent.name, "mapping")
    return {
        "draft": draft, "files": files, "kind": kind, "numbered": numbers,
        "channels": sorted(name for name, feed in call.context.engine.feeds.items() if not is_event(feed.channel)),
        "own": {name: feed.channel.own_mappings for name, feed in sorted(call.context.engine.feeds.items())},
        "counts": COMPARED, "others": {path: text for path, text in draft.edits.items() if path != draft.path},
        "kept": {path: mark for path, mark in draft.bases.items() if path == draft.path or path in draft.edits},
        "publishes": call.context.engine.files.publish, "publications": await call.perform(ListPublications),
        "shared": await call.perform(ListShared),
    }  # fmt: skip


def _given(draft: Draft) -> dict[str, object]:
    return {"channel": draft.channel, "destination": draft.destination, "edited": dict(draft.edits)}


def _beginning(path: str) -> str:
    """Return the first lines of a site's file that extends the shipped one."""
    folder, name = Path(path).parent.name, Path(path).name
    stem, kind = name.removesuffix(".yaml"), FOLDERS.get(folder, "mapping")
    if kind not in NAMED:
        return "tests:\n"
    key = KEYS.get(folder, "mapping")
    return f"{key}: {NAMED[kind](stem)}\nextends: {SHIPPED}{f'{folder}/' if folder else ''}{stem}\n"


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _file(name: str, content: bytes, kind: str) -> Response:
    return Response(content, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'})


def _read_by(made: Tried) -> dict[str, int]:
    """Return of each field that was read the place of the first element that it went into."""
    found: dict[str, int] = {}
    for place, one in enumerate(made.elements):
        field = one.source.split(".")[0].split("(")[0].split("[")[0]
        if field:
            found.setdefault(f"{field} {one.segment}", place)
    return found


def _lines(planned: Planned) -> list[JsonLine]:
    """Return a resource line by line, as many as a page shows."""
    found: list[JsonLine] = []
    for line in _json(planned.resource, planned.origins, "", 0, "", ""):
        found.append(line)
        if len(found) == MOST_LINES:
            return [*found, JsonLine("...")]
    return found


def _json(value: Any, origins: Mapping[str, int], path: str, depth: int, name: str, comma: str) -> Iterator[JsonLine]:
    margin = "  " * depth + name
    if isinstance(value, dict) and value:
        yield JsonLine(f"{margin}{{")
        last = len(value) - 1
        for number, (key, part) in enumerate(value.items()):
            inner = f"{path}.{key}" if path else key
            yield from _json(part, origins, inner, depth + 1, f'"{key}": ', "," if number < last else "")
        yield JsonLine("  " * depth + "}" + comma)
    elif isinstance(value, list) and value:
        yield JsonLine(f"{margin}[")
        for number, part in enumerate(value):
            end = "," if number < len(value) - 1 else ""
            yield from _json(part, origins, f"{path}[{number}]", depth + 1, "", end)
        yield JsonLine("  " * depth + "]" + comma)
    else:
        yield JsonLine(margin, orjson.dumps(value).decode(), comma, path, origins.get(path))


ROUTES: Final = (
    Route("GET", "/playground", Permission.MAPPINGS, _show, label="Mapping playground"),
    Route("POST", "/playground/open", Permission.MAPPINGS, _open),
    Route("POST", "/playground/own", Permission.MAPPINGS, _own),
    Route("POST", "/playground/forget", Permission.MAPPINGS, _forget),
    Route("POST", "/playground/check", Permission.MAPPINGS, _check),
    Route("POST", "/playground/complete", Permission.MAPPINGS, _complete),
    Route("POST", "/playground/word", Permission.MAPPINGS, _word),
    Route("POST", "/playground/try", Permission.MAPPINGS, _working(_try)),
    Route("POST", "/playground/test", Permission.MAPPINGS, _working(_test)),
    Route("POST", "/playground/compare", Permission.PHI, _working(_compare)),
    Route("POST", "/playground/download", Permission.MAPPINGS, _working(_download)),
    Route("POST", "/playground/publish", Permission.PUBLISH, _working(_publish)),
    Route("POST", "/playground/take-back", Permission.PUBLISH, _working(_take_back)),
    form("/playground/shared/{shared}/delete", DeleteShared, to="/playground", notice="unshared"),
)
