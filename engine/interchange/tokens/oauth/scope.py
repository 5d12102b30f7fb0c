"""Scopes: their grammar, what one covers of another, and which actions they allow."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from engine.config.account import Client
from engine.fhir.versions.names import R4_NAMES
from engine.interchange.tokens.oauth.fault import OAuthError

WILDCARDS: Final = frozenset({"user/.", "user/.*", "user/*.*", "system/*.*"})
LAUNCH: Final = "launch/patient"
PATIENT360: Final = "patient360"
PLACE_ORDERS: Final = "place_orders"
# What asks for a refresh token.
OFFLINE: Final = "offline_access"
# What opens nothing of FHIR.
PERSONAL: Final = (OFFLINE, "openid", "profile", "fhirUser")
FLAGS: Final = frozenset({PATIENT360, LAUNCH, OFFLINE, "openid", "profile", "fhirUser", PLACE_ORDERS})
# SMART 2 names single interactions (create, read, update, delete, search), in this order; SMART 1 two groups of them.
SMART: Final = re.compile(r"(?:user|patient|system)/([A-Z][A-Za-z]*|\*)\.(read|write|\*|(?=[cruds])c?r?u?d?s?)")
FLAT: Final = re.compile(r"([a-z]+)\.(read|write)")
ANY: Final = "*"
BOTH: Final = frozenset("cruds")
# What no wildcard includes: only a scope that names it.
NAMED_ONLY: Final = frozenset({"auditevent"})
GROUPS: Final = {"read": frozenset("rs"), "write": frozenset("cud"), "*": BOTH}
# A type that the versions call differently may be named either way, on both bases.
R4_TYPES: Final = {stu3.lower(): r4.lower() for stu3, r4 in R4_NAMES.items()}


@dataclass(frozen=True, slots=True)
class Right:
    """What a scope grants: a type of R4 in lower case or `*`, and letters of `cruds`; a flag only itself."""

    type: str
    access: frozenset[str]


def right(scope: str) -> Right | None:
    """Return what a scope grants; None for what is no scope. The prefix does not change what is allowed."""
    if scope in WILDCARDS:
        return Right(ANY, BOTH)
    if scope in FLAGS:
        return Right(scope, frozenset())
    match = SMART.fullmatch(scope) or FLAT.fullmatch(scope)
    if match is None:
        return None
    return Right(R4_TYPES.get(match[1].lower(), match[1].lower()), letters(match[2]))


def letters(access: str) -> frozenset[str]:
    """Return the interactions that `read`, `write`, `*` or letters of `cruds` name."""
    return GROUPS.get(access) or frozenset(access)


def covers(registered: str, requested: str) -> bool:
    """Say whether a registered scope is the requested one or includes it."""
    given, asked = right(registered), right(requested)
    if given is None or asked is None:
        return False
    if registered == requested:
        return True
    return bool(asked.access) and asked.access <= given.access and given.type in _including(asked.type)


def wide(scope: str) -> bool:
    """Say whether a scope reaches beyond one patient where a token is for one: `user/` and `system/` do."""
    return scope.startswith(("user/", "system/"))


def granted(registered: tuple[str, ...], requested: tuple[str, ...], *, confined: bool = False) -> tuple[str, ...]:
    """Return the requested scopes that a registered one covers, in the order of the request.

    `confined` to one patient: what is registered for that patient's record covers nothing wider.
    """

    def may(scope: str) -> bool:
        return any(covers(own, scope) for own in registered if wide(own) or not (confined and wide(scope)))

    return tuple(filter(may, requested))


def narrowed(registered: tuple[str, ...], requested: tuple[str, ...], *, confined: bool = False) -> tuple[str, ...]:
    """Return what is granted of the requested scopes: of one that is covered in part, that part (RFC 6749, 3.3).

    A part is fewer interactions with what it names. What stands for everything (`user/.`, `system/*.*`) has no parts,
    and a scope of all types is not cut down to some of them.
    """
    found: list[str] = []
    for scope in requested:
        whole = granted(registered, (scope,), confined=confined)
        able = (own for own in registered if wide(own) or not (confined and wide(scope)))
        found += whole or (part for own in able if (part := _common(own, scope)))
    return tuple(dict.fromkeys(found))


def _common(registered: str, requested: str) -> str:
    """Return the part of a requested scope that a registered one covers, in its own spelling; '' for none."""
    given, asked = right(registered), right(requested)
    match = SMART.fullmatch(requested) if requested not in WILDCARDS else None
    if given is None or asked is None or match is None or given.type not in _including(asked.type):
        return ""
    access = given.access & asked.access
    words = {group: name for name, group in GROUPS.items()} if match[2] in GROUPS else {}
    spelling = words.get(access) or "".join(letter for letter in "cruds" if letter in access)
    return f"{requested.removesuffix(match[2])}{spelling}" if access else ""


def requested_scope(client: Client, scope: str, *, chooses: bool = False) -> str:
    """Return the scopes a client is given of those it asks for, or is registered for; OAuthError where none is left.

    `chooses`: a person signs in, and can choose the patient whom the tokens are for.
    """
    asked = tuple(dict.fromkeys(scope.split()))
    if not asked:
        if not client.scopes:
            raise OAuthError("invalid_scope", "The client is registered for no scopes.")
        asked = client.scopes
    given = tuple(one for one in narrowed(client.scopes, asked) if chooses or one != LAUNCH)
    required = client.patient_context == "required"
    if LAUNCH in given or required:
        given = narrowed(client.scopes, given, confined=True)
    if required and LAUNCH not in given:
        given = tuple(one for one in given if wide(one) or not _opens(one))
    if not given:
        raise OAuthError("invalid_scope", "The client is registered for none of the scopes it asks for.")
    return " ".join(given)


def _opens(scope: str) -> bool:
    found = right(scope)
    return found is not None and (bool(found.access) or scope == PATIENT360)


def _including(type_name: str) -> frozenset[str]:
    """Return the types of scopes that include a type."""
    return frozenset({type_name} if type_name in NAMED_ONLY else {ANY, type_name})


@lru_cache(maxsize=4096)
def allows(scopes: tuple[str, ...], type_name: str, access: str) -> bool:
    """Say whether the scopes let a type be read or written, or all that letters of `cruds` name be done with it."""
    rights = [one for one in map(right, scopes) if one is not None]
    including = _including(type_name.lower())
    held = [one.access for one in rights if one.type in including]
    return letters(access) <= frozenset().union(*held)
