"""The decisions that drafted files leave open, asked one by one at a terminal; each answer is written at once."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from engine.config.channel import UNDECIDED, Channel
from engine.config.destination import NOWHERE
from engine.config.model import Step, field_at
from engine.config.settings import shipped
from engine.config.source import DECIDE, AuthoredFile, look, parse
from engine.errors import ConfigurationError, UsageError
from engine.mapping.authoring.case import channel_of
from engine.mapping.authoring.draft_mapping import alike_row, row_text
from engine.mapping.compile import MappingSource, compile_mapping, load, read
from engine.mapping.files.reference import nearest
from engine.ops.cli.init.init import MORE, ask_until
from engine.ops.cli.init.text import machine_zone, questions
from engine.terminal.table import note

SKIP: Final = "skip"
LEAVE: Final = "leave out"
TAKE: Final = "take"
CHANNELS: Final = "channels"
TABLES: Final = "tables"
# What marks a value that only a person can know.
OPEN: Final = ("...", UNDECIDED, NOWHERE)
# A line before its mark: indentation, what is commented out, key and value.
LINE: Final = re.compile(
    r"(?P<indent> *)(?P<out># +)?(?P<item>- )?(?P<key>\"(?:[^\"\\]|\\.)*\"|[^\s#\"][^#:\"]*):(?: +(?P<value>.*?))? *"
)
MOST_ROWS: Final = 20
EXTENSION: Final = f"{UNDECIDED}extension:"
URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


@dataclass(frozen=True, slots=True)
class OpenDecision:
    """One open decision: its file, line (from 0) and column (from 1), its key and drafted value, and the evidence.

    `out`: the line is a proposal in a comment. `key` is empty for a remark, whose proposal, if any, is the comment
    lines below.
    """

    file: Path
    line: int
    column: int
    text: str
    key: str = ""
    value: str = ""
    out: bool = False
    indent: int = 0

    @property
    def known(self) -> bool:
        """True if the drafted value may be taken: it is no placeholder."""
        return bool(self.value or not self.out) and not any(one in self.value for one in OPEN)

    @property
    def proposal(self) -> str:
        """What Enter does or writes, as a person reads it; empty where there is nothing to take."""
        if not self.key:
            return LEAVE
        if self.out:
            return self.value if self.known else LEAVE
        return (self.value or TAKE) if self.known else ""


@dataclass(slots=True)
class Interview:
    """Decisions of a folder of drafts; `mappings`: the names of those that they are checked as.

    `given`: the answers for keys of several channels, which name one destination or one authority.
    """

    out: Path
    mappings: Sequence[str]
    given: dict[str, str] = field(default_factory=dict)
    sources: dict[str, MappingSource] = field(default_factory=dict)

    def run(self) -> int:
        """Ask until nothing is left but what was skipped, and return the number of these."""
        skipped: set[tuple[Path, str]] = set()
        while (decision := next(self._open(skipped), None)) is not None:
            if not self._decide(decision):
                skipped.add((decision.file, _line(decision)))
        return sum(1 for _ in self._open(set()))

    def _open(self, skipped: set[tuple[Path, str]]) -> Iterator[OpenDecision]:
        for file in (*sorted((self.out / CHANNELS).glob("*.yaml")), *sorted((self.out / "mappings").rglob("*.yaml"))):
            for decision in decisions_in(file):
                if (file, _line(decision)) not in skipped:
                    yield decision

    def _decide(self, decision: OpenDecision) -> bool:
        """Ask and write one decision; False if it is skipped."""
        shared = f"{decision.key}: {decision.value}" if _is_shared(decision) else ""
        if shared in self.given:
            answer = self.given[shared]
            note(f"{decision.file.name}: {decision.key}: {answer}, as before", "dim")
        else:
            self._introduce(decision)
            answer = ask_until(
                _asked(decision),
                self._default(decision),
                lambda text: self._fault(decision, text),
                lambda: self._more(decision),
            )
        if answer == SKIP:
            return False
        if shared:
            self.given[shared] = answer
        decision.file.write_text(self._text(decision, answer), "utf-8")
        return True

    def _introduce(self, decision: OpenDecision) -> None:
        note("")
        note(f"{decision.file.relative_to(self.out)}:{decision.line + 1}  {decision.text}", "dim")
        for line in _proposed_lines(decision):
            note(f"  {line}", "dim")

    def _default(self, decision: OpenDecision) -> str:
        if decision.key == "timezone" and decision.value == "UTC":
            return machine_zone({})
        return decision.proposal

    def _fault(self, decision: OpenDecision, answer: str) -> str:
        """Return what is wrong with an answer, and what would do; empty where nothing is."""
        if answer == SKIP:
            return ""
        if not answer:
            return f"there is no proposal: write the value, {MORE} for more, or {SKIP}"
        try:
            text = self._text(decision, answer)
            if answer != LEAVE and (decision.out or answer != decision.proposal):
                self._check(decision.file, text)
        except ConfigurationError as error:
            problem = error.problems[0]
            return f"{problem.found}; {problem.expected}"
        except UsageError as error:
            return str(error)
        return ""

    def _check(self, file: Path, text: str) -> None:
        """ConfigurationError or UsageError if a file with this text is wrong."""
        if file.parent.name == CHANNELS:
            if problems := look(parse(text, str(file)), Channel).problems:
                raise ConfigurationError(problems)
            return
        folders = [self.out / "mappings", shipped("mappings")]
        name = file.stem if file.stem in self.mappings else self.mappings[0]
        compile_mapping(read(folders, name, {file: text}), channel_of({}))

    def _text(self, decision: OpenDecision, answer: str) -> str:
        """Return the file with an answer in the place of the mark; UsageError for an answer of no use."""
        lines = decision.file.read_text("utf-8").split("\n")
        if answer == LEAVE or (answer == decision.proposal and not decision.out):
            return _joined(_settled(lines, decision))
        if not decision.key:
            if answer not in {TAKE, "yes", "y"}:
                raise UsageError(f"answer {TAKE}, {LEAVE} or {SKIP}")
            settled = _settled(lines, decision)
            for number in range(decision.line + 1, decision.line + 1 + len(_proposed_lines(decision))):
                settled[number] = settled[number].replace("# ", "", 1)
            return _joined(settled)
        value = decision.value if answer in {decision.value, TAKE} else self._value(decision, answer)
        if any(one in value for one in OPEN):
            raise UsageError(f"write the value, {SKIP}" + (f", or {LEAVE}" if decision.out else ""))
        settled = _settled(lines, decision)
        match = LINE.fullmatch(lines[decision.line][: decision.column - 1])
        if match is None:
            raise UsageError(f"{decision.file} was changed meanwhile; run the command again")
        head = " " * decision.indent + (match["item"] or "") + match["key"]
        settled[decision.line] = f"{head}: {value}   # {decision.text}"
        if decision.out:
            _uncomment_around(settled, decision.line, decision.indent)
        return _joined(settled)

    def _value(self, decision: OpenDecision, answer: str) -> str:
        """Return an answer as the YAML of its key; UsageError for one of no use."""
        if decision.file.parent.name == TABLES:
            return self._row(decision, answer)
        if not decision.value and not decision.out:
            raise UsageError(f"press Enter for the lines below, or {SKIP} and edit them")
        if _extended(decision) and not URI.fullmatch(answer):
            raise UsageError(f"{answer!r} is no absolute URI; write one, such as https://hospital.example/interpreter")
        if answer[:1] in {"[", "{"}:
            return answer
        if decision.value.startswith("{"):
            return f"{{do: {answer}}}"
        plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9/._~%:+#^-]*[A-Za-z0-9/]|[A-Za-z0-9]", answer)
        return answer if plain and decision.key != "version" else f'"{_escaped(answer)}"'

    def _row(self, decision: OpenDecision, answer: str) -> str:
        """Return the row that an answer means: that of a code of the table, or `CODE=Display`."""
        table = self._table(decision.file.stem)
        code, mark, display = answer.partition("=")
        if mark and code.strip():
            return row_text({"code": code.strip(), "display": display.strip()})
        row = alike_row(table, answer)
        if row is None:
            hint = nearest(answer, list(table.get("codes") or {}))
            raise UsageError(f"no code of the table {decision.file.stem} ({hint}), and no CODE=Display")
        return row_text({"system": table.get("system"), **row} if "system" in row else row)

    def _table(self, name: str) -> Mapping[str, Any]:
        for mapping in self.mappings:
            if mapping not in self.sources:
                self.sources[mapping] = load([shipped("mappings")], mapping)
            if name in self.sources[mapping].documents.tables:
                return self.sources[mapping].documents.tables[name].value
        return {}

    def _more(self, decision: OpenDecision) -> Iterator[str]:
        """Yield more about a decision: what its key is for, and what may be answered."""
        if decision.file.parent.name == CHANNELS and decision.key:
            yield from _about(decision)
        if decision.file.parent.name == TABLES:
            rows = [(code, row) for code, row in (self._table(decision.file.stem).get("codes") or {}).items()]
            yield f"a code of the table {decision.file.stem} that means the same, or CODE=Display:"
            for code, row in rows[:MOST_ROWS]:
                yield f"  {code}  {row.get('display', '') if isinstance(row, dict) else ''}"
            if len(rows) > MOST_ROWS:
                yield f"  and {len(rows) - MOST_ROWS} more: mappings/tables/{decision.file.name}"
        yield f"evidence: {decision.text}"
        ways = ["Enter takes the proposal"] if decision.proposal else []
        ways += [f"{LEAVE}: nothing is written for it"] if decision.out or not decision.key else []
        ways += [f"{TAKE}: the lines shown are written"] if not decision.key and _proposed_lines(decision) else []
        yield "; ".join((*ways, f"{SKIP}: it stays undecided"))


def interview(out: Path, mappings: Sequence[str]) -> int:
    """Ask what the drafts of a folder leave open; return the number of decisions that are left.

    UsageError where a file is wrong, typer.Abort where nobody answers: what was answered before is written.
    """
    note("Enter takes the proposal; `?` shows more; `skip` leaves a decision open.")
    return Interview(out, mappings).run()


def decisions_in(file: Path) -> Iterator[OpenDecision]:
    """Yield the open decisions of a file, in the order of its lines."""
    text = file.read_text("utf-8")
    source, lines = parse(text, str(file)), text.split("\n")
    for mark in source.marks:
        number = mark.line - 1
        match = LINE.fullmatch(lines[number][: mark.column - 1])
        if match is None:
            yield OpenDecision(file, number, mark.column, mark.text)
            continue
        out = bool(match["out"])
        indent = len(match["indent"]) + (len(match["out"]) - 2 if match["out"] else 0)
        yield OpenDecision(
            file, number, mark.column, mark.text, _unquoted(match["key"]), match["value"] or "", out, indent
        )


def _asked(decision: OpenDecision) -> str:
    if not decision.key:
        return "Take it" if _proposed_lines(decision) else "Seen"
    if decision.file.parent.name == TABLES:
        return f"{decision.file.stem} {decision.key}"
    return f"{decision.key} of {_extended(decision)}" if _extended(decision) else decision.key


def _extended(decision: OpenDecision) -> str:
    """Return the field or component of a drafted extension; empty for another decision."""
    return decision.value.removeprefix(EXTENSION) if decision.value.startswith(EXTENSION) else ""


def _is_shared(decision: OpenDecision) -> bool:
    """True if several channels write the same: one destination, one authority."""
    return decision.file.parent.name == CHANNELS and decision.indent > 0 and decision.key != "port"


def _line(decision: OpenDecision) -> str:
    return f"{decision.key}: {decision.value} {decision.text}"


def _proposed_lines(decision: OpenDecision) -> list[str]:
    """Return the comment lines below a remark, which are its proposal."""
    if decision.key:
        return []
    found: list[str] = []
    for line in decision.file.read_text("utf-8").split("\n")[decision.line + 1 :]:
        if not line.startswith("# ") or DECIDE in line:
            break
        found.append(line[2:])
    return found


def _settled(lines: Sequence[str], decision: OpenDecision) -> list[str]:
    """Return the lines without the mark of a decision; its evidence stays."""
    settled = list(lines)
    settled[decision.line] = f"{settled[decision.line][: decision.column - 1]}# {decision.text}"
    return settled


def _uncomment_around(lines: list[str], number: int, indent: int) -> None:
    """Uncomment the lines that go on with an entry, and the keys above it that are still comments."""
    for below in range(number + 1, len(lines)):
        bare = _bare(lines[below])
        if bare is None or DECIDE in lines[below] or len(bare) - len(bare.lstrip()) <= indent:
            break
        lines[below] = bare
    for above in range(number - 1, -1, -1):
        line = lines[above]
        bare = _bare(line)
        text = line if bare is None else bare
        depth = len(text) - len(text.lstrip())
        if depth < indent and re.fullmatch(r" *[A-Za-z]+:", text):
            lines[above] = text
            indent = depth
        if indent == 0:
            break


def _bare(line: str) -> str | None:
    """Return a commented line without its mark; None for no comment."""
    match = re.fullmatch(r"( *)# ( *\S.*)", line)
    return match[1] + match[2] if match else None


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines)


def _unquoted(key: str) -> str:
    return str(next(iter(parse(f"{key}: 0", "").value))) if key.startswith('"') else key


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _about(decision: OpenDecision) -> Iterator[str]:
    """Yield what `channels init` and the handbook say of a channel's key."""
    source: AuthoredFile = parse(decision.file.read_text("utf-8"), str(decision.file))
    path: tuple[Step, ...] = next(
        (at for at, (line, _) in source.places.items() if line == decision.line + 1 and at), ()
    )
    generic = tuple(0 if isinstance(step, int) else step for step in path)
    yield from (one.why for one in questions(()) if one.path == generic)
    fields = (field_at(Channel, path[:end], source.value) for end in range(len(path), 0, -1))
    yield next((one.description for one in fields if one is not None and one.description), "")
