"""Orders as files in a folder: whole ones only, one for each attempt, and looked for before one is written."""

import asyncio
import os
from pathlib import Path

import pytest

from engine import fault
from engine.config.laboratory import LaboratoryConnector
from engine.hl7.message import parse
from engine.interchange.orders.laboratory.connectors.connector import SendVerdict
from engine.interchange.orders.laboratory.connectors.directory import DirectoryConnector
from engine.interchange.orders.laboratory.order import LaboratoryOrder
from engine.interchange.store.transmission import TransmissionOutcome
from tests.interchange.jobs import until
from tests.interchange.laboratory.bench import bench
from tests.interchange.laboratory.orders import AT, kept, ordered, read


@pytest.fixture(scope="module")
def order(tmp_path_factory: pytest.TempPathFactory) -> LaboratoryOrder:
    """The order of the tests."""
    with kept(tmp_path_factory.mktemp("order"), ordered()) as store:
        return read(store)


def connector(folder: Path) -> DirectoryConnector:
    """Return the way to a folder."""
    return DirectoryConnector(LaboratoryConnector(type="directory", folder=str(folder)), "T", AT)


def sent(order: LaboratoryOrder, folder: Path) -> SendVerdict:
    """Lay an order into a folder."""
    return asyncio.run(connector(folder).transmit(order, "C1"))


def test_a_file(order: LaboratoryOrder, tmp_path: Path) -> None:
    """The message stands in a file of its control id's name, and nothing else is left there."""
    assert sent(order, tmp_path).outcome is TransmissionOutcome.ACCEPTED
    [file] = tmp_path.iterdir()
    assert file.name == "C1.hl7"
    assert parse(file.read_bytes()).leaf("MSH", 10) == "C1"


@pytest.mark.parametrize("collected", [False, True])
def test_the_same_attempt_makes_no_second_file(order: LaboratoryOrder, tmp_path: Path, *, collected: bool) -> None:
    """It is looked for in the folder, and in `done/` to which a collector moves it."""
    assert asyncio.run(connector(tmp_path).ask("C1")).outcome is TransmissionOutcome.NEVER_HAD_IT
    sent(order, tmp_path)
    if collected:
        (tmp_path / "done").mkdir()
        (tmp_path / "C1.hl7").rename(tmp_path / "done/C1.hl7")
    before = sorted(tmp_path.rglob("*.hl7"))
    assert asyncio.run(connector(tmp_path).ask("C1")).outcome is TransmissionOutcome.ACCEPTED
    assert sent(order, tmp_path).outcome is TransmissionOutcome.ACCEPTED
    assert sorted(tmp_path.rglob("*.hl7")) == before


def test_what_a_process_left_half_written(order: LaboratoryOrder, tmp_path: Path) -> None:
    """It is not taken for the file, and written anew."""
    (tmp_path / ".C1.part").write_bytes(b"MSH|^~")
    assert asyncio.run(connector(tmp_path).ask("C1")).outcome is TransmissionOutcome.NEVER_HAD_IT
    sent(order, tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["C1.hl7"]


def test_a_folder_that_is_not_there(order: LaboratoryOrder, tmp_path: Path) -> None:
    """Nothing has left then: it is tried again; whether the order was laid nobody knows."""
    assert sent(order, tmp_path / "none").outcome is TransmissionOutcome.UNREACHABLE
    assert asyncio.run(connector(tmp_path / "none").ask("C1")).outcome is TransmissionOutcome.UNKNOWN


def test_a_disk_that_is_full(order: LaboratoryOrder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the rename nothing has left; behind it the file is there, and asking tells."""

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    verdict = sent(order, tmp_path)
    assert (verdict.outcome, "No space left" in verdict.reason) == (TransmissionOutcome.UNREACHABLE, True)
    assert list(tmp_path.glob("*.hl7")) == []
    monkeypatch.undo()
    monkeypatch.setattr(fault, "point", lambda name: name == "F40" and monkeypatch.setattr(os, "fsync", full))
    assert sent(order, tmp_path).outcome is TransmissionOutcome.UNKNOWN
    assert asyncio.run(connector(tmp_path).ask("C1")).outcome is TransmissionOutcome.ACCEPTED


def test_through_the_service(tmp_path: Path) -> None:
    """A folder that comes later gets what has waited for it, one file an order."""
    folder = tmp_path / "out"
    with bench(tmp_path, lab_1={"type": "directory", "folder": str(folder)}) as service:
        service.place("o1", "o2")
        until(lambda: service.sent().tries == 1 and service.sent().standing == "waiting")
        folder.mkdir()
        service.advance(10)
        service.until("accepted", "o2")
        assert service.status() == "sent"
        names = {one.control_id for order in ("o1", "o2") for one in service.tries(order)}
    assert {one.stem for one in folder.iterdir()} == names
    assert len(names) == 2
