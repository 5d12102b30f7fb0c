"""The sample feed: messages byte for byte, each with what is to come of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from engine.config.model import Frozen
from engine.config.source import AuthoredFile, read, validate
from engine.config.text import shaped
from engine.errors import ConfigurationError, Problem

EXPECTED = "expected.yaml"


class ExpectedChart(Frozen):
    """What a patient's record says once the message was delivered.

    `identifier` is a number in the feed's `identifier_system`; `found_by` are numbers whose search now finds the same
    record; `facts` are words of a record (`family`, `birthDate`, …) and their values, empty for what must be absent.
    """

    identifier: str
    found_by: tuple[str, ...] = ()
    facts: dict[str, str] = Field({})


class Expectation(Frozen):
    """What is to come of one message: the answer, where its entry ends, and the patient's record.

    `ack` is MSA-1, `none` where nothing is answered; `application` the second answer of enhanced mode; `error` ERR-3.
    `duplicate`: it was seen before and gets no entry of its own.
    """

    ack: Literal["AA", "AE", "AR", "CA", "CE", "CR", "none"]
    application: Literal["", "AA", "AE", "AR"] = ""
    error: Annotated[str, shaped(r"(\d{3})?", "three digits, ERR-3")] = ""
    outcome: Literal["delivered", "filtered", "rejected", "held"]
    reason: str = ""
    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    duplicate: bool = False
    patient: ExpectedChart | None = None


def _several(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class _Entry(Frozen):
    file: Annotated[str, shaped(r"[0-9a-z.-]+\.hl7", "a file of this folder, such as 01-admit.hl7")]
    shows: str
    charset: str = ""
    expect: Annotated[tuple[Expectation, ...], BeforeValidator(_several)]


class _Feed(Frozen):
    handbook: ClassVar[str] = "the README next to it"

    identifier_system: str
    samples: tuple[_Entry, ...] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class FeedSample:
    """One file of the feed: its bytes, what it shows, and one expectation for each message in it.

    `identifier_system` is the system of the numbers in the expectations; `charset` a remark where the bytes are not
    plain ASCII.
    """

    file: str
    raw: bytes
    shows: str
    charset: str
    identifier_system: str
    expect: tuple[Expectation, ...]


def load_samples(folder: Path) -> tuple[FeedSample, ...]:
    """Return the samples of a folder in the order in which they are to be sent.

    ConfigurationError names every problem of `expected.yaml`, each file that it lists and that is not there, and each
    `*.hl7` file that it does not list.
    """
    source = read(folder / EXPECTED)
    feed = validate(source, _Feed)
    problems = _unlisted(folder, feed, source)
    samples: list[FeedSample] = []
    for index, entry in enumerate(feed.samples):
        try:
            raw = (folder / entry.file).read_bytes()
        except OSError as error:
            found = f"{entry.file} cannot be read ({error.strerror})"
            problems.append(source.problem(("samples", index, "file"), found, "name a file of this folder"))
            continue
        samples.append(FeedSample(entry.file, raw, entry.shows, entry.charset, feed.identifier_system, entry.expect))
    if problems:
        raise ConfigurationError(tuple(problems))
    return tuple(samples)


def _unlisted(folder: Path, feed: _Feed, source: AuthoredFile) -> list[Problem]:
    listed = [entry.file for entry in feed.samples]
    present = sorted(path.name for path in folder.glob("*.hl7"))
    problems = [
        source.problem(("samples",), f"{name} is not listed", "say what is expected of it")
        for name in present
        if name not in listed
    ]
    if listed != sorted(set(listed)):
        problems.append(source.problem(("samples",), "not in order of name", "list each file once, in order of name"))
    return problems
