"""Scopes: their grammar, coverage, and the actions that they allow."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from engine.config.account import Client
from engine.fhir.versions.names import R4_NAMES
from engine.interchange.tokens.fault import OAuthError

WILDCARDS: Final = frozenset({"user/.", "user/.*", "user/*.*", "system/*.*"})
LAUNCH: Final = "launch/patient"
PATIENT360: Final = "patient360"
PLACE_ORDERS: Final = "place_orders"
# Requests a refresh token.
OFFLINE: Final = "offline_access"
# Scopes without access to FHIR.
PERSONAL: Final = (OFFLINE, "openid", "profile", "fhirUser")
FLAGS: Final = frozenset({PATIENT360, LAUNCH, OFFLINE, "openid", "profile", "fhirUser", PLACE_ORDERS})
# SMART 2 has letters for create, read, update, delete, search, in this order; SMART 1 has two groups of them.
SMART: Final = re.compile(r"(?:user|patient|system)/([A-Z][A-Za-z]*|\*)\.(read|write|\*|(?=[cruds])c?r?u?d?s?)")
FLAT: Final = re.compile(r"([a-z]+)\.(read|write)")
ANY: Final = "*"
BOTH: Final = frozenset("cruds")
# Types that wildcards do not include: only a scope that names them.
NAMED_ONLY: Final = frozenset({"auditevent"})
GROUPS: Final = {"read": frozenset("rs"), "write": frozenset("cud"), "*": BOTH}
# A type with different names in the versions may have either name, on both bases.
R4_TYPES: Final = {stu3.lower(): r4.lower() for stu3, r4 in R4_NAMES.items()}


@dataclass(frozen=True, slots=True)
class Right:
    """The right of a scope: an R4 type in lower case or `*`, and letters of `cruds`; for a flag only itself."""

    type: str
    access: frozenset[str]


def right(scope: str) -> Right | None:
    """Return the right of a scope; None if it is not a scope. The prefix does not change the right."""
    if scope in WILDCARDS:
        return Right(ANY, BOTH)
    if scope in FLAGS:
        return Right(scope, frozenset())
    match = SMART.fullmatch(scope) or FLAT.fullmatch(scope)
    if match is None:
        return None
    return Right(R4_TYPES.get(match[1].lower(), match[1].lower()), letters(match[2]))


def letters(access: str) -> frozenset[str]:
    """Return the letters of `cruds` for `read`, `write`, `*` or letters."""
    return GROUPS.get(access) or frozenset(access)


def covers(registered: str, requested: str) -> bool:
    """Say whether a registered scope equals or includes the requested one."""
    given, wanted = right(registered), right(requested)
    if given is None or wanted is None:
        return False
    if registered == requested:
        return True
    return bool(wanted.access) and wanted.access <= given.access and given.type in _including(wanted.type)


def wide(scope: str) -> bool:
    """Say whether a scope is not limited to the token's patient: `user/` and `system/`."""
    return scope.startswith(("user/", "system/"))


def granted(registered: tuple[str, ...], requested: tuple[str, ...], *, confined: bool = False) -> tuple[str, ...]:
    """Return the requested scopes that a registered one covers, in the order of the request.

    `confined` to one patient: a registered `patient/` scope does not cover a wider one.
    """

    def may(scope: str) -> bool:
        return any(covers(own, scope) for own in registered if wide(own) or not (confined and wide(scope)))

    return tuple(filter(may, requested))


def narrowed(registered: tuple[str, ...], requested: tuple[str, ...], *, confined: bool = False) -> tuple[str, ...]:
    """Return the granted scopes: of a partly covered one, the covered part (RFC 6749 section 3.3).

    A part has fewer interactions with the same type. Wildcard scopes (`user/.`, `system/*.*`) have no parts, and a
    scope of all types is not narrowed to some of them.
    """
    scopes: list[str] = []
    for scope in requested:
        whole = granted(registered, (scope,), confined=confined)
        able = (own for own in registered if wide(own) or not (confined and wide(scope)))
        scopes += whole or (part for own in able if (part := _common(own, scope)))
    return tuple(dict.fromkeys(scopes))


def _common(registered: str, requested: str) -> str:
    """Return the part of a requested scope that a registered one covers, in the requested spelling; '' for none."""
    given, wanted = right(registered), right(requested)
    match = SMART.fullmatch(requested) if requested not in WILDCARDS else None
    if given is None or wanted is None or match is None or given.type not in _including(wanted.type):
        return ""
    access = given.access & wanted.access
    words = {group: name for name, group in GROUPS.items()} if match[2] in GROUPS else {}
    spelling = words.get(access) or "".join(letter for letter in "cruds" if letter in access)
    return f"{requested.removesuffix(match[2])}{spelling}" if access else ""


def requested_scope(client: Client, scope: str, *, chooses: bool = False) -> str:
    """Return the granted scopes of the requested ones, or of all registered ones; OAuthError if none is left.

    `chooses`: a person signs in and can choose the patient.
    """
    requested = tuple(dict.fromkeys(scope.split()))
    if not requested:
        if not client.scopes:
            raise OAuthError("invalid_scope", "The client is registered for no scopes.")
        requested = client.scopes
    given = tuple(one for one in narrowed(client.scopes, requested) if chooses or one != LAUNCH)
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
    """Return the types in scopes that include a type."""
    return frozenset({type_name} if type_name in NAMED_ONLY else {ANY, type_name})


@lru_cache(maxsize=4096)
def allows(scopes: tuple[str, ...], type_name: str, access: str) -> bool:
    """Say whether the scopes allow to read or write a type, or all interactions that letters of `cruds` name."""
    rights = [one for one in map(right, scopes) if one is not None]
    including = _including(type_name.lower())
    held = [one.access for one in rights if one.type in including]
    return letters(access) <= frozenset().union(*held)
