"""The machine under the engine: SQLite, folder, disk, encryption, clock, limits; ports, certificates of listeners."""

import ctypes
import os
import resource
import shutil
import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from engine.config.channel import Channel
from engine.config.listener_settings import Tls
from engine.database.sqlite import library_fault
from engine.errors import StartError
from engine.journal.file.database import Mount, mount_of
from engine.journal.file.reserve import free_bytes_kept
from engine.ops.cli.examine.check import Check, CheckStatus, check
from engine.receive.tls import Certificates

SOON: Final = timedelta(days=30)


def listeners(channel: Channel, *, running: bool) -> Iterator[Check]:
    """Yield how a channel's certificates are and, where no engine is `running`, whether its port is free."""
    mllp = channel.listen.mllp
    if mllp is None:
        return
    if mllp.tls is not None:
        yield from certificates(channel.channel, mllp.tls)
    if running:
        return
    name, address = f"port of {channel.channel}", f"{mllp.host}:{mllp.port}"
    family = socket.AF_INET6 if ":" in mllp.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((mllp.host, mllp.port))
        except OSError as error:
            yield Check(
                name, CheckStatus.FIX, f"{address} {error.strerror}", "choose another port, or stop what uses it"
            )
        else:
            yield Check(name, CheckStatus.GOOD, f"{address} free")


def certificates(channel: str, tls: Tls) -> Iterator[Check]:
    """Yield what is wrong or right with a listener's certificate, key and client authority."""
    name = f"certificate of {channel}"
    try:
        Certificates(tls, _unheard)
    except StartError as error:
        yield Check(name, CheckStatus.FIX, str(error), "fix the files; the channel cannot listen with them")
        return
    yield ends(name, Path(tls.certificate))
    if tls.client_ca:
        yield ends(f"client authority of {channel}", Path(tls.client_ca))
    mode = Path(tls.key).stat().st_mode
    yield check(f"key of {channel}", tls.key, good=not mode & 0o077, do=f"chmod 600 {tls.key}")


def _unheard(_kind: str) -> None:
    """A substitute for the counters; nothing is renewed while the doctor looks."""


def ends(name: str, path: Path) -> Check:
    """Return until when the certificates of a file are valid, and whether that is soon."""
    end = min(one.not_valid_after_utc for one in x509.load_pem_x509_certificates(path.read_bytes()))
    left = end - datetime.now(UTC)
    found = f"{path}, until {end:%Y-%m-%d}"
    if left < timedelta(0):
        return Check(
            name, CheckStatus.FIX, found, "it has expired: renew it; a running engine picks up the new one by itself"
        )
    return check(name, found, good=left > SOON, do=f"renew it: {left.days} days left", otherwise=CheckStatus.LOOK)


LOW_DISK_BYTES: Final = 1_073_741_824
SPARE_FILES: Final = 256
LOCAL: Final = frozenset({"ext4", "xfs"})
_UNSYNCHRONISED: Final = 0x0040
_TIMEX_BYTES: Final = 256


def machine(data: Path, connections: int) -> Iterator[Check]:
    """Yield what the machine offers to a journal in this folder and to that number of connections."""
    yield _sqlite()
    yield _folder(data)
    place = _nearest(data)
    yield _disk(place)
    mount = mount_of(place)
    yield _file_system(place, mount)
    yield _encryption(mount.device)
    yield _clock()
    yield _limits(connections)


def _nearest(data: Path) -> Path:
    return next(folder for folder in (data.absolute(), *data.absolute().parents) if folder.exists())


def _sqlite() -> Check:
    if fault := library_fault():
        return Check("SQLite", CheckStatus.FIX, fault, "install a newer pysqlite3")
    return Check("SQLite", CheckStatus.GOOD, "new enough for a journal")


def _folder(data: Path) -> Check:
    place = _nearest(data)
    if not os.access(place, os.W_OK | os.X_OK):
        return Check("data folder", CheckStatus.FIX, f"{place} is not writable", "correct its owner, or use --data")
    if data.exists() and data.stat().st_mode & 0o077:
        return Check("data folder", CheckStatus.FIX, f"{data} is open to others", f"chmod 700 {data}")
    return Check("data folder", CheckStatus.GOOD, str(data.absolute()))


def _disk(place: Path) -> Check:
    free = shutil.disk_usage(place).free
    least = max(LOW_DISK_BYTES, 2 * free_bytes_kept(place))
    return check(
        "disk", f"{free / 2**30:.1f} GiB free", good=free >= least, do=f"free at least {least / 2**30:.1f} GiB"
    )


def _file_system(place: Path, mount: Mount) -> Check:
    found = f"{mount.kind or 'unknown'} under {place}"
    if mount.remote:
        return Check("file system", CheckStatus.FIX, found, "put the data folder on a local ext4 or xfs disk")
    return check(
        "file system", found, good=mount.kind in LOCAL, do="ext4 and xfs are tested", otherwise=CheckStatus.LOOK
    )


def _encryption(device: str) -> Check:
    """Check whether the disk is on dm-crypt; other ways to encrypt a disk cannot be seen from here."""
    found = any(_is_crypt(Path("/sys/dev/block") / device, depth=4))
    return check(
        "encryption of the disk",
        "dm-crypt" if found else "not seen",
        good=found,
        do="the journal holds patients' data: use LUKS, or an encrypted volume",
        otherwise=CheckStatus.LOOK,
    )


def _is_crypt(block: Path, depth: int) -> Iterator[bool]:
    uuid = block / "dm" / "uuid"
    if uuid.exists():
        yield uuid.read_text(encoding="ascii", errors="replace").startswith("CRYPT-")
    if depth and (block / "slaves").is_dir():
        for slave in (block / "slaves").iterdir():
            yield from _is_crypt(slave, depth - 1)


def _clock() -> Check:
    """Ask the kernel whether something keeps its clock right (adjtimex; nothing is changed)."""
    timex = ctypes.create_string_buffer(_TIMEX_BYTES)
    state = ctypes.CDLL(None).adjtimex(timex)
    # struct timex: modes, then offset, freq, maxerror, esterror as longs, then status.
    status = ctypes.c_int.from_buffer(timex, ctypes.sizeof(ctypes.c_long) * 5).value
    good = state >= 0 and not status & _UNSYNCHRONISED
    return check(
        "clock",
        "synchronised" if good else "not known to be synchronised",
        good=good,
        do="run chrony or systemd-timesyncd: tokens and times in the journal depend on the clock",
        otherwise=CheckStatus.LOOK,
    )


def _limits(connections: int) -> Check:
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    least = connections + SPARE_FILES
    return check(
        "open files",
        f"{soft} allowed, {least} needed at most",
        good=soft >= least,
        do=f"raise it: ulimit -n {least}, or LimitNOFILE={least} in the unit",
    )
