"""What an author reads when a file is wrong: the place in it, what was found, what would do; no word of the code's."""

import ast
import re
from collections.abc import Callable
from functools import cache
from typing import Final

import pytest

from engine.config.alerting import Alerting
from engine.config.channel import Channel
from engine.config.model import MOST_NAMED
from engine.config.reference import setting_rows
from engine.config.service import ServiceConfiguration
from engine.errors import Problem
from engine.fhir.r4 import r4_elements
from tests.errors.configurations import SECRET
from tests.errors.conftest import Everything
from tests.errors.files import PATIENTS_NAME
from tests.errors.sites import ELSEWHERE, ROOT, asked, modules, sites, texts
from tests.errors.told import Told

# What would do says what to do, in any of its parts, or begins with what may stand there.
STEP: Final = re.compile(
    r"(?:^|[;:,] |or )(?:add|break|choose|decrypt|did you mean|expected|give|join|keep|leave|list|make|map|name|put|"
    r"refer|remove|rename|reorder|restart|save|say|see|send|set|shorten|take|use|write)\b"
)
FORM: Final = re.compile(
    r"(?:an?|one|the|at least|at most|true or false|letters|ten digits|three digits|ASCII|scheme|valid here|"
    r"identifier, demographics|it takes|it may be of|[A-Z][A-Z0-9]{2} has the fields)\b"
)
# A sentence that begins like what may stand there, and only says how things are.
FACT: Final = re.compile(r"(?:an?|the|one) [^,;:]*\b(?:gives|has|is|makes|needs|says|takes|wants)\b")
# Words of the library that reads configurations, and of the language that the engine is written in.
FOREIGN: Final = re.compile(
    r"\b(?:None|True|False|NoneType|dict|tuple|frozenset|Traceback|Input should|Input is|String should|Value error|"
    r"value_error|str_type|Errno|pydantic|ValidationError|KeyError|TypeError|ValueError|Exception)\b|"
    r"<class|<[a-z_.]+ object|\bengine\.[a-z]|\[['\"]|\{['\"]|\('[^']*',"
)
LISTED: Final = re.compile(
    r"(?:one of|valid here:|may be of|map one of|such as|like) ((?:'?[^\s,']+'?, )+'?[^\s,;']+'?)"
)
MORE: Final = re.compile(r"and \d+ more(?P<where> \(all: [^()]+\))?")
MODELS: Final = (Channel, Alerting, ServiceConfiguration)
# Texts in these modules that no broken file can provoke, and why.
NOT_TOLD: Final = {
    "no YAML": "stands in for the YAML library's own word, which always comes",
    "another value": "stands in for the words of a kind of fault that no model has yet",
    "host bits": "what Python says of a network is looked through for it",
    "a key of the engine's channels, not obeyed here": "a description of keys",
    ": expected nothing, found something": "how a case differs: told by `mappings test`",
    ": expected": "how a case differs: told by `mappings test`",
    ": expected a message, found": "how a case differs: told by `mappings out test`",
    "GB 18030-2000": "a name of table 0211",
    "KS X 1001": "a name of table 0211",
    ", found": "how a case differs: told by `mappings test`",
}


# Names of functions that are keys of files as well.
KEYS: Final = frozenset(row.name.rpartition(".")[2] for model in MODELS for row in setting_rows(model))


@cache
def _names_of_code() -> frozenset[str]:
    """Return the names of functions and classes that nobody writes into a file: those with `_` or of several words."""
    names = {
        node.name
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    compound = re.compile(r"_*[a-z]+_[a-z_]+|_[a-z]+|[A-Z][a-z]+[A-Z][A-Za-z]+")
    return frozenset(name for name in names if compound.fullmatch(name)) - r4_elements().keys()


def _is_elsewhere(one: Told) -> bool:
    """Say whether a file is named that is none of the author's: what ships is sound by itself."""
    return one.text is None


def _is_astray(one: Told) -> bool:
    """Say whether the line has no key of the path, though neither what is missing nor an item of a list is told of."""
    problem, lines = one.problem, (one.text or "").splitlines()
    if not lines:
        return (problem.line, problem.column) != (1, 1)
    line = lines[problem.line - 1] if problem.line <= len(lines) else ""
    steps = [step for step in problem.path.split(".") if step and not step.isdigit()]
    is_item = problem.path.rpartition(".")[2].isdigit() or line.lstrip().startswith("- ")
    is_lacking = problem.found.startswith(("no ", "neither ", "missing"))
    is_below = "(line " in problem.found and "extends" in line
    return problem.line > len(lines) + 1 or not (
        not steps or is_item or is_lacking or is_below or any(step in line for step in steps)
    )


def _is_helpless(one: Told) -> bool:
    """Say whether neither the next step is told nor what may stand there."""
    expected = one.problem.expected
    return STEP.search(expected) is None and (FORM.match(expected) is None or FACT.match(expected) is not None)


def _is_unfolded(one: Told) -> bool:
    """Say whether more than five names are told, or not where the rest of them stand."""
    more = MORE.search(one.problem.expected)
    listed = (names.count(", ") for names in LISTED.findall(one.problem.expected))
    return any(commas >= MOST_NAMED for commas in listed) or (more is not None and not more["where"])


def _is_foreign(one: Told) -> bool:
    """Say whether a name of the code or of a library stands there, or a value as the engine's language writes it."""
    text = f"{one.problem.found}; {one.problem.expected}"
    return FOREIGN.search(text) is not None or not _names_of_code().isdisjoint(
        set(re.findall(r"[A-Za-z_]+", text)) - KEYS
    )


def _is_indiscreet(one: Told) -> bool:
    """Say whether a secret is shown, or anything of the message of a case."""
    return PATIENTS_NAME in str(one.problem) or SECRET in str(one.problem)


RULES: Final[dict[str, Callable[[Told], bool]]] = {
    "the author's own file": _is_elsewhere,
    "the line": _is_astray,
    "the next step": _is_helpless,
    "five names at most": _is_unfolded,
    "no word of the code": _is_foreign,
    "no secret, no patient": _is_indiscreet,
}


def test_every_error_is_provoked_and_keeps_the_rules(everything: Everything) -> None:
    """No statement and no text in the rooms that tells an author something is left out: a new one needs a row."""
    told, reached = everything
    assert list(map(str, reached.missing())) == []
    seen = "\n".join(f"{one.problem.found}\n{one.problem.expected}" for one in told)
    assert [str(text) for text in texts() if text.text not in seen and text.text not in NOT_TOLD] == []
    broken = {
        rule: sorted({f"{one.row}: {one.problem}" for one in told if breaks(one)}) for rule, breaks in RULES.items()
    }
    assert {rule: rows for rule, rows in broken.items() if rows} == {}
    assert len(told) > 1000
    assert any(MORE.search(one.problem.expected) for one in told)
    assert any(PATIENTS_NAME in (one.text or "") for one in told)


@pytest.mark.parametrize(
    ("rule", "found", "expected", "text"),
    [
        pytest.param("the author's own file", "found 'x'", "expected y", None, id="a shipped file"),
        pytest.param("the line", "found 'x'", "expected y", "resource: Patient\n", id="another line"),
        pytest.param("the line", "found 'x'", "expected y", "", id="a line of no file"),
        pytest.param("the next step", "found 'x'", "PID-3 is of type CX", "name: x\n", id="a mere fact"),
        pytest.param("the next step", "found 'x'", "a server wants to know who asks", "name: x\n", id="a sentence"),
        pytest.param("five names at most", "found 'x'", "expected one of a, b, c, d, e, f", "name: x\n", id="six"),
        pytest.param("five names at most", "found 'x'", "one of a, b and 2 more", "name: x\n", id="and where"),
        pytest.param("no word of the code", "found ['x']", "expected a map", "name: x\n", id="a list of Python's"),
        pytest.param("no word of the code", "found None", "expected a map", "name: x\n", id="None"),
        pytest.param(
            "no word of the code", "found 'x'", "use y: Input should be 'y'", "name: x\n", id="a library's words"
        ),
        pytest.param("no word of the code", "refused by make_event_table", "use y", "name: x\n", id="a function"),
        pytest.param("no word of the code", "no _EventFile; no IdentityReader", "use y", "name: x\n", id="a class"),
        pytest.param("no secret, no patient", f"found {PATIENTS_NAME!r}", "use y", "name: x\n", id="a patient"),
        pytest.param("no secret, no patient", f"found {SECRET!r}", "use y", "name: x\n", id="a secret"),
    ],
)
def test_each_rule_is_one(rule: str, found: str, expected: str, text: str | None) -> None:
    """A text that breaks a rule breaks that one alone, however good the rest of it is."""
    line = 2 if text == "" else 1
    told = Told("row", Problem("a.yaml", line, 1, "name", found, expected), text)
    assert [name for name, breaks in RULES.items() if breaks(told)] == [rule]


def test_the_rooms_are_read_whole() -> None:
    """Both rooms, with every statement of some hundreds."""
    assert {file.split("/")[1] for file in modules()} == {"config", "mapping", "pipeline"}
    assert len(sites()) > 300
    assert len(asked()) > 30
    assert ELSEWHERE.keys() <= {str(path.relative_to(ROOT)) for path in (ROOT / "engine").rglob("*.py")}
