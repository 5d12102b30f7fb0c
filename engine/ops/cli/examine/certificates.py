"""Certificates that the engine shows or trusts: readable, fitting, and not about to end."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from engine.config.door import Tls
from engine.errors import StartError
from engine.ops.cli.examine.check import Check, Standing, check
from engine.receive.tls import Certificates

SOON: Final = timedelta(days=30)


def certificates(channel: str, tls: Tls) -> Iterator[Check]:
    """Yield what is wrong or right with a listener's certificate, key and client authority."""
    name = f"certificate of {channel}"
    try:
        Certificates(tls, _unheard)
    except StartError as error:
        yield Check(name, Standing.MEND, str(error), "mend the files; the channel cannot listen with them")
        return
    yield _ends(name, Path(tls.certificate))
    if tls.client_ca:
        yield _ends(f"client authority of {channel}", Path(tls.client_ca))
    mode = Path(tls.key).stat().st_mode
    yield check(f"key of {channel}", tls.key, good=not mode & 0o077, do=f"chmod 600 {tls.key}")


def _unheard(_kind: str) -> None:
    """Stand in for whoever counts; nothing is renewed while the doctor looks."""


def _ends(name: str, path: Path) -> Check:
    end = min(one.not_valid_after_utc for one in x509.load_pem_x509_certificates(path.read_bytes()))
    left = end - datetime.now(UTC)
    found = f"{path}, until {end:%Y-%m-%d}"
    if left < timedelta(0):
        return Check(name, Standing.MEND, found, "it has ended: renew it; running engines take it up by themselves")
    return check(name, found, good=left > SOON, do=f"renew it: {left.days} days left", otherwise=Standing.LOOK)
