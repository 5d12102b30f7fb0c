"""Mapping files written together: each whole, all or none, whatever comes between; those before are kept."""

import multiprocessing
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from engine import fault
from engine.errors import UsageError
from engine.pipeline.publication import (
    FOLDER,
    Publication,
    PublicationState,
    publications,
    put,
    put_back,
    recover,
    settle,
    tell,
    text_of,
    untold,
)

BEFORE = {"resources/patient.yaml": "old\n", "tables/new.yaml": None}
AFTER = {"resources/patient.yaml": "new\n", "tables/new.yaml": "table\n"}


@pytest.fixture
def made(tmp_path: Path) -> Publication:
    """A publication of a file that is there and one that is not."""
    folder = tmp_path / "mappings"
    (folder / "resources").mkdir(parents=True)
    (folder / "resources/patient.yaml").write_text("old\n")
    (tmp_path / "data").mkdir()
    return Publication(1, "2026-03-01", "ann", "ticket", str(folder), BEFORE, AFTER)


def _texts(made: Publication) -> dict[str, str | None]:
    return {name: text_of(Path(made.folder), name) for name in made.after}


def test_files_are_written_and_those_before_are_kept(tmp_path: Path, made: Publication) -> None:
    """A new file's folder is made; the record has both texts, and is not for others to read."""
    put(tmp_path / "data", made)
    assert _texts(made) == AFTER
    assert [publication.state for publication in publications(tmp_path / "data")] == [PublicationState.WRITING]
    settle(tmp_path / "data", made, PublicationState.IN_FORCE)
    assert publications(tmp_path / "data") == [replace(made, state=PublicationState.IN_FORCE)]
    (file,) = (tmp_path / "data" / FOLDER).iterdir()
    assert file.stat().st_mode & 0o077 == 0


def test_the_mode_of_a_file_stays(tmp_path: Path, made: Publication) -> None:
    """Whoever could read and write it can do so afterwards."""
    file = Path(made.folder) / "resources/patient.yaml"
    file.chmod(0o664)
    put(tmp_path / "data", made)
    assert file.stat().st_mode & 0o777 == 0o664


@pytest.mark.parametrize("written", [{}, {"resources/patient.yaml": "new\n"}, AFTER])
def test_what_a_crash_left_is_put_back_at_the_next_start(
    tmp_path: Path, made: Publication, written: dict[str, str]
) -> None:
    """However far it had come: all files are as before, once; a second start finds nothing to do."""
    put(tmp_path / "data", made)
    for name, text in BEFORE.items():
        file = Path(made.folder) / name
        if name not in written:
            file.unlink() if text is None else file.write_text(text)
    assert recover(tmp_path / "data") == 1
    assert _texts(made) == BEFORE
    assert [publication.state for publication in publications(tmp_path / "data")] == [PublicationState.REFUSED]
    (Path(made.folder) / "resources/patient.yaml").write_text("by hand\n")
    assert recover(tmp_path / "data") == 0
    assert _texts(made)["resources/patient.yaml"] == "by hand\n"


def _killed(specification: str, do: Callable[[], object]) -> None:
    """Do something in a process of its own that dies at a fault point; AssertionError where it comes to its end."""

    def work() -> None:
        fault.arm(specification)
        do()

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(30)
    assert process.exitcode == -signal.SIGKILL


def _published(data: Path, one: Publication) -> None:
    put(data, one)
    settle(data, one, PublicationState.IN_FORCE)


# What is written of a publication: its record, each of its two files, and its record once more.
WRITES: Final = 4


@pytest.mark.parametrize("nth", range(1, WRITES + 1))
@pytest.mark.parametrize("again", range(WRITES))
def test_killed_at_any_write_all_files_are_as_before(tmp_path: Path, made: Publication, nth: int, again: int) -> None:
    """At the next start, or the one after it where that was killed as well (at its `again`th write); and it is told."""
    data = tmp_path / "data"
    _killed(f"F50:kill:{nth}", lambda: _published(data, made))
    if 0 < again <= nth - 2 and nth > 1:
        _killed(f"F50:kill:{again}", lambda: recover(data))
    found = recover(data)
    assert _texts(made) == BEFORE
    assert not list(Path(made.folder).rglob(".*"))
    assert (found, untold(data)) == ((0, []) if nth == 1 else (1, [1]))
    assert [publication.state for publication in publications(data)] == [PublicationState.REFUSED] * (nth > 1)
    tell(data, 1)
    assert (untold(data), recover(data)) == ([], 0)
    assert _texts(made) == BEFORE
    put(data, replace(made, number=2))
    assert _texts(made) == AFTER


@pytest.mark.parametrize("nth", range(1, WRITES + 1))
def test_killed_as_it_is_taken_back(tmp_path: Path, made: Publication, nth: int) -> None:
    """The files are those of the publication, or those before, and the record says which: never both in force.

    Of the two files one is removed, which is no write of its own.
    """
    data = tmp_path / "data"
    _published(data, made)
    back = replace(made, number=2, before=AFTER, after=BEFORE, undoes=1)
    _killed(f"F50:kill:{nth}", lambda: _published(data, back))
    recover(data)
    taken = nth == WRITES
    assert _texts(made) == (BEFORE if taken else AFTER)
    states = {publication.number: publication.state for publication in publications(data)}
    assert states[1] is (PublicationState.TAKEN_BACK if taken else PublicationState.IN_FORCE)
    assert states.get(2, PublicationState.REFUSED) is (PublicationState.IN_FORCE if taken else PublicationState.REFUSED)
    assert untold(data) == ([2] if 1 < nth < WRITES else [])


def test_what_is_in_force_stays_at_the_next_start(tmp_path: Path, made: Publication) -> None:
    """A publication that was settled is none of a crash's."""
    put(tmp_path / "data", made)
    settle(tmp_path / "data", made, PublicationState.IN_FORCE)
    assert recover(tmp_path / "data") == 0
    assert _texts(made) == AFTER
    assert recover(tmp_path / "nowhere") == 0


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path: Path, made: Publication) -> None:
    """Nothing is written, and nothing is on record; the error names the file."""
    (Path(made.folder) / "resources/patient.yaml").write_text("by hand\n")
    with pytest.raises(UsageError, match=r"resources/patient.yaml changed meanwhile"):
        put(tmp_path / "data", made)
    assert _texts(made) == {"resources/patient.yaml": "by hand\n", "tables/new.yaml": None}
    assert publications(tmp_path / "data") == []


def test_two_at_once_do_not_overwrite_each_other(tmp_path: Path, made: Publication) -> None:
    """The second one of a number is refused, and the record of the first one stays."""
    put(tmp_path / "data", made)
    with pytest.raises(UsageError, match="somebody else"):
        put(tmp_path / "data", replace(made, by="bob", before=AFTER, after=BEFORE))
    assert [publication.by for publication in publications(tmp_path / "data")] == ["ann"]


def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path, made: Publication) -> None:
    """What it leads to is neither read nor written."""
    outside = tmp_path / "outside.yaml"
    outside.write_text("old\n")
    (Path(made.folder) / "resources/patient.yaml").unlink()
    (Path(made.folder) / "resources/patient.yaml").symlink_to(outside)
    with pytest.raises(UsageError, match="leads out of the mapping folder"):
        put(tmp_path / "data", made)
    assert outside.read_text() == "old\n"


def test_a_folder_that_cannot_be_written_changes_nothing(tmp_path: Path, made: Publication) -> None:
    """A file stands where a folder would have to: the error says what to look at, all files are as before."""
    (Path(made.folder) / "tables").write_text("no folder")
    with pytest.raises(UsageError, match="cannot be written"):
        put(tmp_path / "data", made)
    assert text_of(Path(made.folder), "resources/patient.yaml") == "old\n"
    assert [publication.state for publication in publications(tmp_path / "data")] == [PublicationState.REFUSED]


def test_taking_back_marks_the_one_that_is_taken_back(tmp_path: Path, made: Publication) -> None:
    """The files before are there again, the new one is gone; both records say what became of them."""
    put(tmp_path / "data", made)
    settle(tmp_path / "data", made, PublicationState.IN_FORCE)
    back = replace(made, number=2, before=AFTER, after=BEFORE, undoes=1)
    put(tmp_path / "data", back)
    settle(tmp_path / "data", back, PublicationState.IN_FORCE)
    assert _texts(made) == BEFORE
    assert [publication.state for publication in publications(tmp_path / "data")] == [
        PublicationState.IN_FORCE,
        PublicationState.TAKEN_BACK,
    ]
    put_back(tmp_path / "data", back)
    assert _texts(made) == AFTER
