"""What the doctor says of a listener's certificates."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from engine.config.listener_settings import Tls
from engine.ops.cli.examine.check import Check, CheckStatus
from engine.ops.cli.examine.machine import certificates


def shown(folder: Path, days: float, *, mode: int = 0o600) -> dict[str, Check]:
    """Return what is said of a certificate that ends in so many days."""
    authority = trustme.CA()
    now = datetime.now(UTC)
    leaf = authority.issue_cert("localhost", not_before=now - timedelta(days=400), not_after=now + timedelta(days=days))
    leaf.cert_chain_pems[0].write_to_path(folder / "certificate.pem")
    leaf.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "key.pem").chmod(mode)
    tls = Tls(certificate=str(folder / "certificate.pem"), key=str(folder / "key.pem"))
    return {certificate.what: certificate for certificate in certificates("adt", tls)}


@pytest.mark.parametrize(("days", "standing"), [(90, CheckStatus.GOOD), (29, CheckStatus.LOOK), (-1, CheckStatus.FIX)])
def test_the_end_of_a_certificate_is_told_in_time(days: float, standing: CheckStatus, tmp_path: Path) -> None:
    """Thirty days before its end a person should look, after it the channel is broken."""
    assert shown(tmp_path, days)["certificate of adt"].standing is standing


def test_a_key_that_others_may_read_is_to_be_fixed(tmp_path: Path) -> None:
    """Mode 0640 is too open for a key."""
    found = shown(tmp_path, 90, mode=0o640)["key of adt"]
    assert (found.standing, found.do) == (CheckStatus.FIX, f"chmod 600 {tmp_path / 'key.pem'}")


def test_files_that_do_not_fit_are_told_as_the_listener_would(tmp_path: Path) -> None:
    """A key of another certificate keeps the channel from listening."""
    shown(tmp_path, 90)
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(tmp_path / "key.pem")
    tls = Tls(certificate=str(tmp_path / "certificate.pem"), key=str(tmp_path / "key.pem"))
    (found,) = certificates("adt", tls)
    assert found.standing is CheckStatus.FIX
    assert "does not fit" in found.found
