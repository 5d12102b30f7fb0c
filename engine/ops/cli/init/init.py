"""`adt-engine channels init`: questions, a checked channel file, a test certificate, and the command to run next."""

import ipaddress
import os
import socket
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from inspect import Parameter, Signature, signature
from pathlib import Path
from types import GenericAlias
from typing import Final

import typer
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from engine.config.channel import Channel
from engine.config.channels import read_channels
from engine.config.schema import CHANNEL_FILES, schemas, write_schemas
from engine.config.source import look, parse
from engine.errors import ConfigurationError, Problem, UsageError
from engine.ops.cli.init.text import SECRETS, TEST, Answer, Answers, Prompt, channel_text, questions, wrong
from engine.pipeline.configuration import Files, examine
from engine.terminal.options import CHANNELS, DATA, AsJson, Channels, Mappings
from engine.terminal.table import NEGATIVE, note, print_json, print_line

DAYS: Final = 30
ADDRESSES: Final = ("127.0.0.1", "::1")


def write_test_certificate(certificate: Path, key: Path, now: datetime) -> None:
    """Write a certificate of this machine and its key (mode 0600), valid for 30 days; UsageError if one is there."""
    private = ec.generate_private_key(ec.SECP256R1())
    made = _self_signed(private, now)
    content = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for path, text in ((key, content), (certificate, made.public_bytes(Encoding.PEM))):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
                file.write(text)
        except OSError as error:
            raise UsageError(
                f"{path} cannot be created ({error.strerror}): remove it, or use it with --tls files"
            ) from error


def _self_signed(private: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "adt-engine, for trying only")])
    public = private.public_key()
    names: list[x509.GeneralName] = [x509.DNSName(one) for one in dict.fromkeys(("localhost", socket.gethostname()))]
    names += [x509.IPAddress(ipaddress.ip_address(one)) for one in ADDRESSES]
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .sign(private, SHA256())
    )


SCHEMAS: Final = "schema"
# The answer that asks for more about a question.
MORE: Final = "?"
TEST_FILES: Final = "test-tls"
PATHS: Final = frozenset({"certificate", "key", "client_ca", "auth_certificate"})
YES: Final = typer.Option(False, "--yes", help="Take the defaults for what no option answers; ask nothing.")  # noqa: FBT003


def init(
    channels: Channels = CHANNELS, mappings: Mappings = None, yes: bool = YES, as_json: AsJson = False, **given: object
) -> None:
    """Make a channel file by answering a few questions, or by options that answer them; then check it.

    A file is never written over. What this machine still lacks, such as a secret, is listed; the next command is named.

    Example: adt-engine channels init --channels channels

    Example: adt-engine channels init --yes --name lab --base-url https://fhir.example/R4 --tls test --source 'LAB|HOSP'

    Example: adt-engine channels init --yes --name back --from-fhir --base-url https://fhir.example --relay reg=reg:2575
    """
    asked = questions(ports_of(channels))
    options = {name: value for name, value in given.items() if value is not None}
    asks = not yes and not as_json and sys.stdin.isatty()
    answers = _answers(asked, options, channels, asks=asks, yes=yes)
    file = _file(channels, str(answers["name"]))
    if answers.get("tls") == TEST:
        beside = (channels / TEST_FILES).absolute()
        answers |= {name: str(beside / f"{file.stem}.{end}") for name, end in (("certificate", "pem"), ("key", "key"))}
    text = channel_text(_from_there(answers, file.parent))
    if problems := look(parse(text, str(file)), Channel).problems:
        raise ConfigurationError(problems)
    _write(file, text, answers)
    _tell(file, answers, Files(channels, mappings, DATA), as_json=as_json)


def _signed() -> Signature:
    """Return the parameters of the command: an option for each question, then its own."""
    own = [one for one in signature(init).parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    return Signature([*map(_option, questions(())), *(one.replace(kind=Parameter.KEYWORD_ONLY) for one in own)])


def _option(question: Prompt) -> Parameter:
    kind = GenericAlias(list, (str,)) if question.kind is list else question.kind
    names = f"{question.option}/--no-{question.option[2:]}" if question.kind is bool else question.option
    several = "; repeatable" if question.kind is list else ""
    option = typer.Option(None, names, help=f"{question.text}{several}. {question.why}", show_default=False)
    return Parameter(question.name, Parameter.KEYWORD_ONLY, default=option, annotation=kind | None)


init.__signature__ = _signed()  # type: ignore[attr-defined]  # what typer makes the options of


def ports_of(channels: Path, without: Collection[str] = ()) -> Sequence[int]:
    """Return the ports that the channels of a folder have, `without` those of some names; none for no folder."""
    read = read_channels(channels)[0] if channels.is_dir() else ()
    found = [one.value for one in read if one.value is not None and one.value.channel not in without]
    return [one.listen.mllp.port for one in found if one.listen.mllp is not None]


def _file(channels: Path, name: str) -> Path:
    return channels / f"{name}.yaml"


def _from_there(answers: Answers, folder: Path) -> dict[str, Answer]:
    """Return answers whose paths, given as seen from here, are as seen from a folder."""
    made = dict(answers)
    for name in PATHS & answers.keys():
        if answers[name]:
            made[name] = _relative(str(answers[name]), folder)
    for name in SECRETS:
        kind, mark, place = str(answers.get(name, "")).partition(":")
        if kind == "file" and mark:
            made[name] = f"file:{_relative(place, folder)}"
    return made


def _relative(path: str, folder: Path) -> str:
    return path if Path(path).is_absolute() else os.path.relpath(path, folder)


def _fault(question: Prompt, answer: Answer, channels: Path) -> str:
    """Return what is wrong with an answer; also that a channel of that name has its file."""
    file = _file(channels, str(answer))
    if question.name == "name" and file.exists():
        return f"{file} is there already, and nothing is written over: choose another name, or edit it"
    return wrong(question, answer)


def _checked(question: Prompt, options: Mapping[str, object], channels: Path) -> Answer:
    """Return what an option answers; UsageError where it is no answer."""
    answer = options[question.name]
    if not isinstance(answer, str | bool | list):
        raise TypeError(question.name)
    if fault := _fault(question, answer, channels):
        raise UsageError(f"{question.option}: {fault}")
    return answer


def _answers(
    asked: Sequence[Prompt], options: Mapping[str, object], channels: Path, *, asks: bool, yes: bool
) -> dict[str, Answer]:
    """Return what options answer, a person answers, or with `yes` defaults do; UsageError names all that is missing."""
    answers: dict[str, Answer] = {}
    missing: list[Prompt] = []
    for question in asked:
        if not question.when(answers):
            continue
        default = question.default(answers)
        if question.name in options:
            answer = _checked(question, options, channels)
        elif asks:
            answer = _prompted(question, default, channels, question.choices(answers))
        else:
            answer = "" if default is None else default
            if default is None or not yes:
                missing.append(question)
        answers[question.name] = answer
    if missing:
        raise UsageError(_what_is_missing(missing, yes=yes))
    if unused := sorted(options.keys() - answers.keys()):
        (option,) = (one.option for one in asked if one.name == unused[0])
        raise UsageError(f"{option} is of no use with the other answers: leave it out (`channels init --help`)")
    return answers


def _what_is_missing(missing: Sequence[Prompt], *, yes: bool) -> str:
    options = ", ".join(one.option for one in missing)
    if yes:
        return f"there is no default for {options}: give {'it' if len(missing) == 1 else 'them'} as well"
    return f"nothing can be asked here (no terminal, or --json): answer by {options}; --yes takes the defaults"


def _prompted(question: Prompt, default: Answer | None, channels: Path, choices: Mapping[str, str]) -> Answer:
    """Ask a person until the answer is one; of a list the answers are separated by commas."""
    note("")
    note(question.why, "dim")
    width = max(map(len, choices), default=0)
    for choice, what in choices.items():
        note(f"  {choice:<{width}}  {what}", "dim")
    asked = question.text.partition(" (")[0] if choices else question.text
    if question.kind is bool:
        return typer.confirm(question.text, default=bool(default), err=True)
    shown = ", ".join(default) if isinstance(default, list) else default if isinstance(default, str) else None

    def fault(text: str) -> str:
        answer = _read(question, text)
        return _fault(question, answer, channels) or ("it must be answered" if not answer and default is None else "")

    return _read(question, ask_until(asked, shown, fault))


def _read(question: Prompt, text: str) -> Answer:
    return [one.strip() for one in text.split(",") if one.strip()] if question.kind is list else text


def ask_until(
    text: str, default: str | None, fault: Callable[[str], str], more: Callable[[], Iterable[str]] | None = None
) -> str:
    """Ask a person, again as long as the answer has a fault, which is shown; typer.Abort where nobody answers.

    `more`: what `?` shows.
    """
    while True:
        answer = str(typer.prompt(text, default=default, show_default=bool(default), err=True)).strip()
        if more is not None and answer == MORE:
            for line in more():
                note(line, "dim")
        elif found := fault(answer):
            note(found, NEGATIVE)
        else:
            return answer


def _write(file: Path, text: str, answers: Answers) -> None:
    """Write the file, a test certificate and the schema for editors, into one folder; nothing is replaced."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not (file.parent / SCHEMAS).exists():
            write_schemas(schemas(CHANNEL_FILES), file.parent / SCHEMAS)
        if answers.get("tls") == TEST:
            write_test_certificate(Path(str(answers["certificate"])), Path(str(answers["key"])), datetime.now(UTC))
        with file.open("x", encoding="utf-8") as made:
            made.write(text)
    except OSError as error:
        raise UsageError(f"{file} cannot be written ({error.strerror}): name another folder by --channels") from error


def _tell(file: Path, answers: Answers, files: Files, *, as_json: bool) -> None:
    """Say what was written, what a start would still refuse, and the next command."""
    examined = examine(files)
    folders = f"--channels {files.channels}" + (f" --mappings {files.mappings}" if files.mappings else "")
    command = f"adt-engine {'channels check' if examined.problems else 'run'} {folders}"
    if as_json:
        found = {"problems": examined.problems, "warnings": examined.warnings}
        rows = {name: [one._asdict() for one in some] for name, some in found.items()}
        print_json({"file": str(file), "certificate": answers.get("certificate"), **rows, "next": command})
        return
    print_line(f"wrote {file}")
    if answers.get("tls") == TEST:
        print_line(f"wrote {answers['certificate']} and its key: for trying only, valid for {DAYS} days")
    for warning in examined.warnings:
        note(f"warning: {warning}")
    _tell_problems(examined.problems)
    print_line(f"next: {command}")


def _tell_problems(problems: Sequence[Problem]) -> None:
    if problems:
        note("before it can run:", NEGATIVE)
    for problem in problems:
        note(f"  {problem}")
