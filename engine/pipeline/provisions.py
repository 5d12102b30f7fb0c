"""What a channel file needs of the machine that it is checked on: secrets, certificates, private keys."""

from collections.abc import Iterator
from typing import Any

from engine.config.channel import Channel
from engine.config.source import Looked
from engine.config.wording import Placed
from engine.deliver.wire.oauth import signing_key
from engine.errors import DestinationError, Problem


def lacking(looked: Looked[Any]) -> Iterator[Problem]:
    """Yield what this machine does not have, or has and cannot use, of what a file names."""
    yield from looked.ask("unavailable")
    if isinstance(looked.value, Channel):
        yield from looked.told(_unusable_keys(looked.value))


def _unusable_keys(channel: Channel) -> Iterator[Placed]:
    """Yield the private keys that sign nothing; of one that cannot be read the file's own problem tells."""
    for number, destination in enumerate(channel.destinations):
        auth = destination.auth
        if auth.type != "private_key_jwt" or auth.private_key is None or any(auth.private_key.unavailable()):
            continue
        try:
            signing_key(auth.private_key.read())
        except DestinationError:
            path = ("destinations", number, "auth", "private_key")
            yield (
                path,
                "no private key that can be read",
                "one as PEM or JWK: RSA, or EC on P-256, P-384 or P-521",
            )
