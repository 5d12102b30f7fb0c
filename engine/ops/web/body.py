"""The body of a request, bounded, and the fields of a form."""

import asyncio
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from engine.ops.operations.operation import KeyTwiceError, read_strictly
from engine.ops.web.refusal import RefusedRequestError

MOST_BYTES: Final = 1_048_576
MOST_FIELDS: Final = 200
BODY_SECONDS: Final = 30.0
FORM: Final = "application/x-www-form-urlencoded"


async def read_body(request: Request, most: int = MOST_BYTES) -> bytes:
    """Return a request's body; RefusedRequestError 413 where it is too large, 408 where it does not come in time."""
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > most:
        raise RefusedRequestError(413, f"more than {most} bytes were sent")
    parts, size = [], 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > most:
                    raise RefusedRequestError(413, f"more than {most} bytes were sent")
    except TimeoutError:
        raise RefusedRequestError(408, "the request took too long to arrive") from None
    return b"".join(parts)


async def read_form(request: Request) -> dict[str, str]:
    """Return the fields of a form; RefusedRequestError 415 where it is none, 400 where it names one twice."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        raise RefusedRequestError(415, "this address takes forms only")
    try:
        text = (await read_body(request)).decode("ascii")
        pairs = parse_qsl(
            text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=MOST_FIELDS, errors="strict"
        )
    except ValueError:
        raise RefusedRequestError(400, "the form cannot be read") from None
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise RefusedRequestError(400, "a field of the form appears twice")
    return fields


async def read_json(request: Request) -> Mapping[str, object]:
    """Return the JSON object of a body, {} where it is empty; RefusedRequestError 400 or 415 where it is none.

    400 as well where an object within has a key twice."""
    content = await read_body(request)
    if not content:
        return {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise RefusedRequestError(415, "send JSON, with content-type: application/json")
    try:
        value = read_strictly(content)
    except KeyTwiceError:
        raise RefusedRequestError(400, "a key appears twice in an object of the body: give it once") from None
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise RefusedRequestError(400, "the body is not a JSON object")
    return value
