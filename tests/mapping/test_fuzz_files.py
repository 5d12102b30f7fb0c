"""Whatever stands in an authored file ends in a mapping that works, or in problems that each name a place.

The shipped files are changed at random: lines and parts of them go, come twice, move, or hold what belongs elsewhere.
`--full-sweep` tries many thousand of them and prints what became of them.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.config.channel import Channel
from engine.config.settings import shipped
from engine.config.source import look, scan_text, validate
from engine.errors import ConfigurationError, MappingError, MessageError
from engine.hl7.message import Message, parse
from engine.mapping.authoring.case import channel_of, read_cases, run_cases, sending
from engine.mapping.authoring.cost import Costs
from engine.mapping.authoring.explain import explain
from engine.mapping.authoring.outcome import outcome
from engine.mapping.compile import Mapping, MappingSource, compile_mapping, load, read
from engine.mapping.files.document import Edited, Key
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.resource.referred import FROM
from tests.mapping.authoring.language_examples import EXAMPLES, message_of
from tests.mapping.language.test_registry import CONDITIONS, KEYS, SHOWN

ROOT: Final = shipped("mappings")
SITE: Final = ROOT.parent / "no-such-site"
CHANNEL: Final = ROOT.parent / "channels" / "riverbend-adt.yaml"
SAMPLES: Final = ROOT.parent / "samples"
FILES: Final = tuple(
    sorted(file for kind in (".", "resources", "datatypes", "tables") for file in ROOT.glob(f"{kind}/*.yaml"))
)
DONORS: Final = (*FILES, SHOWN / "resources" / "patient.yaml", CHANNEL)
# An example takes a fifth of a second, nearly all of it to load what is not changed.
TRIES: Final = {"mapping": (16, 3_000), "cases": (6, 500), "channel": (30, 4_000)}
# Of CPU, to load one mapping or to plan one message: far more than any takes, far less than what never ends.
MOST_SECONDS: Final = 10.0
DEEP: Final = 200
BOMB: Final = "\n".join(["a0: &a0 [x, x, x, x, x, x, x, x, x]"] + [
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)
])  # fmt: skip
TEXTS: Final = (
    "", " ", "~", "null", "yes", "no", "0", "-1", "1e400", "0x10", "9" * 400, "NaN", "2026-01-01", "a" * 70_000, "''",
    "[]", "{}", "[[[]]]", "{a: {b: {c: d}}}", "? a", "- ", ": ", ":", "#", "|", ">", "%", "@", "`", "!", "&a", "*a",
    "&a b", "<<: *a", "<<: {a: b}", "!!python/object/apply:os.system ['x']", "!!binary eA==", "!!set {a}", "---", "...",
    "%YAML 1.1", "\t", "\x00", "\x07", "\ufeff", "\u2028", "\u0085", "\ud800", "\U0001f600", "é", "e\u0301", "\u202e",
    "[" * DEEP, "{a: " * DEEP, "- " * DEEP, "((" * DEEP, "'", '"', "\\", BOMB,
)  # fmt: skip
WORDS: Final = (
    *KEYS, *FUNCTIONS, *CONDITIONS, "PID-3", "PID-3.1", "PID-3(2).4.1", "PID-3[CX.5=MR].1", "PID-99", "PID-0", "PID",
    "NK1", "ZZZ-1", "ZZZ", "CX", "CX.1", "XPN", "Practitioner", "Patient", "Encounter", "administrative-sex", "'x'",
    "''", "#patient", "value[x]", "period.start", "..", "a.b.c.d", "A01", "ORU^R01", "shipped/adt", "upsert patient",
    "PID-5 | XPN", "PID-7 | date", "PID-8 | code(administrative-sex)", "PV1-7 | Practitioner", "PID-7 | when",
    "PID-5 | matches '('", "| else |", "PID-5.1 | split(' ' 99999999999)", "PID-5.1 | pad(99999999999 0)",
    "PID-7 | plus-days(99999999999)", "PID-5.1 | replace('' x)", "PID-5.1 | substring(0 -1)", "\x00", "\u2028",
    "\ud800", "", " ", "-1", "99999999999999999999", "a" * 1100,
)  # fmt: skip
PLAIN: Final = st.recursive(
    st.sampled_from(WORDS) | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=3),
    max_leaves=5,
)
# What ships filters nothing.
FILTERS: Final = """filters:
  - {rule: tests, when: PID-5.1 starts-with ZZ, do: filter}
  - {rule: young, when: "event in (A01, A04) and PID-7 > 2026-01-01", do: refuse}
"""
Steps = tuple[Key, ...]


@cache
def _text(file: Path) -> str:
    return file.read_text("utf-8") + (FILTERS if file.name in {"adt.yaml", CHANNEL.name} else "")


@cache
def _value(file: Path) -> Any:
    return scan_text(_text(file), str(file)).value


@cache
def _paths(file: Path) -> tuple[Steps, ...]:
    return tuple(_below(_value(file), ()))


def _below(value: Any, path: Steps) -> Iterator[Steps]:
    yield path
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in parts:
        yield from _below(part, (*path, step))


def _at(value: Any, path: Steps) -> Any:
    for step in path:
        value = value[step]
    return value


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(part) for key, part in value.items()}
    return [_copy(part) for part in value] if isinstance(value, list) else value


@st.composite
def _changed_lines(draw: st.DrawFn, files: Sequence[Path]) -> tuple[Path, str]:
    """Draw a file with lines gone, doubled, swapped, indented, or with odd text in them."""
    file = draw(st.sampled_from(files))
    lines = _text(file).splitlines()
    for _ in range(draw(st.integers(1, 3))):
        at, other = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        line, column = lines[at], draw(st.integers(0, len(lines[at])))
        key, colon, _ = line.partition(": ")
        odd = draw(st.sampled_from(TEXTS + WORDS))
        change = draw(
            st.sampled_from(
                ("delete", "twice", "swap", "in", "out", "value", "key", "insert", "anchor", "cut", "append")
            )
        )
        if change == "delete" and len(lines) > 1:
            del lines[at]
        elif change == "twice":
            lines.insert(other, line)
        elif change == "swap":
            lines[at], lines[other] = lines[other], line
        elif change in ("in", "out"):
            lines[at] = " " * draw(st.integers(1, 4)) + line if change == "in" else line[1:]
        elif change == "value":
            lines[at] = key + (colon or " ") + odd
        elif change == "key":
            lines[at] = line.replace(key.strip() or "x", odd, 1)
        elif change == "anchor":
            lines[at], lines[other] = (
                f"{key}{colon}&a {line[len(key) + len(colon) :]}",
                f"{lines[other].partition(': ')[0]}: *a",
            )
        elif change == "cut":
            lines[at] = line[:column]
        elif change == "append":
            lines.append(odd)
        else:
            lines[at] = line[:column] + odd + line[column:]
    return file, "\n".join(lines) + "\n"


@st.composite
def _changed_parts(draw: st.DrawFn, files: Sequence[Path]) -> tuple[Path, str]:
    """Draw a file that is YAML still, with parts gone, renamed, wrapped, or of another kind."""
    file = draw(st.sampled_from(files))
    root = {"": _copy(_value(file))}
    for _ in range(draw(st.integers(1, 3))):
        paths = [path for path in _below(root, ()) if path]
        path = draw(st.sampled_from(paths))
        above, step, value = _at(root, path[:-1]), path[-1], _at(root, path)
        change = draw(
            st.sampled_from(("delete", "plain", "elsewhere", "elsewhere", "rename", "wrap", "list", "beside"))
        )
        if change == "delete" and len(path) > 1:
            del above[step]
        elif change == "plain":
            above[step] = draw(PLAIN)
        elif change == "elsewhere":
            other = draw(st.sampled_from(DONORS))
            above[step] = _copy(_at(_value(other), draw(st.sampled_from(_paths(other)))))
        elif change == "wrap":
            above[step] = {draw(st.sampled_from(WORDS)): value}
        elif change == "list":
            above[step] = [value, _copy(value)]
        elif isinstance(above, dict) and len(path) > 1:
            key = draw(st.sampled_from(WORDS))
            above[key] = _copy(value) if change == "beside" else above.pop(step)
    return file, json.dumps(root[""])


def _authored(files: Sequence[Path]) -> st.SearchStrategy[tuple[Path, str]]:
    return _changed_lines(files) | _changed_parts(files)


def _located(error: ConfigurationError) -> None:
    """Check that an author is told what to mend, and where."""
    assert error.problems
    for problem in error.problems:
        assert problem.file, problem
        assert problem.line >= 1, problem
        assert problem.found, problem
        assert "object at 0x" not in str(problem), problem


def _sample_messages() -> Iterator[Message]:
    for file in sorted(SAMPLES.glob("*.hl7")):
        try:
            yield parse(file.read_bytes())
        except MessageError:
            continue


MESSAGES: Final = tuple(_sample_messages())
FULL, REPORT = (message_of(EXAMPLES[name]) for name in ("admit", "report"))


class Seen(Counter[str]):
    """What became of all examples of one test, and how long the longest steps took."""

    def __init__(self) -> None:
        super().__init__()
        self.most: dict[str, float] = {}

    def timed(self, what: str, began: float) -> None:
        """Note how long a step took, and refuse one that took far too long."""
        spent = time.process_time() - began
        self.most[what] = max(self.most.get(what, 0.0), spent)
        assert spent < MOST_SECONDS, what

    def told(self) -> str:
        """Return all of it in a line."""
        longest = {what: f"{seconds * 1000:.0f} ms" for what, seconds in self.most.items()}
        return f"{dict(self)}, at most {longest}"


def _planned(mapping: Mapping, seen: Seen, messages: Sequence[Message]) -> None:
    """Check that each message ends in a plan or in a refusal that has a name, in words that JSON has."""
    for message in messages:
        began = time.process_time()
        found = outcome(mapping, message)
        seen.timed("plan", began)
        json.dumps(found)
        assert "error" not in found or found["error"].strip()
        seen["planned" if found.get("interactions") else "refused" if "error" in found else "no plan"] += 1


def _loaded(name: str, edited: Edited, seen: Seen, *, all_sent: bool) -> MappingSource | None:
    """Return a mapping with a file that was changed; None where its author is told what is wrong, and where."""
    seen["examples"] += 1
    began = time.process_time()
    try:
        source = read([SITE, ROOT], name, edited)
        compile_mapping(source, channel_of({}))
        if all_sent:
            source = sending(
                source, [one for one, file in source.documents.resources.items() if FROM not in file.value]
            )
            compile_mapping(source, channel_of({}))
    except ConfigurationError as error:
        _located(error)
        source = None
    except MappingError:
        source = None  # nothing maps the Patient
    seen.timed("load", began)
    seen["refused by the author's errors" if source is None else "loaded"] += 1
    return source


@pytest.mark.parametrize("name", ["adt", "oru"])
def test_any_mapping_file(name: str, full_sweep: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """A changed file loads, or is told with its places; what loads plans, costs and explains every message."""
    seen = Seen()
    messages = (*(MESSAGES if full_sweep else MESSAGES[::16]), FULL, REPORT)
    files = [file for file in FILES if file.stem not in {"adt", "oru"} - {name}]

    @settings(max_examples=TRIES["mapping"][full_sweep] // (1 + 3 * (name == "oru")), derandomize=not full_sweep)
    @given(changed=_authored(files), of_site=st.booleans(), all_sent=st.booleans())
    def tried(changed: tuple[Path, str], *, of_site: bool, all_sent: bool) -> None:
        file, text = changed
        own = file.relative_to(ROOT)
        extends = f"extends: shipped/{file.stem}\n" if not text.startswith("{") else ""
        if text.startswith("{") and len(text) > 2:
            extends, text = "", f'{{"extends": "shipped/{file.stem}", {text[1:]}' if of_site else text
        source = _loaded(name, {SITE / own: extends + text} if of_site else {file: text}, seen, all_sent=all_sent)
        if source is None:
            return
        Costs(source).warnings()
        _planned(compile_mapping(source, channel_of({"authorities": {"RVB": "urn:rvb"}})), seen, messages)
        assert explain(source, channel_of({}), FULL).outcome

    tried()
    if full_sweep:
        with capsys.disabled():
            print(f"\n{name}: {seen.told()}")  # noqa: T201
    assert seen["loaded"]
    assert seen["refused by the author's errors"]


def test_any_file_of_cases(full_sweep: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Changed cases are run, or told with their places."""
    seen, source = Seen(), load([ROOT], "adt")

    @settings(max_examples=TRIES["cases"][full_sweep], derandomize=not full_sweep)
    @given(changed=_authored(sorted((ROOT / "tests").glob("*.yaml"))))
    def tried(changed: tuple[Path, str]) -> None:
        file, text = changed
        began = time.process_time()
        seen["examples"] += 1
        try:
            run_cases(read_cases([file], {file: text})[:8], source)
            seen["run"] += 1
        except ConfigurationError as error:
            _located(error)
            seen["refused by the author's errors"] += 1
        seen.timed("read and run", began)

    tried()
    if full_sweep:
        with capsys.disabled():
            print(f"\ncases: {seen.told()}")  # noqa: T201
    assert seen["run"]


def test_any_channel_file(full_sweep: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """A changed channel file is read and compiled with, its filters too, or told with its places."""
    seen, source = Seen(), load([ROOT], "adt")

    @settings(max_examples=TRIES["channel"][full_sweep], derandomize=not full_sweep)
    @given(changed=_authored([CHANNEL]), noise=st.binary(max_size=3), at=st.integers(0, 2000))
    def tried(changed: tuple[Path, str], noise: bytes, at: int) -> None:
        file, text = changed
        raw = text.encode("utf-8", "surrogatepass")
        seen["examples"] += 1
        began = time.process_time()
        try:
            read_source = scan_text(raw[:at] + noise + raw[at:], str(file))
            looked = look(read_source, Channel)
            mapping = compile_mapping(source, validate(read_source, Channel), file=looked.source)
        except ConfigurationError as error:
            _located(error)
            seen["refused by the author's errors"] += 1
            return
        finally:
            seen.timed("read", began)
        seen["loaded"] += 1
        _planned(mapping, seen, (FULL,))

    tried()
    if full_sweep:
        with capsys.disabled():
            print(f"\nchannel: {seen.told()}")  # noqa: T201
    assert seen["loaded"]
    assert seen["refused by the author's errors"]
