"""A journal stands on a disk of its own machine."""

from pathlib import Path

import pytest

from engine.errors import JournalUnusableError
from engine.journal.file.database import Mount, mount_of, open_writer

MOUNTS = [
    "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw",
    "40 21 0:35 / /srv/files rw,relatime - nfs4 server:/files rw",
    "41 21 0:36 / /srv/a\\040b rw - xfs /dev/vdb rw",
]


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        pytest.param("/var/lib/adt-engine", "ext4", id="the root"),
        pytest.param("/srv/files/adt", "nfs4", id="a file server"),
        pytest.param("/srv/filesystem", "ext4", id="a name that only begins alike"),
        pytest.param("/srv/a b/c", "xfs", id="a space in the name"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(place: str, kind: str) -> None:
    """Of all mounts above a folder the longest counts."""
    assert mount_of(Path(place), MOUNTS).kind == kind


def test_a_folder_on_a_file_server_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file system and the next step, and no file is made."""
    monkeypatch.setattr("engine.journal.file.database.mount_of", lambda _folder: Mount("0:35", "nfs4"))
    with pytest.raises(JournalUnusableError, match=r"\(nfs4\), .* local ext4 or xfs disk"):
        open_writer(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_this_machine_has_mounts() -> None:
    """What the kernel tells is understood: the root has a type."""
    assert mount_of(Path("/")).kind
