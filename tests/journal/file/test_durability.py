"""What was answered is on the disk: kills at every step, I/O errors by real means, a full disk."""

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from engine.errors import DiskReserveError, JournalFailedError, UnknownEntryError
from engine.journal.entry import State
from engine.journal.read.reading import Reader
from tests.journal.desk import Desk, Opener

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
POINTS = ("F03", "F05", "F08", "F09", "F11", "F15", "F17")

# Fails the nth sync of the journal's files, as a dying disk does; or those of its folder, which SQLite ignores.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
static int left = -1;
static int strike(int fd) {
  struct stat what;
  if (fstat(fd, &what) == 0 && S_ISDIR(what.st_mode)) return getenv("FAIL_FOLDER") != NULL;
  if (left < 0) { const char *nth = getenv("FAIL_SYNC"); left = nth ? atoi(nth) : 0; }
  return left > 0 && --left == 0;
}
int fdatasync(int fd) {
  if (strike(fd)) { errno = EIO; return -1; }
  return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
int fsync(int fd) {
  if (strike(fd)) { errno = EIO; return -1; }
  return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(fd);
}
"""


def spawn(folder: Path, first: int, count: int, *more: str, **environment: str) -> subprocess.Popen[str]:
    """Start a life."""
    command = [sys.executable, "-m", "tests.journal.lives", str(folder), str(first), str(count), *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment})


def told(process: subprocess.Popen[str]) -> list[list[str]]:
    """Return what a life told until it ended; a line that the kill tore off is left out."""
    output, _nothing = process.communicate(timeout=60)
    return [line.split() for line in output.splitlines(keepends=True) if line.endswith("\n")]


def check(folder: Path, lines: list[list[str]]) -> None:
    """Hold what is in the journal against what lives told."""
    acked = {int(line[1]): line[2] for line in lines if line[0] == "ack"}
    done = {int(line[1]) for line in lines if line[0] == "done"}
    with Reader(folder) as reader:
        assert reader._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        for seq, control_id in acked.items():
            view = reader.show(seq)
            assert (view.row.control_id, view.sound) == (control_id, True)
            assert view.row.state is State.DELIVERED or seq not in done
        for line in lines:
            if line[0] == "intent":
                attempts = reader.show(int(line[1])).deliveries[0].attempts
                assert int(line[2]) in {attempt.intent.number for attempt in attempts}


def check_drained(folder: Path) -> None:
    """After a life that ended well everything is delivered, and no intent is without an outcome."""
    with Reader(folder) as reader:
        assert reader.stats().deliveries == {}
        connection = reader._connection
        assert connection.execute("SELECT COUNT(*) FROM queue").fetchone() == (0,)
        unanswered = "SELECT COUNT(*) FROM attempt WHERE id NOT IN (SELECT attempt FROM answer)"
        assert connection.execute(unanswered).fetchone() == (0,)


@pytest.mark.parametrize("point", POINTS)
def test_nothing_told_is_lost_to_a_kill_at(point: str, tmp_path: Path) -> None:
    """A process that is killed right before or after a commit leaves what it told, and the next one goes on."""
    process = spawn(tmp_path, 0, 60, f"{point}:kill:5")
    lines = told(process)
    assert process.returncode == -signal.SIGKILL
    check(tmp_path, lines)
    process = spawn(tmp_path, 0, 60)
    lines += told(process)
    assert process.returncode == 0
    check(tmp_path, lines)
    check_drained(tmp_path)
    assert {line[2] for line in lines if line[0] == "ack"} == {f"m{number}" for number in range(60)}


def test_nothing_told_is_lost_to_kills_at_random(tmp_path: Path) -> None:
    """SIGKILL at any moment, six times over, on one journal."""
    seed = int.from_bytes(os.urandom(4), "big")
    random = Random(seed)
    lines: list[list[str]] = []
    for life in range(6):
        process = spawn(tmp_path, life * 10_000, 10_000)
        assert process.stdout is not None
        lines.append(process.stdout.readline().split())
        time.sleep(random.uniform(0, 0.15))
        process.kill()
        lines += told(process)
        check(tmp_path, lines)
    process = spawn(tmp_path, 70_000, 1)
    lines += told(process)
    assert process.returncode == 0, f"seed {seed}"
    check(tmp_path, lines)
    check_drained(tmp_path)


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library that fails a sync."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc here")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", "shim.so", "shim.c", "-ldl"], cwd=folder, check=True)
    return folder / "shim.so"


@pytest.mark.parametrize("nth", [3, 8, 21, 60])
def test_a_failed_sync_stops_the_journal_for_good(nth: int, shim: Path, tmp_path: Path) -> None:
    """No acknowledgement after it, one call of `fail`; what was told before is there after the restart."""
    (tmp_path / "j").mkdir()
    assert told(spawn(tmp_path / "j", 0, 1))
    process = spawn(tmp_path / "j", 1, 5000, LD_PRELOAD=str(shim), FAIL_SYNC=str(nth))
    lines = told(process)
    if process.returncode != 1:  # 1: the journal could not even be opened, and said so
        assert process.returncode == 75
        assert lines[-1] == ["failed", "1"]
    check(tmp_path / "j", lines)
    process = spawn(tmp_path / "j", 6000, 10)
    lines += told(process)
    assert process.returncode == 0
    check(tmp_path / "j", lines)
    check_drained(tmp_path / "j")


def test_a_journal_whose_names_may_vanish_is_not_opened(shim: Path, tmp_path: Path) -> None:
    """SQLite makes nothing of a sync of its folder that fails; a power cut may take the names of files away then."""
    process = spawn(tmp_path, 0, 5, LD_PRELOAD=str(shim), FAIL_FOLDER="1")
    assert told(process) == []
    assert process.returncode == 1
    assert told(spawn(tmp_path, 0, 5))[-1] == ["done", "5"]


def test_a_write_that_the_system_refuses_stops_the_journal(tmp_path: Path) -> None:
    """A file that cannot grow is an I/O error like any other."""
    process = spawn(tmp_path, 0, 100_000, "bytes:3000000")
    lines = told(process)
    assert (process.returncode, lines[-1]) == (75, ["failed", "1"])
    check(tmp_path, lines)


async def test_after_a_failure_every_call_is_refused(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that waited, and those that come later."""
    async with opened() as desk:
        first = await desk.record("1", ("s|1",))
        monkeypatch.setattr("engine.journal.write.transactions.fault.point", _broken_disk)
        calls = [desk.journal.record(desk.entry(str(number), ("s|1",))) for number in range(2, 90)]
        results = await desk.together(calls, errors=True)
        assert {type(result) for result in results} == {JournalFailedError}
        assert desk.journal.failed
        with pytest.raises(JournalFailedError):
            await desk.claim()
        desk.journal.acknowledged(first, desk.entry("x").ack_outcome)
    assert [type(failure) for failure in desk.failures] == [JournalFailedError]
    monkeypatch.undo()
    async with opened() as desk:
        assert await desk.claimed() == [first]


def _broken_disk(_name: str) -> None:
    raise OSError(5, "Input/output error")


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """Give a command prefix that mounts a disk of 24 MiB on a folder, where the system lets us."""
    folder = tmp_path / "disk"
    folder.mkdir()
    probe = ["unshare", "-rm", "mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)]
    with contextlib.suppress(OSError):
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            return folder
    pytest.skip("no mount namespaces here")


@pytest.mark.parametrize(
    ("stop", "steps"),
    [
        pytest.param("", ["refused", "waiting", "went on", "closed 0"], id="until there is room again"),
        pytest.param("stop", ["refused", "waiting", "closed 0"], id="until it is stopped"),
    ],
)
def test_a_disk_without_one_free_byte_refuses_messages_and_stops_nothing(
    stop: str, steps: list[str], small_disk: Path
) -> None:
    """Whatever else fills it, the reserve too: outcomes wait for room, and the next life opens what was stored."""
    life = f"{sys.executable} -m tests.journal.starved {small_disk} {stop}"
    again = f"rm -f {small_disk}/others && {sys.executable} -m tests.journal.lives {small_disk} 0 1"
    script = f"mount -t tmpfs -o size=24m tmpfs {small_disk} && {life} && {again}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, (done.stdout, done.stderr[-3000:])
    assert done.stdout.splitlines()[: len(steps)] == steps


def test_a_full_disk_refuses_what_is_new_and_ends_what_was_accepted(small_disk: Path) -> None:
    """Messages are refused below the reserve; every accepted one is still delivered, and nothing stops."""
    life = f"{sys.executable} -m tests.journal.lives {small_disk} 0 20000"
    script = f"mount -t tmpfs -o size=24m tmpfs {small_disk} && {life}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    kinds = {kind: {line[1] for line in lines if line[0] == kind} for kind in ("ack", "done", "refused")}
    assert done.returncode == 0, (done.stderr[-2000:], lines[-1])
    assert kinds["refused"]
    assert kinds["ack"] == kinds["done"]


@pytest.mark.parametrize("end", [False, True], ids=["while idle", "at the close"])
async def test_a_commit_that_nobody_waits_for_may_find_the_disk_full(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, end: bool
) -> None:
    """A claim is made durable once there is nothing else to do: where it cannot be, the journal goes on without it."""
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
        writer, struck = desk.journal._writer._transactions, asyncio.Event()
        commit, loop = writer.commit, asyncio.get_running_loop()

        def full() -> None:
            monkeypatch.setattr(writer, "commit", commit)
            loop.call_soon_threadsafe(struck.set)
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(writer, "commit", full)
        assert await desk.claimed() == [seq]
        if end:
            await desk.journal.close()
        await struck.wait()
        assert end or await desk.deliver(seq) == 0
    assert desk.failures == []
    with Reader(desk.folder) as reader:
        assert reader.show(seq).row.state is (State.RECEIVED if end else State.DELIVERED)


async def test_a_commit_that_finds_the_disk_full_acknowledges_nothing(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room is missed at the commit, when the log is written: the message is refused, the outcome waits for room."""
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
        await desk.claim()
        writer = desk.journal._writer._transactions
        commit, left = writer.commit, [1, 1]

        def full() -> None:
            if left:
                left.pop()
                raise OSError(errno.ENOSPC, "No space left on device")
            commit()

        monkeypatch.setattr(writer, "commit", full)
        with pytest.raises(DiskReserveError):
            await desk.record("2", ("s|1",))
        left.append(1)
        assert await desk.deliver(seq) == 0
        assert left == []
    assert desk.failures == []
    with Reader(desk.folder) as reader:
        assert reader.show(seq).row.state is State.DELIVERED
        with pytest.raises(UnknownEntryError):
            reader.show(2)


async def test_a_disk_short_of_room_refuses_only_messages(opened: Opener) -> None:
    """Below the reserve nothing new is accepted; outcomes are still written."""
    async with opened() as desk:
        seq = await desk.record("1", ("s|1",))
        await desk.claim()
        desk.journal._writer._backend._reserve.free_bytes = 1 << 60
        with pytest.raises(DiskReserveError):
            await desk.record("2", ("s|1",))
        assert await desk.deliver(seq) == 0
        desk.journal._writer._backend._reserve.free_bytes = 1
        assert await desk.record("3", ("s|1",))


async def test_what_waits_together_is_committed_together(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred records of one turn of the loop take two transactions: at most 64 messages each."""
    writer = desk.journal._writer._transactions
    commits: list[int] = []
    commit = writer.commit
    monkeypatch.setattr(writer, "commit", lambda: (commits.append(1), commit())[1])
    await desk.together([desk.journal.record(desk.entry(str(number), (f"s|{number}",))) for number in range(100)])
    assert len(commits) == 2
