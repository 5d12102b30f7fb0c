"""A destination with the ways of HAPI, scripted: what its caches hide is never taken for absent."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.flow.hapi_like import HapiLike

SYSTEM = "https://mrn.riverbend.example"
KIM = {"resourceType": "Patient", "identifier": [{"system": SYSTEM, "value": "1"}]}


@pytest.fixture
async def hapi() -> AsyncIterator[HapiLike]:
    """The scripted server alone."""
    server = HapiLike()
    await server.start()
    yield server
    await server.stop()


async def test_the_scripted_server_answers_a_search_from_its_cache(hapi: HapiLike) -> None:
    """A search made before a create is answered the same for a minute, unless the request asks for one of its own."""
    found = f"{hapi.base}/Patient?identifier={SYSTEM}|1"

    async def total(session: aiohttp.ClientSession, **headers: str) -> int:
        async with session.get(found, headers=headers) as answer:
            return len((await answer.json(content_type=None))["entry"])

    async with aiohttp.ClientSession() as session:
        counts = [await total(session)]
        async with session.post(f"{hapi.base}/Patient", json=KIM) as answer:
            assert (answer.status, (await answer.json(content_type=None))["id"]) == (201, "1000")
        counts += [await total(session), await total(session, **{"Cache-Control": "no-cache"})]
        assert counts == [0, 0, 1]
        hapi.lose("Patient/1000")
        assert await total(session) == 0
        hapi.honours_no_cache = False
        hapi.add("1001", identifier=KIM["identifier"])
        assert await total(session, **{"Cache-Control": "no-cache"}) == 0
        hapi.time += 60.0
        assert await total(session) == 1
