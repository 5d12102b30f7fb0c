"""The questions of `channels init` with their reasons and defaults, and the channel file that their answers make."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, get_args
from urllib.parse import urlsplit

from pydantic import TypeAdapter, ValidationError

from engine.config.channel import Channel
from engine.config.destination import Destination
from engine.config.fhir_events import HISTORY, SUBSCRIPTION, WEBHOOK, OutgoingVersion
from engine.config.model import Step, field_at, words
from engine.config.network import is_loopback
from engine.config.profile import GENERIC, NAMES, Profile, guessed, profile_of
from engine.config.relay import MLLP, Relay
from engine.config.schema import editor_line
from engine.config.source import look, parse
from engine.mapping.authoring.draft_channel import FIRST_PORT
from engine.mapping.authoring.draft_text import quoted

Answer = str | bool | list[str]
Answers = Mapping[str, Answer]

SHIPPED: Final = "shipped"
# What each source of events is, for a choice.
EVENTS: Final[Mapping[str, str]] = {
    HISTORY: "the engine asks for the server's history every two seconds",
    SUBSCRIPTION: "the server sends them, and the engine asks each minute for what did not come",
    WEBHOOK: "the server sends them, by a Subscription that you make",
}
# Answers that name where a secret is.
SECRETS: Final = ("secret", "events_token")
NO_TLS: Final = "none"
FILES: Final = "files"
TEST: Final = "test"
TLS: Final = (NO_TLS, FILES, TEST)
_OF_A_CLIENT: Final = {"token_url": "token_url", "client_id": "client_id"}
# What a kind of credentials is asked for, and the key of `auth` that the answer goes to.
AUTH_KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    "client_credentials": {**_OF_A_CLIENT, "secret": "client_secret", "scope": "scope"},
    "bearer": {"secret": "token"},
    "basic": {"username": "username", "secret": "password"},
    "private_key_jwt": {**_OF_A_CLIENT, "secret": "private_key", "scope": "scope"},
    "refresh_token": {**_OF_A_CLIENT, "secret": "refresh_token", "scope": "scope"},
    "entra_certificate": {
        **_OF_A_CLIENT, "auth_certificate": "certificate", "secret": "private_key", "scope": "scope",
    },
    "managed_identity": {"audience": "audience"},
    "google_service_account": {"secret": "key_file"},
    "google_metadata": {},
    "aws_sigv4": {"region": "region"},
}  # fmt: skip
# What each kind of credentials is, for a choice.
KINDS: Final[Mapping[str, str]] = {
    "none": "nobody signs in",
    "client_credentials": "OAuth2 with a client secret",
    "bearer": "a token that stays the same",
    "basic": "name and password",
    "private_key_jwt": "OAuth2 with a private key, as SMART backend services",
    "refresh_token": "OAuth2 with a refresh token",
    "entra_certificate": "Entra ID with a certificate",
    "managed_identity": "the identity of this machine in Azure",
    "google_service_account": "the JSON key of a service account",
    "google_metadata": "the identity of this machine at Google",
    "aws_sigv4": "an AWS access key, or the role of this machine",
}
# The FHIR base of the shipped service.
_OUR_PATH: Final = "/fhir/R4"
_REGION: Final = re.compile(r"healthlake\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
ZONES: Final = "zoneinfo/"


class Prompt(NamedTuple):
    """One question. `path`: the key that is answered, whose model checks it; `default` None: it must be answered.

    `kind`: a text, a list of texts, or yes and no. Questions whose `when` says no are not asked. `choices`: what a
    person is shown to choose from, each with what it is.
    """

    name: str
    text: str
    why: str
    path: tuple[Step, ...]
    default: Callable[[Answers], Answer | None]
    when: Callable[[Answers], bool] = lambda _answers: True
    kind: type = str
    choices: Callable[[Answers], Mapping[str, str]] = lambda _answers: {}

    @property
    def option(self) -> str:
        """The option that answers it."""
        return f"--{self.name.replace('_', '-')}"


def _is(value: Answer | None) -> Callable[[Answers], Answer | None]:
    return lambda _answers: value


def _here(answers: Answers) -> bool:
    return is_loopback(str(answers["host"]))


def _from_fhir(answers: Answers) -> bool:
    return bool(answers.get("from_fhir"))


def _of_messages(answers: Answers) -> bool:
    return not _from_fhir(answers)


def _by_subscription(answers: Answers) -> bool:
    return answers.get("events") == SUBSCRIPTION


def _with_files(answers: Answers) -> bool:
    return answers.get("tls") == FILES


def _asks_for(question: str) -> Callable[[Answers], bool]:
    """Return whether the kind of credentials that was answered is asked for something."""
    return lambda answers: question in AUTH_KEYS.get(str(answers.get("auth", "")), {})


def _has_server(answers: Answers) -> bool:
    return bool(_base(answers))


def _scope(answers: Answers) -> str:
    """Return the scope of most servers, or the one that Entra gives tokens for a server by."""
    by_entra = answers.get("auth") == "entra_certificate" or answers.get("profile") == "azure"
    return f"{_base(answers)}/.default" if by_entra else "system/*.*"


def _base(answers: Answers) -> str:
    return str(answers.get("base_url", ""))


def _token_url(answers: Answers) -> str | None:
    """Return where the server has its token endpoint; None where neither its profile nor its layout says that."""
    base, named = urlsplit(str(answers["base_url"])), _profile(answers)
    path = named.token_path
    if named.profile == GENERIC and base.path.rstrip("/") in {"/fhir", _OUR_PATH}:
        path = profile_of(SHIPPED).token_path
    return f"{base.scheme}://{base.netloc}{path}" if path else None


def _profile(answers: Answers) -> Profile:
    return profile_of(str(answers.get("profile") or GENERIC))


def _guessed(answers: Answers) -> str:
    """Return the profile that the address speaks for: by its host, or as the shipped service on this machine."""
    base = urlsplit(_base(answers))
    if found := guessed("", _base(answers)):
        return found
    return SHIPPED if base.path.rstrip("/") == _OUR_PATH and is_loopback(base.hostname or "") else GENERIC


def _kinds(answers: Answers) -> Mapping[str, str]:
    """Return the kinds of credentials that the server usually takes, the usual one first."""
    return {kind: KINDS[kind] for kind in _profile(answers).sign_in or KINDS}


def _region(answers: Answers) -> str | None:
    found = _REGION.fullmatch(urlsplit(_base(answers)).hostname or "")
    return found[1] if found else None


def machine_zone(_answers: Answers) -> str:
    """Return this machine's time zone, as far as its files say."""
    name = str(Path("/etc/localtime").resolve()).partition(ZONES)[2]
    return name if name and not fault_of(("timezone",), name) else "UTC"


def free_port(ports: Collection[int]) -> int:
    """Return the first port from 2575 on that is not among `ports`."""
    return next(port for port in range(FIRST_PORT, 65_536) if port not in ports)


def questions(ports: Sequence[int]) -> tuple[Prompt, ...]:
    """Return all questions, in their order; `ports` are those that other channels have."""
    destination: tuple[Step, ...] = ("destinations", 0)
    auth = (*destination, "auth")
    return (
        Prompt("name", "Name of the channel", "It names the file, and appears in pages, metrics and commands.",
                 ("channel",), _is(None)),
        Prompt("contact", "Whom to call about this feed", "It is shown with its alerts.", ("contact",), _is("")),
        Prompt("from_fhir", "Is it for what changes on a FHIR server",
                 "Yes: old systems are told of that by ADT messages; no: it takes the messages of a feed.",
                 ("listen", "fhir"), _is(value=False), kind=bool),
        Prompt("events", f"Who brings the events ({', '.join(EVENTS)})", "Its history misses the least.",
                 ("listen", "fhir", "source"), _is(HISTORY), _from_fhir, choices=lambda _: EVENTS),
        Prompt("endpoint", "This engine's address as that server reaches it", "Of the pages, without the path.",
                 ("listen", "fhir", "endpoint"), _is(None), _by_subscription),
        Prompt("events_token", "API token that the server is to send (env:NAME or file:PATH)",
                 "Of a sender of this engine; the file refers to it and never holds it.",
                 ("listen", "fhir", "token"), _is("env:EVENTS_TOKEN"), _by_subscription),
        Prompt("host", "Address to listen on",
                 "127.0.0.1 is for senders on this machine; 0.0.0.0 lets others in, by TLS and from listed networks.",
                 ("listen", "mllp", "host"), _is("127.0.0.1"), _of_messages),
        Prompt("port", "Port", "Where senders connect; the first from 2575 on that no other channel here has.",
                 ("listen", "mllp", "port"), _is(str(free_port(ports))), _of_messages),
        Prompt("tls", f"TLS ({', '.join(TLS)})",
                 "files: a certificate and key that you have; test: both are made now, self-signed, for trying only.",
                 (), lambda answers: NO_TLS if _here(answers) else FILES, _of_messages),
        Prompt("certificate", "Certificate chain (PEM)", "What the listener shows to senders.",
                 ("listen", "mllp", "tls", "certificate"), _is(None), _with_files),
        Prompt("key", "Private key of it (PEM)", "Readable by the engine's user only.",
                 ("listen", "mllp", "tls", "key"), _is(None), _with_files),
        Prompt("client_ca", "Authority of client certificates (PEM)",
                 "With it only senders that show a certificate of that authority get in (mutual TLS); empty: all.",
                 ("listen", "mllp", "tls", "client_ca"), _is(""), _with_files),
        Prompt("allow", "Networks that may connect (CIDR)", "Anybody else is turned away before a byte is read.",
                 ("allow",), lambda answers: ["127.0.0.0/8"] if _here(answers) else None, _of_messages, list),
        Prompt("source", "Senders (MSH-3|MSH-4)", "Messages of any other sender are refused; empty: all are taken.",
                 ("sources",), _is([]), _of_messages, list),
        Prompt("timezone", "Time zone of the messages", "Of times without an offset: a wrong one shifts each visit.",
                 ("timezone",), machine_zone),
        Prompt("authority", "Assigning authorities (CX.4=identifier system)",
                 "Whose numbers these are on the FHIR server, such as HOSP=https://mrn.hospital.example; =URI where "
                 "CX.4 is empty. What is not listed gets a system of the engine's own.",
                 ("authorities",), _is([]), kind=list),
        Prompt("allow_merge", "May this feed merge patients?", "A40 and its family; otherwise they are refused.",
                 ("allow_merge",), _is(value=False), _of_messages, bool),
        Prompt("mapping", "Mapping", "What messages become: adt for patients and visits, oru for results.",
                 ("mapping",), _is("adt"), _of_messages),
        Prompt("mode", "Mode (live, shadow)", "shadow does everything but the writes: for a look before going live.",
                 ("mode",), _is("live")),
        Prompt("relay", "Systems to pass the messages on to (NAME=HOST:PORT)",
                 "They get the messages themselves by MLLP, such as radiology=ris.hospital.example:2575; empty: none.",
                 ("destinations",), lambda answers: None if _from_fhir(answers) else [], kind=list),
        Prompt("hl7", "HL7 version of the messages", "As those systems take it; each may have its own.",
                 ("destinations", 0, "outgoing", "version"), _is("2.5.1"), _from_fhir),
        Prompt("destination", "Name of the FHIR server", "It appears in states, metrics and pages.",
                 (*destination, "name"), _is("fhir")),
        Prompt("base_url", "Its FHIR base URL", "Where patients are kept up to date; empty: nowhere, messages are only "
                 "passed on.",
                 (*destination, "base_url"),
                 lambda answers: "" if answers.get("relay") and _of_messages(answers) else None),
        Prompt("profile", f"Which server it is ({', '.join(NAMES)})",
                 "Its profile sets defaults and refuses what it cannot do; generic: any server.",
                 (*destination, "profile"), _guessed, _has_server,
                 choices=lambda _: {one: profile_of(one).title for one in NAMES}),
        Prompt("fhir", "FHIR version (R4, STU3)", "As that base speaks it.", (*destination, "fhir"), _is("R4"),
                 _has_server),
        Prompt("auth", f"Credentials ({', '.join(KINDS)})", "How that server knows the engine.",
                 (*auth, "type"), lambda answers: next(iter(_kinds(answers))), _has_server,
                 choices=_kinds),
        Prompt("token_url", "Token endpoint", "Where a token is got for these credentials.",
                 (*auth, "token_url"), _token_url, _asks_for("token_url")),
        Prompt("client_id", "The engine's name there", "As the server has registered it.",
                 (*auth, "client_id"), _is("engine"), _asks_for("client_id")),
        Prompt("username", "The engine's name there", "As HTTP Basic has it.",
                 (*auth, "username"), _is("engine"), _asks_for("username")),
        Prompt("auth_certificate", "Certificate of its key (PEM)", "As Entra ID has it for the client.",
                 (*auth, "certificate"), _is(None), _asks_for("auth_certificate")),
        Prompt("secret", "Its secret (env:NAME or file:PATH)",
                 "The file refers to it and never holds it: a variable, or a file of mode 0600.",
                 (*auth, "client_secret"), _is("env:ENGINE_SECRET"), _asks_for("secret")),
        Prompt("scope", "Scopes to ask for", "Separated by blanks; empty: what the server gives by itself.",
                 (*auth, "scope"), _scope, _asks_for("scope")),
        Prompt("audience", "Whom the token is for", "The URL of the FHIR service, as Azure has it.",
                 (*auth, "audience"), _base, _asks_for("audience")),
        Prompt("region", "Region of AWS", "It is part of each signature, such as us-east-1.",
                 (*auth, "region"), _region, _asks_for("region")),
    )  # fmt: skip


def fault_of(path: tuple[Step, ...], value: object) -> str:
    """Return what is wrong with a value of a key of channel files, and what would do; empty where nothing is."""
    field = field_at(Channel, path)
    if field is None:
        return ""
    try:
        TypeAdapter(field.rebuild_annotation()).validate_python(value)
    except ValidationError as error:
        found, expected = words(error.errors(include_url=False)[0], Channel)
        return f"{found}; {expected}"
    return ""


def value_of(question: Prompt, answer: Answer) -> object:
    """Return an answer as its key takes it: authorities as a map, a secret as its reference, no text as None."""
    if question.name == "authority" and isinstance(answer, list):
        return {name: system for name, _, system in (one.partition("=") for one in answer)}
    if question.name in SECRETS:
        kind, mark, place = str(answer).partition(":")
        return {kind: place} if mark and kind in {"env", "file"} else answer
    return None if question.name == "client_ca" and not answer else answer


def wrong(question: Prompt, answer: Answer) -> str:
    """Return what is wrong with an answer, and what would do; empty where nothing is."""
    if question.name == "tls":
        return "" if answer in TLS else f"found {str(answer)!r}; one of {', '.join(TLS)}"
    if question.name == "authority" and isinstance(answer, list) and (bad := [one for one in answer if "=" not in one]):
        return f"found {bad[0]!r}; NAME=URI, such as HOSP=https://mrn.hospital.example"
    if question.name == "relay" and isinstance(answer, list):
        return next(filter(None, map(_wrong_relay, answer)), "")
    if question.kind is bool or (question.name == "base_url" and not answer):
        return ""
    if question.name == "hl7":
        versions = get_args(OutgoingVersion)
        return "" if answer in versions else f"found {str(answer)!r}; one of {', '.join(versions)}"
    return fault_of(question.path, value_of(question, answer))


def relay_of(text: str) -> dict[str, str]:
    """Return name, host and port of `radiology=ris.example:2575`, as keys of a relay; what is missing is empty."""
    name, _, place = text.partition("=")
    host, _, port = place.rpartition(":")
    return {"name": name, "type": MLLP, "host": host.removeprefix("[").removesuffix("]"), "port": port}


def _wrong_relay(text: str) -> str:
    try:
        Relay.model_validate({key: int(value) if value.isdigit() else value for key, value in relay_of(text).items()})
    except ValidationError:
        return f"found {text!r}; NAME=HOST:PORT, such as radiology=ris.hospital.example:2575"
    return ""


# Criteria of the conditional create where the server finds nobody by identifiers that it has not seen.
BY_DEMOGRAPHICS: Final = "demographics"
# Addresses, paths, names and senders, which are written in YAML as they are.
_PLAIN: Final = re.compile(r"(?!.*:[,\[\]{}])[A-Za-z0-9/][A-Za-z0-9./:@%+*|^_-]*[A-Za-z0-9/*](?<!null)", re.IGNORECASE)


def channel_text(answers: Mapping[str, Answer]) -> str:
    """Return the file; ConfigurationError is for its reader."""
    text = "\n".join(_lines(answers, "")) + "\n"
    # Which criteria a server takes is the destination's to know.
    value = look(parse(text, "x"), Channel).value
    events = value.listen.fhir if value is not None else None
    servers = (events.server,) if events is not None else value.servers[:1] if value is not None else ()
    if any(map(_doubts_identifier, servers)):
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
    yield from _events(answers, criteria) if _from_fhir(answers) else _listener(answers)
    yield ""
    yield "# Of times without an offset."
    yield f"timezone: {_text(answers['timezone'])}"
    yield from _authorities(answers["authority"])
    if _from_fhir(answers):
        yield ""
        yield from _told(answers)
        return
    yield "# Whether A40 and its family may merge patients; otherwise they are refused."
    yield f"allow_merge: {'true' if answers['allow_merge'] else 'false'}"
    yield f"mapping: {_text(answers['mapping'])}"
    yield ""
    yield from _destination(answers, criteria)


def _events(answers: Mapping[str, Answer], criteria: str) -> Iterator[str]:
    yield "listen:"
    yield "  fhir:"
    yield "    # Webhooks come to /fhir/events/ and this, on the address of the pages."
    yield f"    path: {_text(answers['name'])}"
    yield f"    source: {answers['events']}"
    if _by_subscription(answers):
        place, _, name = str(answers["events_token"]).partition(":")
        yield f"    endpoint: {_text(answers['endpoint'])}"
        yield f"    token: {{{place}: {_text(name)}}}"
    yield "    # Of a server to which a feed is delivered, too, write the name and the keys that it has there."
    yield "    server:"
    yield from (f"      {line[4:]}" for line in _server(answers, criteria))


def _told(answers: Mapping[str, Answer]) -> Iterator[str]:
    yield "destinations:"
    for relay in map(relay_of, _several(answers["relay"])):
        yield f"  - name: {_text(relay['name'])}"
        yield "    # It gets a message for each change: `adt-engine help way-back`."
        yield from (f"    {key}: {_text(relay[key])}" for key in ("type", "host", "port"))
        yield f"    outgoing: {{version: {quoted(str(answers['hl7']))}}}"


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
    if _has_server(answers):
        yield from _server(answers, criteria)
    for relay in map(relay_of, _several(answers.get("relay", []))):
        yield f"  - name: {_text(relay['name'])}"
        yield "    # It gets the messages themselves, in the order in which they came in: `adt-engine help relay`."
        yield from (f"    {key}: {_text(relay[key])}" for key in ("type", "host", "port"))


def _server(answers: Mapping[str, Answer], criteria: str) -> Iterator[str]:
    yield f"  - name: {_text(answers['destination'])}"
    if answers["profile"] != GENERIC:
        yield "    # It sets defaults of other keys: `adt-engine help servers`."
        yield f"    profile: {answers['profile']}"
    yield f"    fhir: {answers['fhir']}"
    yield f"    base_url: {_text(answers['base_url'])}"
    if _of_messages(answers):
        yield "    # What is written here is planned by the channel's mapping, or by one of its own: `mapping: NAME`."
    if criteria:
        yield "    # The service finds a patient whose number is new by demographics."
        yield f"    if_none_exist: {criteria}"
    kind = str(answers["auth"])
    if kind not in AUTH_KEYS:
        return
    yield "    auth:"
    yield f"      type: {kind}"
    for question, key in AUTH_KEYS[kind].items():
        if question == "secret":
            place, _, name = str(answers["secret"]).partition(":")
            yield f"      {key}: {{{place}: {_text(name)}}}"
        elif answers[question]:
            yield f"      {key}: {_text(answers[question])}"


def _text(answer: Answer) -> str:
    """Return a text as a person would write it: in quotes only where YAML needs them."""
    text = str(answer)
    return text if _PLAIN.fullmatch(text) else quoted(text)


def _several(answer: Answer) -> Sequence[str]:
    return answer if isinstance(answer, list) else [str(answer)]
