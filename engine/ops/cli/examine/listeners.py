"""Listeners: whether their ports are free, and their certificates readable, fitting, and not about to expire."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from engine.config.channel import Channel
from engine.config.listener_settings import Tls
from engine.errors import StartError
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
    yield _ends(name, Path(tls.certificate))
    if tls.client_ca:
        yield _ends(f"client authority of {channel}", Path(tls.client_ca))
    mode = Path(tls.key).stat().st_mode
    yield check(f"key of {channel}", tls.key, good=not mode & 0o077, do=f"chmod 600 {tls.key}")


def _unheard(_kind: str) -> None:
    """A substitute for the counters; nothing is renewed while the doctor looks."""


def _ends(name: str, path: Path) -> Check:
    end = min(one.not_valid_after_utc for one in x509.load_pem_x509_certificates(path.read_bytes()))
    left = end - datetime.now(UTC)
    found = f"{path}, until {end:%Y-%m-%d}"
    if left < timedelta(0):
        return Check(
            name, CheckStatus.FIX, found, "it has expired: renew it; a running engine picks up the new one by itself"
        )
    return check(name, found, good=left > SOON, do=f"renew it: {left.days} days left", otherwise=CheckStatus.LOOK)
