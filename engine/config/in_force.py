"""The keys of a destination that are in force: what each is, and whether its file, its profile or nobody set it."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel

from engine.config.destination import Destination
from engine.config.http_client import HeaderValue, looks_like_credential
from engine.config.profile import profile_of
from engine.config.reference import written
from engine.config.relay import Relay
from engine.config.secret import Secret
from engine.config.sign_in import keys_of

Origin = Literal["file", "profile", "default"]
SET: Final = "set"
# Its name, and the mapping, which is a channel's.
_ELSEWHERE: Final = frozenset({"name", "mapping"})


class KeyInForce(NamedTuple):
    """A key with dots and its value as YAML has it; of a secret only that it is set. `default`: what it would be."""

    key: str
    value: str
    origin: Origin
    default: str


def keys_in_force(settings: Destination | Relay) -> tuple[KeyInForce, ...]:
    """Return the keys of a destination in the order of the reference; of `auth` those that its type uses.

    A key that the file writes as it is by default counts as the default.
    """
    if isinstance(settings, Relay):
        return tuple(one for one in _keys(settings, Relay, {}, "") if one.key not in _ELSEWHERE)
    unused = type(settings.auth).model_fields.keys() - keys_of(settings.auth.type)
    skipped = _ELSEWHERE | {f"auth.{name}" for name in unused}
    sets = profile_of(settings.profile).with_defaults({})
    return tuple(one for one in _keys(settings, type(settings), sets, "") if one.key not in skipped)


def keys_of_model(value: BaseModel, prefix: str) -> Iterator[KeyInForce]:
    """Yield the keys of a part of a destination, with what stands before them."""
    return _keys(value, type(value), {}, prefix)


def _keys(
    value: BaseModel | None, model: type[BaseModel], sets: Mapping[str, Any], prefix: str
) -> Iterator[KeyInForce]:
    for name, field in model.model_fields.items():
        own = getattr(value, name) if value is not None else None
        of_profile = sets.get(name)
        key = f"{prefix}{name}"
        if isinstance(own, BaseModel) and not isinstance(own, Secret):
            yield from _keys(own, type(own), of_profile or {}, f"{key}.")
            continue
        default = "" if field.is_required() else _shown(name, field.get_default(call_default_factory=True))
        wanted = default if of_profile is None else _shown(name, of_profile)
        shown = _shown(name, own)
        if shown != wanted:
            origin: Origin = "file"
        else:
            origin = "default" if of_profile is None else "profile"
        yield KeyInForce(key, shown, origin, wanted if origin == "file" else default)


def _shown(name: str, value: Any) -> str:
    if isinstance(value, HeaderValue):
        return SET if value.text is None or looks_like_credential(name) else value.text
    if isinstance(value, Secret):
        return SET
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_shown(key, part)}" for key, part in value.items())
    if isinstance(value, tuple) and any(isinstance(part, BaseModel) for part in value):
        return f"{len(value)} of them"
    if isinstance(value, list | tuple):
        return written(tuple(value))
    return written(value)
