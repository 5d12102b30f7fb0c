"""A client at work: its steps done one after the other, in this process or in its own, and what each one saw."""

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.interchange.browser import Browser
from tests.interchange.clients.task import Browse, Json, Steps, Task

LONGEST = 120  # seconds for a walk


@dataclass(slots=True)
class Walk:
    """What a client did: by verb what it saw, or what went wrong; and the exit code of its program."""

    task: Task
    saw: dict[str, Json] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    exit_code: int = 0

    def note(self, line: Json) -> None:
        """Take what a program tells of one step."""
        if "error" in line:
            self.errors[line["step"]] = line["error"]
        else:
            self.saw[line["step"]] = line["saw"]


def browser_of(task: Task) -> Browse:
    """Return a person at a browser, who opens the sign-in at a URL, fills its form and allows what is asked for."""
    browser = Browser(task.service)

    def browse(url: str) -> str:
        page = browser.visit(url)
        assert page.action, (page.answer.headers, page.answer.text)
        answer = browser.send(page).answer
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    return browse


def walk_here(task: Task, steps: Callable[[Task, Browse], Steps]) -> Walk:
    """Do the steps of a Python client."""
    walk = Walk(task)
    for verb, call in steps(task, browser_of(task)).items():
        try:
            walk.saw[verb] = call(task.given.get(verb))
        except Exception as error:  # noqa: BLE001 - whatever a client raises is the result of its step
            walk.errors[verb] = repr(error)
            walk.exit_code = 1
    return walk


def walk_apart(task: Task, command: list[str], errors: Path) -> Walk:
    """Run a program that reads the task from its input, and tells of each step and of each URL to open by a line."""
    walk = Walk(task)
    browse = browser_of(task)
    with (
        errors.open("w") as said,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True, bufsize=1
        ) as program,
    ):
        try:
            _say(program, json.dumps(task.as_json()))
            for line in _lines(program):
                if "open" in line:
                    _say(program, browse(line["open"]))
                else:
                    walk.note(line)
            walk.exit_code = program.wait(LONGEST)
        finally:
            program.kill()
    if not walk.saw:
        walk.errors["start"] = errors.read_text()[-4000:]
    return walk


def _say(program: "subprocess.Popen[str]", line: str) -> None:
    assert program.stdin
    program.stdin.write(f"{line}\n")
    program.stdin.flush()


def _lines(program: "subprocess.Popen[str]") -> Iterator[Json]:
    assert program.stdout
    return (json.loads(line) for line in program.stdout)
