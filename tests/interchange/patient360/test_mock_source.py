"""A sandbox's invented sources: the same documents whenever they are asked for, of the patient, in part the same."""

import asyncio
import socket
from collections import Counter
from typing import Any

import orjson
import pytest

from engine.fhir.schema import FhirVersion, defects
from engine.interchange.network.patient360.connectors.connector import CCDA, FHIR, RetrievedDocument, subject_of
from engine.interchange.network.patient360.connectors.mock import Mock
from engine.interchange.network.patient360.match import matches
from engine.interchange.network.patient360.reading_bundle import read_document
from tests.interchange.patient360.sources import retrieved, subject

WHO = subject("RB-1")


def said(document: RetrievedDocument) -> Counter[tuple[str, str]]:
    """Return what a document says, by type and by what it is about."""
    facts = read_document(document).resources
    return Counter((fact["resourceType"], str(fact.get("code", fact.get("vaccineCode")))[:200]) for fact in facts)


def test_the_same_documents_each_time() -> None:
    """C-357: they follow from the patient's id; another patient has others."""
    assert retrieved(Mock(), WHO) == retrieved(Mock(), WHO)
    other = subject_of("riverbend", {**WHO.patient, "id": "p2"})
    assert {one.id for one in retrieved(Mock(), other)}.isdisjoint(one.id for one in retrieved(Mock(), WHO))


def test_three_organizations_that_tell_in_part_the_same() -> None:
    """C-357: of both FHIR versions, valid, each fact by one or two of them, and one document twice."""
    documents = retrieved(Mock(), WHO)
    assert len({document.organization for document in documents}) == Mock.organizations == 3
    assert {document.version for document in documents} == set(FhirVersion)
    assert documents[-1] == documents[0]
    assert {document.media_type for document in documents} == {FHIR, CCDA}
    first, second, third = (said(document) for document in documents[:3])
    assert all(len(one) > 10 for one in (first, second, third))
    assert first & second
    assert second & third
    for document in documents:
        if document.media_type == FHIR:
            held = [entry["resource"] for entry in orjson.loads(document.body)["entry"]]
            assert len(held) > 10
            assert [found for resource in held for found in defects(resource, document.version)] == []


def test_they_are_the_patients() -> None:
    """Whom the documents name is the patient by the rule of documents, with no id or number of this service."""
    for one in retrieved(Mock(), WHO):
        identity = read_document(one).identity
        assert matches(identity, WHO.patient)
        assert {value for _, value in identity.identifiers}.isdisjoint({"p1", "RB-1"})


def test_no_connection_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """C-357: not even a socket is opened."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was opened")

    async def ask() -> int:
        monkeypatch.setattr(socket, "socket", refuse)
        return len([one async for one in Mock().retrieve(WHO)])

    assert asyncio.run(ask()) == 4
