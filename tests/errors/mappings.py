"""What is told of the files of a mapping: those that other tests break, and those that are broken here alone."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from engine.config.channel import Channel
from engine.config.source import look, parse
from engine.errors import ConfigurationError, Problem
from engine.mapping.authoring.case import read_cases, run_cases
from engine.mapping.authoring.cost import Costs
from engine.mapping.authoring.negation import Negations
from engine.mapping.compile import MappingSource, compile_edits, compile_mapping, load
from engine.mapping.files import table_rows
from engine.mapping.files.undecided import undecided_in
from tests.errors.files import ADT, CASES, COSTLY, EMPTY, NEGATIVE, OPEN, OWN, PATIENT, Files, file_of
from tests.errors.shipped import write
from tests.errors.told import Told, rows_of, told
from tests.mapping.language import (
    test_comparison,
    test_errors,
    test_language,
    test_mistakes,
    test_string_functions,
    test_table_rows,
)
from tests.mapping.relay import test_compile_edit
from tests.mapping.resource import test_any_type, test_grouped, test_joined, test_lists
from tests.mapping.subject import test_filters, test_identity_fields


def _grouped(text: str) -> Files:
    head = test_grouped.SITE if text.startswith(" ") else test_grouped.SITE.replace("segments:\n", "")
    return file_of("resources__observation", head + text)


def _table(rows: str | None, table: str = test_table_rows.TABLE, rule: str = test_table_rows.SIMPLE) -> Files:
    files = file_of("tables__ward", table) | file_of("resources__patient", test_table_rows.RULE.format(rule))
    return files | ({"tables/ward.csv": rows} if rows is not None else {})


def _listed(text: str) -> Files:
    own = text.startswith("resource:")
    name = "goal" if own else "allergyintolerance"
    return file_of("adt", test_lists.SITE) | file_of(f"resources__{name}", text if own else test_lists.FILE + text)


# What other tests break, by the test: its rows, and the files that each stands for.
BORROWED: Final[dict[Callable[..., None], Callable[..., Files]]] = {
    test_errors.test_a_fault_is_told_with_its_place: lambda line, _: file_of(
        "resources__patient", f"{PATIENT}  {line}\n"
    ),
    test_errors.test_a_fault_in_the_event_table: lambda text, _: file_of("adt", f"{ADT}{text}\n"),
    test_errors.test_a_fault_in_a_resource_file: lambda text, _: file_of("resources__encounter", text),
    test_errors.test_a_mistake_is_one_line: lambda name, text, _: file_of(name, text),
    test_errors.test_a_mistake_of_a_whole_file_hides_no_other: lambda name, text, _: file_of(name, text),
    test_mistakes.test_each_is_told_once_where_it_stands: lambda name, text, *_: file_of(name, text),
    test_language.test_other_files_are_checked_too: lambda name, text, _: file_of(name, text),
    test_comparison.test_a_comparison_that_is_none_is_told_in_its_place: lambda condition, *_: file_of(
        "resources__patient", f'{PATIENT}  language: "yes | when {condition}"\n'
    ),
    test_string_functions.test_what_is_wrong_is_told_in_its_place: lambda expression, _: file_of(
        "resources__patient", f'{PATIENT}  language: "{expression}"\n'
    ),
    test_table_rows.test_what_is_wrong_with_a_file: lambda rows, _: _table(rows),
    test_table_rows.test_what_is_wrong_with_keys: lambda table, rule, _: _table("", test_table_rows.HEAD + table, rule),
    test_any_type.test_a_mistake_in_it: lambda name, text, _: file_of(f"resources__{name}", text),
    test_grouped.test_mistakes_are_told_with_their_place: lambda text, _: _grouped(text),
    test_joined.test_a_fault_is_told_with_its_place: lambda identity, _: file_of(
        "resources__encounter", f"resource: Encounter\nextends: shipped/encounter\nidentity:\n  {identity}\n"
    ),
    test_lists.test_mistakes_are_told_where_they_stand: lambda text, _: _listed(text),
    test_filters.test_what_is_wrong_is_told_in_its_place: lambda lines, *_: file_of(
        "adt", f"{test_filters.HEAD}{lines}\n"
    ),
    test_identity_fields.test_a_fault_is_told_with_its_place: lambda fields, types, _: file_of(
        "adt", f"{ADT}identity:\n  from: {fields}\n  {types}\n"
    ),
}


def broken() -> Iterator[tuple[str, Files]]:
    """Yield every row of mapping files: what it is called, and its files."""
    for test, files in BORROWED.items():
        for number, row in enumerate(rows_of(test)):
            yield f"{test.__module__}.{test.__name__}[{number}]", files(*row)
    yield from OWN.items()
    yield "a table without its rows", _table(None)
    sex = "table: administrative-sex\nextends: shipped/administrative-sex\nrows: sex.csv\n"
    yield (
        "a row with a code that the element does not have",
        file_of("tables__administrative-sex", sex) | {"tables/sex.csv": "key,code\nNO,mael\n"},
    )
    yield "rows elsewhere", _table("", test_table_rows.TABLE.replace("ward.csv", "../ward.csv"))
    yield "rows that are no UTF-8", _table("key,code\n\udcff")


def told_of_mappings(folder: Path, shipped: Path) -> Iterator[Told]:
    """Yield what is told of the files of a mapping, of the cases beside one, and of what one costs."""
    for number, (row, files) in enumerate(broken()):
        own = write(folder / str(number), files)
        yield from told(row, own, refused(lambda own=own: load([own, shipped], "adt")))
    for bound in ("MOST_ROWS", "MOST_BYTES"):
        own = write(folder / bound, _table("key,code\n1,A\n2,B\n"))
        with patch.object(table_rows, bound, 1):
            yield from told(bound, own, refused(lambda own=own: load([own, shipped], "adt")))
    own = write(folder / "unknown", {f"own-{number}.yaml": "" for number in range(7)})
    yield from told("an unknown mapping", own, refused(lambda: load([own, shipped], "qqqqqqq")))
    own = write(folder / "empty", EMPTY)
    yield from told("no Patient", own, refused(lambda: load([own], "adt")))
    yield from _told_of_filters(folder / "filters", shipped)
    yield from _told_of_edits(folder / "edits", shipped)
    source = load([shipped], "adt")
    for row, text in {**CASES, **_cases()}.items():
        own = write(folder / row, {"own.yaml": text})
        file = own / "own.yaml"
        for channels in ({}, {f"ward-{number}": source for number in range(7)}):
            yield from told(row, own, refused(partial(_run, file, source, channels)))
    for row, text in COSTLY.items():
        own = write(folder / row, file_of("resources__patient", text))
        yield from told(row, own, Costs(load([own, shipped], "adt")).warnings())
    for row, files in NEGATIVE.items():
        own = write(folder / row, files)
        yield from told(row, own, Negations(load([own, shipped], "adt").documents).warnings())
    own = write(folder / "undecided", OPEN)
    yield from told("undecided", own, tuple(undecided_in(load([own, shipped], "adt").documents)))


def _run(file: Path, source: MappingSource, channels: dict[str, Any]) -> None:
    run_cases(read_cases([file]), source, channels)


def _cases() -> Files:
    return {
        f"case {number}": row[0] for number, row in enumerate(rows_of(test_language.test_case_files_are_checked_too))
    }


def _told_of_filters(folder: Path, shipped: Path) -> Iterator[Told]:
    """Yield what is told of the filters of a channel, in its file."""
    source = load([shipped], "adt")
    for number, row in enumerate(rows_of(test_filters.test_conditions_of_a_channel_are_told_in_its_file)):
        own = write(folder / str(number), {"a.yaml": f"{test_filters.CHANNEL}{row[0]}\n"})
        looked = look(parse((own / "a.yaml").read_text(), str(own / "a.yaml")), Channel)
        yield from told(
            f"a filter {number}",
            own,
            refused(lambda looked=looked: compile_mapping(source, looked.value, file=looked.source)),
        )
    own = write(
        folder / "negative", {"a.yaml": f"{test_filters.CHANNEL}  - {{rule: a, when: PV1-2 != I, do: filter}}\n"}
    )
    looked = look(parse((own / "a.yaml").read_text(), str(own / "a.yaml")), Channel)
    assert looked.value is not None
    negative = Negations(source.documents).of_channel(looked.value)
    yield from told("a filter that may be misread", own, tuple(looked.located(negative)))


def _told_of_edits(folder: Path, shipped: Path) -> Iterator[Told]:
    """Yield what is told of the edits of relays, in the channel's file."""
    source = load([shipped], "adt")
    for number, row in enumerate(rows_of(test_compile_edit.test_a_fault_is_told_with_its_place)):
        own = write(folder / str(number), {"a.yaml": f"{test_compile_edit.CHANNEL}      {row[0]}\n"})
        looked = look(parse((own / "a.yaml").read_text(), str(own / "a.yaml")), Channel)
        yield from told(
            f"an edit {number}", own, refused(lambda looked=looked: compile_edits(source, looked.value, looked.source))
        )


def refused(done: Callable[[], Any]) -> tuple[Problem, ...]:
    """Return the problems that something is refused for; none where it is not."""
    try:
        done()
    except ConfigurationError as error:
        return error.problems
    return ()
