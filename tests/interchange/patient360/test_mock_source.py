"""A sandbox's invented sources: the same documents whenever they are asked for, of the patient, in part the same."""

import asyncio
import socket
from collections import Counter
from itertools import chain
from typing import Any

import orjson
import pytest

from engine.fhir.schema import FhirVersion, defects
from engine.interchange.patient360.connectors.connector import FHIR, Document, subject_of
from engine.interchange.patient360.connectors.finding import identities, patients_of
from engine.interchange.patient360.connectors.mock import Mock
from engine.interchange.patient360.match import matches
from tests.interchange.patient360.sources import retrieved, subject

WHO = subject("RB-1")


def facts(document: Document) -> list[Any]:
    """Return the ids of what a document says."""
    return [one["fullUrl"] for one in orjson.loads(document.body)["entry"]]


def test_the_same_documents_each_time() -> None:
    """C-357: they follow from the patient's id; another patient has others."""
    assert retrieved(Mock(), WHO) == retrieved(Mock(), WHO)
    other = subject_of("riverbend", {**WHO.patient, "id": "p2"})
    assert {one.id for one in retrieved(Mock(), other)}.isdisjoint(one.id for one in retrieved(Mock(), WHO))


def test_three_organizations_that_tell_in_part_the_same() -> None:
    """C-357: of both FHIR versions, valid, each fact by one or two of them, and one document twice."""
    documents = retrieved(Mock(), WHO)
    assert len({one.organization for one in documents}) == Mock.organizations == 3
    assert {one.version for one in documents} == set(FhirVersion)
    assert documents[-1] == documents[0]
    told = Counter(chain.from_iterable(facts(one) for one in documents[:-1]))
    assert set(told.values()) >= {1, 2}
    for one in documents:
        if one.media_type == FHIR:
            held = [entry["resource"] for entry in orjson.loads(one.body)["entry"]]
            assert len(held) > 10
            assert [found for resource in held for found in defects(resource, one.version)] == []


def test_they_are_the_patients() -> None:
    """Whom the documents name is the patient by the rule of documents, with no id or number of this service."""
    for one in retrieved(Mock(), WHO):
        [named] = patients_of(orjson.loads(one.body))
        assert any(matches(identity, WHO.patient) for identity in identities(named))
        assert "identifier" not in named
        assert b"p1" not in one.body


def test_no_connection_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """C-357: not even a socket is opened."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was opened")

    async def ask() -> int:
        monkeypatch.setattr(socket, "socket", refuse)
        return len([one async for one in Mock().retrieve(WHO)])

    assert asyncio.run(ask()) == 4
