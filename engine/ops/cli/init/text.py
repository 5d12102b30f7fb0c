"""A channel file as a person would write it, of answers: few keys, each with the reason for it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from engine.config.channel import Channel
from engine.config.destination import Destination
from engine.config.schema import editor_line
from engine.config.source import look, parse
from engine.mapping.authoring.draft_text import quoted
from engine.ops.cli.init.questions import BY_TOKEN, NO_TLS, SECRETS, TEST, Answer

# Criteria of the conditional create where the server finds nobody by identifiers that it has not seen.
BY_DEMOGRAPHICS: Final = "demographics"
# Addresses, paths, names and senders, which are written in YAML as they are.
_PLAIN: Final = re.compile(r"(?!.*:[,\[\]{}])[A-Za-z0-9/][A-Za-z0-9./:@%+*|^_-]*[A-Za-z0-9/*](?<!null)", re.IGNORECASE)


def channel_text(answers: Mapping[str, Answer]) -> str:
    """Return the file; ConfigurationError is for its reader."""
    text = "\n".join(_lines(answers, "")) + "\n"
    # Which criteria a server takes is the destination's to know.
    value = look(parse(text, "x"), Channel).value
    if value is not None and _doubts_identifier(value.destinations[0]):
        text = "\n".join(_lines(answers, BY_DEMOGRAPHICS)) + "\n"
    return text


def _doubts_identifier(destination: Destination) -> bool:
    return any(path == ("if_none_exist",) for path, _, _ in destination.warnings())


def _lines(answers: Mapping[str, Answer], criteria: str) -> Iterator[str]:
    yield editor_line("channel")
    yield "# Made by `adt-engine channels init`. Every key is explained by `adt-engine help channels`; after a change:"
    yield "# `adt-engine channels check`, then `adt-engine channels reload`."
    yield f"channel: {_text(answers['name'])}"
    if answers["contact"]:
        yield f"contact: {_text(answers['contact'])}"
    if answers["mode"] != "live":
        yield "# Everything is done but the writes; `mode: live`, or no such line, goes live."
        yield f"mode: {answers['mode']}"
    yield ""
    yield from _listener(answers)
    yield ""
    yield "# Of times without an offset."
    yield f"timezone: {_text(answers['timezone'])}"
    yield from _authorities(answers["authority"])
    yield "# Whether A40 and its family may merge patients; otherwise they are refused."
    yield f"allow_merge: {'true' if answers['allow_merge'] else 'false'}"
    yield f"mapping: {_text(answers['mapping'])}"
    yield ""
    yield from _destination(answers, criteria)


def _listener(answers: Mapping[str, Answer]) -> Iterator[str]:
    yield "listen:"
    yield "  mllp:"
    yield f"    host: {_text(answers['host'])}"
    yield f"    port: {answers['port']}"
    if answers["tls"] != NO_TLS:
        if answers["tls"] == TEST:
            yield "    # Self-signed, for trying only: before real messages come, name a certificate of an authority."
        yield "    tls:"
        yield f"      certificate: {_text(answers['certificate'])}"
        yield f"      key: {_text(answers['key'])}"
        if answers.get("client_ca"):
            yield "      # Who shows no certificate of this authority is turned away."
            yield f"      client_ca: {_text(answers['client_ca'])}"
    if answers["allow"]:
        yield "# Nobody else may connect."
        yield f"allow: [{', '.join(map(_text, _several(answers['allow'])))}]"
    if answers["source"]:
        yield "# Who may send, as MSH-3|MSH-4; messages of any other sender are refused (AE 103)."
        yield "sources:"
        yield from (f"  - {_text(one)}" for one in _several(answers["source"]))


def _authorities(answer: Answer) -> Iterator[str]:
    if not answer:
        yield "# Whose numbers these are on the FHIR server, by CX.4; by default the engine makes a system of each."
        yield "# authorities: {HOSP: https://mrn.hospital.example}"
        return
    yield "# Assigning authority (CX.4) to identifier system."
    yield "authorities:"
    for name, _, system in (one.partition("=") for one in _several(answer)):
        yield f"  {_text(name)}: {_text(system)}"


def _destination(answers: Mapping[str, Answer], criteria: str) -> Iterator[str]:
    yield "destinations:"
    yield f"  - name: {_text(answers['destination'])}"
    yield f"    fhir: {answers['fhir']}"
    yield f"    base_url: {_text(answers['base_url'])}"
    if criteria:
        yield "    # The service finds a patient whose number is new by demographics."
        yield f"    if_none_exist: {criteria}"
    kind = str(answers["auth"])
    if kind not in SECRETS:
        return
    yield "    auth:"
    yield f"      type: {kind}"
    if kind in BY_TOKEN:
        yield f"      token_url: {_text(answers['token_url'])}"
        yield f"      client_id: {_text(answers['client_id'])}"
    place, _, name = str(answers["secret"]).partition(":")
    yield f"      {SECRETS[kind]}: {{{place}: {_text(name)}}}"
    if kind in BY_TOKEN and answers["scope"]:
        yield f"      scope: {_text(answers['scope'])}"


def _text(answer: Answer) -> str:
    """Return a text as a person would write it: in quotes only where YAML needs them."""
    text = str(answer)
    return text if _PLAIN.fullmatch(text) else quoted(text)


def _several(answer: Answer) -> Sequence[str]:
    return answer if isinstance(answer, list) else [str(answer)]
