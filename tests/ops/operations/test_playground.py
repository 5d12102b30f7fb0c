"""The playground's operations: bounded, on a channel that is there, with files that may be edited and no others."""

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.config.settings import shipped
from engine.errors import AdtEngineError, MalformedRequestError, UsageError, WorkerError
from engine.mapping.authoring.case import channel_of
from engine.mapping.compile import compile_mapping, read
from engine.ops.access.actor import Role
from engine.ops.operations.playground import MOST_CHARACTERS, ListMappingFiles, ShowMappingFile, TryMapping
from engine.ops.playground.site import MOST_FILES
from engine.pipeline.feed import feeds_of
from engine.pipeline.worker import Worker
from tests.ops.operations.stage import actor
from tests.ops.playground.bench_site import MESSAGE, PATIENT, site

ANN = actor(Role.AUTHOR)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Any]:
    """What the operations ask for of an engine: its channels, the mapping folder, and a process for tries."""
    worker = Worker()
    channel = channel_of({})
    compiled = compile_mapping(read([shipped("mappings")], channel.mapping), channel)
    feeds = feeds_of({"adt": channel}, {"adt": compiled}, {})
    files = SimpleNamespace(mappings=site(tmp_path / "site"), data=tmp_path)
    yield SimpleNamespace(feeds=feeds, files=files, worker=worker)
    await worker.close()


async def test_the_files_are_those_of_the_site_and_the_shipped_ones(engine: Any) -> None:
    """By names below their folders, with marks; a file by its name has the text that is on the disk."""
    listed = {one.path: one for one in await ListMappingFiles().run(engine, ANN)}
    assert {"resources/patient.yaml", "tests/born.yaml", "shipped/adt.yaml", "shipped/resources/patient.yaml"} <= set(
        listed
    )
    shown = await ShowMappingFile.parse({"path": "resources/patient.yaml"}).run(engine, ANN)
    assert (shown.text, shown.digest) == (PATIENT, listed["resources/patient.yaml"].digest)


@pytest.mark.parametrize(
    "path", ["", "../channels/adt.yaml", "/etc/passwd", "resources/../../x.yaml", "other/x.yaml", "shipped/../x.yaml",
             "resources/patient.yaml/..", "resources/nobody.yaml"],
)  # fmt: skip
async def test_no_other_file_is_shown(engine: Any, path: str) -> None:
    """What is none of a mapping folder is refused, whether it exists or not."""
    with pytest.raises(UsageError, match="mapping file"):
        await ShowMappingFile.parse({"path": path}).run(engine, ANN)


async def test_a_message_is_tried_in_the_process(engine: Any) -> None:
    """As on the first channel where none is named; the engine's own files stay as they are."""
    edited = {"resources/patient.yaml": PATIENT.replace("PID-7", "EVN-2")}
    made = await TryMapping.parse({"message": MESSAGE, "edited": edited}).run(engine, ANN)
    assert made.plan[0].resource["birthDate"] == "2025-07-01"
    assert engine.worker.pid is not None


@pytest.mark.parametrize(
    ("given", "error"),
    [
        pytest.param({"message": " "}, UsageError, id="no message"),
        pytest.param({"message": "M" * (MOST_CHARACTERS + 1)}, UsageError, id="a long one"),
        pytest.param({"message": MESSAGE, "channel": "none"}, UsageError, id="no such channel"),
        pytest.param({"message": MESSAGE, "edited": {"../x.yaml": ""}}, UsageError, id="a file elsewhere"),
        pytest.param({"message": MESSAGE, "edited": {"shipped/adt.yaml": ""}}, UsageError, id="a shipped file"),
        pytest.param(
            {"message": MESSAGE, "edited": {f"tables/{n}.yaml": "" for n in range(MOST_FILES + 1)}},
            UsageError,
            id="many files",
        ),
        pytest.param({"message": MESSAGE, "edited": ["x"]}, MalformedRequestError, id="a list"),
        pytest.param({"message": MESSAGE, "edited": {"adt.yaml": 1}}, MalformedRequestError, id="no text"),
    ],
)
async def test_what_cannot_be_tried_is_refused(engine: Any, given: dict[str, Any], error: type[AdtEngineError]) -> None:
    """Before any process is asked."""
    with pytest.raises(error):
        await TryMapping.parse(given).run(engine, ANN)
    assert engine.worker.pid is None


async def test_a_mapping_that_takes_all_memory_ends_its_process_alone(engine: Any) -> None:
    """The engine's process is another one: WorkerError or problems come back, and the next try is answered."""
    deep = "resource: Patient\nextends: shipped/patient\nelements: " + "[" * 200_000
    try:
        made = await TryMapping.parse({"message": MESSAGE, "edited": {"resources/patient.yaml": deep}}).run(engine, ANN)
        assert made.problems
    except WorkerError:
        pass
    made = await TryMapping.parse({"message": MESSAGE}).run(engine, ANN)
    assert made.plan
