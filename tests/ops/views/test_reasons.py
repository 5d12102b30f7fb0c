"""The one table of reasons: it has a line for every code that can be said, and none for a code that nobody says."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import orjson
import pytest
import yaml
from typer.testing import CliRunner

from engine.__main__ import app
from engine.hl7.conformance.check import ConformanceRule
from engine.mapping.language.functions import FUNCTIONS
from engine.mapping.outgoing.change import ChangeKind
from engine.mapping.outgoing.functions import OUTGOING_FUNCTIONS
from engine.ops.views.handbook_search import FoundReasons, find_reasons
from engine.ops.views.reasons import FAMILY, REASONS, SYMPTOMS, TABLE, Reason, reason_of
from engine.pipeline.alerts.kind import AlertKind, PauseReason
from engine.pipeline.inbound.judgement import RELAYED
from engine.receive.block import EventKind

ROOT: Final = Path(__file__).parents[3]
ROOMS: Final = ("pipeline", "deliver", "mapping", "journal", "acknowledge", "hl7", "receive", "fhir")
# What speaks of character sets, FHIR's own codes, cases of mappings, and the findings of `journal verify`.
ELSEWHERE: Final = {"versions", "reference", "charset.py", "case.py", "verify.py", "backup.py"}
CODE: Final = re.compile(r"[a-z]+(-[a-z0-9]+)*")
COMPOUND: Final = re.compile(r"[a-z]+(-[a-z0-9]+)+")
# Where a code of one word is said: calls, and which of their arguments.
SAYING: Final = {
    **dict.fromkeys(("HeldDeliveryError", "RejectedDeliveryError", "MappingError", "held", "_finding", "observe"), 0),
    **dict.fromkeys(("note", "noting", "warn"), 0),
    **dict.fromkeys(("Finding", "Judgement", "fragment_of", "Verdict", "error_of"), 1),
    "check_person": 3,
}
# What begins a tuple of three whose second part is a code.
OUTCOMES: Final = ("(ErrorCode.", "(VerdictKind.")
LOG_LINES: Final = {("audit", "not"), ("token", "refused"), ("connection", "failed")}
# Words with a hyphen that say nothing of an entry.
NO_CODES: Final = {
    "adt-engine", "adt-engine-journal", "base-uri", "hold-lane", "keep-original", "half-open",
    "content-encoding", "content-length", "transfer-encoding", "retry-after", "create-always", "no-cache",
    "duplicate-patient-limit", "entered-in-error", "in-progress", "patient-i-merge", "patient-merge", "replaced-by",
    "source-patient", "target-patient", "source-resource", "target-resource", "versioned-update", "latin-1", "utf-8",
    "coding-system", "identifier-type", "cascade-delete", "content-location", "respond-async", "p360-retrieve",
    "given-up", "not-drafted", "ends-with", "transaction-response", "admin-notify", "process-message", "not-supported",
    "starts-with", "new-feed", "unusable-header", "api-version", "change-of-number", "move-of-number",
    "x-amz-fhir-idempotency-key", "x-amz-fhir-history-consistency-level",
    "rest-hook", "not-found", "last-modified", "out-mapping", "out-segment", "out-datatype", "out-tests", "no-change",
    "related-to", "source-is-broader-than-target", "source-is-narrower-than-target", "utf-8-sig",
}  # fmt: skip


def trees() -> Iterator[tuple[Path, ast.Module]]:
    """Yield the modules that say codes."""
    for room in ROOMS:
        for file in (ROOT / "engine" / room).rglob("*.py"):
            if not ELSEWHERE & set(file.parts):
                yield file, ast.parse(file.read_text())


def texts(node: ast.AST) -> Iterator[str]:
    """Yield the strings within a piece of code."""
    yield from (one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))


def said_by(node: ast.AST) -> Iterator[str]:
    """Yield the codes that one piece of code says, of one word or more."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        position = SAYING.get(name, len(node.args))
        if position < len(node.args) and not isinstance(node.args[position], ast.JoinedStr):
            yield from texts(node.args[position])
    elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in {"reason", "flags"}:
        yield from texts(node.value)
    elif isinstance(node, ast.Tuple) and len(node.elts) == 3 and ast.unparse(node.elts[1]).startswith("Failure."):
        yield from texts(node.elts[2])
    elif isinstance(node, ast.Tuple) and len(node.elts) == 3 and ast.unparse(node).startswith(OUTCOMES):
        yield from texts(node.elts[1])
    elif isinstance(node, ast.AsyncFunctionDef) and "str" in ast.unparse(node.returns or node):
        for one in ast.walk(node):
            if isinstance(one, ast.Return) and one.value is not None and not isinstance(one.value, ast.Call):
                yield from texts(one.value.elts[0] if isinstance(one.value, ast.Tuple) else one.value)


def of_the_source() -> set[str]:
    """Return the codes that stand in the engine's source."""
    found: set[str] = set()
    for file, tree in trees():
        for node in ast.walk(tree):
            if not isinstance(node, ast.AsyncFunctionDef) or "deliver" in file.parts:
                found.update(one for one in said_by(node) if CODE.fullmatch(one))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and COMPOUND.fullmatch(node.value):
                found.add(node.value)
    words = NO_CODES | set(FUNCTIONS) | set(OUTGOING_FUNCTIONS) | {str(kind) for kind in ChangeKind}
    return found - words - {str(rule) for rule in ConformanceRule} - {"reason", "hold", "required"}


def of_the_mappings() -> Iterator[str]:
    """Yield the rules that filter, and the flags that resource files name."""
    table = yaml.safe_load((ROOT / "mappings/adt.yaml").read_text())
    yield table["others"]
    yield table["historic"]["rule"]
    yield from (rule[word] for rule in table["events"].values() for word in ("skip", "unhandled") if word in rule)
    for file in (ROOT / "mappings/resources").glob("*.yaml"):
        words = yaml.safe_load(file.read_text())
        missing = words.get("missing") or {}
        yield from filter(None, (missing.get("flag"), words.get("late"), words.get("find")))
        yield from (move["otherwise"] for move in (words.get("status") or {}).get("moves", ()) if "otherwise" in move)


def produced() -> set[str]:
    """Return every code that can be said."""
    http = {f"http-{status}" for status in (301, 401, 403, 404, 422, 429, 500)}
    rules = {f"conformance-{rule}" for rule in ConformanceRule}
    kinds = {*AlertKind, *PauseReason, *EventKind}
    return (
        of_the_source()
        | set(of_the_mappings())
        | http
        | rules
        | {str(kind) for kind in kinds}
        | {"conformance", RELAYED}
    )


def test_every_code_has_a_line() -> None:
    """A new code gets a line in engine/ops/docs/reasons.md (or stands above, among the words that are no codes)."""
    assert sorted(code for code in produced() if not reason_of(code).kinds) == []


def test_each_code_has_one_line() -> None:
    """Of two lines for a code commands would show the last one, whatever was meant."""
    rows = [line for line in TABLE.read_text().splitlines() if line.startswith("| ")][1:]
    codes = [row.split("|")[1].strip() for row in rows]
    assert sorted({code for code in codes if codes.count(code) > 1}) == []


def test_lines_name_commands_that_there_are() -> None:
    """What is to be done next can be typed; a hold of the merge limit ends only after the channel may merge again."""
    assert "channels allow-merge" in REASONS["merge-limit"].next_step
    named = {pair for one in REASONS.values() for pair in re.findall(r"`([a-z]+) ([a-z][a-z-]+)[^`]*`", one.next_step)}
    assert ("messages", "show") in named
    for pair in sorted(named - LOG_LINES):
        assert CliRunner().invoke(app, [*pair, "--help"]).exit_code == 0, pair


def test_no_line_is_for_a_code_that_nobody_says() -> None:
    """A code that is gone takes its line along."""
    known = produced() | {"lost", "not-kept", "duplicate-mrn", "superseded"}
    unsaid = {
        code
        for code in REASONS
        if code not in known and not (code.endswith(FAMILY) and any(one.startswith(code[:-1]) for one in known))
    }
    assert sorted(unsaid) == []


@pytest.mark.parametrize("reason", REASONS.values(), ids=list(REASONS))
def test_a_line_is_whole(reason: Reason) -> None:
    """Each says what it means and what to do, as sentences."""
    assert reason.kinds
    assert reason.meaning.endswith(".")
    assert reason.next_step.endswith((".", "?", "first"))


def test_a_code_is_found_with_what_stands_behind_it() -> None:
    """Places and counts do not hide the line; what no table knows is said to be foreign."""
    assert reason_of("unmapped-code PID-16").code == "unmapped-code"
    assert reason_of("conformance: 3").code == "conformance"
    assert reason_of("http-418").code == "http-4*"
    assert reason_of("invalid-whatever").kinds == ()


def test_the_command_prints_a_line() -> None:
    """`adt-engine reasons CODE` is for the one on call at night."""
    done = CliRunner().invoke(app, ["reasons", "ambiguous-identity", "--json"])
    assert done.exit_code == 0
    assert orjson.loads(done.stdout)[0]["can_wait"] is False


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("ambiguous-identity", "ambiguous-identity"),
        ("unmapped-code PID-16", "unmapped-code"),
        ("http-412", "http-4*"),
        ("source-merg", "source-merged-elsewhere"),
        ("Umlauts", "undecodable"),
        ("two chart", "possible-duplicate"),
        ("disk full", "no-room"),
    ],
)
def test_a_reason_is_found_by_word_code_and_symptom(words: str, first: str) -> None:
    """The code itself comes first, then what a symptom names; a word that is still being typed is enough."""
    assert find_reasons(words).reasons[0].code == first


def test_what_holds_no_word_finds_nothing_and_no_word_everything() -> None:
    """All words have to be there."""
    assert find_reasons("disk quinces") == FoundReasons((), ())
    assert find_reasons(" ").reasons == tuple(REASONS.values())


def test_symptoms_lead_to_reasons() -> None:
    """Every code that the table of symptoms names is one; as a link, so that the help page leads there."""
    assert len(SYMPTOMS) > 10
    for symptom in SYMPTOMS:
        assert symptom.codes
        assert [code for code in symptom.codes if not reason_of(code).kinds] == []


def test_the_command_finds_a_word() -> None:
    """`adt-engine reasons umlaut` is for who knows no code."""
    done = CliRunner().invoke(app, ["reasons", "umlaut"])
    assert done.exit_code == 0
    assert "undecodable" in done.stdout
    assert "not of this engine" in CliRunner().invoke(app, ["reasons", "quinces"]).stdout
