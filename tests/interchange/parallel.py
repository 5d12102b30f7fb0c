"""Requests that leave at once: a thread and a connection for each, none of them waits for another's answer."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import orjson

from tests.interchange.kit import Running

Call = tuple[str, str, Any, dict[str, str]]


def at_once(service: Running, calls: Sequence[Call]) -> list[httpx.Response]:
    """Send (method, path, body, headers) as a physician, all together, and return the answers in their order."""
    start = threading.Barrier(len(calls))
    authorization = f"Bearer {service.token('physician')}"

    def send(call: Call) -> httpx.Response:
        method, path, body, headers = call
        told = {"authorization": authorization, "content-type": "application/fhir+json", **headers}
        content = orjson.dumps(body)
        start.wait(60)
        return service.http.request(method, service.url + path, content=content, headers=told)

    return together([lambda call=call: send(call) for call in calls])


def together(work: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run each piece of work in its own thread and return their results in order."""
    with ThreadPoolExecutor(len(work)) as pool:
        return [one.result() for one in [pool.submit(piece) for piece in work]]


def statuses(answers: Sequence[httpx.Response]) -> list[int]:
    """Return the statuses of answers, sorted."""
    return sorted(answer.status_code for answer in answers)
