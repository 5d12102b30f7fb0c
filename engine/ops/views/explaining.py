"""Why a message comes out as it does under a mapping."""

from collections.abc import Callable
from dataclasses import asdict

from engine.config.channel import Channel
from engine.errors import MessageError
from engine.hl7.leaf import NULL
from engine.hl7.message import parse
from engine.mapping.authoring.explain import Explanation, WatchedMapping, explained_by
from engine.mapping.authoring.survey import Survey, identities_of
from engine.mapping.compile import MappingSource
from engine.mapping.files.reference import nearest


def explained(
    watch: Callable[[], WatchedMapping],
    channel: Channel,
    raw: bytes,
    element: str = "",
    field: str = "",
    *,
    charset: str = "UTF-8",
    event: str = "",
) -> dict[str, object]:
    """Return why a message comes out as it does; `error` alone where it cannot be read.

    `watch`: makes the mapping that is watched. With `element` or `field` of that alone. `event`: that of the journal,
    as of `read_message`.
    """
    try:
        message = parse(
            raw,
            charset=charset,
            undecodable="replace" if channel.undecodable == "replace" else "refuse",
            event_from_evn=channel.reads_evn(event),
        )
    except MessageError as error:
        return {"error": str(error)}
    watched = watch()
    source = watched.source
    found = explained_by(watched, message)
    survey = Survey(found.trace, source.documents)
    chosen = found.of_element(element) if element else found.of_field(field) if field else found.evidence
    made: dict[str, object] = {
        "event": message.trigger,
        "control_id": message.control_id,
        "action": found.outcome["action"],
        "rule": {"name": found.outcome["rule"], "file": found.file, "line": found.line},
        "mapping": found.hash,
        "elements": [asdict(one) for one in chosen if one.made is not None or element],
    }
    if (held := found.outcome.get("filter")) and held["send_to"]:
        made["sent_by"] = {"name": held["rule"], **{key: held[key] for key in ("file", "line", "send_to")}}
    if "error" in found.outcome:
        made["error"] = found.outcome["error"]
    if field:
        made["rules"] = _rules_of(found, source, field)
    if element and not chosen:
        rules = found.rules_for(element)
        made["rules"] = [{"file": file, "line": line, "reads": text} for file, line, text in rules]
        made["nearest"] = "" if rules else nearest(element, found.elements())
    if not element and not field:
        made["unread"] = [unread._asdict() for unread in survey.unread(message)]
        made["conditions"] = [asdict(condition) for condition in found.conditions]
        made["lines"] = [
            {**one._asdict(), "read": [{"source": source, "raw": raw} for source, raw in one.read]}
            for one in found.lines
        ]
    return made


def _rules_of(found: Explanation, source: MappingSource, field: str) -> list[dict[str, object]]:
    """Return where a mapping names a field, whether or not the message fills it."""
    wanted = field.partition(".")[0]
    named = [(read.scope, str(read.head)) for read in found.trace.reads]
    named += [(each.scope, f"each {each.source}") for each in found.trace.eaches]
    places = {
        (*scope.document.place(scope.path), text)
        for scope, text in named
        if text.removeprefix("each ").split("(")[0].split("[")[0].split(".")[0] == wanted
    }
    places |= set(identities_of(source.documents, wanted))
    return [{"file": file, "line": line, "reads": text} for file, line, text in sorted(places)]


def plain(value: object) -> str:
    """Return a null as HL7 writes it."""
    return '""' if value is NULL else str(value)
