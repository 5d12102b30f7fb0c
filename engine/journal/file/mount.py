"""The file system under a folder: a journal lives on a disk of this machine, never on a file server's.

Locks and syncs of a file server are not those of a disk: two engines could write one journal, and what was synced
could be lost.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

MOUNTS: Final = Path("/proc/self/mountinfo")
REMOTE: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.glusterfs"}
)


class Mount(NamedTuple):
    """A mounted file system: the number of its device (`major:minor`) and its type; both empty where unknown."""

    device: str
    kind: str

    @property
    def remote(self) -> bool:
        """Whether it belongs to a file server."""
        return self.kind in REMOTE


def mount_of(folder: Path, lines: Iterable[str] | None = None) -> Mount:
    """Return the mount of a folder, from the lines of mountinfo (this machine's where none are given)."""
    if lines is None:
        lines = MOUNTS.read_text(encoding="utf-8").splitlines() if MOUNTS.exists() else ()
    found, longest = Mount("", ""), -1
    for line in lines:
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        point = Path(fields[4].replace("\\040", " "))
        if folder.is_relative_to(point) and len(point.parts) >= longest:
            longest, found = len(point.parts), Mount(fields[2], after.split(" ", 1)[0])
    return found
