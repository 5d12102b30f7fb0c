"""Preconditions of a write: ids that agree, If-Match, If-None-Match and If-None-Exist."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from engine.fhir.primitives import ID
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.exchange import Request
from engine.interchange.outcome import Category, RefusedError, refuse
from engine.interchange.search.criterion import Parameter, Search
from engine.interchange.search.page import FORM
from engine.interchange.search.parse import parse_search
from engine.interchange.store.query import find
from engine.interchange.store.transaction import Stored, Transaction

IF_MATCH: Final = re.compile(r'(?:W/)?"([^"]*)"')


def check_id(resource_id: str) -> None:
    """Refuse an id in the address that no resource may have."""
    if ID.fullmatch(resource_id) is None:
        text = "The id in the address is not one that a resource may have."
        raise refuse(Category.BAD_VALUE, text, location="http.id")


def check_same_id(request: Request) -> None:
    """Refuse a body whose id is not the one in the address."""
    if request.body.get("id") != request.id:
        location = f"{name_in(request.version, request.type)}.id"
        raise refuse(Category.BAD_VALUE, "The body's id must be the id in the address.", location=location)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a write expects of the kept version: to be that of If-Match, and none of If-None-Match; None for any."""

    match: str | None
    none_match: str | None

    def check(self, stored: Stored | None, version: FhirVersion) -> None:
        """Refuse the write where the kept version is another than expected.

        For If-Match with 412, in STU3 409. For If-None-Match with 412, also where it is `*` and there is one: clients
        send that to create and never replace (RFC 9110, 13.1.2).
        """
        if self.match is not None and (stored is None or str(stored.version) != self.match):
            category = Category.PRECONDITION if version is FhirVersion.R4 else Category.CONFLICT
            now = f"version {stored.version}" if stored else "absent"
            raise refuse(category, f"The resource is {now}, not version {self.match[:20]}.", location="http.If-Match")
        if self.none_match is None or stored is None:
            return
        if self.none_match.strip() == "*" or str(stored.version) in IF_MATCH.findall(self.none_match):
            text = f"The resource exists, as version {stored.version}."
            raise refuse(Category.PRECONDITION, text, location="http.If-None-Match")


def parse_expected(request: Request) -> Expected:
    """Return what a write expects; RefusedError for a malformed If-Match."""
    header, none_match = request.headers.get("if-match"), request.headers.get("if-none-match")
    if header is None:
        return Expected(None, none_match)
    match = IF_MATCH.fullmatch(header.strip())
    if match is None:
        raise refuse(Category.BAD_VALUE, 'If-Match must be of the form W/"3".', location="http.If-Match")
    return Expected(match[1], none_match)


def parse_condition(request: Request, parameters: Mapping[str, Parameter], base_url: str) -> Search | None:
    """Return the search that a create depends on, None where there is none; only `parameters` are allowed.

    It stands in If-None-Exist; some clients put it in the address instead, where ignoring it would make duplicates.
    RefusedError: it stands in both, cannot be read, or names no criterion or another one.
    """
    header, pairs = request.headers.get("if-none-exist"), tuple(_criteria(request))
    if header is None and not pairs:
        return None
    if header is not None and pairs:
        text = "Name the criteria in If-None-Exist only."
        raise refuse(Category.BAD_VALUE, text, location="http.query")
    if header is not None:
        pairs = _pairs(header)
    if not pairs:
        raise refuse(Category.BAD_VALUE, "If-None-Exist names no criterion.", location="http.If-None-Exist")
    if any(name.partition(":")[0] not in parameters for name, _ in pairs):
        text = f"A conditional create supports only {', '.join(parameters)}."
        raise refuse(Category.BAD_VALUE, text, location="http.If-None-Exist")
    try:
        return parse_search(request.type, parameters, pairs, base_url, request.version)
    except RefusedError as refusal:
        raise RefusedError(Category.BAD_VALUE, refusal.issues) from refusal


def _pairs(header: str) -> tuple[tuple[str, str], ...]:
    """Return the criteria in If-None-Exist; RefusedError where they cannot be read: a lost one makes duplicates.

    A header may hold UTF-8 as it is, or ISO-8859-1, as which all of them were read (RFC 9110, 5.5).
    """
    with suppress(UnicodeError):
        header = header.encode("latin-1").decode()
    try:
        return tuple(parse_qsl(header.strip().removeprefix("?"), keep_blank_values=True, errors="strict"))
    except ValueError as error:
        raise refuse(Category.BAD_VALUE, "If-None-Exist cannot be read.", location="http.If-None-Exist") from error


def _criteria(request: Request) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in request.query if name not in FORM)


def match_condition(transaction: Transaction, condition: Search | None) -> Stored | None:
    """Return the one resource that If-None-Exist matches, None for none; RefusedError (412) for several."""
    if condition is None:
        return None
    found = find(transaction, condition, count=2)
    # Of two large ones only the first is read.
    if found.total > 1:
        text = "If-None-Exist matches several resources."
        raise refuse(Category.SEVERAL_MATCHES, text, location="http.If-None-Exist")
    return found.records[0] if found.records else None
