"""Preconditions of a write: ids that agree, If-Match, If-None-Match and If-None-Exist."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import parse_qsl

from engine.fhir.primitives import ID
from engine.fhir.schema import FhirVersion
from engine.fhir.versions.names import name_in
from engine.interchange.core.exchange import FhirRequest
from engine.interchange.kernel.outcome import Category, RefusedError, refuse
from engine.interchange.store.query import find
from engine.interchange.store.search.criterion import Parameter, SearchQuery
from engine.interchange.store.search.page import FORM, Pairs
from engine.interchange.store.search.parse import parse_search
from engine.interchange.store.transaction import StoredVersion, Transaction

TAG: Final = re.compile(r'(?:W/)?"([^"]*)"')
TAGS: Final = re.compile(rf"{TAG.pattern}(?:\s*,\s*{TAG.pattern})*")
ANY: Final = "*"


def check_id(resource_id: str) -> None:
    """Refuse an id in the address that no resource may have."""
    if ID.fullmatch(resource_id) is None:
        text = "The id in the address is not a valid resource id."
        raise refuse(Category.BAD_VALUE, text, location="http.id")


def check_same_id(request: FhirRequest) -> None:
    """Refuse a body whose id is not the one in the address."""
    if request.body.get("id") != request.id:
        location = f"{name_in(request.version, request.type)}.id"
        raise refuse(Category.BAD_VALUE, "The body's id must be the id in the address.", location=location)


@dataclass(frozen=True, slots=True)
class Precondition:
    """What a write expects of the kept version: to be one of If-Match, and none of If-None-Match; None for any.

    `*` means any existing version.
    """

    match: frozenset[str] | None
    none_match: frozenset[str] | None

    def check(self, stored: StoredVersion | None, version: FhirVersion) -> None:
        """Refuse the write where the kept version is another than expected.

        For If-Match with 412, in STU3 409. For If-None-Match with 412, also where it is `*` and there is one: clients
        send that to create and never replace (RFC 9110, 13.1.2).
        """
        if stored is not None and stored.deleted:
            stored = None
        if self.match is not None and not _among(self.match, stored):
            category = Category.PRECONDITION if version is FhirVersion.R4 else Category.CONFLICT
            now = f"version {stored.version}" if stored else "absent"
            wanted = " or ".join(sorted(tag[:20] for tag in self.match))
            raise refuse(category, f"The resource is {now}, not version {wanted[:100]}.", location="http.If-Match")
        if stored is not None and self.none_match is not None and _among(self.none_match, stored):
            text = f"The resource exists, as version {stored.version}."
            raise refuse(Category.PRECONDITION, text, location="http.If-None-Match")


def parse_expected(request: FhirRequest) -> Precondition:
    """Return what a write expects; RefusedError for a header that cannot be read: passing it over might overwrite."""
    found: list[frozenset[str] | None] = []
    for name in ("If-Match", "If-None-Match"):
        header = request.headers.get(name.lower())
        tags = None if header is None else read_tags(header)
        if header is not None and tags is None:
            text = f'{name} must be of the form W/"3", "3", a list of these, or *.'
            raise refuse(Category.BAD_VALUE, text, location=f"http.{name}")
        found.append(tags)
    return Precondition(*found)


def read_tags(header: str) -> frozenset[str] | None:
    """Return the versions that a list of entity tags names, weak or strong; None for anything else."""
    text = header.strip()
    if text == ANY:
        return frozenset({ANY})
    return frozenset(TAG.findall(text)) if TAGS.fullmatch(text) else None


def is_known(request: FhirRequest, stored: StoredVersion) -> bool:
    """Say whether a client has the kept version already; False for a header that cannot be read.

    It says so by If-None-Match, and only where it sends none by If-Modified-Since, which knows no parts of a second.
    """
    header = request.headers.get("if-none-match")
    if header is not None:
        return _among(read_tags(header) or frozenset(), stored)
    since = request.headers.get("if-modified-since")
    return since is not None and _unchanged(since, stored)


def _unchanged(since: str, stored: StoredVersion) -> bool:
    try:
        return stored.updated_at.replace(microsecond=0) <= parsedate_to_datetime(since).replace(tzinfo=UTC)
    except ValueError:
        return False


def _among(tags: frozenset[str], stored: StoredVersion | None) -> bool:
    return stored is not None and not tags.isdisjoint({ANY, str(stored.version)})


def parse_condition(request: FhirRequest, parameters: Mapping[str, Parameter], base_url: str) -> SearchQuery | None:
    """Return the search that a create depends on, None where there is none; only `parameters` are allowed.

    It is in If-None-Exist; some clients put it in the address instead, where ignoring it would make duplicates.
    RefusedError: it is in both, cannot be read, or names no criterion or another one.
    """
    pairs = condition_pairs(request)
    return condition_search(request.type, request.version, pairs, parameters, base_url) if pairs else None


def condition_pairs(request: FhirRequest) -> Pairs:
    """Return the criteria that a create depends on as they were sent, empty where there are none; RefusedError."""
    header, pairs = request.headers.get("if-none-exist"), tuple(_criteria(request))
    if header is None and not pairs:
        return ()
    if header is not None and pairs:
        text = "Name the criteria in If-None-Exist only."
        raise refuse(Category.BAD_VALUE, text, location="http.query")
    if header is not None:
        pairs = _pairs(header, request)
    if not pairs:
        raise refuse(Category.BAD_VALUE, "If-None-Exist names no search parameter.", location="http.If-None-Exist")
    return pairs


def condition_search(
    type_name: str, version: FhirVersion, pairs: Pairs, parameters: Mapping[str, Parameter], base_url: str
) -> SearchQuery:
    """Return the search of the criteria that a create depends on; RefusedError (400)."""
    return _search(type_name, version, pairs, parameters, base_url, "http.If-None-Exist")


def parse_criteria(
    request: FhirRequest, parameters: Mapping[str, Parameter], base_url: str, but: str = ""
) -> SearchQuery:
    """Return the search in the address of a conditional update or delete; only `parameters` are allowed.

    `but` is a parameter that is no criterion. RefusedError: there is no criterion, or another one.
    """
    pairs = tuple((name, value) for name, value in _criteria(request) if name != but)
    if not pairs:
        text = "Name the resource by its id, or by search parameters in the address."
        raise refuse(Category.REQUIRED, text, location="http.query")
    return _search(request.type, request.version, pairs, parameters, base_url, "http.query")


def _search(
    type_name: str,
    version: FhirVersion,
    pairs: Pairs,
    parameters: Mapping[str, Parameter],
    base_url: str,
    location: str,
) -> SearchQuery:
    if any(name.partition(":")[0] not in parameters for name, _ in pairs):
        text = f"A condition of a write supports only {', '.join(parameters)}."
        raise refuse(Category.BAD_VALUE, text, location=location)
    try:
        return parse_search(type_name, parameters, pairs, base_url, version)
    except RefusedError as refusal:
        raise RefusedError(Category.BAD_VALUE, refusal.issues) from refusal


def _pairs(header: str, request: FhirRequest) -> tuple[tuple[str, str], ...]:
    """Return the criteria in If-None-Exist; RefusedError where they cannot be read: a lost one makes duplicates.

    They are alone, or, as HAPI's client sends them, behind the type or its address. A header may hold UTF-8 as it is,
    or ISO-8859-1, as which all of them were read (RFC 9110, 5.5).
    """
    with suppress(UnicodeError):
        header = header.encode("latin-1").decode()
    address, mark, query = header.strip().partition("?")
    if not mark or "=" in address:
        query = header.strip()
    elif address:
        name = name_in(request.version, request.type)
        if address not in {name, f"/{name}", f"{request.base}/{name}"}:
            text = f"If-None-Exist must be a search of {name}."
            raise refuse(Category.BAD_VALUE, text, location="http.If-None-Exist")
    try:
        return tuple(parse_qsl(query, keep_blank_values=True, errors="strict"))
    except ValueError as error:
        raise refuse(Category.BAD_VALUE, "If-None-Exist cannot be read.", location="http.If-None-Exist") from error


def _criteria(request: FhirRequest) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in request.query if name not in FORM)


def match_condition(
    transaction: Transaction, condition: SearchQuery | None, location: str = "http.If-None-Exist"
) -> StoredVersion | None:
    """Return the one resource that a condition matches, None for none; RefusedError (412) for several."""
    if condition is None:
        return None
    found = find(transaction, condition, count=2)
    # Of two large ones only the first is read.
    if found.total > 1:
        raise refuse(Category.SEVERAL_MATCHES, "The condition matches several resources.", location=location)
    return found.records[0] if found.records else None
