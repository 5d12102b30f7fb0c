"""What is told of the files of an outgoing mapping: those that its own tests break, laid over the shipped ones."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engine.config.settings import shipped
from engine.mapping.outgoing.case import read_outgoing_cases
from engine.mapping.outgoing.compile import compile_outgoing, read_outgoing
from tests.errors.mappings import refused
from tests.errors.shipped import write
from tests.errors.told import Told, rows_of, told
from tests.mapping.outgoing import test_mistakes

MAPPINGS: Final = shipped("mappings")


def told_of_outgoing(folder: Path) -> Iterator[Told]:
    """Yield what is told of each broken file, and of each broken file of cases."""
    for number, (file, text, _) in enumerate(rows_of(test_mistakes.test_a_mistake_is_told_with_what_is_near)):
        site = write(folder / str(number), {f"{file}.yaml": text})
        yield from told(
            f"outgoing[{number}]", site, refused(lambda site=site: compile_outgoing(read_outgoing([site, MAPPINGS])))
        )
    yield from told("no such outgoing mapping", folder, refused(lambda: read_outgoing([folder, MAPPINGS], "qqqq")))
    for number, (text, _) in enumerate(rows_of(test_mistakes.test_a_mistake_of_a_case)):
        site = folder / f"cases-{number}"
        site.mkdir()
        file = site / "a.yaml"
        file.write_text(text)
        yield from told(f"outgoing cases[{number}]", site, refused(lambda file=file: read_outgoing_cases([file])))
