"""`adt-engine interchange compendium`: checks and loads laboratories' files, and shows their tests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from engine.clock import now
from engine.config.service import ServiceConfiguration
from engine.config.source import scan, validate
from engine.errors import UsageError
from engine.interchange.orders.compendium.files.read import ReadFile, load_file, read_file
from engine.interchange.orders.compendium.load import Summary, load
from engine.interchange.orders.compendium.overview import (
    QuestionSeen,
    TestSeen,
    list_laboratories,
    list_tests,
    show_test,
)
from engine.interchange.orders.compendium.settle import SettleOutcome
from engine.interchange.store.place import place_of
from engine.terminal.faults import arm_as_asked
from engine.terminal.options import DATABASE, AsJson, Database
from engine.terminal.table import errors, note, output, print_json, print_line, progress, table

# Of a table; all are in its JSON.
MOST_ROWS: Final = 500
# What a summary calls the resources.
NAMES: Final = {"Organization": "laboratory", "ActivityDefinition": "tests", "Questionnaire": "questionnaires"}

Tenant = Annotated[str, typer.Option("--tenant", help="The tenant whose laboratory it is.")]

app = typer.Typer(help="Check and load laboratories' tests, and show what is kept of them.", no_args_is_help=True)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Laboratories' files (YAML).")],
    as_json: AsJson = False,
) -> None:
    """Check laboratories' files, and the tables that they name, and report all problems with file, line and column.

    Exit 0 if there are none, 1 otherwise. A set of questions that no test asks is a warning.

    Example: adt-engine interchange compendium check cedar.yaml
    """
    read = {str(file): read_file(file) for file in files}
    problems = [problem for one in read.values() for problem in one.problems]
    warnings = [warning for one in read.values() for warning in one.warnings]
    if as_json:
        reports = {"problems": problems, "warnings": warnings}
        counts = {file: {"tests": _size(one)} for file, one in read.items()}
        print_json({"files": counts, **{name: [one._asdict() for one in found] for name, found in reports.items()}})
    else:
        for text in (*(f"warning: {one}" for one in warnings), *map(str, problems)):
            errors().print(text, markup=False, soft_wrap=True)
        for file, one in read.items():
            if not one.problems:
                typer.echo(f"{file}: {_size(one)} tests, no problems")
    if problems:
        raise typer.Exit(1)


@app.command(name="load")
def load_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A laboratory's file (YAML).")],
    config: Annotated[Path, typer.Option("--config", help="The service's configuration (YAML or JSON).")],
    tenant: Tenant,
    database: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """Load a laboratory's file: its Organization, its tests and their questions, beside a running service or without.

    A test that the file no longer has is retired: kept, and not orderable. What is as the file says gets no new
    version. Loading writes in short commits; one that was interrupted is finished by loading again.

    Example: adt-engine interchange compendium load cedar.yaml --config interchange.yaml --tenant riverbend
    """
    arm_as_asked()
    configuration = validate(scan(config), ServiceConfiguration)
    compendium = load_file(file)
    with progress(shown=not as_json) as bar:
        task = bar.add_task(compendium.laboratory.name, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        summary = load(configuration, place_of(database), tenant, compendium, now, report)
    if as_json:
        counts = {name: _counts(summary, kind) for kind, name in NAMES.items()}
        print_json({"laboratory_id": summary.laboratory, **counts})
        return
    for kind, name in NAMES.items():
        found = {outcome: number for outcome, number in _counts(summary, kind).items() if number}
        print_line(f"{name}: {', '.join(f'{number} {outcome}' for outcome, number in found.items()) or 'none'}")


@app.command()
def show(
    tenant: Tenant,
    laboratory: Annotated[str, typer.Argument(metavar="LAB", help="A laboratory's id; default: list them.")] = "",
    code: Annotated[str, typer.Option(help="A test's code: show what it asks.")] = "",
    find: Annotated[str, typer.Option(help="Only tests with this text in code, title or a synonym.")] = "",
    database: Database = DATABASE,
    as_json: AsJson = False,
) -> None:
    """Show which laboratories' tests are kept; of one laboratory its tests, of one test its questions.

    Example: adt-engine interchange compendium show lab-1 --code LIPID --tenant riverbend
    """
    path = place_of(database)
    if code and not laboratory:
        raise UsageError("name the laboratory, too: adt-engine interchange compendium show LAB --code CODE")
    if code:
        _print_test(*show_test(path, tenant, laboratory, code), as_json=as_json)
    elif laboratory:
        tests = list_tests(path, tenant, laboratory, find)
        headings = ("Code", "Title", "Status", "LOINC", "Specimen", "Asks")
        rows = [(test.code, test.title, test.status, test.loinc, test.specimen, test.questionnaire) for test in tests]
        _print_table([test._asdict() for test in tests], headings, rows, as_json=as_json)
    else:
        laboratories = list_laboratories(path, tenant)
        columns = ("Laboratory", "Name", "Ordering", "Tests #", "Orderable #")
        cells = [(one.id, one.name, _yes(one.ordering_enabled), one.tests, one.orderable) for one in laboratories]
        _print_table([one._asdict() for one in laboratories], columns, cells, as_json=as_json)


def _print_table(
    values: list[dict[str, Any]], columns: Sequence[str], rows: Sequence[Sequence[object]], *, as_json: bool
) -> None:
    if as_json:
        print_json(values)
    else:
        output().print(table(columns, rows[:MOST_ROWS]))
        if len(rows) > MOST_ROWS:
            note(f"and {len(rows) - MOST_ROWS} more: --find TEXT shows some of them, --json all")


def _print_test(test: TestSeen, questions: Sequence[QuestionSeen], *, as_json: bool) -> None:
    if as_json:
        print_json({**test._asdict(), "questions": [question._asdict() for question in questions]})
        return
    for name, value in test._asdict().items():
        text = "; ".join(value) if isinstance(value, tuple) else value
        if text:
            print_line(f"{name}: {text}")
    for question in questions:
        print_line(f"{'  ' * (question.depth + 1)}{_line_of(question)}")


def _line_of(question: QuestionSeen) -> str:
    """Return a question in one line: id, text, answer options or type, and whether it is required."""
    answer = ", ".join(question.options) or question.type
    required = {"": "", "yes": "; required", "when-collected": "; required when a specimen is collected"}
    when = f"; asked when {question.when}" if question.when else ""
    return f"{question.id}: {question.text} [{answer}{required[question.required]}{when}]"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _size(read: ReadFile) -> int:
    return len(read.compendium.tests) if read.compendium else 0


def _counts(summary: Summary, kind: str) -> dict[str, int]:
    return {outcome.value: summary.counts[kind][outcome] for outcome in SettleOutcome}
